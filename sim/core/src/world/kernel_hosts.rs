//! A world whose hosts are real: a kernel's TCP sends over links of ours ([`World::carrying`]), and the world
//! follows what it is told of them. Statistics, observations, actions, rewards, policies, recordings and totals are
//! those of a simulated world; only what passes between two readings is not computed but read.

use std::sync::{Arc, Mutex};

use crate::flow::Life;
use crate::link::reading::LinkReading;
use crate::observe::policy::Failure;
use crate::spec::{NetworkSpec, SpecError};
use crate::tcp::sender::kernel_reading::FlowReading;
use crate::time::Nanos;

use super::World;

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

/// Gives a new world the hosts that are not the simulator's: real ones ([`World::follow`]), or those of another stack
/// ([`World::host`]).
pub type Connect = dyn Fn(&NetworkSpec, &mut World) -> Result<(), SpecError> + Send + Sync;

impl World {
    /// From now on the flows of this world, which has not begun, are those of `hosts`.
    pub fn follow(&mut self, hosts: Arc<Mutex<dyn Hosts>>) {
        self.failure = None;
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

    pub(super) fn take_in_flow(&mut self, i: usize, reading: &FlowReading) {
        let flow = &mut self.flows[i];
        if flow.life != Life::Active {
            return;
        }
        if !flow.hosted {
            flow.receiver.received_bytes = reading.received_bytes;
        }
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
