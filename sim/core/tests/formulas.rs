//! Frozen vectors of every observation, reward and of the global state: raw statistics in, numbers out.
//!
//! The expected numbers were worked out apart from the simulator, from Astraea's equations and released code
//! (`transform_state`), Orca's and Aurora's released code, and the tables of docs/presets.md.

use std::sync::Arc;

use orbitcc_core::observe::astraea::global_state;
use orbitcc_core::observe::functions::{Observer, Payment};
use orbitcc_core::observe::history::{History, RewardedFlow};
use orbitcc_core::observe::registry::{observation, reward};
use orbitcc_core::observe::stats::IntervalStats;
use serde_json::{Value, json};

/// Four intervals: a plain one, one with losses, silence of 30 ms, and a longer path after a pause of 45 ms. Segments of
/// 1,250 bytes.
fn intervals() -> [IntervalStats; 4] {
    let plain = IntervalStats {
        time_s: 10.0,
        interval_s: 0.03,
        active: 1.0,
        goodput_bps: 40e6,
        delivery_rate_bps: 40e6,
        max_delivery_rate_bps: 50e6,
        send_rate_bps: 42e6,
        acked_rate_bps: 39e6,
        rtt_mean_s: 0.06,
        rtt_min_s: 0.055,
        rtt_rise_s: 0.001,
        srtt_s: 0.058,
        min_rtt_s: 0.05,
        rtt_samples: 80.0,
        ack_gap_s: 0.002,
        acked_packets: 100.0,
        cwnd_packets: 200.0,
        ssthresh_packets: 300.0,
        pacing_rate_bps: 45e6,
        packets_out: 180.0,
        in_flight_packets: 180.0,
        mss_bytes: 1250.0,
        base_rtt_s: 0.05,
        capacity_bps: 60e6,
        buffer_bytes: 750_000.0,
        link_loss: 0.01,
        fair_share_bps: 20e6,
        ..IntervalStats::default()
    };
    let lossy = IntervalStats {
        time_s: 10.03,
        delivery_rate_bps: 48e6,
        acked_rate_bps: 44e6,
        rtt_mean_s: 0.08,
        rtt_min_s: 0.07,
        rtt_rise_s: -0.002,
        srtt_s: 0.066,
        rtt_samples: 90.0,
        cwnd_packets: 240.0,
        lost_packets: 25.0,
        lost_bytes: 31_250.0,
        retrans_out: 12.0,
        packets_out: 260.0,
        in_flight_packets: 220.0,
        ..plain
    };
    let silent = IntervalStats {
        time_s: 10.06,
        delivery_rate_bps: 0.0,
        acked_rate_bps: 0.0,
        acked_packets: 0.0,
        rtt_mean_s: f64::NAN,
        rtt_min_s: f64::NAN,
        rtt_rise_s: 0.0,
        rtt_samples: 0.0,
        ack_gap_s: 0.03,
        srtt_s: 0.066,
        cwnd_packets: 240.0,
        packets_out: 300.0,
        ..plain
    };
    let longer = IntervalStats {
        time_s: 10.09,
        delivery_rate_bps: 30e6,
        acked_rate_bps: 28e6,
        rtt_mean_s: 0.1,
        rtt_min_s: 0.09,
        rtt_rise_s: 0.004,
        srtt_s: 0.07,
        ack_gap_s: 0.045,
        cwnd_packets: 150.0,
        packets_out: 140.0,
        in_flight_packets: 140.0,
        pacing_rate_bps: 33e6,
        ..plain
    };
    [plain, lossy, silent, longer]
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (k, (x, want)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*x) - want).abs() < 2e-6, "{what}, feature {k}: {x}, expected {want}");
    }
}

/// The newest row of the observation after each of the four intervals.
#[track_caller]
fn check(request: Value, expected: [&[f64]; 4]) {
    let mut observer = Observer::new(Arc::new(observation(&request).unwrap()));
    for (k, (stats, expected)) in intervals().iter().zip(expected).enumerate() {
        observer.push(stats);
        let newest = &observer.observation()[observer.observation().len() - expected.len()..];
        assert_close(newest, expected, &format!("{request}, interval {k}"));
    }
}

#[test]
fn ratios() {
    check(
        json!("ratios"),
        [
            &[
                0.087011, 0.087011, 0.087011, 0.181818, -0.143101, 0.0, 0.0, 0.0, 0.0, 0.761131, 0.761131, 0.752039,
                0.09531, -0.200671, -0.09531, 0.0, 0.0, 0.036364,
            ],
            &[
                0.374693, 0.207959, 0.374693, -0.047503, -0.092386, 0.0, 0.0, 0.289973, 0.081874, 1.198948, 0.945198,
                0.752039, 0.09531, -0.182322, -0.09531, 0.729286, 0.0, 0.036364,
            ],
            &[
                0.0, 0.0, 0.0, 0.0, -3.0, -3.0, -3.0, 0.240396, 0.08092, 0.0, 0.0, 0.752039, 0.470004, -0.798508,
                -0.510826, 0.0, 1.0, 0.375,
            ],
            &[
                0.105361, 0.105361, 0.105361, 0.444444, -0.164303, 0.0, 0.0, 0.203491, 0.080081, 0.858497, 0.858497,
                0.596961, 0.587787, -0.65678, -0.587787, -1.880015, 1.0, 0.5,
            ],
        ],
    );
}

#[test]
fn astraea() {
    check(
        json!("astraea"),
        [
            &[0.8, 1.2, 1.16, 0.74752, 0.625, 0.1, 0.0, 0.9, 0.9, 0.0],
            &[0.96, 1.6, 1.32, 0.897024, 0.625, 0.1, 0.166667, 1.083333, 0.9, 0.05],
            &[0.5, 2.0, 1.32, 0.897024, 0.625, 0.1, 0.0, 1.25, 0.9, 0.0],
            &[0.6, 2.0, 1.4, 0.56064, 0.625, 0.1, 0.0, 0.933333, 0.66, 0.0],
        ],
    );
}

#[test]
fn orca() {
    check(
        json!("orca"),
        [
            &[0.8, 0.9, 0.0, 0.4, 0.03, 0.862069, 1.0],
            &[0.96, 0.9, 0.833333, 0.375, 0.03, 0.757576, 0.94697],
            &[0.0, 0.9, 0.0, 0.0, 0.03, 0.757576, 0.94697],
            &[0.6, 0.66, 0.0, 0.533333, 0.03, 0.714286, 0.892857],
        ],
    );
}

#[test]
fn aurora() {
    check(
        json!("aurora"),
        [&[0.033333, 1.2, 1.076923], &[-0.066667, 1.6, 0.954545], &[0.0, 1.32, 1.0], &[0.133333, 2.0, 1.5]],
    );
}

#[test]
fn histories_are_stacked_oldest_first() {
    let mut observer = Observer::new(Arc::new(observation(&json!({"name": "aurora", "history": 3})).unwrap()));
    intervals()[..2].iter().for_each(|stats| observer.push(stats));
    let rows = [0.0, 0.0, 0.0, 0.033333, 1.2, 1.076923, -0.066667, 1.6, 0.954545];
    assert_close(observer.observation(), &rows, "two of three intervals");
}

/// The first, second and fourth interval as flows of one world, with three, two and five past throughputs.
fn pay(request: Value, utilisation: f64) -> f64 {
    let [a, b, _, d] = intervals();
    let past = [&[3e6, 4e6, 5e6][..], &[6e6, 6e6], &[1e6, 2e6, 3e6, 4e6, 5e6]];
    let histories = past.map(|bytes_per_s| {
        let mut history = History::default();
        for rate in bytes_per_s {
            history.push(&IntervalStats { delivery_rate_bps: 8.0 * rate, ..IntervalStats::default() });
        }
        history
    });
    let members: Vec<_> =
        [&a, &b, &d].into_iter().zip(&histories).map(|(stats, history)| RewardedFlow::new(stats, history)).collect();
    match reward(&request).unwrap().payment {
        Payment::Shared(shared) => shared(&members, utilisation),
        Payment::Own(own) => own(&RewardedFlow::new(&b, &History::default())),
    }
}

#[track_caller]
fn assert_paid(request: Value, utilisation: f64, expected: f64) {
    let paid = pay(request.clone(), utilisation);
    assert!((paid - expected).abs() < 1e-8, "{request}: {paid}, expected {expected}");
}

#[test]
fn rewards_of_three_flows() {
    // Excess delays 0.1, 0.9 and 1.7 in half base RTTs, load 2.05, over the root of three: 0.02 x 1.065211.
    // Loss (31,250 / 0.03) / 6e6 over three flows: 0.057870. Mean rates 4, 6, 3 MB/s: deviation 1.247219e6 of 13e6, times
    // 0.02. Deviations 0.204124, 0 and 0.471405 of the means: 0.01 x 0.225176.
    assert_paid(json!("astraea"), 0.0, -0.083_345_156_2);
    assert_paid(json!({"name": "astraea", "floor": -1.0, "ceiling": 1.0}), 2.0, 0.016_654_843_8);
    // With losses of the capacity of 7.5 MB/s, 0.046296 instead of 0.057870.
    assert_paid(json!({"name": "astraea", "loss_of": "capacity"}), 0.0, -0.071_771_082_1);
    // Deviation over the mean instead of the sum: three times as dear.
    assert_paid(json!({"name": "astraea", "fairness_of": "mean"}), 0.0, -0.087_182_753_5);
    // ln(2), ln(2.4), ln(1.5), less half of the inflations 0.2, 0.6 and 1.0, less 0.2 - 0.01 of needless loss and twice
    // 0 - 0.01; a tenth.
    assert_paid(json!("log-share"), 0.0, 0.030_136_034_2);
}

#[test]
fn rewards_of_single_flows() {
    // (48e6 - 5 x 31,250 x 8 / 0.03) / 50e6 x 1.25 x 50 / 66.
    assert_paid(json!("orca"), 0.0, 0.119_949_494_9);
    // 0.01 x 44e6 / 12,000 - 0.08 - 2 x 25 / 125.
    assert_paid(json!("aurora"), 0.0, 36.186_666_666_7);
    // A tenth of ln(2.4) - 0.5 x 0.6 - (0.2 - 0.01).
    assert_paid(json!({"name": "log-share", "team": false}), 0.0, 0.038_546_873_7);
}

#[test]
fn the_global_state_of_three_flows() {
    let [a, b, _, d] = intervals();
    let history = History::default();
    let members: Vec<_> = [&a, &b, &d].into_iter().map(|stats| RewardedFlow::new(stats, &history)).collect();
    // Released code: rates over 5e7 bytes/s, RTT over 0.5 s, windows over 1000, losses over 1e6 bytes/s, flows over 10,
    // one-way delay over 500 ms, buffer in BDP over 10 (750 kB of 375 kB), bandwidth over 500 Mbit/s.
    let expected = [0.295, 0.075, 0.12, 0.16, 0.15, 0.24, 0.196667, 0.347222, 0.3, 0.05, 0.2, 0.12];
    assert_close(&global_state(&members), &expected, "global state");
}
