/* For tests: the decisions of `deploy.bpf.c` for statistics from a map (BPF_PROG_TEST_RUN). */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "deploy.h"

char LICENSE[] SEC("license") = "GPL";

#define CASES 1000

struct one {
	struct statistics stats;
	struct decision decision;
	__u64 window;
	__u32 held;		/* by the safety filter */
	__u32 taken_over;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CASES);
	__type(key, __u32);
	__type(value, struct one);
} cases SEC(".maps");

struct flow_state {
	struct state state;
	struct safety safety;
	struct scratch scratch;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_state);
} states SEC(".maps");

SEC("syscall")
int decide_all(void *context)
{
	__u32 zero = 0, at;
	struct flow_state *f = bpf_map_lookup_elem(&states, &zero);
	struct one *one;
	int k;

	bpf_repeat(CASES, k) {
		at = k;
		one = bpf_map_lookup_elem(&cases, &at);
		if (!one || !f || !fixed_decide(&f->state, &one->stats, &f->scratch))
			return 1;
		one->decision = f->scratch.decision;
		one->held = hold(&f->safety, &f->state, &one->stats, f->scratch.decision.cwnd);
		one->window = f->state.window;
		one->taken_over = f->safety.taken_over;
	}
	return 0;
}
