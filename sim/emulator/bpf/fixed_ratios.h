/* The observation `ratios`, line by line as in sim/core/src/observe/fixed/ratios.rs, whose comments hold here too. */
#ifndef FIXED_RATIOS_H
#define FIXED_RATIOS_H

#include "fixed.h"
#include "fixed_policy.h"

static const __s8 LOW[FEATURES] = { 0, 0, 0, -3, -3, -3, -3, 0, 0, 0, 0, -4, -4, -3, -3, -3, 0, 0 };
static const __s8 HIGH[FEATURES] = { 3, 3, 3, 3, 3, 0, 0, 1, 1, 3, 3, 4, 4, 3, 3, 3, 1, 3 };

#define LOSS 4
#define LOSS_SLOW 5
#define MOST_TIME (1ULL << 60)
#define MOST_INTERVAL ((1ULL << 39) - 1)
#define MOST_RTT ((1ULL << 36) - 1)
#define MOST_BYTES ((1ULL << 39) - 1)
#define MOST_RATE ((1ULL << 34) - 1)
#define MOST_AVERAGED (60LL << 24)
#define NOTHING (-(3LL << 24))
#define SECOND 1000000000ULL
#define TIMES_USUAL 3

GLOBAL __u64 update(struct window *window, __u64 bucket_ns, __u64 time_ns, __u64 value)
{
	__u64 now = bucket_ns ? time_ns / bucket_ns : 0, newest, most = 0;
	int k;

	if (!window)
		return 0;
	for (k = 1; k <= BUCKETS; k++) {
		if (window->now + k <= now)
			window->buckets[below((window->now + k) % BUCKETS, BUCKETS)] = 0;
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

static __always_inline __u64 update_least(struct window *window, __u64 bucket_ns, __u64 time_ns, __u64 value)
{
	__u64 most = update(window, bucket_ns, time_ns, value ? MOST_RTT + 1 - value : 0);

	return most ? MOST_RTT + 1 - most : 0;
}

static __always_inline void forget(struct window *window)
{
	for (int k = 0; k < BUCKETS; k++)
		window->buckets[k] = 0;
}

static __always_inline int notices(__u64 parameter_gap_ns, __u64 *usual_gap, __u64 ack_gap_ns)
{
	__u64 usual_ns = TIMES_USUAL * *usual_gap >> 4;
	__u64 least_ns = usual_ns > parameter_gap_ns ? usual_ns : parameter_gap_ns;
	int gap = parameter_gap_ns && ack_gap_ns >= least_ns;

	if (!gap)
		*usual_gap = *usual_gap - (*usual_gap >> 4) + least(ack_gap_ns, least_ns);
	return gap;
}

static __always_inline __s64 weight(__u64 interval_ns, __u64 rtt_ns, __u32 rtts)
{
	__u64 span_ns = rtt_ns * rtts >> 16;

	return span_ns ? ONE24 - (__s64)fixed_exp(-ratio(interval_ns, span_ns, 40LL << 24)) : ONE24;
}

static __always_inline __s64 log_ratio(int positive, __s64 log2_a, __s64 log2_b)
{
	return positive ? natural(log2_a - log2_b) : 0;
}

GLOBAL int observe(struct state *state, struct statistics *stats, struct scratch *scratch)
{
	const struct parameters *parameters = &the_program()->parameters;
	__u64 time_ns, interval_ns, ack_gap_ns, rtt_least_ns, rate, mss, recent, short_ns, fastest, max_rate, rtt_ns, min_rtt_ns;
	__s64 log2_rtt, log2_min_rtt, log2_max_rate, log2_mss, log2_second, log2_pacing, log2_bdp, log2_cwnd;
	__u64 sent, acked, lost, rise_ns, age_ns, bytes;
	__s64 inflation, rise, delivered, of_max, loss, queue, fast, slow, slowest, changed;
	int pacing, bdp, k;
	__s64 *features;

	if (!state || !stats || !scratch)
		return 0;
	features = scratch->features;
	time_ns = least(stats->time_ns, MOST_TIME);
	interval_ns = least(stats->interval_ns, MOST_INTERVAL);
	ack_gap_ns = least(stats->ack_gap_ns, MOST_RTT);
	rtt_least_ns = least(stats->rtt_least_ns, MOST_RTT);
	rate = least(stats->delivery_rate, MOST_RATE);
	mss = within(stats->mss, 1, 0xffff);

	if (notices(parameters->gap_ns, &state->usual_gap, ack_gap_ns)) {
		forget(&state->min_rtt);
		forget(&state->short_rtt);
		forget(&state->max_rate);
		state->cleared_at_ns = time_ns;
		state->cleared = 1;
		state->known = 0;
	}
	recent = update_least(&state->min_rtt, parameters->min_rtt_bucket_ns, time_ns, rtt_least_ns);
	short_ns = update_least(&state->short_rtt, parameters->short_rtt_bucket_ns, time_ns, rtt_least_ns);
	fastest = update(&state->max_rate, parameters->max_rate_bucket_ns, time_ns, rate);
	if (state->most_rate < rate)
		state->most_rate = rate;
	max_rate = fastest ? fastest : state->most_rate;
	rtt_ns = parameters->least_rtt ? rtt_least_ns : least(stats->rtt_mean_ns, MOST_RTT);
	if (rtt_ns)
		state->rtt_ns = rtt_ns;
	else if (!state->rtt_ns)
		state->rtt_ns = least(stats->srtt_ns, MOST_RTT);
	rtt_ns = state->rtt_ns;
	min_rtt_ns = recent ? recent : rtt_ns;

	log2_rtt = fixed_log2(rtt_ns);
	log2_min_rtt = fixed_log2(min_rtt_ns);
	log2_max_rate = fixed_log2(max_rate);
	log2_mss = fixed_log2(mss);
	log2_second = log2_of(SECOND);
	if (stats->pacing_rate) {
		pacing = 1;
		log2_pacing = fixed_log2(least(stats->pacing_rate, MOST_RATE));
	} else {
		sent = least(stats->sent_bytes, MOST_BYTES);
		pacing = sent && interval_ns;
		log2_pacing = fixed_log2(sent) + log2_second - fixed_log2(interval_ns);
	}
	acked = least(stats->acked_bytes, MOST_BYTES);
	lost = least(stats->lost * mss, MOST_BYTES);

	inflation = log_ratio(min_rtt_ns > 0, log2_rtt, log2_min_rtt);
	rise_ns = least(stats->rtt_rise_ns < 0 ? -(__u64)stats->rtt_rise_ns : stats->rtt_rise_ns, MOST_RTT / 16);
	rise = min_rtt_ns ? ratio(10 * rise_ns, min_rtt_ns, MOST_AVERAGED) : 0;
	if (stats->rtt_rise_ns < 0)
		rise = -rise;
	delivered = NOTHING;
	if (acked && interval_ns)
		delivered = log_ratio(pacing, fixed_log2(acked) + log2_second - fixed_log2(interval_ns), log2_pacing);
	of_max = rate ? log_ratio(1, fixed_log2(rate), log2_max_rate) : NOTHING;
	loss = lost ? ratio(lost, acked + lost, ONE24) : 0;
	queue = 0;
	if (parameters->own_queue && rate && rtt_ns > min_rtt_ns) {
		bytes = ((rtt_ns - min_rtt_ns) >> 6) * rate / (SECOND >> 6);
		queue = natural(fixed_log2((1 << 16) + (bytes << 16) / mss) - (16LL << 24)) >> 2;
	}

	fast = weight(interval_ns, min_rtt_ns, parameters->fast_rtts);
	slow = weight(interval_ns, min_rtt_ns, parameters->slow_rtts);
	slowest = weight(interval_ns, min_rtt_ns, 4 * parameters->slow_rtts);
#define AVERAGE(k, value, weight)								\
	do {											\
		__s64 x = within(value, -MOST_AVERAGED, MOST_AVERAGED) << 8;			\
		__s64 average = state->averages[k];						\
		int averaged = state->known || (k) == LOSS || (k) == LOSS_SLOW;			\
		state->averages[k] = averaged ? average + (((weight) * (x - average)) >> 24) : x;	\
	} while (0)
	AVERAGE(0, inflation, fast);
	AVERAGE(1, rise, fast);
	AVERAGE(2, delivered, fast);
	AVERAGE(3, of_max, slow);
	AVERAGE(LOSS, loss, fast);
	AVERAGE(LOSS_SLOW, loss, slowest);
	AVERAGE(6, queue, fast);
#undef AVERAGE
	state->known = 1;

	bdp = max_rate && min_rtt_ns;
	log2_bdp = log2_max_rate + log2_min_rtt - log2_second - log2_mss;
	log2_cwnd = fixed_log2(stats->cwnd);
	changed = log_ratio(stats->cwnd && state->cwnd, log2_cwnd, fixed_log2(state->cwnd));
	state->cwnd = stats->cwnd;
	age_ns = time_ns > state->cleared_at_ns ? time_ns - state->cleared_at_ns : 0;
	features[0] = inflation;
	features[1] = state->averages[0] >> 8;
	features[2] = log_ratio(short_ns && rtt_ns, log2_rtt, fixed_log2(short_ns));
	features[3] = state->averages[1] >> 8;
	features[4] = state->averages[2] >> 8;
	features[5] = of_max;
	features[6] = state->averages[3] >> 8;
	features[7] = root(state->averages[LOSS]);
	features[8] = root(state->averages[LOSS_SLOW]);
	features[9] = queue;
	features[10] = state->averages[6] >> 8;
	features[11] = log_ratio(pacing, log2_pacing, log2_of(1250000)) >> 1;
	features[12] = log_ratio(min_rtt_ns > 0, log2_min_rtt, log2_of(SECOND / 20));
	features[13] = log_ratio(bdp && stats->in_flight, fixed_log2(stats->in_flight), log2_bdp);
	features[14] = log_ratio(bdp && stats->cwnd, log2_cwnd, log2_bdp);
	features[15] = 4 * changed;
	features[16] = state->cleared ? ratio(SECOND, SECOND + age_ns, ONE24) : 0;
	features[17] = min_rtt_ns ? ratio(ack_gap_ns, min_rtt_ns, MOST_AVERAGED) : 0;
	for (k = 0; k < FEATURES; k++)
		scratch->decision.observation[k] =
			within(features[k] >> 4, (__s64)LOW[k] << 20, (__s64)HIGH[k] << 20);
	return 1;
}

/* Statistics rtt_mean_ns and rtt_rise_ns from sums over the RTT samples of an interval. */
static __always_inline void of_samples(__u32 samples, __u64 sum_us, __u64 placed_us, struct statistics *stats)
{
	__u64 n = samples, placed, centre, twice, rise_ns;

	stats->rtt_mean_ns = samples ? sum_us * 1000 / n : 0;
	stats->rtt_rise_ns = 0;
	if (samples < 2)
		return;
	placed = 2 * placed_us;
	centre = (n - 1) * sum_us;
	twice = placed > centre ? placed - centre : centre - placed;
	rise_ns = twice < 1ULL << 51 ? 3000 * twice / (n * n - 1) : 3000 * (twice / (n * n - 1));
	stats->rtt_rise_ns = placed > centre ? (__s64)rise_ns : -(__s64)rise_ns;
}

#endif
