/* A policy in fixed point: its data, as in sim/core/src/observe/fixed/mod.rs, whose comments hold here too. */
#ifndef FIXED_POLICY_H
#define FIXED_POLICY_H

#define FEATURES 18
#define LAYERS 3
#define MOST_UNITS 64
#define WEIGHTS (2 * FEATURES + MOST_UNITS * (FEATURES + 1) + MOST_UNITS * (MOST_UNITS + 1) + MOST_UNITS + 2)
/* A power of two, so that an index is in bounds without a comparison, on whose outcome the verifier would have to follow
 * both ways for every weight. */
#define ROOM 8192
_Static_assert(WEIGHTS <= ROOM, "the weights of the largest network");
#define AVERAGES 7
#define BUCKETS 10

struct parameters {
	__u64 min_rtt_bucket_ns;
	__u64 short_rtt_bucket_ns;
	__u64 max_rate_bucket_ns;
	__u64 gap_ns;
	__u64 interval_ns;
	__u32 interval_rtts;
	__u32 fast_rtts;
	__u32 slow_rtts;
	__u32 least_rtt;
	__u32 own_queue;
	__s32 clip;
	__u32 layers;
	__u32 units[LAYERS];
	__u32 activations[LAYERS];
	__u32 squash;
	__s32 step;
	__s32 cubic;
	__u32 floor;
	__u32 pacing_gain;
	__u32 hold;
	__u32 unused;
};

struct statistics {
	__u64 time_ns;
	__u64 interval_ns;
	__u64 rtt_mean_ns;
	__u64 rtt_least_ns;
	__s64 rtt_rise_ns;
	__u64 srtt_ns;
	__u64 ack_gap_ns;
	__u64 delivery_rate;
	__u64 pacing_rate;
	__u64 acked_bytes;
	__u64 sent_bytes;
	__u32 lost;
	__u32 cwnd;
	__u32 in_flight;
	__u32 mss;
};

struct window {
	__u64 now;
	__u64 buckets[BUCKETS];
};

struct state {
	struct window min_rtt;
	struct window short_rtt;
	struct window max_rate;
	__s64 averages[AVERAGES];
	__u64 usual_gap;
	__u64 most_rate;
	__u64 rtt_ns;
	__u64 cleared_at_ns;
	__u64 window;
	__u32 cwnd;
	__u32 cleared;
	__u32 known;
	__u32 unused;
};

struct program {
	struct parameters parameters;
	__s32 weights[ROOM];
};

struct decision {
	__s32 observation[FEATURES];
	__s32 action;
	__u32 cwnd;
};

/* The bounds of a model card's safety filter. */
struct limits {
	__u64 most_bdp;		/* Q16; 0: no bound of the window */
	__u64 rtt_low_ns;	/* The training range: smallest RTT, */
	__u64 rtt_high_ns;
	__u64 most_rate;	/* largest delivery rate, bytes per second, */
	__u64 most_loss;	/* and share of lost packets, Q24 */
	__u64 patience_ns;	/* time outside after which the flow is Cubic's; 0: never */
};

#define POLICY_MAGIC { 0x6f72626974636331, 0x706f6c6963793031 }

/* Written into the object before it is loaded (`orbitcc-emulator object`). */
struct policy {
	__u64 magic[2];
	struct limits limits;
	struct program program;
};

/* What a decision computes on its way; too large for the stack of a BPF program. */
struct scratch {
	__s64 features[FEATURES];
	__s32 x[MOST_UNITS];
	__s32 out[MOST_UNITS];
	struct decision decision;
};

const volatile struct policy policy SEC(".rodata.policy") = { .magic = POLICY_MAGIC };

/* The compiler must not take the policy for what it is before it is overwritten. */
static __always_inline const struct policy *the_policy(void)
{
	const struct policy *p = (const struct policy *)&policy;

	asm volatile("" : "+r"(p));
	return p;
}

static __always_inline const struct program *the_program(void)
{
	return &the_policy()->program;
}

#endif
