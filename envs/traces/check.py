"""What looks wrong in a trace set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from orbitcc.envs.orbits.trace import Array
from orbitcc.envs.orbits.trace_set import PARTS, MeasuredPath, TraceSet

MOST_MBPS, MOST_BACK_MBPS = 500.0, 60.0
"""What a terminal of Starlink carries at most, down and up."""
MOST_RTT_MS = 2_000.0
LEAST_MBPS, LEAST_RTT_MS = 0.2, 1.0
"""A file with less probably has other units: no path over satellites is so short."""
FROZEN_S = 30.0
"""Values that change many times a second are not equal for so long."""
MOST_OUTAGE = 0.5
FEWEST = 0.02
"""A part with a smaller share of the paths says little."""


@dataclass(frozen=True)
class Finding:
    """Something that looks wrong: what, in which path (or the set), and by how much."""

    what: str
    path: str
    value: str


def check(found: TraceSet, most_mbps: float = MOST_MBPS, most_back_mbps: float = MOST_BACK_MBPS) -> Iterator[Finding]:
    """Everything that looks wrong, path by path, then of the whole set. Raises FileError for damaged arrays."""
    for k, entry in enumerate(found.entries):
        yield from _path(found.measured(k), most_mbps, most_back_mbps)
        if (pause_s := entry["unmeasured_s"]) > 0:
            yield Finding("clock step or pause of the probes", entry["name"], f"{pause_s:.1f} s without a probe")
        for doubt in entry["doubts"]:
            yield Finding("doubtful times", entry["name"], doubt)
    first: dict[str, str] = {}
    for entry in found.entries:
        if entry["digest"] in first:
            yield Finding("same content", entry["name"], f"as {first[entry['digest']]}")
        first.setdefault(entry["digest"], entry["name"])
    total, by_part = len(found.entries), Counter(e["part"] for e in found.entries)
    for part in PARTS:
        if by_part[part] < FEWEST * total:
            yield Finding("few paths in a part", part, f"{by_part[part]} of {total}")
    there: dict[str, set[str]] = {}
    for entry in found.entries:
        there.setdefault(entry["place"], set()).add(entry["part"])
    for place, parts in sorted(there.items()):
        if missing := [part for part in PARTS if part not in parts]:
            yield Finding("place without a part", place, ", ".join(missing))


def _path(path: MeasuredPath, most_mbps: float, most_back_mbps: float) -> Iterator[Finding]:
    for what, rate, most in (("rate", path.rate_mbps, most_mbps), ("return rate", path.back_mbps, most_back_mbps)):
        if rate is None:
            continue
        high = float(np.percentile(rate, 99))
        if high > most:
            yield Finding(f"{what} above {most:g} Mbit/s", path.name, f"99 % below {high:.0f} Mbit/s")
        if 0 < high < LEAST_MBPS:
            few = f"{what} below {LEAST_MBPS:g} Mbit/s: other units?"
            yield Finding(few, path.name, f"99 % below {high:.2g} Mbit/s")
        if not rate.any():
            yield Finding(f"{what} of 0", path.name, "all of the time")
    if path.delay_ms is not None and (high := 2 * float(path.delay_ms.max())) > MOST_RTT_MS:
        yield Finding(f"RTT above {MOST_RTT_MS:g} ms", path.name, f"{high:.0f} ms")
    if path.delay_ms is not None and (usual := 2 * float(np.median(path.delay_ms))) < LEAST_RTT_MS:
        yield Finding(f"RTT below {LEAST_RTT_MS:g} ms: other units?", path.name, f"median {usual:.2g} ms")
    if path.delay_ms is not None and not path.delay_ms.all():
        yield Finding("delay of 0", path.name, f"{np.mean(path.delay_ms == 0):.1%} of the time")
    for what, values, step_s in (
        ("rate", path.rate_mbps, path.rate_step_s),
        ("delay", path.delay_ms, path.delay_step_s),
    ):
        if values is not None and step_s <= 1 and (frozen_s := _frozen(values) * step_s) >= FROZEN_S:
            yield Finding(f"frozen {what}", path.name, f"{frozen_s:.0f} s")
    down_s = sum(s.interruption_ms or 0.0 for s in path.slots) / 1e3
    if down_s > MOST_OUTAGE * path.duration_s:
        yield Finding("outages most of the time", path.name, f"{down_s:.0f} of {path.duration_s:.0f} s")


def _frozen(values: Array) -> int:
    """The most values in a row that are equal."""
    edges = np.flatnonzero(np.concatenate(([True], np.diff(values) != 0, [True])))
    return int(np.diff(edges).max())
