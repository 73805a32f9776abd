//! A sorted set of disjoint ranges of segment numbers.

use std::collections::VecDeque;

use crate::packet::SegRange;

#[derive(Clone, Debug, Default)]
pub struct Intervals {
    ranges: VecDeque<SegRange>,
}

impl Intervals {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn first(&self) -> Option<SegRange> {
        self.ranges.front().copied()
    }

    /// End of the highest range.
    pub fn highest(&self) -> Option<u32> {
        self.ranges.back().map(|r| r.end)
    }

    /// The `n`-th highest segment, counted from 1.
    pub fn from_top(&self, n: u32) -> Option<u32> {
        let mut left = n;
        for range in self.ranges.iter().rev() {
            let size = range.end - range.start;
            if left <= size {
                return Some(range.end - left);
            }
            left -= size;
        }
        None
    }

    /// Segments held.
    pub fn len(&self) -> u32 {
        self.ranges.iter().map(|r| r.end - r.start).sum()
    }

    /// Insert `[start, end)`, calling `fresh` for each part that was not yet inside, in order.
    pub fn insert(&mut self, start: u32, end: u32, mut fresh: impl FnMut(SegRange)) {
        if start >= end {
            return;
        }
        // First range that ends at or after `start`: it touches the new one or lies behind it.
        let mut at = match self.ranges.back() {
            Some(last) if last.end < start => self.ranges.len(),
            Some(last) if last.start <= start => self.ranges.len() - 1,
            _ => self.ranges.partition_point(|r| r.end < start),
        };
        let (mut merged_start, mut merged_end) = (start, end);
        let mut next = start;
        let first = at;
        while at < self.ranges.len() && self.ranges[at].start <= end {
            let range = self.ranges[at];
            if next < range.start {
                fresh(SegRange { start: next, end: range.start });
            }
            next = next.max(range.end);
            merged_start = merged_start.min(range.start);
            merged_end = merged_end.max(range.end);
            at += 1;
        }
        if next < end {
            fresh(SegRange { start: next, end });
        }
        let merged = SegRange { start: merged_start, end: merged_end };
        if at == first {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            if at > first + 1 {
                self.ranges.drain(first + 1..at);
            }
        }
    }

    /// Forget everything below `bound`.
    pub fn trim_below(&mut self, bound: u32) {
        while let Some(front) = self.ranges.front_mut() {
            if front.end <= bound {
                self.ranges.pop_front();
            } else {
                front.start = front.start.max(bound);
                break;
            }
        }
    }

    /// The range that contains `seg`.
    pub fn containing(&self, seg: u32) -> Option<SegRange> {
        let at = self.ranges.partition_point(|r| r.end <= seg);
        self.ranges.get(at).copied().filter(|r| r.start <= seg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_set(inserts in prop::collection::vec((0u32..60, 1u32..12), 1..40), trim in 0u32..60) {
            let mut intervals = Intervals::default();
            let mut model = std::collections::BTreeSet::new();
            for (start, len) in inserts {
                let mut reported = Vec::new();
                intervals.insert(start, start + len, |r| reported.extend(r.start..r.end));
                let expected: Vec<u32> = (start..start + len).filter(|s| model.insert(*s)).collect();
                prop_assert_eq!(reported, expected);
            }
            intervals.trim_below(trim);
            model.retain(|s| *s >= trim);
            prop_assert_eq!(intervals.len() as usize, model.len());
            for n in 1..=model.len() + 1 {
                prop_assert_eq!(intervals.from_top(n as u32), model.iter().rev().nth(n - 1).copied());
            }
            for seg in 0..80 {
                prop_assert_eq!(intervals.containing(seg).is_some(), model.contains(&seg));
            }
            prop_assert!(intervals.ranges.iter().zip(intervals.ranges.iter().skip(1)).all(|(a, b)| a.end < b.start));
        }
    }
}
