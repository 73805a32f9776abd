//! The plain description of a network that a world is built from: whole nanoseconds, bit/s and bytes.
//!
//! Scenario files are validated and compiled to this form outside the core; the checks here guard the simulator
//! itself and name the offending field.

mod validate;

use serde::{Deserialize, Serialize};

use crate::cc;
use crate::relay::RelaySpec;
use crate::tcp::profile::Profile;
use crate::time::Nanos;
use crate::units::BitRate;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    pub seed: u64,
    pub duration: Nanos,
    #[serde(default)]
    pub tcp: TcpSpec,
    #[serde(default)]
    pub noise: NoiseSpec,
    /// Take no shortcut: every departure and every hand-over is an event, every acknowledgement goes the long way. The
    /// outcome is the same, bit for bit. For tests and debugging.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exact: bool,
    pub links: Vec<LinkSpec>,
    pub flows: Vec<FlowSpec>,
}

/// Which kernel's TCP the hosts run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    #[default]
    V6,
    /// Whose receive window opens at once.
    V6_12,
    V4_15,
}

/// How hosts use Explicit Congestion Notification, if both ends do (net.ipv4.tcp_ecn).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnMode {
    #[default]
    Off,
    /// RFC 3168: one echo per round trip with marks.
    Classic,
    /// RFC 9768: the receiver reports how many packets were marked.
    Accurate,
}

impl EcnMode {
    fn is_off(&self) -> bool {
        *self == EcnMode::Off
    }
}

/// Where a connection's first slow-start threshold comes from: Linux may remember that of earlier connections to the
/// same destination for an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "serde_json::Value", into = "serde_json::Value")]
pub enum SsthreshCache {
    /// From nowhere: slow start until the first loss.
    Off,
    /// From the flows of this world that have ended on the same path.
    Live,
    /// As if an earlier connection had left this many segments.
    Segments(u32),
}

impl SsthreshCache {
    const ALLOWED: &str = "must be \"off\", \"live\" or a whole number of packets in 2 .. 2^31 - 2";
}

impl TryFrom<serde_json::Value> for SsthreshCache {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<SsthreshCache, String> {
        match (value.as_str(), value.as_f64()) {
            (Some("off"), _) => Ok(SsthreshCache::Off),
            (Some("live"), _) => Ok(SsthreshCache::Live),
            (_, Some(n)) if n.fract() == 0.0 && (2.0..f64::from(cc::SSTHRESH_INFINITE)).contains(&n) => {
                Ok(SsthreshCache::Segments(n as u32))
            }
            _ => Err(format!("ssthresh_cache = {value}: {}", SsthreshCache::ALLOWED)),
        }
    }
}

impl From<SsthreshCache> for serde_json::Value {
    fn from(cache: SsthreshCache) -> serde_json::Value {
        match cache {
            SsthreshCache::Off => "off".into(),
            SsthreshCache::Live => "live".into(),
            SsthreshCache::Segments(n) => n.into(),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpSpec {
    pub kernel: Kernel,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Bytes added on the wire to each data segment (TCP/IP and framing).
    pub header_bytes: u32,
    /// Wire size of an acknowledgement.
    pub ack_bytes: u32,
    pub initial_cwnd: u32,
    /// Timer ticks per second.
    pub hz: u32,
    /// Minimum, default and maximum receive buffer, bytes of buffer memory. A default of 0 stands for the kernel's.
    pub rmem: [u64; 3],
    pub wmem: [u64; 3],
    pub moderate_rcvbuf: bool,
    pub slow_start_after_idle: bool,
    /// Most segments that the receiving host merges into one before its TCP sees them (GRO); 1 = none.
    pub gro_segments: u32,
    /// The kernel's own habit if absent.
    pub ssthresh_cache: Option<SsthreshCache>,
    #[serde(skip_serializing_if = "EcnMode::is_off")]
    pub ecn: EcnMode,
}

impl Default for TcpSpec {
    fn default() -> Self {
        TcpSpec {
            kernel: Kernel::V6,
            mss: 1448,
            header_bytes: 66,
            ack_bytes: 66,
            initial_cwnd: 10,
            hz: 1000,
            rmem: [4096, 0, 67_108_864],
            wmem: [4096, 16_384, 67_108_864],
            moderate_rcvbuf: true,
            slow_start_after_idle: true,
            gro_segments: 1,
            ssthresh_cache: None,
            ecn: EcnMode::Off,
        }
    }
}

impl TcpSpec {
    pub fn profile(&self) -> &'static Profile {
        self.kernel.profile()
    }

    /// The receive buffer at first, bytes of buffer memory.
    pub fn rmem_default(&self) -> u64 {
        if self.rmem[1] == 0 { self.profile().rmem_default } else { self.rmem[1] }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NoiseSpec {
    /// Each packet waits U(0, send_jitter) at its host, in order.
    pub send_jitter: Nanos,
    /// Each flow starts U(0, start_jitter) late.
    pub start_jitter: Nanos,
    /// Where a host has other flows, too: how long it is between two runs of its queue for these, at any time. 0: it has not.
    pub queue_run_gap: Nanos,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(from = "LinkText")]
pub struct LinkSpec {
    pub name: String,
    pub forward: DirectionSpec,
    pub reverse: DirectionSpec,
    pub outages: Vec<OutageSpec>,
    /// When the path behind the link changes: what controllers with a signal are told. Moves no packet by itself.
    pub handovers: Vec<HandoverSpec>,
}

/// A link as it is written: handovers that are left out are its outages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    name: String,
    forward: DirectionSpec,
    #[serde(default)]
    reverse: DirectionSpec,
    #[serde(default)]
    outages: Vec<OutageSpec>,
    handovers: Option<Vec<HandoverSpec>>,
}

impl From<LinkText> for LinkSpec {
    fn from(text: LinkText) -> LinkSpec {
        let LinkText { name, forward, reverse, outages, handovers } = text;
        let told = |o: &OutageSpec| HandoverSpec { at: o.at, duration: o.duration };
        let handovers = handovers.unwrap_or_else(|| outages.iter().map(told).collect());
        LinkSpec { name, forward, reverse, outages, handovers }
    }
}

/// A change of path, and how long it interrupts the link (zero: not at all).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HandoverSpec {
    pub at: Nanos,
    pub duration: Nanos,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DirectionSpec {
    /// (time, bit/s) steps; empty = unlimited.
    pub rate: Vec<(Nanos, BitRate)>,
    /// Bytes of a token bucket that the server may send before the rate binds; 0 = none, an exact server.
    #[serde(skip_serializing_if = "is_zero")]
    pub burst: u64,
    pub delay: DelaySpec,
    pub loss: Vec<(Nanos, LossSpec)>,
    pub loss_at: LossPosition,
    pub queue: QueueSpec,
    pub ordering: Ordering,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<LateSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateSpec>,
    /// Shares of packets whose ECN field is cleared on arrival, and of those with one that are marked then.
    #[serde(skip_serializing_if = "is_none_of")]
    pub bleached: f64,
    #[serde(skip_serializing_if = "is_none_of")]
    pub marked: f64,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_none_of(share: &f64) -> bool {
    *share == 0.0
}

fn is_true(value: &bool) -> bool {
    *value
}

fn yes() -> bool {
    true
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A random delay on top of the propagation delay, correlated in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum JitterSpec {
    /// Gamma marginal of this mean and (whole) shape; correlation exp(-t / tau).
    Gamma { mean: Nanos, shape: u32, tau: Nanos },
    /// max(0, mean + sine + AR(1) noise), both given by their standard deviations.
    SineAr1 { mean: Nanos, sine_sd: Nanos, sine_period: Nanos, ar_sd: Nanos, ar_tau: Nanos },
}

/// Packets that take a detour: each with probability p arrives so much later, and others overtake it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LateSpec {
    pub p: f64,
    pub delay: Nanos,
}

/// Packets leave the pipe only at `phase` + k x `period`: a channel that is sent in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GateSpec {
    pub period: Nanos,
    #[serde(default)]
    pub phase: Nanos,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DelaySpec {
    /// Linear between points instead of steps.
    pub interpolate: bool,
    pub points: Vec<(Nanos, Nanos)>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LossSpec {
    #[default]
    None,
    /// Independent loss of each packet.
    Bernoulli { p: f64 },
    /// A two-state chain in continuous time with exponential sojourns.
    GilbertElliott { good_loss: f64, bad_loss: f64, to_bad_per_s: f64, to_good_per_s: f64 },
    /// Independent loss that rises with the load of the link: from `idle` in proportion to the share of time in which the
    /// server was busy, to `full`. That share is an exponential average over `tau`.
    Load { idle: f64, full: f64, tau: Nanos },
}

/// Before the queue (netem in front of a shaper) or after it (on the air).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPosition {
    Ingress,
    #[default]
    Egress,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueSpec {
    DropTailBytes {
        limit: u64,
    },
    DropTailPackets {
        limit: u64,
    },
    /// The packet in service stays; of the others, those that have waited longest make room (Linux: pfifo_head_drop).
    DropFrontBytes {
        limit: u64,
    },
    DropFrontPackets {
        limit: u64,
    },
    /// The Viasat gateway of the GEO papers: random drops above a threshold, tail drop at the limit.
    Viasat {
        limit: u64,
        threshold: u64,
        drop_probability: f64,
    },
    Codel(CodelSpec),
    FqCodel(FqCodelSpec),
    Pie(PieSpec),
    Red(RedSpec),
    #[serde(rename = "dualpi2")]
    DualPi2(DualPi2Spec),
}

/// CoDel; limits of all managed queues count packets that wait, not the one in service.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CodelSpec {
    /// Packets.
    pub limit: u64,
    pub target: Nanos,
    pub interval: Nanos,
    /// Mark packets of transports with ECN instead of dropping them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ecn: bool,
    /// Mark every packet of theirs that has waited longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ce_threshold: Option<Nanos>,
    /// At the limit, drop what has waited longest instead of what arrives.
    #[serde(default, skip_serializing_if = "is_false")]
    pub front: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FqCodelSpec {
    /// Packets in all queues.
    pub limit: u64,
    /// Bytes of kernel memory of all queues.
    pub memory_limit: u64,
    /// Queues that flows are hashed to.
    pub flows: u32,
    /// Bytes a queue may send in a round.
    pub quantum: u32,
    /// Packets dropped at once from the longest queue when there is no room.
    pub drop_batch: u32,
    pub target: Nanos,
    pub interval: Nanos,
    /// As CoDel's; Linux has marking on here.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub ecn: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ce_threshold: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PieSpec {
    /// Packets.
    pub limit: u64,
    pub target: Nanos,
    pub update: Nanos,
    /// Gains on the deviation from the target and on the growth of the delay, in sixteenths per second.
    pub alpha: u32,
    pub beta: u32,
    /// Mark instead of dropping while the probability is at most 10 %.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ecn: bool,
    /// Drop what has waited longest instead of what arrives.
    #[serde(default, skip_serializing_if = "is_false")]
    pub front: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RedSpec {
    /// Bytes, as the thresholds.
    pub limit: u64,
    pub min: u64,
    pub max: u64,
    /// Drop probability where the average reaches `max`.
    pub max_probability: f64,
    /// A new queue length counts 2^-weight_log2 in the average.
    pub weight_log2: u32,
    /// Bytes of a typical packet; how fast the average falls in idle times.
    pub packet: u32,
    pub adaptive: bool,
    /// Mark instead of dropping, also above `max`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ecn: bool,
    /// Drop what has waited longest instead of what arrives.
    #[serde(default, skip_serializing_if = "is_false")]
    pub front: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DualPi2Spec {
    /// Packets in both queues.
    pub limit: u64,
    pub target: Nanos,
    pub update: Nanos,
    /// Gains on the deviation from the target and on the growth of the delay, in 1/256 per second.
    pub alpha: u32,
    pub beta: u32,
    /// Packets of the L queue that have waited longer are marked.
    pub step: Nanos,
    /// Probability of the L queue over the base probability (k).
    pub coupling: u32,
    /// Share of the C queue where both wait, percent.
    pub classic_weight: u32,
    /// Drop from the L queue as well where its probability would pass 1.
    pub drop_overload: bool,
    /// At the limit, drop what has waited longest instead of what arrives.
    #[serde(default, skip_serializing_if = "is_false")]
    pub front: bool,
}

impl Default for QueueSpec {
    fn default() -> Self {
        QueueSpec::DropTailPackets { limit: u64::MAX }
    }
}

/// May a packet overtake its predecessor when the delay shrinks (netem does) or is the pipe a FIFO?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    #[default]
    Fifo,
    Overtaking,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    pub at: Nanos,
    pub duration: Nanos,
    #[serde(default)]
    pub mode: OutageMode,
    #[serde(default)]
    pub flush: Flush,
    #[serde(default)]
    pub directions: Directions,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutageMode {
    /// Arrivals during the outage are lost.
    #[default]
    Drop,
    /// Arrivals wait in the queue.
    Hold,
}

/// What the start of an outage discards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flush {
    #[default]
    None,
    Queue,
    /// The queue and everything in propagation (an interface that carries the delay goes down).
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    #[default]
    Both,
    Forward,
    Reverse,
}

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

/// A specification that cannot be simulated: which field, what it holds, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(pub String);

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

impl NetworkSpec {
    /// Reads the text; whether it can be simulated is checked where a world is built from it.
    pub fn from_json(text: &str) -> Result<NetworkSpec, SpecError> {
        serde_json::from_str(text).map_err(|e| SpecError(format!("network: {e}")))
    }
}
