//! Whether others fill the queue of a flow's bottleneck. Where they do, a preference gives way: a flow that keeps its own
//! queue short would be left with little of the link.

use crate::observe::occupancy::Occupancy;
use crate::observe::stats::IntervalStats;

/// The minimum RTT is that of so long: longer than flows that fill a queue take from one reduction to the next.
pub const WINDOW_S: f64 = 30.0;
/// The contest is an average over so many RTTs.
pub const AVERAGE_RTTS: f64 = 64.0;
/// Queueing delays count relative to the minimum RTT and this, as in the reward `log-share`: flows of one queue with
/// different RTTs then see about the same.
const ALLOWANCE_S: f64 = 0.05;
/// Longer queues count for this: one that the flow itself has built where the capacity fell would weigh for long.
const MOST: f64 = 0.3;
/// From this average on, the preference is the contested one.
const FULL: f64 = 0.06;

/// The contest of one flow.
#[derive(Clone, Default)]
pub struct Contest {
    occupancy: Occupancy,
    /// The share of the queue that is the flow's own.
    own: f64,
}

impl Contest {
    /// Take in an interval.
    pub fn update(&mut self, stats: &IntervalStats) {
        self.own = self.occupancy.update(stats);
    }

    /// The queueing delay over the minimum RTT and 50 ms, times the square of the share of others in the queue. The square
    /// spares flows of one kind: their windows change together, so that each seems to have most of the queue.
    pub fn value(&self, rtt_s: f64, min_rtt_s: f64) -> f64 {
        let others = 1.0 - self.own;
        let queue = (rtt_s - min_rtt_s).max(0.0) / (min_rtt_s + ALLOWANCE_S);
        others * others * queue.min(MOST)
    }
}

/// The logarithm of the preference at this average, between those of the usual and the contested one.
pub fn preference(usual: f64, contested: f64, average: f64) -> f64 {
    usual + (average / FULL).min(1.0) * (contested - usual)
}
