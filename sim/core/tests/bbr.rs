//! BBRv1 over whole paths: the table of reference runs for a fixed path, sharing, and steps of the base RTT. Shares of
//! capacity are of wire rate with 1500-byte packets.

mod common;

use common::*;
use orbitcc_core::spec::LossSpec;
use orbitcc_core::time::Nanos;

fn one(rate_mbps: f64, rtt_ms: f64, buffer_bdp: f64, seconds: f64) -> Run {
    let buffer = (bdp_bytes(rate_mbps, rtt_ms) as f64 * buffer_bdp) as u64;
    run(&dumbbell(rate_mbps, rtt_ms, buffer, seconds, &["bbr"]))
}

#[test]
fn a_flow_alone_fills_the_link_and_keeps_the_queue_short() {
    let bdp = bdp_bytes(100.0, 50.0) as f64;
    let s1 = one(100.0, 50.0, 1.0, 65.0);
    assert!(s1.wire_mbps(0, 5.0, 65.0) >= 94.0, "{}", s1.wire_mbps(0, 5.0, 65.0));
    assert!(s1.queue(5.0, 65.0) <= 0.15 * bdp);
    let peak = s1.queue_peak(5.0, 65.0) / bdp;
    assert!((0.25..=0.40).contains(&peak), "{peak}");
    for deep in [2.0, 5.0] {
        let run = one(100.0, 50.0, deep, 65.0);
        let at = |t: f64| run.t_s.iter().position(|x| *x >= t).unwrap();
        let late: f64 = run.flow(0, "retransmitted_packets")[at(2.0)..].iter().sum();
        assert_eq!(late, 0.0);
        // Start-up's three bursts (a millisecond each at 2.887 times the rate) fill two products of buffer, not five.
        assert!(run.flow_totals[0].retransmitted_packets <= if deep < 3.0 { 60 } else { 0 });
        assert!((run.wire_mbps(0, 5.0, 65.0) / s1.wire_mbps(0, 5.0, 65.0) - 1.0).abs() < 0.01);
        assert!((run.queue_peak(5.0, 65.0) / bdp - peak).abs() < 0.05, "deep buffers change nothing");
    }
    assert!(one(50.0, 20.0, 1.0, 65.0).wire_mbps(0, 5.0, 65.0) >= 47.0);
    let shallow = one(100.0, 50.0, 0.1, 65.0);
    let loss = shallow.flow_totals[0].lost_packets as f64 / shallow.flow_totals[0].sent_packets as f64;
    assert!((0.015..=0.04).contains(&loss), "0.1 products of buffer: {loss}");
    assert!(shallow.wire_mbps(0, 5.0, 65.0) >= 93.0);
}

#[test]
fn over_a_geostationary_satellite_probe_rtt_costs_a_tenth() {
    let run = one(140.0, 600.0, 1.0, 180.0);
    let share = run.wire_mbps(0, 60.0, 180.0) / 140.0;
    assert!((0.85..=0.92).contains(&share), "{share}");
    // One dip every eleven seconds: ten, and the dip itself.
    let dips: Vec<_> = run.dips(0, "in_flight_packets", 4.0, 30.0);
    let starts: Vec<f64> = dips.iter().map(|d| d.0).collect();
    let period = (starts[starts.len() - 1] - starts[0]) / (starts.len() - 1) as f64;
    assert!((10.8..=11.6).contains(&period), "{starts:?}");
    let length = dips[1].1 - dips[1].0;
    assert!((0.5..=1.4).contains(&length), "{length}");
}

#[test]
fn probe_rtt_comes_every_ten_seconds_and_lasts_a_quarter_of_one() {
    let run = one(20.0, 50.0, 1.0, 60.0);
    let dips = run.dips(0, "cwnd_packets", 4.0, 1.0);
    assert_eq!(dips.len(), 5, "{dips:?}");
    for pair in dips.windows(2) {
        assert!((pair[1].0 - pair[0].0 - 10.25).abs() < 0.2, "{dips:?}");
    }
    for dip in dips {
        assert!((0.19..=0.33).contains(&(dip.1 - dip.0)), "{dip:?}");
    }
}

#[test]
fn random_loss_up_to_three_percent_costs_little() {
    for p in [0.005, 0.01, 0.02, 0.03] {
        let mut spec = dumbbell(100.0, 50.0, bdp_bytes(100.0, 50.0), 65.0, &["bbr"]);
        spec.links[0].forward.loss = vec![(Nanos::ZERO, LossSpec::Bernoulli { p })];
        let share = run(&spec).wire_mbps(0, 5.0, 65.0) / 100.0;
        assert!(share >= 0.9 * (1.0 - p), "{p}: {share}");
    }
}

#[test]
fn start_up_fills_the_pipe_in_a_second_and_at_most_three_products() {
    let run = one(100.0, 50.0, 3.0, 2.0);
    let product = bdp_bytes(100.0, 50.0) as f64 / 1500.0;
    let in_flight = run.flow(0, "in_flight_packets");
    let peak = in_flight.iter().cloned().fold(0.0, f64::max);
    let burst = 2.887 * 100e6 / 1024.0 / 8.0 / 1448.0;
    assert!(peak <= 2.9 * product + 3.0 * burst, "{peak}: 2.887 products and three bursts of a millisecond");
    assert!(peak >= 2.3 * product, "{peak}");
    let drained = run.t_s.iter().zip(&in_flight).position(|(t, n)| *t > 0.4 && *n <= 1.2 * product).unwrap();
    assert!(run.t_s[drained] < 1.1, "{}", run.t_s[drained]);
}

#[test]
fn a_base_rtt_beyond_twice_the_old_one_stalls_the_flow_until_its_minimum_expires() {
    let mut times = Vec::new();
    for k in 0..8 {
        // The step comes at different phases of ProbeRTT's clock.
        let step = 30.0 + 1.3 * f64::from(k);
        let mut spec = dumbbell(75.0, 20.0, bdp_bytes(75.0, 60.0), step + 25.0, &["bbr"]);
        spec.links[0].forward.delay = delay(&[(0.0, 10.0), (step, 50.0)]);
        spec.links[0].reverse.delay = delay(&[(0.0, 10.0), (step, 50.0)]);
        let run = run(&spec);
        let recovered =
            (1..25).find(|s| run.wire_mbps(0, step + f64::from(*s) - 1.0, step + f64::from(*s)) >= 0.9 * 75.0);
        times.push(recovered.expect("it recovers"));
    }
    times.sort_unstable();
    assert!(times[4] > 5 && times[7] < 15, "{times:?}");
}

#[test]
fn two_flows_share_fairly_and_keep_the_queue_at_the_drop_level() {
    // The default dumbbell: host noise, one product of buffer.
    let spec = with_noise(dumbbell(100.0, 50.0, bdp_bytes(100.0, 50.0), 80.0, &["bbr", "bbr"]), 100.0, 50.0);
    let run = run(&spec);
    let (a, b) = (run.wire_mbps(0, 20.0, 80.0), run.wire_mbps(1, 20.0, 80.0));
    let jain = (a + b).powi(2) / (2.0 * (a * a + b * b));
    assert!(jain > 0.98, "{a} {b}");
    let lost: u64 = run.flow_totals.iter().map(|f| f.retransmitted_packets).sum();
    assert!((10_000..=30_000).contains(&lost), "tens of thousands of retransmissions: {lost}");
}
