//! A deterministic, packet-level simulator of congestion control over satellite links.
//!
//! A [`spec::NetworkSpec`] becomes a [`world::World`] (links, flows, hosts), which the engine runs event by event;
//! [`worlds::Worlds`] steps many independent worlds together for learning. The crate knows nothing of Python.

#![forbid(unsafe_code)]

pub mod capture;
pub mod cc;
pub mod delays;
pub mod engine;
pub mod flow;
pub mod kernel_hosts;
pub mod link;
pub mod observe;
pub mod packet;
pub mod pool;
pub mod real_packets;
pub mod recorder;
pub mod ring;
pub mod rng;
pub mod schedule;
pub mod signals;
pub mod spec;
pub mod tcp;
pub mod time;
pub mod totals;
pub mod traffic;
pub mod units;
pub mod wire;
pub mod world;
pub mod worlds;

mod decisions;
mod host_events;
pub mod relay;
