//! Time series of a run: levels sampled on a fine grid and averaged, counts differenced, per recording interval.

use crate::cc::SSTHRESH_INFINITE;
use crate::flow::Life;
use crate::time::Nanos;

use super::World;

/// Levels are sampled this often, in long runs so many times.
const SAMPLE: Nanos = Nanos::from_millis(10);
const MOST_SAMPLES: u64 = 1_000_000;

pub const FLOW_SERIES: [&str; 16] = [
    "active",
    "goodput_mbps",
    "send_mbps",
    "delivery_mbps",
    "srtt_ms",
    "rtt_ms",
    "base_rtt_ms",
    "cwnd_packets",
    "ssthresh_packets",
    "in_flight_packets",
    "pacing_mbps",
    "retransmitted_packets",
    "lost_packets",
    "sent_packets",
    "handovers",
    "marked_packets",
];

pub const LINK_SERIES: [&str; 9] = [
    "capacity_mbps",
    "delivered_mbps",
    "queue_bytes",
    "queue_bytes_max",
    "dropped_packets",
    "lost_packets",
    "one_way_delay_ms",
    "outage",
    "marked_packets",
];

#[derive(Clone, Copy, Default)]
struct FlowMark {
    received: u64,
    acked: u64,
    sent: u64,
    retransmitted: u64,
    lost: u64,
    marked: u64,
}

#[derive(Clone, Copy, Default)]
struct LinkMark {
    delivered_bytes: u64,
    dropped: u64,
    lost: u64,
    marked: u64,
    backlog: u128,
}

/// Sums over the samples of one flow since its start.
#[derive(Clone, Default)]
pub struct FlowSums {
    pub srtt_ms: Vec<f32>,
    pub base_rtt_ms_sum: f64,
    pub inflation_sum: f64,
}

#[derive(Clone)]
pub struct Recorder {
    interval: Nanos,
    next_sample: Nanos,
    next_row: Nanos,
    step: Nanos,
    duration: Nanos,
    pub t_s: Vec<f64>,
    /// [series][row * flows + flow]
    pub flows: Vec<Vec<f64>>,
    pub links: Vec<Vec<f64>>,
    pub sums: Vec<FlowSums>,
    /// (sum, samples) of the levels in the open interval: srtt, rtt, base RTT, in flight, active.
    levels: Vec<[(f64, u32); 5]>,
    outage: Vec<(u32, u32)>,
    flow_marks: Vec<FlowMark>,
    link_marks: Vec<LinkMark>,
    row_start: Nanos,
    pub queue_max: Vec<u64>,
}

impl Recorder {
    pub fn new(interval: Nanos, duration: Nanos, flows: usize, links: usize) -> Recorder {
        let step = SAMPLE.max(Nanos(duration.0 / MOST_SAMPLES)).min(interval);
        let first = step.min(duration);
        Recorder {
            interval,
            next_sample: first,
            next_row: interval.min(duration),
            step,
            duration,
            t_s: Vec::new(),
            flows: vec![Vec::new(); FLOW_SERIES.len()],
            links: vec![Vec::new(); LINK_SERIES.len()],
            sums: vec![FlowSums::default(); flows],
            levels: vec![[(0.0, 0); 5]; flows],
            outage: vec![(0, 0); links],
            flow_marks: vec![FlowMark::default(); flows],
            link_marks: vec![LinkMark::default(); links],
            row_start: Nanos::ZERO,
            queue_max: vec![0; links],
        }
    }

    pub fn next_sample(&self) -> Nanos {
        self.next_sample
    }
}

impl World {
    /// Take the sample due now and, at the end of every interval but the last, a row.
    pub(crate) fn sample(&mut self) {
        let Some(mut r) = self.recorder.take() else {
            return;
        };
        let now = self.now;
        for i in 0..self.flows.len() {
            if self.flows[i].life != Life::Active {
                continue;
            }
            let base = self.base_rtt_before(i, now).secs_f64() * 1e3;
            let sender = &self.flows[i].sender;
            let srtt = f64::from(sender.conn.srtt8_us) / 8e3;
            let levels = &mut r.levels[i];
            let add = |slot: &mut (f64, u32), x: f64| *slot = (slot.0 + x, slot.1 + 1);
            add(&mut levels[2], base);
            add(&mut levels[4], 1.0);
            let sums = &mut r.sums[i];
            // Another stack has no RTT before its first packets are answered.
            let simulated = self.kernel_hosts.is_none() && !self.flows[i].hosted;
            if !self.flows[i].datagram && (srtt > 0.0 || simulated) {
                sums.base_rtt_ms_sum += base;
                add(&mut levels[0], srtt);
                if let Some(us) = sender.last_rtt_us {
                    add(&mut levels[1], f64::from(us) / 1e3);
                }
                add(&mut levels[3], f64::from(sender.in_flight()));
                sums.inflation_sum += if base > 0.0 { srtt / base } else { 1.0 };
                sums.srtt_ms.push(srtt as f32);
            }
        }
        for (i, outage) in r.outage.iter_mut().enumerate() {
            *outage = (outage.0 + u32::from(self.links[2 * i].in_outage()), outage.1 + 1);
        }
        if now >= r.next_row && now < r.duration {
            self.write_row(&mut r);
            r.next_row = (r.next_row + r.interval).min(r.duration);
        }
        r.next_sample = if now >= r.duration { Nanos::MAX } else { (now + r.step).min(r.next_row).min(r.duration) };
        self.recorder = Some(r);
    }

    /// Write the last row once the run is over. No later row has the events of the last instant, so this one does.
    pub(super) fn end_recording(&mut self) {
        if let Some(mut r) = self.recorder.take_if(|r| self.now >= r.duration && r.next_row != Nanos::MAX) {
            self.write_row(&mut r);
            r.next_row = Nanos::MAX;
            self.recorder = Some(r);
        }
    }

    fn write_row(&mut self, r: &mut Recorder) {
        let now = self.now;
        let span = (now - r.row_start).secs_f64();
        let mbps = |bytes: u64| bytes as f64 * 8e-6 / span;
        r.t_s.push(now.secs_f64());
        for (i, flow) in self.flows.iter().enumerate() {
            let c = &flow.sender.counters;
            let mark = FlowMark {
                received: flow.received_bytes(),
                acked: c.acked_bytes,
                sent: c.sent,
                retransmitted: c.retransmitted,
                lost: c.lost,
                marked: flow.receiver.marked_packets(),
            };
            let p = std::mem::replace(&mut r.flow_marks[i], mark);
            let levels = std::mem::replace(&mut r.levels[i], [(0.0, 0); 5]);
            let mean = |slot: (f64, u32)| {
                if slot.1 > 0 { slot.0 / f64::from(slot.1) } else { f64::NAN }
            };
            let active = levels[4].1 > 0;
            let level = |x: f64| {
                if active && !flow.datagram { x } else { f64::NAN }
            };
            let mss = u64::from(flow.sender.conn.mss);
            let conn = &flow.sender.conn;
            let told = |x: f64| if flow.hosted { f64::NAN } else { x };
            let ssthresh = if conn.ssthresh >= SSTHRESH_INFINITE { f64::INFINITY } else { f64::from(conn.ssthresh) };
            let pacing = flow.sender.pacing_rate() as f64 * 8e-6;
            let row = [
                f64::from(u8::from(active)),
                mbps(mark.received - p.received),
                mbps((mark.sent - p.sent) * mss),
                mbps(mark.acked - p.acked),
                mean(levels[0]),
                mean(levels[1]),
                mean(levels[2]),
                level(f64::from(conn.cwnd)),
                told(level(ssthresh)),
                mean(levels[3]),
                level(pacing),
                told((mark.retransmitted - p.retransmitted) as f64),
                (mark.lost - p.lost) as f64,
                (mark.sent - p.sent) as f64,
                flow.handovers.count(r.row_start, now) as f64,
                (mark.marked - p.marked) as f64,
            ];
            r.flows.iter_mut().zip(row).for_each(|(series, x)| series.push(x));
        }
        for i in 0..r.link_marks.len() {
            let link = &mut self.links[2 * i];
            if now >= r.duration {
                link.backlog_bytes(now); // the last row has what is lost at the last instant, as the totals have
            }
            // Settles what departed before now.
            let backlog = link.backlog_integral(now);
            let mark = LinkMark {
                delivered_bytes: link.counters.delivered_bytes,
                dropped: link.counters.dropped,
                lost: link.counters.lost,
                marked: link.counters.marked,
                backlog,
            };
            let p = std::mem::replace(&mut r.link_marks[i], mark);
            let outage = std::mem::take(&mut r.outage[i]);
            let queue_max = link.take_backlog_max(now);
            r.queue_max[i] = r.queue_max[i].max(queue_max);
            let row = [
                link.capacity_bits(r.row_start, now) / span * 1e-6,
                mbps(mark.delivered_bytes - p.delivered_bytes),
                (mark.backlog - p.backlog) as f64 / (span * 1e9),
                queue_max as f64,
                (mark.dropped - p.dropped) as f64,
                (mark.lost - p.lost) as f64,
                link.delay_at(now).secs_f64() * 1e3,
                f64::from(outage.0) / f64::from(outage.1.max(1)),
                (mark.marked - p.marked) as f64,
            ];
            r.links.iter_mut().zip(row).for_each(|(series, x)| series.push(x));
        }
        r.row_start = now;
    }
}
