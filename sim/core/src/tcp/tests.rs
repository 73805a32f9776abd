//! Loss detection, timeouts and undo, ACK by ACK (the vectors of RFC 8985, RFC 5682 and Linux's rules).

use crate::cc::{CaState, build};
use crate::packet::{Kind, Packet, SegRange};
use crate::pool::Pool;
use crate::spec::{ControllerSpec, TcpSpec};
use crate::time::Nanos;

use super::loss::WINDOW_PERSIST;
use super::sender::Sender;
use super::timestamp;

const MS: u64 = 1_000_000;

/// An established bulk sender with a window of `cwnd` segments, all of them sent at 1 s.
fn sender(cwnd: u32, rtt_ms: u64) -> (Sender, Pool) {
    let spec = ControllerSpec { name: "cubic".into(), params: Default::default() };
    let tcp = TcpSpec { initial_cwnd: cwnd, wmem: [4096, 1 << 20, 1 << 20], ..TcpSpec::default() };
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
    s.sacked_out = 3;
    assert_eq!(s.reordering_window(), Nanos::ZERO, "three SACKs, no reordering seen");
    s.reordering_seen = true;
    assert_eq!(s.reordering_window(), Nanos(40 * MS));
    s.sacked_out = 0;
}

#[test]
fn tail_probe_timeout_vectors() {
    // (RTT ms, segments out, wait ms): 2 srtt + 2 ms, or + 200 ms with a single segment out.
    for (rtt, out, wait) in [(600, 10, 1_202), (600, 1, 1_400), (40, 10, 82), (40, 1, 280)] {
        let (mut s, _) = sender(out, rtt);
        // A timeout further away than the probe: the RTO bounds it otherwise.
        s.rtt.backoff = 3;
        assert!(s.schedule_tail_probe(true));
        assert_eq!(s.timer_at, s.tick.deadline(1_000, wait), "{rtt} ms, {out} out");
    }
}

#[test]
fn a_timeout_cuts_to_one_and_undo_restores() {
    let (mut s, mut pool) = sender(40, 50);
    s.conn.ssthresh = 30;
    s.set_now(Nanos(1_400 * MS));
    s.on_rto(&mut pool);
    assert_eq!((s.prior_ssthresh, s.conn.ssthresh, s.conn.cwnd), (30, 28, 1));
    assert_eq!((s.conn.state, s.lost_out, s.retrans_out), (CaState::Loss, 40, 1));
    assert!(s.frto);
    // The ACK of the first flight arrives late: its echo predates the retransmission.
    s.on_ack(Nanos(1_450 * MS), &ack(20, &[], 1_425), &mut pool);
    assert_eq!((s.conn.state, s.conn.ssthresh, s.lost_out), (CaState::Open, 30, 0));
    assert!(s.conn.cwnd >= 40, "{}", s.conn.cwnd);
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
    assert!(s.frto && s.conn.state == CaState::Loss);
    assert!(s.conn.snd_nxt > 40, "new data, not retransmissions");
    assert_eq!(s.counters.retransmitted, 1);
    assert!((1..=2).contains(&(s.counters.sent - sent)));
    // The receiver SACKs the new data only: step 3a, the loss was real.
    let mut answer = ack(1, &[SegRange { start: 40, end: 41 }], 1_475);
    answer.ts_echo = timestamp(Nanos(1_400 * MS));
    s.on_ack(Nanos(1_500 * MS), &answer, &mut pool);
    assert!(!s.frto);
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
fn the_reordering_window_widens_once_per_round_trip() {
    let (mut s, mut pool) = sender(40, 50);
    s.reordering_seen = true;
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
