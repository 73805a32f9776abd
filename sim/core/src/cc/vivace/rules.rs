//! What the presets differ in.

use super::step::{Amplifier, Law};
use super::utility::{Filter, Utility};

/// How the first phase, doubling, goes.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Rate of the first interval, Mbit/s; 0: an initial window per RTT.
    pub mbps: f64,
    /// Growth; 2 but for calibration.
    pub factor: f64,
    /// Doublings under way: 1 waits for each one's result; with 2 every interval doubles, as long as results take one
    /// RTT.
    pub ahead: u32,
    /// Losses and RTT gradient (magnitude) that start-up overlooks until more than these losses fall into one interval.
    pub forgiven_losses: f64,
    pub forgiven_gradient: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub utility: Utility,
    pub law: Law,
    pub start: Start,
    /// Probes are this far apart from the rate: a share, but at least so much (Mbit/s).
    pub epsilon: f64,
    pub least_epsilon_mbps: f64,
    /// Probe with one pair, not two, while the direction stays the same.
    pub trusts_trends: bool,
    /// Up to this loss over a probe all its intervals count with the mean loss.
    pub averaged_loss: f64,
    /// Increases beyond this share are followed up with single intervals ("moving"); infinite: never.
    pub moves_beyond: f64,
    /// An interval with more loss halves the rate.
    pub emergency_loss: f64,
    /// A decision ends the interval being sent.
    pub cuts: bool,
    pub min_mbps: f64,
    pub max_mbps: f64,
    /// Length of an interval: one RTT, which is taken for `first_rtt_s` before the first result (0: as the handshake
    /// has it) and for `long_rtt_s.1` beyond `long_rtt_s.0`; in packets at least and at most so many.
    pub first_rtt_s: f64,
    pub long_rtt_s: (f64, f64),
    pub packets: (f64, f64),
}

/// Dong et al., NSDI 2018, sections 4 and 5.
pub const PAPER: Rules = Rules {
    utility: Utility {
        exponent: 0.9,
        latency: 900.0,
        loss: 11.35,
        small_loss: 0.0,
        loss_if_small: 11.35,
        gradient: Filter::Ignore(0.01),
        megabit: 1e6,
    },
    law: Law { amplifier: Amplifier::Paper, bound: 0.05, bound_step: 0.1, least: 0.0 },
    start: Start { mbps: 0.0, factor: 2.0, ahead: 2, forgiven_losses: 0.0, forgiven_gradient: 0.0 },
    epsilon: 0.05,
    least_epsilon_mbps: 0.0,
    trusts_trends: false,
    averaged_loss: 0.0,
    moves_beyond: f64::INFINITY,
    emergency_loss: f64::INFINITY,
    cuts: true,
    min_mbps: 0.5,
    max_mbps: f64::INFINITY,
    first_rtt_s: 0.0,
    long_rtt_s: (f64::INFINITY, 0.0),
    packets: (10.0, f64::INFINITY),
};

/// The artefact in latency mode (`gradient_descent_pcc_client` with latency coefficient 1).
pub const ARTIFACT: Rules = Rules {
    utility: Utility {
        exponent: 0.9,
        latency: 11_330.0,
        loss: 11.35,
        small_loss: 0.03,
        loss_if_small: 1.0,
        gradient: Filter::Quantise(0.02),
        megabit: 1_048_576.0,
    },
    law: Law { amplifier: Amplifier::Artifact, bound: 0.05, bound_step: 0.06, least: 0.5 },
    start: Start { mbps: 1.6, factor: 2.0, ahead: 1, forgiven_losses: 50.0, forgiven_gradient: 0.2 },
    epsilon: 0.05,
    least_epsilon_mbps: 0.5,
    trusts_trends: true,
    averaged_loss: 0.01,
    moves_beyond: 0.1,
    emergency_loss: 0.5,
    cuts: false,
    min_mbps: 1.3,
    max_mbps: 1024.0,
    first_rtt_s: 0.1,
    long_rtt_s: (1.0, 0.3),
    packets: (10.0, 3000.0),
};

/// The artefact in loss mode (latency coefficient 0).
pub const LOSS: Rules = Rules { utility: Utility { latency: 0.0, ..ARTIFACT.utility }, ..ARTIFACT };

/// Coefficients 1, 10, 2 for throughput, loss, latency (Claypool et al.). Start-up is calibrated: see the module.
pub const GEO: Rules = Rules {
    utility: Utility { latency: 2.0, loss: 10.0, loss_if_small: 10.0, ..PAPER.utility },
    start: Start { mbps: 7.0, factor: 1.35, ..ARTIFACT.start },
    averaged_loss: ARTIFACT.averaged_loss,
    emergency_loss: ARTIFACT.emergency_loss,
    packets: ARTIFACT.packets,
    ..PAPER
};
