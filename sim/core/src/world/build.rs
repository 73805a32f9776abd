//! A world from its specification.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cc::Signal;
use crate::flow::{Agent, Flow};
use crate::link::Link;
use crate::observe::handovers::Handovers;
use crate::observe::needs;
use crate::observe::preset::Preset;
use crate::pool::Pool;
use crate::schedule::Schedule;
use crate::signals;
use crate::spec::{Directions, NetworkSpec, SpecError};
use crate::tcp::metrics::Destination;
use crate::tick::Tick;
use crate::time::Nanos;

use super::recorder::Recorder;
use super::{Control, Policies, ROUTE_END, World};

impl World {
    /// Build a network. `record_interval` > 0 keeps time series.
    pub fn new(spec: &NetworkSpec, policies: &Policies, record_interval: Nanos) -> Result<World, SpecError> {
        World::with_agents(spec, policies, record_interval, &Preset::astraea(Nanos::from_millis(30)))
    }

    /// The same, with flows that are driven from outside by this preset.
    pub fn with_agents(
        spec: &NetworkSpec,
        policies: &Policies,
        record_interval: Nanos,
        preset: &Preset,
    ) -> Result<World, SpecError> {
        spec.validate()?;
        let (mut links, tick) = (Vec::with_capacity(2 * spec.links.len()), Tick::new(spec.tcp.hz));
        for (i, link) in spec.links.iter().enumerate() {
            let outages = || link.outages.iter().map(|o| o.at);
            links.push(Link::new(&link.forward, outages(), tick, spec.seed, 2 * i as u64));
            links.push(Link::new(&link.reverse, outages(), tick, spec.seed, 2 * i as u64 + 1));
        }
        let sources = links.len() + spec.flows.len();
        if sources > Schedule::MAX_SOURCES {
            let limit = Schedule::MAX_SOURCES;
            return Err(SpecError(format!("flows: {sources} flows and link directions, at most {limit} are allowed")));
        }
        let mut flows = Vec::with_capacity(spec.flows.len());
        let mut begun = BTreeMap::new();
        for (i, flow) in spec.flows.iter().enumerate() {
            let agent = if flow.controller.name == "policy" {
                let key = flow.controller.params.get("policy").and_then(|v| v.as_str()).unwrap_or("");
                let Some(policy) = policies.get(key) else {
                    let known: Vec<_> = policies.keys().map(String::as_str).collect();
                    return Err(SpecError(format!(
                        "flows[{i}].controller.policy = {key:?}: must be one of [{}]",
                        known.join(", ")
                    )));
                };
                let decides = begun.entry(key).or_insert_with(|| (policy.begin)());
                Some(Agent::native(policy, decides.clone(), flow.delay_preference))
            } else {
                (flow.controller.name == "external" || flow.watched)
                    .then(|| Agent::external(preset, flow.delay_preference))
            };
            if let (Some(_), Some(agent)) = (flow.quic, &agent) {
                let reward = agent.policy.is_none().then_some(&*preset.reward);
                if let Some(name) = needs::not_in_quic(agent.observer.function(), &agent.action, reward) {
                    return Err(SpecError(format!(
                        "flows[{i}].transport = quic: its policy or preset needs the statistic {name}, which QUIC lacks"
                    )));
                }
            }
            flows.push(Flow::new(flow, i, spec, agent, preset.reward.memory));
        }
        let subscriptions: Vec<_> = flows.iter().map(|f| f.subscription).collect();
        let changes = signals::path_changes(spec);
        let signals = signals::plan(spec, &subscriptions, &changes);
        for (flow, changes) in flows.iter_mut().zip(&changes) {
            flow.handovers = Handovers::new(changes);
        }
        if spec.exact {
            links.iter_mut().for_each(Link::take_no_shortcuts);
            flows.iter_mut().for_each(|flow| flow.sender.conn.exact = true);
        }
        let edges = find_edges(&mut links, &flows, u64::from(spec.tcp.header_bytes) + 1);
        let controls = Arc::new(controls(spec, &links, &flows, signals));
        let mut routes = Vec::new();
        for flow in &mut flows {
            let now = [(&flow.forward, &mut flow.sender.route), (&flow.backward, &mut flow.receiver.route)];
            let later = flow
                .reroutes
                .iter_mut()
                .flat_map(|r| [(&r.forward, &mut r.data_route), (&r.backward, &mut r.ack_route)]);
            for (path, start) in now.into_iter().chain(later) {
                *start = routes.len() as u32;
                routes.extend_from_slice(path);
                routes.push(ROUTE_END);
            }
        }
        let tcp = &spec.tcp;
        let recorder = (record_interval > Nanos::ZERO)
            .then(|| Recorder::new(record_interval, spec.duration, flows.len(), spec.links.len()));
        let mut world = World {
            now: Nanos::ZERO,
            turn: 0,
            duration: spec.duration,
            wire_bytes: u64::from(tcp.mss + tcp.header_bytes),
            payload_share: f64::from(tcp.mss) / f64::from(tcp.mss + tcp.header_bytes),
            link_names: spec.links.iter().map(|l| l.name.clone()).collect(),
            schedule: Schedule::new(sources),
            links,
            edges,
            destinations: vec![Destination::default(); flows.len()],
            flows,
            has_relays: false,
            controls,
            next_control: 0,
            routes,
            pool: Pool::default(),
            departing: Vec::new(),
            recorder,
            next_decision: Nanos::MAX,
            failure: None,
            kernel_hosts: None,
            guests: None,
            carried: None,
            capture: None,
            hash: 0,
            events: 0,
        };
        if world.flows.iter().any(|flow| flow.hosted) {
            // Until `World::host` brings them.
            world.failure = Some(Arc::new(SpecError("transport = quic: this world has no hosts for it".into())));
        }
        world.connect_relays();
        Ok(world)
    }
}

/// Make edges of the links that are only ever the first of a path, from hosts with the same delay: their packets are
/// announced almost in order. The least packet has `least_bytes`. All paths count that any flow will ever take, also
/// those of flows that come later, so that an edge stays one.
fn find_edges(links: &mut [Link], flows: &[Flow], least_bytes: u64) -> Vec<u32> {
    let mut feeders: Vec<Option<Nanos>> = vec![None; links.len()];
    let mut others = vec![false; links.len()];
    for flow in flows {
        for (forward, backward) in flow.paths() {
            let first = forward[0] as usize;
            let delay = flow.host.delay();
            others[first] |= feeders[first].replace(delay).is_some_and(|known| known != delay);
            forward[1..].iter().chain(backward).for_each(|link| others[*link as usize] = true);
        }
    }
    let edges = (0..links.len()).filter(|i| feeders[*i].is_some() && !others[*i] && links[*i].make_edge(least_bytes));
    edges.map(|i| i as u32).collect()
}

/// Everything that is known to happen, in order; ties keep the order of construction.
fn controls(
    spec: &NetworkSpec,
    links: &[Link],
    flows: &[Flow],
    signals: Vec<(Nanos, u32, Signal)>,
) -> Vec<(Nanos, Control)> {
    let mut list = Vec::new();
    for (i, link) in links.iter().enumerate() {
        list.extend(link.rate_changes().map(|at| (at, Control::Rate { link: i as u32 })));
        if link.is_edge() {
            let loss = &spec.links[i / 2].forward.loss;
            list.extend(loss.iter().skip(1).map(|(at, _)| (*at, Control::Loss { link: i as u32 })));
        }
    }
    for (i, link) in spec.links.iter().enumerate() {
        for outage in &link.outages {
            for (direction, skipped) in [(0, Directions::Reverse), (1, Directions::Forward)] {
                if outage.directions == skipped {
                    continue;
                }
                let link = 2 * i as u32 + direction;
                list.push((outage.at, Control::OutageStart { link, mode: outage.mode, flush: outage.flush }));
                list.push((outage.at + outage.duration, Control::OutageEnd { link }));
            }
        }
    }
    for (i, flow) in flows.iter().enumerate() {
        list.push((flow.start, Control::FlowStart { flow: i as u32 }));
        if let Some(stop) = flow.stop {
            list.push((stop.max(flow.start), Control::FlowStop { flow: i as u32 }));
        }
    }
    for (i, flow) in flows.iter().enumerate() {
        list.extend(flow.reroutes.iter().map(|r| (r.at, Control::Reroute { flow: i as u32 })));
    }
    list.extend(signals.into_iter().map(|(at, flow, signal)| (at, Control::Signal { flow, signal })));
    list.sort_by_key(|c| c.0);
    list
}
