//! What an agent sees, does and is paid for.

pub mod astraea;
mod aurora;
pub mod guard;
pub mod handovers;
mod memory;
mod orca;
pub mod pieces;
pub mod policy;
mod ratios;
mod share;
pub mod stats;
mod steps;
#[cfg(test)]
mod testing;
