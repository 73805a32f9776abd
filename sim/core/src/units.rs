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

    /// The rate that carries `bytes` in `over`; zero for an empty interval.
    pub fn of(bytes: u64, over: Nanos) -> BitRate {
        if over.0 == 0 { BitRate(0) } else { BitRate((bytes as u128 * 8_000_000_000 / over.0 as u128) as u64) }
    }
}
