//! HyStart: leave slow start before the queue overflows (Ha and Rhee 2011; `tcp_cubic.c` of Linux 4.15 and 6.x).

use crate::spec::Kernel;

use super::Conn;

const LOW_WINDOW: u32 = 16;
const ACK_DELTA_US: u64 = 2_000;
const MIN_SAMPLES: u32 = 8;
const DELAY_MIN_US: u32 = 4_000;
const DELAY_MAX_US: u32 = 16_000;
/// A paced sender's ACK train is stretched by at most this much, worth four 64 KB bursts at its rate.
const SLACK_MAX_US: u64 = 1_000;
const SLACK_BYTES: u64 = 4 * 65_536;
/// Linux 4.15 keeps RTTs in eighths of a millisecond.
pub const EIGHTH_MS_US: u32 = 125;

/// How far a round's smallest RTT may lie above the usual.
#[derive(Clone, Copy, Debug)]
pub enum Threshold {
    /// An eighth of the connection's smallest, within 4 and 16 ms.
    Linux,
    /// The same without the maximum, below which the jitter of a satellite link lies (Claypool et al. 2021).
    Unbounded,
    /// So many thousandths of a standard deviation above the mean of all rounds before, at least 4 ms (their other
    /// proposal, which leaves the number open).
    Deviations(u64),
}

/// Mean and standard deviation of RTT samples, microseconds.
#[derive(Clone, Debug, Default)]
struct Spread {
    samples: u64,
    sum: u64,
    squares: u128,
}

impl Spread {
    fn add(&mut self, rtt_us: u32) {
        self.samples += 1;
        self.sum += u64::from(rtt_us);
        self.squares += u128::from(rtt_us).pow(2);
    }

    fn mean_and_deviation(&self) -> Option<(u64, u64)> {
        let mean = self.sum.checked_div(self.samples)?;
        let n = u128::from(self.samples);
        let variance = (n * self.squares - u128::from(self.sum).pow(2)) / (n * n);
        Some((mean, variance.isqrt() as u64))
    }
}

#[derive(Clone, Debug)]
pub struct HyStart {
    kernel: Kernel,
    train: bool,
    delay: bool,
    threshold: Threshold,
    found: bool,
    round_start_us: u64,
    last_ack_us: u64,
    round_end: u32,
    samples: u32,
    round_min_us: u32,
    spread: Spread,
    /// Of [`Threshold::Deviations`], for the present round.
    deviation_limit_us: u64,
}

impl HyStart {
    pub fn new(train: bool, delay: bool, threshold: Threshold, kernel: Kernel) -> HyStart {
        HyStart {
            kernel,
            train,
            delay,
            threshold,
            found: false,
            round_start_us: 0,
            last_ack_us: 0,
            round_end: 0,
            samples: 0,
            round_min_us: u32::MAX,
            spread: Spread::default(),
            deviation_limit_us: u64::MAX,
        }
    }

    /// Forget everything, but not what to look for.
    pub fn restart(&mut self, conn: &Conn) {
        *self = HyStart::new(self.train, self.delay, self.threshold, self.kernel);
        self.start_round(conn);
    }

    fn start_round(&mut self, conn: &Conn) {
        self.round_start_us = self.clock_us(conn);
        self.last_ack_us = self.round_start_us;
        self.round_end = conn.snd_nxt;
        self.round_min_us = u32::MAX;
        self.samples = 0;
        if let Threshold::Deviations(thousandths) = self.threshold
            && let Some((mean, deviation)) = self.spread.mean_and_deviation()
        {
            self.deviation_limit_us = mean + (thousandths * deviation / 1_000).max(u64::from(DELAY_MIN_US));
        }
    }

    /// Linux 4.15 reads a clock of milliseconds.
    fn clock_us(&self, conn: &Conn) -> u64 {
        match self.kernel {
            Kernel::V6 | Kernel::V6_12 => conn.now.micros(),
            Kernel::V4_15 => conn.now.millis() * 1_000,
        }
    }

    /// Called before the window grows in slow start, which is where Linux 4.15 begins a new round.
    pub fn before_growth(&mut self, conn: &Conn) {
        if self.kernel == Kernel::V4_15 && conn.snd_una > self.round_end {
            self.start_round(conn);
        }
    }

    /// One ACK with an RTT sample in slow start; `delay_min_us` is the connection's minimum. Sets `ssthresh`.
    pub fn on_ack(&mut self, conn: &mut Conn, rtt_us: u32, delay_min_us: u32, paced: bool) {
        if self.found {
            return;
        }
        if self.kernel != Kernel::V4_15 && conn.snd_una > self.round_end {
            self.start_round(conn);
        }
        if let Threshold::Deviations(_) = self.threshold {
            self.spread.add(rtt_us);
        }
        if conn.cwnd < LOW_WINDOW {
            return;
        }
        let now = self.clock_us(conn);
        if self.train && now - self.last_ack_us <= ACK_DELTA_US {
            self.last_ack_us = now;
            if now - self.round_start_us > self.train_limit_us(conn, delay_min_us, paced) {
                self.leave(conn);
            }
        }
        if self.delay && !self.found && self.round_min_has_risen(rtt_us, delay_min_us) {
            self.leave(conn);
        }
    }

    /// How long an unbroken train of ACKs may last.
    fn train_limit_us(&self, conn: &Conn, delay_min_us: u32, paced: bool) -> u64 {
        match self.kernel {
            Kernel::V6 | Kernel::V6_12 => {
                let limit = u64::from(delay_min_us) + ack_slack_us(conn.window_rate());
                if paced { limit } else { limit >> 1 }
            }
            Kernel::V4_15 => u64::from((delay_min_us / EIGHTH_MS_US) >> 4) * 1_000,
        }
    }

    fn round_min_has_risen(&mut self, rtt_us: u32, delay_min_us: u32) -> bool {
        // Linux 4.15 takes the minimum of the first eight samples, 6.x of all.
        if self.samples < MIN_SAMPLES || self.kernel != Kernel::V4_15 {
            self.round_min_us = self.round_min_us.min(rtt_us);
        }
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        let eighth = match self.kernel {
            Kernel::V6 | Kernel::V6_12 => delay_min_us / 8,
            Kernel::V4_15 => delay_min_us / EIGHTH_MS_US / 8 * EIGHTH_MS_US,
        };
        let above = |threshold: u32| u64::from(delay_min_us + threshold);
        let limit = match self.threshold {
            Threshold::Linux => above(eighth.clamp(DELAY_MIN_US, DELAY_MAX_US)),
            Threshold::Unbounded => above(eighth.max(DELAY_MIN_US)),
            Threshold::Deviations(_) => self.deviation_limit_us,
        };
        u64::from(self.round_min_us) > limit
    }

    fn leave(&mut self, conn: &mut Conn) {
        self.found = true;
        conn.ssthresh = conn.cwnd;
    }
}

fn ack_slack_us(rate: u64) -> u64 {
    (SLACK_BYTES * 1_000_000).checked_div(rate).map_or(0, |us| us.min(SLACK_MAX_US))
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::super::{CaState, SSTHRESH_INFINITE};
    use super::*;
    use crate::time::Nanos;

    /// Feed RTT samples (ms) of one round 3 ms apart; returns the sample (from 1) at which slow start ends.
    fn exit_at(samples_ms: &[u32], delay_min_us: u32, kernel: Kernel) -> Option<usize> {
        let mut c = conn(100, SSTHRESH_INFINITE);
        c.snd_nxt = 1_000;
        c.state = CaState::Open;
        let mut h = HyStart::new(false, true, Threshold::Linux, kernel);
        h.start_round(&c);
        for (i, ms) in samples_ms.iter().enumerate() {
            c.now = Nanos::from_millis(3 * i as u64);
            h.on_ack(&mut c, ms * 1_000, delay_min_us, false);
            if h.found {
                assert_eq!(c.ssthresh, 100);
                return Some(i + 1);
            }
        }
        None
    }

    #[test]
    fn delay_detection_vectors() {
        let base = 570_000;
        for kernel in [Kernel::V6, Kernel::V4_15] {
            assert_eq!(exit_at(&[590, 591, 592, 590, 588, 589, 595, 596, 600], base, kernel), Some(9));
            assert_eq!(exit_at(&[586; 9], base, kernel), None);
            assert_eq!(exit_at(&[587; 9], base, kernel), Some(9));
            assert_eq!(exit_at(&[600; 8], base, kernel), None);
        }
        // Linux 6.x keeps the minimum of every sample: a low ninth one cancels the exit for the round.
        let low_ninth = [590, 591, 592, 590, 588, 589, 595, 596, 580, 600];
        assert_eq!(exit_at(&low_ninth, base, Kernel::V6), None);
        assert_eq!(exit_at(&low_ninth, base, Kernel::V4_15), Some(9));
    }

    #[test]
    fn delay_threshold_is_an_eighth_within_4_and_16_ms() {
        let above = |threshold, kernel, base_ms: u32, extra: u32| {
            let mut c = conn(100, SSTHRESH_INFINITE);
            let mut h = HyStart::new(false, true, threshold, kernel);
            (0..9).for_each(|_| h.on_ack(&mut c, base_ms * 1_000 + extra, base_ms * 1_000, false));
            h.found
        };
        for (base_ms, threshold_us) in [(20, 4_000), (40, 5_000), (100, 12_500), (128, 16_000), (300, 16_000)] {
            for kernel in [Kernel::V6, Kernel::V4_15] {
                let at = |extra| above(Threshold::Linux, kernel, base_ms, extra);
                assert!(!at(threshold_us) && at(threshold_us + 1), "{base_ms} ms");
            }
        }
        for (base_ms, threshold_us) in [(20, 4_000), (300, 37_500), (564, 70_500)] {
            let at = |extra| above(Threshold::Unbounded, Kernel::V6, base_ms, extra);
            assert!(!at(threshold_us) && at(threshold_us + 1), "{base_ms} ms without a maximum");
        }
    }

    #[test]
    fn the_spread_of_the_rounds_before_sets_the_dynamic_threshold() {
        let run = |jitter_ms: u32, then_ms: u32| {
            let mut c = conn(100, SSTHRESH_INFINITE);
            c.snd_nxt = 1_000;
            let mut h = HyStart::new(false, true, Threshold::Deviations(3_000), Kernel::V6);
            h.restart(&c);
            // Mean 600 ms, deviation `jitter_ms`; the first round has nothing to compare with.
            (0..50).for_each(|i| h.on_ack(&mut c, (600 - jitter_ms + 2 * jitter_ms * (i % 2)) * 1_000, 564_000, false));
            assert!(!h.found);
            (c.snd_una, c.snd_nxt) = (1_001, 2_000);
            (0..9).for_each(|_| h.on_ack(&mut c, then_ms * 1_000, 564_000, false));
            h.found
        };
        assert!(!run(10, 630) && run(10, 631), "three deviations");
        assert!(!run(0, 604) && run(0, 605), "at least 4 ms");
    }

    #[test]
    fn an_ack_train_of_half_the_minimum_rtt_ends_slow_start() {
        let run = |gap_us: u64, kernel| {
            let mut c = conn(100, SSTHRESH_INFINITE);
            c.snd_nxt = 10_000;
            let mut h = HyStart::new(true, false, Threshold::Linux, kernel);
            h.start_round(&c);
            let mut t = 0;
            while t < 60_000 && !h.found {
                t += gap_us;
                c.now = Nanos::from_micros(t);
                h.on_ack(&mut c, 50_000, 50_000, false);
            }
            (h.found, t)
        };
        assert_eq!(run(500, Kernel::V6), (true, 25_500));
        assert!(!run(2_001, Kernel::V6).0, "a chain with gaps above 2 ms is no train");
        // Linux 4.15 counts whole milliseconds: gaps of 2 ms, until more than 25 ms have passed.
        assert_eq!(run(2_001, Kernel::V4_15), (true, 26_013));
    }

    #[test]
    fn train_limit_of_linux_4_15() {
        let h = HyStart::new(true, true, Threshold::Linux, Kernel::V4_15);
        let c = conn(100, SSTHRESH_INFINITE);
        assert_eq!(h.train_limit_us(&c, 600_000, false), 300_000);
        assert_eq!(h.train_limit_us(&c, 51_000, false), 25_000, "whole milliseconds");
    }

    #[test]
    fn linux_4_15_begins_a_round_where_the_window_grows() {
        for (kernel, by_ack) in [(Kernel::V6, true), (Kernel::V4_15, false)] {
            let mut c = conn(100, SSTHRESH_INFINITE);
            let mut h = HyStart::new(true, true, Threshold::Linux, kernel);
            h.restart(&c);
            (c.snd_una, c.snd_nxt) = (1, 101);
            h.on_ack(&mut c, 50_000, 50_000, false);
            assert_eq!(h.round_end == 101, by_ack);
            h.before_growth(&c);
            assert_eq!(h.round_end, 101);
        }
    }
}
