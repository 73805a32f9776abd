//! What features are computed from: the measurements of one flow, each made once however many features use it.

use crate::observe::memory::{GapDetector, WindowedMax, WindowedMin, weight};
use crate::observe::stats::IntervalStats;

/// The standing RTT is the least of so long: longer than a frame of a link, shorter than a change of the window takes.
pub const STANDING_S: f64 = 0.25;
/// Jitter, and the inflation that losses are told apart by, are averages over so many RTTs.
pub const SLOW_RTTS: f64 = 16.0;
/// A sender with more packets in flight than so many windows stays silent, and an RTT later its acknowledgements pause.
const SILENT: f64 = 1.05;
/// For so many RTTs after such an interval a pause is the sender's own.
const OWN_PAUSE_RTTS: f64 = 2.0;
/// Largest step of the least RTT that counts as jitter, in minimum RTTs.
const MOST_JITTER: f64 = 4.0;

/// Which RTT of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rtt {
    /// The mean of its samples.
    Mean,
    /// Its smallest sample.
    Least,
    /// The smallest sample of a quarter of a second.
    Standing,
}

#[derive(Clone)]
pub struct Measures {
    gaps: GapDetector,
    /// Windows in seconds, and their minimum RTT and maximum rate.
    mins: Vec<(f64, WindowedMin, Option<f64>)>,
    maxs: Vec<(f64, WindowedMax, f64)>,
    standing: WindowedMin,
    /// By [`Rtt`], the last known.
    rtts: [f64; 3],
    /// What the minimum RTT is without a sample since a pause.
    usual: Rtt,
    /// Pauses that return become usual, and those that the sender makes itself are none of the path.
    learns: bool,
    /// Jitter and the usual inflation are asked for.
    pub slow: bool,
    /// The standing RTT is asked for.
    pub stands: bool,
    before: f64,
    jitter: f64,
    slow_inflation: Option<f64>,
    /// Delivery rate in bit/s; NaN without a sample.
    pub rate: f64,
    pub pacing: f64,
    /// Share of lost packets in the interval.
    pub loss: f64,
    /// The RTT is above its average: the flow's own queue may lose packets.
    pub rising: bool,
    pub previous_window: f64,
    window: f64,
    pub cleared_at_s: Option<f64>,
    /// When the sender had more in flight than its window, last.
    silent_at_s: f64,
}

impl Measures {
    pub fn new(gap_s: f64) -> Measures {
        Measures { gaps: GapDetector::learning(gap_s), learns: true, ..Measures::unlearned(gap_s, Rtt::Mean) }
    }

    /// For which every long pause is one of the path, and without a sample the minimum RTT is the last `usual` RTT.
    pub fn unlearned(gap_s: f64, usual: Rtt) -> Measures {
        Measures {
            gaps: GapDetector::new(gap_s),
            mins: Vec::new(),
            maxs: Vec::new(),
            standing: WindowedMin::new(STANDING_S),
            rtts: [0.0; 3],
            usual,
            learns: false,
            slow: true,
            stands: true,
            before: f64::NAN,
            jitter: 0.0,
            slow_inflation: None,
            rate: f64::NAN,
            pacing: 0.0,
            loss: 0.0,
            rising: false,
            previous_window: 0.0,
            window: 0.0,
            cleared_at_s: None,
            silent_at_s: f64::NEG_INFINITY,
        }
    }

    /// Index of the minimum RTT of a window, 0 s: of the connection.
    pub fn min_of(&mut self, window_s: f64) -> usize {
        self.mins.iter().position(|(known, ..)| *known == window_s).unwrap_or_else(|| {
            self.mins.push((window_s, WindowedMin::new(window_s), None));
            self.mins.len() - 1
        })
    }

    /// Index of the maximum delivery rate of a window.
    pub fn max_of(&mut self, window_s: f64) -> usize {
        self.maxs.iter().position(|(known, ..)| *known == window_s).unwrap_or_else(|| {
            self.maxs.push((window_s, WindowedMax::new(window_s), 0.0));
            self.maxs.len() - 1
        })
    }

    /// Take in an interval; whether a pause has made what was known invalid.
    pub fn update(&mut self, stats: &IntervalStats, base: usize) -> bool {
        if stats.in_flight_packets > SILENT * stats.cwnd_packets {
            self.silent_at_s = stats.time_s;
        }
        let own = self.learns && stats.time_s - self.silent_at_s <= OWN_PAUSE_RTTS * stats.srtt_s;
        let pause = self.gaps.notices(stats) && !own;
        if pause {
            self.mins.iter_mut().for_each(|(_, min, _)| min.forget());
            self.maxs.iter_mut().for_each(|(_, max, _)| max.forget());
            self.standing.forget();
            self.before = f64::NAN;
            self.cleared_at_s = Some(stats.time_s);
        }
        self.rate = if stats.delivery_rate_bps > 0.0 { stats.delivery_rate_bps } else { f64::NAN };
        for (_, min, now) in &mut self.mins {
            *now = min.update(stats.time_s, stats.rtt_min_s);
        }
        for (_, max, now) in &mut self.maxs {
            *now = max.update(stats.time_s, self.rate).unwrap_or(stats.max_delivery_rate_bps);
        }
        let standing = self.stands.then(|| self.standing.update(stats.time_s, stats.rtt_min_s)).flatten();
        let standing = standing.unwrap_or(f64::NAN);
        for (known, now) in self.rtts.iter_mut().zip([stats.rtt_mean_s, stats.rtt_min_s, standing]) {
            if !now.is_nan() {
                *known = now;
            } else if *known <= 0.0 {
                *known = stats.srtt_s;
            }
        }
        if self.slow {
            self.update_slow(stats, base, pause);
        }
        self.pacing = if stats.pacing_rate_bps > 0.0 { stats.pacing_rate_bps } else { stats.send_rate_bps };
        let known = stats.acked_packets + stats.lost_packets;
        self.loss = if known > 0.0 { stats.lost_packets / known } else { 0.0 };
        self.previous_window = self.window;
        self.window = stats.cwnd_packets;
        pause
    }

    /// Jitter, and whether the RTT is above its average.
    fn update_slow(&mut self, stats: &IntervalStats, base: usize, pause: bool) {
        let min_rtt = self.min_rtt(base);
        if !stats.rtt_min_s.is_nan() && min_rtt > 0.0 {
            if !self.before.is_nan() {
                let step = ((stats.rtt_min_s - self.before).abs() / min_rtt).min(MOST_JITTER);
                self.jitter += weight(stats, min_rtt, SLOW_RTTS) * (step - self.jitter);
            }
            self.before = stats.rtt_min_s;
        }
        let inflation = log_ratio(self.rtt(Rtt::Mean), min_rtt);
        let average = self.slow_inflation.filter(|_| !pause).unwrap_or(inflation);
        self.rising = inflation > average;
        self.slow_inflation = Some(average + weight(stats, min_rtt, SLOW_RTTS) * (inflation - average));
    }

    pub fn rtt(&self, which: Rtt) -> f64 {
        self.rtts[which as usize]
    }

    /// Minimum RTT; without a sample since a pause, the last known RTT.
    pub fn min_rtt(&self, index: usize) -> f64 {
        self.mins[index].2.unwrap_or(self.rtts[self.usual as usize])
    }

    /// As `min_rtt`, if there is a sample, and so many jitters more.
    pub fn floor(&self, index: usize, jitters: f64, base: usize) -> Option<f64> {
        self.mins[index].2.map(|min| min + jitters * self.jitter * self.min_rtt(base))
    }

    /// Mean step of the least RTT from one interval to the next, in minimum RTTs.
    pub fn jitter(&self) -> f64 {
        self.jitter
    }

    pub fn max_rate(&self, index: usize) -> f64 {
        self.maxs[index].2
    }
}

/// ln(a / b); 0 if a or b is not positive.
pub fn log_ratio(a: f64, b: f64) -> f64 {
    if a > 0.0 && b > 0.0 { libm::log(a / b) } else { 0.0 }
}
