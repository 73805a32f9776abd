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
    /// A datagram of an unresponsive sender.
    Datagram,
    /// A flow's probe of its path (an ICMP echo request), and the answer.
    Probe,
    ProbeReply,
    /// Somebody else's, which the network only carries.
    Carried,
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
