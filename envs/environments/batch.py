"""N worlds stepped together with the functions of one preset."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.common.errors import OrbitccError, StateError
from orbitcc.envs.controllers import AnyPolicy
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.custom import Remembered, Roster, control, observe, rewards
from orbitcc.envs.environments.presets import STATS, Action, Native, Observation, Preset, Reward

Totals = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Totals of the flows and of the links of a world."""
IDLE, ACTIVE = _sim.STATUS_IDLE, _sim.STATUS_ACTIVE
GLOBAL_STATE = 12
"""Width of the critic's global state."""
TERMINATED, TRUNCATED = _sim.STATUS_TERMINATED, _sim.STATUS_TRUNCATED
_ALLOWED = "numbers; those beyond [-1, 1] are clipped"


@dataclass(frozen=True)
class _PythonResults:
    """The results of Python functions for the last interval of one world."""

    stale: bool
    obs: NDArray[np.float32]
    reward: NDArray[np.float32]
    roster: Remembered


@dataclass(frozen=True)
class WorldState:
    """An opaque, exact copy of one world of a batch, with the memory of Python functions."""

    native: _sim.WorldState
    python: _PythonResults | None
    preset: Preset
    max_agents: int
    scenario: Scenario | None = None


@contextmanager
def _refusals() -> Iterator[None]:
    """What the simulator says of a network that it cannot play, as an OrbitccError."""
    try:
        yield
    except _sim.NetworkError as error:
        raise StateError("scenario", str(error)) from None


def _made(specs: list[str], **settings: Any) -> _sim.Worlds:
    with _refusals():
        return _sim.Worlds(specs, **settings)


class Batch:
    """N worlds of up to S agents each; agent index s of a world is its s-th flow with the controller ``external``.

    The arrays are written in place by :meth:`reset` and :meth:`step`:
    ``obs`` f32[N, S, D], ``reward`` f32[N, S], ``status`` u8[N, S] (``_sim.STATUS_*``). With the clock `flow` of a
    preset a step ends when some flow decides next; those that wait are idle, with reward 0 and their last observation.

    Args:
        specs: N compiled networks.
        agents: agents per world at most; worlds with fewer leave agents idle.
        preset: the functions; native ones run in the simulator, Python ones on the raw statistics of all flows at once,
            and once for every interval of a flow.
        threads: of the native pool; 0 = one per core.
        policies: of background flows with the native controller ``policy``.
        emulator: the program that plays worlds on this machine's kernel (:mod:`orbitcc.emulator`); None: simulated.
    """

    def __init__(
        self,
        specs: Sequence[str],
        *,
        max_agents: int,
        preset: Preset,
        threads: int = 1,
        policies: Mapping[str, AnyPolicy] | None = None,
        emulator: str | None = None,
    ) -> None:
        self._preset = preset
        self._any_spec, self._threads = specs[0], threads
        self._settings: dict[str, Any] = {
            "max_agents": max_agents,
            "interval_ns": preset.interval_ns,
            "interval_rtts": preset.interval_rtts,
            "interval_least_ns": preset.interval_least_ns,
            "own_clock": preset.own_clock,
            "observation": preset.native("observation").json(),
            "action": preset.native("action").json(),
            "reward": preset.native("reward").json(),
            "safety_filter": preset.limits,
            "policies": policies,
            "emulator": emulator,
        }
        self._worlds = _made(list(specs), threads=threads, **self._settings)
        self._warm_up: _sim.Worlds | None = None
        n = len(specs)
        self._fresh = dict(enumerate(specs))  # networks of worlds that nothing has been done to
        self.observation_space = preset.observation_space()
        self.obs: NDArray[np.float32] = np.zeros((n, max_agents, *self.observation_space.shape), np.float32)
        self.reward = np.zeros((n, max_agents), np.float32)
        self.status = np.zeros((n, max_agents), np.uint8)
        self._all_active = bytes([ACTIVE]) * self.status.size
        self._figures = np.zeros((4, n, max_agents), np.float64)
        self._statistics = np.zeros((n, max_agents, len(STATS)), np.float64)
        self._native_obs: NDArray[np.float32] = np.zeros((n, max_agents, self._worlds.observation_dim), np.float32)
        self._native_reward = np.zeros((n, max_agents), np.float32)
        # a Python action sets windows itself
        self._action = preset.action if isinstance(preset.action, Action) else None
        self._no_action: NDArray[np.float32] | None = np.zeros((1, max_agents, self._worlds.action_dim), np.float32)
        if self._action is not None:
            self._no_action = None
        if not isinstance(preset.observation, Observation):
            self._native_obs = self.obs
        if not isinstance(preset.reward, Reward):
            self._native_reward = self.reward
        self._roster = Roster(preset, n, max_agents) if preset.python() else None
        self._stale = np.ones(n, np.bool_)  # worlds whose last interval Python functions have not seen

    @property
    def preset(self) -> Preset:
        """The preset, with the reward that is used now."""
        return self._preset

    @property
    def num_worlds(self) -> int:
        return self._worlds.num_worlds

    @property
    def max_agents(self) -> int:
        return self._worlds.max_agents

    def reset(self, index: int, spec: str, agents: int = 1) -> None:
        """Replace world `index` by a new one at the first moment at which this many agents have something to decide on.

        The other worlds stand still. :meth:`observe` must follow before the arrays are read.

        Raises:
            OrbitccError: there are never so many agents in this world.
        """
        if self._fresh.pop(index, None) != spec:
            with _refusals():
                self._worlds.reset(index, spec)
        self._stale[index] = True
        if self._roster is not None:
            self._roster.clear(index)
        self._worlds.observe(self._native_obs, self._native_reward, self.status)
        joined = self.status[index] == ACTIVE
        if np.count_nonzero(joined) >= agents:
            return
        # A step would move every world, so a world whose agents start late is warmed up by itself and then moved in;
        # the only one is where it belongs.
        only = self.num_worlds == 1
        alone = self._worlds if only else self._apart(index, spec)
        obs, reward, status = self._native_obs[:1].copy(), self.reward[:1].copy(), self.status[:1].copy()
        alone.observe(obs, reward, status)
        while np.count_nonzero(joined) < agents:
            if alone.finished()[0]:
                what = "no agent ever starts" if agents == 1 else f"never {agents} agents at a time"
                raise OrbitccError("scenario", what, f"{agents} or more external flows before the end")
            self._tell(alone, status, np.array([index]))
            alone.step(self._no_action, obs, reward, status)
            # on clocks of their own, those that have joined wait for the others
            joined = (status[0] == ACTIVE) | (joined & (status[0] == IDLE) & self._preset.own_clock)
        if not only:
            self._worlds.exchange(index, alone, 0)

    def _apart(self, index: int, spec: str) -> _sim.Worlds:
        """A batch of world `index` alone, which has this network; another world is in its place until it returns."""
        if self._warm_up is None:
            self._warm_up = _made([spec], threads=1, **self._settings)
        self._warm_up.exchange(0, self._worlds, index)
        return self._warm_up

    def observe(self) -> None:
        """Update obs, reward and status without advancing."""
        self._worlds.observe(self._native_obs, self._native_reward, self.status)
        self._tell_stale()

    def step(self, actions: NDArray[np.float32]) -> None:
        """Advance every unfinished world one interval, or to the next decision of a flow on its own clock; `actions` is
        f32[N, S, A], read where status is active.

        Raises:
            OrbitccError: an active agent index's action is NaN; no world has moved.
        """
        given: NDArray[np.float32] | None = None
        if self._action is not None:
            self._refuse_nan(actions)
            self._apply_custom_action(self._action, actions)
        else:
            given = np.ascontiguousarray(actions, np.float32)
        moving = None if self._roster is None else ~self._worlds.finished()
        self._fresh.clear()
        try:
            self._worlds.step(given, self._native_obs, self._native_reward, self.status)
        except ValueError:  # no world has moved
            self._refuse_nan(actions)
            raise
        if moving is not None:
            self._stale |= moving
            self._tell_stale()

    def all_active(self) -> bool:
        """Does every agent act on the next step?"""
        return self.status.tobytes() == self._all_active  # a tenth of what comparing arrays costs

    def set_reward(self, reward: str | Mapping[str, Any] | Native) -> None:
        """Use another native reward, or other parameters, from the next step on.

        Raises:
            OrbitccError: unknown name or parameter, or the preset's reward is a Python function.
        """
        if isinstance(self._preset.reward, Reward):
            raise OrbitccError("reward", str(reward), "a preset whose reward is a native one")
        function = Native.of("reward", reward)
        self._preset = replace(self._preset, reward=function)
        self._settings["reward"] = function.json()
        self._worlds.set_reward(function.json())
        self._warm_up = None  # made anew with the new rules

    def statistics(self) -> NDArray[np.float64]:
        """Raw interval statistics, f64[N, S, len(STATS)]; the array is reused by the next call."""
        self._worlds.stats(self._statistics)
        return self._statistics

    def present(self) -> NDArray[np.bool_]:
        """Which agents have a flow that goes on and has been observed, bool[N, S]: those that act on the next step, and
        on flows' own clocks those that wait for their next decision."""
        acting: NDArray[np.bool_] = self.status == ACTIVE
        if not self._preset.own_clock:
            return acting
        waiting: NDArray[np.bool_] = (self.status == IDLE) & (self.statistics()[..., STATS["interval_s"]] > 0)
        return acting | waiting

    def step_figures(self) -> NDArray[np.float64]:
        """Goodput, RTT, utilisation and queue of the last interval, f64[4, N, S]; reused by the next call."""
        self._worlds.step_figures(self._figures)
        return self._figures

    def global_state(self, out: NDArray[np.float32]) -> None:
        """Write the critic's global state, f32[N, 12]."""
        self._worlds.global_state(out)

    def finished(self) -> NDArray[np.bool_]:
        """Which worlds have reached their time limit, bool[N]."""
        return self._worlds.finished()

    def now_s(self) -> NDArray[np.float64]:
        """Simulated time of each world in seconds, f64[N]."""
        return self._worlds.now_ns().astype(np.float64) * 1e-9

    def overruns(self, index: int) -> int:
        """Decisions of an emulated world that came late because the agents took longer than an interval."""
        return self._worlds.overruns(index)

    def flow_of(self, index: int, agent: int) -> int | None:
        """The flow with this agent index now, as its place in the network; None if the world has fewer agents."""
        return self._worlds.flow_of(index, agent)

    def totals(self, index: int) -> Totals:
        """Flow and link totals of one world so far."""
        return self._worlds.flow_totals(index), self._worlds.link_totals(index)

    def save(self, index: int) -> WorldState:
        """An exact copy of one world, with the memory of Python functions."""
        python = None
        if self._roster is not None:
            remembered = self._roster.save(index)
            python = _PythonResults(
                bool(self._stale[index]), self.obs[index].copy(), self.reward[index].copy(), remembered
            )
        try:
            native = self._worlds.save(index)
        except _sim.NetworkError as error:
            raise StateError("save", str(error)) from None
        return WorldState(native, python, self._preset, self.max_agents)

    def restore(self, index: int, state: WorldState) -> None:
        """Put a saved world back; it continues identically. :meth:`observe` refreshes the arrays.

        Raises:
            OrbitccError: it was saved with other functions, another decision interval or another number of agents.
        """
        if not isinstance(state, WorldState):
            raise OrbitccError("state", state, "what save() returned")
        for name in (field.name for field in fields(Preset) if field.name != "name" and field.compare):
            saved, ours = getattr(state.preset, name), getattr(self._preset, name)
            if saved != ours:
                raise OrbitccError(f"state.preset.{name}", str(saved), f"{ours}, that of this environment")
        if state.max_agents != self.max_agents:
            raise OrbitccError("state.max_agents", state.max_agents, f"{self.max_agents}, that of this environment")
        self._worlds.restore(index, state.native)
        self._fresh.pop(index, None)
        if self._roster is not None and state.python is not None:
            python = state.python
            self._stale[index], self.obs[index], self.reward[index] = python.stale, python.obs, python.reward
            self._roster.restore(index, python.roster)

    def clone(self) -> Self:
        """A copy of all worlds at the same moment; both continue identically."""
        states = [self.save(index) for index in range(self.num_worlds)]
        twin = type(self)(
            [self._any_spec] * self.num_worlds,
            max_agents=self.max_agents,
            preset=self._preset,
            threads=self._threads,
            policies=self._settings["policies"],
            emulator=self._settings["emulator"],
        )
        for index, state in enumerate(states):
            twin.restore(index, state)
        for name in ("obs", "reward", "status", "_native_obs", "_native_reward"):
            getattr(twin, name)[...] = getattr(self, name)
        return twin

    def alone(self) -> Self:
        """A batch of one world with the same functions."""
        return type(self)(
            [self._any_spec],
            max_agents=self.max_agents,
            preset=self._preset,
            policies=self._settings["policies"],
            emulator=self._settings["emulator"],
        )

    def _tell_stale(self) -> None:
        """Call the Python functions for the last interval of the worlds where they have not been called."""
        if self._roster is None or not self._stale.any():
            return
        function = self._preset.observation
        if isinstance(function, Observation):
            nothing = self._stale[:, None] & ~(self.present() & (self.status == IDLE))
            self.obs[nothing] = np.clip(0.0, function.low, function.high)
        if isinstance(self._preset.reward, Reward):
            self.reward[self._stale] = 0.0
        self._tell(self._worlds, np.where(self._stale[:, None], self.status, IDLE), np.arange(self.num_worlds))
        self._stale[:] = False

    def _tell(self, worlds: _sim.Worlds, status: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        """Call the Python functions for an interval of all active flows; numbers: indices of the worlds."""
        if self._roster is None or not status.any():
            return
        stats, places = np.zeros((*status.shape, len(STATS))), np.zeros(status.shape, np.int64)
        worlds.stats(stats)
        worlds.places(places)
        here, agent = np.nonzero(status != IDLE)
        rows, world = stats[here, agent], numbers[here]
        self._roster.meet(world, agent, places[here, agent])
        if isinstance(self._preset.reward, Reward):
            who = self._roster.who("reward", world, agent)
            self.reward[world, agent] = rewards(self._preset.reward, rows, who)
            self._roster.keep("reward", who)
        if isinstance(self._preset.observation, Observation):
            who = self._roster.who("observation", world, agent)
            self.obs[world, agent] = observe(self._preset.observation, rows, who)
            self._roster.keep("observation", who)

    def _refuse_nan(self, actions: NDArray[np.float32]) -> None:
        bad = np.argwhere((self.status == ACTIVE) & np.isnan(actions).any(axis=-1))
        if bad.size:
            world, agent = bad[0]
            raise OrbitccError(f"action of flow_{agent} in world {world}", float("nan"), _ALLOWED)

    def _apply_custom_action(self, function: Action, actions: NDArray[np.float32]) -> None:
        assert self._roster is not None
        world, agent = np.nonzero(self.status == ACTIVE)
        if world.size == 0:
            return
        who = self._roster.who("action", world, agent)
        cwnd, pacing = control(function, np.clip(actions[world, agent], -1, 1), self.statistics()[world, agent], who)
        self._roster.keep("action", who)
        for w, s, window, rate in zip(world, agent, cwnd, pacing, strict=True):
            self._worlds.set_cwnd(int(w), int(s), float(window), float(rate))
