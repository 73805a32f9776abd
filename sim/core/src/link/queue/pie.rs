//! Proportional integral controller enhanced (RFC 8033) as Linux's sch_pie: arrivals are dropped with a probability
//! that a controller moves every 15 ms so as to hold the delay at its target. Linux's timer fires a tick late.

use crate::rng::Stream;
use crate::spec::PieSpec;
use crate::tick::Tick;
use crate::time::Nanos;

use super::super::Entry;
use super::{Drops, Fifo, MTU_BYTES};

/// Linux's packet-scheduler clock ticks every 64 ns.
const TICK_NS: u64 = 64;
const TICKS_PER_SEC: u64 = 1_000_000_000 / TICK_NS;
/// A probability of 1; eight bits are left for the sum that spaces drops.
const MAX_PROB: u64 = u64::MAX >> 8;
/// No early drops until so much time has been spent sending (RFC 8033 4.4).
const BURST_ALLOWANCE: u64 = 150 * TICKS_PER_SEC / 1000;
/// Above this delay the probability grows by 2 % more in each step.
const HIGH_DELAY: u64 = 250 * TICKS_PER_SEC / 1000;

/// The controller's state (struct pie_vars).
#[derive(Clone, Debug)]
struct Controller {
    prob: u64,
    /// Sum of the probabilities since the last drop.
    accumulated: u64,
    /// Sojourn time of the last packet dequeued, ticks; 0 when it left the queue empty.
    delay: u64,
    /// That at the last update.
    delay_before: u64,
    burst_left: u64,
    last_dequeue: Option<Nanos>,
}

impl Controller {
    fn new() -> Controller {
        let mut controller =
            Controller { prob: 0, accumulated: 0, delay: 0, delay_before: 0, burst_left: 0, last_dequeue: None };
        controller.restart();
        controller
    }

    fn restart(&mut self) {
        self.burst_left = BURST_ALLOWANCE;
        self.accumulated = 0;
        self.last_dequeue = None;
    }

    /// One step of the controller. `target` in ticks, `alpha` and `beta` in sixteenths per second.
    fn update(&mut self, target: u64, alpha: u32, beta: u32, backlog: u64) {
        let (delay, before) = (self.delay, self.delay_before);
        let mut gains = [alpha, beta].map(|gain| (u64::from(gain) * (MAX_PROB / TICKS_PER_SEC)) >> 4);
        // Smaller steps where the probability is small (RFC 8033 4.2).
        if self.prob < MAX_PROB / 10 {
            gains = gains.map(|g| g >> 1);
            let mut power = 100;
            while power <= 1_000_000 && self.prob < MAX_PROB / power {
                gains = gains.map(|g| g >> 2);
                power *= 10;
            }
        }
        let [alpha, beta] = gains.map(i128::from);
        let mut step =
            alpha * (i128::from(delay) - i128::from(target)) + beta * (i128::from(delay) - i128::from(before));
        let two_percent = i128::from(MAX_PROB / 50);
        if step > two_percent && self.prob >= MAX_PROB / 10 {
            step = two_percent;
        }
        if delay > HIGH_DELAY {
            step += two_percent;
        }
        // Linux lets it grow past 1 up to the limit of its integers and then needs as long to come back; RFC 8033 4.2
        // bounds it.
        self.prob = (i128::from(self.prob) + step).clamp(0, i128::from(MAX_PROB)) as u64;
        if delay == 0 && before == 0 && backlog == 0 {
            self.prob -= self.prob / 64;
        }
        if delay < target / 2 && before < target / 2 && self.prob == 0 {
            self.restart();
        }
        self.delay_before = delay;
    }

    /// Would another update change nothing?
    fn rests(&self, backlog: u64) -> bool {
        let restarted = self.burst_left == BURST_ALLOWANCE && self.accumulated == 0 && self.last_dequeue.is_none();
        backlog == 0 && self.prob == 0 && self.delay == 0 && self.delay_before == 0 && restarted
    }

    /// Is the packet that arrives to be dropped or marked?
    fn drops_early(&mut self, target: u64, backlog: u64, random: &mut Stream) -> bool {
        if self.burst_left > 0 || (self.delay < target / 2 && self.prob < MAX_PROB / 5) || backlog < 2 * MTU_BYTES {
            return false;
        }
        if self.prob == 0 {
            self.accumulated = 0;
        } else {
            self.accumulated += self.prob;
        }
        // Not soon after a drop, and not too long after it either (RFC 8033 5.4).
        if self.accumulated < MAX_PROB / 100 * 85 {
            return false;
        }
        // A drop forgets the sum; of marks, only one by chance does.
        if self.accumulated >= MAX_PROB / 2 * 17 {
            return true;
        }
        let strikes = random.next_u64() >> 8 < self.prob;
        if strikes {
            self.accumulated = 0;
        }
        strikes
    }
}

#[derive(Clone, Debug)]
pub struct Pie {
    pub(super) spec: PieSpec,
    target: u64,
    queue: Fifo,
    controller: Controller,
    period: Nanos,
    next_update: Nanos,
    random: Stream,
}

impl Pie {
    pub fn new(spec: PieSpec, tick: Tick, random: Stream) -> Pie {
        let period = tick.period(spec.update);
        Pie {
            target: spec.target.0 / TICK_NS,
            queue: Fifo::default(),
            controller: Controller::new(),
            period,
            next_update: period,
            random,
            spec,
        }
    }

    pub fn enqueue(&mut self, now: Nanos, entry: Entry, drops: &mut Drops) {
        self.catch_up(now);
        let full = self.queue.len() as u64 >= self.spec.limit;
        let early = !full && self.controller.drops_early(self.target, self.queue.bytes, &mut self.random);
        let marks = early && self.spec.ecn && self.controller.prob <= MAX_PROB / 10 && drops.mark(entry);
        if full || (early && !marks) {
            self.controller.accumulated = 0;
            if self.spec.front {
                self.queue.push(entry);
                self.queue.drop_front(drops);
            } else {
                drops.take(entry);
            }
        } else {
            self.queue.push(entry);
        }
    }

    pub fn dequeue(&mut self, now: Nanos) -> Option<Entry> {
        self.catch_up(now);
        let entry = self.queue.pop()?;
        let controller = &mut self.controller;
        controller.delay = if self.queue.bytes == 0 { 0 } else { (now - entry.at).0 / TICK_NS };
        let since = controller.last_dequeue.replace(now).map_or(0, |last| (now - last).0 / TICK_NS);
        controller.burst_left = controller.burst_left.saturating_sub(since);
        Some(entry)
    }

    pub fn flush(&mut self, drops: &mut Drops) {
        self.queue.flush(drops);
        self.controller.restart();
    }

    pub fn holding(&self) -> usize {
        self.queue.len()
    }

    pub fn bytes(&self) -> u64 {
        self.queue.bytes
    }

    /// The updates that were due by now. Nothing they read changes but when a packet comes or goes, and both call
    /// this first: the result is that of a timer.
    fn catch_up(&mut self, now: Nanos) {
        while self.next_update <= now {
            if self.controller.rests(self.queue.bytes) {
                let missed = (now - self.next_update).0 / self.period.0;
                self.next_update += Nanos(missed * self.period.0);
            }
            self.controller.update(self.target, self.spec.alpha, self.spec.beta, self.queue.bytes);
            self.next_update += self.period;
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

    const SPEC: PieSpec = PieSpec {
        limit: 1000,
        target: Nanos::from_millis(15),
        update: Nanos::from_millis(15),
        alpha: 2,
        beta: 20,
        ecn: false,
        front: false,
    };

    fn ticks(ms: u64) -> u64 {
        ms * TICKS_PER_SEC / 1000
    }

    /// The probability after one update from `prob`, at delays of `now_ms` and before that `before_ms`.
    fn updated(prob: f64, now_ms: u64, before_ms: u64, backlog: u64) -> f64 {
        let mut controller = Controller::new();
        controller.prob = (prob * MAX_PROB as f64) as u64;
        controller.delay = ticks(now_ms);
        controller.delay_before = ticks(before_ms);
        controller.update(ticks(15), SPEC.alpha, SPEC.beta, backlog);
        controller.prob as f64 / MAX_PROB as f64
    }

    #[test]
    fn steps_of_the_probability_are_scaled_where_it_is_small() {
        // 2/16 x 15 ms + 20/16 x 5 ms = 0.8125 % of a probability, at 30 ms of delay after 25.
        let full = 0.008_125;
        let divisors =
            [(0.5, 1), (0.05, 2), (5e-3, 8), (5e-4, 32), (5e-5, 128), (5e-6, 512), (5e-7, 2048), (0.0, 2048)];
        for (prob, divisor) in divisors {
            let step = updated(prob, 30, 25, 100_000) - prob;
            let expected = full / f64::from(divisor);
            assert!((step / expected - 1.0).abs() < 1e-4, "from {prob}: {step} instead of {expected}");
        }
    }

    #[test]
    fn steps_of_the_probability_are_bounded_and_grow_at_high_delay() {
        let near = |x: f64, y: f64| assert!((x - y).abs() < 1e-8, "{x} instead of {y}");
        // 185/8 + 125 ms would make 14.8 %.
        near(updated(0.5, 200, 100, 100_000), 0.52);
        near(updated(0.5, 260, 100, 100_000), 0.54);
        near(updated(0.05, 200, 100, 100_000), 0.05 + 0.148_125 / 2.0);
        // At no delay the target's share goes, then another 1/64 if nothing waits.
        near(updated(0.5, 0, 0, 100), 0.498_125);
        near(updated(0.5, 0, 0, 0), 0.498_125 * 63.0 / 64.0);
        near(updated(1.0, 300, 100, 100_000), 1.0);
        near(updated(0.001, 0, 50, 100_000), 0.0);
    }

    #[test]
    fn bursts_are_let_through_again_after_two_updates_below_half_of_the_target() {
        // RFC 8033 4.4, with a target of 15 ms; at these delays the probability stays zero.
        for (now_us, before_us, again) in [(7_499, 7_499, true), (7_499, 7_501, false), (7_501, 7_499, false)] {
            let mut controller = Controller::new();
            controller.burst_left = 0;
            controller.delay = now_us * TICKS_PER_SEC / 1_000_000;
            controller.delay_before = before_us * TICKS_PER_SEC / 1_000_000;
            controller.update(ticks(15), SPEC.alpha, SPEC.beta, 100_000);
            assert_eq!((controller.prob, controller.burst_left), (0, if again { ticks(150) } else { 0 }));
        }
    }

    fn fill(pie: &mut Pie, pool: &mut Pool, at: Nanos, packets: usize) -> u64 {
        let mut dropped = 0;
        for _ in 0..packets {
            let entry = packet(pool, at, 1_500);
            let mut drops = Drops::new(pool);
            pie.enqueue(at, entry, &mut drops);
            dropped += drops.packets;
        }
        dropped
    }

    #[test]
    fn a_burst_is_let_through_for_150_ms() {
        let (mut pie, mut pool) = (Pie::new(SPEC, Tick::new(1000), Stream::new(1, Purpose::Queue, 0)), Pool::default());
        // Twice what is served: one packet per millisecond waits ever longer.
        let mut first_drop = None;
        for ms in 0..3_000 {
            let at = Nanos::from_millis(ms);
            if fill(&mut pie, &mut pool, at, 2) > 0 {
                first_drop = first_drop.or(Some(ms));
            }
            pie.dequeue(at);
        }
        let first = first_drop.expect("drops");
        assert!((151..400).contains(&first), "first drop at {first} ms");
    }

    #[test]
    fn drops_are_spaced_between_0_85_and_8_5_of_accumulated_probability() {
        let mut random = Stream::new(3, Purpose::Queue, 0);
        let mut controller = Controller::new();
        controller.burst_left = 0;
        controller.delay = ticks(20);
        controller.prob = MAX_PROB / 20;
        let (mut gap, mut gaps) = (0u64, Vec::new());
        for _ in 0..200_000 {
            gap += 1;
            if controller.drops_early(ticks(15), 100_000, &mut random) {
                controller.accumulated = 0;
                gaps.push(std::mem::take(&mut gap));
            }
        }
        assert_eq!(*gaps.iter().min().unwrap(), 17, "0.85 / 0.05");
        assert!(*gaps.iter().max().unwrap() <= 171, "8.5 / 0.05 and rounding");
        // 16 without a drop, then a geometric wait of mean 20.
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean - 36.0).abs() < 0.5, "{mean}");
    }

    #[test]
    fn packets_are_marked_up_to_a_probability_of_ten_percent_and_dropped_above() {
        for (percent, marks) in [(10, true), (11, false)] {
            let (mut pie, mut pool) = (
                Pie::new(PieSpec { ecn: true, ..SPEC }, Tick::new(1000), Stream::new(1, Purpose::Queue, 0)),
                Pool::default(),
            );
            fill(&mut pie, &mut pool, Nanos::ZERO, 100);
            (pie.controller.burst_left, pie.controller.delay) = (0, ticks(20));
            pie.controller.prob = MAX_PROB / 100 * percent;
            let (mut marked, mut dropped) = (0, 0);
            for k in 0..400 {
                let field = if k % 2 == 0 { Marks::ECT0 } else { Marks::NONE };
                let entry = packet_with(field, &mut pool, Nanos::ZERO, 1_500);
                let mut drops = Drops::new(&mut pool);
                pie.enqueue(Nanos::ZERO, entry, &mut drops);
                marked += drops.marked;
                dropped += drops.packets;
            }
            assert!(dropped > 5 && (marked > 5) == marks, "{percent} %: {marked} marked, {dropped} dropped");
        }
    }

    #[test]
    fn from_the_front_early_drops_and_those_at_the_limit_hit_what_has_waited_longest() {
        // Three wait. The fourth is an early drop: 8.5 of accumulated probability. The limit is three, too.
        for (limit, front, first) in [(9, false, 0), (9, true, 1), (3, false, 0), (3, true, 1)] {
            let spec = PieSpec { limit, front, ..SPEC };
            let (mut pie, mut pool) =
                (Pie::new(spec, Tick::new(1000), Stream::new(1, Purpose::Queue, 0)), Pool::default());
            for us in 0..3 {
                assert_eq!(fill(&mut pie, &mut pool, Nanos::from_micros(us), 1), 0);
            }
            (pie.controller.burst_left, pie.controller.delay) = (0, ticks(20));
            (pie.controller.prob, pie.controller.accumulated) = (MAX_PROB / 5, MAX_PROB / 2 * 17);
            assert_eq!(fill(&mut pie, &mut pool, Nanos::from_micros(3), 1), 1);
            assert_eq!((pie.holding(), pie.bytes(), pie.controller.accumulated), (3, 4_500, 0));
            assert_eq!(pie.dequeue(Nanos::from_micros(4)).unwrap().at, Nanos::from_micros(first), "{limit} {front}");
        }
    }

    #[test]
    fn few_bytes_or_little_delay_are_left_alone() {
        let mut random = Stream::new(3, Purpose::Queue, 0);
        let mut never = |prob: u64, delay: u64, backlog: u64| {
            let mut controller = Controller::new();
            (controller.prob, controller.delay, controller.burst_left) = (prob, delay, 0);
            (0..1_000).all(|_| !controller.drops_early(ticks(15), backlog, &mut random))
        };
        assert!(never(MAX_PROB, ticks(20), 2 * MTU_BYTES - 1));
        assert!(!never(MAX_PROB, ticks(20), 2 * MTU_BYTES));
        assert!(never(MAX_PROB / 5 - 1, ticks(7), 100_000));
        assert!(!never(MAX_PROB / 5, ticks(7), 100_000));
    }

    #[test]
    fn updates_made_late_are_those_of_a_timer() {
        let build = || Pie::new(SPEC, Tick::new(1000), Stream::new(9, Purpose::Queue, 0));
        let (mut lazy, mut timed) = (build(), build());
        let (mut pool, mut other) = (Pool::default(), Pool::default());
        let mut times = Stream::new(5, Purpose::Traffic, 0);
        let mut now = Nanos::ZERO;
        for step in 0..20_000u64 {
            // Busy for 2,000 steps, then quiet for as many, with long pauses.
            let quiet = step / 2_000 % 2 == 1;
            let pause = times.below(if quiet { Nanos::from_millis(200) } else { Nanos::from_millis(2) });
            for k in 1..=20 {
                timed.catch_up(now + Nanos(pause.0 / 20 * k));
            }
            now += pause;
            let arrivals = if quiet { 1 } else { 2 };
            assert_eq!(fill(&mut lazy, &mut pool, now, arrivals), fill(&mut timed, &mut other, now, arrivals));
            assert_eq!(lazy.dequeue(now).map(|e| e.at), timed.dequeue(now).map(|e| e.at));
            assert_eq!(lazy.controller.prob, timed.controller.prob, "step {step}");
            assert_eq!(lazy.controller.burst_left, timed.controller.burst_left);
        }
    }
}
