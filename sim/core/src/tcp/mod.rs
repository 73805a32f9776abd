//! TCP once, for every controller: sender, receiver and what they share.
//!
//! Sequence numbers count segments. Names follow RFC 9293, RFC 6675, RFC 8985 (RACK-TLP), RFC 6937 (PRR), RFC 5682
//! (F-RTO); behaviour follows Linux 6.x where it differs.

pub mod intervals;
pub mod receiver;
pub mod recovery;
pub mod rtt;
pub mod scoreboard;
pub mod sender;

mod ack;
mod loss;
mod transmit;
