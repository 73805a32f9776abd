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
    /// Where it is on its route, an index into the world's routes.
    pub route: u32,
    /// Bytes on the wire, headers included.
    pub size: u16,
    pub kind: Kind,
    /// SACK blocks, most recent first (three fit beside a timestamp option).
    pub sack: [SegRange; 3],
}
