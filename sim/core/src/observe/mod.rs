//! Observations, actions and rewards of agents.

pub mod astraea;
mod aurora;
pub mod drain;
pub mod features;
pub mod functions;
pub mod handovers;
pub mod history;
mod lanes;
mod memory;
pub mod needs;
pub mod occupancy;
mod orca;
pub mod policy;
pub mod preset;
pub mod registry;
pub mod safety_filter;
mod share;
pub mod stats;
mod steps;
#[cfg(test)]
mod testing;

/// Most features of an observation.
pub const MOST_FEATURES: usize = 48;
