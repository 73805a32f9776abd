//! A world whose hosts are real: a kernel's TCP sends over links of ours ([`crate::real_packets`]), and the world
//! follows what it is told of them. Statistics, observations, actions, rewards, policies, recordings and totals are
//! those of a simulated world; only what passes between two readings is not computed but read.

use std::sync::{Arc, Mutex};

use crate::cc::SSTHRESH_INFINITE;
use crate::flow::Life;
use crate::observe::policy::Failure;
use crate::observe::stats::Acks;
use crate::spec::{NetworkSpec, SpecError};
use crate::tcp::sender::SenderCounters;
use crate::time::Nanos;
use crate::world::World;

/// What a host's kernel says of one flow. Counters since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowReading {
    /// When its object was complete at the receiver; zero: not yet.
    pub finished: Nanos,
    /// In-order payload at the receiver.
    pub received_bytes: u64,
    /// Packets that came to the receiver with a mark.
    pub arrived_marked: u64,
    /// Segments and payload bytes, as in the simulator; `acked_bytes` counts cumulative acknowledgements only.
    pub counters: SenderCounters,
    /// Segments.
    pub cwnd: u32,
    pub ssthresh: u32,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    /// Receive window beyond what is acknowledged, bytes.
    pub window_bytes: u64,
    /// Bytes per second.
    pub pacing_rate: u64,
    /// As in [`crate::cc::CaState`].
    pub state: u8,
    pub app_limited: bool,
    /// Of the acknowledgements since the reading before; a stock controller's flow has none.
    pub acks: Acks,
}

/// What a link's forward direction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkReading {
    pub arrived: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    pub dropped: u64,
    pub lost: u64,
    pub marked: u64,
    pub backlog_bytes: u64,
    /// Largest backlog since the reading before.
    pub backlog_max: u64,
    /// Bytes times nanoseconds since the start.
    pub backlog_integral: u128,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// When it was asked for, and taken.
    pub asked: Nanos,
    pub at: Nanos,
    pub flows: Vec<FlowReading>,
    pub links: Vec<LinkReading>,
}

/// Real hosts, whose clock runs by itself.
pub trait Hosts: Send {
    /// Wait until `at`, if that is still to come, and read everything.
    fn read_at(&mut self, at: Nanos, reading: &mut Reading) -> Result<(), Failure>;

    /// Set a flow's window (segments) and, if given, its pacing rate (bytes per second).
    fn set_window(&mut self, flow: usize, cwnd: u32, pacing: Option<u64>) -> Result<(), Failure>;
}

/// The real hosts of an emulated world. Copies of the world share them.
#[derive(Clone)]
pub(crate) struct KernelHosts {
    hosts: Arc<Mutex<dyn Hosts>>,
    reading: Reading,
    /// Decisions that were late: their time had passed before the observation was read.
    overruns: u64,
}

/// How a new world gets its hosts.
pub type Connect = dyn Fn(&NetworkSpec, &World) -> Result<Arc<Mutex<dyn Hosts>>, SpecError> + Send + Sync;

impl World {
    /// From now on the flows of this world, which has not begun, are those of `hosts`.
    pub fn follow(&mut self, hosts: Arc<Mutex<dyn Hosts>>) {
        self.kernel_hosts = Some(Box::new(KernelHosts { hosts, reading: Reading::default(), overruns: 0 }));
    }

    /// It has no hosts any more, and stands still.
    pub(crate) fn part(&mut self) {
        self.kernel_hosts = None;
    }

    pub fn has_kernel_hosts(&self) -> bool {
        self.kernel_hosts.is_some()
    }

    /// How often a decision came late, because whoever decides took too long over the one before.
    pub fn overruns(&self) -> u64 {
        self.kernel_hosts.as_ref().map_or(0, |kernel_hosts| kernel_hosts.overruns)
    }

    /// As `run_until`: wait for what is due, and take it in.
    pub(crate) fn follow_until(&mut self, end: Nanos) {
        while self.failure.is_none() {
            let sample = self.recorder.as_ref().map_or(Nanos::MAX, |r| r.next_sample());
            let decision = if self.next_decision < self.duration { self.next_decision } else { Nanos::MAX };
            let due = end.min(sample).min(decision);
            let decides = due == decision || self.recorder.is_none();
            if let Err(failure) = self.read(due, decides) {
                self.failure = Some(failure);
                return;
            }
            if sample <= self.now {
                self.sample();
            }
            if decision <= self.now && self.now < self.duration {
                // The grid goes on from here: what was missed is not made up for.
                for flow in &mut self.flows {
                    if let Some(agent) = &mut flow.agent
                        && agent.next_decision <= self.now
                    {
                        agent.next_decision = self.now;
                    }
                }
                self.decide();
            }
            if end <= self.now {
                return;
            }
        }
    }

    /// Everything as it is at `due`, or now if that has passed.
    fn read(&mut self, due: Nanos, decides: bool) -> Result<(), Failure> {
        let Some(mut kernel_hosts) = self.kernel_hosts.take() else {
            return Ok(());
        };
        let read = kernel_hosts.hosts.lock().expect("hosts do not panic").read_at(due, &mut kernel_hosts.reading);
        let at = kernel_hosts.reading.at.clamp(self.now, self.duration);
        kernel_hosts.overruns += u64::from(decides && kernel_hosts.reading.asked > due);
        if read.is_ok() {
            while self.next_change() <= at {
                self.now = self.now.max(self.next_change());
                self.on_control();
            }
            self.now = at;
            for i in 0..self.flows.len() {
                self.take_in_flow(i, &kernel_hosts.reading.flows[i]);
            }
            for (link, reading) in self.links.iter_mut().step_by(2).zip(&kernel_hosts.reading.links) {
                link.take_in(at, reading);
            }
        }
        self.kernel_hosts = Some(kernel_hosts);
        read
    }

    fn take_in_flow(&mut self, i: usize, reading: &FlowReading) {
        let flow = &mut self.flows[i];
        if flow.life != Life::Active {
            return;
        }
        flow.receiver.received_bytes = reading.received_bytes;
        flow.receiver.take_in_marks(reading.arrived_marked);
        if flow.datagram {
            flow.sender.counters = reading.counters;
        } else {
            flow.sender.take_in(reading);
            flow.meter.push(self.now, &reading.acks);
        }
        if reading.finished > Nanos::ZERO {
            self.end_flow(i, Life::Finished);
            let flow = &mut self.flows[i];
            flow.ended = Some((reading.finished.min(self.now), flow.received_bytes()));
        }
    }

    /// Set the window that an agent requests: the controller applies its limits, then the kernel is notified.
    pub(crate) fn set_live_window(&mut self, i: usize, cwnd: u32, pacing: Option<u64>) {
        let Some(kernel_hosts) = &self.kernel_hosts else { return };
        let sender = &mut self.flows[i].sender;
        if sender.cc.set_window(&mut sender.conn, cwnd, pacing) {
            let told = kernel_hosts.hosts.lock().expect("hosts do not panic").set_window(i, sender.conn.cwnd, pacing);
            self.failure = self.failure.take().or(told.err());
        }
    }
}

impl FlowReading {
    /// As numbers, for travel between processes.
    pub const WORDS: usize = 31;

    pub fn to_words(&self) -> [u64; FlowReading::WORDS] {
        let (c, a) = (&self.counters, &self.acks);
        [
            self.finished.0,
            self.received_bytes,
            c.sent,
            c.retransmitted,
            c.lost,
            c.rtos,
            c.tail_probes,
            c.spurious_rtos,
            c.acked_bytes,
            u64::from(self.cwnd),
            u64::from(self.ssthresh),
            u64::from(self.srtt_us),
            u64::from(self.min_rtt_us),
            u64::from(self.packets_out),
            u64::from(self.sacked_out),
            u64::from(self.lost_out),
            u64::from(self.retrans_out),
            self.window_bytes,
            self.pacing_rate,
            u64::from(self.state),
            u64::from(self.app_limited),
            a.rtt_sum_us,
            a.rtt_placed_us,
            u64::from(a.rtt_least_us),
            u64::from(a.rtt_samples),
            a.rate_sum.to_bits(),
            u64::from(a.rate_samples),
            a.longest_gap.0,
            a.last.0,
            c.marked,
            self.arrived_marked,
        ]
    }

    pub fn from_words(w: &[u64; FlowReading::WORDS]) -> FlowReading {
        FlowReading {
            finished: Nanos(w[0]),
            received_bytes: w[1],
            arrived_marked: w[30],
            counters: SenderCounters {
                sent: w[2],
                retransmitted: w[3],
                lost: w[4],
                rtos: w[5],
                tail_probes: w[6],
                spurious_rtos: w[7],
                acked_bytes: w[8],
                marked: w[29],
            },
            cwnd: w[9] as u32,
            ssthresh: (w[10] as u32).min(SSTHRESH_INFINITE),
            srtt_us: w[11] as u32,
            min_rtt_us: w[12] as u32,
            packets_out: w[13] as u32,
            sacked_out: w[14] as u32,
            lost_out: w[15] as u32,
            retrans_out: w[16] as u32,
            window_bytes: w[17],
            pacing_rate: w[18],
            state: w[19] as u8,
            app_limited: w[20] != 0,
            acks: Acks {
                rtt_sum_us: w[21],
                rtt_placed_us: w[22],
                rtt_least_us: w[23] as u32,
                rtt_samples: w[24] as u32,
                rate_sum: f64::from_bits(w[25]),
                rate_samples: w[26] as u32,
                longest_gap: Nanos(w[27]),
                last: Nanos(w[28]),
            },
        }
    }
}

impl LinkReading {
    pub const WORDS: usize = 10;

    pub fn to_words(&self) -> [u64; LinkReading::WORDS] {
        [
            self.arrived,
            self.delivered,
            self.delivered_bytes,
            self.dropped,
            self.lost,
            self.backlog_bytes,
            self.backlog_max,
            self.backlog_integral as u64,
            (self.backlog_integral >> 64) as u64,
            self.marked,
        ]
    }

    pub fn from_words(w: &[u64; LinkReading::WORDS]) -> LinkReading {
        LinkReading {
            arrived: w[0],
            delivered: w[1],
            delivered_bytes: w[2],
            dropped: w[3],
            lost: w[4],
            backlog_bytes: w[5],
            backlog_max: w[6],
            backlog_integral: u128::from(w[7]) | u128::from(w[8]) << 64,
            marked: w[9],
        }
    }
}
