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

/// A ring over `[una, nxt)`, indexed by segment number.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    segments: Vec<Segment>,
    mask: u32,
}

impl Default for Scoreboard {
    fn default() -> Self {
        Scoreboard { segments: vec![Segment::default(); 64], mask: 63 }
    }
}

impl Scoreboard {
    #[inline]
    pub fn get(&self, seq: u32) -> &Segment {
        &self.segments[(seq & self.mask) as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, seq: u32) -> &mut Segment {
        &mut self.segments[(seq & self.mask) as usize]
    }

    /// Make room for segment `nxt` beside all from `una` on.
    pub fn reserve(&mut self, una: u32, nxt: u32) {
        let capacity = self.segments.len() as u32;
        if nxt - una < capacity {
            return;
        }
        let mut segments = vec![Segment::default(); self.segments.len() * 2];
        let mask = segments.len() as u32 - 1;
        for seq in una..nxt {
            segments[(seq & mask) as usize] = *self.get(seq);
        }
        self.segments = segments;
        self.mask = mask;
    }
}
