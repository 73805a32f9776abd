/* Fixed-point arithmetic: logarithm, exponential and what is derived from them.
 *
 * These headers are the only implementation of policies in fixed point. The BPF programs include them, and sim/fixed compiles
 * them for the simulator. Nothing here allocates or recurses, every loop has a constant bound, and no number has more than 64
 * bits. A number in Q24 is an integer in units of 2^-24, in Q20 of 2^-20. Shifts of negative numbers round down, as gcc's and
 * clang's do; divisions are of unsigned numbers, since BPF has no signed division before its version 4. */
#ifndef FIXED_H
#define FIXED_H

#include "fixed_tables.h"

/* The verifier checks a global function once, for all arguments, and not at every call. */
#ifdef __bpf__
#define GLOBAL __attribute__((noinline))
#else
#define GLOBAL static
#endif

#define ONE20 (1LL << 20)
#define ONE24 (1LL << 24)
/* ln 2 and 1 / ln 2 in Q24. */
#define LN_2 11629080LL
#define LOG2_E 24204406LL

/* The value of a table at a position in [0, 1), in Q24: the parabola through the three entries from it on (Newton's forward
 * differences). Result in Q30. */
static __always_inline __u64 interpolate(const __u32 *table, __u64 position)
{
	__u32 i = (position >> 18) & 63;
	__s64 t = position & 0x3ffff;
	__s64 a = table[i], b = table[i + 1], c = table[i + 2];
	__s64 bend = c - 2 * b + a;

	return a + (((b - a) * t) >> 18) + ((bend * t * (t - (1 << 18))) >> 37);
}

/* The exponent of a power of two: times this de Bruijn sequence of order 6, each leaves six other bits at the top. BPF
 * cannot count leading zeros, and branches are slower. */
#define DE_BRUIJN 0x03f79d71b4cb0a89ULL
static const __u8 EXPONENTS[64] = {
	0, 1, 48, 2, 57, 49, 28, 3, 61, 58, 50, 42, 38, 29, 17, 4,
	62, 55, 59, 36, 53, 51, 43, 22, 45, 39, 33, 30, 24, 18, 12, 5,
	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21, 44, 32, 23, 11,
	46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9, 13, 8, 7, 6,
};

/* log2(x) in Q24, within 1e-6; -2^30, which is less than that of any ratio, for 0. Of a constant, which the compiler
 * computes, or in fixed_log2. */
static __always_inline __s64 log2_of(__u64 x)
{
	__u64 top = x, exponent, mantissa;

	if (!x)
		return -(1LL << 30);
	top |= top >> 1;
	top |= top >> 2;
	top |= top >> 4;
	top |= top >> 8;
	top |= top >> 16;
	top |= top >> 32;
	exponent = EXPONENTS[(top - (top >> 1)) * DE_BRUIJN >> 58];
	/* The 24 bits below the highest. */
	mantissa = x << (63 - exponent) >> 39;
	return (__s64)(exponent << 24) + (__s64)((interpolate(LOG2_TABLE, mantissa & 0xffffff) + 32) >> 6);
}

GLOBAL __s64 fixed_log2(__u64 x)
{
	return log2_of(x);
}

/* 2^x in Q24 for x in Q24, with a relative error below 3e-7 and an absolute one below 2^-24; at most 2^30. */
GLOBAL __u64 fixed_exp2(__s64 x)
{
	__s64 whole = x >> 24;
	__u64 value;

	if (whole >= 30)
		return 1ULL << 54;
	if (whole < -25)
		return 0;
	value = interpolate(EXP2_TABLE, x & 0xffffff);
	return whole >= 6 ? value << (whole - 6) : (value + ((1ULL << (6 - whole)) >> 1)) >> (6 - whole);
}

/* The natural logarithm in Q24 from the binary one. */
static __always_inline __s64 natural(__s64 log2)
{
	return (log2 * LN_2) >> 24;
}

/* e^x in Q24, for x in Q24 of at most 2^38. */
static __always_inline __u64 fixed_exp(__s64 x)
{
	return fixed_exp2((x * LOG2_E) >> 24);
}

/* The square root in Q24 of a number in Q32. */
static __always_inline __s64 root(__s64 x)
{
	return x <= 0 ? 0 : (__s64)fixed_exp2((fixed_log2(x) - (32LL << 24)) >> 1);
}

/* tanh(x) in Q20 for x in Q20. */
GLOBAL __s64 fixed_tanh(__s64 x)
{
	__s64 decay = fixed_exp(-((x < 0 ? -x : x) << 5));	/* e^(-2 |x|) */
	__s64 t = ((__u64)(ONE24 - decay) << 20) / (__u64)(ONE24 + decay);

	return x < 0 ? -t : t;
}

/* a / b in Q24, at most `most` (Q24); `most` for b = 0. `a` is below 2^40. */
static __always_inline __s64 ratio(__u64 a, __u64 b, __s64 most)
{
	__u64 quotient;

	if (!b)
		return most;
	quotient = (a << 24) / b;
	return quotient > (__u64)most ? most : (__s64)quotient;
}

static __always_inline __s64 within(__s64 x, __s64 low, __s64 high)
{
	return x < low ? low : x > high ? high : x;
}

static __always_inline __u64 least(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* The verifier does not know the range of a remainder, and the compiler removes a comparison that it finds superfluous. */
static __always_inline __u64 below(__u64 x, __u64 bound)
{
	asm volatile("" : "+r"(x));
	return x < bound ? x : 0;
}

#endif
