//! What a path does to the ECN fields of packets: it clears some, as routers do that take the two bits for a part of the
//! old type of service, and marks others with CE.

use crate::packet::Marks;
use crate::rng::{Purpose, Stream};
use crate::spec::DirectionSpec;

#[derive(Clone, Debug)]
pub struct Marking {
    bleached: f64,
    marked: f64,
    random: Stream,
}

impl Marking {
    /// None if nothing is ever changed.
    pub fn new(spec: &DirectionSpec, seed: u64, index: u64) -> Option<Box<Marking>> {
        let DirectionSpec { bleached, marked, .. } = *spec;
        let random = Stream::new(seed, Purpose::Marks, index);
        (bleached > 0.0 || marked > 0.0).then(|| Box::new(Marking { bleached, marked, random }))
    }

    /// A packet arrives. True if it is marked now.
    pub fn meet(&mut self, marks: &mut Marks) -> bool {
        if self.random.uniform() < self.bleached {
            marks.bleach();
        }
        self.random.uniform() < self.marked && marks.set_ce()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_packets_are_bleached_and_of_the_rest_marked() {
        let spec = DirectionSpec { bleached: 0.2, marked: 0.1, ..DirectionSpec::default() };
        let mut marking = Marking::new(&spec, 1, 0).unwrap();
        let mut fields = [0; 4];
        for _ in 0..100_000 {
            let mut marks = Marks::ECT0;
            let marked = marking.meet(&mut marks);
            assert_eq!(marked, marks.is_ce());
            fields[usize::from(marks.ip())] += 1;
        }
        // 20 % not-ECT, 8 % CE, 72 % ECT(0); three standard deviations are 0.4 %.
        assert_eq!(fields[1], 0);
        for (field, share) in [(0, 0.2), (3, 0.08), (2, 0.72)] {
            assert!((f64::from(fields[field]) / 1e5 - share).abs() < 0.005, "{fields:?}");
        }
        assert!(!marking.meet(&mut { Marks::NONE }));
        assert!(Marking::new(&DirectionSpec::default(), 1, 0).is_none());
    }
}
