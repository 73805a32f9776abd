"""The six paths of LeoEM in the experiments of the LEO paper (Mazilu et al. 2026), as its emulator played them.

The logs are not physically correct; docs/links.md shows their errors. They are kept unchanged, because published
results are based on them. `physical` gives the correct path.
"""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass, replace
from importlib import resources

import numpy as np

from orbitcc.common.errors import UnknownNameError
from orbitcc.envs.orbits.constellation import SHELLS
from orbitcc.envs.orbits.routing import PathSpec
from orbitcc.envs.orbits.trace import PathTrace, Slot, steps

PREFIX = "leoem-"
SECONDS = 300
"""The part of the logs that the paper used."""
RAAN_DEG = -69.567 + 2 * 0.12757
"""Ascending node of the first plane at the start of the logs, 1 December 2019, 0:00 UTC: minus the sidereal angle, plus
the precession since J2000, which is LeoEM's reference frame."""


@dataclass(frozen=True)
class LeoemPath:
    """One of the paths.

    trace: delays in steps of a second; outages are not set.
    nodes: fewest and most nodes of a route.
    original_ms: (second, "src" or "dst") -> length of the outage of that hop by LeoEM's rule, 3 (old + new delay
    of the hop).
    buffer_packets: buffer in packets of 1500 bytes, as in the paper.
    """

    name: str
    source: str
    target: str
    mode: str
    nodes: tuple[int, int]
    buffer_packets: int
    trace: PathTrace
    original_ms: dict[tuple[float, str], float]

    def with_original_interruptions(self) -> PathTrace:
        """The trace with the outages of LeoEM's rule instead of the paper's 45 to 120 ms.

        If both ends change, the longer outage counts.
        """
        longest: dict[float, float] = {}
        for (second, _), ms in self.original_ms.items():
            longest[second] = max(ms, longest.get(second, 0.0))
        slots = (replace(s, interruption_ms=longest.get(s.start_s)) for s in self.trace.slots)
        return replace(self.trace, slots=tuple(slots))

    @property
    def physical(self) -> PathSpec:
        """The shortest path between the same places, with the same satellites and time, by correct geometry.

        The minimum elevation is 25 degrees (LeoEM: 40), gateways are ours, and routes are selected every 15 s.
        """
        return PathSpec(
            source=self.source,
            target=self.target,
            mode="isl" if self.mode == "isl" else "bp",
            shell=SHELLS["leoem"],
            phase_s=0,
            raan_deg=RAAN_DEG,
            argument_deg=0,
        )


def names() -> tuple[str, ...]:
    """The names of the paths, with the prefix `leoem-`."""
    return tuple(_paths())


def get(name: str, field: str = "path") -> LeoemPath:
    """A path by name, with or without the prefix. Raises UnknownNameError about `field`."""
    known = _paths()
    full = name if name in known else PREFIX + name
    if full not in known:
        raise UnknownNameError(field, name, known)
    return known[full]


@functools.cache
def _paths() -> dict[str, LeoemPath]:
    text = resources.files("orbitcc.envs.orbits").joinpath("leoem.toml").read_text(encoding="utf-8")
    return {PREFIX + key: _path(PREFIX + key, entry) for key, entry in tomllib.loads(text).items()}


def _path(name: str, entry: dict[str, object]) -> LeoemPath:
    points = np.array([[float(v) for v in point.split(":")] for point in str(entry["rtt"]).split()])
    seconds = np.arange(SECONDS)
    one_way_ms = np.interp(seconds, points[:, 0], points[:, 1]) / 2
    original_ms = {
        (float(second), end): float(ms)
        for second, end, ms in re.findall(r"(\d+)\((src|dst),([\d.]+)\)", str(entry["access"]))
    }
    middle = {float(second) for second in str(entry["middle"]).split()}
    slots = [Slot(0.0)]
    slots += [
        Slot(
            second,
            access_fwd_change=(second, "src") in original_ms,
            access_rev_change=(second, "dst") in original_ms,
            mid_change=second in middle,
        )
        for second in sorted(middle | {second for second, _ in original_ms})
    ]
    t_s, forward_ms, reverse_ms = steps(seconds, one_way_ms, one_way_ms, end_s=SECONDS)
    nodes = entry["nodes"]
    assert isinstance(nodes, list)
    return LeoemPath(
        name=name,
        source=str(entry["source"]),
        target=str(entry["target"]),
        mode=str(entry["mode"]),
        nodes=(int(nodes[0]), int(nodes[1])),
        buffer_packets=int(str(entry["buffer_packets"])),
        trace=PathTrace(name, t_s, forward_ms, reverse_ms, tuple(slots)),
        original_ms=original_ms,
    )
