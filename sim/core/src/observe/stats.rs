//! Interval statistics of a flow, for observations, rewards and functions of users.

use crate::tcp::acks::Acks;
use crate::tcp::sender::{Sender, SenderCounters};
use crate::time::Nanos;

/// The source of a statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// `TCP_INFO` of an unmodified kernel.
    Kernel,
    /// Every ACK: available to the simulator and an eBPF program; `TCP_INFO` has only the latest sample.
    PerAck,
    /// Only the simulator: properties of links and other flows.
    Oracle,
}

/// One column of the interval statistics.
#[derive(Clone, Copy, Debug)]
pub struct Statistic {
    pub name: &'static str,
    pub unit: &'static str,
    /// Smallest and largest possible value.
    pub low: f64,
    pub high: f64,
    pub source: Source,
    pub meaning: &'static str,
}

/// Declares the statistics: the struct, its descriptions, and its values as an array.
macro_rules! statistics {
    ($($name:ident: $unit:literal, $low:expr, $high:expr, $source:ident, $meaning:literal;)*) => {
        /// Statistics of one flow over one decision interval, in the units of their names ([`STATISTICS`]).
        #[derive(Clone, Copy, Debug, Default)]
        #[repr(C)]
        pub struct IntervalStats {
            $(#[doc = $meaning] pub $name: f64,)*
        }

        /// The columns in order.
        pub const STATISTICS: [Statistic; [$(stringify!($name)),*].len()] = [$(Statistic {
            name: stringify!($name),
            unit: $unit,
            low: $low,
            high: $high,
            source: Source::$source,
            meaning: $meaning,
        }),*];

        impl IntervalStats {
            pub fn to_array(&self) -> [f64; STATISTICS.len()] {
                [$(self.$name),*]
            }

            pub fn from_array([$($name),*]: [f64; STATISTICS.len()]) -> IntervalStats {
                IntervalStats { $($name),* }
            }
        }
    };
}

statistics! {
    time_s: "s", 0.0, 1e6, Kernel, "End of the interval, in time of the world.";
    interval_s: "s", 0.0, f64::INFINITY, Kernel, "Length of the interval.";
    active: "1", 0.0, 1.0, Kernel, "1 while the flow exists, else 0.";
    goodput_bps: "bit/s", 0.0, f64::INFINITY, Kernel, "In-order payload at the receiver, divided by the length of the interval.";
    delivery_rate_bps: "bit/s", 0.0, f64::INFINITY, PerAck, "Mean of the delivery-rate samples of all ACKs; 0 without a sample.";
    max_delivery_rate_bps: "bit/s", 0.0, f64::INFINITY, PerAck, "Largest `delivery_rate_bps` since the start of the flow.";
    send_rate_bps: "bit/s", 0.0, f64::INFINITY, Kernel, "Payload sent, including retransmissions, divided by the length of the interval.";
    acked_rate_bps: "bit/s", 0.0, f64::INFINITY, Kernel, "Payload acknowledged, divided by the length of the interval.";
    rtt_mean_s: "s", 0.0, f64::INFINITY, PerAck, "Mean of the RTT samples of the interval; NaN without a sample.";
    rtt_min_s: "s", 0.0, f64::INFINITY, PerAck, "Smallest RTT sample of the interval; NaN without a sample.";
    rtt_rise_s: "s", f64::NEG_INFINITY, f64::INFINITY, PerAck, "Rise of the RTT from the first half of the samples to the second, by least squares; 0 with fewer than two samples.";
    srtt_s: "s", 0.0, f64::INFINITY, Kernel, "Smoothed RTT (RFC 6298); 0 before the first sample.";
    min_rtt_s: "s", 0.0, f64::INFINITY, Kernel, "Smallest RTT since the start of the flow; before the first sample, the RTT of the handshake.";
    rtt_samples: "1", 0.0, f64::INFINITY, PerAck, "Number of RTT samples in the interval.";
    ack_gap_s: "s", 0.0, f64::INFINITY, PerAck, "Longest time without an ACK that ended in the interval or is still going on.";
    acked_packets: "packets", 0.0, f64::INFINITY, Kernel, "Payload acknowledged, in segments.";
    lost_packets: "packets", 0.0, f64::INFINITY, Kernel, "Segments marked lost.";
    lost_bytes: "bytes", 0.0, f64::INFINITY, Kernel, "Payload marked lost.";
    retransmitted_packets: "packets", 0.0, f64::INFINITY, Kernel, "Segments retransmitted.";
    marked_packets: "packets", 0.0, f64::INFINITY, Kernel, "Segments that acknowledgements report as marked by ECN: with accurate ECN and DCTCP those that were; with classic ECN all that are acknowledged by ACKs with ECE.";
    rtos: "1", 0.0, f64::INFINITY, Kernel, "Retransmission timeouts.";
    cwnd_packets: "packets", 1.0, 4294967295.0, Kernel, "Congestion window.";
    ssthresh_packets: "packets", 2.0, 4294967295.0, Kernel, "Slow-start threshold; 2147483647 while there is none.";
    pacing_rate_bps: "bit/s", 0.0, f64::INFINITY, Kernel, "Pacing rate; 0 when packets are not paced.";
    packets_out: "packets", 0.0, f64::INFINITY, Kernel, "Segments sent and not yet acknowledged cumulatively.";
    retrans_out: "packets", 0.0, f64::INFINITY, Kernel, "Retransmitted segments in flight.";
    in_flight_packets: "packets", 0.0, f64::INFINITY, Kernel, "Segments in flight: `packets_out`, minus SACKed and lost segments, plus `retrans_out`.";
    ca_state: "1", 0.0, 4.0, Kernel, "State of TCP: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.";
    app_limited: "1", 0.0, 1.0, Kernel, "1 when the application, not the window, limits the flow.";
    rwnd_packets: "packets", 0.0, f64::INFINITY, Kernel, "Receive window, in segments.";
    mss_bytes: "bytes", 1.0, 65535.0, Kernel, "Payload of a full segment.";
    delay_preference: "1", 0.0, 1.0, Kernel, "How much delay counts for this flow, as its scenario asks, relative to the weight in the reward; 0: it asks for nothing.";
    base_rtt_s: "s", 0.0, f64::INFINITY, Oracle, "RTT of the path without queues.";
    capacity_bps: "bit/s", 0.0, f64::INFINITY, Oracle, "Rate of the bottleneck, the slowest link of the path.";
    queue_bytes: "bytes", 0.0, f64::INFINITY, Oracle, "Queue of the bottleneck.";
    buffer_bytes: "bytes", 0.0, f64::INFINITY, Oracle, "Size of that queue.";
    link_loss: "1", 0.0, 1.0, Oracle, "Expected share of packets lost at random along the path.";
    flows_active: "1", 0.0, f64::INFINITY, Oracle, "Number of active TCP flows in the world; for a flow that leaves, with itself.";
    fair_share_bps: "bit/s", 0.0, f64::INFINITY, Oracle, "`capacity_bps` divided by the number of active TCP flows that cross the bottleneck; for a flow that leaves, with itself.";
    handover_in_s: "s", 0.0, f64::INFINITY, Oracle, "Time to the next handover of the path; infinite if there is none.";
    handover_since_s: "s", 0.0, f64::INFINITY, Oracle, "Time since the last handover of the path; infinite if there was none.";
    reported_handover_in_s: "s", 0.0, f64::INFINITY, Oracle, "`handover_in_s` as a predictor reports it half a second ahead, with SaTCP's error.";
    reported_handover_since_s: "s", 0.0, f64::INFINITY, Oracle, "`handover_since_s` as the same predictor reports it.";
}

/// Statistics that hosts of QUIC do not have. QUIC sends frames again, not packets; acknowledges no packet cumulatively; and
/// tells a controller neither the packets that were marked nor a threshold or state. Persistent congestion (RFC 9002, section
/// 7.6), which QUIC has in the place of TCP's timeout, counts as `rtos`.
pub const NOT_IN_QUIC: [&str; 6] =
    ["retransmitted_packets", "marked_packets", "ssthresh_packets", "packets_out", "retrans_out", "ca_state"];

impl IntervalStats {
    /// Leave out what hosts of QUIC do not have: NaN.
    pub fn clear_what_quic_lacks(&mut self) {
        for field in [
            &mut self.retransmitted_packets,
            &mut self.marked_packets,
            &mut self.ssthresh_packets,
            &mut self.packets_out,
            &mut self.retrans_out,
            &mut self.ca_state,
        ] {
            *field = f64::NAN;
        }
    }

    /// The mean RTT of the interval, or the smoothed RTT when there was no sample; 0 before any.
    pub fn latest_rtt_s(&self) -> f64 {
        if self.rtt_mean_s.is_nan() { self.srtt_s } else { self.rtt_mean_s }
    }
}

/// Accumulates the statistics of a flow over an interval.
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

    /// Add acknowledgements that a real host has counted until `now`.
    pub fn push(&mut self, now: Nanos, acks: &Acks) {
        self.acks.append(&Acks { last: acks.last.min(now), ..*acks });
    }

    pub fn since(&self) -> Nanos {
        self.since
    }

    /// Half the number of samples times the slope of the line fitted to them.
    fn rtt_rise_us(&self) -> f64 {
        let n = f64::from(self.acks.rtt_samples);
        if self.acks.rtt_samples < 2 {
            return 0.0;
        }
        let covariance = self.acks.rtt_placed_us as f64 - (n - 1.0) / 2.0 * self.acks.rtt_sum_us as f64;
        6.0 * covariance / (n * n - 1.0)
    }

    /// Close the interval at `now` and write its statistics; the caller fills the oracle fields.
    pub fn take(&mut self, now: Nanos, sender: &Sender, received_bytes: u64, stats: &mut IntervalStats) {
        let span = now.saturating_sub(self.since).secs_f64();
        let per_s = if span > 0.0 { 1.0 / span } else { 0.0 };
        let (c, p) = (&sender.counters, &self.counters);
        let mss = f64::from(sender.conn.mss);
        let acks = &self.acks;
        let rate = if acks.rate_samples > 0 { acks.rate_sum / f64::from(acks.rate_samples) } else { 0.0 };
        self.max_rate = self.max_rate.max(rate);
        self.min_rtt_us = self.min_rtt_us.min(acks.rtt_least_us);
        // Before its first sample, the flow has the RTT of the handshake.
        let min_rtt = if self.min_rtt_us == u32::MAX { sender.min_rtt_us() } else { self.min_rtt_us };
        let lost = (c.lost - p.lost) as f64;
        *stats = IntervalStats {
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
            marked_packets: (c.marked - p.marked) as f64,
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
            mss_bytes: mss,
            ..IntervalStats::default()
        };
        *self = Meter {
            since: now,
            counters: *c,
            received_bytes,
            acks: Acks { last: self.acks.last, ..Acks::default() },
            ..*self
        };
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

    /// A sender with segments of 1,448 bytes.
    fn sender() -> Sender {
        let spec = crate::spec::TcpSpec::default();
        let cubic = crate::spec::ControllerSpec { name: "cubic".into(), params: Default::default() };
        let controller = crate::cc::build(&cubic, &spec).unwrap();
        Sender::new(&spec, 0, controller, 65_535)
    }

    #[test]
    fn statistics_are_of_their_interval() {
        let (mut sender, mut meter, ms) = (sender(), Meter::new(Nanos::ZERO), Nanos::from_millis);
        (sender.conn.cwnd, sender.conn.ssthresh, sender.conn.srtt8_us) = (30, 20, 8 * 55_000);
        sender.counters = SenderCounters {
            sent: 100,
            retransmitted: 3,
            lost: 4,
            rtos: 1,
            marked: 7,
            acked_bytes: 50 * 1448,
            ..SenderCounters::default()
        };
        for (at, rtt_us, rate) in [(100, 40_000, 1e6), (200, 50_000, 2e6), (300, 60_000, 1.5e6)] {
            meter.on_ack(ms(at), Some(rtt_us), Some(rate));
        }
        let (mut first, mut second) = (IntervalStats::default(), IntervalStats::default());
        meter.take(ms(500), &sender, 60_000, &mut first);
        let c = &mut sender.counters;
        (c.sent, c.lost, c.marked, c.acked_bytes) = (160, 5, 9, 70 * 1448);
        meter.on_ack(ms(600), None, Some(0.5e6));
        meter.take(ms(750), &sender, 70_000, &mut second);
        // By hand from the meanings above, over 500 and 250 ms.
        #[rustfmt::skip]
        let wanted = [
            ("interval_s", 0.5, 0.25), ("goodput_bps", 960e3, 320e3), ("delivery_rate_bps", 12e6, 4e6),
            ("max_delivery_rate_bps", 12e6, 12e6), ("send_rate_bps", 2_316_800.0, 2_780_160.0),
            ("acked_rate_bps", 1_158_400.0, 926_720.0), ("rtt_mean_s", 0.05, f64::NAN),
            ("rtt_min_s", 0.04, f64::NAN), ("rtt_rise_s", 0.015, 0.0), ("srtt_s", 0.055, 0.055),
            ("min_rtt_s", 0.04, 0.04), ("rtt_samples", 3.0, 0.0), ("ack_gap_s", 0.2, 0.3),
            ("acked_packets", 50.0, 20.0), ("lost_packets", 4.0, 1.0), ("lost_bytes", 5_792.0, 1_448.0),
            ("retransmitted_packets", 3.0, 0.0), ("marked_packets", 7.0, 2.0), ("rtos", 1.0, 0.0),
            ("cwnd_packets", 30.0, 30.0), ("ssthresh_packets", 20.0, 20.0), ("mss_bytes", 1448.0, 1448.0),
        ];
        for (name, one, two) in wanted {
            let at = STATISTICS.iter().position(|statistic| statistic.name == name).unwrap();
            for (stats, want) in [(first, one), (second, two)] {
                let found = stats.to_array()[at];
                assert!((found - want).abs() < 1e-9 || (found.is_nan() && want.is_nan()), "{name}: {found}");
            }
        }
    }

    #[test]
    fn the_longest_pause_of_the_acknowledgements_is_known_while_it_lasts() {
        let (sender, ms) = (sender(), Nanos::from_millis);
        let mut meter = Meter::new(Nanos::ZERO);
        for t in [5, 6, 29] {
            meter.on_ack(ms(t), None, None);
        }
        let mut stats = IntervalStats::default();
        let mut gap = |t| {
            meter.take(ms(t), &sender, 0, &mut stats);
            (stats.ack_gap_s * 1e3).round()
        };
        assert_eq!([gap(30), gap(60), gap(90)], [23.0, 31.0, 61.0]);
    }
}
