//! The search for the rate of the highest utility: doubling, then probing around the rate and stepping along the
//! gradient. Works on planned intervals and their reports; knows no packets.

use super::monitor::{Plan, Report, Role};
use super::rules::Rules;
use super::step::Steps;
use crate::rng::Stream;

/// Lost packets by which the lower rate must have lost more before an increase is doubted, and the loss from which it is.
const DOUBTFUL_LOSSES: f64 = 2.0;
const DOUBTFUL_LOSS: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Results of doublings that are due.
    Start { awaits: u32 },
    /// The next interval begins a probe.
    Search,
    /// `next` of the probes come next, or all are on their way.
    Probe { next: usize },
    /// At `target` Mbit/s after a change of `change`.
    Move { target: f64, change: f64 },
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    mbps: f64,
    result: Option<Report>,
}

#[derive(Clone, Debug)]
pub struct Search {
    rules: Rules,
    pub phase: Phase,
    /// Rate being sent at, and the one explored around, Mbit/s.
    pub mbps: f64,
    pub base: f64,
    steps: Steps,
    decision: u32,
    probes: [Probe; 4],
    n_probes: usize,
    /// The latest result at the base rate while probing, or the one moving started from.
    reference: Option<Report>,
    last_utility: f64,
    forgiven_losses: f64,
    /// A doubtful result was probed again already.
    doubted: bool,
    /// Interval whose result ends the immunity of an emergency.
    emergency_until: Option<u64>,
}

impl Search {
    /// `first_mbps`: rate of the first interval.
    pub fn new(rules: Rules, first_mbps: f64) -> Search {
        Search {
            rules,
            phase: Phase::Start { awaits: 0 },
            mbps: first_mbps,
            base: first_mbps / rules.start.factor,
            steps: Steps::new(rules.law),
            decision: 0,
            probes: [Probe { mbps: 0.0, result: None }; 4],
            n_probes: 4,
            reference: None,
            last_utility: f64::NEG_INFINITY,
            forgiven_losses: rules.start.forgiven_losses,
            doubted: false,
            emergency_until: None,
        }
    }

    fn set(&mut self, mbps: f64) {
        self.mbps = mbps.clamp(self.rules.min_mbps * (1.0 - self.rules.epsilon), self.rules.max_mbps);
    }

    fn enter_search(&mut self) {
        self.phase = Phase::Search;
        self.base = self.base.clamp(self.rules.min_mbps, self.rules.max_mbps);
        self.set(self.base);
    }

    /// An interval begins: what it is for, at which rate.
    pub fn begin(&mut self, random: &mut Stream) -> Plan {
        if self.phase == Phase::Search {
            self.plan_probes(random);
        }
        let role = match self.phase {
            Phase::Start { awaits } if awaits >= self.rules.start.ahead => Role::Waiting,
            Phase::Start { awaits } => {
                self.base = (self.rules.start.factor * self.base).min(self.rules.max_mbps);
                self.mbps = self.base;
                self.phase = Phase::Start { awaits: awaits + 1 };
                Role::Doubled
            }
            Phase::Probe { next } if next < self.n_probes => {
                self.set(self.probes[next].mbps);
                self.phase = Phase::Probe { next: next + 1 };
                Role::Probe(next)
            }
            Phase::Move { target, .. } => {
                self.set(target);
                self.base = self.mbps;
                Role::Moved
            }
            Phase::Probe { .. } | Phase::Search => {
                self.set(self.base);
                Role::Waiting
            }
        };
        Plan { role, decision: self.decision, mbps: self.mbps }
    }

    fn plan_probes(&mut self, random: &mut Stream) {
        self.decision += 1;
        self.n_probes = if self.rules.trusts_trends && self.steps.trend >= 1 { 2 } else { 4 };
        let offset = (self.rules.epsilon * self.base).max(self.rules.least_epsilon_mbps);
        for pair in 0..self.n_probes / 2 {
            let first = if random.next_u64() >> 63 == 0 { offset } else { -offset };
            self.probes[2 * pair] = Probe { mbps: self.base + first, result: None };
            self.probes[2 * pair + 1] = Probe { mbps: self.base - first, result: None };
        }
        self.reference = None;
        self.phase = Phase::Probe { next: 0 };
    }

    fn utility(&self, report: &Report, loss: f64) -> f64 {
        // Bursts are not the rate chosen: no interval was faster than planned.
        let mbps = (report.packets_per_s * super::PACKET_BITS / 1e6).min(report.plan.mbps);
        self.rules.utility.of(mbps, loss, report.gradient)
    }

    /// The result of an interval, in the order of sending; `current`: number of the interval being sent.
    pub fn finish(&mut self, report: &Report, current: u64) {
        if report.lost > self.rules.emergency_loss * report.packets {
            if self.emergency_until.is_none_or(|until| report.id >= until) {
                self.emergency_until = Some(current);
                self.base /= 2.0;
                self.enter_search();
                return;
            }
        } else {
            self.emergency_until = None;
        }
        if report.plan.decision != self.decision {
            return;
        }
        match (self.phase, report.plan.role) {
            (Phase::Start { awaits }, Role::Doubled) => self.judge_doubling(report, awaits),
            (Phase::Probe { .. }, Role::Probe(k)) => {
                self.probes[k].result = Some(*report);
                if self.probes[..self.n_probes].iter().all(|p| p.result.is_some()) {
                    self.judge_probes();
                }
            }
            (Phase::Probe { .. } | Phase::Move { .. }, Role::Waiting) => self.reference = Some(*report),
            (Phase::Move { change, .. }, Role::Moved) => self.judge_move(report, change),
            _ => {}
        }
    }

    fn judge_doubling(&mut self, report: &Report, awaits: u32) {
        if report.void {
            // Twice of what was not sent would say nothing: try this rate again.
            self.base = report.plan.mbps / self.rules.start.factor;
            self.phase = Phase::Start { awaits: 0 };
            self.decision += 1;
            return;
        }
        let mut seen = *report;
        let forgiving = self.forgiven_losses > 0.0 || seen.lost == 0.0;
        if forgiving && seen.gradient.abs() < self.rules.start.forgiven_gradient {
            seen.gradient = 0.0;
        }
        if seen.lost <= self.forgiven_losses {
            seen.lost = 0.0;
        } else {
            seen.lost -= self.forgiven_losses;
            self.forgiven_losses = 0.0;
        }
        let utility = self.utility(&seen, seen.lost / seen.packets);
        if utility < self.last_utility {
            self.base = report.plan.mbps / self.rules.start.factor;
            self.enter_search();
        } else {
            self.phase = Phase::Start { awaits: awaits - 1 };
        }
        self.last_utility = utility;
    }

    fn judge_probes(&mut self) {
        let results = self.probes.map(|p| p.result.unwrap_or_default());
        let results = &results[..self.n_probes];
        if results.iter().any(|r| r.void) {
            self.enter_search();
            return;
        }
        let packets: f64 = results.iter().map(|r| r.packets).sum();
        let overall = results.iter().map(|r| r.lost).sum::<f64>() / packets;
        let value = |r: &Report| {
            let own = r.lost / r.packets;
            self.utility(r, if overall <= self.rules.averaged_loss { overall } else { own })
        };
        let (mut up, mut down, mut decision) = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0);
        for pair in results.chunks_exact(2) {
            let (high, low) = if pair[0].plan.mbps > pair[1].plan.mbps { (0, 1) } else { (1, 0) };
            let (high, low) = (&pair[high], &pair[low]);
            let (better, worse) = (value(high), value(low));
            decision += i32::from(better > worse) - i32::from(better < worse);
            up = (up.0 + better, up.1 + high.lost, high.plan.mbps);
            down = (down.0 + worse, down.1 + low.lost, low.plan.mbps);
        }
        let pairs = (self.n_probes / 2) as f64;
        if decision > 0 && up.1 > 0.0 && down.1 - up.1 > DOUBTFUL_LOSSES && overall >= DOUBTFUL_LOSS {
            // The higher rate lost less: chance. Probe again, once.
            if self.doubted {
                self.steps.trust();
            } else {
                decision = 0;
            }
            self.doubted = !self.doubted;
        } else {
            self.doubted = false;
        }
        if decision == 0 {
            self.steps.forget_direction();
            self.enter_search();
            return;
        }
        let gamma = (up.0 - down.0) / pairs / (up.2 - down.2);
        let change = self.steps.step(gamma, self.base);
        if change > self.rules.moves_beyond * self.base {
            self.move_by(change);
        } else {
            self.base += change;
            self.enter_search();
        }
    }

    fn move_by(&mut self, change: f64) {
        self.phase = Phase::Move { target: self.base + change, change };
    }

    fn judge_move(&mut self, report: &Report, change: f64) {
        let Some(reference) = self.reference.filter(|r| !r.void && !report.void) else {
            self.enter_search();
            return;
        };
        let loss = |r: &Report| r.lost / r.packets;
        let overall = (reference.lost + report.lost) / (reference.packets + report.packets);
        let faster = report.plan.mbps - reference.plan.mbps;
        if faster == 0.0 {
            self.enter_search();
            return;
        }
        let doubtful = faster * (loss(report) - loss(&reference)) < 0.0
            && ((report.lost - reference.lost).abs() > DOUBTFUL_LOSSES || overall >= DOUBTFUL_LOSS);
        let gamma = (self.utility(report, loss(report)) - self.utility(&reference, loss(&reference))) / faster;
        let next = self.steps.step(gamma, self.base);
        if doubtful {
            self.steps.forget_direction();
            self.enter_search();
        } else if next * change > 0.0 && next > self.rules.moves_beyond * self.base {
            self.reference = Some(*report);
            // What is being sent is not yet at the new rate.
            self.decision += 1;
            self.move_by(next);
        } else {
            if next * change > 0.0 {
                self.steps.trust();
            }
            self.base += next;
            self.enter_search();
        }
    }
}

#[cfg(test)]
mod tests;
