//! What an agent sees, does and is paid for: three kinds of named pieces, and how often it decides.

use crate::cc::Conn;
use crate::time::Nanos;

use super::astraea::{self, Member};
use super::stats::IntervalStats;
use super::{aurora, leo, orca};

/// One number of an observation; its bounds are enforced.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    pub meaning: &'static str,
    pub low: f32,
    pub high: f32,
    pub unit: &'static str,
}

/// A feature without a unit.
pub(super) const fn ratio(meaning: &'static str, low: f32, high: f32) -> Feature {
    Feature { meaning, low, high, unit: "1" }
}

/// Most features an observation has.
const MAX_FEATURES: usize = 12;

/// Features of one interval, stacked over the last `history` of them: oldest first, zeros at first.
pub struct Observation {
    pub name: &'static str,
    pub features: &'static [Feature],
    pub history: usize,
    /// Write the features of an interval; they are clipped afterwards.
    pub(super) fill: fn(&IntervalStats, &mut leo::WindowedMin, &mut [f64]),
}

impl Observation {
    pub const fn dim(&self) -> usize {
        self.features.len() * self.history
    }

    /// What each number of the stacked observation is.
    pub fn labels(&self) -> impl Iterator<Item = &'static Feature> {
        (0..self.history).flat_map(|_| self.features)
    }
}

/// What an action in [-1, 1] does.
pub struct Action {
    pub name: &'static str,
    pub meaning: &'static str,
    /// The algorithm underneath that moves the window between decisions; `none`: it stands.
    pub over: &'static str,
    /// The window (segments) and, if the action sets it, the pacing rate (bytes per second).
    pub(super) apply: fn(&Conn, f64) -> (u32, Option<u64>),
}

impl Action {
    pub fn apply(&self, conn: &Conn, action: f32) -> (u32, Option<u64>) {
        (self.apply)(conn, f64::from(action))
    }
}

/// Who is paid.
#[derive(Clone, Copy)]
pub enum Payment {
    /// All flows of a world the same, from all its flows and its utilisation.
    Shared(fn(&[Member], f64) -> f64),
    /// Each flow for itself.
    Own(fn(&IntervalStats) -> f64),
}

pub struct Reward {
    pub name: &'static str,
    pub low: f64,
    pub high: f64,
    pub payment: Payment,
}

pub const OBSERVATIONS: &[&Observation] =
    &[&astraea::OBSERVATION, &leo::PLAIN, &leo::NOISY, &leo::ORACLE, &orca::OBSERVATION, &aurora::OBSERVATION];
pub const ACTIONS: &[&Action] = &[&astraea::ACTION, &orca::ACTION, &aurora::ACTION];
pub const REWARDS: &[&Reward] = &[&astraea::REWARD, &orca::REWARD, &aurora::REWARD];

fn named<T>(
    kind: &str,
    name: &str,
    table: &[&'static T],
    name_of: fn(&T) -> &'static str,
) -> Result<&'static T, String> {
    table.iter().find(|piece| name_of(piece) == name).copied().ok_or_else(|| {
        let names: Vec<_> = table.iter().map(|piece| name_of(piece)).collect();
        format!("{kind} = {name:?}: must be one of {}", names.join(", "))
    })
}

pub fn observation(name: &str) -> Result<&'static Observation, String> {
    named("observation", name, OBSERVATIONS, |piece| piece.name)
}

pub fn action(name: &str) -> Result<&'static Action, String> {
    named("action", name, ACTIONS, |piece| piece.name)
}

pub fn reward(name: &str) -> Result<&'static Reward, String> {
    named("reward", name, REWARDS, |piece| piece.name)
}

/// How long until an agent decides again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub fixed: Nanos,
    /// Above 0: so many mean RTTs of the interval that ends, instead; `fixed` holds until there is one.
    pub rtts: f64,
}

impl Interval {
    /// Bounds of intervals that depend on the RTT.
    pub const SHORTEST: Nanos = Nanos::from_millis(1);
    pub const LONGEST: Nanos = Nanos::from_secs(10);

    pub fn fixed(length: Nanos) -> Interval {
        Interval { fixed: length, rtts: 0.0 }
    }

    /// The interval after the one with these statistics.
    pub fn after(self, stats: &IntervalStats) -> Nanos {
        let rtt = stats.latest_rtt_s();
        if self.rtts > 0.0 && rtt > 0.0 {
            Nanos((self.rtts * rtt * 1e9) as u64).clamp(Interval::SHORTEST, Interval::LONGEST)
        } else {
            self.fixed
        }
    }
}

/// All that a batch of worlds needs to know of its agents.
#[derive(Clone, Copy)]
pub struct Preset {
    pub observation: &'static Observation,
    pub action: &'static Action,
    pub reward: &'static Reward,
    pub interval: Interval,
}

impl Preset {
    /// Astraea's pieces.
    pub fn astraea(interval: Nanos) -> Preset {
        Preset {
            observation: &astraea::OBSERVATION,
            action: &astraea::ACTION,
            reward: &astraea::REWARD,
            interval: Interval::fixed(interval),
        }
    }
}

/// One flow's observation as it grows.
#[derive(Clone)]
pub struct Observer {
    piece: &'static Observation,
    min_rtt: leo::WindowedMin,
    rows: Vec<f32>,
}

impl Observer {
    pub fn new(piece: &'static Observation) -> Observer {
        Observer { piece, min_rtt: leo::WindowedMin::default(), rows: vec![0.0; piece.dim()] }
    }

    pub fn push(&mut self, stats: &IntervalStats) {
        let width = self.piece.features.len();
        let mut raw = [0.0; MAX_FEATURES];
        (self.piece.fill)(stats, &mut self.min_rtt, &mut raw[..width]);
        self.rows.copy_within(width.., 0);
        let newest = self.rows.len() - width;
        for ((out, x), feature) in self.rows[newest..].iter_mut().zip(raw).zip(self.piece.features) {
            *out = (x as f32).clamp(feature.low, feature.high);
        }
    }

    pub fn observation(&self) -> &[f32] {
        &self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(goodput_share: f64) -> IntervalStats {
        IntervalStats {
            time_s: 30.0,
            interval_s: 0.03,
            active: 1.0,
            goodput_bps: 100e6 * goodput_share,
            delivery_rate_bps: 100e6 * goodput_share,
            max_delivery_rate_bps: 100e6,
            send_rate_bps: 100e6 * goodput_share,
            rtt_mean_s: 0.055,
            rtt_min_s: 0.051,
            srtt_s: 0.054,
            min_rtt_s: 0.05,
            acked_packets: 100e6 * goodput_share * 0.03 / 8.0 / 1460.0,
            acked_rate_bps: 100e6 * goodput_share,
            cwnd_packets: 400.0,
            base_rtt_s: 0.05,
            capacity_bps: 100e6,
            buffer_bytes: 625_000.0,
            handover_in_s: 3.0,
            handover_since_s: 12.0,
            reported_handover_in_s: f64::INFINITY,
            reported_handover_since_s: 1.0,
            ..IntervalStats::default()
        }
    }

    /// Nothing arrives and everything is lost; and a flow nothing is known of yet.
    fn hard_cases() -> [IntervalStats; 3] {
        let outage = IntervalStats {
            rtt_mean_s: f64::NAN,
            rtt_min_s: f64::NAN,
            lost_bytes: 1e9,
            lost_packets: 7e5,
            ..flow(0.0)
        };
        let unknown = IntervalStats { rtt_mean_s: f64::NAN, rtt_min_s: f64::NAN, ..IntervalStats::default() };
        let silent = IntervalStats { interval_s: 0.0, capacity_bps: f64::INFINITY, ..outage };
        [outage, unknown, silent]
    }

    fn paid(reward: &Reward, stats: &IntervalStats) -> f64 {
        match reward.payment {
            Payment::Own(own) => own(stats),
            Payment::Shared(shared) => {
                let mut history = astraea::History::default();
                (0..5).for_each(|_| history.push(stats));
                shared(&[Member { stats, history: &history }], stats.delivery_rate_bps / 100e6)
            }
        }
    }

    #[test]
    fn rewards_grow_with_goodput() {
        for reward in REWARDS {
            let paid: Vec<f64> = (0..=10).map(|k| paid(reward, &flow(f64::from(k) / 10.0))).collect();
            assert!(paid.windows(2).all(|w| w[1] > w[0]), "{}: {paid:?}", reward.name);
        }
    }

    #[test]
    fn rewards_fall_with_delay_and_loss() {
        for reward in REWARDS {
            let good = paid(reward, &flow(0.9));
            let late = IntervalStats { rtt_mean_s: 0.2, srtt_s: 0.2, ..flow(0.9) };
            let lossy = IntervalStats { lost_packets: 30.0, lost_bytes: 30.0 * 1460.0, ..flow(0.9) };
            assert!(paid(reward, &late) < good && paid(reward, &lossy) < good, "{}", reward.name);
        }
    }

    #[test]
    fn rewards_are_bounded_without_flows_and_in_outages() {
        for reward in REWARDS {
            for stats in hard_cases().iter().chain([&flow(1.0)]) {
                let paid = paid(reward, stats);
                assert!((reward.low..=reward.high).contains(&paid), "{}: {paid}", reward.name);
            }
            if let Payment::Shared(shared) = reward.payment {
                assert_eq!(shared(&[], 0.0), 0.0);
            }
        }
    }

    #[test]
    fn observations_stay_in_their_bounds_whatever_happens() {
        for piece in OBSERVATIONS {
            assert!(piece.features.len() <= MAX_FEATURES);
            let mut observer = Observer::new(piece);
            for stats in hard_cases().iter().chain(&[flow(0.5), flow(1.0)]) {
                observer.push(stats);
                for (x, feature) in observer.observation().iter().zip(piece.labels()) {
                    assert!((feature.low.min(0.0)..=feature.high).contains(x), "{}: {}", piece.name, feature.meaning);
                }
            }
        }
    }

    #[test]
    fn names_are_unique_and_unknown_ones_are_listed() {
        assert!(observation("astraea").is_ok());
        let error = action("cubic").err().unwrap();
        assert_eq!(error, "action = \"cubic\": must be one of astraea, orca, aurora");
        for (k, piece) in OBSERVATIONS.iter().enumerate() {
            assert!(OBSERVATIONS[..k].iter().all(|other| other.name != piece.name));
        }
    }

    #[test]
    fn intervals_follow_the_rtt_within_bounds() {
        let half = Interval { fixed: Nanos::from_millis(30), rtts: 0.5 };
        assert_eq!(half.after(&flow(0.5)), Nanos(27_500_000));
        assert_eq!(half.after(&hard_cases()[1]), half.fixed);
        assert_eq!(half.after(&hard_cases()[0]), Nanos(27_000_000), "half the smoothed RTT without a sample");
        let slow = IntervalStats { rtt_mean_s: 100.0, ..flow(0.5) };
        assert_eq!(half.after(&slow), Interval::LONGEST);
        assert_eq!(Interval::fixed(half.fixed).after(&slow), half.fixed);
    }
}
