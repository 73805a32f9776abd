use super::*;
use crate::packet::Packet;
use crate::spec::{CodelSpec, DelaySpec, DualPi2Spec, Flush, PieSpec, QueueSpec, RedSpec};
use crate::tick::Tick;

/// A link of 8 Mbit/s (1,000 bytes a millisecond) from 10 ms on half of that, with a bucket of 3,000 bytes.
fn bucket() -> Link {
    let spec = DirectionSpec {
        rate: vec![(Nanos(0), BitRate(8_000_000)), (Nanos(10_000_000), BitRate(4_000_000))],
        burst: 3_000,
        delay: DelaySpec { interpolate: false, points: vec![(Nanos(0), Nanos(1))] },
        ..DirectionSpec::default()
    };
    Link::new(&spec, [Nanos(20_000_000)].into_iter(), Tick::new(1000), 1, 0)
}

/// Departures until `until`, microseconds: a link's pipe takes 1 ns.
fn departures(link: &mut Link, until: Nanos) -> Vec<u64> {
    let mut found = Vec::new();
    while link.next_event() <= until {
        if link.departs_at <= link.next_arrival() {
            link.depart(link.departs_at, &mut Pool::default());
        } else {
            found.push((link.next_arrival().0 - 1) / 1_000);
            link.arrive();
        }
    }
    found
}

#[test]
fn a_bucket_lets_its_depth_pass_at_once_and_then_the_rate() {
    let mut link = bucket();
    let mut pool = Pool::default();
    for id in 0..5 {
        link.offer(Nanos(0), id, 1_000, 0, &mut pool);
    }
    // Tokens for three; the fourth and the fifth wait a millisecond each. The bucket is empty then, at 2 ms.
    assert_eq!(departures(&mut link, Nanos(2_500_000)), [0, 0, 0, 1_000, 2_000]);
    // At 3.5 ms there are tokens for 1,500 bytes; 500 more are there 0.5 ms later.
    link.offer(Nanos(3_500_000), 5, 1_000, 0, &mut pool);
    link.offer(Nanos(3_500_000), 6, 1_000, 0, &mut pool);
    assert_eq!(departures(&mut link, Nanos(5_000_000)), [3_500, 4_000]);
    // Full again after 3 ms, and no fuller.
    for id in 7..11 {
        link.offer(Nanos(8_000_000), id, 1_000, 0, &mut pool);
    }
    assert_eq!(departures(&mut link, Nanos(9_500_000)), [8_000, 8_000, 8_000, 9_000]);
}

#[test]
fn the_largest_backlog_is_that_since_the_last_question() {
    let spec = DirectionSpec { rate: vec![(Nanos(0), BitRate(8_000_000))], ..DirectionSpec::default() };
    let (mut link, mut pool) = (Link::new(&spec, [].into_iter(), Tick::new(1000), 1, 0), Pool::default());
    for id in 0..5 {
        link.offer(Nanos(0), id, 1_000, 0, &mut pool);
    }
    // A packet leaves every millisecond.
    let most = [0, 3_500_000, 5_500_000, 5_600_000].map(|at| link.take_backlog_max(Nanos(at)));
    assert_eq!(most, [5_000, 5_000, 2_000, 0]);
}

proptest::proptest! {
    #[test]
    fn a_bucket_keeps_order_and_its_bound(packets in proptest::collection::vec((0..3_000_000u64, 40..=1_500u32), 1..60)) {
        let rate = BitRate(8_000_000);
        let spec = |burst| DirectionSpec {
            rate: vec![(Nanos(0), rate)],
            burst,
            delay: DelaySpec { interpolate: false, points: vec![(Nanos(0), Nanos(1))] },
            ..DirectionSpec::default()
        };
        let left = [4_000, 0].map(|burst| {
            let (mut link, mut pool) = (Link::new(&spec(burst), [].into_iter(), Tick::new(1000), 1, 0), Pool::default());
            let (mut now, mut left) = (0, Vec::new());
            for (id, (gap, size)) in packets.iter().enumerate() {
                now += gap;
                proptest::prop_assert_eq!(link.offer(Nanos(now), id as u32, *size, 0, &mut pool) == Offer::Gone, false);
            }
            while !link.next_event().is_never() {
                let at = link.next_arrival();
                proptest::prop_assert_eq!(link.arrive().id as usize, left.len());
                left.push(at.0 - 1);
            }
            Ok(left)
        });
        let [with, without] = left;
        let (with, without) = (with?, without?);
        proptest::prop_assert_eq!(with.len(), packets.len());
        for i in 0..packets.len() {
            // Never later than the exact server, never earlier than the bucket's worth.
            proptest::prop_assert!(with[i] <= without[i] && with[i] + 4_000_000 >= without[i]);
            let bytes = packets[i..].iter().scan(0, |sum, p| { *sum += u64::from(p.1); Some(*sum) });
            for (k, sum) in bytes.enumerate() {
                // 1,000 bytes a millisecond and the bucket, in any window; services are rounded down to 1 ns.
                proptest::prop_assert!(sum <= 4_000 + (with[i + k] - with[i]) / 1_000 + 1);
            }
        }
    }
}

#[test]
fn a_bucket_keeps_its_bytes_when_the_rate_changes() {
    let mut link = bucket();
    let mut pool = Pool::default();
    for id in 0..5 {
        link.offer(Nanos(9_000_000), id, 1_000, 0, &mut pool);
    }
    // The fourth would leave at 10 ms, with the tokens of the millisecond between: the rate halves then.
    assert_eq!(departures(&mut link, Nanos(9_999_999)), [9_000, 9_000, 9_000]);
    link.change_rate(Nanos(10_000_000));
    assert_eq!(departures(&mut link, Nanos(15_000_000)), [10_000, 12_000]);
}

#[test]
fn a_bucket_fills_while_the_link_is_down() {
    let mut link = bucket();
    let mut pool = Pool::default();
    link.change_rate(Nanos(10_000_000));
    for id in 0..6 {
        link.offer(Nanos(17_000_000), id, 1_000, 0, &mut pool);
    }
    assert_eq!(departures(&mut link, Nanos(20_000_000)), [17_000, 17_000, 17_000, 19_000]);
    link.start_outage(Nanos(20_000_000), OutageMode::Hold, Flush::None, &mut pool);
    // 500 bytes' worth at 20 ms, 2,500 when it is over: for both that wait, and 500 remain.
    assert_eq!(link.next_event(), Nanos::MAX);
    link.end_outage(Nanos(24_000_000));
    link.offer(Nanos(24_000_000), 6, 1_000, 0, &mut pool);
    assert_eq!(departures(&mut link, Nanos(30_000_000)), [24_000, 24_000, 25_000]);
}

#[test]
fn a_rate_change_keeps_the_bits_already_sent() {
    let spec = DirectionSpec {
        rate: vec![(Nanos(0), BitRate(8_000_000)), (Nanos(500_000), BitRate(4_000_000))],
        ..DirectionSpec::default()
    };
    let mut link = Link::new(&spec, [].into_iter(), Tick::new(1000), 1, 0);
    // 1,000 bytes take 1 ms at 8 Mbit/s; half way the rate halves.
    assert_eq!(link.offer(Nanos(0), 0, 1_000, 0, &mut Pool::default()), Offer::Held);
    link.change_rate(Nanos(500_000));
    assert_eq!(link.departs_at(), Nanos(1_500_000));
}

/// A link of 1,000 bytes a millisecond and no delay but 1 ns, with this queue.
fn with_queue(queue: QueueSpec) -> Link {
    let spec = DirectionSpec {
        rate: vec![(Nanos(0), BitRate(8_000_000))],
        delay: DelaySpec { interpolate: false, points: vec![(Nanos(0), Nanos(1))] },
        queue,
        ..DirectionSpec::default()
    };
    Link::new(&spec, [].into_iter(), Tick::new(1000), 1, 0)
}

/// Offer packets of these (microseconds, bytes); when which of them is delivered, and how many are dropped.
fn delivered(link: &mut Link, packets: impl Iterator<Item = (u64, u32)>) -> (Vec<(u64, usize)>, u64) {
    let (mut pool, mut numbers, mut found) = (Pool::default(), Vec::new(), Vec::new());
    let mut packets = packets.enumerate().peekable();
    loop {
        let comes = packets.peek().map_or(Nanos::MAX, |p| Nanos(p.1.0 * 1_000));
        if !link.next_event().is_never() && link.next_event() <= comes {
            let at = link.next_event();
            if link.departs_at() == at {
                link.depart(at, &mut pool);
            } else {
                let id = link.arrive().id;
                found.push(((at.0 - 1) / 1_000, numbers[id as usize]));
                pool.release(id);
            }
        } else if let Some((number, (_, size))) = packets.next() {
            *pool.send() = Packet { size: size as u16, ..Packet::default() };
            let id = pool.sent_id(0);
            pool.clear_sent();
            numbers.resize(numbers.len().max(id as usize + 1), 0);
            numbers[id as usize] = number;
            if link.offer(comes, id, size, 0, &mut pool) == Offer::Gone {
                pool.release(id);
            }
            link.check_backlog().unwrap();
        } else {
            assert_eq!(pool.in_network(), 0, "what was dropped is released");
            let LinkCounters { arrived, delivered, dropped, .. } = link.counters;
            assert_eq!(arrived, delivered + dropped);
            return (found, dropped);
        }
    }
}

#[test]
fn a_queue_that_drops_from_the_front_gives_up_what_has_waited_longest() {
    // Five at once into room for three: the first is in service and stays.
    let five = || (0..5).map(|_| (0, 1_000));
    let mut front = with_queue(QueueSpec::DropFrontPackets { limit: 3 });
    assert_eq!(delivered(&mut front, five()), (vec![(1_000, 0), (2_000, 3), (3_000, 4)], 2));
    let mut tail = with_queue(QueueSpec::DropTailPackets { limit: 3 });
    assert_eq!(delivered(&mut tail, five()), (vec![(1_000, 0), (2_000, 1), (3_000, 2)], 2));
    // With room for one, what comes while it is in service is dropped itself.
    let mut one = with_queue(QueueSpec::DropFrontPackets { limit: 1 });
    assert_eq!(delivered(&mut one, five()), (vec![(1_000, 0)], 4));
}

#[test]
fn in_bytes_as_many_are_dropped_as_the_new_one_needs() {
    let sizes = [1_000, 500, 500, 1_000, 800, 2_500];
    let mut link = with_queue(QueueSpec::DropFrontBytes { limit: 3_000 });
    // 3,000 bytes wait; 800 need both of 500. Beside the 1,000 in service there is never room for 2,500.
    let (found, dropped) = delivered(&mut link, sizes.into_iter().map(|size| (0, size)));
    assert_eq!((found, dropped), (vec![(1_000, 0), (2_000, 3), (2_800, 4)], 3));
    assert_eq!(link.backlog_max(), 3_000);
}

#[test]
fn dropping_from_the_front_shortens_the_delay_by_the_overload() {
    // Two packets come in the time in which one is served. From the tail, one that is taken waits for 99 others and
    // itself; from the front, every service takes two places: it waits half as long.
    let delays = |queue| {
        let (found, dropped) = delivered(&mut with_queue(queue), (0..4_000).map(|k| (k * 500, 1_000)));
        let waits: Vec<u64> = found.iter().skip(1_000).take(500).map(|(at, k)| at - *k as u64 * 500).collect();
        (*waits.iter().min().unwrap(), *waits.iter().max().unwrap(), dropped)
    };
    let (least, most, dropped) = delays(QueueSpec::DropTailPackets { limit: 100 });
    assert!((99_000..=100_000).contains(&least) && most <= 100_000, "{least} .. {most} us");
    let front = delays(QueueSpec::DropFrontPackets { limit: 100 });
    assert!((49_500..=50_500).contains(&front.0) && front.1 <= 50_500, "{front:?} us");
    assert_eq!(front.2, dropped);
    // A managed queue that drops nothing but at its limit, which does not count the packet in service, does the same.
    let (limit, never) = (99, Nanos::from_secs(10));
    let codel = CodelSpec { limit, target: never, interval: never, ecn: false, ce_threshold: None, front: true };
    let pie = PieSpec { limit, target: never, update: never, alpha: 0, beta: 0, ecn: false, front: true };
    let red = RedSpec {
        limit: 99_000,
        min: 1 << 30,
        max: 1 << 30,
        max_probability: 0.02,
        weight_log2: 9,
        packet: 1_000,
        adaptive: false,
        ecn: false,
        front: true,
    };
    let dual = DualPi2Spec {
        limit,
        target: never,
        update: never,
        alpha: 0,
        beta: 0,
        step: never,
        coupling: 2,
        classic_weight: 10,
        drop_overload: true,
        front: true,
    };
    let managed = [QueueSpec::Codel(codel), QueueSpec::Pie(pie), QueueSpec::Red(red), QueueSpec::DualPi2(dual)];
    assert!(managed.into_iter().all(|queue| delays(queue) == front), "{front:?}");
}

proptest::proptest! {
    /// Of packets of one size, it is only a question of which are dropped.
    #[test]
    fn front_and_tail_serve_at_the_same_times(gaps in proptest::collection::vec(0..2_500u64, 1..200), limit in 1..20u64) {
        let times = || gaps.iter().scan(0, |now, gap| { *now += gap; Some((*now, 1_000)) });
        let tail = delivered(&mut with_queue(QueueSpec::DropTailPackets { limit }), times());
        let front = delivered(&mut with_queue(QueueSpec::DropFrontPackets { limit }), times());
        proptest::prop_assert_eq!(tail.1, front.1);
        let at = |found: &[(u64, usize)]| found.iter().map(|f| f.0).collect::<Vec<_>>();
        proptest::prop_assert_eq!(at(&tail.0), at(&front.0));
        for (tail, front) in tail.0.iter().zip(&front.0) {
            proptest::prop_assert!(tail.1 <= front.1, "what is served is never older");
        }
    }
}
