//! BBR, third version, as in Google's Linux tree, or as in draft-ietf-ccwg-bbr-06 (`draft = 06`, the type parameter
//! `DRAFT`). Section numbers are those of the draft.
//!
//! Beside version 1's model stand bounds learnt from loss: `inflight_hi` and the bandwidth of the last two probing
//! cycles from above, `bw_lo` and `inflight_lo` for the time since the last probe from below.
//!
//! Numbers that differ are in [`Rules`]; rules that differ are branches on `DRAFT`, which the compiler resolves, and
//! `draft.rs`. Marks are ignored: Linux's response needs a route with ECN_LOW, and the draft defines none (3.7). What Linux does when a
//! tail probe repairs a loss is left out, and so is protective load balancing.
//!
//! Where the draft contradicts itself or is silent, this is what is done:
//! - BBR.bw is computed when it is read, not once per ACK (5.2.3): no rule sees a bandwidth of the ACK before.
//! - C.inflight is what is left after the ACK, but before the ACK where a probe is stopped as a precaution (5.3.3.9):
//!   the bound compared is one of the window, too, and less than a window would be left after any ACK.
//! - Undo restores what held when the recovery began (2.15, 5.5.11), not at the first loss of its latest round
//!   (NoteLoss in 5.5.10.2); a timeout within a recovery belongs to it.
//! - Drain has no bound of inflight_longterm (BoundCwndForModel in 5.6.4.7; the table of 5.6.1 has one).
//! - ProbeRTT keeps half a product in flight (5.3.4.1, 5.6.4.5), not four packets (2.16.2).
//! - Filters of a length of n have n slots (2.11, 5.5.9), one fewer than Kathleen Nichols' code would keep.
//! - A cycle without a reliable rate sample does not move the filter of the bandwidth, nor such a round the plateau.

mod bounds;
mod cruise;
mod draft;
#[cfg(test)]
mod draft_tests;
#[cfg(test)]
mod path_tests;
mod plateau;
mod probe;
mod probe_rtt;
#[cfg(test)]
mod tests;

use super::super::{CaState, Conn, Controller, Event, Params, RateSample, SSTHRESH_INFINITE, Transmission};
use super::{Aggregation, BURST_MAX, BW_UNIT, EXTRA_ACKED_ROUNDS, MaxFilter, Rounds, UNIT};
use super::{bdp, burst_segments, bytes_per_second, in_flight_at_departure};
use bounds::Bounds;
use draft::LostRanges;
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
    &[("draft", "\"off\""), ("min_rtt_window_s", "10"), ("probe_rtt_interval_s", "5"), ("cwnd_gain", "2")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let draft = params.text("draft", "off", &["off", "06"])? == "06";
    let default = Tuning::default();
    let ms = |name, default_ms| Ok::<_, String>((params.number(name, default_ms as f64 / 1e3, 0.1, 1e5)? * 1e3) as u64);
    let tuning = Tuning {
        min_rtt_window_ms: ms("min_rtt_window_s", default.min_rtt_window_ms)?,
        probe_rtt_interval_ms: ms("probe_rtt_interval_s", default.probe_rtt_interval_ms)?,
        cwnd_gain: (params.number("cwnd_gain", 2.0, 1.0, 100.0)? * f64::from(UNIT)) as u32,
    };
    Ok(if draft {
        Box::new(Bbr3::<true> { tuning, ..Bbr3::new() })
    } else {
        Box::new(Bbr3::<false> { tuning, ..Bbr3::new() })
    })
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

/// Numbers that differ between Linux and the draft.
#[derive(Debug)]
struct Rules {
    drain_gain: u32,
    down_gain: u32,
    /// More than this share of a flight lost is too much.
    loss_threshold: Share,
    /// What remains after too much loss.
    cut: Share,
    /// Left free below `inflight_hi` while cruising.
    headroom: Share,
    initial_pacing_percent: u64,
}

const LINUX: Rules = Rules {
    drain_gain: UNIT * 1000 / 2885,
    down_gain: UNIT * 91 / 100,
    loss_threshold: Share(5, 256),
    cut: Share(256 - 76, 256),
    headroom: Share(38, 256),
    initial_pacing_percent: PACING_PERCENT,
};

/// BBR.DrainPacingGain (2.5), the gain of DOWN (5.3.3.1), BBR.LossThresh, BBR.Beta and BBR.Headroom (2.8), and the
/// initial rate without the margin of later ones (InitPacingRate in 5.6.2).
const DRAFT_06: Rules = Rules {
    drain_gain: UNIT / 2,
    down_gain: UNIT * 90 / 100,
    loss_threshold: Share(2, 100),
    cut: Share(7, 10),
    headroom: Share(15, 100),
    initial_pacing_percent: 100,
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
pub struct Bbr3<const DRAFT: bool> {
    tuning: Tuning,
    mode: Mode,
    pacing_gain: u32,
    cwnd_gain: u32,
    rounds: Rounds,
    aggregation: Aggregation,
    /// BBR.extra_acked_filter of the draft.
    extra_acked: MaxFilter,
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
    lost_ranges: LostRanges,
    /// Segments delivered when fast recovery began.
    recovery_delivered: u32,
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

impl<const DRAFT: bool> Bbr3<DRAFT> {
    const RULES: Rules = if DRAFT { DRAFT_06 } else { LINUX };

    fn new() -> Self {
        let bounds = Bounds::default();
        Bbr3 {
            tuning: Tuning::default(),
            mode: Mode::Startup,
            pacing_gain: STARTUP_PACING_GAIN,
            cwnd_gain: CWND_GAIN,
            rounds: Rounds::default(),
            aggregation: Aggregation::default(),
            extra_acked: MaxFilter::default(),
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
            lost_ranges: LostRanges::default(),
            recovery_delivered: 0,
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
        if DRAFT {
            window = window.max(draft::offload_budget(conn)).max(CWND_MIN);
        } else if window < 3 * BURST_MAX {
            window = window.max(3 * self.burst_segments(conn)).max(CWND_MIN);
        }
        window + if self.in_phase(Phase::Up) { 2 } else { 0 }
    }

    fn inflight(&self, conn: &Conn, bw: u64, gain: u32) -> u32 {
        self.with_room_for_bursts(conn, self.bdp(conn, bw, gain))
    }

    /// What a flow that respects its model has in flight.
    fn target_inflight(&self, conn: &Conn) -> u32 {
        // TargetInflight (5.3.3.8): a bare product.
        let product = if DRAFT { self.bdp(conn, self.bw(), UNIT) } else { self.inflight(conn, self.bw(), UNIT) };
        product.min(conn.cwnd)
    }

    fn in_flight_at_departure(&self, conn: &Conn, in_flight: u32) -> u32 {
        let burst = if self.pacing_gain > UNIT { self.burst_segments(conn) } else { 0 };
        in_flight_at_departure(conn, in_flight + burst, self.bw())
    }

    /// Does an ACK's sample move rounds on? In the draft any of delivered data does (5.5.5, 5.5.10.3), in Linux only one
    /// that is reliable.
    #[inline(always)]
    fn counts(rate: &RateSample) -> bool {
        if DRAFT { rate.delivered > 0 } else { rate.interval_us > 0 }
    }

    fn update_latest(&mut self, conn: &Conn, rate: &RateSample, bw: u64) {
        self.loss_round_start = false;
        if !Self::counts(rate) || rate.acked == 0 {
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
        if !Self::counts(rate) {
            return;
        }
        if !rate.app_limited || bw >= self.max_bw() {
            self.bw_hi[1] = self.bw_hi[1].max(bw);
        }
        // The loss that ends a probe is forgotten with it (HandleInflightTooHigh in 5.5.10.2, StartProbeBW_DOWN in 5.3.3.9).
        self.loss_in_round |= !DRAFT && rate.lost > 0;
        if self.loss_round_start {
            if !self.is_probing() {
                self.adapt_lower_bounds(conn);
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
        // CheckDrainDone (5.3.2): Inflight(1.0) is of BBR.bw, C.inflight is not corrected for the pacer.
        let bw = if DRAFT { self.bw() } else { self.max_bw() };
        let target = self.inflight(conn, bw, UNIT);
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            self.drain_start_round = self.rounds.count;
            conn.ssthresh = target;
            if !DRAFT {
                self.reset_congestion_signals();
            }
        }
        if self.mode == Mode::Drain {
            let too_long = DRAFT && self.rounds.count > self.drain_start_round + DRAIN_ROUNDS;
            let in_flight = if DRAFT { conn.in_flight } else { self.in_flight_at_departure(conn, conn.in_flight) };
            if too_long || in_flight <= target {
                self.mode = Mode::ProbeBw;
                self.start_down(conn);
            }
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match (self.mode, self.probe.phase) {
            (Mode::Startup, _) => (STARTUP_PACING_GAIN, CWND_GAIN),
            (Mode::Drain, _) => (Self::RULES.drain_gain, CWND_GAIN),
            (Mode::ProbeBw, Phase::Up) => (UNIT * 5 / 4, self.tuning.cwnd_gain + CWND_GAIN_UP),
            (Mode::ProbeBw, Phase::Down) => (Self::RULES.down_gain, self.tuning.cwnd_gain),
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

    /// Too early for the model to limit the window (SetCwnd in 5.6.4.6: by what was delivered, in Linux by the window).
    fn knows_little(conn: &Conn) -> bool {
        if DRAFT { conn.delivered < conn.initial_cwnd } else { conn.cwnd < 2 * conn.initial_cwnd }
    }

    #[inline(always)]
    fn set_cwnd(&mut self, conn: &mut Conn, acked: u32) {
        if acked > 0 {
            let bw = self.bw();
            let aggregated = if DRAFT { self.extra_acked.get() as u32 } else { self.aggregation.allowance(bw) };
            let target = self.bdp(conn, bw, self.cwnd_gain) + aggregated;
            let target = self.with_room_for_bursts(conn, target);
            let mut cwnd = conn.cwnd;
            if self.full_bw_reached {
                cwnd = (cwnd + acked).min(target);
            } else if cwnd < target || Self::knows_little(conn) {
                cwnd += acked;
            }
            conn.cwnd = cwnd.max(CWND_MIN).min(conn.cwnd_clamp);
        }
        if self.mode == Mode::ProbeRtt {
            conn.cwnd = conn.cwnd.min(self.probe_rtt_cwnd(conn));
        }
        let upper = match (self.mode, self.probe.phase) {
            (Mode::ProbeRtt, _) | (Mode::ProbeBw, Phase::Cruise) => self.bounds.with_headroom(Self::RULES.headroom),
            (Mode::ProbeBw, _) => self.bounds.inflight_hi,
            (Mode::Startup | Mode::Drain, _) => u32::MAX,
        };
        conn.cwnd = conn.cwnd.min(upper.min(self.bounds.inflight_lo).max(CWND_MIN));
    }
}

impl<const DRAFT: bool> Controller for Bbr3<DRAFT> {
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
        let percent = Self::RULES.initial_pacing_percent;
        conn.pacing_rate = bytes_per_second(bw, u64::from(conn.mss), STARTUP_PACING_GAIN, percent);
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
        if DRAFT {
            self.return_to_probing(conn);
            return self.prior_cwnd.max(conn.cwnd);
        }
        self.prior_cwnd
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        if DRAFT {
            self.follow_state(conn, new);
        } else if new == CaState::Loss {
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
        if DRAFT {
            // HandleRestartFromIdle (5.4.1): extra_acked_delivered goes on.
            self.aggregation.epoch_start_us = conn.now.micros();
        } else {
            self.aggregation.begin_epoch(conn.now.micros());
        }
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

impl<const DRAFT: bool> Bbr3<DRAFT> {
    /// Any ACK.
    #[inline(never)]
    fn follow(&mut self, conn: &mut Conn, rate: &RateSample) {
        self.rounds.start = false;
        // Rounded up, unlike version 1's samples: low rates could not grow.
        let mut bw = 0;
        if rate.interval_us > 0 {
            bw = (u64::from(rate.delivered) * BW_UNIT).div_ceil(rate.interval_us);
        }
        if Self::counts(rate) {
            self.rounds.update(conn, rate);
            self.probe.rounds_since = (self.probe.rounds_since + u32::from(self.rounds.start)).min(255);
        }
        self.update_latest(conn, rate, bw);
        self.update_congestion_signals(conn, rate, bw);
        self.update_aggregation(conn, rate, self.bw());
        if DRAFT {
            self.check_startup_high_loss(conn, rate);
        } else {
            self.check_startup_loss(conn, rate);
        }
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

    #[inline(always)]
    fn update_aggregation(&mut self, conn: &Conn, rate: &RateSample, bw: u64) {
        if DRAFT {
            self.update_extra_acked(conn, rate, bw);
        } else {
            let slot_rounds = if self.full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 };
            self.aggregation.update(conn, rate, self.rounds.start, bw, slot_rounds);
        }
    }
}
