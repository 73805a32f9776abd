//! From a policy in floating point to one in fixed point, or the reason why it has none.

mod layers;
mod list;

use orbitcc_core::observe::functions::Definition;
use orbitcc_core::observe::policy::{Network, Policy, Squash};
use serde_json::Value;

use crate::layout::{self, LINEAR, Limits, Parameters, Program, TANH};

const MOST_CLIP: f64 = 512.0;

/// The data of a policy with this network, or the reason why it has no fixed-point form.
pub fn compile(network: &Network, policy: &Policy) -> Result<layout::Policy, String> {
    if network.squash == Squash::Argmax {
        return Err("squash = argmax has no fixed-point form, only clip and tanh have".into());
    }
    let mut parameters = Parameters {
        interval_ns: policy.interval.fixed.0,
        interval_least_ns: policy.interval.least.0,
        interval_rtts: scaled(policy.interval.rtts, 16) as u32,
        clip: scaled(if network.normaliser.is_some() { f64::from(network.clip).min(MOST_CLIP) } else { MOST_CLIP }, 20),
        squash: if network.squash == Squash::Tanh { TANH } else { LINEAR },
        ..Parameters::default()
    };
    let features = list::features(&policy.observation, &mut parameters)?;
    acted(&policy.action.definition, &mut parameters)?;
    let weights = layers::weights(network, &mut parameters)?;
    let limits = policy.safety_filter.as_ref().map_or_else(Limits::default, Limits::from);
    Ok(layout::Policy { limits, program: Program { parameters, features, weights }, ..layout::Policy::default() })
}

/// To the nearest in units of 2^-bits.
fn scaled(x: f64, bits: u32) -> i32 {
    libm::round(x * f64::from(1 << bits)) as i32
}

fn nanos(seconds: f64) -> u64 {
    libm::round(seconds * 1e9) as u64
}

/// Refuse all parameters of a function but those with one of these values.
fn only(kind: &str, definition: &Definition, allowed: &[(&str, Value)]) -> Result<(), String> {
    for (name, value) in allowed {
        let given = &definition.parameters[name];
        if given != value {
            return Err(format!("{kind}.{name} = {given} has no fixed-point form, only {value} has"));
        }
    }
    Ok(())
}

fn acted(definition: &Definition, to: &mut Parameters) -> Result<(), String> {
    if definition.family != "steps" {
        return Err(format!("the action {} has no fixed-point form, only log-window has", definition.name));
    }
    let allowed = [
        ("moves", "window".into()),
        ("form", "log".into()),
        ("rounding", "fraction".into()),
        ("cap_bdp", 0.0.into()),
        ("steps_per_rtt", 0.0.into()),
        ("per_time_ms", 0.0.into()),
    ];
    only("action", definition, &allowed)?;
    let number = |name: &str| definition.parameters[name].as_f64().expect("a checked number");
    to.step = scaled(number("step"), 24);
    to.cubic = scaled(number("cubic"), 24);
    to.floor = number("floor_packets") as u32;
    to.pacing_gain = scaled(number("pacing_gain"), 16) as u32;
    to.hold = u32::from(definition.parameters["recovery"] == "hold");
    to.drain_every_ns = nanos(number("drain_every_s"));
    to.drain_near_ns = nanos(number("drain_near_ms") / 1e3);
    to.drain_to = scaled(number("drain_to"), 24) as u32;
    to.drain_spare = scaled(1.0 - number("drain_margin"), 24) as u32;
    to.occupancy_range = scaled(number("occupancy_range"), 20);
    to.occupies |= u32::from(to.occupancy_range > 0);
    Ok(())
}
