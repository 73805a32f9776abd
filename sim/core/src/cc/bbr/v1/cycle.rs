//! ProbeBW: the cycle of pacing gains.

use super::super::super::{Conn, RateSample};
use super::super::UNIT;
use super::{Bbr, Mode};

/// Probe for more bandwidth, give back what that queued, cruise.
pub(super) const CYCLE: [u32; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];

impl Bbr {
    pub fn update_cycle(&mut self, conn: &Conn, rate: &RateSample) {
        if self.mode == Mode::ProbeBw && self.phase_is_over(conn, rate) {
            self.advance_cycle(conn);
        }
    }

    pub(super) fn phase_is_over(&self, conn: &Conn, rate: &RateSample) -> bool {
        let full_length = conn.now.micros() - self.cycle_start_us > u64::from(self.min_rtt_us);
        if self.pacing_gain == UNIT {
            return full_length;
        }
        let in_flight = self.in_flight_at_departure(conn, rate.prior_in_flight);
        let bw = self.max_bw.get();
        if self.pacing_gain > UNIT {
            return full_length && (rate.lost > 0 || in_flight >= self.inflight_target(conn, bw, self.pacing_gain));
        }
        full_length || in_flight <= self.inflight_target(conn, bw, UNIT)
    }

    fn advance_cycle(&mut self, conn: &Conn) {
        self.cycle_index = (self.cycle_index + 1) % CYCLE.len();
        self.cycle_start_us = conn.now.micros();
    }

    /// Into the cycle at any phase but the draining one.
    pub fn enter_probe_bw(&mut self, conn: &mut Conn) {
        self.mode = Mode::ProbeBw;
        let back = (conn.random.uniform() * (CYCLE.len() - 1) as f64) as usize;
        self.cycle_index = CYCLE.len() - 1 - back;
        self.advance_cycle(conn);
    }
}
