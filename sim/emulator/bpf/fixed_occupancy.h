/* The occupancy of a bottleneck (sim/core/src/observe/occupancy.rs) in fixed point. */
#ifndef FIXED_OCCUPANCY_H
#define FIXED_OCCUPANCY_H

#include "fixed_measures.h"

/* Running means are over so many minimum RTTs, Q16; estimates over so many, and over three seconds at least. */
#define MEAN_RTTS (8 << 16)
#define SPAN_RTTS 12
#define SPAN_NS 3000000000ULL
/* Largest change that counts, and largest ratio, Q24. */
#define MOST_CHANGE (ONE24 / 4)
#define MOST_RATIO (16LL << 24)
/* How far a ratio of rates may be from those that a share in [0, 1] explains, Q24. */
#define TOLERANCE 838861
/* 1.5e-4 in Q32. */
#define NOISE 644245
#define MOST_FLIGHT (1ULL << 20)

/* All ones if a < b, for numbers below 2^63: the verifier would follow both ways of every comparison in the loop below. */
static __always_inline __u64 if_less(__u64 a, __u64 b)
{
	__u64 less = (a - b) >> 63;

	asm volatile("" : "+r"(less));
	return -less;
}

static __always_inline __u64 chosen(__u64 mask, __u64 a, __u64 b)
{
	return b ^ ((a ^ b) & mask);
}

/* The packets in flight an RTT earlier, 0 if that is not known; those of now are kept. */
static __always_inline __u32 flight_earlier(struct occupancy *o, struct statistics *stats, __u32 rtt)
{
	__u32 now = stats->time_ns >> 12;
	__u64 never = 0xffffffff, found = 0, found_age = never, newest = never, oldest = 0, place = 0, age, mask;
	int k;

	for (k = 0; k < FLIGHTS; k++) {
		age = (__u32)(now - o->times[k]) | (if_less(o->flights[k], 1) & never);
		mask = if_less(age, found_age) & ~if_less(age, rtt);
		found_age = chosen(mask, age, found_age);
		found = chosen(mask, o->flights[k], found);
		newest = chosen(if_less(age, newest), age, newest);
		mask = if_less(oldest, age);
		oldest = chosen(mask, age, oldest);
		place = chosen(mask, k, place);
	}
	place = below(place, FLIGHTS);
	if (stats->in_flight && newest >= rtt >> 2) {
		o->times[place] = now;
		o->flights[place] = stats->in_flight;
	}
	return found;
}

/* A mean after a value with this weight (Q24). */
static __always_inline __u64 nearer(__u64 mean, __u64 value, __s64 w)
{
	return mean + (__u64)((w * ((__s64)value - (__s64)mean)) >> 24);
}

/* Take in a flight (Q16) and the rate (Q4) an RTT later. */
static __always_inline void learn_occupancy(struct occupancy *o, __u64 interval_ns, __u64 flight, __u64 rate)
{
	__u64 rtt_ns = (__u64)o->least << 8;
	__u64 span_ns = SPAN_RTTS * rtt_ns > SPAN_NS ? SPAN_RTTS * rtt_ns : SPAN_NS;
	__s64 w = weight(interval_ns, rtt_ns, MEAN_RTTS), e, r, x, y;

	if (!o->flight) {
		o->flight = flight;
		o->rate = rate;
	}
	o->flight = nearer(o->flight, flight, w);
	o->rate = nearer(o->rate, rate, w);
	e = ratio(flight, o->flight, MOST_RATIO);
	r = ratio(rate, o->rate, MOST_RATIO);
	if (r + TOLERANCE < (e < ONE24 ? e : ONE24) || r > (e > ONE24 ? e : ONE24) + TOLERANCE)
		return;
	x = within(e - ONE24, -MOST_CHANGE, MOST_CHANGE);
	y = within(ratio(e, r, MOST_RATIO) - ONE24, -MOST_CHANGE, MOST_CHANGE);
	w = weight(interval_ns, span_ns, 1 << 16);
	o->product += (__s32)((w * (((x * y) >> 16) - o->product)) >> 24);
	o->square += (__s32)((w * (((x * x) >> 16) - o->square)) >> 24);
}

/* Take in an interval. */
GLOBAL int occupy(struct state *state, struct statistics *stats)
{
	__u64 rtt_ns, earlier, rate;
	struct occupancy *o;
	__u32 rtt;

	if (!state || !stats)
		return 0;
	o = &state->occupancy;
	rtt_ns = least(stats->rtt_least_ns, MOST_RTT);
	if (rtt_ns) {
		rtt = rtt_ns >> 12;
		if (!o->least || rtt_ns >> 8 < o->least)
			o->least = (rtt_ns >> 8) + 1;
		earlier = flight_earlier(o, stats, rtt);
		rate = least(stats->delivery_rate, MOST_RATE);
		if (earlier && rate)
			learn_occupancy(o, stats->interval_ns, least(earlier, MOST_FLIGHT) << 16, rate << 4);
	}
	return 1;
}

/* The estimate, Q24. */
static __always_inline __s64 share_of(const struct occupancy *o)
{
	__s64 product = (__s64)o->product + NOISE / 2, square = (__s64)o->square + NOISE;

	return product > 0 ? ratio(product, square, ONE24) : 0;
}

/* The action in Q20 after the policy's, in a range (Q20) about it, by the share of the bottleneck. */
static __always_inline __s32 picked(__s32 action, __s32 range, __s64 share)
{
	return within(action + ((range * (ONE24 - 2 * share)) >> 24), -ONE20, ONE20);
}

#endif
