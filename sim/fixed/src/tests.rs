//! The C code: its parts against values computed by other means, and whole decisions with checks of overflows.

mod floating;
mod random;

use std::sync::Arc;

use orbitcc_core::observe::safety_filter::{self, SafetyFilter};
use orbitcc_core::observe::stats::IntervalStats;
use orbitcc_core::rng::{Purpose, Stream};

use super::{Flow, layout};

use layout::*;

const ONE20: i64 = 1 << 20;
const ONE24: i64 = 1 << 24;

/// `tested.c`: the same code with checks.
mod c {
    use super::*;

    unsafe extern "C" {
        pub safe fn tested_fixed_log2(x: u64) -> i64;
        pub safe fn tested_fixed_exp2(x: i64) -> u64;
        pub safe fn tested_fixed_tanh(x: i64) -> i64;
        pub safe fn tested_root(x: i64) -> i64;
        pub safe fn tested_ratio(a: u64, b: u64, most: i64) -> i64;
        pub safe fn tested_cube_root(x: u64) -> i64;
        pub safe fn tested_of_samples(samples: u32, sum_us: u64, placed_us: u64, stats: &mut Statistics);
        pub safe fn tested_cubic_step(safety: &mut Safety, stats: &Statistics) -> u64;
        pub safe fn tested_occupy(state: &mut State, stats: &Statistics) -> i32;
        pub safe fn tested_share_of(occupancy: &Occupancy) -> i64;
        pub safe fn tested_picked(action: i32, range: i32, share: i64) -> i32;
        pub safe fn tested_drains(p: &Parameters, drain: &mut Drain, stats: &Statistics, window: &mut u64) -> i32;
        pub safe fn tested_next_window(policy: &Policy, state: &mut State, stats: &Statistics, action: i32) -> u64;
        pub safe fn tested_act(policy: &Policy, observation: &[i32; FEATURES]) -> i32;
        pub safe fn tested_hold(
            policy: &Policy,
            safety: &mut Safety,
            state: &mut State,
            stats: &Statistics,
            asked: u32,
        ) -> u32;
        pub safe fn tested_decide(
            policy: &Policy,
            state: &mut State,
            safety: &mut Safety,
            stats: &Statistics,
            decision: &mut Decision,
        ) -> u32;
    }
}

/// A policy without features.
fn with(parameters: Parameters) -> Policy {
    Policy { program: Program { parameters, ..Program::default() }, ..Policy::default() }
}

/// In [low, high), with equal ratios equally likely.
fn between(random: &mut Stream, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.uniform())
}

#[test]
fn nothing_overflows_whatever_the_statistics_and_weights() {
    let mut random = Stream::new(1, Purpose::Controller, 0);
    for which in 0..300 {
        let policy = random::policy(&mut random, which);
        let (mut state, mut safety, mut time_ns) = (State::default(), Safety::default(), 0);
        let mut flow = Flow::new(Arc::new(policy));
        for _ in 0..40 {
            let stats = random::statistics(&mut random, &mut time_ns);
            let mut decision = Decision::default();
            let held = c::tested_decide(&policy, &mut state, &mut safety, &stats, &mut decision);
            assert!((4..=1 << 20).contains(&decision.cwnd), "{decision:?}");
            assert!(i64::from(decision.action).abs() <= ONE20, "{decision:?}");
            assert!((1..=1 << 20).contains(&held) && state.window <= 1 << 36, "{held}");
            assert_eq!((decision, held), flow.take(&stats), "the code that ships, without checks");
            assert_eq!((state, safety), (flow.state, flow.safety));
        }
    }
}

#[test]
fn means_and_rises_are_those_of_a_fitted_line() {
    let of_samples = |samples: u32, sum: u64, placed: u64| {
        let mut stats = Statistics::default();
        c::tested_of_samples(samples, sum, placed, &mut stats);
        (stats.rtt_mean_ns, stats.rtt_rise_ns)
    };
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
    let policy = with(Parameters { gap_ns: 100_000_000, learns: 1, ..Parameters::default() });
    let clears = |in_flight: u32, later_ms: u64| {
        let mut flow = Flow::new(Arc::new(policy));
        let at = Statistics { time_ns: 1_000_000_000, srtt_ns: 50_000_000, cwnd: 400, ..Statistics::default() };
        flow.take(&Statistics { in_flight, ..at });
        let time_ns = at.time_ns + later_ms * 1_000_000;
        flow.take(&Statistics { time_ns, ack_gap_ns: 300_000_000, ..at });
        flow.state.cleared == 1
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
    let mut policy = with(parameters);
    policy.program.weights = weights;
    let mut observation = [0; FEATURES];
    (observation[0], observation[1]) = (726_817, one / 2); // ln 2 and 0.5
    let action = c::tested_act(&policy, &observation);
    assert!((f64::from(action) / ONE20 as f64 + 0.1).abs() < 3e-6, "{action}");
    // Logits far apart choose one expert.
    observation[0] = 10 << 20;
    let action = f64::from(c::tested_act(&policy, &observation)) / ONE20 as f64;
    let share = 1.0 / (1.0 + 10_f64.exp());
    assert!((action - (0.5 * share - 0.4 * (1.0 - share))).abs() < 3e-6, "{action}");
}

/// Whether a drain holds the window, and the window.
fn drained(parameters: &Parameters, drain: &mut Drain, stats: &Statistics, mut window: u64) -> (bool, u64) {
    let held = c::tested_drains(parameters, drain, stats, &mut window);
    (held > 0, window)
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
        drained(&parameters, &mut drain, &stats, window << 16)
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
    assert!(!drained(&parameters, &mut drain, &slow(0, 600_000_000), 1 << 16).0);
    assert!(!drained(&parameters, &mut drain, &slow(11_900_000_000, 700_000_000), 1 << 16).0);
    assert!(drained(&parameters, &mut drain, &slow(12_100_000_000, 700_000_000), 1 << 16).0);
}

#[test]
fn the_span_near_the_minimum_is_as_in_floating_point() {
    // The cases of the test of `Drain` in floating point: 2 ms up to 200 ms, 10 ms at 600 ms.
    let parameters = Parameters { drain_every_ns: 5_000_000_000, drain_near_ns: 2_000_000, ..Parameters::default() };
    for (least_ns, near_ns) in
        [(20_000_000, 2_000_000), (120_000_000, 2_000_000), (200_000_000, 2_000_000), (600_000_000, 10_000_000)]
    {
        for (above_ns, holds) in [(near_ns - 100_000, false), (near_ns + 100_000, true)] {
            let stats = |time_ns, rtt_least_ns| Statistics {
                time_ns,
                rtt_least_ns,
                srtt_ns: 50_000_000,
                ..Statistics::default()
            };
            let mut drain = Drain::default();
            assert!(!drained(&parameters, &mut drain, &stats(0, least_ns), 1 << 16).0);
            assert_eq!(drained(&parameters, &mut drain, &stats(5_000_000_000, least_ns + above_ns), 1 << 16).0, holds);
        }
    }
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
        assert!(!drained(&parameters, &mut drain, &stats(0, least_ms), 100 << 16).0);
        for time_ms in [5_000, 5_030] {
            let (held, window) = drained(&parameters, &mut drain, &stats(time_ms, 54), 100 << 16);
            assert!(held && (window as f64 / 6_553_600.0 - share).abs() < 1e-6, "{least_ms}: {window}");
        }
        assert_eq!(drained(&parameters, &mut drain, &stats(6_000, 54), 70 << 16), (false, 100 << 16));
    }
}

#[test]
fn the_occupancy_is_as_in_floating_point() {
    use orbitcc_core::observe::occupancy::Occupancy as Floating;
    // A window that swings by 10 % about 100 packets beside 300 others, with RTTs of 20 to 431 ms and gaps.
    for (rtt_s, others) in [(0.02, 300.0), (0.05, 25.0), (0.13, 300.0), (0.431, 0.0)] {
        let (mut float, mut fixed) = (Floating::default(), State::default());
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
            c::tested_occupy(&mut fixed, &(&stats).into());
            let share = c::tested_share_of(&fixed.occupancy);
            let picked = f64::from(c::tested_picked(0, 1 << 19, share)) / ONE20 as f64;
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
    let mut policy = with(parameters);
    policy.program.weights = weights;
    let action = c::tested_act(&policy, &observation);
    assert!((f64::from(action) / ONE20 as f64 - 0.65).abs() < 1e-5, "{action}");

    // exp(0.25) = 1.2840254; exp(0.25 (0.3 0.5 + 0.7 0.125)) = 1.0611731.
    let next = |cwnd, exact, action| {
        let stats = Statistics { cwnd, ..Statistics::default() };
        let mut state = State { window: exact, ..State::default() };
        c::tested_next_window(&policy, &mut state, &stats, action) as f64 / 65_536.0
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
    let after = |halves: u64| {
        let mut state = State { window: halves << 15, ..State::default() };
        c::tested_next_window(&Policy::default(), &mut state, &stats, 0)
    };
    for (halves, kept) in [(197, false), (199, true), (201, true), (202, false), (203, false)] {
        assert_eq!(after(halves), if kept { halves << 15 } else { 100 << 16 }, "{halves} half segments");
    }
}

/// Values in units of 2^-24, computed with mpmath at 40 digits.
const LOGARITHMS: [(u64, f64); 5] = [
    (3, 26_591_258.226499),
    (10, 55_732_705.184394),
    (1_500, 177_012_157.779680),
    (1_000_000_000, 501_594_346.659544),
    ((1 << 63) + 12_345, 1_056_964_608.0),
];
const POWERS: [(f64, f64); 5] = [
    (-0.5, 11_863_283.203031),
    (-1.25, 7_053_950.396169),
    (0.3, 20_655_175.749881),
    (2.75, 112_863_206.338698),
    (-20.1, 14.928528),
];

#[test]
fn logarithms_and_exponentials_are_those_of_mpmath() {
    for (x, expected) in LOGARITHMS {
        assert!(
            (c::tested_fixed_log2(x) as f64 - expected).abs() < 16.8,
            "{x}: {} {expected}",
            c::tested_fixed_log2(x)
        );
    }
    for (x, expected) in POWERS {
        let found = c::tested_fixed_exp2((x * ONE24 as f64).round() as i64) as f64;
        assert!((found - expected).abs() <= 3e-7 * expected + 1.0, "{x}: {found} {expected}");
    }
    assert_eq!(
        [0, ONE24, -ONE24, 30 << 24, -26 << 24].map(|x| c::tested_fixed_exp2(x)),
        [1 << 24, 1 << 25, 1 << 23, 1 << 54, 0]
    );
    assert_eq!([1, 2, 1 << 40].map(|x| c::tested_fixed_log2(x)), [0, ONE24, 40 << 24]);
}

#[test]
fn errors_stay_below_those_stated_over_all_positions() {
    for position in (0..1 << 24).step_by(7) {
        let x = f64::from(position) / ONE24 as f64;
        let logarithm = c::tested_fixed_log2((1 << 24) + position as u64) as f64 / ONE24 as f64;
        assert!((logarithm - (1.0 + x).log2() - 24.0).abs() < 1e-6, "{position}");
        let power = c::tested_fixed_exp2(i64::from(position)) as f64 / ONE24 as f64;
        assert!((power / x.exp2() - 1.0).abs() < 3e-7, "{position}");
    }
}

#[test]
fn roots_and_hyperbolic_tangents_are_close_to_the_exact_ones() {
    for k in 0..=4_000 {
        let share = f64::from(k) / 4_000.0;
        let found = c::tested_root((share * (1_u64 << 32) as f64) as i64) as f64 / ONE24 as f64;
        assert!((found - share.sqrt()).abs() < 1e-6, "{share}: {found}");
        let x = 12.0 * (share - 0.5);
        let found = c::tested_fixed_tanh((x * ONE20 as f64).round() as i64) as f64 / ONE20 as f64;
        assert!((found - x.tanh()).abs() < 2e-6, "{x}: {found}");
    }
    assert_eq!(
        (
            c::tested_root(-1),
            c::tested_root(1 << 32),
            c::tested_fixed_tanh(0),
            c::tested_fixed_tanh(1 << 31),
            c::tested_fixed_tanh(-(1 << 31))
        ),
        (0, ONE24, 0, ONE20, -ONE20)
    );
}

#[test]
fn ratios_saturate() {
    assert_eq!(
        (c::tested_ratio(3, 4, ONE24), c::tested_ratio(7, 4, ONE24), c::tested_ratio(7, 0, 5)),
        (3 << 22, ONE24, 5)
    );
    assert_eq!(c::tested_ratio((1 << 40) - 1, 1, 60 << 24), 60 << 24);
}

const SEGMENT: u64 = 1 << 16;

#[test]
fn cubic_returns_to_its_maximum_after_k() {
    let cwnd = 1_000 * SEGMENT;
    let cubic = Cubic { cwnd, ssthresh: 1 << 36, w_max: cwnd, w_est: cwnd, ..Cubic::default() };
    let mut safety = Safety { cubic, ..Safety::default() };
    let stats = |time_s: f64, acked: u64| Statistics {
        time_ns: (time_s * 1e9) as u64,
        rtt_mean_ns: 55_000_000,
        acked_bytes: acked * 1_460,
        mss: 1_460,
        ..Statistics::default()
    };
    assert_eq!(c::tested_cubic_step(&mut safety, &Statistics { lost: 1, ..stats(1.0, 200) }), 700 * SEGMENT);
    // K = cbrt(300 / 0.4) = 9.09 s; at K the window is back at its maximum (RFC 9438, section 4.2).
    let mut t = 1.0;
    while t < 1.0 + 9.09 {
        t += 0.055;
        let acked = safety.cubic.cwnd / SEGMENT;
        c::tested_cubic_step(&mut safety, &stats(t, acked));
    }
    assert!(safety.cubic.cwnd.abs_diff(1_000 * SEGMENT) < 5 * SEGMENT, "{}", safety.cubic.cwnd / SEGMENT);
    let timeout = Statistics { lost: 1, rtos: 1, ..stats(t + 1.0, 0) };
    assert_eq!(c::tested_cubic_step(&mut safety, &timeout), SEGMENT);
    assert!(safety.cubic.ssthresh.abs_diff(700 * SEGMENT) < 5 * SEGMENT);
    assert_eq!(c::tested_cubic_step(&mut safety, &stats(t + 1.1, 10)), 11 * SEGMENT, "slow start");
}

#[test]
fn cube_roots_are_within_their_error() {
    for (segments, root) in [(1.0, 1.0), (750.0, 9.085_602_964), (2_621_440.0, 137.883_820_2)] {
        let found = c::tested_cube_root((segments * 65_536.0) as u64) as f64 / f64::from(1 << 18);
        assert!((found - root).abs() < 5e-6 * root, "{segments}: {found}");
    }
    assert_eq!(c::tested_cube_root(0), 0);
}

/// A safety filter and its state; the window that it makes of another, and of the policy's exact one.
struct Filter(Policy, Safety, State);

impl Filter {
    fn new(limits: &safety_filter::Limits) -> Filter {
        Filter(Policy { limits: limits.into(), ..Policy::default() }, Safety::default(), State::default())
    }

    fn hold(&mut self, stats: &IntervalStats, asked: u32) -> (u32, f64) {
        self.2.window = u64::from(asked) << 16;
        let held = c::tested_hold(&self.0, &mut self.1, &mut self.2, &stats.into(), asked);
        (held, self.2.window as f64 / 65_536.0)
    }
}

fn inside() -> safety_filter::Limits {
    let limits = safety_filter::Limits::default();
    safety_filter::Limits { min_rtt_ms: (10.0, 250.0), max_rate_mbps: 300.0, max_loss: 0.1, ..limits }
}

/// A flow over 50 ms.
fn measured(delivery_rate_bps: f64) -> IntervalStats {
    IntervalStats {
        time_s: 1.0,
        interval_s: 0.03,
        delivery_rate_bps,
        rtt_mean_s: 0.055,
        rtt_min_s: 0.051,
        srtt_s: 0.054,
        min_rtt_s: 0.05,
        cwnd_packets: 400.0,
        mss_bytes: 1460.0,
        ..IntervalStats::default()
    }
}

#[test]
fn the_window_is_bounded_by_what_was_measured() {
    // 90 Mbit/s over 51 ms. Segments are in units of 2^-8 before they are multiplied by four.
    for (mss_bytes, most) in [(1_460.0, 4.0 * 573_750.0 / 1_460.0), (8_948.0, 4.0 * 573_750.0 / 8_948.0)] {
        let stats = IntervalStats { mss_bytes, ..measured(90e6) };
        let (held, window) = Filter::new(&inside()).hold(&stats, 1 << 19);
        assert!(held == most as u32 && (window - most).abs() < 4.0 / 256.0, "{held} {window} {most}");
    }
    assert_eq!(Filter::new(&inside()).hold(&IntervalStats::default(), 77), (77, 77.0), "nothing is measured yet");
}

#[test]
fn the_safety_filter_takes_over_hands_back_and_holds_as_in_floating_point() {
    // Thirty seconds inside of the range and thirty outside, in turn: too long, too short, too fast, with too many losses.
    let mut random = Stream::new(1, Purpose::Controller, 0);
    let (mut float, mut fixed) = (SafetyFilter::new(inside()), Filter::new(&inside()));
    let (mut cwnd, mut changes) = (100, 0);
    for k in 0..8_000 {
        let path = if k / 1_000 % 2 > 0 { k / 2_000 } else { 9 };
        let rtt_s = [0.3, 0.008].get(path).unwrap_or(&0.05) * (1.0 + 0.1 * random.uniform());
        let rate = if path == 2 { 4e7 } else { 1e6 + 1e7 * random.uniform() };
        let acked_packets = (10.0 + 90.0 * random.uniform()).floor();
        let lost_packets = if path == 3 { 20.0 } else { f64::from(u8::from(random.uniform() < 0.01)) };
        let stats = IntervalStats {
            time_s: 1.0 + 0.03 * k as f64,
            rtt_min_s: (rtt_s * 1e6).round() / 1e6,
            rtt_mean_s: ((rtt_s + 0.002) * 1e6).round() / 1e6,
            acked_packets,
            acked_rate_bps: acked_packets * 1460.0 * 8.0 / 0.03,
            lost_packets,
            rtos: if random.uniform() < 0.1 { lost_packets } else { 0.0 },
            cwnd_packets: f64::from(cwnd),
            ..measured(8.0 * rate.round())
        };
        let asked = (if path == 9 { 5_000.0 * random.uniform() } else { 20.0 }).floor();
        let (before, mut window) = (float.has_taken_over(), asked);
        let held = float.hold(&stats, (asked as u32, None), &mut window).0;
        let (also, exact) = fixed.hold(&stats, asked as u32);
        assert_eq!(float.has_taken_over(), fixed.1.taken_over > 0, "{k}");
        changes += u32::from(before != float.has_taken_over());
        let apart = (window - exact).abs();
        assert!(apart < 0.05 + 1e-3 * window && held.abs_diff(also) <= 1 + held / 1_000, "{k}: {window} {exact}");
        cwnd = held;
    }
    assert_eq!(changes, 7, "over at 30, 90, 150 and 210 s, back at 60, 120 and 180 s, each a while later");
}
