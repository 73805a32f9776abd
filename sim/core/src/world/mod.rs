//! A network built from its specification: links, flows, and the queries others make of them.

pub mod capture;
pub mod guests;
pub mod kernel_hosts;
pub mod recorder;
pub mod totals;

mod build;
mod decisions;
mod engine;
mod host_events;
mod real_packets;
mod relay;

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cc::Signal;
use crate::flow::{Flow, Life};
use crate::link::Link;
use crate::observe::history::RewardedFlow;
use crate::observe::policy::{Failure, Policy};
use crate::pool::{PacketId, Pool};
use crate::schedule::Schedule;
use crate::spec::{Flush, OutageMode};
use crate::tcp::metrics::Destination;
use crate::time::Nanos;

use capture::Capture;
use guests::Guesthouse;
use kernel_hosts::KernelHosts;
use real_packets::Carried;
use recorder::Recorder;

/// Policies by name, for flows whose controller is `policy`.
pub type Policies = BTreeMap<String, Arc<Policy>>;

/// A change that was known from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Rate {
        link: u32,
    },
    OutageStart {
        link: u32,
        mode: OutageMode,
        flush: Flush,
    },
    OutageEnd {
        link: u32,
    },
    /// An edge's loss changes: what has come by then has met it before.
    Loss {
        link: u32,
    },
    FlowStart {
        flow: u32,
    },
    FlowStop {
        flow: u32,
    },
    Signal {
        flow: u32,
        signal: Signal,
    },
    Reroute {
        flow: u32,
    },
}

/// Marks the end of a route.
pub(crate) const ROUTE_END: u32 = u32::MAX;

#[derive(Clone)]
pub struct World {
    pub(crate) now: Nanos,
    // Not beside the hash: two additions are less than one of a vector.
    pub(crate) events: u64,
    /// The flow whose event is under way; 0 while links and changes act, which come before flows.
    pub(crate) turn: u32,
    pub(crate) duration: Nanos,
    pub(crate) wire_bytes: u64,
    pub(crate) payload_share: f64,
    pub(crate) link_names: Vec<String>,
    /// Directions: 2 i forward, 2 i + 1 reverse of link i.
    pub(crate) links: Vec<Link>,
    /// Directions that only hosts offer packets: they are met late where that changes nothing.
    pub(crate) edges: Vec<u32>,
    pub(crate) flows: Vec<Flow>,
    /// Does a proxy split any connection?
    pub(crate) has_relays: bool,
    /// What hosts remember of the paths of ended flows, by the first flow on each.
    pub(crate) destinations: Vec<Destination>,
    pub(crate) controls: Arc<Vec<(Nanos, Control)>>,
    pub(crate) next_control: usize,
    pub(crate) schedule: Schedule,
    /// Every flow's forward and backward link directions, each list closed by `ROUTE_END`; packets hold a place in it.
    pub(crate) routes: Vec<u32>,
    pub(crate) pool: Pool,
    /// Room for packets leaving a host without a pipe.
    pub(crate) departing: Vec<PacketId>,
    pub(crate) recorder: Option<Recorder>,
    /// Earliest decision of a native policy.
    pub(crate) next_decision: Nanos,
    /// The reason why a policy could not decide; the world has stopped.
    pub(crate) failure: Option<Failure>,
    /// The hosts, if they are real.
    pub(crate) kernel_hosts: Option<Box<KernelHosts>>,
    /// The hosts of flows that are another stack's, in virtual time.
    pub(crate) guests: Option<Box<Guesthouse>>,
    /// The packets that have left the network, if it carries packets of others.
    pub(crate) carried: Option<Carried>,
    /// Captured packets at the senders' hosts, if captures are wanted.
    pub(crate) capture: Option<Box<Capture>>,
    pub(crate) hash: u64,
}

impl World {
    pub fn now(&self) -> Nanos {
        self.now
    }

    pub fn duration(&self) -> Nanos {
        self.duration
    }

    pub fn is_finished(&self) -> bool {
        self.now >= self.duration
    }

    /// Why it stands still before its end, if a policy could not decide.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    pub fn link_names(&self) -> &[String] {
        &self.link_names
    }

    /// The forward direction of link `i`.
    pub fn link(&mut self, i: usize) -> &mut Link {
        &mut self.links[2 * i]
    }

    pub fn link_directions(&self) -> &[Link] {
        &self.links
    }

    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Packets travelling now.
    pub fn in_network(&self) -> usize {
        self.pool.in_network()
    }

    /// A hash of every event so far: equal runs have equal hashes.
    pub fn event_hash(&self) -> u64 {
        self.hash
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    /// Propagation there and back without queues or serialisation.
    pub fn base_rtt(&mut self, flow: usize) -> Nanos {
        self.base_rtt_at(flow, self.now)
    }

    /// The same just before `at`: what held during the interval that ends there.
    pub(crate) fn base_rtt_before(&mut self, flow: usize, at: Nanos) -> Nanos {
        self.base_rtt_at(flow, at.saturating_sub(Nanos(1)))
    }

    fn base_rtt_at(&mut self, flow: usize, at: Nanos) -> Nanos {
        let mut rtt = self.flows[flow].host.delay();
        for hop in self.flows[flow].forward.iter().chain(&self.flows[flow].backward) {
            rtt += self.links[*hop as usize].delay_at(at);
        }
        rtt
    }

    /// How long a packet would take from a flow's receiver to its sender that leaves now, delays and queues as they stand.
    pub fn return_delay(&mut self, flow: usize) -> Nanos {
        let mut delay = Nanos::ZERO;
        for hop in &self.flows[flow].backward {
            delay += self.links[*hop as usize].latency(self.now, delay);
        }
        delay
    }

    /// What a handshake started now would measure: delays and queues as they stand.
    pub(crate) fn handshake_rtt(&mut self, flow: usize) -> Nanos {
        let mut rtt = self.flows[flow].host.delay();
        for hop in self.flows[flow].forward.iter().chain(&self.flows[flow].backward) {
            rtt += self.links[*hop as usize].latency(self.now, rtt);
        }
        rtt
    }

    /// The flow's tightest link (forward direction index); the first of equals.
    pub fn bottleneck(&self, flow: usize) -> usize {
        let path = &self.flows[flow].forward;
        *path.iter().min_by_key(|l| self.links[**l as usize].rate()).expect("a path has links") as usize
    }

    #[inline(always)]
    pub(crate) fn rekey_flow(&mut self, flow: usize) {
        let f = &self.flows[flow];
        self.schedule.set(self.links.len() + flow, f.host.next_arrival().min(f.next_timer()));
    }

    pub(crate) fn rekey_link(&mut self, link: usize) {
        self.links[link].plan_meeting();
        self.schedule.set(link, self.links[link].next_event());
        if let Some((at, flow)) = self.links[link].next_meeting(&self.pool) {
            let host = &mut self.flows[flow as usize].host;
            host.meeting = host.meeting.min(at);
            self.schedule.bring_forward(self.links.len() + flow as usize, at);
        }
    }

    /// Close every active flow's interval at the present time and fill in what only the simulator knows.
    pub fn close_intervals(&mut self, which: impl Fn(&Flow) -> bool) {
        let now = self.now;
        for i in 0..self.flows.len() {
            if self.flows[i].life == Life::Waiting || !which(&self.flows[i]) || self.flows[i].meter.since() >= now {
                continue;
            }
            let base = self.base_rtt(i);
            let bottleneck = self.bottleneck(i);
            let loss = 1.0
                - self.flows[i]
                    .forward
                    .iter()
                    .map(|l| 1.0 - self.links[*l as usize].expected_loss(now))
                    .product::<f64>();
            let (mut active, mut sharing, mut beside_others) = (0, 0, false);
            for f in self.flows.iter().filter(|f| f.is_beside(&self.flows[i]) && !f.datagram) {
                active += 1;
                if f.forward.contains(&(bottleneck as u32)) {
                    sharing += 1;
                    beside_others |= f.agent.is_none();
                }
            }
            let link = &mut self.links[bottleneck];
            let flow = &mut self.flows[i];
            let received = flow.received_bytes();
            let stats = &mut flow.stats;
            flow.meter.take(now, &flow.sender, received, stats);
            if flow.hosted {
                stats.clear_what_quic_lacks();
            }
            stats.active = f64::from(u8::from(flow.life == Life::Active));
            stats.base_rtt_s = base.secs_f64();
            stats.capacity_bps = if link.rate().is_unlimited() { f64::INFINITY } else { link.rate().0 as f64 };
            stats.queue_bytes = link.backlog_bytes(now) as f64;
            stats.buffer_bytes = link.buffer_bytes(self.wire_bytes);
            stats.link_loss = loss;
            stats.flows_active = f64::from(active);
            stats.delay_preference = flow.agent.as_ref().map_or(0.0, |agent| agent.delay_preference);
            flow.handovers.fill(stats, now);
            stats.fair_share_bps = stats.capacity_bps / f64::from(sharing.max(1));
            flow.beside_others = beside_others;
            flow.observe();
        }
    }

    /// The flows that were there after `since`, also those that have left, as rewards and critics see them.
    pub fn members_since(&self, since: Nanos) -> SmallVec<[RewardedFlow<'_>; 8]> {
        self.present_since(since).map(|(_, flow)| flow.rewarded()).collect()
    }

    /// With their numbers; datagrams have no statistics.
    fn present_since(&self, since: Nanos) -> impl Iterator<Item = (usize, &Flow)> {
        let present = move |f: &Flow| f.life == Life::Active || f.ended_at().is_some_and(|at| at > since);
        self.flows.iter().enumerate().filter(move |(_, f)| present(f) && !f.datagram && f.stats.interval_s > 0.0)
    }

    /// Delivered payload over payload capacity, averaged over the links that are the bottleneck of one of these flows.
    pub fn utilisation_since(&self, since: Nanos) -> f64 {
        let mut links: SmallVec<[(usize, f64); 8]> = SmallVec::new();
        for (i, _) in self.present_since(since) {
            let link = self.bottleneck(i);
            if !links.iter().any(|(l, _)| *l == link) {
                let over = self.present_since(since).filter(|(_, f)| f.forward.contains(&(link as u32)));
                let rate: f64 = over.map(|(_, f)| f.stats.delivery_rate_bps).sum();
                let capacity = self.links[link].rate().0 as f64 * self.payload_share;
                // Nothing can be had of a link without capacity.
                links.push((link, if capacity > 0.0 { (rate / capacity).min(1.0) } else { 1.0 }));
            }
        }
        if links.is_empty() { 0.0 } else { links.iter().map(|l| l.1).sum::<f64>() / links.len() as f64 }
    }
}
