//! Astraea's observation for paths whose base RTT moves: the minimum RTT is that of the last ten seconds, and a switch
//! adds news of handovers (none, what is reported half a second ahead, or the truth).
//!
//! With the minimum of a flow's whole life a longer path looks like a queue for ever, the cause of Astraea's low
//! utilisation on LEO paths. Ten seconds (our choice) are less than a slot of Starlink (15 s) and more than any RTT.

use super::astraea::{FEATURES, HISTORY, features};
use super::pieces::{Feature, Observation, ratio};
use super::stats::IntervalStats;

/// The window's length; it moves in steps of a second.
const WINDOW_S: usize = 10;

const PLAIN_FEATURES: [Feature; 10] = {
    let mut table = FEATURES;
    table[1].meaning = "mean RTT / min RTT of 10 s";
    table[2].meaning = "smoothed RTT / min RTT of 10 s";
    table[3].meaning = "0.8 x window / BDP, min RTT of 10 s";
    table[5].meaning = "min RTT of 10 s / 0.5 s";
    table
};

const fn with_signal(next: &'static str, last: &'static str) -> [Feature; 12] {
    let mut table = [ratio("", 0.0, 1.0); 12];
    let mut k = 0;
    while k < PLAIN_FEATURES.len() {
        table[k] = PLAIN_FEATURES[k];
        k += 1;
    }
    table[10].meaning = next;
    table[11].meaning = last;
    table
}

pub static PLAIN: Observation =
    Observation { name: "astraea-leo", features: &PLAIN_FEATURES, history: HISTORY, fill: plain };

pub static NOISY: Observation = Observation {
    name: "astraea-leo-noisy",
    features: &with_signal("1 / (1 s + time to the reported handover)", "1 / (1 s + time since the reported handover)"),
    history: HISTORY,
    fill: |stats, min_rtt, out| {
        plain(stats, min_rtt, &mut out[..10]);
        out[10] = nearness(stats.reported_handover_in_s);
        out[11] = nearness(stats.reported_handover_since_s);
    },
};

pub static ORACLE: Observation = Observation {
    name: "astraea-leo-oracle",
    features: &with_signal("1 / (1 s + time to the next handover)", "1 / (1 s + time since the last handover)"),
    history: HISTORY,
    fill: |stats, min_rtt, out| {
        plain(stats, min_rtt, &mut out[..10]);
        out[10] = nearness(stats.handover_in_s);
        out[11] = nearness(stats.handover_since_s);
    },
};

fn plain(stats: &IntervalStats, min_rtt: &mut WindowedMin, out: &mut [f64]) {
    let recent = min_rtt.update(stats.time_s, stats.rtt_min_s);
    // Ten seconds without a sample: the life's minimum is the best guess there is.
    features(&IntervalStats { min_rtt_s: recent.unwrap_or(stats.min_rtt_s), ..*stats }, out);
}

/// 1 at a handover, less before and after it, 0 when none is known.
fn nearness(span_s: f64) -> f64 {
    1.0 / (1.0 + span_s)
}

/// The smallest of the values of the last ten seconds, kept by the second.
#[derive(Clone, Debug)]
pub struct WindowedMin {
    buckets: [f64; WINDOW_S],
    second: usize,
}

impl Default for WindowedMin {
    fn default() -> Self {
        WindowedMin { buckets: [f64::INFINITY; WINDOW_S], second: 0 }
    }
}

impl WindowedMin {
    /// Add a value (NaN: none) at a time that never goes back; the smallest of the window, if there is one.
    fn update(&mut self, time_s: f64, value: f64) -> Option<f64> {
        let second = time_s as usize;
        for passed in (self.second + 1)..=second.min(self.second + WINDOW_S) {
            self.buckets[passed % WINDOW_S] = f64::INFINITY;
        }
        self.second = second;
        let bucket = &mut self.buckets[second % WINDOW_S];
        *bucket = bucket.min(value); // NaN loses
        let least = self.buckets.iter().copied().fold(f64::INFINITY, f64::min);
        least.is_finite().then_some(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_is_forgotten_after_ten_seconds() {
        let mut min = WindowedMin::default();
        assert_eq!(min.update(0.5, f64::NAN), None);
        assert_eq!(min.update(3.2, 0.03), Some(0.03));
        assert_eq!(min.update(9.0, 0.05), Some(0.03));
        assert_eq!(min.update(12.9, 0.06), Some(0.03));
        assert_eq!(min.update(13.0, 0.06), Some(0.05));
        assert_eq!(min.update(500.0, f64::NAN), None);
        assert_eq!(min.update(500.5, 0.07), Some(0.07));
    }

    #[test]
    fn a_longer_path_stops_looking_like_a_queue() {
        let mut min = WindowedMin::default();
        let mut latency_ratio = |time_s: f64, rtt: f64| {
            let stats = IntervalStats {
                time_s,
                interval_s: 0.03,
                rtt_mean_s: rtt,
                rtt_min_s: rtt,
                srtt_s: rtt,
                min_rtt_s: 0.03,
                ..IntervalStats::default()
            };
            let mut out = [0.0; 10];
            plain(&stats, &mut min, &mut out);
            out[1]
        };
        assert_eq!(latency_ratio(1.0, 0.03), 1.0);
        assert_eq!(latency_ratio(5.0, 0.06), 2.0);
        assert_eq!(latency_ratio(16.0, 0.06), 1.0);
    }

    #[test]
    fn handovers_draw_near_and_fade() {
        assert_eq!([0.0, 1.0, f64::INFINITY].map(nearness), [1.0, 0.5, 0.0]);
        let stats = IntervalStats { handover_in_s: 1.0, reported_handover_since_s: 3.0, ..IntervalStats::default() };
        let stats = IntervalStats { reported_handover_in_s: f64::INFINITY, handover_since_s: f64::INFINITY, ..stats };
        let signal = |piece: &Observation| {
            let mut out = [0.0; 12];
            (piece.fill)(&stats, &mut WindowedMin::default(), &mut out);
            [out[10], out[11]]
        };
        assert_eq!((signal(&NOISY), signal(&ORACLE)), ([0.0, 0.25], [0.5, 0.0]));
    }
}
