//! Decisions: policies observe and act, agents' windows are set.

use crate::flow::Life;
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
                agent.next_decision = agent.interval.next_decision(now, &flow.stats);
            }
            next = next.min(agent.next_decision);
        }
        self.next_decision = next;
        for (i, answer) in acting {
            self.apply(i, answer);
        }
    }

    /// Perform an agent's action in [-1, 1] on its flow `i`.
    pub fn apply_action(&mut self, i: usize, action: f32) {
        self.apply(i, Answer::Action(action));
    }

    /// Set the window (segments) and, if given, the pacing rate (bytes per second) that an agent has chosen for its flow
    /// `i`.
    pub fn apply_control(&mut self, i: usize, cwnd: u32, pacing: Option<u64>) {
        self.apply(i, Answer::Control((cwnd, pacing)));
    }

    fn apply(&mut self, i: usize, answer: Answer) {
        let flow = &mut self.flows[i];
        if let Some(agent) = &mut flow.agent {
            let (cwnd, pacing) = agent.control(&flow.sender.conn, &flow.stats, answer);
            self.set_window(i, cwnd, pacing);
        }
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
