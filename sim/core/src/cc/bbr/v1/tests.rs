use super::super::super::testing::conn;
use super::*;
use crate::time::Nanos;

const BW: u64 = BW_UNIT / 120;

/// In ProbeBW over a path of 100 Mbit/s and 50 ms, everything learnt.
fn cruising() -> (Bbr, Conn) {
    let mut bbr = Bbr::new(Kernel::V6, Variant::default());
    let mut c = conn(834, 100);
    c.now = Nanos::from_secs(5);
    c.jiffies = 5_000;
    c.srtt8_us = 8 * 50_000;
    c.min_rtt_us = 50_000;
    c.pacing_rate = 12_000_000;
    bbr.min_rtt_us = 50_000;
    bbr.min_rtt_stamp = c.jiffies;
    bbr.max_bw.reset(0, BW);
    bbr.full_bw_reached = true;
    bbr.enter_probe_bw(&mut c);
    bbr.update_gains();
    (bbr, c)
}

#[test]
fn gains_have_linux_s_fixed_point_values() {
    assert_eq!((HIGH_GAIN, DRAIN_GAIN), (739, 88));
    assert_eq!(CYCLE.iter().sum::<u32>(), 8 * UNIT, "the cycle's mean gain is 1");
}

#[test]
fn first_pacing_rate_is_the_initial_window_per_rtt_times_the_high_gain() {
    let mut c = conn(10, SSTHRESH_INFINITE);
    c.srtt8_us = 8 * 50_000;
    c.min_rtt_us = 50_000;
    Bbr::new(Kernel::V6, Variant::default()).init(&mut c);
    let expected = 2.887 * 0.99 * 10.0 * 1448.0 / 0.05;
    assert!((c.pacing_rate as f64 / expected - 1.0).abs() < 1e-3, "{}", c.pacing_rate);
}

/// Frames of 1514 bytes carry 1448: at gain 1 the bandwidth's packets leave 1514/1500 apart.
#[test]
fn a_frame_of_linux_4_15_leaves_per_mtu_of_bandwidth() {
    let (mut bbr, mut c) = cruising();
    for (kernel, share) in [(Kernel::V6, 0.99), (Kernel::V4_15, 1500.0 / 1514.0)] {
        bbr.kernel = kernel;
        bbr.set_pacing(&mut c, BW, UNIT);
        let paced = c.pacing_rate as f64 / (BW as f64 / BW_UNIT as f64 * 1e6 * 1448.0);
        assert!((paced - share).abs() < 1e-4, "{kernel:?}: {paced}");
    }
}

#[test]
fn the_cycle_never_starts_with_the_draining_phase_and_starts_with_any_other() {
    let (mut bbr, mut c) = cruising();
    let mut seen = [0; 8];
    for _ in 0..2_000 {
        bbr.enter_probe_bw(&mut c);
        seen[bbr.cycle_index] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!(seen.iter().enumerate().all(|(i, n)| i == 1 || *n > 200), "{seen:?}");
}

#[test]
fn phases_end_by_time_and_by_what_is_in_flight() {
    let (mut bbr, mut c) = cruising();
    let mut over = |gain, elapsed_us, in_flight, lost| {
        bbr.pacing_gain = gain;
        bbr.cycle_start_us = c.now.micros() - elapsed_us;
        bbr.cycle_index = 2;
        c.next_departure = c.now;
        bbr.phase_is_over(&c, &RateSample { prior_in_flight: in_flight, lost, ..RateSample::default() })
    };
    assert!(!over(UNIT, 50_000, 400, 0) && over(UNIT, 50_001, 400, 0), "cruising: one minimum RTT");
    assert!(!over(320, 60_000, 400, 0), "probing wants its queue");
    assert!(over(320, 60_000, 600, 0) && over(320, 60_000, 400, 1), "... or a loss");
    assert!(!over(320, 40_000, 600, 1), "... and at least one minimum RTT");
    assert!(over(192, 10_000, 417, 0) && !over(192, 10_000, 500, 0), "draining ends when drained");
    assert!(over(192, 50_001, 500, 0));
}

#[test]
fn three_rounds_without_growth_fill_the_pipe() {
    let (mut bbr, _) = cruising();
    bbr.full_bw_reached = false;
    bbr.rounds.start = true;
    let mut round = |bw: u64, app_limited| {
        bbr.max_bw.reset(0, bw);
        bbr.check_full_pipe(&RateSample { app_limited, ..RateSample::default() });
        bbr.full_bw_reached
    };
    assert!(!round(1_000, false) && !round(1_250, false), "25 % is growth");
    assert!(!round(1_500, false) && !round(1_500, false));
    assert!(!round(1_500, true), "limited by the application: no verdict");
    assert!(round(1_500, false));
}

#[test]
fn low_samples_of_an_idle_application_do_not_enter_the_maximum() {
    let (mut bbr, mut c) = cruising();
    let sample =
        |delivered, app_limited| RateSample { delivered, interval_us: 1_200, app_limited, ..RateSample::default() };
    bbr.update_bw(&mut c, &sample(5, true));
    assert_eq!(bbr.bw(), BW);
    bbr.update_bw(&mut c, &sample(20, true));
    assert_eq!(bbr.bw(), 20 * BW_UNIT / 1_200, "higher ones do");
    bbr.update_bw(&mut c, &RateSample { interval_us: 0, ..sample(90, false) });
    assert_eq!(bbr.bw(), 20 * BW_UNIT / 1_200, "invalid ones do not");
}

#[test]
fn recovery_conserves_packets_for_a_round_then_restores_the_window() {
    let (mut bbr, mut c) = cruising();
    let ack = |lost| RateSample { acked: 2, lost, delivered: 2, interval_us: 60_000, ..RateSample::default() };
    bbr.save_cwnd(&c);
    (c.state, c.in_flight) = (CaState::Recovery, 700);
    bbr.set_cwnd(&mut c, &ack(1), BW);
    assert_eq!(c.cwnd, 702);
    c.in_flight = 690;
    bbr.set_cwnd(&mut c, &ack(0), BW);
    assert_eq!(c.cwnd, 702, "never below what is in flight and acknowledged");
    c.delivered = 10;
    bbr.update_bw(&mut c, &RateSample { prior_delivered: 5, ..ack(0) });
    assert!(!bbr.packet_conservation, "one round");
    c.state = CaState::Open;
    bbr.set_cwnd(&mut c, &ack(0), BW);
    assert_eq!(c.cwnd, 836);
}

#[test]
fn two_lossy_intervals_of_equal_rate_look_like_a_policer() {
    let (mut bbr, mut c) = cruising();
    for _ in 0..24 {
        // Each round 80 delivered and 20 lost, ten segments a millisecond.
        c.now += Nanos::from_millis(10);
        let prior_delivered = c.delivered;
        (c.delivered, c.lost) = (c.delivered + 80, c.lost + 20);
        let sample =
            RateSample { delivered: 80, interval_us: 9_600, lost: 20, prior_delivered, ..RateSample::default() };
        bbr.update_bw(&mut c, &sample);
    }
    assert!(bbr.policer.rate().is_some());
    let rate = bbr.bw() as f64 / BW_UNIT as f64;
    assert!((rate * 1_000.0 - 8.0).abs() < 0.5, "{rate}: the mean of both intervals, 8 per ms");
    bbr.update_gains();
    assert_eq!(bbr.pacing_gain, UNIT);
}

#[test]
fn idle_restarts_skip_probe_rtt() {
    let (mut bbr, mut c) = cruising();
    c.jiffies = 20_000;
    c.app_limited = 1;
    bbr.on_event(&mut c, Event::TxStart);
    bbr.update_min_rtt(&mut c, &RateSample { rtt_us: Some(51_000), delivered: 1, ..RateSample::default() });
    assert_eq!((bbr.mode, bbr.min_rtt_us), (Mode::ProbeBw, 51_000));
}

#[test]
fn only_a_smaller_rtt_refreshes_the_minimum() {
    let (mut bbr, mut c) = cruising();
    c.jiffies = 9_000;
    bbr.update_min_rtt(&mut c, &RateSample { rtt_us: Some(50_000), ..RateSample::default() });
    assert_eq!(bbr.min_rtt_stamp, 5_000);
    c.jiffies = 15_001;
    bbr.update_min_rtt(&mut c, &RateSample { rtt_us: Some(60_000), ..RateSample::default() });
    assert_eq!((bbr.mode, bbr.min_rtt_us), (Mode::ProbeRtt, 60_000));
}

#[test]
fn the_window_kept_through_probe_rtt_is_never_below_the_one_kept_before() {
    let (mut bbr, mut c) = cruising();
    bbr.prior_cwnd = 900;
    bbr.enter_probe_rtt(&c);
    assert_eq!(bbr.prior_cwnd, 900, "Linux changes the mode before it keeps the window");
    c.cwnd = 1_000;
    bbr.mode = Mode::ProbeBw;
    bbr.enter_probe_rtt(&c);
    assert_eq!(bbr.prior_cwnd, 1_000);
}

#[test]
fn the_allowance_for_aggregation_is_bounded_by_the_path_s_rate_not_by_the_one_in_use() {
    let (mut bbr, mut c) = cruising();
    bbr.aggregation.slots = [500, 0];
    c.cwnd = 2_000;
    bbr.cycle_index = 2;
    // LeoCC sends below the maximum while the RTT is inflated.
    bbr.set_cwnd(&mut c, &RateSample { acked: 1, ..RateSample::default() }, BW / 2);
    assert_eq!(c.cwnd, 417 + 500 + 3 * 8 + 1, "a product at half the rate, twice; not 416 segments, 100 ms of it");
}
