"""The experiments by name: `names()`, `get("responsiveness")`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any

from orbitcc.common import code
from orbitcc.common.errors import OrbitccError, StateError, UnknownNameError
from orbitcc.envs import scenarios
from orbitcc.eval.suites.base import Case, Metric, Point, Suite
from orbitcc.eval.suites.c4 import C4Tests
from orbitcc.eval.suites.constellation import ConstellationSharing
from orbitcc.eval.suites.geo import Buffers, GeoDownload, GeoDownload2021, GeoPep, GeoProbes, Hystart
from orbitcc.eval.suites.l4s import L4s
from orbitcc.eval.suites.leo_unpublished import (
    EfficiencyManaged,
    FourFlows,
    HighRates,
    WideResponsiveness,
    WideResponsivenessLoss,
)
from orbitcc.eval.suites.leoem import LeoemFairness, LeoemSingle
from orbitcc.eval.suites.links import Extremes, FolderSuite, GeoSharing, LeoAccess, LeoAccessSince2024
from orbitcc.eval.suites.responsiveness import (
    Responsiveness,
    ResponsivenessLoss,
    ResponsivenessLossShown,
    ResponsivenessShown,
)
from orbitcc.eval.suites.sharing import (
    Bbr3Friendliness,
    CrossPath,
    CubicCrowd,
    CubicFriendliness,
    Efficiency,
    InterRtt,
    IntraRtt,
    ParkingLot,
)
from orbitcc.eval.suites.traces import Traces, TracesTransfer
from orbitcc.eval.suites.transients import DelayJump, HardHandover, RateStep

SUITES: dict[str, type[Suite]] = {
    suite.name: suite
    for suite in (
        LeoemSingle,
        LeoemFairness,
        Responsiveness,
        ResponsivenessLoss,
        ResponsivenessShown,
        ResponsivenessLossShown,
        InterRtt,
        IntraRtt,
        ParkingLot,
        Efficiency,
        HardHandover,
        DelayJump,
        RateStep,
        CubicFriendliness,
        Bbr3Friendliness,
        L4s,
        C4Tests,
        CubicCrowd,
        CrossPath,
        HighRates,
        FourFlows,
        EfficiencyManaged,
        WideResponsiveness,
        WideResponsivenessLoss,
        LeoAccess,
        LeoAccessSince2024,
        ConstellationSharing,
        Extremes,
        GeoDownload,
        GeoDownload2021,
        GeoPep,
        GeoSharing,
        GeoProbes,
        Hystart,
        Buffers,
        Traces,
        TracesTransfer,
    )
}
"""Name -> factory, in the order of the papers."""


FIXED = ("run", "controller", "flows", "rate_mbps", "duration_s")
"""Parameters that are not settings, because runs, contenders or measurements depend on them."""


def register(suite: type[Suite]) -> type[Suite]:
    """Add a suite of your own, under its `name`; a decorator.

    Raises:
        OrbitccError: it lacks something, or has the name of another.
    """
    if not (inspect.isclass(suite) and issubclass(suite, Suite)) or inspect.isabstract(suite):
        raise OrbitccError("suite", repr(suite), "a subclass of orbitcc.eval.suites.Suite with `case` and `measure`")
    needed = ("name", "title", "description", "source", "metrics", "profiles", "max_runs", "scenario")
    if missing := [field for field in needed if not hasattr(suite, field)]:
        raise OrbitccError("suite", suite.__name__, f"a Suite with {', '.join(needed)} ({missing[0]} is missing)")
    if not suite.metrics or not all(isinstance(metric, Metric) for metric in suite.metrics):
        raise OrbitccError("suite", suite.__name__, "a Suite whose `metrics` are one Metric or more")
    keys = [metric.key for metric in suite.metrics]
    if suite.trade is not None and not (len(suite.trade) == 2 and set(suite.trade) <= set(keys)):
        raise OrbitccError("suite", suite.__name__, f"a Suite whose `trade` are two of its metrics ({', '.join(keys)})")
    if not all(isinstance(runs, int) and runs > 0 for runs in (*suite.profiles.values(), suite.max_runs)):
        raise OrbitccError("suite", suite.__name__, "a Suite whose `profiles` and `max_runs` are whole numbers of runs")
    if SUITES.setdefault(suite.name, suite) is not suite:
        raise OrbitccError("suite", suite.__name__, f"a Suite whose name no other has ({suite.name} is taken)")
    return suite


def named(name: str) -> str:
    """The name of a suite; the Suite `package.module:Class` is known by its `name` from then on.

    For command lines and programs only: no file may name code.

    Raises:
        OrbitccError: it cannot be imported, or not be registered.
    """
    if name in SUITES or not code.is_code(name):
        return name
    return register(code.attribute("suite", name)).name


def names() -> list[str]:
    """Every suite, in the order of the papers."""
    return list(SUITES)


def get(name: str, settings: Mapping[str, Any] | None = None) -> Suite:
    """The suite of that name, or the suite of the scenarios in a folder.

    settings: parameters of its scenarios with other values than the suite's, and factors of its grid with a single
    value.

    Raises UnknownNameError with the nearest suite or parameter, and OrbitccError for a value that is not allowed.
    """
    if name not in SUITES and os.path.isdir(name):
        if settings:
            raise OrbitccError("--set", ", ".join(settings), "no settings, because the scenarios of a folder are fixed")
        return FolderSuite(name)
    if name in scenarios.SCENARIOS and name not in SUITES:
        raise StateError("suite", f"{name} is a scenario, a single run: `orbitcc run {name}` (`orbitcc list suites`)")
    if name not in SUITES:
        folder = "a folder with scenarios (*.toml)" + (", such as that of this file" if os.path.isfile(name) else "")
        raise UnknownNameError("suite", name, names(), "orbitcc list suites", otherwise=folder)
    suite = SUITES[name](settings)
    varied = {factor for profile in suite.profiles for point in suite.grid(profile) for factor in point}
    own = {"first_run", "transport", *suite.own_settings, *varied}
    settled = {*FIXED, *suite.fixed}
    for key in suite.settings:
        if key not in own and not suite.takes_parameters:
            raise UnknownNameError(key, key, own)
        if key in settled and key not in varied:
            raise OrbitccError(key, suite.settings[key], f"a parameter that {name} does not set itself")
    if suite.settings:
        suite.case(suite.points("quick")[0], 1)
    return suite


def metrics_of(name: str) -> Sequence[Metric]:
    """The metrics of the suite of that name, as in finished results; also for the scenarios of a folder."""
    return FolderSuite.metrics if name == FolderSuite.name else get(name).metrics


__all__ = ["SUITES", "Case", "Metric", "Point", "Suite", "get", "metrics_of", "named", "names", "register"]
