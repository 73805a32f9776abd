"""The settings that all environment classes share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from orbitcc.common.errors import OrbitccError, UnknownKeywordError, UnknownNameError
from orbitcc.envs.description import support
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.description.support import Backend
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.presets import ActionLike, ObservationLike, Preset, RewardLike
from orbitcc.envs.environments.render import MODES
from orbitcc.envs.environments.source import BACKGROUND, EpisodeSource
from orbitcc.envs.scenarios import MEASURED, SCENARIOS, for_training, from_table
from orbitcc.envs.scenarios.distribution import PathDistribution


class Settings(TypedDict, total=False):
    """Keywords of every environment: fields of :class:`EnvConfig`, and parts of its preset.

    Parameters of a named scenario come on top.
    """

    preset: str | Mapping[str, Any] | Preset
    observation: ObservationLike | None
    action: ActionLike | None
    reward: RewardLike | None
    interval_ms: float | None
    max_agents: int | None
    background: str
    threads: int
    backend: Backend
    transport: Any
    render_mode: str | None


MOST_THREADS = 4_096
_PARTS = ("observation", "action", "reward", "interval_ms")


@dataclass(frozen=True)
class EnvConfig:
    """The settings of an environment, checked on construction; every environment class takes one instead of a scenario.

    scenario: a `Scenario`, a `ScenarioDistribution`, or the name, file or table of one. A named scenario that has a
        parameter `run` is drawn anew for every episode, from runs that no suite uses, unless `run` is given.
    preset: observation, action, reward and decision interval; a name, a TOML file, a table or a `Preset`.
    max_agents: how many flows of a world are agents at most; None: all of them (one, in views of single agents).
    background: the controller of external flows beyond the agents.
    threads: of the native pool; 0 = one per core. A view of a single world takes one.
    transport: of the agents' flows: `quic`, its table or `tcp` (:meth:`Scenario.over`); None: as the scenario says.
    backend: what runs the worlds; the emulator plays one at a time, in real time (docs/emulation.md).
    render_mode: `rgb_array`, `human` or None.

    Raises:
        OrbitccError: a value that is not allowed; it names the field.
    """

    scenario: str | Mapping[str, Any] | Scenario | ScenarioDistribution
    preset: Preset = presets.DEFAULT  # type: ignore[assignment]  # what it is given as; a Preset afterwards
    max_agents: int | None = None
    background: str = BACKGROUND
    threads: int = 0
    backend: Backend = "simulator"
    transport: Any = None
    render_mode: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.scenario, Mapping):
            object.__setattr__(self, "scenario", from_table(self.scenario))
        object.__setattr__(self, "preset", presets.preset(self.preset))
        if self.render_mode is not None and not (isinstance(self.render_mode, str) and self.render_mode in MODES):
            raise UnknownNameError("render_mode", self.render_mode, MODES)
        if not (isinstance(self.threads, int) and 0 <= self.threads <= MOST_THREADS):
            raise OrbitccError("threads", self.threads, f"a whole number: 1 to {MOST_THREADS:,}, or 0 for one per core")
        if self.max_agents is not None and not (isinstance(self.max_agents, int) and self.max_agents >= 1):
            raise OrbitccError("max_agents", self.max_agents, "a whole number of at least 1, or None for all")
        support.check(self.backend)

    def __deepcopy__(self, memo: dict[int, Any]) -> EnvConfig:
        return self  # nothing in it changes

    def source(self) -> EpisodeSource:
        """The source of its scenarios, one per episode."""
        assert not isinstance(self.scenario, Mapping)
        return EpisodeSource(
            self.scenario, max_agents=self.max_agents, background=self.background, transport=self.transport
        )

    @staticmethod
    def of(given: Any, settings: Mapping[str, Any], view: Callable[..., Any] | None = None) -> EnvConfig:
        """From the arguments of an environment: a scenario or another configuration, and keywords.

        view: its own keywords are named where one is unknown.

        Raises:
            OrbitccError: a value is not allowed. UnknownKeywordError (a TypeError, too): nobody knows the keyword.
        """
        known = tuple(Settings.__annotations__)
        params: Any = SCENARIOS[given].params if isinstance(given, str) and given in SCENARIOS else {}
        if isinstance(given, str) and given in MEASURED:
            params = ("traces", "places", *PathDistribution.model_fields)
        for name in settings:
            if name not in known and name not in params:
                own = () if view is None else tuple(inspect.signature(view).parameters)
                hidden = ("self", "settings", "num_envs", "num_worlds")
                raise UnknownKeywordError(name, name, [n for n in (*own, *known, *params) if n not in hidden])
        of_scenario = {name: value for name, value in settings.items() if name not in known}
        parts = {name: settings[name] for name in _PARTS if name in settings}
        fields = {name: value for name, value in settings.items() if name in known and name not in _PARTS}
        if isinstance(given, EnvConfig):
            config = replace(given, **fields)
        else:
            config = EnvConfig(for_training(given, of_scenario) if of_scenario else given, **fields)
        return replace(config, preset=presets.preset(config.preset, **parts)) if parts else config

    def for_one_agent(self) -> EnvConfig:
        """The same with a single agent in each world.

        Raises:
            OrbitccError: it asks for several.
        """
        if self.max_agents not in (None, 1):
            allowed = "1 or None here; orbitcc.parallel_env and orbitcc.FlowVectorEnv are for several agents of a world"
            raise OrbitccError("max_agents", self.max_agents, allowed)
        return replace(self, max_agents=1)
