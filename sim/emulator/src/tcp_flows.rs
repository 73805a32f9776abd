//! The flows of a scenario over this kernel's TCP: who connects when, what its application offers, what it has got.

use std::io;

use orbitcc_core::spec::{NetworkSpec, TrafficSpec};
use orbitcc_core::tcp::sender::kernel_reading::FlowReading;
use orbitcc_core::time::Nanos;
use orbitcc_core::traffic::{Action, Traffic};
use orbitcc_core::world::World;
use serde_json::{Value, json};

use crate::agents::Agents;
use crate::carrier::{PORTS, address};
use crate::namespaces::Namespace;
use crate::setup::Agent;
use crate::sockets::{Info, Moved, Poll, Socket};
use crate::sys;

const PORT: u16 = 5001;
/// Bytes of an IPv4 and a UDP header; of IPv4, TCP and its timestamps.
const DATAGRAM_HEADERS: u64 = 28;
const SEGMENT_HEADERS: u32 = 52;
/// An application that stops is not to leave much behind that was not sent.
const UNSENT: i32 = 16_384;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Connecting,
    Active,
    Over,
}

struct Download {
    asked: Nanos,
    bytes: u64,
    /// Of the stream, behind it.
    end: u64,
    complete: Option<Nanos>,
}

struct Flow {
    name: String,
    controller: String,
    slot: Option<usize>,
    datagrams: bool,
    connects: Nanos,
    start: Nanos,
    stop: Nanos,
    state: State,
    traffic: Traffic,
    bulk: bool,
    /// Offered and not yet written.
    waiting_bytes: u64,
    whole: Option<u64>,
    listener: Option<Socket>,
    sender: Option<Socket>,
    receiver: Option<Socket>,
    beginning: Option<Info>,
    offered_bytes: u64,
    received_bytes: u64,
    finished: Nanos,
    datagrams_sent: u64,
    downloads: Vec<Download>,
    /// When it ended.
    last: FlowReading,
}

pub struct Hosts {
    flows: Vec<Flow>,
    namespaces: [Namespace; PORTS],
    poll: Poll,
    tokens: Vec<u64>,
    agents: Option<Agents>,
    segment_bytes: u64,
    datagram_bytes: u64,
}

impl Hosts {
    /// Nothing is sent before [`Hosts::connect_first`]. `others`: flows that are none of ours.
    pub fn new(
        spec: &NetworkSpec,
        planned: &World,
        agents: &[Agent],
        others: &[usize],
        loaded: Option<Agents>,
        namespaces: [Namespace; PORTS],
    ) -> io::Result<Hosts> {
        let tcp = &spec.tcp;
        let wire = tcp.mss + tcp.header_bytes;
        let mut planner = planned.clone();
        let mut order: Vec<usize> = (0..spec.flows.len()).collect();
        order.sort_by_key(|i| planned.flows()[*i].start);
        let mut connects = vec![Nanos::ZERO; spec.flows.len()];
        for i in order {
            let start = planned.flows()[i].start;
            planner.run_until(start);
            // Early enough to be there in time, and to wait a little.
            let rtt = planner.base_rtt(i);
            connects[i] = start.saturating_sub(rtt + Nanos(rtt.0 / 2) + Nanos::from_millis(5));
        }
        let flows = spec.flows.iter().zip(planned.flows()).enumerate().map(|(i, (flow, plan))| Flow {
            name: flow.name.clone(),
            controller: flow.controller.name.clone(),
            slot: agents.iter().position(|agent| agent.flow == i),
            datagrams: plan.datagram,
            connects: if others.contains(&i) { Nanos::MAX } else { connects[i] },
            start: plan.start,
            stop: flow.stop.map_or(Nanos::MAX, |stop| stop.max(plan.start)),
            state: State::Waiting,
            traffic: Traffic::new(flow.traffic, Nanos::ZERO, wire, spec.seed, i as u64),
            bulk: false,
            waiting_bytes: 0,
            whole: match flow.traffic {
                TrafficSpec::Bytes { bytes } => Some(bytes),
                _ => None,
            },
            listener: None,
            sender: None,
            receiver: None,
            beginning: None,
            offered_bytes: 0,
            received_bytes: 0,
            finished: Nanos::ZERO,
            datagrams_sent: 0,
            downloads: Vec::new(),
            last: FlowReading::default(),
        });
        Ok(Hosts {
            flows: flows.collect(),
            namespaces,
            poll: Poll::new()?,
            tokens: Vec::new(),
            agents: loaded,
            segment_bytes: u64::from(tcp.mss),
            datagram_bytes: u64::from(tcp.mss + SEGMENT_HEADERS) - DATAGRAM_HEADERS,
        })
    }

    pub fn namespaces(&self) -> &[Namespace; PORTS] {
        &self.namespaces
    }

    pub fn poll_fd(&self) -> std::os::fd::RawFd {
        self.poll.fd()
    }

    /// Connect the flows that begin with the clock.
    pub fn connect_first(&mut self) -> io::Result<()> {
        for i in 0..self.flows.len() {
            if self.flows[i].connects == Nanos::ZERO {
                self.connect(i)?;
            }
        }
        Ok(())
    }

    /// Are all of them that wanted to?
    pub fn are_connected(&self) -> bool {
        self.flows.iter().filter(|flow| flow.state == State::Connecting && !flow.datagrams).all(|flow| {
            flow.receiver.is_some() && flow.sender.as_ref().is_some_and(|s| s.info().state() == Info::ESTABLISHED)
        })
    }

    /// Before the clock starts.
    pub fn accept_all(&mut self) {
        self.move_bytes(Nanos::ZERO);
    }

    fn connect(&mut self, i: usize) -> io::Result<()> {
        let [here, there] = &self.namespaces;
        let flow = &mut self.flows[i];
        let (from, to) = (address(0, i), address(1, i));
        flow.state = State::Connecting;
        let receiver = there.within(|| {
            let socket = Socket::new(flow.datagrams)?;
            socket.bind(to, PORT)?;
            if flow.datagrams {
                socket.set_receive_buffer(1 << 24)?;
            } else {
                socket.listen()?;
            }
            Ok(socket)
        })?;
        self.poll.watch(&receiver, 2 * i as u64 + 1)?;
        *(if flow.datagrams { &mut flow.receiver } else { &mut flow.listener }) = Some(receiver);
        let (agents, traffic) = (self.agents.as_ref(), flow.traffic.spec);
        let sender = here.within(|| {
            let socket = Socket::new(flow.datagrams)?;
            if !flow.datagrams {
                let mut controller = flow.controller.as_str();
                if let (Some(slot), Some(agents)) = (flow.slot, agents) {
                    socket.set_mark(slot as u32 + 1)?;
                    controller = agents.controller(slot);
                }
                socket.set_controller(controller).map_err(|error| {
                    io::Error::new(error.kind(), format!("congestion control {controller:?}: {error}"))
                })?;
                socket.set_no_delay()?;
                socket.set_abrupt()?;
                if matches!(traffic, TrafficSpec::OnOff { .. }) {
                    socket.set_unsent(UNSENT)?;
                }
            }
            socket.bind(from, 0)?;
            socket.connect(to, PORT)?;
            Ok(socket)
        })?;
        self.poll.watch(&sender, 2 * i as u64)?;
        self.flows[i].sender = Some(sender);
        Ok(())
    }

    /// When somebody has to do something next.
    pub fn next_event(&self) -> Nanos {
        let next = |flow: &Flow| match flow.state {
            State::Waiting => flow.connects,
            State::Connecting => flow.start,
            State::Active => flow.stop.min(flow.traffic.next_event()),
            State::Over => Nanos::MAX,
        };
        self.flows.iter().map(next).min().unwrap_or(Nanos::MAX)
    }

    /// Do what is due by `now`, and move what can be moved.
    pub fn advance(&mut self, now: Nanos) -> io::Result<()> {
        self.move_bytes(now);
        for i in 0..self.flows.len() {
            if self.flows[i].state == State::Waiting && self.flows[i].connects <= now {
                self.connect(i)?;
            }
            if self.flows[i].state == State::Connecting && self.flows[i].start <= now {
                self.begin(i, now);
            }
            if self.flows[i].state == State::Active {
                if self.flows[i].stop <= now {
                    self.end(i);
                } else if self.flows[i].traffic.next_event() <= now {
                    self.offer(i, now);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, i: usize, now: Nanos) {
        let flow = &mut self.flows[i];
        flow.state = State::Active;
        if !flow.datagrams {
            flow.beginning = flow.sender.as_ref().map(Socket::info);
            if let (Some(slot), Some(agents)) = (flow.slot, &mut self.agents) {
                agents.start(slot, sys::clock_ns());
            }
        }
        // The application's clock starts on time, though we may look late.
        flow.traffic.start(flow.start.min(now));
        match flow.traffic.spec {
            TrafficSpec::Bulk => flow.bulk = true,
            TrafficSpec::Bytes { bytes } => flow.waiting_bytes = bytes,
            _ => {}
        }
        self.write(i);
    }

    fn offer(&mut self, i: usize, now: Nanos) {
        while self.flows[i].traffic.next_event() <= now {
            let at = self.flows[i].traffic.next_event();
            let flow = &mut self.flows[i];
            match flow.traffic.on_timer(at) {
                Action::Write if flow.datagrams => {
                    if let Some(sender) = &flow.sender {
                        flow.datagrams_sent += 1;
                        sender.write(self.datagram_bytes);
                    }
                }
                Action::Write => flow.waiting_bytes += self.segment_bytes,
                Action::Object(bytes) => {
                    let whole = bytes.div_ceil(self.segment_bytes) * self.segment_bytes;
                    flow.waiting_bytes += whole;
                    flow.offered_bytes += whole;
                    flow.downloads.push(Download { asked: at, bytes, end: flow.offered_bytes, complete: None });
                }
                Action::StartBulk => flow.bulk = true,
                Action::StopBulk => flow.bulk = false,
                Action::Nothing | Action::Probe => {}
            }
        }
        self.write(i);
    }

    fn write(&mut self, i: usize) {
        let flow = &mut self.flows[i];
        let Some(sender) = flow.sender.as_ref().filter(|_| flow.state == State::Active && !flow.datagrams) else {
            return;
        };
        while flow.bulk || flow.waiting_bytes > 0 {
            match sender.write(if flow.bulk { u64::MAX } else { flow.waiting_bytes }) {
                Moved::Bytes(n) if !flow.bulk => flow.waiting_bytes -= n,
                Moved::Bytes(_) => {}
                Moved::Later | Moved::Gone => return,
            }
        }
    }

    fn read(&mut self, i: usize, now: Nanos) -> io::Result<()> {
        let flow = &mut self.flows[i];
        if flow.receiver.is_none()
            && let Some(socket) = flow.listener.as_ref().and_then(Socket::accept)
        {
            self.poll.watch(&socket, 2 * i as u64 + 1)?;
            flow.receiver = Some(socket);
        }
        let Some(receiver) = &flow.receiver else { return Ok(()) };
        while let Moved::Bytes(n) = receiver.read() {
            // As in the simulator a datagram counts as a segment's payload.
            flow.received_bytes += if flow.datagrams { self.segment_bytes } else { n };
        }
        for download in &mut flow.downloads {
            if download.complete.is_none() && download.end <= flow.received_bytes {
                download.complete = Some(now);
            }
        }
        if flow.state == State::Active && flow.whole.is_some_and(|bytes| flow.received_bytes >= bytes) {
            flow.finished = now;
            self.end(i);
        }
        Ok(())
    }

    fn move_bytes(&mut self, now: Nanos) {
        let mut tokens = std::mem::take(&mut self.tokens);
        self.poll.news(&mut tokens);
        for token in &tokens {
            let i = (token / 2) as usize;
            if token % 2 == 0 {
                self.write(i);
            } else if let Err(error) = self.read(i, now) {
                eprintln!("orbitcc-emulator: flow {}: {error}", self.flows[i].name);
            }
        }
        self.tokens = tokens;
    }

    fn end(&mut self, i: usize) {
        let last = self.reading(i, 0);
        let flow = &mut self.flows[i];
        flow.last = last;
        flow.state = State::Over;
        // Senders first: a reset throws away what is under way.
        flow.sender = None;
        flow.receiver = None;
        flow.listener = None;
    }

    fn reading(&mut self, i: usize, zero_ns: u64) -> FlowReading {
        let flow = &mut self.flows[i];
        let received =
            FlowReading { finished: flow.finished, received_bytes: flow.received_bytes, ..FlowReading::default() };
        if flow.datagrams {
            let counters =
                orbitcc_core::tcp::sender::SenderCounters { sent: flow.datagrams_sent, ..Default::default() };
            return FlowReading { counters, ..received };
        }
        let (Some(sender), Some(beginning)) = (&flow.sender, &flow.beginning) else { return received };
        let mut reading = FlowReading {
            finished: flow.finished,
            received_bytes: flow.received_bytes,
            ..sender.info().reading(beginning)
        };
        if let (Some(slot), Some(agents)) = (flow.slot, &mut self.agents) {
            (reading.acks, reading.counters.lost) = agents.take(slot, zero_ns);
        }
        reading
    }

    /// What is known of every flow.
    pub fn read_all(&mut self, zero_ns: u64) -> Vec<FlowReading> {
        let mut all = Vec::with_capacity(self.flows.len());
        for i in 0..self.flows.len() {
            all.push(match self.flows[i].state {
                State::Over => FlowReading { acks: Default::default(), ..self.flows[i].last },
                _ => self.reading(i, zero_ns),
            });
        }
        all
    }

    pub fn set_window(&mut self, i: usize, cwnd: u32, pacing: Option<u64>) {
        if let (Some(slot), Some(agents)) = (self.flows.get(i).and_then(|flow| flow.slot), &mut self.agents) {
            agents.set_window(slot, cwnd, pacing);
            // The kernel takes it up when it next tries to send, which is now.
            if let Some(sender) = &self.flows[i].sender {
                sender.set_no_delay().ok();
            }
        }
    }

    /// Downloads of every flow: asked for (s), bytes, seconds until complete.
    pub fn report(&self) -> Value {
        let one = |d: &Download| json!([d.asked.secs_f64(), d.bytes, d.complete.map(|at| (at - d.asked).secs_f64())]);
        let flows = self.flows.iter().map(|flow| flow.downloads.iter().map(one).collect::<Vec<_>>());
        let (_, process_s, memory_bytes) = sys::usage();
        json!({"downloads": flows.collect::<Vec<_>>(), "cpu_s": process_s, "memory_bytes": memory_bytes})
    }
}
