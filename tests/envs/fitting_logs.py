"""Logs in the formats of ping (iputils 20221126), iperf3 3.12 and pcap, made from known numbers."""

import json
import struct


def ping_line(number, rtt_ms, stamp_s=None):
    stamp = "" if stamp_s is None else f"[{stamp_s:.6f}] "
    return f"{stamp}64 bytes from 192.0.2.1: icmp_seq={number} ttl=55 time={rtt_ms:.3g} ms"


def ping_log(rtts_ms, *, interval_s=0.2, stamps=False, summary=True):
    """rtts_ms: None is a lost probe."""
    lines = ["PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."]
    for k, rtt in enumerate(rtts_ms):
        if rtt is not None:
            at = 1_700_000_000 + k * interval_s + rtt / 1e3 if stamps else None
            lines.append(ping_line(k + 1, rtt, at))
    if summary:
        got, n = sum(r is not None for r in rtts_ms), len(rtts_ms)
        lines += [
            "",
            "--- 192.0.2.1 ping statistics ---",
            f"{n} packets transmitted, {got} received, {100 * (1 - got / n):.6g}% packet loss, "
            f"time {1000 * interval_s * (n - 1):.0f}ms",
            "rtt min/avg/max/mdev = 20.100/24.500/31.000/2.500 ms",
        ]
    return "\n".join(lines) + "\n"


def iperf3_tcp(mbps, rtts_ms, resent, *, reverse=0):
    """The sender's log: goodput in Mbit/s, RTT in ms and retransmissions of each second."""
    intervals = []
    for k, (rate, rtt, again) in enumerate(zip(mbps, rtts_ms, resent, strict=True)):
        shared = {
            "start": float(k), "end": k + 1.0, "seconds": 1.0, "bytes": round(rate * 125_000),
            "bits_per_second": rate * 1e6, "retransmits": again, "omitted": False, "sender": True,
        }  # fmt: skip
        stream = {
            "socket": 5,
            **shared,
            "snd_cwnd": 289_600,
            "snd_wnd": 3_000_000,
            "rtt": round(rtt * 1e3),
            "rttvar": 500,
        }
        intervals.append({"streams": [stream], "sum": shared})
    total = sum(row["sum"]["bytes"] for row in intervals)
    received = {"start": 0, "end": len(mbps), "seconds": len(mbps), "bytes": total, "sender": True}
    return json.dumps(
        {
            "start": {
                "version": "iperf 3.12", "tcp_mss_default": 1448, "timestamp": {"timesecs": 1_795_594_349},
                "test_start": {"protocol": "TCP", "num_streams": 1, "blksize": 131_072, "reverse": reverse},
            },
            "intervals": intervals,
            "end": {"sum_received": received, "sender_tcp_congestion": "cubic", "receiver_tcp_congestion": "cubic"},
        },
        indent="\t",
    )  # fmt: skip


def iperf3_udp(packets, lost, jitter_ms, *, size=1448):
    """The receiver's log (`-R`): packets, lost ones and jitter of each second."""
    intervals = []
    for k, (n, gone, jitter) in enumerate(zip(packets, lost, jitter_ms, strict=True)):
        shared = {
            "start": float(k), "end": k + 1.0, "seconds": 1.0, "bytes": (n - gone) * size, "jitter_ms": jitter,
            "lost_packets": gone, "packets": n, "omitted": False, "sender": False,
        }  # fmt: skip
        intervals.append({"streams": [{"socket": 5, **shared}], "sum": shared})
    whole = {"seconds": len(packets), "jitter_ms": jitter_ms[-1], "lost_packets": sum(lost), "packets": sum(packets)}
    start = {"version": "iperf 3.12", "test_start": {"protocol": "UDP", "blksize": size, "reverse": 1}}
    return json.dumps({"start": start, "intervals": intervals, "end": {"sum": whole}})


def pcap_file(packets, *, ethernet=True):
    """packets: (time in s, flow, from the sender or not, seq or ack, payload); timestamps in microseconds."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1 if ethernet else 101)]
    for t, flow, forth, number, payload in sorted(packets):
        ends = (bytes((10, 1, 0, flow)), bytes((10, 2, 0, flow)))
        source, target = ends if forth else ends[::-1]
        ports = (40_000, 5201) if forth else (5201, 40_000)
        tcp = struct.pack(">HHIIBBHHH", *ports, number if forth else 1, 1 if forth else number, 5 << 4, 0x10, 500, 0, 0)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + payload, 0, 0, 64, 6, 0) + source + target
        kept = (bytes(12) + b"\x08\x00" if ethernet else b"") + ip + tcp
        length = len(kept) + payload
        out.append(struct.pack("<IIII", int(t), round(t % 1 * 1e6), len(kept), length) + kept)
    return b"".join(out)
