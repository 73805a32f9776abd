//! The next event: the minimum over a small, fixed set of event sources.
//!
//! There is no heap of packets. Each source (a link's server, a pipe's head, a flow's timer) has one key, its next
//! time. Ties go to the lowest source number; that order is part of the simulator's specification.

use crate::time::Nanos;

/// Up to this many sources a linear scan beats the tournament tree.
const SCAN_LIMIT: usize = 24;

/// A source's next time and its number, side by side: a scan over bare times is compiled into wide loads, which stall
/// over freshly written times.
#[derive(Clone, Copy, Debug)]
struct Source {
    at: u64,
    number: usize,
}

#[derive(Clone, Debug)]
pub struct Schedule {
    /// With a tree, padded to a power of two with "never".
    sources: Vec<Source>,
    /// Inner nodes of the tournament: the source that wins. Empty when scanning. Root at 1.
    winners: Vec<u32>,
}

impl Schedule {
    pub fn new(sources: usize) -> Schedule {
        let padded = if sources <= SCAN_LIMIT { sources } else { sources.next_power_of_two() };
        let sources: Vec<_> = (0..padded).map(|number| Source { at: u64::MAX, number }).collect();
        let mut schedule = Schedule { sources, winners: Vec::new() };
        if padded > SCAN_LIMIT {
            schedule.winners = vec![0; padded];
            for node in (1..padded).rev() {
                schedule.winners[node] = schedule.winner_of(node);
            }
        }
        schedule
    }

    #[inline]
    pub fn set(&mut self, source: usize, at: Nanos) {
        let before = std::mem::replace(&mut self.sources[source].at, at.0);
        if !self.winners.is_empty() && at.0 != before {
            self.replay(source);
        }
    }

    /// Make sure `source` is looked at by `at`. A time may be too early: its owner then sets it anew.
    #[inline]
    pub fn bring_forward(&mut self, source: usize, at: Nanos) {
        if at.0 < self.sources[source].at {
            self.set(source, at);
        }
    }

    /// The earliest (time, source).
    #[inline]
    pub fn next(&self) -> (Nanos, usize) {
        let first = if self.winners.is_empty() {
            let mut first = self.sources[0];
            for source in &self.sources[1..] {
                if source.at < first.at {
                    first = *source;
                }
            }
            first
        } else {
            self.sources[self.winners[1] as usize]
        };
        (Nanos(first.at), first.number)
    }

    /// The time of `source` has changed.
    #[inline(never)]
    fn replay(&mut self, source: usize) {
        let mut node = (source + self.sources.len()) / 2;
        while node >= 1 {
            let winner = self.winner_of(node);
            if winner == self.winners[node] && winner as usize != source {
                // Another source leads here, as before: nothing changes above.
                return;
            }
            self.winners[node] = winner;
            node /= 2;
        }
    }

    fn winner_of(&self, node: usize) -> u32 {
        let leaves = self.sources.len();
        let of = |child: usize| {
            if child >= leaves { (child - leaves) as u32 } else { self.winners[child] }
        };
        let (left, right) = (of(2 * node), of(2 * node + 1));
        if self.sources[right as usize].at < self.sources[left as usize].at { right } else { left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn next_is_the_minimum_with_ties_to_the_lowest_source() {
        for sources in [1, 3, 24, 25, 40, 100] {
            let mut schedule = Schedule::new(sources);
            let mut keys = vec![u64::MAX; sources];
            let mut rng = Stream::new(5, Purpose::Traffic, sources as u64);
            for _ in 0..2_000 {
                let source = (rng.next_u64() % sources as u64) as usize;
                let at = rng.next_u64() % 50;
                keys[source] = at;
                schedule.set(source, Nanos(at));
                let best = (0..sources).min_by_key(|&i| (keys[i], i)).unwrap();
                assert_eq!(schedule.next(), (Nanos(keys[best]), best));
            }
        }
    }
}
