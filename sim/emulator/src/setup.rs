//! How an agent's flow is to be set up.

use serde::Deserialize;

/// What the kernel's TCP does under an agent: one controller of the BPF program each, in this order.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Nothing: the window stands.
    Hold,
    /// The kernel's recovery.
    Kernel,
    /// Cubic.
    Cubic,
}

/// A flow that an agent drives: its slot is its place in the list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "agents"), expect(dead_code))]
pub struct Agent {
    pub flow: usize,
    pub form: Form,
    pub pacing_gain: f64,
    pub initial_cwnd: u32,
}
