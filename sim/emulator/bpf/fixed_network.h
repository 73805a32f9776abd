/* A policy's network and action, line by line as in sim/core/src/observe/fixed/network.rs, whose comments hold here too. */
#ifndef FIXED_NETWORK_H
#define FIXED_NETWORK_H

#include "fixed.h"
#include "fixed_policy.h"
#include "fixed_ratios.h"

#define MOST_VALUE (1LL << 29)
#define LEAK 209715LL
#define CWND_MAX (1ULL << 20)
#define LINEAR 0
#define TANH 1
#define RELU 2
#define LEAKY_RELU 3

static __always_inline __s64 weight_at(__u64 at)
{
	return the_program()->weights[at & (ROOM - 1)];
}

static __always_inline __s64 activate(__u32 activation, __s64 x)
{
	if (activation == TANH)
		return fixed_tanh(x);
	if (activation == RELU && x < 0)
		return 0;
	if (activation == LEAKY_RELU && x < 0)
		return (x * LEAK) >> 20;
	return x;
}

/* One unit: its weights begin at `at`. */
GLOBAL __s64 unit(struct scratch *scratch, __u64 at, __u32 inputs)
{
	__s64 sum;
	__u32 k;

	if (!scratch)
		return 0;
	sum = weight_at(at + inputs) << 20;
	for (k = 0; k < MOST_UNITS; k++) {
		if (k >= inputs)
			break;
		sum += weight_at(at + k) * scratch->x[k];
	}
	return within(sum >> 20, -MOST_VALUE, MOST_VALUE);
}

GLOBAL int act(struct scratch *scratch)
{
	const struct program *program = the_program();
	const struct parameters *parameters = &program->parameters;
	__u32 inputs = FEATURES, layer, units, activation;
	int k;
	__u64 at = 2 * FEATURES;
	__s64 action;

	if (!scratch)
		return 0;
	for (k = 0; k < FEATURES; k++) {
		__s64 distance = (__s64)scratch->decision.observation[k] - program->weights[k];
		__s64 scaled = (distance * program->weights[FEATURES + k]) >> 20;

		scratch->x[k] = within(scaled, -(__s64)parameters->clip, parameters->clip);
	}
	for (layer = 0; layer < LAYERS; layer++) {
		if (layer >= parameters->layers)
			break;
		units = parameters->units[layer];
		activation = parameters->activations[layer];
		bpf_repeat(MOST_UNITS, k) {
			if (k >= units)
				break;
			scratch->out[k & (MOST_UNITS - 1)] = activate(activation, unit(scratch, at, inputs));
			at += inputs + 1;
		}
		__builtin_memcpy(scratch->x, scratch->out, sizeof(scratch->x));
		inputs = units;
	}
	action = parameters->squash == TANH ? fixed_tanh(scratch->x[0]) : scratch->x[0];
	scratch->decision.action = within(action, -ONE20, ONE20);
	return 1;
}

static __always_inline __u64 next_window(const struct parameters *parameters, __u32 cwnd, __u64 exact, __s32 action)
{
	__s64 a = within(action, -ONE20, ONE20) << 4;
	__s64 cube = (((a * a) >> 24) * a) >> 24;
	__s64 x = a + ((parameters->cubic * (cube - a)) >> 24);
	__u64 factor = fixed_exp((parameters->step * x) >> 24);
	__u64 whole = cwnd < CWND_MAX ? (__u64)cwnd << 16 : CWND_MAX << 16;
	__u64 start = exact < whole + (1 << 16) && whole < exact + (1 << 16) ? exact : whole;
	__u64 next = (start * factor + (1 << 23)) >> 24;
	__u64 floor = (__u64)parameters->floor << 16;

	return next < floor ? floor : next > CWND_MAX << 16 ? CWND_MAX << 16 : next;
}

static __always_inline __u32 whole_window(__u64 exact)
{
	return (exact + (1 << 15)) >> 16;
}

static __always_inline int fixed_decide(struct state *state, struct statistics *stats, struct scratch *scratch)
{
	if (!observe(state, stats, scratch) || !act(scratch))
		return 0;
	state->window = next_window(&the_program()->parameters, stats->cwnd, state->window, scratch->decision.action);
	scratch->decision.cwnd = whole_window(state->window);
	return 1;
}

#endif
