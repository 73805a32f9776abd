//! Observation, action and reward functions, which are selected by name and have parameters, and decision intervals.
//!
//! A function is requested as JSON: its name, or an object with the name and the parameters that differ from the name's
//! defaults, `{"name": "astraea", "history": 1}`. Several names can stand for one family of formulas with different
//! parameters.

use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cc::Conn;
use crate::time::Nanos;

use super::astraea::Member;
use super::drain::Drain;
use super::occupancy::Occupancy;
use super::pulse::{self, Pulse};
use super::stats::IntervalStats;
use super::{astraea, aurora, features, fixed, orca, ratios, share, steps};

/// One value of an observation; it is clipped to its bounds.
#[derive(Clone, Debug)]
pub struct Feature {
    pub meaning: String,
    pub low: f32,
    pub high: f32,
    pub unit: &'static str,
}

/// A feature without a unit.
pub(super) fn ratio(meaning: impl Into<String>, low: f32, high: f32) -> Feature {
    Feature { meaning: meaning.into(), low, high, unit: "1" }
}

/// Maximum number of features of an observation.
const MAX_FEATURES: usize = features::MOST;

/// Computes features from statistics; holds the parameters and the state for one flow.
pub trait Watch: Send + Sync {
    /// Write the features of an interval, which are clipped afterwards.
    fn fill(&mut self, stats: &IntervalStats, out: &mut [f64]);

    fn clone_box(&self) -> Box<dyn Watch>;
}

impl Clone for Box<dyn Watch> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

/// The definition of a function, for model cards and their hashes.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The requested name, and the name of the family of formulas.
    pub name: String,
    pub family: &'static str,
    /// Version of the family's formulas; policies trained with another version are refused.
    pub formula: u32,
    /// All parameters of the family, including those with defaults.
    pub parameters: Value,
    /// Those that differ from the family's defaults: a new parameter changes no definition that leaves it out.
    pub changes: Value,
}

/// Features of an interval, stacked over the last `history` intervals: oldest first, zeros before the first interval.
#[derive(Clone)]
pub struct Observation {
    pub definition: Definition,
    pub features: Vec<Feature>,
    pub history: usize,
    /// Highest frequency of pulses whose response it looks for; 0: none.
    pub pulse_hz: f64,
    pub watch: Box<dyn Watch>,
}

impl Observation {
    pub fn dim(&self) -> usize {
        self.features.len() * self.history
    }

    /// The feature of each value of the stacked observation.
    pub fn labels(&self) -> impl Iterator<Item = &Feature> {
        (0..self.history).flat_map(|_| &self.features)
    }
}

/// The window (segments) and, if the action sets it, the pacing rate (bytes per second).
pub type Control = (u32, Option<u64>);

/// What an action function remembers of a flow from one action to the next.
#[derive(Clone, Debug, Default)]
pub struct ActionMemory {
    /// The exact window of the last action, segments; 0 at first.
    pub window: f64,
    pub drain: Drain,
    /// The drains and the occupancy of a policy in fixed point.
    pub fixed_drain: fixed::drain::Drain,
    pub fixed_occupancy: fixed::occupancy::Occupancy,
    /// What only some actions use.
    pub parts: Option<Box<Parts>>,
}

/// What actions that pulse or that yield by the occupancy remember.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    pub pulse: Pulse,
    pub occupancy: Occupancy,
}

/// Performs an action on a connection. Arguments: the state of the connection, the statistics of the last interval, the
/// action in [-1, 1], and the memory of the flow.
pub type Perform = dyn Fn(&Conn, &IntervalStats, f64, &mut ActionMemory) -> Control + Send + Sync;

/// An action function for actions in [-1, 1].
#[derive(Clone)]
pub struct Action {
    pub definition: Definition,
    pub meaning: String,
    /// Parameters of the underlying controller.
    pub controller: Map<String, Value>,
    /// Frequency of its pulses of the rate; 0: none.
    pub pulse_hz: f64,
    pub perform: Arc<Perform>,
}

impl Action {
    /// The number of factors from which it selects; none if its actions are steps.
    pub fn choices(&self) -> Option<usize> {
        let factors = self.definition.parameters.get("factors")?.as_array()?.len();
        (factors > 0).then_some(factors)
    }
}

/// The common reward of all flows of a world, from their statistics and the utilisation of their links.
pub type PayAll = dyn Fn(&[Member], f64) -> f64 + Send + Sync;

/// The reward of a single flow.
pub type PayOne = dyn Fn(&IntervalStats) -> f64 + Send + Sync;

/// The formula of a reward.
#[derive(Clone)]
pub enum Payment {
    /// One reward for all flows of a world, from all its flows and its utilisation.
    Shared(Arc<PayAll>),
    /// A reward per flow.
    Own(Arc<PayOne>),
}

#[derive(Clone)]
pub struct Reward {
    pub definition: Definition,
    pub low: f64,
    pub high: f64,
    /// Number of intervals for which the throughput of each flow is stored.
    pub memory: usize,
    pub payment: Payment,
}

/// A name of a function: the family for which it stands, and the parameters that it sets.
pub struct Entry<T> {
    pub name: &'static str,
    pub family: &'static str,
    formula: u32,
    parameters: &'static str,
    build: fn(Value) -> Result<(T, Value), String>,
}

const fn entry<T>(
    name: &'static str,
    family: &'static str,
    formula: u32,
    parameters: &'static str,
    build: fn(Value) -> Result<(T, Value), String>,
) -> Entry<T> {
    Entry { name, family, formula, parameters, build }
}

pub const OBSERVATIONS: &[Entry<Observation>] = &[
    entry("astraea", "astraea", 2, "{}", astraea::observation),
    entry("astraea-leo", "astraea", 2, r#"{"min_rtt_window_s": 10.0}"#, astraea::observation),
    entry(
        "astraea-leo-noisy",
        "astraea",
        2,
        r#"{"min_rtt_window_s": 10.0, "handovers": "reported"}"#,
        astraea::observation,
    ),
    entry(
        "astraea-leo-oracle",
        "astraea",
        2,
        r#"{"min_rtt_window_s": 10.0, "handovers": "true"}"#,
        astraea::observation,
    ),
    entry("orca", "orca", 2, "{}", orca::observation),
    entry("aurora", "aurora", 1, "{}", aurora::observation),
    entry("ratios", "ratios", 2, "{}", ratios::observation),
    entry("ratios-noisy", "ratios", 2, r#"{"handovers": "reported"}"#, ratios::observation),
    entry("features", "features", 1, "{}", features::observation),
    entry("ratios-oracle", "ratios", 2, r#"{"handovers": "true"}"#, ratios::observation),
];

pub const ACTIONS: &[Entry<Action>] = &[
    entry("astraea", "steps", 1, r#"{"recovery": "kernel"}"#, steps::action),
    entry(
        "aurora",
        "steps",
        1,
        r#"{"moves": "rate", "rounding": "fraction", "floor_mbps": 0.48, "floor_packets": 10}"#,
        steps::action,
    ),
    entry("log-window", "steps", 1, steps::LOG_WINDOW, steps::action),
    entry("log-rate", "steps", 1, steps::LOG_RATE, steps::action),
    entry("window-factors", "steps", 1, steps::WINDOW_FACTORS, steps::action),
    entry("orca", "orca", 2, "{}", orca::action),
];

pub const REWARDS: &[Entry<Reward>] = &[
    entry("astraea", "astraea", 1, "{}", astraea::reward),
    entry("orca", "orca", 1, "{}", orca::reward),
    entry("aurora", "aurora", 1, "{}", aurora::reward),
    entry("log-share", "log-share", 1, "{}", share::reward),
];

/// The requested function; an error names the field, the value and the allowed values.
fn build<T>(kind: &str, request: &Value, table: &[Entry<T>]) -> Result<(T, Definition), String> {
    let mut changes = match request {
        Value::Object(fields) => fields.clone(),
        other => Map::from_iter([("name".to_owned(), other.clone())]),
    };
    let name = changes.remove("name").unwrap_or(Value::Null);
    let Some(found) = table.iter().find(|entry| name == entry.name) else {
        let names: Vec<_> = table.iter().map(|entry| entry.name).collect();
        return Err(format!("{kind} = {name}: must be one of {}", names.join(", ")));
    };
    let parameters: Value = serde_json::from_str(found.parameters).expect("parameters of the table are JSON");
    let (_, mut parameters) = (found.build)(parameters).map_err(|e| format!("{kind}.{e}"))?;
    let known = parameters.as_object_mut().expect("parameters are an object");
    for (field, value) in changes {
        let Some(present) = known.get_mut(&field) else {
            let names: Vec<_> = known.keys().map(String::as_str).collect();
            return Err(format!("{kind}.{field} = {value}: unknown; {} has {}", found.name, names.join(", ")));
        };
        let (fits, wanted) = match present {
            Value::Bool(_) => (value.is_boolean(), "true or false"),
            Value::String(_) => (value.is_string(), "text"),
            Value::Array(_) => (value.is_array(), "a list"),
            Value::Number(n) if n.is_f64() => (value.is_number(), "a number"),
            _ => (value.is_u64(), "a whole number"),
        };
        if !fits {
            return Err(format!("{kind}.{field} = {value}: must be {wanted}"));
        }
        *present = value;
    }
    let (function, parameters) = (found.build)(parameters).map_err(|e| format!("{kind}.{e}"))?;
    let (_, defaults) = (found.build)(json!({})).expect("a family has defaults");
    let differs = |(name, value): &(&String, &Value)| defaults[*name] != **value;
    let all = parameters.as_object().expect("parameters are an object");
    let changes = all.iter().filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect();
    let Entry { name, family, formula, .. } = *found;
    Ok((function, Definition { name: name.into(), family, formula, parameters, changes }))
}

pub fn observation(request: &Value) -> Result<Observation, String> {
    build("observation", request, OBSERVATIONS).map(|(function, definition)| Observation { definition, ..function })
}

pub fn action(request: &Value) -> Result<Action, String> {
    build("action", request, ACTIONS).map(|(function, definition)| Action { definition, ..function })
}

pub fn reward(request: &Value) -> Result<Reward, String> {
    build("reward", request, REWARDS).map(|(function, definition)| Reward { definition, ..function })
}

/// The parameters of a family from JSON, with defaults for missing ones, and all of them as JSON.
pub(super) fn read<P: DeserializeOwned + Serialize>(given: Value) -> Result<(P, Value), String> {
    let parameters: P = serde_json::from_value(given).map_err(|e| format!("parameters: {e}"))?;
    let all = serde_json::to_value(&parameters).expect("parameters are JSON");
    Ok((parameters, all))
}

/// The only parameter of an observation without state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stack {
    /// Number of stacked intervals.
    history: usize,
}

impl Default for Stack {
    fn default() -> Stack {
        Stack { history: 10 }
    }
}

/// Features that depend only on the statistics of their interval.
#[derive(Clone)]
struct Stateless(fn(&IntervalStats, &mut [f64]));

impl Watch for Stateless {
    fn fill(&mut self, stats: &IntervalStats, out: &mut [f64]) {
        (self.0)(stats, out);
    }

    fn clone_box(&self) -> Box<dyn Watch> {
        Box::new(self.clone())
    }
}

/// An observation with such features.
pub(super) fn stateless(
    given: Value,
    features: Vec<Feature>,
    fill: fn(&IntervalStats, &mut [f64]),
) -> Result<(Observation, Value), String> {
    let (Stack { history }, all) = read(given)?;
    within("history", history as f64, 1.0, 64.0)?;
    let watch = Box::new(Stateless(fill));
    Ok((Observation { definition: Definition::default(), features, history, pulse_hz: 0.0, watch }, all))
}

/// Return an error for a parameter outside its range.
pub(super) fn within(field: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(format!("{field} = {value}: must be a number in {low} .. {high}"))
    }
}

/// Return an error for a text that is not among the allowed ones.
pub(super) fn one_of(field: &str, value: &str, allowed: &[&str]) -> Result<(), String> {
    if allowed.contains(&value) {
        Ok(())
    } else {
        Err(format!("{field} = {value:?}: must be one of {}", allowed.join(", ")))
    }
}

/// The time between two decisions of an agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub fixed: Nanos,
    /// Above 0: the interval is this many mean RTTs of the last interval; `fixed` applies until there is an RTT.
    pub rtts: f64,
}

impl Interval {
    /// Bounds of intervals that depend on the RTT.
    pub const SHORTEST: Nanos = Nanos::from_millis(1);
    pub const LONGEST: Nanos = Nanos::from_secs(10);

    pub fn fixed(length: Nanos) -> Interval {
        Interval { fixed: length, rtts: 0.0 }
    }

    /// The interval that follows one with these statistics.
    pub fn after(self, stats: &IntervalStats) -> Nanos {
        self.after_rtt(stats.latest_rtt_s())
    }

    /// The interval that follows one with this mean RTT in seconds; 0: not known.
    pub fn after_rtt(self, rtt_s: f64) -> Nanos {
        if self.rtts > 0.0 && rtt_s > 0.0 {
            Nanos((self.rtts * rtt_s * 1e9) as u64).clamp(Interval::SHORTEST, Interval::LONGEST)
        } else {
            self.fixed
        }
    }
}

/// Refuse intervals in which pulses, or the response to them, are not seen.
pub fn check_pulses(observation: &Observation, action: &Action, interval: Interval) -> Result<(), String> {
    let asks = [("action.pulse", action.pulse_hz), ("the feature elasticity", observation.pulse_hz)];
    for (what, hz) in asks {
        let (fixed_ms, most_ms) = (interval.fixed.0 as f64 / 1e6, libm::floor(1e6 / (pulse::DECISIONS * hz)) / 1e3);
        if hz > 0.0 && (interval.rtts > 0.0 || fixed_ms > most_ms) {
            let given = if interval.rtts > 0.0 {
                format!("interval_rtts = {}", interval.rtts)
            } else {
                format!("interval_ms = {fixed_ms}")
            };
            return Err(format!(
                "{given}: must be a fixed interval of at most {most_ms} ms for {what} with pulse_hz = {hz}"
            ));
        }
    }
    Ok(())
}

/// The functions and the interval of the agents of a batch of worlds.
#[derive(Clone)]
pub struct Preset {
    pub observation: Arc<Observation>,
    pub action: Arc<Action>,
    pub reward: Arc<Reward>,
    pub interval: Interval,
}

impl Preset {
    /// Astraea's functions, which every world without agents has: they are made once.
    pub fn astraea(interval: Nanos) -> Preset {
        static MADE: OnceLock<Preset> = OnceLock::new();
        let name = json!("astraea");
        let made = MADE.get_or_init(|| Preset {
            observation: Arc::new(observation(&name).expect("in the table")),
            action: Arc::new(action(&name).expect("in the table")),
            reward: Arc::new(reward(&name).expect("in the table")),
            interval: Interval::fixed(interval),
        });
        Preset { interval: Interval::fixed(interval), ..made.clone() }
    }
}

/// The observation of one flow, updated with every interval.
#[derive(Clone)]
pub struct Observer {
    function: Arc<Observation>,
    watch: Box<dyn Watch>,
    rows: Vec<f32>,
}

impl Observer {
    pub fn new(function: Arc<Observation>) -> Observer {
        Observer { watch: function.watch.clone(), rows: vec![0.0; function.dim()], function }
    }

    pub fn push(&mut self, stats: &IntervalStats) {
        let width = self.function.features.len();
        let mut raw = [0.0; MAX_FEATURES];
        self.watch.fill(stats, &mut raw[..width]);
        self.rows.copy_within(width.., 0);
        let newest = self.rows.len() - width;
        for ((out, x), feature) in self.rows[newest..].iter_mut().zip(raw).zip(&self.function.features) {
            *out = (x as f32).clamp(feature.low, feature.high);
        }
    }

    pub fn observation(&self) -> &[f32] {
        &self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{flow, hard_cases};
    use super::*;

    fn named<T>(table: &[Entry<T>], build: fn(&Value) -> Result<T, String>) -> Vec<T> {
        table.iter().map(|entry| build(&json!(entry.name)).unwrap()).collect()
    }

    fn paid(reward: &Reward, stats: &IntervalStats) -> f64 {
        match &reward.payment {
            Payment::Own(own) => own(stats),
            Payment::Shared(shared) => {
                let mut history = astraea::History::new(reward.memory);
                (0..5).for_each(|_| history.push(stats));
                shared(&[Member { stats, history: &history }], stats.delivery_rate_bps / 100e6)
            }
        }
    }

    #[test]
    fn rewards_grow_with_goodput() {
        for reward in named(REWARDS, reward) {
            let paid: Vec<f64> = (0..=10).map(|k| paid(&reward, &flow(f64::from(k) / 10.0))).collect();
            assert!(paid.windows(2).all(|w| w[1] > w[0]), "{}: {paid:?}", reward.definition.name);
        }
    }

    #[test]
    fn rewards_fall_with_delay_and_loss() {
        for reward in named(REWARDS, reward) {
            let good = paid(&reward, &flow(0.9));
            let late = IntervalStats { rtt_mean_s: 0.2, srtt_s: 0.2, ..flow(0.9) };
            let lossy = IntervalStats { lost_packets: 30.0, lost_bytes: 30.0 * 1460.0, ..flow(0.9) };
            assert!(paid(&reward, &late) < good && paid(&reward, &lossy) < good, "{}", reward.definition.name);
        }
    }

    #[test]
    fn rewards_are_bounded_without_flows_and_in_outages() {
        for reward in named(REWARDS, reward) {
            for stats in hard_cases().iter().chain([&flow(1.0)]) {
                let paid = paid(&reward, stats);
                assert!((reward.low..=reward.high).contains(&paid), "{}: {paid}", reward.definition.name);
            }
            if let Payment::Shared(shared) = reward.payment {
                assert_eq!(shared(&[], 0.0), 0.0);
            }
        }
    }

    #[test]
    fn observations_stay_in_their_bounds_whatever_happens() {
        let logarithmic = observation(&json!({"name": "astraea", "rtt": "log-queue", "path": "log"})).unwrap();
        let of_queue = observation(&json!({"name": "astraea", "rtt": "log-queue-ms", "path": "log-rate"})).unwrap();
        for function in named(OBSERVATIONS, observation).into_iter().chain([logarithmic, of_queue]) {
            assert!(function.features.len() <= MAX_FEATURES);
            let mut observer = Observer::new(Arc::new(function.clone()));
            for stats in hard_cases().iter().chain(&[flow(0.5), flow(1.0)]) {
                observer.push(stats);
                for (x, feature) in observer.observation().iter().zip(function.labels()) {
                    let range = feature.low.min(0.0)..=feature.high;
                    assert!(range.contains(x), "{}: {}: {x}", function.definition.name, feature.meaning);
                }
            }
        }
    }

    #[test]
    fn a_function_takes_parameters_and_refuses_others_by_name() {
        let short = observation(&json!({"name": "astraea-leo", "history": 2})).unwrap();
        assert_eq!((short.dim(), short.definition.family), (20, "astraea"));
        assert_eq!(short.definition.parameters["min_rtt_window_s"], 10.0);
        let refused = |request: Value| action(&request).err().unwrap();
        assert_eq!(
            refused(json!("cubic")),
            "action = \"cubic\": must be one of astraea, aurora, log-window, log-rate, window-factors, orca"
        );
        assert_eq!(refused(json!({"name": "astraea", "step": 7})), "action.step = 7: must be a number in 0.0001 .. 2");
        assert_eq!(refused(json!({"name": "astraea", "step": "x"})), "action.step = \"x\": must be a number");
        assert_eq!(refused(json!({"name": "orca", "stride": 1})), "action.stride = 1: unknown; orca has base");
        let error = observation(&json!({"name": "astraea", "history": 1.5})).err().unwrap();
        assert_eq!(error, "observation.history = 1.5: must be a whole number");
    }

    #[test]
    fn names_are_unique() {
        for (k, function) in OBSERVATIONS.iter().enumerate() {
            assert!(OBSERVATIONS[..k].iter().all(|other| other.name != function.name));
        }
    }

    #[test]
    fn intervals_in_which_pulses_are_not_seen_are_refused() {
        let ratios = observation(&json!("ratios")).unwrap();
        let elastic = observation(&json!({"name": "features", "features": ["elasticity"]})).unwrap();
        let log = action(&json!("log-window")).unwrap();
        let pulsed = action(&json!({"name": "log-window", "pulse": 0.25, "pulse_hz": 1.0})).unwrap();
        let ms = |n| Interval::fixed(Nanos::from_millis(n));
        assert_eq!(check_pulses(&ratios, &log, ms(500)), Ok(()));
        assert_eq!(check_pulses(&elastic, &pulsed, ms(33)), Ok(()));
        let refused = check_pulses(&elastic, &log, ms(34)).unwrap_err();
        let wanted = "must be a fixed interval of at most 33.333 ms for the feature elasticity with pulse_hz = 5";
        assert_eq!(refused, format!("interval_ms = 34: {wanted}"));
        let rtts = check_pulses(&ratios, &pulsed, Interval { rtts: 0.5, ..ms(30) }).unwrap_err();
        let wanted = "must be a fixed interval of at most 166.666 ms for action.pulse with pulse_hz = 1";
        assert_eq!(rtts, format!("interval_rtts = 0.5: {wanted}"));
    }

    #[test]
    fn intervals_follow_the_rtt_within_bounds() {
        let half = Interval { fixed: Nanos::from_millis(30), rtts: 0.5 };
        assert_eq!(half.after(&flow(0.5)), Nanos(27_500_000));
        assert_eq!(half.after(&hard_cases()[1]), half.fixed);
        assert_eq!(half.after(&hard_cases()[0]), Nanos(27_000_000), "half the smoothed RTT without a sample");
        let slow = IntervalStats { rtt_mean_s: 100.0, ..flow(0.5) };
        assert_eq!(half.after(&slow), Interval::LONGEST);
        assert_eq!(Interval::fixed(half.fixed).after(&slow), half.fixed);
    }
}
