//! The table of observation, action and reward functions, which are selected by name and have parameters.
//!
//! A function is requested as JSON: its name, or an object with the name and the parameters that differ from the name's
//! defaults, `{"name": "astraea", "history": 1}`. Several names can stand for one family of formulas with different
//! parameters.

use serde_json::{Map, Value, json};

use super::functions::{Action, Definition, Observation, Reward};
use super::{astraea, aurora, features, orca, share, steps};

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
    entry("ratios", "ratios", 2, "{}", features::ratios::observation),
    entry("ratios-noisy", "ratios", 2, r#"{"handovers": "reported"}"#, features::ratios::observation),
    entry("features", "features", 1, "{}", features::observation),
    entry("ratios-oracle", "ratios", 2, r#"{"handovers": "true"}"#, features::ratios::observation),
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
    entry("log-share", "log-share", 2, "{}", share::reward),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::MOST_FEATURES;
    use super::super::functions::{Observer, Payment};
    use super::super::history::{History, RewardedFlow};
    use super::super::stats::IntervalStats;
    use super::super::testing::{flow, hard_cases};
    use super::*;

    fn named<T>(table: &[Entry<T>], build: fn(&Value) -> Result<T, String>) -> Vec<T> {
        table.iter().map(|entry| build(&json!(entry.name)).unwrap()).collect()
    }

    fn paid(reward: &Reward, stats: &IntervalStats) -> f64 {
        match &reward.payment {
            Payment::Own(own) => own(&RewardedFlow::new(stats, &History::default())),
            Payment::Shared(shared) => {
                let mut history = History::new(reward.memory);
                (0..5).for_each(|_| history.push(stats));
                shared(&[RewardedFlow::new(stats, &history)], stats.delivery_rate_bps / 100e6)
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
            assert!(function.features.len() <= MOST_FEATURES);
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
}
