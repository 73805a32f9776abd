//! The routine acknowledgement: segments sent once and in order have arrived, and nothing is amiss. Nearly all are like
//! that, and of what [`super::ack`] does for any acknowledgement, in the same order, this is what remains.

use crate::cc::CaState;
use crate::packet::{Kind, Marks, Packet};
use crate::pool::Pool;
use crate::time::Nanos;

use super::super::rtt::rtt_us;
use super::Sender;

impl Sender {
    /// Does the ACK bring progress and nothing else, to a sender that has nothing to repair?
    #[inline(always)]
    pub(super) fn is_routine(&self, ack: &Packet) -> bool {
        let una = self.conn.snd_una;
        let plain = ack.kind == Kind::Ack
            && !ack.marks.has(Marks::ECE)
            && ack.sack[0].is_empty()
            && una < ack.seq
            && ack.seq <= self.conn.snd_nxt;
        let sound = self.conn.state == CaState::Open && self.board.is_sound();
        let settled = self.tail_probe.high_seq.is_none() && self.rack.keeps_window_of_one();
        plain && sound && settled && self.board.plain_until(una, ack.seq) == ack.seq
    }

    #[inline(always)]
    pub(super) fn on_routine_ack(&mut self, ack: &Packet, out: &mut Pool) {
        let (start, end) = (self.conn.snd_una, ack.seq);
        let (delivered, prior_in_flight) = (end - start, self.conn.packets_out());
        self.ack_echo = ack.ts_echo;
        self.conn.plain_ack = ack.window == self.peer.latest;
        self.update_receive_window(ack);
        self.ts_recent = self.ts_recent.max(ack.ts);
        self.recovery.retransmits = 0;

        let (first, last) = (self.board.get(start).sent, *self.board.get(end - 1));
        self.rack_advance(&last, end - 1);
        if self.watches_packets {
            self.tell_delivered(start, end);
        } else {
            self.conn.delivered += delivered;
        }
        self.counters.acked_bytes += self.buffer.payload_of(start, end);
        self.rate.first_sent = last.sent;
        self.conn.snd_una = end;
        self.board.retransmit_hint = self.board.retransmit_hint.max(end);

        let now_us = self.conn.now.micros();
        let since = |sent: Nanos| rtt_us(sent.micros(), now_us);
        let last_us = since(last.sent);
        // Mostly they left together.
        let first_us = if first == last.sent { last_us } else { since(first) };
        self.note_rtt(first_us, last_us);
        self.last_rtt_us = Some(last_us);
        self.rate.latest = None;
        self.conn.in_flight = self.conn.packets_out();
        self.cc.on_delivered(&mut self.conn, delivered, Some(last_us));

        let later = self.profile.eager_tail_probes;
        if !later {
            self.set_timer();
        }
        let newest = Some((last.sent, end - 1));
        if self.owns_window {
            let mut rate = self.rate_sample(delivered, newest);
            rate.acked = delivered;
            rate.rtt_us = Some(last_us);
            rate.prior_in_flight = prior_in_flight;
            self.cc.control(&mut self.conn, &rate);
        } else {
            self.rate_sample(delivered, newest);
            self.window_use.since = self.conn.jiffies;
            self.cc.cong_avoid(&mut self.conn, delivered);
            if self.paces {
                self.cc.after_ack(&mut self.conn);
            }
        }
        let prior_nxt = self.conn.snd_nxt;
        self.transmit_new(out);
        if later && self.conn.snd_nxt == prior_nxt {
            self.set_timer();
        }
    }
}
