/* The decisions of the BPF programs, compiled for this machine. */
#include <stdint.h>

typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef int32_t __s32;
typedef int64_t __s64;

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#include "fixed_network.h"
#include "safety.h"

/* Take in an interval and decide, as decide.bpf.c does. Returns the window that the safety filter leaves. */
__u32 orbitcc_fixed_decide(const struct policy *policy, struct state *state, struct safety *safety,
			   struct statistics *stats, struct decision *decision)
{
	struct scratch scratch = {};

	current = policy;
	fixed_decide(state, stats, &scratch);
	*decision = scratch.decision;
	return hold(safety, state, stats, decision->cwnd);
}
