//! What an agent sees, does and is paid for.

pub mod astraea;
pub mod handovers;
pub mod policy;
pub mod stats;
