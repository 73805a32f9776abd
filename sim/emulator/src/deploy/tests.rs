use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libbpf_rs::{MapCore, ObjectBuilder, ProgramInput};
use orbitcc_core::observe::fixed::{
    Decision, LAYERS, MOST_UNITS, Parameters, Program, State, Statistics, WEIGHTS, decide,
};
use orbitcc_core::rng::{Purpose, Stream};
use orbitcc_core::time::Nanos;

use super::{MAGIC, PLACEHOLDER, POLICY, checked, object, place};

/// The decisions of the BPF program for statistics from a map.
static DECIDE: &[u8] = include_bytes!("../../bpf/decide.bpf.o");
const CASES: usize = 1000;
const ROUNDS: usize = 250;

#[repr(C)]
#[derive(Clone, Copy)]
struct One {
    stats: Statistics,
    decision: Decision,
    window: u64,
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
        mss: any(random, 17) as u32,
    }
}

/// A linear policy, and networks of two layers of 64 units under each activation.
fn program(random: &mut Stream, which: u32) -> Program {
    let mut weights = [0; WEIGHTS];
    for weight in &mut weights {
        *weight = any(random, 22) as i32 * if any(random, 2) > 1 { -1 } else { 1 };
    }
    let (layers, units) =
        if which == 0 { (1, [1, 0, 0]) } else { (LAYERS as u32, [MOST_UNITS as u32, MOST_UNITS as u32, 1]) };
    let parameters = Parameters {
        min_rtt_bucket_ns: 600_000_000,
        short_rtt_bucket_ns: 100_000_000,
        max_rate_bucket_ns: if which == 1 { 0 } else { 1_000_000_000 },
        gap_ns: if which == 2 { 0 } else { 30_000_000 },
        interval_ns: 30_000_000,
        interval_rtts: 0,
        fast_rtts: 1 << 16,
        slow_rtts: 4 << 16,
        least_rtt: which % 2,
        own_queue: u32::from(which != 3),
        clip: 10 << 20,
        layers,
        units,
        activations: [which, which, 0],
        squash: u32::from(which == 1),
        step: 1 << 22,
        cubic: 11_744_051,
        floor: 4,
        pacing_gain: 1 << 16,
        hold: 1,
        unused: 0,
    };
    Program { parameters, weights }
}

fn bytes<T>(value: &T) -> &[u8] {
    // SAFETY: the structures of a policy have no padding.
    unsafe { std::slice::from_raw_parts(ptr::from_ref(value).cast(), size_of::<T>()) }
}

#[test]
fn the_bpf_program_decides_as_the_simulator_bit_for_bit() {
    let mut random = Stream::new(1, Purpose::Controller, 0);
    for which in 0..4 {
        let program = program(&mut random, which);
        let mut object = DECIDE.to_vec();
        let magic: Vec<u8> = MAGIC.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = place(&object, &magic).unwrap() + magic.len() + POLICY - size_of::<Program>();
        object[at..at + size_of::<Program>()].copy_from_slice(bytes(&program));
        let loaded = ObjectBuilder::default().open_memory(&object).unwrap().load();
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) if error.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
                eprintln!("skipped: BPF programs need root");
                return;
            }
            Err(error) => panic!("{error:#}"),
        };
        let fd = loaded.maps().find(|map| map.name() == "cases").unwrap().as_fd().as_raw_fd();
        let (length, both) = (CASES * size_of::<One>(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping of the map's memory; it stays until the process ends.
        let cases = unsafe { libc::mmap(ptr::null_mut(), length, both, libc::MAP_SHARED, fd, 0) }.cast::<One>();
        assert_ne!(cases.cast(), libc::MAP_FAILED);
        let runs = loaded.progs_mut().find(|program| program.name() == "decide_all").unwrap();
        // The verifier takes the whole program with every policy, not only with the shipped ones.
        let policy = [&[0; POLICY - size_of::<Program>()], bytes(&program)].concat();
        ObjectBuilder::default().open_memory(&super::object("all", &policy).unwrap()).unwrap().load().unwrap();
        let (mut state, mut time_ns) = (State::default(), 0);
        for _ in 0..ROUNDS {
            for k in 0..CASES {
                // SAFETY: within the mapping.
                unsafe { (*cases.add(k)).stats = statistics(&mut random, &mut time_ns) };
            }
            let done = runs.test_run(ProgramInput::default()).unwrap();
            assert_eq!(done.return_value, 0);
            for k in 0..CASES {
                // SAFETY: as above.
                let One { stats, decision, window } = unsafe { *cases.add(k) };
                let expected = decide(&program, &mut state, &stats);
                assert_eq!((decision, window), (expected, state.window), "{which}: {stats:?}");
            }
        }
    }
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
