//! A sender whose state is read from a real kernel, which does the sending.

use crate::cc::{CaState, SSTHRESH_INFINITE};
use crate::min_filter::MinFilter;
use crate::time::Nanos;

use super::super::acks::Acks;
use super::super::rtt::MIN_RTT_WINDOW;
use super::{Sender, SenderCounters};

/// What a host's kernel says of one flow. Counters since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowReading {
    /// When its object was complete at the receiver; zero: not yet.
    pub finished: Nanos,
    /// In-order payload at the receiver.
    pub received_bytes: u64,
    /// Payload that went the other way, of flows whose packets alone are known.
    pub returned_bytes: u64,
    /// Packets that came to the receiver with a mark.
    pub arrived_marked: u64,
    /// Segments and payload bytes, as in the simulator; `acked_bytes` counts cumulative acknowledgements only.
    pub counters: SenderCounters,
    /// Segments.
    pub cwnd: u32,
    pub ssthresh: u32,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    /// Receive window beyond what is acknowledged, bytes.
    pub window_bytes: u64,
    /// Bytes per second.
    pub pacing_rate: u64,
    /// As in [`crate::cc::CaState`].
    pub state: u8,
    pub app_limited: bool,
    /// Of the acknowledgements since the reading before; a stock controller's flow has none.
    pub acks: Acks,
}

impl Sender {
    /// Set the state to that of the reading.
    pub fn take_in(&mut self, reading: &FlowReading) {
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
        self.min_rtt = MinFilter::new(MIN_RTT_WINDOW);
        self.min_rtt.update(conn.now, reading.min_rtt_us);
        self.conn.in_flight = self.in_flight();
    }
}

impl FlowReading {
    /// As numbers, for travel between processes.
    pub const WORDS: usize = 32;

    pub fn to_words(&self) -> [u64; FlowReading::WORDS] {
        let (c, a) = (&self.counters, &self.acks);
        [
            self.finished.0,
            self.received_bytes,
            c.sent,
            c.retransmitted,
            c.lost,
            c.rtos,
            c.tail_probes,
            c.spurious_rtos,
            c.acked_bytes,
            u64::from(self.cwnd),
            u64::from(self.ssthresh),
            u64::from(self.srtt_us),
            u64::from(self.min_rtt_us),
            u64::from(self.packets_out),
            u64::from(self.sacked_out),
            u64::from(self.lost_out),
            u64::from(self.retrans_out),
            self.window_bytes,
            self.pacing_rate,
            u64::from(self.state),
            u64::from(self.app_limited),
            a.rtt_sum_us,
            a.rtt_placed_us,
            u64::from(a.rtt_least_us),
            u64::from(a.rtt_samples),
            a.rate_sum.to_bits(),
            u64::from(a.rate_samples),
            a.longest_gap.0,
            a.last.0,
            c.marked,
            self.arrived_marked,
            self.returned_bytes,
        ]
    }

    pub fn from_words(w: &[u64; FlowReading::WORDS]) -> FlowReading {
        FlowReading {
            finished: Nanos(w[0]),
            received_bytes: w[1],
            returned_bytes: w[31],
            arrived_marked: w[30],
            counters: SenderCounters {
                sent: w[2],
                retransmitted: w[3],
                lost: w[4],
                rtos: w[5],
                tail_probes: w[6],
                spurious_rtos: w[7],
                acked_bytes: w[8],
                marked: w[29],
            },
            cwnd: w[9] as u32,
            ssthresh: (w[10] as u32).min(SSTHRESH_INFINITE),
            srtt_us: w[11] as u32,
            min_rtt_us: w[12] as u32,
            packets_out: w[13] as u32,
            sacked_out: w[14] as u32,
            lost_out: w[15] as u32,
            retrans_out: w[16] as u32,
            window_bytes: w[17],
            pacing_rate: w[18],
            state: w[19] as u8,
            app_limited: w[20] != 0,
            acks: Acks {
                rtt_sum_us: w[21],
                rtt_placed_us: w[22],
                rtt_least_us: w[23] as u32,
                rtt_samples: w[24] as u32,
                rate_sum: f64::from_bits(w[25]),
                rate_samples: w[26] as u32,
                longest_gap: Nanos(w[27]),
                last: Nanos(w[28]),
            },
        }
    }
}
