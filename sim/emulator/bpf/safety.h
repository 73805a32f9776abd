/* The safety filter of a model card (sim/core/src/observe/safety_filter.rs) in fixed point. Windows are segments in Q16. */
#ifndef SAFETY_H
#define SAFETY_H

#include "fixed_measures.h"
#include "fixed_network.h"

/* Cubic's window, updated at every decision. */
struct cubic {
	__u64 cwnd;
	__u64 ssthresh;
	__u64 w_max;
	__u64 w_est;		/* estimate of Reno's window */
	__u64 epoch_ns;
	__u64 reduced_at_ns;
};

/* The safety filter of one flow; zeros at first. */
struct safety {
	struct window recent_rtt;
	struct window max_rate;
	__u64 path_rtt_ns;	/* smallest RTT since the last interruption, */
	__u64 least_rtt_ns;	/* and of the connection; 0: none */
	__u64 most_rate;	/* largest delivery rate of the connection */
	__u64 usual_gap;	/* usual longest pause of the acknowledgements, in sixteenths of a ns */
	__u64 strayed_at_ns;
	__s64 lost;		/* averages of the lost bytes of an interval, */
	__s64 known;		/* and of those whose fate became known; Q12 */
	struct cubic cubic;
	__u8 strayed;		/* the path is outside while the policy decides, or inside while Cubic does */
	__u8 taken_over;	/* Cubic decides */
	__u8 lost_before;	/* anything was ever lost */
	__u8 reduced;		/* Cubic has reduced its window, */
	__u8 epoch;		/* and has begun an epoch */
	__u8 unused[3];
};

#define SAFETY_BUCKET_NS SECOND
#define SAFETY_LOSS_NS (3 * SECOND)
/* More bytes in an interval are taken for these. */
#define MOST_KNOWN ((1ULL << 26) - 1)
#define SAFETY_GAP_NS 30000000ULL
#define FIRST_WINDOW (10ULL << 16)
#define CUBIC_LEAST (2ULL << 16)
#define MOST_WINDOW (CWND_MAX << 16)
#define PATIENCE_RTTS 4

/* The cube root of a number in Q16, in Q18. The number that is subtracted is a third of 16 in Q24. */
static __always_inline __s64 cube_root(__u64 x)
{
	return x ? (__s64)(fixed_exp2((__s64)((__u64)fixed_log2(x) / 3) - 89478485) >> 6) : 0;
}

/* Congestion avoidance. */
static __always_inline void cubic_grow(struct safety *safety, __u64 now_ns, __u64 rtt_ns, __u64 acked)
{
	struct cubic *cubic = &safety->cubic;
	__u64 elapsed_ns, rounds;
	__s64 k, x, cube, target;

	if (!safety->epoch) {
		safety->epoch = 1;
		cubic->epoch_ns = now_ns;
		cubic->w_est = cubic->cwnd;
		if (cubic->w_max < cubic->cwnd)
			cubic->w_max = cubic->cwnd;
	}
	/* Longer than any K, the time of growth back to the last maximum. */
	elapsed_ns = least(now_ns > cubic->epoch_ns ? now_ns - cubic->epoch_ns : 0, 1ULL << 38) + rtt_ns;
	k = cube_root(cubic->w_max > cubic->ssthresh ? (cubic->w_max - cubic->ssthresh) * 5 / 2 : 0);
	x = within((__s64)((elapsed_ns << 18) / SECOND) - k, -(1 << 26), 1 << 26);
	cube = (((x * x) >> 18) * x) >> 18;
	/* 0.4 in Q18. */
	target = within(((cube * 104858) >> 20) + (__s64)cubic->w_max, cubic->cwnd, cubic->cwnd * 3 / 2);
	rounds = ratio(acked, cubic->cwnd, 1LL << 40);
	cubic->w_est += (cubic->w_est < cubic->w_max ? rounds * 9 / 17 : rounds) >> 8;
	cubic->w_est = least(cubic->w_est, MOST_WINDOW);
	cubic->cwnd += (((__u64)target - cubic->cwnd) * least(rounds, ONE24)) >> 24;
	if (cubic->cwnd < cubic->w_est)
		cubic->cwnd = cubic->w_est;
}

/* Cubic's next window. */
GLOBAL __u64 cubic_step(struct safety *safety, struct statistics *stats)
{
	struct cubic *cubic;
	__u64 now_ns, rtt_ns, acked;

	if (!safety || !stats)
		return 0;
	cubic = &safety->cubic;
	now_ns = least(stats->time_ns, MOST_TIME);
	rtt_ns = least(stats->rtt_mean_ns ? stats->rtt_mean_ns : stats->srtt_ns, MOST_RTT);
	/* Within 2^40, as a ratio has it. */
	acked = least((least(stats->acked_bytes, MOST_BYTES) << 16) / within(stats->mss, 1, 0xffff), (1ULL << 40) - 1);
	if (stats->lost && (!safety->reduced || now_ns > cubic->reduced_at_ns + rtt_ns)) {
		cubic->w_max = cubic->cwnd < cubic->w_max ? cubic->cwnd * 17 / 20 : cubic->cwnd;
		cubic->ssthresh = cubic->cwnd * 7 / 10;
		if (cubic->ssthresh < CUBIC_LEAST)
			cubic->ssthresh = CUBIC_LEAST;
		cubic->cwnd = stats->rtos ? 1 << 16 : cubic->ssthresh;
		cubic->reduced_at_ns = now_ns;
		safety->reduced = 1;
		safety->epoch = 0;
	} else if (cubic->cwnd < cubic->ssthresh) {
		cubic->cwnd = least(cubic->cwnd + acked, cubic->ssthresh);
	} else if (acked && cubic->cwnd) {
		cubic_grow(safety, now_ns, rtt_ns, acked);
	}
	cubic->cwnd = least(cubic->cwnd, MOST_WINDOW);
	return cubic->cwnd;
}

/* Take in the losses. */
static __always_inline void lose(struct safety *safety, struct statistics *stats)
{
	__u64 lost = least(stats->lost * (__u64)within(stats->mss, 1, 0xffff), MOST_KNOWN);
	__u64 known = least(lost + least(stats->acked_bytes, MOST_KNOWN), MOST_KNOWN);
	__s64 w = weight(stats->interval_ns, SAFETY_LOSS_NS, 1 << 16);

	safety->lost += (w * ((__s64)(lost << 12) - safety->lost)) >> 24;
	safety->known += (w * ((__s64)(known << 12) - safety->known)) >> 24;
	if (stats->lost)
		safety->lost_before = 1;
}

/* Choose whether the policy or Cubic decides from now on. */
static __always_inline void choose(struct safety *safety, struct statistics *stats, __u64 time_ns, __u64 max_rate,
				   __u64 min_rtt_ns)
{
	const struct limits *limits = &the_policy()->limits;
	__u64 rtts_ns = PATIENCE_RTTS * min_rtt_ns, patience_ns, cwnd;
	int outside;

	if (!limits->patience_ns)
		return;
	outside = min_rtt_ns < limits->rtt_low_ns || min_rtt_ns > limits->rtt_high_ns || max_rate > limits->most_rate ||
		  (__u64)safety->lost << 24 > least(limits->most_loss, ONE24) * (__u64)safety->known;
	if (outside == (safety->taken_over > 0)) {
		safety->strayed = 0;
		return;
	}
	if (!safety->strayed) {
		safety->strayed = 1;
		safety->strayed_at_ns = time_ns;
	}
	patience_ns = rtts_ns > limits->patience_ns ? rtts_ns : limits->patience_ns;
	if ((time_ns > safety->strayed_at_ns ? time_ns - safety->strayed_at_ns : 0) < patience_ns)
		return;
	safety->strayed = 0;
	safety->taken_over = outside;
	if (outside) {
		cwnd = least(stats->cwnd, CWND_MAX) << 16;
		safety->cubic.cwnd = safety->cubic.w_max = safety->cubic.w_est = cwnd;
		safety->cubic.ssthresh = safety->lost_before ? cwnd : MOST_WINDOW;
		safety->cubic.epoch_ns = safety->cubic.reduced_at_ns = 0;
		safety->reduced = safety->epoch = 0;
	}
}

/* The largest window. */
static __always_inline __u64 bound(struct statistics *stats, __u64 path_rtt_ns, __u64 max_rate)
{
	__u64 bytes = (path_rtt_ns >> 6) * max_rate / (SECOND >> 6);
	/* In Q8, times a number below 2^26. */
	__u64 segments = least((bytes << 8) / within(stats->mss, 1, 0xffff), (1ULL << 36) - 1);
	__u64 most = (segments * least(the_policy()->limits.most_bdp, (1 << 26) - 1)) >> 8;

	return most < FIRST_WINDOW ? FIRST_WINDOW : most;
}

/* The window for this interval, given the policy's decision, from whose exact window in the state the policy goes on. */
GLOBAL __u32 hold(struct safety *safety, struct state *state, struct statistics *stats, __u32 asked)
{
	const struct limits *limits = &the_policy()->limits;
	__u64 time_ns, rtt_ns, rate, max_rate, min_rtt_ns, most;
	__u32 cwnd = asked;

	if (!safety || !state || !stats || !(limits->most_bdp || limits->patience_ns))
		return asked;
	time_ns = least(stats->time_ns, MOST_TIME);
	rtt_ns = least(stats->rtt_least_ns, MOST_RTT) / MICROSECOND * MICROSECOND;
	rate = least(stats->delivery_rate, MOST_RATE);
	if (safety->most_rate < rate)
		safety->most_rate = rate;
	max_rate = update(&safety->max_rate, SAFETY_BUCKET_NS, time_ns, rate);
	if (!max_rate)
		max_rate = safety->most_rate;
	if (notices(SAFETY_GAP_NS, 0, &safety->usual_gap, least(stats->ack_gap_ns, MOST_RTT)))
		safety->path_rtt_ns = 0;
	if (rtt_ns) {
		if (!safety->path_rtt_ns || rtt_ns < safety->path_rtt_ns)
			safety->path_rtt_ns = rtt_ns;
		if (!safety->least_rtt_ns || rtt_ns < safety->least_rtt_ns)
			safety->least_rtt_ns = rtt_ns;
	}
	min_rtt_ns = update_least(&safety->recent_rtt, SAFETY_BUCKET_NS, time_ns, rtt_ns);
	if (!min_rtt_ns)
		min_rtt_ns = safety->least_rtt_ns;
	if (!min_rtt_ns)
		min_rtt_ns = least(stats->srtt_ns, MOST_RTT);
	if (!min_rtt_ns)
		return asked;	/* nothing has been measured yet */
	lose(safety, stats);
	choose(safety, stats, time_ns, max_rate, min_rtt_ns);
	if (safety->taken_over) {
		state->window = cubic_step(safety, stats);
		cwnd = state->window >> 16;
	}
	if (limits->most_bdp) {
		most = bound(stats, safety->path_rtt_ns ? safety->path_rtt_ns : min_rtt_ns, max_rate);
		if ((__u64)cwnd << 16 > most) {
			cwnd = most >> 16;
			state->window = least(state->window, most);
			safety->cubic.cwnd = least(safety->cubic.cwnd, most);
		}
	}
	return cwnd ? cwnd : 1;
}

#endif
