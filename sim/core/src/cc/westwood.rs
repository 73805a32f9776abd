//! Westwood+: Reno whose threshold after a loss is the measured bandwidth times the smallest RTT (Mascolo et al. 2001,
//! Grieco and Mascolo 2004; Linux `tcp_westwood.c`).
//!
//! Linux counts time in ticks, so the estimate depends on HZ: at 100 Hz a round trip of 50.1 ms is six ticks.

use super::{Conn, Controller, Event, reno};

/// Bandwidth samples span at least 1/20 s, and the RTT is 20 s until measured.
const SAMPLE_HZ: u32 = 20;
const INITIAL_RTT_S: u32 = 20;

#[derive(Clone, Debug)]
pub struct Westwood {
    /// Bandwidth, bytes per tick, after one low-pass filter and after the second.
    bw_fast: u32,
    bw: u32,
    /// Bytes acknowledged since the sample's start, and that tick.
    bytes: u32,
    sample_start: u64,
    snd_una: u32,
    /// Bytes credited to duplicate ACKs which a later partial ACK will acknowledge again.
    accounted: u32,
    /// Latest and smallest RTT, ticks.
    rtt: u32,
    rtt_min: u32,
    /// The next sample replaces the smallest.
    reset_rtt_min: bool,
}

impl Westwood {
    pub(super) fn new() -> Westwood {
        Westwood {
            bw_fast: 0,
            bw: 0,
            bytes: 0,
            sample_start: 0,
            snd_una: 0,
            accounted: 0,
            rtt: 0,
            rtt_min: 0,
            reset_rtt_min: true,
        }
    }

    /// Close the bandwidth sample if an RTT has passed.
    fn update_bandwidth(&mut self, conn: &Conn) {
        let elapsed = (conn.jiffies - self.sample_start) as u32;
        if self.rtt == 0 || elapsed <= self.rtt.max(conn.hz / SAMPLE_HZ) {
            return;
        }
        let sample = self.bytes / elapsed;
        if self.bw_fast == 0 && self.bw == 0 {
            (self.bw_fast, self.bw) = (sample, sample);
        } else {
            self.bw_fast = low_pass(self.bw_fast, sample);
            self.bw = low_pass(self.bw, self.bw_fast);
        }
        self.bytes = 0;
        self.sample_start = conn.jiffies;
    }

    /// Bytes this ACK acknowledged. A duplicate stands for one segment, which is not counted again when the window
    /// moves.
    fn count(&mut self, advanced: u32, mss: u32) -> u32 {
        if advanced == 0 {
            self.accounted += mss;
            return mss;
        }
        if advanced <= mss {
            return advanced;
        }
        if self.accounted >= advanced {
            self.accounted -= advanced;
            return mss;
        }
        advanced - std::mem::take(&mut self.accounted)
    }

    /// Bandwidth times the smallest RTT, segments.
    fn window(&self, conn: &Conn) -> u32 {
        ((u64::from(self.bw) * u64::from(self.rtt_min) / u64::from(conn.mss)) as u32).max(2)
    }
}

fn low_pass(old: u32, new: u32) -> u32 {
    ((7 * u64::from(old) + u64::from(new)) >> 3) as u32
}

impl Controller for Westwood {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn init(&mut self, conn: &mut Conn) {
        let rtt = INITIAL_RTT_S * conn.hz;
        *self = Westwood { rtt, rtt_min: rtt, sample_start: conn.jiffies, snd_una: conn.snd_una, ..Westwood::new() };
    }

    fn on_delivered(&mut self, conn: &mut Conn, _delivered: u32, rtt_us: Option<u32>) {
        self.update_bandwidth(conn);
        let advanced = (conn.snd_una - self.snd_una) * conn.mss;
        self.snd_una = conn.snd_una;
        // Plain progress is counted as it is.
        self.bytes += if conn.plain_ack { advanced } else { self.count(advanced, conn.mss) };
        // Linux counts before it takes the RTT of the same ACK.
        self.rtt_min = if self.reset_rtt_min { self.rtt } else { self.rtt_min.min(self.rtt) };
        self.reset_rtt_min = false;
        if let Some(rtt_us) = rtt_us
            && rtt_us > 0
        {
            self.rtt = rtt_us.div_ceil(1_000_000 / conn.hz);
        }
    }

    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        reno::cong_avoid(conn, acked);
    }

    fn ssthresh(&mut self, conn: &mut Conn) -> u32 {
        // Of the reduction; its end sets Westwood's own.
        reno::ssthresh(conn)
    }

    fn on_event(&mut self, conn: &mut Conn, event: Event) {
        match event {
            Event::CompleteCwr => {
                conn.ssthresh = self.window(conn);
                conn.cwnd = conn.ssthresh;
            }
            Event::Loss => {
                conn.ssthresh = self.window(conn);
                self.reset_rtt_min = true;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::conn;
    use super::*;

    fn start(hz: u32) -> (Westwood, Conn) {
        let mut w = Westwood::new();
        let mut c = conn(100, 50);
        c.hz = hz;
        w.init(&mut c);
        (w, c)
    }

    #[test]
    fn bandwidth_vectors_do_not_depend_on_hz() {
        for (hz, bw) in [(1_000, 12_500), (250, 50_000)] {
            let (mut w, mut c) = start(hz);
            c.snd_una = 1;
            w.on_delivered(&mut c, 1, Some(40_000));
            assert_eq!(w.rtt, hz * 40 / 1_000);
            w.on_delivered(&mut c, 0, None);
            assert_eq!(w.rtt_min, hz / 25, "an ACK sees the RTT of the one before it");
            w.bytes = 1_250_000;
            c.jiffies = u64::from(hz) / 10;
            w.update_bandwidth(&c);
            assert_eq!((w.bw_fast, w.bw, w.window(&c)), (bw, bw, 345));
            assert_eq!((w.bytes, w.sample_start), (0, c.jiffies));
        }
    }

    #[test]
    fn two_filters_in_series() {
        let (mut w, mut c) = start(1_000);
        (w.bw_fast, w.bw, w.rtt, w.bytes) = (12_500, 12_500, 40, 600_000);
        c.jiffies = 100;
        w.update_bandwidth(&c);
        assert_eq!((w.bw_fast, w.bw), (11_687, 12_398));
    }

    #[test]
    fn a_sample_lasts_longer_than_an_rtt_and_50_ms() {
        for (rtt, ticks, closes) in [(30, 50, false), (30, 51, true), (80, 80, false), (80, 81, true)] {
            let (mut w, mut c) = start(1_000);
            (w.rtt, w.bytes) = (rtt, 100_000);
            c.jiffies = ticks;
            w.update_bandwidth(&c);
            assert_eq!(w.bytes == 0, closes, "{rtt} {ticks}");
        }
    }

    #[test]
    fn duplicates_are_counted_once() {
        let (mut w, _) = start(1_000);
        let mss = 1_448;
        assert_eq!([0, 0, 0].map(|a| w.count(a, mss)), [mss; 3]);
        assert_eq!((w.count(mss, mss), w.accounted), (mss, 3 * mss), "a single segment is never deducted");
        assert_eq!((w.count(2 * mss, mss), w.accounted), (mss, mss));
        assert_eq!((w.count(4 * mss, mss), w.accounted), (3 * mss, 0));
    }

    #[test]
    fn plain_progress_ignores_what_duplicates_were_credited() {
        let (mut w, mut c) = start(1_000);
        w.accounted = 3 * c.mss;
        (c.snd_una, c.plain_ack) = (4, true);
        w.on_delivered(&mut c, 4, None);
        assert_eq!((w.bytes, w.accounted), (4 * c.mss, 3 * c.mss));
        (c.snd_una, c.plain_ack) = (8, false);
        w.on_delivered(&mut c, 4, None);
        assert_eq!((w.bytes, w.accounted), (5 * c.mss, 0));
    }

    #[test]
    fn reductions_end_at_the_measured_window() {
        let (mut w, mut c) = start(1_000);
        (w.bw, w.rtt_min) = (12_500, 40);
        assert_eq!(w.ssthresh(&mut c), 50);
        w.on_event(&mut c, Event::CompleteCwr);
        assert_eq!((c.cwnd, c.ssthresh), (345, 345));
        c.cwnd = 1;
        w.on_event(&mut c, Event::Loss);
        assert_eq!((c.cwnd, c.ssthresh), (1, 345));
        w.rtt = 90;
        w.on_delivered(&mut c, 0, None);
        assert_eq!(w.rtt_min, 90, "the smallest RTT starts anew after a timeout");
    }
}
