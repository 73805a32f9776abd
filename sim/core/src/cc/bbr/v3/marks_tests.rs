//! Vectors worked by hand from the integer formulas and constants of Google's `tcp_bbr.c` (branch v3).

use super::super::super::testing::conn;
use super::tests::{BW, cruising};
use super::*;

/// A flow of 100 Mbit/s over a path of 50 ms, on which marks count.
fn marked() -> (Bbr3<false>, Conn) {
    let (mut bbr, mut c) = cruising::<false>();
    bbr.marks = Some(Marks::new(true, u32::MAX));
    bbr.marks.as_mut().unwrap().eligible = true;
    (c.delivered, c.exact) = (0, true);
    (bbr, c)
}

fn marks(bbr: &Bbr3<false>) -> &Marks {
    bbr.marks.as_ref().unwrap()
}

/// The end of a round of `delivered` segments, of which so many were marked.
fn round(bbr: &mut Bbr3<false>, c: &mut Conn, delivered: u32, marked: u32) {
    c.delivered += delivered;
    c.delivered_ce += marked;
    (c.ece, bbr.rounds.start) = (marked > 0, true);
    bbr.note_marks(c);
    bbr.rounds.start = false;
}

#[test]
fn the_average_share_of_marks_begins_at_one_and_follows_by_a_sixteenth() {
    let (mut bbr, mut c) = marked();
    let mut after = |delivered, marked| {
        round(&mut bbr, &mut c, delivered, marked);
        marks(&bbr).alpha
    };
    assert_eq!(after(100, 100), 256, "240 + 16");
    assert_eq!([after(100, 0), after(7, 0), after(400, 0), after(1, 0)], [240, 225, 210, 196]);
    assert_eq!(after(100, 50), 191, "240 * 196 / 256 = 183 and 16 * 128 / 256 = 8");
    assert_eq!(after(0, 0), 191, "nothing was delivered");
    assert_eq!(after(300, 18), 179, "240 * 191 / 256 = 179; the share is 15, a 256th of 16 times that is 0");
}

#[test]
fn marks_count_from_the_first_round_with_a_minimum_rtt_of_at_most_five_milliseconds() {
    let (mut bbr, mut c) = marked();
    bbr.marks = Some(Marks::new(false, 5_000));
    bbr.min_rtt_us = 5_001;
    round(&mut bbr, &mut c, 100, 50);
    assert!(!marks(&bbr).eligible && !marks(&bbr).in_round && marks(&bbr).alpha == 256);
    bbr.min_rtt_us = 5_000;
    round(&mut bbr, &mut c, 100, 0);
    assert_eq!(marks(&bbr).alpha, 244, "240 and 16 * (256 * 50 / 200) / 256: since the beginning");
    bbr.min_rtt_us = 20_000;
    round(&mut bbr, &mut c, 100, 100);
    assert!(marks(&bbr).eligible && marks(&bbr).in_round, "for good");
}

fn params(given: &serde_json::Map<String, serde_json::Value>) -> Params<'_> {
    Params { given, kernel: crate::spec::Kernel::V6 }
}

#[test]
fn the_response_is_off_by_default_asks_for_exact_echoes_and_is_not_in_the_draft() {
    let built = |given: serde_json::Value| build(&params(given.as_object().unwrap())).map(|c| c.ecn_use());
    assert_eq!(built(serde_json::json!({})), Ok(EcnUse::Host));
    assert_eq!(built(serde_json::json!({"ecn_low": "ect0"})), Ok(EcnUse::Exact { ect1: false }));
    assert_eq!(built(serde_json::json!({"ecn_low": "ect1", "ecn_max_rtt_ms": 0})), Ok(EcnUse::Exact { ect1: true }));
    let error = built(serde_json::json!({"ecn_low": "ect1", "draft": "06"})).unwrap_err();
    assert!(error.starts_with("ecn_low = \"ect1\": the draft"), "{error}");
}

#[test]
fn marks_outside_of_probes_lower_the_data_in_flight_by_a_third_of_the_average() {
    // 256 / 3 = 85: of the window of 834, 834 * (256 - 85 * alpha / 256) / 256 is left.
    let left = |alpha, lost, latest| {
        let (mut bbr, mut c) = marked();
        bbr.marks.as_mut().unwrap().alpha = alpha;
        c.ece = true;
        bbr.note_marks(&c);
        bbr.loss_in_round = lost;
        (bbr.bw_latest, bbr.inflight_latest, bbr.loss_round_start) = (BW / 2, latest, true);
        let rate = RateSample { acked: 1, delivered: 400, interval_us: 50_000, ..RateSample::default() };
        bbr.update_congestion_signals(&c, &rate, BW / 2);
        assert!(!marks(&bbr).in_round && !bbr.loss_in_round, "a new round");
        (bbr.bounds.inflight_lo, bbr.bounds.bw_lo)
    };
    assert_eq!(left(256, false, 400), (557, u64::MAX), "834 * 171 / 256; the bandwidth stays");
    assert_eq!(left(128, false, 400), (697, u64::MAX), "834 * 214 / 256");
    assert_eq!(left(3, false, 400), (834, u64::MAX), "85 * 3 / 256 is nothing");
    assert_eq!(left(256, false, 800), (557, u64::MAX), "below what was delivered, unlike after losses");
    let bw_lo = BW * 180 / 256;
    assert_eq!(left(256, true, 400), (557, bw_lo), "losses leave 586");
    assert_eq!(left(3, true, 400), (586, bw_lo), "the lower of the two");
}

#[test]
fn marks_of_a_probe_lower_nothing() {
    let (mut bbr, mut c) = marked();
    bbr.start_refill(&mut c, 0);
    c.ece = true;
    bbr.note_marks(&c);
    bbr.loss_round_start = true;
    let rate = RateSample { acked: 1, delivered: 400, interval_us: 50_000, ..RateSample::default() };
    bbr.update_congestion_signals(&c, &rate, BW / 2);
    assert_eq!(bbr.bounds.inflight_lo, u32::MAX);
}

#[test]
fn two_rounds_with_half_of_their_packets_marked_end_start_up() {
    let run = |rounds: &[u32]| {
        let (mut bbr, mut c) = marked();
        (bbr.mode, bbr.full_bw_reached, bbr.bw_hi, bbr.inflight_latest) = (Mode::Startup, false, [0, BW], 500);
        for marked in rounds {
            round(&mut bbr, &mut c, 100, *marked);
        }
        (bbr.full_bw_reached, bbr.bounds.inflight_hi)
    };
    assert_eq!(run(&[100]), (false, u32::MAX));
    assert_eq!(run(&[50, 50]), (true, 500), "what was delivered, or the product of 417");
    assert_eq!(run(&[100, 49, 100]), (false, u32::MAX), "in a row");
    assert_eq!(run(&[100, 49, 100, 50]), (true, 500));
}

#[test]
fn a_sample_with_more_than_half_of_its_packets_marked_ends_a_probe() {
    let run = |delivered, marked_packets, eligible| {
        let (mut bbr, mut c) = marked();
        bbr.marks.as_mut().unwrap().eligible = eligible;
        bbr.start_refill(&mut c, 0);
        bbr.start_up(&c, BW);
        bbr.probe.samples = true;
        let rate = RateSample { delivered, marked: marked_packets, flight_then: 300, ..RateSample::default() };
        bbr.adapt_upper_bounds(&mut c, &rate);
        (bbr.in_phase(Phase::Down), bbr.bounds.inflight_hi)
    };
    // While probing the target has two packets more than the product: 419 * 180 / 256 = 294.
    assert_eq!(run(10, 6, true), (true, 300));
    assert_eq!(run(10, 5, true), (false, u32::MAX));
    assert_eq!(run(1, 1, true), (true, 300), "half of one is nothing");
    assert_eq!(run(10, 10, false), (false, u32::MAX));
}

#[test]
fn when_the_marks_of_a_cycle_without_loss_cease_the_next_probe_begins_with_half_the_bound() {
    let cycle = |marked_packets, lost_since, state| {
        let (mut bbr, mut c) = marked();
        bbr.bounds.inflight_hi = 500;
        bbr.note_cycle(&RateSample { marked: marked_packets, lost_since, ..RateSample::default() });
        c.state = state;
        let due = bbr.probe_if_due(&mut c);
        (due, bbr, c)
    };
    assert!(!cycle(0, 0, CaState::Open).0);
    assert!(!cycle(1, 1, CaState::Open).0, "losses");
    assert!(!cycle(1, 0, CaState::Cwr).0, "the marks have not ceased");
    let (due, mut bbr, mut c) = cycle(1, 0, CaState::Open);
    assert!(due && bbr.in_phase(Phase::Refill));
    // 500 / 2 = 250, the power of two below is 128: a segment per 834 / 128 = 6 acknowledged.
    bbr.start_up(&c, BW);
    bbr.grow_inflight_hi(&c, 5);
    assert_eq!(bbr.bounds.inflight_hi, 500);
    bbr.grow_inflight_hi(&c, 1);
    assert_eq!(bbr.bounds.inflight_hi, 501);
    bbr.start_down(&mut c);
    assert!(!bbr.probe_if_due(&mut c), "once per cycle");
    bbr.note_cycle(&RateSample { marked: 1, ..RateSample::default() });
    bbr.note_loss(&mut c, &Transmission { in_flight: 10, ..lost_packet() });
    assert!(!bbr.probe_if_due(&mut c), "a packet found lost counts at once");
}

fn lost_packet() -> Transmission {
    Transmission { seq: 1, sent: crate::time::Nanos::ZERO, in_flight: 1, lost: 0, app_limited: false, was_lost: false }
}

#[test]
fn an_unlimited_bound_makes_the_next_probe_grow_by_a_segment_per_segment() {
    let (mut bbr, c) = marked();
    bbr.note_cycle(&RateSample { marked: 1, ..RateSample::default() });
    assert_eq!(bbr.marks_ceased(&c), Some(30), "2^31 - 1 is at least 2^30");
    let c = Conn { state: CaState::Cwr, ..conn(10, 10) };
    assert_eq!(bbr.marks_ceased(&c), None);
}
