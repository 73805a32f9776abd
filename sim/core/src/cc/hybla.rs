//! Hybla: the window of a long path grows as fast as on a path with a round trip of `rtt0` (Caini and Firrincieli
//! 2004; Linux `tcp_hybla.c`, the same from 4.15 to 6.12).
//!
//! It grows per ACK, not per segment acknowledged, so thinned ACKs slow it down. The initial window is rho, also below
//! 10 on short paths.

use super::{CaState, Conn, Controller, Params, reno};

/// `snd_cwnd_clamp`, segments.
const CLAMP: u32 = 65_535;
/// Largest power of two of one slow-start step.
const RHO_MAX: u32 = 16;
/// 2^(i/8), times 128.
const FRACTIONS: [u32; 8] = [128, 139, 152, 165, 181, 197, 215, 234];

pub const PARAMS: &[(&str, &str)] = &[("rtt0_ms", "25")];

pub fn build(params: &Params) -> Result<Box<dyn Controller>, String> {
    let rtt0_ms = params.number("rtt0_ms", 25.0, 1.0, 1_000.0)?;
    Ok(Box::new(Hybla::new((rtt0_ms * 1_000.0) as u32)))
}

#[derive(Clone, Debug)]
pub struct Hybla {
    /// Round-trip time of the reference path, microseconds.
    rtt0_us: u32,
    /// Only in Open; Reno grows the window elsewhere.
    enabled: bool,
    /// Growth not yet worth a segment, of 128.
    cents: u32,
    /// Smoothed RTT over rtt0, not below 1, times 8.
    rho_8: u32,
    rho: u32,
    /// Its square, times 128.
    rho2_128: u32,
    /// Smallest smoothed RTT so far, as `Conn::srtt8_us`.
    min_srtt8_us: u32,
}

impl Hybla {
    fn new(rtt0_us: u32) -> Hybla {
        Hybla { rtt0_us, enabled: true, cents: 0, rho_8: 0, rho: 0, rho2_128: 0, min_srtt8_us: 0 }
    }

    fn measure(&mut self, conn: &Conn) {
        self.rho_8 = (conn.srtt8_us / self.rtt0_us).max(8);
        self.rho = self.rho_8 >> 3;
        self.rho2_128 = self.rho_8.wrapping_mul(self.rho_8).wrapping_mul(2);
    }

    /// Growth of one ACK, times 128.
    fn increment(&self, conn: &Conn) -> u32 {
        if conn.in_slow_start() {
            // 2^rho - 1
            (FRACTIONS[(self.rho_8 & 7) as usize] << self.rho.min(RHO_MAX)) - 128
        } else {
            // rho^2 / cwnd
            self.rho2_128 / conn.cwnd
        }
    }
}

impl Controller for Hybla {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        *self = Hybla::new(self.rtt0_us);
        self.measure(conn);
        self.min_srtt8_us = conn.srtt8_us;
        conn.cwnd = self.rho;
        conn.cwnd_clamp = CLAMP;
    }

    fn on_state(&mut self, _conn: &mut Conn, new: CaState) {
        self.enabled = new == CaState::Open;
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        // Queues raise the smoothed RTT, never rho.
        if conn.srtt8_us < self.min_srtt8_us {
            self.measure(conn);
            self.min_srtt8_us = conn.srtt8_us;
        }
        if !conn.is_cwnd_limited() {
            return;
        }
        if !self.enabled {
            reno::cong_avoid(conn, acked);
            return;
        }
        let slow_start = conn.in_slow_start();
        let increment = self.increment(conn);
        if !slow_start && increment < 128 {
            conn.cwnd_cnt += 1;
        }
        conn.cwnd += increment >> 7;
        self.cents += increment & 127;
        if self.cents >= 128 {
            conn.cwnd += 1;
            self.cents -= 128;
            conn.cwnd_cnt = 0;
        }
        if increment == 0 && conn.cwnd_cnt >= conn.cwnd {
            conn.cwnd += 1;
            conn.cwnd_cnt = 0;
        }
        if slow_start {
            conn.cwnd = conn.cwnd.min(conn.ssthresh);
        }
        conn.cwnd = conn.cwnd.min(conn.cwnd_clamp);
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        reno::ssthresh(conn)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SSTHRESH_INFINITE;
    use super::super::testing::conn;
    use super::*;

    /// A connection just established over a path of this RTT.
    fn start(rtt_ms: u32) -> (Hybla, Conn) {
        let mut h = Hybla::new(25_000);
        let mut c = conn(10, SSTHRESH_INFINITE);
        c.srtt8_us = rtt_ms * 8_000;
        h.init(&mut c);
        (h, c)
    }

    fn acks(h: &mut Hybla, c: &mut Conn, n: u32) -> Vec<u32> {
        (0..n)
            .map(|_| {
                h.cong_avoid(c, 1);
                c.cwnd
            })
            .collect()
    }

    #[test]
    fn rho_initial_window_and_first_step_vectors() {
        for (rtt_ms, rho_8, rho, rho2, initial, next) in [
            (25, 8, 1, 1, 1, 2),
            (30, 9, 1, 1, 1, 2),
            (50, 16, 2, 4, 2, 5),
            (100, 32, 4, 16, 4, 19),
            (240, 76, 9, 90, 9, 732),
            (560, 179, 22, 500, 22, 65_535),
            (600, 192, 24, 576, 24, 65_535),
        ] {
            let (mut h, mut c) = start(rtt_ms);
            assert_eq!((h.rho_8, h.rho, h.rho2_128 >> 7, c.cwnd), (rho_8, rho, rho2, initial), "{rtt_ms} ms");
            assert_eq!(acks(&mut h, &mut c, 1), [next], "{rtt_ms} ms");
            if rtt_ms == 30 {
                assert_eq!(h.cents, 22);
            }
        }
        assert_eq!(start(40).1.cwnd, 1);
    }

    #[test]
    fn fractions_add_up_in_slow_start() {
        let (mut h, mut c) = start(30);
        assert_eq!(acks(&mut h, &mut c, 10), [2, 3, 4, 5, 6, 8, 9, 10, 11, 12]);
        assert_eq!(h.cents, 92);
    }

    #[test]
    fn congestion_avoidance_vectors() {
        for (rtt_ms, cwnd, end, cents) in [(600, 5_000, 5_526, 114), (600, 7_000, 7_529, 63), (100, 200, 214, 72)] {
            let (mut h, mut c) = start(rtt_ms);
            (c.cwnd, c.ssthresh) = (cwnd, cwnd);
            assert_eq!(acks(&mut h, &mut c, cwnd).last(), Some(&end));
            assert_eq!(h.cents, cents);
        }
    }

    #[test]
    fn slow_start_ends_at_the_threshold() {
        let (mut h, mut c) = start(600);
        (c.cwnd, c.ssthresh) = (10, 5_000);
        assert_eq!(acks(&mut h, &mut c, 1), [5_000]);
    }

    #[test]
    fn a_window_above_128_rho_squared_still_grows_by_one_per_window() {
        let (mut h, mut c) = start(25);
        (c.cwnd, c.ssthresh) = (300, 300);
        let windows = acks(&mut h, &mut c, 301);
        assert_eq!((windows[298], windows[299], c.cwnd_cnt), (300, 301, 1));
    }

    #[test]
    fn rho_only_falls_and_rests_outside_open() {
        let (mut h, mut c) = start(100);
        c.srtt8_us = 400_000 * 8;
        acks(&mut h, &mut c, 1);
        assert_eq!(h.rho, 4);
        c.srtt8_us = 50_000 * 8;
        acks(&mut h, &mut c, 1);
        assert_eq!(h.rho, 2);
        h.on_state(&mut c, CaState::Loss);
        c.cwnd = 10;
        h.cong_avoid(&mut c, 3);
        assert_eq!(c.cwnd, 13, "Reno's slow start");
    }
}
