//! The observation `ratios` ([`crate::observe::ratios`]) in fixed point: the same formulas, operation by operation.

use crate::observe::ratios::{LOSS, LOSS_SLOW};

use super::arithmetic::{ONE24, exp, log2, natural, ratio, root, within};
use super::{FEATURES, Parameters, State, Statistics, Window};

/// Bounds of the features, whole numbers.
const LOW: [i8; FEATURES] = [0, 0, 0, -3, -3, -3, -3, 0, 0, 0, 0, -4, -4, -3, -3, -3, 0, 0];
const HIGH: [i8; FEATURES] = [3, 3, 3, 3, 3, 0, 0, 1, 1, 3, 3, 4, 4, 3, 3, 3, 1, 3];

const BUCKETS: u64 = 10;
/// Number of averages: inflation, rise, delivered, share of the maximum rate, loss, loss (slow), queue.
pub const AVERAGES: usize = 7;

/// Larger statistics are taken for these, so that nothing overflows: a moment, 9 minutes, 69 seconds, 0.5 TB, 17 GB/s.
const MOST_TIME: u64 = 1 << 60;
const MOST_INTERVAL: u64 = (1 << 39) - 1;
const MOST_RTT: u64 = (1 << 36) - 1;
const MOST_BYTES: u64 = (1 << 39) - 1;
const MOST_RATE: u64 = (1 << 34) - 1;
/// Bound of a value before it is averaged, in Q24.
const MOST_VALUE: i64 = 60 << 24;
const NOTHING: i64 = -(3 << 24);
/// A second in ns.
const SECOND: u64 = 1_000_000_000;
const TIMES_USUAL: u64 = 3;

fn least(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

/// Add a value (0: none) at a time; return the largest of the window, 0 if there is none.
fn update(window: &mut Window, bucket_ns: u64, time_ns: u64, value: u64) -> u64 {
    let now = if bucket_ns > 0 { time_ns / bucket_ns } else { 0 };
    for passed in 1..=BUCKETS {
        if window.now + passed <= now {
            window.buckets[((window.now + passed) % BUCKETS) as usize] = 0;
        }
    }
    window.now = now;
    let newest = (now % BUCKETS) as usize;
    if window.buckets[newest] < value {
        window.buckets[newest] = value;
    }
    let mut most = 0;
    for bucket in window.buckets {
        if most < bucket {
            most = bucket;
        }
    }
    most
}

/// The same for the smallest value: the largest of MOST_RTT + 1 - value.
fn update_least(window: &mut Window, bucket_ns: u64, time_ns: u64, value: u64) -> u64 {
    let most = update(window, bucket_ns, time_ns, if value > 0 { MOST_RTT + 1 - value } else { 0 });
    if most > 0 { MOST_RTT + 1 - most } else { 0 }
}

fn forget(window: &mut Window) {
    window.buckets = [0; BUCKETS as usize];
}

/// Whether a pause of the acknowledgements has ended, or reached its length, that is much longer than usual.
fn notices(parameters: &Parameters, state: &mut State, ack_gap_ns: u64) -> bool {
    let usual_ns = (TIMES_USUAL * state.usual_gap) >> 4;
    let least_ns = if usual_ns > parameters.gap_ns { usual_ns } else { parameters.gap_ns };
    let gap = parameters.gap_ns > 0 && ack_gap_ns >= least_ns;
    if !gap {
        state.usual_gap = state.usual_gap - (state.usual_gap >> 4) + least(ack_gap_ns, least_ns);
    }
    gap
}

/// The weight of an interval in an average over so many (Q16) RTTs, in Q24.
fn weight(interval_ns: u64, rtt_ns: u64, rtts: u32) -> i64 {
    let span_ns = (rtt_ns * u64::from(rtts)) >> 16;
    if span_ns == 0 { ONE24 } else { ONE24 - exp(-ratio(interval_ns, span_ns, 40 << 24)) as i64 }
}

/// ln(a / b) in Q24 for numbers that have these binary logarithms; 0 unless both are positive.
fn log_ratio(positive: bool, log2_a: i64, log2_b: i64) -> i64 {
    if positive { natural(log2_a - log2_b) } else { 0 }
}

/// Take in an interval; return the features in Q20.
pub fn observe(parameters: &Parameters, state: &mut State, stats: &Statistics) -> [i32; FEATURES] {
    let time_ns = least(stats.time_ns, MOST_TIME);
    let interval_ns = least(stats.interval_ns, MOST_INTERVAL);
    let ack_gap_ns = least(stats.ack_gap_ns, MOST_RTT);
    let rtt_least_ns = least(stats.rtt_least_ns, MOST_RTT);
    let rate = least(stats.delivery_rate, MOST_RATE);
    let mss = within(i64::from(stats.mss), 1, 0xffff) as u64;

    if notices(parameters, state, ack_gap_ns) {
        forget(&mut state.min_rtt);
        forget(&mut state.short_rtt);
        forget(&mut state.max_rate);
        state.cleared_at_ns = time_ns;
        state.cleared = 1;
        state.known = 0;
    }
    let recent = update_least(&mut state.min_rtt, parameters.min_rtt_bucket_ns, time_ns, rtt_least_ns);
    let short = update_least(&mut state.short_rtt, parameters.short_rtt_bucket_ns, time_ns, rtt_least_ns);
    let fastest = update(&mut state.max_rate, parameters.max_rate_bucket_ns, time_ns, rate);
    if state.most_rate < rate {
        state.most_rate = rate;
    }
    let max_rate = if fastest > 0 { fastest } else { state.most_rate };
    let rtt_ns = if parameters.least_rtt > 0 { rtt_least_ns } else { least(stats.rtt_mean_ns, MOST_RTT) };
    if rtt_ns > 0 {
        state.rtt_ns = rtt_ns;
    } else if state.rtt_ns == 0 {
        state.rtt_ns = least(stats.srtt_ns, MOST_RTT);
    }
    let rtt_ns = state.rtt_ns;
    let min_rtt_ns = if recent > 0 { recent } else { rtt_ns };

    let log2_rtt = log2(rtt_ns);
    let log2_min_rtt = log2(min_rtt_ns);
    let log2_max_rate = log2(max_rate);
    let log2_mss = log2(mss);
    let log2_second = log2(SECOND);
    let (pacing, log2_pacing) = if stats.pacing_rate > 0 {
        (true, log2(least(stats.pacing_rate, MOST_RATE)))
    } else {
        let sent = least(stats.sent_bytes, MOST_BYTES);
        (sent > 0 && interval_ns > 0, log2(sent) + log2_second - log2(interval_ns))
    };
    let acked = least(stats.acked_bytes, MOST_BYTES);
    let lost = least(u64::from(stats.lost) * mss, MOST_BYTES);

    let inflation = log_ratio(min_rtt_ns > 0, log2_rtt, log2_min_rtt);
    let rise_ns = least(stats.rtt_rise_ns.unsigned_abs(), MOST_RTT / 16);
    let rise = if min_rtt_ns > 0 { ratio(10 * rise_ns, min_rtt_ns, MOST_VALUE) } else { 0 };
    let rise = if stats.rtt_rise_ns < 0 { -rise } else { rise };
    let delivered = if acked > 0 && interval_ns > 0 {
        log_ratio(pacing, log2(acked) + log2_second - log2(interval_ns), log2_pacing)
    } else {
        NOTHING
    };
    let of_max = if rate > 0 { log_ratio(true, log2(rate), log2_max_rate) } else { NOTHING };
    let loss = if lost > 0 { ratio(lost, acked + lost, ONE24) } else { 0 };
    let queue = if parameters.own_queue > 0 && rate > 0 && rtt_ns > min_rtt_ns {
        let bytes = ((rtt_ns - min_rtt_ns) >> 6) * rate / (SECOND >> 6);
        natural(log2((1 << 16) + (bytes << 16) / mss) - (16 << 24)) >> 2
    } else {
        0
    };

    let fast = weight(interval_ns, min_rtt_ns, parameters.fast_rtts);
    let slow = weight(interval_ns, min_rtt_ns, parameters.slow_rtts);
    let slowest = weight(interval_ns, min_rtt_ns, 4 * parameters.slow_rtts);
    let now = [inflation, rise, delivered, of_max, loss, loss, queue];
    let weights = [fast, fast, fast, slow, fast, slowest, fast];
    for k in 0..AVERAGES {
        let x = within(now[k], -MOST_VALUE, MOST_VALUE) << 8; // Q32
        let average = state.averages[k];
        let averaged = state.known > 0 || k == LOSS || k == LOSS_SLOW;
        state.averages[k] = if averaged { average + ((weights[k] * (x - average)) >> 24) } else { x };
    }
    state.known = 1;
    let average = state.averages;

    let bdp = max_rate > 0 && min_rtt_ns > 0;
    let log2_bdp = log2_max_rate + log2_min_rtt - log2_second - log2_mss;
    let log2_cwnd = log2(u64::from(stats.cwnd));
    let changed = log_ratio(stats.cwnd > 0 && state.cwnd > 0, log2_cwnd, log2(u64::from(state.cwnd)));
    state.cwnd = stats.cwnd;
    let age_ns = time_ns.saturating_sub(state.cleared_at_ns);
    let features = [
        inflation,
        average[0] >> 8,
        log_ratio(short > 0 && rtt_ns > 0, log2_rtt, log2(short)),
        average[1] >> 8,
        average[2] >> 8,
        of_max,
        average[3] >> 8,
        root(average[LOSS]),
        root(average[LOSS_SLOW]),
        queue,
        average[6] >> 8,
        log_ratio(pacing, log2_pacing, log2(1_250_000)) >> 1,
        log_ratio(min_rtt_ns > 0, log2_min_rtt, log2(SECOND / 20)),
        log_ratio(bdp && stats.in_flight > 0, log2(u64::from(stats.in_flight)), log2_bdp),
        log_ratio(bdp && stats.cwnd > 0, log2_cwnd, log2_bdp),
        4 * changed,
        if state.cleared > 0 { ratio(SECOND, SECOND + age_ns, ONE24) } else { 0 },
        if min_rtt_ns > 0 { ratio(ack_gap_ns, min_rtt_ns, MOST_VALUE) } else { 0 },
    ];
    let mut out = [0; FEATURES];
    for k in 0..FEATURES {
        out[k] = within(features[k] >> 4, i64::from(LOW[k]) << 20, i64::from(HIGH[k]) << 20) as i32;
    }
    out
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
