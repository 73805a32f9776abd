/* What the program reads and writes of the kernel's structures. Offsets are those of the running kernel (CO-RE): only
 * names matter here, and fields that are not used are left out. */
#ifndef KERNEL_TYPES_H
#define KERNEL_TYPES_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_F_NO_PREALLOC 1
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_SK_STORAGE_GET_F_CREATE 1

#define RELOCATED __attribute__((preserve_access_index))

struct netns_ipv4 {
	int sysctl_tcp_wmem[3];
} RELOCATED;

struct net {
	struct netns_ipv4 ipv4;
} RELOCATED;

typedef struct {
	struct net *net;
} RELOCATED possible_net_t;

struct sock_common {
	possible_net_t skc_net;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
	__u32 sk_mark;
	__u8 sk_userlocks;
	int sk_sndbuf;
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
} RELOCATED;

struct inet_sock {
	struct sock sk;
} RELOCATED;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
} RELOCATED;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 mss_cache;
	__u32 srtt_us;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 lost;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 data_segs_out;
	__u16 total_rto;
	__u64 bytes_acked;
} RELOCATED;

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
} RELOCATED;

struct rate_sample {
	__s32 delivered;
	long interval_us;
	long rtt_us;
	__u32 prior_in_flight;
} RELOCATED;

enum tcp_ca_event {
	CA_EVENT_TX_START,
};

/* The whole of the interface that is filled in below. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*min_tso_segs)(struct sock *sk);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#endif
