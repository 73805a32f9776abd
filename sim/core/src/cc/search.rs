//! SEARCH in the draft's ninth version (draft-chung-ccwg-search-09, March 2026): slow start ends when the bytes
//! delivered over a window of 3.5 first RTTs fall short by 26 % of those *sent* over the window an RTT before; then the
//! window drains to what one first RTT delivered, instead of jumping there.
//!
//! Two things follow implementations, not the text: between bins it interpolates backwards (forwards in the draft is a
//! mistake, as its implementers found with its authors), and after a silence of more than a window it measures anew
//! (optional in the draft). Bytes sent again are not counted: what is lost ends slow start anyway.

use super::Conn;

/// The window is 3.5 first RTTs long, in ten bins.
const WINDOW_PERCENT: u64 = 350;
const WINDOW_BINS: u64 = 10;
/// Bins that remember what was sent, beyond the window: an RTT can grow to 14 bins before measuring stops.
const EXTRA_BINS: u64 = 15;
const ACKED_BINS: usize = WINDOW_BINS as usize + 1;
const SENT_BINS: usize = ACKED_BINS + EXTRA_BINS as usize;
/// Shortfall against what was sent at which slow start ends, percent.
const THRESHOLD: u64 = 26;
/// While it drains, the window allows a segment for so many acknowledged, and does not go below the initial ten.
const DRAIN_ACKED: u32 = 3;
const DRAIN_MIN: u32 = 10;

/// The bins into which time is cut, ten to a window.
#[derive(Clone, Debug, Default)]
struct Bins {
    /// First RTT and length of a bin, microseconds; 0 = not measuring yet.
    rtt0_us: u64,
    bin_us: u64,
    end_us: u64,
    /// Of the latest bin that has ended.
    index: u64,
}

impl Bins {
    fn start(&mut self, now_us: u64, rtt_us: u64) {
        let bin_us = (rtt_us * WINDOW_PERCENT / (100 * WINDOW_BINS)).max(1);
        *self = Bins { rtt0_us: rtt_us, bin_us, end_us: now_us + bin_us, index: 0 };
    }

    /// How many have ended since [`Bins::index`].
    fn ended(&self, now_us: u64) -> u64 {
        if now_us < self.end_us { 0 } else { (now_us - self.end_us) / self.bin_us + 1 }
    }

    fn advance(&mut self, ended: u64) {
        self.end_us += ended * self.bin_us;
        self.index += ended;
    }

    /// An RTT in whole bins, and what is left in percent of one.
    fn split(&self, rtt_us: u64) -> (u64, u64) {
        (rtt_us / self.bin_us, rtt_us % self.bin_us * 100 / self.bin_us)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Search {
    bins: Bins,
    /// Bytes acknowledged and sent since the connection began at the end of the latest bin and of those before it.
    acked: [u64; ACKED_BINS],
    sent: [u64; SENT_BINS],
    drain: Option<Drain>,
}

/// The capacity is found, the queue is not yet gone.
#[derive(Clone, Debug)]
struct Drain {
    /// Where the window ends, segments.
    target: u32,
    /// Segments delivered so far, and those of them that have not yet let one go.
    delivered: u32,
    acked: u32,
}

impl Search {
    pub fn restart(&mut self) {
        (self.bins.bin_us, self.drain) = (0, None);
    }

    /// The window shrinks, so acknowledgements do not grow it.
    pub fn drains(&self) -> bool {
        self.drain.is_some()
    }

    pub fn on_ack(&mut self, conn: &mut Conn, rtt_us: u32) {
        if self.drain.is_some() {
            self.drain(conn);
            return;
        }
        let rtt_us = u64::from(rtt_us);
        let ended = if self.bins.bin_us == 0 { u64::MAX } else { self.bins.ended(conn.now.micros()) };
        if ended == 0 {
            return;
        }
        if ended > WINDOW_BINS {
            self.bins.start(conn.now.micros(), rtt_us);
            self.record(0, bytes(conn, conn.snd_una), bytes(conn, conn.snd_nxt));
            return;
        }
        let (acked, sent) = (self.acked_at(self.bins.index), self.sent_at(self.bins.index));
        for missed in 1..ended {
            self.record(self.bins.index + missed, acked, sent);
        }
        self.bins.advance(ended);
        self.record(self.bins.index, bytes(conn, conn.snd_una), bytes(conn, conn.snd_nxt));
        if self.shortfall(rtt_us).is_some_and(|percent| percent >= THRESHOLD) {
            let rtt_bins = self.bins.rtt0_us.div_ceil(self.bins.bin_us).min(WINDOW_BINS);
            let target = self.delivered(rtt_bins) / u64::from(conn.mss);
            self.drain = Some(Drain { target: (target as u32).max(DRAIN_MIN), delivered: conn.delivered, acked: 0 });
        }
    }

    fn acked_at(&self, index: u64) -> u64 {
        self.acked[index as usize % ACKED_BINS]
    }

    fn sent_at(&self, index: u64) -> u64 {
        self.sent[index as usize % SENT_BINS]
    }

    fn record(&mut self, index: u64, acked: u64, sent: u64) {
        self.acked[index as usize % ACKED_BINS] = acked;
        self.sent[index as usize % SENT_BINS] = sent;
    }

    /// Bytes acknowledged in the latest `bins`.
    fn delivered(&self, bins: u64) -> u64 {
        self.acked_at(self.bins.index) - self.acked_at(self.bins.index - bins)
    }

    /// By how much of what was sent in a window an RTT ago the latest one's deliveries fall short, percent; None while
    /// the record is too short.
    fn shortfall(&self, rtt_us: u64) -> Option<u64> {
        let (shift, percent) = self.bins.split(rtt_us);
        let last = self.bins.index.checked_sub(shift)?;
        if last <= WINDOW_BINS || shift >= EXTRA_BINS {
            return None;
        }
        let window = |last: u64| self.sent_at(last) - self.sent_at(last - WINDOW_BINS);
        let sent = (window(last - 1) * percent + window(last) * (100 - percent)) / 100;
        (sent.saturating_sub(self.delivered(WINDOW_BINS)) * 100).checked_div(sent)
    }

    /// Follow what is in flight down to the target, letting a third of what is acknowledged go.
    fn drain(&mut self, conn: &mut Conn) {
        let Some(drain) = &mut self.drain else { return };
        drain.acked += conn.delivered - drain.delivered;
        drain.delivered = conn.delivered;
        conn.cwnd = (conn.in_flight + drain.acked / DRAIN_ACKED).max(drain.target);
        drain.acked %= DRAIN_ACKED;
        if conn.cwnd == drain.target {
            conn.ssthresh = conn.cwnd;
            self.restart();
        }
    }
}

fn bytes(conn: &Conn, segments: u32) -> u64 {
    u64::from(segments) * u64::from(conn.mss)
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
    /// When slow start has reached the capacity.
    const FULL_S: f64 = 6.042_912_22;

    fn doubling(t: f64) -> f64 {
        FIRST * (libm::exp2(t / RTT_S) - 1.0)
    }

    /// Bytes delivered by `t`: doubling per RTT from ten segments, then at capacity.
    fn delivered(t: f64) -> f64 {
        if t < FULL_S { doubling(t) } else { doubling(FULL_S) + CAPACITY * (t - FULL_S) }
    }

    /// Feed the ACK at the end of bin `bin` of a path of 600 ms on which the sender goes on doubling.
    fn ack(s: &mut Search, c: &mut Conn, bin: u32) {
        let t = 0.21 * f64::from(bin);
        c.now = Nanos::from_micros(210_000 * u64::from(bin));
        (c.snd_una, c.snd_nxt) = (delivered(t) as u32, doubling(t + RTT_S) as u32);
        c.delivered = c.snd_una;
        s.on_ack(c, 600_000);
    }

    fn started() -> (Search, Conn) {
        let mut c = conn(60_000_000, SSTHRESH_INFINITE);
        c.mss = 1;
        (Search::default(), c)
    }

    #[test]
    fn deliveries_fall_short_of_what_was_sent_a_round_trip_ago() {
        let (mut s, mut c) = started();
        // 0.72, 4.52, 11.74, 20.73 and 30.39 % by the closed form, interpolated between bins.
        let expected = [(29, Some(0)), (30, Some(4)), (31, Some(11)), (32, Some(20)), (33, Some(30))];
        for bin in 0..=33 {
            assert!(!s.drains(), "bin {bin}");
            ack(&mut s, &mut c, bin);
            let shortfall = s.shortfall(600_000);
            assert_eq!(shortfall.is_none(), bin < 13, "bin {bin}: a window and an RTT of record");
            if let Some((_, percent)) = expected.iter().find(|(at, _)| *at == bin) {
                assert_eq!(shortfall, *percent, "bin {bin}");
            }
        }
        assert!(s.drains() && c.ssthresh == SSTHRESH_INFINITE, "found, not yet left");
        let target = f64::from(s.drain.as_ref().unwrap().target);
        assert!((target - 0.63 * CAPACITY).abs() <= 1.0, "three bins hold the first RTT: {target}");
    }

    #[test]
    fn the_window_follows_the_flight_down_to_the_target() {
        let (mut s, mut c) = started();
        s.bins.start(0, 600_000);
        s.drain = Some(Drain { target: 100, delivered: 0, acked: 0 });
        // Acknowledged so far, in flight: a third of what is acknowledged may go, remainders wait.
        for (delivered, in_flight, cwnd) in [(2, 298, 298), (4, 296, 297), (10, 291, 293), (100, 203, 233)] {
            (c.delivered, c.in_flight) = (delivered, in_flight);
            s.on_ack(&mut c, 600_000);
            assert_eq!((c.cwnd, c.ssthresh, s.drains()), (cwnd, SSTHRESH_INFINITE, true), "{delivered}");
        }
        (c.delivered, c.in_flight) = (101, 99);
        s.on_ack(&mut c, 600_000);
        assert_eq!((c.cwnd, c.ssthresh, s.drains()), (100, 100, false));
    }

    #[test]
    fn the_target_is_not_below_ten_segments() {
        let (mut s, mut c) = started();
        c.mss = 1_448;
        for bin in 0..40 {
            c.now = Nanos::from_micros(210_000 * bin);
            // Ten segments sent per bin, one delivered.
            (c.snd_una, c.snd_nxt) = (bin as u32, 10 * bin as u32);
            s.on_ack(&mut c, 600_000);
            if let Some(drain) = &s.drain {
                assert_eq!((bin, drain.target), (13, 10));
                return;
            }
        }
        panic!("never left");
    }

    #[test]
    fn missed_bins_repeat_the_last_and_a_window_of_silence_starts_anew() {
        let mut s = Search::default();
        let mut c = conn(100, SSTHRESH_INFINITE);
        let seen = [(0, 5, 0, 5), (34, 6, 0, 5), (36, 7, 1, 7), (141, 9, 4, 9), (489, 11, 13, 11), (840, 12, 0, 12)];
        for (ms, una, index, acked) in seen {
            c.now = Nanos::from_millis(ms);
            (c.snd_una, c.snd_nxt) = (una, una + 3);
            s.on_ack(&mut c, 100_000);
            assert_eq!(s.bins.index, index, "{ms} ms");
            assert_eq!((s.acked_at(index), s.sent_at(index)), (bytes(&c, acked), bytes(&c, acked + 3)), "{ms} ms");
        }
        s.restart();
        c.now = Nanos::from_millis(841);
        s.on_ack(&mut c, 200_000);
        assert_eq!((s.bins.bin_us, s.bins.index), (70_000, 0));
    }
}
