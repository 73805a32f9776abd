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

    /// Time to serialise `bytes`, rounded down to a nanosecond, but at least one. The rate must be positive. Longer than
    /// anything is simulated: [`Nanos::FOREVER`].
    pub fn serialisation(self, bytes: u64) -> Nanos {
        let time = match bytes.checked_mul(8_000_000_000) {
            Some(work) => work / self.0,
            None => u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(self.0)).unwrap_or(u64::MAX),
        };
        Nanos(time.clamp(1, Nanos::FOREVER.0))
    }
}
