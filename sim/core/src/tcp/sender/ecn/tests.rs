//! Vectors of RFC 3168 and RFC 9768.

use crate::cc::build;
use crate::packet::{Kind, SegRange};
use crate::pool::Pool;
use crate::spec::ControllerSpec;
use crate::time::Nanos;

use super::*;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn sender(name: &str, ecn: EcnMode, window: u32) -> (Sender, Pool) {
    let tcp = TcpSpec { ecn, ..TcpSpec::default() };
    let spec = ControllerSpec { name: name.into(), params: Default::default() };
    let mut s = Sender::new(&tcp, 0, build(&spec, &tcp).unwrap(), 1 << 20);
    let mut pool = Pool::default();
    s.establish(ms(1_000), ms(50));
    (s.conn.cwnd, s.conn.ssthresh) = (window, window);
    s.write_bulk();
    s.transmit(&mut pool);
    (s, pool)
}

fn ack(seq: u32, marks: Marks) -> Packet {
    Packet {
        kind: Kind::Ack,
        seq,
        marks,
        window: 1 << 20,
        ts_echo: crate::tcp::timestamp(ms(1_000)),
        ..Packet::default()
    }
}

/// Marks of what was sent since the last call.
fn sent(pool: &mut Pool) -> Vec<Marks> {
    let marks = (0..pool.sent_len()).map(|k| pool.get(pool.sent_id(k)).marks).collect();
    pool.clear_sent();
    marks
}

#[test]
fn an_echo_starts_one_reduction_per_window_that_only_new_data_confirm() {
    let (mut s, mut pool) = sender("reno", EcnMode::Classic, 40);
    assert_eq!(sent(&mut pool), [Marks::ECT0; 40]);
    s.on_ack(ms(1_050), &ack(2, Marks::ECE), &mut pool);
    assert_eq!((s.conn.state, s.conn.ssthresh, s.conn.prior_cwnd), (CaState::Cwr, 20, 40));
    // Proportional: ceil(20 x 2 / 40) of the two delivered are replaced, and the first of them says CWR.
    assert_eq!((s.conn.cwnd, sent(&mut pool)), (39, vec![Marks::ECT0.with(Marks::CWR)]));
    for seq in (4..=36).step_by(2) {
        s.on_ack(ms(1_050), &ack(seq, Marks::ECE), &mut pool);
        // RFC 6937 above the target: prior - delivered + ceil(ssthresh x delivered / prior).
        assert_eq!(s.conn.cwnd, 40 - seq + (20 * seq).div_ceil(40));
    }
    s.on_ack(ms(1_050), &ack(40, Marks::ECE), &mut pool);
    assert!(sent(&mut pool).iter().all(|m| *m == Marks::ECT0) && s.conn.ssthresh == 20);
    assert_eq!((s.conn.state, s.conn.delivered_ce, s.counters.marked), (CaState::Cwr, 40, 40), "every segment counts");
    // Held until something sent later is acknowledged; an echo then begins the next.
    s.on_ack(ms(1_100), &ack(42, Marks::NONE), &mut pool);
    assert_eq!((s.conn.state, s.conn.cwnd), (CaState::Open, 20));
    s.on_ack(ms(1_100), &ack(44, Marks::ECE), &mut pool);
    assert_eq!((s.conn.state, s.conn.ssthresh), (CaState::Cwr, 10));
}

#[test]
fn a_reduction_that_marks_ask_for_is_not_undone_and_retransmissions_carry_no_field() {
    let (mut s, mut pool) = sender("cubic", EcnMode::Classic, 100);
    sent(&mut pool);
    let mut loss = ack(1, Marks::ECE);
    (loss.sack[0], loss.ts_echo) = (SegRange { start: 2, end: 10 }, Nanos::ZERO);
    s.on_ack(ms(1_050), &loss, &mut pool);
    // 100 x 717 / 1024, as after a loss (tcp_cubic.c has no other factor).
    assert_eq!((s.conn.state, s.conn.ssthresh, s.recovery.prior_ssthresh), (CaState::Recovery, 70, 0));
    assert_eq!(sent(&mut pool)[0], Marks::NONE);
}

#[test]
fn dctcp_has_the_field_on_all_packets_whatever_the_host_is_set_to() {
    let (mut s, mut pool) = sender("dctcp", EcnMode::Off, 100);
    assert_eq!(sent(&mut pool), [Marks::ECT0; 100]);
    let mut loss = ack(0, Marks::NONE);
    loss.sack[0] = SegRange { start: 1, end: 10 };
    s.on_ack(ms(1_050), &loss, &mut pool);
    let marks = sent(&mut pool);
    assert_eq!((s.conn.state, s.conn.ssthresh, marks[0]), (CaState::Recovery, 50, Marks::ECT0));
    assert!(sender("reno", EcnMode::Off, 10).0.ecn() == Agreed::Off);
}

#[test]
fn accurate_feedback_is_unwrapped_as_the_bytes_allow() {
    // (delivered, marks that the receiver counted before and after this ACK).
    for (delivered, before, after) in
        [(2, 0, 1), (2, 6, 8), (7, 3, 10), (12, 0, 10), (12, 0, 2), (40, 5, 38), (40, 0, 40)]
    {
        let (mut s, _) = sender("reno", EcnMode::Accurate, 100);
        s.conn.delivered_ce = before;
        s.ecn.marked_bytes = before * 1448;
        let mut a = ack(delivered, Marks::ECT0.with_tcp(5 + after));
        a.marked_bytes = after * 1448;
        assert_eq!(s.newly_marked(&a, delivered), after - before, "{delivered} {before} {after}");
    }
}
