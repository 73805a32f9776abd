//! Vectors worked out by hand from draft-huitema-ccwg-c4-spec-04, and the state machine fed ACK by ACK.

use super::super::testing::conn;
use super::*;
use crate::time::Nanos;

const DRAFT: Flavour = Flavour::Draft;
const MSS: u32 = 1448;

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} is not {b}");
}

#[test]
fn sensitivity_is_the_draft_s_curve() {
    for (rate, expected) in [(49_999.0, 0.0), (525_000.0, 0.46), (1e6, 0.92), (5.5e6, 0.96), (1e7, 1.0), (1e9, 1.0)] {
        close(thresholds::sensitivity(DRAFT, rate), expected);
    }
    close(thresholds::sensitivity(Flavour::Picoquic, 1e6), 963.0 / 1024.0);
}

#[test]
fn thresholds_follow_from_the_sensitivity() {
    // Delay: 1/16 to 1/4 of the max RTT, at most 25 ms.
    close(thresholds::delay_us(1.0, 80_000.0), 5_000.0);
    close(thresholds::delay_us(0.0, 80_000.0), 20_000.0);
    close(thresholds::delay_us(0.0, 200_000.0), 25_000.0);
    // Loss: a single one counts 1/16, which is too much from 0.92 on and not at 0.46.
    close(thresholds::loss(1.0), 0.02);
    close(thresholds::loss(0.92), 0.06);
    close(thresholds::loss(0.46), 0.29);
    close(thresholds::loss(0.0), 0.52);
    close(thresholds::marks(1.0), 3.0 / 32.0);
    close(thresholds::marks(0.0), 6.0 / 32.0);
}

#[test]
fn losses_are_averaged_over_sixteen_packets() {
    let mut drops = Drops::default();
    drops.note_lost();
    close(drops.share, 1.0 / 16.0);
    drops.note_delivered(2);
    close(drops.share, 225.0 / 4_096.0);
    drops.note_lost();
    close(drops.share, (1.0 + 15.0 * 225.0 / 4_096.0) / 16.0);
}

#[test]
fn many_marks_are_believed_at_once_and_few_count_a_sixteenth() {
    let mut c = conn(10, 10);
    let mut marking = Marking::default();
    (c.delivered, c.delivered_ce) = (16, 4);
    marking.update(&c);
    close(marking.share, 0.25 / 16.0);
    (c.delivered, c.delivered_ce) = (20, 7);
    marking.update(&c);
    close(marking.share, 0.75);
    (c.delivered, c.delivered_ce) = (30, 7);
    marking.update(&c);
    close(marking.share, 0.75 * 15.0 / 16.0);
}

#[test]
fn the_max_rtt_rises_at_once_falls_by_an_eighth_and_believes_250_ms_of_jitter() {
    let mut delays = Delays::default();
    delays.set_max(50_000.0);
    let mut era = |rtts: &[u32], unforced| {
        delays.begin_era();
        rtts.iter().for_each(|rtt| delays.note(*rtt, 0.0));
        delays.end_era(unforced);
        (delays.min_us, delays.max_us)
    };
    assert_eq!(era(&[40_000, 90_000], true), (40_000.0, 90_000.0));
    assert_eq!(era(&[40_000, 50_000], true), (40_000.0, 85_000.0), "(7 x 90 + 50) / 8");
    assert_eq!(era(&[48_000, 500_000], true), (41_000.0, 291_000.0), "min (7 x 40 + 48) / 8, and 250 ms more");
    assert_eq!(era(&[45_000, 900_000], false), (41_000.0, 291_000.0), "sent faster than the rate");
    // The floor of a millisecond.
    delays.set_max(10.0);
    assert_eq!(delays.max_us, 1_000.0);
}

/// A path without jitter: one ACK per round, at a rate in segments per round.
struct Path {
    c4: C4,
    c: Conn,
    rtt_us: u32,
}

impl Path {
    /// 100 ms; segments of a round are 10 per unit of 144.8 kB/s.
    fn new(flavour: Flavour) -> Path {
        let mut path = Path { c4: C4::new(flavour, None), c: conn(10, 10), rtt_us: 100_000 };
        path.c.srtt8_us = 8 * path.rtt_us;
        path.c4.init(&mut path.c);
        // Rounds are longer than the shortest, by a queue: the path is the limit.
        path.c4.delays.min_us = 90_000.0;
        path
    }

    /// A round that delivers so many segments, of which so many more are found lost.
    fn round(&mut self, segments: u32, lost: u32) -> State {
        let prior = self.c.delivered;
        self.c.now += Nanos::from_micros(self.rtt_us.into());
        self.c.delivered += segments;
        self.c.in_flight = segments;
        let rate = RateSample {
            delivered: segments,
            interval_us: 100_000,
            prior_delivered: prior,
            acked: segments,
            lost,
            rtt_us: Some(self.rtt_us),
            ..RateSample::default()
        };
        self.c4.control(&mut self.c, &rate);
        self.c4.state
    }

    /// Through Initial and Recovery to the first era of Cruising, at so many segments a round.
    fn cruising(flavour: Flavour, segments: u32) -> Path {
        let mut path = Path::new(flavour);
        // One era that grows and three that do not.
        let states: Vec<State> = (0..5).map(|_| path.round(segments, 0)).collect();
        let [early @ .., last, cruise] = &states[..] else { unreachable!() };
        assert!(early.iter().all(|s| *s == State::Initial), "{states:?}");
        assert_eq!((*last, *cruise), (State::Recovery, State::Cruising));
        // The estimate at the end of Initial is not the point here.
        path.c4.delays.set_max(100_000.0);
        path
    }
}

fn rate(segments_per_round: f64) -> f64 {
    segments_per_round * f64::from(MSS) * 10.0
}

#[test]
fn initial_grows_as_slow_start_and_paces_at_twice_the_rate_and_a_mbit_at_least() {
    let mut path = Path::new(DRAFT);
    assert_eq!((path.c.cwnd, path.c.pacing_rate), (10, 131_072));
    path.round(1, 0);
    assert_eq!((path.c.cwnd, path.c.pacing_rate), (11, 131_072), "one acknowledged");
    path.round(10, 0);
    assert_eq!((path.c.cwnd, path.c.pacing_rate), (21, 289_600), "twice 144.8 kB/s");
    // The window is at least alpha times rate times max RTT: 2 x 20 segments.
    path.round(20, 0);
    assert_eq!(path.c.cwnd, 41);
}

#[test]
fn the_exit_from_initial_derives_the_max_rtt_from_half_of_the_window() {
    let mut path = Path::new(DRAFT);
    // Flat eras add all, 1/8 and 1/64 of the 40 segments acknowledged to a window of 80 (alpha 2) after the first.
    for _ in 0..4 {
        path.round(40, 0);
    }
    assert_eq!(path.c4.state, State::Recovery);
    close(path.c4.nominal_rate, rate(40.0));
    let window = f64::from(80 * MSS + 40 * MSS + 40 * MSS / 8 + 40 * MSS / 64);
    close(path.c4.delays.max_us, window / 2.0 / rate(40.0) * 1e6);
}

#[test]
fn windows_are_rate_times_max_rtt_and_margin() {
    let mut path = Path::cruising(DRAFT, 40);
    path.c4.apply(&mut path.c);
    // Margin 15 ms: 46 segments.
    assert_eq!((path.c.cwnd, path.c.pacing_rate), (46, 579_200));
    // Of 40 ms, a quarter: 16 + 4 segments.
    path.c4.delays.set_max(40_000.0);
    path.c4.apply(&mut path.c);
    assert_eq!(path.c.cwnd, 20);
}

#[test]
fn a_probe_adds_a_sixteenth_and_its_success_pushes_by_a_quarter() {
    let mut path = Path::cruising(DRAFT, 40);
    assert_eq!(path.round(40, 0), State::Cruising);
    assert_eq!(path.round(40, 0), State::Probing);
    assert_eq!(path.c.pacing_rate, 615_400, "17/16 of 579,200");
    assert_eq!(path.round(40, 0), State::Recovery, "what it finds arrives an era later");
    assert_eq!(path.c.pacing_rate, 543_000, "15/16");
    assert_eq!(path.round(42, 0), State::Pushing);
    close(path.c4.nominal_rate, rate(42.0));
    assert_eq!(path.c.pacing_rate, 760_200, "5/4 of 608,160");
    // The first era measures Recovery's packets; then 19/16 is enough growth, and after three eras Initial takes over.
    assert_eq!(path.round(40, 0), State::Pushing);
    assert_eq!(path.round(50, 0), State::Pushing, "42 x 19/16 is 49.9");
    assert_eq!(path.round(60, 0), State::Initial, "50 x 19/16 is 59.4");
    // Without growth Pushing ends.
    let mut path = Path::cruising(DRAFT, 40);
    let states: Vec<State> = [40, 40, 40, 42, 40, 49].map(|n| path.round(n, 0)).into();
    assert_eq!(states[3..], [State::Pushing, State::Pushing, State::Recovery]);
    assert_eq!(path.round(49, 0), State::Cruising);
}

#[test]
fn a_probe_without_growth_or_with_congestion_leads_back_to_cruising() {
    let mut path = Path::cruising(DRAFT, 40);
    let states: Vec<State> = [40; 4].map(|n| path.round(n, 0)).into();
    assert_eq!(states, [State::Cruising, State::Probing, State::Recovery, State::Cruising]);
    // Delay in Recovery: alpha 7/8, one era more, and growth does not count.
    let mut path = Path::cruising(DRAFT, 40);
    let _ = [40; 3].map(|n| path.round(n, 0));
    path.rtt_us = 130_000;
    assert_eq!(path.round(42, 0), State::Recovery);
    assert_eq!(path.c.pacing_rate, 506_800, "7/8 of 579,200");
    path.rtt_us = 100_000;
    assert_eq!(path.round(35, 0), State::Cruising);
    close(path.c4.nominal_rate, rate(40.0));
}

#[test]
fn below_a_millisecond_cruising_paces_three_64ths_faster() {
    for (srtt_us, pacing_rate) in [(999, 606_350), (1_000, 579_200)] {
        let mut path = Path::cruising(DRAFT, 40);
        let _ = [40; 3].map(|n| path.round(n, 0));
        path.c.srtt8_us = 8 * srtt_us;
        assert_eq!(path.round(40, 0), State::Cruising);
        assert_eq!(path.c.pacing_rate, pacing_rate, "67/64 and 64/64 of 579,200");
    }
}

#[test]
fn after_marks_probes_add_half_as_much() {
    let mut path = Path::cruising(DRAFT, 40);
    path.c.delivered_ce = 1;
    assert_eq!(path.round(40, 0), State::Cruising, "one mark of 40 is not congestion");
    assert_eq!(path.round(40, 0), State::Probing);
    assert_eq!(path.c.pacing_rate, 597_300, "33/32 of 579,200");
}

#[test]
fn in_cruising_each_signal_cuts_the_rate_by_its_measure() {
    // Sensitivity of 1.448 MB/s: 0.92 + 0.08 x 0.448 / 9. A single loss is congestion and costs a quarter.
    let mut path = Path::cruising(DRAFT, 100);
    assert_eq!(path.round(100, 1), State::Recovery);
    close(path.c4.nominal_rate, 0.75 * rate(100.0));
    assert_eq!(path.c.pacing_rate, 1_018_125, "15/16 of 1,086,000");
    close(path.c4.delays.max_us, 100_000.0);
    // picoquic scales it by the sensitivity, and shortens the max RTT, too.
    let mut path = Path::cruising(Flavour::Picoquic, 100);
    let knee = 963.0 / 1024.0;
    let beta = 0.25 * (1.0 + knee + (1.0 - knee) * 0.448 / 9.0) / 2.0;
    assert_eq!(path.round(100, 1), State::Recovery);
    close(path.c4.nominal_rate, (1.0 - beta) * rate(100.0));
    close(path.c4.delays.max_us, (1.0 - beta) * 100_000.0);
    // Delay: half of the threshold above it is more than a quarter; a tenth of it costs a tenth.
    let mut path = Path::cruising(DRAFT, 100);
    let threshold = thresholds::delay_us(path.c4.sensitivity(), 100_000.0);
    path.rtt_us = (100_000.0 + 1.1 * threshold) as u32;
    let excess = f64::from(path.rtt_us) - 100_000.0 - threshold;
    assert_eq!(path.round(100, 0), State::Recovery);
    close(path.c4.nominal_rate, (1.0 - excess / threshold) * rate(100.0));
    let mut path = Path::cruising(DRAFT, 100);
    path.rtt_us = 110_000;
    path.round(100, 0);
    close(path.c4.nominal_rate, 0.75 * rate(100.0));
    // In picoquic a delay counts after faster eras only.
    let mut path = Path::cruising(Flavour::Picoquic, 100);
    path.rtt_us = 110_000;
    assert_eq!(path.round(100, 0), State::Cruising);
    // Marks: 60 of 100 are believed at once.
    let mut path = Path::cruising(DRAFT, 100);
    path.c.delivered_ce = 60;
    assert_eq!(path.round(100, 0), State::Recovery);
    close(path.c4.nominal_rate, 0.75 * rate(100.0));
}

#[test]
fn slow_flows_bear_losses_that_stop_fast_ones() {
    // 144.8 kB/s: sensitivity 0.92 x 94.8 / 950, threshold 47 %. Eight losses in a row average 40 %, ten 48 %.
    let mut path = Path::cruising(DRAFT, 10);
    assert_eq!(path.round(10, 8), State::Cruising);
    let mut path = Path::cruising(DRAFT, 10);
    assert_eq!(path.round(10, 11), State::Recovery);
}

#[test]
fn losses_found_in_recovery_are_those_of_before() {
    let mut path = Path::cruising(DRAFT, 100);
    path.round(100, 1);
    assert_eq!(path.round(75, 20), State::Cruising);
    close(path.c4.nominal_rate, 0.75 * rate(100.0));
}

#[test]
fn two_congested_cycles_in_a_row_set_the_rate_to_what_was_measured() {
    let mut path = Path::cruising(DRAFT, 100);
    path.rtt_us = 110_000;
    assert_eq!(path.round(100, 0), State::Recovery);
    // First cycle: the excess goes on, alpha falls, then the queue is gone.
    path.rtt_us = 100_000;
    assert_eq!(path.round(40, 0), State::Cruising);
    close(path.c4.nominal_rate, 0.75 * rate(100.0));
    path.rtt_us = 110_000;
    assert_eq!(path.round(40, 0), State::Recovery);
    path.rtt_us = 100_000;
    assert_eq!(path.round(40, 0), State::Cruising);
    // Two cuts would leave 56 segments a round; 40 were measured.
    close(path.c4.nominal_rate, rate(40.0));
}

#[test]
fn a_jittery_path_starts_anew_once() {
    let mut path = Path::cruising(DRAFT, 10);
    path.c4.delays.set_max(300_000.0);
    assert_eq!(path.round(10, 0), State::Initial, "100 ms is less than 2/5 of 275 ms");
    for _ in 0..4 {
        path.round(10, 0);
    }
    path.c4.delays.set_max(300_000.0);
    assert_eq!(path.round(10, 0), State::Cruising);
    let mut fast = Path::cruising(DRAFT, 100);
    fast.c4.delays.set_max(300_000.0);
    assert_eq!(fast.round(100, 0), State::Cruising, "above 1 MB/s");
}

#[test]
fn in_picoquic_growths_in_a_row_push_again_and_lead_to_initial() {
    let mut path = Path::cruising(Flavour::Picoquic, 40);
    let states: Vec<State> = [40, 40, 40, 42, 42, 50, 50, 60].map(|n| path.round(n, 0)).into();
    use State::*;
    assert_eq!(states, [Cruising, Probing, Recovery, Pushing, Recovery, Pushing, Recovery, Initial]);
}

#[test]
fn in_picoquic_initial_takes_half_of_the_peak_rate() {
    let mut path = Path::new(Flavour::Picoquic);
    // Two segments every 2 ms: 1.448 MB/s, though the rate over a round is a tenth of it.
    for k in 0..3 {
        path.c.now = Nanos::from_millis(100 + 2 * k);
        path.c.delivered += 2;
        path.c4.peak.note(&path.c, 100_000);
    }
    close(path.c4.peak.rate, 1_448_000.0);
    path.c4.nominal_rate = rate(10.0);
    path.c4.apply(&mut path.c);
    assert_eq!(path.c.pacing_rate, (289_600 + 1_448_000) / 2);
    assert_eq!(path.c.cwnd, 50, "half of 100 segments a round");
}

#[test]
fn a_remembered_window_is_used_for_two_eras_on_the_path_it_was_found_on() {
    let seed = |rtt_ms| {
        let given = serde_json::json!({"resume_cwnd": 500, "resume_rtt_ms": rtt_ms});
        let given = given.as_object().unwrap().clone();
        let params = Params { given: &given, kernel: crate::spec::Kernel::V6 };
        Remembered::of(&params).unwrap()
    };
    let mut path = Path::new(DRAFT);
    path.c4 = C4::new(DRAFT, seed(100.0));
    path.c4.init(&mut path.c);
    assert_eq!((path.c4.state, path.c.cwnd, path.c.pacing_rate), (State::Resuming, 500, 7_240_000));
    // The first window does not test it: less than 16/17 is in flight.
    assert_eq!(path.round(10, 0), State::Resuming);
    path.c.in_flight = 500;
    let states: Vec<State> = [500, 500, 500].map(|n| path.round(n, 0)).into();
    assert_eq!(states, [State::Resuming, State::Recovery, State::Cruising]);
    close(path.c4.nominal_rate, rate(500.0));
    path.c4 = C4::new(DRAFT, seed(300.0));
    path.c.cwnd = 10;
    path.c4.init(&mut path.c);
    assert_eq!(path.c4.state, State::Initial, "another path's");
}

#[test]
fn a_timeout_is_no_congestion() {
    let mut path = Path::cruising(DRAFT, 100);
    let before = path.c4.nominal_rate;
    path.c.cwnd = 1;
    path.c.lost += 100;
    path.round(100, 0);
    assert_eq!((path.c4.state, path.c4.nominal_rate), (State::Cruising, before));
    assert_eq!(path.c.cwnd, 115, "the window is back with the next ACK");
}
