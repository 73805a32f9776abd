//! What a host counts of the acknowledgements that come in: for the statistics of an interval.

use crate::time::Nanos;

/// Sums over the acknowledgements of some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acks {
    pub rtt_sum_us: u64,
    /// Sum of the samples times their index, from 0 on.
    pub rtt_placed_us: u64,
    pub rtt_least_us: u32,
    pub rtt_samples: u32,
    /// Sum of the delivery-rate samples, in bytes per second.
    pub rate_sum: f64,
    pub rate_samples: u32,
    /// The longest time without an acknowledgement that has ended.
    pub longest_gap: Nanos,
    /// Arrival of the last acknowledgement, also if it was before this time; zero: none yet.
    pub last: Nanos,
}

impl Default for Acks {
    fn default() -> Acks {
        Acks {
            rtt_sum_us: 0,
            rtt_placed_us: 0,
            rtt_least_us: u32::MAX,
            rtt_samples: 0,
            rate_sum: 0.0,
            rate_samples: 0,
            longest_gap: Nanos::ZERO,
            last: Nanos::ZERO,
        }
    }
}

impl Acks {
    #[inline]
    pub fn add(&mut self, now: Nanos, rtt_us: Option<u32>, rate: Option<f64>) {
        self.longest_gap = self.longest_gap.max(now.saturating_sub(self.last));
        self.last = now;
        if let Some(us) = rtt_us {
            self.rtt_sum_us += u64::from(us);
            self.rtt_placed_us += u64::from(self.rtt_samples) * u64::from(us);
            self.rtt_least_us = self.rtt_least_us.min(us);
            self.rtt_samples += 1;
        }
        if let Some(rate) = rate {
            self.rate_sum += rate;
            self.rate_samples += 1;
        }
    }

    /// Add the acknowledgements of the time that follows.
    pub(crate) fn append(&mut self, later: &Acks) {
        self.rtt_placed_us += later.rtt_placed_us + u64::from(self.rtt_samples) * later.rtt_sum_us;
        self.rtt_sum_us += later.rtt_sum_us;
        self.rtt_least_us = self.rtt_least_us.min(later.rtt_least_us);
        self.rtt_samples += later.rtt_samples;
        self.rate_sum += later.rate_sum;
        self.rate_samples += later.rate_samples;
        self.longest_gap = self.longest_gap.max(later.longest_gap);
        self.last = self.last.max(later.last);
    }
}
