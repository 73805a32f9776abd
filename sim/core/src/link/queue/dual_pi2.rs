//! DualPI2 (RFC 9332) as Linux's sch_dualpi2: packets with ECT(1) or CE wait in an L queue that is served first, all others in
//! a C queue. A PI controller on the longer delay gives a base probability p; C packets are dropped or marked with p²,
//! L packets are marked with k p, or whenever they have waited longer than a step.

use crate::rng::Stream;
use crate::spec::DualPi2Spec;
use crate::time::Nanos;

use super::super::Entry;
use super::{Drops, Fifo, MTU_BYTES};

/// A probability of 1 (MAX_PROB).
const ONE: u64 = u32::MAX as u64;
/// Gains come in 1/256 per second, and are kept per 64 ns (dualpi2_scale_alpha_beta).
const GAIN_SHIFT: u32 = 2;
const GRANULARITY_SHIFT: u32 = 6;
/// Weights of the two queues add up to this.
const WEIGHTS: i64 = 100;

#[derive(Clone, Debug)]
pub struct DualPi2 {
    pub(super) spec: DualPi2Spec,
    classic: Fifo,
    low: Fifo,
    /// Gains in units of the probability per 64 ns.
    alpha: i64,
    beta: i64,
    probability: u64,
    /// Delay at the last update.
    last_delay: i64,
    /// Who is next where both queues wait: C if positive.
    credit: i64,
    next_update: Nanos,
    random: Stream,
}

fn gain(per_256_s: u32) -> i64 {
    (((u64::from(per_256_s) * ONE) >> GAIN_SHIFT) / 1_000_000_000) as i64
}

impl DualPi2 {
    pub fn new(spec: DualPi2Spec, random: Stream) -> DualPi2 {
        let mut queue = DualPi2 {
            classic: Fifo::default(),
            low: Fifo::default(),
            alpha: gain(spec.alpha),
            beta: gain(spec.beta),
            probability: 0,
            last_delay: 0,
            credit: 0,
            next_update: spec.update,
            random,
            spec,
        };
        queue.reset_credit();
        queue
    }

    fn reset_credit(&mut self) {
        let weight = i64::from(self.spec.classic_weight);
        self.credit = MTU_BYTES as i64 * (weight - (WEIGHTS - weight));
    }

    pub fn enqueue(&mut self, now: Nanos, entry: Entry, drops: &mut Drops) {
        self.catch_up(now);
        let full = self.holding() as u64 >= self.spec.limit;
        if full && !self.spec.front {
            return drops.take(entry);
        }
        if drops.field(entry) & 1 == 1 {
            // ECT(1) and CE (RFC 9331, section 5.1).
            self.low.push(entry);
        } else {
            self.classic.push(entry);
        }
        if full {
            self.drop_oldest(drops);
        }
    }

    /// Of the heads of both queues, drop the one that has waited longer.
    fn drop_oldest(&mut self, drops: &mut Drops) {
        let since = |queue: &Fifo| queue.packets.front().map_or(Nanos::MAX, |head| head.at);
        let oldest = if since(&self.low) < since(&self.classic) { &mut self.low } else { &mut self.classic };
        oldest.drop_front(drops);
    }

    pub fn dequeue(&mut self, now: Nanos, drops: &mut Drops) -> Option<Entry> {
        self.catch_up(now);
        loop {
            let from_low = self.low.len() > 0 && (self.classic.len() == 0 || self.credit <= 0);
            let queue = if from_low { &mut self.low } else { &mut self.classic };
            let Some(entry) = queue.pop() else {
                self.reset_credit();
                return None;
            };
            if self.must_drop(entry, from_low, drops) {
                drops.take(entry);
                continue;
            }
            if from_low && now - entry.at > self.spec.step {
                drops.mark(entry);
            }
            let (weight, size) = (i64::from(self.spec.classic_weight), i64::from(entry.size));
            if from_low && self.classic.len() > 0 {
                self.credit += weight * size;
            } else if !from_low && self.low.len() > 0 {
                self.credit -= (WEIGHTS - weight) * size;
            }
            return Some(entry);
        }
    }

    pub fn flush(&mut self, drops: &mut Drops) {
        self.classic.flush(drops);
        self.low.flush(drops);
        self.probability = 0;
        self.reset_credit();
    }

    pub fn holding(&self) -> usize {
        self.classic.len() + self.low.len()
    }

    pub fn bytes(&self) -> u64 {
        self.classic.bytes + self.low.bytes
    }

    fn roll(&mut self, probability: u64) -> bool {
        self.random.next_u64() >> 32 <= probability
    }

    fn roll_squared(&mut self) -> bool {
        self.roll(self.probability) && self.roll(self.probability)
    }

    /// Is the packet that leaves its queue to be dropped? If not, it may be marked.
    fn must_drop(&mut self, entry: Entry, from_low: bool, drops: &mut Drops) -> bool {
        if self.bytes() < 2 * MTU_BYTES {
            return false;
        }
        let coupled = self.probability * u64::from(self.spec.coupling);
        let overload = coupled > ONE;
        if !from_low {
            return self.roll_squared() && (overload || !drops.mark(entry));
        }
        if overload && self.spec.drop_overload && self.roll_squared() {
            return true;
        }
        if overload || self.roll(coupled) {
            drops.mark(entry);
        }
        false
    }

    /// The updates that were due by now: nothing they read changes but when a packet comes or goes.
    fn catch_up(&mut self, now: Nanos) {
        while self.next_update <= now {
            let rests = self.holding() == 0 && self.probability == 0 && self.last_delay == 0;
            if rests {
                let missed = (now - self.next_update).0 / self.spec.update.0;
                self.next_update += Nanos(missed * self.spec.update.0);
            }
            self.update(self.next_update);
            self.next_update += self.spec.update;
        }
    }

    /// One step of the PI controller, on the longer of the queues' delays at `at` (calculate_probability).
    fn update(&mut self, at: Nanos) {
        let waited = |queue: &Fifo| queue.packets.front().map_or(0, |head| (at - head.at).0 as i64);
        let delay = waited(&self.classic).max(waited(&self.low));
        let delta = i128::from(delay - self.spec.target.0 as i64) * i128::from(self.alpha)
            + i128::from(delay - self.last_delay) * i128::from(self.beta);
        self.last_delay = delay;
        // Towards zero, as the kernel divides magnitudes.
        let moved = i128::from(self.probability) + delta / (1 << GRANULARITY_SHIFT);
        let most = if self.spec.drop_overload { ONE } else { ONE / u64::from(self.spec.coupling) };
        self.probability = moved.clamp(0, i128::from(most)) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet_with;
    use super::*;
    use crate::packet::Marks;
    use crate::pool::Pool;
    use crate::rng::Purpose;

    const SPEC: DualPi2Spec = DualPi2Spec {
        limit: 10_000,
        target: Nanos::from_millis(15),
        update: Nanos::from_millis(16),
        alpha: 41,
        beta: 819,
        step: Nanos::from_millis(1),
        coupling: 2,
        classic_weight: 10,
        drop_overload: true,
        front: false,
    };

    struct Bench {
        queue: DualPi2,
        pool: Pool,
    }

    impl Bench {
        fn new(spec: DualPi2Spec) -> Bench {
            Bench { queue: DualPi2::new(spec, Stream::new(1, Purpose::Queue, 0)), pool: Pool::default() }
        }

        fn fill(&mut self, field: Marks, at: Nanos, packets: usize) {
            for _ in 0..packets {
                let entry = packet_with(field, &mut self.pool, at, 1_514);
                self.queue.enqueue(at, entry, &mut Drops::new(&mut self.pool));
            }
        }

        /// The ECN field of the packet that is served, and packets dropped before it.
        fn serve(&mut self, at: Nanos) -> Option<(u8, u64)> {
            let mut drops = Drops::new(&mut self.pool);
            let entry = self.queue.dequeue(at, &mut drops)?;
            let dropped = drops.packets;
            let field = self.pool.get(entry.id).marks.ip();
            self.pool.release(entry.id);
            Some((field, dropped))
        }
    }

    #[test]
    fn gains_are_those_that_linux_computes() {
        // (41 x (2^32 - 1) >> 2) / 10^9 and (819 x (2^32 - 1) >> 2) / 10^9.
        assert_eq!((gain(41), gain(819)), (44, 879));
    }

    #[test]
    fn the_probability_follows_target_and_growth() {
        let mut bench = Bench::new(SPEC);
        bench.fill(Marks::NONE, Nanos::ZERO, 10);
        bench.queue.update(Nanos::from_millis(20));
        // (5 ms x 44 + 20 ms x 879) / 64 ns = 278,125,000 of 2^32: 0.16 x 5 ms + 3.2 x 20 ms = 6.5 %.
        assert_eq!(bench.queue.probability, (5_000_000 * 44 + 20_000_000 * 879) / 64);
        bench.queue.update(Nanos::from_millis(20));
        assert_eq!(bench.queue.probability, (5_000_000 * 44 + 20_000_000 * 879) / 64 + 5_000_000 * 44 / 64);
        bench.queue.classic.flush(&mut Drops::new(&mut bench.pool));
        bench.queue.update(Nanos::from_millis(36));
        assert_eq!(bench.queue.probability, 0);
    }

    #[test]
    fn classic_packets_are_dropped_with_the_square_and_low_delay_ones_marked_with_twice_the_base() {
        // RFC 9332, section 2.1: p_C = p², p_CL = k p.
        let mut bench = Bench::new(DualPi2Spec { step: Nanos::from_secs(1), ..SPEC });
        bench.queue.next_update = Nanos::from_secs(1_000);
        bench.queue.probability = (0.2 * ONE as f64) as u64;
        let at = Nanos::ZERO;
        bench.fill(Marks::ECT1, at, 9_000);
        let marked = (0..8_000).filter(|_| bench.serve(at).unwrap().0 == 3).count() as f64;
        assert!((marked / 8_000.0 - 0.4).abs() < 0.02, "{marked}");
        while bench.serve(at).is_some() {}
        bench.fill(Marks::ECT0, at, 9_000);
        let marked = (0..8_000).filter(|_| bench.serve(at).unwrap().0 == 3).count() as f64;
        assert!((marked / 8_000.0 - 0.04).abs() < 0.008, "{marked}");
        while bench.serve(at).is_some() {}
        bench.fill(Marks::NONE, at, 9_000);
        let dropped = (0..8_000).map(|_| bench.serve(at).unwrap().1).sum::<u64>() as f64;
        assert!((dropped / 8_000.0 - 0.04 / 0.96).abs() < 0.008, "{dropped}");
    }

    #[test]
    fn above_half_the_low_delay_queue_is_dropped_from_as_well_and_all_of_it_is_marked() {
        let mut bench = Bench::new(SPEC);
        bench.queue.next_update = Nanos::from_secs(1_000);
        bench.queue.probability = (0.6 * ONE as f64) as u64;
        bench.fill(Marks::ECT1, Nanos::ZERO, 9_000);
        let served: Vec<_> = (0..4_000).map(|_| bench.serve(Nanos::ZERO).unwrap()).collect();
        assert!(served.iter().all(|s| s.0 == 3));
        let dropped = served.iter().map(|s| s.1).sum::<u64>() as f64;
        assert!((dropped / (dropped + 4_000.0) - 0.36).abs() < 0.02, "{dropped}");
    }

    #[test]
    fn at_the_limit_what_arrives_or_what_has_waited_longest_in_either_queue_is_dropped() {
        let waiting = |front| {
            let mut bench = Bench::new(DualPi2Spec { limit: 3, front, ..SPEC });
            for (us, field) in [Marks::ECT0, Marks::ECT1, Marks::ECT0, Marks::ECT1, Marks::NONE].into_iter().enumerate()
            {
                bench.fill(field, Nanos::from_micros(us as u64), 1);
            }
            assert_eq!((bench.queue.holding(), bench.pool.in_network()), (3, 3));
            [&bench.queue.classic, &bench.queue.low]
                .map(|q| q.packets.iter().map(|e| e.at.micros()).collect::<Vec<_>>())
        };
        assert_eq!(waiting(false), [vec![0, 2], vec![1]]);
        // The fourth takes the place of the first, of the C queue; the fifth that of the second, of the L queue.
        assert_eq!(waiting(true), [vec![2, 4], vec![3]]);
    }

    #[test]
    fn the_step_marks_what_has_waited_for_a_millisecond() {
        let mut bench = Bench::new(SPEC);
        bench.fill(Marks::ECT1, Nanos::ZERO, 3);
        let us = Nanos::from_micros;
        assert_eq!([1_000, 1_001].map(|t| bench.serve(us(t)).unwrap().0), [1, 3]);
    }

    #[test]
    fn low_delay_packets_go_first_but_leave_a_tenth_to_the_others() {
        let mut bench = Bench::new(SPEC);
        bench.fill(Marks::ECT0, Nanos::ZERO, 200);
        bench.fill(Marks::ECT1, Nanos::ZERO, 1_000);
        let fields: Vec<u8> = (0..1_000).map(|_| bench.serve(Nanos::ZERO).unwrap().0).collect();
        // The credit starts at -80 frames and grows by 10 frames' hundredths with each: nine L packets, then one C.
        let first = fields.iter().position(|f| *f == 2).unwrap();
        let classic = fields.iter().filter(|f| **f == 2).count();
        assert_eq!(first, 9);
        assert!((99..=102).contains(&classic), "{classic}");
    }
}
