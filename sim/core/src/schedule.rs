//! The next event: the minimum over a small, fixed set of event sources.
//!
//! There is no heap of packets. Each source (a link's server, a pipe's head, a flow's timer) has one key, its next
//! time. Ties go to the lowest source number; that order is part of the simulator's specification.

use crate::time::Nanos;

/// Up to this many sources a linear scan beats the tournament tree.
const SCAN_LIMIT: usize = 16;

#[derive(Clone, Debug)]
pub struct Schedule {
    /// Leaves: the next time of each source; padded to a power of two with "never".
    keys: Vec<u64>,
    /// Inner nodes of the tournament: index of the winning leaf. Empty when scanning. Root at 1.
    winners: Vec<u32>,
}

impl Schedule {
    pub fn new(sources: usize) -> Schedule {
        let padded = if sources <= SCAN_LIMIT { sources.next_multiple_of(4) } else { sources.next_power_of_two() };
        let mut schedule = Schedule { keys: vec![u64::MAX; padded], winners: Vec::new() };
        if sources > SCAN_LIMIT {
            schedule.winners = vec![0; padded];
            for node in (1..padded).rev() {
                schedule.winners[node] = schedule.winner_of(node);
            }
        }
        schedule
    }

    pub fn set(&mut self, source: usize, at: Nanos) {
        if self.keys[source] == at.0 {
            return;
        }
        self.keys[source] = at.0;
        if self.winners.is_empty() {
            return;
        }
        let mut node = (source + self.keys.len()) / 2;
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

    /// Make sure `source` is looked at by `at`. A key may be too early: its owner then sets it anew.
    #[inline]
    pub fn bring_forward(&mut self, source: usize, at: Nanos) {
        if at.0 < self.keys[source] {
            self.set(source, at);
        }
    }

    /// The earliest (time, source).
    pub fn next(&self) -> (Nanos, usize) {
        if self.winners.is_empty() {
            let mut best = u64::MAX;
            let mut source = 0;
            for (i, &key) in self.keys.iter().enumerate() {
                if key < best {
                    best = key;
                    source = i;
                }
            }
            (Nanos(best), source)
        } else {
            let source = self.winners[1] as usize;
            (Nanos(self.keys[source]), source)
        }
    }

    fn winner_of(&self, node: usize) -> u32 {
        let leaves = self.keys.len();
        let of = |child: usize| {
            if child >= leaves { (child - leaves) as u32 } else { self.winners[child] }
        };
        let (left, right) = (of(2 * node), of(2 * node + 1));
        if self.keys[right as usize] < self.keys[left as usize] { right } else { left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn next_is_the_minimum_with_ties_to_the_lowest_source() {
        for sources in [1, 3, 16, 17, 40, 100] {
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
