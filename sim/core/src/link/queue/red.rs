//! Random early detection (Floyd and Jacobson 1993) as Linux's sch_red, in bytes: arrivals are dropped with a
//! probability that grows with the average queue; optionally adaptive (Floyd, Gummadi, Shenker 2001).

use crate::rng::Stream;
use crate::spec::RedSpec;
use crate::tick::Tick;
use crate::time::Nanos;
use crate::units::BitRate;

use super::super::Entry;
use super::{Drops, Fifo};

/// The adaptive variant sets its timer so far ahead to move the maximum probability (HZ / 2 in sch_red), ...
const ADAPT_INTERVAL: Nanos = Nanos::from_millis(500);
/// ... keeps the average in this part of the span between the thresholds, ...
const TARGET: [f64; 2] = [0.4, 0.6];
/// ... and the probability about here, by this sum (or a quarter of the probability) and this factor.
const PROBABILITY: [f64; 2] = [0.01, 0.5];
const INCREMENT: f64 = 0.01;
const DECREASE: f64 = 0.9;

#[derive(Clone, Debug)]
pub struct Red {
    pub(super) spec: RedSpec,
    queue: Fifo,
    weight: f64,
    max_probability: f64,
    /// Average queue in bytes, when last computed.
    average: f64,
    /// The queue has been empty since.
    idle_since: Option<Nanos>,
    /// Arrivals since the last early drop, or since the average rose above the minimum; None below it.
    since_drop: Option<u64>,
    /// Uniform: the next drop comes when `since_drop` times the probability exceeds it.
    threshold: f64,
    period: Nanos,
    next_adaptation: Nanos,
    random: Stream,
}

impl Red {
    pub fn new(spec: RedSpec, tick: Tick, random: Stream) -> Red {
        let period = tick.period(ADAPT_INTERVAL);
        Red {
            queue: Fifo::default(),
            weight: libm::ldexp(1.0, -(spec.weight_log2 as i32)),
            max_probability: spec.max_probability,
            average: 0.0,
            idle_since: None,
            since_drop: None,
            threshold: 0.0,
            period,
            next_adaptation: period,
            random,
            spec,
        }
    }

    pub fn enqueue(&mut self, now: Nanos, rate: BitRate, entry: Entry, drops: &mut Drops) {
        if self.spec.adaptive {
            self.adapt(now, rate);
        }
        self.average = match self.idle_since.take() {
            Some(_) if rate.0 == 0 => self.average,
            Some(since) => self.decayed(now - since, rate),
            None => self.average + (self.queue.bytes as f64 - self.average) * self.weight,
        };
        let early = self.drops_early() && !(self.spec.ecn && drops.mark(entry));
        if self.spec.front {
            self.queue.push(entry);
            if early {
                self.queue.drop_front(drops);
            }
            while self.queue.bytes > self.spec.limit {
                self.queue.drop_front(drops);
            }
        } else if early || self.queue.bytes + u64::from(entry.size) > self.spec.limit {
            drops.take(entry);
        } else {
            self.queue.push(entry);
        }
    }

    pub fn dequeue(&mut self, now: Nanos) -> Option<Entry> {
        let entry = self.queue.pop();
        if entry.is_none() && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
        entry
    }

    pub fn flush(&mut self, drops: &mut Drops) {
        self.queue.flush(drops);
        self.average = 0.0;
        self.since_drop = None;
        self.idle_since = None;
    }

    pub fn holding(&self) -> usize {
        self.queue.len()
    }

    pub fn bytes(&self) -> u64 {
        self.queue.bytes
    }

    /// Is the packet that arrives to be dropped or marked?
    fn drops_early(&mut self) -> bool {
        let (min, max) = (self.spec.min as f64, self.spec.max as f64);
        if self.average < min {
            self.since_drop = None;
            return false;
        }
        if self.average >= max {
            self.since_drop = None;
            return true;
        }
        let count = self.since_drop.map_or(0, |n| n + 1);
        self.since_drop = Some(count);
        if count == 0 {
            self.threshold = self.random.uniform();
            return false;
        }
        let probability = self.max_probability * (self.average - min) / (max - min);
        if count as f64 * probability < self.threshold {
            return false;
        }
        self.since_drop = Some(0);
        self.threshold = self.random.uniform();
        true
    }

    /// The average after an idle time: as if small packets had met an empty queue at line rate meanwhile.
    fn decayed(&self, idle: Nanos, rate: BitRate) -> f64 {
        let packets = idle.0 as f64 * rate.0 as f64 / (self.spec.packet as f64 * 8e9);
        self.average * libm::pow(1.0 - self.weight, packets)
    }

    /// The adaptations that were due by now; as in PIE, nothing they read changes without `enqueue` but by decay.
    fn adapt(&mut self, now: Nanos, rate: BitRate) {
        let span = (self.spec.max - self.spec.min) as f64;
        let [low, high] = TARGET.map(|share| self.spec.min as f64 + share * span);
        while self.next_adaptation <= now {
            let average = match self.idle_since {
                Some(since) => self.decayed(self.next_adaptation.saturating_sub(since), rate),
                None => self.average,
            };
            if average > high && self.max_probability <= PROBABILITY[1] {
                self.max_probability += INCREMENT.min(self.max_probability / 4.0);
            } else if average < low && self.max_probability >= PROBABILITY[0] {
                self.max_probability *= DECREASE;
            } else if self.idle_since.is_none() || average < low {
                // Nor will the next ones change anything.
                let missed = (now - self.next_adaptation).0 / self.period.0;
                self.next_adaptation += Nanos(missed * self.period.0);
            }
            self.next_adaptation += self.period;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, packet_with};
    use super::*;
    use crate::packet::Marks;
    use crate::pool::Pool;
    use crate::rng::Purpose;

    const RATE: BitRate = BitRate(8_000_000);
    const SPEC: RedSpec = RedSpec {
        limit: 60_000,
        min: 5_000,
        max: 15_000,
        max_probability: 0.04,
        weight_log2: 2,
        packet: 1_000,
        adaptive: false,
        ecn: false,
        front: false,
    };

    fn red(spec: RedSpec) -> Red {
        Red::new(spec, Tick::new(1000), Stream::new(1, Purpose::Queue, 0))
    }

    fn offer(red: &mut Red, pool: &mut Pool, now: Nanos) -> bool {
        let entry = packet(pool, now, 1_000);
        let mut drops = Drops::new(pool);
        red.enqueue(now, RATE, entry, &mut drops);
        drops.packets == 0
    }

    #[test]
    fn the_average_follows_the_queue_and_decays_in_idle_time() {
        let (mut red, mut pool) = (red(SPEC), Pool::default());
        let mut averages = Vec::new();
        for _ in 0..4 {
            assert!(offer(&mut red, &mut pool, Nanos::ZERO));
            averages.push(red.average);
        }
        // The queue that an arrival finds: 0, 1, 2, 3 packets.
        assert_eq!(averages, [0.0, 250.0, 687.5, 1_265.625]);
        for ms in 1..=4 {
            assert!(red.dequeue(Nanos::from_millis(ms)).is_some());
        }
        assert!(red.dequeue(Nanos::from_millis(5)).is_none());
        // One packet of 1,000 bytes takes 1 ms: three of them could have been sent.
        offer(&mut red, &mut pool, Nanos::from_millis(8));
        assert!((red.average - 1_265.625 * 0.75f64.powi(3)).abs() < 1e-9);
    }

    #[test]
    fn drops_between_the_thresholds_are_spread_evenly() {
        let mut red = red(SPEC);
        // Half way: a probability of 2 %, so gaps uniform in 1 to 50.
        red.average = 10_000.0;
        let (mut gap, mut gaps) = (0u64, Vec::new());
        red.drops_early();
        for _ in 0..300_000 {
            gap += 1;
            if red.drops_early() {
                gaps.push(std::mem::take(&mut gap));
            }
        }
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean - 25.5).abs() < 0.4, "{mean}");
        assert!(gaps.iter().all(|g| (1..=50).contains(g)));
        let low = gaps.iter().filter(|g| **g <= 10).count() as f64 / gaps.len() as f64;
        assert!((low - 0.2).abs() < 0.015, "{low}");
    }

    #[test]
    fn nothing_is_dropped_below_the_minimum_and_all_above_the_maximum() {
        let mut red = red(SPEC);
        red.average = 4_999.9;
        assert!((0..1_000).all(|_| !red.drops_early()));
        red.average = 15_000.0;
        assert!((0..1_000).all(|_| red.drops_early()));
    }

    #[test]
    fn the_first_arrival_between_the_thresholds_is_let_through() {
        // Linux's red_action only draws a random number then: `qcount` rises from -1 to 0.
        let mut red = red(RedSpec { max_probability: 1.0, ..SPEC });
        for _ in 0..100 {
            red.average = 4_000.0;
            assert!(!red.drops_early());
            red.average = 14_999.0;
            assert!(!red.drops_early());
        }
        assert!((0..2).any(|_| red.drops_early()), "a probability of nearly 1");
    }

    #[test]
    fn a_flush_forgets_the_average() {
        // Linux's red_restart sets `qavg` to 0: the next arrival finds an average of nothing.
        let (mut red, mut pool) = (red(SPEC), Pool::default());
        for _ in 0..4 {
            assert!(offer(&mut red, &mut pool, Nanos::ZERO));
        }
        red.flush(&mut Drops::new(&mut pool));
        assert!(offer(&mut red, &mut pool, Nanos::ZERO));
        assert_eq!((red.average, red.holding()), (0.0, 1));
    }

    #[test]
    fn a_step_marks_all_above_it_and_drops_packets_without_the_field() {
        let step = RedSpec { min: 5_000, max: 5_000, max_probability: 1.0, weight_log2: 1, ecn: true, ..SPEC };
        let (mut red, mut pool) = (red(step), Pool::default());
        let mut fates = Vec::new();
        for k in 0..12 {
            let field = if k == 10 { Marks::NONE } else { Marks::ECT0 };
            let entry = packet_with(field, &mut pool, Nanos::ZERO, 1_000);
            let mut drops = Drops::new(&mut pool);
            red.enqueue(Nanos::ZERO, RATE, entry, &mut drops);
            fates.push((drops.marked, drops.packets));
        }
        // The average (weight 1/2) of 0, 1, 2, ... packets is k - 1 + 2^-k: it passes 5 packets at the seventh.
        let expected: Vec<_> = (0..12).map(|k| if k == 10 { (0, 1) } else { (u64::from(k >= 6), 0) }).collect();
        assert_eq!(fates, expected);
    }

    #[test]
    fn from_the_front_a_step_drops_what_has_waited_longest_and_marks_what_arrives() {
        let step =
            RedSpec { min: 5_000, max: 5_000, max_probability: 1.0, weight_log2: 1, ecn: true, front: true, ..SPEC };
        let (mut red, mut pool) = (red(step), Pool::default());
        let mut fates = Vec::new();
        for k in 0..10 {
            let now = Nanos::from_micros(k);
            let field = if k == 8 { Marks::ECT0 } else { Marks::NONE };
            let entry = packet_with(field, &mut pool, now, 1_000);
            let mut drops = Drops::new(&mut pool);
            red.enqueue(now, RATE, entry, &mut drops);
            fates.push((drops.marked, drops.packets));
        }
        // As above it passes 5 packets at the seventh, and stays there: six wait. The ninth is marked.
        let expected: Vec<_> = (0..10).map(|k| if k == 8 { (1, 0) } else { (0, u64::from(k >= 6)) }).collect();
        assert_eq!(fates, expected);
        let served: Vec<u64> =
            std::iter::from_fn(|| red.dequeue(Nanos::from_micros(10))).map(|e| e.at.micros()).collect();
        assert_eq!(served, [3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn from_the_front_as_many_are_dropped_at_the_limit_as_the_new_one_needs() {
        let spec = RedSpec { limit: 3_000, min: 1_000_000, max: 1_000_000, front: true, ..SPEC };
        let (mut red, mut pool) = (red(spec), Pool::default());
        let mut dropped = Vec::new();
        for size in [1_000, 500, 500, 1_000, 1_200, 3_001] {
            let entry = packet(&mut pool, Nanos::ZERO, size);
            let mut drops = Drops::new(&mut pool);
            red.enqueue(Nanos::ZERO, RATE, entry, &mut drops);
            dropped.push((drops.packets, red.queue.bytes));
        }
        // 4,200 without 1,000 and 500; what is larger than the queue leaves nothing.
        assert_eq!(dropped, [(0, 1_000), (0, 1_500), (0, 2_000), (0, 3_000), (2, 2_700), (4, 0)]);
    }

    #[test]
    fn the_adaptive_variant_moves_its_probability_every_half_second_and_4_ms() {
        let mut red = red(RedSpec { max_probability: 0.02, adaptive: true, ..SPEC });
        red.average = 12_000.0;
        red.adapt(Nanos::from_millis(1_100), RATE);
        // +0.005, then +0.00625: a quarter of it, as that is less than 1 %.
        assert!((red.max_probability - 0.031_25).abs() < 1e-12, "{}", red.max_probability);
        red.adapt(Nanos::from_secs(100), RATE);
        assert!((0.5..0.52).contains(&red.max_probability));
        red.average = 10_000.0;
        let held = red.max_probability;
        red.adapt(Nanos::from_secs(200), RATE);
        assert_eq!(red.max_probability, held, "on target");
        red.average = 8_000.0;
        red.adapt(Nanos::from_millis(200_500), RATE);
        assert!((red.max_probability - held * 0.9).abs() < 1e-12);
        red.adapt(Nanos::from_secs(1_000), RATE);
        assert!((0.009..0.01).contains(&red.max_probability));
        assert!(red.next_adaptation > Nanos::from_secs(1_000));
    }
}
