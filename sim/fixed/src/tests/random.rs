//! Random policies and statistics. The tests of the emulator include this file, too.

use orbitcc_core::rng::Stream;

use super::layout::*;

/// Every number of bits equally often.
fn wide(random: &mut Stream) -> u64 {
    let bits = random.next_u64() % 65;
    if bits == 0 { 0 } else { random.next_u64() >> (64 - bits) }
}

fn below(random: &mut Stream, n: usize) -> u32 {
    (random.next_u64() % n as u64) as u32
}

/// Layers over random columns.
fn layers(random: &mut Stream, units: &[u32], at: u32) -> Layers {
    let mut made = Layers { inputs: FEATURES as u32, count: units.len() as u32, at, ..Layers::default() };
    made.columns.iter_mut().for_each(|column| *column = below(random, FEATURES) as u8);
    made.units[..units.len()].copy_from_slice(units);
    made.activations.iter_mut().for_each(|activation| *activation = below(random, LEAKY_RELU as usize + 1));
    made
}

fn feature(random: &mut Stream, k: u32) -> Feature {
    Feature {
        kind: (k + below(random, 2)) % (QUEUE_DELAY + 1),
        rtt: below(random, RTTS),
        min: below(random, LEASTS),
        max: below(random, MOSTS),
        longer: below(random, MOSTS),
        when: below(random, 3),
        jitters: below(random, 2) * below(random, (100 << 16) + 1),
        span: below(random, SPANS + 1),
        average: k % AVERAGES as u32,
        low: -4 << 20,
        high: 4 << 20,
        over: below(random, 63 << 24),
    }
}

/// A linear policy, two hidden layers, or experts weighed by a gate; then the same with large weights.
pub fn policy(random: &mut Stream, which: u32) -> Policy {
    const MOST: u32 = MOST_UNITS as u32;
    const MIXED: u32 = EXPERTS as u32;
    let units: [&[u32]; 3] = [&[1], &[MOST, MOST, 1], &[MIXED]];
    let network = layers(random, units[which as usize % 3], 2 * FEATURES as u32);
    let gate = layers(random, &[32, MIXED], 2 * FEATURES as u32 + (FEATURES as u32 + 1) * MIXED);
    let bucket = 1 + random.next_u64() % 1_000_000_000;
    let parameters = Parameters {
        least_bucket_ns: [0; LEASTS].map(|_: u64| bucket * u64::from(below(random, 4))),
        most_bucket_ns: [0; MOSTS].map(|_: u64| bucket * u64::from(below(random, 4))),
        gap_ns: if which < 3 { 30_000_000 } else { wide(random) >> 27 },
        drain_every_ns: wide(random) >> 20,
        drain_to: below(random, 1 << 24),
        occupies: 1,
        drain_spare: below(random, 1 << 24),
        network,
        gate: if which % 3 == 2 { gate } else { Layers::default() },
        span_rtts: [0; SPANS].map(|_: u32| wide(random) as u32 % 65_536_001),
        leasts: LEASTS as u32,
        mosts: MOSTS as u32,
        spans: SPANS as u32,
        features: FEATURES as u32,
        base: below(random, LEASTS),
        standing: below(random, LEASTS + 1),
        usual_rtt: below(random, RTTS),
        learns: below(random, 2),
        slow: below(random, SPANS + 1),
        clip: 1 + (random.next_u64() >> 35) as i32,
        squash: below(random, TANH as usize + 1),
        step: below(random, 2 << 24) as i32,
        cubic: below(random, 1 << 24) as i32,
        floor: 4,
        occupancy_range: (below(random, 2) * below(random, 2 << 20)) as i32,
        ..Parameters::default()
    };
    let mut made = Policy::default();
    made.program.parameters = parameters;
    for (k, feature) in (0..).zip(&mut made.program.features) {
        *feature = self::feature(random, k);
    }
    for weight in &mut made.program.weights {
        *weight = match which / 3 % 3 {
            0 => (1 - 2 * below(random, 2) as i32) * (below(random, 1 << 20) >> below(random, 20)) as i32,
            1 => random.next_u64() as i32 >> 4,
            _ => 1 << 27,
        };
    }
    made.limits = match which {
        0 => Limits::default(),
        // These statistics meet and exceed them.
        1..3 => Limits {
            most_bdp: 4 << 16,
            rtt_low_ns: 1_000,
            rtt_high_ns: 300_000_000_000,
            most_rate: 1 << 33,
            most_loss: 1 << 23,
            patience_ns: 5_000_000_000,
        },
        _ => Limits {
            most_bdp: wide(random) >> 38,
            rtt_low_ns: wide(random) >> 34,
            rtt_high_ns: wide(random) >> 24,
            most_rate: wide(random) >> 30,
            most_loss: wide(random) >> 40,
            patience_ns: wide(random) >> 20,
        },
    };
    made
}

/// Statistics of any size. Time mostly goes on.
pub fn statistics(random: &mut Stream, time_ns: &mut u64) -> Statistics {
    let later = time_ns.saturating_add(wide(random) >> 30);
    *time_ns = if below(random, 1024) > 0 { later } else { wide(random) >> below(random, 30) };
    Statistics {
        time_ns: *time_ns,
        interval_ns: wide(random),
        rtt_mean_ns: wide(random) >> 20,
        rtt_least_ns: wide(random) >> below(random, 40),
        rtt_rise_ns: wide(random) as i64,
        srtt_ns: wide(random) >> 20,
        ack_gap_ns: wide(random),
        delivery_rate: wide(random) >> below(random, 40),
        pacing_rate: wide(random),
        acked_bytes: wide(random),
        sent_bytes: wide(random),
        lost: wide(random) as u32,
        cwnd: wide(random) as u32,
        in_flight: wide(random) as u32,
        mss: wide(random) as u16,
        rtos: wide(random) as u16,
    }
}
