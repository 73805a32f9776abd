use super::arithmetic::ONE20;
use super::network::{LINEAR, RELU, TANH};
use super::*;

/// Splitmix64 (Steele et al., 2014).
pub(super) struct Random(pub u64);

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

#[test]
fn nothing_overflows_whatever_the_statistics_and_weights() {
    let mut random = Random(1);
    for _ in 0..300 {
        let bucket = random.wide() >> 20;
        let parameters = Parameters {
            min_rtt_bucket_ns: bucket,
            short_rtt_bucket_ns: bucket / 6,
            max_rate_bucket_ns: bucket,
            gap_ns: random.wide() >> 27,
            fast_rtts: random.wide() as u32 % 65_536_001,
            slow_rtts: random.wide() as u32 % 65_536_001,
            least_rtt: random.next() as u32 & 1,
            own_queue: random.next() as u32 & 1,
            clip: 1 + (random.next() >> 35) as i32,
            layers: 3,
            units: [64, 64, 1],
            activations: [RELU, TANH, LINEAR],
            squash: random.next() as u32 & TANH,
            step: (random.next() % (2 << 24)) as i32,
            cubic: (random.next() % (1 << 24)) as i32,
            floor: 4,
            ..Parameters::default()
        };
        let mut weights = [0; WEIGHTS];
        let top = random.next();
        weights.iter_mut().for_each(|w| *w = if top & 1 > 0 { 1 << 27 } else { random.next() as i32 >> 4 });
        let program = Program { parameters, weights };
        let mut state = State::default();
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
                mss: random.wide() as u32,
            };
            let decision = decide(&program, &mut state, &stats);
            assert!((4..=1 << 20).contains(&decision.cwnd), "{decision:?}");
            assert!(i64::from(decision.action).abs() <= ONE20, "{decision:?}");
        }
    }
}

#[test]
fn means_and_rises_are_those_of_a_fitted_line() {
    use ratios::of_samples;
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
fn a_hand_computed_network_and_window() {
    // Inputs 3 and -1 are normalised to (3 - 1) / 2 = 1 and -1; hidden: 1 - 2 = -1 -> 0 and -1 - 0.5 + 1 = -0.5 -> 0, or
    // with the opposite sign 1 and 0.5; out: 0.1 + 0.5 + 0.05.
    let one = 1 << 20;
    let mut weights = [0; WEIGHTS];
    weights[0] = one;
    weights[FEATURES..2 * FEATURES].fill(one);
    weights[FEATURES] = one / 2;
    let layer = 2 * FEATURES;
    let unit = layer + FEATURES + 1;
    (weights[layer], weights[layer + 1]) = (-one, -2 * one);
    (weights[unit], weights[unit + 1], weights[unit + FEATURES]) = (one, -one / 2, -one);
    let last = unit + FEATURES + 1;
    (weights[last], weights[last + 1], weights[last + 2]) = (one / 10, one, one / 20);
    let parameters = Parameters {
        clip: 10 << 20,
        layers: 2,
        units: [2, 1, 0],
        activations: [RELU, LINEAR, 0],
        step: 1 << 22,
        cubic: 11_744_051, // 0.7
        floor: 4,
        ..Parameters::default()
    };
    let mut observation = [0; FEATURES];
    (observation[0], observation[1]) = (3 << 20, -1 << 20);
    let action = network::act(&parameters, &weights, &observation);
    assert!((f64::from(action) / ONE20 as f64 - 0.65).abs() < 1e-5, "{action}");

    // exp(0.25) = 1.2840254; exp(0.25 (0.3 0.5 + 0.7 0.125)) = 1.0611731.
    let next = |cwnd, exact, action| network::next_window(&parameters, cwnd, exact, action) as f64 / 65_536.0;
    let start = 1_000 << 16;
    assert!((next(1_000, start, one) - 1284.0254).abs() < 1e-3);
    assert!((next(1_000, start, -one) - 1000.0 / 1.2840254).abs() < 1e-3);
    assert!((next(1_000, start + (1 << 15), one / 2) - 1_000.5 * 1.0611731).abs() < 1e-3);
    assert_eq!([next(1_000, 0, 0), next(2, 0, 0), next(u32::MAX, 0, one)], [1_000.0, 4.0, f64::from(1 << 20)]);
}

#[test]
fn the_exact_window_goes_on_unless_something_else_has_changed_the_window() {
    // Windows of 100 segments, and exact ones beside them in 65,536ths of a segment; an action of 0 keeps the window.
    let after = |halves: u64| super::network::next_window(&Parameters::default(), 100, halves << 15, 0);
    for (halves, kept) in [(197, false), (199, true), (201, true), (202, false), (203, false)] {
        assert_eq!(after(halves), if kept { halves << 15 } else { 100 << 16 }, "{halves} half segments");
    }
}
