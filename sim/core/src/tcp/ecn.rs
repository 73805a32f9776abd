//! Explicit congestion notification: what packets carry, what a receiver echoes, what a sender makes of the echo.
//!
//! Classic: RFC 3168 as in Linux 6.1. A receiver that has seen a mark sets ECE on every ACK until the sender says, by CWR
//! on new data, that it has reduced its window. Exact: the same flags as DCTCP uses them (RFC 8257): ECE says whether the
//! segments just acknowledged were marked. Accurate: RFC 9768 as in Linux 6.18: ACKs count the packets that were marked,
//! in the three bits of the ACE field, and the marked bytes in an option, which is on every ACK here.

use crate::cc::{CaState, EcnUse};
use crate::packet::{Marks, Packet};
use crate::pool::Pool;
use crate::spec::{EcnMode, TcpSpec};
use crate::time::Nanos;

use super::ack::AckWork;
use super::receiver::{Arrival, Receiver};
use super::sender::Sender;

/// What the handshake ended with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreed {
    #[default]
    Off,
    Classic,
    Exact,
    Accurate,
}

impl Agreed {
    /// Marks of SYN, SYN-ACK and the ACK that ends the handshake, if data carry `ect` (RFC 3168, section 6.1.1; RFC 9768,
    /// section 3.1). Who needs ECN has the field on them, too (`tcp_ecn_send_syn`).
    pub fn handshake(self, ect: Marks) -> [Marks; 3] {
        match self {
            Agreed::Off => [Marks::NONE; 3],
            Agreed::Classic => [Marks::ECE.with(Marks::CWR), Marks::ECE, Marks::NONE],
            Agreed::Exact => [ect.with(Marks::ECE).with(Marks::CWR), ect.with(Marks::ECE), ect],
            // The answers tell which field came: 010 not-ECT, 011 ECT(1).
            Agreed::Accurate if ect == Marks::ECT1 => [ect.with_tcp(7), ect.with_tcp(3), ect.with_tcp(3)],
            Agreed::Accurate => [Marks::NONE.with_tcp(7), Marks::NONE.with_tcp(2), ect.with_tcp(2)],
        }
    }
}

/// Value of the ACE field before any mark (TCP_ACCECN_CEP_INIT_OFFSET).
const ACE_INITIAL: u32 = 5;
const ACE_MASK: u32 = 7;
/// As many unreported marks are acknowledged at once (TCP_ACCECN_ACE_MAX_DELTA).
const ACE_PENDING: u32 = 4;
/// A longer wrap of the ACE field is believed if the marked bytes are at least this share of it (1/2^n).
const SAFETY_SHIFT: u32 = 1;
/// Quick ACKs after a mark (`__tcp_ecn_check_ce`).
const QUICK_ACKS: u32 = 2;

/// The part of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sending {
    pub agreed: Agreed,
    /// The ECN field of packets that carry one.
    ect: Marks,
    /// Marks of the next new segment, with CWR once after each reduction, and of segments sent again.
    pub fresh: Marks,
    pub again: Marks,
    /// Marked payload of which the receiver has told, bytes.
    marked_bytes: u32,
}

impl Sending {
    pub fn new(tcp: &TcpSpec, wanted: EcnUse) -> Sending {
        let (agreed, ect) = match (wanted, tcp.ecn) {
            (EcnUse::Exact { ect1: true }, EcnMode::Off | EcnMode::Classic) => (Agreed::Exact, Marks::ECT1),
            (EcnUse::Exact { ect1: true }, EcnMode::Accurate) | (EcnUse::Accurate, _) => {
                (Agreed::Accurate, Marks::ECT1)
            }
            (EcnUse::Exact { .. }, EcnMode::Off | EcnMode::Classic) => (Agreed::Exact, Marks::ECT0),
            (_, EcnMode::Accurate) => (Agreed::Accurate, Marks::ECT0),
            (EcnUse::Host, EcnMode::Classic) => (Agreed::Classic, Marks::ECT0),
            (EcnUse::Host, EcnMode::Off) => (Agreed::Off, Marks::NONE),
        };
        let again = if agreed == Agreed::Classic { Marks::NONE } else { ect };
        let mut sending = Sending { agreed, ect, fresh: ect, again, marked_bytes: 0 };
        if agreed == Agreed::Accurate {
            // No marked ACK is counted: data flow one way.
            (sending.fresh, sending.again) = (ect.with_tcp(ACE_INITIAL), again.with_tcp(ACE_INITIAL));
        }
        sending
    }

    /// The window was reduced: the next new segment says so.
    #[inline]
    pub fn queue_cwr(&mut self) {
        if matches!(self.agreed, Agreed::Classic | Agreed::Exact) {
            self.fresh = self.fresh.with(Marks::CWR);
        }
    }

    /// The reduction is undone.
    #[inline]
    pub fn withdraw_cwr(&mut self) {
        if self.agreed != Agreed::Accurate {
            self.fresh = self.fresh.without(Marks::CWR);
        }
    }
}

impl Sender {
    /// What the ends use.
    pub fn ecn(&self) -> Agreed {
        self.ecn.agreed
    }

    /// The ECN field of data.
    pub fn ect(&self) -> Marks {
        self.ecn.ect
    }

    /// An ACK that says whether what it acknowledges was marked; SACKs are processed, `una` is not advanced. Linux tells
    /// the controller now, of 6.1 on (`tcp_in_ack_event`).
    #[cold]
    #[inline(never)]
    pub(super) fn hear_echo(&mut self, ack: &Packet, prior_delivered: u32, work: &mut AckWork) {
        if self.ecn.agreed == Agreed::Accurate {
            return;
        }
        work.ece = ack.marks.has(Marks::ECE);
        if work.ece {
            self.count_marked(self.conn.delivered - prior_delivered);
        }
        self.cc.on_echo(&mut self.conn, ack.seq);
    }

    /// The cumulative part is processed: `sacked` segments were delivered before it.
    #[cold]
    #[inline(never)]
    pub(super) fn count_echo(&mut self, ack: &Packet, prior_delivered: u32, sacked: u32, work: &mut AckWork) {
        let delivered = self.conn.delivered - prior_delivered;
        if self.ecn.agreed != Agreed::Accurate {
            self.conn.ece = work.ece;
            if work.ece {
                self.count_marked(delivered - sacked);
            }
            return;
        }
        let marked = self.newly_marked(ack, delivered);
        work.ece = marked > 0;
        self.conn.ece = work.ece;
        self.count_marked(marked);
        self.cc.on_echo(&mut self.conn, ack.seq);
    }

    fn count_marked(&mut self, segments: u32) {
        self.conn.delivered_ce += segments;
        self.counters.marked += u64::from(segments);
    }

    /// How many marked packets an ACK reports anew (`__tcp_accecn_process`): the ACE field wraps at eight, so that with more
    /// delivered at once the marked bytes decide between the least number and the most.
    fn newly_marked(&mut self, ack: &Packet, delivered: u32) -> u32 {
        let old_bytes = std::mem::replace(&mut self.ecn.marked_bytes, ack.marked_bytes);
        let ace = u32::from(ack.marks.tcp()).wrapping_sub(ACE_INITIAL);
        let delta = ace.wrapping_sub(self.conn.delivered_ce) & ACE_MASK;
        if delivered <= ACE_MASK {
            return delta;
        }
        let safe = delivered - (delivered.wrapping_sub(delta) & ACE_MASK);
        let bytes = ack.marked_bytes.wrapping_sub(old_bytes);
        let mss = self.tcp.mss;
        if bytes == 0 {
            delta
        } else if delivered >= 2 * (ACE_MASK + 1) {
            let delivered_bytes = u64::from(delivered) * u64::from(mss);
            if delivered_bytes <= u64::from(bytes) {
                return safe;
            }
            let estimate = (u64::from(bytes) * u64::from(delivered)).div_ceil(delivered_bytes) as u32;
            safe.min(delta + (estimate & !ACE_MASK))
        } else if bytes > delta * mss {
            safe
        } else if bytes < (safe * mss) >> SAFETY_SHIFT {
            delta
        } else {
            safe
        }
    }

    /// Marks ask for less: reduce the window over the next round trip, unless that is under way (`tcp_enter_cwr`).
    pub(super) fn enter_cwr(&mut self) {
        self.recovery.prior_ssthresh = 0;
        if self.conn.state < CaState::Cwr {
            self.recovery.undo_marker = None;
            self.conn.by_marks = true;
            self.begin_reduction();
            self.conn.by_marks = false;
            self.set_state(CaState::Cwr);
        }
    }
}

/// The part of a receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    agreed: Agreed,
    /// ECE is set until CWR comes (TCP_ECN_DEMAND_CWR).
    demands_cwr: bool,
    /// Data with an ECN field have come.
    seen: bool,
    /// The last segment was marked; and what was expected after it.
    marked: bool,
    prior_next: u32,
    /// The ECN field of the last segment.
    field: u8,
    /// Marked packets that came, ever and since the last ACK, and their payload.
    pub packets: u64,
    pub pending: u32,
    pub bytes: u32,
}

impl Echo {
    pub fn is_on(&self) -> bool {
        self.agreed != Agreed::Off
    }
}

impl Receiver {
    /// The handshake has ended; data will carry `ect`.
    pub fn agree(&mut self, agreed: Agreed, ect: Marks) {
        self.echo = Echo { agreed, field: ect.ip(), ..Echo::default() };
        self.is_special |= self.echo.is_on();
        self.ack_marks = match agreed {
            Agreed::Off | Agreed::Classic => Marks::NONE,
            Agreed::Exact => ect,
            Agreed::Accurate => ect.with_tcp(ACE_INITIAL),
        };
    }

    /// As many marked packets have come to the real host behind this receiver.
    pub(crate) fn take_in_marks(&mut self, packets: u64) {
        self.echo.packets = packets;
    }

    /// Marked packets that came.
    pub fn marked_packets(&self) -> u64 {
        self.echo.packets
    }

    /// A segment has come, of whatever kind (`tcp_ecn_accept_cwr`, `tcp_ecn_received_counters`).
    #[cold]
    #[inline(never)]
    pub(super) fn note_marks(&mut self, now: Nanos, segment: &Arrival, out: &mut Pool) {
        let (marks, accurate) = (segment.marks, self.echo.agreed == Agreed::Accurate);
        let edge = marks.ip() != self.echo.field;
        // Receive offload does not merge packets with different ECN fields (inet_gro_receive).
        if edge && self.is_polling() {
            self.end_poll(now, segment.flow, out);
        }
        self.echo.field = marks.ip();
        if marks.is_ce() {
            self.echo.packets += 1;
            self.echo.bytes = self.echo.bytes.wrapping_add(segment.payload as u32);
            self.echo.pending += 1;
        }
        if accurate {
            self.ack_marks = self.ack_marks.with_tcp(self.echo.packets as u32 + ACE_INITIAL);
            self.ack_now |= edge || self.echo.pending >= ACE_PENDING;
        } else if marks.has(Marks::CWR) {
            self.demand_cwr(false);
            self.ack_now = true;
        }
    }

    /// A segment that is neither old nor a duplicate, up to which the stream would be complete at `next`
    /// (`__tcp_ecn_check_ce`, `dctcp_ece_ack_update`).
    #[cold]
    #[inline(never)]
    pub(super) fn echo_marks(&mut self, now: Nanos, segment: &Arrival, next: u32, out: &mut Pool) {
        let ce = segment.marks.is_ce();
        match self.echo.agreed {
            Agreed::Off | Agreed::Accurate => {}
            // Without an ECN field among others that have one: sent again, most likely.
            _ if !segment.marks.is_ect() => {
                if self.echo.seen {
                    self.enter_quick_ack(QUICK_ACKS);
                }
            }
            Agreed::Classic if ce => {
                if !self.echo.demands_cwr {
                    self.enter_quick_ack(QUICK_ACKS);
                    self.demand_cwr(true);
                }
            }
            Agreed::Exact => {
                if ce != self.echo.marked {
                    if !self.delayed_at.is_never() {
                        self.demand_cwr(self.echo.marked);
                        self.send_ack_of(now, segment.flow, self.echo.prior_next, out);
                    }
                    self.ack_now = true;
                }
                self.echo.marked = ce;
                self.echo.prior_next = next;
                self.demand_cwr(ce);
            }
            Agreed::Classic => {}
        }
        self.echo.seen |= segment.marks.is_ect();
    }

    fn demand_cwr(&mut self, demands: bool) {
        self.echo.demands_cwr = demands;
        self.ack_marks = if demands { self.ack_marks.with(Marks::ECE) } else { self.ack_marks.without(Marks::ECE) };
    }
}

#[cfg(test)]
#[path = "ecn_tests.rs"]
mod tests;
