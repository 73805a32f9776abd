//! Is the pipe full? Bandwidth that no longer grows, or, in Startup too much loss (draft, 5.3.1).

use super::super::super::{CaState, Conn, RateSample};
use super::super::UNIT;
use super::{Bbr3, Probing};

const FULL_BW_GROWTH: u32 = UNIT * 5 / 4;
const FULL_BW_ROUNDS: u32 = 3;
/// Lossy ACKs in a round after which Startup may end for loss.
pub(super) const STARTUP_LOSS_EVENTS: u32 = 6;

impl<const DRAFT: bool> Bbr3<DRAFT> {
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0;
        self.full_bw_rounds = 0;
        self.full_bw_now = false;
    }

    /// Startup ends when a round of recovery has lost too much in too many places.
    pub(super) fn check_startup_loss(&mut self, conn: &Conn, rate: &RateSample) {
        if self.full_bw_reached {
            return;
        }
        self.loss_events_in_round += u32::from(rate.lost > 0);
        if !self.loss_round_start {
            return;
        }
        if conn.state == CaState::Recovery
            && self.loss_events_in_round >= STARTUP_LOSS_EVENTS
            && self.lost_too_much(rate.lost_since, rate.flight_then)
        {
            self.queue_too_high_in_startup(conn);
            self.before.left = Some(Probing::Startup);
        }
        self.loss_events_in_round = 0;
    }

    pub(super) fn queue_too_high_in_startup(&mut self, conn: &Conn) {
        self.full_bw_reached = true;
        self.bounds.inflight_hi = self.inflight(conn, self.max_bw(), UNIT).max(self.inflight_latest);
    }

    pub(super) fn check_full_bw(&mut self, rate: &RateSample, bw: u64) {
        if self.full_bw_now || rate.app_limited || rate.interval_us == 0 {
            return;
        }
        if DRAFT && !self.rounds.start {
            return;
        }
        if bw >= (self.full_bw * u64::from(FULL_BW_GROWTH)) >> 8 {
            self.reset_full_bw();
            self.full_bw = bw;
            return;
        }
        if self.rounds.start {
            self.full_bw_rounds += 1;
            self.full_bw_now = self.full_bw_rounds >= FULL_BW_ROUNDS;
            self.full_bw_reached |= self.full_bw_now;
        }
    }
}
