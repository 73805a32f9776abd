//! A queue in a ring whose size is a power of two: places are found with a mask.

#[derive(Clone, Debug)]
pub struct Ring<T> {
    /// Entries ever taken out and put in; the places wrap around.
    head: usize,
    tail: usize,
    /// Empty, or a power of two long.
    slots: Box<[T]>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { head: 0, tail: 0, slots: Box::default() }
    }
}

const FIRST_CAPACITY: usize = 16;

impl<T: Copy + Default> Ring<T> {
    #[inline]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Entries for which there is memory.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Would another entry take more memory?
    #[inline]
    fn is_full(&self) -> bool {
        self.len() == self.slots.len()
    }

    /// The entry taken out next.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        if self.is_empty() { None } else { Some(&self.slots[self.head & (self.slots.len() - 1)]) }
    }

    /// The entry put in last.
    #[inline]
    pub fn back(&self) -> Option<&T> {
        if self.is_empty() { None } else { Some(&self.slots[(self.tail - 1) & (self.slots.len() - 1)]) }
    }

    /// Every entry, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (self.head..self.tail).map(|i| &self.slots[i & (self.slots.len() - 1)])
    }

    /// Always inlined: an entry handed over in memory would be copied in one wide load over its fresh narrow stores.
    #[inline(always)]
    pub fn push_back(&mut self, entry: T) {
        self.make_room();
        self.push_within_capacity(entry);
    }

    /// Memory for another entry.
    #[inline(always)]
    pub fn make_room(&mut self) {
        if self.is_full() {
            self.grow();
        }
    }

    /// The same as `push_back` where there is room.
    #[inline(always)]
    pub fn push_within_capacity(&mut self, entry: T) {
        debug_assert!(!self.is_full());
        let mask = self.slots.len() - 1;
        self.slots[self.tail & mask] = entry;
        self.tail += 1;
    }

    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let entry = *self.front()?;
        self.head += 1;
        Some(entry)
    }

    /// The places are used from the first one again: those of a short queue stay in the cache.
    pub fn clear(&mut self) {
        (self.head, self.tail) = (0, 0);
    }

    /// Put `entry` behind the last one that `stays_before` it.
    #[inline]
    pub fn insert(&mut self, entry: T, stays_before: impl Fn(&T) -> bool) {
        self.make_room();
        let mask = self.slots.len() - 1;
        let mut place = self.tail;
        while place > self.head && !stays_before(&self.slots[(place - 1) & mask]) {
            self.slots[place & mask] = self.slots[(place - 1) & mask];
            place -= 1;
        }
        self.slots[place & mask] = entry;
        self.tail += 1;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let capacity = (2 * self.slots.len()).max(FIRST_CAPACITY);
        let mut slots = Vec::with_capacity(capacity);
        slots.extend(self.iter().copied());
        (self.head, self.tail) = (0, slots.len());
        slots.resize(capacity, T::default());
        self.slots = slots.into_boxed_slice();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_like_a_deque(steps in prop::collection::vec((0u8..8, 0u32..100), 1..400)) {
            let (mut ring, mut model) = (Ring::default(), VecDeque::new());
            for (what, value) in steps {
                match what {
                    0..4 => {
                        ring.push_back(value);
                        model.push_back(value);
                    }
                    4..7 => prop_assert_eq!(ring.pop_front(), model.pop_front()),
                    _ => {
                        ring.insert(value, |other| *other <= value);
                        let place = model.iter().rposition(|other| *other <= value).map_or(0, |i| i + 1);
                        model.insert(place, value);
                    }
                }
                prop_assert_eq!((ring.front(), ring.back()), (model.front(), model.back()));
                prop_assert!(ring.iter().eq(model.iter()));
                prop_assert_eq!((ring.len(), ring.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }
}
