//! Astraea's observation, action and reward (Liao et al., EuroSys 2024, and its released inference code).
//!
//! The observation is ten features of the last interval, stacked over five intervals, oldest first, zeros at first.
//! Rates inside the features are bytes per second, times seconds.

use crate::cc::agent::CWND_MIN;

use super::pieces::{Action, Feature, Observation, Payment, Reward, ratio};
use super::stats::IntervalStats;

pub(super) const HISTORY: usize = 5;
pub const STATE_DIM: usize = 12;

pub(super) const FEATURES: [Feature; 10] = [
    ratio("throughput / max throughput", 0.0, 1.0),
    ratio("mean RTT / min RTT", 0.0, 2.0),
    ratio("smoothed RTT / min RTT", 0.0, 2.0),
    ratio("0.8 x window / BDP", 0.0, 2.0),
    ratio("max throughput / 10 MB/s", 0.0, 10.0),
    ratio("min RTT / 0.5 s", 0.0, 4.0),
    ratio("loss rate / max throughput", 0.0, 2.0),
    ratio("packets out / window", 0.0, 2.0),
    ratio("pacing rate / max throughput", 0.0, 2.0),
    ratio("retransmissions out / window", 0.0, 2.0),
];

pub static OBSERVATION: Observation =
    Observation { name: "astraea", features: &FEATURES, history: HISTORY, fill: |stats, _, out| features(stats, out) };

pub static ACTION: Action = Action {
    name: "astraea",
    meaning: "a >= 0: cwnd = ceil(cwnd (1 + 0.025 a)); a < 0: floor(cwnd / (1 - 0.025 a))",
    over: "none",
    apply: |conn, action| (act(conn.cwnd, action), None),
};

pub static REWARD: Reward =
    Reward { name: "astraea", low: -REWARD_BOUND, high: REWARD_BOUND, payment: Payment::Shared(reward) };

/// Bytes per packet in the window feature.
const PACKET_BYTES: f64 = 1460.0;

pub(super) fn features(s: &IntervalStats, out: &mut [f64]) {
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

/// Recent throughputs of one flow, for the fairness and stability terms: bytes per second, newest last.
#[derive(Clone, Debug, Default)]
pub struct History {
    throughputs: [f64; HISTORY],
    filled: usize,
}

impl History {
    pub fn push(&mut self, stats: &IntervalStats) {
        self.throughputs.rotate_left(1);
        self.throughputs[HISTORY - 1] = stats.delivery_rate_bps / 8.0;
        self.filled = (self.filled + 1).min(HISTORY);
    }

    fn recent(&self) -> &[f64] {
        &self.throughputs[HISTORY - self.filled..]
    }

    fn mean(&self) -> f64 {
        let recent = self.recent();
        if recent.is_empty() { 0.0 } else { recent.iter().sum::<f64>() / recent.len() as f64 }
    }

    fn relative_deviation(&self) -> f64 {
        let mean = self.mean();
        if mean <= 0.0 {
            return 0.0;
        }
        let recent = self.recent();
        let variance = recent.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / recent.len() as f64;
        libm::sqrt(variance) / mean
    }
}

/// Window change per decision at full action.
const ALPHA: f64 = 0.025;

/// The next window, segments: at most +-2.5 %, at least one segment's change, never below four.
pub fn act(cwnd: u32, action: f64) -> u32 {
    let cwnd = f64::from(cwnd);
    let next = if action >= 0.0 {
        libm::ceil(cwnd * (1.0 + ALPHA * action))
    } else {
        libm::floor(cwnd / (1.0 - ALPHA * action))
    };
    (next as u32).max(CWND_MIN)
}

/// Weights of the reward's terms: throughput, latency, loss, fairness, stability.
const WEIGHTS: [f64; 5] = [0.1, 0.02, 1.0, 0.02, 0.01];
/// Queueing below 15 % of the base RTT is free.
const FREE_INFLATION: f64 = 1.15;
const REWARD_BOUND: f64 = 0.1;

/// One flow's part in the global reward.
pub struct Member<'a> {
    pub stats: &'a IntervalStats,
    pub history: &'a History,
}

/// The global reward, one for all flows. `utilisation` is the mean over bottleneck links of delivered payload over
/// payload capacity. The latency term has the dimensionless form of the authors' earlier code: excess over the free
/// inflation in one-way delays, weighted by total pacing over capacity and divided by the root of the flow count.
pub fn reward(members: &[Member], utilisation: f64) -> f64 {
    let n = members.len() as f64;
    if members.is_empty() {
        return 0.0;
    }
    let mean = |f: &dyn Fn(&Member) -> f64| members.iter().map(f).sum::<f64>() / n;
    let throughput = utilisation.min(1.0);
    let excess = mean(&|m| {
        let (rtt, base) = (m.stats.rtt_mean_s, m.stats.base_rtt_s);
        if rtt.is_nan() || base <= 0.0 { 0.0 } else { (rtt - FREE_INFLATION * base).max(0.0) / (base / 2.0) }
    });
    let load = mean(&|m| {
        // Controllers that do not pace count with what they sent.
        let rate = if m.stats.pacing_rate_bps > 0.0 { m.stats.pacing_rate_bps } else { m.stats.send_rate_bps };
        if m.stats.capacity_bps > 0.0 { rate / m.stats.capacity_bps } else { 0.0 }
    }) * n;
    let latency = excess * load / libm::sqrt(n);
    let loss = mean(&|m| {
        let lost = if m.stats.interval_s > 0.0 { m.stats.lost_bytes / m.stats.interval_s } else { 0.0 };
        // A thousandth of the capacity keeps the ratio finite for a stalled flow.
        let floor = (m.stats.capacity_bps / 8e3).max(1.0);
        lost / (m.stats.delivery_rate_bps / 8.0).max(floor)
    })
    .min(1.0);
    let total: f64 = members.iter().map(|m| m.history.mean()).sum();
    let fairness = if total > 0.0 {
        let centre = total / n;
        let variance = mean(&|m| (m.history.mean() - centre) * (m.history.mean() - centre));
        libm::sqrt(variance) / total
    } else {
        0.0
    };
    let stability = mean(&|m| m.history.relative_deviation());
    let terms = [throughput, -latency, -loss, -fairness, -stability];
    let sum: f64 = WEIGHTS.iter().zip(terms).map(|(w, t)| w * t).sum();
    sum.clamp(-REWARD_BOUND, REWARD_BOUND)
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
        let mut observer = Observer::new(&OBSERVATION);
        observer.push(stats);
        observer.observation()[(HISTORY - 1) * FEATURES.len()..].to_vec()
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
    fn special_cases_are_finite() {
        let mut s = steady(0.0);
        s.rtt_mean_s = f64::NAN;
        let f = clipped(&s);
        assert_eq!((f[0], f[1]), (0.5, 2.0));
        s.max_delivery_rate_bps = 0.0;
        s.min_rtt_s = 0.0;
        assert_eq!(clipped(&s)[..4], [0.0; 4]);
    }

    #[test]
    fn action_vectors() {
        assert_eq!(act(100, 1.0), 103);
        assert_eq!(act(100, -1.0), 97);
        assert_eq!(act(10, 0.1), 11);
        assert_eq!(act(100, 0.0), 100);
        assert_eq!(act(4, -1.0), 4);
    }

    fn reward_of(shares: &[f64]) -> f64 {
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
        reward(&members, shares.iter().sum())
    }

    #[test]
    fn reward_grows_with_throughput_and_fairness_and_is_bounded() {
        assert!(reward_of(&[0.9]) > reward_of(&[0.5]));
        assert!(reward_of(&[0.5, 0.5]) > reward_of(&[0.9, 0.1]));
        assert_eq!(reward(&[], 0.0), 0.0);
        let mut bad = steady(0.0);
        bad.rtt_mean_s = 5.0;
        bad.lost_bytes = 1e9;
        let history = History::default();
        assert_eq!(reward(&[Member { stats: &bad, history: &history }], 0.0), -REWARD_BOUND);
    }
}
