/* The same with checks, and parts of it, for tests. */
#define orbitcc_fixed_decide tested_decide
#include "decide.c"

#define TESTED(type, name, parameters, arguments) type tested_##name parameters { return name arguments; }
#define TESTED_WITH_POLICY(type, name, parameters, arguments)	\
	type tested_##name parameters				\
	{							\
		current = policy;				\
		return name arguments;				\
	}

TESTED(__s64, fixed_log2, (__u64 x), (x))
TESTED(__u64, fixed_exp2, (__s64 x), (x))
TESTED(__s64, fixed_tanh, (__s64 x), (x))
TESTED(__s64, root, (__s64 x), (x))
TESTED(__s64, ratio, (__u64 a, __u64 b, __s64 most), (a, b, most))
TESTED(__s64, cube_root, (__u64 x), (x))
TESTED(void, of_samples, (__u32 n, __u64 sum_us, __u64 placed_us, struct statistics *s), (n, sum_us, placed_us, s))
TESTED(__u64, cubic_step, (struct safety *safety, struct statistics *stats), (safety, stats))
TESTED(int, occupy, (struct state *state, struct statistics *stats), (state, stats))
TESTED(__s64, share_of, (const struct occupancy *occupancy), (occupancy))
TESTED(__s32, picked, (__s32 action, __s32 range, __s64 share), (action, range, share))
TESTED(int, drains, (const struct parameters *p, struct drain *drain, struct statistics *stats, __u64 *window),
       (p, drain, stats, window))
TESTED_WITH_POLICY(__u64, next_window,
		   (const struct policy *policy, struct state *state, struct statistics *stats, __s32 action),
		   (state, stats, action))
TESTED_WITH_POLICY(__u32, hold, (const struct policy *policy, struct safety *safety, struct state *state,
				 struct statistics *stats, __u32 asked), (safety, state, stats, asked))

/* The action for an observation. */
__s32 tested_act(const struct policy *policy, const __s32 *observation)
{
	struct scratch scratch = {};

	current = policy;
	__builtin_memcpy(scratch.decision.observation, observation, sizeof(scratch.decision.observation));
	act(&scratch);
	return scratch.decision.action;
}
