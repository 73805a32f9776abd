/* Drains (sim/core/src/observe/drain.rs) in fixed point: short reductions of the window that let the queue run empty. */
#ifndef FIXED_DRAIN_H
#define FIXED_DRAIN_H

#include "fixed_measures.h"

/* Where the span of RTTs that are near the minimum is given, 2 % of what the minimum has above this are near, too. */
#define LONG_NS 100000000
/* Drains are at least so many smoothed RTTs apart. */
#define APART_RTTS 20

/* How much above the minimum an RTT is near it. */
static __always_inline __u64 near(const struct parameters *parameters, __u64 least_ns)
{
	if (!parameters->drain_near_ns)
		return least_ns / 50 + 500000;
	if (least_ns > LONG_NS && (least_ns - LONG_NS) / 50 > parameters->drain_near_ns)
		return (least_ns - LONG_NS) / 50;
	return parameters->drain_near_ns;
}

/* The share of the window that remains in a drain, Q24. */
static __always_inline __u64 drained_to(const struct parameters *parameters, __u64 least_ns, __u64 srtt_ns)
{
	__u64 empties = (parameters->drain_spare * (__u64)ratio(least_ns, srtt_ns, ONE24)) >> 24;

	return empties > parameters->drain_to ? empties : parameters->drain_to;
}

/* A drain is in progress. */
static __always_inline int go_on(struct drain *drain, __u64 now_ns, __u64 rtt_ns, __u64 *window)
{
	if (rtt_ns && (!drain->found_ns || rtt_ns < drain->found_ns))
		drain->found_ns = rtt_ns;
	if (now_ns < drain->end_ns) {
		*window = drain->held;
		return 1;
	}
	if (drain->found_ns)
		drain->least_ns = drain->found_ns;
	drain->near_at_ns = now_ns;
	drain->end_ns = 0;
	*window = drain->window;
	return 0;
}

/* Take in an interval. Whether the window is the one that this writes, whatever the policy decides; the policy decides from
 * it otherwise. */
static __always_inline int drains(const struct parameters *parameters, struct drain *drain, struct statistics *stats,
				  __u64 *window)
{
	__u64 every_ns = parameters->drain_every_ns;
	__u64 now_ns = least(stats->time_ns, MOST_TIME), rtt_ns = least(stats->rtt_least_ns, MOST_RTT);
	__u64 srtt_ns = least(stats->srtt_ns, MOST_RTT), apart_ns = APART_RTTS * srtt_ns;

	if (drain->end_ns)
		return go_on(drain, now_ns, rtt_ns, window);
	if (!rtt_ns)
		return 0;
	if (!drain->least_ns || rtt_ns <= drain->least_ns + near(parameters, drain->least_ns)) {
		drain->least_ns = drain->least_ns ? least(drain->least_ns, rtt_ns) : rtt_ns;
		drain->near_at_ns = now_ns;
	}
	if (every_ns < apart_ns)
		every_ns = apart_ns;
	if ((now_ns > drain->near_at_ns ? now_ns - drain->near_at_ns : 0) < every_ns)
		return 0;
	drain->end_ns = now_ns + srtt_ns + (srtt_ns >> 1) + 2 * least(stats->interval_ns, MOST_INTERVAL);
	drain->window = *window;
	drain->held = (*window * drained_to(parameters, drain->least_ns, srtt_ns)) >> 24;
	drain->found_ns = 0;
	*window = drain->held;
	return 1;
}

#endif
