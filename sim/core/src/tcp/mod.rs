//! TCP once, for every controller: sender, receiver and what they share.
//!
//! Sequence numbers count segments. Names follow RFC 9293, RFC 6675, RFC 8985 (RACK-TLP), RFC 6937 (PRR), RFC 5682
//! (F-RTO); behaviour follows Linux 6.x where it differs.

pub mod acks;
pub mod ecn;
pub mod intervals;
pub mod metrics;
pub mod receiver;
pub mod rtt;
pub mod sender;

use crate::time::Nanos;

/// How long the hosts' timestamp clocks have been running.
const EPOCH: Nanos = Nanos::from_secs(1_000);

/// The hosts' timestamp clock (RFC 7323) at `now`. It has been running for a while, so that zero can stand for "none".
pub(crate) fn timestamp(now: Nanos) -> Nanos {
    now + EPOCH
}

/// When a segment with this timestamp departed.
pub(crate) fn departure(timestamp: Nanos) -> Nanos {
    timestamp - EPOCH
}
