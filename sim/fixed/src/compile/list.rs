//! Observations as lists of features with windows and averages.

use orbitcc_core::observe::MOST_FEATURES;
use orbitcc_core::observe::features::{AVERAGE_RTTS, SLOW_RTTS, STANDING_S, WINDOW_S};
use orbitcc_core::observe::functions::{Definition, Observation};
use serde_json::{Map, Value};

use crate::layout::*;

use super::{nanos, only, scaled};

/// Names of features, as in [`orbitcc_core::observe::features`].
const KINDS: [(&str, u32); 20] = [
    ("inflation", INFLATION),
    ("own-queue", OWN_QUEUE),
    ("queue-delay", QUEUE_DELAY),
    ("rtt-rise", RTT_RISE),
    ("delivered", DELIVERED),
    ("rate-share", RATE_SHARE),
    ("loss", LOSS),
    ("pacing-rate", PACING_RATE),
    ("min-rtt", MIN_RTT),
    ("in-flight", IN_FLIGHT),
    ("window", WINDOW),
    ("window-change", WINDOW_CHANGE),
    ("cleared", CLEARED),
    ("silence", SILENCE),
    ("jitter", JITTER),
    ("rtt-spread", RTT_SPREAD),
    ("min-rtt-ratio", MIN_RTT_RATIO),
    ("max-rate-ratio", MAX_RATE_RATIO),
    ("delay-preference", DELAY_PREFERENCE),
    ("long-path", LONG_PATH),
];

/// A feature with its windows in seconds and its average in RTTs.
#[derive(Clone, Copy, Default)]
struct Entry {
    kind: u32,
    rtt: u32,
    min_s: f64,
    max_s: f64,
    long_s: f64,
    when: u32,
    jitters: f64,
    over_s: f64,
    rtts: f64,
    /// The usual preference and the contested one.
    preference: Option<(f64, f64)>,
}

/// The list of an observation; its windows and averages become parameters.
pub(super) fn features(observation: &Observation, to: &mut Parameters) -> Result<[Feature; FEATURES], String> {
    let definition = &observation.definition;
    let list = match definition.family {
        "ratios" => ratios(definition, to)?,
        "features" => declared(definition, to)?,
        _ => {
            let name = &definition.name;
            return Err(format!("the observation {name} has no fixed-point form, only ratios and features have"));
        }
    };
    to.standing = LEASTS as u32;
    to.features = list.len() as u32;
    let told_apart = |entry: &Entry| entry.jitters > 0.0 || entry.kind == JITTER || entry.when != ALWAYS;
    if list.iter().any(told_apart) {
        to.slow = span(to, SLOW_RTTS)?;
    }
    let mut made = [Feature::default(); FEATURES];
    let mut averages = 0;
    for ((made, entry), bounds) in made.iter_mut().zip(&list).zip(&observation.features) {
        *made = feature(entry, to, &mut averages)?;
        (made.low, made.high) = (scaled(bounds.low.into(), 20), scaled(bounds.high.into(), 20));
        if let Some((usual, contested)) = entry.preference {
            (made.low, made.high) = (scaled(libm::log(contested), 20), scaled(libm::log(usual), 20));
            to.occupies |= u32::from(entry.rtts > 0.0);
        }
    }
    Ok(made)
}

/// The list that `ratios` is.
fn ratios(definition: &Definition, to: &mut Parameters) -> Result<Vec<Entry>, String> {
    only("observation", definition, &[("history", 1.into()), ("handovers", "none".into())])?;
    let number = |name: &str| definition.parameters[name].as_f64().expect("a checked number");
    let rtt = if definition.parameters["rtt"] == "least" { LEAST } else { MEAN };
    let (fast, slow) = (number("fast_rtts"), number("slow_rtts"));
    let all = Entry { rtt, min_s: number("min_rtt_window_s"), max_s: number("max_rate_window_s"), ..Entry::default() };
    let plain = |kind| Entry { kind, ..all };
    let over = |kind, rtts| Entry { kind, rtts, ..all };
    let queue = if definition.parameters["own_queue"] == true { OWN_QUEUE } else { NOTHING };
    to.gap_ns = nanos(number("gap_s"));
    to.base = window(&mut to.leasts, &mut to.least_bucket_ns, all.min_s)?;
    to.usual_rtt = rtt;
    Ok(vec![
        plain(INFLATION),
        over(INFLATION, fast),
        Entry { min_s: number("short_window_s"), ..plain(INFLATION) },
        over(RTT_RISE, fast),
        over(DELIVERED, fast),
        plain(RATE_SHARE),
        over(RATE_SHARE, slow),
        over(LOSS, fast),
        over(LOSS, 4.0 * slow),
        plain(queue),
        over(queue, fast),
        plain(PACING_RATE),
        plain(MIN_RTT),
        plain(IN_FLIGHT),
        plain(WINDOW),
        plain(WINDOW_CHANGE),
        plain(CLEARED),
        plain(SILENCE),
    ])
}

/// The list of the observation `features`.
fn declared(definition: &Definition, to: &mut Parameters) -> Result<Vec<Entry>, String> {
    only("observation", definition, &[("history", 1.into())])?;
    let number = |name: &str| definition.parameters[name].as_f64().expect("a checked number");
    to.gap_ns = nanos(number("gap_s"));
    to.base = window(&mut to.leasts, &mut to.least_bucket_ns, number("base_window_s"))?;
    to.usual_rtt = MEAN;
    to.learns = 1;
    let given = definition.parameters["features"].as_array().expect("a checked list");
    given.iter().map(|full| entry(full.as_object().expect("a table"))).collect()
}

/// An entry of the list, with its parameters in full.
fn entry(full: &Map<String, Value>) -> Result<Entry, String> {
    let word = |field: &str| full.get(field).and_then(Value::as_str).unwrap_or_default();
    let number = |field: &str| full.get(field).and_then(Value::as_f64).unwrap_or(0.0);
    let name = word("name");
    let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == name) else {
        return Err(format!("the feature {name} has no fixed-point form"));
    };
    let mut entry = Entry {
        kind: *kind,
        rtt: match word("rtt") {
            "least" => LEAST,
            "standing" => STANDING,
            _ => MEAN,
        },
        min_s: number("window_s"),
        max_s: number("window_s"),
        long_s: number("long_s"),
        when: match word("when") {
            "rising" => RISING,
            "falling" => FALLING,
            _ => ALWAYS,
        },
        jitters: number("jitters"),
        over_s: number("over_ms") / 1e3,
        rtts: number("average_rtts"),
        preference: full.get("usual").map(|_| (number("usual"), number("usual"))),
    };
    if full.contains_key("contested") {
        (entry.min_s, entry.rtts) = (WINDOW_S, AVERAGE_RTTS);
        entry.preference = Some((number("usual"), number("contested")));
    }
    Ok(entry)
}

fn feature(entry: &Entry, to: &mut Parameters, averages: &mut u32) -> Result<Feature, String> {
    let Entry { kind, rtt, when, .. } = *entry;
    let takes = |kinds: &[u32]| kinds.contains(&kind);
    let mut made = Feature { kind, rtt, when, jitters: scaled(entry.jitters, 16) as u32, ..Feature::default() };
    let contested = kind == DELAY_PREFERENCE && entry.rtts > 0.0;
    let least =
        [INFLATION, OWN_QUEUE, QUEUE_DELAY, RTT_RISE, MIN_RTT, IN_FLIGHT, WINDOW, SILENCE, MIN_RTT_RATIO, LONG_PATH];
    if contested || takes(&least) {
        made.min = window(&mut to.leasts, &mut to.least_bucket_ns, entry.min_s)?;
    }
    if kind == LONG_PATH {
        made.over = scaled(libm::log2(1e9 * entry.over_s), 24) as u32;
    }
    if takes(&[RATE_SHARE, IN_FLIGHT, WINDOW, MAX_RATE_RATIO]) {
        made.max = window(&mut to.mosts, &mut to.most_bucket_ns, entry.max_s)?;
    }
    if kind == MIN_RTT_RATIO {
        made.longer = window(&mut to.leasts, &mut to.least_bucket_ns, entry.long_s)?;
    }
    if kind == MAX_RATE_RATIO {
        made.longer = window(&mut to.mosts, &mut to.most_bucket_ns, entry.long_s)?;
    }
    if rtt == STANDING {
        to.standing = window(&mut to.leasts, &mut to.least_bucket_ns, STANDING_S)?;
    }
    if entry.rtts > 0.0 {
        made.span = span(to, entry.rtts)?;
    }
    if entry.rtts > 0.0 || kind == LOSS {
        made.average = *averages;
        *averages += 1;
        if *averages > AVERAGES as u32 {
            return Err(format!("an observation in fixed point has at most {AVERAGES} averages"));
        }
    }
    Ok(made)
}

/// Index of a window among those of its kind.
fn window<const N: usize>(count: &mut u32, buckets: &mut [u64; N], seconds: f64) -> Result<u32, String> {
    let bucket_ns = nanos(seconds / 10.0);
    let known = *count as usize;
    if let Some(at) = buckets[..known].iter().position(|bucket| *bucket == bucket_ns) {
        return Ok(at as u32);
    }
    if known == N {
        let of = if N == LEASTS { "the minimum RTT" } else { "the maximum rate" };
        return Err(format!("an observation in fixed point has at most {N} windows of {of}"));
    }
    buckets[known] = bucket_ns;
    *count += 1;
    Ok(known as u32)
}

/// The length of an average, counted from 1.
fn span(to: &mut Parameters, rtts: f64) -> Result<u32, String> {
    let (known, rtts) = (to.spans as usize, scaled(rtts, 16) as u32);
    if let Some(at) = to.span_rtts[..known].iter().position(|span| *span == rtts) {
        return Ok(at as u32 + 1);
    }
    if known == SPANS {
        return Err(format!("an observation in fixed point has averages of at most {SPANS} lengths"));
    }
    to.span_rtts[known] = rtts;
    to.spans += 1;
    Ok(to.spans)
}

// What tells the two kinds of windows apart in `window`.
const _: () = assert!(LEASTS != MOSTS);
const _: () = assert!(FEATURES == MOST_FEATURES);
