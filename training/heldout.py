"""Scores on held-out worlds: the same worlds at every evaluation, for policies and for classical controllers.

Scores: `reward` per decision and `action_spread`, the standard deviation of the actions, over all of them; and means
over worlds of `utilisation` of the busiest link; `queue_delay_ms`, smoothed RTT above the unloaded RTT, mean over
flows; `jain`, Jain's index over the goodput of seconds in which two flows or more were present throughout (worlds
without such seconds do not count); `loss`, lost of sent packets.
"""

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.envs.batch import ACTIVE, Batch
from orbitcc.envs.presets import preset
from orbitcc.envs.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.source import EpisodeSource, agent_flows

Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""obs f32[n, D] -> actions f32[n, A]."""

Scores = dict[str, float]


class HeldOut:
    """`worlds` scenarios drawn from `scenario` with seeds no training run uses."""

    def __init__(
        self,
        scenario: str | Scenario | ScenarioDistribution,
        preset_name: str | Mapping[str, Any],
        worlds: int,
        seed: int,
    ) -> None:
        source = EpisodeSource(scenario)
        rngs = [np.random.default_rng([seed, index]) for index in range(worlds)]
        self.scenarios: list[Scenario] = [source.draw(rng) for rng in rngs]
        self._preset = preset(preset_name)
        self._slots = source.slots

    def reward(self, act: Act) -> float:
        """Mean reward per decision when every agent of every world is driven by `act`, step by step."""
        return self.play(act)["reward"]

    def play(self, act: Act) -> Scores:
        """`reward` and `action_spread` of `act`; near 0 spread means that it always does the same."""
        batch = Batch(
            [scenario.compile() for scenario in self.scenarios],
            slots=self._slots,
            preset=self._preset,
            threads=0,
            policies={key: value for scenario in self.scenarios for key, value in scenario.policies().items()},
        )
        batch.observe()
        actions = np.zeros((*batch.status.shape, *batch.action_space.shape), np.float32)
        total, decisions, first, second = 0.0, 0, 0.0, 0.0
        while not batch.finished().all():
            active = batch.status == ACTIVE
            if active.any():
                actions[active] = acted = act(batch.obs[active])
                first += float(acted.sum(dtype=np.float64))
                second += float((acted.astype(np.float64) ** 2).sum())
            batch.step(actions)
            total += float(batch.reward[active].sum(dtype=np.float64))
            decisions += int(active.sum())
        n = max(1, decisions)
        return {"reward": total / n, "action_spread": float(np.sqrt(max(second / n - (first / n) ** 2, 0.0)))}

    def run(self, controller: Mapping[str, Any], policies: Mapping[str, _sim.Policy] | None = None) -> Scores:
        """Give every agent's flow a native controller, e.g. `{"name": "cubic", "params": {}}`; there is no reward."""

        def one(scenario: Scenario) -> Scores:
            network = json.loads(scenario.compile())
            agents = agent_flows(scenario)
            for index in agents:
                network["flows"][index]["controller"] = dict(controller)
            networks = {**scenario.policies(), **(policies or {})}
            simulation = _sim.Simulation(json.dumps(network), record_interval_ns=10**9, policies=networks)
            simulation.run()
            series = simulation.recording()["flows"]
            goodput, there = series["goodput_mbps"][:, agents], series["active"][:, agents] >= 1.0
            there[1:] &= there[:-1]  # whole seconds only
            return _scores(simulation.flow_totals(), simulation.link_totals(), agents, goodput, there)

        # the simulator releases the interpreter while it runs
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return _mean(list(pool.map(one, self.scenarios)))

    def score(self, policy: _sim.Policy) -> Scores:
        """Everything about a policy: its reward, and its native runs."""
        return {
            **self.play(policy.act),
            **self.run({"name": "policy", "params": {"policy": "p"}}, {"p": policy}),
        }


def constant(value: float) -> Act:
    """Always the same action."""
    return lambda obs: np.full((len(obs), 1), value, np.float32)


def uniform(seed: int) -> Act:
    """Uniformly random actions."""
    rng = np.random.default_rng(seed)
    return lambda obs: rng.uniform(-1.0, 1.0, (len(obs), 1)).astype(np.float32)


def jain(goodput: NDArray[np.float64], present: NDArray[np.bool_]) -> float:
    """Mean Jain index (sum x)^2 / (n sum x^2) over the windows with two flows or more; NaN if there is none.

    goodput, present: [windows, flows].
    """
    rates = np.where(present, goodput, 0.0)
    count = present.sum(axis=1)
    squares = (rates**2).sum(axis=1)
    valid = (count >= 2) & (squares > 0.0)
    if not valid.any():
        return float("nan")
    return float((rates.sum(axis=1)[valid] ** 2 / (count[valid] * squares[valid])).mean())


def _scores(
    flows: list[dict[str, Any]],
    links: list[dict[str, Any]],
    agents: list[int],
    goodput: NDArray[np.float64],
    present: NDArray[np.bool_],
) -> Scores:
    own = [flows[index] for index in agents if flows[index]["sent_packets"]]
    delays = [flow["srtt_ms"] - flow["base_rtt_ms"] for flow in own]
    return {
        "utilisation": max(link["utilisation"] for link in links),
        "queue_delay_ms": float(np.mean(delays)) if delays else float("nan"),
        "jain": jain(goodput, present),
        "loss": sum(f["lost_packets"] for f in own) / max(1, sum(f["sent_packets"] for f in own)),
    }


def _mean(worlds: list[Scores]) -> Scores:
    mean: Scores = {}
    for key in worlds[0]:
        values = [scores[key] for scores in worlds if np.isfinite(scores[key])]
        mean[key] = float(np.mean(values)) if values else float("nan")
    return mean
