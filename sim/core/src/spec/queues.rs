//! The queue of a link direction.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

use super::is_false;

fn is_true(value: &bool) -> bool {
    *value
}

fn yes() -> bool {
    true
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
