//! When a receiver acknowledges, and with what.

use crate::packet::{Kind, Marks, Packet, SegRange};
use crate::pool::Pool;
use crate::time::Nanos;

use super::super::timestamp;
use super::{MAX_QUICK_ACKS, Receiver};

/// Duplicate ACKs sent at once before compression sets in, and the most it merges.
const UNCOMPRESSED_DUPACKS: u32 = 3;
const MAX_COMPRESSED: u32 = 44;
const COMPRESSION_MAX: Nanos = Nanos::from_millis(1);
/// Slack of the compression timer (tcp_comp_sack_slack_ns).
const COMPRESSION_SLACK: Nanos = Nanos::from_micros(100);

impl Receiver {
    #[inline(always)]
    pub(super) fn note_arrival(&mut self, now: Nanos) {
        let short = self.ato_min / 2;
        if self.ato == 0 {
            self.increase_quick_ack(MAX_QUICK_ACKS);
            self.ato = self.ato_min;
        } else if now - self.last_arrival < self.short_gap {
            // Certainly not more than this many ticks apart: the usual case needs no division.
            self.ato = self.ato / 2 + short;
        } else {
            let gap = self.tick.count(now) - self.tick.count(self.last_arrival);
            if gap <= short {
                self.ato = self.ato / 2 + short;
            } else if gap < self.ato {
                self.ato = (self.ato / 2 + gap).min(self.rto);
            } else if gap > self.rto {
                self.increase_quick_ack(MAX_QUICK_ACKS);
            }
        }
        self.last_arrival = now;
    }

    fn increase_quick_ack(&mut self, most: u32) {
        let window = self.right_edge - self.stream_bytes();
        let credits = ((window / (2 * self.mss)) as u32).max(2).min(most);
        self.quick = self.quick.max(credits);
    }

    pub(super) fn enter_quick_ack(&mut self, most: u32) {
        self.increase_quick_ack(most);
        self.ato = self.ato_min;
    }

    #[inline(always)]
    pub(super) fn decide(&mut self, now: Nanos, flow: u32, out: &mut Pool) {
        if self.quick > 0 || self.ack_now {
            return self.acknowledge(now, flow, out);
        }
        if self.rcv_nxt - self.last_acked > 1 {
            let mut free = self.free_window();
            if free < self.right_edge - u64::from(self.last_acked) * self.mss {
                // Too little room before the application has read: it acknowledges when it has.
                self.read_what_may_be();
                free = self.free_window();
            }
            return self.offer_window(now, free, flow, out);
        }
        if self.out_of_order.is_empty() {
            return self.delay(now);
        }
        if self.compressed >= MAX_COMPRESSED || !self.profile.compresses_acks {
            return self.acknowledge(now, flow, out);
        }
        if self.dupacks_at != self.rcv_nxt {
            self.dupacks_at = self.rcv_nxt;
            self.dupacks = 0;
        }
        if self.dupacks < UNCOMPRESSED_DUPACKS {
            self.dupacks += 1;
            return self.acknowledge(now, flow, out);
        }
        self.compressed += 1;
        if self.compressed_at.is_never() {
            let rtt_us = (self.rtt8_us >> 3).min(self.handshake_us);
            let delay = Nanos::from_micros(rtt_us / 20).min(COMPRESSION_MAX);
            self.compressed_at = now + delay + COMPRESSION_SLACK;
        }
    }

    #[inline(always)]
    pub(super) fn delay(&mut self, now: Nanos) {
        let ticks = self.ato.min(self.delay_bound);
        let at = self.tick.deadline(self.tick.count(now), ticks);
        // An ACK already waiting keeps its earlier time.
        self.delayed_at = self.delayed_at.min(at);
    }

    #[inline(never)]
    pub(super) fn acknowledge(&mut self, now: Nanos, flow: u32, out: &mut Pool) {
        let free = self.free_window();
        self.offer_window(now, free, flow, out);
    }

    /// Acknowledge what had arrived up to `seq`, beside the ACK that is due (`__tcp_send_ack`).
    pub(super) fn send_ack_of(&mut self, now: Nanos, flow: u32, seq: u32, out: &mut Pool) {
        let window = (self.right_edge - u64::from(seq) * self.mss) as u32;
        self.send_ack(now, flow, seq, window, out);
    }

    /// Acknowledge what has arrived, with a window of `free` bytes unless more has been offered.
    #[inline(always)]
    pub(super) fn offer_window(&mut self, now: Nanos, free: u64, flow: u32, out: &mut Pool) {
        if self.ack_parts > 1 {
            self.divide(now, flow, out);
        }
        self.quick = self.quick.saturating_sub(1);
        self.ack_now = false;
        self.delayed_at = Nanos::MAX;
        self.compressed_at = Nanos::MAX;
        self.compressed = 0;
        self.merged = 0;
        self.last_acked = self.rcv_nxt;
        let stream = self.stream_bytes();
        let offered = self.right_edge - stream;
        self.right_edge = stream + free.max(self.whole_units(offered));
        let packet = out.send();
        *packet = Packet {
            ts: timestamp(now),
            ts_echo: self.ts_recent,
            flow,
            seq: self.rcv_nxt,
            window: (self.right_edge - stream) as u32,
            size: self.ack_bytes,
            route: self.route,
            kind: Kind::Ack,
            marks: Marks::NONE,
            marked_bytes: 0,
            sack: [SegRange::EMPTY; 3],
        };
        if self.is_special {
            (packet.marks, packet.marked_bytes) = (self.ack_marks, self.echo.bytes);
            self.echo.pending = 0;
        }
        if self.duplicate.is_some() || self.recent_len > 0 {
            self.report_blocks(packet);
        }
    }

    /// Blocks of a selective acknowledgement: a duplicate, then what has changed most recently.
    #[inline(never)]
    fn report_blocks(&mut self, packet: &mut Packet) {
        let mut n = 0;
        if let Some(range) = self.duplicate.take() {
            packet.kind = Kind::AckDsack;
            packet.sack[0] = range;
            n = 1;
        }
        for &start in &self.recent[..self.recent_len] {
            if n < 3
                && let Some(range) = self.out_of_order.containing(start)
            {
                packet.sack[n] = range;
                n += 1;
            }
        }
    }
}
