//! Simulated time: whole nanoseconds since the start of the world.

use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// An instant or a duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    pub const ZERO: Nanos = Nanos(0);
    /// "Never": later than any event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A time longer than any that is simulated (104 days), short enough for a thousand of them to be added.
    pub const FOREVER: Nanos = Nanos(1 << 53);

    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    /// Whole microseconds, rounded down: the clock Linux TCP reads.
    pub const fn micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds, rounded down: the clock of TCP timestamps.
    pub const fn millis(self) -> u64 {
        self.0 / 1_000_000
    }

    pub fn secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    pub fn is_never(self) -> bool {
        self == Nanos::MAX
    }

    pub fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}
