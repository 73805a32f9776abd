//! Explicit congestion notification: what packets carry, what a receiver echoes, what a sender makes of the echo.
//!
//! Classic: RFC 3168 as in Linux 6.1. A receiver that has seen a mark sets ECE on every ACK until the sender says, by CWR
//! on new data, that it has reduced its window. Exact: the same flags as DCTCP uses them (RFC 8257): ECE says whether the
//! segments just acknowledged were marked. Accurate: RFC 9768 as in Linux 6.18: ACKs count the packets that were marked,
//! in the three bits of the ACE field, and the marked bytes in an option, which is on every ACK here.

use crate::packet::Marks;

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
pub(super) const ACE_INITIAL: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_carry_the_flags_of_the_rfcs() {
        // AE, CWR and ECE of SYN, SYN-ACK and ACK: RFC 3168, section 6.1.1; RFC 9768, section 3.1.1 and, for the last ACK,
        // 3.2.2.1. The answers tell how the packet before came: 010 as not-ECT, 011 as ECT(1).
        let (plain, ect0, ect1) = (Marks::NONE, Marks::ECT0, Marks::ECT1);
        let known = [
            (Agreed::Off, ect0, [plain, plain, plain]),
            (Agreed::Classic, ect0, [plain.with_tcp(0b011), plain.with_tcp(0b001), plain]),
            (Agreed::Exact, ect0, [ect0.with_tcp(0b011), ect0.with_tcp(0b001), ect0]),
            (Agreed::Accurate, ect0, [plain.with_tcp(0b111), plain.with_tcp(0b010), ect0.with_tcp(0b010)]),
            (Agreed::Accurate, ect1, [ect1.with_tcp(0b111), ect1.with_tcp(0b011), ect1.with_tcp(0b011)]),
        ];
        for (agreed, ect, marks) in known {
            assert_eq!(agreed.handshake(ect), marks, "{agreed:?}");
        }
    }
}
