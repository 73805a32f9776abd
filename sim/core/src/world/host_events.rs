//! Events at hosts: start, timers and end of flows.

use crate::cc::SSTHRESH_INFINITE;
use crate::flow::Life;
use crate::packet::{Kind, PROBE_BYTES, Packet};
use crate::spec::{SsthreshCache, TrafficSpec};
use crate::time::Nanos;
use crate::traffic::Action;

use super::World;
use super::guests::Call;

impl World {
    pub(crate) fn start_flow(&mut self, i: usize) {
        let now = self.now;
        let rtt = self.handshake_rtt(i);
        let simulated = self.kernel_hosts.is_none() && !self.flows[i].hosted;
        let offers = simulated || self.guests.is_some();
        self.call_guest(i, Call::Start);
        let flow = &mut self.flows[i];
        flow.life = Life::Active;
        flow.meter = crate::observe::stats::Meter::new(now);
        if offers {
            flow.traffic.start(now);
        }
        if simulated && !flow.datagram {
            let cached = match flow.ssthresh_cache {
                SsthreshCache::Off => None,
                SsthreshCache::Live => self.destinations[flow.destination].ssthresh(now),
                SsthreshCache::Segments(n) => Some(n),
            };
            flow.sender.conn.ssthresh = cached.unwrap_or(SSTHRESH_INFINITE);
            flow.sender.establish(now, rtt);
            flow.receiver.establish(now, rtt);
            match flow.traffic.spec {
                TrafficSpec::Bulk if flow.relays.is_none() => flow.sender.write_bulk(),
                TrafficSpec::Bytes { bytes } if flow.relays.is_none() => flow.sender.write_object(bytes),
                TrafficSpec::Bytes { bytes } => flow.sender.expect_object(bytes),
                TrafficSpec::Bulk => {}
                TrafficSpec::Cbr { .. } | TrafficSpec::OnOff { .. } | TrafficSpec::Objects { .. } => {}
            }
            flow.sender.transmit(&mut self.pool);
        }
        if let Some(agent) = &mut flow.agent
            && agent.policy.is_some()
        {
            agent.next_decision = agent.interval.next_on_grid(now);
            self.next_decision = self.next_decision.min(agent.next_decision);
        }
        self.capture_start(i, rtt);
        self.dispatch_data(i);
        if simulated && let Some(relay) = self.flows[i].relays {
            self.relay_data(relay.from);
        }
    }

    pub(crate) fn end_flow(&mut self, i: usize, life: Life) {
        let flow = &mut self.flows[i];
        if flow.life != Life::Active {
            return;
        }
        flow.life = life;
        flow.ended = Some((self.now, flow.received_bytes()));
        if flow.ssthresh_cache == SsthreshCache::Live && !flow.datagram {
            let sender = &flow.sender;
            self.destinations[flow.destination].remember(self.now, &sender.conn, sender.rtt.backoff);
        }
        flow.traffic.stop();
        self.call_guest(i, Call::End);
        let flow = &mut self.flows[i];
        if let Some(agent) = &mut flow.agent {
            agent.next_decision = Nanos::MAX;
        }
        self.rekey_flow(i);
    }

    /// The application of a flow whose hosts are not ours acts.
    fn offer_to_guest(&mut self, i: usize, action: Action) {
        self.call_guest(i, Call::Traffic(action));
        self.rekey_flow(i);
    }

    pub(crate) fn on_flow_timer(&mut self, i: usize) {
        let now = self.now;
        let flow = &mut self.flows[i];
        flow.receiver.on_timer(now, i as u32, &mut self.pool);
        self.dispatch_acks();
        let flow = &mut self.flows[i];
        if flow.life == Life::Active {
            if flow.traffic.next_event() <= now {
                let action = flow.traffic.on_timer(now);
                if flow.hosted {
                    if let Action::Object(bytes) = action {
                        flow.write_object(now, bytes);
                    }
                    return self.offer_to_guest(i, action);
                }
                // Nothing else makes TCP send: data that it held back waits for an acknowledgement or its timers.
                let writes = matches!(action, Action::Write | Action::Object(_) | Action::StartBulk);
                match action {
                    Action::Nothing => {}
                    Action::Write if flow.datagram => {
                        flow.sender.counters.sent += 1;
                        let size = flow.datagram_bytes as u16;
                        let (flow, route) = (i as u32, flow.sender.route);
                        let datagram = Packet { ts: now, flow, route, size, ..Packet::default() };
                        *self.pool.send() = Packet { kind: Kind::Datagram, ..datagram };
                    }
                    Action::Write => flow.sender.write(now, 1),
                    Action::Object(bytes) => flow.write_object(now, bytes),
                    Action::Probe => {
                        let (flow, route) = (i as u32, flow.sender.route);
                        let probe = Packet { ts: now, flow, route, size: PROBE_BYTES as u16, ..Packet::default() };
                        *self.pool.send() = Packet { kind: Kind::Probe, ..probe };
                    }
                    Action::StartBulk => flow.sender.start_writing(now),
                    Action::StopBulk => flow.sender.stop_writing(),
                }
                if writes && !flow.datagram {
                    flow.sender.transmit_new(&mut self.pool);
                }
            }
            if flow.sender.next_timer() <= now {
                flow.sender.on_timer(now, &mut self.pool);
            }
        }
        if self.capture.is_some() {
            self.capture_state(i);
        }
        self.dispatch_data(i);
    }
}
