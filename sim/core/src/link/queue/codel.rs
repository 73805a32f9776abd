//! Controlled delay (RFC 8289) as Linux's sch_codel computes it: packets that have waited longer than a target for at
//! least an interval are dropped or marked at the head, ever more often.

use crate::spec::CodelSpec;
use crate::time::Nanos;

use super::super::Entry;
use super::{Drops, Fifo, MTU_BYTES};

/// A return to dropping within so many intervals of the last drop takes up the rate it had reached.
const MEMORY_INTERVALS: u64 = 16;

/// 1/sqrt(count) in sixteen bits after the point (Linux: REC_INV_SQRT_BITS); all ones stand for 1.
const ONE: u16 = u16::MAX;

/// The parameters of the control law.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    pub target: Nanos,
    pub interval: Nanos,
    /// Marks instead of drops.
    pub ecn: bool,
    /// Mark whatever has waited longer.
    pub ce_threshold: Option<Nanos>,
}

/// The state of one queue under control.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    /// Drops of the present or last episode.
    pub count: u32,
    /// `count` when that episode began.
    last_count: u32,
    dropping: bool,
    inverse_root: u16,
    /// When the sojourn time will have been above target for an interval; None while it is below.
    first_above: Option<Nanos>,
    drop_next: Nanos,
}

impl Controller {
    /// The next packet of `queue` to be served; those dropped before it go to `drops`. One action may mark but one packet.
    /// `backlog` counts the bytes of
    /// the whole qdisc, which may have more queues than this one.
    pub fn dequeue(
        &mut self,
        now: Nanos,
        law: Law,
        queue: &mut Fifo,
        backlog: &mut u64,
        drops: &mut Drops,
    ) -> Option<Entry> {
        let mut take = || {
            let entry = queue.pop()?;
            *backlog -= u64::from(entry.size);
            Some((entry, *backlog))
        };
        let Some(mut head) = take() else {
            // As Linux since March 2026 (815980fe6dbb), also in its stable kernels.
            (self.dropping, self.first_above) = (false, None);
            return None;
        };
        let late = self.is_late(now, law, Some(head));
        if self.dropping {
            self.dropping = late;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                self.newton_step();
                if law.ecn && drops.mark(head.0) {
                    self.drop_next += self.spacing(law.interval);
                    break;
                }
                drops.take(head.0);
                let next = take();
                self.dropping = self.is_late(now, law, next);
                if self.dropping {
                    self.drop_next += self.spacing(law.interval);
                }
                head = next?;
            }
        } else if late {
            let mut next = Some(head);
            if !(law.ecn && drops.mark(head.0)) {
                drops.take(head.0);
                next = take();
                self.is_late(now, law, next);
            }
            self.dropping = true;
            let grown = self.count.wrapping_sub(self.last_count);
            // FQ-CoDel raises `count` when it is full, maybe before the first episode, which sets `drop_next`.
            let recently = now.saturating_sub(self.drop_next) < Nanos(MEMORY_INTERVALS * law.interval.0);
            if grown > 1 && self.last_count > 0 && recently {
                self.count = grown;
                self.newton_step();
            } else {
                self.count = 1;
                self.inverse_root = ONE;
            }
            self.last_count = self.count;
            self.drop_next = now + self.spacing(law.interval);
            head = next?;
        }
        if law.ce_threshold.is_some_and(|longest| now - head.0.at > longest) {
            drops.mark(head.0);
        }
        Some(head.0)
    }

    /// Has the sojourn time been above target for an interval? `head` is the packet to be served and the backlog
    /// behind it.
    fn is_late(&mut self, now: Nanos, law: Law, head: Option<(Entry, u64)>) -> bool {
        let Some((entry, left)) = head else {
            self.first_above = None;
            return false;
        };
        if now - entry.at < law.target || left <= MTU_BYTES {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + law.interval);
                false
            }
            Some(at) => now > at,
        }
    }

    /// interval / sqrt(count).
    fn spacing(&self, interval: Nanos) -> Nanos {
        Nanos(((u128::from(interval.0) * u128::from(self.inverse_root)) >> 16) as u64)
    }

    /// One step of Newton's iteration for 1/sqrt(count), x (3 - count x²) / 2, from the last x. While the count grows
    /// by one at a time that is near enough: 0.5 for count = 2, within 3 % from 3 on, within 1 % from 6 on.
    fn newton_step(&mut self) {
        let x = u64::from(self.inverse_root) << 16;
        // FQ-CoDel may add 64 at once; from an x so far off the step wraps around, as Linux's does.
        let value = (3u64 << 32).wrapping_sub(u64::from(self.count) * ((x * x) >> 32)) >> 2;
        self.inverse_root = (value.wrapping_mul(x) >> (31 + 16)) as u16;
    }
}

/// One queue for all flows.
#[derive(Clone, Debug)]
pub struct Codel {
    pub(super) spec: CodelSpec,
    queue: Fifo,
    controller: Controller,
}

impl Codel {
    pub fn new(spec: CodelSpec) -> Codel {
        Codel { spec, queue: Fifo::default(), controller: Controller::default() }
    }

    pub fn enqueue(&mut self, entry: Entry, drops: &mut Drops) {
        if (self.queue.len() as u64) < self.spec.limit {
            self.queue.push(entry);
        } else if self.spec.front {
            self.queue.push(entry);
            self.queue.drop_front(drops);
        } else {
            drops.take(entry);
        }
    }

    pub fn dequeue(&mut self, now: Nanos, drops: &mut Drops) -> Option<Entry> {
        let mut backlog = self.queue.bytes;
        let CodelSpec { target, interval, ecn, ce_threshold, .. } = self.spec;
        let law = Law { target, interval, ecn, ce_threshold };
        self.controller.dequeue(now, law, &mut self.queue, &mut backlog, drops)
    }

    pub fn flush(&mut self, drops: &mut Drops) {
        self.queue.flush(drops);
        self.controller = Controller::default();
    }

    pub fn holding(&self) -> usize {
        self.queue.len()
    }

    pub fn bytes(&self) -> u64 {
        self.queue.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{packet, packet_with};
    use super::*;
    use crate::packet::Marks;
    use crate::pool::Pool;

    const SPEC: CodelSpec = CodelSpec {
        limit: 1000,
        target: Nanos::from_millis(5),
        interval: Nanos::from_millis(100),
        ecn: false,
        ce_threshold: None,
        front: false,
    };

    fn at_ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Dequeue once per millisecond from `from` on; the times of drops.
    fn drain(queue: &mut Codel, pool: &mut Pool, from: u64, to: u64) -> Vec<u64> {
        let mut times = Vec::new();
        for ms in from..to {
            let mut drops = Drops::new(pool);
            queue.dequeue(at_ms(ms), &mut drops);
            times.extend((0..drops.packets).map(|_| ms));
        }
        times
    }

    fn fill(queue: &mut Codel, pool: &mut Pool, ms: u64, packets: usize) {
        for _ in 0..packets {
            let entry = packet(pool, at_ms(ms), 1_500);
            queue.enqueue(entry, &mut Drops::new(pool));
        }
    }

    #[test]
    fn drops_follow_linuxs_inverse_square_roots() {
        // reciprocal_scale(100 ms, rec_inv_sqrt) for counts 1 to 16, by the kernel's integer formulas.
        let spacing = [
            99_998_474, 50_001_525, 56_250_000, 48_779_296, 44_151_306, 40_406_799, 37_518_310, 35_151_672, 33_181_762,
            31_504_821, 30_058_288, 28_791_809, 27_673_339, 26_673_889, 25_776_672, 24_963_378,
        ];
        let mut controller = Controller { count: 1, inverse_root: ONE, ..Controller::default() };
        for expected in spacing {
            assert_eq!(controller.spacing(SPEC.interval), Nanos(expected), "count {}", controller.count);
            controller.count += 1;
            controller.newton_step();
        }
        for count in 6..5_000u32 {
            controller.count = count;
            controller.newton_step();
            let exact = 1e8 / f64::from(count).sqrt();
            let ratio = controller.spacing(SPEC.interval).0 as f64 / exact;
            assert!(count < 17 || (0.98..1.02).contains(&ratio), "count {count}: {ratio}");
        }
    }

    #[test]
    fn a_step_from_far_off_wraps_around_as_linuxs_does() {
        // codel_Newton_step after FQ-CoDel has added 64 or 128 to a count of 1, in the kernel's 64-bit integers.
        for (count, expected) in [(65, 0x5f), (66, 0x8061), (129, 0xbf), (300, 0x81c0)] {
            let mut controller = Controller { count, inverse_root: ONE, ..Controller::default() };
            controller.newton_step();
            assert_eq!(controller.inverse_root, expected, "count {count}");
        }
    }

    #[test]
    fn drops_of_a_full_queue_before_the_first_episode_leave_it_as_it_would_be() {
        let (mut queue, mut pool) = (Codel::new(SPEC), Pool::default());
        queue.controller.count = 64; // by FQ-CoDel at its limit
        fill(&mut queue, &mut pool, 0, 600);
        assert_eq!(drain(&mut queue, &mut pool, 1, 300), [106, 206, 256]);
    }

    #[test]
    fn an_empty_queue_ends_the_time_above_the_target() {
        // One flow of several: the others keep the backlog above a frame, so its last packet does not end that time.
        let (mut pool, mut queue) = (Pool::default(), Fifo::default());
        let (mut controller, mut backlog) = (Controller::default(), 100_000);
        let law = Law { target: SPEC.target, interval: SPEC.interval, ecn: false, ce_threshold: None };
        let mut serve = |at: u64, sent: &[u64]| {
            sent.iter().for_each(|ms| queue.push(packet(&mut pool, at_ms(*ms), 1_500)));
            backlog = 100_000;
            let mut drops = Drops::new(&mut pool);
            controller.dequeue(at_ms(at), law, &mut queue, &mut backlog, &mut drops);
            drops.packets
        };
        assert_eq!(serve(10, &[0]), 0, "above the target from 10 ms on");
        assert_eq!(serve(20, &[]), 0, "empty");
        assert_eq!(serve(120, &[100, 100]), 0, "above it anew, so for no time yet");
        assert_eq!(serve(221, &[]), 1);
    }

    #[test]
    fn drops_start_an_interval_after_the_delay_passed_its_target() {
        let (mut queue, mut pool) = (Codel::new(SPEC), Pool::default());
        fill(&mut queue, &mut pool, 0, 600);
        // Above 5 ms from 5 ms on, for more than an interval at 106 ms; then after 100, 50, 56.25, 48.8, ... ms.
        let drops = drain(&mut queue, &mut pool, 1, 500);
        assert_eq!(drops, [106, 206, 256, 313, 362, 406, 446, 484]);
    }

    #[test]
    fn a_second_episode_takes_up_the_rate_of_the_first_only_within_16_intervals() {
        // The next drop of the first would have been at 519 ms: 15.4 and 16.1 intervals before 2,056 and 2,126 ms.
        for (pause_ms, count) in [(100, 7), (1_450, 7), (1_520, 1)] {
            let (mut queue, mut pool) = (Codel::new(SPEC), Pool::default());
            fill(&mut queue, &mut pool, 0, 508);
            assert_eq!(drain(&mut queue, &mut pool, 1, 500).len(), 8);
            assert_eq!(queue.controller.count, 8);
            drain(&mut queue, &mut pool, 500, 510);
            assert_eq!(queue.holding(), 0);
            assert!(!queue.controller.dropping);
            let again = 500 + pause_ms;
            fill(&mut queue, &mut pool, again, 600);
            // 99 ms of sojourn, then one drop.
            assert_eq!(drain(&mut queue, &mut pool, again + 5, again + 107), [again + 106]);
            assert_eq!((queue.controller.count, queue.controller.last_count), (count, count));
        }
    }

    #[test]
    fn a_queue_of_one_frame_is_never_dropped_however_late() {
        let (mut queue, mut pool) = (Codel::new(SPEC), Pool::default());
        for ms in 0..2_000u64 {
            fill(&mut queue, &mut pool, ms, 1);
            if ms % 100 == 99 {
                // Each waits 99 ms at most, but only one frame stays behind the last.
                let left = queue.holding() as u64;
                assert_eq!(drain(&mut queue, &mut pool, ms + 200, ms + 200 + left), Vec::<u64>::new());
            }
        }
    }

    /// Times of marks and drops of a queue that is drained once per millisecond.
    fn marks(spec: CodelSpec, field: impl Fn(usize) -> Marks) -> (Vec<u64>, Vec<u64>) {
        let (mut queue, mut pool) = (Codel::new(spec), Pool::default());
        for k in 0..600 {
            let entry = packet_with(field(k), &mut pool, Nanos::ZERO, 1_500);
            queue.enqueue(entry, &mut Drops::new(&mut pool));
        }
        let (mut marked, mut dropped) = (Vec::new(), Vec::new());
        for ms in 1..500 {
            let mut drops = Drops::new(&mut pool);
            let entry = queue.dequeue(at_ms(ms), &mut drops).expect("enough packets");
            marked.extend((0..drops.marked).map(|_| ms));
            dropped.extend((0..drops.packets).map(|_| ms));
            assert_eq!(
                pool.get(entry.id).marks.is_ce(),
                marked.last() == Some(&ms),
                "{ms} {marked:?} {:?} {entry:?}",
                pool.get(entry.id)
            );
        }
        (marked, dropped)
    }

    #[test]
    fn marks_come_where_drops_would_and_packets_without_the_field_are_dropped() {
        let ecn = CodelSpec { ecn: true, ..SPEC };
        let times = [106, 206, 256, 313, 362, 406, 446, 484];
        assert_eq!(marks(ecn, |_| Marks::ECT0), (times.to_vec(), vec![]));
        assert_eq!(marks(ecn, |_| Marks::NONE), (vec![], times.to_vec()));
        assert_eq!(marks(SPEC, |_| Marks::ECT0), (vec![], times.to_vec()));
        // The packet behind one that is dropped is not marked: one action each time.
        let (marked, dropped) = marks(ecn, |k| if k == 105 { Marks::NONE } else { Marks::ECT1 });
        assert_eq!((marked, dropped), (times[1..].to_vec(), vec![106]));
    }

    #[test]
    fn above_a_threshold_of_its_own_every_packet_is_marked() {
        let spec = CodelSpec { ce_threshold: Some(at_ms(20)), ..SPEC };
        let (marked, dropped) = marks(spec, |k| if k % 2 == 0 { Marks::ECT0 } else { Marks::NONE });
        assert_eq!((marked[0], dropped.len()), (21, 8));
        // Half of the packets served from then on, wherever the drops have shifted the others.
        assert!((236..=244).contains(&marked.len()), "{}", marked.len());
    }

    #[test]
    fn the_limit_counts_packets() {
        let (mut queue, mut pool) = (Codel::new(CodelSpec { limit: 10, ..SPEC }), Pool::default());
        fill(&mut queue, &mut pool, 0, 15);
        assert_eq!((queue.holding(), pool.in_network()), (10, 10));
    }

    #[test]
    fn at_the_limit_what_arrives_or_what_has_waited_longest_is_dropped() {
        for (front, oldest) in [(false, 0), (true, 5)] {
            let (mut queue, mut pool) = (Codel::new(CodelSpec { limit: 10, front, ..SPEC }), Pool::default());
            for ms in 0..15 {
                fill(&mut queue, &mut pool, ms, 1);
            }
            let first = queue.dequeue(at_ms(15), &mut Drops::new(&mut pool)).unwrap();
            assert_eq!((first.at, pool.in_network()), (at_ms(oldest), 10));
        }
    }
}
