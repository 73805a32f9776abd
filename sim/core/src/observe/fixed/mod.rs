//! Policies in fixed point: integers alone, so that the same program runs in a kernel, where there are no floating-point
//! numbers. [`decide`] is the whole of it; `sim/emulator/bpf` has it in C, bit for bit.
//!
//! Nothing here allocates or recurses, every loop has a constant bound, and no number has more than 64 bits. A policy is
//! data: [`Parameters`] and an array of weights, made from a checkpoint by [`compile`].

// Loops and divisions as in C.
#![allow(clippy::needless_range_loop, clippy::manual_checked_ops)]

pub mod arithmetic;
pub mod compile;
pub mod network;
pub mod ratios;
pub mod simulated;
mod tables;
#[cfg(test)]
mod tests;

use ratios::AVERAGES;

/// Number of features of the observation.
pub const FEATURES: usize = 18;
/// The largest network: three layers, two of 64 units and one of a single unit.
pub const LAYERS: usize = 3;
pub const MOST_UNITS: usize = 64;
/// Length of the array of weights, all in Q20: the mean of each feature; 1 / standard deviation of each; and per layer
/// and unit a weight per input, then the bias. The rest is zero. The number is even, so that nothing is padded.
pub const WEIGHTS: usize = 2 * FEATURES + MOST_UNITS * (FEATURES + 1) + MOST_UNITS * (MOST_UNITS + 1) + MOST_UNITS + 2;

/// What a policy is besides its weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// A tenth of the windows of the minimum RTT, the short minimum RTT and the maximum rate; 0: nothing is forgotten.
    pub min_rtt_bucket_ns: u64,
    pub short_rtt_bucket_ns: u64,
    pub max_rate_bucket_ns: u64,
    /// Shortest pause of the acknowledgements that clears the windows; 0: none does.
    pub gap_ns: u64,
    /// Between two decisions, unless `interval_rtts` is above 0.
    pub interval_ns: u64,
    /// Between two decisions, in mean RTTs of the last interval, Q16, within 1 ms and 10 s.
    pub interval_rtts: u32,
    /// Length of averages in RTTs, Q16.
    pub fast_rtts: u32,
    pub slow_rtts: u32,
    /// 1: the RTT of an interval is its smallest sample; 0: the mean.
    pub least_rtt: u32,
    /// 1: the flow's own queue is observed.
    pub own_queue: u32,
    /// Bound of a normalised feature, Q20.
    pub clip: i32,
    /// Number of layers; units and activation of each ([`network::LINEAR`] and the others).
    pub layers: u32,
    pub units: [u32; LAYERS],
    pub activations: [u32; LAYERS],
    /// [`network::TANH`], or [`network::LINEAR`]: clipped.
    pub squash: u32,
    /// Of the action, Q24.
    pub step: i32,
    pub cubic: i32,
    /// Smallest window, segments.
    pub floor: u32,
    /// Pacing rate in windows per smoothed RTT, Q16.
    pub pacing_gain: u32,
    /// 1: the window stands through recoveries and timeouts; 0: the kernel's recovery acts on it.
    pub hold: u32,
    pub unused: u32,
}

/// What was measured between two decisions. 0 stands for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Statistics {
    /// End of the interval, on any clock, and its length.
    pub time_ns: u64,
    pub interval_ns: u64,
    /// Mean and smallest of the RTT samples, and their rise ([`ratios::of_samples`]).
    pub rtt_mean_ns: u64,
    pub rtt_least_ns: u64,
    pub rtt_rise_ns: i64,
    pub srtt_ns: u64,
    /// Longest time without an acknowledgement that ended in the interval or is still going on.
    pub ack_gap_ns: u64,
    /// Mean of the delivery-rate samples, bytes per second.
    pub delivery_rate: u64,
    /// Pacing rate, bytes per second; 0: not paced.
    pub pacing_rate: u64,
    /// Payload acknowledged cumulatively, and sent, including retransmissions.
    pub acked_bytes: u64,
    pub sent_bytes: u64,
    /// Segments marked lost.
    pub lost: u32,
    /// Congestion window and packets in flight now, segments; payload of a segment, bytes.
    pub cwnd: u32,
    pub in_flight: u32,
    pub mss: u32,
}

/// The largest value of each tenth of a window of time; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Window {
    pub now: u64,
    pub buckets: [u64; 10],
}

/// What a policy remembers of a flow; zeros at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct State {
    pub min_rtt: Window,
    pub short_rtt: Window,
    pub max_rate: Window,
    /// Moving averages, Q32.
    pub averages: [i64; AVERAGES],
    /// Usual longest pause of the acknowledgements, in sixteenths of a ns.
    pub usual_gap: u64,
    /// Largest delivery rate of the connection, bytes per second.
    pub most_rate: u64,
    /// The last known RTT.
    pub rtt_ns: u64,
    pub cleared_at_ns: u64,
    /// Exact window after the last action, segments in Q16.
    pub window: u64,
    /// Window of the last interval.
    pub cwnd: u32,
    /// Whether the windows were ever cleared, and whether the averages have values.
    pub cleared: u32,
    pub known: u32,
    pub unused: u32,
}

/// A policy in fixed point.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Program {
    pub parameters: Parameters,
    pub weights: [i32; WEIGHTS],
}

impl Program {
    /// Whether its layers are within the array of weights.
    pub fn fits(&self) -> bool {
        let Parameters { layers, units, .. } = self.parameters;
        layers <= LAYERS as u32 && units[0].max(units[1]) <= MOST_UNITS as u32 && units[2] <= 1
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Decision {
    /// Q20.
    pub observation: [i32; FEATURES],
    /// In [-1, 1], Q20.
    pub action: i32,
    /// The new window, segments.
    pub cwnd: u32,
}

/// Take in an interval and decide.
pub fn decide(program: &Program, state: &mut State, stats: &Statistics) -> Decision {
    let observation = ratios::observe(&program.parameters, state, stats);
    let action = network::act(&program.parameters, &program.weights, &observation);
    state.window = network::next_window(&program.parameters, stats.cwnd, state.window, action);
    Decision { observation, action, cwnd: network::whole_window(state.window) }
}
