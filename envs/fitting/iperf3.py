"""The JSON of iperf3 (`iperf3 --json`): TCP as the sender sees it, UDP as the receiver does."""

from __future__ import annotations

from typing import Any

import numpy as np

from orbitcc.common.errors import FileContentError
from orbitcc.envs.fitting.recordings import HEADER_BYTES, Datagrams, Intervals

FEWEST = 5
"""A log needs as many intervals."""
DATAGRAM_HEADER_BYTES = 14 + 20 + 8
DEFAULT_MSS, MOST_MSS = 1448, 65_535


def read(log: Any, file: str) -> Intervals | Datagrams:
    """The intervals of a log; FileContentError when it is not one of iperf3, or too short.

    Intervals are used as iperf3 prints them; omitted ones (`--omit`) and unfinished ones are left out.
    """
    try:
        if log.get("error"):
            raise FileContentError("file", file, f"JSON of iperf3 without an error (it says: {log['error']})")
        start, rows, end = log["start"]["test_start"], log["intervals"], log["end"]
        protocol = start["protocol"]
        rows = [row for row in rows if not row["sum"].get("omitted") and row["sum"]["seconds"] > 0.1]
        if protocol == "UDP":
            return _datagrams(log, rows, file)
        if protocol != "TCP":
            raise FileContentError("file", file, f"JSON of iperf3 over TCP or UDP, not {protocol}")
        if start.get("reverse") or any("retransmits" not in row["sum"] for row in rows):
            raise FileContentError(
                "file", file, "JSON of the sending iperf3, which knows RTT and retransmissions (with -R: of the server)"
            )
        _enough(rows, file)
        mss = int(log["start"].get("tcp_mss") or log["start"].get("tcp_mss_default") or DEFAULT_MSS)
        if not 1 <= mss <= MOST_MSS:
            raise FileContentError("file", file, f"JSON of iperf3 with tcp_mss in 1 .. {MOST_MSS:,}")
        payload = np.array([float(row["sum"]["bytes"]) for row in rows])
        rtt = [[float(s["rtt"]) for s in row["streams"] if s.get("rtt")] for row in rows]
        if not any(rtt):
            raise FileContentError("file", file, "JSON of iperf3 with RTTs, as it has on Linux")
        return Intervals(
            file,
            end_s=_ends(rows),
            wire_bytes=payload * (1 + HEADER_BYTES / mss),
            rtt_ms=np.array([float(np.mean(r)) / 1e3 if r else np.nan for r in rtt]),
            packets=payload / mss,
            resent=np.array([float(row["sum"]["retransmits"]) for row in rows]),
            controller=str(end.get("sender_tcp_congestion", "")),
            payload_bytes=float(end["sum_received"]["bytes"]) if "sum_received" in end else float(payload.sum()),
        )
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        if isinstance(error, FileContentError):
            raise
        raise FileContentError(
            "file", file, f"JSON of iperf3 (`iperf3 --json`); {error!r} is missing or wrong"
        ) from None


def _datagrams(log: Any, rows: list[Any], file: str) -> Datagrams:
    """Of the receiver if the log has it (`-R` or `--get-server-output`), otherwise of the whole test."""
    served = log.get("server_output_json")
    if served:
        rows = [row for row in served["intervals"] if row["sum"]["seconds"] > 0.1]
    if any("lost_packets" not in row["sum"] for row in rows):
        rows = [{"sum": {**log["end"]["sum"], "start": 0.0}}]
    else:
        _enough(rows, file)
    sums = [row["sum"] for row in rows]
    got = np.array([float(s["packets"]) - float(s["lost_packets"]) for s in sums])
    size = float(log["start"]["test_start"]["blksize"]) + DATAGRAM_HEADER_BYTES
    return Datagrams(
        file,
        end_s=_ends(rows),
        wire_bytes=got * size,
        packets=np.array([float(s["packets"]) for s in sums]),
        lost=np.array([float(s["lost_packets"]) for s in sums]),
        jitter_ms=np.array([float(s["jitter_ms"]) for s in sums]),
    )


def _ends(rows: list[Any]) -> Any:
    return np.cumsum([float(row["sum"]["seconds"]) for row in rows])


def _enough(rows: list[Any], file: str) -> None:
    if len(rows) < FEWEST:
        raise FileContentError("file", file, f"JSON of iperf3 with at least {FEWEST} intervals; it has {len(rows)}")
