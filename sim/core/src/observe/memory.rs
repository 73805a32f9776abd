//! State of observations: extremes over a window of time, averages over RTTs, and a detector of pauses.

use crate::observe::stats::IntervalStats;

/// Number of steps of a moving window.
const BUCKETS: usize = 10;

/// The largest value of the last `window_s` seconds, to within a tenth of the window; 0: of all values.
#[derive(Clone, Debug)]
pub struct WindowedMax {
    bucket_s: f64,
    buckets: [f64; BUCKETS],
    now: usize,
}

impl WindowedMax {
    pub fn new(window_s: f64) -> WindowedMax {
        WindowedMax { bucket_s: window_s / BUCKETS as f64, buckets: [f64::NEG_INFINITY; BUCKETS], now: 0 }
    }

    /// Add a value (NaN: none) at a time that never decreases; return the largest value of the window, if there is one.
    pub fn update(&mut self, time_s: f64, value: f64) -> Option<f64> {
        let now = if self.bucket_s > 0.0 { (time_s / self.bucket_s) as usize } else { 0 };
        for passed in (self.now + 1)..=now.min(self.now + BUCKETS) {
            self.buckets[passed % BUCKETS] = f64::NEG_INFINITY;
        }
        self.now = now;
        let bucket = &mut self.buckets[now % BUCKETS];
        *bucket = bucket.max(value); // NaN is ignored
        let most = self.buckets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most.is_finite().then_some(most)
    }

    pub fn forget(&mut self) {
        self.buckets = [f64::NEG_INFINITY; BUCKETS];
    }
}

/// The smallest value of a window, as [`WindowedMax`].
#[derive(Clone, Debug)]
pub struct WindowedMin(WindowedMax);

impl WindowedMin {
    pub fn new(window_s: f64) -> WindowedMin {
        WindowedMin(WindowedMax::new(window_s))
    }

    pub fn update(&mut self, time_s: f64, value: f64) -> Option<f64> {
        self.0.update(time_s, -value).map(|most| -most)
    }

    pub fn forget(&mut self) {
        self.0.forget();
    }
}

/// Detects pauses of the acknowledgements that are much longer than usual, as at a handover: at least `gap_s`, and
/// three times the usual longest pause of an interval (with frames and on slow links, pauses are normal).
#[derive(Clone, Debug)]
pub struct GapDetector {
    gap_s: f64,
    usual_s: f64,
    /// Whether pauses that return become usual.
    learns: bool,
}

impl GapDetector {
    const TIMES_USUAL: f64 = 3.0;
    const WEIGHT: f64 = 1.0 / 16.0;

    /// With `gap_s` = 0, it never detects a pause. A pause that is there from the start is one for ever.
    pub fn new(gap_s: f64) -> GapDetector {
        GapDetector { gap_s, usual_s: 0.0, learns: false }
    }

    /// A pause that returns, as on a link with frames, becomes usual.
    pub fn learning(gap_s: f64) -> GapDetector {
        GapDetector { learns: true, ..GapDetector::new(gap_s) }
    }

    /// Whether such a pause has ended, or reached this length, in the interval.
    pub fn notices(&mut self, stats: &IntervalStats) -> bool {
        let least_s = self.gap_s.max(GapDetector::TIMES_USUAL * self.usual_s);
        let gap = self.gap_s > 0.0 && stats.ack_gap_s >= least_s;
        if !gap || self.learns {
            self.usual_s += GapDetector::WEIGHT * (stats.ack_gap_s.min(least_s) - self.usual_s);
        }
        gap
    }
}

/// The weight of a new value in an average over `rtts` RTTs.
pub fn weight(stats: &IntervalStats, rtt_s: f64, rtts: f64) -> f64 {
    span_weight(stats.interval_s, rtt_s * rtts)
}

/// The weight of an interval in an average over a span; 1 without a span.
pub fn span_weight(interval_s: f64, span_s: f64) -> f64 {
    if span_s > 0.0 { 1.0 - libm::exp(-interval_s / span_s) } else { 1.0 }
}

/// 1 s / (1 s + span): 1 at a handover, less before and after it, 0 if none is known.
pub fn nearness(span_s: f64) -> f64 {
    1.0 / (1.0 + span_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_is_forgotten_after_its_window() {
        let mut min = WindowedMin::new(10.0);
        assert_eq!(min.update(0.5, f64::NAN), None);
        assert_eq!(min.update(3.2, 0.03), Some(0.03));
        assert_eq!(min.update(9.0, 0.05), Some(0.03));
        assert_eq!(min.update(12.9, 0.06), Some(0.03));
        assert_eq!(min.update(13.0, 0.06), Some(0.05));
        assert_eq!(min.update(500.0, f64::NAN), None);
        assert_eq!(min.update(500.5, 0.07), Some(0.07));
        min.forget();
        assert_eq!(min.update(500.6, 0.09), Some(0.09));
    }

    #[test]
    fn without_a_window_nothing_is_forgotten() {
        let mut max = WindowedMax::new(0.0);
        assert_eq!(max.update(1.0, 5.0), Some(5.0));
        assert_eq!(max.update(1e6, 2.0), Some(5.0));
    }

    #[test]
    fn a_gap_is_a_pause_much_longer_than_usual() {
        let pause = |ack_gap_s| IntervalStats { ack_gap_s, ..IntervalStats::default() };
        let mut gaps = GapDetector::new(0.03);
        assert!((0..100).all(|_| !gaps.notices(&pause(0.002))));
        assert!(gaps.notices(&pause(0.045)));
        let mut frames = GapDetector::new(0.03);
        let seen = (0..100).filter(|_| frames.notices(&pause(0.029))).count();
        assert_eq!(seen, 0);
        assert!(!frames.notices(&pause(0.06)), "twice the usual is no gap");
        assert!(!GapDetector::new(0.0).notices(&pause(9.0)));
        // Pauses of 20 ms: three times their average, of weight 1/16, is 30.5 ms after 11 and 32.3 ms after 12 intervals.
        for (intervals, noticed) in [(11, true), (12, false)] {
            let mut slow = GapDetector::new(0.03);
            assert!((0..intervals).all(|_| !slow.notices(&pause(0.02))));
            assert_eq!(slow.notices(&pause(0.032)), noticed, "{intervals}");
        }
    }

    #[test]
    fn a_pause_that_returns_becomes_usual_where_it_learns() {
        // Pauses of 50 ms count as 30 ms, or three times the usual, while they are noticed; the usual reaches 50/3 ms
        // after eleven.
        let frame = IntervalStats { ack_gap_s: 0.05, ..IntervalStats::default() };
        let mut learning = GapDetector::learning(0.03);
        let noticed = (0..200).filter(|_| learning.notices(&frame)).count();
        assert_eq!(noticed, 11);
        assert!(learning.notices(&IntervalStats { ack_gap_s: 0.2, ..frame }), "four times the usual");
        let mut never = GapDetector::new(0.03);
        assert_eq!((0..200).filter(|_| never.notices(&frame)).count(), 200);
    }

    #[test]
    fn handovers_draw_near_and_fade() {
        assert_eq!([0.0, 1.0, f64::INFINITY].map(nearness), [1.0, 0.5, 0.0]);
    }
}
