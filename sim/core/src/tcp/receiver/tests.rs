//! What a receiver acknowledges, and the windows it offers.

use super::window::{autotuned_window, window_of};
use super::*;
use crate::packet::{Kind, Packet};
use crate::spec::Kernel;
use crate::tcp::timestamp;

fn buffer_for(window: u64, mss: u64) -> u64 {
    window / mss * memory_per_segment(mss, truesize(1514))
}

#[test]
fn autotuning_vectors() {
    assert_eq!(memory_per_segment(1460, truesize(1514)), 2944);
    let buffer = |copied| buffer_for(autotuned_window(Autotuning::Proportional, copied, 29_200, 1460), 1460);
    assert_eq!((buffer(40_000), window_of(362_112)), (362_112, 181_056));
    assert_eq!((buffer(60_000), window_of(897_920)), (897_920, 448_960));
}

#[test]
fn autotuning_vectors_of_linux_4_15() {
    // In the order of the specification: each measurement becomes the next one's base.
    for (copied, window, buffer) in [(40_000, 155_040, 312_064), (38_000, 149_040, 300_288), (30_000, 83_360, 167_808)]
    {
        let got = autotuned_window(Autotuning::Steps, copied, 29_200, 1460);
        assert_eq!((got, buffer_for(got, 1460)), (window, buffer));
    }
    assert_eq!(autotuned_window(Autotuning::Steps, 43_800, 29_200, 1460), 2 * (2 * 43_800 + 16 * 1460));
}

/// A receiver of Linux 4.15 whose buffer is no limit.
fn old_receiver() -> Receiver {
    Receiver::new(&TcpSpec { kernel: Kernel::V4_15, rmem: [60_000_000; 3], ..TcpSpec::default() })
}

#[test]
fn the_window_opens_threefold_per_round_trip() {
    let mut r = old_receiver();
    let (mut windows, mut seq) = (vec![u64::from(r.initial_window())], 0);
    for round in 1..7u64 {
        // The sender uses the whole window, in full segments.
        let segments = windows[windows.len() - 1] / 1448;
        for _ in 0..segments {
            receive(&mut r, seq, Nanos::from_millis(600 * round)).expect("the growing window asks for quick ACKs");
            seq += 1;
        }
        windows.push(r.rcv_ssthresh);
    }
    assert_eq!(windows, [29_200, 87_120, 260_880, 782_160, 2_346_000, 7_037_520, 21_112_080]);
}

#[test]
fn the_first_window_is_whole_segments_and_the_buffer_keeps_one_back() {
    let of = |kernel, rmem| {
        let r = Receiver::new(&TcpSpec { kernel, rmem, ..TcpSpec::default() });
        (r.right_edge, r.rcvbuf, r.window_clamp, r.unit)
    };
    let max = 6_291_456;
    assert_eq!(of(Kernel::V6, [4096, 131_072, max]), (64_240, 131_072, 64_088, 128));
    // Linux 4.15: 20 segments, and a buffer with room for them, four times over.
    assert_eq!(of(Kernel::V4_15, [4096, 87_380, max]), (29_200, 368_640, 182_872, 128));
    assert_eq!(of(Kernel::V4_15, [4096, 524_288, max]), (29_200, 524_288, 260_696, 128));
    let fixed = TcpSpec { moderate_rcvbuf: false, rmem: [4096, 87_380, max], ..TcpSpec::default() };
    assert_eq!(Receiver::new(&TcpSpec { kernel: Kernel::V4_15, ..fixed }).rcvbuf, 92_160);
    assert_eq!([212_992, 6_291_456, 60_000_000, 1 << 26].map(window_scale), [2, 7, 10, 11]);
    assert_eq!((initial_segments(20, 1460), initial_segments(20, 8960)), (20, 3));
}

#[test]
fn linux_6_12_offers_what_the_buffer_allows_from_the_first_ack_on() {
    let first_window = |kernel| {
        let mut r = Receiver::new(&TcpSpec { kernel, rmem: [60_000_000; 3], ..TcpSpec::default() });
        assert_eq!((r.initial_window(), r.window_scale()), (65_535, 10));
        let window = receive(&mut r, 0, Nanos::from_millis(600)).unwrap().window;
        (window, r.window_clamp)
    };
    assert_eq!(first_window(Kernel::V6), (68_608, 29_998_552));
    // Half of the buffer less the reserve of a segment and its slow start; 1448 of the 2304 bytes a segment takes, in 256ths.
    assert_eq!(first_window(Kernel::V6_12), (30_002_176, 37_500_000));
}

#[test]
fn a_window_nearly_used_up_is_closed_but_never_taken_back() {
    let mut r = receiver();
    let mut ack = receive(&mut r, 0, Nanos::from_millis(1)).unwrap();
    let edge = u64::from(ack.seq) * 1448 + u64::from(ack.window);
    // Everything but segment 1: waiting segments fill the buffer.
    for seq in 2..29 {
        ack = receive(&mut r, seq, Nanos::from_millis(1)).unwrap_or(ack);
        assert!(u64::from(ack.seq) * 1448 + u64::from(ack.window) >= edge);
        assert_eq!(u64::from(ack.window) % r.unit, 0);
    }
    assert_eq!(r.free_window(), 0, "{} of {} bytes free", r.space(), window_of(r.rcvbuf));
}

#[test]
fn linux_4_15_acks_every_segment_beyond_a_hole() {
    let answered = |mut r: Receiver| {
        let t = Nanos::from_millis(1);
        receive(&mut r, 0, t);
        (2..40).filter(|seq| receive(&mut r, *seq, t).is_some()).count()
    };
    assert_eq!(answered(old_receiver()), 38);
    assert!(answered(Receiver::new(&TcpSpec::default())) < 38, "newer kernels compress duplicate ACKs");
}

/// Hand over segment `seq`; the ACK it causes, if any.
fn receive(r: &mut Receiver, seq: u32, at: Nanos) -> Option<Packet> {
    receive_marked(r, seq, Marks::NONE, at).first().copied()
}

/// The same with marks; all ACKs it causes.
pub(crate) fn receive_marked(r: &mut Receiver, seq: u32, marks: Marks, at: Nanos) -> Vec<Packet> {
    let mut pool = Pool::default();
    let (ts, ts_echo) = (timestamp(at), timestamp(Nanos::ZERO));
    r.on_data(at, Arrival { flow: 0, seq, ts, ts_echo, marks, payload: 1448 }, &mut pool);
    (0..pool.sent_len()).map(|k| *pool.get(pool.sent_id(k))).collect()
}

fn receiver() -> Receiver {
    Receiver::new(&TcpSpec { rmem: [4096, 65_536, 65_536], ..TcpSpec::default() })
}

#[test]
fn segments_of_one_poll_cause_one_ack() {
    let tcp = TcpSpec { gro_segments: 4, rmem: [4096, 1 << 20, 1 << 20], ..TcpSpec::default() };
    let mut r = Receiver::new(&tcp);
    r.establish(Nanos::ZERO, Nanos::from_millis(50));
    let us = |us| Nanos::from_micros(1_000 + us);
    let poll = |r: &mut Receiver, at| {
        let mut pool = Pool::default();
        r.on_timer(at, 0, &mut pool);
        (pool.sent_len() > 0).then(|| pool.get(pool.sent_id(0)).seq)
    };
    // Four make a full super-segment.
    assert!((0..3).all(|seq| receive(&mut r, seq, us(u64::from(seq))).is_none()));
    assert_eq!(receive(&mut r, 3, us(3)).unwrap().seq, 4);
    // Two within 50 us of the first are collected by its poll.
    assert!(receive(&mut r, 4, us(100)).is_none());
    assert!(receive(&mut r, 5, us(140)).is_none());
    assert_eq!(r.next_timer(), us(150));
    assert_eq!((poll(&mut r, us(149)), poll(&mut r, us(150))), (None, Some(6)));
    assert!(r.next_timer().is_never());
    // A gap is not waited with, and reports what was held with it.
    assert!(receive(&mut r, 6, us(200)).is_none());
    let ack = receive(&mut r, 8, us(210)).unwrap();
    assert_eq!((ack.seq, ack.sack[0]), (7, SegRange { start: 8, end: 9 }));
    assert!(r.next_timer().is_never());
}

#[test]
fn windows_come_in_whole_units_and_leave_room_for_what_is_unread() {
    // 2^26 bytes fit into a window field in units of 2^11; the buffer itself is the limit from the start.
    let mut r = Receiver::new(&TcpSpec { rmem: [4096, 1 << 17, 1 << 26], ..TcpSpec::default() });
    (r.rcv_ssthresh, r.right_edge) = (1 << 16, 1 << 16);
    let t = Nanos::from_millis(1);
    let window = |r: &mut Receiver, seq| receive(r, seq, t).unwrap().window;
    assert_eq!(window(&mut r, 0), 1 << 16, "1,152 bytes less, rounded up");
    for seq in 2..20 {
        receive(&mut r, seq, t);
    }
    let filled = window(&mut r, 1);
    assert_eq!(filled, ((1 << 16) - 19 * 1_152u32).next_multiple_of(1 << 11), "19 segments not read yet");
    receive(&mut r, 20, t);
    assert_eq!(window(&mut r, 21), 1 << 16, "read by now");
}

#[test]
fn the_handshake_bounds_how_long_an_ack_may_wait() {
    for (rtt_ms, ticks) in [(20, 40), (60, 60), (600, 200)] {
        let mut r = receiver();
        r.establish(Nanos::ZERO, Nanos::from_millis(rtt_ms));
        (r.ato, r.quick) = (1_000, 0);
        r.delay(Nanos::from_millis(1_000));
        assert_eq!(r.delayed_at, r.tick.deadline(1_000, ticks), "{rtt_ms} ms");
    }
}

#[test]
fn delayed_acks_come_every_second_segment_once_quick_acks_are_spent() {
    let mut r = receiver();
    let mut acks = Vec::new();
    for i in 0..60u32 {
        let now = Nanos::from_micros(1_000 + 100 * u64::from(i));
        acks.extend(receive(&mut r, i, now).map(|ack| ack.seq));
    }
    assert!(acks.windows(2).any(|w| w[1] - w[0] == 1), "quick ACKs at first: {acks:?}");
    let tail = &acks[acks.len() - 5..];
    assert!(tail.windows(2).all(|w| w[1] - w[0] == 2), "then every second: {acks:?}");
}

#[test]
fn holes_are_reported_most_recent_first_and_filled_at_once() {
    let mut r = receiver();
    let t = Nanos::from_millis(1);
    receive(&mut r, 0, t);
    receive(&mut r, 2, t);
    let ack = receive(&mut r, 5, t).unwrap();
    assert_eq!(ack.sack[..2], [SegRange { start: 5, end: 6 }, SegRange { start: 2, end: 3 }]);
    let ack = receive(&mut r, 1, t).unwrap();
    assert_eq!(ack.seq, 3);
    assert_eq!(ack.sack[0], SegRange { start: 5, end: 6 });
    let again = receive(&mut r, 2, t).unwrap();
    assert_eq!((again.kind, again.sack[0]), (Kind::AckDsack, SegRange { start: 2, end: 3 }));
}
