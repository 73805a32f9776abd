//! The ACK that changes nothing while cruising: no round ends, nothing is lost, no probe is due. Most are like that, and of
//! what [`Bbr3::follow`] does for any ACK, this is what remains.

use super::super::super::{Conn, RateSample};
use super::super::{BW_UNIT, UNIT};
use super::Bbr3;
use super::probe::{Phase, ROUNDS_MAX};

impl<const DRAFT: bool> Bbr3<DRAFT> {
    /// Deal with such an ACK; false, and nothing done, if it is another.
    #[inline(always)]
    pub(super) fn cruise(&mut self, conn: &mut Conn, rate: &RateSample) -> bool {
        let steady = !conn.exact && self.in_phase(Phase::Cruise) && self.full_bw_reached && self.full_bw_now;
        let lossless = rate.lost | rate.lost_since == 0;
        let in_round = rate.prior_delivered < self.rounds.next_delivered.min(self.loss_round_delivered);
        if !(steady && lossless && in_round && rate.interval_us > 0 && rate.acked > 0 && self.keeps_min_rtt(conn, rate))
        {
            return false;
        }
        let sample = (u64::from(rate.delivered) * BW_UNIT).div_ceil(rate.interval_us);
        let counts = !rate.app_limited || sample >= self.max_bw();
        let highest = if counts { self.bw_hi[1].max(sample) } else { self.bw_hi[1] };
        let bw = self.bw_hi[0].max(highest).min(self.bounds.bw_lo);
        let rounds = self.probe.rounds_since;
        // What a flow that respects its model has in flight is a product at least.
        if self.has_waited(conn) || rounds >= ROUNDS_MAX.min(conn.cwnd).min(self.bdp(conn, bw, UNIT)) {
            return false;
        }
        self.bw_hi[1] = highest;
        (self.rounds.start, self.loss_round_start, self.idle_restart) = (false, false, false);
        self.bw_latest = self.bw_latest.max(sample);
        self.inflight_latest = self.inflight_latest.max(rate.delivered);
        self.update_aggregation(conn, rate, bw);
        self.bounds.note_safe(rate.flight_then);
        if self.confirms_min_rtt() {
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
        (self.pacing_gain, self.cwnd_gain) = (UNIT, self.tuning.cwnd_gain);
        self.set_pacing(conn, UNIT);
        self.set_cwnd(conn, rate.acked);
        self.previous_state = conn.state;
        true
    }
}
