/* The features of a list (sim/core/src/observe/features) in fixed point. The observation `ratios` is a list, too. */
#ifndef FIXED_FEATURES_H
#define FIXED_FEATURES_H

#include "fixed_occupancy.h"

/* Which losses count: all, or those while the RTT is above or below its average. */
#define ALWAYS 0
#define RISING 1
#define FALLING 2

/* Kinds of features. */
#define NOTHING 0
#define INFLATION 1
#define OWN_QUEUE 2
#define RTT_RISE 3
#define DELIVERED 4
#define RATE_SHARE 5
#define LOSS 6
#define PACING_RATE 7
#define MIN_RTT 8
#define IN_FLIGHT 9
#define WINDOW 10
#define WINDOW_CHANGE 11
#define CLEARED 12
#define SILENCE 13
#define JITTER 14
#define RTT_SPREAD 15
#define MIN_RTT_RATIO 16
#define MAX_RATE_RATIO 17
#define DELAY_PREFERENCE 18
#define LONG_PATH 19
#define QUEUE_DELAY 20

/* The logarithm that stands for a rate of 0. */
#define LOWEST (-(3LL << 24))
/* The longest queue of a contest, 0.3, Q24; and 1 over 0.06, from which on it counts in full, Q16. */
#define MOST_CONTESTED 5033165
#define PER_CONTEST 1092267
/* 10 Mbit/s in bytes per second. */
#define TEN_MBPS 1250000

/* The minimum RTT and so many jitters more; 0 without a sample. */
static __always_inline __u64 floor_ns(const struct feature *feature, struct state *state, struct measures *m)
{
	__u64 base = the_program()->parameters.base & (LEASTS - 1), jitter_ns;
	__u32 min = feature->min & (LEASTS - 1);

	if (!(m->sampled >> min & 1))
		return 0;
	jitter_ns = ((__u64)(state->jitter >> 8) * m->min_ns[base]) >> 24;
	return m->min_ns[min] + (jitter_ns * feature->jitters >> 16);
}

static __always_inline __s64 inflation(const struct feature *feature, struct state *state, struct measures *m)
{
	__u64 floor = floor_ns(feature, state, m);
	__u32 rtt = below(feature->rtt, RTTS);

	return log_ratio(floor && state->rtts_ns[rtt], m->log2_rtt[rtt],
			 feature->jitters ? fixed_log2(floor) : m->log2_min[feature->min & (LEASTS - 1)]);
}

static __always_inline __s64 own_queue(const struct feature *feature, struct state *state, struct measures *m)
{
	__u64 floor = floor_ns(feature, state, m), rtt_ns = state->rtts_ns[below(feature->rtt, RTTS)], bytes;

	if (!floor || !m->rate || rtt_ns <= floor)
		return 0;
	bytes = ((rtt_ns - floor) >> 6) * m->rate / (SECOND >> 6);
	return natural(fixed_log2((1 << 16) + (bytes << 16) / m->mss) - (16LL << 24)) >> 2;
}

static __always_inline __s64 queue_delay(const struct feature *feature, struct state *state, struct measures *m)
{
	__u64 floor = floor_ns(feature, state, m), rtt_ns = state->rtts_ns[below(feature->rtt, RTTS)];

	if (!floor || rtt_ns <= floor)
		return 0;
	return natural(fixed_log2(SECOND / 1000 + rtt_ns - floor) - log2_of(SECOND / 1000)) >> 2;
}

static __always_inline __s64 rtt_rise(struct statistics *stats, __u64 min_ns)
{
	__s64 rise_ns = stats->rtt_rise_ns, rise;

	rise = ratio(10 * least(rise_ns < 0 ? -(__u64)rise_ns : rise_ns, MOST_RTT / 16), min_ns, MOST_AVERAGED);
	return rise_ns < 0 ? -rise : rise;
}

/* The queueing delay over the minimum RTT and 50 ms, times the square of the share of others in the queue. */
static __always_inline __s64 contest(__u64 rtt_ns, __u64 min_ns, __s64 own)
{
	__s64 others = ONE24 - own;

	if (rtt_ns <= min_ns)
		return 0;
	return (((ratio(rtt_ns - min_ns, min_ns + SECOND / 20, MOST_CONTESTED) * others) >> 24) * others) >> 24;
}

/* From the usual preference, the upper bound, to the contested one, the lower bound, at an average of 0.06; Q20. */
static __always_inline __s64 preference(const struct feature *feature, __s64 average)
{
	average = within((average * PER_CONTEST) >> 16, 0, ONE24);
	return feature->high - ((((__s64)feature->high - feature->low) * average) >> 24);
}

/* The value of a feature in Q24 before it is averaged. */
static __always_inline __s64 value(const struct feature *feature, struct state *state, struct statistics *stats,
				   struct measures *m)
{
	__u32 min = feature->min & (LEASTS - 1), max = feature->max & (MOSTS - 1);
	__u32 longer = feature->longer & (LEASTS - 1), most = feature->longer & (MOSTS - 1);
	__u64 min_ns = m->min_ns[min];
	__s64 log2_min = m->log2_min[min], log2_bdp = m->log2_max[max] + log2_min - log2_of(SECOND) - m->log2_mss;
	int bdp = m->max_rate[max] && min_ns;

	switch (feature->kind) {
	case INFLATION:
		return inflation(feature, state, m);
	case OWN_QUEUE:
		return own_queue(feature, state, m);
	case QUEUE_DELAY:
		return queue_delay(feature, state, m);
	case RTT_RISE:
		return min_ns ? rtt_rise(stats, min_ns) : 0;
	case DELIVERED:
		if (!m->acked || !m->interval_ns)
			return LOWEST;
		return log_ratio(m->pacing, fixed_log2(m->acked) + log2_of(SECOND) - fixed_log2(m->interval_ns),
				 m->log2_pacing);
	case RATE_SHARE:
		return m->rate ? log_ratio(1, m->log2_rate, m->log2_max[max]) : LOWEST;
	case LOSS:
		return m->lost ? ratio(m->lost, m->acked + m->lost, ONE24) : 0;
	case PACING_RATE:
		return log_ratio(m->pacing, m->log2_pacing, log2_of(TEN_MBPS)) >> 1;
	case MIN_RTT:
		return log_ratio(min_ns > 0, log2_min, log2_of(SECOND / 20));
	case IN_FLIGHT:
		return log_ratio(bdp && stats->in_flight, fixed_log2(stats->in_flight), log2_bdp);
	case WINDOW:
		return log_ratio(bdp && stats->cwnd, m->log2_cwnd, log2_bdp);
	case WINDOW_CHANGE:
		return 4 * log_ratio(stats->cwnd && state->cwnd, m->log2_cwnd, fixed_log2(state->cwnd));
	case CLEARED:
		if (!state->cleared)
			return 0;
		return ratio(SECOND, SECOND + (m->time_ns > state->cleared_at_ns ? m->time_ns - state->cleared_at_ns : 0),
			     ONE24);
	case SILENCE:
		return min_ns ? ratio(m->ack_gap_ns, min_ns, MOST_AVERAGED) : 0;
	case JITTER:
		return natural(fixed_log2(ONE24 + (state->jitter >> 8)) - (24LL << 24));
	case RTT_SPREAD:
		return log_ratio(state->rtts_ns[MEAN] && state->rtts_ns[LEAST], m->log2_rtt[MEAN], m->log2_rtt[LEAST]);
	case MIN_RTT_RATIO:
		return log_ratio(min_ns && m->min_ns[longer], log2_min, m->log2_min[longer]);
	case MAX_RATE_RATIO:
		return log_ratio(m->max_rate[max] && m->max_rate[most], m->log2_max[max], m->log2_max[most]);
	case DELAY_PREFERENCE:
		return contest(state->rtts_ns[LEAST], min_ns, share_of(&state->occupancy));
	case LONG_PATH:
		return within(log_ratio(min_ns > 0, log2_min, feature->over), 0, MOST_AVERAGED);
	}
	return 0;
}

/* The average that a value brings, in Q24; a pause begins averages anew, but not those of losses and of a contest. */
static __always_inline __s64 averaged(const struct feature *feature, struct state *state, struct measures *m, __s64 value)
{
	__s64 x = within(value, -MOST_AVERAGED, MOST_AVERAGED) << 8, average, next;
	__u64 at = feature->average & (AVERAGES - 1);

	average = state->averages[at];
	next = average + ((m->weights[below(feature->span, SPANS + 1)] * (x - average)) >> 24);
	if (feature->kind == LOSS) {
		if (feature->when == ALWAYS || (feature->when == RISING) == m->rising)
			state->averages[at] = next;
		return root(state->averages[at]);
	}
	if (!feature->span)
		return value;
	average = state->known || feature->kind == DELAY_PREFERENCE ? next : x;
	state->averages[at] = average;
	return average >> 8;
}

/* A feature in Q20. */
GLOBAL __s64 seen(struct state *state, struct statistics *stats, struct scratch *scratch, __u32 k)
{
	const struct feature *feature = &the_program()->features[below(k, FEATURES)];
	struct measures *m;
	__s64 now;

	if (!state || !stats || !scratch)
		return 0;
	m = &scratch->measures;
	now = averaged(feature, state, m, value(feature, state, stats, m));
	return within(feature->kind == DELAY_PREFERENCE ? preference(feature, now) : now >> 4, feature->low, feature->high);
}

/* Take in an interval. */
GLOBAL int observe(struct state *state, struct statistics *stats, struct scratch *scratch)
{
	int k;

	if (!state || !stats || !scratch || !measure(state, stats, scratch))
		return 0;
	if (the_program()->parameters.occupies && !occupy(state, stats))
		return 0;
	for (k = 0; k < FEATURES; k++) {
		if (k >= the_program()->parameters.features)
			break;
		scratch->decision.observation[k] = seen(state, stats, scratch, k);
	}
	state->known = 1;
	state->cwnd = stats->cwnd;
	return 1;
}

#endif
