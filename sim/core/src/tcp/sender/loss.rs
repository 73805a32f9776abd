//! Claim losses: RACK-TLP (RFC 8985) and the retransmission timeout.

use std::collections::VecDeque;

use crate::cc::CaState;
use crate::spec::profile::LossDetection;
use crate::time::Nanos;

use super::Sender;
use super::ack_work::AckWork;
use super::scoreboard::{EVER_RETRANS, LOST, RETRANS, SACKED, Segment};
use super::timers::Timer;

/// Segments of reordering assumed at first, and the most that are believed.
pub(super) const REORDERING_DEFAULT: u32 = 3;
const REORDERING_MAX: u32 = 300;
/// Smallest reordering window of Linux 4.15.
const REORDERING_WINDOW_MIN: Nanos = Nanos::from_millis(1);
/// A widened reordering window is kept for this many recoveries.
pub(super) const WINDOW_PERSIST: u32 = 16;

/// RACK's state: the most recently sent segment known delivered.
#[derive(Clone, Debug)]
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
    scan_from: u32,
    /// Retransmissions in the order of sending.
    pub retransmitted: VecDeque<(u32, Nanos)>,
    /// First segment that counting has not found lost.
    counted_to: u32,
    /// Segments of reordering that are believed; and whether there ever was any.
    pub reordering: u32,
    pub reordering_seen: bool,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            sent: Nanos::ZERO,
            seq: 0,
            rtt: Nanos::ZERO,
            advanced: false,
            extra_steps: 0,
            window_persist: 0,
            dsack_seen: false,
            last_delivered: 0,
            scan_from: 0,
            retransmitted: VecDeque::new(),
            counted_to: 0,
            reordering: REORDERING_DEFAULT,
            reordering_seen: false,
        }
    }
}

impl Rack {
    /// Segments from `una` on are to be looked at again.
    pub fn look_from(&mut self, una: u32) {
        self.scan_from = una;
        self.counted_to = una;
    }

    /// A segment arrived with others `degree` above it SACKed before.
    pub fn note_reordering(&mut self, degree: u32) {
        self.reordering = self.reordering.max(degree.min(REORDERING_MAX));
        self.reordering_seen = true;
    }

    /// Is the reordering window a quarter of the minimum RTT, with no reason to widen it?
    #[inline]
    pub fn keeps_window_of_one(&self) -> bool {
        !self.dsack_seen && self.extra_steps == 0
    }
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
        if work.dsack && (!self.profile.tells_duplicates_apart || (rack.reordering_seen && !work.dsack_of_probe)) {
            rack.dsack_seen = true;
        }
        if rack.keeps_window_of_one() {
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
            LossDetection::Rack
                if self.rack.reordering_seen || !(recovering || self.board.sacked_out >= self.rack.reordering) =>
            {
                quarters.min(srtt)
            }
            LossDetection::Rack => Nanos::ZERO,
            LossDetection::RackAndCounting if self.rack.reordering_seen || !recovering => {
                quarters.max(REORDERING_WINDOW_MIN).min(srtt)
            }
            LossDetection::RackAndCounting => REORDERING_WINDOW_MIN,
        }
    }

    /// Is a recovery due?
    pub(super) fn time_to_recover(&self) -> bool {
        self.board.lost_out > 0
            || (self.profile.loss_detection == LossDetection::RackAndCounting
                && self.board.sacked_out >= self.rack.reordering)
    }

    /// Do SACKs reach further than reordering is believed to?
    pub(super) fn sacks_reach_far(&self) -> bool {
        self.board.sacked_out > 0 && self.highest_sacked() > self.conn.snd_una + self.rack.reordering
    }

    /// Mark what counting finds lost (RFC 6675): segments with `reordering` SACKed ones above; `entering` a recovery,
    /// the first one at least.
    pub(super) fn mark_by_counting(&mut self, entering: bool) {
        let una = self.conn.snd_una;
        let end = match self.board.sacked.from_top(self.rack.reordering) {
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
        let prior_retrans = self.board.retrans_out;
        if let Some(wait) = self.detect_loss() {
            let ticks = self.timers.reordering_ticks(wait.0.div_ceil(1_000));
            self.arm(Timer::Reorder, ticks.min(self.rtt.rto_ticks()));
            work.set_timer = false;
        }
        work.lost_retrans |= prior_retrans > self.board.retrans_out;
    }

    /// Mark segments sent a reordering window before the delivered one. Returns how long to wait for the rest.
    pub(super) fn detect_loss(&mut self) -> Option<Nanos> {
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
        if !self.board.mark_lost(seq) {
            return;
        }
        self.conn.lost += 1;
        self.counters.lost += 1;
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

    /// At a timeout: lost is all, but in newer kernels what was sent within the last delivered segment's RTT.
    pub(super) fn mark_timed_out(&mut self) {
        let now = self.conn.now;
        let spared = if self.profile.timeout_spares_young { self.rack.rtt } else { Nanos::ZERO };
        for seq in self.conn.snd_una..self.conn.snd_nxt {
            let segment = self.board.get(seq);
            if seq != self.conn.snd_una && segment.sent + spared > now {
                continue;
            }
            if segment.has(SACKED) && !self.profile.timeout_spares_young {
                self.board.forget_retransmission(seq);
            }
            self.mark_lost(seq);
        }
    }
}
