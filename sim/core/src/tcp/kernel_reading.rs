//! A sender whose state is read from a real kernel, which does the sending.

use crate::cc::CaState;
use crate::kernel_hosts::FlowReading;

use super::rtt::MinFilter;
use super::sender::Sender;

impl Sender {
    /// Set the state to that of the reading.
    pub(crate) fn take_in(&mut self, reading: &FlowReading) {
        let mss = self.conn.mss;
        let conn = &mut self.conn;
        (conn.cwnd, conn.ssthresh) = (reading.cwnd, reading.ssthresh);
        (conn.srtt8_us, conn.min_rtt_us) = (reading.srtt_us.saturating_mul(8), reading.min_rtt_us);
        (conn.snd_una, conn.snd_nxt) = (0, reading.packets_out);
        conn.pacing_rate = reading.pacing_rate;
        conn.app_limited = u32::from(reading.app_limited);
        conn.state = match reading.state {
            1 => CaState::Disorder,
            2 => CaState::Cwr,
            3 => CaState::Recovery,
            4 => CaState::Loss,
            _ => CaState::Open,
        };
        (self.board.sacked_out, self.board.lost_out, self.board.retrans_out) =
            (reading.sacked_out, reading.lost_out, reading.retrans_out);
        self.peer.edge = reading.window_bytes.min(u64::from(u32::MAX) * u64::from(mss));
        self.counters = reading.counters;
        self.min_rtt = MinFilter::min_rtt();
        self.min_rtt.update(conn.now, reading.min_rtt_us);
        self.conn.in_flight = self.in_flight();
    }
}
