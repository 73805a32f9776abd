//! Policies in fixed point: integers alone, as in a kernel, where there are no floating-point numbers. The C code of the BPF
//! programs (`sim/emulator/bpf`) is compiled for this machine; [`compile`] makes its data from a checkpoint.

mod compile;
pub mod layout;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use orbitcc_core::observe::functions::Observation;
use orbitcc_core::observe::policy::{Answer, Decide, Failure, Network, Policy};
use orbitcc_core::observe::safety_filter;
use orbitcc_core::observe::stats::IntervalStats;

use layout::{Decision, Limits, Safety, State, Statistics};

pub use compile::compile;

unsafe extern "C" {
    fn orbitcc_fixed_decide(
        policy: *const layout::Policy,
        state: *mut State,
        safety: *mut Safety,
        stats: *const Statistics,
        decision: *mut Decision,
    ) -> u32;
}

/// A flow whose window a policy in fixed point decides.
#[derive(Clone)]
pub struct Flow {
    policy: Arc<layout::Policy>,
    pub state: State,
    pub safety: Safety,
}

impl Flow {
    pub fn new(policy: Arc<layout::Policy>) -> Flow {
        Flow { policy, state: State::default(), safety: Safety::default() }
    }

    /// Take in an interval and decide. Returns the decision, and the window that the safety filter leaves.
    pub fn take(&mut self, stats: &Statistics) -> (Decision, u32) {
        let mut decision = Decision::default();
        // SAFETY: the layouts are C's, which writes to the state, the filter and the decision alone. Whatever the policy says,
        // C bounds every index, as the kernel demands.
        let cwnd =
            unsafe { orbitcc_fixed_decide(&*self.policy, &mut self.state, &mut self.safety, stats, &mut decision) };
        (decision, cwnd)
    }
}

impl Decide for Flow {
    fn decide(&mut self, _flow: usize, _observation: &[f32], stats: &IntervalStats) -> Result<Answer, Failure> {
        Ok(Answer::Control((self.take(&stats.into()).1, None)))
    }

    fn clone_box(&self) -> Box<dyn Decide> {
        Box::new(self.clone())
    }
}

/// The same policy in fixed point, or the reason why it has no such form.
pub fn policy(network: &Network, policy: &Policy) -> Result<(Policy, Arc<layout::Policy>), String> {
    let compiled = Arc::new(compile(network, policy)?);
    let flow = Flow::new(Arc::clone(&compiled));
    let fixed = Policy {
        begin: Box::new(move || Box::new(flow.clone())),
        observation: Arc::new(Observation::empty()),
        action: Arc::clone(&policy.action),
        interval: policy.interval,
        safety_filter: None,
    };
    Ok((fixed, compiled))
}

impl From<&safety_filter::Limits> for Limits {
    fn from(limits: &safety_filter::Limits) -> Limits {
        let whole = |x: f64| x.round() as u64;
        Limits {
            most_bdp: whole(limits.max_bdp * 65_536.0),
            rtt_low_ns: whole(limits.min_rtt_ms.0 * 1e6),
            rtt_high_ns: whole(limits.min_rtt_ms.1 * 1e6),
            most_rate: whole(limits.max_rate_mbps * 1e6 / 8.0),
            most_loss: whole(limits.max_loss * f64::from(1 << 24)),
            patience_ns: whole(limits.patience_s * 1e9),
        }
    }
}

impl From<&IntervalStats> for Statistics {
    /// NaN becomes 0.
    fn from(stats: &IntervalStats) -> Statistics {
        let whole = |x: f64| x.round() as u64;
        let nanos = |s: f64| whole(s * 1e9);
        let bytes = |bps: f64| whole(bps * stats.interval_s / 8.0);
        Statistics {
            time_ns: nanos(stats.time_s),
            interval_ns: nanos(stats.interval_s),
            rtt_mean_ns: nanos(stats.rtt_mean_s),
            rtt_least_ns: nanos(stats.rtt_min_s),
            rtt_rise_ns: (stats.rtt_rise_s * 1e9).round() as i64,
            srtt_ns: nanos(stats.srtt_s),
            ack_gap_ns: nanos(stats.ack_gap_s),
            delivery_rate: whole(stats.delivery_rate_bps / 8.0),
            pacing_rate: whole(stats.pacing_rate_bps / 8.0),
            acked_bytes: bytes(stats.acked_rate_bps),
            sent_bytes: bytes(stats.send_rate_bps),
            lost: stats.lost_packets as u32,
            cwnd: stats.cwnd_packets as u32,
            in_flight: stats.in_flight_packets as u32,
            mss: stats.mss_bytes as u16,
            rtos: stats.rtos as u16,
        }
    }
}
