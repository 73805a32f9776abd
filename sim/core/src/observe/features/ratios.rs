//! Logarithms of ratios: an observation for paths with varying delay and rate, with windows that are cleared after an
//! outage of the path (ours).
//!
//! With logarithms, a doubling has the same weight at every rate and RTT, so that one small network works at 1 Mbit/s
//! and at 500 Mbit/s. Minimum RTT and maximum rate are taken over a window. A pause of the acknowledgements that is
//! much longer than usual clears both windows: a handover interrupts a path for 45-120 ms and may change its delay
//! (Mazilu et al.; Starlink's slots of 15 s), so that old extremes are no longer valid. Averages are over RTTs, so that
//! they have the same meaning at 10 and 600 ms.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::functions::{Feature, Observation, Watch, one_of, ratio, read, within};
use super::handovers::{fill_news, news_features};
use super::memory::{GapDetector, WindowedMax, WindowedMin, nearness, weight};
use super::stats::IntervalStats;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sight {
    history: usize,
    min_rtt_window_s: f64,
    short_window_s: f64,
    max_rate_window_s: f64,
    /// The RTT of an interval: the `mean` of its samples, or the `least`, which jitter on a link hardly affects.
    rtt: String,
    /// Length of the fast and of the slow averages, in RTTs.
    fast_rtts: f64,
    slow_rtts: f64,
    /// A pause of the acknowledgements of at least this length, and three times the usual one, clears the windows; 0:
    /// never.
    gap_s: f64,
    /// Observe the number of the flow's own queued packets, which distinguishes large shares of the link from small
    /// ones.
    own_queue: bool,
    /// Handover signals: none, reported, true.
    handovers: String,
}

impl Default for Sight {
    fn default() -> Sight {
        Sight {
            history: 1,
            min_rtt_window_s: 10.0,
            short_window_s: 1.0,
            max_rate_window_s: 10.0,
            rtt: "mean".into(),
            fast_rtts: 1.0,
            slow_rtts: 4.0,
            gap_s: 0.03,
            own_queue: true,
            handovers: "none".into(),
        }
    }
}

pub(super) fn observation(given: Value) -> Result<(Observation, Value), String> {
    let (sight, all): (Sight, _) = read(given)?;
    within("history", sight.history as f64, 1.0, 64.0)?;
    within("min_rtt_window_s", sight.min_rtt_window_s, 0.0, 1e4)?;
    within("short_window_s", sight.short_window_s, 0.0, 1e4)?;
    within("max_rate_window_s", sight.max_rate_window_s, 0.0, 1e4)?;
    within("fast_rtts", sight.fast_rtts, 0.0, 1e3)?;
    within("slow_rtts", sight.slow_rtts, 0.0, 1e3)?;
    within("gap_s", sight.gap_s, 0.0, 100.0)?;
    one_of("rtt", &sight.rtt, &["mean", "least"])?;
    one_of("handovers", &sight.handovers, &["none", "reported", "true"])?;
    let (min, short, max) = (sight.min_rtt_window_s, sight.short_window_s, sight.max_rate_window_s);
    let [min_rtt, short_rtt] = [min, short].map(|window_s| format!("min RTT of {}", span(window_s)));
    let max_rate = format!("max delivery rate of {}", span(max));
    let [fast, slow, slowest] = [sight.fast_rtts, sight.slow_rtts, 4.0 * sight.slow_rtts].map(average);
    let mut features: Vec<Feature> = vec![
        ratio(format!("ln(RTT / {min_rtt})"), 0.0, 3.0),
        ratio(format!("ln(RTT / {min_rtt}), {fast}"), 0.0, 3.0),
        ratio(format!("ln(RTT / {short_rtt})"), 0.0, 3.0),
        ratio(format!("10 x RTT rise in the interval / min RTT, {fast}"), -3.0, 3.0),
        ratio(format!("ln(acknowledged rate / pacing rate), {fast}"), -3.0, 3.0),
        ratio(format!("ln(delivery rate / {max_rate})"), -3.0, 0.0),
        ratio(format!("ln(delivery rate / {max_rate}), {slow}"), -3.0, 0.0),
        ratio(format!("square root of the share of lost packets, {fast}"), 0.0, 1.0),
        ratio(format!("square root of the share of lost packets, {slowest}"), 0.0, 1.0),
        ratio("ln(1 + own queued packets) / 4", 0.0, 3.0),
        ratio(format!("ln(1 + own queued packets) / 4, {fast}"), 0.0, 3.0),
        ratio("ln(pacing rate / 10 Mbit/s) / 2", -4.0, 4.0),
        ratio(format!("ln({min_rtt} / 50 ms)"), -4.0, 4.0),
        ratio("ln(packets in flight / BDP)", -3.0, 3.0),
        ratio("ln(window / BDP)", -3.0, 3.0),
        ratio("4 x ln(window / previous window)", -3.0, 3.0),
        ratio("1 s / (1 s + time since the windows were cleared)", 0.0, 1.0),
        ratio("longest time without an ACK / min RTT", 0.0, 3.0),
    ];
    features.extend(news_features(&sight.handovers));
    let history = sight.history;
    let watch = RatiosWatch {
        min_rtt: WindowedMin::new(min),
        short_rtt: WindowedMin::new(short),
        max_rate: WindowedMax::new(max),
        gaps: GapDetector::new(sight.gap_s),
        least: sight.rtt == "least",
        averages: [0.0; 7],
        known: false,
        rtt_s: 0.0,
        window: 0.0,
        cleared_at_s: None,
        sight,
    };
    Ok((Observation { definition: Default::default(), features, history, watch: Box::new(watch) }, all))
}

/// A window in words.
fn span(window_s: f64) -> String {
    if window_s > 0.0 { format!("the last {window_s} s") } else { "the connection".into() }
}

/// An average in words.
fn average(rtts: f64) -> String {
    match rtts {
        0.0 => "no average".into(),
        1.0 => "average over 1 RTT".into(),
        _ => format!("average over {rtts} RTTs"),
    }
}

/// Positions of the averages of losses, which a pause does not reset.
pub(super) const LOSS: usize = 4;
pub(super) const LOSS_SLOW: usize = 5;

#[derive(Clone)]
struct RatiosWatch {
    sight: Sight,
    min_rtt: WindowedMin,
    short_rtt: WindowedMin,
    max_rate: WindowedMax,
    gaps: GapDetector,
    /// Whether the RTT of an interval is its smallest sample instead of the mean.
    least: bool,
    /// Inflation, rise, delivered, share of the maximum rate, loss, loss (slow), queue.
    averages: [f64; 7],
    /// Whether the averages have values.
    known: bool,
    rtt_s: f64,
    window: f64,
    cleared_at_s: Option<f64>,
}

/// ln(a / b); 0 if a or b is not positive.
fn log_ratio(a: f64, b: f64) -> f64 {
    if a > 0.0 && b > 0.0 { libm::log(a / b) } else { 0.0 }
}

impl Watch for RatiosWatch {
    fn fill(&mut self, stats: &IntervalStats, out: &mut [f64]) {
        if self.gaps.notices(stats) {
            self.min_rtt.forget();
            self.short_rtt.forget();
            self.max_rate.forget();
            self.cleared_at_s = Some(stats.time_s);
            self.known = false;
        }
        let rate = if stats.delivery_rate_bps > 0.0 { stats.delivery_rate_bps } else { f64::NAN };
        let recent = self.min_rtt.update(stats.time_s, stats.rtt_min_s);
        let short = self.short_rtt.update(stats.time_s, stats.rtt_min_s);
        let max_rate = self.max_rate.update(stats.time_s, rate).unwrap_or(stats.max_delivery_rate_bps);
        let rtt_s = if self.least { stats.rtt_min_s } else { stats.rtt_mean_s };
        if !rtt_s.is_nan() {
            self.rtt_s = rtt_s;
        } else if self.rtt_s <= 0.0 {
            self.rtt_s = stats.srtt_s;
        }
        // No RTT sample since the pause: the last known RTT of the path is the one before.
        let min_rtt = recent.unwrap_or(self.rtt_s);
        let inflation = log_ratio(self.rtt_s, min_rtt);
        let pacing = if stats.pacing_rate_bps > 0.0 { stats.pacing_rate_bps } else { stats.send_rate_bps };
        let known = stats.acked_packets + stats.lost_packets;
        let loss = if known > 0.0 { stats.lost_packets / known } else { 0.0 };
        let queued = if rate > 0.0 { (self.rtt_s - min_rtt).max(0.0) * rate / 8.0 / stats.mss_bytes } else { 0.0 };
        let queue = if self.sight.own_queue { libm::log(1.0 + queued) / 4.0 } else { 0.0 };
        let delivered = if stats.acked_rate_bps > 0.0 { log_ratio(stats.acked_rate_bps, pacing) } else { -3.0 };
        let of_max = if rate > 0.0 { log_ratio(rate, max_rate) } else { -3.0 };
        let rise = if min_rtt > 0.0 { 10.0 * stats.rtt_rise_s / min_rtt } else { 0.0 };
        let fast = weight(stats, min_rtt, self.sight.fast_rtts);
        let slow = weight(stats, min_rtt, self.sight.slow_rtts);
        let slowest = weight(stats, min_rtt, 4.0 * self.sight.slow_rtts);
        let now = [inflation, rise, delivered, of_max, loss, loss, queue];
        let weights = [fast, fast, fast, slow, fast, slowest, fast];
        for (k, (average, (x, w))) in self.averages.iter_mut().zip(now.into_iter().zip(weights)).enumerate() {
            *average = if self.known || k == LOSS || k == LOSS_SLOW { *average + w * (x - *average) } else { x };
        }
        self.known = true;
        let [inflation_avg, rise_avg, delivered_avg, of_max_avg, loss_avg, loss_slow, queue_avg] = self.averages;
        let bdp = max_rate / 8.0 * min_rtt / stats.mss_bytes;
        let changed = log_ratio(stats.cwnd_packets, self.window);
        self.window = stats.cwnd_packets;
        let age_s = stats.time_s - self.cleared_at_s.unwrap_or(f64::NEG_INFINITY);
        out[..18].copy_from_slice(&[
            inflation,
            inflation_avg,
            short.map_or(0.0, |short| log_ratio(self.rtt_s, short)),
            rise_avg,
            delivered_avg,
            of_max,
            of_max_avg,
            libm::sqrt(loss_avg),
            libm::sqrt(loss_slow),
            queue,
            queue_avg,
            log_ratio(pacing, 10e6) / 2.0,
            log_ratio(min_rtt, 0.05),
            log_ratio(stats.in_flight_packets, bdp),
            log_ratio(stats.cwnd_packets, bdp),
            4.0 * changed,
            nearness(age_s),
            if min_rtt > 0.0 { stats.ack_gap_s / min_rtt } else { 0.0 },
        ]);
        fill_news(&self.sight.handovers, stats, &mut out[18..]);
    }

    fn clone_box(&self) -> Box<dyn Watch> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::flow;
    use super::*;
    use serde_json::json;

    fn seen(watch: &mut Box<dyn Watch>, stats: IntervalStats) -> [f64; 18] {
        let mut out = [0.0; 18];
        watch.fill(&stats, &mut out);
        out
    }

    #[test]
    fn features_follow_their_formulas() {
        let mut watch = observation(json!({})).unwrap().0.watch;
        let f = seen(&mut watch, flow(0.9));
        let (rtt, min) = (0.055_f64, 0.051_f64);
        assert!((f[0] - (rtt / min).ln()).abs() < 1e-12 && f[0] == f[1] && f[0] == f[2]);
        assert_eq!((f[4], f[5]), (0.0, 0.0), "90 of 90 Mbit/s paced, and the most that was delivered");
        let queued = (rtt - min) * 90e6 / 8.0 / 1460.0;
        assert!((f[9] - (1.0 + queued).ln() / 4.0).abs() < 1e-12);
        assert!((f[14] - (400.0 / (90e6 / 8.0 * min / 1460.0)).ln()).abs() < 1e-12);
        let later = seen(&mut watch, IntervalStats { time_s: 30.03, cwnd_packets: 500.0, ..flow(0.9) });
        assert!((later[15] - 4.0 * 1.25_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn the_least_rtt_of_an_interval_does_not_see_its_jitter() {
        let shaken = IntervalStats { rtt_mean_s: 0.09, ..flow(0.9) };
        let mut mean = observation(json!({})).unwrap().0.watch;
        let mut least = observation(json!({"rtt": "least"})).unwrap().0.watch;
        assert!((seen(&mut mean, shaken)[0] - (0.09_f64 / shaken.rtt_min_s).ln()).abs() < 1e-12);
        assert_eq!(seen(&mut least, shaken)[0], 0.0);
        assert!(observation(json!({"rtt": "median"})).is_err());
    }

    #[test]
    fn a_gap_makes_a_longer_path_look_empty() {
        let mut watch = observation(json!({})).unwrap().0.watch;
        for k in 0..100 {
            seen(&mut watch, IntervalStats { time_s: 0.03 * f64::from(k), ack_gap_s: 0.001, ..flow(0.9) });
        }
        let longer = IntervalStats { time_s: 3.1, rtt_mean_s: 0.11, rtt_min_s: 0.102, ..flow(0.5) };
        let without = seen(&mut watch.clone(), IntervalStats { ack_gap_s: 0.001, ..longer });
        let with = seen(&mut watch, IntervalStats { ack_gap_s: 0.08, ..longer });
        assert!(without[0] > 0.7 && without[5] < -0.5, "{without:?}");
        assert!(with[0] < 0.1 && with[5] == 0.0 && with[16] == 1.0, "{with:?}");
    }
}
