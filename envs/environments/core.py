"""N worlds in episodes: the core of every environment class."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError, StateError, UnknownNameError
from orbitcc.common.numbers import checked_number
from orbitcc.emulator import needs
from orbitcc.emulator.run import refuse
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.batch import ACTIVE, GLOBAL_STATE, Batch, Totals, WorldState
from orbitcc.envs.environments.config import EnvConfig
from orbitcc.envs.environments.journal import Journal, rebuilt
from orbitcc.envs.environments.presets import STATS, Preset, of_choices
from orbitcc.envs.environments.render import pictures

FINAL_INFO = ("goodput_mbps", "sent_packets", "retransmitted_packets", "lost_packets")
"""Totals of a flow in its last info, all numbers (see `orbitcc run --json`)."""

STEP_INFO = ("step_goodput_mbps", "step_rtt_ms", "step_utilisation", "step_queue_bytes")
"""Keys of every info, about the last interval: goodput, mean RTT (smoothed RTT without a sample, 0 before the first),
goodput over the capacity of the bottleneck, and the queue of the bottleneck at the end."""


class ResetNeededError(StateError, gym.error.ResetNeeded):
    """A call that needs a running episode."""


@dataclass(frozen=True)
class WorldEpisode:
    """A new episode of a world: its scenario, its compiled network, and its number of agents at the start."""

    scenario: Scenario
    network: str
    agents: int


class Feed(Protocol):
    """The source of an environment's episodes.

    max_agents: the most agents of a world. shared: all worlds draw with one generator, else each has its own.
    """

    max_agents: int
    shared: bool

    def next(
        self, world: int, rng: np.random.Generator, seed: int | None, scenario: Scenario | None, cut: bool
    ) -> WorldEpisode:
        """The next episode of a world, or one of this scenario. cut: end it at a random moment."""

    def clone(self) -> Self:
        """An independent copy with the same state."""


class Core:
    """N worlds of up to S agents, each in some episode.

    Args:
        config: what they are made of.
        feed: where their episodes come from.
        num_worlds: N.
        threads: of the native pool; None: as configured.
        journal: keep what :meth:`journal` tells.

    Raises:
        OrbitccError: the emulator cannot play such worlds, or not on this machine.
    """

    def __init__(
        self, config: EnvConfig, feed: Feed, num_worlds: int, *, threads: int | None = None, journal: bool = False
    ) -> None:
        self.config, self.feed = config, feed
        self.is_live = config.backend == "emulator"
        """Does the world run on the kernel of this machine?"""
        self._emulator: str | None = None
        if self.is_live:
            if num_worlds > 1 or journal:
                what = "a journal" if journal else f"{num_worlds} worlds; the emulator plays one at a time"
                raise OrbitccError("backend", config.backend, f"simulator for {what}")
            self._emulator = needs.ready_program(agents=True)
        self.num_worlds, self.max_agents = num_worlds, feed.max_agents
        self.preset = config.preset
        self.observation_space, self.action_space = self.preset.observation_space(), self.preset.action_space()
        seen = self.observation_space
        self.nothing_seen: NDArray[np.float32] = np.clip(np.zeros_like(seen.low), seen.low, seen.high)
        self.state_space = spaces.Box(-np.inf, np.inf, (GLOBAL_STATE,), np.float32)
        self.pictures = pictures(config.render_mode, num_worlds)
        self.generators: list[np.random.Generator | None] = [None] * (1 if feed.shared else num_worlds)
        self._threads = config.threads if threads is None else threads
        self._batch: Batch | None = None
        self._scenarios: list[Scenario | None] = [None] * num_worlds
        self._journal = Journal(num_worlds) if journal else None

    @property
    def batch(self) -> Batch:
        """The worlds; there are none before the first :meth:`begin`."""
        if self._batch is None:
            raise ResetNeededError("step", "there is no episode yet: reset() first")
        return self._batch

    # -- episodes ---------------------------------------------------------------------------------------------------

    def generator(self, world: int, seed: int | None) -> np.random.Generator:
        """The generator that draws the episodes of a world; a seed, or a first call, makes a new one."""
        index = world % len(self.generators)
        found = self.generators[index]
        if seed is not None or found is None:
            found, _ = seeding.np_random(seed)
            self.generators[index] = found
        return found

    def begin(
        self,
        world: int,
        rng: np.random.Generator,
        seed: int | None = None,
        scenario: Scenario | None = None,
        *,
        cut: bool = False,
    ) -> None:
        """Start a new episode in a world and run it to the first decision of an agent; other worlds do not move.

        :meth:`observe` must follow before anything is read.
        """
        if scenario is not None and not isinstance(scenario, Scenario):
            raise OrbitccError("options.scenario", scenario, "a Scenario")
        episode = self.feed.next(world, rng, seed, scenario, cut)
        if self._emulator is not None:
            refuse(episode.scenario, plain=False)
        if self._batch is None:
            self._batch = Batch(
                [episode.network] * self.num_worlds,
                max_agents=self.max_agents,
                preset=self.preset,
                threads=self._threads,
                policies=episode.scenario.policies(),
                emulator=self._emulator,
            )
        self._batch.reset(world, episode.network, agents=episode.agents)
        self._scenarios[world] = episode.scenario
        if self._journal is not None:
            self._journal.begin(world, episode.network)
        if self.pictures is not None:
            self.pictures.clear(world)

    def renew(self, worlds: NDArray[np.bool_]) -> None:
        """Start new episodes in these worlds, bool[N]."""
        for world in np.flatnonzero(worlds).tolist():
            self.begin(world, self.generator(world, None))
        self.batch.observe()

    def step(self, actions: NDArray[np.float32]) -> Batch:
        """Advance every unfinished world one interval. actions: f32[N, S, A], applied where agents are active."""
        batch = self._batch or self.batch
        batch.step(actions)
        if self._journal is not None:
            self._journal.step(actions)
        return batch

    def look(self) -> None:
        """Record the present moment for rendering."""
        if self.pictures is not None:
            self.pictures.add(self.batch)

    # -- what there is to know --------------------------------------------------------------------------------------

    def checked_world(self, world: Any) -> int:
        """The number of a world; raises OrbitccError unless there is one."""
        return checked_count("world", world, least=0, most=self.num_worlds - 1)

    def scenario(self, world: int) -> Scenario:
        """The scenario of the running episode of a world."""
        scenario = self._scenarios[self.checked_world(world)]
        if scenario is None:
            raise ResetNeededError("step", "there is no episode yet: reset() first")
        return scenario

    def active(self) -> NDArray[np.bool_]:
        """Who acts on the next step, bool[N, S]."""
        return self.batch.status == ACTIVE

    def state(self) -> NDArray[np.float32]:
        """The global state of each world, float32[N, 12]."""
        state = np.zeros((self.num_worlds, GLOBAL_STATE), np.float32)
        self.batch.global_state(state)
        return state

    def final_info(self, world: int, agent: int) -> dict[str, float]:
        """The totals of a flow that left (:data:`FINAL_INFO`)."""
        flow = self.batch.flow_of(world, agent)
        assert flow is not None
        totals = self.batch.totals(world)[0][flow]
        return {key: float(totals[key]) for key in FINAL_INFO}

    def final_infos(self, ended: NDArray[np.bool_], worlds: NDArray[Any], agents: NDArray[Any]) -> dict[str, Any]:
        """The same as infos of a vector environment, for the entries whose episode ended.

        worlds, agents: int[n], the world and the agent index of each entry.
        """
        infos: dict[str, Any] = {}
        for key in FINAL_INFO:
            infos[key], infos[f"_{key}"] = np.zeros(len(ended)), ended.copy()
        for world in np.unique(worlds[ended]).tolist():
            totals, _ = self.batch.totals(world)
            for i in np.flatnonzero(ended & (worlds == world)):
                flow = self.batch.flow_of(world, int(agents[i]))
                assert flow is not None
                for key in FINAL_INFO:
                    infos[key][i] = float(totals[flow][key])
        return infos

    def live_info(self) -> dict[str, Any]:
        """Keys of every info of an emulated world: `overruns` so far. Empty for simulated worlds."""
        return {} if self._emulator is None else {"overruns": self.batch.overruns(0)}

    def statistics(self, world: int, agent: int) -> dict[str, float]:
        """Raw statistics of one flow over the last interval, by name (:data:`orbitcc.STATS`)."""
        row = self.batch.statistics()[world, agent]
        return {name: float(row[column]) for name, column in STATS.items()}

    def totals(self, world: int) -> Totals:
        """Totals of the flows and of the links of a world so far (`orbitcc run --json`)."""
        return self.batch.totals(self.checked_world(world))

    def frames(self) -> tuple[NDArray[np.uint8], ...] | None:
        """With `rgb_array` a frame of every world."""
        self.scenario(0)  # an error before the first reset
        return None if self.pictures is None else self.pictures.frames()

    def close(self) -> None:
        """Free the worlds; this also ends an emulated episode."""
        if self._emulator is not None:
            self._batch = None
        if self.pictures is not None:
            self.pictures.close()

    # -- copies -----------------------------------------------------------------------------------------------------

    def save(self, world: int) -> tuple[Scenario, WorldState]:
        """An exact copy of a running episode."""
        scenario = self.scenario(world)
        return scenario, replace(self.batch.save(world), scenario=scenario)

    def restore(self, world: int, saved: tuple[Scenario, WorldState]) -> None:
        """Put a saved episode into a world; it continues identically.

        Raises:
            OrbitccError: the past of this world is not in the journal that is kept, there is no such world, or the
                episode was saved in an environment with another preset or another number of agents.
        """
        self.checked_world(world)
        if self._journal is not None:
            raise StateError("restore", "an environment that keeps a journal cannot go back; make one without journal")
        if not isinstance(saved, tuple) or len(saved) != 2:
            raise OrbitccError("state", saved, "what save() returned")
        scenario, state = saved
        if isinstance(state, WorldState) and scenario != state.scenario:
            what = f"{state.scenario and state.scenario.name}, with which it was saved"
            raise OrbitccError("state.scenario", str(getattr(scenario, "name", scenario)), what)
        self.batch.restore(world, state)
        self._scenarios[world] = scenario
        self.batch.observe()
        if self.pictures is not None:
            self.pictures.clear(world)
        self.look()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """An independent copy at the same moment; both continue identically."""
        twin = copy.copy(self)
        memo[id(self)] = twin
        if self._batch is not None:
            twin._batch, twin._scenarios = self._batch.clone(), list(self._scenarios)
        twin.feed = self.feed.clone()
        twin.pictures = pictures(self.config.render_mode, self.num_worlds)
        twin.generators = copy.deepcopy(self.generators, memo)
        twin._journal = copy.deepcopy(self._journal, memo)
        return twin

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """The configuration only: running worlds are not pickled."""
        return {**self.__dict__, "_batch": None, "_scenarios": [None] * self.num_worlds}

    # -- journals ---------------------------------------------------------------------------------------------------

    def journal(self) -> dict[str, Any]:
        """Networks, actions and random state of all worlds as plain values and arrays, for :meth:`replay`.

        Raises:
            OrbitccError: no journal is kept, or nothing runs yet.
        """
        kept = self.require_journal()
        scenarios = [self.scenario(world).model_dump() for world in range(self.num_worlds)]
        generators = [self.generator(index, None).bit_generator.state for index in range(len(self.generators))]
        return {**kept.written(), "scenarios": scenarios, "generators": generators, "of": self._journal_of}

    def check_journal(self, journal: Mapping[str, Any], *more: str) -> None:
        """Raise OrbitccError unless :meth:`replay` can run worlds like these again from this journal.

        No journal is kept, a part is missing or damaged, or it is one of another number of worlds, preset, background
        or transport. more: parts that it must have beside those of :meth:`journal`.
        """
        kept, given = self.require_journal(), "what journal() of such an environment gave"
        if not isinstance(journal, Mapping):
            raise OrbitccError("journal", journal, given)
        parts = ("networks", "ages", "actions", "generators", "scenarios", *more)
        missing = [part for part in parts if part not in journal]
        if missing:
            raise OrbitccError("journal", f"one without {', '.join(missing)}", given)
        if journal.get("of", self._journal_of) != self._journal_of:
            allowed = "one that an environment with this preset, background and transport wrote"
            raise OrbitccError("journal", "one of another environment", allowed)
        kept.check(journal, self.max_agents, self.preset.action_dim)
        for part, count in (("scenarios", self.num_worlds), ("generators", len(self.generators))):
            if not isinstance(journal[part], list) or len(journal[part]) != count:
                raise OrbitccError(f"journal.{part}", journal[part], f"a list of {count}")

    def replay(self, journal: Mapping[str, Any], agents: list[int]) -> None:
        """Run all worlds again to the moment at which `journal` was written; they continue identically.

        agents: with how many each world begins. The worlds must have begun once, and :meth:`check_journal` accept the
        journal.

        Raises:
            OrbitccError: it has a scenario, a network, an action or a random state that cannot be used.
        """
        scenarios = rebuilt("scenarios", journal["scenarios"])
        generators = [_generator(state) for state in journal["generators"]]
        self.require_journal().replay(journal, self.batch, agents, self.batch.alone())
        self._scenarios, self.generators = [*scenarios], [*generators]
        self.look()

    @property
    def _journal_of(self) -> str:
        return f"{self.preset.identity} {self.config.background} {self.config.transport}"

    def require_journal(self) -> Journal:
        """The journal; raises OrbitccError if none is kept."""
        if self._journal is None:
            raise StateError("journal", "none is kept; make the environment with journal=True")
        return self._journal


def _generator(state: Any) -> np.random.Generator:
    """A generator in the state that a journal holds."""
    made, _ = seeding.np_random(0)
    try:
        made.bit_generator.state = state
    except (TypeError, ValueError, KeyError, OverflowError):
        raise OrbitccError("journal.generators", state, "states of NumPy's generators") from None
    return made


# -- what views are given ---------------------------------------------------------------------------------------------


def checked_seed(seed: Any) -> int | None:
    """A seed as a Python int, or None; raises OrbitccError for anything else."""
    if seed is None:
        return None
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if isinstance(seed, bool) or number < 0:
        raise OrbitccError("seed", seed, "a whole number of 0 or more, or None")
    return number


def checked_options(options: Mapping[str, Any] | None, *known: str) -> dict[str, Any]:
    """`options` of reset(); raises OrbitccError for an unknown one."""
    if options is not None and not isinstance(options, Mapping):
        raise OrbitccError("options", options, "a dict of options by name, or None")
    for name in options or {}:
        if name not in known:
            raise UnknownNameError(f"options.{name}", name, known)
    return dict(options or {})


MOST = 100_000
"""Worlds or flows of an environment; a world takes at least 60 kB."""


def checked_count(field: str, value: Any, *, least: int = 1, most: int = MOST) -> int:
    """A whole number from `least` to `most`, such as a number of worlds or flows; raises OrbitccError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise OrbitccError(field, value, f"a whole number from {least} to {most:,}")
    return int(value)


def checked_real(field: str, value: Any) -> float:
    """A number, such as a factor on rewards; raises OrbitccError for anything else, such as NaN."""
    try:
        return float(checked_number(value, -1e9, 1e9))
    except OrbitccError as error:
        raise error.at(field) from None


def checked_flag(field: str, value: Any) -> bool:
    """True or false; raises OrbitccError for anything else, such as the text "no"."""
    if not isinstance(value, bool | np.bool_):
        raise OrbitccError(field, value, "true or false")
    return bool(value)


def checked_actions(field: str, actions: Any, preset: Preset, rows: tuple[int, ...]) -> NDArray[np.float32]:
    """Actions for so many rows as the simulator takes them, float32[*rows, A]. Choices are whole numbers of shape
    `rows`; they become even distances from -1 to 1.

    Raises:
        OrbitccError: another shape, or no such choice.
    """
    choices = preset.choices
    shape = (*rows, preset.action_dim) if choices is None else rows
    if type(actions) is np.ndarray and actions.dtype == np.float32:
        values = actions
    else:
        try:
            given = np.ma.asarray(actions)
            if given.dtype.kind not in "biuf" or np.ma.is_masked(given):
                raise TypeError
            with np.errstate(over="ignore"):  # values beyond the bounds are clipped
                values = np.asarray(given, np.float32)
        except (TypeError, ValueError, OverflowError):
            raise OrbitccError(field, actions, f"an array of numbers of shape {shape}") from None
    if values.shape != shape:
        raise OrbitccError(field, f"an array of shape {values.shape}", f"shape {shape}")
    if choices is None:
        return values
    if not np.isin(values, np.arange(choices)).all():
        raise OrbitccError(field, values.tolist(), f"whole numbers from 0 to {choices - 1}")
    return of_choices(values, choices)[..., None]


def scenarios_of(options: Mapping[str, Any], count: int) -> list[Any]:
    """`options["scenario"]` of each world: one for all, or a list of one per world. None: draw the next one."""
    given = options.get("scenario")
    scenarios = list(given) if isinstance(given, list | tuple) else [given] * count
    if len(scenarios) != count:
        raise OrbitccError("options.scenario", f"{len(scenarios)} scenarios", f"one, or {count} of them")
    return scenarios
