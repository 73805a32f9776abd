//! The plain description of a network that a world is built from: whole nanoseconds, bit/s and bytes.
//!
//! Scenario files are validated and compiled to this form outside the core; the checks in `validation` guard the simulator
//! itself and name the offending field.

mod flows;
mod hosts;
mod links;
pub mod profile;
mod queues;

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

pub use {flows::*, hosts::*, links::*, queues::*};

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

fn is_false(value: &bool) -> bool {
    !value
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
    /// Bytes of headers in a full segment that are the packet's own: IPv4, TCP and its timestamps. The rest is the link's.
    pub const OWN_HEADERS: u32 = 52;

    /// Reads the text; whether it can be simulated is checked where a world is built from it.
    pub fn from_json(text: &str) -> Result<NetworkSpec, SpecError> {
        serde_json::from_str(text).map_err(|e| SpecError(format!("network: {e}")))
    }
}
