//! One run: set up as told, then do as told until the input ends.

use std::io::{self, BufReader, Read, Stdin, Stdout};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitCode;

use orbitcc_core::spec::{ControllerSpec, FlowSpec, NetworkSpec, NoiseSpec};
use orbitcc_core::time::Nanos;
use orbitcc_core::wire::{self, Request};
use orbitcc_core::world::World;
use orbitcc_core::world::kernel_hosts::Reading;
use serde::Deserialize;

use crate::agents::Agents;
use crate::carrier::{Carrier, Classes};
use crate::machine::Machine;
use crate::namespaces::{self, Namespace};
use crate::programs::{Program, Programs};
use crate::server::{LinksRead, Server};
use crate::setup::Agent;
use crate::sockets::Socket;
use crate::sys;
use crate::tcp_flows::Hosts;

/// How long flows that begin with the clock may take to connect, beyond their base RTT.
const PATIENCE: Nanos = Nanos::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setup {
    network: NetworkSpec,
    #[serde(default)]
    agents: Vec<Agent>,
    #[serde(default)]
    programs: Vec<Program>,
    /// Devices that somebody else made: packets go from one to the other, and there are no flows of our own.
    #[serde(default)]
    ports: Option<[Place; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    /// Path of a network namespace, as /proc/PID/ns/net.
    namespace: String,
    device: String,
}

struct Running {
    programs: Programs,
    /// Put back last.
    hosts: Option<Hosts>,
    server: Server,
    zero_ns: u64,
    _machine: Machine,
}

pub fn run() -> ExitCode {
    let (mut input, mut output) = (BufReader::new(io::stdin()), io::stdout());
    let text = match wire::receive(&mut input) {
        Ok(Ok(text)) => text,
        _ => {
            eprintln!("orbitcc-emulator: is started by orbitcc; nothing was set up");
            return ExitCode::from(2);
        }
    };
    let outcome = match set_up(&text) {
        Ok(running) => wire::send(&mut output, Ok(b"")).and_then(|()| obey(running, &mut input, &mut output)),
        Err(text) => wire::send(&mut output, Err(&text)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Of the parts that only decide elsewhere: the links and the traffic are the same.
fn without_policies(spec: &NetworkSpec) -> NetworkSpec {
    let one = |flow: &FlowSpec| match flow.controller.name.as_str() {
        "policy" | "external" => FlowSpec {
            controller: ControllerSpec { name: "external".into(), params: Default::default() },
            ..flow.clone()
        },
        _ => flow.clone(),
    };
    NetworkSpec { flows: spec.flows.iter().map(one).collect(), ..spec.clone() }
}

/// Nothing is lost and nothing changes: for handshakes before the clock starts.
fn calm(spec: &NetworkSpec) -> NetworkSpec {
    let mut spec = spec.clone();
    for link in &mut spec.links {
        link.outages.clear();
        for way in [&mut link.forward, &mut link.reverse] {
            way.loss.clear();
            way.rate.truncate(1);
            if way.rate.first().is_some_and(|rate| rate.1.0 == 0) {
                way.rate.clear();
            }
            way.delay.points.truncate(1);
        }
    }
    NetworkSpec { duration: Nanos::from_secs(60), noise: NoiseSpec::default(), ..spec }
}

fn set_up(text: &[u8]) -> Result<Running, String> {
    let Setup { network, agents, programs, ports } = serde_json::from_slice(text).map_err(|e| format!("setup: {e}"))?;
    let network = without_policies(&network);
    network.validate().map_err(|e| e.0)?;
    let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    if let Some(ports) = ports {
        let home = [&ports[0], &ports[1]].map(|place| {
            Namespace::open(&place.namespace)
                .and_then(|namespace| namespace.within(|| sys::open_tun(&place.device)))
                .map_err(|error| format!("device {}: {error}", place.device))
        });
        let [a, b] = home;
        let server = Server::start([a?, b?]).map_err(said("links"))?;
        let carrier = Carrier::new(&network, Classes::Ports).map_err(|e| e.0)?;
        let zero_ns = sys::clock_ns();
        server.begin(carrier, zero_ns);
        let _machine = Machine::prepare(&[])?;
        return Ok(Running { programs: Programs::default(), hosts: None, server, zero_ns, _machine });
    }
    let controllers: Vec<_> = network.flows.iter().map(|flow| &flow.controller).collect();
    namespaces::become_root().map_err(said("a user namespace"))?;
    has_controllers(&controllers)?;
    let machine = Machine::prepare(&controllers)?;
    let loaded = if agents.is_empty() { None } else { Some(Agents::load(&agents)?) };
    let frame = network.tcp.header_bytes.saturating_sub(NetworkSpec::OWN_HEADERS);
    let (places, devices) = namespaces::make(&network.tcp, frame).map_err(said("network namespaces"))?;
    let arrivals = devices.each_ref().map(OwnedFd::try_clone);
    let server = Server::start(devices).map_err(said("links"))?;
    let planned = World::carrying(&network).map_err(|e| e.0)?;
    let mut programs = Programs::start(programs, &planned, &places)?;
    let mut hosts =
        Hosts::new(&network, &planned, &agents, &programs.flows(), loaded, places).map_err(said("sockets"))?;
    connect(&mut hosts, &server, &network)?;
    if programs.flows().iter().any(|i| network.flows[*i].start == Nanos::ZERO) {
        server.hold();
        let [a, b] = arrivals;
        programs.begin(hosts.namespaces(), [a.map_err(said("links"))?, b.map_err(said("links"))?], |i| {
            network.flows[i].start == Nanos::ZERO
        })?;
    }
    let zero_ns = sys::clock_ns();
    server.begin(Carrier::new(&network, Classes::Addresses).map_err(|e| e.0)?, zero_ns);
    Ok(Running { programs, hosts: Some(hosts), server, zero_ns, _machine: machine })
}

/// Does this kernel have them? A socket that goes nowhere is asked, which loads modules.
fn has_controllers(controllers: &[&ControllerSpec]) -> Result<(), String> {
    let socket = Socket::new(false).map_err(|error| format!("socket: {error}"))?;
    for (i, ControllerSpec { name, .. }) in controllers.iter().enumerate() {
        if !matches!(name.as_str(), "external" | "udp")
            && let Err(error) = socket.set_controller(name)
        {
            return Err(format!("flows[{i}].controller = {name}: this kernel does not let us have it ({error})"));
        }
    }
    Ok(())
}

/// Handshakes before the clock starts, over the links as they are at its start.
fn connect(hosts: &mut Hosts, server: &Server, network: &NetworkSpec) -> Result<(), String> {
    let began = sys::clock_ns();
    let now = || Nanos(sys::clock_ns() - began);
    server.begin(Carrier::new(&calm(network), Classes::Addresses).map_err(|e| e.0)?, began);
    hosts.connect_first().map_err(|error| format!("sockets: {error}"))?;
    let slowest = World::carrying(&calm(network))
        .map_err(|e| e.0)
        .map(|mut world| (0..network.flows.len()).map(|i| world.base_rtt(i)).max().unwrap_or(Nanos::ZERO))?;
    while !hosts.are_connected() {
        if now() > slowest + PATIENCE {
            return Err("flows: connections at the start were not made in time".into());
        }
        hosts.accept_all();
        sys::wait_readable([hosts.poll_fd()], 2_000_000);
    }
    Ok(())
}

fn obey(running: Running, input: &mut BufReader<Stdin>, output: &mut Stdout) -> io::Result<()> {
    let Running { mut programs, mut hosts, server, zero_ns, _machine } = running;
    sys::be_punctual();
    sys::go_early();
    let now = || Nanos(sys::clock_ns() - zero_ns);
    let mut awaited: Option<(Nanos, Nanos)> = None; // asked, due
    loop {
        if let Some(hosts) = &mut hosts {
            hosts.advance(now())?;
            programs.advance(now(), hosts.namespaces());
        }
        if let Some((asked, due)) = awaited
            && due <= now()
        {
            let LinksRead { at, links, marked, crossings } =
                server.read().unwrap_or_else(|| LinksRead { at: now(), ..LinksRead::default() });
            let mut flows = hosts.as_mut().map_or_else(|| crossings.clone(), |hosts| hosts.read_all(zero_ns));
            awaited = None;
            if let Err(text) = programs.read(at, &crossings, &mut flows) {
                wire::send(output, Err(&text))?;
                continue;
            }
            for (flow, packets) in flows.iter_mut().zip(marked) {
                flow.arrived_marked = packets;
            }
            wire::send(output, Ok(&wire::pack(&Reading { asked, at, flows, links })))?;
        }
        let next = hosts.as_ref().map_or(Nanos::MAX, Hosts::next_event);
        let next = next.min(programs.next_event()).min(awaited.map_or(Nanos::MAX, |(_, due)| due));
        let left = if input.buffer().is_empty() { next.saturating_sub(now()).0 } else { 0 };
        let poll = hosts.as_ref().map_or(-1, Hosts::poll_fd);
        let [_, told] = sys::wait_readable([poll, io::stdin().as_raw_fd()], left);
        if !told && input.buffer().is_empty() {
            continue;
        }
        let mut bytes = [0; Request::BYTES];
        input.read_exact(&mut bytes)?;
        match Request::from_bytes(&bytes) {
            Some(Request::Read { at }) => awaited = Some((now(), at)),
            Some(Request::Window { flow, cwnd, pacing }) => {
                if let Some(hosts) = &mut hosts {
                    hosts.set_window(flow, cwnd, pacing);
                }
            }
            Some(Request::Finish) => {
                let hosts_report = hosts.as_ref().map(Hosts::report);
                let programs_report = programs.report();
                drop((programs, hosts.take()));
                let report = serde_json::json!({"links": server.finish(), "hosts": hosts_report,
                    "programs": programs_report});
                return wire::send(output, Ok(report.to_string().as_bytes()));
            }
            None => return wire::send(output, Err("no such request")),
        }
    }
}
