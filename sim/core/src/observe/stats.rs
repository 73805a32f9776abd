//! Interval statistics of a flow: one documented struct that serves observations, rewards and users' own pieces.

use crate::tcp::sender::{Sender, SenderCounters};
use crate::time::Nanos;

/// Statistics of one flow over one decision interval. All fields are f64, in the units of their names; the last
/// group is known to the simulator only. `TCP_INFO` of a stock kernel can supply all but the mean, minimum and rise of
/// the RTT samples, the mean of the delivery-rate samples (it has the latest of each) and the oracle group.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct IntervalStats {
    pub time_s: f64,
    pub interval_s: f64,
    /// 1 while the flow exists.
    pub active: f64,
    /// In-order payload at the receiver.
    pub goodput_bps: f64,
    /// Mean of the per-ACK delivery-rate samples (0 without one).
    pub delivery_rate_bps: f64,
    /// Largest such mean since the flow started.
    pub max_delivery_rate_bps: f64,
    /// Payload sent, retransmissions included.
    pub send_rate_bps: f64,
    /// Payload acknowledged.
    pub acked_rate_bps: f64,
    /// NaN without a sample.
    pub rtt_mean_s: f64,
    /// Smallest sample of the interval; NaN without one.
    pub rtt_min_s: f64,
    /// How much the RTT rises from the first half of the interval's samples to the second, by least squares.
    pub rtt_rise_s: f64,
    pub srtt_s: f64,
    /// Since the flow started.
    pub min_rtt_s: f64,
    pub rtt_samples: f64,
    /// The longest time without an acknowledgement that ended, or lasts, in the interval.
    pub ack_gap_s: f64,
    pub acked_packets: f64,
    pub lost_packets: f64,
    pub lost_bytes: f64,
    pub retransmitted_packets: f64,
    pub rtos: f64,
    pub cwnd_packets: f64,
    pub ssthresh_packets: f64,
    /// 0 when packets are not paced.
    pub pacing_rate_bps: f64,
    pub packets_out: f64,
    pub retrans_out: f64,
    pub in_flight_packets: f64,
    /// 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub ca_state: f64,
    pub app_limited: f64,
    pub rwnd_packets: f64,
    pub base_rtt_s: f64,
    /// Of the tightest link of the flow's path.
    pub capacity_bps: f64,
    pub queue_bytes: f64,
    pub buffer_bytes: f64,
    /// Expected share of packets lost at random along the path.
    pub link_loss: f64,
    pub flows_active: f64,
    /// Capacity over the number of active flows that cross the tightest link.
    pub fair_share_bps: f64,
    /// Until the next change of the flow's path, and since the last one; infinite if there is none.
    pub handover_in_s: f64,
    pub handover_since_s: f64,
    /// The same as predictions tell it half a second ahead, with SaTCP's error: what a controller could know.
    pub reported_handover_in_s: f64,
    pub reported_handover_since_s: f64,
}

/// Names of the fields of [`IntervalStats`], in order.
pub const STATS_FIELDS: [&str; 40] = [
    "time_s",
    "interval_s",
    "active",
    "goodput_bps",
    "delivery_rate_bps",
    "max_delivery_rate_bps",
    "send_rate_bps",
    "acked_rate_bps",
    "rtt_mean_s",
    "rtt_min_s",
    "rtt_rise_s",
    "srtt_s",
    "min_rtt_s",
    "rtt_samples",
    "ack_gap_s",
    "acked_packets",
    "lost_packets",
    "lost_bytes",
    "retransmitted_packets",
    "rtos",
    "cwnd_packets",
    "ssthresh_packets",
    "pacing_rate_bps",
    "packets_out",
    "retrans_out",
    "in_flight_packets",
    "ca_state",
    "app_limited",
    "rwnd_packets",
    "base_rtt_s",
    "capacity_bps",
    "queue_bytes",
    "buffer_bytes",
    "link_loss",
    "flows_active",
    "fair_share_bps",
    "handover_in_s",
    "handover_since_s",
    "reported_handover_in_s",
    "reported_handover_since_s",
];

impl IntervalStats {
    /// The mean RTT of the interval, or the smoothed RTT when there was no sample; 0 before any.
    pub fn latest_rtt_s(&self) -> f64 {
        if self.rtt_mean_s.is_nan() { self.srtt_s } else { self.rtt_mean_s }
    }

    pub fn to_array(&self) -> [f64; 40] {
        [
            self.time_s,
            self.interval_s,
            self.active,
            self.goodput_bps,
            self.delivery_rate_bps,
            self.max_delivery_rate_bps,
            self.send_rate_bps,
            self.acked_rate_bps,
            self.rtt_mean_s,
            self.rtt_min_s,
            self.rtt_rise_s,
            self.srtt_s,
            self.min_rtt_s,
            self.rtt_samples,
            self.ack_gap_s,
            self.acked_packets,
            self.lost_packets,
            self.lost_bytes,
            self.retransmitted_packets,
            self.rtos,
            self.cwnd_packets,
            self.ssthresh_packets,
            self.pacing_rate_bps,
            self.packets_out,
            self.retrans_out,
            self.in_flight_packets,
            self.ca_state,
            self.app_limited,
            self.rwnd_packets,
            self.base_rtt_s,
            self.capacity_bps,
            self.queue_bytes,
            self.buffer_bytes,
            self.link_loss,
            self.flows_active,
            self.fair_share_bps,
            self.handover_in_s,
            self.handover_since_s,
            self.reported_handover_in_s,
            self.reported_handover_since_s,
        ]
    }
}

/// What the acknowledgements of some stretch of time said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acks {
    pub rtt_sum_us: u64,
    /// Sum of the samples times their place, counted from 0.
    pub rtt_placed_us: u64,
    pub rtt_least_us: u32,
    pub rtt_samples: u32,
    /// Of the delivery-rate samples, bytes per second.
    pub rate_sum: f64,
    pub rate_samples: u32,
    /// The longest time that an acknowledgement ended in which there was none.
    pub longest_gap: Nanos,
    /// When the last one came, also before this stretch; zero: none ever.
    pub last: Nanos,
}

impl Default for Acks {
    fn default() -> Acks {
        Acks {
            rtt_sum_us: 0,
            rtt_placed_us: 0,
            rtt_least_us: u32::MAX,
            rtt_samples: 0,
            rate_sum: 0.0,
            rate_samples: 0,
            longest_gap: Nanos::ZERO,
            last: Nanos::ZERO,
        }
    }
}

impl Acks {
    #[inline]
    fn add(&mut self, now: Nanos, rtt_us: Option<u32>, rate: Option<f64>) {
        self.longest_gap = self.longest_gap.max(now.saturating_sub(self.last));
        self.last = now;
        if let Some(us) = rtt_us {
            self.rtt_sum_us += u64::from(us);
            self.rtt_placed_us += u64::from(self.rtt_samples) * u64::from(us);
            self.rtt_least_us = self.rtt_least_us.min(us);
            self.rtt_samples += 1;
        }
        if let Some(rate) = rate {
            self.rate_sum += rate;
            self.rate_samples += 1;
        }
    }

    /// And those of the stretch that follows.
    fn append(&mut self, later: &Acks) {
        self.rtt_placed_us += later.rtt_placed_us + u64::from(self.rtt_samples) * later.rtt_sum_us;
        self.rtt_sum_us += later.rtt_sum_us;
        self.rtt_least_us = self.rtt_least_us.min(later.rtt_least_us);
        self.rtt_samples += later.rtt_samples;
        self.rate_sum += later.rate_sum;
        self.rate_samples += later.rate_samples;
        self.longest_gap = self.longest_gap.max(later.longest_gap);
        self.last = self.last.max(later.last);
    }
}

/// Accumulates one flow's interval.
#[derive(Clone, Debug)]
pub struct Meter {
    since: Nanos,
    counters: SenderCounters,
    received_bytes: u64,
    acks: Acks,
    min_rtt_us: u32,
    max_rate: f64,
}

impl Meter {
    pub fn new(now: Nanos) -> Meter {
        Meter {
            since: now,
            counters: SenderCounters::default(),
            received_bytes: 0,
            acks: Acks { last: now, ..Acks::default() },
            min_rtt_us: u32::MAX,
            max_rate: 0.0,
        }
    }

    #[inline]
    pub fn on_ack(&mut self, now: Nanos, rtt_us: Option<u32>, rate: Option<f64>) {
        self.acks.add(now, rtt_us, rate);
    }

    /// The acknowledgements that a real host has counted itself until `now`, which followed those known.
    pub fn push(&mut self, now: Nanos, acks: &Acks) {
        self.acks.append(&Acks { last: acks.last.min(now), ..*acks });
    }

    pub fn since(&self) -> Nanos {
        self.since
    }

    /// Half the number of samples times the slope of the line through them.
    fn rtt_rise_us(&self) -> f64 {
        let n = f64::from(self.acks.rtt_samples);
        if self.acks.rtt_samples < 2 {
            return 0.0;
        }
        let covariance = self.acks.rtt_placed_us as f64 - (n - 1.0) / 2.0 * self.acks.rtt_sum_us as f64;
        6.0 * covariance / (n * n - 1.0)
    }

    /// Close the interval at `now`; the oracle fields are left to the caller.
    pub fn take(&mut self, now: Nanos, sender: &Sender, received_bytes: u64) -> IntervalStats {
        let span = now.saturating_sub(self.since).secs_f64();
        let per_s = if span > 0.0 { 1.0 / span } else { 0.0 };
        let (c, p) = (&sender.counters, &self.counters);
        let mss = f64::from(sender.conn.mss);
        let acks = &self.acks;
        let rate = if acks.rate_samples > 0 { acks.rate_sum / f64::from(acks.rate_samples) } else { 0.0 };
        self.max_rate = self.max_rate.max(rate);
        self.min_rtt_us = self.min_rtt_us.min(acks.rtt_least_us);
        // Before the first sample of its own the flow knows the handshake's.
        let min_rtt = if self.min_rtt_us == u32::MAX { sender.min_rtt_us() } else { self.min_rtt_us };
        let lost = (c.lost - p.lost) as f64;
        let stats = IntervalStats {
            time_s: now.secs_f64(),
            interval_s: span,
            active: 1.0,
            goodput_bps: (received_bytes - self.received_bytes) as f64 * 8.0 * per_s,
            delivery_rate_bps: rate * 8.0,
            max_delivery_rate_bps: self.max_rate * 8.0,
            send_rate_bps: (c.sent - p.sent) as f64 * mss * 8.0 * per_s,
            acked_rate_bps: (c.acked_bytes - p.acked_bytes) as f64 * 8.0 * per_s,
            rtt_mean_s: if acks.rtt_samples > 0 {
                acks.rtt_sum_us as f64 * 1e-6 / f64::from(acks.rtt_samples)
            } else {
                f64::NAN
            },
            rtt_min_s: if acks.rtt_samples > 0 { f64::from(acks.rtt_least_us) * 1e-6 } else { f64::NAN },
            rtt_rise_s: self.rtt_rise_us() * 1e-6,
            srtt_s: f64::from(sender.conn.srtt8_us) / 8e6,
            min_rtt_s: f64::from(min_rtt) * 1e-6,
            rtt_samples: f64::from(acks.rtt_samples),
            ack_gap_s: acks.longest_gap.max(now.saturating_sub(acks.last)).secs_f64(),
            acked_packets: (c.acked_bytes - p.acked_bytes) as f64 / mss,
            lost_packets: lost,
            lost_bytes: lost * mss,
            retransmitted_packets: (c.retransmitted - p.retransmitted) as f64,
            rtos: (c.rtos - p.rtos) as f64,
            cwnd_packets: f64::from(sender.conn.cwnd),
            ssthresh_packets: f64::from(sender.conn.ssthresh),
            pacing_rate_bps: sender.pacing_rate() as f64 * 8.0,
            packets_out: f64::from(sender.packets_out()),
            retrans_out: f64::from(sender.retrans_out()),
            in_flight_packets: f64::from(sender.in_flight()),
            ca_state: sender.conn.state as u8 as f64,
            app_limited: f64::from(u8::from(sender.is_app_limited())),
            rwnd_packets: f64::from(sender.receive_window()),
            ..IntervalStats::default()
        };
        *self = Meter {
            since: now,
            counters: *c,
            received_bytes,
            acks: Acks { last: self.acks.last, ..Acks::default() },
            ..*self
        };
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rise(samples_us: &[u32]) -> f64 {
        let mut meter = Meter::new(Nanos::ZERO);
        samples_us.iter().for_each(|us| meter.on_ack(Nanos::ZERO, Some(*us), None));
        meter.rtt_rise_us()
    }

    #[test]
    fn the_rise_of_a_ramp_is_that_of_its_halves() {
        assert_eq!(rise(&[]), 0.0);
        assert_eq!(rise(&[50_000]), 0.0);
        assert_eq!(rise(&[50_000, 51_000]), 1_000.0);
        assert_eq!(rise(&[50_000; 100]), 0.0);
        let ramp: Vec<u32> = (0..100).map(|k| 50_000 + 10 * k).collect();
        assert!((rise(&ramp) - 500.0).abs() < 1e-6, "{}", rise(&ramp));
        let fall: Vec<u32> = ramp.into_iter().rev().collect();
        assert!((rise(&fall) + 500.0).abs() < 1e-6);
    }

    #[test]
    fn the_longest_pause_of_the_acknowledgements_is_known_while_it_lasts() {
        let spec = crate::spec::TcpSpec::default();
        let cubic = crate::spec::ControllerSpec { name: "cubic".into(), params: Default::default() };
        let controller = crate::cc::build(&cubic, &spec).unwrap();
        let sender = Sender::new(&spec, 0, controller, 65_535);
        let ms = Nanos::from_millis;
        let mut meter = Meter::new(Nanos::ZERO);
        for t in [5, 6, 29] {
            meter.on_ack(ms(t), None, None);
        }
        let mut gap = |t| (meter.take(ms(t), &sender, 0).ack_gap_s * 1e3).round();
        assert_eq!([gap(30), gap(60), gap(90)], [23.0, 31.0, 61.0]);
    }
}
