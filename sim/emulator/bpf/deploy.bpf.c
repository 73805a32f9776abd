/* A trained policy as a congestion control of a stock kernel (BPF struct_ops), with no process beside it.
 *
 * The policy is data: `orbitcc deploy` writes its integers and its name into the object (`policy`, `.name`). Every socket
 * has its state in socket storage. A decision is due when an interval is over; it is made when TCP next calls this program:
 * at an acknowledgement, or when TCP is about to send (after its own timers, after a write, and after a pause of pacing).
 * Between these calls nothing of the flow changes, so that all decisions of a silence are made then, one by one, with the
 * statistics that each would have had in time. No BPF timer is used: it could not set a window, because no BPF program but
 * one that TCP calls may write to a socket.
 *
 * As in the simulator there is no slow start, and packets are paced at `pacing_gain` windows per smoothed RTT. The window
 * stands through recoveries and timeouts. With KERNEL_RECOVERY (deploy_kernel.bpf.c) the kernel's recovery acts on it: the
 * kernel leaves its own to a program that has `cong_control`, so that this one has none, and reads acknowledgements in
 * `pkts_acked`. Whatever is not as it should be hands the flow to the kernel's Cubic for good. The
 * safety filter hands it to a Cubic of its own (safety.h), which hands it back.
 */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "deploy.h"

char LICENSE[] SEC("license") = "GPL";

#define PACING_NONE 0
#define PACING_NEEDED 1
/* TCP_CONG_NON_RESTRICTED: every program may choose it, as Cubic and BBR. */
#define NON_RESTRICTED 1
/* Bytes of a segment in the pacing formula, as in the simulator. */
#define MTU 1500
/* Linux's own answer (net.ipv4.tcp_min_tso_segs). */
#define LEAST_BURST 2
#define LEAST_WINDOW 2
#define LEAST_THRESHOLD 10
#define CA_LOSS 4
#define SOCK_SNDBUF_LOCK 1
#define SOL_TCP 6
#define TCP_CONGESTION 13
/* Bounds of intervals that depend on the RTT. */
#define LONGEST_NS 10000000000LL
/* Decisions of one silence that are made one by one; the time of further ones counts as one interval. */
#define CATCH_UP 32
/* A counter that is ahead of its next reading has wrapped or is broken. */
#define HALF (1U << 31)

#ifdef KERNEL_RECOVERY
#define HOLDS 0
#else
#define HOLDS 1
#endif

struct counters {
	__u64 opened;
	__u64 closed;
	__u64 acks;
	__u64 decisions;
	__u64 fallbacks;
	__u64 ack_ns;		/* in cong_control, without decisions */
	__u64 decision_ns;
	__u64 taken_over;	/* by the safety filter: Cubic decides until the path is inside the training range again */
	__u64 handed_back;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

#define COUNT(field, amount) do {						\
	__u32 zero = 0;								\
	struct counters *c = bpf_map_lookup_elem(&counters, &zero);		\
	if (c)									\
		__sync_fetch_and_add(&c->field, amount);			\
} while (0)

/* The kernel's Cubic from here on: something is not as it should be. */
static __noinline void fall_back(struct sock *sk)
{
	char cubic[] = "cubic";

	COUNT(fallbacks, 1);
	if (sk->sk_pacing_status == PACING_NEEDED)
		sk->sk_pacing_status = PACING_NONE;
	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, cubic, sizeof(cubic));
}

/* The largest window that the socket's memory can hold, in segments. */
static __always_inline __u32 most_segments(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 bytes = sk->sk_sndbuf;

	if (!(sk->sk_userlocks & SOCK_SNDBUF_LOCK)) {
		__u32 most = sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_wmem[2];

		if (most > bytes)
			bytes = most;
	}
	if (tp->mss_cache)
		bytes /= tp->mss_cache;
	return bytes < tp->snd_cwnd_clamp ? bytes : tp->snd_cwnd_clamp;
}

static __always_inline void set_window(struct sock *sk, struct flow *f)
{
	tcp_sk(sk)->snd_cwnd = f->cwnd;
}

static __always_inline void set_pacing(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 window = tp->snd_cwnd;

	if (tp->packets_out > window)
		window = tp->packets_out;
	if (tp->srtt_us)
		sk->sk_pacing_rate = (__u64)MTU * window * 8000000ULL / tp->srtt_us *
				     policy.program.parameters.pacing_gain >> 16;
}

static __always_inline void read_totals(struct tcp_sock *tp, struct totals *t)
{
	t->lost = tp->lost;
	t->sent = tp->data_segs_out;
	t->acked_bytes = tp->bytes_acked;
}

/* An interval begins. */
static __always_inline void begin(struct flow *f, __u64 now)
{
	f->since_ns = now;
	f->before = f->now;
	f->rtt_sum_us = f->rtt_placed_us = f->rate_sum = f->longest_gap_ns = 0;
	f->rtt_samples = f->rate_samples = 0;
	f->rtt_least_us = ~0U;
}

/* Until the next decision, as in the simulator (Interval::after_rtt). */
static __always_inline __u64 interval_ns(const struct flow *f)
{
	__u32 rtts = policy.program.parameters.interval_rtts;

	if (!rtts || !f->rtt_ns)
		return policy.program.parameters.interval_ns;
	return within((least(f->rtt_ns, MOST_RTT) >> 8) * rtts >> 8, policy.program.parameters.interval_least_ns, LONGEST_NS);
}

/* The window of the policy, or of Cubic where the safety filter has taken over; within the socket's memory. */
static __always_inline void choose_window(struct sock *sk, struct flow *f, struct statistics *s)
{
	__u8 before = f->safety.taken_over;
	__u32 cwnd = hold(&f->safety, &f->state, s, f->scratch.decision.cwnd), most = most_segments(sk);

	if (f->safety.taken_over != before) {
		if (before)
			COUNT(handed_back, 1);
		else
			COUNT(taken_over, 1);
	}
	if (cwnd > most) {
		cwnd = most;
		f->safety.cubic.cwnd = least(f->safety.cubic.cwnd, (__u64)most << 16);
	}
	f->cwnd = cwnd > LEAST_WINDOW ? cwnd : LEAST_WINDOW;
}

/* Close the interval that ends at `at`, and decide. False: the flow is to be Cubic's. */
static __noinline int decide(struct sock *sk, struct flow *f, __u64 at, __u32 in_flight)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct statistics s;
	__u32 lost, sent, rtos;
	__u64 gap;

	if (!f)
		return 0;
	if (!HOLDS)
		f->cwnd = tp->snd_cwnd;
	lost = f->now.lost - f->before.lost;
	sent = f->now.sent - f->before.sent;
	rtos = tp->total_rto;
	s.time_ns = at - f->started_ns;
	s.interval_ns = at - f->since_ns;
	s.acked_bytes = f->now.acked_bytes - f->before.acked_bytes;
	s.mss = tp->mss_cache;
	if (!s.mss || !s.interval_ns || lost > HALF || sent > HALF || s.acked_bytes > MOST_BYTES)
		return 0;
	s.lost = lost;
	s.sent_bytes = (__u64)sent * s.mss;
	of_samples(f->rtt_samples, f->rtt_sum_us, f->rtt_placed_us, &s);
	s.rtt_least_ns = f->rtt_samples ? f->rtt_least_us * 1000ULL : 0;
	s.srtt_ns = tp->srtt_us * 125ULL;
	gap = at - f->last_ack_ns;
	s.ack_gap_ns = f->longest_gap_ns > gap ? f->longest_gap_ns : gap;
	s.delivery_rate = f->rate_samples ? f->rate_sum / f->rate_samples : 0;
	s.pacing_rate = sk->sk_pacing_rate;
	s.cwnd = f->cwnd;
	s.in_flight = in_flight;
	s.rtos = rtos - f->rtos;
	f->rtos = rtos;
	if (!fixed_decide(&f->state, &s, &f->scratch))
		return 0;
	choose_window(sk, f, &s);
	begin(f, at);
	f->rtt_ns = s.rtt_mean_ns ? s.rtt_mean_ns : s.srtt_ns;
	f->next_ns = at + interval_ns(f);
	set_window(sk, f);
	set_pacing(sk);
	return 1;
}

/* Packets in flight (Q8) after some time, without an acknowledgement: paced, and at most a window. */
static __always_inline __u64 in_time(__u64 flight, __u32 cwnd, __u64 ns, __u64 rtt_ns)
{
	__u64 grown = flight + ((__u64)cwnd << 8) * (ns >> 10) / (rtt_ns >> 10 | 1);
	__u64 most = (__u64)cwnd << 8;

	return grown < most ? grown : flight > most ? flight : most;
}

/* The flow begins with its first segment: the time of the handshake is no pause of its acknowledgements. The first round
 * trip is silent for certain. Its decisions are made now, since TCP would not call this program in time: the window is that
 * of its end. As many segments as the growing window and pacing would have let out are spread over it. */
static __noinline void start(struct sock *sk, struct flow *f, __u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 interval = policy.program.parameters.interval_ns, rtt_ns = tp->srtt_us * 125ULL, at = now, flight, made = 0;
	__u32 initial;
	int k __attribute__((unused));

	if (!f)
		return;
	read_totals(tp, &f->now);
	f->rtos = tp->total_rto;
	f->started_ns = f->last_ack_ns = now;
	/* On a grid of the clock, as in the simulator (next_on_grid). */
	f->next_ns = interval ? (now / interval + 1) * interval : now;
	begin(f, now);
	if (tp->packets_out)
		return;		/* an old connection that has just got this congestion control */
	initial = f->cwnd;
	flight = (__u64)initial << 8;
	bpf_repeat(CATCH_UP, k) {
		if (f->next_ns >= now + rtt_ns)
			break;
		flight = in_time(flight, f->cwnd, f->next_ns - at, rtt_ns);
		at = f->next_ns;
		if (!decide(sk, f, at, flight >> 8))
			break;
		made++;
	}
	COUNT(decisions, made);
	/* No condition on `made`: the verifier would have to count with the loop. */
	if (!rtt_ns)
		return;
	flight = in_time(flight, f->cwnd, now + rtt_ns - at, rtt_ns) - ((__u64)initial << 8);
	if (flight)
		sk->sk_pacing_rate = MTU * (flight * 1000000ULL / (rtt_ns / 1000)) >> 8;
}

/* Make the decisions that are due. False: the flow is Cubic's now. */
static __always_inline int make_decisions(struct sock *sk, struct flow *f, __u64 now, __u32 in_flight)
{
	__u64 made = 0, began;
	int ok = 1, k __attribute__((unused));

	if (now < f->last_ack_ns) {
		fall_back(sk);
		return 0;
	}
	if (now < f->next_ns)
		return 1;
	began = bpf_ktime_get_ns();
	bpf_repeat(CATCH_UP, k) {
		if (!ok || now < f->next_ns)
			break;
		ok = decide(sk, f, f->next_ns, in_flight);
		made++;
	}
	if (now >= f->next_ns)
		f->next_ns = now;
	COUNT(decisions, made);
	COUNT(decision_ns, bpf_ktime_get_ns() - began);
	if (!ok)
		fall_back(sk);
	return ok;
}

SEC("struct_ops/deploy_init")
void BPF_PROG(deploy_init, struct sock *sk)
{
	struct flow *f;

	COUNT(opened, 1);
	bpf_sk_storage_delete(&flows, sk);
	f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);	/* all zero */
	if (!f) {
		fall_back(sk);
		return;
	}
	f->cwnd = tcp_sk(sk)->snd_cwnd > LEAST_WINDOW ? tcp_sk(sk)->snd_cwnd : LEAST_WINDOW;
	if (sk->sk_pacing_status == PACING_NONE)
		sk->sk_pacing_status = PACING_NEEDED;
	set_pacing(sk);
}

SEC("struct_ops/deploy_release")
void BPF_PROG(deploy_release, struct sock *sk)
{
	COUNT(closed, 1);
	bpf_sk_storage_delete(&flows, sk);
}

/* An acknowledgement: the decisions that were due before it, then its samples (delivered < 0: none). */
static __always_inline void acknowledged(struct sock *sk, long rtt_us, long delivered, long interval_us, __u32 in_flight)
{
	__u64 now = bpf_ktime_get_ns();
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!f)
		return;
	if (!f->started_ns)
		start(sk, f, now);
	/* The kernel has set its own rate at the last acknowledgement. */
	if (!HOLDS && f->last_ack_ns != f->started_ns)
		set_pacing(sk);
	if (!make_decisions(sk, f, now, in_flight))
		return;
	if (now - f->last_ack_ns > f->longest_gap_ns)
		f->longest_gap_ns = now - f->last_ack_ns;
	f->last_ack_ns = now;
	if (rtt_us > 0) {
		f->rtt_sum_us += rtt_us;
		f->rtt_placed_us += (__u64)f->rtt_samples * rtt_us;
		if (rtt_us < f->rtt_least_us)
			f->rtt_least_us = rtt_us;
		f->rtt_samples++;
	}
	if (delivered >= 0 && interval_us > 0) {
		f->rate_sum += (__u64)delivered * tp->mss_cache * 1000000ULL / (__u64)interval_us;
		f->rate_samples++;
	}
	read_totals(tp, &f->now);
	if (HOLDS)
		set_window(sk, f);
	set_pacing(sk);
	COUNT(acks, 1);
	COUNT(ack_ns, bpf_ktime_get_ns() - now);
}

static __always_inline __u32 in_flight_now(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

#ifdef KERNEL_RECOVERY
SEC("struct_ops/deploy_avoid")
void BPF_PROG(deploy_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

/* The kernel's sample of the delivery rate is that of the acknowledgement before. */
SEC("struct_ops/deploy_acked")
void BPF_PROG(deploy_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);

	acknowledged(sk, sample->rtt_us, tp->rate_delivered, tp->rate_interval_us,
		     in_flight_now(tp) + sample->pkts_acked);
}
#else
SEC("struct_ops/deploy_control")
void BPF_PROG(deploy_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	acknowledged(sk, rs->rtt_us, rs->delivered, rs->interval_us, rs->prior_in_flight);
}
#endif

/* TCP asks for this whenever it is about to send. */
SEC("struct_ops/deploy_burst")
__u32 BPF_PROG(deploy_burst, struct sock *sk)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 now = bpf_ktime_get_ns();

	if (!f)
		return LEAST_BURST;
	if (!f->started_ns) {
		start(sk, f, now);
	} else if (now >= f->next_ns) {
		read_totals(tp, &f->now);
		if (!tp->packets_out && now - f->next_ns >= interval_ns(f)) {
			/* Nothing was to be sent, and nothing to be decided. */
			f->last_ack_ns = now;
			f->next_ns = now + interval_ns(f);
			begin(f, now);
		} else {
			make_decisions(sk, f, now, in_flight_now(tp));
		}
	}
	/* Whatever rate the kernel has set; that of the first round trip stays. */
	if (!HOLDS && f->last_ack_ns != f->started_ns)
		set_pacing(sk);
	return LEAST_BURST;
}

#ifdef KERNEL_RECOVERY
/* A recovery begins, or a timeout is about to cut the window: first the decisions that were due before it. */
SEC("struct_ops/deploy_ssthresh")
__u32 BPF_PROG(deploy_ssthresh, struct sock *sk)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct tcp_sock *tp = tcp_sk(sk);

	if (f && f->started_ns)
		make_decisions(sk, f, bpf_ktime_get_ns(), tp->packets_out - tp->sacked_out);
	return tp->snd_cwnd > LEAST_THRESHOLD ? tp->snd_cwnd : LEAST_THRESHOLD;
}
#else
SEC("struct_ops/deploy_state")
void BPF_PROG(deploy_state, struct sock *sk, __u8 new_state)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);

	/* The kernel has just cut the window for a timeout. */
	if (f && new_state == CA_LOSS)
		set_window(sk, f);
}

SEC("struct_ops/deploy_ssthresh")
__u32 BPF_PROG(deploy_ssthresh, struct sock *sk)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	return cwnd > LEAST_THRESHOLD ? cwnd : LEAST_THRESHOLD;
}
#endif

SEC("struct_ops/deploy_undo")
__u32 BPF_PROG(deploy_undo, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops deploy = {
	.init = (void *)deploy_init,
	.release = (void *)deploy_release,
#ifdef KERNEL_RECOVERY
	.cong_avoid = (void *)deploy_avoid,
	.pkts_acked = (void *)deploy_acked,
#else
	.cong_control = (void *)deploy_control,
	.set_state = (void *)deploy_state,
#endif
	.ssthresh = (void *)deploy_ssthresh,
	.undo_cwnd = (void *)deploy_undo,
	.min_tso_segs = (void *)deploy_burst,
	.flags = NON_RESTRICTED,
	.name = "orbitcc_policy_",
};
