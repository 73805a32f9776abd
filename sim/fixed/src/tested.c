/* The same with checks, and parts of it, for tests. */
#define orbitcc_fixed_decide tested_decide
#include "decide.c"

__s64 tested_log2(__u64 x)
{
	return fixed_log2(x);
}

__u64 tested_exp2(__s64 x)
{
	return fixed_exp2(x);
}

__s64 tested_root(__s64 x)
{
	return root(x);
}

__s64 tested_tanh(__s64 x)
{
	return fixed_tanh(x);
}

__s64 tested_ratio(__u64 a, __u64 b, __s64 most)
{
	return ratio(a, b, most);
}

__s64 tested_cube_root(__u64 x)
{
	return cube_root(x);
}

void tested_of_samples(__u32 samples, __u64 sum_us, __u64 placed_us, struct statistics *stats)
{
	of_samples(samples, sum_us, placed_us, stats);
}

void tested_observe(const struct policy *policy, struct state *state, struct statistics *stats)
{
	struct scratch scratch = {};

	current = policy;
	observe(state, stats, &scratch);
}

/* The action for an observation. */
__s32 tested_act(const struct policy *policy, const __s32 *observation)
{
	struct scratch scratch = {};

	current = policy;
	__builtin_memcpy(scratch.decision.observation, observation, sizeof(scratch.decision.observation));
	act(&scratch);
	return scratch.decision.action;
}

__u64 tested_next_window(const struct policy *policy, struct state *state, struct statistics *stats, __s32 action)
{
	current = policy;
	return next_window(state, stats, action);
}

int tested_drains(const struct policy *policy, struct drain *drain, struct statistics *stats, __u64 *window)
{
	return drains(&policy->program.parameters, drain, stats, window);
}

/* The action that the occupancy makes of another. */
__s32 tested_occupy(struct state *state, struct statistics *stats, __s32 action, __s32 range)
{
	occupy(state, stats);
	return picked(action, range, share_of(&state->occupancy));
}

__u64 tested_cubic_step(struct safety *safety, struct statistics *stats)
{
	return cubic_step(safety, stats);
}

__u32 tested_hold(const struct policy *policy, struct safety *safety, struct state *state, struct statistics *stats,
		  __u32 asked)
{
	current = policy;
	return hold(safety, state, stats, asked);
}
