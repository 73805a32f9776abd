//! Whether another flow keeps the queue filled, by the rule of Copa (Arun, Balakrishnan, NSDI 2018, section 2.2): the queue
//! is nearly empty when the queueing delay is below a tenth of the difference between the largest RTT of the last four RTTs
//! and the minimum RTT; when it was not nearly empty for five RTTs, something fills it.

use crate::observe::stats::IntervalStats;

/// A queue up to this long is empty (ours): on a path without one, RTTs differ by a packet or two.
pub const EMPTY_S: f64 = 0.5e-3;
/// RTTs over which the largest is looked for.
const RANGE_RTTS: usize = 4;

#[derive(Clone)]
pub struct FilledQueue {
    /// Share of the range of the RTT up to which the queue is nearly empty, and so many RTTs.
    empty_share: f64,
    look_back_rtts: f64,
    /// The largest mean RTT of each of the last RTTs.
    largest: [f64; RANGE_RTTS],
    slot: usize,
    slot_ends_s: f64,
    /// When the queue was nearly empty last.
    empty_at_s: Option<f64>,
}

impl FilledQueue {
    pub fn new(empty_share: f64, look_back_rtts: f64) -> FilledQueue {
        FilledQueue {
            empty_share,
            look_back_rtts,
            largest: [0.0; RANGE_RTTS],
            slot: 0,
            slot_ends_s: 0.0,
            empty_at_s: None,
        }
    }

    /// The path has changed.
    pub fn forget(&mut self) {
        *self = FilledQueue::new(self.empty_share, self.look_back_rtts);
    }

    /// Add an interval. `floor_s`: the minimum RTT, if it is known.
    pub fn update(&mut self, stats: &IntervalStats, floor_s: Option<f64>) {
        let Some(floor_s) = floor_s.filter(|_| !stats.rtt_min_s.is_nan()) else {
            return;
        };
        if stats.time_s >= self.slot_ends_s {
            self.slot = (self.slot + 1) % RANGE_RTTS;
            self.largest[self.slot] = 0.0;
            self.slot_ends_s = stats.time_s + stats.srtt_s;
        }
        let largest = &mut self.largest[self.slot];
        *largest = largest.max(stats.rtt_mean_s);
        let range = self.largest.iter().copied().fold(0.0, f64::max) - floor_s;
        // A new flow has five RTTs to see an empty queue.
        if self.empty_at_s.is_none() || stats.rtt_min_s - floor_s <= (self.empty_share * range).max(EMPTY_S) {
            self.empty_at_s = Some(stats.time_s);
        }
    }

    /// 1 if the queue was not nearly empty, else 0.
    pub fn value(&self, stats: &IntervalStats) -> f64 {
        let since_s = self.empty_at_s.map_or(0.0, |at| stats.time_s - at);
        f64::from(u8::from(since_s > self.look_back_rtts * stats.srtt_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(time_s: f64, least_ms: f64, mean_ms: f64) -> IntervalStats {
        IntervalStats {
            time_s,
            rtt_min_s: least_ms / 1e3,
            rtt_mean_s: mean_ms / 1e3,
            srtt_s: 0.05,
            ..IntervalStats::default()
        }
    }

    #[test]
    fn a_queue_that_is_not_nearly_empty_for_five_rtts_is_filled() {
        // Minimum 40 ms, largest RTT 60 ms: nearly empty up to 42 ms. Five RTTs of 50 ms are 250 ms.
        let mut queue = FilledQueue::new(0.1, 5.0);
        let mut seen = |time_s, least_ms| {
            let stats = interval(time_s, least_ms, 60.0);
            queue.update(&stats, Some(0.04));
            queue.value(&stats)
        };
        assert_eq!(seen(1.0, 50.0), 0.0, "a new flow");
        assert_eq!(seen(1.1, 41.9), 0.0);
        assert_eq!(seen(1.34, 42.1), 0.0, "240 ms later");
        assert_eq!(seen(1.36, 42.1), 1.0, "260 ms later");
        assert_eq!(seen(1.4, 41.9), 0.0);
    }

    #[test]
    fn the_range_is_of_the_last_four_rtts() {
        let mut queue = FilledQueue::new(0.1, 5.0);
        let mut seen = |time_s, least_ms, mean_ms| {
            let stats = interval(time_s, least_ms, mean_ms);
            queue.update(&stats, Some(0.04));
            queue.value(&stats)
        };
        // A peak of 90 ms: 44 ms is within a tenth of 50 ms, as long as the peak is not older than four RTTs.
        seen(0.0, 80.0, 90.0);
        for k in 1..=3 {
            assert_eq!(seen(0.05 * f64::from(k), 44.0, 50.0), 0.0);
        }
        // Afterwards a tenth is 1 ms, and five RTTs after the peak has left, the queue is filled.
        let later: Vec<f64> = (4..=12).map(|k| seen(0.05 * f64::from(k), 44.0, 50.0)).collect();
        assert_eq!(later, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_steady_rtt_is_an_empty_queue_and_without_samples_nothing_changes() {
        let mut queue = FilledQueue::new(0.1, 5.0);
        for k in 0..100 {
            let stats = interval(0.03 * f64::from(k), 40.0, 40.0);
            queue.update(&stats, Some(0.04));
            assert_eq!(queue.value(&stats), 0.0);
        }
        let silent = interval(3.1, f64::NAN, f64::NAN);
        queue.update(&silent, None);
        assert_eq!(queue.value(&silent), 0.0);
    }
}
