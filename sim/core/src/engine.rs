//! The event loop: take the earliest source, do what it says, update the keys of what it touched.

use crate::cc::{SSTHRESH_INFINITE, Signal};
use crate::flow::Life;
use crate::link::Offer;
use crate::observe::astraea;
use crate::packet::{Kind, Packet};
use crate::pool::PacketId;
use crate::spec::{SsthreshCache, TrafficSpec};
use crate::tcp::{self, receiver::Arrival};
use crate::time::Nanos;
use crate::traffic::Action;
use crate::world::{Control, ROUTE_END, World};

/// An echo request of `ping` with its 56 bytes of data, in an Ethernet frame.
const PROBE_BYTES: u16 = 98;

impl World {
    /// Process every event up to and including `end`. Native policies decide after the events of their instant.
    pub fn run_until(&mut self, end: Nanos) {
        let end = end.min(self.duration);
        loop {
            let sample = self.recorder.as_ref().map_or(Nanos::MAX, |r| r.next_sample());
            // Samples see the state before the events of their instant, decisions the state after.
            self.pause_at = end.min(self.next_decision).min(sample.saturating_sub(Nanos(1)));
            self.run_events();
            if sample <= end.min(self.next_decision) {
                self.now = sample;
                self.sample();
            } else if self.next_decision <= end {
                self.now = self.next_decision;
                self.decide();
            } else {
                self.now = self.now.max(end);
                return;
            }
        }
    }

    /// The hot loop: every event up to `pause_at`.
    fn run_events(&mut self) {
        loop {
            let (at, source) = self.schedule.next();
            if at > self.pause_at {
                return;
            }
            self.now = at;
            self.events += 1;
            self.hash = (self.hash.rotate_left(5) ^ at.0 ^ ((source as u64) << 48)).wrapping_mul(0x517c_c1b7_2722_0a95);
            // Source 0 is the list of known changes, then come links, then flows.
            if source == 0 {
                self.on_control();
            } else if source <= self.links.len() {
                self.on_link(source - 1);
            } else {
                self.on_flow(source - 1 - self.links.len());
            }
        }
    }

    pub fn run(&mut self) {
        self.run_until(self.duration);
    }

    fn on_control(&mut self) {
        let (_, control) = self.controls[self.next_control];
        self.next_control += 1;
        let next = self.controls.get(self.next_control).map_or(Nanos::MAX, |c| c.0);
        self.schedule.set(0, next);
        let now = self.now;
        match control {
            Control::Rate { link } => {
                self.links[link as usize].change_rate(now);
                self.rekey_link(link as usize);
            }
            Control::OutageStart { link, mode, flush } => {
                self.links[link as usize].start_outage(now, mode, flush, &mut self.pool);
                self.rekey_link(link as usize);
            }
            Control::OutageEnd { link } => {
                self.links[link as usize].end_outage(now);
                self.rekey_link(link as usize);
            }
            Control::FlowStart { flow } => self.start_flow(flow as usize),
            Control::Signal { flow, signal } => self.flows[flow as usize].sender.on_signal(now, signal),
            Control::Reroute { flow } => self.flows[flow as usize].reroute(),
            Control::FlowStop { flow } => self.end_flow(flow as usize, Life::Left),
        }
    }

    fn start_flow(&mut self, i: usize) {
        let now = self.now;
        let rtt = self.handshake_rtt(i);
        let flow = &mut self.flows[i];
        flow.life = Life::Active;
        flow.meter = crate::observe::stats::Meter::new(now);
        flow.traffic.start(now);
        if !flow.datagram {
            let cached = match flow.ssthresh_cache {
                SsthreshCache::Off => None,
                SsthreshCache::Live => self.destinations[flow.destination].ssthresh(now),
                SsthreshCache::Segments(n) => Some(n),
            };
            flow.sender.conn.ssthresh = cached.unwrap_or(SSTHRESH_INFINITE);
            flow.sender.establish(now, rtt);
            flow.receiver.establish(now, rtt);
            match flow.traffic.spec {
                TrafficSpec::Bulk => flow.sender.write_bulk(),
                TrafficSpec::Bytes { bytes } => flow.sender.write_object(bytes),
                TrafficSpec::Cbr { .. } | TrafficSpec::OnOff { .. } | TrafficSpec::Objects { .. } => {}
            }
            flow.sender.transmit(&mut self.pool);
        }
        if let Some(agent) = &mut flow.agent
            && let Some(policy) = &agent.policy
        {
            agent.next_decision = next_on_grid(now, policy.interval);
            self.next_decision = self.next_decision.min(agent.next_decision);
            self.pause_at = self.pause_at.min(self.next_decision);
        }
        self.dispatch_data(i);
    }

    pub(crate) fn end_flow(&mut self, i: usize, life: Life) {
        let flow = &mut self.flows[i];
        if flow.life != Life::Active {
            return;
        }
        flow.life = life;
        flow.ended_at = Some(self.now);
        if flow.ssthresh_cache == SsthreshCache::Live && !flow.datagram {
            let sender = &flow.sender;
            self.destinations[flow.destination].remember(self.now, &sender.conn, sender.rtt.backoff);
        }
        flow.traffic.stop();
        if let Some(agent) = &mut flow.agent {
            agent.next_decision = Nanos::MAX;
        }
        self.rekey_flow(i);
    }

    fn on_link(&mut self, link: usize) {
        let now = self.now;
        if self.links[link].departs_at() > now {
            let id = self.links[link].arrive();
            self.rekey_link(link);
            return self.forward(id);
        }
        let (id, outcome) = self.links[link].depart(now, &mut self.pool);
        self.rekey_link(link);
        match outcome {
            Offer::Through => self.forward(id),
            Offer::Held => {}
            Offer::Gone => self.pool.release(id),
        }
    }

    fn on_flow(&mut self, i: usize) {
        let host = &mut self.flows[i].host;
        if host.next_arrival() > self.now {
            return self.on_flow_timer(i);
        }
        let (_, id) = host.pipe.pop_front().expect("a host event has a packet");
        self.rekey_flow(i);
        self.enter_link(id);
    }

    /// A packet has passed its present hop: next link, or the host at the end.
    fn forward(&mut self, id: PacketId) {
        self.pool.get_mut(id).route += 1;
        self.enter_link(id);
    }

    fn enter_link(&mut self, id: PacketId) {
        loop {
            let packet = self.pool.get(id);
            let link = self.routes[packet.route as usize] as usize;
            if link == ROUTE_END as usize {
                return self.deliver(id);
            }
            let size = u32::from(packet.size);
            match self.links[link].offer(self.now, id, size, &mut self.pool) {
                Offer::Through => self.pool.get_mut(id).route += 1,
                Offer::Held => return self.rekey_link(link),
                Offer::Gone => return self.pool.release(id),
            }
        }
    }

    fn deliver(&mut self, id: PacketId) {
        let packet = self.pool.get(id);
        let i = packet.flow as usize;
        let now = self.now;
        let flow = &mut self.flows[i];
        match packet.kind {
            Kind::Datagram => {
                flow.receiver.received_bytes += u64::from(flow.sender.conn.mss);
                self.pool.release(id);
            }
            Kind::Probe => {
                let (ts, flow_number, route) = (packet.ts, packet.flow, flow.receiver.route);
                self.pool.release(id);
                let reply = Packet { ts, flow: flow_number, route, size: PROBE_BYTES, ..Packet::default() };
                *self.pool.send() = Packet { kind: Kind::ProbeReply, ..reply };
                self.dispatch_acks();
            }
            Kind::ProbeReply => {
                let rtt_us = (now - packet.ts).micros() as u32;
                self.pool.release(id);
                flow.sender.on_signal(now, Signal::Pong { rtt_us });
            }
            Kind::Data => {
                let segment = Arrival {
                    flow: packet.flow,
                    seq: packet.seq,
                    ts: packet.ts,
                    ts_echo: packet.ts_echo,
                    payload: u64::from(flow.sender.payload(packet.seq)),
                };
                self.pool.release(id);
                flow.receiver.on_data(now, segment, &mut self.pool);
                if flow.receiver.rcv_nxt >= flow.awaited {
                    flow.complete_objects(now);
                    if flow.object_bytes.is_some() {
                        self.end_flow(i, Life::Finished);
                    }
                }
                let flow = &self.flows[i];
                // A timer that moved back is noticed when its old time comes.
                let timer = flow.receiver.next_timer();
                self.schedule.bring_forward(1 + self.links.len() + i, timer);
                self.dispatch_acks();
            }
            Kind::Ack | Kind::AckDsack => {
                let ack = *packet;
                self.pool.release(id);
                if flow.life != Life::Active {
                    return;
                }
                flow.sender.on_ack(now, &ack, &mut self.pool);
                flow.meter.on_ack(flow.sender.last_rtt_us, flow.sender.last_rate);
                self.dispatch_data(i);
            }
        }
    }

    /// Send the ACKs just made on their way back.
    fn dispatch_acks(&mut self) {
        // An ACK can reach its sender at once (no delay at all) and make it send: those are dispatched in that call.
        match self.pool.sent_len() {
            0 => {}
            1 => {
                let id = self.pool.sent_id(0);
                self.pool.clear_sent();
                self.enter_link(id);
            }
            _ => {
                let (first, second) = (self.pool.sent_id(0), self.pool.sent_id(1));
                self.pool.clear_sent();
                self.enter_link(first);
                self.enter_link(second);
            }
        }
    }

    fn on_flow_timer(&mut self, i: usize) {
        let now = self.now;
        let flow = &mut self.flows[i];
        flow.receiver.on_timer(now, i as u32, &mut self.pool);
        self.dispatch_acks();
        let flow = &mut self.flows[i];
        if flow.life == Life::Active {
            if flow.traffic.next_event() <= now {
                match flow.traffic.on_timer(now) {
                    Action::Nothing => {}
                    Action::Write if flow.datagram => {
                        flow.sender.counters.sent += 1;
                        let size = self.wire_bytes as u16;
                        let (flow, route) = (i as u32, flow.sender.route);
                        *self.pool.send() = Packet { flow, route, size, kind: Kind::Datagram, ..Packet::default() };
                    }
                    Action::Write => flow.sender.write(now, 1),
                    Action::Object(bytes) => flow.write_object(now, bytes),
                    Action::Probe => {
                        let (flow, route) = (i as u32, flow.sender.route);
                        let probe = Packet { ts: now, flow, route, size: PROBE_BYTES, ..Packet::default() };
                        *self.pool.send() = Packet { kind: Kind::Probe, ..probe };
                    }
                    Action::StartBulk => flow.sender.start_writing(now),
                    Action::StopBulk => flow.sender.stop_writing(),
                }
                if !flow.datagram {
                    flow.sender.transmit_new(&mut self.pool);
                }
            }
            if flow.sender.next_timer() <= now {
                flow.sender.on_timer(now, &mut self.pool);
            }
        }
        self.dispatch_data(i);
    }

    /// Put the data flow `i` just sent on its way.
    fn dispatch_data(&mut self, i: usize) {
        if self.pool.sent_len() > 0 {
            let flow = &mut self.flows[i];
            if flow.host.is_transparent() && !flow.sender.cc.paces() {
                // Delivery may make packets of its own: take the list first.
                let mut list = std::mem::take(&mut self.departing);
                list.extend((0..self.pool.sent_len()).map(|k| self.pool.sent_id(k)));
                self.pool.clear_sent();
                list.iter().for_each(|id| self.enter_link(*id));
                list.clear();
                self.departing = list;
            } else {
                for k in 0..self.pool.sent_len() {
                    let id = self.pool.sent_id(k);
                    let packet = self.pool.get(id);
                    let departs = if packet.kind == Kind::Data { tcp::departure(packet.ts) } else { self.now };
                    flow.host.push(departs, id);
                }
                self.pool.clear_sent();
            }
        }
        self.rekey_flow(i);
    }

    /// Decisions of native policies that are due now: all observe, then all act.
    fn decide(&mut self) {
        let now = self.now;
        let due = |f: &crate::flow::Flow| f.agent.as_ref().is_some_and(|a| a.next_decision == now);
        self.close_intervals(due);
        let mut next = Nanos::MAX;
        let mut acting = Vec::new();
        for (i, flow) in self.flows.iter_mut().enumerate() {
            let Some(agent) = &mut flow.agent else {
                continue;
            };
            let Some(policy) = &agent.policy else {
                continue;
            };
            if agent.next_decision == now {
                let mut action = [0.0];
                policy.act(flow.history.observation(), &mut action);
                agent.action = action[0];
                agent.next_decision = now + policy.interval;
                acting.push((i, action[0]));
            }
            next = next.min(agent.next_decision);
        }
        self.next_decision = next;
        for (i, action) in acting {
            self.apply_action(i, action);
        }
    }

    /// Move flow `i`'s window by a preset action in [-1, 1].
    pub fn apply_action(&mut self, i: usize, action: f32) {
        let cwnd = astraea::act(self.flows[i].sender.conn.cwnd, f64::from(action));
        self.set_window(i, cwnd, None);
    }

    /// Set flow `i`'s window (segments) and, if given, its pacing rate (bytes per second).
    pub fn set_window(&mut self, i: usize, cwnd: u32, pacing: Option<u64>) {
        if self.flows[i].life != Life::Active {
            return;
        }
        let now = self.now;
        self.flows[i].sender.set_window(now, cwnd, pacing, &mut self.pool);
        self.dispatch_data(i);
    }
}

/// The first multiple of `interval` after `now`.
fn next_on_grid(now: Nanos, interval: Nanos) -> Nanos {
    Nanos((now.0 / interval.0 + 1) * interval.0)
}
