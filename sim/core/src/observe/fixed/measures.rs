//! What the features of an interval are computed from ([`crate::observe::features`]), in fixed point.

use super::arithmetic::{ONE24, exp, log2, natural, ratio, within};
use super::{LEASTS, MOSTS, Parameters, SPANS, State, Statistics, Window};

/// RTTs: mean and least of an interval, and the least of a quarter of a second.
pub const MEAN: u32 = 0;
pub const LEAST: u32 = 1;
pub const STANDING: u32 = 2;

const BUCKETS: u64 = 10;

/// Larger statistics are taken for these, so that nothing overflows: a moment, 9 minutes, 69 seconds, 0.5 TB, 34 Gbit/s.
pub const MOST_TIME: u64 = 1 << 60;
const MOST_INTERVAL: u64 = (1 << 39) - 1;
pub const MOST_RTT: u64 = (1 << 36) - 1;
pub const MOST_BYTES: u64 = (1 << 39) - 1;
pub const MOST_RATE: u64 = (1 << 32) - 1;
/// Bound of a value before it is averaged, in Q24.
pub const MOST_VALUE: i64 = 60 << 24;
/// A second and a microsecond in ns.
pub const SECOND: u64 = 1_000_000_000;
const MICROSECOND: u64 = 1_000;
const TIMES_USUAL: u64 = 3;
/// Largest step of the least RTT that counts as jitter, in minimum RTTs.
const MOST_JITTER: i64 = 4 << 24;
/// For so many smoothed RTTs after an interval in which it was silent, a pause is the sender's own.
const OWN_PAUSE_RTTS: u64 = 2;

pub fn least(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

/// Add a value (0: none) at a time; return the largest of the window, 0 if there is none.
pub fn update(window: &mut Window, bucket_ns: u64, time_ns: u64, value: u64) -> u64 {
    let now = if bucket_ns > 0 { time_ns / bucket_ns } else { 0 };
    if window.now < now {
        for passed in 1..=BUCKETS {
            if window.now + passed <= now {
                window.buckets[((window.now + passed) % BUCKETS) as usize] = 0;
            }
        }
    }
    window.now = now;
    let newest = (now % BUCKETS) as usize;
    if u64::from(window.buckets[newest]) < value {
        window.buckets[newest] = value as u32;
    }
    let mut most = 0;
    for bucket in window.buckets {
        if most < bucket {
            most = bucket;
        }
    }
    u64::from(most)
}

/// The same for the smallest RTT, a multiple of a microsecond below 2^36 ns: the largest of 2^27 us less it.
pub fn update_least(window: &mut Window, bucket_ns: u64, time_ns: u64, rtt_ns: u64) -> u64 {
    let most = update(window, bucket_ns, time_ns, if rtt_ns > 0 { (1 << 27) - rtt_ns / MICROSECOND } else { 0 });
    if most > 0 { ((1 << 27) - most) * MICROSECOND } else { 0 }
}

/// Whether a pause of the acknowledgements has ended, or reached its length, that is much longer than usual (kept in
/// sixteenths of a ns): at least `gap_ns` (0: never). `learns`: a pause that returns becomes usual.
pub fn notices(gap_ns: u64, learns: bool, usual_gap: &mut u64, ack_gap_ns: u64) -> bool {
    let usual_ns = (TIMES_USUAL * *usual_gap) >> 4;
    let least_ns = if usual_ns > gap_ns { usual_ns } else { gap_ns };
    let gap = gap_ns > 0 && ack_gap_ns >= least_ns;
    if !gap || learns {
        *usual_gap = *usual_gap - (*usual_gap >> 4) + least(ack_gap_ns, least_ns);
    }
    gap
}

/// The weight of an interval in an average over so many (Q16) RTTs, in Q24.
pub fn weight(interval_ns: u64, rtt_ns: u64, rtts: u32) -> i64 {
    let span_ns = (rtt_ns * u64::from(rtts)) >> 16;
    if span_ns == 0 { ONE24 } else { ONE24 - exp(-ratio(interval_ns, span_ns, 40 << 24)) as i64 }
}

/// ln(a / b) in Q24 for numbers that have these binary logarithms; 0 unless both are positive.
pub fn log_ratio(positive: bool, log2_a: i64, log2_b: i64) -> i64 {
    if positive { natural(log2_a - log2_b) } else { 0 }
}

/// What all features share. Logarithms are binary, in Q24.
#[derive(Default)]
pub struct Measures {
    pub time_ns: u64,
    pub interval_ns: u64,
    pub ack_gap_ns: u64,
    pub rate: u64,
    pub mss: u64,
    pub acked: u64,
    pub lost: u64,
    /// Minimum RTT of each window; without a sample, the last known RTT.
    pub min_ns: [u64; LEASTS],
    pub log2_min: [i64; LEASTS],
    pub max_rate: [u64; MOSTS],
    pub log2_max: [i64; MOSTS],
    pub log2_rtt: [i64; 3],
    /// Weight of the interval in averages, Q24; the first is of none.
    pub weights: [i64; SPANS + 1],
    pub log2_mss: i64,
    pub log2_rate: i64,
    pub log2_cwnd: i64,
    pub log2_pacing: i64,
    pub pacing: bool,
    /// Bit k: window k of the minimum RTT has a sample.
    pub sampled: u32,
    /// The RTT is above its average.
    pub rising: bool,
}

/// Take in an interval.
pub fn measure(parameters: &Parameters, state: &mut State, stats: &Statistics) -> Measures {
    let mut m = Measures {
        time_ns: least(stats.time_ns, MOST_TIME),
        interval_ns: least(stats.interval_ns, MOST_INTERVAL),
        ack_gap_ns: least(stats.ack_gap_ns, MOST_RTT),
        rate: least(stats.delivery_rate, MOST_RATE),
        mss: within(i64::from(stats.mss), 1, 0xffff) as u64,
        acked: least(stats.acked_bytes, MOST_BYTES),
        ..Measures::default()
    };
    m.lost = least(u64::from(stats.lost) * m.mss, MOST_BYTES);
    let rtt_ns = least(stats.rtt_least_ns, MOST_RTT) / MICROSECOND * MICROSECOND;
    pause(parameters, state, stats, &m);
    extremes(parameters, state, &mut m, rtt_ns);
    rtts(parameters, state, stats, &mut m, rtt_ns);
    m.log2_mss = log2(m.mss);
    m.log2_rate = log2(m.rate);
    m.log2_cwnd = log2(u64::from(stats.cwnd));
    if stats.pacing_rate > 0 {
        (m.pacing, m.log2_pacing) = (true, log2(least(stats.pacing_rate, MOST_RATE)));
    } else {
        let sent = least(stats.sent_bytes, MOST_BYTES);
        m.pacing = sent > 0 && m.interval_ns > 0;
        m.log2_pacing = log2(sent) + log2(SECOND) - log2(m.interval_ns);
    }
    m.weights[0] = ONE24;
    for k in 0..SPANS {
        if k < parameters.spans as usize {
            m.weights[k + 1] = weight(m.interval_ns, m.min_ns[parameters.base as usize], parameters.span_rtts[k]);
        }
    }
    if parameters.slow > 0 {
        slow(parameters, state, &mut m, rtt_ns);
    }
    m
}

/// Clear what is known of the path after a long pause of the acknowledgements.
fn pause(parameters: &Parameters, state: &mut State, stats: &Statistics, m: &Measures) {
    if 20 * u64::from(stats.in_flight) > 21 * u64::from(stats.cwnd) {
        state.silent_at_ns = m.time_ns;
        state.silent = 1;
    }
    let since_ns = m.time_ns.saturating_sub(state.silent_at_ns);
    let own = parameters.learns > 0 && state.silent > 0 && since_ns <= OWN_PAUSE_RTTS * least(stats.srtt_ns, MOST_RTT);
    if !notices(parameters.gap_ns, parameters.learns > 0, &mut state.usual_gap, m.ack_gap_ns) || own {
        return;
    }
    for window in &mut state.leasts {
        window.buckets = [0; BUCKETS as usize];
    }
    for window in &mut state.mosts {
        window.buckets = [0; BUCKETS as usize];
    }
    state.before_ns = 0;
    state.cleared_at_ns = m.time_ns;
    state.cleared = 1;
    state.known = 0;
}

/// The extremes of all windows.
fn extremes(parameters: &Parameters, state: &mut State, m: &mut Measures, rtt_ns: u64) {
    if state.most_rate < m.rate {
        state.most_rate = m.rate;
    }
    for k in 0..LEASTS {
        if k < parameters.leasts as usize {
            let bucket_ns = parameters.least_bucket_ns[k];
            m.min_ns[k] = update_least(&mut state.leasts[k], bucket_ns, m.time_ns, rtt_ns);
        }
    }
    for k in 0..MOSTS {
        if k < parameters.mosts as usize {
            let fastest = update(&mut state.mosts[k], parameters.most_bucket_ns[k], m.time_ns, m.rate);
            m.max_rate[k] = if fastest > 0 { fastest } else { state.most_rate };
            m.log2_max[k] = log2(m.max_rate[k]);
        }
    }
}

/// The last known RTTs, and minimum RTTs where there is no sample.
fn rtts(parameters: &Parameters, state: &mut State, stats: &Statistics, m: &mut Measures, rtt_ns: u64) {
    let standing = parameters.standing as usize;
    let mut now = [0; 3];
    now[MEAN as usize] = least(stats.rtt_mean_ns, MOST_RTT);
    now[LEAST as usize] = rtt_ns;
    now[STANDING as usize] = if standing < LEASTS { m.min_ns[standing] } else { 0 };
    for k in 0..3 {
        if now[k] > 0 {
            state.rtts_ns[k] = now[k];
        } else if state.rtts_ns[k] == 0 {
            state.rtts_ns[k] = least(stats.srtt_ns, MOST_RTT);
        }
        m.log2_rtt[k] = log2(state.rtts_ns[k]);
    }
    for k in 0..LEASTS {
        if k < parameters.leasts as usize {
            if m.min_ns[k] > 0 {
                m.sampled |= 1 << k;
            } else {
                m.min_ns[k] = state.rtts_ns[parameters.usual_rtt as usize];
            }
            m.log2_min[k] = log2(m.min_ns[k]);
        }
    }
}

/// The jitter, and whether the RTT is above its average.
fn slow(parameters: &Parameters, state: &mut State, m: &mut Measures, rtt_ns: u64) {
    let base = parameters.base as usize;
    let weight = m.weights[parameters.slow as usize];
    if rtt_ns > 0 {
        if state.before_ns > 0 {
            let step = ratio(rtt_ns.abs_diff(state.before_ns), m.min_ns[base], MOST_JITTER) << 8;
            state.jitter += (weight * (step - state.jitter)) >> 24;
        }
        state.before_ns = rtt_ns;
    }
    let known = m.min_ns[base] > 0 && state.rtts_ns[MEAN as usize] > 0;
    let inflation = log_ratio(known, m.log2_rtt[MEAN as usize], m.log2_min[base]) << 8;
    let average = if state.known > 0 { state.inflation } else { inflation };
    m.rising = inflation > average;
    state.inflation = average + ((weight * (inflation - average)) >> 24);
}

/// Statistics `rtt_mean_ns` and `rtt_rise_ns` from sums over the RTT samples of an interval: their number, their sum,
/// and the sum of each sample times its index from 0 on, in us. At most 2^17 samples, of at most 69 s.
pub fn of_samples(samples: u32, sum_us: u64, placed_us: u64) -> (u64, i64) {
    if samples == 0 {
        return (0, 0);
    }
    let n = u64::from(samples);
    let mean_ns = sum_us * 1_000 / n;
    if samples < 2 {
        return (mean_ns, 0);
    }
    // Half of n times the slope of the line fitted by least squares: 6 (placed - (n - 1) / 2 sum) / (n^2 - 1).
    let (placed, centre) = (2 * placed_us, (n - 1) * sum_us);
    let twice = placed.abs_diff(centre);
    let rise_ns = if twice < 1 << 51 { 3_000 * twice / (n * n - 1) } else { 3_000 * (twice / (n * n - 1)) };
    (mean_ns, if placed > centre { rise_ns as i64 } else { -(rise_ns as i64) })
}
