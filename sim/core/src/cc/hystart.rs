//! HyStart: leave slow start before the queue overflows (Ha and Rhee 2011; Linux 6.x `tcp_cubic.c`).

use super::Conn;

const LOW_WINDOW: u32 = 16;
const ACK_DELTA_US: u64 = 2_000;
const MIN_SAMPLES: u32 = 8;
const DELAY_MIN_US: u32 = 4_000;
const DELAY_MAX_US: u32 = 16_000;
/// A paced sender's ACK train is stretched by at most this much, worth four 64 KB bursts at its rate.
const SLACK_MAX_US: u64 = 1_000;
const SLACK_BYTES: u64 = 4 * 65_536;

#[derive(Clone, Debug)]
pub struct HyStart {
    train: bool,
    delay: bool,
    pub found: bool,
    round_start_us: u64,
    last_ack_us: u64,
    round_end: u32,
    samples: u32,
    round_min_us: u32,
}

impl HyStart {
    pub fn new(train: bool, delay: bool) -> HyStart {
        HyStart {
            train,
            delay,
            found: false,
            round_start_us: 0,
            last_ack_us: 0,
            round_end: 0,
            samples: 0,
            round_min_us: u32::MAX,
        }
    }

    pub fn enabled(&self) -> bool {
        self.train || self.delay
    }

    pub fn start_round(&mut self, conn: &Conn) {
        self.round_start_us = conn.now.micros();
        self.last_ack_us = self.round_start_us;
        self.round_end = conn.snd_nxt;
        self.round_min_us = u32::MAX;
        self.samples = 0;
    }

    /// One ACK with an RTT sample in slow start; `delay_min_us` is the connection's minimum. Sets `ssthresh`.
    pub fn on_ack(&mut self, conn: &mut Conn, rtt_us: u32, delay_min_us: u32, paced: bool) {
        if conn.snd_una > self.round_end {
            self.start_round(conn);
        }
        if self.found || conn.cwnd < LOW_WINDOW {
            return;
        }
        let now = conn.now.micros();
        if self.train && now - self.last_ack_us <= ACK_DELTA_US {
            self.last_ack_us = now;
            let mut limit = u64::from(delay_min_us) + ack_slack_us(conn.window_rate());
            if !paced {
                limit >>= 1;
            }
            if now - self.round_start_us > limit {
                self.leave(conn);
            }
        }
        if self.delay && !self.found {
            self.round_min_us = self.round_min_us.min(rtt_us);
            if self.samples < MIN_SAMPLES {
                self.samples += 1;
            } else if self.round_min_us > delay_min_us + (delay_min_us / 8).clamp(DELAY_MIN_US, DELAY_MAX_US) {
                self.leave(conn);
            }
        }
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
    fn exit_at(samples_ms: &[u32], delay_min_us: u32) -> Option<usize> {
        let mut c = conn(100, SSTHRESH_INFINITE);
        c.snd_nxt = 1_000;
        c.state = CaState::Open;
        let mut h = HyStart::new(false, true);
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
        assert_eq!(exit_at(&[590, 591, 592, 590, 588, 589, 595, 596, 600], base), Some(9));
        // Linux 6.x keeps the minimum of every sample: a low ninth one cancels the exit for the round.
        assert_eq!(exit_at(&[590, 591, 592, 590, 588, 589, 595, 596, 580, 600], base), None);
        assert_eq!(exit_at(&[586; 9], base), None);
        assert_eq!(exit_at(&[587; 9], base), Some(9));
        assert_eq!(exit_at(&[600; 8], base), None);
    }

    #[test]
    fn delay_threshold_is_an_eighth_within_4_and_16_ms() {
        for (base_ms, threshold_us) in [(20, 4_000), (40, 5_000), (100, 12_500), (128, 16_000), (300, 16_000)] {
            let at = |extra: u32| {
                let mut c = conn(100, SSTHRESH_INFINITE);
                let mut h = HyStart::new(false, true);
                (0..9).for_each(|_| h.on_ack(&mut c, base_ms * 1_000 + extra, base_ms * 1_000, false));
                h.found
            };
            assert!(!at(threshold_us) && at(threshold_us + 1), "{base_ms} ms");
        }
    }

    #[test]
    fn an_ack_train_of_half_the_minimum_rtt_ends_slow_start() {
        let run = |gap_us: u64| {
            let mut c = conn(100, SSTHRESH_INFINITE);
            c.snd_nxt = 10_000;
            let mut h = HyStart::new(true, false);
            h.start_round(&c);
            let mut t = 0;
            while t < 60_000 && !h.found {
                t += gap_us;
                c.now = Nanos::from_micros(t);
                h.on_ack(&mut c, 50_000, 50_000, false);
            }
            (h.found, t)
        };
        assert_eq!(run(500), (true, 25_500));
        assert!(!run(2_001).0, "a chain with gaps above 2 ms is no train");
    }
}
