//! C4's signals of congestion: delays, marks and losses above their thresholds.

use super::super::Conn;
use super::*;

impl C4 {
    /// A signal above its threshold, and by how much the rate falls in Cruising.
    fn congest(&mut self, conn: &Conn, signal: Signal, beta: f64) {
        self.attempt.congested = true;
        if signal != Signal::Delay {
            self.delays.excess_us = 0.0;
        }
        if self.state == State::Recovery {
            if self.alpha == ALPHA_RECOVERY {
                self.alpha = ALPHA_DRAIN;
                self.era_delivered = conn.delivered;
            }
            self.marks_in_recovery |= signal == Signal::Marks;
            return;
        }
        if self.state == State::Cruising {
            self.nominal_rate -= beta * self.nominal_rate;
            if signal == Signal::Loss && self.flavour == Flavour::Picoquic {
                self.delays.set_max((1.0 - beta) * self.delays.max_us);
            }
        }
        self.enter_recovery(conn, Some(signal));
    }

    /// Delays and marks end Initial only once the rate has stopped growing.
    fn end_flat_initial(&mut self, conn: &Conn) {
        if self.initial_eras >= INITIAL_ERAS_SIGNAL && self.attempt.rate >= self.nominal_rate {
            self.exit_initial(conn);
        }
    }

    pub(super) fn on_marks(&mut self, conn: &Conn) {
        self.marking.update(conn);
        let threshold = thresholds::marks(self.sensitivity());
        if self.marking.share <= threshold {
            return;
        }
        if self.state == State::Initial {
            self.end_flat_initial(conn);
        } else {
            self.congest(conn, Signal::Marks, (self.marking.share / threshold - 1.0).min(BETA));
        }
    }

    pub(super) fn on_rtt(&mut self, conn: &Conn, rtt_us: u32) {
        let threshold_us = thresholds::delay_us(self.sensitivity(), self.delays.max_us);
        self.delays.note(rtt_us, threshold_us);
        if self.delays.excess_us <= 0.0 {
            return;
        }
        let counts = self.alpha_previous > ALPHA_CRUISE || self.flavour == Flavour::Draft;
        if self.state == State::Initial {
            self.end_flat_initial(conn);
        } else if counts {
            self.congest(conn, Signal::Delay, (self.delays.excess_us / threshold_us).min(BETA));
        }
    }

    pub(super) fn on_losses(&mut self, conn: &Conn, lost: u32) {
        for _ in 0..lost {
            // What is found lost in Recovery was sent before.
            if self.state == State::Recovery {
                return;
            }
            self.drops.note_lost();
            let sensitivity = self.sensitivity();
            if self.drops.share <= thresholds::loss(sensitivity) {
                continue;
            }
            if self.state == State::Initial {
                self.initial_packets += 1;
                if self.initial_packets > INITIAL_PACKETS {
                    self.exit_initial(conn);
                }
            } else {
                let scale = if self.flavour == Flavour::Picoquic { (1.0 + sensitivity) / 2.0 } else { 1.0 };
                self.congest(conn, Signal::Loss, scale * BETA);
            }
        }
    }
}
