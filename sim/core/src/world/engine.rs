//! The event loop: take the earliest source, do what it says, update the keys of what it touched.

use crate::cc::Signal;
use crate::flow::Life;
use crate::link::{Entry, Offer};
use crate::packet::{Kind, PROBE_BYTES, Packet};
use crate::pool::PacketId;
use crate::tcp::{self, receiver::Arrival};
use crate::time::Nanos;

use super::{Control, ROUTE_END, World};

/// The source of changes known from the start; the others are numbered as in the schedule.
const KNOWN_CHANGE: usize = usize::MAX;

impl World {
    /// Process every event up to and including `end`. Policies decide after the events of their instant; one that
    /// cannot stops the world for good.
    pub fn run_until(&mut self, end: Nanos) {
        let end = end.min(self.duration);
        if self.has_kernel_hosts() {
            self.follow_until(end);
        } else {
            self.simulate_until(end);
        }
        self.end_recording();
    }

    fn simulate_until(&mut self, end: Nanos) {
        while self.failure.is_none() {
            let sample = self.recorder.as_ref().map_or(Nanos::MAX, |r| r.next_sample());
            let change = self.next_change();
            // At the very end nobody acts any more, as in an environment.
            let decision = if self.next_decision < self.duration { self.next_decision } else { Nanos::MAX };
            let last = end.min(decision);
            // Samples see the state before the events of their instant, which known changes open; decisions see the
            // state after them.
            let until = sample.min(change).min(last + Nanos(1));
            if self.guests.is_some() {
                self.run_with_guests(until);
            } else {
                self.run_events(until);
            }
            if sample <= change.min(last) {
                self.now = sample;
                self.sample();
            } else if change <= last {
                self.now = change;
                self.on_control();
            } else if decision <= end {
                self.now = decision;
                self.decide();
            } else {
                self.now = self.now.max(end);
                return;
            }
        }
    }

    /// The hot loop: every event before `until`.
    pub(super) fn run_events(&mut self, until: Nanos) {
        loop {
            let (at, source) = self.schedule.next();
            if at >= until {
                return self.meet_at_edges(until);
            }
            debug_assert!(at >= self.now, "an event in the past");
            self.now = at;
            self.on_event(source);
        }
    }

    /// The hash knows what hosts of other stacks do.
    pub(super) fn log_guests(&mut self) {
        self.log(KNOWN_CHANGE - 1, self.now);
    }

    /// Process the packets that arrived at links at the edge before `end`.
    fn meet_at_edges(&mut self, end: Nanos) {
        for k in 0..self.edges.len() {
            let link = self.edges[k] as usize;
            self.links[link].meet((end, 0), &mut self.pool);
            self.rekey_link(link);
        }
    }

    /// Add an observable event of `source` at `at` to the hash: an arrival, a timer of a flow, or a change. The hash
    /// does not depend on the order of the events, nor on whether departures were events.
    #[inline]
    fn log(&mut self, source: usize, at: Nanos) {
        self.events += 1;
        let event = (at.0 ^ ((source as u64) << 48)).wrapping_mul(0x517c_c1b7_2722_0a95);
        self.hash = self.hash.wrapping_add(event ^ (event >> 32));
    }

    pub fn run(&mut self) {
        self.run_until(self.duration);
    }

    pub(crate) fn next_change(&self) -> Nanos {
        self.controls.get(self.next_control).map_or(Nanos::MAX, |c| c.0)
    }

    pub(crate) fn on_control(&mut self) {
        let (_, control) = self.controls[self.next_control];
        self.next_control += 1;
        let now = self.now;
        if !matches!(control, Control::Loss { .. }) {
            self.log(KNOWN_CHANGE, now);
        }
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
            Control::Loss { link } => self.rekey_link(link as usize),
            Control::FlowStart { flow } => self.start_flow(flow as usize),
            Control::Signal { flow, signal } => self.flows[flow as usize].sender.on_signal(now, signal),
            Control::Reroute { flow } => self.flows[flow as usize].reroute(),
            Control::FlowStop { flow } => self.end_flow(flow as usize, Life::Left),
        }
    }

    /// Sources are the links and, behind them, the flows.
    #[inline(always)]
    fn on_event(&mut self, number: usize) {
        let now = self.now;
        let Some(link) = self.links.get_mut(number) else {
            let flow = number - self.links.len();
            self.turn = flow as u32;
            self.on_flow(flow);
            self.turn = 0;
            return;
        };
        if link.departs_at() <= now {
            link.meet((now, 0), &mut self.pool);
            link.depart(now, &mut self.pool);
            self.events += 1;
            self.rekey_link(number);
        } else if link.next_arrival() <= now {
            let Entry { id, size, route, .. } = link.arrive();
            if link.next_arrival().is_never() && link.expecting() > 0 {
                link.meet((now, 0), &mut self.pool);
                self.rekey_link(number);
            } else {
                self.schedule.set(number, link.next_event());
            }
            self.log(number, now);
            self.forward(id, size, route);
        } else {
            // Its departure has taken place with an arrival.
            self.schedule.set(number, link.next_event());
        }
    }

    fn on_flow(&mut self, i: usize) {
        if self.flows[i].host.meeting <= self.now {
            self.meet_in_time(i);
        }
        match self.flows[i].host.release(self.now) {
            Some(id) => {
                self.rekey_flow(i);
                self.enter_route(id);
            }
            // A timer may have moved back since.
            None if self.flows[i].next_timer() > self.now => self.rekey_flow(i),
            None => {
                self.log(self.links.len() + i, self.now);
                self.on_flow_timer(i);
                self.rekey_flow(i);
            }
        }
    }

    /// Edges meet packets of flow `i` that cannot wait. After a change of its path it may have some at two edges.
    #[inline(never)]
    fn meet_in_time(&mut self, i: usize) {
        self.flows[i].host.meeting = Nanos::MAX;
        for k in 0..self.edges.len() {
            let link = self.edges[k] as usize;
            match self.links[link].next_meeting(&self.pool) {
                Some((at, flow)) if flow == i as u32 && at == self.now => {
                    self.links[link].meet((at, flow + 1), &mut self.pool);
                    self.rekey_link(link);
                }
                Some((at, flow)) if flow == i as u32 => {
                    let host = &mut self.flows[i].host;
                    host.meeting = host.meeting.min(at);
                }
                _ => {}
            }
        }
    }

    /// A packet has passed its present hop: next link, or the host at the end.
    #[inline(always)]
    fn forward(&mut self, id: PacketId, size: u32, route: u32) {
        let route = route + 1;
        match self.routes[route as usize] {
            ROUTE_END => self.deliver(id),
            link => self.offer(link as usize, id, size, route),
        }
    }

    /// A new packet meets the first link of its route.
    #[inline(always)]
    pub(crate) fn enter_route(&mut self, id: PacketId) {
        let packet = self.pool.get(id);
        let (size, route) = (u32::from(packet.size), packet.route);
        self.offer(self.routes[route as usize] as usize, id, size, route);
    }

    /// A packet meets link direction `link`.
    #[inline(always)]
    fn offer(&mut self, link: usize, id: PacketId, size: u32, route: u32) {
        #[cfg(debug_assertions)]
        let before = self.links[link].next_event();
        match self.links[link].offer(self.now, id, size, route, &mut self.pool) {
            Offer::Joined => {
                #[cfg(debug_assertions)]
                assert!(self.links[link].next_event() >= before, "the link's key would be too late");
            }
            Offer::Held => self.rekey_link(link),
            outcome => self.pass_on(id, size, route, outcome),
        }
    }

    /// What became of a packet that a link let go.
    #[inline(never)]
    fn pass_on(&mut self, id: PacketId, size: u32, route: u32, outcome: Offer) {
        match outcome {
            Offer::Through => {
                self.events += 1;
                self.forward(id, size, route);
            }
            Offer::Held | Offer::Joined => {}
            Offer::Gone => self.pool.release(id),
        }
    }

    #[inline(always)]
    fn deliver(&mut self, id: PacketId) {
        let packet = self.pool.get(id);
        let i = packet.flow as usize;
        match packet.kind {
            Kind::Data => self.deliver_data(i, id),
            Kind::Ack | Kind::AckDsack => self.deliver_ack(i, id),
            _ => self.deliver_other(i, id),
        }
    }

    #[inline(always)]
    fn deliver_data(&mut self, i: usize, id: PacketId) {
        let packet = self.pool.get(id);
        let flow = &mut self.flows[i];
        let segment = Arrival {
            flow: packet.flow,
            seq: packet.seq,
            ts: packet.ts,
            ts_echo: packet.ts_echo,
            marks: packet.marks,
            payload: u64::from(u32::from(packet.size) - flow.header_bytes),
        };
        self.pool.release(id);
        flow.receiver.on_data(self.now, segment, &mut self.pool);
        // A timer that moved back is noticed when its old time comes.
        let timer = flow.receiver.next_timer();
        if flow.receiver.rcv_nxt >= flow.awaited {
            flow.complete_objects(self.now);
            if flow.object_bytes.is_some() {
                self.end_flow(i, Life::Finished);
            }
        }
        self.schedule.bring_forward(self.links.len() + i, timer);
        self.dispatch_acks();
        if self.has_relays {
            self.relay_data(i);
        }
    }

    #[inline(always)]
    fn deliver_ack(&mut self, i: usize, id: PacketId) {
        let ack = *self.pool.get(id);
        self.pool.release(id);
        let flow = &mut self.flows[i];
        if flow.life != Life::Active {
            return self.capture_ack(i, &ack);
        }
        flow.sender.on_ack(self.now, &ack, &mut self.pool);
        flow.meter.on_ack(self.now, flow.sender.last_rtt_us, flow.sender.last_rate());
        if self.capture.is_some() {
            self.capture_ack(i, &ack);
        }
        self.dispatch_data(i);
        if self.has_relays {
            self.relay_room(i);
        }
    }

    /// Of what is not TCP.
    #[inline(never)]
    fn deliver_other(&mut self, i: usize, id: PacketId) {
        if let Some(carried) = &mut self.carried
            && self.pool.get(id).kind == Kind::Carried
        {
            return carried.push_back((self.now, id));
        }
        let packet = self.pool.get(id);
        let flow = &mut self.flows[i];
        let (kind, ts, number, size) = (packet.kind, packet.ts, packet.flow, packet.size);
        self.pool.release(id);
        match kind {
            Kind::Probe => {
                let reply = Packet {
                    ts,
                    flow: number,
                    route: flow.receiver.route,
                    size: PROBE_BYTES as u16,
                    ..Packet::default()
                };
                *self.pool.send() = Packet { kind: Kind::ProbeReply, ..reply };
                self.dispatch_acks();
            }
            Kind::ProbeReply => {
                let rtt_us = tcp::rtt::rtt_us(ts.micros(), self.now.micros());
                flow.sender.on_signal(self.now, Signal::Pong { rtt_us });
                self.capture_reply(i, size);
            }
            Kind::WindowProbe => {
                flow.receiver.on_window_probe(self.now, number, &mut self.pool);
                self.dispatch_acks();
            }
            _ => {
                flow.receiver.received_bytes += u64::from(flow.datagram_bytes) - u64::from(flow.header_bytes);
                flow.delays.push(self.now - ts);
            }
        }
    }

    /// Send the ACKs just made on their way back.
    #[inline(always)]
    pub(crate) fn dispatch_acks(&mut self) {
        // An ACK can reach its sender at once (no delay at all) and make it send: those are dispatched in that call.
        match self.pool.sent_len() {
            0 => {}
            1 => {
                let id = self.pool.sent_id(0);
                self.pool.clear_sent();
                self.enter_route(id);
            }
            2 => {
                let (first, second) = (self.pool.sent_id(0), self.pool.sent_id(1));
                self.pool.clear_sent();
                self.enter_route(first);
                self.enter_route(second);
            }
            _ => self.dispatch_pieces(),
        }
    }

    /// Those of a receiver that divides them.
    #[cold]
    #[inline(never)]
    fn dispatch_pieces(&mut self) {
        let pieces: Vec<PacketId> = (0..self.pool.sent_len()).map(|k| self.pool.sent_id(k)).collect();
        self.pool.clear_sent();
        pieces.into_iter().for_each(|id| self.enter_route(id));
    }

    /// Put the data flow `i` just sent on its way.
    #[inline(always)]
    pub(crate) fn dispatch_data(&mut self, i: usize) {
        if self.pool.sent_len() > 0 {
            if self.capture.is_some() && !self.flows[i].hosted {
                self.capture_sent(i);
            }
            if self.flows[i].sends_at_once() {
                self.depart_at_once();
            } else {
                self.depart_in_time(i);
            }
        }
        let flow = &self.flows[i];
        let (source, next) = (self.links.len() + i, flow.host.next_arrival().min(flow.next_timer()));
        if flow.sender.is_held_back() {
            self.schedule.set(source, next);
        } else {
            // A timer that moved back is noticed when its old time comes: that is soon only for a pacer's.
            self.schedule.bring_forward(source, next);
        }
    }

    /// What was sent passes its host, and meets the first link later.
    #[inline(always)]
    fn depart_in_time(&mut self, i: usize) {
        let flow = &mut self.flows[i];
        let first = self.routes[flow.sender.route as usize] as usize;
        let (link, host, paces) = (&mut self.links[first], &mut flow.host, flow.sender.paces());
        let turn = (self.now, self.turn);
        let mut sooner = false;
        for k in 0..self.pool.sent_len() {
            let id = self.pool.sent_id(k);
            let packet = self.pool.get(id);
            // Only TCP's segments are paced.
            let paced = paces && packet.kind == Kind::Data;
            let departs = if paced { host.wake(self.now, tcp::departure(packet.ts)) } else { self.now };
            let at = host.pass(departs);
            if link.is_edge() {
                let (size, route) = (u32::from(packet.size), packet.route);
                sooner |= link.announce(at, id, size, route, turn, &mut self.pool);
            } else {
                host.pipe.push_back((at, id));
            }
        }
        self.pool.clear_sent();
        if sooner {
            self.rekey_link(first);
        }
    }

    /// A host without delay or jitter: what was sent is on the first link now.
    #[inline(never)]
    fn depart_at_once(&mut self) {
        // Delivery may make packets of its own: take the list first.
        let mut list = std::mem::take(&mut self.departing);
        list.extend((0..self.pool.sent_len()).map(|k| self.pool.sent_id(k)));
        self.pool.clear_sent();
        let first = self.routes[self.pool.get(list[0]).route as usize] as usize;
        if self.links[first].expecting() > 0 {
            self.links[first].meet((self.now, self.turn), &mut self.pool);
            self.rekey_link(first);
        }
        list.iter().for_each(|id| self.enter_route(*id));
        list.clear();
        self.departing = list;
    }
}
