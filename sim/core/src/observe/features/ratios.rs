//! Logarithms of ratios: an observation for paths with varying delay and rate, with windows that are cleared after an
//! outage of the path (ours).
//!
//! With logarithms, a doubling has the same weight at every rate and RTT, so that one small network works at 1 Mbit/s
//! and at 500 Mbit/s. Minimum RTT and maximum rate are taken over a window. A pause of the acknowledgements that is
//! much longer than usual clears both windows: a handover interrupts a path for 45-120 ms and may change its delay
//! (Mazilu et al.; Starlink's slots of 15 s), so that old extremes are no longer valid. Averages are over RTTs, so that
//! they have the same meaning at 10 and 600 ms.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::measures::{Measures, Rtt};
use super::{ListWatch, Made, Name};
use crate::observe::functions::{Feature, Observation, one_of, ratio, read, within};
use crate::observe::handovers::news_features;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sight {
    history: usize,
    min_rtt_window_s: f64,
    short_window_s: f64,
    max_rate_window_s: f64,
    /// The RTT of an interval: the `mean` of its samples, or the `least`, which jitter on a link hardly affects.
    rtt: String,
    /// Length of the fast and of the slow averages, in RTTs.
    fast_rtts: f64,
    slow_rtts: f64,
    /// A pause of the acknowledgements of at least this length, and three times the usual one, clears the windows; 0:
    /// never.
    gap_s: f64,
    /// Observe the number of the flow's own queued packets, which distinguishes large shares of the link from small
    /// ones.
    own_queue: bool,
    /// Handover signals: none, reported, true.
    handovers: String,
}

impl Default for Sight {
    fn default() -> Sight {
        Sight {
            history: 1,
            min_rtt_window_s: 10.0,
            short_window_s: 1.0,
            max_rate_window_s: 10.0,
            rtt: "mean".into(),
            fast_rtts: 1.0,
            slow_rtts: 4.0,
            gap_s: 0.03,
            own_queue: true,
            handovers: "none".into(),
        }
    }
}

pub fn observation(given: Value) -> Result<(Observation, Value), String> {
    let (sight, all): (Sight, _) = read(given)?;
    within("history", sight.history as f64, 1.0, 64.0)?;
    within("min_rtt_window_s", sight.min_rtt_window_s, 0.0, 1e4)?;
    within("short_window_s", sight.short_window_s, 0.0, 1e4)?;
    within("max_rate_window_s", sight.max_rate_window_s, 0.0, 1e4)?;
    within("fast_rtts", sight.fast_rtts, 0.0, 1e3)?;
    within("slow_rtts", sight.slow_rtts, 0.0, 1e3)?;
    within("gap_s", sight.gap_s, 0.0, 100.0)?;
    one_of("rtt", &sight.rtt, &["mean", "least"])?;
    one_of("handovers", &sight.handovers, &["none", "reported", "true"])?;
    let (min, short, max) = (sight.min_rtt_window_s, sight.short_window_s, sight.max_rate_window_s);
    let [min_rtt, short_rtt] = [min, short].map(|window_s| format!("min RTT of {}", span(window_s)));
    let max_rate = format!("max delivery rate of {}", span(max));
    let [fast, slow, slowest] = [sight.fast_rtts, sight.slow_rtts, 4.0 * sight.slow_rtts].map(average);
    let mut features: Vec<Feature> = vec![
        ratio(format!("ln(RTT / {min_rtt})"), 0.0, 3.0),
        ratio(format!("ln(RTT / {min_rtt}), {fast}"), 0.0, 3.0),
        ratio(format!("ln(RTT / {short_rtt})"), 0.0, 3.0),
        ratio(format!("10 x RTT rise in the interval / min RTT, {fast}"), -3.0, 3.0),
        ratio(format!("ln(acknowledged rate / pacing rate), {fast}"), -3.0, 3.0),
        ratio(format!("ln(delivery rate / {max_rate})"), -3.0, 0.0),
        ratio(format!("ln(delivery rate / {max_rate}), {slow}"), -3.0, 0.0),
        ratio(format!("square root of the share of lost packets, {fast}"), 0.0, 1.0),
        ratio(format!("square root of the share of lost packets, {slowest}"), 0.0, 1.0),
        ratio("ln(1 + own queued packets) / 4", 0.0, 3.0),
        ratio(format!("ln(1 + own queued packets) / 4, {fast}"), 0.0, 3.0),
        ratio("ln(pacing rate / 10 Mbit/s) / 2", -4.0, 4.0),
        ratio(format!("ln({min_rtt} / 50 ms)"), -4.0, 4.0),
        ratio("ln(packets in flight / BDP)", -3.0, 3.0),
        ratio("ln(window / BDP)", -3.0, 3.0),
        ratio("4 x ln(window / previous window)", -3.0, 3.0),
        ratio("1 s / (1 s + time since the windows were cleared)", 0.0, 1.0),
        ratio("longest time without an ACK / min RTT", 0.0, 3.0),
    ];
    features.extend(news_features(&sight.handovers));
    let watch = Box::new(watch(&sight));
    Ok((Observation { definition: Default::default(), features, history: sight.history, watch }, all))
}

/// The list that it is.
fn watch(sight: &Sight) -> ListWatch {
    let rtt = if sight.rtt == "least" { Rtt::Least } else { Rtt::Mean };
    let mut measures = Measures::unlearned(sight.gap_s, rtt);
    let base = measures.min_of(sight.min_rtt_window_s);
    let (short, max) = (measures.min_of(sight.short_window_s), measures.max_of(sight.max_rate_window_s));
    let over = |name, rtts| Made { rtt, rtts, ..Made::new(name, base, max) };
    let plain = |name| over(name, 0.0);
    let (fast, slow) = (sight.fast_rtts, sight.slow_rtts);
    let queue = if sight.own_queue { Name::OwnQueue } else { Name::Nothing };
    let mut made = vec![
        plain(Name::Inflation),
        over(Name::Inflation, fast),
        Made { min: short, ..plain(Name::Inflation) },
        over(Name::RttRise, fast),
        over(Name::Delivered, fast),
        plain(Name::RateShare),
        over(Name::RateShare, slow),
        over(Name::Loss, fast),
        over(Name::Loss, 4.0 * slow),
        plain(queue),
        over(queue, fast),
        plain(Name::PacingRate),
        plain(Name::MinRtt),
        plain(Name::InFlight),
        plain(Name::Window),
        plain(Name::WindowChange),
        plain(Name::Cleared),
        plain(Name::Silence),
    ];
    if sight.handovers != "none" {
        let predicted = sight.handovers == "reported";
        made.extend([Name::NextHandover, Name::LastHandover].map(|name| Made { predicted, ..plain(name) }));
    }
    ListWatch::new(measures, made, base)
}

/// A window in words.
fn span(window_s: f64) -> String {
    if window_s > 0.0 { format!("the last {window_s} s") } else { "the connection".into() }
}

/// An average in words.
fn average(rtts: f64) -> String {
    match rtts {
        0.0 => "no average".into(),
        1.0 => "average over 1 RTT".into(),
        _ => format!("average over {rtts} RTTs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::functions::Watch;
    use crate::observe::stats::IntervalStats;
    use crate::observe::testing::flow;
    use serde_json::json;

    fn seen(watch: &mut Box<dyn Watch>, stats: IntervalStats) -> [f64; 18] {
        let mut out = [0.0; 18];
        watch.fill(&stats, &mut out);
        out
    }

    #[test]
    fn the_least_rtt_of_an_interval_does_not_see_its_jitter() {
        let shaken = IntervalStats { rtt_mean_s: 0.09, ..flow(0.9) };
        let mut mean = observation(json!({})).unwrap().0.watch;
        let mut least = observation(json!({"rtt": "least"})).unwrap().0.watch;
        assert!((seen(&mut mean, shaken)[0] - (0.09_f64 / shaken.rtt_min_s).ln()).abs() < 1e-12);
        assert_eq!(seen(&mut least, shaken)[0], 0.0);
        assert!(observation(json!({"rtt": "median"})).is_err());
    }

    #[test]
    fn a_gap_makes_a_longer_path_look_empty() {
        let mut watch = observation(json!({})).unwrap().0.watch;
        for k in 0..100 {
            seen(&mut watch, IntervalStats { time_s: 0.03 * f64::from(k), ack_gap_s: 0.001, ..flow(0.9) });
        }
        let longer = IntervalStats { time_s: 3.1, rtt_mean_s: 0.11, rtt_min_s: 0.102, ..flow(0.5) };
        let without = seen(&mut watch.clone(), IntervalStats { ack_gap_s: 0.001, ..longer });
        let with = seen(&mut watch, IntervalStats { ack_gap_s: 0.08, ..longer });
        assert!(without[0] > 0.7 && without[5] < -0.5, "{without:?}");
        assert!(with[0] < 0.1 && with[5] == 0.0 && with[16] == 1.0, "{with:?}");
    }
}
