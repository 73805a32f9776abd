//! Presets: what agents that are decided from outside of the simulator observe and do.

use std::sync::{Arc, OnceLock};

use serde_json::json;

use crate::time::Nanos;

use super::functions::{Action, Interval, Observation, Reward};
use super::registry;
use super::safety_filter::Limits;

/// The functions, the interval and the safety filter of the agents of a batch of worlds.
#[derive(Clone)]
pub struct Preset {
    pub observation: Arc<Observation>,
    pub action: Arc<Action>,
    pub reward: Arc<Reward>,
    pub interval: Interval,
    /// Each flow decides on its own clock where the interval depends on the RTT; otherwise all of a world together.
    pub own_clock: bool,
    /// Bounds that are applied to the decisions of agents.
    pub safety_filter: Option<Limits>,
}

impl Preset {
    /// Astraea's functions, which every world without agents has: they are made once.
    pub fn astraea(interval: Nanos) -> Preset {
        static MADE: OnceLock<Preset> = OnceLock::new();
        let name = json!("astraea");
        let made = MADE.get_or_init(|| Preset {
            observation: Arc::new(registry::observation(&name).expect("in the table")),
            action: Arc::new(registry::action(&name).expect("in the table")),
            reward: Arc::new(registry::reward(&name).expect("in the table")),
            interval: Interval::fixed(interval),
            own_clock: false,
            safety_filter: None,
        });
        Preset { interval: Interval::fixed(interval), ..made.clone() }
    }
}
