//! One flow: its hosts, its route, its application, and what is measured of it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cc::{self, Conn, Subscription};
use crate::delays::Delays;
use crate::observe::functions::{Action, ActionMemory, Control, Interval, Observer};
use crate::observe::handovers::Handovers;
use crate::observe::history::{History, RewardedFlow};
use crate::observe::policy::{Answer, Decide, Policy};
use crate::observe::preset::Preset;
use crate::observe::safety_filter::SafetyFilter;
use crate::observe::stats::{IntervalStats, Meter};
use crate::pool::PacketId;
use crate::ring::Ring;
use crate::rng::{Purpose, Stream};
use crate::spec::{FlowSpec, NetworkSpec, QuicSpec, RelaySpec, SsthreshCache, TrafficSpec, Way};
use crate::tcp::receiver::Receiver;
use crate::tcp::sender::Sender;
use crate::time::Nanos;
use crate::traffic::Traffic;

/// IPv4's and UDP's, bytes.
pub const UDP_HEADERS: u32 = 28;

/// No flow.
pub(crate) const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Waiting,
    Active,
    /// Its object was delivered.
    Finished,
    /// Its scheduled leave.
    Left,
}

/// The sending host's own path to the first link: extra delay and FIFO jitter.
#[derive(Clone, Debug)]
pub struct HostPipe {
    delay: Nanos,
    jitter: Nanos,
    /// Of the timer for paced packets, and between two ticks of the host's clock.
    slack: Nanos,
    tick: Nanos,
    /// The tick after the latest paced departure.
    next_tick: Nanos,
    /// Between two runs of its queue for other flows; 0: none.
    run_gap: Nanos,
    random: Stream,
    last: Nanos,
    /// (release time, packet)
    pub pipe: Ring<(Nanos, PacketId)>,
    /// When an edge looks at the packets it has been told of: one of this host's may have to be met in time.
    pub meeting: Nanos,
}

impl HostPipe {
    /// Is a packet that leaves its host on the first link at once?
    pub fn is_transparent(&self) -> bool {
        self.delay == Nanos::ZERO && self.jitter == Nanos::ZERO
    }

    pub fn delay(&self) -> Nanos {
        self.delay
    }

    /// When a paced packet leaves whose departure is at `departs`: the timer that it waits for goes off at the end of its
    /// slack, or with the tick of the host's clock if that comes in between (hrtimer_interrupt: what may go, goes), or when
    /// another flow's packet makes the queue run (fq_dequeue).
    #[inline(always)]
    pub fn wake(&mut self, now: Nanos, departs: Nanos) -> Nanos {
        if departs <= now || self.slack == Nanos::ZERO {
            return departs;
        }
        let mut late = self.slack.0.min(self.until_tick(departs));
        if self.run_gap.0 > 0 {
            late = late.min(self.random.below(self.run_gap).0);
        }
        departs + Nanos(late)
    }

    /// From `departs` to the next tick, nanoseconds. Mostly that is the same tick as last time: it need not be divided for.
    #[inline(always)]
    fn until_tick(&mut self, departs: Nanos) -> u64 {
        let left = self.next_tick.0.wrapping_sub(departs.0);
        if left.wrapping_sub(1) < self.tick.0 { left } else { self.find_tick(departs) }
    }

    #[inline(never)]
    fn find_tick(&mut self, departs: Nanos) -> u64 {
        let left = self.tick.0 - departs.0 % self.tick.0;
        self.next_tick = departs + Nanos(left);
        left
    }

    /// When a packet that departs at `departs` is on the first link.
    #[inline(always)]
    pub fn pass(&mut self, departs: Nanos) -> Nanos {
        let jitter = if self.jitter > Nanos::ZERO { self.random.below(self.jitter) } else { Nanos::ZERO };
        self.last = (departs + self.delay + jitter).max(self.last);
        self.last
    }

    /// The packet that is on the first link at `now`.
    #[inline]
    pub fn release(&mut self, now: Nanos) -> Option<PacketId> {
        if self.pipe.front().is_some_and(|p| p.0 <= now) { self.pipe.pop_front().map(|p| p.1) } else { None }
    }

    /// When a packet is on a link next that has to be met in time.
    #[inline]
    pub fn next_arrival(&self) -> Nanos {
        self.pipe.front().map_or(self.meeting, |p| p.0.min(self.meeting))
    }
}

/// A download of traffic `objects`.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    pub asked: Nanos,
    pub bytes: u64,
    /// The first segment after it.
    end: u32,
    /// When the receiver had all of it.
    pub complete: Option<Nanos>,
}

/// What an agent-driven flow needs between decisions.
#[derive(Clone)]
pub struct Agent {
    /// Decides within the world; otherwise the world's owner acts.
    pub policy: Option<Box<dyn Decide>>,
    pub action: Arc<Action>,
    pub memory: ActionMemory,
    pub observer: Observer,
    pub safety_filter: Option<SafetyFilter>,
    pub interval: Interval,
    pub next_decision: Nanos,
    /// How much delay counts, in (0, 1]; 0: nothing is preferred.
    pub delay_preference: f64,
}

impl Agent {
    /// Driven from outside.
    pub fn external(preset: &Preset, delay_preference: f64) -> Agent {
        Agent {
            policy: None,
            action: preset.action.clone(),
            memory: ActionMemory::default(),
            observer: Observer::new(preset.observation.clone()),
            safety_filter: preset.safety_filter.clone().map(SafetyFilter::new),
            interval: preset.interval,
            next_decision: Nanos::MAX,
            delay_preference,
        }
    }

    /// Driven from within its world: `decides` is what the policy began there.
    pub fn native(policy: &Policy, decides: Box<dyn Decide>, delay_preference: f64) -> Agent {
        Agent {
            action: policy.action.clone(),
            memory: ActionMemory::default(),
            observer: Observer::new(policy.observation.clone()),
            safety_filter: policy.safety_filter.clone().map(SafetyFilter::new),
            interval: policy.interval,
            next_decision: Nanos::MAX,
            delay_preference,
            policy: Some(decides),
        }
    }

    /// What an answer asks for, as far as the safety filter lets it.
    pub fn control(&mut self, conn: &Conn, stats: &IntervalStats, answer: Answer) -> Control {
        let asked = match answer {
            Answer::Action(action) => (self.action.perform)(conn, stats, f64::from(action), &mut self.memory),
            Answer::Control(asked) => asked,
        };
        match &mut self.safety_filter {
            Some(safety_filter) => safety_filter.hold(stats, asked, &mut self.memory.window),
            None => asked,
        }
    }
}

#[derive(Clone)]
pub struct Flow {
    pub name: String,
    pub controller: String,
    pub datagram: bool,
    /// Its hosts are not the simulator's: they send packets that the world only carries.
    pub hosted: bool,
    pub life: Life,
    pub start: Nanos,
    pub stop: Option<Nanos>,
    /// When it left or was done, and the in-order payload at the receiver then.
    pub ended: Option<(Nanos, u64)>,
    pub sender: Sender,
    pub receiver: Receiver,
    pub traffic: Traffic,
    /// What news of the path its controller asks for.
    pub subscription: Subscription,
    /// Where its first threshold comes from, and which of the world's destinations it connects to.
    pub ssthresh_cache: SsthreshCache,
    pub destination: usize,
    /// Link directions data and ACKs pass, in order.
    pub forward: Vec<u32>,
    pub backward: Vec<u32>,
    /// The paths still to come: links, and where data and ACKs start on the world's routes.
    pub(crate) reroutes: VecDeque<Reroute>,
    /// What observations tell of changes of its path.
    pub handovers: Handovers,
    pub host: HostPipe,
    pub agent: Option<Agent>,
    /// The flow whose agent index in a batch it takes over.
    pub follows: Option<usize>,
    pub meter: Meter,
    pub history: History,
    /// Whether flows of other controllers crossed its bottleneck at the end of its last interval.
    pub beside_others: bool,
    pub stats: IntervalStats,
    pub object_bytes: Option<u64>,
    /// Bytes on the wire of a datagram of its, the headers of every packet with payload, and how long datagrams took.
    pub datagram_bytes: u32,
    pub header_bytes: u32,
    pub delays: Delays,
    /// Downloads so far, and how many of them are complete.
    pub objects: Vec<Object>,
    complete_objects: usize,
    /// The in-order segment that completes an object; the largest number if none is under way.
    pub(crate) awaited: u32,
    /// The second connection of the proxy that this flow ends at, and what a flow that is one relays.
    pub(crate) relayed_by: u32,
    pub(crate) relays: Option<RelaySpec>,
}

/// A path that takes over at a time known from the start.
#[derive(Clone, Debug)]
pub(crate) struct Reroute {
    pub at: Nanos,
    pub forward: Vec<u32>,
    pub backward: Vec<u32>,
    pub data_route: u32,
    pub ack_route: u32,
}

/// The link directions that data and ACKs pass on a path.
fn directions(way: Way) -> (Vec<u32>, Vec<u32>) {
    (way.data().map(|i| i as u32).collect(), way.acks().map(|i| i as u32).collect())
}

impl Flow {
    /// `memory`: intervals of throughput that are kept for rewards.
    pub fn new(spec: &FlowSpec, index: usize, network: &NetworkSpec, agent: Option<Agent>, memory: usize) -> Flow {
        let mut tcp = cc::tcp_of(&spec.controller, &network.tcp).expect("validated");
        if let Some(quic) = spec.quic {
            let frame = tcp.header_bytes.saturating_sub(NetworkSpec::OWN_HEADERS);
            (tcp.mss, tcp.header_bytes) = (quic.payload(), frame + UDP_HEADERS + u32::from(QuicSpec::OVERHEAD));
        }
        let tcp = &tcp;
        let datagram = spec.controller.name == "udp";
        // What is never asked stands for controllers that live elsewhere.
        let controller = if datagram || cc::QUINN.contains(&spec.controller.name.as_str()) {
            Box::new(cc::reno::Reno::default()) as Box<dyn cc::Controller>
        } else {
            let mut chosen = spec.controller.clone();
            if let Some(agent) = &agent
                && !spec.watched
            {
                chosen.params.extend(agent.action.controller.clone());
            }
            cc::build(&chosen, tcp).expect("validated")
        };
        let subscription = controller.subscription();
        let probe_interval = match subscription {
            Subscription::Probes { interval } => interval,
            _ => Nanos::ZERO,
        };
        let mut receiver = Receiver::new(tcp);
        receiver.behave(spec.receiver);
        let wire_bytes = match spec.traffic {
            TrafficSpec::Cbr { packet: Some(bytes), .. } => bytes,
            _ => tcp.mss + tcp.header_bytes,
        };
        let mut sender = Sender::new(tcp, index as u32, controller, receiver.initial_window());
        receiver.agree(sender.ecn(), sender.ect());
        sender.conn.random = Stream::new(network.seed, Purpose::Controller, index as u64);
        let late = match spec.follows {
            Some(_) => Nanos::ZERO,
            None => Stream::new(network.seed, Purpose::StartJitter, index as u64).below(network.noise.start_jitter),
        };
        let (forward, backward) = directions(spec.way_at(Nanos::ZERO));
        let object_bytes = match spec.traffic {
            TrafficSpec::Bytes { bytes } => Some(bytes),
            _ => None,
        };
        Flow {
            name: spec.name.clone(),
            controller: spec.controller.name.clone(),
            datagram,
            hosted: spec.quic.is_some(),
            life: Life::Waiting,
            start: spec.start + late,
            stop: spec.stop,
            ended: None,
            sender,
            receiver,
            subscription,
            traffic: Traffic::new(spec.traffic, probe_interval, wire_bytes, network.seed, index as u64),
            ssthresh_cache: tcp.ssthresh_cache.unwrap_or(tcp.profile().ssthresh_cache),
            destination: network.flows.iter().position(|f| f.path == spec.path).expect("its own at least"),
            forward,
            backward,
            reroutes: spec
                .ways()
                .skip(1)
                .map(|way| {
                    let (forward, backward) = directions(way);
                    Reroute { at: way.from, forward, backward, data_route: 0, ack_route: 0 }
                })
                .collect(),
            host: HostPipe {
                delay: spec.uplink_delay,
                jitter: network.noise.send_jitter,
                slack: tcp.profile().pacing_slack,
                tick: Nanos(1_000_000_000 / u64::from(tcp.hz)),
                next_tick: Nanos::ZERO,
                run_gap: network.noise.queue_run_gap,
                random: Stream::new(network.seed, Purpose::SendJitter, index as u64),
                last: Nanos::ZERO,
                pipe: Ring::default(),
                meeting: Nanos::MAX,
            },
            handovers: Handovers::default(),
            agent,
            follows: spec.follows,
            meter: Meter::new(Nanos::ZERO),
            history: History::new(memory),
            beside_others: false,
            stats: IntervalStats::default(),
            object_bytes,
            datagram_bytes: wire_bytes,
            header_bytes: tcp.header_bytes,
            delays: Delays::default(),
            objects: Vec::new(),
            complete_objects: 0,
            awaited: object_bytes.map_or(u32::MAX, |bytes| bytes.div_ceil(u64::from(tcp.mss)) as u32),
            relayed_by: NOBODY,
            relays: spec.relays,
        }
    }

    /// Somebody asks for an object: it goes behind those under way.
    pub(crate) fn write_object(&mut self, now: Nanos, bytes: u64) {
        self.sender.write(now, self.sender.segments_of(bytes));
        let end = self.sender.write_seq();
        self.objects.push(Object { asked: now, bytes, end, complete: None });
        self.awaited = self.objects[self.complete_objects].end;
    }

    /// The receiver has every segment up to the awaited one.
    pub(crate) fn complete_objects(&mut self, now: Nanos) {
        while let Some(object) = self.objects.get_mut(self.complete_objects)
            && object.end <= self.receiver.rcv_nxt
        {
            object.complete = Some(now);
            self.complete_objects += 1;
        }
        self.awaited = self.objects.get(self.complete_objects).map_or(u32::MAX, |object| object.end);
    }

    /// From now on packets take the next path.
    pub(crate) fn reroute(&mut self) {
        let next = self.reroutes.pop_front().expect("a change of path has a path");
        (self.forward, self.backward) = (next.forward, next.backward);
        (self.sender.route, self.receiver.route) = (next.data_route, next.ack_route);
    }

    /// The link directions that data and ACKs pass, now and after every change of the path.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&[u32], &[u32])> {
        let later = self.reroutes.iter().map(|r| (&r.forward[..], &r.backward[..]));
        std::iter::once((&self.forward[..], &self.backward[..])).chain(later)
    }

    /// An interval has ended, and its statistics are known.
    pub(crate) fn observe(&mut self) {
        self.history.push(&self.stats);
        if let Some(agent) = &mut self.agent {
            agent.observer.push(&self.stats);
        }
    }

    /// What a reward is computed from. A flow that asks for no preference of delay has that of its observation.
    pub fn rewarded(&self) -> RewardedFlow<'_> {
        let flow = RewardedFlow::new(&self.stats, &self.history);
        match &self.agent {
            Some(agent) if flow.preference == 0.0 => {
                RewardedFlow { preference: agent.observer.preference(self.beside_others), ..flow }
            }
            _ => flow,
        }
    }

    /// Does what its sender hands over meet the first link at the same moment?
    #[inline]
    pub fn sends_at_once(&self) -> bool {
        self.host.is_transparent() && !self.sender.paces()
    }

    pub fn is_external(&self) -> bool {
        self.agent.as_ref().is_some_and(|a| a.policy.is_none())
    }

    pub fn next_timer(&self) -> Nanos {
        match self.life {
            Life::Waiting => Nanos::MAX,
            // The receiver still acknowledges what arrives.
            Life::Finished | Life::Left => self.receiver.next_timer(),
            Life::Active => self.sender.next_timer().min(self.receiver.next_timer()).min(self.traffic.next_event()),
        }
    }

    /// In-order payload delivered so far.
    pub fn received_bytes(&self) -> u64 {
        self.object_bytes.map_or(self.receiver.received_bytes, |n| n.min(self.receiver.received_bytes))
    }

    pub fn ended_at(&self) -> Option<Nanos> {
        self.ended.map(|ended| ended.0)
    }

    /// Is it there, or was it when `other` left?
    pub fn is_beside(&self, other: &Flow) -> bool {
        match other.ended_at() {
            Some(at) if self.life != Life::Waiting => self.start < at && self.ended_at().is_none_or(|end| end >= at),
            Some(_) => false,
            None => self.life == Life::Active,
        }
    }

    /// In-order payload delivered by `now` while it was active, over that time; bytes per second.
    pub fn goodput(&self, now: Nanos) -> f64 {
        let (end, received) = self.ended.unwrap_or((now, self.received_bytes()));
        let span = end.saturating_sub(self.start).secs_f64();
        if self.life == Life::Waiting || span == 0.0 { 0.0 } else { received as f64 / span }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_packet_leaves_at_the_end_of_its_timer_s_slack_or_at_a_tick_before() {
        let mut host = HostPipe {
            delay: Nanos::ZERO,
            jitter: Nanos::ZERO,
            slack: Nanos(10_000),
            tick: Nanos::from_millis(4),
            next_tick: Nanos::ZERO,
            run_gap: Nanos::ZERO,
            random: Stream::new(1, Purpose::SendJitter, 0),
            last: Nanos::ZERO,
            pipe: Ring::default(),
            meeting: Nanos::MAX,
        };
        let leaves = |host: &mut HostPipe, us| host.wake(Nanos::from_micros(3_000), Nanos::from_micros(us)).micros();
        assert_eq!(
            [3_500, 3_989, 3_990, 3_999, 4_000].map(|us| leaves(&mut host, us)),
            [3_510, 3_999, 4_000, 4_000, 4_010]
        );
        assert_eq!(leaves(&mut host, 3_000), 3_000, "no timer is needed");
        host.run_gap = Nanos::from_micros(100);
        let early = (0..1_000).filter(|_| leaves(&mut host, 3_500) < 3_510).count();
        assert!((70..130).contains(&early), "{early}");
        host.slack = Nanos::ZERO;
        assert_eq!(leaves(&mut host, 3_500), 3_500);
    }
}
