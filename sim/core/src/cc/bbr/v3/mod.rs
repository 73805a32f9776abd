//! BBR, third version, as in Google's Linux tree, with the IETF draft as a flavour (draft-ietf-ccwg-bbr; section
//! names below are its).
//!
//! Beside version 1's model stand bounds learnt from loss: `inflight_hi` and the bandwidth of the last two probing
//! cycles from above, `bw_lo` and `inflight_lo` for the time since the last probe from below.
//!
//! `flavour = ietf` differs from Linux where the draft does: drain gain 0.5 and at most three rounds of it, 0.90 in
//! DOWN, loss threshold, cut and headroom without the fixed-point rounding of Linux (2 %, 0.7, 15 %), the plateau of
//! Startup judged at round starts only, a minimum RTT that only a smaller one refreshes, and a spurious loss that ended
//! Startup or a probe takes the flow back there. ECN is left out (Linux uses it below 5 ms of RTT only), and so is what
//! Linux does when a tail probe repairs a loss.

mod bounds;
mod cruise;
#[cfg(test)]
mod paths;
mod plateau;
mod probe;
mod probe_rtt;
#[cfg(test)]
mod tests;

use super::super::{CaState, Conn, Controller, Event, Params, RateSample, SSTHRESH_INFINITE, Transmission};
use super::{Aggregation, BURST_MAX, BW_UNIT, EXTRA_ACKED_ROUNDS, Rounds, UNIT};
use super::{bdp, burst_segments, bytes_per_second, in_flight_at_departure};
use bounds::Bounds;
use probe::{AckPhase, Phase, Probe};

const STARTUP_PACING_GAIN: u32 = UNIT * 277 / 100 + 1;
const CWND_GAIN: u32 = 2 * UNIT;
/// In UP, on top of the gain: room for the queue that probing builds.
const CWND_GAIN_UP: u32 = UNIT / 4;
const CWND_MIN: u32 = 4;
/// `tcp_min_tso_segs`, and the draft's least send quantum: at any rate, unlike version 1.
const BURST_MIN: u32 = 2;
const PACING_PERCENT: u64 = 99;
/// The draft drains no longer than this.
const DRAIN_ROUNDS: u32 = 3;

pub const PARAMS: &[(&str, &str)] =
    &[("flavour", "\"linux\""), ("min_rtt_window_s", "10"), ("probe_rtt_interval_s", "5"), ("cwnd_gain", "2")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let flavour = match params.text("flavour", "linux", &["linux", "ietf"])? {
        "ietf" => &IETF,
        _ => &LINUX,
    };
    let default = Tuning::default();
    let ms = |name, default_ms| Ok::<_, String>((params.number(name, default_ms as f64 / 1e3, 0.1, 1e5)? * 1e3) as u64);
    let tuning = Tuning {
        min_rtt_window_ms: ms("min_rtt_window_s", default.min_rtt_window_ms)?,
        probe_rtt_interval_ms: ms("probe_rtt_interval_s", default.probe_rtt_interval_ms)?,
        cwnd_gain: (params.number("cwnd_gain", 2.0, 1.0, 100.0)? * f64::from(UNIT)) as u32,
    };
    Ok(Box::new(Bbr3 { tuning, ..Bbr3::new(flavour) }))
}

/// What researchers vary; the draft's MinRTTFilterLen, ProbeRTTInterval and DefaultCwndGain.
#[derive(Clone, Copy, Debug)]
struct Tuning {
    min_rtt_window_ms: u64,
    probe_rtt_interval_ms: u64,
    /// In ProbeBW.
    cwnd_gain: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { min_rtt_window_ms: 10_000, probe_rtt_interval_ms: 5_000, cwnd_gain: CWND_GAIN }
    }
}

/// A share `.0 / .1`, rounded down when taken.
#[derive(Clone, Copy, Debug)]
struct Share(u64, u64);

impl Share {
    fn of(self, x: u64) -> u64 {
        x * self.0 / self.1
    }
}

/// Where Linux and the draft differ.
#[derive(Debug)]
struct Flavour {
    is_draft: bool,
    drain_gain: u32,
    down_gain: u32,
    /// More than this share of a flight lost is too much.
    loss_threshold: Share,
    /// What remains after too much loss.
    cut: Share,
    /// Left free below `inflight_hi` while cruising.
    headroom: Share,
}

static LINUX: Flavour = Flavour {
    is_draft: false,
    drain_gain: UNIT * 1000 / 2885,
    down_gain: UNIT * 91 / 100,
    loss_threshold: Share(5, 256),
    cut: Share(256 - 76, 256),
    headroom: Share(38, 256),
};

static IETF: Flavour = Flavour {
    is_draft: true,
    drain_gain: UNIT / 2,
    down_gain: UNIT * 90 / 100,
    loss_threshold: Share(2, 100),
    cut: Share(7, 10),
    headroom: Share(15, 100),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Where too much loss ends the search for bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probing {
    Startup,
    Up,
}

/// What undo restores of the time before a recovery.
#[derive(Clone, Copy, Debug)]
struct Before {
    bounds: Bounds,
    /// What the recovery's losses have ended.
    left: Option<Probing>,
    /// Kept at a loss whose recovery has not begun yet.
    fresh: bool,
}

#[derive(Clone, Debug)]
pub struct Bbr3 {
    flavour: &'static Flavour,
    tuning: Tuning,
    mode: Mode,
    pacing_gain: u32,
    cwnd_gain: u32,
    rounds: Rounds,
    aggregation: Aggregation,
    /// Largest bandwidth of the previous and the present probing cycle.
    bw_hi: [u64; 2],
    bounds: Bounds,
    before: Before,
    probe: Probe,
    drain_start_round: u32,
    // Bandwidth plateau.
    full_bw: u64,
    full_bw_rounds: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    // Loss in the present round, and what was delivered in it.
    loss_round_delivered: u32,
    loss_round_start: bool,
    loss_in_round: bool,
    loss_events_in_round: u32,
    bw_latest: u64,
    inflight_latest: u32,
    // Round-trip time.
    min_rtt_us: u32,
    min_rtt_stamp: u64,
    probe_rtt_min_us: u32,
    probe_rtt_min_stamp: u64,
    probe_rtt_done: Option<u64>,
    probe_rtt_round_done: bool,
    prior_cwnd: u32,
    previous_state: CaState,
    idle_restart: bool,
}

impl Bbr3 {
    fn new(flavour: &'static Flavour) -> Bbr3 {
        let bounds = Bounds::default();
        Bbr3 {
            flavour,
            tuning: Tuning::default(),
            mode: Mode::Startup,
            pacing_gain: STARTUP_PACING_GAIN,
            cwnd_gain: CWND_GAIN,
            rounds: Rounds::default(),
            aggregation: Aggregation::default(),
            bw_hi: [0; 2],
            bounds,
            before: Before { bounds, left: None, fresh: false },
            probe: Probe::default(),
            drain_start_round: 0,
            full_bw: 0,
            full_bw_rounds: 0,
            full_bw_now: false,
            full_bw_reached: false,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_in_round: false,
            loss_events_in_round: 0,
            bw_latest: 0,
            inflight_latest: 0,
            min_rtt_us: u32::MAX,
            min_rtt_stamp: 0,
            probe_rtt_min_us: u32::MAX,
            probe_rtt_min_stamp: 0,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            prior_cwnd: 0,
            previous_state: CaState::Open,
            idle_restart: false,
        }
    }

    fn max_bw(&self) -> u64 {
        self.bw_hi[0].max(self.bw_hi[1])
    }

    /// The bandwidth in force.
    fn bw(&self) -> u64 {
        self.max_bw().min(self.bounds.bw_lo)
    }

    fn in_phase(&self, phase: Phase) -> bool {
        self.mode == Mode::ProbeBw && self.probe.phase == phase
    }

    /// Losses now are the price of looking for bandwidth.
    fn is_probing(&self) -> bool {
        self.mode == Mode::Startup || self.in_phase(Phase::Refill) || self.in_phase(Phase::Up)
    }

    fn bdp(&self, conn: &Conn, bw: u64, gain: u32) -> u32 {
        if self.min_rtt_us == u32::MAX { conn.initial_cwnd } else { bdp(bw, self.min_rtt_us, gain) }
    }

    /// Segments of one burst: a millisecond, and more on paths shorter than a few milliseconds.
    fn burst_segments(&self, conn: &Conn) -> u32 {
        const SHORT_PATH_BYTES: u64 = 65_536;
        let halvings = self.min_rtt_us >> 9;
        burst_segments(conn, if halvings < 32 { SHORT_PATH_BYTES >> halvings } else { 0 }).max(BURST_MIN)
    }

    /// At least three bursts and the minimum window; two more while probing.
    fn with_room_for_bursts(&self, conn: &Conn, mut window: u32) -> u32 {
        if window < 3 * BURST_MAX {
            window = window.max(3 * self.burst_segments(conn)).max(CWND_MIN);
        }
        window + if self.in_phase(Phase::Up) { 2 } else { 0 }
    }

    fn inflight(&self, conn: &Conn, bw: u64, gain: u32) -> u32 {
        self.with_room_for_bursts(conn, self.bdp(conn, bw, gain))
    }

    /// What a flow that respects its model has in flight.
    fn target_inflight(&self, conn: &Conn) -> u32 {
        self.inflight(conn, self.bw(), UNIT).min(conn.cwnd)
    }

    fn in_flight_at_departure(&self, conn: &Conn, in_flight: u32) -> u32 {
        let burst = if self.pacing_gain > UNIT { self.burst_segments(conn) } else { 0 };
        in_flight_at_departure(conn, in_flight + burst, self.bw())
    }

    fn update_latest(&mut self, conn: &Conn, rate: &RateSample, bw: u64) {
        self.loss_round_start = false;
        if rate.interval_us == 0 || rate.acked == 0 {
            return;
        }
        self.bw_latest = self.bw_latest.max(bw);
        self.inflight_latest = self.inflight_latest.max(rate.delivered);
        if rate.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = conn.delivered;
            self.loss_round_start = true;
        }
    }

    fn update_congestion_signals(&mut self, conn: &Conn, rate: &RateSample, bw: u64) {
        if rate.interval_us == 0 {
            return;
        }
        if !rate.app_limited || bw >= self.max_bw() {
            self.bw_hi[1] = self.bw_hi[1].max(bw);
        }
        self.loss_in_round |= rate.lost > 0;
        if self.loss_round_start {
            if self.loss_in_round && !self.is_probing() {
                let (max_bw, cut) = (self.max_bw(), self.flavour.cut);
                self.bounds.lower(max_bw, conn.cwnd, self.bw_latest, self.inflight_latest, cut);
            }
            self.loss_in_round = false;
        }
    }

    fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    fn check_drain(&mut self, conn: &mut Conn) {
        if !matches!(self.mode, Mode::Startup | Mode::Drain) {
            return;
        }
        let target = self.inflight(conn, self.max_bw(), UNIT);
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            self.drain_start_round = self.rounds.count;
            conn.ssthresh = target;
            self.reset_congestion_signals();
        }
        if self.mode == Mode::Drain {
            let too_long = self.flavour.is_draft && self.rounds.count > self.drain_start_round + DRAIN_ROUNDS;
            if too_long || self.in_flight_at_departure(conn, conn.in_flight) <= target {
                self.mode = Mode::ProbeBw;
                self.start_down(conn);
            }
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match (self.mode, self.probe.phase) {
            (Mode::Startup, _) => (STARTUP_PACING_GAIN, CWND_GAIN),
            (Mode::Drain, _) => (self.flavour.drain_gain, CWND_GAIN),
            (Mode::ProbeBw, Phase::Up) => (UNIT * 5 / 4, self.tuning.cwnd_gain + CWND_GAIN_UP),
            (Mode::ProbeBw, Phase::Down) => (self.flavour.down_gain, self.tuning.cwnd_gain),
            (Mode::ProbeBw, Phase::Cruise | Phase::Refill) => (UNIT, self.tuning.cwnd_gain),
            (Mode::ProbeRtt, _) => (UNIT, UNIT),
        };
    }

    fn set_pacing(&self, conn: &mut Conn, gain: u32) {
        let rate = bytes_per_second(self.bw(), u64::from(conn.mss), gain, PACING_PERCENT);
        if self.full_bw_reached || rate > conn.pacing_rate {
            conn.pacing_rate = rate;
        }
    }

    fn save_cwnd(&mut self, conn: &Conn) {
        let undisturbed = self.previous_state < CaState::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if undisturbed { conn.cwnd } else { self.prior_cwnd.max(conn.cwnd) };
    }

    fn save_before(&mut self) {
        self.before = Before { bounds: self.bounds, left: None, fresh: false };
    }

    #[inline(always)]
    fn set_cwnd(&mut self, conn: &mut Conn, acked: u32) {
        if acked > 0 {
            let bw = self.bw();
            let target = self.bdp(conn, bw, self.cwnd_gain) + self.aggregation.allowance(bw);
            let target = self.with_room_for_bursts(conn, target);
            let mut cwnd = conn.cwnd;
            if self.full_bw_reached {
                cwnd = (cwnd + acked).min(target);
            } else if cwnd < target || cwnd < 2 * conn.initial_cwnd {
                cwnd += acked;
            }
            conn.cwnd = cwnd.max(CWND_MIN).min(conn.cwnd_clamp);
        }
        if self.mode == Mode::ProbeRtt {
            conn.cwnd = conn.cwnd.min(self.probe_rtt_cwnd(conn));
        }
        let upper = match (self.mode, self.probe.phase) {
            (Mode::ProbeRtt, _) | (Mode::ProbeBw, Phase::Cruise) => self.bounds.with_headroom(self.flavour.headroom),
            (Mode::ProbeBw, _) => self.bounds.inflight_hi,
            (Mode::Startup | Mode::Drain, _) => u32::MAX,
        };
        conn.cwnd = conn.cwnd.min(upper.min(self.bounds.inflight_lo).max(CWND_MIN));
    }
}

impl Controller for Bbr3 {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        conn.ssthresh = SSTHRESH_INFINITE;
        self.rounds.begin(conn);
        self.loss_round_delivered = conn.delivered + 1;
        self.min_rtt_us = conn.min_rtt_us;
        self.min_rtt_stamp = conn.jiffies;
        self.probe_rtt_min_us = conn.min_rtt_us;
        self.probe_rtt_min_stamp = conn.jiffies;
        let rtt_us = if conn.srtt8_us > 0 { u64::from(conn.srtt8_us >> 3).max(1) } else { 1_000 };
        let bw = u64::from(conn.cwnd) * BW_UNIT / rtt_us;
        conn.pacing_rate = bytes_per_second(bw, u64::from(conn.mss), STARTUP_PACING_GAIN, PACING_PERCENT);
        self.aggregation.begin_epoch(conn.now.micros());
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        self.save_cwnd(conn);
        if !self.before.fresh {
            self.save_before();
        }
        self.before.fresh = false;
        conn.ssthresh
    }

    fn undo(&mut self, conn: &mut Conn) -> u32 {
        self.reset_full_bw();
        self.loss_in_round = false;
        self.bounds.raise_to(&self.before.bounds);
        if self.flavour.is_draft {
            self.return_to_probing(conn);
        }
        self.prior_cwnd
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        if new == CaState::Loss {
            self.previous_state = CaState::Loss;
            self.reset_full_bw();
            if !self.is_probing() && self.bounds.inflight_lo == u32::MAX {
                self.bounds.inflight_lo = conn.cwnd.max(self.prior_cwnd);
            }
        } else if self.previous_state == CaState::Loss {
            conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        }
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        if event != Event::TxStart || conn.app_limited == 0 {
            return;
        }
        self.idle_restart = true;
        self.aggregation.begin_epoch(conn.now.micros());
        match self.mode {
            Mode::ProbeBw => self.set_pacing(conn, UNIT),
            Mode::ProbeRtt if self.probe_rtt_done.is_some_and(|done| conn.jiffies > done) => {
                self.leave_probe_rtt(conn);
            }
            _ => {}
        }
    }

    fn watches_losses(&self) -> bool {
        true
    }

    fn on_packet_lost(&mut self, conn: &mut Conn, packet: &Transmission) {
        self.note_loss(conn, packet);
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn control(&mut self, conn: &mut Conn, rate: &RateSample) {
        if !self.cruise(conn, rate) {
            self.follow(conn, rate);
        }
    }

    fn paces(&self) -> bool {
        true
    }

    fn send_buffer_windows(&self) -> u32 {
        3
    }
}

impl Bbr3 {
    /// Any ACK.
    #[inline(never)]
    fn follow(&mut self, conn: &mut Conn, rate: &RateSample) {
        self.rounds.start = false;
        // Rounded up, unlike version 1's samples: low rates could not grow.
        let mut bw = 0;
        if rate.interval_us > 0 {
            bw = (u64::from(rate.delivered) * BW_UNIT).div_ceil(rate.interval_us);
            self.rounds.update(conn, rate);
            self.probe.rounds_since = (self.probe.rounds_since + u32::from(self.rounds.start)).min(255);
        }
        self.update_latest(conn, rate, bw);
        self.update_congestion_signals(conn, rate, bw);
        let slot_rounds = if self.full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        self.aggregation.update(conn, rate, self.rounds.start, self.bw(), slot_rounds);
        self.check_startup_loss(conn, rate);
        self.check_full_bw(rate, bw);
        self.check_drain(conn);
        self.update_phase(conn, rate, bw);
        self.update_min_rtt(conn, rate);
        self.update_gains();
        self.set_pacing(conn, self.pacing_gain);
        self.set_cwnd(conn, rate.acked);
        if self.loss_round_start {
            self.bw_latest = bw;
            self.inflight_latest = rate.delivered;
        }
        self.previous_state = conn.state;
    }
}
