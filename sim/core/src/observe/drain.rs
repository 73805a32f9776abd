//! Drains: short reductions of the window that let the queue run empty, so that the base RTT is measured again.
//!
//! As in BBR's ProbeRTT (draft-ietf-ccwg-bbr, section 5.3.4): when the RTT has not been near its minimum for some time,
//! the window is reduced for about two RTTs, and the smallest RTT of that time becomes the minimum. Flows that share a
//! queue all see the empty queue, and therefore drain together the next time.

use super::stats::IntervalStats;

/// Unless a span is given, an RTT is near the minimum within this share of it and this span.
const NEAR: f64 = 0.02;
const NEAR_S: f64 = 0.5e-3;
/// Where it is given, that share counts of what the minimum has above so much, if it is more.
const LONG_S: f64 = 0.1;
/// A drain takes so many smoothed RTTs and intervals: one to empty the queue, one until the sender sees it.
const RTTS: f64 = 1.5;
const INTERVALS: f64 = 2.0;
/// Drains are at least so many RTTs apart, so that they cost at most three hundredths of the goodput.
const APART_RTTS: f64 = 20.0;

/// The drains of one flow.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    /// The minimum RTT, and when the RTT was near it last; 0: none yet.
    least_s: f64,
    near_at_s: f64,
    /// The drain in progress: its end, the windows before and during it, and the smallest RTT so far.
    running: Option<(f64, [f64; 2], f64)>,
}

/// What a drain makes of a decision.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// No drain: the policy decides.
    Free,
    /// A drain: this window, whatever the policy decides.
    Hold(f64),
    /// A drain has just ended: the policy decides from this window on, the one from before the drain.
    Resume(f64),
}

impl Drain {
    /// Take in an interval. `window`: the window now, segments. `every_s`: the time without an RTT near the minimum after
    /// which a drain begins. `to`: the share of itself that the window is reduced to; 0.6 is enough to empty a queue of a
    /// third of the base RTT. `margin`: the window is not reduced below 1 - `margin` times the minimum RTT over the smoothed
    /// RTT, which just empties the queue that is known of; 1: always to `to`. `near_s`: an RTT this much above the minimum
    /// is near it; 0: in proportion to the minimum. In proportion, flows of longer paths take a queue for empty that
    /// others drain, seldom drain themselves, and gain from those that do.
    pub fn step(
        &mut self,
        stats: &IntervalStats,
        window: f64,
        every_s: f64,
        (to, margin, near_s): (f64, f64, f64),
    ) -> Step {
        let (now, rtt) = (stats.time_s, stats.rtt_min_s);
        if let Some((end_s, [kept, held], found)) = &mut self.running {
            *found = found.min(rtt); // NaN is ignored
            if now < *end_s {
                return Step::Hold(*held);
            }
            let kept = *kept;
            if found.is_finite() {
                self.least_s = *found;
            }
            (self.near_at_s, self.running) = (now, None);
            return Step::Resume(kept);
        }
        if rtt.is_nan() {
            return Step::Free;
        }
        let least = self.least_s;
        let near = if near_s > 0.0 { near_s.max(NEAR * (least - LONG_S)) } else { NEAR * least + NEAR_S };
        if least == 0.0 || rtt <= least + near {
            self.least_s = if self.least_s == 0.0 { rtt } else { self.least_s.min(rtt) };
            self.near_at_s = now;
        }
        if now - self.near_at_s < every_s.max(APART_RTTS * stats.srtt_s) {
            return Step::Free;
        }
        let end_s = now + RTTS * stats.srtt_s + INTERVALS * stats.interval_s;
        let empties = (1.0 - margin) * (self.least_s / stats.srtt_s).min(1.0);
        let held = window * to.max(empties);
        self.running = Some((end_s, [window, held], f64::INFINITY));
        Step::Hold(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(time_s: f64, rtt_ms: f64) -> IntervalStats {
        IntervalStats { time_s, interval_s: 0.03, rtt_min_s: rtt_ms / 1e3, srtt_s: 0.05, ..IntervalStats::default() }
    }

    #[test]
    fn a_drain_begins_when_the_rtt_has_not_been_near_its_minimum_and_ends_with_a_new_one() {
        let mut drain = Drain::default();
        assert_eq!(drain.step(&interval(0.0, 40.0), 100.0, 5.0, (0.6, 1.0, 0.0)), Step::Free);
        // 41 ms is within 2 % and half a millisecond; 42 ms is not.
        assert_eq!(drain.step(&interval(2.0, 41.0), 100.0, 5.0, (0.6, 1.0, 0.0)), Step::Free);
        assert_eq!(drain.step(&interval(6.9, 42.0), 100.0, 5.0, (0.6, 1.0, 0.0)), Step::Free);
        assert_eq!(drain.step(&interval(7.0, 42.0), 100.0, 5.0, (0.6, 1.0, 0.0)), Step::Hold(60.0));
        // One and a half smoothed RTTs and two intervals are 135 ms.
        assert_eq!(drain.step(&interval(7.13, 41.5), 60.0, 5.0, (0.6, 1.0, 0.0)), Step::Hold(60.0));
        assert_eq!(drain.step(&interval(7.14, 41.8), 60.0, 5.0, (0.6, 1.0, 0.0)), Step::Resume(100.0));
        // The minimum is 41.5 ms now, so that 42.5 ms is near it.
        assert_eq!(drain.step(&interval(12.0, 42.5), 100.0, 5.0, (0.6, 1.0, 0.0)), Step::Free);
        assert_eq!(drain.step(&interval(16.9, 50.0), 100.0, 5.0, (0.6, 1.0, 0.0)), Step::Free);
        assert_eq!(drain.step(&interval(17.0, 50.0), 100.0, 5.0, (0.6, 1.0, 0.0)), Step::Hold(60.0));
    }

    #[test]
    fn with_a_span_flows_of_other_rtts_take_the_same_queue_for_empty() {
        // 2 ms above the minimum, up to 200 ms; at 600 ms 2 % of 500 ms are 10 ms.
        for (least_ms, near_ms) in [(20.0, 2.0), (120.0, 2.0), (200.0, 2.0), (600.0, 10.0)] {
            for (above_ms, expected) in [(near_ms - 0.1, Step::Free), (near_ms + 0.1, Step::Hold(60.0))] {
                let (mut drain, bounds) = (Drain::default(), (0.6, 1.0, 2e-3));
                assert_eq!(drain.step(&interval(0.0, least_ms), 100.0, 5.0, bounds), Step::Free);
                assert_eq!(drain.step(&interval(5.0, least_ms + above_ms), 100.0, 5.0, bounds), expected);
            }
        }
    }

    #[test]
    fn drains_are_twenty_rtts_apart_and_wait_for_an_rtt() {
        let mut drain = Drain::default();
        let slow = |time_s, rtt_ms| IntervalStats { srtt_s: 0.6, ..interval(time_s, rtt_ms) };
        assert_eq!(drain.step(&slow(0.0, 600.0), 50.0, 5.0, (0.6, 1.0, 0.0)), Step::Free);
        assert_eq!(drain.step(&slow(11.9, 700.0), 50.0, 5.0, (0.6, 1.0, 0.0)), Step::Free);
        assert_eq!(drain.step(&slow(12.1, f64::NAN), 50.0, 5.0, (0.6, 1.0, 0.0)), Step::Free);
        assert_eq!(drain.step(&slow(12.1, 700.0), 50.0, 5.0, (0.6, 1.0, 0.0)), Step::Hold(30.0));
    }

    #[test]
    fn a_drain_with_a_margin_empties_the_known_queue_and_little_more() {
        // 55 ms after a minimum of 50: 10 % below 50 / 55 are 0.818; after 40 they are 0.655, but the drain goes to 0.7.
        for (least_ms, share) in [(50.0, 0.9 * 50.0 / 55.0), (40.0, 0.7)] {
            let mut drain = Drain::default();
            let queued = |time_s| IntervalStats { srtt_s: 0.055, ..interval(time_s, 54.0) };
            assert_eq!(drain.step(&interval(0.0, least_ms), 100.0, 5.0, (0.7, 0.1, 0.0)), Step::Free);
            assert_eq!(drain.step(&queued(5.0), 100.0, 5.0, (0.7, 0.1, 0.0)), Step::Hold(100.0 * share));
            assert_eq!(drain.step(&queued(5.03), 70.0, 5.0, (0.7, 0.1, 0.0)), Step::Hold(100.0 * share));
            assert_eq!(drain.step(&queued(6.0), 70.0, 5.0, (0.7, 0.1, 0.0)), Step::Resume(100.0));
        }
    }
}
