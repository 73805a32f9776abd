//! Actions that change a window or a pacing rate by a step: as in Astraea (Liao et al., EuroSys 2024, equation 3), as
//! in Aurora (Jay et al., ICML 2019), and logarithmic ones.
//!
//! With x = (1 - cubic) a + cubic a^3, a step up multiplies by 1 + step x and a step down divides by 1 - step x
//! (`linear`), or both multiply by exp(step x) (`log`). With `list` there are no steps: an action selects one of
//! `factors`, for learners of discrete actions. An action on the window paces at `pacing_gain` windows per
//! smoothed RTT. An action on the rate sets a window of two RTTs, which does not limit it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cc::Conn;

use super::drain::Step;
use super::functions::{Action, ActionMemory, Control, one_of, read, within};
use super::stats::IntervalStats;

/// Steps of the window by exp(0.25 (0.3 a + 0.7 a^3)): small near 0, up to 28 % at the ends (ours).
pub const LOG_WINDOW: &str = r#"{"form": "log", "step": 0.25, "cubic": 0.7, "rounding": "fraction"}"#;
pub const LOG_RATE: &str = r#"{"moves": "rate", "form": "log", "step": 0.25, "cubic": 0.7, "rounding": "fraction",
    "floor_mbps": 0.1}"#;

/// One of seven factors on the window, from a half to two (ours).
pub const WINDOW_FACTORS: &str = r#"{"form": "list", "factors": [0.5, 0.8, 0.95, 1.0, 1.05, 1.25, 2.0],
    "rounding": "fraction"}"#;
/// The number of factors in a list.
const FACTORS: std::ops::RangeInclusive<usize> = 2..=64;

/// Bytes per packet on the wire, as in Aurora's simulator, and in limits of the window, as in Astraea's code.
const WIRE_BYTES: f64 = 1500.0;
const WINDOW_BYTES: f64 = 1460.0;
/// The highest rate: 100 Gbit/s, in bytes per second.
const MOST: f64 = 12.5e9;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Steps {
    /// What the action changes: `window` or `rate`.
    moves: String,
    /// `linear`, `log` or `list`.
    form: String,
    /// With `list`: the factors, of which a = -1 selects the first and a = 1 the last, in even distances.
    factors: Vec<f64>,
    step: f64,
    /// Share of a^3 in the step.
    cubic: f64,
    /// Rounding of windows: `away`, by at least a whole segment; `fraction`, fractions are kept for the next decision.
    rounding: String,
    /// Windows per smoothed RTT.
    pacing_gain: f64,
    floor_packets: u32,
    floor_mbps: f64,
    /// Upper limit of the window in BDP, or of the rate in multiples of the capacity; 0: no limit.
    cap_bdp: f64,
    /// BDP of the limit: `measured` by the flow (largest delivery rate, smallest RTT), or the `true` one of the link,
    /// which only the simulator knows, for training (Astraea: 1.5).
    cap_of: String,
    /// What a loss and a timeout do to the window ([`crate::cc::agent`]): `kernel` or `hold`.
    recovery: String,
    /// Where more decisions than this fall into a minimum RTT, steps shrink so that their sum over an RTT is that of so
    /// many full steps: what a step does is seen one RTT later. 0: steps are equal on all paths.
    steps_per_rtt: f64,
    /// With `log`: a step is that of an interval of this length, and steps of other intervals are in proportion, so that
    /// growth per time is the same whatever the interval; 0: steps are equal.
    per_time_ms: f64,
    /// The window is reduced for a moment when the RTT has not been near its minimum for so long ([`super::drain`]); 0:
    /// never.
    drain_every_s: f64,
    /// The least share of itself that it is then reduced to.
    drain_to: f64,
    /// It is not reduced by more than this share beyond what empties the known queue; 1: always to `drain_to`.
    drain_margin: f64,
    /// An RTT this much above the minimum is near it; 0: within 2 % and half a millisecond.
    drain_near_ms: f64,
    /// As in Jury, the action is moved within this range to either side: up while the flow occupies less than half of its
    /// bottleneck, down while it occupies more ([`super::occupancy`]); 0: not at all.
    occupancy_range: f64,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps {
            moves: "window".into(),
            form: "linear".into(),
            factors: Vec::new(),
            step: 0.025,
            cubic: 0.0,
            rounding: "away".into(),
            pacing_gain: 1.0,
            floor_packets: 4,
            floor_mbps: 0.0,
            cap_bdp: 0.0,
            cap_of: "measured".into(),
            recovery: "hold".into(),
            steps_per_rtt: 0.0,
            per_time_ms: 0.0,
            drain_every_s: 0.0,
            drain_to: 0.6,
            drain_margin: 1.0,
            drain_near_ms: 0.0,
            occupancy_range: 0.0,
        }
    }
}

pub(super) fn action(given: Value) -> Result<(Action, Value), String> {
    let (steps, all): (Steps, _) = read(given)?;
    one_of("moves", &steps.moves, &["window", "rate"])?;
    one_of("form", &steps.form, &["linear", "log", "list"])?;
    one_of("rounding", &steps.rounding, &["away", "fraction"])?;
    one_of("cap_of", &steps.cap_of, &["measured", "true"])?;
    one_of("recovery", &steps.recovery, &["kernel", "hold"])?;
    if (steps.form == "list") != FACTORS.contains(&steps.factors.len())
        || (steps.form != "list" && !steps.factors.is_empty())
    {
        return Err(format!(
            "factors = {}: must be {} to {} numbers with form = \"list\", and none with another form",
            json!(steps.factors),
            FACTORS.start(),
            FACTORS.end()
        ));
    }
    for factor in &steps.factors {
        within("factors", *factor, 0.01, 100.0)?;
    }
    if steps.form == "list" && (steps.cubic, steps.steps_per_rtt) != (0.0, 0.0) {
        let [cubic, most] = [steps.cubic, steps.steps_per_rtt];
        return Err(format!(
            "cubic, steps_per_rtt = [{cubic}, {most}]: must be 0 where form is list, which has no steps"
        ));
    }
    within("step", steps.step, 1e-4, 2.0)?;
    within("cubic", steps.cubic, 0.0, 1.0)?;
    within("pacing_gain", steps.pacing_gain, 0.1, 10.0)?;
    within("floor_packets", f64::from(steps.floor_packets), 1.0, 1e6)?;
    within("floor_mbps", steps.floor_mbps, 0.0, 1e5)?;
    within("cap_bdp", steps.cap_bdp, 0.0, 1e3)?;
    within("steps_per_rtt", steps.steps_per_rtt, 0.0, 1e3)?;
    within("per_time_ms", steps.per_time_ms, 0.0, 1e4)?;
    if steps.per_time_ms > 0.0 && (steps.form != "log" || steps.steps_per_rtt > 0.0) {
        let per_time_ms = steps.per_time_ms;
        return Err(format!("per_time_ms = {per_time_ms}: must be 0 unless form is log and steps_per_rtt 0"));
    }
    within("drain_every_s", steps.drain_every_s, 0.0, 1e4)?;
    within("drain_to", steps.drain_to, 0.01, 0.99)?;
    within("drain_margin", steps.drain_margin, 0.0, 1.0)?;
    within("drain_near_ms", steps.drain_near_ms, 0.0, 1e3)?;
    if steps.drain_every_s > 0.0 && (steps.moves == "rate" || steps.rounding == "away") {
        let every_s = steps.drain_every_s;
        return Err(format!("drain_every_s = {every_s}: must be 0 unless a window is moved, and rounding is fraction"));
    }
    within("occupancy_range", steps.occupancy_range, 0.0, 2.0)?;
    steps.has_effect()?;
    let meaning = steps.meaning();
    let rate = steps.moves == "rate";
    let mut controller = Map::from_iter([("floor".to_owned(), json!(steps.floor_packets))]);
    if steps.recovery == "kernel" {
        controller.insert("recovery".into(), json!("kernel"));
    }
    if !rate && steps.pacing_gain != 1.0 {
        controller.insert("pacing_gain".into(), json!(steps.pacing_gain));
    }
    let perform = Arc::new(move |conn: &Conn, stats: &IntervalStats, action: f64, memory: &mut ActionMemory| {
        let action = steps.shared(stats, action, memory);
        if rate { steps.rate(conn, stats, action) } else { steps.window(conn, stats, action, memory) }
    });
    Ok((Action { definition: Default::default(), meaning, controller, perform }, all))
}

impl Steps {
    /// Err for a parameter that differs from its default and that the others leave without effect.
    fn has_effect(&self) -> Result<(), String> {
        let plain = Steps::default();
        let rate = self.moves == "rate";
        let drains = self.drain_every_s > 0.0;
        let of_drains = "drain_every_s is above 0";
        for (name, acts, given, default, needs) in [
            ("step", self.form != "list", self.step, plain.step, "form is linear or log"),
            ("pacing_gain", !rate, self.pacing_gain, plain.pacing_gain, "moves is window"),
            ("floor_mbps", rate, self.floor_mbps, plain.floor_mbps, "moves is rate"),
            ("drain_to", drains, self.drain_to, plain.drain_to, of_drains),
            ("drain_margin", drains, self.drain_margin, plain.drain_margin, of_drains),
            ("drain_near_ms", drains, self.drain_near_ms, plain.drain_near_ms, of_drains),
        ] {
            if !acts && given != default {
                return Err(format!("{name} = {given}: must be {default} unless {needs}"));
            }
        }
        if self.cap_of != plain.cap_of && self.cap_bdp == 0.0 {
            return Err(format!(
                "cap_of = {}: must be {} unless cap_bdp is above 0",
                json!(self.cap_of),
                json!(plain.cap_of)
            ));
        }
        Ok(())
    }

    fn meaning(&self) -> String {
        let Steps { step, cubic, .. } = self;
        let x = if *cubic > 0.0 {
            format!("({} a + {cubic} a^3)", libm::round((1.0 - cubic) * 1e6) / 1e6)
        } else {
            "a".into()
        };
        let step = match self.steps_per_rtt {
            0.0 if self.per_time_ms > 0.0 => format!("{step} (interval / {} ms)", self.per_time_ms),
            0.0 => step.to_string(),
            most => format!("{step} min(1, {most} interval / minimum RTT)"),
        };
        let mut meaning = match (self.form.as_str(), self.moves.as_str()) {
            ("list", what) => {
                let what = if what == "rate" { "rate" } else { "cwnd" };
                format!("{what} x one of {}", json!(self.factors))
            }
            ("log", what) => format!("{} x exp({step} {x})", if what == "rate" { "rate" } else { "cwnd" }),
            (_, "rate") => format!("a >= 0: rate x (1 + {step} {x}); a < 0: rate / (1 - {step} {x})"),
            _ if self.rounding == "away" => {
                format!("a >= 0: cwnd = ceil(cwnd (1 + {step} {x})); a < 0: floor(cwnd / (1 - {step} {x}))")
            }
            _ => format!("a >= 0: cwnd x (1 + {step} {x}); a < 0: cwnd / (1 - {step} {x})"),
        };
        if self.occupancy_range > 0.0 {
            meaning += &format!("; a moved by {} (1 - 2 occupancy)", self.occupancy_range);
        }
        meaning
    }

    /// The action after the policy's, which is the centre of the range that the occupancy picks from.
    fn shared(&self, stats: &IntervalStats, action: f64, memory: &mut ActionMemory) -> f64 {
        if self.occupancy_range == 0.0 {
            return action;
        }
        let occupancy = memory.occupancy.get_or_insert_default().update(stats);
        picked(action, self.occupancy_range, occupancy)
    }

    fn factor(&self, stats: &IntervalStats, action: f64) -> f64 {
        if self.form == "list" {
            let last = self.factors.len() - 1;
            return self.factors[(libm::round((action + 1.0) / 2.0 * last as f64) as usize).min(last)];
        }
        let x = (1.0 - self.cubic) * action + self.cubic * action * action * action;
        let step = if self.steps_per_rtt > 0.0 && stats.min_rtt_s > 0.0 {
            self.step * (self.steps_per_rtt * stats.interval_s / stats.min_rtt_s).min(1.0)
        } else if self.per_time_ms > 0.0 {
            self.step * stats.interval_s * 1e3 / self.per_time_ms
        } else {
            self.step
        };
        match self.form.as_str() {
            "log" => libm::exp(step * x),
            _ if x >= 0.0 => 1.0 + step * x,
            _ => 1.0 / (1.0 - step * x),
        }
    }

    /// The upper limits of data in flight (bytes) and of the rate (bytes per second); infinite without a limit.
    fn cap(&self, stats: &IntervalStats) -> (f64, f64) {
        let (rate, rtt) = match self.cap_of.as_str() {
            "true" => (stats.capacity_bps, stats.base_rtt_s),
            _ => (stats.max_delivery_rate_bps, stats.min_rtt_s),
        };
        if self.cap_bdp > 0.0 && rate > 0.0 && rtt > 0.0 {
            let rate = self.cap_bdp * rate / 8.0;
            (rate * rtt, rate)
        } else {
            (f64::INFINITY, f64::INFINITY)
        }
    }

    /// The next window in segments.
    fn window(&self, conn: &Conn, stats: &IntervalStats, action: f64, memory: &mut ActionMemory) -> Control {
        let cwnd = f64::from(conn.cwnd);
        let most = (self.cap(stats).0 / WINDOW_BYTES).max(f64::from(self.floor_packets));
        if self.rounding == "away" {
            let next = cwnd * self.factor(stats, action);
            let whole = if action >= 0.0 { libm::ceil(next) } else { libm::floor(next) };
            return (whole.clamp(f64::from(self.floor_packets), most.max(1.0)) as u32, None);
        }
        // Something else may have changed the window.
        let ActionMemory { window: exact, drain, .. } = memory;
        let start = if (*exact - cwnd).abs() < 1.0 { *exact } else { cwnd };
        let step = if self.drain_every_s > 0.0 {
            drain.step(stats, start, self.drain_every_s, (self.drain_to, self.drain_margin, self.drain_near_ms / 1e3))
        } else {
            Step::Free
        };
        let next = match step {
            Step::Hold(window) => window,
            Step::Resume(window) => window * self.factor(stats, action),
            Step::Free => start * self.factor(stats, action),
        };
        *exact = next.clamp(f64::from(self.floor_packets), most);
        (libm::round(*exact) as u32, None)
    }

    /// The next rate, and a window of two RTTs.
    fn rate(&self, conn: &Conn, stats: &IntervalStats, action: f64) -> Control {
        let floor = self.floor_mbps * 1e6 / 8.0;
        let rate =
            (conn.pacing_rate as f64 * self.factor(stats, action)).clamp(floor, self.cap(stats).1.min(MOST).max(floor));
        let window = 2.0 * rate / WIRE_BYTES * f64::from(conn.srtt8_us) / 8e6;
        (window.max(f64::from(self.floor_packets)) as u32, Some(libm::round(rate) as u64))
    }
}

/// Jury's choice from a range about a centre: the upper end where a flow occupies nothing, the lower end where all.
fn picked(centre: f64, range: f64, occupancy: f64) -> f64 {
    (centre + range * (1.0 - 2.0 * occupancy)).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::flow;
    use super::*;
    use crate::cc::testing::conn;

    fn steps(changes: Value) -> Steps {
        serde_json::from_value(changes).unwrap()
    }

    fn next_window(steps: &Steps, cwnd: u32, action: f64) -> u32 {
        steps.window(&conn(cwnd, 10), &flow(0.9), action, &mut ActionMemory::default()).0
    }

    #[test]
    fn astraea_moves_by_a_fortieth_and_a_segment_at_least() {
        let astraea = Steps::default();
        let moved = [(100, 1.0), (100, -1.0), (10, 0.1), (100, 0.0), (4, -1.0)];
        assert_eq!(moved.map(|(cwnd, a)| next_window(&astraea, cwnd, a)), [103, 97, 11, 100, 4]);
    }

    #[test]
    fn aurora_moves_a_rate_by_a_fortieth_within_bounds() {
        let aurora = steps(json!({"moves": "rate", "floor_mbps": 0.48, "floor_packets": 10}));
        let next = |rate, a| {
            let c = Conn { pacing_rate: rate, srtt8_us: 400_000, ..conn(100, 10) };
            aurora.rate(&c, &flow(0.9), a)
        };
        let rates = [1.0, -1.0, 0.0].map(|a| next(1_000_000, a).1.unwrap());
        assert_eq!(rates, [1_025_000, 975_610, 1_000_000]);
        assert_eq!(next(0, -1.0), (10, Some(60_000)));
        assert_eq!(next(12_500_000_000, 1.0).1, Some(12_500_000_000));
    }

    #[test]
    fn logarithmic_steps_up_and_down_cancel_and_fractions_are_kept() {
        let log = steps(serde_json::from_str(LOG_WINDOW).unwrap());
        let mut memory = ActionMemory::default();
        let mut cwnd = 10;
        for a in [0.1, 0.1, 0.1, -0.1, -0.1, -0.1] {
            cwnd = log.window(&conn(cwnd, 10), &flow(0.9), a, &mut memory).0;
        }
        assert_eq!(cwnd, 10);
        assert!((memory.window - 10.0).abs() < 1e-9);
        assert_eq!(next_window(&log, 1000, 1.0), 1284);
    }

    #[test]
    fn an_action_selects_a_factor_of_a_list() {
        let list = steps(json!({"form": "list", "factors": [0.5, 1.0, 4.0], "rounding": "fraction"}));
        // The middles between -1, 0 and 1 are -0.5 and 0.5.
        let next = [-1.0, -0.51, -0.49, 0.0, 0.49, 0.51, 1.0].map(|a| next_window(&list, 100, a));
        assert_eq!(next, [50, 50, 100, 100, 100, 400, 400]);
    }

    #[test]
    fn factors_belong_to_lists() {
        let refused = |given: Value| action(given).err().unwrap();
        assert!(refused(json!({"form": "list"})).starts_with("factors = []: must be 2 to 64 numbers"));
        assert!(refused(json!({"factors": [0.5, 2.0]})).starts_with("factors = [0.5,2.0]: must be"));
        assert!(refused(json!({"form": "list", "factors": [0.5, -2.0]})).starts_with("factors"));
        let stepped = json!({"form": "list", "factors": [0.5, 2.0], "cubic": 0.5});
        assert!(refused(stepped).starts_with("cubic, steps_per_rtt = [0.5, 0]: must be 0 "));
    }

    #[test]
    fn steps_shrink_where_many_decisions_fall_into_an_rtt() {
        let scaled = steps(json!({"form": "log", "step": 0.25, "rounding": "fraction", "steps_per_rtt": 4.0}));
        let next = |min_rtt_s, action| {
            let stats = IntervalStats { interval_s: 0.03, min_rtt_s, ..flow(0.9) };
            scaled.window(&conn(10_000, 10), &stats, action, &mut ActionMemory::default()).0
        };
        // 120 ms is four intervals; 600 ms is twenty, of which each is a fifth of a step: exp(0.25) and exp(0.05).
        assert_eq!([0.05, 0.12, 0.6].map(|rtt| next(rtt, 1.0)), [12_840, 12_840, 10_513]);
        assert_eq!(next(0.6, -1.0), 9_512);
        assert_eq!(next(f64::NAN, 1.0), 12_840, "no RTT is known yet");
    }

    #[test]
    fn steps_in_proportion_to_their_interval_grow_alike_in_time() {
        let timed = steps(json!({"form": "log", "step": 0.25, "rounding": "fraction", "per_time_ms": 30.0}));
        let next = |interval_s| {
            let stats = IntervalStats { interval_s, ..flow(0.9) };
            timed.window(&conn(10_000, 10), &stats, 1.0, &mut ActionMemory::default()).0
        };
        // exp(0.25), and exp(0.125), exp(0.5) where the interval is a half and the double.
        assert_eq!([0.03, 0.015, 0.06].map(next), [12_840, 11_331, 16_487]);
        assert_eq!(timed.meaning(), "cwnd x exp(0.25 (interval / 30 ms) a)");
        let refused = |given: Value| action(given).err().unwrap();
        let of_linear = refused(json!({"per_time_ms": 30.0}));
        assert_eq!(of_linear, "per_time_ms = 30: must be 0 unless form is log and steps_per_rtt 0");
        assert!(refused(json!({"form": "log", "steps_per_rtt": 4.0, "per_time_ms": 30.0})).starts_with("per_time_ms"));
        assert!(refused(json!({"form": "log", "per_time_ms": -1.0})).starts_with("per_time_ms = -1"));
    }

    #[test]
    fn large_flows_take_the_lower_end_of_the_range_and_small_ones_the_upper() {
        let close = |x: f64, y: f64| assert!((x - y).abs() < 1e-12, "{x} {y}");
        for (occupancy, action) in [(0.0, 0.7), (0.25, 0.45), (0.5, 0.2), (0.8, -0.1), (1.0, -0.3)] {
            close(picked(0.2, 0.5, occupancy), action);
        }
        close(picked(0.9, 0.5, 0.0), 1.0);
        // A new flow, whose occupancy counts as a half.
        let jury = steps(json!({"form": "log", "step": 0.25, "rounding": "fraction", "occupancy_range": 0.5}));
        close(jury.shared(&flow(0.9), 0.3, &mut ActionMemory::default()), 0.3);
        assert!(jury.meaning().ends_with("; a moved by 0.5 (1 - 2 occupancy)"));
    }

    #[test]
    fn windows_are_capped_at_measured_or_true_products() {
        let capped = |of: &str| steps(json!({"cap_bdp": 1.5, "cap_of": of}));
        let stats = flow(0.9); // 100 Mbit/s, 50 ms: 625 kB
        let next = |of: &str, stats| capped(of).window(&conn(2000, 10), &stats, 1.0, &mut ActionMemory::default()).0;
        assert_eq!(next("true", stats), 642);
        assert_eq!(next("measured", IntervalStats { max_delivery_rate_bps: 50e6, ..stats }), 321);
        assert_eq!(next("measured", IntervalStats::default()), 2050, "nothing is known yet");
    }
}
