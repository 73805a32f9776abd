//! Vegas: keep two to four packets in the queue (Brakmo and Peterson 1995; Linux `tcp_vegas.c`).
//!
//! The base RTT is the smallest ever seen and never raised: after a path has become longer, Vegas takes the whole
//! difference for a queue of its own. Loss is answered as by Reno.

use super::{CaState, Conn, Controller, Event, reno};

/// Packets in the queue: grow below, shrink above; leave slow start above `GAMMA`.
const ALPHA: u32 = 2;
const BETA: u32 = 4;
const GAMMA: u32 = 1;
/// A round with at most this many samples says nothing: the receiver may have delayed its ACKs.
const FEW_SAMPLES: u32 = 2;
const NO_RTT: u32 = 0x7fff_ffff;

#[derive(Clone, Debug)]
pub struct Vegas {
    /// Only in Open.
    enabled: bool,
    /// The round ends when data beyond this is acknowledged.
    round_end: u32,
    /// RTT samples of the round, and the smallest, microseconds plus 1 as in Linux.
    samples: u32,
    round_min_us: u32,
    base_us: u32,
}

impl Vegas {
    pub(super) fn new() -> Vegas {
        Vegas { enabled: false, round_end: 0, samples: 0, round_min_us: NO_RTT, base_us: NO_RTT }
    }

    fn enable(&mut self, conn: &Conn) {
        self.enabled = true;
        self.round_end = conn.snd_nxt;
        self.clear_round();
    }

    fn clear_round(&mut self) {
        self.samples = 0;
        self.round_min_us = NO_RTT;
    }

    /// The window that would leave the queue empty, and how many packets the present one keeps there.
    fn target_and_queued(&self, cwnd: u32) -> (u32, u32) {
        let (rtt, base) = (self.round_min_us, self.base_us);
        let target = (u64::from(cwnd) * u64::from(base) / u64::from(rtt)) as u32;
        // 32 bits in Linux too.
        (target, cwnd.wrapping_mul(rtt - base) / base)
    }

    /// Once per round trip.
    fn adjust(&mut self, conn: &mut Conn, acked: u32) {
        let (target, queued) = self.target_and_queued(conn.cwnd);
        if conn.in_slow_start() {
            if queued > GAMMA {
                conn.cwnd = conn.cwnd.min(target + 1);
                conn.ssthresh = conn.ssthresh.min(conn.cwnd);
            } else {
                conn.slow_start(acked);
            }
        } else if queued > BETA {
            conn.cwnd -= 1;
            conn.ssthresh = conn.ssthresh.min(conn.cwnd);
        } else if queued < ALPHA {
            conn.cwnd += 1;
        }
        conn.cwnd = conn.cwnd.min(conn.cwnd_clamp).max(2);
        conn.ssthresh = conn.current_ssthresh();
    }
}

impl Controller for Vegas {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        self.base_us = NO_RTT;
        self.enable(conn);
    }

    fn on_delivered(&mut self, _conn: &mut Conn, _delivered: u32, rtt_us: Option<u32>) {
        let Some(rtt_us) = rtt_us else { return };
        let rtt_us = rtt_us + 1;
        self.base_us = self.base_us.min(rtt_us);
        self.round_min_us = self.round_min_us.min(rtt_us);
        self.samples += 1;
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        if !self.enabled {
            reno::cong_avoid(conn, acked);
        } else if conn.snd_una > self.round_end {
            self.round_end = conn.snd_nxt;
            if self.samples <= FEW_SAMPLES {
                reno::cong_avoid(conn, acked);
            } else {
                self.adjust(conn, acked);
            }
            self.clear_round();
        } else if conn.in_slow_start() {
            conn.slow_start(acked);
        }
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        reno::ssthresh(conn)
    }

    fn on_state(&mut self, conn: &mut Conn, new: CaState) {
        if new == CaState::Open {
            self.enable(conn);
        } else {
            self.enabled = false;
        }
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        if matches!(event, Event::CwndRestart | Event::TxStart) {
            self.init(conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SSTHRESH_INFINITE;
    use super::super::testing::conn;
    use super::*;

    /// A round of three samples of `min_us` after a base of `base_us` has ended; returns the connection.
    fn round(cwnd: u32, ssthresh: u32, base_us: u32, min_us: u32, acked: u32) -> (Vegas, Conn) {
        let mut v = Vegas::new();
        let mut c = conn(cwnd, ssthresh);
        v.init(&mut c);
        v.base_us = base_us;
        (0..3).for_each(|_| v.on_delivered(&mut c, 1, Some(min_us - 1)));
        assert_eq!((v.base_us, v.round_min_us), (base_us, min_us));
        (c.snd_una, c.snd_nxt) = (1, 1 + cwnd);
        v.cong_avoid(&mut c, acked);
        (v, c)
    }

    #[test]
    fn target_and_difference_vectors() {
        for (min_us, expected) in [(50_000, (20, 0)), (55_000, (18, 2)), (65_000, (15, 6))] {
            let mut v = Vegas::new();
            (v.base_us, v.round_min_us) = (50_000, min_us);
            assert_eq!(v.target_and_queued(20), expected);
        }
    }

    #[test]
    fn one_packet_more_or_less_per_round() {
        for (min_us, expected) in [(50_000, 21), (55_000, 20), (65_000, 19)] {
            let (v, c) = round(20, 20, 50_000, min_us, 1);
            assert_eq!(c.cwnd, expected);
            assert_eq!((v.samples, v.round_end), (0, 21), "a new round begins");
        }
        let (_, c) = round(20, 20, 50_000, 65_000, 1);
        assert_eq!(c.ssthresh, 19);
        let (_, c) = round(100, 50, 50_000, 50_000, 1);
        assert_eq!(c.ssthresh, 75, "the threshold follows at three quarters of the window");
    }

    #[test]
    fn slow_start_ends_with_the_first_packets_queued() {
        let (_, c) = round(20, SSTHRESH_INFINITE, 50_000, 65_000, 1);
        assert_eq!((c.cwnd, c.ssthresh), (16, 16));
        let (mut v, mut c) = round(20, SSTHRESH_INFINITE, 50_000, 50_000, 4);
        assert_eq!((c.cwnd, c.ssthresh), (24, SSTHRESH_INFINITE));
        v.cong_avoid(&mut c, 4);
        assert_eq!(c.cwnd, 28, "within the round too");
        c.ssthresh = 28;
        v.cong_avoid(&mut c, 4);
        assert_eq!(c.cwnd, 28, "but not in congestion avoidance");
    }

    #[test]
    fn two_samples_are_too_few() {
        let mut v = Vegas::new();
        let mut c = conn(20, 20);
        v.init(&mut c);
        (0..2).for_each(|_| v.on_delivered(&mut c, 1, Some(50_000)));
        (c.snd_una, c.snd_nxt, c.cwnd_cnt) = (1, 21, 19);
        v.cong_avoid(&mut c, 1);
        assert_eq!((c.cwnd, c.cwnd_cnt), (21, 0), "Reno's step");
    }

    #[test]
    fn reno_outside_open_and_a_new_base_after_idling() {
        let (mut v, mut c) = round(20, 20, 50_000, 50_000, 1);
        v.on_state(&mut c, CaState::Loss);
        (c.cwnd, c.ssthresh) = (4, 10);
        v.cong_avoid(&mut c, 2);
        assert_eq!(c.cwnd, 6);
        v.on_state(&mut c, CaState::Open);
        assert!(v.enabled && v.base_us == 50_000);
        v.on_event(&mut c, Event::TxStart);
        assert_eq!(v.base_us, NO_RTT);
    }

    #[test]
    fn the_window_stays_at_two() {
        let (_, c) = round(2, 2, 10_000, 100_000, 1);
        assert_eq!(c.cwnd, 2);
    }
}
