//! The outcome of a run in a few numbers per flow and link.

use crate::flow::Life;
use crate::time::Nanos;

use super::World;

#[derive(Clone, Debug)]
pub struct FlowTotals {
    pub name: String,
    pub controller: String,
    /// Its hosts are another stack's, which does not tell packets that were sent again, probes, and marks reported to it.
    pub hosted: bool,
    pub start_s: f64,
    /// When it left or was done; None while active.
    pub stop_s: Option<f64>,
    /// When its object was complete at the receiver.
    pub finished_s: Option<f64>,
    /// In-order payload that came to the receiver while the flow was active, over that time.
    pub goodput_mbps: f64,
    pub received_bytes: u64,
    /// Time means over 10 ms samples; NaN for a run without a recording.
    pub srtt_ms: f64,
    pub srtt_p95_ms: f64,
    pub base_rtt_ms: f64,
    pub delay_inflation: f64,
    pub sent_packets: u64,
    pub retransmitted_packets: u64,
    pub lost_packets: u64,
    pub rtos: u64,
    pub spurious_rtos: u64,
    pub tail_probes: u64,
    /// Packets that came to the receiver with CE, and segments reported as marked (tcpi_delivered_ce).
    pub marked_packets: u64,
    pub reported_marked_packets: u64,
    /// Datagrams that arrived, how long 50, 95 and 99 % of them took at most, and the share that took more than 150 ms.
    pub received_datagrams: u64,
    pub delay_percentiles_ms: [f64; 3],
    pub late_share: f64,
    /// Downloads of traffic `objects`: when asked for (s), bytes, seconds until complete (None: not yet).
    pub objects: Vec<(f64, u64, Option<f64>)>,
}

#[derive(Clone, Debug)]
pub struct LinkTotals {
    pub name: String,
    /// Delivered wire bits over the integral of the rate; 0 for an unlimited link.
    pub utilisation: f64,
    pub capacity_mbps: f64,
    pub queue_bytes_mean: f64,
    pub queue_bytes_max: u64,
    /// Refused by the queue.
    pub dropped_packets: u64,
    /// Random loss and outages.
    pub lost_packets: u64,
    /// Marked (CE) by the queue or on the path.
    pub marked_packets: u64,
    pub delivered_bytes: u64,
}

impl World {
    pub fn flow_totals(&self) -> Vec<FlowTotals> {
        self.flows
            .iter()
            .enumerate()
            .map(|(i, flow)| {
                let c = &flow.sender.counters;
                let mut totals = FlowTotals {
                    name: flow.name.clone(),
                    controller: flow.controller.clone(),
                    hosted: flow.hosted,
                    start_s: flow.start.secs_f64(),
                    stop_s: flow.ended_at().map(|t| t.secs_f64()),
                    finished_s: (flow.life == Life::Finished).then(|| flow.ended_at().expect("ended").secs_f64()),
                    goodput_mbps: flow.goodput(self.now) * 8e-6,
                    received_bytes: flow.received_bytes(),
                    srtt_ms: f64::NAN,
                    srtt_p95_ms: f64::NAN,
                    base_rtt_ms: f64::NAN,
                    delay_inflation: f64::NAN,
                    sent_packets: c.sent,
                    retransmitted_packets: c.retransmitted,
                    lost_packets: c.lost,
                    rtos: c.rtos,
                    spurious_rtos: c.spurious_rtos,
                    tail_probes: c.tail_probes,
                    marked_packets: flow.receiver.marked_packets(),
                    reported_marked_packets: c.marked,
                    received_datagrams: flow.delays.count,
                    delay_percentiles_ms: [0.5, 0.95, 0.99].map(|share| flow.delays.percentile_ms(share)),
                    late_share: flow.delays.late_share(),
                    objects: flow
                        .objects
                        .iter()
                        .map(|o| (o.asked.secs_f64(), o.bytes, o.complete.map(|t| (t - o.asked).secs_f64())))
                        .collect(),
                };
                if let Some(sums) = self.recorder.as_ref().map(|r| &r.sums[i])
                    && !sums.srtt_ms.is_empty()
                {
                    let n = sums.srtt_ms.len();
                    totals.srtt_ms = sums.srtt_ms.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
                    totals.base_rtt_ms = sums.base_rtt_ms_sum / n as f64;
                    totals.delay_inflation = sums.inflation_sum / n as f64;
                    let mut sorted = sums.srtt_ms.clone();
                    sorted.sort_unstable_by(f32::total_cmp);
                    totals.srtt_p95_ms = f64::from(sorted[((n as f64 * 0.95) as usize).min(n - 1)]);
                }
                totals
            })
            .collect()
    }

    pub fn link_totals(&mut self) -> Vec<LinkTotals> {
        let now = self.now;
        (0..self.link_names.len())
            .map(|i| {
                let recorded = self.recorder.as_ref().map_or(0, |r| r.queue_max[i]);
                let name = self.link_names[i].clone();
                let link = self.link(i);
                // What has departed by now is settled.
                link.backlog_bytes(now);
                let capacity_bits = link.capacity_bits(Nanos::ZERO, now);
                let delivered_bits = link.counters.delivered_bytes as f64 * 8.0;
                LinkTotals {
                    name,
                    utilisation: if capacity_bits.is_finite() && capacity_bits > 0.0 {
                        delivered_bits / capacity_bits
                    } else {
                        0.0
                    },
                    capacity_mbps: capacity_bits * 1e-6 / now.secs_f64(),
                    queue_bytes_mean: link.backlog_mean(now),
                    queue_bytes_max: recorded.max(link.backlog_max()),
                    dropped_packets: link.counters.dropped,
                    lost_packets: link.counters.lost,
                    marked_packets: link.counters.marked,
                    delivered_bytes: link.counters.delivered_bytes,
                }
            })
            .collect()
    }
}
