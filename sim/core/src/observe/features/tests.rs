use super::*;
use crate::observe::registry;
use crate::observe::testing::{flow, hard_cases};

fn watch(features: Value) -> Box<dyn Watch> {
    registry::observation(&json!({"name": "features", "features": features})).unwrap().watch
}

/// The value of each feature after these intervals.
fn seen<const N: usize>(watch: &mut Box<dyn Watch>, stats: &[IntervalStats]) -> [f64; N] {
    let mut out = [0.0; N];
    stats.iter().for_each(|s| watch.fill(s, &mut out));
    out
}

fn refused(features: Value) -> String {
    registry::observation(&json!({"name": "features", "features": features})).err().unwrap()
}

#[test]
fn jitter_raises_the_floor_and_the_standing_rtt_does_not_see_it() {
    let of = |rtt: &str, jitters: f64| json!({"name": "inflation", "rtt": rtt, "jitters": jitters});
    let mut watch = watch(json!([of("mean", 0.0), of("least", 0.0), of("standing", 0.0), of("least", 2.0), "jitter"]));
    // The least RTT alternates between 50 and 60 ms, in steps of a fifth of the minimum; the mean is 65 ms.
    let intervals: Vec<_> = (0..4_000)
        .map(|k| IntervalStats {
            time_s: 0.03 * f64::from(k),
            rtt_min_s: if k % 2 == 0 { 0.06 } else { 0.05 },
            rtt_mean_s: 0.065,
            ..flow(0.9)
        })
        .collect();
    let even: [f64; 5] = seen(&mut watch, &intervals[..3_999]);
    assert!((even[0] - 1.3f64.ln()).abs() < 1e-12 && (even[1] - 1.2f64.ln()).abs() < 1e-12, "{even:?}");
    assert_eq!(even[2], 0.0, "the least of a quarter of a second is the minimum");
    assert!((even[4] - 1.2f64.ln()).abs() < 1e-9, "steps of 10 ms over 50 ms");
    // The floor is the minimum and two jitters: 50 + 20 ms, above every sample; the observer clips at 0.
    assert!((even[3] - (0.06f64 / 0.07).ln()).abs() < 1e-9, "{even:?}");
}

#[test]
fn losses_are_told_apart_by_the_rtt() {
    let when = |when: &str| json!({"name": "loss", "when": when});
    let mut watch = watch(json!([when("always"), when("rising"), when("falling")]));
    let lossy = |rtt_mean_s| IntervalStats { rtt_mean_s, lost_packets: 25.0, acked_packets: 75.0, ..flow(0.9) };
    let calm = IntervalStats { rtt_mean_s: 0.06, acked_packets: 75.0, ..flow(0.9) };
    let first: [f64; 3] = seen(&mut watch, &[calm, calm, lossy(0.09)]);
    assert_eq!(first, [0.5, 0.5, 0.0], "with an RTT above its average a share of 0.25 is the flow's own");
    let later: [f64; 3] = seen(&mut watch, &[calm, calm, lossy(0.055)]);
    assert_eq!(later, [0.5, 0.5, 0.5], "and below it, that of the link; the other keeps its value");
}

#[test]
fn marks_are_a_share_of_what_was_acknowledged() {
    let mut watch = watch(json!(["marks", {"name": "marks", "average_rtts": 1}]));
    let marked = |marked_packets, acked_packets| IntervalStats {
        marked_packets,
        acked_packets,
        interval_s: 0.01,
        rtt_min_s: 0.05,
        ..flow(0.9)
    };
    // Intervals of 10 ms at a minimum RTT of 50 ms weigh 1 - exp(-1/5) each.
    let w = 1.0 - (-0.2f64).exp();
    let found: [f64; 2] = seen(&mut watch, &[marked(0.0, 40.0), marked(10.0, 40.0)]);
    assert_eq!(found[0], 0.25);
    assert!((found[1] - 0.25 * w).abs() < 1e-12, "{found:?}");
    let silent: [f64; 2] = seen(&mut watch, &[marked(0.0, 0.0)]);
    assert_eq!(silent[0], 0.0);
    assert!((silent[1] - 0.25 * w * (1.0 - w)).abs() < 1e-12, "{silent:?}");
}

#[test]
fn extremes_of_two_windows_are_compared() {
    let mut watch = watch(json!([
        {"name": "min-rtt-ratio", "window_s": 1.0, "long_s": 10.0},
        {"name": "max-rate-ratio", "window_s": 1.0, "long_s": 10.0},
        "rtt-spread",
    ]));
    let at = |time_s, rtt_min_s, share| IntervalStats { time_s, rtt_min_s, rtt_mean_s: 0.088, ..flow(share) };
    let found: [f64; 3] = seen(&mut watch, &[at(1.0, 0.04, 0.8), at(5.0, 0.08, 0.4)]);
    let wanted = [2f64.ln(), 0.5f64.ln(), 1.1f64.ln()];
    assert!(found.iter().zip(wanted).all(|(x, y)| (x - y).abs() < 1e-12), "{found:?}");
}

#[test]
fn a_frame_of_the_link_becomes_usual() {
    let mut list = watch(json!(["cleared"]));
    let mut ratios = registry::observation(&json!("ratios")).unwrap().watch;
    let frames: Vec<_> =
        (0..100).map(|k| IntervalStats { time_s: 0.05 * f64::from(k), ack_gap_s: 0.05, ..flow(0.9) }).collect();
    let [age]: [f64; 1] = seen(&mut list, &frames);
    assert!(age < 0.2, "cleared by the first pauses only");
    let found: [f64; 18] = seen(&mut ratios, &frames);
    assert_eq!(found[16], 1.0, "`ratios` has its windows cleared at every frame");
}

#[test]
fn a_list_stays_in_its_bounds_whatever_happens() {
    let every: Vec<_> = KINDS.iter().map(|kind| kind.text).collect();
    let function = registry::observation(&json!({"name": "features", "features": every})).unwrap();
    let mut observer = crate::observe::functions::Observer::new(std::sync::Arc::new(function.clone()));
    for stats in hard_cases().iter().chain(&[flow(0.5), flow(1.0)]).cycle().take(200) {
        observer.push(stats);
        for (x, feature) in observer.observation().iter().zip(function.labels()) {
            assert!((feature.low.min(0.0)..=feature.high).contains(x), "{}: {x}", feature.meaning);
        }
    }
}

#[test]
fn a_wrong_entry_is_named() {
    assert!(refused(json!([])).contains("features = 0 features: must be 1 to 48"));
    let unknown = refused(json!(["inflation", "speed"]));
    assert!(unknown.starts_with("observation.features[1].name = \"speed\": must be one of inflation,"), "{unknown}");
    let parameter = refused(json!([{"name": "delivered", "rtt": "least"}]));
    assert_eq!(parameter, "observation.features[0].rtt = \"least\": unknown; delivered takes average_rtts");
    let range = refused(json!([{"name": "inflation", "jitters": -1}]));
    assert_eq!(range, "observation.features[0].jitters = -1: must be a number in 0 .. 100");
    let choice = refused(json!([{"name": "loss", "when": "often"}]));
    assert_eq!(choice, "observation.features[0].when = \"often\": must be one of always, rising, falling");
    assert!(refused(json!([7])).starts_with("observation.features[0] = 7:"));
}

#[test]
fn a_definition_states_every_parameter() {
    let made = registry::observation(&json!({"name": "features", "features": ["cleared", "min-rtt"]})).unwrap();
    let full = json!([{"name": "cleared"}, {"name": "min-rtt", "window_s": 10.0, "average_rtts": 0.0}]);
    assert_eq!(made.definition.parameters["features"], full);
    assert_eq!(made.features[1].meaning, "ln(minimum RTT / 50 ms), window of 10 s");
}

#[test]
fn a_pause_that_the_sender_made_itself_clears_nothing() {
    let mut watch = watch(json!(["cleared", "inflation"]));
    // srtt is 54 ms; the minimum RTT is 51 ms.
    let calm = |time_s| IntervalStats { time_s, ack_gap_s: 0.001, rtt_min_s: 0.051, ..flow(0.9) };
    let cut = |time_s| IntervalStats { cwnd_packets: 200.0, in_flight_packets: 390.0, ..calm(time_s) };
    let paused = |time_s| IntervalStats { ack_gap_s: 0.1, rtt_min_s: 0.08, ..calm(time_s) };
    let before: Vec<_> = (0..100).map(|k| calm(0.03 * f64::from(k))).collect();
    let _: [f64; 2] = seen(&mut watch, &before);
    let after: [f64; 2] = seen(&mut watch, &[cut(3.0), paused(3.09)]);
    assert_eq!(after[0], 0.0, "within two RTTs of the cut");
    assert!((after[1] - (0.055f64 / 0.051).ln()).abs() < 1e-9, "the minimum still counts: {after:?}");
    let later: [f64; 2] = seen(&mut watch, &[paused(3.2)]);
    assert_eq!(later[0], 1.0, "more than two RTTs later it is a pause of the path");
}

#[test]
fn a_long_path_and_the_queue_in_milliseconds() {
    let long = json!({"name": "long-path", "over_ms": 25});
    let mut watch = watch(json!(["long-path", long, {"name": "queue-delay", "rtt": "mean"}]));
    // Minimum RTT 51 ms: below 300 ms and ln(51 / 25) above 25 ms; mean RTT 55 ms: 4 ms of queue.
    let found: [f64; 3] = seen(&mut watch, &[flow(0.9)]);
    assert_eq!(found[0], 0.0);
    assert!(
        (found[1] - (51.0f64 / 25.0).ln()).abs() < 1e-12 && (found[2] - 5f64.ln() / 4.0).abs() < 1e-12,
        "{found:?}"
    );
    assert!(refused(json!([{"name": "long-path", "over_ms": 0}])).contains("over_ms"));
}

#[test]
fn a_preference_is_that_of_the_flow_or_the_usual_one() {
    let list = json!([{"name": "delay-preference", "usual": 0.5}, "delay-preference"]);
    for (asked, expected) in [(0.0, [-std::f64::consts::LN_2, 0.0]), (0.25, [-2.0 * std::f64::consts::LN_2; 2])] {
        let values: [f64; 2] =
            seen(&mut watch(list.clone()), &[IntervalStats { delay_preference: asked, ..flow(1.0) }]);
        assert!(values.iter().zip(expected).all(|(value, e)| (value - e).abs() < 1e-12), "{asked}: {values:?}");
    }
    let low = refused(json!([{"name": "delay-preference", "usual": 0.0}]));
    assert_eq!(low, "observation.features[0].usual = 0: must be a number in 0.01 .. 1");
}

/// Intervals of a flow with 100 packets in flight, which swing by 10 %, and an RTT of 80 ms after an empty queue with 50 ms.
/// `rate`: Mbit/s for such packets an RTT earlier.
fn contested(rate: fn(f64) -> f64, asked: f64) -> f64 {
    let list = json!([{"name": "delay-preference", "usual": 0.1, "contested": 0.01}]);
    let mut watch = watch(list);
    let mut flights = vec![100.0; 4];
    let mut found = [0.0];
    for k in 0..800 {
        let time_s = 0.03 * f64::from(k);
        let in_flight_packets = 100.0 * (1.0 + 0.1 * (4.0 * time_s).sin());
        let rtt_s = if k == 0 { 0.05 } else { 0.08 };
        // An RTT ago the last interval that had ended was the third before this one.
        let delivery_rate_bps = 1e6 * rate(flights[flights.len() - 3]);
        flights.push(in_flight_packets);
        found = seen(
            &mut watch,
            &[IntervalStats {
                in_flight_packets,
                delivery_rate_bps,
                rtt_min_s: rtt_s,
                rtt_mean_s: rtt_s,
                srtt_s: rtt_s,
                delay_preference: asked,
                time_s,
                ..flow(1.0)
            }],
        );
    }
    found[0]
}

#[test]
fn a_preference_gives_way_to_the_queue_of_others() {
    // A queueing delay of 30 ms is 0.3 of the minimum RTT and 50 ms: with (1 - occupancy)^2 above a fifth, the preference is
    // the contested one.
    let (usual, least) = (0.1f64.ln(), 0.01f64.ln());
    let beside_many = contested(|flight| 80.0 * flight / (flight + 900.0), 0.0);
    assert!((beside_many - least).abs() < 1e-9, "a tenth of the queue is its own: {beside_many}");
    // Alone, (1 - 0.98)^2 x 0.3 is two thousandths of what counts in full.
    let alone = contested(|_| 80.0, 0.0);
    assert!((alone - usual).abs() < 0.01, "alone: {alone}");
    // With 70 % of the queue, 0.09 x 0.3 / 0.06 = 0.45 of the way; 4 % of the estimate are its prior of a half.
    let most = contested(|flight| 80.0 * flight / (flight + 43.0), 0.0);
    let way = (usual - most) / (usual - least);
    assert!((0.4..0.57).contains(&way), "{way}");
    assert_eq!(
        contested(|flight| 80.0 * flight / (flight + 900.0), 0.2),
        0.2f64.ln(),
        "a flow that asks has what it asks"
    );
    let high = refused(json!([{"name": "delay-preference", "usual": 0.05, "contested": 0.5}]));
    assert_eq!(high, "observation.features[0].contested = 0.5: must be a number in 0.01 .. 0.05 (usual)");
}
