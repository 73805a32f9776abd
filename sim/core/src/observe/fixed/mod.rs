//! Policies in fixed point: integers alone, so that the same program runs in a kernel, where there are no floating-point
//! numbers. [`decide`] is the whole of it; `sim/emulator/bpf` has it in C, bit for bit.
//!
//! Nothing here allocates or recurses, every loop has a constant bound, and no number has more than 64 bits. A policy is
//! data: [`Parameters`], a list of [`Feature`]s and an array of weights, which [`super::fixed_policy`] makes from a
//! checkpoint.

// Loops and divisions as in C.
#![allow(clippy::needless_range_loop, clippy::manual_checked_ops)]

pub mod arithmetic;
pub mod drain;
pub mod features;
pub mod measures;
pub mod network;
pub mod occupancy;
pub mod safety;
mod tables;
#[cfg(test)]
pub(super) mod tests;

use drain::Drain;
use occupancy::Occupancy;

/// Most features of an observation.
pub const FEATURES: usize = super::MOST_FEATURES;
/// Most windows of time: of minimum RTTs, and of maximum rates.
pub const LEASTS: usize = 8;
pub const MOSTS: usize = 4;
/// Most lengths of averages, and most averages.
pub const SPANS: usize = 8;
pub const AVERAGES: usize = 16;
/// The largest networks.
pub const LAYERS: usize = 3;
pub const MOST_UNITS: usize = 64;
pub const EXPERTS: usize = 16;
/// Length of the array of weights, all in Q20: the mean of each feature; 1 / standard deviation of each; and per layer
/// and unit of the network, then of its gate, a weight per input, then the bias. The rest is zero.
pub const WEIGHTS: usize = 8192;

/// Dense layers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Layers {
    /// The features that the first layer takes.
    pub columns: [u8; MOST_UNITS],
    pub inputs: u32,
    /// Number of layers; units and activation of each ([`network::LINEAR`] and the others).
    pub count: u32,
    pub units: [u32; LAYERS],
    pub activations: [u32; LAYERS],
    /// Index of the first weight.
    pub at: u32,
    pub unused: u32,
}

impl Default for Layers {
    fn default() -> Layers {
        Layers {
            columns: [0; MOST_UNITS],
            inputs: 0,
            count: 0,
            units: [0; LAYERS],
            activations: [0; LAYERS],
            at: 0,
            unused: 0,
        }
    }
}

/// What a policy is besides its features and weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Parameters {
    /// A tenth of each window of the minimum RTT and of the maximum rate; 0: nothing is forgotten.
    pub least_bucket_ns: [u64; LEASTS],
    pub most_bucket_ns: [u64; MOSTS],
    /// Shortest pause of the acknowledgements that clears the windows; 0: none does.
    pub gap_ns: u64,
    /// Between two decisions, unless `interval_rtts` is above 0.
    pub interval_ns: u64,
    /// The shortest interval that depends on the RTT.
    pub interval_least_ns: u64,
    /// Time without an RTT near the minimum after which the queue is drained; 0: never.
    pub drain_every_ns: u64,
    pub network: Layers,
    /// Weighs the outputs of the network, its experts; no layers: the network has one output, the action.
    pub gate: Layers,
    /// Lengths of averages in RTTs, Q16.
    pub span_rtts: [u32; SPANS],
    /// Numbers of windows, lengths of averages, and features.
    pub leasts: u32,
    pub mosts: u32,
    pub spans: u32,
    pub features: u32,
    /// Of the windows of the minimum RTT, the one whose RTT averages are counted in, and the one of the standing RTT
    /// ([`LEASTS`]: none).
    pub base: u32,
    pub standing: u32,
    /// The RTT that stands for a minimum without a sample ([`measures::MEAN`] and the others).
    pub usual_rtt: u32,
    /// 1: a pause that returns becomes usual, and one that the sender made itself clears nothing, as in the observation
    /// `features`; 0: as in `ratios`.
    pub learns: u32,
    /// The length of the averages of the jitter and of the inflation that losses are told apart by, as in
    /// [`Feature::span`]; 0: neither is needed.
    pub slow: u32,
    /// Between two decisions, in mean RTTs of the last interval, Q16, at most 10 s.
    pub interval_rtts: u32,
    /// Bound of a normalised feature, Q20.
    pub clip: i32,
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
    /// The action is moved by up to this much, by the occupancy of the bottleneck, Q20; 0: not at all.
    pub occupancy_range: i32,
    /// The least share of itself that a drain reduces the window to, Q24.
    pub drain_to: u32,
    /// 1: the occupancy is needed, by the action or by a feature.
    pub occupies: u32,
    /// 1 less the margin by which a drain may reduce the window beyond what empties the known queue, Q24.
    pub drain_spare: u32,
    pub unused: u32,
}

/// A feature of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Feature {
    /// [`features::INFLATION`] and the others.
    pub kind: u32,
    /// [`measures::MEAN`] and the others.
    pub rtt: u32,
    /// Its windows of the minimum RTT and the maximum rate, and the longer one of either.
    pub min: u32,
    pub max: u32,
    pub long: u32,
    /// Which losses count: [`features::ALWAYS`] and the others.
    pub when: u32,
    /// So many jitters above the minimum RTT count as empty, Q16.
    pub jitters: u32,
    /// Length of its average: 1 is the first of `span_rtts`; 0: none.
    pub span: u32,
    /// Where its average is.
    pub average: u32,
    /// Bounds, Q20; of a preference the contested and the usual one.
    pub low: i32,
    pub high: i32,
    pub unused: u32,
}

/// What was measured between two decisions. 0 stands for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Statistics {
    /// End of the interval, on any clock, and its length.
    pub time_ns: u64,
    pub interval_ns: u64,
    /// Mean and smallest of the RTT samples, and their rise ([`measures::of_samples`]).
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
    pub mss: u16,
    /// Retransmission timeouts.
    pub rtos: u16,
}

/// The largest value of each tenth of a window of time; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Window {
    pub now: u64,
    pub buckets: [u32; 10],
}

/// What a policy remembers of a flow; zeros at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct State {
    pub leasts: [Window; LEASTS],
    pub mosts: [Window; MOSTS],
    /// Moving averages, Q32.
    pub averages: [i64; AVERAGES],
    /// Averages of the steps of the least RTT in minimum RTTs, and of the inflation, Q32.
    pub jitter: i64,
    pub inflation: i64,
    /// The last known RTTs.
    pub rtts_ns: [u64; 3],
    /// The least RTT of the last interval that had one, since a pause.
    pub before_ns: u64,
    /// Usual longest pause of the acknowledgements, in sixteenths of a ns.
    pub usual_gap: u64,
    /// Largest delivery rate of the connection, bytes per second.
    pub most_rate: u64,
    pub cleared_at_ns: u64,
    /// When the sender had more in flight than its window.
    pub silent_at_ns: u64,
    pub drain: Drain,
    pub occupancy: Occupancy,
    /// Exact window after the last action, segments in Q16.
    pub window: u64,
    /// Window of the last interval.
    pub cwnd: u32,
    /// Whether the windows were ever cleared, whether the sender was ever silent, and whether the averages have values.
    pub cleared: u32,
    pub silent: u32,
    pub known: u32,
}

/// A policy in fixed point.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Program {
    pub parameters: Parameters,
    pub features: [Feature; FEATURES],
    pub weights: [i32; WEIGHTS],
}

impl Program {
    /// Whether all its indices are within its arrays and those of the state.
    pub fn fits(&self) -> bool {
        let p = &self.parameters;
        let below = |index: u32, most: usize| (index as usize) < most;
        let counts = below(p.features, FEATURES + 1) && below(p.leasts, LEASTS + 1) && below(p.mosts, MOSTS + 1);
        let others = below(p.spans, SPANS + 1) && below(p.slow, SPANS + 1) && below(p.base, LEASTS);
        let features = self.features.iter().all(|f| {
            let windows = below(f.min, LEASTS) && below(f.max, MOSTS) && below(f.long, LEASTS);
            let longer = f.kind != features::MAX_RATE_RATIO || below(f.long, MOSTS);
            windows && longer && below(f.rtt, 3) && below(f.span, SPANS + 1) && below(f.average, AVERAGES)
        });
        let experts = p.gate.count == 0
            || p.gate
                .count
                .checked_sub(1)
                .is_some_and(|last| below(last, LAYERS) && below(p.gate.units[last as usize], EXPERTS + 1));
        counts && others && features && below(p.usual_rtt, 3) && p.network.fits() && p.gate.fits() && experts
    }
}

impl Layers {
    /// Number of weights and biases.
    pub fn weights(&self) -> usize {
        let mut inputs = self.inputs as usize;
        let mut all = 0;
        for layer in 0..LAYERS.min(self.count as usize) {
            all += (inputs + 1) * self.units[layer] as usize;
            inputs = self.units[layer] as usize;
        }
        all
    }

    fn fits(&self) -> bool {
        let widths = self.units.iter().chain([&self.inputs]).all(|n| *n as usize <= MOST_UNITS);
        let columns = self.columns.iter().all(|column| (*column as usize) < FEATURES);
        let at = self.at as usize;
        widths && columns && self.count as usize <= LAYERS && at <= WEIGHTS && at + self.weights() <= WEIGHTS
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Decision {
    /// Q20; 0 beyond the last feature.
    pub observation: [i32; FEATURES],
    /// In [-1, 1], Q20.
    pub action: i32,
    /// The new window, segments.
    pub cwnd: u32,
}

/// Take in an interval and decide.
pub fn decide(program: &Program, state: &mut State, stats: &Statistics) -> Decision {
    let observation = features::observe(program, state, stats);
    let action = network::act(program, &observation);
    let share = state.occupancy.share();
    state.window = network::next_window(&program.parameters, stats, state.window, &mut state.drain, share, action);
    Decision { observation, action, cwnd: network::whole_window(state.window) }
}
