//! Drains ([`crate::observe::drain`]) in fixed point: short reductions of the window that let the queue run empty.

use super::arithmetic::{ONE24, ratio};
use super::measures::{MOST_RTT, least};
use super::{Parameters, Statistics};

/// Larger moments and intervals are taken for these.
const MOST_TIME: u64 = 1 << 60;
const MOST_INTERVAL: u64 = (1 << 39) - 1;
/// Drains are at least so many smoothed RTTs apart.
const APART_RTTS: u64 = 20;

/// The drains of one flow; zeros at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Drain {
    /// The minimum RTT, and when the RTT was near it last; 0: none yet.
    pub least_ns: u64,
    pub near_at_ns: u64,
    /// The drain in progress: its end (0: there is none), the window before it (Q16), its own, and the smallest RTT so far.
    pub end_ns: u64,
    pub window: u64,
    pub held: u64,
    pub found_ns: u64,
}

/// What a drain makes of a decision: whether the window is this one, whatever the policy decides, and the window
/// (segments in Q16), from which the policy decides otherwise.
pub type Step = (bool, u64);

impl Drain {
    /// Take in an interval. `window`: the window now.
    pub fn step(&mut self, parameters: &Parameters, stats: &Statistics, window: u64) -> Step {
        let now_ns = least(stats.time_ns, MOST_TIME);
        let rtt_ns = least(stats.rtt_least_ns, MOST_RTT);
        let srtt_ns = least(stats.srtt_ns, MOST_RTT);
        if self.end_ns > 0 {
            return self.go_on(now_ns, rtt_ns);
        }
        if rtt_ns == 0 {
            return (false, window);
        }
        // Within 2 % and half a millisecond of the minimum.
        if self.least_ns == 0 || 50 * rtt_ns <= 51 * self.least_ns + 25_000_000 {
            self.least_ns = if self.least_ns == 0 { rtt_ns } else { least(self.least_ns, rtt_ns) };
            self.near_at_ns = now_ns;
        }
        let apart_ns = APART_RTTS * srtt_ns;
        let every_ns = if apart_ns > parameters.drain_every_ns { apart_ns } else { parameters.drain_every_ns };
        if now_ns.saturating_sub(self.near_at_ns) < every_ns {
            return (false, window);
        }
        self.end_ns = now_ns + srtt_ns + (srtt_ns >> 1) + 2 * least(stats.interval_ns, MOST_INTERVAL);
        self.window = window;
        self.held = (window * to(parameters, self.least_ns, srtt_ns)) >> 24;
        self.found_ns = 0;
        (true, self.held)
    }

    /// A drain is in progress.
    fn go_on(&mut self, now_ns: u64, rtt_ns: u64) -> Step {
        if rtt_ns > 0 && (self.found_ns == 0 || rtt_ns < self.found_ns) {
            self.found_ns = rtt_ns;
        }
        if now_ns < self.end_ns {
            return (true, self.held);
        }
        if self.found_ns > 0 {
            self.least_ns = self.found_ns;
        }
        self.near_at_ns = now_ns;
        self.end_ns = 0;
        (false, self.window)
    }
}

/// The share of the window that remains in a drain, Q24.
fn to(parameters: &Parameters, least_ns: u64, srtt_ns: u64) -> u64 {
    let empties = (u64::from(parameters.drain_spare) * ratio(least_ns, srtt_ns, ONE24) as u64) >> 24;
    if empties > u64::from(parameters.drain_to) { empties } else { u64::from(parameters.drain_to) }
}
