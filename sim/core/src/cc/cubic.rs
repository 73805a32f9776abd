//! CUBIC in Linux's integer arithmetic (Ha, Rhee, Xu 2008; `tcp_cubic.c`; compare RFC 9438).
//!
//! Against RFC 9438: the window follows W(t + minimum RTT), not the smoothed one; the target is not limited to 1.5
//! cwnd; the Reno-friendly slope stays 8/15 after the old maximum is passed.

use crate::spec::Kernel;

use super::hystart::{EIGHTH_MS_US, HyStart, Threshold};
use super::hystart_plus_plus::HyStartPlusPlus;
use super::slow_start::SlowStart;
use super::{CaState, Conn, Controller, Event, Params, careful_resume};

/// Multiplicative decrease, of 1024 (0.7).
const BETA: u64 = 717;
/// ABE (RFC 8511, section 4.2, after Khademi et al. 2017): the part left after a mark (0.85). Not in Linux.
const BETA_ECN: u64 = 870;
/// C = 41 * 10 / 1024 = 0.4 in units of segments per (1/1024 s)^3, scaled by 2^40.
const C_SCALE: u64 = 410;
const CUBE_FACTOR: u64 = (1 << 40) / C_SCALE;
/// Segments acknowledged per segment of growth of the Reno estimate, times 8 per window.
const FRIENDLINESS: u64 = 8 * (1024 + BETA) / 3 / (1024 - BETA);
/// One time unit is 1/1024 s.
const BIC_HZ: u32 = 10;

pub const PARAMS: &[(&str, &str)] = &[
    ("hystart", "\"both\""),
    ("hystart_k", "3"),
    ("fast_convergence", "\"on\""),
    ("friendliness", "\"on\""),
    ("abe", "\"off\""),
    careful_resume::PARAMS[0],
    careful_resume::PARAMS[1],
];

const HYSTART: [&str; 8] = ["both", "train", "delay", "off", "nomax", "dynamic", "hystart++", "search"];
const SWITCH: [&str; 2] = ["off", "on"];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let deviations = (params.number("hystart_k", 3.0, 0.0, 100.0)? * 1_000.0) as u64;
    let hystart = |train, delay, threshold| SlowStart::HyStart(HyStart::new(train, delay, threshold, params.kernel));
    let slow_start = match params.text("hystart", "both", &HYSTART)? {
        "off" => SlowStart::Standard,
        "train" => hystart(true, false, Threshold::Linux),
        "delay" => hystart(false, true, Threshold::Linux),
        "nomax" => hystart(true, true, Threshold::Unbounded),
        "dynamic" => hystart(true, true, Threshold::Deviations(deviations)),
        "hystart++" => SlowStart::HyStartPlusPlus(HyStartPlusPlus::new()),
        "search" => SlowStart::Search(Box::default()),
        _ => hystart(true, true, Threshold::Linux),
    };
    let mut cubic = Cubic::new(slow_start, params.kernel);
    cubic.fast_convergence = params.text("fast_convergence", "on", &SWITCH)? == "on";
    cubic.friendliness = params.text("friendliness", "on", &SWITCH)? == "on";
    cubic.abe = params.text("abe", "off", &SWITCH)? == "on";
    careful_resume::around(Box::new(cubic), params)
}

#[derive(Clone, Debug)]
pub struct Cubic {
    kernel: Kernel,
    slow_start: SlowStart,
    fast_convergence: bool,
    friendliness: bool,
    /// Alternative backoff with ECN.
    abe: bool,
    /// The next epoch reaches its origin in a ninth of the time (SaTCP).
    pub(super) returns_quickly: bool,
    /// Acknowledged segments per segment of growth.
    cnt: u32,
    w_last_max: u32,
    last_cwnd: u32,
    last_time: u64,
    origin: u32,
    /// Time from the epoch's start to the origin, in 1/1024 s.
    k: u32,
    /// Smallest RTT, microseconds; 0 = none.
    delay_min_us: u32,
    /// Start of the epoch in ticks; 0 = none.
    epoch_start: u64,
    ack_cnt: u32,
    w_tcp: u32,
}

impl Cubic {
    fn new(slow_start: SlowStart, kernel: Kernel) -> Cubic {
        Cubic {
            kernel,
            slow_start,
            fast_convergence: true,
            friendliness: true,
            abe: false,
            returns_quickly: false,
            cnt: 0,
            w_last_max: 0,
            last_cwnd: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            delay_min_us: 0,
            epoch_start: 0,
            ack_cnt: 0,
            w_tcp: 0,
        }
    }

    /// With Linux's defaults.
    pub(super) fn linux(kernel: Kernel) -> Cubic {
        Cubic::new(SlowStart::HyStart(HyStart::new(true, true, Threshold::Linux, kernel)), kernel)
    }

    /// Forget everything but the parameters.
    fn reset(&mut self, conn: &Conn) {
        self.slow_start.restart(conn);
        let (fast_convergence, friendliness, abe) = (self.fast_convergence, self.friendliness, self.abe);
        let returns_quickly = self.returns_quickly;
        let fresh = Cubic::new(self.slow_start.clone(), self.kernel);
        *self = Cubic { fast_convergence, friendliness, abe, returns_quickly, ..fresh };
    }

    /// An RTT as the kernel keeps it: in microseconds, or up to 4.15 in eighths of a millisecond.
    fn kept_rtt_us(&self, rtt_us: u32) -> u32 {
        match self.kernel {
            Kernel::V6 | Kernel::V6_12 => rtt_us.max(1),
            Kernel::V4_15 => (rtt_us / EIGHTH_MS_US).max(1) * EIGHTH_MS_US,
        }
    }

    /// The smallest RTT, microseconds, as the time of the cubic is advanced by it.
    fn lead_us(&self) -> u64 {
        match self.kernel {
            Kernel::V6 | Kernel::V6_12 => u64::from(self.delay_min_us),
            Kernel::V4_15 => u64::from(self.delay_min_us / 1_000) * 1_000,
        }
    }

    /// Recompute `cnt` for a window of `cwnd` at tick `now`.
    fn update(&mut self, cwnd: u32, acked: u32, now: u64, hz: u32) {
        self.ack_cnt += acked;
        // A tick value of 0 stands for "no epoch"; time 0 of a world would be mistaken for it.
        let now = now.max(1);
        if self.last_cwnd == cwnd && now - self.last_time <= u64::from(hz) / 32 {
            return;
        }
        if self.epoch_start == 0 || now != self.last_time {
            self.last_cwnd = cwnd;
            self.last_time = now;
            if self.epoch_start == 0 {
                self.epoch_start = now;
                self.ack_cnt = acked;
                self.w_tcp = cwnd;
                if self.w_last_max <= cwnd {
                    self.k = 0;
                    self.origin = cwnd;
                } else {
                    self.k = cubic_root(CUBE_FACTOR * u64::from(self.w_last_max - cwnd));
                    if self.returns_quickly {
                        self.k -= 8 * self.k / 9;
                    }
                    self.origin = self.w_last_max;
                }
            }
            let delay_ticks = self.lead_us().div_ceil(1_000_000 / u64::from(hz));
            let t = ((now - self.epoch_start + delay_ticks) << BIC_HZ) / u64::from(hz);
            let offset = t.abs_diff(u64::from(self.k));
            let delta = ((u128::from(C_SCALE) * (offset as u128).pow(3)) >> (10 + 3 * BIC_HZ)) as u64;
            let target = if t < u64::from(self.k) {
                u64::from(self.origin).saturating_sub(delta)
            } else {
                u64::from(self.origin) + delta
            };
            let window = u64::from(cwnd);
            self.cnt = if target > window { (window / (target - window)) as u32 } else { 100 * cwnd };
            if self.w_last_max == 0 && self.cnt > 20 {
                self.cnt = 20;
            }
        }
        if self.friendliness {
            let per_segment = ((u64::from(cwnd) * FRIENDLINESS) >> 3) as u32;
            while per_segment > 0 && self.ack_cnt > per_segment {
                self.ack_cnt -= per_segment;
                self.w_tcp += 1;
            }
            if self.w_tcp > cwnd {
                self.cnt = self.cnt.min(cwnd / (self.w_tcp - cwnd));
            }
        }
        self.cnt = self.cnt.max(2);
    }
}

impl Controller for Cubic {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        self.reset(conn);
    }

    fn on_delivered(&mut self, conn: &mut Conn, _delivered: u32, rtt_us: Option<u32>) {
        let Some(rtt_us) = rtt_us else { return };
        // Samples right after a loss still see the old queue.
        if self.epoch_start != 0 && conn.jiffies.saturating_sub(self.epoch_start) < u64::from(conn.hz) {
            return;
        }
        let rtt_us = self.kept_rtt_us(rtt_us);
        if self.delay_min_us == 0 || self.delay_min_us > rtt_us {
            self.delay_min_us = rtt_us;
        }
        if conn.in_slow_start() {
            self.slow_start.on_ack(conn, rtt_us, self.delay_min_us);
        }
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        if !conn.is_cwnd_limited() {
            return;
        }
        let acked = if conn.in_slow_start() { self.slow_start.grow(conn, acked) } else { acked };
        if acked == 0 {
            return;
        }
        self.update(conn.cwnd, acked, conn.jiffies, conn.hz);
        conn.additive_increase(self.cnt, acked);
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        self.epoch_start = 0;
        self.w_last_max = if conn.cwnd < self.w_last_max && self.fast_convergence {
            (u64::from(conn.cwnd) * (1024 + BETA) / 2048) as u32
        } else {
            conn.cwnd
        };
        let beta = if self.abe && conn.by_marks { BETA_ECN } else { BETA };
        ((u64::from(conn.cwnd) * beta / 1024) as u32).max(2)
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        if new == CaState::Loss {
            self.reset(conn);
        }
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        if event == Event::CwndRestart {
            self.slow_start.on_idle_restart();
        }
        if event == Event::TxStart && self.epoch_start != 0 {
            // Shift the epoch by the idle time: the curve continues where it stood.
            let idle = (conn.now.saturating_sub(conn.last_send)).micros() / (1_000_000 / u64::from(conn.hz));
            self.epoch_start = (self.epoch_start + idle).min(conn.jiffies.max(1));
        }
    }
}

/// Integer cube root with Linux's seed table and one Newton step; error about 0.2 %.
fn cubic_root(a: u64) -> u32 {
    const SEED: [u8; 64] = [
        0, 54, 54, 54, 118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156, 157, 161, 164, 168, 170, 173, 176,
        179, 181, 185, 187, 190, 192, 194, 197, 199, 200, 202, 204, 206, 209, 211, 213, 215, 217, 219, 221, 222, 224,
        225, 227, 229, 231, 232, 234, 236, 237, 239, 240, 242, 244, 245, 246, 248, 250, 251, 252, 254,
    ];
    let bits = 64 - a.leading_zeros();
    if bits < 7 {
        return (u32::from(SEED[a as usize]) + 35) >> 6;
    }
    let b = ((bits * 84) >> 8) - 1;
    let shift = a >> (b * 3);
    let mut x = ((u64::from(SEED[shift as usize]) + 10) << b) >> 6;
    x = 2 * x + a / (x * (x - 1));
    ((x * 341) >> 10) as u32
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::*;

    fn cubic() -> Cubic {
        Cubic::new(SlowStart::Standard, Kernel::V6)
    }

    #[test]
    fn constants_are_linux_s() {
        assert_eq!((CUBE_FACTOR, FRIENDLINESS), (2_681_735_677, 15));
    }

    #[test]
    fn cube_root_vectors() {
        let got = [1, 7, 63, 1_000, 1_000_000].map(cubic_root);
        assert_eq!(got, [1, 2, 4, 10, 100]);
        let k = [1u64, 30, 300, 1_000, 3_000].map(|d| cubic_root(CUBE_FACTOR * d));
        assert_eq!(k, [1388, 4316, 9294, 13_897, 20_033]);
    }

    #[test]
    fn quick_return_vectors() {
        let k = [1u32, 30, 300, 1_000, 3_000].map(|distance| {
            let mut c = cubic();
            (c.returns_quickly, c.w_last_max) = (true, 5_000 + distance);
            c.update(5_000, 1, 1_000, 1000);
            c.k
        });
        assert_eq!(k, [155, 480, 1033, 1545, 2226]);
    }

    #[test]
    fn reduction_vectors_with_fast_convergence() {
        let mut c = cubic();
        let mut reduce = |cwnd| {
            let threshold = c.ssthresh(&mut conn(cwnd, u32::MAX));
            (threshold, c.w_last_max)
        };
        assert_eq!(reduce(1000), (700, 1000));
        assert_eq!(reduce(800), (560, 680));
        assert_eq!(reduce(3), (2, 2));
    }

    #[test]
    fn update_vectors_at_hz_250() {
        let mut c = cubic();
        c.w_last_max = 1000;
        c.delay_min_us = 600_000;
        let mut at = |cwnd, now| {
            c.update(cwnd, 2, now, 250);
            (c.cnt, c.k, c.ack_cnt)
        };
        assert_eq!(at(700, 5000), (12, 9294, 2));
        assert_eq!(at(700, 5000), (12, 9294, 4));
        assert_eq!(at(700, 5008).0, 11);
        assert_eq!(at(700, 5250).0, 5);
        assert_eq!(at(705, 6000).0, 2);
        assert_eq!(at(999, 7250).0, 999);
        assert_eq!(at(1000, 7500).0, 1000);
        assert_eq!(at(1001, 10_000).0, 2);
    }

    /// One ACK per RTT acknowledging the whole window, the first one RTT after the reduction.
    fn rounds(reduce_at: u32, rtt_ms: u64, n: usize, hz: u32) -> Vec<u32> {
        let mut c = cubic();
        c.delay_min_us = rtt_ms as u32 * 1_000;
        let mut co = conn(reduce_at, u32::MAX);
        co.hz = hz;
        co.jiffies = 10 * u64::from(hz);
        co.ssthresh = c.ssthresh(&mut co);
        co.cwnd = co.ssthresh;
        let mut windows = vec![];
        for _ in 0..n {
            co.jiffies += rtt_ms * u64::from(hz) / 1_000;
            let acked = co.cwnd;
            windows.push(acked);
            c.cong_avoid(&mut co, acked);
        }
        windows
    }

    #[test]
    fn round_driver_vectors() {
        let long = [700, 758, 805, 847, 883, 911, 936, 954, 969, 981, 989, 994, 998];
        for hz in [250, 1000] {
            assert_eq!(rounds(1000, 600, 13, hz), long);
            let huge = [7001, 7281, 7523, 7758, 7980, 8184, 8375, 8549, 8714, 8864, 9002, 9131, 9245];
            assert_eq!(rounds(10_000, 600, 13, hz), huge);
            assert_eq!(rounds(400, 40, 4, hz), [280, 283, 285, 287]);
        }
    }

    #[test]
    fn first_epoch_after_hystart_follows_the_vector() {
        let mut c = cubic();
        c.delay_min_us = 600_000;
        let mut co = conn(64, 64);
        co.jiffies = 10_000;
        let expected = [
            64, 67, 70, 74, 77, 81, 85, 94, 110, 128, 154, 180, 216, 259, 302, 363, 423, 494, 576, 658, 768, 864, 987,
            1128, 1269,
        ];
        for window in expected {
            assert_eq!(co.cwnd, window);
            co.jiffies += 600;
            c.cong_avoid(&mut co, window);
        }
    }

    #[test]
    fn the_epoch_moves_with_idle_time() {
        let mut c = cubic();
        c.epoch_start = 1_000;
        let mut co = conn(100, 50);
        co.now = crate::time::Nanos::from_secs(9);
        co.last_send = crate::time::Nanos::from_secs(4);
        co.jiffies = 9_000;
        c.on_event(&mut co, Event::TxStart);
        assert_eq!(c.epoch_start, 6_000);
    }

    #[test]
    fn rtt_samples_in_an_epoch_s_first_second_are_ignored() {
        let mut c = cubic();
        let mut co = conn(100, 50);
        c.epoch_start = 5_000;
        co.jiffies = 5_999;
        c.on_delivered(&mut co, 1, Some(40_000));
        assert_eq!(c.delay_min_us, 0);
        co.jiffies = 6_000;
        c.on_delivered(&mut co, 1, Some(40_000));
        assert_eq!(c.delay_min_us, 40_000);
    }

    #[test]
    fn linux_4_15_keeps_rtts_in_eighths_of_a_millisecond() {
        let mut c = Cubic::new(SlowStart::Standard, Kernel::V4_15);
        c.on_delivered(&mut conn(100, 50), 1, Some(40_999));
        assert_eq!((c.delay_min_us, c.lead_us()), (40_875, 40_000));
        c.on_delivered(&mut conn(100, 50), 1, Some(7));
        assert_eq!(c.delay_min_us, 125);
    }

    #[test]
    fn a_timeout_forgets_everything() {
        let mut c = cubic();
        let mut co = conn(40, 30);
        assert_eq!(c.ssthresh(&mut co), 28);
        c.on_state(&mut co, CaState::Loss);
        assert_eq!((c.w_last_max, c.k, c.delay_min_us), (0, 0, 0));
        co.prior_cwnd = 40;
        co.cwnd = 1;
        assert_eq!(c.undo(&mut co), 40);
    }
}
