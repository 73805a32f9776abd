//! Statistics for tests of the functions.

use super::stats::IntervalStats;

/// A flow with this share of a link of 100 Mbit/s and 50 ms.
pub fn flow(goodput_share: f64) -> IntervalStats {
    IntervalStats {
        time_s: 30.0,
        interval_s: 0.03,
        active: 1.0,
        goodput_bps: 100e6 * goodput_share,
        delivery_rate_bps: 100e6 * goodput_share,
        max_delivery_rate_bps: 100e6,
        send_rate_bps: 100e6 * goodput_share,
        rtt_mean_s: 0.055,
        rtt_min_s: 0.051,
        srtt_s: 0.054,
        min_rtt_s: 0.05,
        rtt_samples: 100.0,
        acked_packets: 100e6 * goodput_share * 0.03 / 8.0 / 1460.0,
        acked_rate_bps: 100e6 * goodput_share,
        cwnd_packets: 400.0,
        packets_out: 390.0,
        pacing_rate_bps: 90e6,
        in_flight_packets: 390.0,
        mss_bytes: 1460.0,
        base_rtt_s: 0.05,
        capacity_bps: 100e6,
        buffer_bytes: 625_000.0,
        fair_share_bps: 100e6,
        flows_active: 1.0,
        handover_in_s: 3.0,
        handover_since_s: 12.0,
        reported_handover_in_s: f64::INFINITY,
        reported_handover_since_s: 1.0,
        ..IntervalStats::default()
    }
}

/// Statistics of an outage in which everything is lost, of a new flow, and of an interval without length.
pub fn hard_cases() -> [IntervalStats; 3] {
    let outage = IntervalStats {
        rtt_mean_s: f64::NAN,
        rtt_min_s: f64::NAN,
        rtt_samples: 0.0,
        ack_gap_s: 0.03,
        lost_bytes: 1e9,
        lost_packets: 7e5,
        ..flow(0.0)
    };
    let unknown = IntervalStats { rtt_mean_s: f64::NAN, rtt_min_s: f64::NAN, ..IntervalStats::default() };
    let silent = IntervalStats { interval_s: 0.0, capacity_bps: f64::INFINITY, ..outage };
    [outage, unknown, silent]
}
