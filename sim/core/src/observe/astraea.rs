//! Astraea's observation, reward and global state (Liao et al., EuroSys 2024, and its released inference code).
//!
//! The observation is ten features of the last interval, stacked over five intervals, oldest first, zeros at first.
//! Rates inside the features are bytes per second, times seconds. As published, minimum RTT and maximum throughput are
//! those of a flow's whole life: a longer path then looks like a queue for ever, the cause of Astraea's low utilisation
//! on LEO paths. Parameters give them windows, and add news of handovers (what is reported half a second ahead, or the
//! truth). Ten seconds (our choice) are less than a slot of Starlink (15 s) and more than any RTT.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::memory::{GapDetector, WindowedMax, WindowedMin, nearness};
use super::pieces::{Feature, Observation, Payment, Reward, Watch, one_of, ratio, read, within};
use super::stats::IntervalStats;

/// Intervals over which fairness and stability are averaged, and that an observation holds, as published.
pub const HISTORY: usize = 5;
pub const STATE_DIM: usize = 12;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sight {
    /// Intervals stacked.
    history: usize,
    /// Seconds; 0: the flow's life.
    min_rtt_window_s: f64,
    max_rate_window_s: f64,
    /// An interruption of the acknowledgements of this length clears both windows; 0: never.
    gap_s: f64,
    /// News of handovers: none, reported, true.
    handovers: String,
    /// How RTTs over the minimum are seen: ratio (published); log-queue, which resolves small queues ([`log_queue`]);
    /// log-queue-ms, in which flows of different base RTTs see the same of the queue they share ([`log_queue_ms`]).
    rtt: String,
    /// How the path's own two figures are seen, its maximum throughput and minimum RTT: linear (published); log, which
    /// tells 5 from 6 Mbit/s as well as 100 from 120; log-rate, which leaves the minimum RTT out, and the window over
    /// the BDP with it.
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

pub(super) fn observation(given: Value) -> Result<(Observation, Value), String> {
    let (sight, all): (Sight, _) = read(given)?;
    within("history", sight.history as f64, 1.0, 64.0)?;
    within("min_rtt_window_s", sight.min_rtt_window_s, 0.0, 1e4)?;
    within("max_rate_window_s", sight.max_rate_window_s, 0.0, 1e4)?;
    within("gap_s", sight.gap_s, 0.0, 100.0)?;
    one_of("handovers", &sight.handovers, &["none", "reported", "true"])?;
    one_of("rtt", &sight.rtt, &["ratio", "log-queue", "log-queue-ms"])?;
    one_of("path", &sight.path, &["linear", "log", "log-rate"])?;
    let min_rtt = if sight.min_rtt_window_s > 0.0 {
        format!("min RTT of {} s", sight.min_rtt_window_s)
    } else {
        "min RTT".to_owned()
    };
    let max = if sight.max_rate_window_s > 0.0 {
        format!("max throughput of {} s", sight.max_rate_window_s)
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
            if min_rtt == "min RTT" { "0.8 x window / BDP".into() } else { format!("0.8 x window / BDP, {min_rtt}") },
            0.0,
            2.0,
        ),
        path_rate,
        path_rtt,
        ratio(format!("loss rate / {max}"), 0.0, 2.0),
        ratio("packets out / window", 0.0, 2.0),
        ratio(format!("pacing rate / {max}"), 0.0, 2.0),
        ratio("retransmissions out / window", 0.0, 2.0),
    ];
    let seen: &[usize] = if sight.path == "log-rate" { &SEEN_BY_RATE } else { &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] };
    let mut features: Vec<Feature> = seen.iter().map(|&feature| all_features[feature].clone()).collect();
    features.extend(handover_features(&sight.handovers));
    let watch = AstraeaWatch {
        min_rtt: (sight.min_rtt_window_s > 0.0).then(|| WindowedMin::new(sight.min_rtt_window_s)),
        max_rate: (sight.max_rate_window_s > 0.0).then(|| WindowedMax::new(sight.max_rate_window_s)),
        gaps: GapDetector::new(sight.gap_s),
        handovers: sight.handovers,
        rtt: sight.rtt,
        log_path,
        seen,
    };
    Ok((Observation { definition: Default::default(), features, history: sight.history, watch: Box::new(watch) }, all))
}

/// The features that do not tell flows of different base RTTs apart.
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
        [ratio(format!("{max} / 10 MB/s"), 0.0, 10.0), ratio(format!("{min_rtt} / 0.5 s"), 0.0, 4.0)]
    }
}

/// What of the RTT a queue makes is doubled at 1 / `QUEUE_GAIN` of the minimum RTT in [`log_queue`]. Our choice.
const QUEUE_GAIN: f64 = 50.0;

/// RTT over the minimum RTT, so that queues far below the minimum RTT differ as much as long ones: flows that share a
/// link must tell 2 % from 4 %. 0 without a queue, 3.93 with one of the minimum RTT.
fn log_queue(ratio: f64) -> f64 {
    (QUEUE_GAIN * (ratio - 1.0).max(0.0)).ln_1p()
}

/// About a packet's time on 120 Mbit/s: shorter queues are hardly told apart by [`log_queue_ms`]. Our choice.
const QUEUE_MS: f64 = 0.1;

/// The same of the queue itself: 0 without one, 4.62 at 10 ms, whatever the minimum RTT.
fn log_queue_ms(ratio: f64, min_rtt_s: f64) -> f64 {
    ((ratio - 1.0).max(0.0) * min_rtt_s / 1e-3 / QUEUE_MS).ln_1p()
}

/// The two features that news of handovers make.
pub(super) fn handover_features(handovers: &str) -> Vec<Feature> {
    let (next, last) = match handovers {
        "reported" => ("to the reported handover", "since the reported handover"),
        "true" => ("to the next handover", "since the last handover"),
        _ => return Vec::new(),
    };
    [next, last].map(|what| ratio(format!("1 / (1 s + time {what})"), 0.0, 1.0)).into()
}

/// Their values.
pub(super) fn fill_handovers(handovers: &str, stats: &IntervalStats, out: &mut [f64]) {
    match handovers {
        "reported" => {
            out[0] = nearness(stats.reported_handover_in_s);
            out[1] = nearness(stats.reported_handover_since_s);
        }
        "true" => {
            out[0] = nearness(stats.handover_in_s);
            out[1] = nearness(stats.handover_since_s);
        }
        _ => {}
    }
}

#[derive(Clone)]
struct AstraeaWatch {
    min_rtt: Option<WindowedMin>,
    max_rate: Option<WindowedMax>,
    gaps: GapDetector,
    handovers: String,
    rtt: String,
    log_path: bool,
    /// Which of the ten features, in order.
    seen: &'static [usize],
}

impl Watch for AstraeaWatch {
    fn fill(&mut self, stats: &IntervalStats, out: &mut [f64]) {
        let mut seen = *stats;
        if self.gaps.notices(stats) {
            self.min_rtt.iter_mut().for_each(WindowedMin::forget);
            self.max_rate.iter_mut().for_each(WindowedMax::forget);
        }
        // A window without a sample: the life's extreme is the best guess there is.
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
            all[5] = (seen.min_rtt_s / 1e-3).ln_1p();
        }
        for (out, feature) in out.iter_mut().zip(self.seen) {
            *out = all[*feature];
        }
        fill_handovers(&self.handovers, stats, &mut out[self.seen.len()..]);
    }

    fn clone_box(&self) -> Box<dyn Watch> {
        Box::new(self.clone())
    }
}

/// Bytes per packet in the window feature.
const PACKET_BYTES: f64 = 1460.0;

fn features(s: &IntervalStats, out: &mut [f64]) {
    let throughput = s.delivery_rate_bps / 8.0;
    let max = s.max_delivery_rate_bps / 8.0;
    let min_rtt = s.min_rtt_s;
    let over_max = |x: f64| if max > 0.0 { x / max } else { 0.0 };
    let over_rtt = |x: f64| {
        if min_rtt <= 0.0 {
            0.0
        } else if x.is_nan() || x <= 0.0 {
            2.0
        } else {
            x / min_rtt
        }
    };
    let window = if min_rtt > 0.0 { over_max(s.cwnd_packets * PACKET_BYTES * 8.0 / min_rtt / 10.0) } else { 0.0 };
    let cwnd = s.cwnd_packets.max(1.0);
    out.copy_from_slice(&[
        if max <= 0.0 {
            0.0
        } else if throughput <= 0.0 {
            0.5
        } else {
            throughput / max
        },
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

/// Recent throughputs of one flow, for the fairness and stability terms: bytes per second.
#[derive(Clone, Debug)]
pub struct History {
    throughputs: Vec<f64>,
    next: usize,
    filled: usize,
}

impl Default for History {
    fn default() -> History {
        History::new(HISTORY)
    }
}

impl History {
    /// Of the last `length` intervals.
    pub fn new(length: usize) -> History {
        History { throughputs: vec![0.0; length], next: 0, filled: 0 }
    }

    pub fn push(&mut self, stats: &IntervalStats) {
        self.throughputs[self.next] = stats.delivery_rate_bps / 8.0;
        self.next = (self.next + 1) % self.throughputs.len();
        self.filled = (self.filled + 1).min(self.throughputs.len());
    }

    /// Oldest first.
    fn recent(&self) -> impl Iterator<Item = f64> {
        let length = self.throughputs.len();
        (0..self.filled).map(move |k| self.throughputs[(self.next + length - self.filled + k) % length])
    }

    fn mean(&self) -> f64 {
        if self.filled == 0 { 0.0 } else { self.recent().sum::<f64>() / self.filled as f64 }
    }

    fn relative_deviation(&self) -> f64 {
        let mean = self.mean();
        if mean <= 0.0 {
            return 0.0;
        }
        let variance = self.recent().map(|x| (x - mean) * (x - mean)).sum::<f64>() / self.filled as f64;
        libm::sqrt(variance) / mean
    }
}

/// Weights of the reward's terms and what they forgive; the published values.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Terms {
    throughput: f64,
    latency: f64,
    /// What queueing that is not free is a share of: half of the flow's `base-rtt`, as published, or `25-ms`, the same
    /// where that is 50 ms, by which flows of different base RTTs that share a queue want it equally long.
    latency_of: String,
    loss: f64,
    fairness: f64,
    /// What the deviation of throughputs is a share of: their `sum`, as published, or their `mean`, by which a crowd's
    /// unfairness costs as much as a pair's.
    fairness_of: String,
    stability: f64,
    /// Queueing up to this multiple of the base RTT is free.
    free_inflation: f64,
    /// And so is a queue of this many milliseconds.
    free_queue_ms: f64,
    /// The sum is clipped to these.
    floor: f64,
    ceiling: f64,
    /// What lost bytes are a share of: `delivered` ones of the flow, or what the link's `capacity` could have carried.
    loss_of: String,
    /// Intervals over which throughput is averaged for fairness and stability.
    memory: usize,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            throughput: 0.1,
            latency: 0.02,
            latency_of: "base-rtt".into(),
            loss: 1.0,
            fairness: 0.02,
            fairness_of: "sum".into(),
            stability: 0.01,
            free_inflation: 1.15,
            free_queue_ms: 0.0,
            floor: -0.1,
            ceiling: 0.1,
            loss_of: "delivered".into(),
            memory: HISTORY,
        }
    }
}

pub(super) fn reward(given: Value) -> Result<(Reward, Value), String> {
    let (terms, all): (Terms, _) = read(given)?;
    for (field, weight) in [
        ("throughput", terms.throughput),
        ("latency", terms.latency),
        ("loss", terms.loss),
        ("fairness", terms.fairness),
        ("stability", terms.stability),
    ] {
        within(field, weight, 0.0, 1e3)?;
    }
    within("free_inflation", terms.free_inflation, 1.0, 100.0)?;
    within("free_queue_ms", terms.free_queue_ms, 0.0, 1e4)?;
    within("floor", terms.floor, -1e6, 0.0)?;
    within("ceiling", terms.ceiling, 1e-6, 1e6)?;
    within("memory", terms.memory as f64, 1.0, 1e3)?;
    one_of("latency_of", &terms.latency_of, &["base-rtt", "25-ms"])?;
    one_of("fairness_of", &terms.fairness_of, &["sum", "mean"])?;
    one_of("loss_of", &terms.loss_of, &["delivered", "capacity"])?;
    let (low, high, memory) = (terms.floor, terms.ceiling, terms.memory);
    let payment = Payment::Shared(Arc::new(move |members, utilisation| terms.pay(members, utilisation)));
    Ok((Reward { definition: Default::default(), low, high, memory, payment }, all))
}

/// One flow's part in the global reward.
pub struct Member<'a> {
    pub stats: &'a IntervalStats,
    pub history: &'a History,
}

impl Terms {
    /// The global reward, one for all flows. `utilisation` is the mean over bottleneck links of delivered payload over
    /// payload capacity. The latency term has the dimensionless form of the authors' earlier code: excess over the free
    /// inflation in one-way delays, weighted by total pacing over capacity and divided by the root of the flow count.
    fn pay(&self, members: &[Member], utilisation: f64) -> f64 {
        let n = members.len() as f64;
        if members.is_empty() {
            return 0.0;
        }
        let mean = |f: &dyn Fn(&Member) -> f64| members.iter().map(f).sum::<f64>() / n;
        let throughput = utilisation.min(1.0);
        let fixed_unit = self.latency_of == "25-ms";
        let excess = mean(&|m| {
            let (rtt, base) = (m.stats.rtt_mean_s, m.stats.base_rtt_s);
            let free = (self.free_inflation * base).max(base + self.free_queue_ms / 1e3);
            let unit = if fixed_unit { 0.025 } else { base / 2.0 };
            if rtt.is_nan() || base <= 0.0 { 0.0 } else { (rtt - free).max(0.0) / unit }
        });
        let load = mean(&|m| {
            // Controllers that do not pace count with what they sent.
            let rate = if m.stats.pacing_rate_bps > 0.0 { m.stats.pacing_rate_bps } else { m.stats.send_rate_bps };
            if m.stats.capacity_bps > 0.0 { rate / m.stats.capacity_bps } else { 0.0 }
        }) * n;
        let latency = excess * load / libm::sqrt(n);
        let of_capacity = self.loss_of == "capacity";
        let loss = mean(&|m| {
            let lost = if m.stats.interval_s > 0.0 { m.stats.lost_bytes / m.stats.interval_s } else { 0.0 };
            let capacity = m.stats.capacity_bps / 8.0;
            // A thousandth of the capacity keeps the ratio finite for a stalled flow.
            let floor = (capacity / 1e3).max(1.0);
            lost / if of_capacity { capacity.max(1.0) } else { (m.stats.delivery_rate_bps / 8.0).max(floor) }
        })
        .min(1.0);
        let total: f64 = members.iter().map(|m| m.history.mean()).sum();
        let fairness = if total > 0.0 {
            let centre = total / n;
            let variance = mean(&|m| (m.history.mean() - centre) * (m.history.mean() - centre));
            libm::sqrt(variance) / if self.fairness_of == "mean" { centre } else { total }
        } else {
            0.0
        };
        let stability = mean(&|m| m.history.relative_deviation());
        let sum = self.throughput * throughput
            - self.latency * latency
            - self.loss * loss
            - self.fairness * fairness
            - self.stability * stability;
        sum.clamp(self.floor, self.ceiling)
    }
}

/// The critic's global state over the flows alive now (twelve values).
pub fn global_state(members: &[Member]) -> [f32; STATE_DIM] {
    if members.is_empty() {
        return [0.0; STATE_DIM];
    }
    let n = members.len() as f64;
    let fold = |f: &dyn Fn(&Member) -> f64| {
        let mut acc = (0.0, f64::INFINITY, f64::NEG_INFINITY);
        for m in members {
            let x = f(m);
            acc = (acc.0 + x, acc.1.min(x), acc.2.max(x));
        }
        acc
    };
    let throughput = fold(&|m| m.stats.delivery_rate_bps / 8.0 / 5e7);
    let rtt = fold(&|m| if m.stats.rtt_mean_s.is_nan() { m.stats.srtt_s } else { m.stats.rtt_mean_s } * 1e6 / 5e5);
    let cwnd = fold(&|m| m.stats.cwnd_packets / 1000.0);
    let loss = fold(&|m| {
        if m.stats.interval_s > 0.0 { m.stats.lost_bytes / m.stats.interval_s / 1e6 } else { 0.0 }
    });
    let base = fold(&|m| m.stats.base_rtt_s).0 / n;
    let capacity = fold(&|m| m.stats.capacity_bps).1;
    let buffer = fold(&|m| m.stats.buffer_bytes).1;
    let bdp = capacity / 8.0 * base;
    let buffer_bdp = if bdp > 0.0 && buffer.is_finite() { buffer / bdp } else { 0.0 };
    [
        throughput.0,
        throughput.1,
        throughput.2,
        rtt.0 / n,
        cwnd.1,
        cwnd.2,
        cwnd.0 / n,
        loss.0 / n,
        n / 10.0,
        base / 2.0 * 1e3 / 500.0,
        buffer_bdp / 10.0,
        if capacity.is_finite() { capacity / 5e8 } else { 0.0 },
    ]
    .map(|x| x as f32)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::pieces::Observer;
    use super::*;

    fn steady(goodput_share: f64) -> IntervalStats {
        IntervalStats {
            interval_s: 0.03,
            active: 1.0,
            delivery_rate_bps: 100e6 * goodput_share,
            max_delivery_rate_bps: 100e6,
            rtt_mean_s: 0.055,
            srtt_s: 0.054,
            min_rtt_s: 0.05,
            cwnd_packets: 400.0,
            packets_out: 390.0,
            pacing_rate_bps: 90e6,
            base_rtt_s: 0.05,
            capacity_bps: 100e6,
            buffer_bytes: 625_000.0,
            ..IntervalStats::default()
        }
    }

    fn clipped(stats: &IntervalStats) -> Vec<f32> {
        let mut observer = Observer::new(Arc::new(observation(json!({})).unwrap().0));
        observer.push(stats);
        observer.observation()[(HISTORY - 1) * 10..].to_vec()
    }

    #[test]
    fn features_follow_their_formulas() {
        let f = clipped(&steady(0.9));
        let expected = [0.9, 1.1, 1.08, 0.8 * 400.0 * 1460.0 / 625_000.0, 1.25, 0.1, 0.0, 0.975, 0.9, 0.0];
        for (got, want) in f.iter().zip(expected) {
            assert!((got - want as f32).abs() < 1e-5, "{f:?}");
        }
    }

    #[test]
    fn small_queues_differ_as_much_as_long_ones_on_a_logarithmic_scale() {
        let seen = |rtt_s: f64| {
            let mut observer = Observer::new(Arc::new(observation(json!({"rtt": "log-queue"})).unwrap().0));
            observer.push(&IntervalStats { rtt_mean_s: rtt_s, ..steady(0.9) });
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
            observer.push(&IntervalStats { min_rtt_s, rtt_mean_s: rtt_s, srtt_s: rtt_s, ..steady(0.9) });
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
        observer.push(&steady(0.9));
        let seen = &observer.observation()[(HISTORY - 1) * 10..];
        // ln(1 + 100 Mbit/s) and ln(1 + 50 ms); the others as they were.
        assert!((seen[4] - 4.615_121).abs() < 1e-5 && (seen[5] - 3.931_826).abs() < 1e-5, "{seen:?}");
        assert_eq!((&seen[..4], &seen[6..]), (&clipped(&steady(0.9))[..4], &clipped(&steady(0.9))[6..]));
    }

    #[test]
    fn who_sees_only_the_rate_sees_nothing_of_the_base_rtt() {
        let piece = |path| observation(json!({"path": path, "rtt": "log-queue-ms", "handovers": "true"})).unwrap().0;
        let seen = |path, min_rtt_s: f64| {
            let mut observer = Observer::new(Arc::new(piece(path)));
            let rtt_s = min_rtt_s + 0.01;
            observer.push(&IntervalStats { min_rtt_s, rtt_mean_s: rtt_s, srtt_s: rtt_s, ..steady(0.9) });
            observer.observation().to_vec()
        };
        assert_eq!(piece("log-rate").dim(), HISTORY * 10);
        let (short, long) = (seen("log-rate", 0.02), seen("log-rate", 0.2));
        assert!(short.iter().zip(&long).all(|(a, b)| (a - b).abs() < 1e-5), "{short:?} {long:?}");
        let all = &seen("log", 0.02)[(HISTORY - 1) * 12..];
        let kept: Vec<f32> = all[..3].iter().chain(&all[4..5]).chain(&all[6..]).copied().collect();
        assert_eq!(short[(HISTORY - 1) * 10..], kept);
    }

    #[test]
    fn special_cases_are_finite() {
        let mut s = steady(0.0);
        s.rtt_mean_s = f64::NAN;
        let f = clipped(&s);
        assert_eq!((f[0], f[1]), (0.5, 2.0));
        s.max_delivery_rate_bps = 0.0;
        s.min_rtt_s = 0.0;
        assert_eq!(clipped(&s)[..4], [0.0; 4]);
    }

    fn reward_of(shares: &[f64]) -> f64 {
        reward_of_terms(&Terms::default(), shares)
    }

    fn reward_of_terms(terms: &Terms, shares: &[f64]) -> f64 {
        let stats: Vec<_> = shares.iter().map(|s| steady(*s)).collect();
        let histories: Vec<_> = stats
            .iter()
            .map(|s| {
                let mut h = History::default();
                (0..5).for_each(|_| h.push(s));
                h
            })
            .collect();
        let members: Vec<_> = stats.iter().zip(&histories).map(|(stats, history)| Member { stats, history }).collect();
        terms.pay(&members, shares.iter().sum())
    }

    #[test]
    fn reward_grows_with_throughput_and_fairness_and_is_bounded() {
        assert!(reward_of(&[0.9]) > reward_of(&[0.5]));
        assert!(reward_of(&[0.5, 0.5]) > reward_of(&[0.9, 0.1]));
        let of_mean = Terms { fairness_of: "mean".into(), fairness: 0.01, ..Terms::default() };
        assert!((reward_of_terms(&of_mean, &[0.9, 0.1]) - reward_of(&[0.9, 0.1])).abs() < 1e-12, "two of them: half");
        assert_eq!(Terms::default().pay(&[], 0.0), 0.0);
        let mut bad = steady(0.0);
        bad.rtt_mean_s = 5.0;
        bad.lost_bytes = 1e9;
        let history = History::default();
        assert_eq!(Terms::default().pay(&[Member { stats: &bad, history: &history }], 0.0), -0.1);
        let queue = |base_rtt_s: f64, free_queue_ms: f64, latency_of: &str| {
            let stats = IntervalStats { rtt_mean_s: base_rtt_s + 0.02, base_rtt_s, ..steady(0.9) };
            let latency_of = latency_of.into();
            let terms = Terms { free_inflation: 1.0, free_queue_ms, latency_of, ..Terms::default() };
            terms.pay(&[Member { stats: &stats, history: &history }], 0.9)
        };
        // 20 ms of queue, 10 of them free: 10 ms in one-way delays of 25 ms, at 90 % of the link and a weight of 0.02.
        for (base_rtt_s, latency_of, delays) in
            [(0.05, "base-rtt", 0.4), (0.1, "base-rtt", 0.2), (0.05, "25-ms", 0.4), (0.1, "25-ms", 0.4)]
        {
            let cost = queue(base_rtt_s, 20.0, latency_of) - queue(base_rtt_s, 10.0, latency_of);
            assert!((cost - 0.02 * delays * 0.9).abs() < 1e-9, "{latency_of} at {base_rtt_s} s: {cost}");
        }
        let deep = Terms { floor: -0.5, ..Terms::default() };
        assert_eq!(deep.pay(&[Member { stats: &bad, history: &history }], 0.0), -0.5);
    }

    #[test]
    fn a_longer_path_stops_looking_like_a_queue() {
        let mut watch = observation(json!({"min_rtt_window_s": 10.0})).unwrap().0.watch;
        let mut latency_ratio = |time_s: f64, rtt: f64| {
            let stats = IntervalStats { time_s, rtt_mean_s: rtt, rtt_min_s: rtt, srtt_s: rtt, ..steady(0.9) };
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
        watch.fill(&IntervalStats { time_s: 1.0, rtt_min_s: 0.04, ..steady(0.9) }, &mut out);
        let after = IntervalStats { time_s: 1.1, rtt_min_s: 0.08, rtt_mean_s: 0.088, ack_gap_s: 0.05, ..steady(0.45) };
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
            ..steady(0.9)
        };
        let signal = |handovers: &str| {
            let mut out = [0.0; 12];
            observation(json!({ "handovers": handovers })).unwrap().0.watch.fill(&stats, &mut out);
            [out[10], out[11]]
        };
        assert_eq!((signal("reported"), signal("true")), ([0.0, 0.25], [0.5, 0.0]));
    }
}
