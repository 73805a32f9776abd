//! The plain description of a network that a world is built from: whole nanoseconds, bit/s and bytes.
//!
//! Scenario files are validated and compiled to this form outside the core; the checks here guard the simulator
//! itself and name the offending field.

use std::fmt::Arguments;

use serde::{Deserialize, Serialize};

use crate::cc;
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
    pub links: Vec<LinkSpec>,
    pub flows: Vec<FlowSpec>,
}

/// Which kernel's TCP the hosts run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    #[default]
    V6,
    V4_15,
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
    pub gate: Option<GateSpec>,
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
}

/// CoDel; limits of all managed queues count packets that wait, not the one in service.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CodelSpec {
    /// Packets.
    pub limit: u64,
    pub target: Nanos,
    pub interval: Nanos,
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
    /// Links in order; acknowledgements travel their reverse directions back.
    pub path: Vec<usize>,
    /// Later paths and when each takes over, in order; packets on their way stay on the old one.
    #[serde(default)]
    pub reroutes: Vec<(Nanos, Vec<usize>)>,
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
    /// An earlier flow driven from outside: this one takes its slot in a batch, and starts, without jitter, when it leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<usize>,
}

impl FlowSpec {
    /// All its paths with the time each holds from.
    pub fn paths(&self) -> impl DoubleEndedIterator<Item = (Nanos, &[usize])> {
        let later = self.reroutes.iter().map(|(at, path)| (*at, path.as_slice()));
        std::iter::once((Nanos::ZERO, self.path.as_slice())).chain(later)
    }

    /// The path of a packet sent at `at`.
    pub fn path_at(&self, at: Nanos) -> &[usize] {
        self.paths().rev().find(|p| p.0 <= at).expect("the first holds from 0").1
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

fn fail<T>(field: impl std::fmt::Display, value: impl std::fmt::Display, allowed: &str) -> Result<T, SpecError> {
    Err(SpecError(format!("{field} = {value}: {allowed}")))
}

impl NetworkSpec {
    /// Reads the text; whether it can be simulated is checked where a world is built from it.
    pub fn from_json(text: &str) -> Result<NetworkSpec, SpecError> {
        serde_json::from_str(text).map_err(|e| SpecError(format!("network: {e}")))
    }

    pub fn validate(&self) -> Result<(), SpecError> {
        if self.duration.0 == 0 || self.duration.0 > Nanos::from_secs(10_000_000).0 {
            return fail("duration", self.duration.0, "must lie in 1 ns .. 1e7 s");
        }
        let tcp = &self.tcp;
        if tcp.mss == 0 || tcp.mss + tcp.header_bytes > u32::from(u16::MAX) {
            return fail("tcp.mss", tcp.mss, "mss + header_bytes must lie in 1 .. 65535");
        }
        if tcp.ack_bytes == 0 || tcp.ack_bytes > 1500 {
            return fail("tcp.ack_bytes", tcp.ack_bytes, "must lie in 1 .. 1500");
        }
        if tcp.initial_cwnd == 0 || tcp.hz == 0 || tcp.hz > 10_000 {
            return fail("tcp.hz", tcp.hz, "initial_cwnd must be positive and hz lie in 1 .. 10000");
        }
        if tcp.rmem[2] > u64::from(u32::MAX) || tcp.rmem_default() < 2 * u64::from(tcp.mss) {
            return fail(
                "tcp.rmem",
                tcp.rmem[1],
                "the default holds at least two segments, the maximum 2^32 - 1 bytes",
            );
        }
        if !(1..=64).contains(&tcp.gro_segments) {
            return fail("tcp.gro_segments", tcp.gro_segments, "must lie in 1 .. 64");
        }
        if 1_000_000 % tcp.hz != 0 {
            return fail("tcp.hz", tcp.hz, "a tick must be a whole number of microseconds");
        }
        if self.links.is_empty() {
            return fail("links", "[]", "at least one link");
        }
        for (i, link) in self.links.iter().enumerate() {
            let wire = u64::from(tcp.mss + tcp.header_bytes);
            link.forward.validate(format_args!("links[{i}].forward"), wire)?;
            link.reverse.validate(format_args!("links[{i}].reverse"), u64::from(tcp.ack_bytes))?;
            let mut end = Nanos::ZERO;
            for (k, outage) in link.outages.iter().enumerate() {
                if outage.at < end {
                    return fail(
                        format!("links[{i}].outages[{k}].at"),
                        outage.at.0,
                        "outages must not overlap, in order",
                    );
                }
                end = outage.at + outage.duration;
            }
            if let Some(k) = link.handovers.windows(2).position(|w| w[1].at <= w[0].at) {
                let at = link.handovers[k + 1].at.0;
                return fail(format!("links[{i}].handovers[{}].at", k + 1), at, "times must increase");
            }
        }
        if self.flows.is_empty() {
            return fail("flows", "[]", "at least one flow");
        }
        for (i, flow) in self.flows.iter().enumerate() {
            self.validate_flow(i, flow)?;
        }
        Ok(())
    }

    fn validate_flow(&self, i: usize, flow: &FlowSpec) -> Result<(), SpecError> {
        for (_, path) in flow.paths() {
            if path.is_empty() || path.len() > 200 {
                return fail(format!("flows[{i}].path"), path.len(), "a path has 1 .. 200 links");
            }
            if let Some(link) = path.iter().find(|&&l| l >= self.links.len()) {
                return fail(format!("flows[{i}].path"), link, "no such link");
            }
        }
        let mut before = Nanos::ZERO;
        for (k, (at, _)) in flow.reroutes.iter().enumerate() {
            if *at <= before {
                return fail(format!("flows[{i}].reroutes[{k}]"), at.0, "times must increase from above 0");
            }
            before = *at;
        }
        if let Some(before) = flow.follows {
            let relieves = |f: &FlowSpec| f.controller.name == "external" && f.stop == Some(flow.start);
            let once = self.flows.iter().filter(|f| f.follows == Some(before)).count() == 1;
            if before >= i || !once || flow.controller.name != "external" || !relieves(&self.flows[before]) {
                let allowed = "an earlier flow, followed once, that stops when this one starts; both external";
                return fail(format!("flows[{i}].follows"), before, allowed);
            }
        }
        if flow.stop.is_some_and(|stop| stop <= flow.start) {
            return fail(format!("flows[{i}].stop"), flow.stop.unwrap().0, "must be later than start");
        }
        let takes_time = |d: &DirectionSpec| !d.rate.is_empty() || d.delay.points.iter().any(|(_, delay)| delay.0 > 0);
        let links = || flow.paths().flat_map(|p| p.1).map(|l| &self.links[*l]);
        let datagram = flow.controller.name == "udp";
        let instant = |path: &[usize]| {
            !path.iter().map(|l| &self.links[*l]).any(|l| takes_time(&l.forward) || takes_time(&l.reverse))
        };
        if flow.uplink_delay.0 == 0 && !datagram && flow.paths().any(|p| instant(p.1)) {
            return fail(format!("flows[{i}].path"), "[..]", "some link has a rate or a delay");
        }
        // Segment numbers have 32 bits.
        let wire_bits = f64::from(self.tcp.mss + self.tcp.header_bytes) * 8.0;
        let fastest = links().filter_map(|l| l.forward.rate.iter().map(|r| r.1.0).max()).min().unwrap_or(0);
        if fastest as f64 * self.duration.secs_f64() / wire_bits > 4e9 {
            return fail("duration", self.duration.0, "a flow may send at most 4e9 packets");
        }
        match flow.traffic {
            TrafficSpec::Bytes { bytes } if bytes == 0 || bytes.div_ceil(u64::from(self.tcp.mss)) > 1 << 31 => {
                return fail(format!("flows[{i}].traffic.bytes"), bytes, "must make 1 .. 2^31 segments");
            }
            TrafficSpec::Cbr { rate } | TrafficSpec::OnOff { rate: Some(rate), .. } if rate.0 == 0 => {
                return fail(format!("flows[{i}].traffic.rate"), 0, "must be positive");
            }
            TrafficSpec::OnOff { on, off, .. } if on.0 == 0 || off.0 == 0 => {
                return fail(format!("flows[{i}].traffic.on"), on.0, "mean on and off times must be positive");
            }
            TrafficSpec::Objects { per_s, mean_bytes, sigma } => {
                for (name, value, least, most) in
                    [("per_s", per_s, 1e-6, 1e4), ("mean_bytes", mean_bytes, 1.0, 1e12), ("sigma", sigma, 0.0, 5.0)]
                {
                    if !(least..=most).contains(&value) {
                        let allowed = format!("must lie in {least} .. {most}");
                        return fail(format!("flows[{i}].traffic.{name}"), value, &allowed);
                    }
                }
                if datagram {
                    return fail(
                        format!("flows[{i}].controller"),
                        "udp",
                        "a datagram sender needs traffic with a rate",
                    );
                }
            }
            TrafficSpec::Bulk | TrafficSpec::Bytes { .. } | TrafficSpec::OnOff { rate: None, .. } if datagram => {
                return fail(format!("flows[{i}].controller"), "udp", "a datagram sender needs traffic with a rate");
            }
            _ => {}
        }
        if !datagram {
            cc::check(&flow.controller, &self.tcp).map_err(|e| SpecError(format!("flows[{i}].controller: {e}")))?;
        }
        Ok(())
    }
}

fn increasing<T>(points: &[(Nanos, T)], field: Arguments) -> Result<(), SpecError> {
    if points.first().is_some_and(|p| p.0 != Nanos::ZERO) {
        return fail(format_args!("{field}[0]"), points[0].0.0, "a schedule starts at time 0");
    }
    match points.windows(2).position(|w| w[1].0 <= w[0].0) {
        Some(k) => fail(format_args!("{field}[{}]", k + 1), points[k + 1].0.0, "times must increase"),
        None => Ok(()),
    }
}

fn probability(p: f64, field: Arguments) -> Result<(), SpecError> {
    if (0.0..=1.0).contains(&p) { Ok(()) } else { fail(field, p, "a probability lies in 0 .. 1") }
}

fn codel(target: Nanos, interval: Nanos, field: Arguments) -> Result<(), SpecError> {
    if target > interval || !(1_000..=100_000_000_000).contains(&interval.0) {
        return fail(format_args!("{field}.queue.interval"), interval.0, "must lie in 1 us .. 100 s, not below target");
    }
    Ok(())
}

impl DirectionSpec {
    fn validate(&self, field: Arguments, packet: u64) -> Result<(), SpecError> {
        increasing(&self.rate, format_args!("{field}.rate"))?;
        increasing(&self.delay.points, format_args!("{field}.delay.points"))?;
        increasing(&self.loss, format_args!("{field}.loss"))?;
        if let Some((_, rate)) = self.rate.iter().find(|(_, r)| r.0 > 100_000_000_000_000) {
            return fail(format_args!("{field}.rate"), rate.0, "at most 1e14 bit/s (an empty schedule is unlimited)");
        }
        if self.burst > 0 {
            if self.burst < packet || self.burst > 1 << 40 {
                let allowed = format!("0, or a bucket for a packet: {packet} .. 2^40 bytes");
                return fail(format_args!("{field}.burst"), self.burst, &allowed);
            }
            if self.rate.is_empty() || self.rate.iter().any(|(_, r)| r.0 == 0) {
                return fail(format_args!("{field}.burst"), self.burst, "0 without a rate, or where it stops");
            }
        }
        if let Some((_, delay)) = self.delay.points.iter().find(|(_, d)| d.0 > Nanos::from_secs(1_000).0) {
            return fail(format_args!("{field}.delay"), delay.0, "at most 1000 s");
        }
        if let Some(jitter) = &self.jitter {
            let (mean, tau) = match *jitter {
                JitterSpec::Gamma { mean, shape, tau } => {
                    if !(1..=16).contains(&shape) {
                        return fail(format_args!("{field}.jitter.shape"), shape, "must lie in 1 .. 16");
                    }
                    (mean, tau)
                }
                JitterSpec::SineAr1 { mean, sine_period, ar_tau, .. } => (mean, ar_tau.min(sine_period)),
            };
            if mean.0 > Nanos::from_secs(100).0 {
                return fail(format_args!("{field}.jitter.mean"), mean.0, "at most 100 s");
            }
            if tau.0 < 100_000 {
                return fail(format_args!("{field}.jitter.tau"), tau.0, "times must be at least 0.1 ms");
            }
        }
        if let Some(gate) = &self.gate
            && !(1..=100_000_000_000).contains(&gate.period.0)
        {
            return fail(format_args!("{field}.gate.period"), gate.period.0, "must lie in 1 ns .. 100 s");
        }
        for (k, (_, loss)) in self.loss.iter().enumerate() {
            match *loss {
                LossSpec::None => {}
                LossSpec::Bernoulli { p } => probability(p, format_args!("{field}.loss[{k}].p"))?,
                LossSpec::GilbertElliott { good_loss, bad_loss, to_bad_per_s, to_good_per_s } => {
                    probability(good_loss, format_args!("{field}.loss[{k}].good_loss"))?;
                    probability(bad_loss, format_args!("{field}.loss[{k}].bad_loss"))?;
                    for (name, rate) in [("to_bad_per_s", to_bad_per_s), ("to_good_per_s", to_good_per_s)] {
                        if !(0.0..=1e6).contains(&rate) {
                            return fail(
                                format_args!("{field}.loss[{k}].{name}"),
                                rate,
                                "a rate lies in 0 .. 1e6 per s",
                            );
                        }
                    }
                }
            }
        }
        let limit = match self.queue {
            QueueSpec::DropTailBytes { limit } => limit,
            QueueSpec::DropTailPackets { limit } => limit.saturating_mul(packet),
            QueueSpec::Viasat { limit, drop_probability, .. } => {
                probability(drop_probability, format_args!("{field}.queue.drop_probability"))?;
                limit
            }
            QueueSpec::Codel(CodelSpec { limit, target, interval }) => {
                codel(target, interval, field)?;
                limit.saturating_mul(packet)
            }
            QueueSpec::FqCodel(queue) => {
                codel(queue.target, queue.interval, field)?;
                for (name, value) in
                    [("flows", queue.flows), ("quantum", queue.quantum), ("drop_batch", queue.drop_batch)]
                {
                    if !(1..=1 << 20).contains(&value) {
                        return fail(format_args!("{field}.queue.{name}"), value, "must lie in 1 .. 2^20");
                    }
                }
                if queue.memory_limit < 4096 {
                    return fail(format_args!("{field}.queue.memory_limit"), queue.memory_limit, "at least 4096 bytes");
                }
                queue.limit.saturating_mul(packet)
            }
            QueueSpec::Pie(PieSpec { limit, target, update, alpha, beta }) => {
                for (name, time) in [("target", target), ("update", update)] {
                    if !(1_000..=10_000_000_000).contains(&time.0) {
                        return fail(format_args!("{field}.queue.{name}"), time.0, "must lie in 1 us .. 10 s");
                    }
                }
                for (name, gain) in [("alpha", alpha), ("beta", beta)] {
                    if gain > 32 {
                        return fail(format_args!("{field}.queue.{name}"), gain, "must lie in 0 .. 32 (sixteenths)");
                    }
                }
                limit.saturating_mul(packet)
            }
            QueueSpec::Red(RedSpec { limit, min, max, max_probability, weight_log2, packet, .. }) => {
                probability(max_probability, format_args!("{field}.queue.max_probability"))?;
                if min >= max || max > limit {
                    return fail(format_args!("{field}.queue.max"), max, "must lie above min and not above limit");
                }
                if !(1..32).contains(&weight_log2) || packet == 0 {
                    return fail(
                        format_args!("{field}.queue.weight_log2"),
                        weight_log2,
                        "1 .. 31, with a positive packet",
                    );
                }
                limit
            }
        };
        if limit < packet {
            return fail(format_args!("{field}.queue.limit"), limit, &format!("must hold a packet of {packet} bytes"));
        }
        Ok(())
    }
}
