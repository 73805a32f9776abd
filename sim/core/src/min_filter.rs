//! The smallest sample of a time.

use crate::time::Nanos;

/// Windowed minimum with three samples (Kathleen Nichols' filter, as in Linux): constant time and memory.
#[derive(Clone, Debug)]
pub struct MinFilter {
    window: Nanos,
    best: [(Nanos, u32); 3],
    /// Until then a sample above all three changes nothing.
    calm_until: Nanos,
}

impl MinFilter {
    pub fn new(window: Nanos) -> MinFilter {
        MinFilter { window, best: [(Nanos::ZERO, u32::MAX); 3], calm_until: Nanos::ZERO }
    }

    pub fn get(&self) -> u32 {
        self.best[0].1
    }

    pub fn set_window(&mut self, window: Nanos) {
        self.window = window;
        self.calm_until = Nanos::ZERO;
    }

    #[inline]
    pub fn update(&mut self, now: Nanos, value: u32) {
        if value <= self.best[2].1 || now > self.calm_until {
            self.take(now, value);
            let [first, second, third] = self.best.map(|sample| sample.0);
            let quarters = if second == first {
                1
            } else if third == second {
                2
            } else {
                4
            };
            self.calm_until = first + Nanos(self.window.0 / 4 * quarters);
        }
    }

    fn take(&mut self, now: Nanos, value: u32) {
        let sample = (now, value);
        if value <= self.best[0].1 || (now - self.best[2].0) > self.window {
            self.best = [sample; 3];
            return;
        }
        if value <= self.best[1].1 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value <= self.best[2].1 {
            self.best[2] = sample;
        }
        let age = now - self.best[0].0;
        if age > self.window {
            self.best = [self.best[1], self.best[2], sample];
            if (now - self.best[0].0) > self.window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].0 == self.best[0].0 && age.0 > self.window.0 / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age.0 > self.window.0 / 2 {
            self.best[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_filter_forgets_after_its_window() {
        let mut min = MinFilter::new(Nanos::from_secs(10));
        min.update(Nanos::ZERO, 50);
        min.update(Nanos::from_secs(5), 80);
        assert_eq!(min.get(), 50);
        min.update(Nanos::from_secs(11), 90);
        assert_eq!(min.get(), 80);
    }
}
