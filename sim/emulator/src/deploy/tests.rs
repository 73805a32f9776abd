use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::Arc;

use libbpf_rs::{MapCore, Object, ObjectBuilder, ProgramInput};
use orbitcc_core::rng::{Purpose, Stream};
use orbitcc_core::time::Nanos;
use orbitcc_fixed::Flow;
use orbitcc_fixed::layout::{self, Decision, Limits, Plain, Policy, Statistics};

use super::{MAGIC, PLACEHOLDER, POLICY, checked, object, place};

#[path = "../../../fixed/src/tests/random.rs"]
mod random;

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

/// What the BPF program holds of a policy.
fn data(policy: &Policy) -> &[u8] {
    &policy.bytes()[size_of_val(&MAGIC)..]
}

/// The BPF program with a policy inside; None without root.
fn loaded(policy: &Policy) -> Option<Object> {
    let mut object = DECIDE.to_vec();
    let magic: Vec<u8> = MAGIC.iter().flat_map(|word| word.to_le_bytes()).collect();
    let at = place(&object, &magic).unwrap() + magic.len();
    object[at..at + POLICY].copy_from_slice(data(policy));
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
fn compare(mut policy: Policy, rounds: usize, mut next: impl FnMut(u32) -> Statistics) -> Option<u32> {
    let loaded = loaded(&policy)?;
    let fd = loaded.maps().find(|map| map.name() == "cases").unwrap().as_fd().as_raw_fd();
    let (length, both) = (CASES * size_of::<One>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping of the map's memory; it stays until the process ends.
    let cases = unsafe { libc::mmap(ptr::null_mut(), length, both, libc::MAP_SHARED, fd, 0) }.cast::<One>();
    assert_ne!(cases.cast(), libc::MAP_FAILED);
    let runs = loaded.progs_mut().find(|program| program.name() == "decide_all").unwrap();
    // The verifier takes the whole program with every policy, not only with the shipped ones.
    for hold in [0, 1] {
        policy.program.parameters.hold = hold;
        ObjectBuilder::default().open_memory(&object("all", data(&policy)).unwrap()).unwrap().load().unwrap();
    }
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
    for which in [0, 1, 2, 1, 2] {
        let (policy, mut time_ns) = (random::policy(&mut random, which), 0);
        let Some(_) = compare(policy, ROUNDS, |_| random::statistics(&mut random, &mut time_ns)) else { return };
    }
}

#[test]
fn the_bpf_programs_safety_filter_takes_over_and_hands_back_as_the_simulators() {
    let mut random = Stream::new(2, Purpose::Controller, 0);
    let mut policy = random::policy(&mut random, 0);
    policy.limits = Limits {
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
    let Some(changes) = compare(policy, 12, next) else { return };
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
