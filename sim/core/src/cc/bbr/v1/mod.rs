//! BBR, first version, as in Linux 5.x and 6.x (Cardwell et al.: "BBR: Congestion-Based Congestion Control", 2016;
//! `tcp_bbr.c`).
//!
//! The path is modelled by its bandwidth (the maximum of delivery-rate samples over ten rounds) and its RTT (the minimum
//! over ten seconds); packets leave at a gain times the bandwidth, and in flight is at most a gain times the product.
//!
//! A sample refreshes the minimum RTT only if it is smaller (`<`). Linux 4.15 has `<=`; on a path without noise, whose
//! queue is empty once per cycle, that would refresh it for ever and ProbeRTT, seen in every measurement of real
//! paths, would never come. `kernel = v4_15` differs by: no allowance for aggregation, no two extra packets while
//! probing, packets in flight not corrected for those the pacer holds, and the pacer's units: it asks for the bandwidth
//! in MTUs without a margin, and `fq`, which paces it, charges frames (`fq_dequeue`, `qdisc_pkt_len`). What leaves is
//! 1500/1514 of the bandwidth, as much below it as the margin of 1 % that came when TCP took over from `fq` in 4.20.

mod cycle;
#[cfg(test)]
mod path_tests;
#[cfg(test)]
mod tests;

use super::super::{CaState, Conn, Controller, Event, Params, RateSample, SSTHRESH_INFINITE, careful_resume};
use cycle::CYCLE;

use super::policer::{Policer, PolicerState};
use super::{Aggregation, BW_UNIT, ETHERNET, EXTRA_ACKED_ROUNDS, HEADERS, MaxFilter, Rounds, UNIT};
use super::{bdp, burst_segments, bytes_per_second, in_flight_at_departure, sample_rate};
use crate::spec::Kernel;

/// 2/ln 2: fills the pipe as fast as possible; its inverse drains what that queued.
pub const HIGH_GAIN: u32 = UNIT * 2885 / 1000 + 1;
pub const DRAIN_GAIN: u32 = UNIT * 1000 / 2885;
/// Window in ProbeBW, in products: room for delayed and aggregated ACKs.
const CWND_GAIN: u32 = 2 * UNIT;
const BW_ROUNDS: u32 = 10;
pub const CWND_MIN: u32 = 4;
const PROBE_RTT_MS: u32 = 200;
/// The pipe is full after this many rounds without 25 % more bandwidth.
const FULL_BW_GROWTH: u32 = UNIT * 5 / 4;
const FULL_BW_ROUNDS: u32 = 3;
/// Pacing stays this far below the estimate, percent.
const PACING_PERCENT: u64 = 99;

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    careful_resume::around(Box::new(Bbr::new(params.kernel, Variant::default())), params)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Where descendants differ.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub min_rtt_window_s: u32,
    /// Window during ProbeRTT, in products; 0: just the minimum window.
    pub probe_rtt_gain: u32,
    pub detects_policers: bool,
}

impl Default for Variant {
    fn default() -> Self {
        Variant { min_rtt_window_s: 10, probe_rtt_gain: 0, detects_policers: true }
    }
}

#[derive(Clone, Debug)]
pub struct Bbr {
    kernel: Kernel,
    variant: Variant,
    pub mode: Mode,
    pub pacing_gain: u32,
    pub cwnd_gain: u32,
    pub rounds: Rounds,
    pub max_bw: MaxFilter,
    pub min_rtt_us: u32,
    pub min_rtt_stamp: u64,
    pub probe_rtt_done: Option<u64>,
    pub probe_rtt_round_done: bool,
    /// Gain of the cycle's probing phase.
    pub probe_gain: u32,
    cycle_index: usize,
    cycle_start_us: u64,
    full_bw: u64,
    full_bw_rounds: u32,
    pub full_bw_reached: bool,
    /// Window to come back to after recovery or ProbeRTT.
    pub prior_cwnd: u32,
    previous_state: CaState,
    packet_conservation: bool,
    pub idle_restart: bool,
    has_seen_rtt: bool,
    aggregation: Aggregation,
    policer: Policer,
}

impl Bbr {
    pub fn new(kernel: Kernel, variant: Variant) -> Bbr {
        Bbr {
            kernel,
            variant,
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            rounds: Rounds::default(),
            max_bw: MaxFilter::default(),
            min_rtt_us: u32::MAX,
            min_rtt_stamp: 0,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            probe_gain: CYCLE[0],
            cycle_index: 0,
            cycle_start_us: 0,
            full_bw: 0,
            full_bw_rounds: 0,
            full_bw_reached: false,
            prior_cwnd: 0,
            previous_state: CaState::Open,
            packet_conservation: false,
            idle_restart: false,
            has_seen_rtt: false,
            aggregation: Aggregation::default(),
            policer: Policer::default(),
        }
    }

    /// The bandwidth in force.
    pub fn bw(&self) -> u64 {
        self.policer.rate().unwrap_or(self.max_bw.get())
    }

    fn bdp(&self, conn: &Conn, bw: u64, gain: u32) -> u32 {
        if self.min_rtt_us == u32::MAX { conn.initial_cwnd } else { bdp(bw, self.min_rtt_us, gain) }
    }

    /// Room for three bursts, in even numbers for delayed ACKs.
    fn with_room_for_bursts(&self, conn: &Conn, window: u32) -> u32 {
        let even = (window + 3 * burst_segments(conn, 0) + 1) & !1;
        let probing = self.mode == Mode::ProbeBw && self.cycle_index == 0 && self.kernel != Kernel::V4_15;
        even + if probing { 2 } else { 0 }
    }

    /// Segments in flight that `gain` times the bandwidth calls for.
    pub fn inflight_target(&self, conn: &Conn, bw: u64, gain: u32) -> u32 {
        self.with_room_for_bursts(conn, self.bdp(conn, bw, gain))
    }

    /// What will be in flight when the pacer lets the next packet go.
    fn in_flight_at_departure(&self, conn: &Conn, in_flight: u32) -> u32 {
        if self.kernel == Kernel::V4_15 {
            return in_flight;
        }
        let burst = if self.pacing_gain > UNIT { burst_segments(conn, 0) } else { 0 };
        in_flight_at_departure(conn, in_flight + burst, self.bw())
    }

    fn pacing_rate(&self, conn: &Conn, bw: u64, gain: u32) -> u64 {
        match self.kernel {
            Kernel::V4_15 => {
                // Our pacer charges payload, `fq` frames.
                let mtu = u64::from(conn.mss) + HEADERS;
                bytes_per_second(bw, mtu, gain, 100) * u64::from(conn.mss) / (mtu + ETHERNET)
            }
            Kernel::V6 | Kernel::V6_12 => bytes_per_second(bw, u64::from(conn.mss), gain, PACING_PERCENT),
        }
    }

    fn init_pacing(&mut self, conn: &mut Conn) {
        let mut rtt_us = 1_000;
        if conn.srtt8_us > 0 {
            rtt_us = u64::from(conn.srtt8_us >> 3).max(1);
            self.has_seen_rtt = true;
        }
        let bw = u64::from(conn.cwnd) * BW_UNIT / rtt_us;
        conn.pacing_rate = self.pacing_rate(conn, bw, HIGH_GAIN);
    }

    pub fn set_pacing(&mut self, conn: &mut Conn, bw: u64, gain: u32) {
        if !self.has_seen_rtt && conn.srtt8_us > 0 {
            self.init_pacing(conn);
        }
        let rate = self.pacing_rate(conn, bw, gain);
        if self.full_bw_reached || rate > conn.pacing_rate {
            conn.pacing_rate = rate;
        }
    }

    pub fn save_cwnd(&mut self, conn: &Conn) {
        let undisturbed = self.previous_state < CaState::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if undisturbed { conn.cwnd } else { self.prior_cwnd.max(conn.cwnd) };
    }

    pub fn update_bw(&mut self, conn: &mut Conn, rate: &RateSample) {
        self.rounds.start = false;
        let Some(bw) = sample_rate(rate) else { return };
        self.rounds.update(conn, rate);
        if self.rounds.start {
            self.packet_conservation = false;
        }
        if self.variant.detects_policers {
            self.watch_for_policer(conn, rate.lost > 0, rate.app_limited);
        }
        if !rate.app_limited || bw >= self.max_bw.get() {
            self.max_bw.update(BW_ROUNDS, self.rounds.count, bw);
        }
    }

    fn watch_for_policer(&mut self, conn: &mut Conn, lost: bool, app_limited: bool) {
        match self.policer.watch(conn, lost, app_limited, self.rounds.start, self.mode == Mode::ProbeBw) {
            PolicerState::Unchanged => {}
            PolicerState::Found => self.pacing_gain = UNIT,
            PolicerState::Over => self.enter_probe_bw(conn),
        }
    }

    pub fn update_aggregation(&mut self, conn: &Conn, rate: &RateSample) {
        if self.kernel != Kernel::V4_15 {
            self.aggregation.update(conn, rate, self.rounds.start, self.bw(), EXTRA_ACKED_ROUNDS);
        }
    }

    pub fn check_full_pipe(&mut self, rate: &RateSample) {
        if self.full_bw_reached || !self.rounds.start || rate.app_limited {
            return;
        }
        let bw = self.max_bw.get();
        if bw >= (self.full_bw * u64::from(FULL_BW_GROWTH)) >> 8 {
            self.full_bw = bw;
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full_bw_reached = self.full_bw_rounds >= FULL_BW_ROUNDS;
    }

    /// Look for the pipe's end anew.
    pub fn forget_full_pipe(&mut self) {
        self.full_bw = 0;
        self.full_bw_rounds = 0;
    }

    pub fn check_drain(&mut self, conn: &mut Conn) {
        let full = self.max_bw.get();
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            conn.ssthresh = self.inflight_target(conn, full, UNIT);
        }
        if self.mode == Mode::Drain
            && self.in_flight_at_departure(conn, conn.in_flight) <= self.inflight_target(conn, full, UNIT)
        {
            self.enter_probe_bw(conn);
        }
    }

    pub fn min_rtt_expired(&self, conn: &Conn) -> bool {
        conn.jiffies > self.min_rtt_stamp + u64::from(self.variant.min_rtt_window_s * conn.hz)
    }

    pub fn update_min_rtt(&mut self, conn: &mut Conn, rate: &RateSample) {
        let expired = self.min_rtt_expired(conn);
        if let Some(rtt) = rate.rtt_us
            && (rtt < self.min_rtt_us || expired)
        {
            self.min_rtt_us = rtt;
            self.min_rtt_stamp = conn.jiffies;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.enter_probe_rtt(conn);
        }
        if self.mode == Mode::ProbeRtt && self.stay_in_probe_rtt(conn) {
            self.leave_probe_rtt(conn);
        }
        if rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    pub fn enter_probe_rtt(&mut self, conn: &Conn) {
        // In this order, as Linux has it, the window kept is never below the one kept before.
        self.mode = Mode::ProbeRtt;
        self.save_cwnd(conn);
        self.probe_rtt_done = None;
    }

    fn probe_rtt_cwnd(&self, conn: &Conn) -> u32 {
        let gain = self.variant.probe_rtt_gain;
        if gain == 0 { CWND_MIN } else { self.bdp(conn, self.bw(), gain).max(CWND_MIN) }
    }

    /// One ACK in ProbeRTT; true when it is over: 200 ms and one round with the small window.
    pub fn stay_in_probe_rtt(&mut self, conn: &mut Conn) -> bool {
        // The low rates of this time say nothing about the path.
        conn.mark_app_limited();
        match self.probe_rtt_done {
            None => {
                if conn.in_flight <= self.probe_rtt_cwnd(conn) {
                    self.probe_rtt_done = Some(conn.jiffies + u64::from(PROBE_RTT_MS * conn.hz).div_ceil(1_000));
                    self.probe_rtt_round_done = false;
                    self.rounds.begin(conn);
                }
                false
            }
            Some(done) => {
                self.probe_rtt_round_done |= self.rounds.start;
                self.probe_rtt_round_done && conn.jiffies > done
            }
        }
    }

    fn leave_probe_rtt(&mut self, conn: &mut Conn) {
        self.min_rtt_stamp = conn.jiffies;
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.enter_probe_bw(conn);
        } else {
            self.mode = Mode::Startup;
        }
    }

    pub fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBw if self.cycle_index == 0 => (self.probe_gain, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.cycle_index], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    pub fn set_cwnd(&mut self, conn: &mut Conn, rate: &RateSample, bw: u64) {
        let acked = rate.acked;
        if acked > 0 {
            let mut cwnd = self.recover_or_restore(conn, rate);
            if !self.packet_conservation {
                let mut target = self.bdp(conn, bw, self.cwnd_gain);
                if self.full_bw_reached && self.kernel != Kernel::V4_15 {
                    target += self.aggregation.allowance(self.bw());
                }
                let target = self.with_room_for_bursts(conn, target);
                if self.full_bw_reached {
                    cwnd = (cwnd + acked).min(target);
                } else if cwnd < target || conn.delivered < conn.initial_cwnd {
                    cwnd += acked;
                }
                cwnd = cwnd.max(CWND_MIN);
            }
            conn.cwnd = cwnd.min(conn.cwnd_clamp);
        }
        if self.mode == Mode::ProbeRtt {
            conn.cwnd = conn.cwnd.min(self.probe_rtt_cwnd(conn));
        }
    }

    /// In the first round of a recovery send as much as is delivered; afterwards take the old window back.
    fn recover_or_restore(&mut self, conn: &Conn, rate: &RateSample) -> u32 {
        let (previous, state) = (self.previous_state, conn.state);
        let mut cwnd = if rate.lost > 0 { conn.cwnd.saturating_sub(rate.lost).max(1) } else { conn.cwnd };
        if state == CaState::Recovery && previous != CaState::Recovery {
            self.packet_conservation = true;
            self.rounds.begin(conn);
            cwnd = conn.in_flight + rate.acked;
        } else if previous >= CaState::Recovery && state < CaState::Recovery {
            self.packet_conservation = false;
            cwnd = cwnd.max(self.prior_cwnd);
        }
        self.previous_state = state;
        if self.packet_conservation { cwnd.max(conn.in_flight + rate.acked) } else { cwnd }
    }
}

impl Controller for Bbr {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        conn.ssthresh = SSTHRESH_INFINITE;
        self.rounds.begin(conn);
        self.min_rtt_us = conn.min_rtt_us;
        self.min_rtt_stamp = conn.jiffies;
        self.policer.forget(conn);
        self.init_pacing(conn);
        self.aggregation.begin_epoch(conn.now.micros());
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        self.save_cwnd(conn);
        conn.ssthresh
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        self.forget_full_pipe();
        self.policer.forget(conn);
        conn.cwnd
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        if new == CaState::Loss {
            self.previous_state = CaState::Loss;
            self.full_bw = 0;
            // A timeout ends the round and counts as a loss.
            self.rounds.start = true;
            if self.variant.detects_policers {
                self.watch_for_policer(conn, true, false);
            }
        }
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        if event != Event::TxStart || conn.app_limited == 0 {
            return;
        }
        self.idle_restart = true;
        self.aggregation.begin_epoch(conn.now.micros());
        match self.mode {
            Mode::ProbeBw => self.set_pacing(conn, self.bw(), UNIT),
            Mode::ProbeRtt if self.probe_rtt_done.is_some_and(|done| conn.jiffies > done) => {
                self.leave_probe_rtt(conn);
            }
            _ => {}
        }
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn control(&mut self, conn: &mut Conn, rate: &RateSample) {
        self.update_bw(conn, rate);
        self.update_aggregation(conn, rate);
        self.update_cycle(conn, rate);
        self.check_full_pipe(rate);
        self.check_drain(conn);
        self.update_min_rtt(conn, rate);
        self.update_gains();
        let bw = self.bw();
        self.set_pacing(conn, bw, self.pacing_gain);
        self.set_cwnd(conn, rate, bw);
    }

    fn paces(&self) -> bool {
        true
    }

    fn send_buffer_windows(&self) -> u32 {
        3
    }
}
