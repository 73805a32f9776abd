//! Astraea's observation, reward and global state (Liao et al., EuroSys 2024, and its released inference code).

mod observation;
mod reward;

pub(super) use observation::observation;
pub use reward::global_state;
pub(super) use reward::reward;

pub const STATE_DIM: usize = 12;
