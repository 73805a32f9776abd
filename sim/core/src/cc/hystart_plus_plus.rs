//! HyStart++ (RFC 9406): a rise of the RTT leads to five rounds of slower growth first, from which a fall of the RTT
//! leads back.

use super::{Conn, SSTHRESH_INFINITE};

// Constants of section 4.3.
const MIN_RTT_THRESH_US: u32 = 4_000;
const MAX_RTT_THRESH_US: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u32 = 5;
/// Segments of growth per ACK of a sender that does not pace.
const L: u32 = 8;

/// "Infinity" of RTTs, microseconds.
const NO_RTT: u32 = u32::MAX;

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Css {
    /// RTT of the round that led here: a smaller one leads back.
    baseline_us: u32,
    rounds: u32,
    /// Segments acknowledged, of [`CSS_GROWTH_DIVISOR`] for one of growth.
    acked: u32,
}

#[derive(Clone, Debug)]
pub struct HyStartPlusPlus {
    /// The round ends when data beyond this is acknowledged.
    window_end: u32,
    last_round_min_us: u32,
    current_round_min_us: u32,
    rtt_samples: u32,
    css: Option<Css>,
}

impl HyStartPlusPlus {
    pub(super) fn new() -> HyStartPlusPlus {
        HyStartPlusPlus {
            window_end: 0,
            last_round_min_us: NO_RTT,
            current_round_min_us: NO_RTT,
            rtt_samples: 0,
            css: None,
        }
    }

    pub fn restart(&mut self, conn: &Conn) {
        *self = HyStartPlusPlus { window_end: conn.snd_nxt, ..HyStartPlusPlus::new() };
    }

    /// Section 4.3 asks for plain slow start after the first.
    fn applies(conn: &Conn) -> bool {
        conn.ssthresh >= SSTHRESH_INFINITE
    }

    pub fn on_ack(&mut self, conn: &mut Conn, rtt_us: u32) {
        if !Self::applies(conn) {
            return;
        }
        if conn.snd_una > self.window_end {
            self.end_round(conn);
        }
        self.current_round_min_us = self.current_round_min_us.min(rtt_us);
        self.rtt_samples += 1;
        if self.rtt_samples < N_RTT_SAMPLE {
            return;
        }
        match self.css {
            None if self.rtt_has_risen() => {
                self.css = Some(Css { baseline_us: self.current_round_min_us, rounds: 0, acked: 0 });
            }
            Some(css) if self.current_round_min_us < css.baseline_us => self.css = None,
            _ => {}
        }
    }

    /// The round in which conservative slow start begins counts.
    fn end_round(&mut self, conn: &mut Conn) {
        self.window_end = conn.snd_nxt;
        self.last_round_min_us = self.current_round_min_us;
        self.current_round_min_us = NO_RTT;
        self.rtt_samples = 0;
        if let Some(css) = &mut self.css {
            css.rounds += 1;
            if css.rounds >= CSS_ROUNDS {
                conn.ssthresh = conn.cwnd;
            }
        }
    }

    fn rtt_has_risen(&self) -> bool {
        let last = self.last_round_min_us;
        last != NO_RTT
            && self.current_round_min_us >= last + (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH_US, MAX_RTT_THRESH_US)
    }

    pub fn grow(&mut self, conn: &mut Conn, acked: u32) -> u32 {
        if !Self::applies(conn) {
            return conn.slow_start(acked);
        }
        let mut growth = acked.min(L);
        if let Some(css) = &mut self.css {
            css.acked += growth;
            growth = css.acked / CSS_GROWTH_DIVISOR;
            css.acked %= CSS_GROWTH_DIVISOR;
        }
        conn.slow_start(growth)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::*;

    /// A round of `samples` ACKs with this RTT.
    fn round(h: &mut HyStartPlusPlus, c: &mut Conn, rtt_ms: u32, samples: u32) {
        c.snd_una = h.window_end + 1;
        c.snd_nxt = c.snd_una + c.cwnd;
        (0..samples).for_each(|_| h.on_ack(c, rtt_ms * 1_000));
    }

    fn start(cwnd: u32) -> (HyStartPlusPlus, Conn) {
        let c = conn(cwnd, SSTHRESH_INFINITE);
        let mut h = HyStartPlusPlus::new();
        h.restart(&c);
        (h, c)
    }

    #[test]
    fn growth_vectors() {
        let (mut h, mut c) = start(10);
        assert_eq!((h.grow(&mut c, 10), c.cwnd), (0, 18));
        let (mut h, mut c) = start(10);
        h.css = Some(Css { baseline_us: 0, rounds: 0, acked: 0 });
        assert_eq!((h.grow(&mut c, 10), c.cwnd), (0, 12));
        (0..3).for_each(|_| _ = h.grow(&mut c, 2));
        assert_eq!(c.cwnd, 13, "one segment for four");
    }

    #[test]
    fn rtt_increase_vectors() {
        for (last, below, at) in [(100, 112, 113), (20, 23, 24), (600, 615, 616)] {
            for (rtt, expected) in [(below, false), (at, true)] {
                let (mut h, mut c) = start(100);
                round(&mut h, &mut c, last, 8);
                round(&mut h, &mut c, rtt, 7);
                assert!(h.css.is_none(), "seven samples are too few");
                h.on_ack(&mut c, rtt * 1_000);
                assert_eq!(h.css.is_some(), expected, "{last} {rtt}");
            }
        }
    }

    #[test]
    fn five_rounds_of_slower_growth_end_slow_start() {
        let (mut h, mut c) = start(100);
        for rtt in [50, 60, 60, 60, 60, 60] {
            round(&mut h, &mut c, rtt, 8);
            assert_eq!(c.ssthresh, SSTHRESH_INFINITE);
        }
        c.cwnd = 180;
        round(&mut h, &mut c, 60, 1);
        assert_eq!(c.ssthresh, 180);
    }

    #[test]
    fn a_smaller_rtt_leads_back() {
        let (mut h, mut c) = start(100);
        round(&mut h, &mut c, 50, 8);
        round(&mut h, &mut c, 60, 8);
        round(&mut h, &mut c, 59, 7);
        assert!(h.css.is_some());
        h.on_ack(&mut c, 59_000);
        assert!(h.css.is_none());
    }

    #[test]
    fn only_the_first_slow_start() {
        let (mut h, mut c) = start(10);
        c.ssthresh = 500;
        assert_eq!((h.grow(&mut c, 10), c.cwnd), (0, 20));
    }
}
