//! Finding losses: RACK-TLP (RFC 8985) and the retransmission timeout.

use std::collections::VecDeque;

use crate::cc::CaState;
use crate::pool::Pool;
use crate::time::Nanos;

use super::ack::AckWork;
use super::profile::LossDetection;
use super::rtt::RttEstimator;
use super::scoreboard::{EVER_RETRANS, LOST, RETRANS, SACKED, Segment};
use super::sender::{Sender, Timer};

/// Smallest reordering window of Linux 4.15.
const REORDERING_WINDOW_MIN: Nanos = Nanos::from_millis(1);
/// A widened reordering window is kept for this many recoveries.
pub(super) const WINDOW_PERSIST: u32 = 16;

/// RACK's state: the most recently sent segment known delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    pub(super) sent: Nanos,
    seq: u32,
    pub(super) rtt: Nanos,
    pub advanced: bool,
    /// Reordering window in quarters of the minimum RTT; 0 stands for 1.
    pub extra_steps: u32,
    pub window_persist: u32,
    pub(super) dsack_seen: bool,
    last_delivered: u32,
    /// First original (never retransmitted) segment that may still be found lost.
    pub scan_from: u32,
    /// Retransmissions in the order of sending.
    pub retransmitted: VecDeque<(u32, Nanos)>,
    /// First segment that counting has not found lost.
    pub counted_to: u32,
}

impl Sender {
    /// A segment is known delivered: is it the most recently sent one?
    #[inline]
    pub(super) fn rack_advance(&mut self, segment: &Segment, seq: u32) {
        // A repetition may still wait in the host's queue when the original arrives.
        let rtt = self.conn.now.saturating_sub(segment.sent);
        // The ACK of a retransmission that comes too soon answers the original.
        if segment.has(EVER_RETRANS | RETRANS) && rtt.micros() < u64::from(self.min_rtt.get()) {
            return;
        }
        let newest = (segment.sent, seq) > (self.rack.sent, self.rack.seq);
        if newest || self.profile.loss_detection == LossDetection::Rack {
            self.rack.advanced = true;
            self.rack.rtt = rtt;
        }
        if newest {
            self.rack.sent = segment.sent;
            self.rack.seq = seq;
        }
    }

    /// Widen the reordering window once per round trip with duplicates reported.
    pub(super) fn update_reordering_window(&mut self, work: &AckWork) {
        let rack = &mut self.rack;
        if work.dsack && (!self.profile.tells_duplicates_apart || (self.reordering_seen && !work.dsack_of_probe)) {
            rack.dsack_seen = true;
        }
        if !rack.dsack_seen && rack.extra_steps == 0 {
            return;
        }
        let Some(newest) = work.newest else { return };
        let prior_delivered = self.board.get(newest.1).delivered;
        if prior_delivered == 0 {
            return;
        }
        if prior_delivered < rack.last_delivered {
            rack.dsack_seen = false;
        }
        if rack.dsack_seen {
            rack.extra_steps = (rack.extra_steps + 1).min(254);
            rack.dsack_seen = false;
            rack.last_delivered = self.conn.delivered;
            rack.window_persist = WINDOW_PERSIST;
        } else if rack.window_persist == 0 {
            rack.extra_steps = 0;
        }
    }

    pub(super) fn reordering_window(&self) -> Nanos {
        let recovering = self.conn.state >= CaState::Recovery;
        let steps = u64::from(self.rack.extra_steps + 1);
        let quarters = Nanos::from_micros(u64::from(self.min_rtt.get() >> 2) * steps);
        let srtt = Nanos::from_micros(u64::from(self.conn.srtt8_us >> 3));
        match self.profile.loss_detection {
            LossDetection::Rack if self.reordering_seen || !(recovering || self.sacked_out >= self.reordering) => {
                quarters.min(srtt)
            }
            LossDetection::Rack => Nanos::ZERO,
            LossDetection::RackAndCounting if self.reordering_seen || !recovering => {
                quarters.max(REORDERING_WINDOW_MIN).min(srtt)
            }
            LossDetection::RackAndCounting => REORDERING_WINDOW_MIN,
        }
    }

    /// Is a recovery due?
    pub(super) fn time_to_recover(&self) -> bool {
        self.lost_out > 0
            || (self.profile.loss_detection == LossDetection::RackAndCounting && self.sacked_out >= self.reordering)
    }

    /// Do SACKs reach further than reordering is believed to?
    pub(super) fn sacks_reach_far(&self) -> bool {
        self.sacked_out > 0 && self.highest_sacked() > self.conn.snd_una + self.reordering
    }

    /// Mark what counting finds lost (RFC 6675): segments with `reordering` SACKed ones above; `entering` a recovery,
    /// the first one at least.
    pub(super) fn mark_by_counting(&mut self, entering: bool) {
        let una = self.conn.snd_una;
        let end = match self.sacked.from_top(self.reordering) {
            Some(seq) => seq,
            None if entering => una + 1,
            None => return,
        };
        for seq in self.rack.counted_to.max(una)..end {
            if !self.board.get(seq).has(SACKED | LOST) {
                self.mark_lost(seq);
            }
        }
        self.rack.counted_to = self.rack.counted_to.max(end);
    }

    /// Mark what RACK knows lost; arms the reordering timer for what may be.
    pub(super) fn identify_loss(&mut self, work: &mut AckWork) {
        if !self.rack.advanced {
            return;
        }
        self.rack.advanced = false;
        let prior_retrans = self.retrans_out;
        if let Some(wait) = self.detect_loss() {
            let us = wait.0.div_ceil(1_000) + self.margin_us;
            self.arm(Timer::Reorder, self.tick.covering(us).min(self.rtt.rto_ticks()));
            work.set_timer = false;
        }
        work.lost_retrans |= prior_retrans > self.retrans_out;
    }

    /// Mark segments sent a reordering window before the delivered one. Returns how long to wait for the rest.
    fn detect_loss(&mut self) -> Option<Nanos> {
        let window = self.rack.rtt + self.reordering_window();
        let now = self.conn.now;
        let mut wait = Nanos::ZERO;
        // Originals leave in the order of their numbers ...
        let mut first_waiting = None;
        let mut seq = self.rack.scan_from.max(self.conn.snd_una);
        while seq < self.conn.snd_nxt {
            let segment = *self.board.get(seq);
            if !segment.has(SACKED | LOST | EVER_RETRANS) {
                if (segment.sent, seq) >= (self.rack.sent, self.rack.seq) {
                    break;
                }
                let due = segment.sent + window;
                if due > now {
                    first_waiting.get_or_insert(seq);
                    wait = due - now;
                } else {
                    self.mark_lost(seq);
                }
            }
            seq += 1;
        }
        self.rack.scan_from = first_waiting.unwrap_or(seq);
        // ... retransmissions in an order of their own.
        let mut kept = 0;
        while let Some(&(seq, sent)) = self.rack.retransmitted.get(kept) {
            let current = seq >= self.conn.snd_una && {
                let segment = self.board.get(seq);
                // A segment marked lost and not sent again has nothing in flight.
                segment.sent == sent && !segment.has(SACKED) && segment.flags & (LOST | RETRANS) != LOST
            };
            if current {
                if (sent, seq) >= (self.rack.sent, self.rack.seq) {
                    break;
                }
                let due = sent + window;
                if due > now {
                    wait = wait.max(due - now);
                    kept += 1;
                    continue;
                }
                self.mark_lost(seq);
            }
            if kept == 0 {
                self.rack.retransmitted.pop_front();
            } else {
                kept += 1;
            }
        }
        (wait > Nanos::ZERO).then_some(wait)
    }

    pub(super) fn mark_lost(&mut self, seq: u32) {
        let segment = self.board.get_mut(seq);
        if segment.has(SACKED) {
            return;
        }
        if segment.flags & (LOST | RETRANS) == LOST {
            return;
        }
        if segment.has(RETRANS) {
            segment.flags &= !RETRANS;
            self.retrans_out -= 1;
        }
        if !segment.has(LOST) {
            segment.flags |= LOST;
            self.lost_out += 1;
        }
        self.conn.lost += 1;
        self.counters.lost += 1;
        self.retransmit_hint = self.retransmit_hint.min(seq);
        if self.watches_losses {
            self.conn.in_flight = self.in_flight();
            let packet = self.transmission(seq);
            self.cc.on_packet_lost(&mut self.conn, &packet);
        }
    }

    /// Segments found lost, and when those were sent again that were.
    pub(crate) fn lost_segments(&self) -> impl Iterator<Item = (u32, Option<Nanos>)> + '_ {
        let segments = (self.conn.snd_una..self.conn.snd_nxt).map(|seq| (seq, self.board.get(seq)));
        let lost = segments.filter(|(_, segment)| segment.has(LOST));
        lost.map(|(seq, segment)| (seq, segment.has(RETRANS).then_some(segment.sent)))
    }

    pub(super) fn needs_retransmission(&self, seq: u32) -> bool {
        let flags = self.board.get(seq).flags;
        flags & LOST != 0 && flags & (SACKED | RETRANS) == 0
    }

    /// At a timeout: lost is all, but in newer kernels what was sent within the last delivered segment's RTT.
    pub(super) fn mark_timed_out(&mut self) {
        let now = self.conn.now;
        let spared = if self.profile.timeout_spares_young { self.rack.rtt } else { Nanos::ZERO };
        for seq in self.conn.snd_una..self.conn.snd_nxt {
            let segment = self.board.get_mut(seq);
            if seq != self.conn.snd_una && segment.sent + spared > now {
                continue;
            }
            if segment.flags & (SACKED | RETRANS) == SACKED | RETRANS && !self.profile.timeout_spares_young {
                segment.flags &= !RETRANS;
                self.retrans_out -= 1;
            }
            self.mark_lost(seq);
        }
    }

    pub(super) fn arm(&mut self, timer: Timer, ticks: u64) {
        self.timer = timer;
        self.timer_at = self.deadline(ticks);
    }

    /// After progress: a tail loss probe if it applies, else the retransmission timeout.
    pub(super) fn set_timer(&mut self) {
        if !self.schedule_tail_probe(true) {
            self.rearm_rto();
        }
    }

    pub(super) fn rearm_rto(&mut self) {
        if self.packets_out() == 0 {
            self.timer = Timer::Off;
            self.timer_at = Nanos::MAX;
            if self.conn.snd_nxt < self.write_seq {
                self.persist();
            }
            return;
        }
        let mut ticks = self.rtt.rto_ticks();
        if matches!(self.timer, Timer::Reorder | Timer::Tlp) {
            // The time since the head was sent counts.
            ticks = self.tick.covering(self.rto_left_us().max(1) as u64);
        }
        self.arm(Timer::Rto, ticks);
    }

    /// Microseconds until the head of the queue times out; negative when overdue.
    fn rto_left_us(&self) -> i64 {
        let head = self.board.get(self.conn.snd_una).sent.micros() + self.rtt.rto_ticks() * self.tick.micros();
        head as i64 - self.conn.now.micros() as i64
    }

    /// Arm the tail loss probe: 2 srtt after the last transmission, never later than the timeout.
    #[inline(always)]
    pub(super) fn schedule_tail_probe(&mut self, advancing: bool) -> bool {
        if self.packets_out() == 0 || !matches!(self.conn.state, CaState::Open | CaState::Cwr) {
            return false;
        }
        if !self.profile.eager_tail_probes
            && (self.conn.state == CaState::Cwr
                || (self.conn.cwnd > self.in_flight() && self.conn.snd_nxt < self.write_seq))
        {
            return false;
        }
        let mut us = u64::from(self.conn.srtt8_us >> 2);
        us += if self.packets_out() == 1 { RttEstimator::rto_floor_us() } else { self.margin_us };
        if !advancing {
            // Rounding up to ticks only lengthens the timeout: work it out when it could matter.
            let sent = self.board.get(self.conn.snd_una).sent.micros();
            if sent + self.rtt.rto_us() < self.conn.now.micros() + us {
                let left = self.rto_left_us();
                if left > 0 {
                    us = us.min(left as u64);
                }
            }
        }
        let mut ticks = self.probe_ticks.of(us);
        if advancing {
            ticks = ticks.min(self.rtt.rto_ticks());
        }
        self.arm(Timer::Tlp, ticks);
        true
    }

    pub(super) fn on_retransmission_timer(&mut self, out: &mut Pool) {
        match self.timer {
            Timer::Off => self.timer_at = Nanos::MAX,
            Timer::Reorder => self.on_reordering_timeout(out),
            Timer::Tlp => self.send_tail_probe(out),
            Timer::Rto => self.on_rto(out),
            Timer::Persist => self.probe_window(out),
        }
    }

    fn on_reordering_timeout(&mut self, out: &mut Pool) {
        self.timer = Timer::Off;
        self.timer_at = Nanos::MAX;
        let prior_in_flight = self.in_flight();
        // What is still too young waits for the next ACK or the timeout.
        self.detect_loss();
        if prior_in_flight != self.in_flight() {
            if self.conn.state != CaState::Recovery {
                self.enter_recovery();
                if !self.owns_window {
                    self.reduce_window(1, false);
                }
            }
            self.retransmit_lost(out);
        }
        if self.timer != Timer::Rto {
            self.timer = Timer::Reorder;
            self.rearm_rto();
        }
    }

    fn send_tail_probe(&mut self, out: &mut Pool) {
        self.timer = Timer::Off;
        self.timer_at = Nanos::MAX;
        if self.packets_out() == 0 {
            return;
        }
        let retransmission = !self.has_new_data();
        if self.tlp_high_seq.is_some() && (retransmission || self.profile.eager_tail_probes) {
            // One probe per episode; the timeout counts from the head's transmission.
            self.timer = Timer::Tlp;
            return self.rearm_rto();
        }
        self.counters.tail_probes += 1;
        if retransmission {
            self.probe(self.conn.snd_nxt - 1, out);
        } else {
            self.send_new(self.in_flight(), out);
            self.prr.out += u32::from(self.conn.state == CaState::Cwr);
            self.validate_window(self.in_flight() >= self.conn.cwnd);
        }
        if retransmission || self.profile.eager_tail_probes {
            self.tlp_retrans = retransmission;
            self.tlp_high_seq = Some(self.conn.snd_nxt);
        }
        self.rearm_rto();
    }

    /// An ACK reaches the probe: did it repair a loss?
    pub(super) fn end_tail_probe(&mut self, ack: u32, work: &AckWork) {
        let Some(high) = self.tlp_high_seq else {
            return;
        };
        if ack < high {
            return;
        }
        let told_of_probe = if self.profile.tells_duplicates_apart { work.dsack_of_probe } else { work.dsack };
        if !self.tlp_retrans || told_of_probe {
            self.tlp_high_seq = None;
        } else if ack > high {
            // The probe's retransmission filled a hole nobody had seen: one reduction.
            self.begin_reduction();
            self.set_state(CaState::Cwr);
            self.end_reduction();
            self.try_keep_open();
        } else if work.is_duplicate() && !work.data_sacked {
            self.tlp_high_seq = None;
        }
    }

    pub(super) fn on_rto(&mut self, out: &mut Pool) {
        self.timer = Timer::Off;
        self.timer_at = Nanos::MAX;
        if self.packets_out() == 0 {
            return;
        }
        self.counters.rtos += 1;
        self.enter_loss();
        self.retransmits += 1;
        self.retransmit(self.conn.snd_una, out);
        self.rtt.backoff += 1;
        self.arm(Timer::Rto, self.rtt.rto_ticks());
    }
}
