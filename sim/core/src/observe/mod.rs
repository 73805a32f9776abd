//! Observations, actions and rewards of agents.

pub mod astraea;
mod aurora;
pub mod drain;
mod features;
pub mod fixed;
pub mod gru;
pub mod handovers;
mod lanes;
mod memory;
mod occupancy;
mod orca;
pub mod policy;
mod pulse;
mod ratios;
pub mod registry;
pub mod safety_filter;
mod share;
pub mod stats;
mod steps;
#[cfg(test)]
mod testing;
