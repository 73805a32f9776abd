//! Decisions: policies observe and act, agents' windows are set.

use crate::flow::{Agent, Life};
use crate::observe::functions::{Control, Interval};
use crate::observe::policy::Answer;
use crate::time::Nanos;

use super::World;
use super::guests::Call;

impl World {
    /// Decisions of policies that are due now: all observe, then all act.
    pub(crate) fn decide(&mut self) {
        let now = self.now;
        let due = |f: &crate::flow::Flow| f.agent.as_ref().is_some_and(|a| a.next_decision == now);
        self.close_intervals(due);
        let mut next = Nanos::MAX;
        let mut acting = Vec::new();
        for (i, flow) in self.flows.iter_mut().enumerate() {
            let Some(agent) = &mut flow.agent else {
                continue;
            };
            let Some(policy) = &mut agent.policy else {
                continue;
            };
            if agent.next_decision == now {
                match policy.decide(i, agent.observer.observation(), &flow.stats) {
                    Ok(answer) => acting.push((i, answer)),
                    Err(failure) => {
                        self.failure = Some(failure);
                        return;
                    }
                }
                agent.next_decision = match agent.interval {
                    Interval { rtts, .. } if rtts > 0.0 => now + agent.interval.after(&flow.stats),
                    // Real hosts are never read exactly on the grid.
                    Interval { fixed, .. } => next_on_grid(now, fixed),
                };
            }
            next = next.min(agent.next_decision);
        }
        self.next_decision = next;
        for (i, answer) in acting {
            match answer {
                Answer::Action(action) => self.apply_action(i, action),
                Answer::Control(asked) => self.ask(i, asked),
            }
        }
    }

    /// Perform an agent's action in [-1, 1] on its flow `i`.
    pub fn apply_action(&mut self, i: usize, action: f32) {
        let flow = &mut self.flows[i];
        if let Some(agent) = &mut flow.agent {
            let perform = &agent.action.perform;
            let asked = perform(&flow.sender.conn, &flow.stats, f64::from(action), &mut agent.memory);
            self.ask(i, asked);
        }
    }

    /// Set what an agent asked for its flow `i`, as far as its safety filter lets it.
    fn ask(&mut self, i: usize, asked: Control) {
        let flow = &mut self.flows[i];
        let (cwnd, pacing) = match &mut flow.agent {
            Some(Agent { safety_filter: Some(safety_filter), memory, .. }) => {
                safety_filter.hold(&flow.stats, asked, &mut memory.window)
            }
            _ => asked,
        };
        self.set_window(i, cwnd, pacing);
    }

    /// Set flow `i`'s window (segments) and, if given, its pacing rate (bytes per second).
    pub fn set_window(&mut self, i: usize, cwnd: u32, pacing: Option<u64>) {
        if self.flows[i].life != Life::Active {
            return;
        }
        if self.has_kernel_hosts() {
            return self.set_live_window(i, cwnd, pacing);
        }
        if self.flows[i].hosted {
            let sender = &mut self.flows[i].sender;
            if sender.cc.set_window(&mut sender.conn, cwnd, pacing) {
                let cwnd = sender.conn.cwnd;
                self.call_guest(i, Call::Window(cwnd, pacing));
            }
            return;
        }
        let now = self.now;
        self.flows[i].sender.set_window(now, cwnd, pacing, &mut self.pool);
        self.dispatch_data(i);
    }
}

/// The first multiple of `interval` after `now`.
pub(crate) fn next_on_grid(now: Nanos, interval: Nanos) -> Nanos {
    Nanos((now.0 / interval.0 + 1) * interval.0)
}
