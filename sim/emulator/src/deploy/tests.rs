use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::Arc;

use libbpf_rs::{MapCore, Object, ObjectBuilder, ProgramInput};
use orbitcc_core::rng::{Purpose, Stream};
use orbitcc_core::time::Nanos;
use orbitcc_fixed::Flow;
use orbitcc_fixed::layout::{
    AVERAGES, DELAY_PREFERENCE, Decision, EXPERTS, FEATURES, Feature, LEASTS, Layers, Limits, MOST_UNITS, MOSTS,
    Parameters, Plain, Policy, Program, SPANS, Statistics, WEIGHTS,
};

use super::{MAGIC, PLACEHOLDER, POLICY, checked, object, place};

/// The decisions of the BPF program for statistics from a map.
static DECIDE: &[u8] = include_bytes!("../../bpf/decide.bpf.o");
const CASES: usize = 1000;
const ROUNDS: usize = 200;

#[repr(C)]
#[derive(Clone, Copy)]
struct One {
    stats: Statistics,
    decision: Decision,
    window: u64,
    /// The window under the safety filter, and whether Cubic decides.
    held: u32,
    taken_over: u32,
}

/// Up to 2^bits, every magnitude equally often, and zero sometimes.
fn any(random: &mut Stream, bits: u64) -> u64 {
    let mut below = |n: u64| random.below(Nanos(n)).0;
    if below(16) == 0 { 0 } else { below(1 << 62) >> (62 - 1 - below(bits)) }
}

fn statistics(random: &mut Stream, time_ns: &mut u64) -> Statistics {
    *time_ns += any(random, 34);
    Statistics {
        time_ns: *time_ns,
        interval_ns: any(random, 42),
        rtt_mean_ns: any(random, 38),
        rtt_least_ns: any(random, 38),
        rtt_rise_ns: any(random, 38) as i64 * if any(random, 2) > 1 { -1 } else { 1 },
        srtt_ns: any(random, 38),
        ack_gap_ns: any(random, 38),
        delivery_rate: any(random, 36),
        pacing_rate: any(random, 36),
        acked_bytes: any(random, 42),
        sent_bytes: any(random, 42),
        lost: any(random, 32) as u32,
        cwnd: any(random, 22) as u32,
        in_flight: any(random, 22) as u32,
        mss: any(random, 16) as u16,
        rtos: any(random, 4) as u16,
    }
}

/// Layers over random features.
fn layers(random: &mut Stream, units: &[u32], activation: u32, at: usize) -> Layers {
    let inputs = if units.len() > 2 { FEATURES } else { MOST_UNITS } as u32;
    let mut made = Layers { inputs, count: units.len() as u32, at: at as u32, ..Layers::default() };
    made.columns.iter_mut().for_each(|column| *column = random.below(Nanos(FEATURES as u64)).0 as u8);
    made.units[..units.len()].copy_from_slice(units);
    made.activations[..units.len() - 1].fill(activation);
    made
}

/// Every kind of feature, with other windows and averages each time.
fn features(random: &mut Stream) -> [Feature; FEATURES] {
    let mut below = |n: u32| random.below(Nanos(u64::from(n))).0 as u32;
    let mut made = [Feature::default(); FEATURES];
    for (k, made) in (0..).zip(&mut made) {
        let span = if k % 3 == 0 { 0 } else { below(SPANS as u32 + 1) };
        *made = Feature {
            kind: (k + below(2)) % (DELAY_PREFERENCE + 1),
            rtt: below(3),
            min: below(LEASTS as u32),
            max: below(MOSTS as u32),
            longer: below(MOSTS as u32),
            when: below(3),
            jitters: if below(2) > 0 { below(100 << 16) } else { 0 },
            span,
            average: k % AVERAGES as u32,
            low: -4 << 20,
            high: 4 << 20,
            unused: 0,
        };
    }
    made
}

/// A linear policy, networks of two layers of 64 units under each activation, and experts weighed by a gate.
fn program(random: &mut Stream, which: u32) -> Program {
    let mut weights = [0; WEIGHTS];
    for weight in &mut weights {
        *weight = any(random, 22) as i32 * if any(random, 2) > 1 { -1 } else { 1 };
    }
    let (most, experts) = (MOST_UNITS as u32, EXPERTS as u32);
    let units: &[u32] = match which {
        0 => &[1],
        4 => &[experts],
        _ => &[most, most, 1],
    };
    let network = layers(random, units, which, 2 * FEATURES);
    let gate = layers(random, &[16, experts], 1, 2 * FEATURES + (MOST_UNITS + 1) * EXPERTS);
    let parameters = Parameters {
        least_bucket_ns: [600_000_000, 100_000_000, 25_000_000, 0, 1_000_000_000, 400_000_000, 3_000_000_000, 1],
        most_bucket_ns: [if which == 1 { 0 } else { 1_000_000_000 }, 600_000_000, 100_000_000, 400_000_000],
        gap_ns: if which == 2 { 0 } else { 30_000_000 },
        interval_ns: 30_000_000,
        drain_every_ns: if which.is_multiple_of(2) { 12_000_000_000 } else { 0 },
        drain_to: 5_000_000 * (1 + which % 3),
        occupies: 1,
        drain_spare: 16_000_000,
        unused: 0,
        network,
        gate: if which == 4 { gate } else { Layers::default() },
        span_rtts: [1 << 16, 4 << 16, 16 << 16, 64 << 16, 0, 1 << 15, 1000 << 16, 2 << 16],
        leasts: LEASTS as u32,
        mosts: MOSTS as u32,
        spans: SPANS as u32,
        features: FEATURES as u32,
        base: which % LEASTS as u32,
        standing: if which == 0 { LEASTS as u32 } else { 2 },
        usual_rtt: which % 3,
        learns: u32::from(which != 3),
        slow: if which == 1 { 0 } else { 3 },
        interval_least_ns: 1_000_000,
        interval_rtts: 0,
        clip: 10 << 20,
        squash: u32::from(which == 1),
        step: 1 << 22,
        cubic: 11_744_051,
        floor: 4,
        pacing_gain: 1 << 16,
        hold: 1,
        occupancy_range: if which.is_multiple_of(2) { 300_000 } else { 0 },
    };
    Program { parameters, features: features(random), weights }
}

/// The BPF program with a policy and limits inside; None without root.
fn loaded(policy: &[u8]) -> Option<Object> {
    let mut object = DECIDE.to_vec();
    let magic: Vec<u8> = MAGIC.iter().flat_map(|word| word.to_le_bytes()).collect();
    let at = place(&object, &magic).unwrap() + magic.len();
    object[at..at + POLICY].copy_from_slice(policy);
    match ObjectBuilder::default().open_memory(&object).unwrap().load() {
        Ok(loaded) => Some(loaded),
        Err(error) if error.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
            eprintln!("skipped: BPF programs need root");
            None
        }
        Err(error) => panic!("{error:#}"),
    }
}

/// Feed statistics to the BPF program and to the simulator's, `rounds` times a thousand, and compare all that they decide.
/// Returns how often Cubic took over or handed back.
fn compare(limits: &Limits, program: &Program, rounds: usize, mut next: impl FnMut(u32) -> Statistics) -> Option<u32> {
    let policy = [limits.bytes(), program.bytes()].concat();
    let loaded = loaded(&policy)?;
    let fd = loaded.maps().find(|map| map.name() == "cases").unwrap().as_fd().as_raw_fd();
    let (length, both) = (CASES * size_of::<One>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping of the map's memory; it stays until the process ends.
    let cases = unsafe { libc::mmap(ptr::null_mut(), length, both, libc::MAP_SHARED, fd, 0) }.cast::<One>();
    assert_ne!(cases.cast(), libc::MAP_FAILED);
    let runs = loaded.progs_mut().find(|program| program.name() == "decide_all").unwrap();
    // The verifier takes the whole program with every policy, not only with the shipped ones.
    for hold in [0, 1] {
        let parameters = Parameters { hold, ..program.parameters };
        let policy = [limits.bytes(), Program { parameters, ..*program }.bytes()].concat();
        ObjectBuilder::default().open_memory(&super::object("all", &policy).unwrap()).unwrap().load().unwrap();
    }
    let policy = Policy { limits: *limits, program: *program, ..Policy::default() };
    let (mut flow, mut cwnd, mut changes) = (Flow::new(Arc::new(policy)), 10, 0);
    for _ in 0..rounds {
        // The windows that the next thousand follow from are the simulator's.
        let mut expected = Vec::with_capacity(CASES);
        for k in 0..CASES {
            let stats = next(cwnd);
            let before = flow.safety.taken_over;
            let (decision, held) = flow.take(&stats);
            changes += u32::from(flow.safety.taken_over != before);
            cwnd = held;
            expected.push((decision, flow.state.window, held, u32::from(flow.safety.taken_over)));
            // SAFETY: within the mapping.
            unsafe { (*cases.add(k)).stats = stats };
        }
        let done = runs.test_run(ProgramInput::default()).unwrap();
        assert_eq!(done.return_value, 0);
        for (k, expected) in expected.into_iter().enumerate() {
            // SAFETY: as above.
            let One { stats, decision, window, held, taken_over } = unsafe { *cases.add(k) };
            assert_eq!((decision, window, held, taken_over), expected, "{stats:?}");
        }
    }
    Some(changes)
}

#[test]
fn the_bpf_program_decides_as_the_simulator_bit_for_bit() {
    let mut random = Stream::new(1, Purpose::Controller, 0);
    for which in 0..5 {
        let program = program(&mut random, which);
        // Without a filter, and with one whose limits random statistics meet and exceed.
        let limits = Limits {
            most_bdp: 4 << 16,
            rtt_low_ns: 1_000,
            rtt_high_ns: 300_000_000_000,
            most_rate: 1 << 33,
            most_loss: 1 << (22 + which % 3),
            patience_ns: if which > 2 { 5_000_000_000 } else { 0 },
        };
        let limits = if which == 0 { Limits::default() } else { limits };
        let mut time_ns = 0;
        let Some(_) = compare(&limits, &program, ROUNDS, |_| statistics(&mut random, &mut time_ns)) else { return };
    }
}

#[test]
fn the_bpf_programs_safety_filter_takes_over_and_hands_back_as_the_simulators() {
    let mut random = Stream::new(2, Purpose::Controller, 0);
    let program = program(&mut random, 0);
    let limits = Limits {
        most_bdp: 4 << 16,
        rtt_low_ns: 10_000_000,
        rtt_high_ns: 250_000_000,
        most_rate: 37_500_000,
        most_loss: 1_677_722, // a tenth
        patience_ns: 1_000_000_000,
    };
    // Paths for 30 s each: inside, too long, inside, too fast, inside, with too many losses.
    let (mut at, mut share) = (0_u64, 0);
    let next = |cwnd: u32| {
        let path = at / 1_000 % 6;
        at += 1;
        share = random.below(Nanos(1 << 20)).0;
        let rtt_us = (if path == 1 { 300_000 } else { 50_000 } * ((1 << 20) + share / 8)) >> 20;
        let lost = share % 100 == 0 || path == 5 && share % 3 > 0;
        let mss: u16 = 1_448;
        let rate = (if path == 3 { 50_000_000 } else { 10_000_000 } * ((1 << 20) + share % 4_096 * 64)) >> 20;
        Statistics {
            time_ns: at * 30_000_000,
            interval_ns: 30_000_000,
            rtt_mean_ns: rtt_us * 1_003,
            rtt_least_ns: rtt_us * 1_000,
            srtt_ns: rtt_us * 1_002,
            ack_gap_ns: if share % 500 == 0 { 200_000_000 } else { share },
            delivery_rate: rate,
            pacing_rate: rate,
            acked_bytes: u64::from(cwnd.min(500)) * u64::from(mss),
            sent_bytes: u64::from(cwnd.min(500)) * u64::from(mss),
            lost: if lost { 1 + cwnd / 3 } else { 0 },
            cwnd,
            in_flight: cwnd,
            mss,
            rtos: u16::from(lost && share % 5 == 0),
            ..Statistics::default()
        }
    };
    // Twice over all paths: Cubic takes over six times, and has not handed back for the sixth time at the end.
    let Some(changes) = compare(&limits, &program, 12, next) else { return };
    assert_eq!(changes, 11);
}

#[test]
fn an_object_carries_one_name_and_one_policy() {
    let policy = [7; POLICY];
    let made = object("mine", &policy).unwrap();
    assert!(place(&made, b"mine\0\0\0\0\0\0\0\0\0\0\0").is_some() && place(&made, PLACEHOLDER).is_none());
    assert!(place(&made, &policy).is_some());
    assert!(object("mine", &policy[1..]).unwrap_err().contains("a policy of"));
    for name in ["", "a-b", "sixteen_letters_", "a.b", "a/b"] {
        assert!(checked(name).is_err(), "{name}");
    }
}

#[test]
fn counters_of_an_earlier_version_are_read() {
    let seven: Vec<u8> = (1..=7u64).flat_map(u64::to_ne_bytes).collect();
    assert_eq!([0, 6, 7, 8].map(|k| super::counter(&seven, k)), [1, 7, 0, 0]);
}
