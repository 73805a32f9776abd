//! Sending: what may leave now, at which pace, and whether the window was used.

use crate::cc::{CaState, Event, Transmission};
use crate::packet::{Kind, Marks, Packet};
use crate::pool::Pool;
use crate::time::Nanos;

use super::super::timestamp;
use super::Sender;
use super::scoreboard::{APP_LIMITED, EVER_RETRANS, Flight, LOST, RETRANS, SACKED, Segment};
use super::timers::Timer;

impl Sender {
    /// Send what may be sent: lost segments first, then new data.
    pub fn transmit(&mut self, out: &mut Pool) {
        let mut again = None;
        if self.board.lost_out > self.board.retrans_out {
            self.pacer.blocked = false;
            self.retransmit_lost(out);
            again = self.pacer.waits_for();
        }
        self.transmit_new(out);
        if let Some(lead) = again {
            self.pacer.wait(lead);
        }
    }

    /// Send new data; lost segments wait for an ACK or a timer.
    pub fn transmit_new(&mut self, out: &mut Pool) {
        if self.buffer.bulk {
            self.refill();
        }
        if self.conn.snd_nxt >= self.buffer.write_seq {
            return;
        }
        let restart_timer = self.packets_out() == 0 || self.timers.pending == Timer::Tlp;
        self.pacer.blocked = false;
        let already = self.in_flight();
        let mut in_flight = already;
        // Where the next segment ends in the stream, bytes.
        let mss = u64::from(self.tcp.mss);
        let mut end = (u64::from(self.conn.snd_nxt) + 1) * mss;
        while self.conn.snd_nxt < self.buffer.write_seq
            && in_flight < self.conn.cwnd
            && end <= self.peer.edge
            && !(self.paces && self.pacer.holds(&self.conn, false))
        {
            self.send_new(in_flight, out);
            in_flight += 1;
            end += mss;
        }
        let sent = in_flight - already;
        if sent > 0 {
            if matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
                self.recovery.prr.out += sent;
            }
            if !self.schedule_tail_probe(false) && restart_timer {
                self.rearm_rto();
            }
        }
        if sent == 0 && self.packets_out() == 0 && self.timers.pending == Timer::Off {
            self.persist();
        }
        let limited = in_flight >= self.conn.cwnd;
        if sent > 0 || (limited && self.profile.latches_window_use) {
            self.validate_window(limited);
        }
    }

    pub(super) fn has_new_data(&self) -> bool {
        self.conn.snd_nxt < self.buffer.write_seq && self.window_allows()
    }

    /// Send the next segment of new data; `in_flight` others are.
    #[inline(always)]
    pub(super) fn send_new(&mut self, in_flight: u32, out: &mut Pool) {
        let seq = self.conn.snd_nxt;
        self.note_transmission(in_flight);
        self.board.reserve(self.conn.snd_una, seq + 1);
        let departs = self.departure();
        self.note_sent(seq, departs, 0, in_flight);
        self.conn.snd_nxt = seq + 1;
        let marks = self.ecn.fresh;
        self.emit(seq, departs, marks, out);
        if marks.has(Marks::CWR) {
            self.ecn.withdraw_cwr();
        }
    }

    #[inline(always)]
    fn note_transmission(&mut self, in_flight: u32) {
        if in_flight == 0 {
            self.cc.on_event(&mut self.conn, Event::TxStart);
        }
        self.conn.last_send = self.conn.now;
    }

    /// Repeat the last segment to provoke an ACK. It does not count as a retransmission in flight: its segment has
    /// not been found lost.
    #[inline(never)]
    pub(super) fn probe(&mut self, seq: u32, out: &mut Pool) {
        let in_flight = self.in_flight();
        self.note_transmission(in_flight);
        let keep = self.board.get(seq).flags & (LOST | SACKED | RETRANS);
        let departs = self.departure();
        self.note_sent(seq, departs, keep | EVER_RETRANS, in_flight);
        self.rack.retransmitted.push_back((seq, departs));
        self.counters.retransmitted += 1;
        self.emit(seq, departs, self.ecn.again, out);
    }

    #[inline(never)]
    pub(super) fn retransmit(&mut self, seq: u32, out: &mut Pool) {
        let in_flight = self.in_flight();
        self.note_transmission(in_flight);
        let keep = self.board.get(seq).flags & (LOST | SACKED);
        let departs = self.departure();
        self.note_sent(seq, departs, keep | RETRANS | EVER_RETRANS, in_flight);
        self.board.retrans_out += 1;
        self.rack.retransmitted.push_back((seq, departs));
        self.recovery.note_retransmission(departs);
        self.counters.retransmitted += 1;
        self.emit(seq, departs, self.ecn.again, out);
    }

    /// When a segment handed to the network now leaves the host.
    #[inline]
    fn departure(&self) -> Nanos {
        if self.paces { self.conn.now.max(self.conn.next_departure) } else { self.conn.now }
    }

    #[inline(always)]
    fn note_sent(&mut self, seq: u32, departs: Nanos, flags: u8, in_flight: u32) {
        if self.packets_out() == 0 {
            self.rate.restart(departs);
        }
        *self.board.get_mut(seq) = Segment {
            sent: departs,
            delivered_at: self.rate.delivered_at,
            first_sent: self.rate.first_sent,
            delivered: self.conn.delivered,
            flags: flags | if self.conn.app_limited != 0 { APP_LIMITED } else { 0 },
        };
        if self.watches_losses {
            self.conn.in_flight = in_flight + 1;
            self.board.set_flight(seq, Flight { in_flight: in_flight + 1, lost: self.conn.lost });
            if self.watches_packets {
                let packet = Transmission {
                    seq,
                    sent: departs,
                    in_flight: in_flight + 1,
                    lost: self.conn.lost,
                    app_limited: self.conn.app_limited != 0,
                    was_lost: flags & (LOST | RETRANS) == LOST,
                };
                self.cc.on_packet_sent(&mut self.conn, &packet);
            }
        }
    }

    /// The last transmission of segment `seq`.
    pub(super) fn transmission(&self, seq: u32) -> Transmission {
        let (segment, flight) = (self.board.get(seq), self.board.flight(seq));
        Transmission {
            seq,
            sent: segment.sent,
            in_flight: flight.in_flight,
            lost: flight.lost,
            app_limited: segment.has(APP_LIMITED),
            was_lost: segment.flags & (LOST | RETRANS) == LOST,
        }
    }

    #[inline(always)]
    fn emit(&mut self, seq: u32, departs: Nanos, marks: Marks, out: &mut Pool) {
        let payload = self.payload(seq);
        self.counters.sent += 1;
        // A segment has neither window nor SACK blocks: what its place holds of another packet's stays.
        let packet = out.send();
        packet.ts = timestamp(departs);
        packet.ts_echo = self.ts_recent;
        packet.flow = self.flow;
        packet.route = self.route;
        packet.seq = seq;
        packet.size = (payload + self.tcp.header_bytes) as u16;
        packet.kind = Kind::Data;
        packet.marks = marks;
        if self.paces {
            self.pacer.charge(&mut self.conn, self.counters.sent, u64::from(payload));
        }
    }

    pub(super) fn window_allows(&self) -> bool {
        (u64::from(self.conn.snd_nxt) + 1) * u64::from(self.tcp.mss) <= self.peer.edge
    }

    /// A window advertisement; the edge never moves left. Says whether it moved.
    pub(super) fn update_receive_window(&mut self, ack: &Packet) -> bool {
        let edge = u64::from(ack.seq) * u64::from(self.tcp.mss) + u64::from(ack.window);
        let moved = edge > self.peer.edge;
        self.peer.edge = self.peer.edge.max(edge);
        self.peer.latest = ack.window;
        moved
    }

    /// A bulk writer has more to send.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        let window = self.conn.cwnd.max(self.rack.reordering + 1);
        self.buffer.refill(window, self.conn.snd_una);
    }

    /// Before a write: is the application, not the network, what limits the rate?
    pub(super) fn check_app_limited(&mut self) {
        if self.buffer.write_seq <= self.conn.snd_nxt
            && self.in_flight() < self.conn.cwnd
            && self.board.lost_out <= self.board.retrans_out
            && !self.waits_to_depart()
        {
            self.conn.app_limited = (self.conn.delivered + self.in_flight()).max(1);
        }
    }

    /// Is the last segment still in the host's queue?
    fn waits_to_depart(&self) -> bool {
        self.packets_out() > 0 && self.board.get(self.conn.snd_nxt - 1).sent > self.conn.now
    }
}
