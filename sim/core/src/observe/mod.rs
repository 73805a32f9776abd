//! What an agent sees, does and is paid for.

pub mod astraea;
mod aurora;
pub mod handovers;
mod leo;
mod orca;
pub mod pieces;
pub mod policy;
pub mod stats;
