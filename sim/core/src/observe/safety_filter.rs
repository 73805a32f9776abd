//! A safety filter around a policy: bounds on its decisions, and Cubic outside its training range.
//!
//! The window stays below a multiple of the measured bandwidth-delay product, and the pacing rate above one segment per
//! RTT. When the measured path has been outside the training range for some time, the window follows Cubic's function
//! (RFC 9438, evaluated at every decision) until the path has been inside for the same time.

use serde::{Deserialize, Serialize};

use super::functions::{Control, within};
use super::memory::{GapDetector, WindowedMax, WindowedMin, weight};
use super::stats::IntervalStats;

/// The limits, as stated in a model card.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest window in bandwidth-delay products: the largest delivery rate of ten seconds times the smallest RTT
    /// since the last outage of the path; 0: no limit.
    pub max_bdp: f64,
    /// The training range: smallest RTT and largest delivery rate, both over ten seconds, and the share of lost packets
    /// over about three.
    pub min_rtt_ms: (f64, f64),
    pub max_rate_mbps: f64,
    pub max_loss: f64,
    /// Time outside (or inside) the training range, and at least four RTTs, after which Cubic takes over (or hands
    /// back); 0: never.
    pub patience_s: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_bdp: 4.0, min_rtt_ms: (0.0, 1e6), max_rate_mbps: 1e9, max_loss: 1.0, patience_s: 1.0 }
    }
}

const WINDOW_S: f64 = 10.0;
/// The share of lost packets is an average over so long.
const LOSS_S: f64 = 3.0;
/// Length of a pause of the acknowledgements that counts as an outage of the path.
const GAP_S: f64 = 0.03;
/// Window that is always allowed: the initial window of a connection (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;

impl Limits {
    pub fn validate(&self) -> Result<(), String> {
        within("max_bdp", self.max_bdp, 0.0, 1e3)?;
        within("min_rtt_ms[0]", self.min_rtt_ms.0, 0.0, 1e6)?;
        within("min_rtt_ms[1]", self.min_rtt_ms.1, self.min_rtt_ms.0, 1e6)?;
        within("max_rate_mbps", self.max_rate_mbps, 0.0, 1e9)?;
        within("max_loss", self.max_loss, 0.0, 1.0)?;
        within("patience_s", self.patience_s, 0.0, 1e4)
    }
}

/// The safety filter of one flow.
#[derive(Clone, Debug)]
pub struct SafetyFilter {
    limits: Limits,
    recent_rtt: WindowedMin,
    max_rate: WindowedMax,
    /// Smallest RTT since the last outage: a new path may raise the limit of the window, a standing queue may
    /// not.
    path_rtt: WindowedMin,
    gaps: GapDetector,
    /// Averages over `LOSS_S` of the lost packets of an interval, and of those whose fate became known.
    lost: f64,
    known: f64,
    /// Time since which the path has been outside the training range while the policy decides, or inside while Cubic
    /// does.
    strayed_at_s: Option<f64>,
    fallback: Option<CubicWindow>,
    lost_before: bool,
}

impl SafetyFilter {
    pub fn new(limits: Limits) -> SafetyFilter {
        SafetyFilter {
            limits,
            recent_rtt: WindowedMin::new(WINDOW_S),
            max_rate: WindowedMax::new(WINDOW_S),
            path_rtt: WindowedMin::new(0.0),
            gaps: GapDetector::new(GAP_S),
            lost: 0.0,
            known: 0.0,
            strayed_at_s: None,
            fallback: None,
            lost_before: false,
        }
    }

    /// Choose whether the policy or Cubic decides from now on.
    fn choose(&mut self, stats: &IntervalStats, max_rate: f64, min_rtt: f64) {
        let limits = &self.limits;
        if limits.patience_s == 0.0 {
            return;
        }
        let (low, high) = limits.min_rtt_ms;
        let outside = !(low..=high).contains(&(min_rtt * 1e3))
            || max_rate > limits.max_rate_mbps * 1e6
            || self.lost > limits.max_loss * self.known;
        if outside == self.fallback.is_some() {
            self.strayed_at_s = None;
            return;
        }
        let since = *self.strayed_at_s.get_or_insert(stats.time_s);
        if stats.time_s - since >= limits.patience_s.max(4.0 * min_rtt) {
            self.strayed_at_s = None;
            self.fallback = outside.then(|| CubicWindow::new(stats.cwnd_packets, !self.lost_before));
        }
    }

    /// Whether Cubic decides.
    pub fn has_taken_over(&self) -> bool {
        self.fallback.is_some()
    }

    /// The window and pacing rate for this interval, given the policy's decision; `window` is the exact window of the
    /// last decision.
    pub fn hold(&mut self, stats: &IntervalStats, asked: Control, window: &mut f64) -> Control {
        let rate = if stats.delivery_rate_bps > 0.0 { stats.delivery_rate_bps } else { f64::NAN };
        let max_rate = self.max_rate.update(stats.time_s, rate).unwrap_or(stats.max_delivery_rate_bps);
        if self.gaps.notices(stats) {
            self.path_rtt.forget();
        }
        let min_rtt = self.recent_rtt.update(stats.time_s, stats.rtt_min_s).unwrap_or(stats.min_rtt_s);
        let path_rtt = self.path_rtt.update(stats.time_s, stats.rtt_min_s).unwrap_or(min_rtt);
        if min_rtt <= 0.0 {
            return asked; // nothing has been measured yet
        }
        let weight = weight(stats, LOSS_S, 1.0);
        self.lost += weight * (stats.lost_packets - self.lost);
        self.known += weight * (stats.acked_packets + stats.lost_packets - self.known);
        self.lost_before |= stats.lost_packets > 0.0;
        self.choose(stats, max_rate, min_rtt);
        let (mut cwnd, mut pacing) = asked;
        if let Some(cubic) = &mut self.fallback {
            *window = cubic.step(stats);
            (cwnd, pacing) = (*window as u32, None);
        }
        if self.limits.max_bdp > 0.0 {
            let most = (self.limits.max_bdp * max_rate / 8.0 * path_rtt / stats.mss_bytes).max(FIRST_WINDOW);
            if f64::from(cwnd) > most {
                cwnd = most as u32;
                *window = window.min(most);
                if let Some(cubic) = &mut self.fallback {
                    cubic.cwnd = cubic.cwnd.min(most);
                }
            }
        }
        let least = stats.mss_bytes / stats.latest_rtt_s().max(min_rtt);
        (cwnd.max(1), pacing.map(|rate| rate.max(least as u64)))
    }
}

/// Cubic's window, updated at every decision.
#[derive(Clone, Debug)]
struct CubicWindow {
    cwnd: f64,
    ssthresh: f64,
    w_max: f64,
    /// Estimate of Reno's window (RFC 9438, section 4.3).
    w_est: f64,
    epoch_s: Option<f64>,
    reduced_at_s: f64,
}

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Smallest slow-start threshold, and the window after a timeout (RFC 9438, section 4.8; RFC 5681, section 3.1).
const LEAST_SSTHRESH: f64 = 2.0;
const LOSS_WINDOW: f64 = 1.0;

impl CubicWindow {
    fn new(cwnd: f64, slow_start: bool) -> CubicWindow {
        let ssthresh = if slow_start { f64::INFINITY } else { cwnd };
        CubicWindow { cwnd, ssthresh, w_max: cwnd, w_est: cwnd, epoch_s: None, reduced_at_s: f64::NEG_INFINITY }
    }

    fn step(&mut self, stats: &IntervalStats) -> f64 {
        let now = stats.time_s;
        let rtt = stats.latest_rtt_s();
        if stats.lost_packets > 0.0 && now - self.reduced_at_s > rtt {
            // A flow below its last maximum releases bandwidth to others (fast convergence).
            self.w_max = if self.cwnd < self.w_max { self.cwnd * (1.0 + BETA) / 2.0 } else { self.cwnd };
            self.ssthresh = (self.cwnd * BETA).max(LEAST_SSTHRESH);
            self.cwnd = if stats.rtos > 0.0 { LOSS_WINDOW } else { self.ssthresh };
            self.reduced_at_s = now;
            self.epoch_s = None;
        } else if self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd + stats.acked_packets).min(self.ssthresh);
        } else if stats.acked_packets > 0.0 && self.cwnd > 0.0 {
            if self.epoch_s.is_none() {
                self.epoch_s = Some(now);
                self.w_est = self.cwnd;
                self.w_max = self.w_max.max(self.cwnd);
            }
            let elapsed = now - self.epoch_s.unwrap_or(now);
            let k = libm::cbrt((self.w_max - self.ssthresh.min(self.w_max)) / C);
            let x = elapsed + rtt - k;
            let target = (C * x * x * x + self.w_max).clamp(self.cwnd, 1.5 * self.cwnd);
            let alpha = if self.w_est < self.w_max { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
            self.w_est += alpha * stats.acked_packets / self.cwnd;
            let rounds = stats.acked_packets / self.cwnd;
            self.cwnd = (self.cwnd + (target - self.cwnd) * rounds.min(1.0)).max(self.w_est);
        }
        self.cwnd
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::flow;
    use super::*;

    fn at(time_s: f64) -> IntervalStats {
        IntervalStats { time_s, acked_packets: 200.0, acked_rate_bps: 200.0 * 1460.0 * 8.0 / 0.03, ..flow(0.9) }
    }

    fn inside() -> Limits {
        Limits { min_rtt_ms: (10.0, 250.0), max_rate_mbps: 300.0, max_loss: 0.1, ..Limits::default() }
    }

    fn filter() -> SafetyFilter {
        SafetyFilter::new(inside())
    }

    #[test]
    fn the_window_is_bounded_by_what_was_measured() {
        let bdp = 90e6 / 8.0 * 0.051 / 1460.0;
        let mut window = 1e6;
        assert_eq!(filter().hold(&at(1.0), (1_000_000, None), &mut window).0, (4.0 * bdp) as u32);
        assert!((window - 4.0 * bdp).abs() < 1e-9, "the policy goes on from the bound");
        assert_eq!(filter().hold(&IntervalStats::default(), (77, None), &mut 77.0).0, 77, "nothing is measured yet");
    }

    #[test]
    fn bounds_count_segments_of_the_flow() {
        // 90 Mbit/s over 51 ms are 573,750 bytes: 4 x 64.1 segments of 8,948 bytes. One of them per 55 ms at least.
        let jumbo = IntervalStats { mss_bytes: 8948.0, ..at(1.0) };
        assert_eq!(filter().hold(&jumbo, (1_000_000, Some(0)), &mut 1e6), (256, Some(162_690)));
    }

    #[test]
    fn a_rate_is_one_segment_per_rtt_at_least() {
        let (cwnd, pacing) = filter().hold(&at(1.0), (0, Some(0)), &mut 0.0);
        assert_eq!((cwnd, pacing), (1, Some((1460.0 / 0.055) as u64)));
    }

    #[test]
    fn every_condition_of_the_training_range_counts() {
        let rtt = |rtt_s| IntervalStats { rtt_min_s: rtt_s, rtt_mean_s: rtt_s, min_rtt_s: rtt_s, ..flow(0.9) };
        let rate = |delivery_rate_bps| IntervalStats { delivery_rate_bps, ..flow(0.9) };
        let loss = |lost_packets: f64| IntervalStats {
            acked_packets: 100.0 - lost_packets,
            acked_rate_bps: (100.0 - lost_packets) * 1460.0 * 8.0 / 0.03,
            lost_packets,
            ..flow(0.9)
        };
        for (path, outside) in [
            (rtt(0.009), true),
            (rtt(0.011), false),
            (rtt(0.24), false),
            (rtt(0.26), true),
            (rate(290e6), false),
            (rate(310e6), true),
            (loss(9.0), false),
            (loss(11.0), true),
        ] {
            let mut safety_filter = filter();
            for k in 0..4_000 {
                let stats = IntervalStats { time_s: 0.03 * f64::from(k), ..path };
                safety_filter.hold(&stats, (300, None), &mut 300.0);
            }
            assert_eq!(safety_filter.has_taken_over(), outside, "{path:?}");
        }
    }

    #[test]
    fn losses_count_by_packets_however_few_they_are() {
        // Every tenth interval brings news of one packet; of four packets one is lost, or one of sixteen.
        for (every, outside) in [(4, true), (16, false)] {
            let mut safety_filter = filter();
            for k in 0..4_000 {
                let (news, lost) = (k % 10 == 0, k / 10 % every == 0);
                let stats = IntervalStats {
                    time_s: 0.03 * f64::from(k),
                    acked_packets: f64::from(u8::from(news && !lost)),
                    acked_rate_bps: f64::from(u8::from(news && !lost)) * 1460.0 * 8.0 / 0.03,
                    lost_packets: f64::from(u8::from(news && lost)),
                    ..flow(0.9)
                };
                safety_filter.hold(&stats, (4, None), &mut 4.0);
                let decides = safety_filter.has_taken_over();
                assert!(k < 1_000 || decides == outside, "{every}: {k}");
            }
        }
    }

    #[test]
    fn persistent_losses_are_noticed_within_seconds() {
        let mut safety_filter = filter();
        let mut taken_over_s = None;
        for k in 0..1_000 {
            let (time_s, lost_packets) = (0.03 * f64::from(k), if k < 500 { 0.0 } else { 20.0 });
            let acked_packets = 100.0 - lost_packets;
            let acked_rate_bps = acked_packets * 1460.0 * 8.0 / 0.03;
            let stats = IntervalStats { time_s, acked_packets, acked_rate_bps, lost_packets, ..flow(0.9) };
            safety_filter.hold(&stats, (300, None), &mut 300.0);
            taken_over_s = taken_over_s.or_else(|| safety_filter.has_taken_over().then_some(time_s - 15.0));
        }
        // 1 - exp(-2.08 / 3) is half of the 20 %; then a second of patience.
        assert!((taken_over_s.unwrap() - 3.08).abs() < 0.1, "{taken_over_s:?}");
    }

    #[test]
    fn cubic_takes_over_outside_and_hands_back_inside() {
        let mut safety_filter = filter();
        let far = |t: f64| IntervalStats { rtt_min_s: 0.6, rtt_mean_s: 0.6, min_rtt_s: 0.6, ..at(t) };
        let mut window = 400.0;
        let mut taken = None;
        for k in 0..100 {
            let t = 1.0 + 0.15 * f64::from(k);
            safety_filter.hold(&far(t), (4, None), &mut window);
            if safety_filter.has_taken_over() && taken.is_none() {
                taken = Some(t);
            }
        }
        let taken = taken.unwrap();
        assert!((3.4 - 1e-9..3.6).contains(&taken), "four RTTs after the first: {taken}");
        assert!(window > 400.0, "Cubic grows from where the policy stood");
        let mut t = 16.0;
        while safety_filter.has_taken_over() {
            t += 0.15;
            safety_filter.hold(&at(t), (4, None), &mut window);
            assert!(t < 40.0);
        }
        assert!(t >= 17.0, "not before it has been inside for a second: {t}");
        assert_eq!(safety_filter.hold(&at(t + 0.1), (4, None), &mut window).0, 4);
    }

    #[test]
    fn inside_of_the_training_range_nothing_changes() {
        let mut safety_filter = filter();
        for k in 0..1000 {
            let held = safety_filter.hold(&at(0.03 * f64::from(k)), (300, None), &mut 300.0);
            assert_eq!(held, (300, None));
        }
    }

    #[test]
    fn the_fallback_follows_cubic() {
        let mut cubic = CubicWindow::new(1000.0, true);
        let lost = IntervalStats { lost_packets: 1.0, ..at(1.0) };
        assert!((cubic.step(&lost) - 700.0).abs() < 1e-9);
        // K = cbrt(300 / 0.4) = 9.09 s; at K the window is back at its maximum (RFC 9438, section 4.2).
        let mut t = 1.0;
        while t < 1.0 + 9.09 {
            t += 0.055;
            cubic.step(&IntervalStats { acked_packets: cubic.cwnd, ..at(t) });
        }
        assert!((cubic.cwnd - 1000.0).abs() < 5.0, "{}", cubic.cwnd);
        let again = IntervalStats { lost_packets: 1.0, rtos: 1.0, ..at(t + 1.0) };
        assert_eq!(cubic.step(&again), LOSS_WINDOW);
        assert!((cubic.ssthresh - 0.7 * 1000.0).abs() < 5.0);
    }
}
