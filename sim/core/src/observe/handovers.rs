//! Handover signals of observations: the true changes of a flow's path, or predictions half a second ahead.

use std::sync::Arc;

use crate::observe::functions::{Feature, ratio};
use crate::observe::memory::nearness;
use crate::observe::stats::IntervalStats;
use crate::signals::PathChange;
use crate::time::Nanos;

/// Times of the changes of one flow's path, each list in order.
#[derive(Clone, Debug, Default)]
pub struct Handovers {
    actual: Arc<[Nanos]>,
    /// (time of the report, predicted time)
    reports: Arc<[(Nanos, Nanos)]>,
}

impl Handovers {
    pub fn new(changes: &[PathChange]) -> Handovers {
        let mut reports: Vec<_> = changes.iter().map(|c| (c.reported(), c.predicted)).collect();
        reports.sort_unstable();
        Handovers { actual: changes.iter().map(|c| c.at).collect(), reports: reports.into() }
    }

    /// The number of changes after `from`, up to and including `to`.
    pub fn count(&self, from: Nanos, to: Nanos) -> usize {
        self.actual.partition_point(|at| *at <= to) - self.actual.partition_point(|at| *at <= from)
    }

    pub fn fill(&self, stats: &mut IntervalStats, now: Nanos) {
        let passed = self.actual.partition_point(|at| *at <= now);
        stats.handover_in_s = span(now, self.actual.get(passed).copied());
        stats.handover_since_s = passed.checked_sub(1).map_or(f64::INFINITY, |k| span(self.actual[k], Some(now)));
        // Only reports that have been given by now are known.
        let known = &self.reports[..self.reports.partition_point(|r| r.0 <= now)];
        let passed = known.partition_point(|r| r.1 <= now);
        stats.reported_handover_in_s = span(now, known.get(passed).map(|r| r.1));
        stats.reported_handover_since_s = passed.checked_sub(1).map_or(f64::INFINITY, |k| span(known[k].1, Some(now)));
    }
}

/// Seconds from one time to a later one; infinite without a later one.
fn span(from: Nanos, to: Option<Nanos>) -> f64 {
    to.map_or(f64::INFINITY, |to| (to - from).secs_f64())
}

/// The two features of the handover signal `handovers`: none, reported or true.
pub(super) fn news_features(handovers: &str) -> Vec<Feature> {
    let (next, last) = match handovers {
        "reported" => ("until the reported handover", "since the reported handover"),
        "true" => ("until the next handover", "since the last handover"),
        _ => return Vec::new(),
    };
    [next, last].map(|what| ratio(format!("1 s / (1 s + time {what})"), 0.0, 1.0)).into()
}

/// Their values.
pub(super) fn fill_news(handovers: &str, stats: &IntervalStats, out: &mut [f64]) {
    match handovers {
        "reported" => out[..2].copy_from_slice(&handover_nearness(stats, true)),
        "true" => out[..2].copy_from_slice(&handover_nearness(stats, false)),
        _ => {}
    }
}

/// Nearness of the next and of the last handover, as reported or in truth.
pub(super) fn handover_nearness(stats: &IntervalStats, reported: bool) -> [f64; 2] {
    if reported {
        [stats.reported_handover_in_s, stats.reported_handover_since_s].map(nearness)
    } else {
        [stats.handover_in_s, stats.handover_since_s].map(nearness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_is_always_known_and_a_prediction_half_a_second_ahead() {
        let ms = Nanos::from_millis;
        let change = |at, predicted| PathChange { at: ms(at), duration: Nanos::ZERO, predicted: ms(predicted) };
        let handovers = Handovers::new(&[change(15_000, 15_200), change(30_000, 29_900)]);
        let at = |t| {
            let mut stats = IntervalStats::default();
            handovers.fill(&mut stats, ms(t));
            [stats.handover_in_s, stats.handover_since_s, stats.reported_handover_in_s, stats.reported_handover_since_s]
                .map(|s| (s * 1e6).round() / 1e6)
        };
        const NONE: f64 = f64::INFINITY;
        assert_eq!(at(14_000), [1.0, NONE, NONE, NONE]);
        assert_eq!(at(15_000), [15.0, 0.0, 0.2, NONE]);
        assert_eq!(at(15_500), [14.5, 0.5, NONE, 0.3]);
        assert_eq!(at(29_500), [0.5, 14.5, 0.4, 14.3]);
        assert_eq!(at(31_000), [NONE, 1.0, NONE, 1.1]);
    }
}
