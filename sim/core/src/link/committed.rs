//! Departures that are committed: nothing can change them any more, and no event is needed for them. Their packets are in the
//! pipe already, or are lost when they depart. What is kept of them is the backlog they still are.

use crate::ring::Ring;
use crate::time::Nanos;

#[derive(Clone, Copy, Debug, Default)]
pub struct Departure {
    pub at: Nanos,
    /// Bytes on the wire.
    pub size: u32,
    /// Is the packet lost then?
    pub lost: bool,
}

/// In order. Some may have taken place already: they are settled when the backlog has to be known exactly.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    departures: Ring<Departure>,
    bytes: u64,
    /// How many of their packets will be lost.
    doomed: u32,
}

impl Committed {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn doomed(&self) -> u64 {
        u64::from(self.doomed)
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.departures.len()
    }

    /// As many can be kept without more memory.
    pub fn capacity(&self) -> usize {
        self.departures.capacity()
    }

    /// Memory for another one.
    pub fn make_room(&mut self) {
        self.departures.make_room();
    }

    /// There must be room.
    #[inline(always)]
    pub fn push(&mut self, departure: Departure) {
        self.departures.push_within_capacity(departure);
        self.bytes += u64::from(departure.size);
    }

    /// The same for a packet that will be lost.
    #[inline(never)]
    pub fn push_lost(&mut self, at: Nanos, size: u32) {
        self.push(Departure { at, size, lost: true });
        self.doomed += 1;
    }

    /// Those before `end` have taken place: how many packets were lost.
    #[inline]
    pub fn settle(&mut self, end: Nanos) -> u64 {
        let mut lost = 0;
        while let Some(departure) = self.departures.front()
            && departure.at < end
        {
            self.bytes -= u64::from(departure.size);
            lost += u32::from(departure.lost);
            self.departures.pop_front();
        }
        self.doomed -= lost;
        u64::from(lost)
    }

    /// All have taken place: how many packets were lost.
    #[inline]
    pub fn clear(&mut self) -> u64 {
        self.departures.clear();
        self.bytes = 0;
        u64::from(std::mem::take(&mut self.doomed))
    }

    /// Bytes times nanoseconds of backlog after `now`, once what was before is settled.
    pub fn integral_after(&self, now: Nanos) -> u128 {
        self.departures.iter().map(|d| u128::from((d.at - now).0) * u128::from(d.size)).sum()
    }

    pub fn recount(&self) -> u64 {
        self.departures.iter().map(|d| u64::from(d.size)).sum()
    }
}
