"""The JSON of iperf3 (`iperf3 --json`, `--json-stream`): TCP as the sender sees it, UDP as the receiver does."""

from __future__ import annotations

from typing import Any

import numpy as np

from orbitcc.common.errors import FileContentError, quoted
from orbitcc.common.files import parse_json
from orbitcc.envs.fitting.recordings import HEADER_BYTES, Datagrams, Intervals

FEWEST = 5
"""A log needs as many intervals."""
SHORT = 0.5
"""A last interval below this share of the median is left out."""
DATAGRAM_HEADER_BYTES = 14 + 20 + 8
DEFAULT_MSS, MOST_MSS = 1448, 65_535


def from_stream(text: str) -> Any:
    """The log of `iperf3 --json-stream`, one event per line, as that of `--json`; None for text that is none.

    The last line may be cut off, and the end may be missing, or be an error: the intervals before it count. Raises
    ValueError for a line that is not JSON.
    """
    first, _, rest = text.lstrip().partition("\n")
    if '"event"' not in first or not first.rstrip().endswith("}"):
        return None
    log: dict[str, Any] = {"intervals": [], "end": {}}
    lines = [first, *rest.splitlines()]
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = parse_json(line)
            kind, data = event["event"], event.get("data")
        except (ValueError, KeyError, TypeError, AttributeError):
            if number == len(lines) and not text.endswith("\n"):
                break
            raise ValueError(f"an event of --json-stream in each line; {quoted(number, line)}") from None
        if kind == "interval":
            log["intervals"].append(data)
        elif kind == "error" and log["intervals"]:
            continue
        elif kind == "start" and "start" in log:
            raise ValueError(f"one test; line {number} begins another (split the file there)")
        else:
            log[str(kind)] = data
    return log


def read(log: Any, file: str) -> Intervals | Datagrams:
    """The intervals of a log; FileContentError when it is not one of iperf3, or too short.

    Intervals are used as iperf3 prints them, with the sum of parallel streams; omitted ones (`--omit`) and a short last
    one are left out. With `--get-server-output`, the end that sent counts over TCP, the one that received over UDP.
    """
    try:
        if log.get("error"):
            raise FileContentError("file", file, f"JSON of iperf3 without an error (it says: {log['error']})")
        start = log["start"]["test_start"]
        protocol = start["protocol"]
        if start.get("bidir") or any("sum_bidir_reverse" in row for row in log["intervals"]):
            raise FileContentError("file", file, "JSON of iperf3 in one direction: without --bidir, with -R or not")
        rows = _rows(log)
        if protocol == "UDP":
            return _datagrams(log, rows, file)
        if protocol != "TCP":
            raise FileContentError("file", file, f"JSON of iperf3 over TCP or UDP, not {protocol}")
        served = log.get("server_output_json")
        if not _sent(rows) and isinstance(served, dict):
            log, rows = served, _rows(served)
        if not _sent(rows):
            raise FileContentError(
                "file", file, "JSON of the iperf3 that sent, which knows RTTs and retransmissions: of the client, and "
                "with -R of the server (`iperf3 -s --json`, or --get-server-output with such a server)"
            )  # fmt: skip
        end = log["end"]
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


def _rows(log: Any) -> list[Any]:
    """The intervals of a log without the omitted ones and a short last one."""
    rows = [row for row in log["intervals"] if not row["sum"].get("omitted")]
    lengths = [float(row["sum"]["seconds"]) for row in rows]
    return rows[:-1] if rows and lengths[-1] < SHORT * float(np.median(lengths)) else rows


def _sent(rows: list[Any]) -> bool:
    """Whether the end that wrote these intervals sent the data; iperf3 before 3.7 tells by the retransmissions only."""
    return all("retransmits" in row["sum"] and row["sum"].get("sender") is not False for row in rows)


def _datagrams(log: Any, rows: list[Any], file: str) -> Datagrams:
    """Of the receiver if the log has it (`-R` or `--get-server-output`), otherwise of the whole test."""
    served = log.get("server_output_json")
    if any("lost_packets" not in row["sum"] for row in rows) and isinstance(served, dict):
        rows = _rows(served)
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
    """When the intervals end, from the start of the first; ValueError when their times do not rise."""
    sums = [row["sum"] for row in rows]
    if all("end" in s and "start" in s for s in sums):
        ends = np.array([float(s["end"]) for s in sums]) - float(sums[0]["start"])
    else:
        ends = np.cumsum([float(s["seconds"]) for s in sums])
    if not (np.diff(ends, prepend=0.0) > 0).all():
        raise ValueError("the times of the intervals")
    return ends


def _enough(rows: list[Any], file: str) -> None:
    if len(rows) < FEWEST:
        raise FileContentError("file", file, f"JSON of iperf3 with at least {FEWEST} intervals; it has {len(rows)}")
