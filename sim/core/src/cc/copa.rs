//! Copa (Arun, Balakrishnan: "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018).
//!
//! The window moves towards the target 1/(delta * queueing delay) packets per second, per ACK by velocity/(delta *
//! window); the queue therefore swings between nearly empty and 2.5/delta packets, and the minimum RTT stays known.
//! When the queue is never seen nearly empty, others fill it: delta is then given AIMD on 1/delta (competitive mode).
//!
//! In default mode losses do not matter (section 2.1). After a timeout the window starts again from what the TCP below
//! leaves, in slow start.

use std::collections::VecDeque;

use crate::min_filter::MinFilter;
use crate::time::Nanos;

use super::{CaState, Conn, Controller, Params, RateSample};

/// Half a packet of delay sensitivity: two packets of queue per flow.
const DELTA: f64 = 0.5;
/// Span of the minimum RTT: ten seconds, or so many minimum RTTs if that is longer.
const MIN_RTT_WINDOW: Nanos = Nanos::from_secs(10);
const MIN_RTT_WINDOW_RTTS: u64 = 20;
/// Direction must stay the same for this many RTTs before the velocity doubles.
const STEADY_RTTS: u32 = 3;
/// The queue counts as nearly empty below this share of its range, looked at over these many RTTs.
const NEARLY_EMPTY: f64 = 0.1;
const LOOK_BACK_RTTS: usize = 4;
const CWND_MIN: f64 = 2.0;

pub const PARAMS: &[(&str, &str)] = &[("delta", "0.5"), ("competitive", "\"on\"")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let delta = params.number("delta", DELTA, 0.01, 10.0)?;
    let competitive = params.text("competitive", "on", &["on", "off"])? == "on";
    Ok(Box::new(Copa::new(delta, competitive)))
}

/// Minimum over a sliding window whose length may change: candidates in the order of time, each smaller than all later.
#[derive(Clone, Debug, Default)]
struct SlidingMin {
    candidates: VecDeque<(u64, u32)>,
}

impl SlidingMin {
    fn update(&mut self, now_us: u64, window_us: u64, value: u32) -> u32 {
        while self.candidates.back().is_some_and(|c| c.1 >= value) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((now_us, value));
        while self.candidates.front().is_some_and(|c| c.0 + window_us < now_us) {
            self.candidates.pop_front();
        }
        self.candidates[0].1
    }
}

/// Extremes of the RTT in the last few RTTs.
#[derive(Clone, Copy, Debug)]
struct RecentRange {
    slots: [(u32, u32); LOOK_BACK_RTTS],
    slot: usize,
}

impl RecentRange {
    const EMPTY: (u32, u32) = (u32::MAX, 0);

    fn note(&mut self, rtt_us: u32) {
        let (low, high) = self.slots[self.slot];
        self.slots[self.slot] = (low.min(rtt_us), high.max(rtt_us));
    }

    fn next_rtt(&mut self) {
        self.slot = (self.slot + 1) % LOOK_BACK_RTTS;
        self.slots[self.slot] = RecentRange::EMPTY;
    }

    fn get(&self) -> (u32, u32) {
        self.slots.iter().fold(RecentRange::EMPTY, |range, s| (range.0.min(s.0), range.1.max(s.1)))
    }
}

#[derive(Clone, Debug)]
pub struct Copa {
    default_delta: f64,
    may_compete: bool,
    delta: f64,
    cwnd: f64,
    slow_start: bool,
    velocity: f64,
    min_rtt: MinFilter,
    standing: SlidingMin,
    standing_us: u32,
    recent: RecentRange,
    // Once per RTT.
    rtt_start_us: u64,
    rtt_start_cwnd: f64,
    went_up: bool,
    steady_rtts: u32,
    lost_in_rtt: bool,
}

impl Copa {
    fn new(delta: f64, competitive: bool) -> Copa {
        Copa {
            default_delta: delta,
            may_compete: competitive,
            delta,
            cwnd: 0.0,
            slow_start: true,
            velocity: 1.0,
            min_rtt: MinFilter::new(MIN_RTT_WINDOW),
            standing: SlidingMin::default(),
            standing_us: 0,
            recent: RecentRange { slots: [RecentRange::EMPTY; LOOK_BACK_RTTS], slot: 0 },
            rtt_start_us: 0,
            rtt_start_cwnd: 0.0,
            went_up: true,
            steady_rtts: 0,
            lost_in_rtt: false,
        }
    }

    /// Packets per window that the queueing delay asks for.
    fn target(&self) -> f64 {
        let queueing = self.standing_us.saturating_sub(self.min_rtt.get());
        if queueing == 0 { f64::INFINITY } else { f64::from(self.standing_us) / (self.delta * f64::from(queueing)) }
    }

    /// Once per RTT: velocity and mode.
    fn end_rtt(&mut self) {
        self.update_mode();
        let up = self.cwnd > self.rtt_start_cwnd;
        if up == self.went_up {
            self.steady_rtts += 1;
            if self.steady_rtts >= STEADY_RTTS {
                self.velocity *= 2.0;
            }
        } else {
            self.went_up = up;
            self.steady_rtts = 0;
            self.velocity = 1.0;
        }
        // Never more than doubling the window in an RTT.
        self.velocity = self.velocity.min((self.cwnd * self.delta).max(1.0));
        self.rtt_start_cwnd = self.cwnd;
        self.lost_in_rtt = false;
        self.recent.next_rtt();
    }

    fn update_mode(&mut self) {
        if !self.may_compete {
            return;
        }
        let (low, high) = self.recent.get();
        let floor = f64::from(self.min_rtt.get());
        if f64::from(low) < floor + NEARLY_EMPTY * (f64::from(high) - floor) || high == low {
            self.delta = self.default_delta;
        } else if self.lost_in_rtt {
            self.delta = (2.0 * self.delta).min(self.default_delta);
        } else {
            self.delta = 1.0 / (1.0 / self.delta + 1.0);
        }
    }

    fn move_window(&mut self, acked: u32) {
        let target = self.target();
        if self.slow_start {
            self.cwnd += f64::from(acked);
            self.slow_start = self.cwnd < target;
            return;
        }
        let step = f64::from(acked) * self.velocity / (self.delta * self.cwnd);
        let up = self.cwnd < target;
        if up != self.went_up && self.velocity > 1.0 {
            // Turning back at speed would overshoot the other way.
            self.velocity = 1.0;
            self.steady_rtts = 0;
        }
        self.cwnd = (if up { self.cwnd + step } else { self.cwnd - step }).max(CWND_MIN);
    }

    fn apply(&mut self, conn: &mut Conn) {
        conn.cwnd = (libm::round(self.cwnd) as u32).min(conn.cwnd_clamp);
        let rtt = f64::from(self.standing_us.max(1));
        conn.pacing_rate = (2.0 * self.cwnd * f64::from(conn.mss) * 1e6 / rtt) as u64;
    }
}

impl Controller for Copa {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        self.cwnd = f64::from(conn.cwnd);
        self.standing_us = conn.srtt8_us >> 3;
        self.min_rtt.update(conn.now, self.standing_us);
        self.rtt_start_us = conn.now.micros();
        self.rtt_start_cwnd = self.cwnd;
        self.apply(conn);
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        conn.ssthresh
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        self.cwnd = f64::from(conn.cwnd.max(conn.prior_cwnd));
        self.slow_start = false;
        conn.cwnd.max(conn.prior_cwnd)
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        if new == CaState::Loss {
            self.cwnd = f64::from(conn.cwnd).max(CWND_MIN);
            self.slow_start = true;
            self.velocity = 1.0;
        }
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn control(&mut self, conn: &mut Conn, rate: &RateSample) {
        self.lost_in_rtt |= rate.lost > 0;
        if let Some(rtt) = rate.rtt_us {
            let now = conn.now.micros();
            let span = Nanos::from_micros(MIN_RTT_WINDOW_RTTS * u64::from(self.min_rtt.get()));
            self.min_rtt.set_window(span.max(MIN_RTT_WINDOW));
            self.min_rtt.update(conn.now, rtt);
            self.recent.note(rtt);
            let srtt_us = u64::from(conn.srtt8_us >> 3);
            self.standing_us = self.standing.update(now, srtt_us / 2, rtt);
            if now >= self.rtt_start_us + srtt_us {
                self.rtt_start_us = now;
                self.end_rtt();
            }
        }
        if rate.acked > 0 && conn.app_limited == 0 {
            self.move_window(rate.acked);
        }
        self.apply(conn);
    }

    fn paces(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copa(cwnd: f64, standing_us: u32, min_us: u32) -> Copa {
        let mut c = Copa::new(DELTA, true);
        c.min_rtt.update(Nanos::ZERO, min_us);
        (c.cwnd, c.standing_us, c.slow_start) = (cwnd, standing_us, false);
        c
    }

    #[test]
    fn the_target_is_one_over_delta_times_the_queueing_delay() {
        // 10 ms of queue over 50 ms: 200 packets per second, 12 per RTT of 60 ms.
        assert_eq!(copa(10.0, 60_000, 50_000).target(), 12.0);
        assert_eq!(copa(10.0, 50_000, 50_000).target(), f64::INFINITY);
    }

    #[test]
    fn each_ack_moves_the_window_by_velocity_over_delta_windows() {
        let mut c = copa(10.0, 60_000, 50_000);
        c.move_window(1);
        assert!((c.cwnd - 10.2).abs() < 1e-12);
        let mut c = copa(20.0, 60_000, 50_000);
        (c.went_up, c.velocity) = (false, 4.0);
        c.move_window(2);
        assert!((c.cwnd - (20.0 - 2.0 * 4.0 / 10.0)).abs() < 1e-12);
        c.cwnd = 2.5;
        c.standing_us = 500_000;
        c.move_window(10);
        assert_eq!(c.cwnd, CWND_MIN);
    }

    #[test]
    fn velocity_doubles_after_three_rtts_in_one_direction_and_falls_back_on_a_turn() {
        let mut c = copa(100.0, 50_000, 50_000);
        let mut velocities = vec![];
        for k in 0..5 {
            c.cwnd = 101.0 + f64::from(k);
            c.end_rtt();
            velocities.push(c.velocity);
        }
        assert_eq!(velocities, [1.0, 1.0, 2.0, 4.0, 8.0]);
        c.cwnd -= 10.0;
        c.end_rtt();
        assert_eq!(c.velocity, 1.0);
    }

    #[test]
    fn a_queue_never_empty_makes_it_compete_and_an_empty_one_stops_that() {
        let mut c = copa(100.0, 80_000, 50_000);
        let mut rtt = |rtts: &[u32], lost| {
            rtts.iter().for_each(|r| c.recent.note(*r));
            c.lost_in_rtt = lost;
            c.end_rtt();
            c.delta
        };
        assert_eq!(rtt(&[70_000, 90_000], false), 1.0 / 3.0);
        assert_eq!(rtt(&[70_000, 90_000], false), 1.0 / 4.0);
        assert_eq!(rtt(&[70_000, 90_000], true), 0.5, "never above the default");
        assert_eq!(rtt(&[53_000, 90_000], false), DELTA);
    }

    #[test]
    fn the_standing_rtt_is_the_minimum_of_its_window() {
        let mut min = SlidingMin::default();
        assert_eq!(min.update(0, 100, 50), 50);
        assert_eq!(min.update(50, 100, 70), 50);
        assert_eq!(min.update(101, 100, 90), 70);
        assert_eq!(min.update(120, 100, 60), 60);
        assert_eq!(min.candidates.len(), 1);
    }

    #[test]
    fn on_long_paths_the_minimum_is_that_of_twenty_of_them() {
        let mut copa = Copa::new(DELTA, false);
        let mut c = super::super::testing::conn(100, 100);
        c.srtt8_us = 8 * 700_000;
        let mut minimum = |second: u64, rtt| {
            c.now = Nanos::from_secs(second);
            copa.control(&mut c, &RateSample { acked: 1, rtt_us: Some(rtt), ..RateSample::default() });
            copa.min_rtt.get()
        };
        minimum(1, 700_000);
        minimum(2, 800_000);
        assert_eq!(minimum(14, 900_000), 700_000, "14 s");
        assert_eq!(minimum(17, 900_000), 900_000);
    }
}
