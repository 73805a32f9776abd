//! Packets on their way through the simulator's links: what arrives at a port, when, and what comes out of which.
//!
//! Knows no clock and no device: time is told, so that the same runs in real and in virtual time.

use std::net::Ipv4Addr;

use orbitcc_core::link::reading::LinkReading;
use orbitcc_core::spec::{NetworkSpec, SpecError};
use orbitcc_core::tcp::sender::SenderCounters;
use orbitcc_core::tcp::sender::kernel_reading::FlowReading;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::World;

/// The side of data senders, and that of their receivers.
pub const PORTS: usize = 2;

/// How packets find their flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// Flow i is 10.0.i -> 10.1.i (`address`), and back.
    Addresses,
    /// Whatever comes in at the first port takes the path of the only flow, the rest its way back. Queues that tell
    /// flows apart do so by addresses and ports.
    Ports,
}

struct Waiting {
    flow: u32,
    /// Where it will come out.
    port: u8,
    came: Nanos,
    bytes: Vec<u8>,
}

/// What the packets of a flow tell of it, without its hosts.
#[derive(Clone, Copy, Default)]
struct Crossing {
    /// Packets on the way to the receivers' port, in and out.
    sent: u64,
    arrived: u64,
    /// Payload that came out at the receivers' port, and at the senders'.
    received_bytes: u64,
    returned_bytes: u64,
    /// How long the latest packet of each direction took.
    there: Option<Nanos>,
    back: Option<Nanos>,
    /// Smoothed as TCP does it (RFC 6298), eightfold.
    srtt8_ns: u64,
    least_ns: u64,
}

impl Crossing {
    /// probe: what an answer to the packet would take, where none comes from the receiver.
    fn add(&mut self, port: u8, delay: Nanos, packet: &[u8], probe: Option<Nanos>) {
        if port == 1 {
            (self.there, self.arrived) = (Some(delay), self.arrived + 1);
            self.received_bytes += payload_bytes(packet);
        } else {
            if self.back.replace(delay).is_none() {
                (self.srtt8_ns, self.least_ns) = (0, 0); // of probes
            }
            self.returned_bytes += payload_bytes(packet);
        }
        let (Some(there), Some(back)) = (self.there, if port == 1 { probe } else { self.back }) else { return };
        let rtt_ns = (there + back).0;
        self.least_ns = if self.srtt8_ns == 0 { rtt_ns } else { self.least_ns.min(rtt_ns) };
        self.srtt8_ns = if self.srtt8_ns == 0 { 8 * rtt_ns } else { self.srtt8_ns - self.srtt8_ns / 8 + rtt_ns };
    }
}

/// Bytes of an IP packet behind the headers of IP and of TCP or UDP; of others, none.
fn payload_bytes(packet: &[u8]) -> u64 {
    let (protocol, head) = match packet.first().map(|first| first >> 4) {
        Some(4) => (packet.get(9), usize::from(packet[0] & 15) * 4),
        Some(6) => (packet.get(6), 40),
        _ => (None, 0),
    };
    let head = match protocol {
        Some(6) => head + packet.get(head + 12).map_or(0, |offset| usize::from(offset >> 4) * 4),
        Some(17) => head + 8,
        _ => packet.len(),
    };
    packet.len().saturating_sub(head) as u64
}

pub struct Carrier {
    world: World,
    /// When everything stands still.
    end: Nanos,
    ended: bool,
    classes: Classes,
    /// Of each flow: packets that came out at the receivers' port with a mark.
    marked: Vec<u64>,
    crossings: Vec<Crossing>,
    /// Bytes that a link counts on top of a packet's own.
    overhead: u32,
    /// By the packet's number.
    waiting: Vec<Waiting>,
    /// That no flow wants (IPv6, broadcasts).
    pub strangers: u64,
}

/// Address of flow `i` on a side.
pub fn address(port: usize, i: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, port as u8, (i / 250) as u8, (i % 250 + 1) as u8)
}

fn flow_of(address: [u8; 4]) -> Option<(usize, usize)> {
    let [10, port, high, low @ 1..=250] = address else { return None };
    (usize::from(port) < PORTS).then_some((usize::from(port), usize::from(high) * 250 + usize::from(low) - 1))
}

/// The ECN field of an IP packet.
fn ecn_of(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 4 => second & 3,
        [first, second, ..] if first >> 4 == 6 => second >> 4 & 3,
        _ => 0,
    }
}

/// Write the ECN field of an IP packet; the checksum of IPv4 follows (RFC 1624, equation 3).
fn set_ecn(packet: &mut [u8], ecn: u8) {
    let before = ecn_of(packet);
    match packet {
        [first, second, ..] if *first >> 4 == 4 => *second = *second & !3 | ecn,
        [first, second, ..] if *first >> 4 == 6 => return *second = *second & !0x30 | ecn << 4,
        _ => return,
    }
    if let Some(checksum) = packet.get_mut(10..12) {
        let sum = !u16::from_be_bytes([checksum[0], checksum[1]]);
        let sum = u32::from(sum) + u32::from(!u16::from(before)) + u32::from(ecn);
        let sum = (sum & 0xffff) + (sum >> 16);
        checksum.copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    }
}

/// FNV-1a over addresses, protocol and, of TCP and UDP, ports.
fn hash(packet: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5u32;
    let mut add = |byte: u8| hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let (addresses, protocol, ports) = match packet[0] >> 4 {
        4 => (12..20, packet.get(9), usize::from(packet[0] & 15) * 4),
        _ => (8..40, packet.get(6), 40),
    };
    packet.get(addresses).unwrap_or(&[]).iter().copied().for_each(&mut add);
    if let Some(protocol) = protocol {
        add(*protocol);
        if matches!(protocol, 6 | 17) {
            packet.get(ports..ports + 4).unwrap_or(&[]).iter().copied().for_each(&mut add);
        }
    }
    hash & 0x7fff_ffff
}

impl Carrier {
    pub fn new(spec: &NetworkSpec, classes: Classes) -> Result<Carrier, SpecError> {
        let overhead = spec.tcp.header_bytes.saturating_sub(NetworkSpec::OWN_HEADERS);
        let world = World::carrying(spec)?;
        let (marked, end) = (vec![0; world.flows().len()], spec.duration);
        let crossings = vec![Crossing::default(); marked.len()];
        Ok(Carrier {
            marked,
            crossings,
            world,
            end,
            ended: false,
            classes,
            overhead,
            waiting: Vec::new(),
            strangers: 0,
        })
    }

    fn run_until(&mut self, now: Nanos) {
        self.world.run_until(now);
        self.ended = now >= self.end;
    }

    /// When something may come out, or happens inside; after the end, never.
    pub fn due(&mut self) -> Nanos {
        if self.ended { Nanos::MAX } else { self.world.next_event() }
    }

    /// A packet comes in at `port` at `now`, which is not before anything told so far.
    pub fn arrive(&mut self, now: Nanos, port: usize, packet: &[u8]) {
        let found = match self.classes {
            Classes::Ports => packet.first().map(|_| (0, port == 1, hash(packet))),
            Classes::Addresses => packet
                .get(16..20)
                .filter(|_| packet[0] >> 4 == 4)
                .and_then(|to| flow_of(to.try_into().expect("four bytes")))
                .filter(|(to, flow)| *to != port && *flow < self.marked.len())
                .map(|(to, flow)| (flow, to == 0, flow as u32)),
        };
        let Some((flow, back, label)) = found else {
            self.strangers += 1;
            return;
        };
        self.run_until(now);
        if self.ended {
            return;
        }
        let size = packet.len() as u32 + self.overhead;
        let id = self.world.inject(flow, back, label, size, ecn_of(packet)) as usize;
        while self.waiting.len() < self.world.packet_numbers() {
            self.waiting.push(Waiting { flow: 0, port: 0, came: now, bytes: Vec::new() });
        }
        let waiting = &mut self.waiting[id];
        (waiting.flow, waiting.port, waiting.came) = (flow as u32, u8::from(!back), now);
        self.crossings[flow].sent += u64::from(!back);
        waiting.bytes.clear();
        waiting.bytes.extend_from_slice(packet);
    }

    /// Hand out what has come out by `now`: when, at which port, and the packet.
    pub fn deliver(&mut self, now: Nanos, mut out: impl FnMut(Nanos, usize, &[u8])) {
        self.run_until(now);
        while let Some((at, id, ecn)) = self.world.take_carried() {
            let Waiting { flow, port, came, bytes } = &mut self.waiting[id as usize];
            if ecn != ecn_of(bytes) {
                set_ecn(bytes, ecn);
            }
            self.marked[*flow as usize] += u64::from(*port == 1 && ecn == 3);
            let crossing = &mut self.crossings[*flow as usize];
            let answered = *port != 1 || crossing.back.is_some();
            let probe = (!answered).then(|| self.world.return_delay(*flow as usize));
            crossing.add(*port, at.saturating_sub(*came), bytes, probe);
            out(at, usize::from(*port), bytes);
        }
    }

    /// Of each flow: packets that came out at the receivers' port with a mark.
    pub fn marked(&self) -> &[u64] {
        &self.marked
    }

    /// Readings of flows whose hosts are unknown, from their packets. Lost is what came in, not out, and is not inside.
    pub fn crossings(&self) -> Vec<FlowReading> {
        let mut inside = vec![0u64; self.crossings.len()];
        let mut free = vec![false; self.waiting.len()];
        self.world.free_numbers().for_each(|id| free[id as usize] = true);
        for (waiting, _) in self.waiting.iter().zip(free).filter(|(waiting, free)| waiting.port == 1 && !free) {
            inside[waiting.flow as usize] += 1;
        }
        let one = |(c, inside): (&Crossing, u64)| FlowReading {
            received_bytes: c.received_bytes,
            returned_bytes: c.returned_bytes,
            counters: SenderCounters {
                sent: c.sent,
                lost: c.sent - c.arrived - inside,
                acked_bytes: c.received_bytes,
                ..SenderCounters::default()
            },
            srtt_us: (c.srtt8_ns / 8000) as u32,
            min_rtt_us: (c.least_ns / 1000) as u32,
            packets_out: inside as u32,
            ..FlowReading::default()
        };
        self.crossings.iter().zip(inside).map(one).collect()
    }

    pub fn read_links(&mut self, now: Nanos) -> Vec<LinkReading> {
        self.run_until(now);
        self.world.read_links().collect()
    }
}

#[cfg(test)]
mod tests;
