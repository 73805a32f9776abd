//! Loss detection, timeouts and undo, ACK by ACK (the vectors of RFC 8985, RFC 5682 and Linux's rules).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::cc::{CaState, Conn, Controller, Transmission, build};
use crate::packet::{Kind, Packet, SegRange};
use crate::pool::Pool;
use crate::spec::{ControllerSpec, Kernel, TcpSpec};
use crate::time::Nanos;

use super::super::timestamp;
use super::Sender;
use super::loss::WINDOW_PERSIST;
use super::timers::Timer;

const MS: u64 = 1_000_000;

/// An established bulk sender with a window of `cwnd` segments, all of them sent at 1 s.
fn sender(cwnd: u32, rtt_ms: u64) -> (Sender, Pool) {
    sender_of(Kernel::V6, 1000, cwnd, rtt_ms)
}

fn old_sender(cwnd: u32, rtt_ms: u64) -> (Sender, Pool) {
    sender_of(Kernel::V4_15, 1000, cwnd, rtt_ms)
}

fn sender_of(kernel: Kernel, hz: u32, cwnd: u32, rtt_ms: u64) -> (Sender, Pool) {
    let spec = ControllerSpec { name: "cubic".into(), params: Default::default() };
    let tcp = TcpSpec { kernel, hz, initial_cwnd: cwnd, wmem: [4096, 1 << 20, 1 << 20], ..TcpSpec::default() };
    let mut sender = Sender::new(&tcp, 0, build(&spec, &tcp).unwrap(), 1 << 20);
    let mut pool = Pool::default();
    sender.establish(Nanos(1_000 * MS), Nanos(rtt_ms * MS));
    sender.write_bulk();
    sender.transmit(&mut pool);
    assert_eq!(sender.packets_out(), cwnd);
    (sender, pool)
}

fn ack(seq: u32, sack: &[SegRange], sent_ms: u64) -> Packet {
    let mut packet = Packet { kind: Kind::Ack, seq, window: 1 << 20, ..Packet::default() };
    packet.ts = timestamp(Nanos(sent_ms * MS));
    packet.ts_echo = timestamp(Nanos(1_000 * MS));
    packet.sack[..sack.len()].copy_from_slice(sack);
    packet
}

#[test]
fn reordering_window_vectors() {
    let (mut s, _) = sender(10, 40);
    assert_eq!(s.reordering_window(), Nanos(10 * MS), "a quarter of the minimum RTT");
    s.rack.extra_steps = 2;
    assert_eq!(s.reordering_window(), Nanos(30 * MS));
    s.rack.extra_steps = 200;
    assert_eq!(s.reordering_window(), Nanos(40 * MS), "never above the smoothed RTT");
    s.board.sacked_out = 3;
    assert_eq!(s.reordering_window(), Nanos::ZERO, "three SACKs, no reordering seen");
    s.rack.reordering_seen = true;
    assert_eq!(s.reordering_window(), Nanos(40 * MS));
    s.board.sacked_out = 0;
}

#[test]
fn tail_probe_timeout_vectors() {
    // (RTT ms, segments out, wait ms): 2 srtt + 2 ms, or + 200 ms with a single segment out.
    for (rtt, out, wait) in [(600, 10, 1_202), (600, 1, 1_400), (40, 10, 82), (40, 1, 280)] {
        let (mut s, _) = sender(out, rtt);
        // A timeout further away than the probe: the RTO bounds it otherwise.
        s.rtt.backoff = 3;
        assert!(s.schedule_tail_probe(true));
        assert_eq!(s.timers.at, s.timers.tick.deadline(1_000, wait), "{rtt} ms, {out} out");
    }
}

#[test]
fn a_timeout_cuts_to_one_and_undo_restores() {
    for kernel in [Kernel::V6, Kernel::V4_15] {
        let (mut s, mut pool) = sender_of(kernel, 1000, 40, 50);
        s.conn.ssthresh = 30;
        s.set_now(Nanos(1_400 * MS));
        s.on_rto(&mut pool);
        assert_eq!((s.recovery.prior_ssthresh, s.conn.ssthresh, s.conn.cwnd), (30, 28, 1));
        assert_eq!((s.conn.state, s.board.lost_out, s.board.retrans_out), (CaState::Loss, 40, 1));
        assert!(s.recovery.frto);
        // The ACK of the first flight arrives late: its echo predates the retransmission.
        s.on_ack(Nanos(1_450 * MS), &ack(20, &[], 1_425), &mut pool);
        assert_eq!((s.conn.state, s.conn.ssthresh, s.board.lost_out), (CaState::Open, 30, 0));
        assert!(s.conn.cwnd >= 40, "{}", s.conn.cwnd);
    }
}

#[test]
fn f_rto_sends_new_data_first_and_believes_a_sack_of_old_data_lost() {
    let (mut s, mut pool) = sender(40, 50);
    s.set_now(Nanos(1_400 * MS));
    s.on_rto(&mut pool);
    let sent = s.counters.sent;
    // The head's retransmission is ACKed (its echo is the retransmission's): step 2b, two new segments at most.
    let mut answer = ack(1, &[], 1_425);
    answer.ts_echo = timestamp(Nanos(1_400 * MS));
    s.on_ack(Nanos(1_450 * MS), &answer, &mut pool);
    assert!(s.recovery.frto && s.conn.state == CaState::Loss);
    assert!(s.conn.snd_nxt > 40, "new data, not retransmissions");
    assert_eq!(s.counters.retransmitted, 1);
    assert!((1..=2).contains(&(s.counters.sent - sent)));
    // The receiver SACKs the new data only: step 3a, the loss was real.
    let mut answer = ack(1, &[SegRange { start: 40, end: 41 }], 1_475);
    answer.ts_echo = timestamp(Nanos(1_400 * MS));
    s.on_ack(Nanos(1_500 * MS), &answer, &mut pool);
    assert!(!s.recovery.frto);
    assert!(s.counters.retransmitted > 1);
}

#[test]
fn duplicates_reported_for_all_retransmissions_undo_the_reduction() {
    let (mut s, mut pool) = sender(40, 50);
    let mut t = 1_050;
    // Segment 0 seems lost: three segments above it are SACKed.
    s.on_ack(Nanos(t * MS), &ack(0, &[SegRange { start: 1, end: 5 }], t), &mut pool);
    assert_eq!((s.conn.state, s.counters.retransmitted), (CaState::Recovery, 1));
    // It was late, not lost; then its copy arrives.
    t += 5;
    let mut late = ack(5, &[], t);
    late.ts_echo = timestamp(Nanos(t * MS));
    s.on_ack(Nanos(t * MS), &late, &mut pool);
    assert_eq!(s.conn.state, CaState::Recovery);
    t += 50;
    let mut duplicate = ack(5, &[SegRange { start: 0, end: 1 }], t);
    duplicate.kind = Kind::AckDsack;
    duplicate.ts_echo = timestamp(Nanos(t * MS));
    s.on_ack(Nanos(t * MS), &duplicate, &mut pool);
    assert_eq!(s.conn.state, CaState::Open);
    assert!(s.conn.cwnd >= 40, "{}", s.conn.cwnd);
}

#[test]
fn an_original_may_arrive_before_its_paced_repetition_has_left_the_host() {
    let (mut s, mut pool) = sender(40, 50);
    s.paces = true;
    s.conn.pacing_rate = 10_000_000;
    s.conn.next_departure = Nanos(1_050 * MS + 900_000);
    s.on_ack(Nanos(1_050 * MS), &ack(0, &[SegRange { start: 2, end: 7 }], 1_050), &mut pool);
    s.on_ack(Nanos(1_050 * MS + 200_000), &ack(0, &[SegRange { start: 2, end: 12 }], 1_050), &mut pool);
    assert_eq!((s.conn.state, s.counters.retransmitted), (CaState::Recovery, 2));
    assert!(s.board.get(1).sent > Nanos(1_050 * MS + 300_000), "the repetition waits for its departure");
    s.on_ack(Nanos(1_050 * MS + 300_000), &ack(0, &[SegRange { start: 1, end: 12 }], 1_050), &mut pool);
    assert_eq!(
        (s.rack.rtt, s.rack.sent),
        (Nanos(50 * MS + 200_000), Nanos(1_000 * MS)),
        "the repetition's age says nothing"
    );
}

#[test]
fn the_reordering_window_widens_once_per_round_trip() {
    let (mut s, mut pool) = sender(40, 50);
    s.rack.reordering_seen = true;
    s.counters.retransmitted = 100;
    for k in 0..6u32 {
        let mut duplicate = ack(2 * (k + 1), &[SegRange { start: k, end: k + 1 }], 1_050 + u64::from(k));
        duplicate.kind = Kind::AckDsack;
        s.on_ack(Nanos((1_050 + u64::from(k)) * MS), &duplicate, &mut pool);
    }
    // The first segments were sent with nothing delivered: no round trip has passed since.
    assert_eq!(s.rack.extra_steps, 0);
    s.on_ack(Nanos(1_060 * MS), &ack(40, &[], 1_060), &mut pool);
    let mut duplicate = ack(41, &[SegRange { start: 9, end: 10 }], 1_100);
    duplicate.kind = Kind::AckDsack;
    s.on_ack(Nanos(1_110 * MS), &duplicate, &mut pool);
    assert_eq!((s.rack.extra_steps, s.rack.window_persist), (1, WINDOW_PERSIST));
}

#[test]
fn the_reordering_window_has_255_steps_at_most() {
    // Linux counts them in `reo_wnd_steps`, which has 8 bits and begins at 1.
    for (before, after) in [(252, 253), (253, 254), (254, 254)] {
        let (mut s, mut pool) = sender(40, 50);
        s.rack.reordering_seen = true;
        s.counters.retransmitted = 100;
        s.on_ack(Nanos(1_060 * MS), &ack(40, &[], 1_060), &mut pool);
        (s.rack.extra_steps, s.rack.window_persist) = (before, 1);
        let mut duplicate = ack(41, &[SegRange { start: 9, end: 10 }], 1_100);
        duplicate.kind = Kind::AckDsack;
        s.on_ack(Nanos(1_110 * MS), &duplicate, &mut pool);
        assert_eq!(s.rack.extra_steps, after);
    }
}

/// Segment 0 is missing, segments 1 to 4 are SACKed an RTT after they were sent.
fn hole(s: &mut Sender, pool: &mut Pool) {
    s.on_ack(Nanos(1_050 * MS), &ack(0, &[SegRange { start: 1, end: 5 }], 1_050), pool);
}

#[test]
fn the_reordering_timer_starts_a_recovery_with_a_reduced_window() {
    let (mut s, mut pool) = sender(40, 50);
    s.rack.reordering_seen = true;
    s.stop_writing();
    hole(&mut s, &mut pool);
    // A quarter RTT in whole ticks, and two more (TCP_TIMEOUT_MIN): 13 + 2.
    assert_eq!((s.conn.state, s.timers.pending), (CaState::Disorder, Timer::Reorder));
    assert_eq!(s.timers.at, s.timers.tick.deadline(1_050, 15));
    s.set_now(Nanos(1_065 * MS));
    s.on_retransmission_timer(&mut pool);
    // Linux's tcp_rack_reo_timeout reduces as for one delivered segment: ceil(28 / 40) above the 35 in flight.
    assert_eq!((s.conn.state, s.conn.ssthresh, s.conn.cwnd), (CaState::Recovery, 28, 36));
    assert_eq!(s.counters.retransmitted, 1);
}

#[test]
fn progress_in_a_recovery_sets_the_timeout_anew_although_new_data_are_sent() {
    let (mut s, mut pool) = sender(40, 50);
    hole(&mut s, &mut pool);
    let mut partial = ack(10, &[], 1_061);
    partial.ts_echo = timestamp(Nanos(1_050 * MS));
    let sent = s.conn.snd_nxt;
    s.on_ack(Nanos(1_061 * MS), &partial, &mut pool);
    assert!(s.conn.state == CaState::Recovery && s.conn.snd_nxt > sent);
    assert_eq!((s.timers.pending, s.timers.at), (Timer::Rto, s.timers.tick.deadline(1_061, s.rtt.rto_ticks())));
}

#[test]
fn a_delivery_rate_is_what_arrived_over_the_longer_of_the_intervals() {
    let (mut s, mut pool) = sender(10, 50);
    s.on_ack(Nanos(1_050 * MS), &ack(10, &[], 1_050), &mut pool);
    // Ten segments of 1,448 bytes in 50 ms.
    assert_eq!(s.rate.latest, Some(289_600.0));
}

#[test]
fn rack_waits_for_retransmissions_as_for_originals() {
    let (mut s, mut pool) = sender(40, 50);
    hole(&mut s, &mut pool);
    // Proportional rate reduction sends ceil(28 x 4 / 40) = 3: the missing segment, and two new ones at the same time.
    assert_eq!((s.counters.retransmitted, s.conn.snd_nxt), (1, 42));
    // All but the retransmission arrives; it may be late by a quarter RTT (RFC 8985, section 6.2, step 5).
    s.rack.reordering_seen = true;
    let mut answer = ack(0, &[SegRange { start: 1, end: 42 }], 1_100);
    answer.ts_echo = timestamp(Nanos(1_050 * MS));
    s.on_ack(Nanos(1_100 * MS), &answer, &mut pool);
    assert_eq!((s.timers.pending, s.timers.at), (Timer::Reorder, s.timers.tick.deadline(1_100, 15)));
    s.set_now(Nanos(1_115 * MS));
    s.on_retransmission_timer(&mut pool);
    assert_eq!((s.counters.retransmitted, s.counters.lost), (2, 2));
}

#[test]
fn linux_4_15_keeps_a_millisecond_of_reordering_window() {
    let (mut s, _) = old_sender(10, 40);
    assert_eq!(s.reordering_window(), Nanos(10 * MS), "a quarter of the minimum RTT");
    s.rack.extra_steps = 2;
    assert_eq!(s.reordering_window(), Nanos(30 * MS));
    s.rack.extra_steps = 200;
    assert_eq!(s.reordering_window(), Nanos(40 * MS), "never above the smoothed RTT");
    s.board.sacked_out = 3;
    assert_eq!(s.reordering_window(), Nanos(40 * MS), "SACKs count elsewhere");
    s.conn.state = CaState::Recovery;
    assert_eq!(s.reordering_window(), Nanos(MS));
    s.rack.reordering_seen = true;
    assert_eq!(s.reordering_window(), Nanos(40 * MS));
    let (mut s, _) = old_sender(10, 2);
    assert_eq!(s.reordering_window(), Nanos(MS), "a floor of 1 ms");
    s.board.sacked_out = 0;
}

#[test]
fn linux_4_15_counts_sacks() {
    // Three segments above a hole start recovery at once, though RACK would wait a quarter RTT.
    let (mut s, mut pool) = old_sender(40, 50);
    let hole = |end| [SegRange { start: 10, end }];
    s.on_ack(Nanos(1_050 * MS), &ack(9, &hole(12), 1_050), &mut pool);
    assert_eq!((s.conn.state, s.board.lost_out), (CaState::Disorder, 0));
    s.on_ack(Nanos(1_051 * MS), &ack(9, &hole(13), 1_051), &mut pool);
    assert_eq!((s.conn.state, s.board.lost_out, s.counters.retransmitted), (CaState::Recovery, 1, 1));
    // Lost is what has three SACKed segments above it: 13 and 14, but not 16.
    let blocks = [SegRange { start: 15, end: 16 }, SegRange { start: 17, end: 19 }, SegRange { start: 10, end: 13 }];
    s.on_ack(Nanos(1_051 * MS), &ack(9, &blocks, 1_051), &mut pool);
    assert_eq!((s.board.lost_out, s.board.needs_retransmission(16)), (3, false));
    s.check_counters().unwrap();
}

#[test]
fn linux_4_15_enters_recovery_with_the_head_lost_at_least() {
    let (mut s, mut pool) = old_sender(10, 50);
    // RACK finds segment 1 lost, far too old; the duplicate ACK says that the first one is, too.
    s.board.get_mut(1).sent = Nanos(900 * MS);
    s.on_ack(Nanos(1_050 * MS), &ack(0, &[SegRange { start: 2, end: 3 }], 1_050), &mut pool);
    assert_eq!((s.conn.state, s.board.lost_out), (CaState::Recovery, 2));
    assert_eq!(s.counters.retransmitted, 1, "the head alone, by rate reduction");
    assert!(!s.board.needs_retransmission(0) && s.board.needs_retransmission(1));
}

#[test]
fn linux_4_15_probes_the_tail_only_when_the_window_or_the_data_end() {
    for (hz, wait) in [(1000, 1_202), (250, 302)] {
        // 2 srtt and two ticks.
        let (mut s, _) = sender_of(Kernel::V4_15, hz, 10, 600);
        s.rtt.backoff = 3;
        assert!(s.schedule_tail_probe(true));
        assert_eq!(s.timers.at, s.timers.tick.deadline(u64::from(hz), wait), "HZ {hz}");
        s.conn.cwnd = 20;
        assert!(!s.schedule_tail_probe(true), "data waits for something else than the window");
        s.buffer.write_seq = s.conn.snd_nxt;
        assert!(s.schedule_tail_probe(true));
        s.conn.state = CaState::Cwr;
        assert!(!s.schedule_tail_probe(true));
    }
}

#[test]
fn linux_4_15_probes_with_new_data_without_an_episode() {
    let (mut s, mut pool) = old_sender(10, 50);
    s.set_now(Nanos(1_100 * MS));
    s.timers.pending = Timer::Tlp;
    s.on_retransmission_timer(&mut pool);
    assert_eq!((s.conn.snd_nxt, s.tail_probe.high_seq), (11, None));
    s.buffer.write_seq = s.conn.snd_nxt;
    s.timers.pending = Timer::Tlp;
    s.on_retransmission_timer(&mut pool);
    assert_eq!((s.counters.retransmitted, s.tail_probe.high_seq), (1, Some(11)));
    // Any report of a duplicate ends it.
    let mut duplicate = ack(11, &[SegRange { start: 3, end: 4 }], 1_150);
    duplicate.kind = Kind::AckDsack;
    s.on_ack(Nanos(1_150 * MS), &duplicate, &mut pool);
    assert_eq!(s.tail_probe.high_seq, None);
}

#[test]
fn a_duplicate_of_something_else_ends_a_probe_s_episode_only_as_a_duplicate_ack() {
    let probed = || {
        let (mut s, mut pool) = sender(10, 50);
        s.stop_writing();
        s.set_now(Nanos(1_100 * MS));
        s.timers.pending = Timer::Tlp;
        s.on_retransmission_timer(&mut pool);
        assert_eq!((s.tail_probe.high_seq, s.tail_probe.retransmission), (Some(10), true));
        (s, pool)
    };
    let (mut s, mut pool) = probed();
    s.on_ack(Nanos(1_150 * MS), &ack(10, &[], 1_150), &mut pool);
    assert_eq!(s.tail_probe.high_seq, Some(10), "the original may have arrived, the probe is on its way");
    let mut duplicate = ack(10, &[SegRange { start: 3, end: 4 }], 1_160);
    duplicate.kind = Kind::AckDsack;
    s.on_ack(Nanos(1_160 * MS), &duplicate, &mut pool);
    assert_eq!(s.tail_probe.high_seq, None);
}

#[test]
fn a_timeout_spares_what_was_just_sent_in_newer_kernels_only() {
    for (kernel, lost, cwnd) in [(Kernel::V6, 20, 21), (Kernel::V4_15, 40, 1)] {
        let (mut s, mut pool) = sender_of(kernel, 1000, 40, 50);
        s.set_now(Nanos(1_050 * MS));
        s.rack_advance(&s.board.get(0).clone(), 0);
        (20..40).for_each(|seq| s.board.get_mut(seq).sent = Nanos(1_390 * MS));
        s.set_now(Nanos(1_400 * MS));
        s.on_rto(&mut pool);
        assert_eq!((s.board.lost_out, s.conn.cwnd), (lost, cwnd), "{kernel:?}");
        s.check_counters().unwrap();
    }
}

#[test]
fn original_data_undoes_a_timeout_without_f_rto_in_linux_4_15_only() {
    for (kernel, state) in [(Kernel::V6, CaState::Loss), (Kernel::V4_15, CaState::Disorder)] {
        let (mut s, mut pool) = sender_of(kernel, 1000, 40, 50);
        s.set_now(Nanos(1_400 * MS));
        s.on_rto(&mut pool);
        s.recovery.frto = false;
        // A SACK of a segment that was not sent again; the echo is the retransmission's.
        let mut late = ack(0, &[SegRange { start: 30, end: 31 }], 1_425);
        late.ts_echo = timestamp(Nanos(1_400 * MS));
        s.on_ack(Nanos(1_450 * MS), &late, &mut pool);
        assert_eq!((s.conn.state, s.counters.spurious_rtos), (state, u64::from(state != CaState::Loss)), "{kernel:?}");
    }
}

/// Counts the transmissions it believes lost, and those it knows delivered.
#[derive(Clone, Default)]
struct Witness {
    lost: Arc<AtomicI64>,
    delivered: Arc<AtomicI64>,
}

impl Controller for Witness {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        conn.cwnd / 2
    }

    fn watches_packets(&self) -> bool {
        true
    }

    fn on_packet_delivered(&mut self, _conn: &mut Conn, packet: &Transmission) {
        self.lost.fetch_sub(i64::from(packet.was_lost), Ordering::Relaxed);
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    fn on_packet_lost(&mut self, _conn: &mut Conn, _packet: &Transmission) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    fn on_packet_spared(&mut self, _conn: &mut Conn, _packet: &Transmission) {
        self.lost.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A sender with 40 segments out, and what its controller counts.
fn watched() -> (Sender, Pool, Witness) {
    let witness = Witness::default();
    let tcp = TcpSpec { initial_cwnd: 40, wmem: [4096, 1 << 20, 1 << 20], ..TcpSpec::default() };
    let (mut s, mut pool) = (Sender::new(&tcp, 0, Box::new(witness.clone()), 1 << 20), Pool::default());
    s.establish(Nanos(1_000 * MS), Nanos(50 * MS));
    s.write_bulk();
    s.transmit(&mut pool);
    (s, pool, witness)
}

#[test]
fn watchers_hear_of_every_delivered_segment_once() {
    let (mut s, mut pool, Witness { delivered, .. }) = watched();
    let mut heard = |seq, sack: &[SegRange]| {
        s.on_ack(Nanos(1_050 * MS), &ack(seq, sack, 1_050), &mut pool);
        (delivered.load(Ordering::Relaxed), s.conn.delivered)
    };
    assert_eq!(heard(3, &[]), (3, 3), "plain progress");
    assert_eq!(heard(3, &[SegRange { start: 5, end: 7 }]), (5, 5));
    assert_eq!(heard(8, &[]), (8, 8), "of the five acknowledged, two were known");
}

#[test]
fn watchers_hear_that_what_an_undone_timeout_found_lost_was_not() {
    let (mut s, mut pool, Witness { lost, .. }) = watched();
    s.set_now(Nanos(1_400 * MS));
    s.on_rto(&mut pool);
    assert_eq!(lost.load(Ordering::Relaxed), 40);
    // The ACK of an original: the timeout was spurious.
    s.on_ack(Nanos(1_401 * MS), &ack(2, &[], 1_401), &mut pool);
    assert_eq!((s.conn.state, s.board.lost_out), (CaState::Open, 0));
    assert_eq!(lost.load(Ordering::Relaxed), 1, "of the head, its second transmission is the latest");
}

#[test]
fn recovery_without_a_retransmission_is_undone() {
    let (mut s, mut pool) = sender(40, 50);
    // Pacing (or a full queue of the host) holds the retransmission back.
    s.conn.next_departure = Nanos(2_000 * MS);
    s.on_ack(Nanos(1_050 * MS), &ack(0, &[SegRange { start: 1, end: 5 }], 1_050), &mut pool);
    assert_eq!((s.conn.state, s.counters.retransmitted), (CaState::Recovery, 0));
    // The hole fills all by itself; the echo is no older than anything.
    let mut filled = ack(5, &[], 1_051);
    filled.ts_echo = timestamp(Nanos(1_051 * MS));
    s.on_ack(Nanos(1_051 * MS), &filled, &mut pool);
    assert_eq!((s.conn.state, s.board.lost_out), (CaState::Open, 0));
    assert!(s.conn.cwnd >= 40, "{}", s.conn.cwnd);
}

#[test]
fn the_window_counts_as_used_by_the_kernel_s_rule() {
    for (kernel, limited) in [(Kernel::V6, true), (Kernel::V4_15, false)] {
        let (mut s, _) = sender_of(kernel, 1000, 40, 50);
        assert!(s.conn.is_cwnd_limited() && s.conn.cwnd_limited);
        // A burst later in the round that leaves room in the window; congestion avoidance.
        s.conn.ssthresh = 20;
        s.conn.cwnd = 50;
        s.conn.snd_nxt += 1;
        s.validate_window(false);
        assert_eq!(s.conn.is_cwnd_limited(), limited, "{kernel:?}");
        // In slow start 4.15 looks at the amount only.
        s.conn.ssthresh = 1_000;
        assert!(s.conn.is_cwnd_limited(), "{kernel:?}");
        s.conn.cwnd = 100;
        assert_eq!(s.conn.is_cwnd_limited(), limited, "{kernel:?}");
    }
}

/// Congestion avoidance with a window of 40 segments, which is not used up from now on, and an initial one of 10.
fn leave_room(s: &mut Sender) {
    s.stop_writing();
    (s.conn.cwnd, s.conn.ssthresh, s.conn.initial_cwnd, s.conn.cwnd_limited) = (40, 20, 10, false);
}

#[test]
fn a_window_that_is_not_used_shrinks_once_per_timeout() {
    let (mut s, _) = sender(10, 50);
    leave_room(&mut s);
    let windows = [1_249, 1_250, 1_251, 1_499, 1_500].map(|ms| {
        s.set_now(Nanos(ms * MS));
        s.validate_window(false);
        s.conn.cwnd
    });
    // The timeout is 50 + 200 ms. Half way to the 10 that are out: (40 + 10) / 2 = 25, then (25 + 10) / 2 = 17.
    assert_eq!(windows, [40, 25, 25, 25, 17]);
    assert_eq!(s.conn.ssthresh, 30, "three quarters of the window");
}

#[test]
fn after_an_undone_reduction_a_window_has_a_timeout_before_it_counts_as_not_used() {
    // Linux: tcp_undo_cwnd_reduction sets snd_cwnd_stamp. The ACK that undoes reports a duplicate, and no progress.
    let (mut s, mut pool) = sender(40, 50);
    leave_room(&mut s);
    hole(&mut s, &mut pool);
    let mut late = ack(5, &[], 1_055);
    late.ts_echo = timestamp(Nanos(1_055 * MS));
    s.on_ack(Nanos(1_055 * MS), &late, &mut pool);
    assert_eq!((s.conn.state, s.counters.retransmitted), (CaState::Recovery, 1));
    let mut duplicate = ack(5, &[SegRange { start: 0, end: 1 }], 1_105);
    duplicate.kind = Kind::AckDsack;
    duplicate.ts_echo = timestamp(Nanos(1_105 * MS));
    s.on_ack(Nanos(1_105 * MS), &duplicate, &mut pool);
    assert_eq!((s.conn.state, s.conn.cwnd), (CaState::Open, 40));
    let windows = [0, 1].map(|late| {
        s.set_now(Nanos((1_104 + s.rtt.rto_ticks() + late) * MS));
        s.validate_window(false);
        s.conn.cwnd
    });
    // 35 are out: (40 + 35) / 2.
    assert_eq!(windows, [40, 37]);
}

#[test]
fn an_application_is_no_limit_while_its_segments_wait_to_depart() {
    let spec = ControllerSpec { name: "bbr".into(), params: Default::default() };
    let tcp = TcpSpec::default();
    let mut sender = Sender::new(&tcp, 0, build(&spec, &tcp).unwrap(), 1 << 20);
    let mut pool = Pool::default();
    sender.establish(Nanos(1_000 * MS), Nanos(40 * MS));
    // The pacer: a segment per 2 ms.
    sender.conn.pacing_rate = 724_000;
    sender.counters.sent = 10;
    let mut write = |at_ms: u64, segments| {
        sender.set_now(Nanos(at_ms * MS));
        sender.transmit(&mut pool);
        sender.conn.app_limited = 0;
        sender.write(Nanos(at_ms * MS), segments);
        sender.transmit(&mut pool);
        sender.is_app_limited()
    };
    assert!(write(1_000, 1), "an empty network");
    assert!(write(1_000, 1), "it left at once");
    assert!(!write(1_000, 1), "the second one leaves in 2 ms");
    assert!(write(1_100, 1));
}
