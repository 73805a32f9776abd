//! Whatever is thrown at the simulator is refused with an error or runs to its end: nothing panics, overflows or hangs.
//!
//! `shaped` puts extreme values into fields of random networks, `text` damages their JSON, and `corpus` repeats every
//! input that once failed. This looks for more; put what it finds into `tests/corpus/`:
//!
//! `PROPTEST_CASES=1000000 cargo test --profile tested --package orbitcc-core --test fuzz`

mod common;

use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use common::networks::network;
use orbitcc_core::spec::NetworkSpec;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::{Policies, World};
use proptest::prelude::*;
use serde_json::Value;

/// A world is watched until it has seen so many events.
const EVENTS: u64 = 200_000;
/// An input that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The inputs under way, by thread, and since when.
static UNDER_WAY: Mutex<Vec<(std::thread::ThreadId, Instant, String)>> = Mutex::new(Vec::new());

/// Do `what` with an input; a process that hangs in it ends, and says so.
fn watched<T>(text: &str, what: impl FnOnce() -> T) -> T {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                if let Some((.., text)) = UNDER_WAY.lock().unwrap().iter().find(|u| u.1.elapsed() > PATIENCE) {
                    eprintln!("hangs: {text}");
                    std::process::abort();
                }
            }
        });
    });
    let me = std::thread::current().id();
    UNDER_WAY.lock().unwrap().push((me, Instant::now(), text.into()));
    let result = what();
    UNDER_WAY.lock().unwrap().retain(|u| u.0 != me);
    result
}

/// Refused, or run as far as it is affordable. Says whether it ran.
fn try_out(text: &str) -> bool {
    watched(text, || {
        let Ok(spec) = NetworkSpec::from_json(text) else { return false };
        let interval = Nanos((spec.duration.0 / 64).max(1));
        let Ok(mut world) = World::new(&spec, &Policies::new(), interval) else { return false };
        let mut end = 1_000.0;
        while !world.is_finished() && world.events() < EVENTS {
            world.run_until(Nanos(end as u64));
            world.close_intervals(|_| true);
            end *= 1.3;
        }
        if let Err(error) = common::check_conservation(&world) {
            panic!("{error}: {text}");
        }
        for flow in world.flow_totals() {
            assert!(flow.goodput_mbps.is_finite(), "{flow:?}: {text}");
        }
        for link in world.link_totals() {
            assert!(link.queue_bytes_mean.is_finite(), "{link:?}: {text}");
        }
        true
    })
}

/// Numbers at which things change.
fn extreme() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => prop::sample::select(vec![0u64, 1, 2, 10, 100, 1_460, 65_535, 65_536, 1 << 31, 1 << 32, 1 << 53, 1 << 63, u64::MAX]).prop_map(Value::from),
        3 => (0..64u32, 0..3u64).prop_map(|(bits, less)| Value::from((1u64 << bits).saturating_sub(less))),
        3 => (0..20u32).prop_map(|digits| Value::from(10u64.saturating_pow(digits))),
        1 => prop::sample::select(vec![-1.0, 0.5, 1e-9, 1e9, 1e18, 1e300, f64::MAX]).prop_map(Value::from),
        1 => prop::sample::select(vec!["", "off", "bbr3", "policy", "codel"]).prop_map(Value::from),
        1 => Just(Value::Null),
    ]
}

/// Every number and text in `value`, in order.
fn leaves(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::Array(items) => items.iter_mut().flat_map(leaves).collect(),
        Value::Object(fields) => fields.values_mut().flat_map(leaves).collect(),
        leaf => vec![leaf],
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig { max_shrink_iters: 200, ..common::cases(1_000) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn shaped(spec in network(), changes in prop::collection::vec((any::<prop::sample::Index>(), extreme()), 0..4)) {
        let mut value = serde_json::to_value(&spec).unwrap();
        for (place, extreme) in changes {
            let mut all = leaves(&mut value);
            let place = place.index(all.len());
            *all[place] = extreme;
        }
        try_out(&value.to_string());
    }

    #[test]
    fn text(spec in network(), places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..8)) {
        let mut text = serde_json::to_vec(&spec).unwrap();
        for (place, byte, how) in places {
            let place = place.index(text.len());
            match how {
                0 => text[place] = byte,
                1 => text.insert(place, byte),
                _ => text.truncate(place.max(1)),
            }
        }
        try_out(&String::from_utf8_lossy(&text));
    }
}

#[test]
fn corpus() {
    let inputs = common::corpus();
    assert!(inputs.len() > 10, "{}", inputs.len());
    for (name, text) in inputs {
        assert_eq!(try_out(&text), !name.starts_with("refused-"), "{name}");
    }
}
