//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation; Linux's tcp_rate.c).

use crate::cc::RateSample;
use crate::time::Nanos;

use super::Sender;
use super::scoreboard::APP_LIMITED;

/// What the samples are taken with; the segments delivered are counted by the connection.
#[derive(Clone, Debug, Default)]
pub(super) struct RateSampler {
    /// The latest delivery.
    pub delivered_at: Nanos,
    /// Send time of the segment delivered last: the flight that is sampled next began with it.
    pub first_sent: Nanos,
    /// Sample of the latest ACK, bytes per second.
    pub latest: Option<f64>,
}

impl RateSampler {
    /// The next flight begins at `now`, and nothing before it counts.
    #[inline]
    pub fn restart(&mut self, now: Nanos) {
        self.delivered_at = now;
        self.first_sent = now;
    }
}

impl Sender {
    /// A sample is taken, also for those who only read its rate: `delivered` segments are; `newest`: last transmission and number of the newest of them.
    #[inline(always)]
    pub(super) fn rate_sample(&mut self, delivered: u32, newest: Option<(Nanos, u32)>) -> RateSample {
        if self.conn.app_limited != 0 && self.conn.delivered > self.conn.app_limited {
            self.conn.app_limited = 0;
        }
        let now = self.conn.now;
        if delivered > 0 {
            self.rate.delivered_at = now;
        }
        let Some((sent, seq)) = newest else {
            return RateSample::default();
        };
        let prior = self.board.get(seq);
        let send_span = sent.saturating_sub(prior.first_sent);
        // What an optimistic receiver acknowledges may not have left yet (Linux: `tcp_stamp_us_delta`).
        let interval_us = send_span.max(now.saturating_sub(prior.delivered_at)).micros();
        let mut sample = RateSample {
            delivered: self.conn.delivered - prior.delivered,
            interval_us,
            prior_delivered: prior.delivered,
            app_limited: prior.has(APP_LIMITED),
            ..RateSample::default()
        };
        if self.watches_losses {
            let flight = self.board.flight(seq);
            sample.flight_then = flight.in_flight;
            sample.lost_since = self.conn.lost - flight.lost;
        }
        // Faster than the path can be: the ACKs of a burst sent after an idle or lossy phase.
        if interval_us < u64::from(self.min_rtt.get()) {
            sample.interval_us = 0;
        } else {
            let rate = f64::from(sample.delivered) * f64::from(self.tcp.mss) * 1e6 / interval_us as f64;
            self.rate.latest = Some(rate);
        }
        sample
    }
}
