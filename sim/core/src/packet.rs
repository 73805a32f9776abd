//! What travels through a network: one cache line per packet.

use crate::time::Nanos;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A TCP segment.
    #[default]
    Data,
    /// An acknowledgement.
    Ack,
    /// An acknowledgement whose first SACK block reports a duplicate (RFC 2883).
    AckDsack,
    /// A segment without data that asks for the receive window.
    WindowProbe,
    /// A datagram of an unresponsive sender.
    Datagram,
    /// A flow's probe of its path (an ICMP echo request), and the answer.
    Probe,
    ProbeReply,
    /// Somebody else's, which the network only carries.
    Carried,
}

/// What a packet says of congestion, in one byte: the ECN field of its IP header in the two lowest bits (RFC 3168, section
/// 5), and above it TCP's flags ECE, CWR and AE, which together are the ACE field of RFC 9768.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    pub const NONE: Marks = Marks(0);
    pub const ECT1: Marks = Marks(1);
    pub const ECT0: Marks = Marks(2);
    pub const CE: Marks = Marks(3);
    pub const ECE: Marks = Marks(4);
    pub const CWR: Marks = Marks(8);
    const IP: u8 = 3;

    /// The ECN field of an IP header, its two lowest bits.
    pub fn of_ip(field: u8) -> Marks {
        Marks(field & Marks::IP)
    }

    pub fn with(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }

    pub fn without(self, other: Marks) -> Marks {
        Marks(self.0 & !other.0)
    }

    /// The same ECN field with ACE field `ace`, modulo 8.
    pub fn with_tcp(self, ace: u32) -> Marks {
        Marks(self.ip() | ((ace & 7) << 2) as u8)
    }

    /// Are these flags of TCP set?
    #[inline]
    pub fn has(self, flags: Marks) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The ECN field of the IP header: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub fn ip(self) -> u8 {
        self.0 & Marks::IP
    }

    /// TCP's flags AE, CWR and ECE as a number below 8.
    pub fn tcp(self) -> u8 {
        self.0 >> 2
    }

    pub fn is_ect(self) -> bool {
        self.ip() != 0
    }

    pub fn is_ce(self) -> bool {
        self.ip() == Marks::CE.0
    }

    /// Set CE, if the packet is of a transport that understands it (Linux's `INET_ECN_set_ce`). False if not.
    pub fn set_ce(&mut self) -> bool {
        if !self.is_ect() {
            return false;
        }
        self.0 |= Marks::CE.0;
        true
    }

    /// Clear the ECN field of the IP header, as routers do that take it for a part of the old type of service.
    pub fn bleach(&mut self) {
        self.0 &= !Marks::IP;
    }
}

/// An echo request of `ping` with its 56 bytes of data, in an Ethernet frame.
pub const PROBE_BYTES: u64 = 98;

/// Kernel memory of a packet of `size` bytes: a buffer of a power of two for it and 320 bytes of bookkeeping, and a
/// descriptor of 256.
pub const fn truesize(size: u32) -> u64 {
    (size as u64 + 320).next_power_of_two() + 256
}

/// A half-open range of segment numbers; empty when `start == end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegRange {
    pub start: u32,
    pub end: u32,
}

impl SegRange {
    pub const EMPTY: SegRange = SegRange { start: 0, end: 0 };

    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// TCP timestamp: when this packet was sent.
    pub ts: Nanos,
    /// TCP timestamp echo (RFC 7323).
    pub ts_echo: Nanos,
    pub flow: u32,
    /// Segment number; for an ACK the cumulative acknowledgement.
    pub seq: u32,
    /// Receive window of an ACK, bytes beyond the cumulative acknowledgement.
    pub window: u32,
    /// Where its route begins, an index into the world's routes.
    pub route: u32,
    /// Of an ACK with accurate ECN: marked payload that has come, bytes (RFC 9768's option; wraps at 2^32, not at 2^24).
    pub marked_bytes: u32,
    /// Bytes on the wire, headers included.
    pub size: u16,
    pub kind: Kind,
    pub marks: Marks,
    /// SACK blocks, most recent first (three fit beside a timestamp option).
    pub sack: [SegRange; 3],
}
