//! Networks and readings the behaviour tests share. Packets are 1500 bytes on the wire (1448 of payload), as in the
//! reference runs the tables come from.
#![allow(dead_code)]

pub mod networks;

use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;
use orbitcc_core::world::recorder::{FLOW_SERIES, LINK_SERIES};
use orbitcc_core::world::totals::{FlowTotals, LinkTotals};
use orbitcc_core::world::{Policies, World};
use proptest::prelude::ProptestConfig;

/// How many random worlds a test tries, unless PROPTEST_CASES says otherwise.
pub fn cases(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), max_shrink_iters: 2_000, ..ProptestConfig::default() }
}

/// Names and texts of networks that once failed; those that must be refused are called so.
pub fn corpus() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |file: &std::path::Path| file.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|file| (name(file), std::fs::read_to_string(file).unwrap())).collect()
}

/// Payload share of a 1500-byte packet.
pub const PAYLOAD: f64 = 1448.0 / 1500.0;
/// Interval of the recorded series.
pub const INTERVAL_S: f64 = 0.01;

pub fn secs(s: f64) -> Nanos {
    Nanos((s * 1e9).round() as u64)
}

pub fn delay(points: &[(f64, f64)]) -> DelaySpec {
    let points = points.iter().map(|(at, ms)| (secs(*at), secs(ms / 1e3))).collect();
    DelaySpec { interpolate: false, points }
}

/// Bandwidth-delay product in bytes.
pub fn bdp_bytes(rate_mbps: f64, rtt_ms: f64) -> u64 {
    (rate_mbps * rtt_ms * 125.0) as u64
}

/// `name` or `name:param=value,...`; numbers stay numbers.
pub fn controller(text: &str) -> ControllerSpec {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let params = rest.split(',').filter(|p| !p.is_empty()).map(|p| {
        let (key, value) = p.split_once('=').expect("param=value");
        (key.to_string(), serde_json::from_str(value).unwrap_or_else(|_| value.into()))
    });
    ControllerSpec { name: name.into(), params: params.collect() }
}

/// One bottleneck: rate, round-trip delay (half each way) and drop-tail buffer; flows in `flows` share it.
pub fn dumbbell(rate_mbps: f64, rtt_ms: f64, buffer_bytes: u64, seconds: f64, flows: &[&str]) -> NetworkSpec {
    let half = delay(&[(0.0, rtt_ms / 2.0)]);
    let forward = DirectionSpec {
        rate: vec![(Nanos::ZERO, BitRate((rate_mbps * 1e6) as u64))],
        delay: half.clone(),
        queue: QueueSpec::DropTailBytes { limit: buffer_bytes },
        ..DirectionSpec::default()
    };
    NetworkSpec {
        seed: 1,
        duration: secs(seconds),
        tcp: TcpSpec { header_bytes: 52, ack_bytes: 52, rmem: [4096, 1 << 26, 1 << 28], ..TcpSpec::default() },
        noise: NoiseSpec::default(),
        exact: false,
        links: vec![LinkSpec {
            name: "bottleneck".into(),
            forward,
            reverse: DirectionSpec { delay: half, ..DirectionSpec::default() },
            outages: Vec::new(),
            handovers: Vec::new(),
        }],
        flows: flows.iter().map(|text| flow(text)).collect(),
    }
}

/// A bulk flow from the start over link 0.
pub fn flow(text: &str) -> FlowSpec {
    FlowSpec {
        name: text.into(),
        path: vec![0],
        return_path: None,
        reroutes: Vec::new(),
        start: Nanos::ZERO,
        stop: None,
        uplink_delay: Nanos::ZERO,
        controller: controller(text),
        traffic: TrafficSpec::default(),
        receiver: ReceiverSpec::default(),
        delay_preference: 0.0,
        follows: None,
        watched: false,
        relays: None,
        quic: None,
    }
}

/// Noise as in scenarios: send jitter of one serialisation time, starts within one RTT.
pub fn with_noise(mut spec: NetworkSpec, rate_mbps: f64, rtt_ms: f64) -> NetworkSpec {
    spec.noise = NoiseSpec {
        send_jitter: secs(1500.0 * 8.0 / (rate_mbps * 1e6)),
        start_jitter: secs(rtt_ms / 1e3),
        ..NoiseSpec::default()
    };
    spec
}

/// A finished run and its series.
pub struct Run {
    pub t_s: Vec<f64>,
    pub flow_totals: Vec<FlowTotals>,
    pub link_totals: Vec<LinkTotals>,
    flows: Vec<Vec<f64>>,
    links: Vec<Vec<f64>>,
    n_flows: usize,
    n_links: usize,
}

pub fn run(spec: &NetworkSpec) -> Run {
    let mut world = World::new(spec, &Policies::new(), secs(INTERVAL_S)).unwrap();
    world.run();
    let recorder = world.recorder().unwrap();
    Run {
        t_s: recorder.t_s.clone(),
        flows: recorder.flows.clone(),
        links: recorder.links.clone(),
        n_flows: spec.flows.len(),
        n_links: spec.links.len(),
        flow_totals: world.flow_totals(),
        link_totals: world.link_totals(),
    }
}

impl Run {
    /// A series of flow `i`, one value per interval.
    pub fn flow(&self, i: usize, series: &str) -> Vec<f64> {
        let k = FLOW_SERIES.iter().position(|s| *s == series).expect("a series of flows");
        self.flows[k].iter().skip(i).step_by(self.n_flows).copied().collect()
    }

    pub fn link(&self, i: usize, series: &str) -> Vec<f64> {
        let k = LINK_SERIES.iter().position(|s| *s == series).expect("a series of links");
        self.links[k].iter().skip(i).step_by(self.n_links).copied().collect()
    }

    /// Mean of a series of flow `i` over `from..to` seconds.
    pub fn mean(&self, i: usize, series: &str, from: f64, to: f64) -> f64 {
        let values = self.flow(i, series);
        let inside: Vec<f64> =
            self.t_s.iter().zip(values).filter(|(t, _)| **t > from && **t <= to).map(|x| x.1).collect();
        inside.iter().sum::<f64>() / inside.len() as f64
    }

    /// Goodput of flow `i` over `from..to`, as wire rate of 1500-byte packets, Mbit/s.
    pub fn wire_mbps(&self, i: usize, from: f64, to: f64) -> f64 {
        self.mean(i, "goodput_mbps", from, to) / PAYLOAD
    }

    /// Mean queue of link 0 over `from..to`, bytes.
    pub fn queue(&self, from: f64, to: f64) -> f64 {
        let values = self.link(0, "queue_bytes");
        let inside: Vec<f64> =
            self.t_s.iter().zip(values).filter(|(t, _)| **t > from && **t <= to).map(|x| x.1).collect();
        inside.iter().sum::<f64>() / inside.len() as f64
    }

    /// Largest queue of link 0 over `from..to`, bytes.
    pub fn queue_peak(&self, from: f64, to: f64) -> f64 {
        let values = self.link(0, "queue_bytes_max");
        self.t_s.iter().zip(values).filter(|(t, _)| **t > from && **t <= to).map(|x| x.1).fold(0.0, f64::max)
    }

    /// Spans of time in which a series of flow `i` stays at or below `level`: (start, end), seconds.
    pub fn dips(&self, i: usize, series: &str, level: f64, from: f64) -> Vec<(f64, f64)> {
        let mut dips: Vec<(f64, f64)> = Vec::new();
        let mut inside = false;
        for (t, value) in self.t_s.iter().zip(self.flow(i, series)) {
            if *t <= from {
                continue;
            }
            if value <= level {
                if !inside {
                    dips.push((*t, *t));
                }
                dips.last_mut().expect("just pushed").1 = *t;
            }
            inside = value <= level;
        }
        dips
    }
}

/// Every packet offered to a link is delivered, dropped, lost or still inside; every ACKed byte was received.
pub fn check_conservation(world: &World) -> Result<(), String> {
    for link in world.link_directions() {
        let c = link.counters;
        equal("packets of a link", c.arrived, c.delivered + c.dropped + c.lost + link.holding())?;
        link.check_backlog()?;
    }
    let held: u64 = world.link_directions().iter().map(|l| l.holding()).sum();
    let doomed: u64 = world.link_directions().iter().map(|l| l.doomed()).sum();
    let at_hosts: u64 = world.flows().iter().map(|f| f.host.pipe.len() as u64).sum();
    let announced: u64 = world.link_directions().iter().map(|l| l.expecting()).sum();
    equal("packets of pool and links", world.in_network() as u64, held - doomed + at_hosts + announced)?;
    for flow in world.flows().iter().filter(|f| !f.datagram) {
        let s = &flow.sender;
        let in_flight = i64::from(s.packets_out()) + i64::from(s.retrans_out()) - i64::from(s.sacked_and_lost());
        ensure(in_flight >= 0, "in flight below zero")?;
        let honest = s.conn.snd_una <= flow.receiver.rcv_nxt || flow.receiver.is_optimistic();
        ensure(honest, "acknowledged before received")?;
        ensure(flow.receiver.rcv_nxt <= s.conn.snd_nxt, "received before sent")?;
        ensure(s.conn.cwnd >= 1, "no window")?;
        equal("transmissions", s.counters.sent, u64::from(s.conn.snd_nxt) + s.counters.retransmitted)?;
        s.check_counters()?;
    }
    Ok(())
}

fn equal(what: &str, left: u64, right: u64) -> Result<(), String> {
    if left == right { Ok(()) } else { Err(format!("{what}: {left} is not {right}")) }
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
