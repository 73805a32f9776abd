//! Worked out by hand from the integer formulas of `tcp_prague.c`.

use super::super::testing::conn;
use super::*;

/// A connection in congestion avoidance with segments of 1,448 bytes, so that a packet has 1,500.
fn avoiding(cwnd: u32, rtt_us: u32) -> Conn {
    let mut c = conn(cwnd, cwnd);
    (c.mss, c.srtt8_us, c.min_rtt_us, c.now) = (1448, rtt_us * 8, rtt_us, Nanos::from_secs(1));
    c
}

fn prague(c: &mut Conn) -> Prague {
    let mut prague = Prague::default();
    prague.init(c);
    prague
}

fn acked(c: &mut Conn, prague: &mut Prague, acked: u32, marked: u32) {
    c.delivered += acked;
    c.delivered_ce += marked;
    c.snd_una += acked;
    prague.control(c, &RateSample { acked, ..RateSample::default() });
}

#[test]
fn the_average_has_a_gain_of_a_sixteenth_and_no_dead_zone() {
    let mut c = avoiding(100, 50_000);
    let mut p = prague(&mut c);
    p.saw_ce = true;
    (c.delivered, c.delivered_ce) = (100, 100);
    p.update_alpha(&c);
    assert_eq!(p.upscaled_alpha, 1 << 24, "1/16 of 1");
    (c.delivered, c.delivered_ce) = (200, 100);
    p.update_alpha(&c);
    assert_eq!(p.upscaled_alpha, (1 << 24) - (1 << 20));
    (c.delivered, c.delivered_ce) = (1200, 101);
    p.update_alpha(&c);
    assert_eq!(p.upscaled_alpha, 15_728_640 - 983_040 + 16_777, "2^24 / 1000");
}

#[test]
fn nothing_is_averaged_before_the_first_mark_which_halves_the_window() {
    let mut c = conn(64, u32::MAX / 2);
    (c.mss, c.srtt8_us) = (1448, 160_000);
    let mut p = prague(&mut c);
    acked(&mut c, &mut p, 10, 0);
    assert_eq!((c.cwnd, p.frac_cwnd, p.upscaled_alpha), (74, 74 << 20, 0), "slow start");
    acked(&mut c, &mut p, 1, 1);
    assert_eq!(p.frac_cwnd, 37 << 20);
    assert_eq!((c.cwnd, c.ssthresh), (73, 73), "one packet per ACK, and slow start has ended");
    acked(&mut c, &mut p, 1, 1);
    assert_eq!(p.frac_cwnd, 37 << 20, "only the first mark");
    assert_eq!(c.cwnd, 72);
}

#[test]
fn growth_is_a_packet_per_round_of_unmarked_acks() {
    let mut c = avoiding(50, 100_000);
    let mut p = prague(&mut c);
    p.saw_ce = true;
    acked(&mut c, &mut p, 10, 4);
    assert_eq!(p.frac_cwnd, (50 << 20) + 125_829, "6 of 50");
    assert_eq!(c.cwnd, 51, "rounded up");
    acked(&mut c, &mut p, 2, 2);
    assert_eq!(p.frac_cwnd, (50 << 20) + 125_829, "nothing for marked ones");
}

#[test]
fn below_the_target_rtt_growth_falls_with_the_square() {
    let mut c = avoiding(50, 12_500);
    let mut p = prague(&mut c);
    assert_eq!((p.round, p.increase), (1, 1 << 20), "the first rounds are as all");
    for _ in 0..3 {
        p.begin_round(&c);
    }
    assert_eq!(p.increase, 1 << 18, "(12.5 / 25)^2");
    c.srtt8_us = 25_000 * 8;
    p.update_increase(&c);
    assert_eq!(p.increase, 1 << 20);
}

#[test]
fn marks_take_half_the_share_once_per_virtual_round_trip_and_losses_half() {
    let mut c = avoiding(100, 10_000);
    let mut p = prague(&mut c);
    p.round = TRANSITION;
    p.upscaled_alpha = (MAX_ALPHA / 2) << SHIFT_G;
    p.on_state(&mut c, CaState::Cwr);
    assert_eq!(p.frac_cwnd, 75 << 20);
    c.now += Nanos::from_micros(24_999);
    p.on_state(&mut c, CaState::Cwr);
    assert_eq!(p.frac_cwnd, 75 << 20, "too early");
    c.now += Nanos::from_micros(1);
    p.on_state(&mut c, CaState::Cwr);
    assert_eq!(p.frac_cwnd, (75 << 20) / 4 * 3);
    p.on_state(&mut c, CaState::Recovery);
    assert_eq!(p.frac_cwnd, (75 << 20) / 8 * 3);
    c.state = CaState::Recovery;
    assert!(p.in_loss);
    acked(&mut c, &mut p, 10, 0);
    assert_eq!((p.frac_cwnd, c.cwnd), ((75 << 20) / 8 * 3, 99), "no growth, and step by step");
    p.on_state(&mut c, CaState::Open);
    assert!(!p.in_loss);
}

/// 2 packets of 1,500 bytes in 10 ms are 300 kB/s; the rate moves by 4/128.
#[test]
fn a_window_of_nearly_nothing_may_grow_to_a_million_packets() {
    let mut c = avoiding(50, 100_000);
    let mut p = prague(&mut c);
    p.saw_ce = true;
    p.frac_cwnd = 1;
    acked(&mut c, &mut p, 1, 0);
    assert_eq!(p.frac_cwnd, (1 << 40) + 1, "2^20 x 2^20 / 1");
    p.upscaled_alpha = MAX_ALPHA << SHIFT_G;
    p.react_to_marks(&c);
    assert_eq!(p.frac_cwnd, 1 << 39, "half of it, though 2^24 x 2^40 is more than 64 bits");
    (p.rate_governs, p.round, p.rate) = (true, TRANSITION, 1 << 45);
    p.grow(&mut c, 1, 0);
    assert_eq!(p.rate, 1 << 45, "0.1 s of it are more than 64 bits, too: the window grows by nearly nothing");
}

#[test]
fn small_windows_are_governed_by_a_rate() {
    let mut c = avoiding(2, 10_000);
    c.ssthresh = 2;
    let mut p = prague(&mut c);
    assert_eq!(c.pacing_rate, 300_000 * 1448 / 1500);
    (p.round, p.saw_ce) = (TRANSITION, true);
    c.snd_nxt = 1_000;
    acked(&mut c, &mut p, 1, 1);
    assert!(p.rate_governs);
    (p.alpha_at, c.snd_una, p.round_end) = (c.now, 1, 1_000);
    p.pace(&mut c);
    assert_eq!(c.pacing_rate, (300_000 + 9_375) * 1448 / 1500);
    c.now += Nanos::from_micros(12_500);
    p.pace(&mut c);
    assert_eq!(c.pacing_rate, (300_000 - 9_375) * 1448 / 1500, "the second half of 25 ms");
    (p.upscaled_alpha, p.rate) = (MAX_ALPHA << SHIFT_G, 20_000);
    p.on_state(&mut c, CaState::Cwr);
    assert_eq!(p.rate, MIN_RATE, "never below 100 kbit/s");
}

#[test]
fn a_steady_short_queue_is_no_classic_one_and_a_long_uneven_one_is() {
    let mut c = avoiding(100, 20_000);
    let mut classic = Classic::default();
    classic.begin(&c);
    classic.rescale(100);
    assert_eq!(classic.shift, 10, "6 + 3 + 1");
    for k in 0..4_000u32 {
        classic.on_rtt(20_000 + 400 * (k % 2));
        if k % 100 == 0 {
            classic.detect(&c);
        }
    }
    assert_eq!((classic.score, classic.share()), (0, 0));
    c.min_rtt_us = 20_000;
    for k in 0..8_000u32 {
        classic.on_rtt(30_000 + 8_000 * (k / 50 % 2));
        if k % 100 == 0 {
            classic.detect(&c);
        }
    }
    assert_eq!(classic.score, Classic::MAX);
    assert_eq!(classic.share(), MAX_ALPHA / 8 * 5);
}
