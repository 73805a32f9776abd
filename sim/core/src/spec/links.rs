//! Links, and what happens to them.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;
use crate::units::BitRate;

use super::queues::QueueSpec;

fn is_none_of(share: &f64) -> bool {
    *share == 0.0
}

fn is_zero(value: &u64) -> bool {
    *value == 0
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
