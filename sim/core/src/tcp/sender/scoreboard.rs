//! What the sender remembers of outstanding segments: of each its last transmission and its fate, of all how many are SACKed,
//! lost and sent again (RFC 6675's scoreboard; Linux's retransmit queue and its counters).

use crate::time::Nanos;

use super::super::intervals::Intervals;

/// Flags of a segment.
pub const SACKED: u8 = 1;
pub const LOST: u8 = 2;
/// A retransmission is in flight.
pub const RETRANS: u8 = 4;
/// Was ever retransmitted (Karn).
pub const EVER_RETRANS: u8 = 8;
/// Sent while the application, not the network, was the limit.
pub const APP_LIMITED: u8 = 16;
/// Its delivery has been counted in a rate sample.
pub const RATE_DONE: u8 = 32;
/// What has befallen a segment that was not simply sent once.
const HISTORY: u8 = SACKED | LOST | RETRANS | EVER_RETRANS | RATE_DONE;

#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// Last (re)transmission.
    pub sent: Nanos,
    /// Time of the latest delivery when it was sent.
    pub delivered_at: Nanos,
    /// Send time of the segment that started that flight.
    pub first_sent: Nanos,
    /// Segments delivered when it was sent.
    pub delivered: u32,
    pub flags: u8,
}

impl Segment {
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// What controllers that watch losses want to know besides of a segment's last transmission.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    /// Segments in flight when it was sent, itself included, and segments lost until then.
    pub in_flight: u32,
    pub lost: u32,
}

/// A ring over `[una, nxt)`, indexed by segment number, and the counters of its flags.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    pub(super) sacked_out: u32,
    pub(super) lost_out: u32,
    pub(super) retrans_out: u32,
    /// No segment below is to be sent again.
    pub(super) retransmit_hint: u32,
    /// Ranges of SACKed segments.
    pub(super) sacked: Intervals,
    segments: Vec<Segment>,
    /// As long as `segments`, or empty when nobody asks.
    flights: Vec<Flight>,
    mask: u32,
}

const FIRST_CAPACITY: usize = 64;

impl Scoreboard {
    pub fn new(with_flights: bool) -> Scoreboard {
        Scoreboard {
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            retransmit_hint: 0,
            sacked: Intervals::default(),
            segments: vec![Segment::default(); FIRST_CAPACITY],
            flights: vec![Flight::default(); if with_flights { FIRST_CAPACITY } else { 0 }],
            mask: FIRST_CAPACITY as u32 - 1,
        }
    }

    /// Nothing is SACKed, lost or sent again.
    #[inline]
    pub fn is_sound(&self) -> bool {
        self.sacked_out | self.lost_out | self.retrans_out == 0
    }

    /// Segments in flight of `out` that are outstanding.
    #[inline]
    pub fn in_flight(&self, out: u32) -> u32 {
        out + self.retrans_out - self.sacked_out - self.lost_out
    }

    /// Segment `seq` is lost, the last transmission of it. False if that is known, or it has arrived.
    pub fn mark_lost(&mut self, seq: u32) -> bool {
        let segment = &mut self.segments[(seq & self.mask) as usize];
        if segment.has(SACKED) || segment.flags & (LOST | RETRANS) == LOST {
            return false;
        }
        if segment.has(RETRANS) {
            segment.flags &= !RETRANS;
            self.retrans_out -= 1;
        }
        if !segment.has(LOST) {
            segment.flags |= LOST;
            self.lost_out += 1;
        }
        self.retransmit_hint = self.retransmit_hint.min(seq);
        true
    }

    /// The retransmission of segment `seq`, if there is one, is no longer in flight.
    pub fn forget_retransmission(&mut self, seq: u32) {
        let segment = &mut self.segments[(seq & self.mask) as usize];
        if segment.has(RETRANS) {
            segment.flags &= !RETRANS;
            self.retrans_out -= 1;
        }
    }

    /// Segment `seq` is SACKed: what was out of it is so no more.
    pub fn mark_sacked(&mut self, seq: u32) {
        let segment = &mut self.segments[(seq & self.mask) as usize];
        // A retransmission that was not found lost before is still counted as one.
        if segment.flags & (LOST | RETRANS) == LOST | RETRANS {
            segment.flags &= !RETRANS;
            self.retrans_out -= 1;
        }
        if segment.has(LOST) {
            segment.flags &= !LOST;
            self.lost_out -= 1;
        }
        segment.flags |= SACKED | RATE_DONE;
        self.sacked_out += 1;
    }

    /// Segment `seq` is acknowledged, and counts no more.
    pub fn uncount(&mut self, seq: u32) {
        let flags = self.get(seq).flags;
        self.retrans_out -= u32::from(flags & RETRANS != 0);
        self.sacked_out -= u32::from(flags & SACKED != 0);
        self.lost_out -= u32::from(flags & LOST != 0);
    }

    /// Nothing of `[una, nxt)` is lost after all.
    pub fn unmark_lost(&mut self, una: u32, nxt: u32) {
        (una..nxt).for_each(|seq| self.get_mut(seq).flags &= !LOST);
        self.lost_out = 0;
        self.retransmit_hint = una;
    }

    /// Is segment `seq` lost, and not sent again since?
    pub fn needs_retransmission(&self, seq: u32) -> bool {
        self.get(seq).flags & (LOST | SACKED | RETRANS) == LOST
    }

    /// The segment after the highest SACKed one of `[una, nxt)`, or `una`.
    pub fn highest_sacked(&self, una: u32, nxt: u32) -> u32 {
        if self.sacked_out == 0 { una } else { self.sacked.highest().unwrap_or(nxt) }
    }

    /// Recount the flags of `[una, nxt)`; an error says which counter is off.
    pub fn check(&self, una: u32, nxt: u32) -> Result<(), String> {
        let counters = [(SACKED, self.sacked_out), (LOST, self.lost_out), (RETRANS, self.retrans_out)];
        for (flag, counter) in counters {
            let marked = (una..nxt).filter(|seq| self.get(*seq).has(flag)).count();
            if marked != counter as usize {
                return Err(format!("flag {flag}: {marked} marked, counter {counter}"));
            }
        }
        Ok(())
    }

    pub fn flight(&self, seq: u32) -> Flight {
        self.flights[(seq & self.mask) as usize]
    }

    pub fn set_flight(&mut self, seq: u32, flight: Flight) {
        self.flights[(seq & self.mask) as usize] = flight;
    }

    #[inline]
    pub fn get(&self, seq: u32) -> &Segment {
        &self.segments[(seq & self.mask) as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, seq: u32) -> &mut Segment {
        &mut self.segments[(seq & self.mask) as usize]
    }

    /// The first segment of `[from, to)` with a history, or `to`: those before were sent once, in order.
    #[inline]
    pub fn plain_until(&self, from: u32, to: u32) -> u32 {
        (from..to).find(|seq| self.get(*seq).has(HISTORY)).unwrap_or(to)
    }

    /// Make room for segment `nxt` beside all from `una` on.
    #[inline]
    pub fn reserve(&mut self, una: u32, nxt: u32) {
        if nxt - una >= self.segments.len() as u32 {
            self.grow(una, nxt);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, una: u32, nxt: u32) {
        let capacity = self.segments.len() as u32;
        let mask = 2 * capacity - 1;
        let mut segments = vec![Segment::default(); 2 * capacity as usize];
        let mut flights = vec![Flight::default(); 2 * self.flights.len()];
        for seq in una..nxt {
            segments[(seq & mask) as usize] = *self.get(seq);
            if !flights.is_empty() {
                flights[(seq & mask) as usize] = self.flight(seq);
            }
        }
        self.segments = segments;
        self.flights = flights;
        self.mask = mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retransmission_counts_until_it_is_forgotten_or_lost() {
        // Eight segments are out.
        let mut board = Scoreboard::new(false);
        let counters = |board: &Scoreboard| {
            board.check(0, 8).unwrap();
            (board.lost_out, board.retrans_out, board.sacked_out, board.in_flight(8))
        };
        for seq in [1, 2, 3] {
            assert!(board.mark_lost(seq));
            board.get_mut(seq).flags |= RETRANS;
            board.retrans_out += 1;
        }
        assert_eq!(counters(&board), (3, 3, 0, 8));
        // A duplicate of it has been reported: a lost segment remains, whose retransmission is no longer on its way.
        board.forget_retransmission(1);
        assert_eq!(counters(&board), (3, 2, 0, 7));
        board.forget_retransmission(1);
        assert_eq!(counters(&board), (3, 2, 0, 7), "there is none any more");
        // The retransmission is lost, too: 2 is still one lost segment.
        assert!(board.mark_lost(2) && !board.mark_lost(2));
        assert_eq!(counters(&board), (3, 1, 0, 6));
        // SACKed, 3 is neither lost nor on its way.
        board.mark_sacked(3);
        assert_eq!(counters(&board), (2, 0, 1, 5));
    }
}
