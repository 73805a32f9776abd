//! What a receiver echoes of the marks that come.

use crate::packet::Marks;
use crate::pool::Pool;
use crate::time::Nanos;

use super::super::ecn::{ACE_INITIAL, Agreed};
use super::{Arrival, Receiver};

/// As many unreported marks are acknowledged at once (TCP_ACCECN_ACE_MAX_DELTA).
const ACE_PENDING: u32 = 4;
/// Quick ACKs after a mark (`__tcp_ecn_check_ce`).
const QUICK_ACKS: u32 = 2;

/// What the receiver knows.
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
mod tests;
