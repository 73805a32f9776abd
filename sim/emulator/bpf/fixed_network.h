/* A policy's networks and action in fixed point. */
#ifndef FIXED_NETWORK_H
#define FIXED_NETWORK_H

#include "fixed.h"
#include "fixed_policy.h"
#include "fixed_drain.h"
#include "fixed_features.h"

/* Values of units in Q20 are held within 512, weights are below 128: a sum of 64 products fits into 64 bits. */
#define MOST_VALUE (1LL << 29)
/* Slope of the leaky ReLU below zero, 0.2 in Q20. */
#define LEAK 209715LL
#define CWND_MAX (1ULL << 20)
#define LINEAR 0
#define TANH 1
#define RELU 2
#define LEAKY_RELU 3

static __always_inline __s64 weight_at(__u64 at)
{
	return the_program()->weights[at & (WEIGHTS - 1)];
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

static __always_inline const struct layers *layers_of(int gate)
{
	const struct parameters *parameters = &the_program()->parameters;

	return gate ? &parameters->gate : &parameters->network;
}

/* A feature less its mean, in standard deviations. */
static __always_inline __s64 normalised(struct scratch *scratch, __u64 column)
{
	const struct program *program = the_program();
	__s64 clip = program->parameters.clip;
	__s64 distance = (__s64)scratch->decision.observation[column] - program->weights[column];

	return within((distance * program->weights[FEATURES + column]) >> 20, -clip, clip);
}

/* The outputs of the network, or of its gate, in scratch->x. */
GLOBAL int forward(struct scratch *scratch, int gate)
{
	const struct layers *layers = layers_of(gate);
	__u32 inputs = layers->inputs, layer, units, activation;
	__u64 at = layers->at;
	int k;

	if (!scratch)
		return 0;
	for (k = 0; k < MOST_UNITS; k++) {
		if (k >= inputs)
			break;
		scratch->x[k] = normalised(scratch, below(layers->columns[k], FEATURES));
	}
	for (layer = 0; layer < LAYERS; layer++) {
		if (layer >= layers->count)
			break;
		units = layers->units[layer];
		activation = layers->activations[layer];
		for (k = 0; k < MOST_UNITS; k++) {
			if (k >= units)
				break;
			scratch->out[k] = activate(activation, unit(scratch, at, inputs));
			at += inputs + 1;
		}
		for (k = 0; k < MOST_UNITS; k++) {
			if (k >= units)
				break;
			scratch->x[k] = scratch->out[k];
			asm volatile("" ::: "memory");	/* no call of memmove */
		}
		inputs = units;
	}
	return 1;
}

/* The mean of the experts, weighed by the softmax of the gate's outputs. */
GLOBAL __s64 mixed(struct scratch *scratch, __u32 count)
{
	__s64 most = -MOST_VALUE, sum = 0, total = 0, weight, mean;
	int k;

	if (!scratch)
		return 0;
	for (k = 0; k < EXPERTS; k++) {
		if (k < count && most < scratch->logits[k])
			most = scratch->logits[k];
	}
	for (k = 0; k < EXPERTS; k++) {
		if (k < count) {
			weight = fixed_exp((scratch->logits[k] - most) << 4);
			sum += weight * scratch->x[k];
			total += weight;
		}
	}
	if (!total)
		return 0;
	mean = (sum < 0 ? -(__u64)sum : (__u64)sum) / (__u64)total;
	return sum < 0 ? -mean : mean;
}

/* The action in [-1, 1] for an observation. */
GLOBAL int act(struct scratch *scratch)
{
	const struct parameters *parameters = &the_program()->parameters;
	__u32 layers = parameters->gate.count;
	__s64 action;

	if (!scratch)
		return 0;
	if (layers) {
		if (!forward(scratch, 1))
			return 0;
		__builtin_memcpy(scratch->logits, scratch->x, sizeof(scratch->logits));
	}
	if (!forward(scratch, 0))
		return 0;
	action = layers ? mixed(scratch, parameters->gate.units[below(layers - 1, LAYERS)]) : scratch->x[0];
	if (parameters->squash == TANH)
		action = fixed_tanh(action);
	scratch->decision.action = within(action, -ONE20, ONE20);
	return 1;
}

/* What an action multiplies the window by, in Q24. */
static __always_inline __u64 factor_of(const struct parameters *parameters, __s64 action)
{
	__s64 a = within(action, -ONE20, ONE20) << 4;
	__s64 cube = (((a * a) >> 24) * a) >> 24;
	__s64 x = a + ((parameters->cubic * (cube - a)) >> 24);

	return fixed_exp((parameters->step * x) >> 24);
}

/* The exact window after an action, in Q16: the window times exp(step ((1 - cubic) a + cubic a^3)), or that of a drain. */
GLOBAL __u64 next_window(struct state *state, struct statistics *stats, __s32 action)
{
	const struct parameters *parameters = &the_program()->parameters;
	__u64 whole, start, next, floor = (__u64)parameters->floor << 16;
	int held = 0;

	if (!state || !stats)
		return 0;
	whole = stats->cwnd < CWND_MAX ? (__u64)stats->cwnd << 16 : CWND_MAX << 16;
	/* Something else may have changed the window. */
	start = state->window < whole + (1 << 16) && whole < state->window + (1 << 16) ? state->window : whole;
	if (parameters->occupancy_range > 0)
		action = picked(action, parameters->occupancy_range, share_of(&state->occupancy));
	if (parameters->drain_every_ns)
		held = drains(parameters, &state->drain, stats, &start);
	next = held ? start : (start * factor_of(parameters, action) + (1 << 23)) >> 24;
	return next < floor ? floor : next > CWND_MAX << 16 ? CWND_MAX << 16 : next;
}

/* The window in segments. */
static __always_inline __u32 whole_window(__u64 exact)
{
	return (exact + (1 << 15)) >> 16;
}

/* Take in an interval and decide. */
static __always_inline int fixed_decide(struct state *state, struct statistics *stats, struct scratch *scratch)
{
	if (!observe(state, stats, scratch) || !act(scratch))
		return 0;
	state->window = next_window(state, stats, scratch->decision.action);
	scratch->decision.cwnd = whole_window(state->window);
	return 1;
}

#endif
