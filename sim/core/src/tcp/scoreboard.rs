//! What the sender remembers of each outstanding segment.

use crate::time::Nanos;

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

/// A ring over `[una, nxt)`, indexed by segment number.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    segments: Vec<Segment>,
    /// As long as `segments`, or empty when nobody asks.
    flights: Vec<Flight>,
    mask: u32,
}

const FIRST_CAPACITY: usize = 64;

impl Scoreboard {
    pub fn new(with_flights: bool) -> Scoreboard {
        Scoreboard {
            segments: vec![Segment::default(); FIRST_CAPACITY],
            flights: vec![Flight::default(); if with_flights { FIRST_CAPACITY } else { 0 }],
            mask: FIRST_CAPACITY as u32 - 1,
        }
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
