/* A policy in fixed point: its data. The build script of sim/fixed reads the numbers and structures of this file and of
 * safety.h, and the kinds in fixed_measures.h, fixed_features.h and fixed_network.h: one field per line. */
#ifndef FIXED_POLICY_H
#define FIXED_POLICY_H

/* Most features of an observation. */
#define FEATURES 48
/* Most windows of time: of minimum RTTs, and of maximum rates. */
#define LEASTS 8
#define MOSTS 4
/* Most lengths of averages, and most averages. */
#define SPANS 8
#define AVERAGES 16
#define RTTS 3
/* The largest networks. */
#define LAYERS 3
#define MOST_UNITS 64
#define EXPERTS 16
/* Length of the array of weights, all in Q20: the mean of each feature; 1 / standard deviation of each; and per layer and unit
 * of the network, then of its gate, a weight per input, then the bias. The rest is zero. A power of two, so that an index is
 * in bounds without a comparison, on whose outcome the verifier would have to follow both ways for every weight. */
#define WEIGHTS 8192
#define BUCKETS 10
/* Flights are kept of so many decisions, a quarter of an RTT apart at least. */
#define FLIGHTS 8

/* Dense layers. */
struct layers {
	__u8 columns[MOST_UNITS];	/* the features that the first layer takes */
	__u32 inputs;
	__u32 count;			/* of layers */
	__u32 units[LAYERS];
	__u32 activations[LAYERS];	/* LINEAR and the others */
	__u32 at;			/* index of the first weight */
	__u32 unused;
};

/* What a policy is besides its features and weights. */
struct parameters {
	/* A tenth of each window of the minimum RTT and of the maximum rate; 0: nothing is forgotten. */
	__u64 least_bucket_ns[LEASTS];
	__u64 most_bucket_ns[MOSTS];
	/* Shortest pause of the acknowledgements that clears the windows; 0: none does. */
	__u64 gap_ns;
	/* Between two decisions, unless `interval_rtts` is above 0, and the shortest interval that depends on the RTT. */
	__u64 interval_ns;
	__u64 interval_least_ns;
	/* Time without an RTT near the minimum after which the queue is drained; 0: never. */
	__u64 drain_every_ns;
	/* How much above the minimum an RTT is near it; 0: 2 % and half a millisecond. */
	__u64 drain_near_ns;
	struct layers network;
	/* Weighs the outputs of the network, its experts; no layers: the network has one output, the action. */
	struct layers gate;
	/* Lengths of averages in RTTs, Q16. */
	__u32 span_rtts[SPANS];
	/* Numbers of windows, lengths of averages, and features. */
	__u32 leasts;
	__u32 mosts;
	__u32 spans;
	__u32 features;
	/* Of the windows of the minimum RTT, the one whose RTT averages are counted in, and the one of the standing RTT (LEASTS:
	 * none). */
	__u32 base;
	__u32 standing;
	/* The RTT that stands for a minimum without a sample (MEAN and the others). */
	__u32 usual_rtt;
	/* 1: a pause that returns becomes usual, and one that the sender made itself clears nothing, as in the observation
	 * `features`; 0: as in `ratios`. */
	__u32 learns;
	/* The length of the averages of the jitter and of the inflation that losses are told apart by, as `span` of a feature;
	 * 0: neither is needed. */
	__u32 slow;
	/* Between two decisions, in mean RTTs of the last interval, Q16, at most 10 s. */
	__u32 interval_rtts;
	/* Bound of a normalised feature, Q20. */
	__s32 clip;
	/* TANH, or LINEAR: clipped. */
	__u32 squash;
	/* Of the action, Q24. */
	__s32 step;
	__s32 cubic;
	/* Smallest window, segments. */
	__u32 floor;
	/* Pacing rate in windows per smoothed RTT, Q16. */
	__u32 pacing_gain;
	/* 1: the window stands through recoveries and timeouts; 0: the kernel's recovery acts on it. */
	__u32 hold;
	/* The action is moved by up to this much, by the occupancy of the bottleneck, Q20; 0: not at all. */
	__s32 occupancy_range;
	/* The least share of itself that a drain reduces the window to, Q24. */
	__u32 drain_to;
	/* 1: the occupancy is needed, by the action or by a feature. */
	__u32 occupies;
	/* 1 less the margin by which a drain may reduce the window beyond what empties the known queue, Q24. */
	__u32 drain_spare;
	__u32 unused;
};

/* A feature of the list. */
struct feature {
	__u32 kind;		/* INFLATION and the others */
	__u32 rtt;		/* MEAN and the others */
	__u32 min;		/* its windows of the minimum RTT */
	__u32 max;		/* and of the maximum rate, */
	__u32 longer;		/* and the longer one of either */
	__u32 when;		/* which losses count: ALWAYS and the others */
	__u32 jitters;		/* so many above the minimum RTT count as empty, Q16 */
	__u32 span;		/* length of its average: 1 is the first of `span_rtts`; 0: none */
	__u32 average;		/* where its average is */
	__s32 low;		/* bounds, Q20; of a preference the contested and the usual one */
	__s32 high;
	__u32 over;		/* binary logarithm of a length in ns, Q24 */
};

/* What was measured between two decisions. 0 stands for what is not known. */
struct statistics {
	__u64 time_ns;		/* end of the interval, on any clock */
	__u64 interval_ns;
	__u64 rtt_mean_ns;	/* mean and smallest of the RTT samples, and their rise (of_samples) */
	__u64 rtt_least_ns;
	__s64 rtt_rise_ns;
	__u64 srtt_ns;
	__u64 ack_gap_ns;	/* longest time without an acknowledgement that ended in the interval or is still going on */
	__u64 delivery_rate;	/* mean of the samples, bytes per second */
	__u64 pacing_rate;	/* bytes per second; 0: not paced */
	__u64 acked_bytes;	/* payload acknowledged cumulatively, */
	__u64 sent_bytes;	/* and sent, including retransmissions */
	__u32 lost;		/* segments marked lost */
	__u32 cwnd;		/* congestion window and packets in flight now, segments */
	__u32 in_flight;
	__u16 mss;		/* payload of a segment, bytes */
	__u16 rtos;		/* retransmission timeouts */
};

/* The largest value of each tenth of a window of time; 0: none. */
struct window {
	__u64 now;
	__u32 buckets[BUCKETS];
};

/* The drains of one flow; zeros at first. */
struct drain {
	__u64 least_ns;		/* the minimum RTT, */
	__u64 near_at_ns;	/* and when the RTT was near it last; 0: none yet */
	__u64 end_ns;		/* of the drain in progress; 0: there is none */
	__u64 window;		/* the window before it, Q16, */
	__u64 held;		/* its own, */
	__u64 found_ns;		/* and the smallest RTT so far */
};

/* The estimate of the occupancy of one flow; zeros at first. */
struct occupancy {
	__u32 times[FLIGHTS];	/* in units of 2^12 ns, modulo 2^32, */
	__u32 flights[FLIGHTS];	/* and packets in flight then; 0: none yet */
	__u64 rate;		/* mean of the delivery rate, bytes per second in Q4, */
	__u64 flight;		/* and of the packets in flight an RTT earlier, Q16; 0: none yet */
	__u32 least;		/* the minimum RTT in units of 2^8 ns, rounded up; 0: none yet */
	__s32 product;		/* Q32 */
	__s32 square;
	__u32 unused;
};

/* What a policy remembers of a flow; zeros at first. */
struct state {
	struct window leasts[LEASTS];
	struct window mosts[MOSTS];
	__s64 averages[AVERAGES];	/* moving averages, Q32, */
	__s64 jitter;			/* of the steps of the least RTT in minimum RTTs, */
	__s64 inflation;		/* and of the inflation */
	__u64 rtts_ns[RTTS];		/* the last known RTTs */
	__u64 before_ns;		/* the least RTT of the last interval that had one, since a pause */
	__u64 usual_gap;		/* usual longest pause of the acknowledgements, in sixteenths of a ns */
	__u64 most_rate;		/* largest delivery rate of the connection, bytes per second */
	__u64 cleared_at_ns;
	__u64 silent_at_ns;		/* when the sender had more in flight than its window */
	struct drain drain;
	struct occupancy occupancy;
	__u64 window;			/* exact window after the last action, segments in Q16 */
	__u32 cwnd;			/* window of the last interval */
	__u32 cleared;			/* the windows were ever cleared, */
	__u32 silent;			/* the sender was ever silent, */
	__u32 known;			/* and the averages have values */
};

struct program {
	struct parameters parameters;
	struct feature features[FEATURES];
	__s32 weights[WEIGHTS];
};

struct decision {
	__s32 observation[FEATURES];	/* Q20; 0 beyond the last feature */
	__s32 action;			/* in [-1, 1], Q20 */
	__u32 cwnd;			/* the new window, segments */
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

/* What all features share. Logarithms are binary, in Q24. */
struct measures {
	__u64 time_ns;
	__u64 interval_ns;
	__u64 ack_gap_ns;
	__u64 rate;
	__u64 mss;
	__u64 acked;
	__u64 lost;
	__u64 rtt_ns;
	__u64 min_ns[LEASTS];		/* minimum RTT of each window; without a sample, the last known RTT */
	__s64 log2_min[LEASTS];
	__u64 max_rate[MOSTS];
	__s64 log2_max[MOSTS];
	__s64 log2_rtt[RTTS];
	__s64 weights[SPANS + 1];	/* of the interval in averages, Q24; the first is of none */
	__s64 log2_mss;
	__s64 log2_rate;
	__s64 log2_cwnd;
	__s64 log2_pacing;
	__u32 pacing;
	__u32 sampled;			/* bit k: window k of the minimum RTT has a sample */
	__u32 rising;			/* the RTT is above its average */
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

#ifdef __bpf__
const volatile struct policy policy SEC(".rodata.policy") = { .magic = POLICY_MAGIC };

/* The compiler must not take the policy for what it is before it is overwritten. */
static __always_inline const struct policy *the_policy(void)
{
	const struct policy *p = (const struct policy *)&policy;

	asm volatile("" : "+r"(p));
	return p;
}

#else
/* The policy of the decision that this thread makes. */
static _Thread_local const struct policy *current;

static __always_inline const struct policy *the_policy(void)
{
	return current;
}
#endif

static __always_inline const struct program *the_program(void)
{
	return &the_policy()->program;
}

#endif
