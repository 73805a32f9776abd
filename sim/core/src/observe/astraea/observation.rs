//! Astraea's observation: ten features of an interval, stacked over five intervals, oldest first, zeros at the start.
//!
//! In the features, rates are in bytes per second and times in seconds. As published, minimum RTT and maximum
//! throughput are those of the whole connection. A path that becomes longer then always looks like a queue, which
//! causes Astraea's low utilisation on LEO paths. Parameters limit both to windows, and add handover signals (reported
//! half a second ahead, or true). Ten seconds (our choice) are less than a slot of Starlink (15 s) and more than any
//! RTT.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observe::functions::{Feature, Observation, Watch, one_of, ratio, read, within};
use crate::observe::handovers::{fill_news, news_features};
use crate::observe::history::HISTORY;
use crate::observe::memory::{GapDetector, WindowedMax, WindowedMin};
use crate::observe::stats::IntervalStats;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sight {
    /// Number of stacked intervals.
    history: usize,
    /// Length of the windows in seconds; 0: the whole connection.
    min_rtt_window_s: f64,
    max_rate_window_s: f64,
    /// A pause of the acknowledgements of this length clears both windows; 0: never.
    gap_s: f64,
    /// Handover signals: none, reported, true.
    handovers: String,
    /// Scale of the RTT relative to the minimum: ratio (published); log-queue, which resolves small queues
    /// ([`log_queue`]); log-queue-ms, which is equal for flows with different base RTTs that share a queue
    /// ([`log_queue_ms`]).
    rtt: String,
    /// Scale of maximum throughput and minimum RTT: linear (published); log, which distinguishes 5 from 6 Mbit/s as
    /// well as 100 from 120 Mbit/s; log-rate, which omits the minimum RTT and the window relative to the BDP.
    path: String,
}

impl Default for Sight {
    fn default() -> Sight {
        Sight {
            history: HISTORY,
            min_rtt_window_s: 0.0,
            max_rate_window_s: 0.0,
            gap_s: 0.0,
            handovers: "none".into(),
            rtt: "ratio".into(),
            path: "linear".into(),
        }
    }
}

pub(in crate::observe) fn observation(given: Value) -> Result<(Observation, Value), String> {
    let (sight, all): (Sight, _) = read(given)?;
    within("history", sight.history as f64, 1.0, 64.0)?;
    within("min_rtt_window_s", sight.min_rtt_window_s, 0.0, 1e4)?;
    within("max_rate_window_s", sight.max_rate_window_s, 0.0, 1e4)?;
    within("gap_s", sight.gap_s, 0.0, 100.0)?;
    one_of("handovers", &sight.handovers, &["none", "reported", "true"])?;
    one_of("rtt", &sight.rtt, &["ratio", "log-queue", "log-queue-ms"])?;
    one_of("path", &sight.path, &["linear", "log", "log-rate"])?;
    let min_rtt = if sight.min_rtt_window_s > 0.0 {
        format!("min RTT of the last {} s", sight.min_rtt_window_s)
    } else {
        "min RTT".to_owned()
    };
    let max = if sight.max_rate_window_s > 0.0 {
        format!("max throughput of the last {} s", sight.max_rate_window_s)
    } else {
        "max throughput".to_owned()
    };
    let log_path = sight.path != "linear";
    let [path_rate, path_rtt] = path_features(&max, &min_rtt, log_path);
    let all_features = [
        ratio(format!("throughput / {max}"), 0.0, 1.0),
        rtt_feature("mean RTT", &min_rtt, &sight.rtt),
        rtt_feature("smoothed RTT", &min_rtt, &sight.rtt),
        ratio(
            if min_rtt == "min RTT" {
                "0.8 x window / BDP".into()
            } else {
                format!("0.8 x window / BDP, with {min_rtt}")
            },
            0.0,
            2.0,
        ),
        path_rate,
        path_rtt,
        ratio(format!("loss rate / {max}"), 0.0, MOST),
        ratio("unacknowledged packets / window", 0.0, MOST),
        ratio(format!("pacing rate / {max}"), 0.0, 2.0),
        ratio("retransmitted packets in flight / window", 0.0, MOST),
    ];
    let seen: &[usize] = if sight.path == "log-rate" { &SEEN_BY_RATE } else { &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] };
    let mut features: Vec<Feature> = seen.iter().map(|&feature| all_features[feature].clone()).collect();
    features.extend(news_features(&sight.handovers));
    let watch = AstraeaWatch {
        min_rtt: (sight.min_rtt_window_s > 0.0).then(|| WindowedMin::new(sight.min_rtt_window_s)),
        max_rate: (sight.max_rate_window_s > 0.0).then(|| WindowedMax::new(sight.max_rate_window_s)),
        gaps: GapDetector::new(sight.gap_s),
        handovers: sight.handovers,
        rtt: sight.rtt,
        log_path,
        seen,
    };
    let history = sight.history;
    Ok((Observation { definition: Default::default(), features, history, watch: Box::new(watch) }, all))
}

/// Bound of features that the released code leaves without one: under heavy loss, three windows are unacknowledged.
const MOST: f32 = 10.0;

/// The features that do not depend on the base RTT.
const SEEN_BY_RATE: [usize; 8] = [0, 1, 2, 4, 6, 7, 8, 9];

fn rtt_feature(rtt: &str, min_rtt: &str, seen: &str) -> Feature {
    match seen {
        "log-queue" => ratio(format!("ln(1 + {QUEUE_GAIN} x ({rtt} / {min_rtt} - 1))"), 0.0, 4.0),
        "log-queue-ms" => ratio(format!("ln(1 + ({rtt} - {min_rtt}) / {QUEUE_MS} ms)"), 0.0, 10.0),
        _ => ratio(format!("{rtt} / {min_rtt}"), 0.0, 2.0),
    }
}

fn path_features(max: &str, min_rtt: &str, log: bool) -> [Feature; 2] {
    if log {
        [format!("ln(1 + {max} / 1 Mbit/s)"), format!("ln(1 + {min_rtt} / 1 ms)")].map(|seen| ratio(seen, 0.0, 10.0))
    } else {
        [ratio(format!("{max} / 10 MB/s"), 0.0, 100.0), ratio(format!("{min_rtt} / 0.5 s"), 0.0, MOST)]
    }
}

/// In [`log_queue`], queues are resolved down to 1 / `QUEUE_GAIN` of the minimum RTT (our choice).
const QUEUE_GAIN: f64 = 50.0;

/// RTT relative to the minimum RTT on a logarithmic scale, which also resolves queues far below the minimum RTT: flows
/// that share a link must distinguish 2 % from 4 %. 0 without a queue, 3.93 with a queue of the minimum RTT.
fn log_queue(ratio: f64) -> f64 {
    (QUEUE_GAIN * (ratio - 1.0).max(0.0)).ln_1p()
}

/// Resolution of [`log_queue_ms`], about the time of a packet at 120 Mbit/s (our choice).
const QUEUE_MS: f64 = 0.1;

/// The queueing delay on a logarithmic scale: 0 without a queue, 4.62 at 10 ms, independent of the minimum RTT.
fn log_queue_ms(ratio: f64, min_rtt_s: f64) -> f64 {
    ((ratio - 1.0).max(0.0) * min_rtt_s / 1e-3 / QUEUE_MS).ln_1p()
}

#[derive(Clone)]
struct AstraeaWatch {
    min_rtt: Option<WindowedMin>,
    max_rate: Option<WindowedMax>,
    gaps: GapDetector,
    handovers: String,
    rtt: String,
    log_path: bool,
    /// Indices of the features in use, in order.
    seen: &'static [usize],
}

impl Watch for AstraeaWatch {
    fn fill(&mut self, stats: &IntervalStats, out: &mut [f64]) {
        let mut seen = *stats;
        if self.gaps.notices(stats) {
            self.min_rtt.iter_mut().for_each(WindowedMin::forget);
            self.max_rate.iter_mut().for_each(WindowedMax::forget);
        }
        // Without a sample in the window, the extreme of the connection is the best estimate.
        if let Some(window) = &mut self.min_rtt {
            seen.min_rtt_s = window.update(stats.time_s, stats.rtt_min_s).unwrap_or(stats.min_rtt_s);
        }
        if let Some(window) = &mut self.max_rate {
            let rate = if stats.delivery_rate_bps > 0.0 { stats.delivery_rate_bps } else { f64::NAN };
            seen.max_delivery_rate_bps = window.update(stats.time_s, rate).unwrap_or(stats.max_delivery_rate_bps);
        }
        let mut all = [0.0; 10];
        features(&seen, &mut all);
        match self.rtt.as_str() {
            "log-queue" => all[1..3].iter_mut().for_each(|rtt| *rtt = log_queue(*rtt)),
            "log-queue-ms" => all[1..3].iter_mut().for_each(|rtt| *rtt = log_queue_ms(*rtt, seen.min_rtt_s)),
            _ => {}
        }
        if self.log_path {
            all[4] = (seen.max_delivery_rate_bps / 1e6).ln_1p();
            all[5] = if all[5] > 0.0 { (seen.min_rtt_s / 1e-3).ln_1p() } else { 0.0 };
        }
        for (out, feature) in out.iter_mut().zip(self.seen) {
            *out = all[*feature];
        }
        fill_news(&self.handovers, stats, &mut out[self.seen.len()..]);
    }

    fn clone_box(&self) -> Box<dyn Watch> {
        Box::new(self.clone())
    }
}

/// Bytes per packet in the feature of the window.
const PACKET_BYTES: f64 = 1460.0;

/// As in the released inference code: 0.5 without throughput, 2 without an RTT in the interval, and no minimum RTT before
/// the first ACK of data.
fn features(s: &IntervalStats, out: &mut [f64]) {
    let throughput = s.delivery_rate_bps / 8.0;
    let max = s.max_delivery_rate_bps / 8.0;
    let min_rtt = if max > 0.0 { s.min_rtt_s } else { 0.0 };
    let over_max = |x: f64| if max > 0.0 { x / max } else { 0.0 };
    let over_rtt = |x: f64| {
        if x.is_nan() || x <= 0.0 {
            2.0
        } else if min_rtt <= 0.0 {
            0.0
        } else {
            x / min_rtt
        }
    };
    let window = if min_rtt > 0.0 { over_max(s.cwnd_packets * PACKET_BYTES * 8.0 / min_rtt / 10.0) } else { 0.0 };
    let cwnd = s.cwnd_packets.max(1.0);
    out.copy_from_slice(&[
        if throughput > 0.0 { throughput / max } else { 0.5 },
        over_rtt(s.rtt_mean_s),
        over_rtt(s.srtt_s),
        window,
        max / 1e7,
        min_rtt / 0.5,
        over_max(if s.interval_s > 0.0 { s.lost_bytes / s.interval_s } else { 0.0 }),
        s.packets_out / cwnd,
        over_max(s.pacing_rate_bps / 8.0),
        s.retrans_out / cwnd,
    ]);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::observe::functions::Observer;
    use crate::observe::testing::flow;

    fn clipped(stats: &IntervalStats) -> Vec<f32> {
        let mut observer = Observer::new(Arc::new(observation(json!({})).unwrap().0));
        observer.push(stats);
        observer.observation()[(HISTORY - 1) * 10..].to_vec()
    }

    #[test]
    fn features_follow_their_formulas() {
        let f = clipped(&flow(0.9));
        let expected = [0.9, 1.1, 1.08, 0.8 * 400.0 * 1460.0 / 625_000.0, 1.25, 0.1, 0.0, 0.975, 0.9, 0.0];
        for (got, want) in f.iter().zip(expected) {
            assert!((got - want as f32).abs() < 1e-5, "{f:?}");
        }
    }

    #[test]
    fn small_queues_differ_as_much_as_long_ones_on_a_logarithmic_scale() {
        let seen = |rtt_s: f64| {
            let mut observer = Observer::new(Arc::new(observation(json!({"rtt": "log-queue"})).unwrap().0));
            observer.push(&IntervalStats { rtt_mean_s: rtt_s, ..flow(0.9) });
            observer.observation()[(HISTORY - 1) * 10 + 1..][..2].to_vec()
        };
        // ln(1 + 50 x 0.1) and ln(1 + 50 x 0.08); nothing at or below the minimum; twice of it where no RTT is known.
        for (rtt_s, want) in [(0.055, 1.791_759), (0.05, 0.0), (0.049, 0.0), (0.1, 3.931_826), (f64::NAN, 3.931_826)] {
            let found = seen(rtt_s);
            assert!((found[0] - want).abs() < 1e-5 && (found[1] - 1.609_438).abs() < 1e-5, "{rtt_s}: {found:?}");
        }
        assert!(seen(1.0)[0] == 4.0, "clipped");
    }

    #[test]
    fn flows_of_different_base_rtts_see_the_same_of_the_queue_they_share() {
        let seen = |min_rtt_s: f64, queue_s: f64| {
            let mut observer = Observer::new(Arc::new(observation(json!({"rtt": "log-queue-ms"})).unwrap().0));
            let rtt_s = min_rtt_s + queue_s;
            observer.push(&IntervalStats { min_rtt_s, rtt_mean_s: rtt_s, srtt_s: rtt_s, ..flow(0.9) });
            observer.observation()[(HISTORY - 1) * 10 + 1..][..2].to_vec()
        };
        // ln(1 + queue / 0.1 ms); twice the minimum where no RTT is known.
        for (min_rtt_s, queue_s, want) in
            [(0.02, 0.01, 4.615_121), (0.2, 0.01, 4.615_121), (0.2, -0.01, 0.0), (0.05, f64::NAN, 6.216_606)]
        {
            for found in seen(min_rtt_s, queue_s) {
                assert!((found - want).abs() < 1e-5, "{min_rtt_s} {queue_s}: {found}");
            }
        }
        assert!(seen(0.2, 10.0)[0] == 10.0, "clipped");
    }

    #[test]
    fn slow_and_short_paths_differ_as_much_as_fast_and_long_ones_on_a_logarithmic_scale() {
        let mut observer = Observer::new(Arc::new(observation(json!({"path": "log"})).unwrap().0));
        observer.push(&flow(0.9));
        let seen = &observer.observation()[(HISTORY - 1) * 10..];
        // ln(1 + 100 Mbit/s) and ln(1 + 50 ms); the others as they were.
        assert!((seen[4] - 4.615_121).abs() < 1e-5 && (seen[5] - 3.931_826).abs() < 1e-5, "{seen:?}");
        assert_eq!((&seen[..4], &seen[6..]), (&clipped(&flow(0.9))[..4], &clipped(&flow(0.9))[6..]));
    }

    #[test]
    fn who_sees_only_the_rate_sees_nothing_of_the_base_rtt() {
        let function = |path| observation(json!({"path": path, "rtt": "log-queue-ms", "handovers": "true"})).unwrap().0;
        let seen = |path, min_rtt_s: f64| {
            let mut observer = Observer::new(Arc::new(function(path)));
            let rtt_s = min_rtt_s + 0.01;
            observer.push(&IntervalStats { min_rtt_s, rtt_mean_s: rtt_s, srtt_s: rtt_s, ..flow(0.9) });
            observer.observation().to_vec()
        };
        assert_eq!(function("log-rate").dim(), HISTORY * 10);
        let (short, long) = (seen("log-rate", 0.02), seen("log-rate", 0.2));
        assert!(short.iter().zip(&long).all(|(a, b)| (a - b).abs() < 1e-5), "{short:?} {long:?}");
        let all = &seen("log", 0.02)[(HISTORY - 1) * 12..];
        let kept: Vec<f32> = all[..3].iter().chain(&all[4..5]).chain(&all[6..]).copied().collect();
        assert_eq!(short[(HISTORY - 1) * 10..], kept);
    }

    #[test]
    fn special_cases_are_finite() {
        let mut s = flow(0.0);
        s.rtt_mean_s = f64::NAN;
        let f = clipped(&s);
        assert_eq!((f[0], f[1]), (0.5, 2.0));
        // Before the first ACK there is the RTT of the handshake; the released code starts from these numbers.
        s.max_delivery_rate_bps = 0.0;
        assert_eq!(clipped(&s)[..6], [0.5, 2.0, 0.0, 0.0, 0.0, 0.0]);
        s.srtt_s = 0.0;
        assert_eq!(clipped(&s)[2], 2.0);
        // Under heavy loss, more than three windows are unacknowledged.
        assert_eq!(clipped(&IntervalStats { packets_out: 1280.0, ..flow(0.9) })[7], 3.2);
    }

    #[test]
    fn a_longer_path_stops_looking_like_a_queue() {
        let mut watch = observation(json!({"min_rtt_window_s": 10.0})).unwrap().0.watch;
        let mut latency_ratio = |time_s: f64, rtt: f64| {
            let stats = IntervalStats { time_s, rtt_mean_s: rtt, rtt_min_s: rtt, srtt_s: rtt, ..flow(0.9) };
            let mut out = [0.0; 10];
            watch.fill(&IntervalStats { min_rtt_s: 0.03, ..stats }, &mut out);
            out[1]
        };
        assert_eq!(latency_ratio(1.0, 0.03), 1.0);
        assert_eq!(latency_ratio(5.0, 0.06), 2.0);
        assert_eq!(latency_ratio(16.0, 0.06), 1.0);
    }

    #[test]
    fn a_gap_clears_the_windows() {
        let mut watch =
            observation(json!({"min_rtt_window_s": 10.0, "max_rate_window_s": 10.0, "gap_s": 0.03})).unwrap().0.watch;
        let mut out = [0.0; 10];
        watch.fill(&IntervalStats { time_s: 1.0, rtt_min_s: 0.04, ..flow(0.9) }, &mut out);
        let after = IntervalStats { time_s: 1.1, rtt_min_s: 0.08, rtt_mean_s: 0.088, ack_gap_s: 0.05, ..flow(0.45) };
        watch.fill(&after, &mut out);
        assert!((out[1] - 1.1).abs() < 1e-9 && (out[0] - 1.0).abs() < 1e-9, "{out:?}");
    }

    #[test]
    fn handovers_are_told_as_reported_or_as_they_are() {
        let stats = IntervalStats {
            handover_in_s: 1.0,
            handover_since_s: f64::INFINITY,
            reported_handover_in_s: f64::INFINITY,
            reported_handover_since_s: 3.0,
            ..flow(0.9)
        };
        let signal = |handovers: &str| {
            let mut out = [0.0; 12];
            observation(json!({ "handovers": handovers })).unwrap().0.watch.fill(&stats, &mut out);
            [out[10], out[11]]
        };
        assert_eq!((signal("reported"), signal("true")), ([0.0, 0.25], [0.5, 0.0]));
    }
}
