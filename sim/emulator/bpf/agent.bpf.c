/* Agents as congestion controllers of a stock kernel (BPF struct_ops).
 *
 * An agent sets a window, and maybe a pacing rate, through a map; the socket's mark says which entry is its own. What
 * the acknowledgements say is summed up there. Packets are paced at a window per smoothed RTT. Under `agent`, the window
 * stands through recoveries and timeouts. Under `linux_agent`, the kernel's recovery acts on it, as under Astraea's
 * module. `cubic` runs the kernel's Cubic, whose window the agent moves from time to time, as in Orca.
 */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#define SLOTS 1024
#define PACING_NEEDED 1
/* Bytes of a segment in the pacing formula. */
#define MTU 1500
#define CA_LOSS 4
/* Orca's server polls so often during the first slow start. */
#define POLL_NS 2000000ULL

struct acks {
	__u64 rtt_sum_us;
	__u64 rtt_placed_us;
	__u64 rate_sum;
	__u64 longest_gap_ns;
	__u32 rtt_least_us;
	__u32 rtt_samples;
	__u32 rate_samples;
	__u32 count;
};

struct slot {
	/* Written by the emulator. */
	__u64 pacing;		/* bytes per second; 0: a window per RTT */
	__u32 cwnd;		/* segments */
	__u32 order;		/* number of the window set last */
	__u32 epoch;		/* sums go to acks[epoch & 1] */
	__u32 gain_milli;	/* windows per RTT, in thousandths */
	__u32 initial_cwnd;
	/* Written here. */
	__u32 passed;		/* a poll has found that Cubic's first slow start is over */
	__u64 last_ack_ns;
	__u64 next_poll_ns;
	__u32 seen_epoch;
	__u32 done_order;
	__u32 lost;
	__u32 unused;
	struct acks acks[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

static __always_inline struct slot *slot_of(struct sock *sk)
{
	__u32 key = sk->sk_mark - 1;

	return bpf_map_lookup_elem(&slots, &key);
}

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline void set_pacing(struct sock *sk, struct slot *s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 rate = s->pacing;

	if (!rate && tp->srtt_us) {
		__u32 window = tp->snd_cwnd;

		if (tp->packets_out > window)
			window = tp->packets_out;
		rate = (__u64)MTU * window * 8000ULL * s->gain_milli / tp->srtt_us;
	}
	if (rate)
		sk->sk_pacing_rate = rate;
}

static __always_inline void set_window(struct sock *sk, struct slot *s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 cwnd = s->cwnd;

	if (cwnd > tp->snd_cwnd_clamp)
		cwnd = tp->snd_cwnd_clamp;
	if (cwnd)
		tp->snd_cwnd = cwnd;
}

/* TCP asks for this whenever it is about to send, so that a new window holds from the moment on in which the emulator has
 * TCP try, and not from the next acknowledgement on: after a handover that may be long. */
#define LEAST_BURST 2	/* Linux's own answer (net.ipv4.tcp_min_tso_segs) */

static __always_inline void count(struct tcp_sock *tp, struct slot *s, long rtt_us, long delivered, long interval_us)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 epoch = s->epoch;
	struct acks *a = &s->acks[epoch & 1];

	if (epoch != s->seen_epoch) {
		s->seen_epoch = epoch;
		a->rtt_sum_us = a->rtt_placed_us = a->rate_sum = a->longest_gap_ns = 0;
		a->rtt_samples = a->rate_samples = a->count = 0;
		a->rtt_least_us = ~0U;
	}
	if (s->last_ack_ns && now - s->last_ack_ns > a->longest_gap_ns)
		a->longest_gap_ns = now - s->last_ack_ns;
	s->last_ack_ns = now;
	a->count++;
	if (rtt_us > 0) {
		a->rtt_sum_us += rtt_us;
		a->rtt_placed_us += (__u64)a->rtt_samples * rtt_us;
		if (rtt_us < a->rtt_least_us)
			a->rtt_least_us = rtt_us;
		a->rtt_samples++;
	}
	if (delivered >= 0 && interval_us > 0) {
		a->rate_sum += (__u64)delivered * tp->mss_cache * 1000000ULL / (__u64)interval_us;
		a->rate_samples++;
	}
	s->lost = tp->lost;
}

SEC("struct_ops/agent_init")
void BPF_PROG(agent_init, struct sock *sk)
{
	struct slot *s = slot_of(sk);

	sk->sk_pacing_status = PACING_NEEDED;
	if (!s)
		return;
	if (!s->cwnd)
		s->cwnd = s->initial_cwnd;
	set_window(sk, s);
	set_pacing(sk, s);
}

SEC("struct_ops/agent_control")
void BPF_PROG(agent_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct slot *s = slot_of(sk);

	if (!s)
		return;
	count(tcp_sk(sk), s, rs->rtt_us, rs->delivered, rs->interval_us);
	set_window(sk, s);
	set_pacing(sk, s);
}

SEC("struct_ops/agent_burst")
__u32 BPF_PROG(agent_burst, struct sock *sk)
{
	struct slot *s = slot_of(sk);

	if (s && s->order != s->done_order) {
		s->done_order = s->order;
		set_window(sk, s);
		set_pacing(sk, s);
	}
	return LEAST_BURST;
}

/* Under the kernel's recovery, and under Cubic: the kernel computes a pacing rate of its own with every ACK. */
static __always_inline __u32 take_order(struct sock *sk)
{
	struct slot *s = slot_of(sk);

	if (s) {
		if (s->order != s->done_order) {
			s->done_order = s->order;
			set_window(sk, s);
		}
		set_pacing(sk, s);
	}
	return LEAST_BURST;
}

SEC("struct_ops/agent_state")
void BPF_PROG(agent_state, struct sock *sk, __u8 new_state)
{
	struct slot *s = slot_of(sk);

	/* The kernel has just cut the window for a timeout. */
	if (s && new_state == CA_LOSS)
		set_window(sk, s);
}

SEC("struct_ops/agent_ssthresh")
__u32 BPF_PROG(agent_ssthresh, struct sock *sk)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	return cwnd > 10 ? cwnd : 10;
}

SEC("struct_ops/agent_undo")
__u32 BPF_PROG(agent_undo, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

/* Offered by tcp_cubic to programs of this kind. */
extern void cubictcp_init(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

SEC("struct_ops/linux_avoid")
void BPF_PROG(linux_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC("struct_ops/linux_acked")
void BPF_PROG(linux_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct slot *s = slot_of(sk);

	if (s)
		count(tp, s, sample->rtt_us, tp->rate_delivered, tp->rate_interval_us);
}

SEC("struct_ops/linux_burst")
__u32 BPF_PROG(linux_burst, struct sock *sk)
{
	return take_order(sk);
}

SEC("struct_ops/cubic_init")
void BPF_PROG(cubic_init, struct sock *sk)
{
	sk->sk_pacing_status = PACING_NEEDED;
	cubictcp_init(sk);
}

SEC("struct_ops/cubic_avoid")
void BPF_PROG(cubic_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	cubictcp_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/cubic_ssthresh")
__u32 BPF_PROG(cubic_ssthresh, struct sock *sk)
{
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops/cubic_state")
void BPF_PROG(cubic_state, struct sock *sk, __u8 new_state)
{
	cubictcp_state(sk, new_state);
}

SEC("struct_ops/cubic_event")
void BPF_PROG(cubic_event, struct sock *sk, enum tcp_ca_event event)
{
	cubictcp_cwnd_event(sk, event);
}

SEC("struct_ops/cubic_acked")
void BPF_PROG(cubic_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct slot *s = slot_of(sk);

	cubictcp_acked(sk, sample);
	if (!s)
		return;
	count(tp, s, sample->rtt_us, tp->rate_delivered, tp->rate_interval_us);
	if (!s->passed && s->last_ack_ns >= s->next_poll_ns) {
		s->next_poll_ns = s->last_ack_ns + POLL_NS;
		if (tp->snd_ssthresh < tp->snd_cwnd)
			s->passed = 1;
		else
			tp->snd_cwnd += tp->snd_cwnd / 10;
	}
}

SEC("struct_ops/cubic_burst")
__u32 BPF_PROG(cubic_burst, struct sock *sk)
{
	return take_order(sk);
}

SEC("struct_ops/cubic_undo")
__u32 BPF_PROG(cubic_undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops agent = {
	.init = (void *)agent_init,
	.cong_control = (void *)agent_control,
	.set_state = (void *)agent_state,
	.ssthresh = (void *)agent_ssthresh,
	.undo_cwnd = (void *)agent_undo,
	.min_tso_segs = (void *)agent_burst,
	.name = "orl_agent",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops linux_agent = {
	.init = (void *)agent_init,
	.cong_avoid = (void *)linux_avoid,
	.pkts_acked = (void *)linux_acked,
	.ssthresh = (void *)agent_ssthresh,
	.undo_cwnd = (void *)agent_undo,
	.min_tso_segs = (void *)linux_burst,
	.name = "orl_linux",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops cubic = {
	.init = (void *)cubic_init,
	.cong_avoid = (void *)cubic_avoid,
	.ssthresh = (void *)cubic_ssthresh,
	.set_state = (void *)cubic_state,
	.cwnd_event = (void *)cubic_event,
	.pkts_acked = (void *)cubic_acked,
	.undo_cwnd = (void *)cubic_undo,
	.min_tso_segs = (void *)cubic_burst,
	.name = "orl_cubic",
};
