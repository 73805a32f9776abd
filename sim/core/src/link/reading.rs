//! The state of a link as a few numbers: read from a link that carries packets, and set on its copy in another process.

use crate::time::Nanos;

use super::{Link, LinkCounters};

/// What a link's forward direction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkReading {
    pub arrived: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    pub dropped: u64,
    pub lost: u64,
    pub marked: u64,
    pub backlog_bytes: u64,
    /// Largest backlog since the reading before.
    pub backlog_max: u64,
    /// Bytes times nanoseconds since the start.
    pub backlog_integral: u128,
}

impl Link {
    /// The largest backlog starts anew.
    pub fn reading(&mut self, now: Nanos) -> LinkReading {
        // This also counts committed departures that were lost.
        let backlog_bytes = self.backlog_bytes(now);
        let LinkCounters { arrived, delivered, delivered_bytes, dropped, lost, marked } = self.counters;
        LinkReading {
            arrived,
            delivered,
            delivered_bytes,
            dropped,
            lost,
            marked,
            backlog_bytes,
            backlog_max: self.take_backlog_max(now),
            backlog_integral: self.backlog_integral(now),
        }
    }

    /// Be as the reading says, of a link that holds no packets itself.
    pub(crate) fn take_in(&mut self, now: Nanos, reading: &LinkReading) {
        let LinkReading { arrived, delivered, delivered_bytes, dropped, lost, marked, .. } = *reading;
        self.counters = LinkCounters { arrived, delivered, delivered_bytes, dropped, lost, marked };
        self.waiting_bytes = reading.backlog_bytes;
        self.backlog_max = self.backlog_max.max(reading.backlog_max);
        self.backlog_integral = reading.backlog_integral;
        self.waiting_since = now;
    }
}

impl LinkReading {
    pub const WORDS: usize = 10;

    pub fn to_words(&self) -> [u64; LinkReading::WORDS] {
        [
            self.arrived,
            self.delivered,
            self.delivered_bytes,
            self.dropped,
            self.lost,
            self.backlog_bytes,
            self.backlog_max,
            self.backlog_integral as u64,
            (self.backlog_integral >> 64) as u64,
            self.marked,
        ]
    }

    pub fn from_words(w: &[u64; LinkReading::WORDS]) -> LinkReading {
        LinkReading {
            arrived: w[0],
            delivered: w[1],
            delivered_bytes: w[2],
            dropped: w[3],
            lost: w[4],
            backlog_bytes: w[5],
            backlog_max: w[6],
            backlog_integral: u128::from(w[7]) | u128::from(w[8]) << 64,
            marked: w[9],
        }
    }
}
