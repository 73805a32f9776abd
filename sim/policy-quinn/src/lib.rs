//! Trained policies as congestion controllers of [quinn](https://docs.rs/quinn): a checkpoint's folder becomes the
//! `congestion_controller_factory` of a `TransportConfig`.
//!
//! ```no_run
//! # fn main() -> Result<(), orbitcc_policy_quinn::Error> {
//! let policy = orbitcc_policy_quinn::PolicyConfig::load("checkpoints/zenith")?;
//! let mut transport = quinn_proto::TransportConfig::default();
//! transport.congestion_controller_factory(std::sync::Arc::new(policy));
//! # Ok(())
//! # }
//! ```
//!
//! Statistics, observation, network, action and safety filter are those of the simulator. What differs:
//!
//! - quinn has no timer for controllers: decisions that were due are made before the next packet is sent or acknowledged. They are
//!   those of a timer, because nothing happened in between, but take effect with that packet.
//! - quinn paces packets itself, at 1.25 windows per smoothed RTT; the simulator paces at the policy's rate, mostly one window
//!   per smoothed RTT. Bursts are therefore sharper here. Of a policy that sets a rate, the window is also held to what that
//!   rate sends in a smoothed RTT.

#![forbid(unsafe_code)]

mod checkpoint;

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use orbitcc_core::cc::{self, Conn};
use orbitcc_core::flow::Agent;
use orbitcc_core::observe::functions::Control;
use orbitcc_core::observe::policy::Policy;
use orbitcc_core::observe::stats::{IntervalStats, Meter};
use orbitcc_core::spec::{ControllerSpec, QuicSpec, TcpSpec};
use orbitcc_core::tcp::sender::Sender;
use orbitcc_core::time::Nanos;
use orbitcc_quic::ledger::Ledger;
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

/// Why a checkpoint cannot be used, in one line.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A checkpoint's policy, for any number of connections.
#[derive(Clone)]
pub struct PolicyConfig {
    policy: Arc<Policy>,
}

impl PolicyConfig {
    /// Read and check a folder with `policy.safetensors` and `card.json`. Refused are files that are missing, damaged or of
    /// another version, and policies that observe what a sender of QUIC does not know.
    pub fn load(folder: impl AsRef<Path>) -> Result<PolicyConfig, Error> {
        let folder = folder.as_ref();
        let policy = checkpoint::read(folder).map_err(|e| Error(format!("checkpoint {}: {e}", folder.display())))?;
        Ok(PolicyConfig { policy: Arc::new(policy) })
    }
}

impl ControllerFactory for PolicyConfig {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(PolicyController::new(&self.policy, now, mtu))
    }
}

/// At most so many decisions are made after a pause.
const MOST_LATE: u64 = 64;

/// The controller of one connection.
#[derive(Clone)]
pub struct PolicyController {
    ledger: Ledger,
    /// What the simulator would know of the sender.
    sender: Sender,
    meter: Meter,
    stats: IntervalStats,
    agent: Agent,
    /// The rate that the policy asked for, bytes per second, and the first window.
    rate: Option<u64>,
    initial_window: u64,
    decisions: u64,
}

impl PolicyController {
    fn new(policy: &Policy, now: Instant, mtu: u16) -> PolicyController {
        let mut agent = Agent::native(policy, (policy.begin)(), 0.0);
        agent.next_decision = agent.interval.next_on_grid(Nanos::ZERO);
        let mss = u32::from(mtu.saturating_sub(QuicSpec::OVERHEAD));
        let tcp = TcpSpec { mss, ..TcpSpec::default() };
        let controller = ControllerSpec { name: "policy".into(), params: agent.action.controller.clone() };
        let cc = cc::build(&controller, &tcp).expect("an action's own parameters");
        let ledger = Ledger::new(now, mtu, mss, Some((cc.clone(), Conn::new(&tcp))));
        PolicyController {
            sender: Sender::new(&tcp, 0, cc, 0),
            meter: Meter::new(Nanos::ZERO),
            stats: IntervalStats::default(),
            agent,
            rate: None,
            initial_window: ledger.window(),
            decisions: 0,
            ledger,
        }
    }

    /// How often the policy has decided.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Has Cubic taken over, because the path is outside of what the policy was trained on?
    pub fn has_fallen_back(&self) -> bool {
        self.agent.safety_filter.as_ref().is_some_and(|filter| filter.has_taken_over())
    }

    /// Make the decisions that were due up to now; of a long pause the last ones.
    fn catch_up(&mut self, now: Nanos) {
        while self.agent.next_decision <= now {
            let due = self.agent.next_decision;
            self.decide(due);
            let step = self.agent.next_decision.saturating_sub(due);
            let left = now.saturating_sub(self.agent.next_decision);
            if left.0 > MOST_LATE * step.0 {
                self.agent.next_decision = Nanos(now.0 - MOST_LATE * step.0);
            }
        }
    }

    fn decide(&mut self, now: Nanos) {
        let reading = self.ledger.read();
        self.sender.take_in(&reading);
        self.meter.push(now, &reading.acks);
        self.meter.take(now, &self.sender, reading.counters.acked_bytes, &mut self.stats);
        self.stats.clear_what_quic_lacks();
        self.agent.next_decision = self.agent.interval.next_decision(now, &self.stats);
        if let Some((cwnd, rate)) = self.ask() {
            self.decisions += 1;
            self.rate = rate;
            self.ledger.set_window(now, cwnd, rate);
        }
    }

    /// What the policy wants after an interval with the present statistics. Only policies in Python fail.
    fn ask(&mut self) -> Option<Control> {
        self.agent.observer.push(&self.stats);
        let policy = self.agent.policy.as_mut().expect("native");
        let answer = policy.decide(0, self.agent.observer.observation(), &self.stats).ok()?;
        Some(self.agent.control(&self.sender.conn, &self.stats, answer))
    }
}

impl Controller for PolicyController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let at = self.ledger.at(now);
        self.catch_up(at);
        self.ledger.on_sent(at, bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let (at, left) = (self.ledger.at(now), self.ledger.at(sent));
        self.catch_up(at);
        self.ledger.on_ack(left, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        let at = self.ledger.at(now);
        self.ledger.on_end_acks(at, in_flight);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost_bytes: u64) {
        let (at, left) = (self.ledger.at(now), self.ledger.at(sent));
        self.catch_up(at);
        self.ledger.on_congestion(at, left, persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.ledger.set_mtu(mtu);
        self.sender.conn.mss = u32::from(mtu.saturating_sub(QuicSpec::OVERHEAD));
    }

    fn window(&self) -> u64 {
        let sent_in_rtt = |rate: u64| (u128::from(rate) * u128::from(self.sender.conn.srtt8_us) / 8_000_000) as u64;
        let window = self.ledger.window();
        self.rate.map_or(window, |rate| window.min(sent_in_rtt(rate).max(2 * u64::from(self.sender.conn.mss))))
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use orbitcc_core::observe::policy::{Answer, Decide, Failure};
    use orbitcc_core::spec::NetworkSpec;
    use orbitcc_core::world::{Policies, World};
    use serde_json::json;

    use super::*;

    /// Decides as a policy does, and keeps the statistics.
    struct Watched(Box<dyn Decide>, Arc<Mutex<Vec<IntervalStats>>>);

    impl Decide for Watched {
        fn decide(&mut self, flow: usize, observation: &[f32], stats: &IntervalStats) -> Result<Answer, Failure> {
            self.1.lock().unwrap().push(*stats);
            self.0.decide(flow, observation, stats)
        }

        fn clone_box(&self) -> Box<dyn Decide> {
            Box::new(Watched(self.0.clone_box(), self.1.clone()))
        }
    }

    fn shipped(name: &str) -> Arc<Policy> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints").join(name);
        PolicyConfig::load(folder).unwrap().policy
    }

    #[test]
    fn a_rate_holds_the_window_to_what_it_sends_in_a_round_trip() {
        let mut controller = PolicyController::new(&shipped("perigee"), Instant::now(), 1_452);
        assert_eq!(controller.window(), 10 * 1_452 + 1, "quinn keeps below its window");
        controller.ledger.set_window(Nanos::ZERO, 1_000, None);
        controller.sender.conn.srtt8_us = 8 * 50_000;
        let windows = [None, Some(1_000_000), Some(1_000_000_000), Some(1)].map(|rate| {
            controller.rate = rate;
            controller.window()
        });
        assert_eq!(windows, [1_452_001, 50_000, 1_452_001, 2 * 1_416]);
        controller.on_mtu_update(1_200);
        assert_eq!(controller.window(), 2 * 1_164, "a packet of the new size");
    }

    #[test]
    fn decisions_that_were_due_are_made_before_the_next_packet() {
        let begin = Instant::now();
        let mut controller = PolicyController::new(&shipped("perigee"), begin, 1_452);
        let step = controller.agent.next_decision;
        let after = |steps: f64| begin + std::time::Duration::from_nanos((step.0 as f64 * steps) as u64);
        controller.on_sent(after(0.1), 1_452, 0);
        assert_eq!(controller.decisions(), 0);
        controller.on_sent(after(4.5), 1_452, 1);
        assert_eq!(controller.decisions(), 4);
        assert_eq!(controller.agent.next_decision, Nanos(5 * step.0), "on the grid of a timer");
        controller.on_sent(after(1e6), 1_452, 2);
        assert!((60..=70).contains(&(controller.decisions() - 4)), "{}", controller.decisions());
    }

    #[test]
    fn windows_are_those_that_the_simulator_sets_after_the_same_statistics() {
        for name in ["zenith", "perigee"] {
            let policy = shipped(name);
            let seen = Arc::new(Mutex::new(Vec::new()));
            let (inner, kept) = (policy.clone(), seen.clone());
            let watched = Policy {
                begin: Box::new(move || Box::new(Watched((inner.begin)(), kept.clone()))),
                observation: policy.observation.clone(),
                action: policy.action.clone(),
                interval: policy.interval,
                safety_filter: policy.safety_filter.clone(),
            };
            // 20 Mbit/s, 40 ms, a queue of half a bandwidth-delay product, a few losses.
            let way = json!({"rate": [[0, 20_000_000]], "delay": {"points": [[0, 20_000_000]]},
                "queue": {"kind": "drop_tail_bytes", "limit": 50_000}, "loss": [[0, {"kind": "bernoulli", "p": 0.002}]]});
            let controller = json!({"name": "policy", "params": {"policy": name}});
            let flow =
                json!({"name": "f", "path": [0], "controller": controller, "quic": {"send_window": 100_000_000}});
            let link = json!({"name": "link", "forward": way, "reverse": way, "outages": []});
            let spec = json!({"seed": 7, "duration": 20_000_000_000u64, "flows": [flow], "links": [link]});
            let spec = NetworkSpec::from_json(&spec.to_string()).unwrap();
            let policies = Policies::from_iter([(name.to_owned(), Arc::new(watched))]);
            let mut world = World::new(&spec, &policies, Nanos::ZERO).unwrap();
            orbitcc_quic::host(&spec, &mut world);
            world.run();
            assert!(world.failure().is_none());
            let seen = seen.lock().unwrap();
            let mut controller = PolicyController::new(&policy, Instant::now(), 1_452);
            for pair in seen.windows(2) {
                controller.stats = pair[0];
                controller.sender.conn.cwnd = pair[0].cwnd_packets as u32;
                controller.sender.conn.srtt8_us = (pair[0].srtt_s * 8e6).round() as u32;
                let (cwnd, rate) = controller.ask().unwrap();
                // The first acknowledgement sets the initial window once more.
                if pair[0].srtt_s > 0.0 {
                    assert_eq!((f64::from(cwnd), rate), (pair[1].cwnd_packets, None), "{name}: {:?}", pair[0]);
                }
            }
            let most = seen.iter().map(|stats| stats.cwnd_packets).fold(0.0, f64::max);
            assert!(seen.len() > 400 && most > 60.0, "{name}: {} decisions, windows up to {most}", seen.len());
        }
    }
}
