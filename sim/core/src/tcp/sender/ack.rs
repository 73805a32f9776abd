//! What an acknowledgement does, in Linux's order: windows, SACK, cumulative ACK, RTT, the controller's view of what
//! was delivered, tail-probe episodes, loss detection, timers, delivery rate, window, transmission.

use crate::cc::CaState;
use crate::packet::{Kind, Packet, SegRange};
use crate::pool::Pool;
use crate::spec::profile::SafeAck;
use crate::time::Nanos;

use super::super::ecn::Agreed;
use super::super::rtt::rtt_us;
use super::super::timestamp;
use super::Sender;
use super::ack_work::AckWork;
use super::recovery::Send;
use super::scoreboard::{EVER_RETRANS, RATE_DONE, RETRANS, SACKED};
use super::timers::Timer;

impl Sender {
    pub fn on_ack(&mut self, now: Nanos, ack: &Packet, out: &mut Pool) {
        self.set_now(now);
        if ack.seq < self.conn.snd_una {
            // Overtaken on its way: PAWS (RFC 7323) discards it.
            return;
        }
        if !self.conn.exact && self.is_routine(ack) {
            self.on_routine_ack(ack, out);
        } else if ack.seq > self.conn.snd_nxt {
            // Of what has not been sent: ignored (RFC 9293, section 3.10.7.4).
        } else if self.packets_out() == 0 && ack.kind == Kind::Ack && ack.sack[0].is_empty() {
            self.on_idle_ack(ack, out);
        } else {
            self.on_any_ack(ack, out);
        }
    }

    /// Nothing is outstanding: all an ACK can bring is a window.
    #[cold]
    #[inline(never)]
    fn on_idle_ack(&mut self, ack: &Packet, out: &mut Pool) {
        self.update_receive_window(ack);
        self.ts_recent = self.ts_recent.max(ack.ts);
        if self.timers.pending == Timer::Persist && self.window_allows() {
            self.timers.disarm();
        }
        self.transmit_new(out);
    }

    #[inline(never)]
    fn on_any_ack(&mut self, ack: &Packet, out: &mut Pool) {
        let prior_una = self.conn.snd_una;
        let prior_delivered = self.conn.delivered;
        let prior_lost = self.conn.lost;
        let prior_in_flight = self.in_flight();
        let prior_highest = self.highest_sacked();
        let mut work = AckWork { ts_echo: ack.ts_echo, reordered: u32::MAX, ..AckWork::default() };

        self.ack_echo = ack.ts_echo;
        self.conn.plain_ack =
            ack.seq > prior_una && ack.window == self.peer.latest && ack.kind == Kind::Ack && ack.sack[0].is_empty();
        work.window_moved = self.update_receive_window(ack);
        self.ts_recent = self.ts_recent.max(ack.ts);
        if ack.kind != Kind::Ack || !ack.sack[0].is_empty() {
            self.process_sack(ack, &mut work);
        }
        let ecn = self.ecn.agreed != Agreed::Off;
        let sacked = self.conn.delivered - prior_delivered;
        if ecn {
            self.hear_echo(ack, prior_delivered, &mut work);
        }
        if ack.seq > prior_una {
            work.una_advanced = true;
            self.recovery.retransmits = 0;
            self.clean_acked(ack.seq, prior_highest, &mut work);
        }
        if ecn {
            self.count_echo(ack, prior_delivered, sacked, &mut work);
        }
        let rtt_us = self.take_rtt(&work);
        self.last_rtt_us = rtt_us;
        self.rate.latest = None;
        if !work.una_advanced
            && rtt_us.is_some()
            && work.first_sacked.is_some_and(|sent| sent < self.board.get(self.conn.snd_una).sent)
        {
            // Only segments older than the head's last transmission may postpone its timeout.
            work.set_timer = true;
        }
        self.update_reordering_window(&work);
        let delivered = self.conn.delivered - prior_delivered;
        self.conn.in_flight = self.in_flight();
        self.cc.on_delivered(&mut self.conn, delivered, rtt_us);

        if self.tail_probe.high_seq.is_some() {
            self.end_tail_probe(ack.seq, &work);
        }
        let mut send = Send::New;
        let dubious =
            !work.una_advanced || work.data_sacked || work.dsack || work.ece || self.conn.state != CaState::Open;
        if dubious {
            send = self.alert(prior_una, &mut work);
        }
        // In Open a transmission sets the timer anew, where it always arms a probe: only without one is it set here.
        let later = work.set_timer && self.conn.state == CaState::Open && self.profile.eager_tail_probes;
        if work.set_timer && !later {
            self.set_timer();
        }
        let lost = self.conn.lost - prior_lost;
        let mut rate = self.rate_sample(delivered, work.newest);
        if dubious {
            self.conn.in_flight = self.in_flight();
        }
        if self.owns_window {
            rate.acked = delivered;
            rate.lost = lost;
            rate.rtt_us = rtt_us;
            rate.prior_in_flight = prior_in_flight;
            self.cc.control(&mut self.conn, &rate);
        } else {
            self.adjust_window(delivered, lost, &work);
            if self.paces {
                self.cc.after_ack(&mut self.conn);
            }
        }
        let prior_nxt = self.conn.snd_nxt;
        match send {
            Send::Lost => self.transmit(out),
            Send::New => self.transmit_new(out),
            Send::ProbeNew => {
                // F-RTO: new data first; if there is none to send, the timeout is treated as genuine.
                let before = self.conn.snd_nxt;
                self.transmit_new(out);
                if self.conn.snd_nxt == before && self.conn.snd_nxt <= self.recovery.high_seq {
                    self.recovery.frto = false;
                    self.transmit(out);
                }
            }
        }
        if later && self.conn.snd_nxt == prior_nxt {
            self.set_timer();
        }
    }

    /// The segment after the highest SACKed one, or the next one to be ACKed.
    pub(super) fn highest_sacked(&self) -> u32 {
        self.board.highest_sacked(self.conn.snd_una, self.conn.snd_nxt)
    }

    #[inline(never)]
    fn process_sack(&mut self, ack: &Packet, work: &mut AckWork) {
        let mut blocks = &ack.sack[..];
        if ack.kind == Kind::AckDsack {
            self.process_duplicate(blocks[0], work);
            blocks = &blocks[1..];
        }
        if blocks.iter().all(|b| b.is_empty()) {
            return;
        }
        let highest = self.highest_sacked();
        // Older blocks first would only change the order of equal work; Linux sorts them by sequence.
        let mut sorted = [SegRange::EMPTY; 3];
        sorted[..blocks.len()].copy_from_slice(blocks);
        sorted.sort_unstable_by_key(|b| b.start);
        for block in sorted {
            let start = block.start.max(self.conn.snd_una);
            let end = block.end.min(self.conn.snd_nxt);
            if start >= end {
                continue;
            }
            let mut sacked = std::mem::take(&mut self.board.sacked);
            sacked.insert(start, end, |fresh| {
                for seq in fresh.start..fresh.end {
                    self.sack_segment(seq, highest, work);
                }
            });
            self.board.sacked = sacked;
        }
        if self.conn.state != CaState::Loss || self.recovery.undo_marker.is_some() {
            self.check_reordering(work.reordered);
        }
    }

    fn process_duplicate(&mut self, block: SegRange, work: &mut AckWork) {
        let segments = block.end - block.start;
        if self.recovery.duplicates + u64::from(segments) > self.counters.retransmitted {
            // More than was ever sent twice: duplicated by the network.
            return;
        }
        self.recovery.duplicates += u64::from(segments);
        work.dsack = true;
        if self.profile.tells_duplicates_apart {
            // An unnecessary retransmission was delivered all the same.
            self.conn.delivered += segments;
            work.dsack_of_probe = self.tail_probe.high_seq == Some(block.end);
        }
        for seq in block.start..block.end {
            self.recovery.note_duplicate(seq);
            if seq >= self.conn.snd_una && seq < self.conn.snd_nxt {
                self.board.forget_retransmission(seq);
            }
        }
    }

    fn sack_segment(&mut self, seq: u32, highest: u32, work: &mut AckWork) {
        let segment = *self.board.get(seq);
        self.rack_advance(&segment, seq);
        if !segment.has(RETRANS | EVER_RETRANS) {
            if seq < highest {
                work.reordered = work.reordered.min(seq);
            }
            if seq < self.recovery.high_seq {
                work.original_delivered = true;
            }
            work.first_sacked.get_or_insert(segment.sent);
            work.last_sacked = segment.sent;
        }
        work.data_sacked = true;
        self.count_delivered(seq, work);
        self.board.mark_sacked(seq);
    }

    #[inline]
    fn clean_acked(&mut self, ack: u32, prior_highest: u32, work: &mut AckWork) {
        let ack = ack.min(self.conn.snd_nxt);
        let prior_sacked = self.board.sacked_out > 0;
        let mut seq = self.conn.snd_una;
        while seq < ack {
            let plain_until = self.board.plain_until(seq, ack);
            if plain_until > seq {
                self.clean_plain(seq, plain_until, work);
                seq = plain_until;
            } else {
                self.clean_segment(seq, work);
                seq += 1;
            }
        }
        self.conn.snd_una = ack;
        self.board.retransmit_hint = self.board.retransmit_hint.max(ack);
        if prior_sacked {
            self.board.sacked.trim_below(ack);
            if work.reordered < prior_highest {
                self.check_reordering(work.reordered);
            }
        }
        work.set_timer = true;
    }

    /// Segments `[start, end)` were sent once, in order, and are acknowledged now: the last of them tells it all.
    #[inline]
    fn clean_plain(&mut self, start: u32, end: u32, work: &mut AckWork) {
        let last = *self.board.get(end - 1);
        work.first_acked.get_or_insert(self.board.get(start).sent);
        work.last_acked = last.sent;
        work.reordered = work.reordered.min(start);
        work.original_delivered |= start < self.recovery.high_seq;
        self.rack_advance(&last, end - 1);
        if self.watches_packets {
            self.tell_delivered(start, end);
        } else {
            self.conn.delivered += end - start;
        }
        self.counters.acked_bytes += self.buffer.payload_of(start, end);
        self.note_newest(last.sent, end - 1, work);
    }

    /// Tell a controller that watches packets of segments `[start, end)`.
    pub(super) fn tell_delivered(&mut self, start: u32, end: u32) {
        for seq in start..end {
            self.conn.delivered += 1;
            let packet = self.transmission(seq);
            self.cc.on_packet_delivered(&mut self.conn, &packet);
        }
    }

    /// Any other acknowledged segment.
    #[inline(never)]
    fn clean_segment(&mut self, seq: u32, work: &mut AckWork) {
        let segment = *self.board.get(seq);
        self.board.uncount(seq);
        if segment.has(RETRANS | EVER_RETRANS) {
            work.retrans_acked = true;
        } else if !segment.has(SACKED) {
            work.first_acked.get_or_insert(segment.sent);
            work.last_acked = segment.sent;
            work.reordered = work.reordered.min(seq);
            if seq < self.recovery.high_seq {
                work.original_delivered = true;
            }
        }
        if !segment.has(SACKED) {
            let spurious = segment.has(EVER_RETRANS) && work.ts_echo.millis() < timestamp(segment.sent).millis();
            if !spurious {
                self.rack_advance(&segment, seq);
            }
        }
        if !segment.has(RATE_DONE) {
            self.count_delivered(seq, work);
        }
    }

    /// A never-retransmitted segment arrived below the highest SACKed one.
    pub(super) fn check_reordering(&mut self, low: u32) {
        let highest = self.highest_sacked();
        if low >= highest {
            return;
        }
        self.rack.note_reordering(highest - low);
    }

    fn count_delivered(&mut self, seq: u32, work: &mut AckWork) {
        self.conn.delivered += 1;
        self.counters.acked_bytes += self.buffer.payload_of(seq, seq + 1);
        if self.watches_packets {
            let packet = self.transmission(seq);
            self.cc.on_packet_delivered(&mut self.conn, &packet);
        }
        self.note_newest(self.board.get(seq).sent, seq, work);
    }

    #[inline]
    fn note_newest(&mut self, sent: Nanos, seq: u32, work: &mut AckWork) {
        if work.newest.is_none_or(|newest| (sent, seq) > newest) {
            work.newest = Some((sent, seq));
            self.rate.first_sent = sent;
        }
    }

    /// Feed the estimators; returns the controller's sample (of the segment sent last).
    fn take_rtt(&mut self, work: &AckWork) -> Option<u32> {
        let now = self.conn.now.micros();
        let since = |sent: Nanos| rtt_us(sent.micros(), now);
        let mut seq_rtt = None;
        let mut ca_rtt = None;
        if let Some(first) = work.first_acked
            && !work.retrans_acked
        {
            seq_rtt = Some(since(first));
            ca_rtt = Some(since(work.last_acked));
        }
        let mut sack_rtt = None;
        if let Some(first) = work.first_sacked {
            sack_rtt = Some(since(first));
            ca_rtt = Some(since(work.last_sacked));
        }
        let mut seq_rtt = seq_rtt.or(sack_rtt);
        if seq_rtt.is_none() && work.una_advanced && work.ts_echo != Nanos::ZERO {
            // Retransmitted data: the timestamp tells which transmission was ACKed, in milliseconds.
            let ms = timestamp(self.conn.now).millis() - work.ts_echo.millis();
            seq_rtt = Some(rtt_us(0, (1_000 * ms).max(1_000)));
            ca_rtt = seq_rtt;
        }
        let rtt = seq_rtt?;
        self.note_rtt(rtt, ca_rtt.unwrap_or(rtt));
        ca_rtt
    }

    /// An RTT in microseconds, of the segment sent first and of the one sent last.
    #[inline(always)]
    pub(super) fn note_rtt(&mut self, first_us: u32, last_us: u32) {
        self.min_rtt.update(self.conn.now, last_us.max(1));
        self.conn.min_rtt_us = self.min_rtt.get();
        self.rtt.sample(first_us, self.conn.snd_una, self.conn.snd_nxt);
        self.rtt.backoff = 0;
        self.conn.srtt8_us = self.rtt.srtt8_us;
    }

    /// Growth or reduction, of controllers that leave reductions to TCP.
    #[inline]
    fn adjust_window(&mut self, acked: u32, lost: u32, work: &AckWork) {
        if matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
            let safe = match self.profile.safe_ack {
                SafeAck::Progress => work.una_advanced && lost == 0,
                SafeAck::RetransmissionArrived => work.retrans_acked && !work.lost_retrans,
            };
            self.reduce_window(acked, safe);
        } else {
            let progress = if self.rack.reordering > super::loss::REORDERING_DEFAULT {
                work.una_advanced || work.data_sacked
            } else {
                work.una_advanced
            };
            if progress {
                self.window_use.since = self.conn.jiffies;
                self.cc.cong_avoid(&mut self.conn, acked);
            }
        }
    }
}
