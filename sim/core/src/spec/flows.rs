//! Flows: their paths, controllers, traffic, receivers and proxies.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;
use crate::units::BitRate;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    pub name: String,
    /// Links in order, in their forward directions.
    pub path: Vec<usize>,
    /// Links that acknowledgements pass, in order and in their forward directions; None: the path's reverse directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_path: Option<Vec<usize>>,
    /// Later paths, in order of time; packets on their way stay on the old one.
    #[serde(default)]
    pub reroutes: Vec<RerouteSpec>,
    #[serde(default)]
    pub start: Nanos,
    #[serde(default)]
    pub stop: Option<Nanos>,
    /// Extra one-way delay before the first link.
    #[serde(default)]
    pub uplink_delay: Nanos,
    pub controller: ControllerSpec,
    /// How much delay counts, in (0, 1], for an agent or a policy that is told; 0: nothing is asked for.
    #[serde(default, skip_serializing_if = "asks_for_nothing")]
    pub delay_preference: f64,
    #[serde(default)]
    pub traffic: TrafficSpec,
    #[serde(default, skip_serializing_if = "ReceiverSpec::is_honest")]
    pub receiver: ReceiverSpec,
    /// An earlier flow driven from outside: this one takes its slot in a batch, and starts, without jitter, when it leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<usize>,
    /// It has a slot in a batch, where it is observed and paid as an agent would be, but its controller decides.
    #[serde(default)]
    pub watched: bool,
    /// It is the second connection of a proxy, with the same traffic as the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relays: Option<RelaySpec>,
    /// Its hosts speak QUIC, not TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicSpec>,
}

/// Hosts that speak QUIC (RFC 9000). The defaults are those of quinn, except that packets have their full size from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuicSpec {
    /// Bytes of UDP payload in a full packet.
    pub mtu: u16,
    /// Begin with packets of 1,200 bytes, and find out by probes whether `mtu` fits (RFC 8899).
    pub mtu_discovery: bool,
    /// Bytes; of quinn's own controllers. None: what quinn gives each of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u64>,
    /// Packets that the receiver acknowledges at once by one ACK (draft-ietf-quic-ack-frequency); 0: as in RFC 9000.
    pub ack_every: u32,
    /// Bytes that the receiver lets one stream and all streams be ahead of its application, and that the sender keeps.
    pub stream_window: u64,
    pub connection_window: u64,
    pub send_window: u64,
    /// Packets carry ECT(0).
    pub ecn: bool,
    /// The client knows the server: its first flight has data (0-RTT).
    pub resume: bool,
}

impl Default for QuicSpec {
    fn default() -> QuicSpec {
        QuicSpec {
            mtu: 1452,
            mtu_discovery: false,
            initial_window: None,
            ack_every: 0,
            stream_window: 1_250_000,
            connection_window: (1 << 62) - 1,
            send_window: 10_000_000,
            ecn: true,
            resume: false,
        }
    }
}

impl QuicSpec {
    /// What a full packet has beside the application's bytes: the short header with a connection id of 8 bytes and a
    /// packet number of 2 (11 bytes), the header of a STREAM frame with an offset (7 to 11), and the tag of the cipher (16).
    pub const OVERHEAD: u16 = 36;

    /// The application's bytes in a full packet, about.
    pub fn payload(&self) -> u32 {
        u32::from(self.mtu - QuicSpec::OVERHEAD)
    }
}

/// A path that takes over at a known time. Its fields are as those of a flow.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RerouteSpec {
    pub at: Nanos,
    pub path: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_path: Option<Vec<usize>>,
}

/// The links of a path and of its return path, from a time on.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    pub from: Nanos,
    pub path: &'a [usize],
    pub return_path: Option<&'a [usize]>,
}

impl Way<'_> {
    /// Every link that packets or acknowledgements pass; a link that both pass may occur twice.
    pub fn links(&self) -> impl Iterator<Item = usize> {
        self.path.iter().chain(self.return_path.unwrap_or(&[])).copied()
    }

    /// The directions of links that data pass, in order: twice the number of the link, and 1 more if in reverse.
    pub fn data(&self) -> impl Iterator<Item = usize> {
        self.path.iter().map(|link| 2 * link)
    }

    /// The same of acknowledgements.
    pub fn acks(&self) -> impl Iterator<Item = usize> {
        let own = self.path.iter().rev().filter(|_| self.return_path.is_none()).map(|link| 2 * link + 1);
        own.chain(self.return_path.unwrap_or(&[]).iter().map(|link| 2 * link))
    }
}

impl FlowSpec {
    /// All its ways with the time each holds from.
    pub fn ways(&self) -> impl DoubleEndedIterator<Item = Way<'_>> {
        let now = Way { from: Nanos::ZERO, path: &self.path, return_path: self.return_path.as_deref() };
        let later =
            self.reroutes.iter().map(|r| Way { from: r.at, path: &r.path, return_path: r.return_path.as_deref() });
        std::iter::once(now).chain(later)
    }

    /// The way of a packet sent at `at`.
    pub fn way_at(&self, at: Nanos) -> Way<'_> {
        self.ways().rev().find(|way| way.from <= at).expect("the first holds from 0")
    }
}

/// How a receiver acknowledges: as Linux does, or in one of the ways of RFC 5681, sections 4.2 and 9, and of Savage et al.,
/// "TCP Congestion Control with a Misbehaving Receiver", 1999.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReceiverSpec {
    #[default]
    Honest,
    /// One acknowledgement per `segments` segments in order, or when the first of them has waited for `hold`.
    Stretch { segments: u32, hold: Nanos },
    /// Every acknowledgement is split into `parts`, of which only the last completes a segment.
    Divide { parts: u32 },
    /// Acknowledges ahead this share of the packets that arrive in half a round trip, and never reports a loss.
    Optimistic { share: f64 },
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn asks_for_nothing(preference: &f64) -> bool {
    *preference == 0.0
}

impl ReceiverSpec {
    fn is_honest(&self) -> bool {
        *self == ReceiverSpec::Honest
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    pub name: String,
    #[serde(default)]
    pub params: serde_json::Map<String, serde_json::Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TrafficSpec {
    #[default]
    Bulk,
    Bytes {
        bytes: u64,
    },
    /// Constant bit rate; the rate counts bytes on the wire, as link rates do.
    Cbr {
        rate: BitRate,
        /// Bytes on the wire of each datagram; full ones if absent. Datagrams only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packet: Option<u32>,
    },
    /// Exponential on and off periods with the given means; unlimited while on when no rate is given.
    OnOff {
        #[serde(default)]
        rate: Option<BitRate>,
        on: Nanos,
        off: Nanos,
    },
    /// Downloads asked for in a Poisson process, one after the other on one connection; lognormal sizes, rounded up to
    /// whole segments.
    Objects {
        per_s: f64,
        mean_bytes: f64,
        /// Standard deviation of the size's logarithm.
        sigma: f64,
    },
}

/// The first connection of a proxy, and the most bytes that it holds: read from the first, not acknowledged on the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RelaySpec {
    pub from: usize,
    pub buffer: u64,
}
