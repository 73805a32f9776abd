//! A deterministic, packet-level simulator of congestion control over satellite links.
//!
//! A [`spec::NetworkSpec`] becomes a [`world::World`] (links, flows, hosts), which the engine runs event by event;
//! [`worlds::Worlds`] steps many independent worlds together for learning. The crate knows nothing of Python.

#![forbid(unsafe_code)]

pub mod cc;
pub mod delays;
pub mod flow;
pub mod link;
mod min_filter;
pub mod observe;
pub mod packet;
pub mod pool;
pub mod ring;
pub mod rng;
pub mod schedule;
pub mod signals;
pub mod spec;
pub mod tcp;
pub mod tick;
pub mod time;
pub mod traffic;
pub mod units;
mod validation;
pub mod wire;
pub mod world;
pub mod worlds;
