"""Held-out worlds: equal in every evaluation, for policies and classical controllers.

Figures: `reward` per decision and `action_spread`, the standard deviation of the actions, over all worlds, step by
step; and means over worlds of what :mod:`orbitcc.eval.heldout_metrics` measures on their recordings.
"""

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.agents.libraries import Act
from orbitcc.envs.controllers import AnyPolicy
from orbitcc.envs.description.compile import as_text
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import ACTIVE, Batch
from orbitcc.envs.environments.presets import Preset, preset
from orbitcc.envs.environments.source import EpisodeSource, agent_flows
from orbitcc.eval.heldout_metrics import FAILURE_SHARE, Figures, flooded_windows, mean_figures, measure

ACTION_BINS = 40

Report = Callable[[str], None]
"""A callback for the progress of an evaluation, several times a second. What it raises ends the evaluation."""

_WINDOW_NS = 10**9
"""Length of the windows that the held-out metrics use."""
_PARTS = 16
"""Parts in which native runs advance; after each, a flood may end them."""
_BEGINNING = 1 / 16
"""Share of the worlds in which the actions of a policy that floods are looked at, before its queues are long."""


class HeldOut:
    """`worlds` scenarios from `scenario`, drawn with seeds that training does not use."""

    def __init__(
        self,
        scenario: str | Scenario | ScenarioDistribution,
        preset_name: str | Mapping[str, Any] | Preset,
        worlds: int,
        seed: int,
    ) -> None:
        source = EpisodeSource(scenario)
        rngs = [np.random.default_rng([seed, index]) for index in range(worlds)]
        self.scenarios: list[Scenario] = [source.draw(rng) for rng in rngs]
        self._preset = preset(preset_name)
        self._max_agents = source.max_agents
        self.actions = np.zeros(ACTION_BINS, np.int64)
        """Histogram of the actions in the last :meth:`play`, over equal parts of [-1, 1]."""

    def reward(self, act: Act) -> float:
        """Mean reward per decision when every agent of every world is driven by `act`, step by step."""
        return self.play(act)["reward"]

    def play(
        self,
        act: Callable[..., NDArray[np.float32]],
        progress: Report | None = None,
        share: float = 1.0,
    ) -> Figures:
        """`reward` and `action_spread` of `act`; a spread near 0 means a constant action.

        share: of the duration of each world, from its beginning.
        """
        self.actions[:] = 0
        batch = Batch(
            [scenario.compile() for scenario in self.scenarios],
            max_agents=self._max_agents,
            preset=self._preset,
            threads=0,
            policies={key: value for scenario in self.scenarios for key, value in scenario.policies().items()},
        )
        batch.observe()
        actions = np.zeros((*batch.status.shape, batch.preset.action_dim), np.float32)
        total, decisions, first, second = 0.0, 0, 0.0, 0.0
        until = share * np.array([scenario.duration_s for scenario in self.scenarios])
        while not (batch.finished() | (batch.now_s() >= until)).all():
            active = batch.status == ACTIVE
            if active.any():
                actions[active] = acted = act(batch.obs[active])
                self.actions += np.histogram(acted, ACTION_BINS, (-1.0, 1.0))[0]
                first += float(acted.sum(dtype=np.float64))
                second += float((acted.astype(np.float64) ** 2).sum())
            batch.step(actions)
            total += float(batch.reward[active].sum(dtype=np.float64))
            decisions += int(active.sum())
            if progress is not None:
                over = int(batch.finished().sum())
                progress(f"evaluating, decision by decision: {over}/{len(self.scenarios)} worlds")
        n = max(1, decisions)
        return {"reward": total / n, "action_spread": float(np.sqrt(max(second / n - (first / n) ** 2, 0.0)))}

    def run(
        self,
        controller: Mapping[str, Any],
        policies: Mapping[str, AnyPolicy] | None = None,
        progress: Report | None = None,
    ) -> Figures:
        """Run every agent's flow with a native controller, e.g. `{"name": "cubic", "params": {}}`; without a reward."""
        return self._run(controller, policies or {}, progress, to_the_end=True)[0]

    def score(self, policy: _sim.Policy, progress: Report | None = None) -> Figures:
        """All figures of a policy: its reward, and the metrics of its native runs.

        As soon as it is certain that the policy floods (:func:`failures`), the native runs stop, because a flood takes
        many times as long to simulate. Then the rest of every world counts as flooded, the other metrics are those of
        the seconds before, and there is no reward. `action_spread` is that of the beginning of the worlds.
        """
        controller = {"name": "policy", "params": {"policy": "p"}}
        metrics, complete = self._run(controller, {"p": policy}, progress, to_the_end=False)
        if not complete:
            begun = self.play(policy.act, progress, _BEGINNING)
            return {**begun, "reward": math.nan, **metrics}
        return {**self.play(policy.act, progress), **metrics}

    def _run(
        self,
        controller: Mapping[str, Any],
        policies: Mapping[str, AnyPolicy],
        progress: Report | None,
        to_the_end: bool,
    ) -> tuple[Figures, bool]:
        """The metrics of native runs, and whether the worlds ran to their ends.

        All worlds advance by the same share of their durations, one part after the other.
        """
        worlds = [_RecordedWorld(scenario, controller, policies) for scenario in self.scenarios]
        # the simulator releases the interpreter while it runs
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for part in range(1, _PARTS + 1):
                for index, _ in enumerate(pool.map(lambda world: world.advance(part / _PARTS), worlds)):  # noqa: B023
                    if progress is not None:
                        progress(f"evaluating, part {part}/{_PARTS}: {index + 1}/{len(worlds)} worlds")
                if to_the_end or not _PARTS / 2 < part < _PARTS:
                    continue
                if sum(pool.map(_RecordedWorld.flooded_at_least, worlds)) > FAILURE_SHARE * len(worlds):
                    return mean_figures(list(pool.map(_RecordedWorld.measure_flood, worlds))), False
            return mean_figures(list(pool.map(_RecordedWorld.measure, worlds))), True


class _RecordedWorld:
    """A world in which one controller drives the flow of every agent."""

    def __init__(self, scenario: Scenario, controller: Mapping[str, Any], policies: Mapping[str, AnyPolicy]) -> None:
        network = scenario.network()
        self.scenario, self.agents = scenario, agent_flows(scenario)
        for index in self.agents:
            network["flows"][index]["controller"] = dict(controller)
        self.simulation = _sim.Simulation(
            as_text(network), record_interval_ns=_WINDOW_NS, policies={**scenario.policies(), **policies}
        )

    def advance(self, share: float) -> None:
        """Run until this share of the world's duration."""
        duration = self.simulation.duration_ns
        self.simulation.run_until(duration if share == 1 else int(share * duration))

    def measure(self) -> Figures:
        simulation = self.simulation
        series = simulation.recording()
        return measure(self.scenario, self.agents, series, simulation.flow_totals(), simulation.link_totals())

    def measure_flood(self) -> Figures:
        """The metrics until now; all seconds that are left count as flooded."""
        flooded, left = self._flooded()
        judged = len(flooded) + left
        return {**self.measure(), "flooded": (flooded.sum() + left) / judged if judged else math.nan}

    def flooded_at_least(self) -> float:
        """What `flooded` will be at the end of the world if it does not flood any more."""
        flooded, left = self._flooded()
        return float(flooded.sum()) / max(1, len(flooded) + left)

    def _flooded(self) -> tuple[NDArray[np.bool_], int]:
        """Which seconds were flooded until now, and the number of seconds that are left."""
        series = self.simulation.recording()
        left = math.ceil(self.simulation.duration_ns / _WINDOW_NS) - len(series["t_s"])
        return flooded_windows(self.scenario, self.agents, series), left


def constant(value: float) -> Act:
    """A constant action."""
    return lambda obs: np.full((len(obs), 1), value, np.float32)


def uniform(seed: int) -> Act:
    """Uniformly random actions."""
    rng = np.random.default_rng(seed)
    return lambda obs: rng.uniform(-1.0, 1.0, (len(obs), 1)).astype(np.float32)
