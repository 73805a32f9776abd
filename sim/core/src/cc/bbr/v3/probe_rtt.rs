//! The minimum RTT, and ProbeRTT that keeps it true (draft, 5.3.4): every five seconds half a product for 200 ms and
//! a round; a longer RTT is believed after ten.

use super::super::super::{Conn, RateSample};
use super::super::UNIT;
use super::{AckPhase, Bbr3, CWND_MIN, Mode};

const PROBE_RTT_MS: u32 = 200;
const PROBE_RTT_GAIN: u32 = UNIT / 2;

/// Have more than `ms` passed since tick `stamp`? Asked for at every ACK: multiplied, not divided.
fn passed(conn: &Conn, stamp: u64, ms: u64) -> bool {
    1_000 * conn.jiffies > 1_000 * stamp + ms * u64::from(conn.hz)
}

impl<const DRAFT: bool> Bbr3<DRAFT> {
    pub(super) fn update_min_rtt(&mut self, conn: &mut Conn, rate: &RateSample) {
        let expired = passed(conn, self.probe_rtt_min_stamp, self.tuning.probe_rtt_interval_ms);
        if let Some(rtt) = rate.rtt_us
            && (rtt < self.probe_rtt_min_us || expired)
        {
            self.probe_rtt_min_us = rtt;
            self.probe_rtt_min_stamp = conn.jiffies;
        }
        let smaller = self.probe_rtt_min_us < self.min_rtt_us;
        if smaller || self.confirms_min_rtt() || passed(conn, self.min_rtt_stamp, self.tuning.min_rtt_window_ms) {
            self.min_rtt_us = self.probe_rtt_min_us;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(conn);
            self.probe_rtt_done = None;
            self.probe.ack_phase = AckPhase::Stopping;
            self.rounds.begin(conn);
        }
        if self.mode == Mode::ProbeRtt {
            self.stay_in_probe_rtt(conn);
        }
        if rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// In Linux a minimum seen again is as good as new; in the draft only a smaller one is.
    pub(super) fn confirms_min_rtt(&self) -> bool {
        self.probe_rtt_min_us == self.min_rtt_us && !DRAFT
    }

    /// Is this ACK's RTT no news, and the minimum young enough?
    pub(super) fn keeps_min_rtt(&self, conn: &Conn, rate: &RateSample) -> bool {
        let least = self.probe_rtt_min_us;
        rate.rtt_us.is_none_or(|rtt| rtt >= least)
            && least >= self.min_rtt_us
            && !passed(conn, self.probe_rtt_min_stamp, self.tuning.probe_rtt_interval_ms)
            && !passed(conn, self.min_rtt_stamp, self.tuning.min_rtt_window_ms)
    }

    pub(super) fn probe_rtt_cwnd(&self, conn: &Conn) -> u32 {
        self.bdp(conn, self.bw(), PROBE_RTT_GAIN).max(CWND_MIN)
    }

    pub(super) fn stay_in_probe_rtt(&mut self, conn: &mut Conn) {
        // The low rates of this time say nothing about the path.
        conn.mark_app_limited();
        match self.probe_rtt_done {
            None if conn.in_flight <= self.probe_rtt_cwnd(conn) => {
                self.probe_rtt_done = Some(conn.jiffies + u64::from(PROBE_RTT_MS * conn.hz).div_ceil(1_000));
                self.probe_rtt_round_done = false;
                self.rounds.begin(conn);
            }
            None => {}
            Some(done) => {
                self.probe_rtt_round_done |= self.rounds.start;
                if self.probe_rtt_round_done && conn.jiffies > done {
                    self.leave_probe_rtt(conn);
                }
            }
        }
    }

    pub(super) fn leave_probe_rtt(&mut self, conn: &mut Conn) {
        self.probe_rtt_min_stamp = conn.jiffies;
        conn.cwnd = conn.cwnd.max(self.prior_cwnd);
        self.bounds.reset_lower();
        if self.full_bw_reached {
            self.mode = Mode::ProbeBw;
            self.start_down(conn);
            self.start_cruise();
        } else {
            self.mode = Mode::Startup;
        }
    }
}
