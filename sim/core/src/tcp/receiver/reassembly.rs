//! Segments that wait for a hole to be filled, and the ranges of them that ACKs report.

use crate::packet::SegRange;
use crate::pool::Pool;
use crate::time::Nanos;

use super::{Arrival, Receiver};

/// Ranges a compressed ACK may have to report.
const BLOCKS_EXPECTED: usize = 2;

impl Receiver {
    /// A segment beyond a hole.
    #[inline(never)]
    pub(super) fn keep_for_later(&mut self, now: Nanos, segment: &Arrival, out: &mut Pool) {
        let seq = segment.seq;
        if self.compressed > 0 && self.would_crowd_out(seq) {
            self.acknowledge(now, segment.flow, out);
        }
        let mut start = seq;
        self.out_of_order.insert(seq, seq + 1, |_| ());
        self.out_of_order_segments += 1;
        if let Some(range) = self.out_of_order.containing(seq) {
            start = range.start;
        }
        self.touch_recent(start);
    }

    /// What waited for the segment just taken is in order now.
    #[inline(never)]
    pub(super) fn fill_hole(&mut self) {
        let Some(first) = self.out_of_order.first().filter(|first| first.start == self.rcv_nxt) else { return };
        let filled = first.end - first.start;
        self.unread += u64::from(filled);
        self.rcv_nxt = first.end;
        self.received_bytes += u64::from(filled) * self.mss;
        self.out_of_order_segments -= filled;
        self.out_of_order.trim_below(self.rcv_nxt);
        let (rcv_nxt, len) = (self.rcv_nxt, self.recent_len);
        let mut kept = 0;
        for i in 0..len {
            if self.recent[i] >= rcv_nxt {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recent_len = kept;
        if self.out_of_order.is_empty() {
            self.ack_now = self.profile.acks_filled_hole;
        }
    }

    /// Would segment `seq` push a range nobody has reported yet out of the next ACK? An ACK has room for the latest
    /// few; compression waits only while those suffice (TCP_SACK_BLOCKS_EXPECTED).
    fn would_crowd_out(&self, seq: u32) -> bool {
        let extends = |start: &u32| {
            self.out_of_order.containing(*start).is_some_and(|range| range.end == seq || range.start == seq + 1)
        };
        let recent = &self.recent[..self.recent_len];
        recent.iter().position(extends).unwrap_or(recent.len()) >= BLOCKS_EXPECTED
    }

    fn touch_recent(&mut self, start: u32) {
        // Ranges that have been merged into this one are known by their old starts: drop those inside it.
        let range = self.out_of_order.containing(start).unwrap_or(SegRange { start, end: start + 1 });
        let mut list = [range.start; 4];
        let mut n = 1;
        for &old in &self.recent[..self.recent_len] {
            if !(range.start..range.end).contains(&old) && n < 4 {
                list[n] = old;
                n += 1;
            }
        }
        self.recent = list;
        self.recent_len = n;
    }
}
