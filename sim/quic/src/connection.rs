//! One flow's hosts: a client that sends a stream, and the server that receives it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use orbitcc_core::spec::{NetworkSpec, QuicSpec, TrafficSpec};
use orbitcc_core::tcp::sender::kernel_reading::FlowReading;
use orbitcc_core::tcp::sender::{Sender, SenderCounters};
use orbitcc_core::time::Nanos;
use quinn_proto::coding::Codec;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, ConnectionEvent, ConnectionHandle, ConnectionId, ConnectionIdGenerator,
    DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event, MtuDiscoveryConfig, QlogConfig, ServerConfig,
    StreamId, TimeSource, TransportConfig, VarInt,
};

use crate::crypto;
use crate::ledger::{Ledger, Watching};

/// What is sent.
static ZEROS: [u8; 65_536] = [0; 65_536];

/// Connection ids of 8 bytes, from a seed (splitmix64).
struct Ids(u64);

fn scramble(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&scramble(&mut self.0).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The wall clock stands still: it dates only tokens.
struct Epoch;

impl TimeSource for Epoch {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH
    }
}

/// One host.
struct Side {
    /// Something has happened to it since it was served.
    stirred: bool,
    /// When its next timer goes off.
    timer: Nanos,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, quinn_proto::Connection)>,
}

impl Side {
    fn new(endpoint: Endpoint) -> Side {
        Side { stirred: true, timer: Nanos::MAX, endpoint, connection: None }
    }

    fn deliver(&mut self, event: ConnectionEvent) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_event(event);
        }
    }

    /// Let endpoint and connection tell each other what they have.
    fn settle(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }

    fn find_timer(&mut self, zero: Instant) {
        let at = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        self.timer = at.map_or(Nanos::MAX, |at| Nanos(at.saturating_duration_since(zero).as_nanos() as u64));
    }
}

/// What one side logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("a log does not panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Let connections of this configuration write into it.
    fn attach(&self, zero: Instant, config: &mut TransportConfig) {
        let mut log = QlogConfig::default();
        log.writer(Box::new(self.clone())).start_time(zero);
        config.qlog_stream(log.into_stream());
    }
}

pub struct Connection {
    zero: Instant,
    quic: QuicSpec,
    client: Side,
    server: Side,
    ledger: Arc<Mutex<Ledger>>,
    stream: Option<StreamId>,
    /// Bytes that the application has offered and the stream has taken; all of an object end the stream.
    offered: u64,
    written: u64,
    finishes: bool,
    finished: bool,
    received: u64,
    marked: u64,
    /// Its hosts send nothing any more.
    silent: bool,
    lost: bool,
    /// When the sender's pacer lets the next packet go.
    next_departure: Nanos,
    pub timer: Nanos,
    buffer: Vec<u8>,
    /// Of the client and of the server; empty unless they are wanted.
    logs: [Log; 2],
}

const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 40_000);
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 1, 0, 1), 4_433);

fn varint(value: u64) -> VarInt {
    VarInt::from_u64(value).expect("validated")
}

/// The server's transport parameters that a client remembers for 0-RTT (RFC 9000, section 7.4.1): of stream and connection
/// windows and the number of streams, as numbers, lengths and values.
fn remembered(quic: &QuicSpec) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, value) in [(4, quic.connection_window), (7, quic.stream_window), (9, 100)] {
        let mut encoded = Vec::new();
        varint(value).encode(&mut encoded);
        bytes.extend([id, encoded.len() as u8]);
        bytes.extend(encoded);
    }
    bytes
}

fn transport(quic: &QuicSpec, controller: Arc<dyn ControllerFactory + Send + Sync>) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(varint(quic.stream_window))
        .receive_window(varint(quic.connection_window))
        .send_window(quic.send_window)
        .enable_segmentation_offload(false)
        .congestion_controller_factory(controller);
    if quic.mtu_discovery {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(quic.mtu);
        config.mtu_discovery_config(Some(discovery));
    } else {
        config.initial_mtu(quic.mtu).mtu_discovery_config(None);
    }
    if quic.ack_every > 0 {
        let mut frequency = AckFrequencyConfig::default();
        frequency.ack_eliciting_threshold(varint(u64::from(quic.ack_every - 1)));
        config.ack_frequency_config(Some(frequency));
    }
    config
}

/// quinn's controller of this name; None: one of ours.
fn of_quinn(name: &str, initial_window: Option<u64>) -> Option<Arc<dyn ControllerFactory + Send + Sync>> {
    Some(match name {
        "quinn-newreno" => {
            let mut config = NewRenoConfig::default();
            initial_window.map(|bytes| config.initial_window(bytes));
            Arc::new(config)
        }
        "quinn-bbr" => {
            let mut config = BbrConfig::default();
            initial_window.map(|bytes| config.initial_window(bytes));
            Arc::new(config)
        }
        "quinn-cubic" => {
            let mut config = CubicConfig::default();
            initial_window.map(|bytes| config.initial_window(bytes));
            Arc::new(config)
        }
        _ => return None,
    })
}

impl Connection {
    /// The flow starts at `now`; `sender` has its controller, if it is one of ours.
    pub fn new(
        network: &NetworkSpec,
        flow: usize,
        sender: &Sender,
        zero: Instant,
        now: Instant,
        wants_logs: bool,
    ) -> Connection {
        let spec = &network.flows[flow];
        let quic = spec.quic.expect("a flow of QUIC");
        let theirs = of_quinn(&spec.controller.name, quic.initial_window);
        let ours = theirs.is_none().then(|| (sender.cc.clone(), sender.conn.clone()));
        let ledger = Arc::new(Mutex::new(Ledger::new(zero, quic.mtu, quic.payload(), ours)));
        let mut seed = network.seed ^ (flow as u64).wrapping_mul(0xd134_2543_de82_ef95);
        let mut seeded = || {
            let mut bytes = [0; 32];
            bytes.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&scramble(&mut seed).to_be_bytes()));
            bytes
        };
        let mut endpoint = |server: Option<Arc<ServerConfig>>| {
            let (random, ids) = (seeded(), u64::from_be_bytes(*seeded().first_chunk().expect("32 bytes")));
            let mut config = EndpointConfig::new(Arc::new(crypto::Tokens));
            config.cid_generator(move || Box::new(Ids(ids))).rng_seed(Some(random));
            config.max_udp_payload_size(quic.mtu.max(1_472)).expect("validated");
            Endpoint::new(Arc::new(config), server, true, None)
        };
        let logs = [Log::default(), Log::default()];
        let configured = |controller, log: &Log| {
            let mut config = transport(&quic, controller);
            if wants_logs {
                log.attach(zero, &mut config);
            }
            Arc::new(config)
        };
        let known = quic.resume.then(|| remembered(&quic));
        let mut server = ServerConfig::new(Arc::new(crypto::Config { known: known.clone() }), Arc::new(crypto::Tokens));
        server.transport_config(configured(Arc::new(NewRenoConfig::default()), &logs[1])).time_source(Arc::new(Epoch));
        let mut client = ClientConfig::new(Arc::new(crypto::Config { known }));
        let (first, mut ids) = (endpoint(None), Ids(network.seed ^ flow as u64));
        let destination = ids.generate_cid();
        client
            .initial_dst_cid_provider(Arc::new(move || destination))
            .transport_config(configured(Arc::new(Watching { theirs, ledger: ledger.clone() }), &logs[0]));
        let mut client_side = Side::new(first);
        let connected = client_side.endpoint.connect(now, client, SocketAddr::from(SERVER), "server");
        client_side.connection = Some(connected.expect("a valid configuration"));
        let (offered, finishes) = match spec.traffic {
            TrafficSpec::Bulk => (u64::MAX, false),
            TrafficSpec::Bytes { bytes } => (bytes, true),
            _ => (0, false),
        };
        Connection {
            zero,
            quic,
            client: client_side,
            server: Side::new(endpoint(Some(Arc::new(server)))),
            ledger,
            stream: None,
            offered,
            written: 0,
            finishes,
            finished: false,
            received: 0,
            marked: 0,
            silent: false,
            lost: false,
            next_departure: Nanos::ZERO,
            timer: Nanos::MAX,
            buffer: Vec::new(),
            logs,
        }
    }

    /// What client and server have logged since the last call.
    pub fn take_logs(&self) -> [Vec<u8>; 2] {
        self.logs.each_ref().map(|log| std::mem::take(&mut *log.0.lock().expect("a log does not panic")))
    }

    /// The application's bytes in a full packet.
    pub fn segment(&self) -> u64 {
        u64::from(self.quic.payload())
    }

    /// The application offers what fits into one packet: quinn leaves room for a length that it does not fill.
    pub fn offer_packet(&mut self) {
        self.offer(self.segment() - 12);
    }

    /// The application offers more.
    pub fn offer(&mut self, bytes: u64) {
        self.offered = self.offered.saturating_add(bytes);
        self.client.stirred = true;
    }

    /// What the stream has taken is all there is.
    pub fn stop_offering(&mut self) {
        self.offered = self.written;
    }

    pub fn set_window(&mut self, now: Nanos, cwnd: u32, pacing: Option<u64>) {
        self.ledger.lock().expect("a ledger does not panic").set_window(now, cwnd, pacing);
        self.client.stirred = true;
    }

    pub fn fall_silent(&mut self) {
        self.silent = true;
    }

    /// Bytes that have come to the server in order.
    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// A packet has come.
    pub fn take(&mut self, now: Instant, to_server: bool, ecn: u8, bytes: BytesMut) {
        if self.silent {
            return;
        }
        self.marked += u64::from(to_server && ecn == 3);
        let (side, from) = if to_server { (&mut self.server, CLIENT) } else { (&mut self.client, SERVER) };
        side.stirred = true;
        let ecn = if self.quic.ecn { EcnCodepoint::from_bits(ecn) } else { None };
        self.buffer.clear();
        match side.endpoint.handle(now, SocketAddr::from(from), None, ecn, bytes, &mut self.buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => side.deliver(event),
            Some(DatagramEvent::NewConnection(incoming)) if side.connection.is_none() => {
                side.connection = side.endpoint.accept(incoming, now, &mut self.buffer, None).ok();
            }
            Some(DatagramEvent::NewConnection(incoming)) => side.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// Serve what is due.
    pub fn on_timer(&mut self, now: Nanos, at: Instant) {
        for side in [&mut self.client, &mut self.server] {
            if let Some((_, connection)) = &mut side.connection
                && side.timer <= now
            {
                connection.handle_timeout(at);
                side.stirred = true;
            }
        }
        self.client.stirred |= self.next_departure <= now;
    }

    /// Do everything that can be done now; packets go to `send`: is it for the server, its ECN field, its bytes.
    pub fn drive(&mut self, now: Nanos, at: Instant, mut send: impl FnMut(bool, u8, &[u8])) {
        if self.silent {
            self.timer = Nanos::MAX;
            return;
        }
        let pacing = self.ledger.lock().expect("a ledger does not panic").pacing_rate();
        for to_server in [true, false] {
            let side = if to_server { &mut self.client } else { &mut self.server };
            if !std::mem::take(&mut side.stirred) {
                continue;
            }
            side.settle();
            if to_server {
                self.write()
            } else {
                self.read_stream()
            }
            let side = if to_server { &mut self.client } else { &mut self.server };
            let Some((_, connection)) = &mut side.connection else { continue };
            while !to_server || pacing == 0 || self.next_departure <= now {
                self.buffer.clear();
                let Some(transmit) = connection.poll_transmit(at, 1, &mut self.buffer) else { break };
                if to_server && pacing > 0 {
                    let gap = self.buffer.len() as u128 * 1_000_000_000 / u128::from(pacing);
                    self.next_departure = self.next_departure.max(now) + Nanos(gap as u64);
                }
                let ecn = transmit.ecn.filter(|_| self.quic.ecn).map_or(0, |ecn| ecn as u8);
                send(to_server, ecn, &self.buffer[..transmit.size]);
            }
            side.settle();
            side.find_timer(self.zero);
        }
        let held_back = if pacing > 0 && self.next_departure > now { self.next_departure } else { Nanos::MAX };
        self.timer = self.client.timer.min(self.server.timer).max(now).min(held_back);
    }

    /// The client's application: hand over what is offered and fits.
    fn write(&mut self) {
        let Some((_, connection)) = &mut self.client.connection else { return };
        while let Some(event) = connection.poll() {
            self.lost |= matches!(event, Event::ConnectionLost { .. });
        }
        if connection.is_handshaking() && !connection.has_0rtt() {
            return;
        }
        if self.stream.is_none() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(stream) = self.stream else { return };
        while self.written < self.offered {
            let size = (self.offered - self.written).min(ZEROS.len() as u64) as usize;
            let mut chunks = [Bytes::from_static(&ZEROS[..size])];
            match connection.send_stream(stream).write_chunks(&mut chunks) {
                Ok(written) => self.written += written.bytes as u64,
                Err(_) => break,
            }
        }
        if self.finishes && !self.finished && self.written == self.offered {
            self.finished = connection.send_stream(stream).finish().is_ok();
        }
    }

    /// The server's application: read whatever has come in order.
    fn read_stream(&mut self) {
        let Some((_, connection)) = &mut self.server.connection else { return };
        while connection.poll().is_some() {}
        while connection.streams().accept(Dir::Uni).is_some() {}
        let Some(stream) = self.stream else { return };
        let mut reader = connection.recv_stream(stream);
        let Ok(mut chunks) = reader.read(true) else { return };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            self.received += chunk.bytes.len() as u64;
        }
        // That the windows have moved is told with the next packets.
        let _ = chunks.finalize();
    }

    /// What simulator and controller know of the sender; the rest stays at zero.
    pub fn read(&mut self, reading: &mut FlowReading) {
        let Some((_, connection)) = &self.client.connection else { return };
        let stats = connection.stats().path;
        let us = |duration: Duration| duration.as_micros().min(u128::from(u32::MAX)) as u32;
        let told = self.ledger.lock().expect("a ledger does not panic").read();
        let window = connection.congestion_state().window();
        // Before the first acknowledgement quinn reports what it assumes.
        let known = told.counters.acked_bytes > 0;
        *reading = FlowReading {
            received_bytes: self.received,
            arrived_marked: self.marked,
            counters: SenderCounters { sent: stats.sent_packets, lost: stats.lost_packets, ..told.counters },
            // 0: it is quinn's.
            cwnd: if told.cwnd > 0 {
                told.cwnd
            } else {
                window.div_ceil(u64::from(self.quic.mtu)).min(u64::from(u32::MAX)) as u32
            },
            srtt_us: if known { us(connection.rtt()) } else { 0 },
            min_rtt_us: if known { us(connection.min_rtt()) } else { 0 },
            window_bytes: self.quic.stream_window.min(self.quic.connection_window),
            ..told
        };
    }
}
