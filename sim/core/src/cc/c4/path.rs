//! What C4 learns of the path: delays, losses, marks, and the rate of short bursts.

use super::super::Conn;
use crate::time::Nanos;

/// Jitter beyond this is not believed (MAX_JITTER).
const JITTER_MAX_US: f64 = 250_000.0;
/// Floor of the max RTT (spec, "Nominal max RTT on low latency links").
const MAX_RTT_MIN_US: f64 = 1_000.0;
/// New values count 1/8 in falling averages of RTTs, 1/16 in those of losses and marks.
const RTT_GAIN: f64 = 1.0 / 8.0;
const SHARE_GAIN: f64 = 1.0 / 16.0;
/// A share of marks from which on it is believed at once.
const MARKS_MANY: f64 = 0.5;
/// A burst's rate is measured over more than this (PICOQUIC_MAX_BANDWIDTH_TIME_INTERVAL_MIN).
const PEAK_INTERVAL: Nanos = Nanos::from_millis(1);

/// RTTs, microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    /// Nominal max RTT and running min RTT.
    pub max_us: f64,
    pub min_us: f64,
    /// By how much the latest sample exceeds max RTT and threshold.
    pub excess_us: f64,
    era_max_us: f64,
    era_min_us: f64,
}

impl Default for Delays {
    fn default() -> Delays {
        Delays { max_us: 0.0, min_us: f64::INFINITY, excess_us: 0.0, era_max_us: 0.0, era_min_us: f64::INFINITY }
    }
}

impl Delays {
    pub fn set_max(&mut self, us: f64) {
        self.max_us = us.max(MAX_RTT_MIN_US);
    }

    pub fn begin_era(&mut self) {
        (self.era_max_us, self.era_min_us) = (0.0, f64::INFINITY);
    }

    pub fn note(&mut self, rtt_us: u32, threshold_us: f64) {
        let rtt = f64::from(rtt_us);
        self.era_max_us = self.era_max_us.max(rtt);
        self.era_min_us = self.era_min_us.min(rtt);
        self.min_us = self.min_us.min(rtt);
        self.excess_us = (rtt - self.max_us - threshold_us).max(0.0);
    }

    /// `unforced`: the era's packets were sent no faster than the nominal rate, so their RTTs are the path's.
    pub fn end_era(&mut self, unforced: bool) {
        if !unforced || self.era_max_us == 0.0 {
            return;
        }
        let fall = |from: f64, to: f64| from + RTT_GAIN * (to - from);
        self.min_us = self.era_min_us.min(fall(self.min_us, self.era_min_us));
        let longest = self.era_max_us.min(self.min_us + JITTER_MAX_US);
        self.set_max(longest.max(fall(self.max_us, longest)));
    }
}

/// The average share of packets lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drops {
    pub share: f64,
}

impl Drops {
    pub fn note_lost(&mut self) {
        self.share += SHARE_GAIN * (1.0 - self.share);
    }

    pub fn note_delivered(&mut self, packets: u32) {
        if self.share > 0.0 {
            self.share *= libm::pow(1.0 - SHARE_GAIN, f64::from(packets));
        }
    }

    pub fn forget(&mut self) {
        self.share = 0.0;
    }
}

/// The average share of packets marked, per report of a mark and per era.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marking {
    pub share: f64,
    pub seen_marked: u32,
    seen: u32,
}

impl Marking {
    pub fn update(&mut self, conn: &Conn) {
        let (packets, marked) = (conn.delivered - self.seen, conn.delivered_ce - self.seen_marked);
        if packets == 0 {
            return;
        }
        (self.seen, self.seen_marked) = (conn.delivered, conn.delivered_ce);
        let share = f64::from(marked) / f64::from(packets);
        let many = share >= MARKS_MANY && share > self.share;
        self.share = if many { share } else { self.share + SHARE_GAIN * (share - self.share) };
    }

    pub fn forget(&mut self) {
        self.share = 0.0;
    }
}

/// The largest rate of arrivals over a millisecond or little more, bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    pub rate: f64,
    since: Option<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    delivered: u32,
    acked: Nanos,
    sent: Nanos,
}

impl Peak {
    pub fn note(&mut self, conn: &Conn, rtt_us: u32) {
        let sent = conn.now.saturating_sub(Nanos::from_micros(rtt_us.into()));
        let sample = Sample { delivered: conn.delivered, acked: conn.now, sent };
        let Some(since) = self.since else {
            self.since = Some(sample);
            return;
        };
        let span = sample.acked - since.acked;
        if sent < since.sent || span <= PEAK_INTERVAL {
            return;
        }
        let span = span.max(sent - since.sent);
        let bytes = f64::from(sample.delivered - since.delivered) * f64::from(conn.mss);
        self.rate = self.rate.max(bytes * 1e9 / span.0 as f64);
        self.since = Some(sample);
    }
}
