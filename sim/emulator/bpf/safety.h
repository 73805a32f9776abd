/* The bounds of a model card's safety filter (sim/core/src/observe/safety_filter.rs) in integers. */
#ifndef SAFETY_H
#define SAFETY_H

#include "fixed_measures.h"

struct safety {
	struct window recent_rtt;
	struct window max_rate;
	__u64 path_rtt_ns;	/* smallest since the last interruption; 0: none */
	__u64 usual_gap;
	__u64 strayed_at_ns;
	__s64 loss;		/* Q24 */
	__u32 strayed;
	__u32 unused;
};

#define SAFETY_BUCKET_NS SECOND
#define SAFETY_WINDOW_NS (10 * SECOND)
#define SAFETY_GAP_NS 30000000ULL
/* The initial window of a connection (RFC 6928) is always allowed. */
#define FIRST_WINDOW 10
#define PATIENCE_RTTS 4

/* The largest window that the limits allow; 0: the path has been outside the training range for too long. */
GLOBAL __u32 bounded(struct safety *safety, struct state *state, struct statistics *stats, __u32 cwnd)
{
	const struct limits *limits = &the_policy()->limits;
	__u64 rtt_ns, max_rate, min_rtt_ns, path_ns, acked, lost, bytes, patience_ns, most;
	__s64 loss;

	if (!safety || !state || !stats || !(limits->most_bdp || limits->patience_ns))
		return cwnd;
	rtt_ns = least(stats->rtt_least_ns, MOST_RTT);
	max_rate = update(&safety->max_rate, SAFETY_BUCKET_NS, stats->time_ns, least(stats->delivery_rate, MOST_RATE));
	if (!max_rate)
		max_rate = state->most_rate;
	if (notices(SAFETY_GAP_NS, 0, &safety->usual_gap, least(stats->ack_gap_ns, MOST_RTT)))
		safety->path_rtt_ns = 0;
	min_rtt_ns = update_least(&safety->recent_rtt, SAFETY_BUCKET_NS, stats->time_ns, rtt_ns);
	if (!min_rtt_ns)
		min_rtt_ns = state->rtts_ns[below(the_program()->parameters.usual_rtt, RTTS)];
	if (rtt_ns && (!safety->path_rtt_ns || rtt_ns < safety->path_rtt_ns))
		safety->path_rtt_ns = rtt_ns;
	path_ns = safety->path_rtt_ns ? safety->path_rtt_ns : min_rtt_ns;
	if (!min_rtt_ns)
		return cwnd;	/* nothing has been measured yet */
	acked = least(stats->acked_bytes, MOST_BYTES);
	lost = least(stats->lost * (__u64)stats->mss, MOST_BYTES);
	loss = lost ? ratio(lost, acked + lost, ONE24) : 0;
	safety->loss += (weight(stats->interval_ns, SAFETY_WINDOW_NS, 1 << 16) * (loss - safety->loss)) >> 24;
	if (limits->patience_ns) {
		if (min_rtt_ns >= limits->rtt_low_ns && min_rtt_ns <= limits->rtt_high_ns &&
		    max_rate <= limits->most_rate && safety->loss <= (__s64)limits->most_loss) {
			safety->strayed = 0;
		} else if (!safety->strayed) {
			safety->strayed = 1;
			safety->strayed_at_ns = stats->time_ns;
		} else {
			patience_ns = PATIENCE_RTTS * min_rtt_ns;
			if (patience_ns < limits->patience_ns)
				patience_ns = limits->patience_ns;
			if (stats->time_ns - safety->strayed_at_ns >= patience_ns)
				return 0;
		}
	}
	if (!limits->most_bdp)
		return cwnd;
	bytes = (path_ns >> 6) * max_rate / (SECOND >> 6);
	most = ((bytes / within(stats->mss, 1, 0xffff)) * limits->most_bdp) >> 16;
	if (most < FIRST_WINDOW)
		most = FIRST_WINDOW;
	return cwnd > most ? most : cwnd;
}

#endif
