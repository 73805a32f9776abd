"""The table of the raw statistics, from the native table that declares them."""

from __future__ import annotations

import math

from orbitcc.envs.environments.presets import STATISTICS, Statistic

SOURCES = {"kernel": "yes", "per-ack": "with eBPF", "oracle": "no"}
INFINITE = {
    "capacity_bps": "infinite if no link of the path has a rate",
    "fair_share_bps": "infinite if no link of the path has a rate",
    "buffer_bytes": "infinite if the queue has no limit",
    "handover_in_s": "infinite if there is none",
    "handover_since_s": "infinite if there was none",
    "reported_handover_in_s": "infinite if none is reported",
    "reported_handover_since_s": "infinite if none was reported",
}
"""Which columns are infinite, and when."""


def special(statistic: Statistic) -> str:
    """When a column is NaN or infinite."""
    if "NaN" in statistic.meaning:
        return "NaN without an RTT sample in the interval"
    return INFINITE.get(statistic.name, "–")


def span(statistic: Statistic) -> str:
    """The range of a column as an interval; infinity is in it only where :data:`INFINITE` says so."""
    low = "(-∞" if math.isinf(statistic.low) else f"[{statistic.low:.10g}"
    closing = "]" if not math.isinf(statistic.high) or statistic.name in INFINITE else ")"
    high = "∞" if math.isinf(statistic.high) else f"{statistic.high:.10g}"
    return f"{low}, {high}{closing}"


def table() -> str:
    """A row for every column."""
    rows = ["| name | unit | range | meaning | NaN or infinite | from a kernel |", "|---|---|---|---|---|---|"]
    for s in STATISTICS:
        meaning = s.meaning.replace("; NaN without a sample", "").replace("|", "\\|")
        rows.append(f"| `{s.name}` | {s.unit} | {span(s)} | {meaning} | {special(s)} | {SOURCES[s.source]} |")
    return "\n".join([*rows, ""])
