"""What an agent sees, does and is paid for: observation, action and reward pieces, and presets that bundle them.

A piece is either the name of a native one (computed by the simulator, also in evaluation, so that a policy never meets
two definitions of its input) or a Python object of this module that works on the raw statistics of whole batches.

Preset ``astraea`` (Liao et al., EuroSys 2024; decision interval 30 ms)

Observation: 10 features of the last 5 intervals, oldest first, zeros before the first five; float32[50].

| index mod 10 | feature              | formula                                      | min | max |
|--------------|----------------------|----------------------------------------------|-----|-----|
| 0            | throughput ratio     | mean delivery rate / its running maximum     | 0   | 1   |
| 1            | latency ratio        | mean RTT / minimum RTT (lifetime)            | 0   | 2   |
| 2            | smoothed latency     | srtt / minimum RTT                           | 0   | 2   |
| 3            | window ratio         | 0.8 x cwnd / BDP                             | 0   | 2   |
| 4            | maximum throughput   | running maximum, in units of 80 Mbit/s       | 0   | 10  |
| 5            | minimum RTT          | in units of 500 ms                           | 0   | 4   |
| 6            | loss ratio           | lost bytes per second / maximum throughput   | 0   | 2   |
| 7            | in-flight ratio      | packets out / cwnd                           | 0   | 2   |
| 8            | pacing ratio         | pacing rate / maximum throughput             | 0   | 2   |
| 9            | retransmission ratio | retransmissions in flight / cwnd             | 0   | 2   |

Values beyond the bounds are clipped. :func:`describe` prints every index.

Action: one number a in [-1, 1]; cwnd grows to ceil(cwnd (1 + 0.025 a)) for a >= 0 and shrinks to
floor(cwnd / (1 - 0.025 a)) for a < 0; packets are paced at cwnd / srtt.

Reward, shared by all flows of a world and within about +-0.1: 0.1 x utilisation - 0.02 x excess delay - loss
- 0.02 x unfairness - 0.01 x instability. It uses the true capacity and base RTT, which only the simulator knows.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.envs.errors import OrbitccError, UnknownNameError

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
    """Observation, action and reward pieces and the decision interval they were made for."""

    name: str
    observation: str | Observation = "astraea"
    action: str | Action = "astraea"
    reward: str | Reward = "astraea"
    interval_ms: float = 30.0
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for kind in ("observation", "action", "reward"):
            piece = getattr(self, kind)
            if isinstance(piece, str) and piece not in _sim.PRESETS[kind]:
                raise UnknownNameError(kind, piece, _sim.PRESETS[kind])
        if not (isinstance(self.interval_ms, int | float) and 0.1 <= self.interval_ms <= 10_000):
            raise OrbitccError("interval_ms", self.interval_ms, "a number of milliseconds from 0.1 to 10000")

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


PRESETS: dict[str, Preset] = {
    "astraea": Preset("astraea", description="Astraea's local state, cwnd steps of 2.5 % and global reward; 30 ms"),
    "astraea-20ms": Preset("astraea-20ms", interval_ms=20.0, description="the same at 20 ms, as run by the LEO study"),
}


def preset(
    name: str | Preset = "astraea",
    *,
    observation: str | Observation | None = None,
    action: str | Action | None = None,
    reward: str | Reward | None = None,
    interval_ms: float | None = None,
) -> Preset:
    """The named preset, with any of its pieces replaced.

    Raises:
        OrbitccError: the preset or a piece is unknown, or the interval is outside 0.1 ms to 10 s.
    """
    if isinstance(name, str) and name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    base = PRESETS[name] if isinstance(name, str) else name
    pieces: dict[str, Any] = {
        "observation": observation,
        "action": action,
        "reward": reward,
        "interval_ms": interval_ms,
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
    """The documentation table of a native observation: index, meaning, minimum, maximum, unit."""
    if name not in _sim.PRESETS["observation"]:
        raise UnknownNameError("observation", name, _sim.PRESETS["observation"])
    spec = _sim.PRESETS["observation"][name]
    rows = ["| index | meaning | min | max | unit |", "|---|---|---|---|---|"]
    columns = (spec["labels"], spec["low"], spec["high"], spec["units"])
    for index, (label, low, high, unit) in enumerate(zip(*columns, strict=True)):
        rows.append(f"| {index} | {label} | {low:g} | {high:g} | {unit} |")
    return "\n".join(rows)
