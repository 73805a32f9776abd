"""Held-out worlds: equal in every evaluation, for policies and classical controllers.

Figures: `reward` per decision and `action_spread`, the standard deviation of the actions, over all worlds, step by
step; and means over worlds of what :mod:`orbitcc.training.heldout_metrics` measures on their recordings.
"""

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.envs.controllers import AnyPolicy
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import ACTIVE, Batch
from orbitcc.envs.environments.presets import Preset, preset
from orbitcc.envs.environments.source import EpisodeSource, agent_flows
from orbitcc.training.heldout_metrics import Figures, mean_figures, measure

Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""obs f32[n, D] -> actions f32[n, A]."""


ACTION_BINS = 40

Report = Callable[[str], None]
"""A callback for the progress of an evaluation."""

_WINDOW_NS = 10**9
"""Length of the windows that the held-out metrics use."""


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
        self, act: Callable[..., NDArray[np.float32]], progress: Report | None = None, state_size: int = 0
    ) -> Figures:
        """`reward` and `action_spread` of `act`; a spread near 0 means a constant action.

        state_size: above 0, `act` also takes the states of the flows, f32[n, state_size], and updates them.
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
        states = np.zeros((*batch.status.shape, state_size), np.float32)
        total, decisions, first, second = 0.0, 0, 0.0, 0.0
        while not batch.finished().all():
            active = batch.status == ACTIVE
            if active.any():
                states[~active] = 0.0  # of flows that have not begun
                kept = [states[active]] if state_size else []
                actions[active] = acted = act(batch.obs[active], *kept)
                states[active] = kept[0] if kept else 0.0
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

        def one(scenario: Scenario) -> Figures:
            network = json.loads(scenario.compile())
            agents = agent_flows(scenario)
            for index in agents:
                network["flows"][index]["controller"] = dict(controller)
            networks = {**scenario.policies(), **(policies or {})}
            simulation = _sim.Simulation(json.dumps(network), record_interval_ns=_WINDOW_NS, policies=networks)
            simulation.run()
            series = simulation.recording()
            return measure(scenario, agents, series, simulation.flow_totals(), simulation.link_totals())

        # the simulator releases the interpreter while it runs
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = []
            for figures in pool.map(one, self.scenarios):
                found.append(figures)
                if progress is not None:
                    progress(f"evaluating {len(found)}/{len(self.scenarios)}")
            return mean_figures(found)

    def score(self, policy: _sim.Policy, progress: Report | None = None) -> Figures:
        """All figures of a policy: its reward, and the metrics of its native runs."""
        return {
            **self.play(policy.act, progress, policy.state_size),
            **self.run({"name": "policy", "params": {"policy": "p"}}, {"p": policy}, progress),
        }


def constant(value: float) -> Act:
    """A constant action."""
    return lambda obs: np.full((len(obs), 1), value, np.float32)


def uniform(seed: int) -> Act:
    """Uniformly random actions."""
    rng = np.random.default_rng(seed)
    return lambda obs: rng.uniform(-1.0, 1.0, (len(obs), 1)).astype(np.float32)
