//! SEARCH (draft-chung-ccwg-search, third version, and its patch for Linux): slow start ends when the bytes
//! delivered over a window of 3.5 RTTs are no longer twice those of the window an RTT before. [`super::search_sent`]
//! follows the ninth version.

use super::Conn;

/// The window is 3.5 first RTTs long, in ten bins; 15 more remember the past.
const WINDOW_PERCENT: u64 = 350;
pub(super) const WINDOW_BINS: u64 = 10;
const EXTRA_BINS: u64 = 15;
const TOTAL_BINS: usize = (WINDOW_BINS + EXTRA_BINS) as usize;
/// Shortfall against doubling at which slow start ends, percent.
const THRESHOLD: u64 = 35;
/// More bins passed at once than this, and measuring starts anew.
const MISSED_BINS: u64 = 2;
/// Rolled back are the bytes of the last two first RTTs, not below the initial window of ten.
const ROLLBACK_RTTS: u64 = 2;
const ROLLBACK_MIN: u32 = 10;

/// The bins into which time is cut, ten to a window.
#[derive(Clone, Debug, Default)]
pub(super) struct Bins {
    /// First RTT and length of a bin, microseconds; 0 = not measuring yet.
    pub(super) rtt0_us: u64,
    pub(super) bin_us: u64,
    end_us: u64,
    /// Of the latest bin that has ended.
    pub(super) index: u64,
}

impl Bins {
    pub(super) fn start(&mut self, now_us: u64, rtt_us: u64) {
        let bin_us = (rtt_us * WINDOW_PERCENT / (100 * WINDOW_BINS)).max(1);
        *self = Bins { rtt0_us: rtt_us, bin_us, end_us: now_us + bin_us, index: 0 };
    }

    /// How many have ended since [`Bins::index`].
    pub(super) fn ended(&self, now_us: u64) -> u64 {
        if now_us < self.end_us { 0 } else { (now_us - self.end_us) / self.bin_us + 1 }
    }

    pub(super) fn advance(&mut self, ended: u64) {
        self.end_us += ended * self.bin_us;
        self.index += ended;
    }

    /// An RTT in whole bins, and what is left in percent of one.
    pub(super) fn split(&self, rtt_us: u64) -> (u64, u64) {
        (rtt_us / self.bin_us, rtt_us % self.bin_us * 100 / self.bin_us)
    }
}

#[derive(Clone, Debug)]
pub struct Search {
    /// Take back what was sent beyond the capacity (as in the draft, not in the patch).
    rollback: bool,
    bins: Bins,
    /// Segments acknowledged when measuring began.
    base: u32,
    /// Bytes acknowledged since then at the end of the latest bin and of those before it.
    acked: [u64; TOTAL_BINS],
}

impl Search {
    pub fn new(rollback: bool) -> Search {
        Search { rollback, bins: Bins::default(), base: 0, acked: [0; TOTAL_BINS] }
    }

    pub fn restart(&mut self) {
        self.bins.bin_us = 0;
    }

    pub fn on_ack(&mut self, conn: &mut Conn, rtt_us: u32) {
        let rtt_us = u64::from(rtt_us);
        let ended = if self.bins.bin_us == 0 { u64::MAX } else { self.bins.ended(conn.now.micros()) };
        if ended == 0 {
            return;
        }
        if ended > MISSED_BINS {
            self.start(conn, rtt_us);
            return;
        }
        let before = self.acked_at(self.bins.index);
        for missed in 1..ended {
            self.set_acked(self.bins.index + missed, before);
        }
        self.bins.advance(ended);
        self.set_acked(self.bins.index, u64::from(conn.snd_una - self.base) * u64::from(conn.mss));
        if self.shortfall(rtt_us).is_some_and(|percent| percent >= THRESHOLD) {
            self.leave(conn);
        }
    }

    fn start(&mut self, conn: &Conn, rtt_us: u64) {
        self.bins.start(conn.now.micros(), rtt_us);
        self.base = conn.snd_una;
        self.set_acked(0, 0);
    }

    fn acked_at(&self, index: u64) -> u64 {
        self.acked[index as usize % TOTAL_BINS]
    }

    fn set_acked(&mut self, index: u64, bytes: u64) {
        self.acked[index as usize % TOTAL_BINS] = bytes;
    }

    /// Bytes of the window that ends `percent` of a bin before the end of bin `last`.
    fn window_before(&self, last: u64, percent: u64) -> u64 {
        let bin = |i: u64| self.acked_at(i) - if i == 0 { 0 } else { self.acked_at(i - 1) };
        let first = last - WINDOW_BINS;
        let whole = self.acked_at(last - 1) - self.acked_at(first);
        whole + bin(first) * percent / 100 + bin(last) * (100 - percent) / 100
    }

    /// By how much of it the latest window falls short of twice the one an RTT before, percent; None while the record
    /// is too short, or while it does not fall short.
    fn shortfall(&self, rtt_us: u64) -> Option<u64> {
        let (shift, percent) = self.bins.split(rtt_us);
        let last = self.bins.index.checked_sub(shift)?;
        if last < WINDOW_BINS || shift >= EXTRA_BINS - 1 {
            return None;
        }
        let current = self.acked_at(self.bins.index) - self.acked_at(self.bins.index - WINDOW_BINS);
        let doubled = 2 * self.window_before(last, percent);
        if doubled == 0 { None } else { doubled.checked_sub(current).map(|short| short * 100 / doubled) }
    }

    fn leave(&self, conn: &mut Conn) {
        if self.rollback {
            let Bins { rtt0_us, bin_us, index, .. } = self.bins;
            let back = (ROLLBACK_RTTS * rtt0_us / bin_us).min(index);
            let bytes = self.acked_at(index) - self.acked_at(index - back);
            let segments = (bytes / u64::from(conn.mss)) as u32;
            conn.cwnd = conn.cwnd.saturating_sub(segments).max(ROLLBACK_MIN.min(conn.cwnd));
        }
        conn.ssthresh = conn.cwnd;
    }
}

#[cfg(test)]
mod tests {
    use super::super::SSTHRESH_INFINITE;
    use super::super::testing::conn;
    use super::*;
    use crate::time::Nanos;

    const RTT_S: f64 = 0.6;
    const FIRST: f64 = 14_480.0;
    const CAPACITY: f64 = 18e6;

    /// Bytes delivered by `t`: doubling per RTT from ten segments, then at capacity. And when that is reached.
    fn delivered(t: f64) -> (f64, f64) {
        let doubling = |t: f64| FIRST * (libm::exp2(t / RTT_S) - 1.0);
        let full = RTT_S * libm::log2(CAPACITY * RTT_S / (FIRST * core::f64::consts::LN_2));
        (if t < full { doubling(t) } else { doubling(full) + CAPACITY * (t - full) }, full)
    }

    /// Feed an ACK per bin of a path of 600 ms; returns the connection when slow start has ended.
    fn run(s: &mut Search) -> Conn {
        let mut c = conn(20_000, SSTHRESH_INFINITE);
        c.mss = 1;
        for bin in 0..100 {
            c.now = Nanos::from_micros(210_000 * bin);
            c.snd_una = delivered(0.21 * bin as f64).0 as u32;
            s.on_ack(&mut c, 600_000);
            if c.ssthresh < SSTHRESH_INFINITE {
                break;
            }
        }
        c
    }

    #[test]
    fn slow_start_ends_when_doubling_does() {
        let mut s = Search::new(false);
        let c = run(&mut s);
        assert!((delivered(0.0).1 - 6.043).abs() < 1e-3);
        assert_eq!((s.bins.bin_us, s.bins.split(600_000)), (210_000, (2, 85)));
        assert_eq!((s.bins.index, c.now.millis(), s.shortfall(600_000)), (36, 7_560, Some(37)));
        assert_eq!((c.cwnd, c.ssthresh), (20_000, 20_000));
    }

    #[test]
    fn a_rollback_takes_back_two_round_trips() {
        let mut s = Search::new(true);
        let mut c = run(&mut s);
        assert_eq!((c.cwnd, c.ssthresh), (10, 10), "not below the initial window");
        let bytes = s.acked_at(36) - s.acked_at(31);
        (c.mss, c.cwnd) = (1_448, 20_000);
        s.leave(&mut c);
        assert_eq!(c.cwnd, 20_000 - (bytes / 1_448) as u32);
    }

    #[test]
    fn a_long_silence_starts_measuring_anew() {
        let mut s = Search::new(false);
        let mut c = conn(100, SSTHRESH_INFINITE);
        for (ms, index, end_ms) in [(0, 0, 35), (34, 0, 35), (36, 1, 70), (106, 3, 140), (210, 0, 245)] {
            c.now = Nanos::from_millis(ms);
            s.on_ack(&mut c, 100_000);
            assert_eq!((s.bins.index, s.bins.end_us), (index, end_ms * 1_000), "{ms} ms");
        }
        s.restart();
        c.now = Nanos::from_millis(211);
        s.on_ack(&mut c, 200_000);
        assert_eq!((s.bins.bin_us, s.bins.index), (70_000, 0));
    }
}
