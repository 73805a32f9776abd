//! Whole policies against floating point, and policies that have no fixed-point form.

use std::sync::Arc;

use orbitcc_core::observe::functions::Interval;
use orbitcc_core::observe::policy::{Activation, Answer, Gate, Layer, Network, Policy, Squash};
use orbitcc_core::observe::registry;
use orbitcc_core::observe::stats::IntervalStats;
use orbitcc_core::rng::{Purpose, Stream};
use orbitcc_core::time::Nanos;
use serde_json::{Value, json};

use super::{ONE20, between};
use crate::{Flow, compile};

/// Statistics of a random path, in the resolution of the simulator.
fn random_stats(random: &mut Stream, k: u64, path_s: f64) -> IntervalStats {
    let silent = random.next_u64().is_multiple_of(20);
    let longest_gap_s = if random.next_u64().is_multiple_of(30) { 0.2 } else { 0.01 };
    let whole = |x: f64| (x * 1e6).round() / 1e6;
    let least_s = whole(path_s * between(random, 1.0, 3.0));
    let mean_s = whole(least_s * between(random, 1.0, 1.5)) + 0.37e-6;
    let rate = between(random, 1e4, 6e7).round();
    let acked = if silent { 0.0 } else { (rate * 0.03 * between(random, 0.5, 2.0)).round() };
    IntervalStats {
        time_s: 5.007 + 0.03 * k as f64,
        interval_s: 0.03,
        rtt_mean_s: if silent { f64::NAN } else { mean_s },
        rtt_min_s: if silent { f64::NAN } else { least_s },
        rtt_rise_s: if silent { 0.0 } else { path_s * (between(random, 0.9, 1.1) - 1.0) },
        srtt_s: least_s,
        ack_gap_s: between(random, 1e-4, longest_gap_s),
        delivery_rate_bps: if silent { 0.0 } else { 8.0 * rate },
        pacing_rate_bps: if k < 3 { 0.0 } else { 8.0 * between(random, 1e4, 6e7).round() },
        send_rate_bps: 8.0 * 1448.0 * (random.next_u64() % 100) as f64 / 0.03,
        acked_rate_bps: 8.0 * acked / 0.03,
        acked_packets: acked / 1448.0,
        lost_packets: between(random, 0.3, 30.0).floor(),
        cwnd_packets: between(random, 4.0, 5e3).round(),
        in_flight_packets: (random.next_u64() % 3_000) as f64,
        mss_bytes: 1448.0,
        ..IntervalStats::default()
    }
}

fn layer(inputs: usize, units: usize, activation: Activation) -> Layer {
    let weight = |n: usize| (0..n).map(|k| libm::sinf(1.0 + k as f32)).collect();
    Layer { inputs, weight: weight(inputs * units), bias: weight(units), norm: None, activation }
}

fn network() -> Network {
    Network {
        layers: vec![
            layer(18, 8, Activation::Relu),
            layer(8, 4, Activation::LeakyRelu),
            layer(4, 1, Activation::Linear),
        ],
        gate: None,
        normaliser: Some((vec![0.1; 18], vec![0.5; 18])),
        clip: 5.0,
        squash: Squash::Tanh,
    }
}

/// Four linear experts, weighed by a gate.
fn mixture(inputs: usize) -> Network {
    let chosen: Vec<_> = (0..inputs).filter(|k| k % 3 > 0).collect();
    Network {
        layers: vec![layer(inputs - 1, 4, Activation::Linear)],
        gate: Some(Gate {
            layers: vec![layer(chosen.len(), 16, Activation::Tanh), layer(16, 4, Activation::Linear)],
            inputs: chosen,
            expert_inputs: (1..inputs).collect(),
        }),
        normaliser: Some((vec![0.1; inputs], vec![2.0; inputs])),
        clip: 10.0,
        squash: Squash::Tanh,
    }
}

/// A list with every feature that has a fixed-point form.
fn list() -> Value {
    let queue = |rtt: &str, window_s: f64, jitters: f64, average_rtts: f64| {
        json!({"name": "own-queue", "rtt": rtt, "window_s": window_s, "jitters": jitters,
            "average_rtts": average_rtts})
    };
    let loss = |when: &str, rtts: f64| json!({"name": "loss", "when": when, "average_rtts": rtts});
    json!({"name": "features", "base_window_s": 7.0, "features": [
        {"name": "inflation", "rtt": "least", "window_s": 6},
        {"name": "inflation", "window_s": 1, "average_rtts": 1},
        {"name": "inflation", "rtt": "standing", "jitters": 2},
        queue("least", 6.0, 0.0, 0.0), queue("standing", 4.0, 2.0, 1.0), queue("mean", 0.0, 0.5, 4.0),
        {"name": "rtt-rise", "window_s": 6, "average_rtts": 1},
        {"name": "delivered", "average_rtts": 1},
        "rate-share", {"name": "rate-share", "window_s": 1, "average_rtts": 4},
        loss("always", 0.0), loss("always", 16.0), loss("rising", 64.0), loss("falling", 64.0),
        "pacing-rate", {"name": "min-rtt", "window_s": 6}, {"name": "in-flight", "window_s": 6},
        {"name": "window", "window_s": 4}, "window-change", "cleared", {"name": "silence", "window_s": 6},
        "jitter", "rtt-spread", {"name": "rtt-spread", "average_rtts": 16},
        {"name": "min-rtt-ratio", "window_s": 1, "long_s": 10},
        {"name": "max-rate-ratio", "window_s": 1, "long_s": 10},
        {"name": "delay-preference", "usual": 0.2, "contested": 0.02},
        {"name": "long-path", "window_s": 6, "over_ms": 40},
        {"name": "queue-delay", "rtt": "least", "window_s": 6, "average_rtts": 1},
        {"name": "queue-delay", "rtt": "standing", "jitters": 2},
    ]})
}

fn floating(network: &Network, observation: Value, action: Value) -> Policy {
    let decides = Arc::new(network.clone());
    Policy {
        begin: Box::new(move || Box::new(Arc::clone(&decides))),
        observation: Arc::new(registry::observation(&observation).unwrap()),
        action: Arc::new(registry::action(&action).unwrap()),
        interval: Interval::fixed(Nanos::from_millis(30)),
        safety_filter: None,
    }
}

fn decided(policy: &Policy, observation: &[f32]) -> f32 {
    match (policy.begin)().decide(0, observation, &IntervalStats::default()) {
        Ok(Answer::Action(action)) => action,
        _ => panic!("a network answers with an action"),
    }
}

/// How far apart a feature may be.
fn bound(meaning: &str) -> f64 {
    match meaning {
        _ if meaning.contains("square root") => 2e-4, // roots of shares of losses, which are in units of 2^-32
        _ if meaning.contains("queued") => 1e-3, // ln(1 + bytes / MSS) / 4 of whole bytes, and of RTTs in units of 64 ns
        _ if meaning.contains("1 ms") => 1e-3,   // ln(1 + time / 1 ms) / 4 above a floor of several jitters
        _ if meaning.contains("delay counts") => 2e-2, // where the occupancies of random statistics differ by 1e-2
        _ => 1e-5,
    }
}

/// Compare a policy in both arithmetics over 500 random intervals of a path.
fn compare(network: &Network, observation: &Value, action: &Value, path_s: f64, random: &mut Stream) {
    let float = floating(network, observation.clone(), action.clone());
    let mut flow = Flow::new(Arc::new(compile(network, &float).unwrap()));
    let (mut watch, mut cwnd, mut most_bps) = (float.observation.watch.clone(), 100, 0.0_f64);
    for k in 0..500 {
        let stats = random_stats(random, k, path_s);
        most_bps = most_bps.max(stats.delivery_rate_bps);
        let stats = IntervalStats { cwnd_packets: f64::from(cwnd), max_delivery_rate_bps: most_bps, ..stats };
        let decision = flow.take(&(&stats).into()).0;
        let mut seen = vec![0.0; float.observation.features.len()];
        watch.fill(&stats, &mut seen);
        let exact = decision.observation.map(|x| (f64::from(x) / ONE20 as f64) as f32);
        for ((seen, exact), feature) in seen.iter().zip(&exact).zip(&float.observation.features) {
            let apart = f64::from(((*seen as f32).clamp(feature.low, feature.high) - exact).abs());
            assert!(apart < bound(&feature.meaning), "{path_s} {k} {}: {seen} {exact}", feature.meaning);
        }
        let action = f64::from(decision.action) / ONE20 as f64;
        let apart = action - f64::from(decided(&float, &exact[..seen.len()]));
        assert!(apart.abs() < 1e-4, "{observation} {k}");
        cwnd = if k % 50 == 49 { 100 } else { decision.cwnd }; // as after a timeout
    }
}

#[test]
fn features_and_actions_are_those_in_floating_point() {
    let ratios = [
        json!("ratios"),
        json!({"name": "ratios", "rtt": "least", "min_rtt_window_s": 6.0}),
        json!({"name": "ratios", "min_rtt_window_s": 0.0, "max_rate_window_s": 1.7, "gap_s": 0.0, "slow_rtts": 0.0}),
        json!({"name": "ratios", "own_queue": false, "fast_rtts": 0.5, "short_window_s": 0.3}),
        json!("features"),
    ];
    let drains = json!({
        "name": "log-window", "drain_every_s": 2.0, "drain_to": 0.75, "drain_margin": 0.1,
        "drain_near_ms": 2.0, "occupancy_range": 0.3
    });
    let mut random = Stream::new(7, Purpose::Controller, 0);
    for path_s in [0.002, 0.05, 0.6] {
        for request in &ratios {
            compare(&network(), request, &json!("log-window"), path_s, &mut random);
        }
        compare(&mixture(30), &list(), &drains, path_s, &mut random);
        compare(&mixture(30), &list(), &json!("log-window"), path_s, &mut random);
    }
}

#[test]
fn what_has_no_fixed_point_form_is_refused_with_its_reason() {
    let refused = |network: &Network, observation: Value, action: Value| {
        compile(network, &floating(network, observation, action)).err().unwrap()
    };
    let (plain, ratios, log) = (network(), json!("ratios"), json!("log-window"));
    let of = |observation: Value| refused(&plain, observation, log.clone());
    assert_eq!(of(json!("astraea")), "the observation astraea has no fixed-point form, only ratios and features have");
    let oracle = "observation.handovers = \"true\" has no fixed-point form, only \"none\" has";
    assert_eq!(of(json!("ratios-oracle")), oracle);
    let listed = |entries: Value| of(json!({"name": "features", "features": entries}));
    for feature in ["marks", "next-handover"] {
        assert_eq!(listed(json!(["cleared", feature])), format!("the feature {feature} has no fixed-point form"));
    }
    let every = |field: &str, count: u32| -> Value {
        (1..=count).map(|k| json!({"name": "inflation", field: k})).collect::<Vec<_>>().into()
    };
    let windows = "an observation in fixed point has at most 8 windows of the minimum RTT";
    assert_eq!(listed(every("window_s", 9)), windows);
    let lengths = "an observation in fixed point has averages of at most 8 lengths";
    assert_eq!(listed(every("average_rtts", 9)), lengths);
    let losses = vec!["loss"; 17];
    assert_eq!(listed(json!(losses)), "an observation in fixed point has at most 16 averages");
    let history = "observation.history = 2 has no fixed-point form, only 1 has";
    assert_eq!(of(json!({"name": "ratios", "history": 2})), history);
    let by = |action: Value| refused(&plain, ratios.clone(), action);
    assert_eq!(by(json!("orca")), "the action orca has no fixed-point form, only log-window has");
    let rate = "action.moves = \"rate\" has no fixed-point form, only \"window\" has";
    assert_eq!(by(json!("log-rate")), rate);
    let changed = |change: &dyn Fn(&mut Network)| {
        let mut network = network();
        change(&mut network);
        refused(&network, ratios.clone(), log.clone())
    };
    assert_eq!(
        changed(&|network| network.layers[0].bias = vec![0.0; 65]),
        "layers[0]: 65 units; a layer in fixed point has at most 64"
    );
    assert_eq!(
        changed(&|network| network.layers[2].weight[1] = -200.0),
        "layers[2].weight = -200: a network in fixed point has values below 128"
    );
    let heavy = |network: &mut Network| {
        network.layers =
            vec![layer(18, 64, Activation::Tanh), layer(64, 64, Activation::Tanh), layer(64, 1, Activation::Linear)];
        network.gate = Some(Gate {
            layers: vec![layer(18, 64, Activation::Tanh), layer(64, 64, Activation::Tanh)],
            inputs: (0..18).collect(),
            expert_inputs: (0..18).collect(),
        });
    };
    let mut wide = network();
    heavy(&mut wide);
    wide.gate.as_mut().unwrap().layers[1] = layer(64, 16, Activation::Linear);
    wide.layers[2] = layer(64, 16, Activation::Linear);
    let sum = 2 * (18 + 1) * 64 + (64 + 1) * (64 + 16 + 16);
    let most = format!("{sum} weights: a network in fixed point has at most 8096");
    assert_eq!(refused(&wide, ratios.clone(), log.clone()), most);
    heavy(&mut wide);
    let experts = "64 experts: a network in fixed point has at most 16";
    assert_eq!(refused(&wide, ratios.clone(), log.clone()), experts);
    let deep = changed(&|network| network.layers.push(network.layers[2].clone()));
    assert_eq!(deep, "4 layers: a network in fixed point has at most 3");
}
