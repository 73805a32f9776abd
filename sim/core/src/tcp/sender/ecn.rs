//! What a sender makes of the receiver's echo of marks.

use crate::cc::{CaState, EcnUse};
use crate::packet::{Marks, Packet};
use crate::spec::{EcnMode, TcpSpec};

use super::super::ecn::{ACE_INITIAL, Agreed};
use super::Sender;
use super::ack_work::AckWork;

const ACE_MASK: u32 = 7;
/// A longer wrap of the ACE field is believed if the marked bytes are at least this share of it (1/2^n).
const SAFETY_SHIFT: u32 = 1;

/// What the sender knows.
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

#[cfg(test)]
mod tests;
