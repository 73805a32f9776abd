//! Vectors of RFC 3168, RFC 8257 and RFC 9768, and of the packets that Linux 6.1 sent.

use crate::spec::TcpSpec;
use crate::tcp::receiver::tests::receive_marked;

use super::*;

const ACE: [u32; 10] = [5, 6, 7, 0, 1, 2, 3, 4, 5, 6];

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn receiver(agreed: Agreed) -> Receiver {
    let mut r = Receiver::new(&TcpSpec { rmem: [4096, 65_536, 65_536], ..TcpSpec::default() });
    r.establish(Nanos::ZERO, ms(50));
    r.agree(agreed, Marks::ECT0);
    // The quick ACKs of the beginning are spent, and none is delayed.
    let mut feed = |seq| receive_marked(&mut r, seq, Marks::ECT0, Nanos::from_micros(1_000 + u64::from(seq)));
    let acked: Vec<bool> = (0..41).map(|seq| !feed(seq).is_empty()).collect();
    if !acked[40] {
        feed(41);
    }
    r
}

/// The ACKs that segments with these marks cause, one after the other: how many segments each acknowledges, and ECE.
fn echoes(r: &mut Receiver, marks: &[Marks]) -> Vec<Vec<(u32, bool)>> {
    let first = r.rcv_nxt;
    let at = |k: u32| ms(2) + Nanos::from_micros(120 * u64::from(k));
    let mut acks = |k: u32| receive_marked(r, first + k, marks[k as usize], at(k));
    (0..marks.len() as u32)
        .map(|k| acks(k).iter().map(|a| (a.seq - first, a.marks.has(Marks::ECE))).collect())
        .collect()
}

#[test]
fn fields_of_ip_and_flags_of_tcp_share_a_byte() {
    // RFC 3168, section 5: 01 ECT(1), 10 ECT(0), 11 CE.
    assert_eq!([Marks::NONE, Marks::ECT1, Marks::ECT0, Marks::CE].map(Marks::ip), [0, 1, 2, 3]);
    let mut marks = Marks::ECT0.with(Marks::CWR);
    assert!(marks.set_ce() && marks.is_ce() && marks.has(Marks::CWR) && !marks.has(Marks::ECE));
    marks.bleach();
    assert!(!marks.is_ect() && !marks.set_ce() && marks.has(Marks::CWR));
    // RFC 9768: ACE is AE, CWR, ECE from the highest bit.
    assert_eq!((Marks::ECE.tcp(), Marks::CWR.tcp(), Marks::ECT1.with_tcp(13).tcp()), (1, 2, 5));
}

#[test]
fn a_classic_receiver_echoes_until_it_is_told_and_acknowledges_at_once_meanwhile() {
    let mut r = receiver(Agreed::Classic);
    use Marks as M;
    let seen = echoes(&mut r, &[M::ECT0, M::ECT0, M::CE, M::ECT0, M::ECT0, M::ECT0, M::CE, M::ECT0]);
    // Every second; the mark and the next at once (two quick ACKs); another mark changes nothing.
    let (none, all) = (vec![], |seq| vec![(seq, true)]);
    assert_eq!(seen, [none.clone(), vec![(2, false)], all(3), all(4), none.clone(), all(6), none, all(8)]);
    let next = r.rcv_nxt;
    let cwr = receive_marked(&mut r, next, M::ECT0.with(M::CWR), ms(4));
    assert_eq!(
        cwr.iter().map(|a| (a.seq, a.marks)).collect::<Vec<_>>(),
        [(next + 1, Marks::NONE)],
        "at once, without ECE"
    );
    // CWR on a marked packet is an echo anew.
    let both = receive_marked(&mut r, next + 1, M::CE.with(M::CWR), ms(4));
    assert!(both[0].marks.has(M::ECE));
    assert_eq!(r.marked_packets(), 3);
}

#[test]
fn a_packet_without_the_field_among_others_with_it_is_acknowledged_at_once() {
    let mut r = receiver(Agreed::Classic);
    let seen = echoes(&mut r, &[Marks::NONE, Marks::ECT0, Marks::ECT0]);
    assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
}

#[test]
fn a_dctcp_receiver_tells_where_marks_begin_and_end() {
    // RFC 8257, figure 1: at a change the ACK that waits goes out with the old state, and the new one at once.
    let mut r = receiver(Agreed::Exact);
    use Marks as M;
    let seen = echoes(&mut r, &[M::ECT0, M::CE, M::CE, M::CE, M::ECT0, M::ECT0, M::ECT0]);
    let expected =
        [vec![], vec![(1, false), (2, true)], vec![], vec![(4, true)], vec![(5, false)], vec![], vec![(7, false)]];
    assert_eq!(seen, expected);
    let next = r.rcv_nxt;
    let ack = receive_marked(&mut r, next, M::CE, ms(4));
    assert!(ack.iter().all(|a| a.marks.ip() == 2), "pure ACKs are ECT(0)");
}

#[test]
fn accurate_feedback_counts_marks_in_three_bits_and_bytes() {
    let mut r = receiver(Agreed::Accurate);
    let mut aces = Vec::new();
    let first = r.rcv_nxt;
    for k in 0..9 {
        let acks = receive_marked(&mut r, first + k, Marks::CE, ms(2 + u64::from(k)));
        aces.extend(acks.iter().map(|a| (a.seq - first, u32::from(a.marks.tcp()), a.marked_bytes)));
    }
    for (acked, ace, bytes) in &aces {
        assert_eq!((*ace, *bytes), (ACE[*acked as usize], acked * 1448), "section 3.2.1: from 5 on, modulo 8");
    }
    assert!(aces.len() >= 5 && aces[0].0 == 1, "the change is acknowledged at once: {aces:?}");
}
