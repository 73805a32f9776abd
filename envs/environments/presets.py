"""Observation, action and reward functions, and presets that bundle them.

A function is either the name of a native one, which the simulator computes in training and in evaluation alike, or a
Python object of this module that works on the raw statistics of whole batches.
docs/presets.md describes every native function; :func:`describe` prints what each number of an observation is.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.common.errors import OrbitccError, StateError, UnknownNameError
from orbitcc.common.files import read_toml
from orbitcc.envs.environments.safety import SafetyFilter


@dataclass(frozen=True)
class Native:
    """A native function by name, and the parameters of its family that differ from what the name stands for.

    ``Native("astraea", {"history": 1})``; ``{"name": "astraea", "history": 1}`` in a TOML file.
    :func:`parameters` lists what a function has.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(kind: str, value: Any) -> "Native":
        """From a name, a mapping with a name, or another one; checked.

        Raises:
            OrbitccError: no function of this kind has this name, or it has no such parameter or value.
        """
        if isinstance(value, Native):
            made = value
        elif isinstance(value, str):
            made = Native(value)
        elif isinstance(value, Mapping) and isinstance(value.get("name"), str):
            made = Native(value["name"], {key: item for key, item in value.items() if key != "name"})
        elif callable(value):
            wrapped = {"observation": "Observation(f, low, high)", "action": "Action(f)", "reward": "Reward(f)"}[kind]
            raise StateError(kind, f"wrap the function f as orbitcc.{wrapped} (docs/presets.md)")
        else:
            raise OrbitccError(kind, value, "the name of a function, or a table with `name` and parameters")
        for key, item in made.parameters.items():
            _finite(f"{kind}.{key}", item)
        if made.name not in _sim.FUNCTIONS[kind]:
            raise UnknownNameError(kind, made.name, _sim.FUNCTIONS[kind])
        made.definition(kind)
        return made

    def json(self) -> str:
        """As the simulator takes it."""
        return json.dumps({"name": self.name, **self.parameters}, sort_keys=True)

    def definition(self, kind: str) -> Mapping[str, Any]:
        """All there is to know of it: `family`, `formula`, `parameters`, and what the kind has (`_sim.function`)."""
        return _definition(kind, self.json())

    def __str__(self) -> str:
        changes = ", ".join(f"{key}={value}" for key, value in self.parameters.items())
        return f"{self.name}({changes})" if changes else self.name


def _finite(where: str, value: Any) -> None:
    """Raises OrbitccError that names the number that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise OrbitccError(where, value, "a finite number")
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _finite(f"{where}[{index}]", item)
    if isinstance(value, Mapping):
        for key, item in value.items():
            _finite(f"{where}.{key}", item)


@lru_cache(maxsize=256)
def _definition(kind: str, request: str) -> Mapping[str, Any]:
    try:
        return _sim.function(kind, request)
    except ValueError as error:
        raise _refused(error) from None


def _refused(error: ValueError) -> OrbitccError:
    """From the simulator's "FIELD = VALUE: must be ALLOWED"."""
    field_name, _, rest = str(error).partition(" = ")
    value, _, allowed = rest.partition(": ")
    try:
        given = json.loads(value)
    except json.JSONDecodeError:
        given = value
    return OrbitccError(field_name, given, allowed.removeprefix("must be ") or str(error))


Stats = NDArray[np.float64]
"""Raw statistics of a batch of flows, f64[n, len(STATS)]."""


class Statistic(NamedTuple):
    """A column of the raw statistics.

    source: `kernel`, a stock kernel's TCP_INFO has it; `per-ack`, it needs every ACK (the simulator, eBPF); `oracle`,
    only the simulator knows it.
    """

    name: str
    unit: str
    low: float
    high: float
    source: str
    meaning: str


STATISTICS = tuple(Statistic(*row) for row in _sim.STATISTICS)
"""All columns of the raw statistics, in order."""


class UnknownStatisticError(UnknownNameError, KeyError):
    """A column that the raw statistics do not have."""

    kind = "statistic"
    __str__ = Exception.__str__


class _Columns(dict[str, int]):
    def __missing__(self, name: str) -> int:
        raise UnknownStatisticError("STATS", name, self, "print(orbitcc.STATS)")


STATS: Mapping[str, int] = _Columns((statistic.name, column) for column, statistic in enumerate(STATISTICS))
"""Column of each raw statistic: ``stats[:, STATS["srtt_s"]]``."""


@dataclass(frozen=True)
class Who:
    """Whose statistics the rows of a Python function are: arrays with an entry per row.

    world: i64[n], number of the world in the batch.
    agent: i64[n], index of the flow among the agents of its world.
    flow: i64[n], number of the connection in the batch; the next flow with the same agent index has another one.
    fresh: bool[n], true in the first interval in which a connection is seen.
    memory: f64[n, memory], what the function wrote into these rows in the interval before; zeros where `fresh`. It is
    written in place, belongs to the function, and is saved, restored and cloned with the world.
    """

    world: NDArray[np.int64]
    agent: NDArray[np.int64]
    flow: NDArray[np.int64]
    fresh: NDArray[np.bool_]
    memory: NDArray[np.float64]


def team_mean(values: NDArray[Any], who: Who) -> NDArray[np.float64]:
    """Each world's mean over those of its flows that are in the rows: f64[n] from values [n], for team rewards."""
    _, team = np.unique(who.world, return_inverse=True)
    means: NDArray[np.float64] = np.bincount(team, values) / np.bincount(team)
    return means[team]


def _check_memory(kind: str, memory: int) -> None:
    if not (isinstance(memory, int) and memory >= 0):
        raise OrbitccError(f"{kind}.memory", memory, "a whole number of values per flow, 0 or more")


@dataclass(frozen=True)
class Observation:
    """A custom observation: ``function(stats[n, F], who) -> [n, D]`` with finite bounds ``low`` and ``high``, each [D].

    It is called once for every interval of every flow, with the flows of all worlds at once; in `orbitcc run` and
    `eval` each flow is alone. memory: how many values it remembers of a flow (:attr:`Who.memory`).
    """

    function: Callable[[Stats, Who], NDArray[Any]]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    name: str = "custom"
    memory: int = 0

    def __post_init__(self) -> None:
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        if low.ndim != 1 or low.shape != high.shape or low.size == 0:
            raise OrbitccError("observation.low", low.shape, "two vectors of one length, low and high")
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            raise OrbitccError("observation.low", low.tolist(), "finite bounds with low <= high")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        _check_memory("observation", self.memory)


@dataclass(frozen=True)
class Action:
    """A custom action: ``function(actions[n, dim], stats[n, F], who) -> cwnd[n]`` in packets; actions in [-1, 1].

    The function may return ``(cwnd[n], pacing_bps[n])`` instead; a pacing rate of 0 leaves pacing to the sender.
    recovery: what losses do to the window: `hold`, nothing; `kernel`, Linux's recovery acts on it.
    """

    function: Callable[[NDArray[np.float32], Stats, Who], Any]
    dim: int = 1
    name: str = "custom"
    memory: int = 0
    recovery: str = "hold"

    def __post_init__(self) -> None:
        if not (isinstance(self.dim, int) and self.dim >= 1):
            raise OrbitccError("action.dim", self.dim, "a whole number of at least 1")
        if self.recovery not in ("hold", "kernel"):
            raise OrbitccError("action.recovery", self.recovery, "hold or kernel")
        _check_memory("action", self.memory)


@dataclass(frozen=True)
class Reward:
    """A custom reward: ``function(stats[n, F], who) -> [n]``, a number for each flow that just finished an interval."""

    function: Callable[[Stats, Who], NDArray[Any]]
    name: str = "custom"
    memory: int = 0

    def __post_init__(self) -> None:
        _check_memory("reward", self.memory)


PythonFunction: TypeAlias = Observation | Action | Reward
"""A function in Python."""

ObservationLike: TypeAlias = str | Mapping[str, Any] | Native | Observation
ActionLike: TypeAlias = str | Mapping[str, Any] | Native | Action
RewardLike: TypeAlias = str | Mapping[str, Any] | Native | Reward
"""A function: the name of a native one, a mapping with its `name` and parameters, or a Python object."""


_LOADING: list[Any] = []
"""The bases of the presets that are being read."""


@dataclass(frozen=True)
class Preset:
    """Observation, action and reward functions, the decision interval they were made for, and a safety filter.

    A native function is given by its name, by a mapping with `name` and parameters, or as :class:`Native`, to which the
    other forms are converted.

    interval_rtts: above 0, an interval lasts so many mean RTTs of the one before it (`interval_least_ms` to 10 s), and
    `interval_ms` until there is one.

    clock: "world": agents of one world decide together, by the mean RTT over them. "flow": each decides by its own
    flow's RTT, as a policy does in `orbitcc run`; where intervals are fixed, both are the same.

    safety_filter: limits around what agents decide, as around policies; a table of their fields, or None.
    """

    name: str
    observation: ObservationLike = "astraea"
    action: ActionLike = "astraea"
    reward: RewardLike = "astraea"
    interval_ms: float = 30.0
    interval_rtts: float = 0.0
    interval_least_ms: float = 1.0
    clock: str = "world"
    safety_filter: SafetyFilter | Mapping[str, Any] | None = None
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for kind in ("observation", "action", "reward"):
            function = getattr(self, kind)
            if not isinstance(function, PythonFunction):
                object.__setattr__(self, kind, Native.of(kind, function))
        for length in ("interval_ms", "interval_least_ms"):
            given = getattr(self, length)
            if not (type(given) in (int, float) and 0.1 <= given <= 10_000):
                raise OrbitccError(length, given, "a number of milliseconds from 0.1 to 10000")
        if not (type(self.interval_rtts) in (int, float) and 0 <= self.interval_rtts <= 100):
            raise OrbitccError("interval_rtts", self.interval_rtts, "a number of RTTs from 0 (a fixed interval) to 100")
        if self.clock not in ("world", "flow"):
            raise OrbitccError("clock", self.clock, "world or flow")
        if self.safety_filter is not None:
            try:
                object.__setattr__(self, "safety_filter", SafetyFilter.build(self.safety_filter))
            except OrbitccError as error:
                raise error.under("safety_filter") from None

    @staticmethod
    def from_file(path: str) -> "Preset":
        """A preset from a TOML file; see :meth:`from_table`.

        Raises:
            OrbitccError: the file cannot be read, or a field, a function or a parameter is unknown.
        """
        table = {"name": Path(path).stem, **read_toml(path)}
        try:
            return Preset.from_table(table)
        except OrbitccError as error:
            raise error.under(path) from None

    @staticmethod
    def from_table(table: Mapping[str, Any]) -> "Preset":
        """A preset from a table with its functions; what it leaves out is that of the preset `base` (astraea)."""
        data = dict(table)
        base = data.pop("base", "astraea")
        known = [f.name for f in fields(Preset)]
        for key, value in data.items():
            if key not in known:
                raise UnknownNameError(key, key, ["base", *known])
            if key in ("name", "description") and not isinstance(value, str):
                raise OrbitccError(key, value, "text")
        if "interval_ms" in data and "interval_rtts" not in data:
            data["interval_rtts"] = 0.0
        if base in _LOADING:
            raise OrbitccError("base", base, "a preset that does not begin with itself")
        _LOADING.append(base)
        try:
            found = preset(base)
        except UnknownNameError as error:
            raise error.at("base") from None
        finally:
            _LOADING.pop()
        made = replace(found, **{"name": base, **data})
        if "interval_least_ms" in table and "interval_rtts" not in table and not made.interval_rtts:
            raise OrbitccError("interval_least_ms", made.interval_least_ms, "none without interval_rtts above 0")
        return made

    @property
    def identity(self) -> str:
        """What it does, as text: functions, intervals, clock and limits, whatever their names and texts are."""
        functions = [
            definition_hash(kind, function) if isinstance(function, Native) else f"{kind} {function.name}"
            for kind in ("observation", "action", "reward")
            for function in [getattr(self, kind)]
        ]
        return json.dumps([*functions, self.interval, self.clock, self.limits])

    @property
    def interval_ns(self) -> int:
        return round(self.interval_ms * 1e6)

    @property
    def interval(self) -> tuple[float, float, float]:
        """`interval_ms`, `interval_rtts` and `interval_least_ms`."""
        return self.interval_ms, self.interval_rtts, self.interval_least_ms

    @property
    def own_clock(self) -> bool:
        """Whether agents of one world decide at moments of their own."""
        return self.clock == "flow" and self.interval_rtts > 0

    @property
    def interval_least_ns(self) -> int:
        return round(self.interval_least_ms * 1e6)

    @property
    def limits(self) -> str | None:
        """The safety filter as the simulator takes it."""
        return self.safety_filter.model_dump_json() if isinstance(self.safety_filter, SafetyFilter) else None

    def python(self) -> dict[str, PythonFunction]:
        """Its functions in Python, by kind."""
        functions = {kind: getattr(self, kind) for kind in ("observation", "action", "reward")}
        return {kind: function for kind, function in functions.items() if not isinstance(function, Native)}

    def native(self, kind: str) -> Native:
        """The native function to run: the named one, or astraea's where a Python function replaces its result."""
        function = getattr(self, kind)
        if isinstance(function, Action):
            return Native("astraea", {"recovery": function.recovery})
        return function if isinstance(function, Native) else Native("astraea")

    def for_deployment(self) -> "Preset":
        """The same without what only a simulator can do: an action's bound by the true BDP is for training."""
        action = self.action
        if isinstance(action, Native) and action.definition("action")["parameters"].get("cap_of") == "true":
            kept = {key: value for key, value in action.parameters.items() if key not in ("cap_bdp", "cap_of")}
            return replace(self, action=Native(action.name, kept))
        return self

    def observation_space(self) -> spaces.Box:
        """float32 Box of the observation, finite everywhere."""
        if isinstance(self.observation, Observation):
            return spaces.Box(self.observation.low, self.observation.high, dtype=np.float32)
        native = self.native("observation").definition("observation")
        return spaces.Box(np.asarray(native["low"], np.float32), np.asarray(native["high"], np.float32))

    @cached_property
    def action_dim(self) -> int:
        """How many numbers of [-1, 1] an action function takes."""
        native = self.native("action").definition("action")
        return int(self.action.dim if isinstance(self.action, Action) else native["dim"])

    @cached_property
    def choices(self) -> int | None:
        """The number of factors of which an action selects one; None: actions are continuous."""
        if isinstance(self.action, Action):
            return None
        choices: int | None = self.native("action").definition("action")["choices"]
        return choices

    def action_space(self) -> spaces.Box | spaces.Discrete:
        """float32 Box, [-1, 1] in every dimension; `Discrete(n)` where an action selects one of n factors."""
        if self.choices is not None:
            return spaces.Discrete(self.choices)
        return spaces.Box(-1.0, 1.0, (self.action_dim,), np.float32)


def require_one_clock(used: Preset, library: str) -> None:
    """Raise OrbitccError if flows decide on their own clocks, where a library takes each step for a decision of all."""
    if used.own_clock:
        allowed = (
            f'"world" for {library}, which takes each step of a flow for a decision; "flow" is for ppo, astraea-td3, '
            "rllib-ppo, rllib-td3 and whole worlds of RLlib"
        )
        raise OrbitccError("preset.clock", used.clock, allowed)


def of_choices(choices: NDArray[Any], count: int) -> NDArray[Any]:
    """Actions in even distances from -1 to 1, from numbers of factors."""
    actions: NDArray[Any] = choices * choices.dtype.type(2.0 / (count - 1)) - choices.dtype.type(1.0)
    return actions


def to_choices(actions: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Numbers of factors, int64, from actions in [-1, 1]."""
    choices: NDArray[np.int64] = np.rint((actions + 1.0) / 2.0 * (count - 1)).astype(np.int64)
    return choices


_LEO = "Astraea with the minimum RTT of the last 10 s"

PRESETS: dict[str, Preset] = {
    made.name: made
    for made in (
        Preset("astraea", description="Astraea's local state, cwnd steps of 2.5 % and global reward; 30 ms"),
        Preset("astraea-20ms", interval_ms=20.0, description="the same at 20 ms, as run by the LEO paper"),
        Preset("astraea-leo", observation="astraea-leo", description=f"{_LEO}; 30 ms"),
        Preset(
            "astraea-leo-noisy",
            observation="astraea-leo-noisy",
            description=f"{_LEO}, and handovers as reported half a second ahead, with SaTCP's error; 30 ms",
        ),
        Preset(
            "astraea-leo-oracle", observation="astraea-leo-oracle", description=f"{_LEO}, and the true handovers; 30 ms"
        ),
        Preset("orca", "orca", "orca", "orca", 20.0, description="Cubic, whose window the agent scales; 20 ms"),
        Preset(
            "ratios", "ratios", "log-window", "log-share", description="logs of ratios, steps of up to 28 %, a team"
        ),
        Preset("aurora", "aurora", "aurora", "aurora", 30.0, 0.5, description="a sending rate moved every half RTT"),
    )
}


DEFAULT = "ratios"
"""The preset of environments and of policies in Python that name none. It does not mistake a longer path for a
queue, on LEO and GEO links."""


def preset(
    name: str | Mapping[str, Any] | Preset = DEFAULT,
    *,
    observation: ObservationLike | None = None,
    action: ActionLike | None = None,
    reward: RewardLike | None = None,
    interval_ms: float | None = None,
) -> Preset:
    """The preset of this name, TOML file or table, with functions replaced; `interval_ms` fixes the interval.

    Raises:
        OrbitccError: the preset or a function is unknown, or the interval is outside 0.1 ms to 10 s.
    """
    if isinstance(name, Preset):
        base = name
    elif isinstance(name, Mapping):
        try:
            base = Preset.from_table(name)
        except OrbitccError as error:
            raise error.under("preset") from None
    elif not isinstance(name, str):
        raise UnknownNameError("preset", name, PRESETS, "orbitcc list presets")
    elif name in PRESETS:
        base = PRESETS[name]
    elif name.endswith(".toml"):
        base = Preset.from_file(name)
    else:
        raise UnknownNameError("preset", name, PRESETS, "orbitcc list presets")
    functions: dict[str, Any] = {
        "observation": observation,
        "action": action,
        "reward": reward,
        "interval_ms": interval_ms,
        "interval_rtts": None if interval_ms is None else 0.0,
    }
    changes = {key: value for key, value in functions.items() if value is not None}
    return replace(base, **changes) if changes else base


def parameters(kind: str, name: str) -> dict[str, Any]:
    """The parameters of a native function and what they are under this name; kind: observation, action or reward."""
    return dict(Native.of(kind, name).definition(kind)["parameters"])


def definition_hash(kind: str, function: str | Mapping[str, Any] | Native) -> str:
    """16 hex digits that identify a native function: family, version of its formulas, parameters that differ from the
    family's defaults, bounds.

    A checkpoint whose hash differs is refused. Labels and other texts are not part of it.
    """
    spec = Native.of(kind, function).definition(kind)
    covered = ("family", "formula", "changes", "low", "high")
    text = json.dumps({key: spec[key] for key in covered if key in spec}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(name: str | Mapping[str, Any] | Native) -> str:
    """The documentation table of a native observation: index, meaning, minimum, maximum, unit.

    Observations are features of the last intervals, oldest first: with `n` features, the row `i` holds for every index
    `i + k n`. Before the first interval everything is 0, and values beyond the bounds are clipped.
    """
    spec = Native.of("observation", name).definition("observation")
    n = spec["features"]
    rows = [f"| index mod {n} | meaning | min | max | unit |", "|---|---|---|---|---|"]
    columns = (spec["labels"][:n], spec["low"][:n], spec["high"][:n], spec["units"][:n])
    for index, (label, low, high, unit) in enumerate(zip(*columns, strict=True)):
        rows.append(f"| {index} | {label} | {low:g} | {high:g} | {unit} |")
    return "\n".join(rows)
