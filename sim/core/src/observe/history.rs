//! The throughputs of flows over some intervals, which common rewards compare.

use super::stats::IntervalStats;

/// Intervals over which fairness and stability are averaged, and which an observation contains, as published.
pub const HISTORY: usize = 5;

/// Recent throughputs of one flow in bytes per second, for the fairness and stability terms.
#[derive(Clone, Debug)]
pub struct History {
    throughputs: Vec<f64>,
    next: usize,
    filled: usize,
    mean: f64,
}

impl Default for History {
    fn default() -> History {
        History::new(HISTORY)
    }
}

impl History {
    /// A history of the last `length` intervals.
    pub fn new(length: usize) -> History {
        History { throughputs: vec![0.0; length], next: 0, filled: 0, mean: 0.0 }
    }

    pub fn push(&mut self, stats: &IntervalStats) {
        self.throughputs[self.next] = stats.delivery_rate_bps / 8.0;
        self.filled = (self.filled + 1).min(self.throughputs.len());
        self.next += 1;
        if self.next == self.throughputs.len() {
            self.next = 0;
        }
        self.mean = self.recent().sum::<f64>() / self.filled as f64;
    }

    /// The throughputs, oldest first.
    fn recent(&self) -> impl Iterator<Item = f64> {
        // Until all places are filled, none behind `next` is.
        let (newer, older) = self.throughputs[..self.filled].split_at(self.next);
        older.iter().chain(newer).copied()
    }

    pub fn mean(&self) -> f64 {
        self.mean
    }

    pub fn relative_deviation(&self) -> f64 {
        let mean = self.mean;
        if mean <= 0.0 {
            return 0.0;
        }
        let variance = self.recent().map(|x| (x - mean) * (x - mean)).sum::<f64>() / self.filled as f64;
        libm::sqrt(variance) / mean
    }
}

/// The data of one flow for a reward.
#[derive(Clone, Copy)]
pub struct RewardedFlow<'a> {
    pub stats: &'a IntervalStats,
    pub history: &'a History,
    /// How much delay counts, in (0, 1]; 0: as much as the reward says.
    pub preference: f64,
}

impl<'a> RewardedFlow<'a> {
    /// A flow to which delay counts as much as its scenario asks.
    pub fn new(stats: &'a IntervalStats, history: &'a History) -> RewardedFlow<'a> {
        RewardedFlow { stats, history, preference: stats.delay_preference }
    }
}
