//! Hosts of QUIC for the simulator: the state machine of quinn (crate quinn-proto) in virtual time, with packets over the
//! simulator's links ([`orbitcc_core::world::guests`]). The client sends; the server receives and acknowledges.
//!
//! Runs repeat bit for bit: time is the world's, everything random comes from its seed, and keys hide nothing.

#![forbid(unsafe_code)]

mod connection;
mod crypto;
pub mod ledger;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use orbitcc_core::flow::UDP_HEADERS;
use orbitcc_core::pool::PacketId;
use orbitcc_core::spec::{FlowSpec, NetworkSpec};
use orbitcc_core::tcp::sender::kernel_reading::FlowReading;
use orbitcc_core::time::Nanos;
use orbitcc_core::traffic::Action;
use orbitcc_core::world::World;
use orbitcc_core::world::guests::{Call, Guests};

use connection::Connection;

/// A packet on its way, by its number in the world.
#[derive(Default)]
struct Carrying {
    flow: u32,
    to_server: bool,
    bytes: BytesMut,
}

/// The hosts of a world's flows of QUIC.
pub struct Hosts {
    /// Of time zero; only differences count.
    zero: Instant,
    /// By flow; None: a flow of TCP, or not started yet.
    connections: Vec<Option<Connection>>,
    /// (when, flow) of the next timer of each connection.
    timers: BTreeSet<(Nanos, usize)>,
    on_the_way: Vec<Carrying>,
    /// Bytes that a link counts on top of a packet's own.
    overhead: u32,
    network: Arc<NetworkSpec>,
    logs: bool,
}

/// Give the flows of QUIC in `world`, which is that of `spec`, their hosts.
pub fn host(spec: &NetworkSpec, world: &mut World) {
    if world.flows().iter().all(|flow| !flow.hosted) {
        return;
    }
    let frame = spec.tcp.header_bytes.saturating_sub(NetworkSpec::OWN_HEADERS);
    let connections = world.flows().iter().map(|_| None).collect();
    let flows = spec.flows.iter().map(|flow| FlowSpec { reroutes: Vec::new(), ..flow.clone() });
    let network = NetworkSpec { links: Vec::new(), flows: flows.collect(), ..spec.clone() };
    world.host(Arc::new(Mutex::new(Hosts {
        zero: Instant::now(),
        connections,
        timers: BTreeSet::new(),
        on_the_way: Vec::new(),
        overhead: UDP_HEADERS + frame,
        network: Arc::new(network),
        logs: false,
    })));
}

impl Hosts {
    /// Let a flow's hosts do what they can now, and put their packets on the links.
    fn drive(&mut self, world: &mut World, flow: usize) {
        let now = world.now();
        let Some(connection) = &mut self.connections[flow] else { return };
        let at = self.zero + Duration::from_nanos(now.0);
        self.timers.remove(&(connection.timer, flow));
        let (carrying, overhead) = (&mut self.on_the_way, self.overhead);
        connection.drive(now, at, |to_server, ecn, packet: &[u8]| {
            let size = packet.len() as u32 + overhead;
            let id = world.inject(flow, !to_server, flow as u32, size, ecn) as usize;
            if carrying.len() < world.packet_numbers() {
                carrying.resize_with(world.packet_numbers(), Carrying::default);
            }
            let place = &mut carrying[id];
            (place.flow, place.to_server) = (flow as u32, to_server);
            place.bytes.clear();
            place.bytes.extend_from_slice(packet);
        });
        if !connection.timer.is_never() {
            self.timers.insert((connection.timer, flow));
        }
        let (received, lost) = (connection.received(), connection.is_lost());
        if received > 0 {
            world.receive(flow, received);
        }
        if lost {
            world.lose(flow);
        }
    }

    fn start(&mut self, world: &mut World, flow: usize) {
        let now = world.now();
        let at = self.zero + Duration::from_nanos(now.0);
        let connection = Connection::new(&self.network, flow, &world.flows()[flow].sender, self.zero, at, self.logs);
        self.connections[flow] = Some(connection);
    }
}

impl Guests for Hosts {
    fn call(&mut self, world: &mut World, flow: usize, call: Call) {
        if call == Call::Start {
            self.start(world, flow);
        }
        let Some(connection) = &mut self.connections[flow] else { return };
        match call {
            Call::Start | Call::Traffic(Action::Nothing | Action::Probe) => {}
            Call::Traffic(Action::Write) => connection.offer_packet(),
            Call::Traffic(Action::Object(bytes)) => {
                connection.offer(bytes.div_ceil(connection.segment()) * connection.segment());
            }
            Call::Traffic(Action::StartBulk) => connection.offer(u64::MAX),
            Call::Traffic(Action::StopBulk) => connection.stop_offering(),
            Call::Window(cwnd, pacing) => connection.set_window(world.now(), cwnd, pacing),
            Call::End => connection.fall_silent(),
        }
        self.drive(world, flow);
    }

    fn on_packet(&mut self, world: &mut World, packet: PacketId, ecn: u8) {
        let Carrying { flow, to_server, bytes } = &mut self.on_the_way[packet as usize];
        let (flow, to_server, bytes) = (*flow as usize, *to_server, bytes.split());
        let at = self.zero + Duration::from_nanos(world.now().0);
        if let Some(connection) = &mut self.connections[flow] {
            connection.take(at, to_server, ecn, bytes);
            self.drive(world, flow);
        }
    }

    fn next_timer(&self) -> Nanos {
        self.timers.first().map_or(Nanos::MAX, |(at, _)| *at)
    }

    fn on_timers(&mut self, world: &mut World) {
        while let Some((at, flow)) = self.timers.first().copied()
            && at <= world.now()
        {
            let instant = self.zero + Duration::from_nanos(world.now().0);
            if let Some(connection) = &mut self.connections[flow] {
                connection.on_timer(world.now(), instant);
            }
            self.drive(world, flow);
        }
    }

    fn log(&mut self) {
        self.logs = true;
    }

    fn take_logs(&mut self, flow: usize) -> [Vec<u8>; 2] {
        self.connections[flow].as_ref().map(Connection::take_logs).unwrap_or_default()
    }

    fn read(&mut self, flow: usize, reading: &mut FlowReading) {
        match &mut self.connections[flow] {
            Some(connection) => connection.read(reading),
            None => *reading = FlowReading::default(),
        }
    }
}
