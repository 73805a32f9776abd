use super::*;
use crate::spec::{DelaySpec, Flush};

/// A link of 8 Mbit/s (1,000 bytes a millisecond) from 10 ms on half of that, with a bucket of 3,000 bytes.
fn bucket() -> Link {
    let spec = DirectionSpec {
        rate: vec![(Nanos(0), BitRate(8_000_000)), (Nanos(10_000_000), BitRate(4_000_000))],
        burst: 3_000,
        delay: DelaySpec { interpolate: false, points: vec![(Nanos(0), Nanos(1))] },
        ..DirectionSpec::default()
    };
    Link::new(&spec, [Nanos(20_000_000)].into_iter(), 1, 0)
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
        link.offer(Nanos(0), id, 1_000, &mut pool);
    }
    // Tokens for three; the fourth and the fifth wait a millisecond each. The bucket is empty then, at 2 ms.
    assert_eq!(departures(&mut link, Nanos(2_500_000)), [0, 0, 0, 1_000, 2_000]);
    // At 3.5 ms there are tokens for 1,500 bytes; 500 more are there 0.5 ms later.
    link.offer(Nanos(3_500_000), 5, 1_000, &mut pool);
    link.offer(Nanos(3_500_000), 6, 1_000, &mut pool);
    assert_eq!(departures(&mut link, Nanos(5_000_000)), [3_500, 4_000]);
    // Full again after 3 ms, and no fuller.
    for id in 7..11 {
        link.offer(Nanos(8_000_000), id, 1_000, &mut pool);
    }
    assert_eq!(departures(&mut link, Nanos(9_500_000)), [8_000, 8_000, 8_000, 9_000]);
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
            let (mut link, mut pool) = (Link::new(&spec(burst), [].into_iter(), 1, 0), Pool::default());
            let (mut now, mut left) = (0, Vec::new());
            for (id, (gap, size)) in packets.iter().enumerate() {
                now += gap;
                proptest::prop_assert_eq!(link.offer(Nanos(now), id as u32, *size, &mut pool) == Offer::Gone, false);
            }
            while !link.next_event().is_never() {
                let at = link.next_arrival();
                proptest::prop_assert_eq!(link.arrive() as usize, left.len());
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
        link.offer(Nanos(9_000_000), id, 1_000, &mut pool);
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
        link.offer(Nanos(17_000_000), id, 1_000, &mut pool);
    }
    assert_eq!(departures(&mut link, Nanos(20_000_000)), [17_000, 17_000, 17_000, 19_000]);
    link.start_outage(Nanos(20_000_000), OutageMode::Hold, Flush::None, &mut pool);
    // 500 bytes' worth at 20 ms, 2,500 when it is over: for both that wait, and 500 remain.
    assert_eq!(link.next_event(), Nanos::MAX);
    link.end_outage(Nanos(24_000_000));
    link.offer(Nanos(24_000_000), 6, 1_000, &mut pool);
    assert_eq!(departures(&mut link, Nanos(30_000_000)), [24_000, 24_000, 25_000]);
}

#[test]
fn a_rate_change_keeps_the_bits_already_sent() {
    let spec = DirectionSpec {
        rate: vec![(Nanos(0), BitRate(8_000_000)), (Nanos(500_000), BitRate(4_000_000))],
        ..DirectionSpec::default()
    };
    let mut link = Link::new(&spec, [].into_iter(), 1, 0);
    // 1,000 bytes take 1 ms at 8 Mbit/s; half way the rate halves.
    assert_eq!(link.offer(Nanos(0), 0, 1_000, &mut Pool::default()), Offer::Held);
    link.change_rate(Nanos(500_000));
    assert_eq!(link.departs_at(), Nanos(1_500_000));
}
