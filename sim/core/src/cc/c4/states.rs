//! Entering and leaving C4's states.

use super::super::Conn;
use super::*;

impl C4 {
    pub(super) fn begin_era(&mut self, conn: &Conn) {
        self.era_delivered = conn.delivered;
        self.alpha_previous = self.alpha;
        self.delays.begin_era();
        self.marking.update(conn);
    }

    pub(super) fn begin_attempt(&mut self) {
        self.attempt = Attempt { rate: self.nominal_rate, alpha: self.alpha, ..Attempt::default() };
    }

    /// Against the rate that the attempt would make of the old one: a quarter and three quarters of the way. Small
    /// attempts are judged by congestion.
    pub(super) fn growth(&self) -> Growth {
        let Attempt { rate, alpha, congested, .. } = self.attempt;
        if alpha <= ALPHA_PROBE {
            return if self.nominal_rate > rate && !congested { Growth::Fast } else { Growth::None };
        }
        let gain = rate * (alpha - 1.0);
        if self.nominal_rate > rate + 0.75 * gain {
            Growth::Fast
        } else if self.nominal_rate >= rate + 0.25 * gain {
            Growth::Slow
        } else {
            Growth::None
        }
    }

    pub(super) fn enter_initial(&mut self, conn: &Conn) {
        self.state = State::Initial;
        self.initial_cwnd = f64::from(conn.cwnd) * f64::from(conn.mss);
        (self.level, self.initial_packets, self.initial_eras) = (1, 0, 0);
        self.alpha = ALPHA_INITIAL;
        self.begin_era(conn);
        self.marking.forget();
        self.begin_attempt();
    }

    /// The max RTT is what half of the last window took at the rate found.
    pub(super) fn exit_initial(&mut self, conn: &Conn) {
        if self.nominal_rate > 0.0 {
            self.delays.set_max(self.initial_cwnd / 2.0 / self.nominal_rate * 1e6);
            self.level = 1;
            self.enter_recovery(conn, None);
        }
    }

    pub(super) fn enter_recovery(&mut self, conn: &Conn, signal: Option<Signal>) {
        if self.state == State::Initial {
            self.begin_attempt();
        }
        if self.state != State::Recovery {
            self.after_probing = self.state == State::Probing;
            self.after_resuming = self.state == State::Resuming;
            self.marks_in_recovery = signal == Some(Signal::Marks);
            self.begin_era(conn);
            (self.state, self.alpha) = (State::Recovery, ALPHA_RECOVERY);
        }
    }

    pub(super) fn exit_recovery(&mut self, conn: &Conn) {
        let grown = self.growth() != Growth::None;
        if grown {
            self.level += u32::from(!self.marks_in_recovery && !self.after_resuming);
            self.congested_cycles = 0;
        } else {
            if self.attempt.was_full {
                self.level = u32::from(!self.marks_in_recovery);
            }
            self.congested_cycles = if self.attempt.congested { self.congested_cycles + 1 } else { 0 };
            if self.congested_cycles >= 2 && self.cycle_rate > 0.0 {
                self.nominal_rate = self.nominal_rate.min(self.cycle_rate);
            }
        }
        self.cycle_rate = 0.0;
        self.begin_attempt();
        self.delays.excess_us = 0.0;
        self.drops.forget();
        self.marking.forget();
        let pushes = match self.flavour {
            Flavour::Draft => grown && self.after_probing,
            Flavour::Picoquic if self.level > GROWTHS => return self.enter_initial(conn),
            Flavour::Picoquic => self.level > 1,
        };
        if pushes {
            self.enter(conn, State::Pushing, ALPHA_PUSH);
            self.begin_attempt();
        } else {
            let local = conn.srtt8_us >> 3 < LOCAL_RTT_US;
            self.enter(conn, State::Cruising, ALPHA_CRUISE + if local { ALPHA_LOCAL } else { 0.0 });
        }
    }

    pub(super) fn enter(&mut self, conn: &Conn, state: State, alpha: f64) {
        self.begin_era(conn);
        (self.state, self.alpha, self.eras) = (state, alpha, 0);
        if self.flavour == Flavour::Picoquic && state != State::Cruising {
            self.alpha_previous = alpha;
        }
    }

    pub(super) fn enter_probing(&mut self, conn: &Conn) {
        let marked = match self.flavour {
            Flavour::Draft => conn.delivered_ce > 0,
            Flavour::Picoquic => self.level == 0,
        };
        self.enter(conn, State::Probing, if marked { ALPHA_PROBE_MARKED } else { ALPHA_PROBE });
        self.attempt.alpha = self.alpha;
    }

    /// Two eras at the remembered window and rate, which one and the next era measure.
    pub(super) fn enter_resuming(&mut self, conn: &Conn) {
        self.enter(conn, State::Resuming, ALPHA_RESUMING);
        self.begin_attempt();
    }
}
