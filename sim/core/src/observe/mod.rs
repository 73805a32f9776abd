//! Observations, actions and rewards of agents.

pub mod astraea;
mod aurora;
pub mod drain;
mod features;
pub mod fixed;
pub mod fixed_policy;
pub mod functions;
pub mod handovers;
pub mod history;
mod lanes;
mod memory;
mod occupancy;
mod orca;
pub mod policy;
mod ratios;
pub mod registry;
pub mod safety_filter;
mod share;
pub mod stats;
mod steps;
#[cfg(test)]
mod testing;

/// Most features of an observation.
const MOST_FEATURES: usize = 48;
