//! Astraea's observation, reward and global state (Liao et al., EuroSys 2024, and its released inference code).

mod observation;
mod reward;

pub(super) use observation::observation;
pub(super) use reward::reward;
pub use reward::{History, Member, global_state};

/// Number of intervals over which fairness and stability are averaged, and which an observation contains, as published.
pub const HISTORY: usize = 5;
pub const STATE_DIM: usize = 12;
