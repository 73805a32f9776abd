/* What the features of an interval are computed from (sim/core/src/observe/features), in fixed point. */
#ifndef FIXED_MEASURES_H
#define FIXED_MEASURES_H

#include "fixed.h"
#include "fixed_policy.h"

/* RTTs: mean and least of an interval, and the least of a quarter of a second. */
#define MEAN 0
#define LEAST 1
#define STANDING 2

/* Larger statistics are taken for these, so that nothing overflows: a moment, 9 minutes, 69 seconds, 0.5 TB, 34 Gbit/s. */
#define MOST_TIME (1ULL << 60)
#define MOST_INTERVAL ((1ULL << 39) - 1)
#define MOST_RTT ((1ULL << 36) - 1)
#define MOST_BYTES ((1ULL << 39) - 1)
#define MOST_RATE ((1ULL << 32) - 1)
/* Bound of a value before it is averaged, and of a step of the least RTT that counts as jitter, in minimum RTTs; Q24. */
#define MOST_AVERAGED (60LL << 24)
#define MOST_JITTER (4LL << 24)
#define SECOND 1000000000ULL
#define MICROSECOND 1000ULL
#define TIMES_USUAL 3
/* For so many smoothed RTTs after an interval in which it was silent, a pause is the sender's own. */
#define OWN_PAUSE_RTTS 2

/* Add a value (0: none) at a time; return the largest of the window, 0 if there is none. */
GLOBAL __u64 update(struct window *window, __u64 bucket_ns, __u64 time_ns, __u64 value)
{
	__u64 now = bucket_ns ? time_ns / bucket_ns : 0, newest, most = 0;
	int k;

	if (!window)
		return 0;
	if (window->now < now) {
		for (k = 1; k <= BUCKETS; k++) {
			if (window->now + k <= now)
				window->buckets[below((window->now + k) % BUCKETS, BUCKETS)] = 0;
		}
	}
	window->now = now;
	newest = below(now % BUCKETS, BUCKETS);
	if (window->buckets[newest] < value)
		window->buckets[newest] = value;
	for (k = 0; k < BUCKETS; k++) {
		if (most < window->buckets[k])
			most = window->buckets[k];
	}
	return most;
}

/* The same for the smallest RTT, a multiple of a microsecond below 2^36 ns: the largest of 2^27 us less it. */
static __always_inline __u64 update_least(struct window *window, __u64 bucket_ns, __u64 time_ns, __u64 rtt_ns)
{
	__u64 most = update(window, bucket_ns, time_ns, rtt_ns ? (1 << 27) - rtt_ns / MICROSECOND : 0);

	return most ? ((1 << 27) - most) * MICROSECOND : 0;
}

/* Whether a pause of the acknowledgements has ended, or reached its length, that is much longer than usual (kept in sixteenths
 * of a ns): at least `parameter_gap_ns` (0: never). `learns`: a pause that returns becomes usual. */
static __always_inline int notices(__u64 parameter_gap_ns, int learns, __u64 *usual_gap, __u64 ack_gap_ns)
{
	__u64 usual_ns = TIMES_USUAL * *usual_gap >> 4;
	__u64 least_ns = usual_ns > parameter_gap_ns ? usual_ns : parameter_gap_ns;
	int gap = parameter_gap_ns && ack_gap_ns >= least_ns;

	if (!gap || learns)
		*usual_gap = *usual_gap - (*usual_gap >> 4) + least(ack_gap_ns, least_ns);
	return gap;
}

/* The weight of an interval in an average over so many (Q16) RTTs, in Q24. */
static __always_inline __s64 weight(__u64 interval_ns, __u64 rtt_ns, __u32 rtts)
{
	__u64 span_ns = rtt_ns * rtts >> 16;

	return span_ns ? ONE24 - (__s64)fixed_exp(-ratio(interval_ns, span_ns, 40LL << 24)) : ONE24;
}

/* ln(a / b) in Q24 for numbers that have these binary logarithms; 0 unless both are positive. */
static __always_inline __s64 log_ratio(int positive, __s64 log2_a, __s64 log2_b)
{
	return positive ? natural(log2_a - log2_b) : 0;
}

/* Clear what is known of the path after a long pause of the acknowledgements. */
GLOBAL int pause(struct state *state, struct statistics *stats, struct scratch *scratch)
{
	const struct parameters *parameters = &the_program()->parameters;
	__u64 since_ns, time_ns;
	int own, i, k;

	if (!state || !stats || !scratch)
		return 0;
	time_ns = scratch->measures.time_ns;
	if (20 * (__u64)stats->in_flight > 21 * (__u64)stats->cwnd) {
		state->silent_at_ns = time_ns;
		state->silent = 1;
	}
	since_ns = time_ns > state->silent_at_ns ? time_ns - state->silent_at_ns : 0;
	own = parameters->learns && state->silent && since_ns <= OWN_PAUSE_RTTS * least(stats->srtt_ns, MOST_RTT);
	if (!notices(parameters->gap_ns, parameters->learns, &state->usual_gap, scratch->measures.ack_gap_ns) || own)
		return 1;
	for (i = 0; i < LEASTS; i++) {
		for (k = 0; k < BUCKETS; k++)
			state->leasts[i].buckets[k] = 0;
	}
	for (i = 0; i < MOSTS; i++) {
		for (k = 0; k < BUCKETS; k++)
			state->mosts[i].buckets[k] = 0;
	}
	state->before_ns = 0;
	state->cleared_at_ns = time_ns;
	state->cleared = 1;
	state->known = 0;
	return 1;
}

/* The extremes of all windows. */
GLOBAL int extremes(struct state *state, struct scratch *scratch)
{
	const struct parameters *parameters = &the_program()->parameters;
	struct measures *m;
	__u64 fastest;
	int k;

	if (!state || !scratch)
		return 0;
	m = &scratch->measures;
	if (state->most_rate < m->rate)
		state->most_rate = m->rate;
	for (k = 0; k < LEASTS; k++) {
		m->min_ns[k] = 0;
		if (k < parameters->leasts)
			m->min_ns[k] =
				update_least(&state->leasts[k], parameters->least_bucket_ns[k], m->time_ns, m->rtt_ns);
	}
	for (k = 0; k < MOSTS; k++) {
		m->max_rate[k] = 0;
		m->log2_max[k] = 0;
		if (k < parameters->mosts) {
			fastest = update(&state->mosts[k], parameters->most_bucket_ns[k], m->time_ns, m->rate);
			m->max_rate[k] = fastest ? fastest : state->most_rate;
			m->log2_max[k] = fixed_log2(m->max_rate[k]);
		}
	}
	return 1;
}

/* The last known RTTs, and minimum RTTs where there is no sample. */
GLOBAL int rtts(struct state *state, struct statistics *stats, struct scratch *scratch)
{
	const struct parameters *parameters = &the_program()->parameters;
	__u64 now[RTTS], usual;
	struct measures *m;
	int k;

	if (!state || !stats || !scratch)
		return 0;
	m = &scratch->measures;
	now[MEAN] = least(stats->rtt_mean_ns, MOST_RTT);
	now[LEAST] = m->rtt_ns;
	now[STANDING] = parameters->standing < LEASTS ? m->min_ns[parameters->standing & (LEASTS - 1)] : 0;
	for (k = 0; k < RTTS; k++) {
		if (now[k])
			state->rtts_ns[k] = now[k];
		else if (!state->rtts_ns[k])
			state->rtts_ns[k] = least(stats->srtt_ns, MOST_RTT);
		m->log2_rtt[k] = fixed_log2(state->rtts_ns[k]);
	}
	usual = state->rtts_ns[below(parameters->usual_rtt, RTTS)];
	m->sampled = 0;
	for (k = 0; k < LEASTS; k++) {
		m->log2_min[k] = 0;
		if (k < parameters->leasts) {
			if (m->min_ns[k])
				m->sampled |= 1U << k;
			else
				m->min_ns[k] = usual;
			m->log2_min[k] = fixed_log2(m->min_ns[k]);
		}
	}
	return 1;
}

/* The jitter, and whether the RTT is above its average. */
GLOBAL int slow(struct state *state, struct scratch *scratch)
{
	const struct parameters *parameters = &the_program()->parameters;
	__u64 base = parameters->base & (LEASTS - 1), min_ns;
	__s64 weight, step, inflation, average;
	struct measures *m;

	if (!state || !scratch)
		return 0;
	m = &scratch->measures;
	weight = m->weights[below(parameters->slow, SPANS + 1)];
	min_ns = m->min_ns[base];
	if (m->rtt_ns) {
		if (state->before_ns) {
			step = ratio(m->rtt_ns > state->before_ns ? m->rtt_ns - state->before_ns : state->before_ns - m->rtt_ns,
				     min_ns, MOST_JITTER) << 8;
			state->jitter += (weight * (step - state->jitter)) >> 24;
		}
		state->before_ns = m->rtt_ns;
	}
	inflation = log_ratio(min_ns && state->rtts_ns[MEAN], m->log2_rtt[MEAN], m->log2_min[base]) << 8;
	average = state->known ? state->inflation : inflation;
	m->rising = inflation > average;
	state->inflation = average + ((weight * (inflation - average)) >> 24);
	return 1;
}

/* Weights of the interval in averages. */
GLOBAL int weigh(struct scratch *scratch)
{
	const struct parameters *parameters = &the_program()->parameters;
	struct measures *m;
	int k;

	if (!scratch)
		return 0;
	m = &scratch->measures;
	m->weights[0] = ONE24;
	for (k = 0; k < SPANS; k++) {
		m->weights[k + 1] = 0;
		if (k < parameters->spans)
			m->weights[k + 1] = weight(m->interval_ns, m->min_ns[parameters->base & (LEASTS - 1)],
						   parameters->span_rtts[k]);
	}
	return 1;
}

/* Take in an interval. */
GLOBAL int measure(struct state *state, struct statistics *stats, struct scratch *scratch)
{
	struct measures *m;
	__u64 sent;

	if (!state || !stats || !scratch)
		return 0;
	m = &scratch->measures;
	m->time_ns = least(stats->time_ns, MOST_TIME);
	m->interval_ns = least(stats->interval_ns, MOST_INTERVAL);
	m->ack_gap_ns = least(stats->ack_gap_ns, MOST_RTT);
	m->rate = least(stats->delivery_rate, MOST_RATE);
	m->mss = within(stats->mss, 1, 0xffff);
	m->acked = least(stats->acked_bytes, MOST_BYTES);
	m->lost = least(stats->lost * m->mss, MOST_BYTES);
	m->rtt_ns = least(stats->rtt_least_ns, MOST_RTT) / MICROSECOND * MICROSECOND;
	if (!pause(state, stats, scratch) || !extremes(state, scratch) || !rtts(state, stats, scratch))
		return 0;
	m->log2_mss = fixed_log2(m->mss);
	m->log2_rate = fixed_log2(m->rate);
	m->log2_cwnd = fixed_log2(stats->cwnd);
	if (stats->pacing_rate) {
		m->pacing = 1;
		m->log2_pacing = fixed_log2(least(stats->pacing_rate, MOST_RATE));
	} else {
		sent = least(stats->sent_bytes, MOST_BYTES);
		m->pacing = sent && m->interval_ns;
		m->log2_pacing = fixed_log2(sent) + log2_of(SECOND) - fixed_log2(m->interval_ns);
	}
	m->rising = 0;
	if (!weigh(scratch))
		return 0;
	return the_program()->parameters.slow ? slow(state, scratch) : 1;
}

/* Statistics rtt_mean_ns and rtt_rise_ns from sums over the RTT samples of an interval: their number, their sum, and the sum of
 * each sample times its index from 0 on, in us. At most 2^17 samples, of at most 69 s. */
static __always_inline void of_samples(__u32 samples, __u64 sum_us, __u64 placed_us, struct statistics *stats)
{
	__u64 n = samples, placed, centre, twice, rise_ns;

	stats->rtt_mean_ns = samples ? sum_us * 1000 / n : 0;
	stats->rtt_rise_ns = 0;
	if (samples < 2)
		return;
	/* Half of n times the slope of the line fitted by least squares: 6 (placed - (n - 1) / 2 sum) / (n^2 - 1). */
	placed = 2 * placed_us;
	centre = (n - 1) * sum_us;
	twice = placed > centre ? placed - centre : centre - placed;
	rise_ns = twice < 1ULL << 51 ? 3000 * twice / (n * n - 1) : 3000 * (twice / (n * n - 1));
	stats->rtt_rise_ns = placed > centre ? (__s64)rise_ns : -(__s64)rise_ns;
}

#endif
