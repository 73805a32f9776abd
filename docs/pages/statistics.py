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


def meaning(statistic: Statistic) -> str:
    """What a column means, and when it is NaN or infinite."""
    text = statistic.meaning.rstrip(".").replace("NaN without a sample", "NaN without an RTT sample")
    special = INFINITE.get(statistic.name)
    return f"{text}; {special}." if special and "infinite" not in text else f"{text}."


def span(statistic: Statistic) -> str:
    """The range of a column as an interval; infinity is in it only where :data:`INFINITE` says so."""
    low = "(-∞" if math.isinf(statistic.low) else f"[{statistic.low:.10g}"
    closing = "]" if not math.isinf(statistic.high) or statistic.name in INFINITE else ")"
    high = "∞" if math.isinf(statistic.high) else f"{statistic.high:.10g}"
    return f"{low}, {high}{closing}{' or NaN' if 'NaN' in statistic.meaning else ''}"


def table() -> str:
    """A row for every column."""
    rows = ["| name | unit | range | from a kernel | meaning |", "|---|---|---|---|---|"]
    rows += [f"| `{s.name}` | {s.unit} | {span(s)} | {SOURCES[s.source]} | {meaning(s)} |" for s in STATISTICS]
    return "\n".join([*rows, ""])
