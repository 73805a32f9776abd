//! ProbeBW: DOWN, CRUISE, REFILL, UP, and the upper bound's adaptation (draft, 5.3.3).

use super::super::super::{Conn, RateSample};
use super::super::UNIT;
use super::{Bbr3, Mode, Probing};

/// Wait between probes: two to three seconds ...
const WAIT_US: u64 = 2_000_000;
const WAIT_RANDOM_US: f64 = 1e6;
/// ... or as many rounds as Reno would take to grow by one window, at most these (up to one fewer at random).
pub(super) const ROUNDS_MAX: u32 = 63;
const RANDOM_ROUNDS: f64 = 2.0;
/// The upper bound's growth doubles with each round of a probe, up to 2^30.
const UP_ROUNDS_MAX: u32 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Drain what probing queued.
    Down,
    Cruise,
    /// One round at full rate, so that the probe starts from a full pipe.
    Refill,
    Up,
}

/// What the ACKs arriving now tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub phase: Phase,
    pub ack_phase: AckPhase,
    pub rounds_since: u32,
    /// Samples arriving now stem from a probe.
    pub samples: bool,
    pub previous_too_high: bool,
    /// The present probe was stopped as a precaution, since the one before lost too much.
    stopped_risky: bool,
    start_us: u64,
    wait_us: u64,
    up_rounds: u32,
    /// Acknowledged segments per segment of growth of `inflight_hi`, and those counted so far.
    up_count: u32,
    up_acked: u32,
}

impl Default for Probe {
    fn default() -> Self {
        Probe {
            phase: Phase::Down,
            ack_phase: AckPhase::Init,
            rounds_since: 0,
            samples: false,
            previous_too_high: false,
            stopped_risky: false,
            start_us: 0,
            wait_us: 0,
            up_rounds: 0,
            up_count: u32::MAX,
            up_acked: 0,
        }
    }
}

impl<const DRAFT: bool> Bbr3<DRAFT> {
    pub(super) fn update_phase(&mut self, conn: &mut Conn, rate: &RateSample, bw: u64) {
        if !self.full_bw_reached || self.adapt_upper_bounds(conn, rate) || self.mode != Mode::ProbeBw {
            return;
        }
        match self.probe.phase {
            Phase::Cruise => {
                self.probe_if_due(conn);
            }
            Phase::Refill => {
                if self.rounds.start {
                    self.probe.samples = true;
                    self.start_up(conn, bw);
                }
            }
            Phase::Up => {
                // C.inflight before the ACK: see the module.
                let prior = rate.prior_in_flight;
                let in_flight = if DRAFT { prior } else { self.in_flight_at_departure(conn, prior) };
                if self.probe_is_done(conn, in_flight, bw) {
                    self.probe.previous_too_high = false;
                    self.start_down(conn);
                }
            }
            Phase::Down => {
                let prior = rate.prior_in_flight;
                let in_flight = if DRAFT { conn.in_flight } else { self.in_flight_at_departure(conn, prior) };
                if !self.probe_if_due(conn)
                    && in_flight <= self.bounds.with_headroom(Self::RULES.headroom)
                    && in_flight <= self.inflight(conn, self.max_bw(), UNIT)
                {
                    self.start_cruise();
                }
            }
        }
    }

    fn probe_is_done(&mut self, conn: &Conn, in_flight: u32, bw: u64) -> bool {
        if self.probe.previous_too_high && in_flight >= self.bounds.inflight_hi {
            self.probe.stopped_risky = true;
            return true;
        }
        if conn.cwnd_limited && conn.cwnd >= self.bounds.inflight_hi {
            // The bound, not the path, is what limits the rate: its growth deserves more rounds.
            self.reset_full_bw();
            self.full_bw = bw;
            return false;
        }
        self.full_bw_now
    }

    /// True if the phase was changed.
    pub(super) fn adapt_upper_bounds(&mut self, conn: &mut Conn, rate: &RateSample) -> bool {
        let probe = &mut self.probe;
        if probe.ack_phase == AckPhase::Starting && self.rounds.start {
            probe.ack_phase = AckPhase::Feedback;
        }
        if probe.ack_phase == AckPhase::Stopping && self.rounds.start {
            probe.samples = false;
            probe.ack_phase = AckPhase::Init;
            if self.mode == Mode::ProbeBw && !rate.app_limited && self.bw_hi[1] > 0 {
                self.bw_hi = [self.bw_hi[1], 0];
            }
            if self.mode == Mode::ProbeBw && probe.stopped_risky && !probe.previous_too_high {
                // The cautious probe was clean: go on at once.
                self.start_refill(conn, 0);
                return true;
            }
        }
        if self.lost_too_much(rate.lost_since, rate.flight_then) {
            // AdaptLongTermModel (5.3.3.9) leaves the reaction to HandleLostPacket (5.5.10.2), which knows the lost packet.
            if !DRAFT && self.probe.samples {
                self.in_flight_too_high(conn, rate.flight_then, rate.app_limited);
            }
        } else if self.bounds.inflight_hi != u32::MAX {
            self.bounds.note_safe(rate.flight_then);
            if self.in_phase(Phase::Up) {
                self.grow_inflight_hi(conn, rate.acked);
            }
        }
        false
    }

    pub(super) fn grow_inflight_hi(&mut self, conn: &Conn, acked: u32) {
        if !conn.cwnd_limited || conn.cwnd < self.bounds.inflight_hi {
            return;
        }
        self.probe.up_acked += acked;
        if self.probe.up_acked >= self.probe.up_count {
            let growth = self.probe.up_acked / self.probe.up_count;
            self.probe.up_acked -= growth * self.probe.up_count;
            self.bounds.inflight_hi += growth;
        }
        if self.rounds.start {
            self.raise_slope(conn);
        }
    }

    /// One segment more in the first round, then two, four, ...
    fn raise_slope(&mut self, conn: &Conn) {
        let growth = 1u32 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(UP_ROUNDS_MAX);
        self.probe.up_count = (conn.cwnd / growth).max(1);
    }

    /// Is the time between probes over?
    pub(super) fn has_waited(&self, conn: &Conn) -> bool {
        conn.now.micros() > self.probe.start_us + self.probe.wait_us
    }

    pub(super) fn probe_if_due(&mut self, conn: &mut Conn) -> bool {
        // As often as Reno at this window would have grown by a segment per round and filled the pipe.
        let due = self.has_waited(conn) || self.probe.rounds_since >= ROUNDS_MAX.min(self.target_inflight(conn));
        if due {
            self.start_refill(conn, 0);
        }
        due
    }

    pub(super) fn start_down(&mut self, conn: &mut Conn) {
        self.reset_congestion_signals();
        self.probe.up_count = u32::MAX;
        self.probe.rounds_since = (conn.random.uniform() * RANDOM_ROUNDS) as u32;
        self.probe.wait_us = WAIT_US + (conn.random.uniform() * WAIT_RANDOM_US) as u64;
        self.probe.start_us = conn.now.micros();
        self.probe.ack_phase = AckPhase::Stopping;
        self.rounds.begin(conn);
        self.probe.phase = Phase::Down;
    }

    pub(super) fn start_cruise(&mut self) {
        // StartProbeBW_CRUISE (5.3.3.9) lowers nothing.
        if !DRAFT && self.bounds.inflight_lo != u32::MAX {
            self.bounds.inflight_lo = self.bounds.inflight_lo.min(self.bounds.inflight_hi);
        }
        self.probe.phase = Phase::Cruise;
    }

    /// The probe that follows begins to grow by two to the power of `up_rounds`.
    pub(super) fn start_refill(&mut self, conn: &mut Conn, up_rounds: u32) {
        self.bounds.reset_lower();
        self.probe.up_rounds = up_rounds;
        self.probe.up_acked = 0;
        self.probe.stopped_risky = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.rounds.begin(conn);
        self.probe.phase = Phase::Refill;
    }

    pub(super) fn start_up(&mut self, conn: &Conn, bw: u64) {
        self.probe.ack_phase = AckPhase::Starting;
        self.rounds.begin(conn);
        self.reset_full_bw();
        self.full_bw = bw;
        self.probe.start_us = conn.now.micros();
        self.probe.phase = Phase::Up;
        self.raise_slope(conn);
    }

    /// A loss that proved spurious had ended Startup or a probe (draft: "HandleSpuriousLossDetection").
    pub(super) fn return_to_probing(&mut self, conn: &mut Conn) {
        let left = self.before.left.take();
        if left == Some(Probing::Startup) && self.mode != Mode::Startup {
            self.full_bw_reached = false;
            if self.mode != Mode::ProbeRtt {
                self.mode = Mode::Startup;
            }
        } else if left == Some(Probing::Up) && self.mode == Mode::ProbeBw && !self.in_phase(Phase::Up) {
            self.start_refill(conn, 0);
        }
    }
}
