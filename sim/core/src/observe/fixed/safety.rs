//! The safety filter ([`crate::observe::safety_filter`]) in fixed point. Windows are segments in Q16.

use super::arithmetic::{ONE24, exp2, log2, ratio, within};
use super::measures::{
    MOST_BYTES, MOST_RATE, MOST_RTT, MOST_TIME, SECOND, least, notices, update, update_least, weight,
};
use super::network::CWND_MAX;
use super::{Statistics, Window};

const BUCKET_NS: u64 = SECOND;
const LOSS_NS: u64 = 3 * SECOND;
/// More bytes in an interval are taken for these.
const MOST_KNOWN: u64 = (1 << 26) - 1;
const GAP_NS: u64 = 30_000_000;
const MICROSECOND: u64 = 1_000;
const FIRST_WINDOW: u64 = 10 << 16;
const LEAST_SSTHRESH: u64 = 2 << 16;
const MOST_WINDOW: u64 = CWND_MAX << 16;
const PATIENCE_RTTS: u64 = 4;

/// The limits of a model card.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Limits {
    /// Largest window in bandwidth-delay products, Q16; 0: no limit.
    pub most_bdp: u64,
    /// The training range: smallest RTT, largest delivery rate (bytes per second) and share of lost packets (Q24).
    pub rtt_low_ns: u64,
    pub rtt_high_ns: u64,
    pub most_rate: u64,
    pub most_loss: u64,
    /// Time outside (or inside) the training range after which Cubic takes over (or hands back); 0: never.
    pub patience_ns: u64,
}

/// Cubic's window, updated at every decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Cubic {
    pub cwnd: u64,
    pub ssthresh: u64,
    pub w_max: u64,
    /// Estimate of Reno's window.
    pub w_est: u64,
    pub epoch_ns: u64,
    pub reduced_at_ns: u64,
}

/// The safety filter of one flow; zeros at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Safety {
    pub recent_rtt: Window,
    pub max_rate: Window,
    /// Smallest RTT since the last interruption, and of the connection; 0: none.
    pub path_rtt_ns: u64,
    pub least_rtt_ns: u64,
    /// Largest delivery rate of the connection.
    pub most_rate: u64,
    /// Usual longest pause of the acknowledgements, in sixteenths of a ns.
    pub usual_gap: u64,
    pub strayed_at_ns: u64,
    /// Averages of the lost bytes of an interval, and of those whose fate became known, Q12.
    pub lost: i64,
    pub known: i64,
    pub cubic: Cubic,
    /// Whether the path is outside while the policy decides, or inside while Cubic does; whether Cubic decides; whether
    /// anything was ever lost; and whether Cubic has ever reduced its window, and has begun an epoch.
    pub strayed: u8,
    pub taken_over: u8,
    pub lost_before: u8,
    pub reduced: u8,
    pub epoch: u8,
    pub unused: [u8; 3],
}

/// The cube root of a number in Q16, in Q18.
fn cube_root(x: u64) -> i64 {
    // A third of 16 in Q24. The logarithm of a whole number is not negative.
    if x == 0 { 0 } else { (exp2((log2(x) as u64 / 3) as i64 - 89_478_485) >> 6) as i64 }
}

impl Safety {
    /// Cubic's next window.
    fn step(&mut self, stats: &Statistics) -> u64 {
        let cubic = &mut self.cubic;
        let now_ns = least(stats.time_ns, MOST_TIME);
        let rtt_ns = least(if stats.rtt_mean_ns > 0 { stats.rtt_mean_ns } else { stats.srtt_ns }, MOST_RTT);
        let mss = within(i64::from(stats.mss), 1, 0xffff) as u64;
        // Within 2^40, as a ratio has it.
        let acked = least((least(stats.acked_bytes, MOST_BYTES) << 16) / mss, (1 << 40) - 1);
        if stats.lost > 0 && (self.reduced == 0 || now_ns > cubic.reduced_at_ns + rtt_ns) {
            cubic.w_max = if cubic.cwnd < cubic.w_max { cubic.cwnd * 17 / 20 } else { cubic.cwnd };
            cubic.ssthresh = cubic.cwnd * 7 / 10;
            if cubic.ssthresh < LEAST_SSTHRESH {
                cubic.ssthresh = LEAST_SSTHRESH;
            }
            cubic.cwnd = if stats.rtos > 0 { 1 << 16 } else { cubic.ssthresh };
            cubic.reduced_at_ns = now_ns;
            (self.reduced, self.epoch) = (1, 0);
        } else if cubic.cwnd < cubic.ssthresh {
            cubic.cwnd = least(cubic.cwnd + acked, cubic.ssthresh);
        } else if acked > 0 && cubic.cwnd > 0 {
            self.grow(now_ns, rtt_ns, acked);
        }
        self.cubic.cwnd = least(self.cubic.cwnd, MOST_WINDOW);
        self.cubic.cwnd
    }

    /// Congestion avoidance.
    fn grow(&mut self, now_ns: u64, rtt_ns: u64, acked: u64) {
        let cubic = &mut self.cubic;
        if self.epoch == 0 {
            self.epoch = 1;
            cubic.epoch_ns = now_ns;
            cubic.w_est = cubic.cwnd;
            if cubic.w_max < cubic.cwnd {
                cubic.w_max = cubic.cwnd;
            }
        }
        // Longer than any K, the time of growth back to the last maximum.
        let elapsed_ns = least(now_ns.saturating_sub(cubic.epoch_ns), 1 << 38) + rtt_ns;
        let k = cube_root(cubic.w_max.saturating_sub(cubic.ssthresh) * 5 / 2);
        let x = within(((elapsed_ns << 18) / SECOND) as i64 - k, -(1 << 26), 1 << 26); // Q18
        let cube = (((x * x) >> 18) * x) >> 18;
        // 0.4 in Q18.
        let target =
            within(((cube * 104_858) >> 20) + cubic.w_max as i64, cubic.cwnd as i64, (cubic.cwnd * 3 / 2) as i64);
        let rounds = ratio(acked, cubic.cwnd, 1 << 40) as u64;
        cubic.w_est += (if cubic.w_est < cubic.w_max { rounds * 9 / 17 } else { rounds }) >> 8;
        cubic.w_est = least(cubic.w_est, MOST_WINDOW);
        cubic.cwnd += (((target as u64) - cubic.cwnd) * least(rounds, ONE24 as u64)) >> 24;
        if cubic.cwnd < cubic.w_est {
            cubic.cwnd = cubic.w_est;
        }
    }
}

/// The window for this interval, given the policy's decision. `window`: the exact window of the decision, from which the
/// policy goes on.
pub fn hold(limits: &Limits, safety: &mut Safety, stats: &Statistics, asked: u32, window: &mut u64) -> u32 {
    if limits.most_bdp == 0 && limits.patience_ns == 0 {
        return asked;
    }
    let time_ns = least(stats.time_ns, MOST_TIME);
    let rtt_ns = least(stats.rtt_least_ns, MOST_RTT) / MICROSECOND * MICROSECOND;
    let rate = least(stats.delivery_rate, MOST_RATE);
    if safety.most_rate < rate {
        safety.most_rate = rate;
    }
    let recent = update(&mut safety.max_rate, BUCKET_NS, time_ns, rate);
    let max_rate = if recent > 0 { recent } else { safety.most_rate };
    if notices(GAP_NS, false, &mut safety.usual_gap, least(stats.ack_gap_ns, MOST_RTT)) {
        safety.path_rtt_ns = 0;
    }
    if rtt_ns > 0 {
        if safety.path_rtt_ns == 0 || rtt_ns < safety.path_rtt_ns {
            safety.path_rtt_ns = rtt_ns;
        }
        if safety.least_rtt_ns == 0 || rtt_ns < safety.least_rtt_ns {
            safety.least_rtt_ns = rtt_ns;
        }
    }
    let mut min_rtt_ns = update_least(&mut safety.recent_rtt, BUCKET_NS, time_ns, rtt_ns);
    if min_rtt_ns == 0 {
        min_rtt_ns = safety.least_rtt_ns;
    }
    if min_rtt_ns == 0 {
        min_rtt_ns = least(stats.srtt_ns, MOST_RTT);
    }
    let path_rtt_ns = if safety.path_rtt_ns > 0 { safety.path_rtt_ns } else { min_rtt_ns };
    if min_rtt_ns == 0 {
        return asked; // nothing has been measured yet
    }
    lose(safety, stats);
    choose(limits, safety, stats, time_ns, max_rate, min_rtt_ns);
    let mut cwnd = asked;
    if safety.taken_over > 0 {
        *window = safety.step(stats);
        cwnd = (*window >> 16) as u32;
    }
    if limits.most_bdp > 0 {
        let most = bound(limits, stats, path_rtt_ns, max_rate);
        if u64::from(cwnd) << 16 > most {
            cwnd = (most >> 16) as u32;
            *window = least(*window, most);
            safety.cubic.cwnd = least(safety.cubic.cwnd, most);
        }
    }
    if cwnd > 0 { cwnd } else { 1 }
}

/// Take in the losses.
fn lose(safety: &mut Safety, stats: &Statistics) {
    let mss = within(i64::from(stats.mss), 1, 0xffff) as u64;
    let lost = least(u64::from(stats.lost) * mss, MOST_KNOWN);
    let known = least(lost + least(stats.acked_bytes, MOST_KNOWN), MOST_KNOWN);
    let weight = weight(stats.interval_ns, LOSS_NS, 1 << 16);
    safety.lost += (weight * ((lost << 12) as i64 - safety.lost)) >> 24;
    safety.known += (weight * ((known << 12) as i64 - safety.known)) >> 24;
    if stats.lost > 0 {
        safety.lost_before = 1;
    }
}

/// Choose whether the policy or Cubic decides from now on.
fn choose(limits: &Limits, safety: &mut Safety, stats: &Statistics, time_ns: u64, max_rate: u64, min_rtt_ns: u64) {
    if limits.patience_ns == 0 {
        return;
    }
    let outside = min_rtt_ns < limits.rtt_low_ns
        || min_rtt_ns > limits.rtt_high_ns
        || max_rate > limits.most_rate
        || (safety.lost as u64) << 24 > least(limits.most_loss, ONE24 as u64) * safety.known as u64;
    if outside == (safety.taken_over > 0) {
        safety.strayed = 0;
        return;
    }
    if safety.strayed == 0 {
        safety.strayed = 1;
        safety.strayed_at_ns = time_ns;
    }
    let rtts_ns = PATIENCE_RTTS * min_rtt_ns;
    let patience_ns = if rtts_ns > limits.patience_ns { rtts_ns } else { limits.patience_ns };
    if time_ns.saturating_sub(safety.strayed_at_ns) < patience_ns {
        return;
    }
    safety.strayed = 0;
    safety.taken_over = u8::from(outside);
    if outside {
        let cwnd = least(u64::from(stats.cwnd), CWND_MAX) << 16;
        let ssthresh = if safety.lost_before > 0 { cwnd } else { MOST_WINDOW };
        safety.cubic = Cubic { cwnd, ssthresh, w_max: cwnd, w_est: cwnd, epoch_ns: 0, reduced_at_ns: 0 };
        (safety.reduced, safety.epoch) = (0, 0);
    }
}

/// The largest window.
fn bound(limits: &Limits, stats: &Statistics, path_rtt_ns: u64, max_rate: u64) -> u64 {
    let bytes = (path_rtt_ns >> 6) * max_rate / (SECOND >> 6);
    let mss = within(i64::from(stats.mss), 1, 0xffff) as u64;
    // Segments in Q8, times a number below 2^26.
    let most = (least((bytes << 8) / mss, (1 << 36) - 1) * least(limits.most_bdp, (1 << 26) - 1)) >> 8;
    if most < FIRST_WINDOW { FIRST_WINDOW } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1 << 16;

    #[test]
    fn cubic_returns_to_its_maximum_after_k() {
        let cwnd = 1_000 * SEGMENT;
        let cubic = Cubic { cwnd, ssthresh: MOST_WINDOW, w_max: cwnd, w_est: cwnd, ..Cubic::default() };
        let mut safety = Safety { cubic, ..Safety::default() };
        let stats = |time_s: f64, acked: u64| Statistics {
            time_ns: (time_s * 1e9) as u64,
            rtt_mean_ns: 55_000_000,
            acked_bytes: acked * 1_460,
            mss: 1_460,
            ..Statistics::default()
        };
        assert_eq!(safety.step(&Statistics { lost: 1, ..stats(1.0, 200) }), 700 * SEGMENT);
        // K = cbrt(300 / 0.4) = 9.09 s; at K the window is back at its maximum (RFC 9438, section 4.2).
        let mut t = 1.0;
        while t < 1.0 + 9.09 {
            t += 0.055;
            let acked = safety.cubic.cwnd / SEGMENT;
            safety.step(&stats(t, acked));
        }
        assert!(safety.cubic.cwnd.abs_diff(1_000 * SEGMENT) < 5 * SEGMENT, "{}", safety.cubic.cwnd / SEGMENT);
        let timeout = Statistics { lost: 1, rtos: 1, ..stats(t + 1.0, 0) };
        assert_eq!(safety.step(&timeout), SEGMENT);
        assert!(safety.cubic.ssthresh.abs_diff(700 * SEGMENT) < 5 * SEGMENT);
        assert_eq!(safety.step(&stats(t + 1.1, 10)), 11 * SEGMENT, "slow start");
    }

    #[test]
    fn cube_roots_are_within_their_error() {
        for (segments, root) in [(1.0, 1.0), (750.0, 9.085_602_964), (2_621_440.0, 137.883_820_2)] {
            let found = cube_root((segments * 65_536.0) as u64) as f64 / f64::from(1 << 18);
            assert!((found - root).abs() < 5e-6 * root, "{segments}: {found}");
        }
        assert_eq!(cube_root(0), 0);
    }
}
