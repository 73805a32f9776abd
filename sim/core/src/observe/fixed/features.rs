//! The features of a list ([`crate::observe::features`]) in fixed point. The observation `ratios` is a list, too.

use super::arithmetic::{ONE24, log2, natural, ratio, root, within};
use super::measures::{LEAST, MEAN, MOST_RTT, MOST_VALUE, Measures, SECOND, least, log_ratio, measure};
use super::{FEATURES, Feature, Program, State, Statistics};

/// Which losses count: all, or those while the RTT is above or below its average.
pub const ALWAYS: u32 = 0;
pub const RISING: u32 = 1;
pub const FALLING: u32 = 2;

/// Kinds of features.
pub const NOTHING: u32 = 0;
pub const INFLATION: u32 = 1;
pub const OWN_QUEUE: u32 = 2;
pub const RTT_RISE: u32 = 3;
pub const DELIVERED: u32 = 4;
pub const RATE_SHARE: u32 = 5;
pub const LOSS: u32 = 6;
pub const PACING_RATE: u32 = 7;
pub const MIN_RTT: u32 = 8;
pub const IN_FLIGHT: u32 = 9;
pub const WINDOW: u32 = 10;
pub const WINDOW_CHANGE: u32 = 11;
pub const CLEARED: u32 = 12;
pub const SILENCE: u32 = 13;
pub const JITTER: u32 = 14;
pub const RTT_SPREAD: u32 = 15;
pub const MIN_RTT_RATIO: u32 = 16;
pub const MAX_RATE_RATIO: u32 = 17;
pub const DELAY_PREFERENCE: u32 = 18;

/// The logarithm that stands for a rate of 0.
const LOWEST: i64 = -(3 << 24);
/// 10 Mbit/s in bytes per second.
const TEN_MBPS: u64 = 1_250_000;

/// Take in an interval; return the features in Q20.
pub fn observe(program: &Program, state: &mut State, stats: &Statistics) -> [i32; FEATURES] {
    let m = measure(&program.parameters, state, stats);
    if program.parameters.occupies > 0 {
        state.occupancy.update(stats);
    }
    let mut out = [0; FEATURES];
    for k in 0..FEATURES {
        if k < program.parameters.features as usize {
            let feature = &program.features[k];
            let now = value(feature, program.parameters.base, state, stats, &m);
            let average = averaged(feature, state, &m, now);
            let seen = if feature.kind == DELAY_PREFERENCE { preference(feature, average) } else { average >> 4 };
            out[k] = within(seen, i64::from(feature.low), i64::from(feature.high)) as i32;
        }
    }
    state.known = 1;
    state.cwnd = stats.cwnd;
    out
}

/// The value of a feature in Q24 before it is averaged.
fn value(feature: &Feature, base: u32, state: &State, stats: &Statistics, m: &Measures) -> i64 {
    let (min, max, long) = (feature.min as usize, feature.max as usize, feature.long as usize);
    let (min_ns, log2_min) = (m.min_ns[min], m.log2_min[min]);
    let bdp = m.max_rate[max] > 0 && min_ns > 0;
    let log2_bdp = m.log2_max[max] + log2_min - log2(SECOND) - m.log2_mss;
    match feature.kind {
        INFLATION => inflation(feature, base, state, m),
        OWN_QUEUE => own_queue(feature, base, state, m),
        RTT_RISE if min_ns > 0 => {
            let rise_ns = least(stats.rtt_rise_ns.unsigned_abs(), MOST_RTT / 16);
            let rise = ratio(10 * rise_ns, min_ns, MOST_VALUE);
            if stats.rtt_rise_ns < 0 { -rise } else { rise }
        }
        DELIVERED if m.acked > 0 && m.interval_ns > 0 => {
            log_ratio(m.pacing, log2(m.acked) + log2(SECOND) - log2(m.interval_ns), m.log2_pacing)
        }
        RATE_SHARE if m.rate > 0 => log_ratio(true, m.log2_rate, m.log2_max[max]),
        DELIVERED | RATE_SHARE => LOWEST,
        LOSS if m.lost > 0 => ratio(m.lost, m.acked + m.lost, ONE24),
        PACING_RATE => log_ratio(m.pacing, m.log2_pacing, log2(TEN_MBPS)) >> 1,
        MIN_RTT => log_ratio(min_ns > 0, log2_min, log2(SECOND / 20)),
        IN_FLIGHT => log_ratio(bdp && stats.in_flight > 0, log2(u64::from(stats.in_flight)), log2_bdp),
        WINDOW => log_ratio(bdp && stats.cwnd > 0, m.log2_cwnd, log2_bdp),
        WINDOW_CHANGE => 4 * log_ratio(stats.cwnd > 0 && state.cwnd > 0, m.log2_cwnd, log2(u64::from(state.cwnd))),
        CLEARED if state.cleared > 0 => ratio(SECOND, SECOND + m.time_ns.saturating_sub(state.cleared_at_ns), ONE24),
        SILENCE if min_ns > 0 => ratio(m.ack_gap_ns, min_ns, MOST_VALUE),
        JITTER => natural(log2((ONE24 + (state.jitter >> 8)) as u64) - (24 << 24)),
        RTT_SPREAD => {
            let known = state.rtts_ns[MEAN as usize] > 0 && state.rtts_ns[LEAST as usize] > 0;
            log_ratio(known, m.log2_rtt[MEAN as usize], m.log2_rtt[LEAST as usize])
        }
        MIN_RTT_RATIO => log_ratio(min_ns > 0 && m.min_ns[long] > 0, log2_min, m.log2_min[long]),
        MAX_RATE_RATIO => log_ratio(m.max_rate[max] > 0 && m.max_rate[long] > 0, m.log2_max[max], m.log2_max[long]),
        DELAY_PREFERENCE => contest(state.rtts_ns[LEAST as usize], min_ns, state.occupancy.share()),
        _ => 0,
    }
}

/// The queueing delay over the minimum RTT and 50 ms, times the square of the share of others in the queue, Q24.
fn contest(rtt_ns: u64, min_ns: u64, own: i64) -> i64 {
    if rtt_ns <= min_ns {
        return 0;
    }
    let (others, queue) = (ONE24 - own, ratio(rtt_ns - min_ns, min_ns + SECOND / 20, MOST_VALUE));
    (((queue * others) >> 24) * others) >> 24
}

/// From the usual preference, the upper bound, to the contested one, the lower bound, at an average of a tenth; Q20.
fn preference(feature: &Feature, average: i64) -> i64 {
    let (low, high) = (i64::from(feature.low), i64::from(feature.high));
    high - (((high - low) * within(10 * average, 0, ONE24)) >> 24)
}

/// The minimum RTT and so many jitters more; 0 without a sample.
fn floor_ns(feature: &Feature, base: u32, state: &State, m: &Measures) -> u64 {
    if m.sampled >> feature.min & 1 == 0 {
        return 0;
    }
    let jitter_ns = ((state.jitter >> 8) as u64 * m.min_ns[base as usize]) >> 24;
    m.min_ns[feature.min as usize] + ((jitter_ns * u64::from(feature.jitters)) >> 16)
}

fn inflation(feature: &Feature, base: u32, state: &State, m: &Measures) -> i64 {
    let floor_ns = floor_ns(feature, base, state, m);
    let log2_floor = if feature.jitters > 0 { log2(floor_ns) } else { m.log2_min[feature.min as usize] };
    log_ratio(floor_ns > 0 && state.rtts_ns[feature.rtt as usize] > 0, m.log2_rtt[feature.rtt as usize], log2_floor)
}

fn own_queue(feature: &Feature, base: u32, state: &State, m: &Measures) -> i64 {
    let floor_ns = floor_ns(feature, base, state, m);
    let rtt_ns = state.rtts_ns[feature.rtt as usize];
    if floor_ns == 0 || m.rate == 0 || rtt_ns <= floor_ns {
        return 0;
    }
    let bytes = ((rtt_ns - floor_ns) >> 6) * m.rate / (SECOND >> 6);
    natural(log2((1 << 16) + (bytes << 16) / m.mss) - (16 << 24)) >> 2
}

/// The average that a value brings, in Q24; a pause begins averages anew, but not those of losses and of a contest.
fn averaged(feature: &Feature, state: &mut State, m: &Measures, value: i64) -> i64 {
    let x = within(value, -MOST_VALUE, MOST_VALUE) << 8; // Q32
    let average = &mut state.averages[feature.average as usize];
    let next = *average + ((m.weights[feature.span as usize] * (x - *average)) >> 24);
    if feature.kind == LOSS {
        if feature.when == ALWAYS || (feature.when == RISING) == m.rising {
            *average = next;
        }
        return root(*average);
    }
    if feature.span == 0 {
        return value;
    }
    *average = if state.known > 0 || feature.kind == DELAY_PREFERENCE { next } else { x };
    *average >> 8
}
