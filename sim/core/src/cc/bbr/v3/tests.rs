use super::super::super::testing::conn;
use super::*;
use crate::time::Nanos;

/// 100 Mbit/s of 1500-byte packets.
const BW: u64 = BW_UNIT / 120;

fn cruising(flavour: &'static Flavour) -> (Bbr3, Conn) {
    let mut bbr = Bbr3::new(flavour);
    let mut c = conn(834, 100);
    (c.now, c.jiffies) = (Nanos::from_secs(5), 5_000);
    (c.srtt8_us, c.min_rtt_us) = (8 * 50_000, 50_000);
    (c.delivered, c.in_flight, c.pacing_rate) = (10_000, 417, 12_000_000);
    (bbr.min_rtt_us, bbr.probe_rtt_min_us) = (50_000, 50_000);
    (bbr.min_rtt_stamp, bbr.probe_rtt_min_stamp) = (5_000, 5_000);
    bbr.bw_hi = [BW, BW];
    bbr.full_bw_reached = true;
    bbr.mode = Mode::ProbeBw;
    bbr.start_down(&mut c);
    bbr.start_cruise();
    (bbr, c)
}

#[test]
fn gains_have_linux_s_fixed_point_values() {
    assert_eq!((STARTUP_PACING_GAIN, LINUX.drain_gain, LINUX.down_gain, CWND_GAIN_UP), (710, 88, 232, 576));
    assert_eq!((IETF.drain_gain, IETF.down_gain), (128, 230));
}

#[test]
fn the_loss_threshold_is_five_of_256_in_linux_and_two_percent_in_the_draft() {
    let (linux, _) = cruising(&LINUX);
    let (ietf, _) = cruising(&IETF);
    assert!(!linux.lost_too_much(1, 100) && linux.lost_too_much(2, 100), "100 * 5 / 256 = 1");
    assert!(!ietf.lost_too_much(2, 100) && ietf.lost_too_much(3, 100));
}

#[test]
fn losses_outside_of_probes_lower_the_lower_bounds_to_what_was_delivered() {
    let (mut bbr, c) = cruising(&LINUX);
    let rate = RateSample { lost: 1, acked: 1, delivered: 400, interval_us: 50_000, ..RateSample::default() };
    bbr.loss_round_start = true;
    (bbr.bw_latest, bbr.inflight_latest) = (BW * 99 / 100, 410);
    bbr.update_congestion_signals(&c, &rate, BW * 99 / 100);
    assert_eq!((bbr.bounds.bw_lo, bbr.bounds.inflight_lo), (BW * 99 / 100, 834 * 180 / 256));
    bbr.loss_round_start = true;
    (bbr.bw_latest, bbr.inflight_latest) = (BW / 10, 10);
    bbr.update_congestion_signals(&c, &rate, BW / 10);
    assert_eq!(bbr.bounds.bw_lo, (BW * 99 / 100) * 180 / 256, "never by more than the cut");
    bbr.probe.phase = Phase::Up;
    let before = bbr.bounds.bw_lo;
    bbr.loss_round_start = true;
    bbr.update_congestion_signals(&c, &rate, 1);
    assert_eq!(bbr.bounds.bw_lo, before, "not while probing");
}

#[test]
fn probe_growth_doubles_each_round() {
    let (mut bbr, mut c) = cruising(&LINUX);
    (bbr.bounds.inflight_hi, c.cwnd) = (834, 1_000);
    c.cwnd_limited = true;
    bbr.start_refill(&mut c);
    bbr.start_up(&c, BW);
    let mut bounds = vec![];
    for _ in 0..5 {
        // One window of ACKs per round.
        for k in 0..c.cwnd {
            bbr.rounds.start = k == c.cwnd - 1;
            bbr.grow_inflight_hi(&c, 1);
        }
        bounds.push(bbr.bounds.inflight_hi);
    }
    let growth: Vec<u32> = bounds.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(bounds[0], 835);
    assert_eq!(growth, [2, 4, 8, 16]);
}

#[test]
fn growth_needs_a_window_limited_by_the_bound() {
    let (mut bbr, mut c) = cruising(&LINUX);
    bbr.bounds.inflight_hi = 834;
    bbr.start_up(&c, BW);
    c.cwnd_limited = false;
    bbr.grow_inflight_hi(&c, 900);
    c.cwnd_limited = true;
    c.cwnd = 833;
    bbr.grow_inflight_hi(&c, 900);
    assert_eq!(bbr.bounds.inflight_hi, 834);
}

#[test]
fn the_packet_that_crosses_the_threshold_bounds_what_may_be_in_flight() {
    let (mut bbr, mut c) = cruising(&LINUX);
    bbr.start_refill(&mut c);
    bbr.probe.samples = true;
    bbr.start_up(&c, BW);
    let packet = Transmission { seq: 1, sent: c.now, in_flight: 1_000, lost: 0, app_limited: false, was_lost: false };
    for lost in 1..=19 {
        c.lost = lost;
        bbr.note_loss(&mut c, &packet);
        assert!(bbr.in_phase(Phase::Up), "{lost} of 1000 is not too much");
    }
    c.lost = 20;
    bbr.note_loss(&mut c, &packet);
    // Of the 999 before it, 20 may be lost and 19 were: one loss more after 1 * 256/251 = 1 more packet.
    assert_eq!(bbr.bounds.inflight_hi, 1_000);
    assert!(bbr.in_phase(Phase::Down) && bbr.probe.previous_too_high);
    c.lost = 60;
    bbr.note_loss(&mut c, &packet);
    assert_eq!(bbr.bounds.inflight_hi, 1_000, "once per probe");
}

#[test]
fn too_much_loss_keeps_at_least_seven_tenths_of_the_target() {
    let (mut bbr, mut c) = cruising(&LINUX);
    let target = bbr.target_inflight(&c);
    bbr.in_flight_too_high(&mut c, 10, false);
    assert_eq!(bbr.bounds.inflight_hi, target * 180 / 256);
    bbr.in_flight_too_high(&mut c, 5, true);
    assert_eq!(bbr.bounds.inflight_hi, target * 180 / 256, "an idle application says nothing");
}

#[test]
fn cruising_leaves_headroom_below_the_upper_bound() {
    let (mut bbr, mut c) = cruising(&LINUX);
    bbr.bounds.inflight_hi = 500;
    bbr.set_cwnd(&mut c, 1);
    assert_eq!(c.cwnd, 500 - 500 * 38 / 256);
    bbr.bounds.inflight_hi = 4;
    bbr.set_cwnd(&mut c, 1);
    assert_eq!(c.cwnd, 4);
}

#[test]
fn the_next_probe_comes_after_two_to_three_seconds_or_as_reno_would() {
    let (mut bbr, mut c) = cruising(&LINUX);
    let mut waits = vec![];
    for _ in 0..200 {
        bbr.start_down(&mut c);
        assert!(bbr.probe.rounds_since <= 1);
        waits.push(bbr.probe.rounds_since);
        let start = c.now;
        let mut waited = 0;
        while !bbr.probe_if_due(&mut c) {
            c.now += Nanos::from_millis(10);
            waited += 10;
        }
        assert!((2_000..=3_010).contains(&waited), "{waited}");
        assert!(bbr.in_phase(Phase::Refill) && c.now > start);
    }
    assert!(waits.contains(&0) && waits.contains(&1));
    bbr.start_down(&mut c);
    bbr.probe.rounds_since = 63;
    assert!(bbr.probe_if_due(&mut c), "63 rounds at most");
    bbr.start_down(&mut c);
    (bbr.probe.rounds_since, c.cwnd) = (10, 10);
    assert!(bbr.probe_if_due(&mut c), "as many rounds as segments in flight");
}

#[test]
fn the_bandwidth_of_two_probing_cycles_counts() {
    let (mut bbr, mut c) = cruising(&LINUX);
    let mut cycle = |bw: u64| {
        bbr.start_down(&mut c);
        bbr.bw_hi[1] = bw;
        bbr.rounds.start = true;
        bbr.adapt_upper_bounds(&mut c, &RateSample::default());
        bbr.max_bw()
    };
    assert_eq!(cycle(100), 100);
    assert_eq!(cycle(60), 60, "the cycle before the last is forgotten");
    assert_eq!(cycle(0), 60, "a cycle without samples does not count");
}

#[test]
fn probe_rtt_comes_after_five_seconds_but_the_minimum_holds_ten() {
    let (mut bbr, mut c) = cruising(&LINUX);
    let sample = |rtt| RateSample { rtt_us: Some(rtt), delivered: 1, ..RateSample::default() };
    c.jiffies = 10_000;
    bbr.update_min_rtt(&mut c, &sample(120_000));
    assert_eq!(bbr.mode, Mode::ProbeBw);
    c.jiffies = 10_001;
    bbr.update_min_rtt(&mut c, &sample(120_000));
    assert_eq!((bbr.mode, bbr.min_rtt_us, bbr.probe_rtt_min_us), (Mode::ProbeRtt, 50_000, 120_000));
    c.jiffies = 15_001;
    bbr.update_min_rtt(&mut c, &sample(120_000));
    assert_eq!(bbr.min_rtt_us, 120_000, "a longer RTT is believed after ten seconds");
}

#[test]
fn probe_rtt_lasts_200_ms_and_a_round_and_marks_the_application_as_the_limit() {
    let (mut bbr, mut c) = cruising(&LINUX);
    c.jiffies = 20_000;
    bbr.update_min_rtt(&mut c, &RateSample { rtt_us: Some(50_000), delivered: 1, ..RateSample::default() });
    assert_eq!(bbr.mode, Mode::ProbeRtt);
    bbr.set_cwnd(&mut c, 1);
    assert_eq!(c.cwnd, bdp(BW, 50_000, UNIT / 2), "half a product");
    assert!(c.app_limited > 0);
    c.in_flight = c.cwnd;
    bbr.stay_in_probe_rtt(&mut c);
    c.jiffies = 20_300;
    bbr.stay_in_probe_rtt(&mut c);
    assert_eq!(bbr.mode, Mode::ProbeRtt, "the round is not over");
    bbr.rounds.start = true;
    bbr.bounds.inflight_lo = 300;
    bbr.stay_in_probe_rtt(&mut c);
    assert!(bbr.in_phase(Phase::Cruise));
    assert_eq!((c.cwnd, bbr.bounds.inflight_lo), (834, u32::MAX));
}

#[test]
fn probe_rtt_during_start_up_returns_to_it() {
    let (mut bbr, mut c) = cruising(&LINUX);
    (bbr.mode, bbr.full_bw_reached) = (Mode::ProbeRtt, false);
    bbr.leave_probe_rtt(&mut c);
    assert_eq!(bbr.mode, Mode::Startup);
}

#[test]
fn start_up_ends_by_plateau_after_three_rounds() {
    let mut bbr = Bbr3::new(&LINUX);
    let rate = RateSample { interval_us: 1, ..RateSample::default() };
    let mut ack = |bw, start| {
        bbr.rounds.start = start;
        bbr.check_full_bw(&rate, bw);
        bbr.full_bw_reached
    };
    assert!(!ack(BW, true));
    assert!(!ack(BW, true) && !ack(BW, false) && !ack(BW, true));
    assert!(ack(BW, true));
    assert!(bbr.full_bw_now);
}

#[test]
fn start_up_ends_by_loss_at_the_end_of_a_round_of_recovery_even_when_the_application_is_the_limit() {
    let (_, mut c) = cruising(&LINUX);
    c.state = CaState::Recovery;
    let run = |events: u32, lost_since: u32| {
        let mut bbr = Bbr3::new(&LINUX);
        (bbr.bw_hi, bbr.min_rtt_us, bbr.inflight_latest) = ([0, BW], 50_000, 390);
        let rate = RateSample { lost: 1, lost_since, flight_then: 1_000, app_limited: true, ..RateSample::default() };
        for k in 0..events {
            bbr.loss_round_start = k == events - 1;
            bbr.check_startup_loss(&c, &rate);
        }
        (bbr.full_bw_reached, bbr.bounds.inflight_hi)
    };
    assert_eq!(run(6, 20), (true, 417), "a product, or what was delivered");
    assert_eq!(run(5, 20), (false, u32::MAX), "too few events");
    assert_eq!(run(6, 19), (false, u32::MAX), "too little lost");
}

#[test]
fn undo_restores_the_bounds_and_in_the_draft_the_phase() {
    for flavour in [&LINUX, &IETF] {
        let (mut bbr, mut c) = cruising(flavour);
        bbr.bounds.inflight_hi = 900;
        bbr.start_up(&c, BW);
        bbr.ssthresh(&mut c);
        bbr.probe.samples = true;
        bbr.in_flight_too_high(&mut c, 400, false);
        assert!(bbr.bounds.inflight_hi < 900);
        assert_eq!(bbr.undo(&mut c), 834);
        assert_eq!(bbr.bounds.inflight_hi, 900);
        assert_eq!(bbr.in_phase(Phase::Refill), flavour.is_draft);
    }
}
