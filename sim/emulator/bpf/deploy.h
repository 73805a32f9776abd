/* The state of a flow. */
#ifndef DEPLOY_H
#define DEPLOY_H

/* Open-coded iterators of the kernel: the verifier follows a loop once, whatever its length (Linux 6.4). */
struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym __weak;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym __weak;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym __weak;

#define bpf_repeat(n, k)								\
	for (struct bpf_iter_num it __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))),	\
	     *none __attribute__((unused)) = (bpf_iter_num_new(&it, 0, n),		\
	     (void)bpf_iter_num_destroy, (void *)0);					\
	     ({ int *next = bpf_iter_num_next(&it); k = next ? *next : 0; next; });)

#include "fixed_network.h"
#include "safety.h"

/* Counters of TCP since the start of the connection. */
struct totals {
	__u64 acked_bytes;
	__u32 lost;
	__u32 sent;
};

struct flow {
	__u64 started_ns;	/* 0: not yet */
	__u64 next_ns;		/* when the next decision is due */
	__u64 since_ns;		/* beginning of the interval */
	__u64 last_ack_ns;
	__u64 longest_gap_ns;
	__u64 rtt_sum_us;
	__u64 rtt_placed_us;
	__u64 rate_sum;		/* bytes per second */
	__u32 rtt_samples;
	__u32 rtt_least_us;
	__u32 rate_samples;
	__u32 cwnd;
	__u64 rtt_ns;		/* at the last decision; 0: not known */
	__u32 rtos;		/* of the connection, at the last decision */
	__u32 unused;
	struct totals before, now;
	struct state state;
	struct safety safety;
	struct scratch scratch;
};

#endif
