//! What observation, action and reward functions are, and decision intervals; the families of formulas make them.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cc::Conn;
use crate::time::Nanos;

use super::drain::Drain;
use super::history::RewardedFlow;
use super::occupancy::Occupancy;
use super::stats::IntervalStats;

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

/// Computes features from statistics; holds the parameters and the state for one flow.
pub trait Watch: Send + Sync {
    /// Write the features of an interval, which are clipped afterwards.
    fn fill(&mut self, stats: &IntervalStats, out: &mut [f64]);

    /// How much delay counts for a flow that asks for nothing, in (0, 1], beside flows of other controllers or not;
    /// 0: the observation has no preference.
    fn preference(&self, beside_others: bool) -> f64 {
        let _ = beside_others;
        0.0
    }

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
    pub watch: Box<dyn Watch>,
}

impl Observation {
    /// Without features: for a policy that decides from the statistics.
    pub fn empty() -> Observation {
        let watch = Box::new(Stateless(|_, _| ()));
        Observation { definition: Definition::default(), features: Vec::new(), history: 1, watch }
    }

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
    /// Of actions that yield by the occupancy.
    pub occupancy: Option<Box<Occupancy>>,
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
pub type PayAll = dyn Fn(&[RewardedFlow], f64) -> f64 + Send + Sync;

/// The reward of a single flow.
pub type PayOne = dyn Fn(&RewardedFlow) -> f64 + Send + Sync;

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
    Ok((Observation { definition: Definition::default(), features, history, watch }, all))
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
    /// The shortest interval that depends on the RTT.
    pub least: Nanos,
}

impl Interval {
    /// The shortest interval that depends on the RTT, where nothing else is asked for, and the longest one.
    pub const SHORTEST: Nanos = Nanos::from_millis(1);
    pub const LONGEST: Nanos = Nanos::from_secs(10);

    pub fn fixed(length: Nanos) -> Interval {
        Interval { fixed: length, rtts: 0.0, least: Interval::SHORTEST }
    }

    /// Checked: a positive length, how many RTTs (0: none), and the shortest interval that depends on the RTT.
    pub fn checked(fixed: Nanos, rtts: f64, least: Nanos) -> Result<Interval, String> {
        if fixed == Nanos::ZERO {
            return Err("interval_ns = 0: must be positive".into());
        }
        if !(1..=Interval::LONGEST.0).contains(&least.0) {
            return Err(format!("interval_least_ns = {}: must be 1 to {}", least.0, Interval::LONGEST.0));
        }
        within("interval_rtts", rtts, 0.0, 100.0)?;
        Ok(Interval { fixed, rtts, least })
    }

    /// When the decision comes that follows one at `now`, with these statistics.
    pub fn next_decision(self, now: Nanos, stats: &IntervalStats) -> Nanos {
        // Real hosts are never read exactly on the grid.
        if self.rtts > 0.0 { now + self.after(stats) } else { self.next_on_grid(now) }
    }

    /// The first multiple of the fixed interval after `now`.
    pub fn next_on_grid(self, now: Nanos) -> Nanos {
        Nanos((now.0 / self.fixed.0 + 1) * self.fixed.0)
    }

    /// The interval that follows one with these statistics.
    pub fn after(self, stats: &IntervalStats) -> Nanos {
        self.after_rtt(stats.latest_rtt_s())
    }

    /// The interval that follows one with this mean RTT in seconds; 0: not known.
    pub fn after_rtt(self, rtt_s: f64) -> Nanos {
        if self.rtts > 0.0 && rtt_s > 0.0 {
            Nanos((self.rtts * rtt_s * 1e9) as u64).clamp(self.least, Interval::LONGEST)
        } else {
            self.fixed
        }
    }
}

/// The observation of one flow, updated with every interval.
#[derive(Clone)]
pub struct Observer {
    function: Arc<Observation>,
    watch: Box<dyn Watch>,
    rows: Vec<f32>,
    /// Features of the latest interval before they are held in their ranges.
    raw: Vec<f64>,
}

impl Observer {
    pub fn new(function: Arc<Observation>) -> Observer {
        let (rows, raw) = (vec![0.0; function.dim()], vec![0.0; function.features.len()]);
        Observer { watch: function.watch.clone(), rows, raw, function }
    }

    pub fn function(&self) -> &Arc<Observation> {
        &self.function
    }

    pub fn push(&mut self, stats: &IntervalStats) {
        let width = self.raw.len();
        self.watch.fill(stats, &mut self.raw);
        self.rows.copy_within(width.., 0);
        let newest = self.rows.len() - width;
        for ((out, x), feature) in self.rows[newest..].iter_mut().zip(&self.raw).zip(&self.function.features) {
            *out = (*x as f32).clamp(feature.low, feature.high);
        }
    }

    pub fn observation(&self) -> &[f32] {
        &self.rows
    }

    /// As [`Watch::preference`].
    pub fn preference(&self, beside_others: bool) -> f64 {
        self.watch.preference(beside_others)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{flow, hard_cases};
    use super::*;

    #[test]
    fn intervals_follow_the_rtt_within_bounds() {
        let half = Interval { rtts: 0.5, ..Interval::fixed(Nanos::from_millis(30)) };
        assert_eq!(half.after(&flow(0.5)), Nanos(27_500_000));
        let longer = Interval { least: Nanos::from_millis(28), ..half };
        assert_eq!(longer.after(&flow(0.5)), longer.least);
        assert_eq!(half.after(&hard_cases()[1]), half.fixed);
        assert_eq!(half.after(&hard_cases()[0]), Nanos(27_000_000), "half the smoothed RTT without a sample");
        let slow = IntervalStats { rtt_mean_s: 100.0, ..flow(0.5) };
        assert_eq!(half.after(&slow), Interval::LONGEST);
        assert_eq!(Interval::fixed(half.fixed).after(&slow), half.fixed);
    }
}
