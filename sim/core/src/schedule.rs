//! The next event: the minimum over a small, fixed set of event sources.
//!
//! There is no heap of packets. Each source (a link's server, a pipe's head, a flow's timer) has one key, its next
//! time. Ties go to the lowest source number; that order is part of the simulator's specification.

use crate::time::Nanos;

/// Up to this many sources a linear scan beats the tournament tree; it looks at the second half only where there are so many.
const SCAN_LIMIT: usize = 8;
const HALF: usize = SCAN_LIMIT / 2;
/// Bits of a tournament's keys that number the source, and the time that stands for "never": some 26 days.
const SOURCE_BITS: u32 = 13;
const NEVER: u64 = u64::MAX >> SOURCE_BITS;

#[derive(Clone, Debug)]
pub enum Schedule {
    Scan(Few),
    /// Node i is the lesser of nodes 2 i and 2 i + 1, the root is 1, the second half are the sources. A key is a time and,
    /// below it, the source's number.
    Tournament(Vec<u64>),
}

/// Few sources, in the order of their numbers, the rest of them "never". Branches, which are often foreseen, let the
/// processor begin with an event before its time is known for certain; minima without branches took longer.
#[derive(Clone, Debug)]
pub struct Few {
    sources: [Source; SCAN_LIMIT],
    are_half: bool,
}

/// When a source's next event is.
#[derive(Clone, Copy, Debug)]
struct Source {
    at: Nanos,
    number: usize,
}

impl Few {
    fn new(sources: usize) -> Few {
        let sources_at = std::array::from_fn(|number| Source { at: Nanos::MAX, number });
        Few { sources: sources_at, are_half: sources <= HALF }
    }

    #[inline(always)]
    fn at(&mut self, source: usize) -> &mut Nanos {
        debug_assert!(source < SCAN_LIMIT);
        &mut self.sources[source % SCAN_LIMIT].at
    }

    #[inline(always)]
    fn next(&self) -> (Nanos, usize) {
        let mut first = self.sources[0];
        for source in &self.sources[1..HALF] {
            if source.at < first.at {
                first = *source;
            }
        }
        if !self.are_half {
            for source in &self.sources[HALF..] {
                if source.at < first.at {
                    first = *source;
                }
            }
        }
        (first.at, first.number)
    }
}

impl Schedule {
    /// The most sources it can tell apart.
    pub const MAX_SOURCES: usize = 1 << SOURCE_BITS;

    pub fn new(sources: usize) -> Schedule {
        if sources <= SCAN_LIMIT {
            Schedule::Scan(Few::new(sources))
        } else {
            Schedule::Tournament(vec![u64::MAX; 2 * sources.next_power_of_two()])
        }
    }

    #[inline]
    pub fn set(&mut self, source: usize, at: Nanos) {
        match self {
            Schedule::Scan(few) => *few.at(source) = at,
            Schedule::Tournament(nodes) => set_key(nodes, source, at),
        }
    }

    /// Make sure `source` is looked at by `at`. A time may be too early: its owner then sets it anew.
    #[inline]
    pub fn bring_forward(&mut self, source: usize, at: Nanos) {
        match self {
            Schedule::Scan(few) => {
                let known = few.at(source);
                if at < *known {
                    *known = at;
                }
            }
            Schedule::Tournament(nodes) => {
                if at.0 < nodes[nodes.len() / 2 + source] >> SOURCE_BITS {
                    set_key(nodes, source, at);
                }
            }
        }
    }

    /// The earliest (time, source).
    #[inline]
    pub fn next(&self) -> (Nanos, usize) {
        match self {
            Schedule::Scan(few) => few.next(),
            Schedule::Tournament(nodes) => (Nanos(nodes[1] >> SOURCE_BITS), nodes[1] as usize % Schedule::MAX_SOURCES),
        }
    }
}

#[inline]
fn set_key(nodes: &mut [u64], source: usize, at: Nanos) {
    let key = at.0.min(NEVER) << SOURCE_BITS | source as u64;
    let leaf = nodes.len() / 2 + source;
    if key < nodes[leaf] {
        lower(nodes, leaf, key);
    } else if key > nodes[leaf] {
        replay(nodes, leaf, key);
    }
}

/// The source at `leaf` has an earlier key: it wins up to the first node that is earlier still. A processor can seldom
/// foresee which node that is, but mostly that it is among the first six. Then it begins with the next event before it
/// knows this key.
#[inline(never)]
fn lower(nodes: &mut [u64], leaf: usize, key: u64) {
    let mut node = leaf;
    while node > 0 && key < nodes[node] {
        for _ in 0..6 {
            // Node 0 is nobody's.
            nodes[node] = nodes[node].min(key);
            node /= 2;
        }
    }
}

/// The source at `leaf` has a later key: play its way to the root again.
#[inline(never)]
fn replay(nodes: &mut [u64], leaf: usize, mut key: u64) {
    nodes[leaf] = key;
    let mut node = leaf;
    while node > 1 {
        key = key.min(nodes[node ^ 1]);
        node /= 2;
        nodes[node] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn next_is_the_minimum_with_ties_to_the_lowest_source() {
        for sources in [1, 3, 4, 5, 8, 9, 16, 40, 100, 3_000] {
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
