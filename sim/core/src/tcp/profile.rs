//! What differs between the kernels whose TCP the hosts may run: one place per difference.

use crate::spec::{Kernel, SsthreshCache};

/// The rules of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Receive buffer at first (the middle of net.ipv4.tcp_rmem), bytes of buffer memory.
    pub rmem_default: u64,
    /// What becomes of a threshold when its flow ends.
    pub ssthresh_cache: SsthreshCache,
}

/// Linux 6.x (read in 6.1; 6.12 agrees).
pub const V6: Profile = Profile { rmem_default: 131_072, ssthresh_cache: SsthreshCache::Off };

/// Linux 4.15.
pub const V4_15: Profile = Profile { rmem_default: 87_380, ssthresh_cache: SsthreshCache::Live };

impl Kernel {
    pub const fn profile(self) -> &'static Profile {
        match self {
            Kernel::V6 => &V6,
            Kernel::V4_15 => &V4_15,
        }
    }
}
