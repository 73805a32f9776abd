use super::super::super::testing::conn;
use super::*;
use crate::time::Nanos;

/// 100 Mbit/s of 1500-byte packets.
pub(super) const BW: u64 = BW_UNIT / 120;

pub(super) fn cruising<const DRAFT: bool>() -> (Bbr3<DRAFT>, Conn) {
    let mut bbr = Bbr3::new();
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
    assert_eq!((STARTUP_PACING_GAIN, LINUX.drain_gain, LINUX.down_gain, CWND_GAIN_UP), (710, 88, 232, 64));
    assert_eq!((DRAFT_06.drain_gain, DRAFT_06.down_gain), (128, 230));
}

#[test]
fn the_loss_threshold_is_five_of_256_in_linux_and_two_percent_in_the_draft() {
    let (linux, _) = cruising::<false>();
    let (draft, _) = cruising::<true>();
    assert!(!linux.lost_too_much(1, 100) && linux.lost_too_much(2, 100), "100 * 5 / 256 = 1");
    assert!(!draft.lost_too_much(2, 100) && draft.lost_too_much(3, 100));
}

#[test]
fn losses_outside_of_probes_lower_the_lower_bounds_to_what_was_delivered() {
    let (mut bbr, c) = cruising::<false>();
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
fn a_timeout_outside_of_probes_sets_a_lower_bound_of_the_window_where_there_is_none() {
    let after = |phase, inflight_lo| {
        let (mut bbr, mut c) = cruising::<false>();
        (bbr.probe.phase, bbr.bounds.inflight_lo, bbr.prior_cwnd) = (phase, inflight_lo, 900);
        bbr.on_state(&mut c, CaState::Loss);
        bbr.bounds.inflight_lo
    };
    assert_eq!(after(Phase::Cruise, u32::MAX), 900, "the larger one of the window, 834, and the prior one");
    assert_eq!(after(Phase::Cruise, 500), 500);
    assert_eq!(after(Phase::Up, u32::MAX), u32::MAX);
}

#[test]
fn probe_growth_doubles_each_round() {
    let (mut bbr, mut c) = cruising::<false>();
    (bbr.bounds.inflight_hi, c.cwnd) = (834, 1_000);
    c.cwnd_limited = true;
    bbr.start_refill(&mut c, 0);
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
    let (mut bbr, mut c) = cruising::<false>();
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
    let (mut bbr, mut c) = cruising::<false>();
    bbr.start_refill(&mut c, 0);
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
    let (mut bbr, mut c) = cruising::<false>();
    let target = bbr.target_inflight(&c);
    bbr.in_flight_too_high(&mut c, 10, false);
    assert_eq!(bbr.bounds.inflight_hi, target * 180 / 256);
    bbr.in_flight_too_high(&mut c, 5, true);
    assert_eq!(bbr.bounds.inflight_hi, target * 180 / 256, "an idle application says nothing");
}

#[test]
fn cruising_leaves_headroom_below_the_upper_bound() {
    let (mut bbr, mut c) = cruising::<false>();
    bbr.bounds.inflight_hi = 500;
    bbr.set_cwnd(&mut c, 1);
    assert_eq!(c.cwnd, 500 - 500 * 38 / 256);
    bbr.bounds.inflight_hi = 4;
    bbr.set_cwnd(&mut c, 1);
    assert_eq!(c.cwnd, 4);
}

#[test]
fn the_next_probe_comes_after_two_to_three_seconds_or_as_reno_would() {
    let (mut bbr, mut c) = cruising::<false>();
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
    let (mut bbr, mut c) = cruising::<false>();
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
    let (mut bbr, mut c) = cruising::<false>();
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
    let (mut bbr, mut c) = cruising::<false>();
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
    let (mut bbr, mut c) = cruising::<false>();
    (bbr.mode, bbr.full_bw_reached) = (Mode::ProbeRtt, false);
    bbr.leave_probe_rtt(&mut c);
    assert_eq!(bbr.mode, Mode::Startup);
}

#[test]
fn start_up_ends_by_plateau_after_three_rounds() {
    let mut bbr = Bbr3::<false>::new();
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
    let (_, mut c) = cruising::<false>();
    c.state = CaState::Recovery;
    let run = |events: u32, lost_since: u32, product_us: u32| {
        let mut bbr = Bbr3::<false>::new();
        (bbr.bw_hi, bbr.min_rtt_us, bbr.inflight_latest) = ([0, BW], product_us, 10);
        let rate = RateSample { lost: 1, lost_since, flight_then: 1_000, app_limited: true, ..RateSample::default() };
        for k in 0..events {
            bbr.loss_round_start = k == events - 1;
            bbr.check_startup_loss(&c, &rate);
        }
        (bbr.full_bw_reached, bbr.bounds.inflight_hi)
    };
    assert_eq!(run(6, 20, 50_000), (true, 417), "a product, or what was delivered");
    assert_eq!(run(6, 20, 1_200), (true, 57), "or three bursts: a millisecond and 16 KB each");
    assert_eq!(run(5, 20, 50_000), (false, u32::MAX), "too few events");
    assert_eq!(run(6, 19, 50_000), (false, u32::MAX), "too little lost");
}

#[test]
fn undo_restores_the_bounds_and_in_the_draft_the_phase() {
    fn case<const DRAFT: bool>() {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        bbr.bounds.inflight_hi = 900;
        bbr.start_up(&c, BW);
        bbr.ssthresh(&mut c);
        bbr.probe.samples = true;
        bbr.in_flight_too_high(&mut c, 400, false);
        assert!(bbr.bounds.inflight_hi < 900);
        assert_eq!(bbr.undo(&mut c), 834);
        assert_eq!(bbr.bounds.inflight_hi, 900);
        assert_eq!(bbr.in_phase(Phase::Refill), DRAFT);
    }
    case::<false>();
    case::<true>();
}

#[test]
fn a_minimum_rtt_seen_again_is_as_good_as_new_in_linux_only() {
    fn case<const DRAFT: bool>(believed: u32) {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        let mut at = |jiffies, rtt| {
            c.jiffies = jiffies;
            bbr.update_min_rtt(&mut c, &RateSample { rtt_us: Some(rtt), delivered: 1, ..RateSample::default() });
        };
        // The first ProbeRTT sees the old minimum again, five seconds after it was set; then the path gets longer.
        at(10_001, 50_000);
        at(15_002, 90_000);
        assert_eq!(bbr.min_rtt_us, believed);
    }
    case::<false>(50_000);
    case::<true>(90_000);
}

#[test]
fn the_window_kept_through_probe_rtt_is_never_below_the_one_kept_before() {
    let (mut bbr, mut c) = cruising::<false>();
    (bbr.prior_cwnd, c.jiffies) = (900, 10_001);
    bbr.update_min_rtt(&mut c, &RateSample { rtt_us: Some(50_000), ..RateSample::default() });
    assert_eq!((bbr.mode, bbr.prior_cwnd), (Mode::ProbeRtt, 900), "the mode changes first");
}

#[test]
fn bursts_have_two_segments_at_any_rate() {
    let (bbr, mut c) = cruising::<false>();
    c.pacing_rate = 10_000;
    assert_eq!((bbr.burst_segments(&c), burst_segments(&c, 0)), (2, 1));
    assert_eq!(bbr.with_room_for_bursts(&c, 1), 6, "three of them");
}

#[test]
fn samples_are_rounded_up() {
    let (mut bbr, mut c) = cruising::<false>();
    (bbr.bw_hi, c.in_flight) = ([0, 0], 1);
    let rate = RateSample { delivered: 1, acked: 1, interval_us: 3_000_000, ..RateSample::default() };
    bbr.control(&mut c, &rate);
    assert_eq!(bbr.max_bw(), 6, "of 5.6");
}

#[test]
fn drain_ends_when_drained_and_in_the_draft_after_three_rounds() {
    fn case<const DRAFT: bool>() {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        (bbr.mode, c.in_flight) = (Mode::Startup, 800);
        let round = |bbr: &mut Bbr3<DRAFT>, c: &mut Conn| {
            bbr.rounds.count += 1;
            bbr.rounds.start = true;
            bbr.check_drain(c);
            bbr.mode == Mode::ProbeBw
        };
        assert!(!round(&mut bbr, &mut c));
        assert_eq!((bbr.mode, bbr.probe.phase), (Mode::Drain, Phase::Cruise));
        bbr.update_gains();
        assert_eq!(bbr.pacing_gain, if DRAFT { 128 } else { 88 });
        assert!(!round(&mut bbr, &mut c) && !round(&mut bbr, &mut c) && !round(&mut bbr, &mut c));
        assert_eq!(round(&mut bbr, &mut c), DRAFT, "more than three rounds");
        c.in_flight = 418;
        assert_eq!(round(&mut bbr, &mut c), DRAFT);
        c.in_flight = 417;
        assert!(round(&mut bbr, &mut c));
        assert_eq!(bbr.probe.phase, Phase::Down);
    }
    case::<false>();
    case::<true>();
}

#[test]
fn the_draft_goes_back_only_to_what_the_losses_have_ended() {
    let lost = Transmission { seq: 1, sent: Nanos::ZERO, in_flight: 100, lost: 0, app_limited: false, was_lost: false };
    let probing = || {
        let (mut bbr, mut c) = cruising::<true>();
        bbr.bounds.inflight_hi = 900;
        bbr.start_up(&c, BW);
        bbr.probe.samples = true;
        c.lost = 0;
        (bbr, c)
    };
    // The loss that starts a recovery ends the probe before the recovery has begun.
    let (mut bbr, mut c) = probing();
    c.lost = 3;
    bbr.note_loss(&mut c, &lost);
    assert!(bbr.in_phase(Phase::Down) && bbr.bounds.inflight_hi < 900);
    bbr.ssthresh(&mut c);
    bbr.undo(&mut c);
    assert!(bbr.in_phase(Phase::Refill) && bbr.bounds.inflight_hi == 900);
    // A plateau ended this one.
    let (mut bbr, mut c) = probing();
    c.lost = 1;
    bbr.note_loss(&mut c, &lost);
    bbr.ssthresh(&mut c);
    bbr.start_down(&mut c);
    bbr.undo(&mut c);
    assert!(bbr.in_phase(Phase::Down));
    // ProbeRTT is not cut short.
    let (mut bbr, mut c) = probing();
    bbr.before.left = Some(Probing::Startup);
    bbr.mode = Mode::ProbeRtt;
    bbr.undo(&mut c);
    assert_eq!((bbr.mode, bbr.full_bw_reached), (Mode::ProbeRtt, false));
}

#[test]
fn without_loss_an_application_s_limit_never_ends_a_probe() {
    let (mut bbr, mut c) = cruising::<false>();
    bbr.start_refill(&mut c, 0);
    bbr.start_up(&c, BW);
    for _ in 0..50 {
        c.now += Nanos::from_millis(50);
        let prior_delivered = c.delivered;
        c.delivered += 100;
        let rate = RateSample {
            delivered: 100,
            acked: 100,
            interval_us: 50_000,
            prior_delivered,
            app_limited: true,
            ..RateSample::default()
        };
        bbr.control(&mut c, &rate);
        assert!(bbr.in_phase(Phase::Up) && bbr.rounds.start);
    }
    assert_eq!(bbr.max_bw(), BW);
}

#[test]
fn an_idle_application_s_samples_lower_no_maximum() {
    let (mut bbr, mut c) = cruising::<false>();
    let mut round = |bbr: &mut Bbr3<false>, app_limited| {
        let prior_delivered = c.delivered;
        c.delivered += 10;
        let low = RateSample {
            delivered: 10,
            acked: 10,
            interval_us: 50_000,
            prior_delivered,
            app_limited,
            ..RateSample::default()
        };
        bbr.control(&mut c, &low);
        bbr.max_bw()
    };
    for _ in 0..3 {
        // A whole cycle, REFILL included.
        bbr.start_down(&mut conn(10, 10));
        assert_eq!(round(&mut bbr, true), BW);
        bbr.start_refill(&mut conn(10, 10), 0);
        assert_eq!(round(&mut bbr, true), BW);
    }
    bbr.start_down(&mut conn(10, 10));
    bbr.bw_hi = [0, BW];
    round(&mut bbr, false);
    bbr.start_down(&mut conn(10, 10));
    assert!(round(&mut bbr, false) < BW, "the path's own low rate counts");
}

#[test]
fn idle_restarts_skip_probe_rtt() {
    let (mut bbr, mut c) = cruising::<false>();
    (c.jiffies, c.app_limited, c.in_flight) = (20_000, 1, 0);
    bbr.on_event(&mut c, Event::TxStart);
    bbr.update_min_rtt(&mut c, &RateSample { rtt_us: Some(51_000), delivered: 1, ..RateSample::default() });
    assert_eq!((bbr.mode, bbr.min_rtt_us), (Mode::ProbeBw, 51_000));
    assert!(!bbr.idle_restart, "once");
}

#[test]
fn a_minimum_rtt_is_believed_and_the_window_bounded_as_the_parameters_say() {
    let (mut bbr, mut c) = cruising::<false>();
    bbr.tuning = Tuning { min_rtt_window_ms: 2_000, probe_rtt_interval_ms: 1_000_000, cwnd_gain: 4 * UNIT };
    bbr.probe_rtt_min_us = 90_000;
    let rate = RateSample { rtt_us: Some(95_000), ..RateSample::default() };
    c.jiffies = 7_000;
    bbr.update_min_rtt(&mut c, &rate);
    assert_eq!(bbr.min_rtt_us, 50_000, "two seconds old");
    c.jiffies = 7_001;
    bbr.update_min_rtt(&mut c, &rate);
    assert_eq!((bbr.min_rtt_us, bbr.mode), (90_000, Mode::ProbeBw), "no ProbeRTT for long");
    bbr.update_gains();
    assert_eq!(bbr.cwnd_gain, 4 * UNIT);
}
