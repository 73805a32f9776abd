//! Receivers that do not acknowledge as TCP requires (RFC 9743, section 7.6): seldom, in parts, or too early.
//!
//! The last two are attacks of Savage et al., "TCP Congestion Control with a Misbehaving Receiver", 1999. A part does
//! not acknowledge a whole segment. Linux grows its window by acknowledged segments, so the parts bring the attacker
//! nothing but more acknowledgements to send. The sender ignores acknowledgements beyond what it has sent (RFC 9293,
//! section 3.10.7.4).

use std::collections::VecDeque;

use crate::packet::{Kind, Packet, SegRange};
use crate::pool::Pool;
use crate::spec::ReceiverSpec;
use crate::time::Nanos;

use super::super::timestamp;
use super::window::window_of;
use super::{Arrival, Receiver};

/// What an optimistic receiver remembers: the arrivals of the last half of a round trip.
#[derive(Clone, Debug)]
pub(super) struct Optimist {
    share: f64,
    recent: VecDeque<Nanos>,
}

impl Receiver {
    /// Acknowledge like this from now on.
    pub fn behave(&mut self, spec: ReceiverSpec) {
        match spec {
            ReceiverSpec::Honest => {}
            // Segments that arrive within `hold` are merged, as with receive offload, and cause one ACK.
            ReceiverSpec::Stretch { segments, hold } => (self.merges, self.poll) = (segments, hold),
            ReceiverSpec::Divide { parts } => self.ack_parts = parts,
            ReceiverSpec::Optimistic { share } => {
                self.optimist = Some(Box::new(Optimist { share, recent: VecDeque::new() }));
                self.is_special = true;
            }
        }
    }

    /// May it acknowledge what has not arrived?
    pub fn is_optimistic(&self) -> bool {
        self.optimist.is_some()
    }

    /// Send all parts of an acknowledgement but the last: none of them completes a segment.
    #[cold]
    pub(super) fn divide(&mut self, now: Nanos, flow: u32, out: &mut Pool) {
        let whole = self.last_acked;
        if self.rcv_nxt == whole {
            return;
        }
        let window = (self.right_edge - u64::from(whole) * self.mss) as u32;
        for _ in 1..self.ack_parts {
            self.send_ack(now, flow, whole, window, out);
        }
    }

    /// Whatever arrives, everything before it has, and some of what is on its way.
    #[cold]
    pub(super) fn be_optimistic(&mut self, now: Nanos, segment: Arrival, out: &mut Pool) {
        let half_rtt = Nanos::from_micros(self.handshake_us / 2);
        self.ts_recent = self.ts_recent.max(segment.ts);
        if segment.seq >= self.rcv_nxt {
            self.rcv_nxt = segment.seq + 1;
            self.received_bytes += segment.payload;
        }
        let Some(optimist) = &mut self.optimist else { return };
        optimist.recent.push_back(now);
        while optimist.recent.front().is_some_and(|at| *at + half_rtt < now) {
            optimist.recent.pop_front();
        }
        let ahead = (optimist.share * optimist.recent.len() as f64) as u32;
        self.send_ack(now, segment.flow, self.rcv_nxt + ahead, window_of(self.rmem_max) as u32, out);
    }

    pub(super) fn send_ack(&self, now: Nanos, flow: u32, seq: u32, window: u32, out: &mut Pool) {
        *out.send() = Packet {
            ts: timestamp(now),
            ts_echo: self.ts_recent,
            flow,
            seq,
            window,
            size: self.ack_bytes,
            route: self.route,
            kind: Kind::Ack,
            marks: self.ack_marks,
            marked_bytes: self.echo.bytes,
            sack: [SegRange::EMPTY; 3],
        };
    }
}
