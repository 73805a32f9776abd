//! Sending: what may leave now, at which pace, and whether the window was used.

use crate::cc::{CaState, Conn, Event, Transmission};
use crate::packet::{Kind, Packet};
use crate::pool::Pool;
use crate::time::Nanos;

use super::scoreboard::{APP_LIMITED, EVER_RETRANS, Flight, LOST, RETRANS, SACKED, Segment};
use super::sender::{Sender, Timer};
use super::timestamp;

/// The first segments of a connection leave unpaced.
const UNPACED_SEGMENTS: u64 = 10;
/// How long before its departure a segment may wait in its host's queue; the queue is filled again when half is left.
pub(super) const QUEUED_AHEAD: Nanos = Nanos::from_millis(1);

impl Sender {
    /// Send what may be sent: lost segments first, then new data.
    pub fn transmit(&mut self, out: &mut Pool) {
        if self.lost_out > self.retrans_out {
            self.retransmit_lost(out);
        }
        self.transmit_new(out);
    }

    /// Send new data; lost segments wait for an ACK or a timer.
    pub fn transmit_new(&mut self, out: &mut Pool) {
        self.refill();
        if self.conn.snd_nxt >= self.write_seq {
            return;
        }
        let restart_timer = self.packets_out() == 0 || self.timer == Timer::Tlp;
        self.pacing_blocked = false;
        let already = self.in_flight();
        let mut sent = 0;
        while self.conn.snd_nxt < self.write_seq
            && already + sent < self.conn.cwnd
            && self.window_allows()
            && !self.pacing_holds()
        {
            self.send_new(already + sent, out);
            sent += 1;
        }
        if sent > 0 {
            if matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
                self.prr.out += sent;
            }
            if !self.schedule_tail_probe(false) && restart_timer {
                self.rearm_rto();
            }
        }
        if sent == 0 && self.packets_out() == 0 && self.timer == Timer::Off {
            self.persist();
        }
        let limited = already + sent >= self.conn.cwnd;
        if sent > 0 || (limited && self.profile.latches_window_use) {
            self.validate_window(limited);
        }
    }

    /// Nothing is outstanding that could be acknowledged: unless the pacer has the next segment, the window has no room for it,
    /// and has to be asked for in time (RFC 9293, 3.8.6.1; `tcp_check_probe_timer`).
    #[cold]
    #[inline(never)]
    pub(super) fn persist(&mut self) {
        if self.window_allows() {
            return;
        }
        self.window_probes = 0;
        self.arm(Timer::Persist, self.persist_ticks());
    }

    /// The timeout, doubled with every probe (`tcp_probe0_when`).
    fn persist_ticks(&self) -> u64 {
        const RTO_MAX_S: u64 = 120;
        (self.rtt.rto_ticks() << self.window_probes.min(10)).min(RTO_MAX_S * u64::from(self.tcp.hz))
    }

    /// Ask for the window.
    #[inline(never)]
    pub(super) fn probe_window(&mut self, out: &mut Pool) {
        self.timer = Timer::Off;
        self.timer_at = Nanos::MAX;
        if self.packets_out() > 0 || self.conn.snd_nxt >= self.write_seq || self.window_allows() {
            return self.transmit_new(out);
        }
        *out.send() = Packet {
            ts: timestamp(self.conn.now),
            ts_echo: self.ts_recent,
            flow: self.flow,
            route: self.route,
            seq: self.conn.snd_una,
            size: self.tcp.ack_bytes as u16,
            kind: Kind::WindowProbe,
            ..Packet::default()
        };
        self.window_probes += 1;
        self.arm(Timer::Persist, self.persist_ticks());
    }

    pub(super) fn has_new_data(&self) -> bool {
        self.conn.snd_nxt < self.write_seq && self.window_allows()
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
        self.emit(seq, departs, out);
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
        self.emit(seq, departs, out);
    }

    #[inline(never)]
    pub(super) fn retransmit(&mut self, seq: u32, out: &mut Pool) {
        let in_flight = self.in_flight();
        self.note_transmission(in_flight);
        let keep = self.board.get(seq).flags & (LOST | SACKED);
        let departs = self.departure();
        self.note_sent(seq, departs, keep | RETRANS | EVER_RETRANS, in_flight);
        self.retrans_out += 1;
        self.rack.retransmitted.push_back((seq, departs));
        if self.retrans_stamp == Nanos::ZERO {
            self.retrans_stamp = departs;
        }
        self.undo_retrans = self.undo_retrans.max(0) + 1;
        self.counters.retransmitted += 1;
        self.emit(seq, departs, out);
    }

    /// When a segment handed to the network now leaves the host.
    #[inline]
    fn departure(&self) -> Nanos {
        if self.paces { self.conn.now.max(self.conn.next_departure) } else { self.conn.now }
    }

    #[inline(always)]
    fn note_sent(&mut self, seq: u32, departs: Nanos, flags: u8, in_flight: u32) {
        if self.packets_out() == 0 {
            self.first_sent = departs;
            self.delivered_at = departs;
        }
        *self.board.get_mut(seq) = Segment {
            sent: departs,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
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
    fn emit(&mut self, seq: u32, departs: Nanos, out: &mut Pool) {
        let payload = self.payload(seq);
        self.counters.sent += 1;
        *out.send() = Packet {
            ts: timestamp(departs),
            ts_echo: self.ts_recent,
            flow: self.flow,
            route: self.route,
            seq,
            size: (payload + self.tcp.header_bytes) as u16,
            kind: Kind::Data,
            ..Packet::default()
        };
        if self.paces && self.conn.pacing_rate > 0 && self.counters.sent >= UNPACED_SEGMENTS {
            self.charge_pacing(u64::from(payload));
        }
    }

    /// Advance the pacing clock by one segment's payload, as Linux charges it; up to half of the gap may be made up from lateness.
    fn charge_pacing(&mut self, bytes: u64) {
        let rate = self.conn.pacing_rate;
        if (self.pace_gap.0, self.pace_gap.1) != (rate, bytes) {
            self.pace_gap = (rate, bytes, bytes * 1_000_000_000 / rate);
        }
        let gap = self.pace_gap.2;
        let now = self.conn.now;
        let lateness = now.saturating_sub(self.conn.next_departure).0;
        let start = self.conn.next_departure.max(now);
        self.conn.next_departure = start + Nanos(gap - (gap / 2).min(lateness));
    }

    /// Segments are handed to the host's queue a little before they depart, as Linux's small queues (1 ms of data) and
    /// `fq` have it: fewer timers, and the next departure seldom waits for one.
    #[inline]
    pub(super) fn pacing_holds(&mut self) -> bool {
        let holds = self.conn.next_departure > self.conn.now + QUEUED_AHEAD;
        self.pacing_blocked |= holds;
        holds
    }

    pub(super) fn window_allows(&self) -> bool {
        (u64::from(self.conn.snd_nxt) + 1) * u64::from(self.tcp.mss) <= self.window_edge
    }

    /// A window advertisement; the edge never moves left. Says whether it moved.
    pub(super) fn update_receive_window(&mut self, ack: &Packet) -> bool {
        let edge = u64::from(ack.seq) * u64::from(self.tcp.mss) + u64::from(ack.window);
        let moved = edge > self.window_edge;
        self.window_edge = self.window_edge.max(edge);
        self.last_window = ack.window;
        moved
    }

    /// A bulk writer fills the send buffer whenever a third of it is free.
    pub(super) fn refill(&mut self) {
        if !self.bulk {
            return;
        }
        let window = self.conn.cwnd.max(10).max(self.reordering + 1);
        if window > self.buffered_window {
            self.buffered_window = window;
            let wanted =
                (u64::from(window) * self.buffer_budget / self.buffer_use).min(u64::from(self.send_buffer_max));
            self.send_buffer_segments = self.send_buffer_segments.max(wanted as u32);
        }
        let queued = self.write_seq - self.conn.snd_una;
        if 3 * u64::from(queued) <= 2 * u64::from(self.send_buffer_segments) {
            self.write_seq = self.conn.snd_una + self.send_buffer_segments;
        }
    }

    /// Before a write: is the application, not the network, what limits the rate?
    pub(super) fn check_app_limited(&mut self) {
        if self.write_seq <= self.conn.snd_nxt
            && self.in_flight() < self.conn.cwnd
            && self.lost_out <= self.retrans_out
            && !self.waits_to_depart()
        {
            self.conn.app_limited = (self.conn.delivered + self.in_flight()).max(1);
        }
    }

    /// Is the last segment still in the host's queue?
    fn waits_to_depart(&self) -> bool {
        self.packets_out() > 0 && self.board.get(self.conn.snd_nxt - 1).sent > self.conn.now
    }

    /// RFC 2861 / Linux: the window of an idle connection decays.
    pub(super) fn restart_after_idle(&mut self) {
        if !self.tcp.slow_start_after_idle || self.packets_out() > 0 || self.owns_window {
            return;
        }
        let idle = self.conn.jiffies.saturating_sub(self.tick.count(self.conn.last_send));
        if idle > self.rtt.rto_ticks() {
            self.cc.on_event(&mut self.conn, Event::CwndRestart);
            restart_window(&mut self.conn, idle, self.rtt.rto_ticks());
            self.cwnd_stamp = self.conn.jiffies;
            self.cwnd_used = 0;
        }
    }

    /// Congestion window validation (RFC 2861, Linux): remember whether the window was used.
    #[inline(always)]
    pub(super) fn validate_window(&mut self, limited: bool) {
        let out = self.packets_out();
        let more_out = out > self.conn.max_packets_out;
        let stronger =
            if self.profile.latches_window_use { limited || (!self.conn.cwnd_limited && more_out) } else { more_out };
        if stronger || self.conn.snd_una >= self.cwnd_usage_seq {
            self.conn.cwnd_limited = limited;
            self.conn.max_packets_out = out;
            self.cwnd_usage_seq = self.conn.snd_nxt;
        }
        if self.owns_window {
            return;
        }
        if self.conn.is_cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp = self.conn.jiffies;
            return;
        }
        self.cwnd_used = self.cwnd_used.max(out);
        if self.tcp.slow_start_after_idle && self.conn.jiffies - self.cwnd_stamp >= self.rtt.rto_ticks() {
            // A writer waiting for the send buffer has more to send.
            if self.conn.state == CaState::Open && !self.bulk {
                let used = self.cwnd_used.max(self.conn.initial_cwnd);
                if used < self.conn.cwnd {
                    self.conn.ssthresh = self.conn.current_ssthresh();
                    self.conn.cwnd = (self.conn.cwnd + used) >> 1;
                }
                self.cwnd_used = 0;
            }
            self.cwnd_stamp = self.conn.jiffies;
        }
    }

    /// When a timer of `ticks` set now fires.
    pub(super) fn deadline(&self, ticks: u64) -> Nanos {
        self.tick.deadline(self.conn.jiffies, ticks)
    }
}

/// Halve the window once per timeout elapsed beyond the first.
fn restart_window(conn: &mut Conn, idle_ticks: u64, rto_ticks: u64) {
    conn.ssthresh = conn.current_ssthresh();
    let floor = conn.initial_cwnd.min(conn.cwnd);
    let mut left = idle_ticks as i64 - rto_ticks as i64;
    while left > 0 && conn.cwnd > floor {
        conn.cwnd >>= 1;
        left -= rto_ticks as i64;
    }
    conn.cwnd = conn.cwnd.max(floor);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::testing::conn;

    #[test]
    fn idle_restart_vectors() {
        let mut c = conn(400, 300);
        restart_window(&mut c, 1000, 300);
        assert_eq!((c.cwnd, c.ssthresh), (50, 300));
        let mut c = conn(64, 300);
        restart_window(&mut c, 10_000, 300);
        assert_eq!(c.cwnd, 10);
    }
}
