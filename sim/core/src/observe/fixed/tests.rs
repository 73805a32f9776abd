use super::arithmetic::ONE20;
use crate::observe::stats::IntervalStats;

use super::features::DELAY_PREFERENCE;
use super::network::{LEAKY_RELU, LINEAR, RELU, TANH};
use super::*;

/// Splitmix64 (Steele et al., 2014).
pub(in crate::observe) struct Random(pub u64);

impl Random {
    /// In [low, high), with equal ratios equally likely.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf((self.next() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// With every number of bits equally often.
    fn wide(&mut self) -> u64 {
        let bits = self.next() % 65;
        if bits == 0 { 0 } else { self.next() >> (64 - bits) }
    }
}

/// Layers over random columns.
fn layers(random: &mut Random, units: &[u32], at: usize) -> Layers {
    let mut made = Layers { inputs: FEATURES as u32, count: units.len() as u32, at: at as u32, ..Layers::default() };
    made.columns.iter_mut().for_each(|column| *column = (random.next() % FEATURES as u64) as u8);
    made.units[..units.len()].copy_from_slice(units);
    made.activations.iter_mut().for_each(|activation| *activation = random.next() as u32 % (LEAKY_RELU + 1));
    made
}

fn feature(random: &mut Random, k: usize) -> Feature {
    let mut below = |n: usize| (random.next() % n as u64) as u32;
    Feature {
        kind: below(DELAY_PREFERENCE as usize + 1),
        rtt: below(3),
        min: below(LEASTS),
        max: below(MOSTS),
        long: below(MOSTS),
        when: below(3),
        jitters: below((100 << 16) + 1),
        span: below(SPANS + 1),
        average: (k % AVERAGES) as u32,
        low: -4 << 20,
        high: 4 << 20,
        unused: 0,
    }
}

#[test]
fn nothing_overflows_whatever_the_statistics_and_weights() {
    let mut random = Random(1);
    for round in 0..300 {
        let bucket = random.wide() >> 20;
        let network = layers(&mut random, if round % 2 == 0 { &[64, 1] } else { &[16] }, 2 * FEATURES);
        let gate = layers(&mut random, &[32, 16], 2 * FEATURES + network.weights());
        let parameters = Parameters {
            least_bucket_ns: [bucket; LEASTS].map(|b| b / (1 + random.next() % 8)),
            most_bucket_ns: [bucket; MOSTS],
            gap_ns: random.wide() >> 27,
            drain_every_ns: random.wide() >> 20,
            drain_to: (random.next() % (1 << 24)) as u32,
            occupies: 1,
            drain_spare: (random.next() % (1 << 24)) as u32,
            network,
            gate: if round % 2 == 0 { Layers::default() } else { gate },
            span_rtts: [0; SPANS].map(|_: u32| random.wide() as u32 % 65_536_001),
            leasts: LEASTS as u32,
            mosts: MOSTS as u32,
            spans: SPANS as u32,
            features: FEATURES as u32,
            standing: random.next() as u32 % (LEASTS as u32 + 1),
            usual_rtt: random.next() as u32 % 3,
            learns: random.next() as u32 & 1,
            slow: random.next() as u32 % (SPANS as u32 + 1),
            clip: 1 + (random.next() >> 35) as i32,
            squash: random.next() as u32 & TANH,
            step: (random.next() % (2 << 24)) as i32,
            cubic: (random.next() % (1 << 24)) as i32,
            floor: 4,
            occupancy_range: (random.next() % (2 << 20)) as i32,
            ..Parameters::default()
        };
        let mut features = [Feature::default(); FEATURES];
        (0..FEATURES).for_each(|k| features[k] = feature(&mut random, k));
        let mut weights = [0; WEIGHTS];
        let top = random.next();
        weights.iter_mut().for_each(|w| *w = if top & 1 > 0 { 1 << 27 } else { random.next() as i32 >> 4 });
        let program = Program { parameters, features, weights };
        assert!(program.fits());
        let mut state = State::default();
        let limits = safety::Limits {
            most_bdp: random.wide() >> 38,
            rtt_low_ns: random.wide() >> 34,
            rtt_high_ns: random.wide() >> 24,
            most_rate: random.wide() >> 30,
            most_loss: random.wide() >> 40,
            patience_ns: random.wide() >> 20,
        };
        let mut filter = safety::Safety::default();
        for _ in 0..20 {
            let stats = Statistics {
                time_ns: random.wide(),
                interval_ns: random.wide(),
                rtt_mean_ns: random.wide(),
                rtt_least_ns: random.wide(),
                rtt_rise_ns: random.wide() as i64,
                srtt_ns: random.wide(),
                ack_gap_ns: random.wide(),
                delivery_rate: random.wide(),
                pacing_rate: random.wide(),
                acked_bytes: random.wide(),
                sent_bytes: random.wide(),
                lost: random.wide() as u32,
                cwnd: random.wide() as u32,
                in_flight: random.wide() as u32,
                mss: random.wide() as u16,
                rtos: random.wide() as u16,
            };
            let decision = decide(&program, &mut state, &stats);
            assert!((4..=1 << 20).contains(&decision.cwnd), "{decision:?}");
            assert!(i64::from(decision.action).abs() <= ONE20, "{decision:?}");
            let held = safety::hold(&limits, &mut filter, &stats, decision.cwnd, &mut state.window);
            assert!((1..=1 << 20).contains(&held) && state.window <= 1 << 36, "{held}");
        }
    }
}

#[test]
fn means_and_rises_are_those_of_a_fitted_line() {
    use measures::of_samples;
    let of = |samples: &[u64]| {
        let placed = samples.iter().zip(0..).map(|(us, k)| us * k).sum();
        of_samples(samples.len() as u32, samples.iter().sum(), placed)
    };
    assert_eq!((of(&[]), of(&[50_000])), ((0, 0), (50_000_000, 0)));
    assert_eq!(of(&[50_000, 51_000]), (50_500_000, 1_000_000));
    let ramp: Vec<u64> = (0..100).map(|k| 50_000 + 10 * k).collect();
    assert_eq!(of(&ramp), (50_495_000, 500_000));
    let fall: Vec<u64> = ramp.iter().rev().copied().collect();
    assert_eq!(of(&fall), (50_495_000, -500_000));
    // As many samples as are allowed, of 69 s: the rise of half of 2^17 us.
    let (n, low) = (1_u64 << 17, 68_000_000);
    let placed = (0..n).map(|k| k * (low + k)).sum();
    let (mean, rise) = of_samples(n as u32, (0..n).map(|k| low + k).sum(), placed);
    assert_eq!((mean, rise / 1_000_000), (68_065_535_500, 65));
}

#[test]
fn a_pause_soon_after_more_than_1_05_windows_were_in_flight_is_the_senders_own() {
    let parameters = Parameters { gap_ns: 100_000_000, learns: 1, ..Parameters::default() };
    let clears = |in_flight: u32, later_ms: u64| {
        let mut state = State::default();
        let at = Statistics { time_ns: 1_000_000_000, srtt_ns: 50_000_000, cwnd: 400, ..Statistics::default() };
        measures::measure(&parameters, &mut state, &Statistics { in_flight, ..at });
        let time_ns = at.time_ns + later_ms * 1_000_000;
        measures::measure(&parameters, &mut state, &Statistics { time_ns, ack_gap_ns: 300_000_000, ..at });
        state.cleared == 1
    };
    // 1.05 x 400 = 420 segments; two smoothed RTTs are 100 ms.
    assert!(clears(420, 100));
    assert!(!clears(421, 100));
    assert!(clears(421, 101));
}

/// Layers that begin at `at` and take these columns.
fn first(at: usize, columns: [u8; 2]) -> Layers {
    let mut made = Layers { at: at as u32, ..Layers::default() };
    made.columns[..2].copy_from_slice(&columns);
    made
}

#[test]
fn a_hand_computed_mixture() {
    // As in floating point: experts 0.5 and -0.4; logits 0 and ln 2, so that the weights are 1/3 and 2/3.
    let one = 1 << 20;
    let mut weights = [0; WEIGHTS];
    weights[FEATURES..2 * FEATURES].fill(one);
    let (experts, gate) = (2 * FEATURES, 2 * FEATURES + 4);
    weights[experts..experts + 4].copy_from_slice(&[one, 0, -one, one / 10]);
    weights[gate..gate + 6].copy_from_slice(&[0, 0, 0, one, one / 2, 0]);
    let parameters = Parameters {
        clip: 10 << 20,
        network: Layers { inputs: 1, count: 1, units: [2, 0, 0], ..first(experts, [1, 0]) },
        gate: Layers { inputs: 2, count: 1, units: [2, 0, 0], ..first(gate, [0, 2]) },
        ..Parameters::default()
    };
    let program = Program { parameters, features: [Feature::default(); FEATURES], weights };
    let mut observation = [0; FEATURES];
    (observation[0], observation[1]) = (726_817, one / 2); // ln 2 and 0.5
    let action = network::act(&program, &observation);
    assert!((f64::from(action) / ONE20 as f64 + 0.1).abs() < 3e-6, "{action}");
    // Logits far apart choose one expert.
    observation[0] = 10 << 20;
    let action = f64::from(network::act(&program, &observation)) / ONE20 as f64;
    let share = 1.0 / (1.0 + 10_f64.exp());
    assert!((action - (0.5 * share - 0.4 * (1.0 - share))).abs() < 3e-6, "{action}");
}

#[test]
fn a_drain_is_as_in_floating_point() {
    let parameters = Parameters { drain_every_ns: 5_000_000_000, drain_to: 10_066_330, ..Parameters::default() };
    let mut drain = Drain::default();
    let mut step = |time_ms: u64, rtt_us: u64, window: u64| {
        let stats = Statistics {
            time_ns: time_ms * 1_000_000,
            interval_ns: 30_000_000,
            rtt_least_ns: rtt_us * 1_000,
            srtt_ns: 50_000_000,
            ..Statistics::default()
        };
        drain.step(&parameters, &stats, window << 16)
    };
    // The intervals and the windows of the test of `Drain` in floating point.
    let (free, hold) = ((false, 100 << 16), (true, 60 << 16));
    assert_eq!([step(0, 40_000, 100), step(2_000, 41_000, 100), step(6_900, 42_000, 100)], [free; 3]);
    assert_eq!([step(7_000, 42_000, 100), step(7_130, 41_500, 60)], [hold; 2]);
    assert_eq!(step(7_140, 41_800, 60), free, "the window from before the drain");
    assert_eq!([step(12_000, 42_500, 100), step(16_900, 50_000, 100)], [free; 2]);
    assert_eq!(step(17_000, 0, 100), free, "a drain waits for an RTT");
    assert_eq!(step(17_000, 50_000, 100), hold);
    // Twenty smoothed RTTs apart.
    let slow =
        |time_ns, rtt_least_ns| Statistics { time_ns, rtt_least_ns, srtt_ns: 600_000_000, ..Statistics::default() };
    let mut drain = Drain::default();
    assert!(!drain.step(&parameters, &slow(0, 600_000_000), 1 << 16).0);
    assert!(!drain.step(&parameters, &slow(11_900_000_000, 700_000_000), 1 << 16).0);
    assert!(drain.step(&parameters, &slow(12_100_000_000, 700_000_000), 1 << 16).0);
}

#[test]
fn a_drain_with_a_margin_is_as_in_floating_point() {
    // The cases of the test of `Drain` in floating point: to 0.9 x 50 / 55 = 0.818 of the window, and to 0.7.
    let parameters = Parameters {
        drain_every_ns: 5_000_000_000,
        drain_to: 11_744_051,    // 0.7
        drain_spare: 15_099_494, // 0.9
        ..Parameters::default()
    };
    for (least_ms, share) in [(50, 0.9 * 50.0 / 55.0), (40, 0.7)] {
        let stats = |time_ms: u64, rtt_ms: u64| Statistics {
            time_ns: time_ms * 1_000_000,
            rtt_least_ns: rtt_ms * 1_000_000,
            srtt_ns: 55_000_000,
            ..Statistics::default()
        };
        let mut drain = Drain::default();
        assert!(!drain.step(&parameters, &stats(0, least_ms), 100 << 16).0);
        for time_ms in [5_000, 5_030] {
            let (held, window) = drain.step(&parameters, &stats(time_ms, 54), 100 << 16);
            assert!(held && (window as f64 / 6_553_600.0 - share).abs() < 1e-6, "{least_ms}: {window}");
        }
        assert_eq!(drain.step(&parameters, &stats(6_000, 54), 70 << 16), (false, 100 << 16));
    }
}

#[test]
fn the_occupancy_is_as_in_floating_point() {
    // A window that swings by 10 % about 100 packets beside 300 others, with RTTs of 20 to 431 ms and gaps.
    for (rtt_s, others) in [(0.02, 300.0), (0.05, 25.0), (0.13, 300.0), (0.431, 0.0)] {
        let (mut float, mut fixed) = (crate::observe::occupancy::Occupancy::default(), Occupancy::default());
        let mut flights = Vec::new();
        let mut last = 0.0;
        for k in 0..2_000_u32 {
            let time_s = 0.03 * f64::from(k);
            let flight = (1_000.0 * (1.0 + 0.1 * (2.0 * time_s).sin())).round();
            flights.push((time_s, flight));
            let earlier = flights.iter().rev().find(|(at, _)| *at <= time_s - rtt_s).map_or(flight, |(_, x)| *x);
            let rate_bps = 80e6 * earlier / (earlier + 10.0 * others);
            let stats = IntervalStats {
                time_s,
                interval_s: 0.03,
                in_flight_packets: flight,
                delivery_rate_bps: rate_bps,
                rtt_min_s: if k % 17 == 0 { f64::NAN } else { rtt_s },
                ..IntervalStats::default()
            };
            last = float.update(&stats);
            fixed.update(&Statistics::from(&stats));
            let picked = f64::from(occupancy::picked(0, 1 << 19, fixed.share())) / ONE20 as f64;
            assert!((picked - 0.5 * (1.0 - 2.0 * last)).abs() < 2e-3, "{rtt_s} {k}: {picked} {last}");
        }
        let share = 100.0 / (100.0 + others);
        assert!((last - share).abs() < 0.08, "{rtt_s}: {last} {share}");
    }
}

#[test]
fn a_hand_computed_network_and_window() {
    // Inputs 3 and -1 are normalised to (3 - 1) / 2 = 1 and -1; hidden: 1 - 2 = -1 -> 0 and -1 - 0.5 + 1 = -0.5 -> 0, or
    // with the opposite sign 1 and 0.5; out: 0.1 + 0.5 + 0.05.
    let one = 1 << 20;
    let mut weights = [0; WEIGHTS];
    weights[0] = one;
    weights[FEATURES..2 * FEATURES].fill(one);
    weights[FEATURES] = one / 2;
    let layer = 2 * FEATURES;
    let of_two = [-one, -2 * one, 0, one, -one / 2, -one];
    weights[layer..layer + 6].copy_from_slice(&of_two);
    weights[layer + 6..layer + 9].copy_from_slice(&[one / 10, one, one / 20]);
    let network =
        Layers { inputs: 2, count: 2, units: [2, 1, 0], activations: [RELU, LINEAR, 0], ..first(layer, [0, 5]) };
    let parameters = Parameters {
        clip: 10 << 20,
        network,
        step: 1 << 22,
        cubic: 11_744_051, // 0.7
        floor: 4,
        ..Parameters::default()
    };
    let mut observation = [0; FEATURES];
    (observation[0], observation[5]) = (3 << 20, -1 << 20);
    let program = Program { parameters, features: [Feature::default(); FEATURES], weights };
    let action = network::act(&program, &observation);
    assert!((f64::from(action) / ONE20 as f64 - 0.65).abs() < 1e-5, "{action}");

    // exp(0.25) = 1.2840254; exp(0.25 (0.3 0.5 + 0.7 0.125)) = 1.0611731.
    let next = |cwnd, exact, action| {
        let stats = Statistics { cwnd, ..Statistics::default() };
        network::next_window(&parameters, &stats, exact, &mut Drain::default(), 0, action) as f64 / 65_536.0
    };
    let start = 1_000 << 16;
    assert!((next(1_000, start, one) - 1284.0254).abs() < 1e-3);
    assert!((next(1_000, start, -one) - 1000.0 / 1.2840254).abs() < 1e-3);
    assert!((next(1_000, start + (1 << 15), one / 2) - 1_000.5 * 1.0611731).abs() < 1e-3);
    assert_eq!([next(1_000, 0, 0), next(2, 0, 0), next(u32::MAX, 0, one)], [1_000.0, 4.0, f64::from(1 << 20)]);
}

#[test]
fn the_exact_window_goes_on_unless_something_else_has_changed_the_window() {
    // Windows of 100 segments, and exact ones beside them in 65,536ths of a segment; an action of 0 keeps the window.
    let stats = Statistics { cwnd: 100, ..Statistics::default() };
    let after =
        |halves: u64| network::next_window(&Parameters::default(), &stats, halves << 15, &mut Drain::default(), 0, 0);
    for (halves, kept) in [(197, false), (199, true), (201, true), (202, false), (203, false)] {
        assert_eq!(after(halves), if kept { halves << 15 } else { 100 << 16 }, "{halves} half segments");
    }
}
