//! An observation made of a list: any of the declared features, each with its own windows and averages.
//!
//! Its default list is that of the observation `ratios`, whose pauses never become usual. Every entry of a list is a name, or a table with the name and
//! the parameters that differ: `{"name": "inflation", "window_s": 1.0, "average_rtts": 1.0}`. A list that adds a feature
//! changes the definition of no other observation.

mod contest;
mod measures;
pub(super) mod ratios;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::MOST_FEATURES;
use super::functions::{Feature, Observation, Watch, one_of, ratio, read, within};
use super::handovers::handover_nearness;
use super::memory::{nearness, weight};
use super::stats::IntervalStats;

use contest::Contest;
use measures::{Measures, Rtt, log_ratio};

pub use contest::{AVERAGE_RTTS, WINDOW_S};
pub use measures::{SLOW_RTTS, STANDING_S};

/// Least preference of delay.
pub const LEAST_PREFERENCE: f64 = 0.01;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct List {
    features: Vec<Value>,
    history: usize,
    /// A pause of the acknowledgements of at least this length, and three times the usual one, clears what is known of
    /// the path; 0: never.
    gap_s: f64,
    /// Averages are over RTTs, which are the minimum of so many seconds.
    base_window_s: f64,
}

impl Default for List {
    fn default() -> List {
        let average = |name: &str, rtts: f64| json!({"name": name, "average_rtts": rtts});
        let features = vec![
            json!("inflation"),
            average("inflation", 1.0),
            json!({"name": "inflation", "window_s": 1.0}),
            average("rtt-rise", 1.0),
            average("delivered", 1.0),
            json!("rate-share"),
            average("rate-share", 4.0),
            average("loss", 1.0),
            average("loss", 16.0),
            json!("own-queue"),
            average("own-queue", 1.0),
            json!("pacing-rate"),
            json!("min-rtt"),
            json!("in-flight"),
            json!("window"),
            json!("window-change"),
            json!("cleared"),
            json!("silence"),
        ];
        List { features, history: 1, gap_s: 0.03, base_window_s: 10.0 }
    }
}

/// What a feature can be told; which of these a name takes stands in [`KINDS`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    name: String,
    rtt: Option<String>,
    window_s: Option<f64>,
    long_s: Option<f64>,
    jitters: Option<f64>,
    when: Option<String>,
    signal: Option<String>,
    over_ms: Option<f64>,
    usual: Option<f64>,
    contested: Option<f64>,
    average_rtts: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Name {
    Inflation,
    OwnQueue,
    QueueDelay,
    RttRise,
    Delivered,
    RateShare,
    Loss,
    Marks,
    PacingRate,
    MinRtt,
    LongPath,
    InFlight,
    Window,
    WindowChange,
    Cleared,
    Silence,
    Jitter,
    RttSpread,
    MinRttRatio,
    MaxRateRatio,
    NextHandover,
    LastHandover,
    DelayPreference,
    /// 0, in the place of a feature that is not observed.
    Nothing,
}

/// A declared feature: its name, its bounds, the parameters that it takes, its meaning.
struct Kind {
    name: Name,
    text: &'static str,
    bounds: (f32, f32),
    takes: &'static [&'static str],
    meaning: &'static str,
}

const fn kind(
    name: Name,
    text: &'static str,
    bounds: (f32, f32),
    takes: &'static [&'static str],
    meaning: &'static str,
) -> Kind {
    Kind { name, text, bounds, takes, meaning }
}

const RTT: &[&str] = &["rtt", "window_s", "jitters", "average_rtts"];
const MIN: &[&str] = &["window_s", "average_rtts"];
const ALONE: &[&str] = &["average_rtts"];
const TWO: &[&str] = &["window_s", "long_s", "average_rtts"];
const SIGNAL: &[&str] = &["signal"];
const LONG_PATH: &[&str] = &["window_s", "over_ms", "average_rtts"];
const PREFERENCE: &[&str] = &["usual", "contested"];

const KINDS: &[Kind] = &[
    kind(Name::Inflation, "inflation", (0.0, 3.0), RTT, "ln(RTT / minimum RTT)"),
    kind(Name::OwnQueue, "own-queue", (0.0, 3.0), RTT, "ln(1 + own queued packets) / 4"),
    kind(Name::QueueDelay, "queue-delay", (0.0, 3.0), RTT, "ln(1 + (RTT - minimum RTT) / 1 ms) / 4"),
    kind(Name::RttRise, "rtt-rise", (-3.0, 3.0), MIN, "10 x RTT rise in the interval / minimum RTT"),
    kind(Name::Delivered, "delivered", (-3.0, 3.0), ALONE, "ln(acknowledged rate / pacing rate)"),
    kind(Name::RateShare, "rate-share", (-3.0, 0.0), MIN, "ln(delivery rate / maximum delivery rate)"),
    kind(Name::Loss, "loss", (0.0, 1.0), &["when", "average_rtts"], "square root of the share of lost packets"),
    kind(Name::Marks, "marks", (0.0, 1.0), ALONE, "share of acknowledged packets reported as marked by ECN"),
    kind(Name::PacingRate, "pacing-rate", (-4.0, 4.0), ALONE, "ln(pacing rate / 10 Mbit/s) / 2"),
    kind(Name::MinRtt, "min-rtt", (-4.0, 4.0), MIN, "ln(minimum RTT / 50 ms)"),
    kind(Name::LongPath, "long-path", (0.0, 4.0), LONG_PATH, "ln(minimum RTT / a length), 0 below it"),
    kind(Name::InFlight, "in-flight", (-3.0, 3.0), MIN, "ln(packets in flight / BDP)"),
    kind(Name::Window, "window", (-3.0, 3.0), MIN, "ln(window / BDP)"),
    kind(Name::WindowChange, "window-change", (-3.0, 3.0), ALONE, "4 x ln(window / previous window)"),
    kind(Name::Cleared, "cleared", (0.0, 1.0), &[], "1 s / (1 s + time since a pause cleared the windows)"),
    kind(Name::Silence, "silence", (0.0, 3.0), MIN, "longest time without an ACK / minimum RTT"),
    kind(Name::Jitter, "jitter", (0.0, 2.0), &[], "ln(1 + mean step of the least RTT / minimum RTT)"),
    kind(Name::RttSpread, "rtt-spread", (0.0, 3.0), ALONE, "ln(mean RTT / least RTT of the interval)"),
    kind(Name::MinRttRatio, "min-rtt-ratio", (0.0, 3.0), TWO, "ln(minimum RTT / minimum RTT of a longer window)"),
    kind(Name::MaxRateRatio, "max-rate-ratio", (-3.0, 0.0), TWO, "ln(maximum rate / maximum rate of a longer window)"),
    kind(Name::NextHandover, "next-handover", (0.0, 1.0), SIGNAL, "1 s / (1 s + time until the next handover)"),
    kind(Name::LastHandover, "last-handover", (0.0, 1.0), SIGNAL, "1 s / (1 s + time since the last handover)"),
    kind(Name::DelayPreference, "delay-preference", (-5.0, 0.0), PREFERENCE, "ln(how much delay counts)"),
];

/// A feature of a list, with its average.
#[derive(Clone)]
struct Made {
    /// Its value, apart from the average, is that of the feature before it.
    again: bool,
    name: Name,
    rtt: Rtt,
    jitters: f64,
    /// Minimum RTT and maximum rate of its window, and of its longer one.
    min: usize,
    max: usize,
    long: usize,
    /// Losses count while the RTT is above its average (true), below it, or always.
    when: Option<bool>,
    predicted: bool,
    over_s: f64,
    /// Logarithms of preferences.
    usual: f64,
    contested: f64,
    /// How much of the queue is that of others.
    contest: Option<Box<Contest>>,
    rtts: f64,
    /// That of the average, in the list's.
    weight: usize,
    average: f64,
    known: bool,
}

/// Read an entry of the list: the feature with its parameters in full.
fn entry(given: &Value) -> Result<(&'static Kind, Map<String, Value>), String> {
    let table = if given.is_string() { json!({"name": given}) } else { given.clone() };
    let asked: Asked = serde_json::from_value(table).map_err(|e| format!(" = {given}: {e}"))?;
    let Some(kind) = KINDS.iter().find(|kind| kind.text == asked.name) else {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.text).collect();
        return Err(format!(".name = {:?}: must be one of {}", asked.name, names.join(", ")));
    };
    let text = |value: &Option<String>, usual: &str| value.clone().unwrap_or_else(|| usual.into());
    let all = [
        ("rtt", asked.rtt.is_some(), json!(text(&asked.rtt, "mean"))),
        ("window_s", asked.window_s.is_some(), json!(asked.window_s.unwrap_or(10.0))),
        ("long_s", asked.long_s.is_some(), json!(asked.long_s.unwrap_or(30.0))),
        ("jitters", asked.jitters.is_some(), json!(asked.jitters.unwrap_or(0.0))),
        ("when", asked.when.is_some(), json!(text(&asked.when, "always"))),
        ("signal", asked.signal.is_some(), json!(text(&asked.signal, "reported"))),
        ("over_ms", asked.over_ms.is_some(), json!(asked.over_ms.unwrap_or(300.0))),
        ("usual", asked.usual.is_some(), json!(asked.usual.unwrap_or(1.0))),
        ("contested", asked.contested.is_some(), json!(asked.contested)),
        ("average_rtts", asked.average_rtts.is_some(), json!(asked.average_rtts.unwrap_or(0.0))),
    ];
    let mut full = Map::from_iter([("name".to_owned(), json!(kind.text))]);
    for (field, present, value) in all {
        // A preference is constant unless it is told what it is in a contested queue.
        if field == "contested" && !present {
            continue;
        }
        if kind.takes.contains(&field) {
            full.insert(field.into(), value);
        } else if present {
            let allowed = if kind.takes.is_empty() { "nothing".into() } else { kind.takes.join(", ") };
            return Err(format!(".{field} = {value}: unknown; {} takes {allowed}", kind.text));
        }
    }
    for (field, most) in [("window_s", 1e4), ("long_s", 1e4), ("jitters", 100.0), ("average_rtts", 1e3)] {
        if let Some(value) = full.get(field).and_then(Value::as_f64) {
            within(field, value, 0.0, most).map_err(|e| format!(".{e}"))?;
        }
    }
    let ranges = [("over_ms", 1.0, 1e4), ("usual", LEAST_PREFERENCE, 1.0)];
    for (field, least, most) in ranges {
        if let Some(value) = full.get(field).and_then(Value::as_f64) {
            within(field, value, least, most).map_err(|e| format!(".{e}"))?;
        }
    }
    if let Some(contested) = full.get("contested").and_then(Value::as_f64) {
        let usual = full["usual"].as_f64().unwrap_or(1.0);
        within("contested", contested, LEAST_PREFERENCE, usual).map_err(|e| format!(".{e} (usual)"))?;
    }
    let choices: [(&str, &[&str]); 3] = [
        ("rtt", &["mean", "least", "standing"]),
        ("when", &["always", "rising", "falling"]),
        ("signal", &["reported", "true"]),
    ];
    for (field, allowed) in choices {
        if let Some(value) = full.get(field).and_then(Value::as_str) {
            one_of(field, value, allowed).map_err(|e| format!(".{e}"))?;
        }
    }
    Ok((kind, full))
}

/// The feature in words, with the parameters that are not as usual.
fn described(kind: &Kind, full: &Map<String, Value>) -> Feature {
    let mut meaning = kind.meaning.to_owned();
    for (field, value) in full.iter().filter(|(field, _)| *field != "name") {
        let word = value.as_str().unwrap_or_default();
        let said = match (field.as_str(), value.as_f64()) {
            ("jitters" | "average_rtts", Some(0.0)) => continue,
            ("rtt" | "when", _) if matches!(word, "mean" | "always") => continue,
            ("window_s", Some(0.0)) => "window of the connection".into(),
            ("window_s", Some(s)) => format!("window of {s} s"),
            ("long_s", Some(0.0)) => "the longer one of the connection".into(),
            ("over_ms", Some(ms)) => format!("length of {ms} ms"),
            ("long_s", Some(s)) => format!("the longer one of {s} s"),
            ("jitters", Some(n)) => format!("{n} jitters above the minimum count as empty"),
            ("average_rtts", Some(1.0)) => "average over 1 RTT".into(),
            ("average_rtts", Some(n)) => format!("average over {n} RTTs"),
            ("usual", Some(preference)) => format!("{preference} where a flow asks for nothing"),
            ("contested", Some(preference)) => format!("down to {preference} where others fill the queue"),
            ("rtt", _) => format!("{word} RTT"),
            ("when", _) => format!("while the RTT is {word}"),
            _ => format!("{word} handovers"),
        };
        meaning += &format!(", {said}");
    }
    ratio(meaning, kind.bounds.0, kind.bounds.1)
}

pub(super) fn observation(given: Value) -> Result<(Observation, Value), String> {
    let (mut list, _): (List, _) = read(given)?;
    within("history", list.history as f64, 1.0, 64.0)?;
    within("gap_s", list.gap_s, 0.0, 100.0)?;
    within("base_window_s", list.base_window_s, 0.0, 1e4)?;
    let count = list.features.len();
    if !(1..=MOST_FEATURES).contains(&count) {
        return Err(format!("features = {count} features: must be 1 to {MOST_FEATURES}"));
    }
    let base_window_s = list.base_window_s;
    let mut measures = Measures::new(list.gap_s);
    let base = measures.min_of(base_window_s);
    let (mut features, mut made) = (Vec::new(), Vec::new());
    for (k, given) in list.features.iter_mut().enumerate() {
        let (kind, full) = entry(given).map_err(|e| format!("features[{k}]{e}"))?;
        let number = |field: &str| full.get(field).and_then(Value::as_f64).unwrap_or(0.0);
        let word = |field: &str| full.get(field).and_then(Value::as_str).unwrap_or_default();
        let rate = kind.name == Name::MaxRateRatio;
        let contested = full.get("contested").and_then(Value::as_f64);
        let span = match contested {
            Some(_) => contest::WINDOW_S,
            None if kind.takes.contains(&"window_s") => number("window_s"),
            None => base_window_s,
        };
        let long = if kind.takes.contains(&"long_s") { number("long_s") } else { span };
        made.push(Made {
            rtt: match word("rtt") {
                "least" => Rtt::Least,
                "standing" => Rtt::Standing,
                _ => Rtt::Mean,
            },
            jitters: number("jitters"),
            long: if rate { measures.max_of(long) } else { measures.min_of(long) },
            when: match word("when") {
                "rising" => Some(true),
                "falling" => Some(false),
                _ => None,
            },
            predicted: word("signal") == "reported",
            over_s: number("over_ms") / 1e3,
            usual: libm::log(number("usual")),
            contested: libm::log(contested.unwrap_or(number("usual"))),
            contest: contested.map(|_| Box::default()),
            rtts: if contested.is_some() { contest::AVERAGE_RTTS } else { number("average_rtts") },
            ..Made::new(kind.name, measures.min_of(span), measures.max_of(span))
        });
        features.push(described(kind, &full));
        *given = Value::Object(full);
    }
    let history = list.history;
    let all = serde_json::to_value(&list).expect("a list is JSON");
    let watch = Box::new(ListWatch::new(measures, made, base));
    Ok((Observation { definition: Default::default(), features, history, watch }, all))
}

#[derive(Clone)]
struct ListWatch {
    measures: Measures,
    made: Vec<Made>,
    base: usize,
    /// Lengths of the averages in RTTs, and the weight of this interval in each.
    weights: Vec<(f64, f64)>,
}

impl ListWatch {
    fn new(mut measures: Measures, mut made: Vec<Made>, base: usize) -> ListWatch {
        measures.slow = made.iter().any(Made::is_slow);
        measures.stands = made.iter().any(|made| made.rtt == Rtt::Standing);
        let mut weights: Vec<(f64, f64)> = Vec::new();
        for made in &mut made {
            made.weight = weights.iter().position(|(rtts, _)| *rtts == made.rtts).unwrap_or_else(|| {
                weights.push((made.rtts, 1.0));
                weights.len() - 1
            });
        }
        for k in 1..made.len() {
            made[k].again = made[k].has_the_value_of(&made[k - 1]);
        }
        ListWatch { measures, made, base, weights }
    }
}

impl Watch for ListWatch {
    fn fill(&mut self, stats: &IntervalStats, out: &mut [f64]) {
        let pause = self.measures.update(stats, self.base);
        let min_rtt = self.measures.min_rtt(self.base);
        for (rtts, now) in &mut self.weights {
            *now = weight(stats, min_rtt, *rtts);
        }
        let mut now = 0.0;
        for (made, out) in self.made.iter_mut().zip(out) {
            // A flow that asks for a preference has it, whoever fills the queue.
            if let Some(contest) = &mut made.contest
                && stats.delay_preference == 0.0
            {
                contest.update(stats);
            }
            if !made.again {
                now = made.value(&self.measures, stats, self.base);
            }
            let average = made.averaged(now, self.weights[made.weight].1, pause, self.measures.rising);
            *out = made.told(average, stats);
        }
    }

    fn preference(&self, beside_others: bool) -> f64 {
        let made = self.made.iter().find(|made| made.name == Name::DelayPreference);
        made.map_or(0.0, |made| libm::exp(if beside_others { made.contested } else { made.usual }))
    }

    fn clone_box(&self) -> Box<dyn Watch> {
        Box::new(self.clone())
    }
}

impl Made {
    /// The feature with the usual parameters: `min`, `max`: its windows in [`Measures`].
    fn new(name: Name, min: usize, max: usize) -> Made {
        Made {
            again: false,
            name,
            rtt: Rtt::Mean,
            jitters: 0.0,
            min,
            max,
            long: min,
            when: None,
            predicted: false,
            over_s: 0.0,
            usual: 0.0,
            contested: 0.0,
            contest: None,
            rtts: 0.0,
            weight: 0,
            average: 0.0,
            known: false,
        }
    }

    fn is_slow(&self) -> bool {
        self.jitters > 0.0 || self.name == Name::Jitter || self.when.is_some()
    }

    fn has_the_value_of(&self, other: &Made) -> bool {
        let windows = |made: &Made| (made.rtt, made.min, made.max, made.long, made.jitters);
        self.name == other.name
            && windows(self) == windows(other)
            && self.over_s == other.over_s
            && self.predicted == other.predicted
            && self.contest.is_none()
            && other.contest.is_none()
    }

    fn value(&self, seen: &Measures, stats: &IntervalStats, base: usize) -> f64 {
        let min_rtt = || seen.min_rtt(self.min);
        let per = |x: f64| if min_rtt() > 0.0 { x / min_rtt() } else { 0.0 };
        let bdp = || seen.max_rate(self.max) / 8.0 * min_rtt() / stats.mss_bytes;
        let known = seen.rate > 0.0;
        match self.name {
            Name::Inflation => {
                let rtt = seen.rtt(self.rtt);
                seen.floor(self.min, self.jitters, base).map_or(0.0, |floor| log_ratio(rtt, floor))
            }
            Name::OwnQueue => {
                let rtt = seen.rtt(self.rtt);
                let floor = seen.floor(self.min, self.jitters, base).unwrap_or(rtt);
                let queued = if known { (rtt - floor).max(0.0) * seen.rate / 8.0 / stats.mss_bytes } else { 0.0 };
                libm::log(1.0 + queued) / 4.0
            }
            Name::QueueDelay => {
                let rtt = seen.rtt(self.rtt);
                let floor = seen.floor(self.min, self.jitters, base).unwrap_or(rtt);
                libm::log(1.0 + (rtt - floor).max(0.0) * 1e3) / 4.0
            }
            Name::RttRise => per(10.0 * stats.rtt_rise_s),
            Name::Delivered if stats.acked_rate_bps > 0.0 => log_ratio(stats.acked_rate_bps, seen.pacing),
            Name::RateShare if known => log_ratio(seen.rate, seen.max_rate(self.max)),
            Name::Delivered | Name::RateShare => -3.0,
            Name::Loss => seen.loss,
            Name::PacingRate => log_ratio(seen.pacing, 10e6) / 2.0,
            Name::MinRtt => log_ratio(min_rtt(), 0.05),
            Name::LongPath => log_ratio(min_rtt(), self.over_s).max(0.0),
            Name::InFlight => log_ratio(stats.in_flight_packets, bdp()),
            Name::Window => log_ratio(stats.cwnd_packets, bdp()),
            Name::WindowChange => 4.0 * log_ratio(stats.cwnd_packets, seen.previous_window),
            Name::Cleared => nearness(stats.time_s - seen.cleared_at_s.unwrap_or(f64::NEG_INFINITY)),
            Name::Silence => per(stats.ack_gap_s),
            Name::Jitter => libm::log(1.0 + seen.jitter()),
            Name::Marks if stats.acked_packets > 0.0 => stats.marked_packets / stats.acked_packets,
            Name::Marks => 0.0,
            Name::RttSpread => log_ratio(seen.rtt(Rtt::Mean), seen.rtt(Rtt::Least)),
            Name::MinRttRatio => log_ratio(min_rtt(), seen.min_rtt(self.long)),
            Name::MaxRateRatio => log_ratio(seen.max_rate(self.max), seen.max_rate(self.long)),
            Name::DelayPreference => {
                self.contest.as_ref().map_or(0.0, |contest| contest.value(seen.rtt(Rtt::Least), min_rtt()))
            }
            Name::Nothing => 0.0,
            Name::NextHandover => handover_nearness(stats, self.predicted)[0],
            Name::LastHandover => handover_nearness(stats, self.predicted)[1],
        }
    }

    /// The average that this value brings; a pause begins averages anew, but not those of losses and of a contest.
    fn averaged(&mut self, now: f64, weight: f64, pause: bool, rising: bool) -> f64 {
        if self.name == Name::Loss {
            if self.when.is_none_or(|when| when == rising) {
                self.average += weight * (now - self.average);
            }
            return libm::sqrt(self.average);
        }
        let kept = self.known && (!pause || self.name == Name::DelayPreference) && self.rtts > 0.0;
        self.average = if kept { self.average + weight * (now - self.average) } else { now };
        self.known = true;
        self.average
    }

    /// What is observed at this average.
    fn told(&self, average: f64, stats: &IntervalStats) -> f64 {
        match self.name {
            Name::DelayPreference if stats.delay_preference > 0.0 => libm::log(stats.delay_preference),
            Name::DelayPreference => contest::preference(self.usual, self.contested, average),
            _ => average,
        }
    }
}

#[cfg(test)]
mod tests;
