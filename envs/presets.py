"""What an agent sees, does and is paid for: observation, action and reward pieces, and presets that bundle them.

A piece is either the name of a native one (computed by the simulator, also in evaluation, so that a policy never meets
two definitions of its input) or a Python object of this module that works on the raw statistics of whole batches.
docs/presets.md describes every native piece; :func:`describe` prints what each number of an observation is.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.envs.errors import OrbitccError, UnknownNameError
from orbitcc.envs.files import read_toml

Stats = NDArray[np.float64]
"""Raw statistics of a batch of flows, f64[n, len(STATS_FIELDS)]."""

STATS: Mapping[str, int] = {name: column for column, name in enumerate(_sim.STATS_FIELDS)}
"""Column of each raw statistic: ``stats[:, STATS["srtt_s"]]``."""


@dataclass(frozen=True)
class Observation:
    """A custom observation: ``function(stats[n, F]) -> [n, D]`` with finite bounds ``low`` and ``high``, each [D]."""

    function: Callable[[Stats], NDArray[Any]]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    name: str = "custom"

    def __post_init__(self) -> None:
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        if low.ndim != 1 or low.shape != high.shape or low.size == 0:
            raise OrbitccError("observation.low", low.shape, "two vectors of one length, low and high")
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            raise OrbitccError("observation.low", low.tolist(), "finite bounds with low <= high")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)


@dataclass(frozen=True)
class Action:
    """A custom action: ``function(actions[n, dim], stats[n, F]) -> cwnd[n]`` in packets.

    The function may return ``(cwnd[n], pacing_bps[n])`` instead; a pacing rate of 0 leaves pacing to the sender.
    """

    function: Callable[[NDArray[np.float32], Stats], Any]
    dim: int = 1
    name: str = "custom"


@dataclass(frozen=True)
class Reward:
    """A custom reward: ``function(stats[n, F]) -> [n]``, one number for each flow that just finished an interval."""

    function: Callable[[Stats], NDArray[Any]]
    name: str = "custom"


@dataclass(frozen=True)
class Preset:
    """Observation, action and reward pieces and the decision interval they were made for.

    interval_rtts: above 0, an interval lasts so many mean RTTs of the one before it (1 ms to 10 s), and `interval_ms`
    until there is one. Agents of one world decide together, so this is for worlds with a single agent, and for native
    policies.
    """

    name: str
    observation: str | Observation = "astraea"
    action: str | Action = "astraea"
    reward: str | Reward = "astraea"
    interval_ms: float = 30.0
    interval_rtts: float = 0.0
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for kind in ("observation", "action", "reward"):
            piece = getattr(self, kind)
            if isinstance(piece, str) and piece not in _sim.PRESETS[kind]:
                raise UnknownNameError(kind, piece, _sim.PRESETS[kind])
        if not (isinstance(self.interval_ms, int | float) and 0.1 <= self.interval_ms <= 10_000):
            raise OrbitccError("interval_ms", self.interval_ms, "a number of milliseconds from 0.1 to 10000")
        if not (isinstance(self.interval_rtts, int | float) and 0 <= self.interval_rtts <= 100):
            raise OrbitccError("interval_rtts", self.interval_rtts, "a number of RTTs from 0 (a fixed interval) to 100")

    @staticmethod
    def from_file(path: str) -> "Preset":
        """A preset from a TOML file with the names of its pieces; what it leaves out is astraea's.

        Raises:
            OrbitccError: the file cannot be read, or a field or the name of a piece is unknown.
        """
        data = read_toml(path)
        known = [f.name for f in fields(Preset)]
        for key, value in data.items():
            if key not in known:
                raise UnknownNameError(key, key, known)
            if not key.startswith("interval_") and not isinstance(value, str):
                raise OrbitccError(key, value, "text")
        return Preset(**{"name": Path(path).stem, **data})

    @property
    def interval_ns(self) -> int:
        return round(self.interval_ms * 1e6)

    def native(self, kind: str) -> str:
        """The native piece to run: the named one, or astraea's where a Python piece replaces its result."""
        piece = getattr(self, kind)
        return piece if isinstance(piece, str) else "astraea"

    def observation_space(self) -> spaces.Box:
        """float32 Box of the observation, finite everywhere."""
        if isinstance(self.observation, Observation):
            return spaces.Box(self.observation.low, self.observation.high, dtype=np.float32)
        native = _sim.PRESETS["observation"][self.observation]
        return spaces.Box(np.asarray(native["low"], np.float32), np.asarray(native["high"], np.float32))

    def action_space(self) -> spaces.Box:
        """float32 Box, [-1, 1] in every dimension."""
        dim = self.action.dim if isinstance(self.action, Action) else int(_sim.PRESETS["action"][self.action]["dim"])
        return spaces.Box(-1.0, 1.0, (dim,), np.float32)


_LEO = "Astraea with the minimum RTT of the last 10 s"

PRESETS: dict[str, Preset] = {
    made.name: made
    for made in (
        Preset("astraea", description="Astraea's local state, cwnd steps of 2.5 % and global reward; 30 ms"),
        Preset("astraea-20ms", interval_ms=20.0, description="the same at 20 ms, as run by the LEO study"),
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
        Preset("aurora", "aurora", "aurora", "aurora", 30.0, 0.5, description="a sending rate moved every half RTT"),
    )
}


def preset(
    name: str | Preset = "astraea",
    *,
    observation: str | Observation | None = None,
    action: str | Action | None = None,
    reward: str | Reward | None = None,
    interval_ms: float | None = None,
) -> Preset:
    """The preset of this name or TOML file, with any of its pieces replaced; `interval_ms` fixes the interval.

    Raises:
        OrbitccError: the preset or a piece is unknown, or the interval is outside 0.1 ms to 10 s.
    """
    if isinstance(name, Preset):
        base = name
    elif name in PRESETS:
        base = PRESETS[name]
    elif name.endswith(".toml"):
        base = Preset.from_file(name)
    else:
        raise UnknownNameError("preset", name, PRESETS)
    pieces: dict[str, Any] = {
        "observation": observation,
        "action": action,
        "reward": reward,
        "interval_ms": interval_ms,
        "interval_rtts": None if interval_ms is None else 0.0,
    }
    changes = {key: value for key, value in pieces.items() if value is not None}
    return replace(base, **changes) if changes else base


def observation_hash(name: str) -> str:
    """16 hex digits naming the definition of a native observation: a policy trained on another one is refused."""
    if name not in _sim.PRESETS["observation"]:
        raise UnknownNameError("observation", name, _sim.PRESETS["observation"])
    spec = _sim.PRESETS["observation"][name]
    text = json.dumps(
        {
            "name": name,
            "labels": list(spec["labels"]),
            "units": list(spec["units"]),
            "low": [float(x) for x in spec["low"]],
            "high": [float(x) for x in spec["high"]],
        },
        sort_keys=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(name: str) -> str:
    """The documentation table of a native observation: index, meaning, minimum, maximum, unit.

    Observations are features of the last intervals, oldest first: with `n` features, the row `i` holds for every index
    `i + k n`. Before the first interval everything is 0, and values beyond the bounds are clipped.
    """
    if name not in _sim.PRESETS["observation"]:
        raise UnknownNameError("observation", name, _sim.PRESETS["observation"])
    spec = _sim.PRESETS["observation"][name]
    n = spec["features"]
    rows = [f"| index mod {n} | meaning | min | max | unit |", "|---|---|---|---|---|"]
    columns = (spec["labels"][:n], spec["low"][:n], spec["high"][:n], spec["units"][:n])
    for index, (label, low, high, unit) in enumerate(zip(*columns, strict=True)):
        rows.append(f"| {index} | {label} | {low:g} | {high:g} | {unit} |")
    return "\n".join(rows)
