"""Types of the native simulator (Rust, `sim/python`).

Times are integer nanoseconds, rates bits per second, sizes bytes, unless a name says otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

STATISTICS: tuple[tuple[str, str, float, float, str, str], ...]
"""The raw statistics in order: name, unit, smallest and largest value, source (kernel, per-ack or oracle), meaning."""
"""Names of the last axis of :meth:`Worlds.stats`, in order (see docs/architecture.md)."""

FLOW_SERIES: tuple[str, ...]
"""Names of `Simulation.recording()["flows"]`, each an array [T, F]."""

LINK_SERIES: tuple[str, ...]
"""Names of `Simulation.recording()["links"]`, each an array [T, L]."""

CONTROLLERS: Mapping[str, Mapping[str, Any]]
"""Native controllers: name -> parameter name -> default value."""

FUNCTIONS: Mapping[str, tuple[str, ...]]
"""Names of the native functions by kind: observation, action, reward."""

def function(kind: str, request: str) -> dict[str, Any]:
    """A native function that is asked for as JSON text, `"astraea"` or `{"name": "astraea", "history": 1}`.

    `name`, `family`, `formula` (version of the formulas) and `parameters` (all of them); of an observation `dim`,
    `features`, `history`, and a list each of `low`, `high`, `labels`, `units`; of an action `dim`, `choices` (how many
    factors it selects from, or None) and `meaning`; of a reward `low`, `high` and `shared`. ValueError "FIELD = VALUE:
    must be ..." for what is unknown or not allowed.
    """

class Policy:
    """A network acting natively.

    layers: one mapping per layer, `{"weight": f32[out, in], "bias": f32[out], "norm": None | {"kind": "layer",
    "scale": f32[out], "shift": f32[out], "eps": float}, "activation": "tanh" | "relu" | "leaky_relu" | "linear"}`;
    a batch normalisation is folded into weight and bias by the caller. `leaky_relu` has slope 0.2.
    mean, std: observation normaliser, f32[D] (`(x - mean) / std`, then clipped to +-clip), or None.
    observation, action: functions as JSON text.
    squash: "tanh" | "clip" | "argmax": how the last layer's output becomes an action in [-1, 1].
    safety_filter: limits applied outside of the network, JSON text (the model card's `safety_filter`), or None.
    gate: weighs the last layer's outputs, the experts: `{"layers": [...], "inputs": [columns of the observation that
    the gate observes], "expert_inputs": [those of the experts]}`, or None.
    """

    def __init__(
        self,
        layers: Sequence[Mapping[str, Any]],
        *,
        observation: str,
        action: str,
        interval_ns: int,
        interval_rtts: float = 0.0,
        interval_least_ns: int = 1_000_000,
        mean: NDArray[np.float32] | None = None,
        std: NDArray[np.float32] | None = None,
        clip: float = 10.0,
        squash: str = "clip",
        safety_filter: str | None = None,
        gate: Mapping[str, Any] | None = None,
    ) -> None: ...
    def act(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """f32[n, D] -> f32[n, A]."""

    def fixed(self) -> FixedPolicy:
        """The policy in fixed point. ValueError with the reason if it has no such form, or if this is not Linux."""

class FixedPolicy:
    """A policy whose observation, network, action and safety filter are computed with integers, by the code of the BPF
    programs (sim/emulator/bpf), wherever a :class:`Policy` decides."""

    def data(self, safety_filter: str | None) -> bytes:
        """What the BPF program holds of it under these limits (JSON): `struct limits` and `struct program`."""

    def decide(self, statistics: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The decisions for one flow, without a safety filter.

        Raw statistics f64[n, F] -> observations f64[n, 48], 0 beyond the last feature, and actions f64[n].
        """

class PythonPolicy:
    """A policy that decides in Python, wherever a :class:`Policy` does.

    begin: called without arguments for every new world; it returns `decide(flow, obs, stats)`, which is called for
    every decision of every flow the policy drives: the flow's place in the spec, the native observation f32[D], the raw
    statistics f64[len(STATS_FIELDS)] of the interval that ended. It answers with an action in [-1, 1], which the native
    action performs, or with `(cwnd_packets, pacing_bps)` (0: pacing is left to the sender).
    What either raises, and a ValueError for NaN, stops the world there, and is raised by `run`, `run_until`, `step`
    and `reset`. Copies of a world (`clone`, `save`) decide by the same function and share what it remembers.
    observation, action: native functions as JSON text.
    """

    def __init__(
        self,
        begin: Callable[[], Callable[[int, NDArray[np.float32], NDArray[np.float64]], float | tuple[float, float]]],
        *,
        observation: str,
        action: str,
        interval_ns: int,
        interval_rtts: float = 0.0,
        interval_least_ns: int = 1_000_000,
        safety_filter: str | None = None,
    ) -> None: ...

class Simulation:
    """One network, run from start to end.

    spec: the JSON text of a compiled network (`envs.scenario.Scenario.compile`). Raises ValueError naming the field.
    policies: for flows whose controller is `{"name": "policy", "params": {"policy": KEY}}`.
    emulator: path of `orbitcc-emulator`: the network is played with real packets and this kernel's TCP, its clock
    starts when this returns, and it is neither copied nor the same twice.
    programs: JSON text, the clients and servers of somebody else that take the place of flows there
    (`emulator.programs`).
    capture: keep what passes the senders' hosts for `take_captured`; ValueError with an emulator.
    """

    def __init__(
        self,
        spec: str,
        *,
        record_interval_ns: int = 0,
        policies: Mapping[str, Policy | FixedPolicy | PythonPolicy] | None = None,
        emulator: str | None = None,
        programs: str = "[]",
        capture: bool = False,
    ) -> None: ...
    @property
    def now_ns(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    def run_until(self, t_ns: int) -> None:
        """Advance to t_ns (never beyond the duration); the GIL is released. Raises what an OutsidePolicy raised."""

    def run(self) -> None: ...
    def clone(self) -> Simulation:
        """An exact copy that continues identically."""

    @staticmethod
    def pcap_header() -> bytes:
        """How a pcap file begins."""

    def take_captured(self) -> tuple[bytes, list[bytes]]:
        """What has passed since the last call: records of a pcap file; of each flow a line of JSON per qlog event."""

    def flow_totals(self) -> list[dict[str, Any]]: ...
    def link_totals(self) -> list[dict[str, Any]]: ...
    def recording(self) -> dict[str, Any]:
        """`{"t_s": [T], "flows": {name: [T, F]}, "links": {name: [T, L]}}`; names as in FLOW_SERIES and LINK_SERIES.

        ValueError when nothing is recorded (record_interval_ns = 0).
        """

    @property
    def overruns(self) -> int:
        """Decisions of an emulated network that came late because deciding took longer than an interval."""

    def finish(self) -> str:
        """End an emulated network; what links and hosts report, JSON text."""

    def event_hash(self) -> int:
        """64-bit hash of every event so far."""

    @property
    def events(self) -> int: ...

class WorldState:
    """An opaque, exact copy of one world of a batch."""

class NetworkError(ValueError):
    """A network that the simulator cannot play or copy."""

class Worlds:
    """N independent worlds stepped together by a thread pool, GIL released.

    Each world advances by `interval_ns` per step on its own grid (t = k x interval); with `interval_rtts` > 0 by so
    many RTTs, the mean over its agents. Functions are JSON text (:func:`function`), and so is the safety filter around
    what the agents decide (as of :class:`Policy`). Agent index k of a world is its k-th flow with the controller
    `external`, in the order of the spec; worlds with fewer such flows leave agents idle. A flow that `follows` another
    takes over its agent index.
    Arrays are caller-owned, C-contiguous and written in place; a wrong shape or dtype raises ValueError.
    """

    def __init__(
        self,
        specs: Sequence[str],
        *,
        max_agents: int,
        interval_ns: int,
        interval_rtts: float = 0.0,
        interval_least_ns: int = 1_000_000,
        own_clock: bool = False,
        observation: str = '"astraea"',
        action: str = '"astraea"',
        reward: str = '"astraea"',
        safety_filter: str | None = None,
        threads: int = 0,
        policies: Mapping[str, Policy | FixedPolicy | PythonPolicy] | None = None,
        emulator: str | None = None,
    ) -> None: ...
    @property
    def num_worlds(self) -> int: ...
    @property
    def max_agents(self) -> int: ...
    @property
    def observation_dim(self) -> int: ...
    @property
    def action_dim(self) -> int: ...
    def reset(self, index: int, spec: str) -> None:
        """Replace world `index` by a fresh one (advanced to its first decision, t = interval)."""

    def observe(self, obs: NDArray[np.float32], reward: NDArray[np.float32], status: NDArray[np.uint8]) -> None:
        """Write the current obs [N, S, D], reward [N, S] and status [N, S] without advancing."""

    def step(
        self,
        actions: NDArray[np.float32] | None,
        obs: NDArray[np.float32],
        reward: NDArray[np.float32],
        status: NDArray[np.uint8],
    ) -> None:
        """Apply actions [N, S, A] in [-1, 1] to agents with STATUS_ACTIVE (None: windows stay as :meth:`set_cwnd` left
        them) and advance every unfinished world one interval. Raises ValueError (naming world and agent) for a NaN
        action, before any world moves; and the error of a PythonPolicy, whose world does not advance any more.
        """

    def stats(self, out: NDArray[np.float64]) -> None:
        """Write the raw interval statistics, [N, S, len(STATS_FIELDS)]."""

    def step_figures(self, out: NDArray[np.float64]) -> None:
        """Write goodput in Mbit/s, RTT in ms, goodput over capacity and queue in bytes, [4, N, S]."""

    def global_state(self, out: NDArray[np.float32]) -> None:
        """Write the critic's global state, [N, 12] (Astraea, section 4 of the paper's tables)."""

    def set_reward(self, reward: str) -> None:
        """Use another reward function (JSON text) from the next step on."""

    def flow_of(self, index: int, agent: int) -> int | None:
        """The flow in a agent index now, by its place in the spec."""

    def places(self, out: NDArray[np.int64]) -> None:
        """Write the flow of every agent index now, as its place in the spec, [N, S]; -1 where a world has fewer."""

    def set_cwnd(self, index: int, agent: int, cwnd_packets: float, pacing_bps: float = 0.0) -> None:
        """For custom action functions: set the window (and, if > 0, the pacing rate) of one agent index directly."""

    def overruns(self, index: int) -> int:
        """As of :class:`Simulation`."""

    def finished(self) -> NDArray[np.bool_]:
        """Which worlds have reached their time limit, [N]."""

    def now_ns(self) -> NDArray[np.int64]: ...
    def flow_totals(self, index: int) -> list[dict[str, Any]]: ...
    def link_totals(self, index: int) -> list[dict[str, Any]]: ...
    def save(self, index: int) -> WorldState: ...
    def restore(self, index: int, state: WorldState) -> None: ...
    def exchange(self, index: int, other: Worlds, theirs: int) -> None:
        """World `index` and world `theirs` of another batch with the same functions change places."""

STATUS_IDLE: int  # 0: no flow in this agent index now (not yet started, or gone)
STATUS_ACTIVE: int  # 1: acts on the next step
STATUS_TERMINATED: int  # 2: its object finished during the last interval; this is its final observation
STATUS_TRUNCATED: int  # 4: scheduled leave, or the world's time limit; this is its final observation
