//! Many independent worlds stepped together: the native side of every environment.
//!
//! Results do not depend on the number of threads, the batch size or a world's place in the batch. Arrays belong to
//! the caller; a step allocates nothing of the size of the batch.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::flow::{Flow, Life};
use crate::observe::astraea::{self, STATE_DIM};
use crate::observe::functions::{Interval, Payment, Reward};
use crate::observe::policy::{ACTION_DIM, Failure};
use crate::observe::preset::Preset;
use crate::observe::stats::STATISTICS;
use crate::spec::{NetworkSpec, SpecError};
use crate::time::Nanos;
use crate::world::kernel_hosts::Connect;
use crate::world::{Policies, World};

/// No flow has this agent index now.
pub const STATUS_IDLE: u8 = 0;
/// The flow with this agent index acts on the next step.
pub const STATUS_ACTIVE: u8 = 1;
/// Its object finished during the last interval: this observation is its last.
pub const STATUS_TERMINATED: u8 = 2;
/// It left, or the world's time is up: this observation is its last.
pub const STATUS_TRUNCATED: u8 = 4;

/// The flows that have one agent index one after the other; each starts when the one before leaves.
#[derive(Clone)]
struct AgentFlows {
    flows: Vec<usize>,
    current: usize,
}

impl AgentFlows {
    fn flow(&self) -> usize {
        self.flows[self.current]
    }
}

/// One world of a batch and its agents.
#[derive(Clone)]
pub struct Member {
    pub world: World,
    agents: Vec<AgentFlows>,
    previous: Nanos,
    /// Whether each flow decides on its own clock, as policies in the world do.
    own_clock: bool,
    payment: Payment,
    /// The reward of all flows, if they share one.
    shared: f32,
}

impl Member {
    fn new(
        spec: &NetworkSpec,
        max_agents: usize,
        preset: &Preset,
        policies: &Policies,
        connect: Option<&Connect>,
    ) -> Result<Member, SpecError> {
        let mut world = World::with_agents(spec, policies, Nanos::ZERO, preset)?;
        let mut chains: Vec<AgentFlows> = Vec::new();
        for (i, flow) in world.flows().iter().enumerate().filter(|(_, flow)| flow.is_external()) {
            match chains.iter_mut().find(|chain| flow.follows.is_some() && chain.flows.last().copied() == flow.follows)
            {
                Some(chain) => chain.flows.push(i),
                None => chains.push(AgentFlows { flows: vec![i], current: 0 }),
            }
        }
        if chains.len() > max_agents {
            return Err(SpecError(format!("flows: {} external flows for {max_agents} agents", chains.len())));
        }
        if let Some(connect) = connect {
            connect(spec, &mut world)?;
        }
        let payment = preset.reward.payment.clone();
        let own_clock = preset.own_clock && preset.interval.rtts > 0.0;
        let mut member = Member { world, agents: chains, previous: Nanos::ZERO, own_clock, payment, shared: 0.0 };
        member.advance(preset.interval);
        Ok(member)
    }

    fn advance(&mut self, interval: Interval) {
        if self.world.is_finished() {
            return;
        }
        for agent in &mut self.agents {
            // The end of a flow is reported once, then its successor takes the agent index: the first that is still there.
            while self.world.flows()[agent.flow()].ended.is_some() && agent.current + 1 < agent.flows.len() {
                agent.current += 1;
            }
        }
        self.previous = self.world.now();
        let previous = self.previous;
        let end = if self.own_clock {
            self.next_stop(interval)
        } else if interval.rtts > 0.0 {
            previous + interval.after_rtt(self.mean_rtt_s())
        } else {
            // Real hosts are never read exactly on the grid.
            previous + interval.fixed - Nanos(previous.0 % interval.fixed.0)
        };
        self.world.run_until(end);
        let all_due = !self.own_clock || self.world.is_finished();
        let now = self.world.now();
        self.world.close_intervals(|f: &Flow| {
            f.agent.as_ref().is_none_or(|a| a.policy.is_none())
                && f.ended_at().map_or(all_due || due(interval, f) <= now, |t| t > previous)
        });
        if let Payment::Shared(reward) = &self.payment {
            let members = self.world.members_since(previous);
            self.shared = reward(&members, self.world.utilisation_since(previous)) as f32;
        }
    }

    /// When the next interval of a flow of an agent ends, or such a flow leaves.
    fn next_stop(&self, interval: Interval) -> Nanos {
        let (mut next, mut present) = (Nanos::MAX, false);
        for flow in self.agents.iter().flat_map(|agent| &agent.flows[agent.current..]) {
            let f = &self.world.flows()[*flow];
            let leaves = if f.life == Life::Active { f.stop.unwrap_or(Nanos::MAX) } else { Nanos::MAX };
            let at = due(interval, f).min(leaves);
            next = if at > self.previous { next.min(at) } else { next };
            present |= f.life == Life::Active;
        }
        if present { next } else { next.min(self.previous + interval.fixed) }
    }

    /// Whether the last interval of a flow is told: that of a flow that waits for its next decision, too.
    fn tells(&self, flow: usize) -> bool {
        let f = &self.world.flows()[flow];
        self.status(flow) != STATUS_IDLE || (self.own_clock && f.life == Life::Active && f.stats.interval_s > 0.0)
    }

    /// Of the agents that act next; 0 if none is known.
    fn mean_rtt_s(&self) -> f64 {
        let flows = self.agents.iter().map(AgentFlows::flow).filter(|flow| self.status(*flow) == STATUS_ACTIVE);
        let rtts = flows.map(|flow| self.world.flows()[flow].stats.latest_rtt_s()).filter(|rtt| *rtt > 0.0);
        let (sum, count) = rtts.fold((0.0, 0), |(sum, count), rtt| (sum + rtt, count + 1));
        if count > 0 { sum / f64::from(count) } else { 0.0 }
    }

    fn apply(&mut self, actions: &[f32]) {
        for (agent_index, action) in actions.iter().enumerate().take(self.agents.len()) {
            let flow = self.agents[agent_index].flow();
            if self.status(flow) == STATUS_ACTIVE {
                self.world.apply_action(flow, action.clamp(-1.0, 1.0));
            }
        }
    }

    fn status(&self, flow: usize) -> u8 {
        let f = &self.world.flows()[flow];
        match f.life {
            Life::Waiting => STATUS_IDLE,
            Life::Active if f.meter.since() < self.world.now() || f.stats.interval_s <= 0.0 => STATUS_IDLE,
            Life::Active if self.world.is_finished() => STATUS_TRUNCATED,
            Life::Active => STATUS_ACTIVE,
            Life::Finished if f.ended_at().is_some_and(|t| t > self.previous) => STATUS_TERMINATED,
            Life::Left if f.ended_at().is_some_and(|t| t > self.previous) => STATUS_TRUNCATED,
            Life::Finished | Life::Left => STATUS_IDLE,
        }
    }

    fn observe(&self, obs: &mut [f32], reward: &mut [f32], status: &mut [u8]) {
        let width = obs.len() / status.len();
        for (agent_index, row) in obs.chunks_exact_mut(width).enumerate() {
            let flow = self.agents.get(agent_index).map(AgentFlows::flow);
            let now = flow.map_or(STATUS_IDLE, |flow| self.status(flow));
            let flow = flow.filter(|flow| self.tells(*flow)).map(|flow| &self.world.flows()[flow]);
            (status[agent_index], reward[agent_index]) = match (&self.payment, flow) {
                (Payment::Shared(_), Some(_)) if now != STATUS_IDLE => (now, self.shared),
                (Payment::Own(reward), Some(flow)) if now != STATUS_IDLE => (now, reward(&flow.rewarded()) as f32),
                _ => (STATUS_IDLE, 0.0),
            };
            match flow.and_then(|flow| flow.agent.as_ref()) {
                Some(agent) => row.copy_from_slice(agent.observer.observation()),
                None => row.fill(0.0),
            }
        }
    }
}

/// When the interval of a flow ends on its own clock, as those of policies in the world do.
fn due(interval: Interval, flow: &Flow) -> Nanos {
    match flow.life {
        Life::Waiting => interval.next_on_grid(flow.start),
        Life::Active if flow.stats.interval_s > 0.0 => interval.next_decision(flow.meter.since(), &flow.stats),
        Life::Active => interval.next_on_grid(flow.meter.since()),
        Life::Finished | Life::Left => Nanos::MAX,
    }
}

/// A thread that sleeps may take this long to wake up: work that is shorter is done without it.
const WAKE: Duration = Duration::from_micros(100);

pub struct Worlds {
    members: Vec<Member>,
    max_agents: usize,
    preset: Preset,
    policies: Policies,
    /// Where hosts are not the simulator's: how to get them.
    connect: Option<Arc<Connect>>,
    threads: usize,
    /// The process it belongs to, and threads beside the caller's.
    pool: Option<(u32, rayon::ThreadPool)>,
    /// What the latest step took of all threads.
    work: Duration,
}

impl Worlds {
    /// `threads` = 0 takes every core.
    pub fn new(
        specs: &[NetworkSpec],
        max_agents: usize,
        preset: Preset,
        threads: usize,
        policies: Policies,
        connect: Option<Arc<Connect>>,
    ) -> Result<Worlds, SpecError> {
        if specs.is_empty() || max_agents == 0 || preset.interval.fixed == Nanos::ZERO {
            return Err(SpecError("specs, max_agents and interval_ns must not be empty or zero".into()));
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = if threads == 0 { cores } else { threads }.min(specs.len());
        let new = |spec| Member::new(spec, max_agents, &preset, &policies, connect.as_deref());
        let members = specs.iter().map(new).collect::<Result<Vec<_>, _>>()?;
        Ok(Worlds { members, max_agents, preset, policies, connect, threads, pool: None, work: Duration::MAX })
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The first world's failure, if a policy could not decide.
    pub fn failure(&self) -> Option<&Failure> {
        self.members.iter().find_map(|member| member.world.failure())
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn max_agents(&self) -> usize {
        self.max_agents
    }

    pub fn member(&self, index: usize) -> &Member {
        &self.members[index]
    }

    pub fn member_mut(&mut self, index: usize) -> &mut Member {
        &mut self.members[index]
    }

    pub fn set_member(&mut self, index: usize, member: Member) {
        self.members[index] = member;
    }

    pub fn reset(&mut self, index: usize, spec: &NetworkSpec) -> Result<(), SpecError> {
        self.members[index].world.part();
        self.members[index] =
            Member::new(spec, self.max_agents, &self.preset, &self.policies, self.connect.as_deref())?;
        Ok(())
    }

    /// Pay by other rules from the next step on.
    pub fn set_reward(&mut self, reward: Arc<Reward>) {
        for member in &mut self.members {
            member.payment = reward.payment.clone();
        }
        self.preset.reward = reward;
    }

    pub fn observation_dim(&self) -> usize {
        self.preset.observation.dim()
    }

    /// The flow with this agent index now, if the world has that many agents.
    pub fn flow_of(&self, index: usize, agent_index: usize) -> Option<usize> {
        self.members[index].agents.get(agent_index).map(AgentFlows::flow)
    }

    /// Write the flow of every agent index now, [N, S]; -1 where a world has fewer agents.
    pub fn places(&self, out: &mut [i64]) {
        out.fill(-1);
        for (member, row) in self.members.iter().zip(out.chunks_mut(self.max_agents)) {
            for (place, agent) in row.iter_mut().zip(&member.agents) {
                *place = agent.flow() as i64;
            }
        }
    }

    /// Write obs [N, S, D], reward [N, S] and status [N, S].
    pub fn observe(&self, obs: &mut [f32], reward: &mut [f32], status: &mut [u8]) {
        let (s, width) = (self.max_agents, self.observation_dim());
        for (((member, o), r), st) in
            self.members.iter().zip(obs.chunks_mut(s * width)).zip(reward.chunks_mut(s)).zip(status.chunks_mut(s))
        {
            member.observe(o, r, st);
        }
    }

    /// Apply actions [N, S, A] (none: windows stay as they were set), advance every unfinished world by one interval (on
    /// flows' own clocks: to the next decision of any of its flows, and only those that are due are active) and write the
    /// outcome. A NaN for an active agent is refused before anything moves.
    pub fn step(
        &mut self,
        actions: Option<&[f32]>,
        obs: &mut [f32],
        reward: &mut [f32],
        status: &mut [u8],
    ) -> Result<(), SpecError> {
        let (s, width) = (self.max_agents, self.observation_dim());
        let row_of = |world: usize| actions.map(|a| &a[world * s * ACTION_DIM..(world + 1) * s * ACTION_DIM]);
        for (w, member) in self.members.iter().enumerate() {
            let Some(row) = row_of(w) else { break };
            for (agent_index, flow) in member.agents.iter().map(AgentFlows::flow).enumerate() {
                if row[agent_index].is_nan() && member.status(flow) == STATUS_ACTIVE {
                    return Err(SpecError(format!("actions[{w}, {agent_index}] = NaN: must be a number")));
                }
            }
        }
        let interval = self.preset.interval;
        let some = |first: usize, members: &mut [Member], o: &mut [f32], r: &mut [f32], st: &mut [u8]| {
            for ((((world, member), o), r), st) in
                (first..).zip(members).zip(o.chunks_mut(s * width)).zip(r.chunks_mut(s)).zip(st.chunks_mut(s))
            {
                if !member.world.is_finished() {
                    if let Some(row) = row_of(world) {
                        member.apply(row);
                    }
                    member.advance(interval);
                }
                member.observe(o, r, st);
            }
        };
        let helpers = if self.work > WAKE { self.threads.min(self.members.len()) - 1 } else { 0 };
        if helpers > 0 {
            self.own_pool()?;
        }
        let began = Instant::now();
        // Worlds differ in what they take: a thread fetches a few at a time.
        let few = self.members.len().div_ceil(8 * (helpers + 1));
        let rest = Mutex::new(
            self.members
                .chunks_mut(few)
                .enumerate()
                .zip(obs.chunks_mut(few * s * width))
                .zip(reward.chunks_mut(few * s))
                .zip(status.chunks_mut(few * s)),
        );
        let drain = || {
            loop {
                let next = rest.lock().expect("a world panicked").next();
                let Some(((((k, members), o), r), st)) = next else { return };
                some(k * few, members, o, r, st);
            }
        };
        match &self.pool {
            Some((_, pool)) if helpers > 0 => pool.in_place_scope(|scope| {
                for _ in 0..helpers {
                    scope.spawn(|_| drain());
                }
                drain();
            }),
            _ => drain(),
        }
        self.work = began.elapsed() * (helpers as u32 + 1);
        Ok(())
    }

    /// A forked child has no threads of its parent's pool: it builds another.
    fn own_pool(&mut self) -> Result<(), SpecError> {
        let process = std::process::id();
        if self.pool.as_ref().is_none_or(|(owner, _)| *owner != process) {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads - 1).build();
            let pool = pool.map_err(|e| SpecError(format!("threads = {}: {e}", self.threads)))?;
            if let Some((_, inherited)) = self.pool.replace((process, pool)) {
                // Its threads do not exist here; waiting for them would never end.
                std::mem::forget(inherited);
            }
        }
        Ok(())
    }

    /// Write the raw interval statistics, [N, S, fields]; zeros for idle agents.
    pub fn stats(&self, out: &mut [f64]) {
        out.fill(0.0);
        let width = STATISTICS.len();
        for (member, rows) in self.members.iter().zip(out.chunks_mut(self.max_agents * width)) {
            for (agent_index, flow) in member.agents.iter().map(AgentFlows::flow).enumerate() {
                if member.tells(flow) {
                    let row = member.world.flows()[flow].stats.to_array();
                    rows[agent_index * width..(agent_index + 1) * width].copy_from_slice(&row);
                }
            }
        }
    }

    /// What a step is told by, [4, N, S]: goodput in Mbit/s, RTT in ms (the smoothed one where no segment was timed),
    /// goodput over the bottleneck's rate, its queue in bytes; 0 where no flow is.
    pub fn step_figures(&self, out: &mut [f64]) {
        out.fill(0.0);
        let cells = self.members.len() * self.max_agents;
        for (world, member) in self.members.iter().enumerate() {
            for (agent_index, flow) in member.agents.iter().map(AgentFlows::flow).enumerate() {
                if member.tells(flow) {
                    let stats = &member.world.flows()[flow].stats;
                    let rtt_s = if stats.rtt_mean_s > 0.0 { stats.rtt_mean_s } else { stats.srtt_s };
                    let used = stats.goodput_bps / stats.capacity_bps.max(1.0);
                    let figures = [stats.goodput_bps * 1e-6, rtt_s * 1e3, used, stats.queue_bytes];
                    for (figure, value) in figures.into_iter().enumerate() {
                        out[figure * cells + world * self.max_agents + agent_index] = value;
                    }
                }
            }
        }
    }

    /// Write the critic's global state, [N, 12]; flows that left in the last interval are in it.
    pub fn global_state(&self, out: &mut [f32]) {
        for (member, row) in self.members.iter().zip(out.chunks_mut(STATE_DIM)) {
            row.copy_from_slice(&astraea::global_state(&member.world.members_since(member.previous)));
        }
    }
}
