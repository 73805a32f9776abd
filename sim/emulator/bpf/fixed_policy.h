/* A policy in fixed point: its data, as in sim/core/src/observe/fixed/mod.rs, whose comments hold here too. */
#ifndef FIXED_POLICY_H
#define FIXED_POLICY_H

#define FEATURES 48
#define LEASTS 8
#define MOSTS 4
#define SPANS 8
#define AVERAGES 16
#define RTTS 3
#define LAYERS 3
#define MOST_UNITS 64
#define EXPERTS 16
/* Powers of two, so that an index is in bounds without a comparison, on whose outcome the verifier would have to follow both
 * ways for every weight. */
#define WEIGHTS 8192
#define BUCKETS 10
#define FLIGHTS 8

struct layers {
	__u8 columns[MOST_UNITS];
	__u32 inputs;
	__u32 count;
	__u32 units[LAYERS];
	__u32 activations[LAYERS];
	__u32 at;
	__u32 unused;
};

struct parameters {
	__u64 least_bucket_ns[LEASTS];
	__u64 most_bucket_ns[MOSTS];
	__u64 gap_ns;
	__u64 interval_ns;
	__u64 interval_least_ns;
	__u64 drain_every_ns;
	struct layers network;
	struct layers gate;
	__u32 span_rtts[SPANS];
	__u32 leasts;
	__u32 mosts;
	__u32 spans;
	__u32 features;
	__u32 base;
	__u32 standing;
	__u32 usual_rtt;
	__u32 learns;
	__u32 slow;
	__u32 interval_rtts;
	__s32 clip;
	__u32 squash;
	__s32 step;
	__s32 cubic;
	__u32 floor;
	__u32 pacing_gain;
	__u32 hold;
	__s32 occupancy_range;
	__u32 drain_to;
	__u32 occupies;
	__u32 drain_spare;
	__u32 unused;
};

struct feature {
	__u32 kind;
	__u32 rtt;
	__u32 min;
	__u32 max;
	__u32 longer;
	__u32 when;
	__u32 jitters;
	__u32 span;
	__u32 average;
	__s32 low;
	__s32 high;
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
	__u16 mss;
	__u16 rtos;
};

struct window {
	__u64 now;
	__u32 buckets[BUCKETS];
};

struct drain {
	__u64 least_ns;
	__u64 near_at_ns;
	__u64 end_ns;
	__u64 window;
	__u64 held;
	__u64 found_ns;
};

struct occupancy {
	__u32 times[FLIGHTS];
	__u32 flights[FLIGHTS];
	__u64 rate;
	__u32 flight;
	__u32 least;
	__s32 product;
	__s32 square;
};

struct state {
	struct window leasts[LEASTS];
	struct window mosts[MOSTS];
	__s64 averages[AVERAGES];
	__s64 jitter;
	__s64 inflation;
	__u64 rtts_ns[RTTS];
	__u64 before_ns;
	__u64 usual_gap;
	__u64 most_rate;
	__u64 cleared_at_ns;
	__u64 silent_at_ns;
	struct drain drain;
	struct occupancy occupancy;
	__u64 window;
	__u32 cwnd;
	__u32 cleared;
	__u32 silent;
	__u32 known;
};

struct program {
	struct parameters parameters;
	struct feature features[FEATURES];
	__s32 weights[WEIGHTS];
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
	__u64 patience_ns;	/* time outside (or inside) after which Cubic takes over (or hands back); 0: never */
};

#define POLICY_MAGIC { 0x6f72626974636331, 0x706f6c6963793031 }

/* Written into the object before it is loaded (`orbitcc-emulator object`). */
struct policy {
	__u64 magic[2];
	struct limits limits;
	struct program program;
};

struct measures {
	__u64 time_ns;
	__u64 interval_ns;
	__u64 ack_gap_ns;
	__u64 rate;
	__u64 mss;
	__u64 acked;
	__u64 lost;
	__u64 rtt_ns;
	__u64 min_ns[LEASTS];
	__s64 log2_min[LEASTS];
	__u64 max_rate[MOSTS];
	__s64 log2_max[MOSTS];
	__s64 log2_rtt[RTTS];
	__s64 weights[SPANS + 1];
	__s64 log2_mss;
	__s64 log2_rate;
	__s64 log2_cwnd;
	__s64 log2_pacing;
	__u32 pacing;
	__u32 sampled;
	__u32 rising;
	__u32 unused;
};

/* What a decision computes on its way; too large for the stack of a BPF program. The observation is complete before the
 * networks begin. */
struct scratch {
	union {
		struct measures measures;
		struct {
			__s32 x[MOST_UNITS];
			__s32 out[MOST_UNITS];
		};
	};
	__s32 logits[EXPERTS];
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
