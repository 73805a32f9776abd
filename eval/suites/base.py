"""The base class of suites: cases to run, and metrics of a finished run."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from orbitcc.common.errors import OrbitccError, UnknownNameError
from orbitcc.common.numbers import checked_number
from orbitcc.envs import scenarios
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval.contenders import Contender, policies_of

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

MOST_NUMBER = 1e100
"""Of a metric: its square, and sums of a hundred million such squares, are finite."""


@dataclass(frozen=True)
class Metric:
    """One column of the results.

    percent: shown as 100 x the value.
    ideal: the best possible value, at which the axis of a comparison starts.
    """

    key: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    ideal: float
    definition: str
    percent: bool = False
    decimals: int = 3

    def __post_init__(self) -> None:
        for name in ("key", "title", "unit", "definition"):
            if not isinstance(given := getattr(self, name), str):
                raise OrbitccError(f"metric.{name}", given, "text")
        where = f"metric {self.key}"
        if self.better not in ("higher", "lower"):
            raise OrbitccError(f"{where}.better", self.better, "higher or lower")
        if not isinstance(self.percent, bool):
            raise OrbitccError(f"{where}.percent", self.percent, "true or false")
        for name, (low, high) in {"ideal": (-MOST_NUMBER, MOST_NUMBER), "decimals": (0, 12)}.items():
            try:
                checked_number(getattr(self, name), low, high, whole=name == "decimals")
            except OrbitccError as error:
                raise error.at(f"{where}.{name}") from None

    def format(self, value: float) -> str:
        """The value as text with its unit; an en dash for NaN."""
        if value != value:
            return "–"
        return f"{100 * value if self.percent else value:.{self.decimals}f}{self.unit}"


Point = Mapping[str, float | int | str]
"""A point in the grid of conditions of a suite: name of a factor -> its value."""


@dataclass(frozen=True)
class Case:
    """Conditions that are equal for all contenders: the scenario with placeholder flows, and the seed of its noise.

    transport: what the contender's flows have instead of TCP.
    """

    seed: int
    scenario: Scenario
    point: Point = field(default_factory=dict)
    transport: Any = None

    @cached_property
    def digest(self) -> str:
        """12 hex digits that identify the compiled network, policies that take part in it, point and transport."""
        others = [json.dumps(dict(self.point), sort_keys=True)] if self.point else []
        others += policies_of(self.scenario)
        others += [] if self.transport is None else [json.dumps(self.transport, sort_keys=True, default=str)]
        return hashlib.sha256("".join([self.scenario.compile(), *others]).encode()).hexdigest()[:12]


@cache
def _declared() -> dict[str, dict[str, Any]]:
    """Name of a suite -> its texts, metrics and numbers of runs."""
    data = tomllib.loads(resources.files(__package__).joinpath("suites.toml").read_text(encoding="utf-8"))
    shared = {name: Metric(**given) for name, given in data["metrics"].items()}
    for suite in data["suites"].values():
        if "metrics" in suite:
            suite["metrics"] = tuple(shared[m] if isinstance(m, str) else Metric(**m) for m in suite["metrics"])
        if "trade" in suite:
            suite["trade"] = tuple(suite["trade"])
    return data["suites"]


class Suite(ABC):
    """An experiment for any controller or policy.

    settings: parameters of its scenarios with other values than the suite's. A parameter that the grid varies is fixed
    to that value. `first_run` is the number of the first run (default 1); other numbers give new schedules and seeds.
    `transport` is that of the contender's flows, for example `quic`; the others keep theirs.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    source: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    profiles: ClassVar[Mapping[str, int]]
    """Profile -> number of runs per contender at each point of the grid."""
    max_runs: ClassVar[int]
    record_interval_s: ClassVar[float] = 1.0
    trade: ClassVar[tuple[str, str] | None] = None
    """The metrics of goodput and delay, if both are measured; reports begin with a plot of one against the other."""
    shown: ClassVar[Mapping[str, Sequence[float | str]]] = {}
    """The levels of factors at which the first run is shown."""
    scenario: ClassVar[str]
    """The name of its scenario."""
    window: ClassVar[str] = ""
    """Which seconds count, in words for tables, where it is not all of the run for all metrics."""
    by: ClassVar[str | None] = None
    """A factor of the grid; tables have rows for each of its levels, below those for all runs."""

    own_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that are no parameters of its scenario; `first_run` and `transport` are of every suite."""
    fixed: ClassVar[tuple[str, ...]] = ()
    """Parameters of its scenario that it sets itself, because what it measures depends on them."""
    takes_parameters: ClassVar[bool] = True
    """Whether settings are parameters of its scenario, too: not where it builds a network of its own."""

    def level(self, value: Any) -> str:
        """The heading of the rows for a level of the factor `by`."""
        return f"{self.by} {value}"

    def __init_subclass__(cls) -> None:
        """Sets what suites.toml has under the name of the class, which may not declare it, too."""
        for field_name, value in _declared().get(vars(cls).get("name", ""), {}).items():
            if field_name in vars(cls):
                raise TypeError(f"{cls.__name__}.{field_name} is declared in suites.toml as well")
            setattr(cls, field_name, value)

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.settings = dict(settings or {})
        try:
            self.first_run = int(checked_number(self.settings.get("first_run", 1), 1, 10**9, whole=True))
        except OrbitccError as error:
            raise error.at("first_run") from None

    def build(self, **params: Any) -> Scenario:
        """Its scenario with these parameters; the suite's settings have priority."""
        own = ("first_run", "transport", *self.own_settings)
        changed = {key: value for key, value in self.settings.items() if key not in own}
        return scenarios.get(self.scenario, **{**params, **changed})

    def grid(self, profile: str) -> Sequence[Point]:
        """The points of a profile; by default only one."""
        return ({},)

    def points(self, profile: str) -> Sequence[Point]:
        """The points of the grid, with the factors that the settings fix."""
        pinned = [{name: self.settings.get(name, value) for name, value in p.items()} for p in self.grid(profile)]
        if not pinned:
            raise OrbitccError(f"{self.name}.grid", profile, "a profile with one point or more")
        for name, value in (item for point in pinned for item in point.items()):
            if value != value:
                raise OrbitccError(f"{self.name}.grid.{name}", value, "a number or text")
        return [point for k, point in enumerate(pinned) if point not in pinned[:k]]

    @abstractmethod
    def case(self, point: Point, seed: int) -> Case:
        """The case of run number `seed` (from 1) at a point of the grid; it is always the same."""

    def cases(self, profile: str, runs: int) -> list[Case]:
        """The first `runs` cases at each point of the profile."""
        numbers = range(self.first_run, self.first_run + runs)
        made = [self._case(point, number) for number in numbers for point in self.points(profile)]
        for case in made:
            if self.by not in (None, *case.point):
                raise OrbitccError(f"{self.name}.by", self.by, f"a factor of its grid ({', '.join(case.point)})")
        return made

    def _case(self, point: Point, number: int) -> Case:
        """:meth:`case`, with the transport of the settings."""
        made = self._called("case", f"run {number}", self.case, point, number)
        if not isinstance(made, Case):
            raise OrbitccError(f"{self.name}.case", repr(made), "a Case")
        return replace(made, transport=self.settings.get("transport"))

    def _called(self, method: str, where: str, function: Callable[..., Any], *given: Any) -> Any:
        """What the function returns; OrbitccError for whatever else code of others raises in it."""
        try:
            return function(*given)
        except OrbitccError:
            raise
        except (Exception, SystemExit) as error:
            text = f"{type(error).__name__}: {error}"
            raise OrbitccError(f"{self.name}.{method}", text, f"a method that works for {where}") from error

    def parts(self) -> set[str]:
        """The parts of trace sets that its cases come from (`TracePool.part`): a policy must not have learned there."""
        return set()

    def shows(self, case: Case) -> bool:
        """Whether the time series of this case are kept for figures; by default those of the first run."""
        there = all(case.point.get(factor) in levels for factor, levels in self.shown.items())
        return there and case.seed == self.first_run

    @abstractmethod
    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        """The metrics of one finished run, by key, and further columns of the table."""

    def measured(self, case: Case, recording: Recording) -> dict[str, float]:
        """:meth:`measure`, whose values are numbers of at most `MOST_NUMBER`, or NaN where there is none.

        Raises:
            OrbitccError: it raised an error, or returned something else.
        """
        where = f"{self.name}.measure"
        values = self._called("measure", f"run {case.seed}", self.measure, case, recording)
        if not isinstance(values, Mapping):
            raise OrbitccError(where, repr(values), "a table of numbers")
        return {key: self._number(f"{where}.{key}", value) for key, value in values.items()}

    @staticmethod
    def _number(where: str, value: Any) -> float:
        if isinstance(value, Real | np.number) and value != value:
            return math.nan
        try:
            return float(checked_number(value, -MOST_NUMBER, MOST_NUMBER, otherwise="NaN, or "))
        except OrbitccError as error:
            raise error.at(where) from None

    def enter(self, case: Case, contender: Contender) -> Scenario:
        """The scenario of the case with the contender; by default it drives every flow."""
        return contender.take_all(case.scenario)

    def entered(self, case: Case, contender: Contender) -> Scenario:
        """:meth:`enter`, with the transport of the settings."""
        scenario = self.enter(case, contender)
        if (transport := self.settings.get("transport")) is None:
            return scenario
        renamed = self.enter(case, replace(contender, label=f"{contender.label}, renamed"))
        # A flow with another name belongs to the contender.
        own = [flow.name != other.name for flow, other in zip(scenario.flows, renamed.flows, strict=True)]
        if not any(own):
            raise OrbitccError("transport", transport, f"tcp: {self.name} does not tell its flows from others'")
        flows = [
            flow.changed(transport=transport) if mine and flow.controller.name != "udp" else flow
            for flow, mine in zip(scenario.flows, own, strict=True)
        ]
        return scenario.with_flows(flows)

    def runs(self, profile: str, runs: int | None = None) -> int:
        """Number of runs per contender. Raises OrbitccError for an unknown profile or a number that is not allowed."""
        if profile not in self.profiles:
            raise UnknownNameError("profile", profile, self.profiles)
        if runs is None:
            return self.profiles[profile]
        if not 1 <= runs <= self.max_runs:
            raise OrbitccError("runs", runs, f"1 to {self.max_runs} for {self.name}")
        return runs
