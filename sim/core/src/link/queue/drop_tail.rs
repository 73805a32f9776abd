//! First in, first out, with a limit; and the Viasat gateway's early drops on top.

use crate::rng::Stream;

/// Limits count the packet in service.
#[derive(Clone, Debug)]
pub enum DropTail {
    Bytes {
        limit: u64,
    },
    Packets {
        limit: u64,
    },
    /// Below the threshold always, above it with the complement of the drop probability, never past the limit
    /// (Claypool et al., "Comparison of TCP congestion control over a GEO satellite").
    Viasat {
        limit: u64,
        threshold: u64,
        drop_probability: f64,
        random: Stream,
    },
}

impl DropTail {
    /// Bytes and packets, those of a packet that comes included, up to which it is taken for certain.
    pub fn sure_room(&self) -> (u64, u64) {
        match self {
            DropTail::Bytes { limit } => (*limit, u64::MAX),
            DropTail::Packets { limit } => (u64::MAX, *limit),
            DropTail::Viasat { limit, threshold, .. } => (*limit.min(threshold), u64::MAX),
        }
    }

    /// Is there room for a packet of `size` bytes for certain?
    pub fn has_room(&self, backlog: u64, packets: u64, size: u64) -> bool {
        match self {
            DropTail::Bytes { limit } => backlog + size <= *limit,
            DropTail::Packets { limit } => packets < *limit,
            DropTail::Viasat { limit, threshold, .. } => backlog <= *threshold && backlog + size <= *limit,
        }
    }

    /// May a packet of `size` bytes join `packets` packets of `backlog` bytes?
    #[inline]
    pub fn admits(&mut self, backlog: u64, packets: u64, size: u64) -> bool {
        match self {
            DropTail::Viasat { limit, threshold, drop_probability, random } if backlog > *threshold => {
                backlog + size <= *limit && random.uniform() >= *drop_probability
            }
            _ => self.has_room(backlog, packets, size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    #[test]
    fn the_gateway_drops_at_random_only_above_its_threshold() {
        let mut queue = DropTail::Viasat {
            limit: 36_000_000,
            threshold: 18_000_000,
            drop_probability: 0.25,
            random: Stream::new(1, Purpose::Queue, 0),
        };
        let mut accepted = |backlog| (0..10_000).filter(|_| queue.admits(backlog, 1, 1_500)).count();
        assert_eq!(accepted(18_000_000), 10_000, "at the threshold nothing is dropped");
        let above = accepted(18_000_001);
        assert!((7_300..7_700).contains(&above), "{above} of 10,000 accepted above it");
        assert_eq!(accepted(36_000_000 - 1_499), 0, "no room for the packet");
    }
}
