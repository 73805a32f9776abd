//! Where draft-ietf-ccwg-bbr-06 and Linux differ: each test has a vector worked by hand from the draft's text, and what
//! Linux makes of the same. The other differences are in `tests.rs`.

use super::super::super::testing::conn;
use super::tests::{BW, cruising};
use super::*;
use crate::time::Nanos;

const LOST: Transmission =
    Transmission { seq: 1, sent: Nanos::ZERO, in_flight: 1_000, lost: 0, app_limited: false, was_lost: false };

/// `draft` of the draft's rules, `linux` of Linux's.
macro_rules! both {
    ($case:ident: $draft:expr, $linux:expr) => {
        assert_eq!($case::<true>(), $draft, "draft");
        assert_eq!($case::<false>(), $linux, "Linux");
    };
}

/// Late in Startup: 100 Mbit/s and 50 ms, a product of 417 segments.
fn starting<const DRAFT: bool>() -> (Bbr3<DRAFT>, Conn) {
    let (mut bbr, c) = cruising::<DRAFT>();
    (bbr.mode, bbr.full_bw_reached, bbr.bw_hi) = (Mode::Startup, false, [0, BW]);
    (bbr, c)
}

fn probing<const DRAFT: bool>() -> (Bbr3<DRAFT>, Conn) {
    let (mut bbr, mut c) = cruising::<DRAFT>();
    bbr.start_refill(&mut c, 0);
    bbr.start_up(&c, BW);
    bbr.probe.samples = true;
    (bbr, c)
}

#[test]
fn the_first_rate_has_no_margin() {
    // InitPacingRate (5.6.2): 10 * 1448 bytes / 50 ms * 2.77 = 802 kB/s; Linux takes 1 % off.
    fn case<const DRAFT: bool>() -> u64 {
        let mut c = Conn { srtt8_us: 8 * 50_000, ..conn(10, 100) };
        Bbr3::<DRAFT>::new().init(&mut c);
        let percent = c.pacing_rate * 100 * 50 / (u64::from(c.mss) * 10 * 1_000);
        assert_eq!(c.mss, 1_448);
        percent
    }
    both!(case: 277, 274);
}

#[test]
fn the_plateau_is_judged_at_round_starts() {
    // CheckFullBWReached (5.3.1.2): growth seen within a round is no new baseline.
    fn case<const DRAFT: bool>() -> u64 {
        let (mut bbr, _) = starting::<DRAFT>();
        let rate = RateSample { interval_us: 1, ..RateSample::default() };
        for (start, bw) in [(true, 100), (false, 200)] {
            bbr.rounds.start = start;
            bbr.check_full_bw(&rate, bw);
        }
        bbr.full_bw
    }
    both!(case: 100, 200);
}

/// Startup's round of losses in `ranges`, each told with an ACK of its own: left? and inflight_longterm.
fn lossy_start<const DRAFT: bool>(ranges: &[&[u32]], acks: u32, prior_delivered: u32) -> (bool, u32) {
    let (mut bbr, mut c) = starting::<DRAFT>();
    (bbr.min_rtt_us, bbr.inflight_latest) = (1_200, 7);
    bbr.on_state(&mut c, CaState::Recovery);
    c.state = CaState::Recovery;
    for seq in ranges.iter().copied().flatten() {
        c.lost += 1;
        bbr.on_packet_lost(&mut c, &Transmission { seq: *seq, ..LOST });
    }
    for k in 1..=acks {
        bbr.loss_round_start = k == acks;
        let rate = RateSample { lost: 1, lost_since: 30, flight_then: 1_000, prior_delivered, ..RateSample::default() };
        if DRAFT { bbr.check_startup_high_loss(&c, &rate) } else { bbr.check_startup_loss(&c, &rate) }
    }
    (bbr.full_bw_reached, bbr.bounds.inflight_hi)
}

#[test]
fn high_loss_in_start_up_is_six_ranges_and_leaves_a_bare_product() {
    // 5.3.1.3: 100 Mbit/s * 1.2 ms = 10 segments; Linux has three bursts of a millisecond and 16 KB: 57.
    let six: &[&[u32]] = &[&[1], &[3, 4, 5], &[7], &[9], &[11], &[13]];
    let five: &[&[u32]] = &[&[1], &[3, 4, 5, 6], &[8], &[10], &[12]];
    assert_eq!(lossy_start::<true>(six, 1, 10_000), (true, 10), "one ACK tells of them all");
    assert_eq!(lossy_start::<false>(six, 1, 10_000), (false, u32::MAX), "Linux counts ACKs");
    assert_eq!(lossy_start::<true>(five, 8, 10_000), (false, u32::MAX), "eight segments in five ranges");
    assert_eq!(lossy_start::<false>(five, 8, 10_000), (true, 57));
}

#[test]
fn high_loss_in_start_up_needs_a_whole_round_of_recovery() {
    let six: &[&[u32]] = &[&[1], &[3], &[5], &[7], &[9], &[11]];
    assert!(!lossy_start::<true>(six, 6, 9_999).0, "sent before recovery");
    assert!(lossy_start::<true>(six, 6, 10_000).0);
    assert!(lossy_start::<false>(six, 6, 9_999).0);
}

#[test]
fn drain_ends_at_the_product_of_the_bounded_bandwidth_whatever_the_pacer_holds() {
    // CheckDrainDone (5.3.2): Inflight(1.0) of BBR.bw, here half of 417: 209 (208.5 rounded up).
    fn drained<const DRAFT: bool>(in_flight: u32, bw_lo: u64, wait_ms: u64) -> bool {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        (bbr.mode, bbr.bounds.bw_lo, c.in_flight) = (Mode::Drain, bw_lo, in_flight);
        bbr.update_gains();
        c.next_departure = c.now + Nanos::from_millis(wait_ms);
        bbr.check_drain(&mut c);
        bbr.mode == Mode::ProbeBw
    }
    assert!(!drained::<true>(210, BW / 2, 0) && drained::<true>(209, BW / 2, 0));
    assert!(drained::<false>(210, BW / 2, 0), "of the largest bandwidth");
    assert!(!drained::<true>(418, u64::MAX, 1), "8 segments are delivered in this millisecond");
    assert!(drained::<false>(418, u64::MAX, 1));
}

#[test]
fn drain_keeps_the_signals_of_the_round() {
    // EnterDrain (5.3.2) resets nothing.
    fn case<const DRAFT: bool>() -> (bool, u32) {
        let (mut bbr, mut c) = starting::<DRAFT>();
        (bbr.full_bw_reached, bbr.loss_in_round, bbr.inflight_latest, c.in_flight) = (true, true, 400, 800);
        bbr.check_drain(&mut c);
        assert_eq!(bbr.mode, Mode::Drain);
        (bbr.loss_in_round, bbr.inflight_latest)
    }
    both!(case: (true, 400), (false, 0));
}

#[test]
fn cut_and_headroom_are_exact() {
    // BBR.Beta and BBR.Headroom (2.8): 0.7 * 834 = 583.8; 500 - 0.15 * 500 = 425.
    fn case<const DRAFT: bool>() -> (u32, u32) {
        let (mut bbr, c) = cruising::<DRAFT>();
        let cut = Bbr3::<DRAFT>::RULES.cut;
        bbr.bounds.lower(BW, c.cwnd, 0, 0, cut);
        bbr.bounds.inflight_hi = 500;
        (bbr.bounds.inflight_lo, bbr.bounds.with_headroom(Bbr3::<DRAFT>::RULES.headroom))
    }
    both!(case: (583, 425), (586, 426));
}

#[test]
fn only_lost_packets_end_a_probe() {
    // AdaptLongTermModel (5.3.3.9): an ACK after too much loss raises nothing, and that is all.
    fn case<const DRAFT: bool>() -> bool {
        let (mut bbr, mut c) = probing::<DRAFT>();
        bbr.bounds.inflight_hi = 900;
        let rate = RateSample { lost_since: 30, flight_then: 1_000, ..RateSample::default() };
        bbr.adapt_upper_bounds(&mut c, &rate);
        bbr.in_phase(Phase::Up) && bbr.bounds.inflight_hi == 900
    }
    both!(case: true, false);
}

#[test]
fn the_loss_that_ends_a_probe_does_not_count_in_its_round() {
    // NoteLoss before HandleInflightTooHigh (5.5.10.2), whose StartProbeBW_DOWN (5.3.3.9) resets is_loss_in_round.
    fn case<const DRAFT: bool>() -> (bool, u64) {
        let (mut bbr, mut c) = probing::<DRAFT>();
        c.lost = 21;
        bbr.on_packet_lost(&mut c, &LOST);
        assert!(bbr.in_phase(Phase::Down));
        let rate = RateSample { lost: 1, acked: 1, delivered: 400, interval_us: 50_000, ..RateSample::default() };
        bbr.update_congestion_signals(&c, &rate, 1);
        let counted = bbr.loss_in_round;
        bbr.loss_round_start = true;
        bbr.update_congestion_signals(&c, &RateSample { lost: 0, ..rate }, 1);
        (counted, bbr.bounds.bw_lo)
    }
    both!(case: (false, u64::MAX), (true, BW * 180 / 256));
}

#[test]
fn the_lost_prefix_may_be_negative() {
    // InflightAtLoss (5.5.10.2), the 61st lost of 1000: (0.02 * 999 - 60) / 0.98 = -40.8, so 999 - 40.8 = 958.2.
    fn case<const DRAFT: bool>() -> u32 {
        let (mut bbr, mut c) = probing::<DRAFT>();
        c.lost = 61;
        bbr.on_packet_lost(&mut c, &LOST);
        bbr.bounds.inflight_hi
    }
    both!(case: 958, 999);
    // (0.02 * 999 - 20) / 0.98 = -0.02; never below nothing.
    assert_eq!(draft::in_flight_at_loss(21, 1_000, 2, 100), 998);
    assert_eq!(draft::in_flight_at_loss(500, 100, 2, 100), 0);
}

#[test]
fn a_probe_comes_after_as_many_rounds_as_a_bare_product_has_segments() {
    // TargetInflight (5.3.3.8): 10 segments at 1.2 ms; in Linux three bursts: 57.
    fn case<const DRAFT: bool>() -> u32 {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        bbr.min_rtt_us = 1_200;
        bbr.probe.rounds_since = 0;
        while !bbr.probe_if_due(&mut c) {
            bbr.probe.rounds_since += 1;
        }
        bbr.probe.rounds_since
    }
    both!(case: 10, 57);
}

#[test]
fn cruise_begins_without_lowering_the_short_term_bound() {
    // StartProbeBW_CRUISE (5.3.3.9).
    fn case<const DRAFT: bool>() -> u32 {
        let (mut bbr, _) = cruising::<DRAFT>();
        (bbr.bounds.inflight_lo, bbr.bounds.inflight_hi) = (600, 500);
        bbr.start_cruise();
        bbr.bounds.inflight_lo
    }
    both!(case: 600, 500);
}

#[test]
fn a_precaution_looks_at_what_was_in_flight_and_cruise_at_what_is_left() {
    // IsTimeToGoDown and IsTimeToCruise (5.3.3.9).
    fn goes_down<const DRAFT: bool>() -> bool {
        let (mut bbr, mut c) = probing::<DRAFT>();
        (bbr.probe.previous_too_high, bbr.bounds.inflight_hi, bbr.pacing_gain) = (true, 500, UNIT * 5 / 4);
        // In Linux eight more are about to leave: a burst of a millisecond.
        bbr.update_phase(&mut c, &RateSample { prior_in_flight: 495, ..RateSample::default() }, BW);
        let early = bbr.in_phase(Phase::Down);
        bbr.update_phase(&mut c, &RateSample { prior_in_flight: 500, ..RateSample::default() }, BW);
        assert!(bbr.in_phase(Phase::Down));
        early
    }
    both!(goes_down: false, true);
    fn cruises<const DRAFT: bool>() -> bool {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        bbr.start_down(&mut c);
        (bbr.probe.ack_phase, bbr.probe.rounds_since, c.in_flight) = (AckPhase::Init, 0, 417);
        bbr.update_phase(&mut c, &RateSample { prior_in_flight: 419, ..RateSample::default() }, BW);
        bbr.in_phase(Phase::Cruise)
    }
    both!(cruises: true, false);
}

#[test]
fn undo_never_shrinks_the_window() {
    // RestoreCwnd (5.6.4.4): the larger of both.
    fn case<const DRAFT: bool>() -> u32 {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        bbr.prior_cwnd = 500;
        bbr.undo(&mut c)
    }
    both!(case: 834, 500);
}

#[test]
fn the_end_of_fast_recovery_restores_the_window() {
    // 5.6.4.4; Linux does so after a timeout only.
    fn case<const DRAFT: bool>() -> u32 {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        bbr.ssthresh(&mut c);
        bbr.on_state(&mut c, CaState::Recovery);
        (c.state, bbr.previous_state, c.cwnd) = (CaState::Recovery, CaState::Recovery, 300);
        bbr.on_state(&mut c, CaState::Open);
        c.cwnd
    }
    both!(case: 834, 300);
    // After a timeout both do, and another one on top of a recovery is no end.
    fn timeout<const DRAFT: bool>() -> (u32, u32) {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        bbr.ssthresh(&mut c);
        (c.state, c.cwnd) = (CaState::Recovery, 1);
        bbr.on_state(&mut c, CaState::Loss);
        let during = c.cwnd;
        c.state = CaState::Loss;
        bbr.on_state(&mut c, CaState::Open);
        (during, c.cwnd)
    }
    both!(timeout: (1, 834), (1, 834));
}

#[test]
fn a_timeout_leaves_the_model_alone() {
    // OnEnterRTO (5.6.4.4).
    fn case<const DRAFT: bool>() -> (u64, u32) {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        bbr.full_bw = BW;
        bbr.on_state(&mut c, CaState::Loss);
        (bbr.full_bw, bbr.bounds.inflight_lo)
    }
    both!(case: (BW, u32::MAX), (0, 834));
}

#[test]
fn the_window_ignores_the_model_until_an_initial_window_is_delivered() {
    // SetCwnd (5.6.4.6): C.delivered < C.InitialCwnd.
    fn grown<const DRAFT: bool>(delivered: u32) -> u32 {
        let (mut bbr, mut c) = starting::<DRAFT>();
        // Two products of 2 segments, and 6 of three bursts.
        (bbr.min_rtt_us, c.pacing_rate, c.cwnd, c.delivered) = (20_000, 10_000, 12, delivered);
        bbr.bw_hi = [0, BW_UNIT / 10_000];
        bbr.set_cwnd(&mut c, 1);
        c.cwnd
    }
    assert_eq!((grown::<true>(9), grown::<true>(10)), (13, 12));
    assert_eq!((grown::<false>(9), grown::<false>(10)), (13, 13), "below two initial windows of 10");
}

#[test]
fn aggregation_is_remembered_for_ten_rounds_without_a_limit() {
    // UpdateACKAggregation (5.5.9): 20 segments at once every 20 ms at one per 10 ms: 20 beyond none expected.
    fn case<const DRAFT: bool>(full_bw_reached: bool, later: u32) -> u32 {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        let bw = BW_UNIT / 10_000 + 1;
        (bbr.full_bw_reached, bbr.rounds.start) = (full_bw_reached, true);
        let mut ack = |bbr: &mut Bbr3<DRAFT>, acked, wait_ms| {
            c.now += Nanos::from_millis(wait_ms);
            bbr.rounds.count += 1;
            bbr.update_aggregation(
                &c,
                &RateSample { acked, delivered: 1, interval_us: 1, ..RateSample::default() },
                bw,
            );
        };
        ack(&mut bbr, 20, 20);
        for _ in 0..later {
            // 1000 ms at this rate are 100 segments: a new interval each time.
            ack(&mut bbr, 1, 1_000);
        }
        if DRAFT { bbr.extra_acked.get() as u32 } else { bbr.aggregation.allowance(bw) }
    }
    assert_eq!((case::<true>(true, 0), case::<false>(true, 0)), (20, 10), "Linux: what 100 ms bring at most");
    assert_eq!((case::<true>(true, 9), case::<true>(true, 10)), (20, 1));
    // Two slots of five rounds: the slot of the first three rounds is overwritten after the second one ends.
    assert_eq!((case::<false>(true, 8), case::<false>(true, 9)), (10, 1));
    assert_eq!((case::<true>(false, 0), case::<true>(false, 1)), (20, 1), "in Startup for its round");
    assert_eq!((case::<false>(false, 1), case::<false>(false, 2)), (10, 1), "two slots of a round");
}

#[test]
fn a_restart_from_idle_keeps_counting_what_was_acknowledged() {
    // HandleRestartFromIdle (5.4.1) sets extra_acked_interval_start only.
    fn case<const DRAFT: bool>() -> (u64, u32) {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        (bbr.aggregation.epoch_acked, c.app_limited) = (50, 1);
        bbr.on_event(&mut c, Event::TxStart);
        (bbr.aggregation.epoch_start_us, bbr.aggregation.epoch_acked)
    }
    both!(case: (5_000_000, 50), (5_000_000, 0));
}

#[test]
fn the_offload_budget_is_three_milliseconds_of_data() {
    // 5.5.8.1, 5.6.3: 12 MB/s * 1 ms * 3 / 1448 = 24.9, also on short paths; at most 3 * 65536 / 1448 = 135.8.
    fn budget<const DRAFT: bool>(min_rtt_us: u32, pacing_rate: u64) -> u32 {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        (bbr.min_rtt_us, c.pacing_rate) = (min_rtt_us, pacing_rate);
        bbr.with_room_for_bursts(&c, 0)
    }
    assert_eq!((budget::<true>(1_200, 12_000_000), budget::<false>(1_200, 12_000_000)), (24, 57));
    assert_eq!((budget::<true>(50_000, 1_000_000_000), budget::<true>(50_000, 1_000)), (135, 6));
}

#[test]
fn unreliable_samples_count_rounds() {
    // UpdateRound (5.5.1, 5.5.5): any ACK of data; RS.interval below the minimum RTT leaves no rate (4.1.2.3).
    fn case<const DRAFT: bool>() -> (u32, u64) {
        let (mut bbr, mut c) = cruising::<DRAFT>();
        let rate = RateSample { delivered: 5, acked: 5, prior_delivered: 10_000, ..RateSample::default() };
        bbr.control(&mut c, &rate);
        (bbr.rounds.count, bbr.max_bw())
    }
    both!(case: (1, BW), (0, BW));
}
