//! Flows whose hosts are another stack's, in virtual time. The world carries their packets beside those of its own TCP, tells
//! their hosts what happens, and reads what observations and recordings need. [`super::kernel_hosts`] is the same in real time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::flow::Life;
use crate::pool::PacketId;
use crate::tcp::sender::kernel_reading::FlowReading;
use crate::time::Nanos;
use crate::traffic::Action;

use super::World;

/// What hosts are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The flow starts: its application offers what [`crate::spec::TrafficSpec`] says.
    Start,
    /// The application does something.
    Traffic(Action),
    /// The window (segments) and, if given, the pacing rate (bytes per second) that an agent wants.
    Window(u32, Option<u64>),
    /// The flow has ended: its hosts fall silent.
    End,
}

/// The hosts of all such flows of a world. Whenever they act, `world.now()` is the time.
pub trait Guests: Send {
    fn call(&mut self, world: &mut World, flow: usize, call: Call);

    /// A packet has come out of the network, with this ECN field; its number may be given to another one from the next
    /// injection on.
    fn on_packet(&mut self, world: &mut World, packet: PacketId, ecn: u8);

    /// When the next timer goes off.
    fn next_timer(&self) -> Nanos;

    /// Serve the timers that are due.
    fn on_timers(&mut self, world: &mut World);

    /// Log every connection that starts from now on.
    fn log(&mut self);

    /// What the sender and the receiver of a flow have logged since the last call, as JSON-SEQ of qlog.
    fn take_logs(&mut self, flow: usize) -> [Vec<u8>; 2];

    /// What the flow's hosts know now; acknowledgements are those since the reading before.
    fn read(&mut self, flow: usize, reading: &mut FlowReading);
}

/// The hosts, and what they have not been told yet. Copies of the world would share them.
#[derive(Clone)]
pub(crate) struct Guesthouse {
    hosts: Arc<Mutex<dyn Guests>>,
    calls: VecDeque<(usize, Call)>,
}

impl World {
    /// From now on `hosts` are those of the flows whose hosts are not ours.
    pub fn host(&mut self, hosts: Arc<Mutex<dyn Guests>>) {
        (self.carried, self.failure) = (Some(VecDeque::new()), None);
        self.guests = Some(Box::new(Guesthouse { hosts, calls: VecDeque::new() }));
    }

    /// The hosts, if they are another stack's.
    pub fn guests(&self) -> Option<Arc<Mutex<dyn Guests>>> {
        self.guests.as_ref().map(|guests| guests.hosts.clone())
    }

    pub(super) fn call_guest(&mut self, flow: usize, call: Call) {
        if let Some(guests) = &mut self.guests
            && self.flows[flow].hosted
        {
            guests.calls.push_back((flow, call));
        }
    }

    fn next_call(&mut self) -> Option<(usize, Call)> {
        self.guests.as_mut()?.calls.pop_front()
    }

    /// As `run_events`: every event before `until`, of the world and of the hosts. Packets and changes come before timers
    /// of the same instant.
    pub(super) fn run_with_guests(&mut self, until: Nanos) {
        let Some(guests) = &self.guests else { return };
        let hosts = Arc::clone(&guests.hosts);
        let mut hosts = hosts.lock().expect("hosts do not panic");
        loop {
            if let Some((flow, call)) = self.next_call() {
                hosts.call(self, flow, call);
                continue;
            }
            if let Some((_, packet, ecn)) = self.take_carried() {
                self.log_guests();
                hosts.on_packet(self, packet, ecn);
                continue;
            }
            let (timer, (at, _)) = (hosts.next_timer(), self.schedule.next());
            if timer.min(at) >= until {
                break;
            }
            if at <= timer {
                self.run_events(at + Nanos(1)); // all of this instant
            } else {
                self.now = self.now.max(timer);
                self.turn = u32::MAX - 1;
                self.log_guests();
                hosts.on_timers(self);
                self.turn = 0;
            }
        }
        self.run_events(until); // there are none, but edges meet what has arrived
        let mut reading = FlowReading::default();
        for i in 0..self.flows.len() {
            if self.flows[i].hosted && self.flows[i].life == Life::Active {
                hosts.read(i, &mut reading);
                self.take_in_flow(i, &reading);
                let acks = &reading.acks;
                if let Some(mean) = acks.rtt_sum_us.checked_div(u64::from(acks.rtt_samples)) {
                    self.flows[i].sender.last_rtt_us = Some(mean as u32);
                }
            }
        }
    }

    /// The receiver of a flow has `bytes` in order.
    pub fn receive(&mut self, i: usize, bytes: u64) {
        let flow = &mut self.flows[i];
        if flow.life != Life::Active {
            return;
        }
        flow.receiver.received_bytes = bytes;
        let segments = bytes / flow.sender.mss();
        let whole = flow.object_bytes.is_some_and(|object| bytes >= object);
        flow.receiver.rcv_nxt = if whole { flow.awaited } else { segments.min(u64::from(u32::MAX - 1)) as u32 };
        if flow.receiver.rcv_nxt >= flow.awaited {
            flow.complete_objects(self.now);
            if whole {
                self.end_flow(i, Life::Finished);
            }
        }
    }

    /// A flow's connection is gone for good.
    pub fn lose(&mut self, i: usize) {
        self.end_flow(i, Life::Left);
    }
}
