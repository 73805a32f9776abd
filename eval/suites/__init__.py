"""The experiments by name: `names()`, `get("responsiveness")`."""

from __future__ import annotations

from collections.abc import Callable

from orbitcc.envs.errors import UnknownNameError
from orbitcc.eval.suites.base import Case, Figure, Metric, Point, Suite
from orbitcc.eval.suites.geo import Buffers, GeoDownload, Hystart
from orbitcc.eval.suites.leoem import LeoemFairness, LeoemSingle
from orbitcc.eval.suites.responsiveness import Responsiveness, ResponsivenessLoss
from orbitcc.eval.suites.sharing import CrossPath, CubicFriendliness, Efficiency, InterRtt, IntraRtt, ParkingLot
from orbitcc.eval.suites.transients import DelayJump, HardHandover, RateStep

SUITES: dict[str, Callable[[], Suite]] = {
    suite.name: suite
    for suite in (
        LeoemSingle,
        LeoemFairness,
        Responsiveness,
        ResponsivenessLoss,
        InterRtt,
        IntraRtt,
        ParkingLot,
        Efficiency,
        HardHandover,
        DelayJump,
        RateStep,
        CubicFriendliness,
        CrossPath,
        GeoDownload,
        Hystart,
        Buffers,
    )
}
"""Name -> factory, in the order of the papers."""


def names() -> list[str]:
    """Every suite, in the order of the papers."""
    return list(SUITES)


def get(name: str) -> Suite:
    """The suite of that name. Raises UnknownNameError naming the nearest one."""
    if name not in SUITES:
        raise UnknownNameError("suite", name, names())
    return SUITES[name]()


__all__ = ["SUITES", "Case", "Figure", "Metric", "Point", "Suite", "get", "names"]
