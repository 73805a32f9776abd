//! The routine acknowledgement: segments sent once and in order have arrived, and nothing is amiss. Nearly all are like
//! that, and of what [`super::ack`] does for any acknowledgement, in the same order, this is what remains.

use crate::cc::CaState;
use crate::packet::{Kind, Packet};
use crate::pool::Pool;
use crate::time::Nanos;

use super::rtt::rtt_us;
use super::sender::Sender;

impl Sender {
    /// Does the ACK bring progress and nothing else, to a sender that has nothing to repair?
    #[inline(always)]
    pub(super) fn is_routine(&self, ack: &Packet) -> bool {
        let una = self.conn.snd_una;
        let plain = ack.kind == Kind::Ack && ack.sack[0].is_empty() && (una + 1..=self.conn.snd_nxt).contains(&ack.seq);
        let sound = self.conn.state == CaState::Open && self.sacked_out | self.lost_out | self.retrans_out == 0;
        let settled = self.tlp_high_seq.is_none() && !self.rack.dsack_seen && self.rack.extra_steps == 0;
        plain && sound && settled && self.board.plain_until(una, ack.seq) == ack.seq
    }

    #[inline(always)]
    pub(super) fn on_routine_ack(&mut self, ack: &Packet, out: &mut Pool) {
        let (start, end) = (self.conn.snd_una, ack.seq);
        let (delivered, prior_in_flight) = (end - start, self.conn.packets_out());
        self.ack_echo = ack.ts_echo;
        self.conn.plain_ack = ack.window == self.last_window;
        self.update_receive_window(ack);
        self.ts_recent = self.ts_recent.max(ack.ts);
        self.retransmits = 0;

        let (first, last) = (self.board.get(start).sent, *self.board.get(end - 1));
        self.rack_advance(&last, end - 1);
        if self.watches_packets {
            self.tell_delivered(start, end);
        } else {
            self.conn.delivered += delivered;
        }
        self.counters.acked_bytes += self.payload_of(start, end);
        self.first_sent = last.sent;
        self.conn.snd_una = end;
        self.retransmit_hint = self.retransmit_hint.max(end);

        let now_us = self.conn.now.micros();
        let since = |sent: Nanos| rtt_us(sent.micros(), now_us);
        let last_us = since(last.sent);
        self.note_rtt(since(first), last_us);
        self.last_rtt_us = Some(last_us);
        self.last_rate = None;
        self.conn.in_flight = self.conn.packets_out();
        self.cc.on_delivered(&mut self.conn, delivered, Some(last_us));

        let later = self.profile.eager_tail_probes;
        if !later {
            self.set_timer();
        }
        let mut rate = self.rate_sample(delivered, Some((last.sent, end - 1)));
        if self.owns_window {
            rate.acked = delivered;
            rate.rtt_us = Some(last_us);
            rate.prior_in_flight = prior_in_flight;
            self.cc.control(&mut self.conn, &rate);
        } else {
            self.cwnd_stamp = self.conn.jiffies;
            self.cc.cong_avoid(&mut self.conn, delivered);
        }
        let prior_nxt = self.conn.snd_nxt;
        self.transmit_new(out);
        if later && self.conn.snd_nxt == prior_nxt {
            self.set_timer();
        }
    }
}
