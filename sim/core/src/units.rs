//! Rates as a type: bits per second never mix with bytes per second.

use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// A link or application rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitRate(pub u64);

impl BitRate {
    /// No serialisation at all.
    pub const UNLIMITED: BitRate = BitRate(u64::MAX);

    pub fn is_unlimited(self) -> bool {
        self == BitRate::UNLIMITED
    }

    /// Time to serialise `bytes`, rounded down to a nanosecond. The rate must be positive.
    pub fn serialisation(self, bytes: u64) -> Nanos {
        Nanos(bytes * 8_000_000_000 / self.0)
    }
}
