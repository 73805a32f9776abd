"""Analysis of a policy with the observation `ratios`: its action over two features, and a simple rule that imitates it.

    python -m benches.understanding CHECKPOINT [--scenario train-leo-wide] [--picture docs/images/perigee-actions.png]

Decisions are collected in worlds of the scenario that were not used for training. The rule is a weighted sum of few
features, selected one by one by the variance of the action that they explain. `orbitcc eval SUITE --policy
benches.understanding:rule` runs it, with the weights in RULE, which this command prints.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benches.pictures import write
from orbitcc import _sim
from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import ModelCard
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.presets import Native, Preset, preset
from orbitcc.eval.figures import style
from orbitcc.training.heldout import HeldOut
from orbitcc.training.heldout_metrics import Weights

Array = NDArray[np.float32]

INFLATION, INFLATION_AVERAGE, SHORT_INFLATION, RATE_SLOW = 0, 1, 2, 6
LOSS, LOSS_SLOW, QUEUE, QUEUE_AVERAGE, LAST_STEP, AGE = 7, 8, 9, 10, 15, 16
"""Indices of features of `ratios` (docs/presets.md)."""
STEPS, FLOWS, SEED = 400, 128, 77
MOST_FEATURES = 6
SHOWN, TOLD = 10, ("utilisation", "queue_delay_ratio", "loss", "jain", "starved", "flooded")
"""Number of worst worlds that are printed, and their metrics."""

SITUATIONS: Mapping[str, Mapping[int, float]] = {
    "no loss": {LOSS: 0.0, LOSS_SLOW: 0.0},
    "1 % loss for some time": {LOSS: 0.1, LOSS_SLOW: 0.1},
    "5 % loss, just begun": {LOSS: 0.22, LOSS_SLOW: 0.06},
    "after an interruption": {LOSS: 0.0, LOSS_SLOW: 0.0, AGE: 0.9},
}


def preset_of(card: ModelCard) -> Preset:
    """The observation, action and interval of a checkpoint."""
    return preset(
        "ratios",
        interval_ms=card.interval_ms,
        observation=Native(card.observation.preset, card.observation.parameters),
        action=Native(card.action.preset, card.action.parameters),
    )


def decisions(policy: _sim.Policy, sees: Preset, scenario: str) -> tuple[Array, Array]:
    """Observations of flows in worlds of the scenario, [K, D], and the actions of the policy, [K]."""
    env = FlowVectorEnv(FLOWS, scenario, preset=sees, stagger=True, autoreset_mode="SameStep")
    seen, done = [], []
    obs, _ = env.reset(seed=SEED)
    for _ in range(STEPS):
        action = policy.act(np.ascontiguousarray(obs))
        seen.append(obs.copy())
        done.append(action[:, 0].copy())
        obs, *_ = env.step(action)
    env.close()
    return np.concatenate(seen), np.concatenate(done)


def distilled(seen: Array, done: Array) -> list[tuple[list[int], NDArray[np.float64], float]]:
    """For 1, 2, ... features: their indices, their weights with the constant last, and the explained variance.

    The last step of the policy itself is excluded, because consecutive actions are similar. The action is bounded, so
    its inverse hyperbolic tangent is fitted, limited to finite values.
    """
    wanted = np.arctanh(np.clip(done.astype(np.float64), -0.98, 0.98))
    chosen: list[int] = []
    found = []
    for _ in range(MOST_FEATURES):
        fits = {k: _fit(seen, [*chosen, k], wanted) for k in range(seen.shape[1]) if k not in (*chosen, LAST_STEP)}
        best = min(fits, key=lambda k: fits[k][1])
        chosen.append(best)
        weights, error = fits[best]
        found.append((list(chosen), weights, 1 - error / float(np.var(wanted))))
    return found


def _fit(seen: Array, columns: list[int], wanted: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    table = np.column_stack((seen[:, columns].astype(np.float64), np.ones(len(seen))))
    weights, *_ = np.linalg.lstsq(table, wanted, rcond=None)
    return weights, float(np.mean((table @ weights - wanted) ** 2))


def worst_worlds(policy: _sim.Policy, scenario: str, worlds: int) -> list[tuple[float, Mapping[str, float], Scenario]]:
    """Score, metrics and scenario of worlds that were not used for training, lowest scores first."""
    controller = {"name": "policy", "params": {"policy": "p"}}
    found = []
    for k in range(worlds):
        held_out = HeldOut(scenario, "ratios", 1, SEED + k)
        figures = held_out.run(controller, {"p": policy})
        found.append((Weights().score(figures), figures, held_out.scenarios[0]))
    return sorted(found, key=lambda world: world[0])


def described(scenario: Scenario) -> str:
    """A short description of a world."""
    links = [link for link in scenario.links if not link.name.startswith("access")]
    rates = [np.atleast_1d(np.asarray(link.rate_mbps, float)).ravel() for link in links]
    first = ", ".join(f"{rate[1] if rate.size > 1 else rate[0]:.0f}" for rate in rates)
    own = sum(flow.controller.name == "external" for flow in scenario.flows)
    rivals = sorted({flow.controller.name for flow in scenario.flows} - {"external"})
    outages = sum(len(link.outages) for link in links)
    beside = f" beside {', '.join(rivals)}" if rivals else ""
    return f"{own} flows{beside}; {len(links)} links, {first} Mbit/s at first, {outages} interruptions"


RULE: tuple[tuple[int, float], ...] = (
    (RATE_SLOW, -0.383),
    (LOSS_SLOW, -1.889),
    (QUEUE, -0.49),
    (INFLATION_AVERAGE, -0.746),
)
"""Feature and weight of the rule with four features for the shipped perigee."""
CONSTANT = 0.276
SEES: Mapping[str, object] = {
    "base": "ratios",
    "observation": {"name": "ratios", "rtt": "least", "min_rtt_window_s": 6.0},
}


def rule() -> Rule:
    return Rule()


class Rule:
    """The distilled rule as a policy: tanh of a weighted sum."""

    preset: Mapping[str, object] = SEES

    def act(self, observations: Array) -> Array:
        total = CONSTANT + sum(weight * observations[:, feature] for feature, weight in RULE)
        return np.tanh(total)[:, None].astype(np.float32)


def draw(policy: _sim.Policy, seen: Array) -> Figure:
    """The action over RTT inflation and own queue in each situation; other features have their median."""
    inflation = np.linspace(1.0, 2.0, 81)
    packets = np.linspace(0.0, 6.0, 81)  # ln(1 + packets)
    with mpl.rc_context(style.LIGHT.rc()):
        figure = Figure(figsize=(12, 3.4), layout="constrained")
        panels = figure.subplots(1, len(SITUATIONS), sharey=True)
        for panel, (title, values) in zip(panels, SITUATIONS.items(), strict=True):
            rows = np.tile(np.median(seen, axis=0), (inflation.size * packets.size, 1)).astype(np.float32)
            grid = np.array(list(itertools.product(packets, np.log(inflation))))
            rows[:, [QUEUE, QUEUE_AVERAGE]] = grid[:, :1] / 4
            rows[:, [INFLATION, INFLATION_AVERAGE, SHORT_INFLATION]] = grid[:, 1:]
            for feature, value in values.items():
                rows[:, feature] = value
            action = policy.act(np.ascontiguousarray(rows))[:, 0].reshape(packets.size, inflation.size)
            image = panel.pcolormesh(inflation, packets, action, cmap="RdBu", vmin=-1, vmax=1, rasterized=True)
            panel.contour(inflation, packets, action, levels=[0.0], colors="black", linewidths=1)
            panel.set(title=title, xlabel="RTT / min RTT")
            panel.set_yticks(np.log1p([0, 3, 10, 30, 100, 300]), ["0", "3", "10", "30", "100", "300"])
        panels[0].set_ylabel("own queued packets")
        figure.colorbar(image, ax=panels, label="action")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--scenario", default="train-leo-wide")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--worlds", type=int, default=0, help="print the worst of this many worlds")
    arguments = parser.parse_args()
    loaded = checkpoint.load(arguments.checkpoint)
    policy = loaded.policy
    seen, done = decisions(policy, preset_of(loaded.card), arguments.scenario)
    shown = loaded.card.observation
    names = Native(shown.preset, shown.parameters).definition("observation")["labels"]
    for columns, weights, explained in distilled(seen, done):
        terms = " ".join(f"{weight:+.2f} [{names[k]}]" for k, weight in zip(columns, weights, strict=False))
        print(f"{len(columns)} features explain {explained:.2f}: tanh({weights[-1]:+.2f} {terms})")
        print(f"  RULE = {tuple((k, round(float(w), 3)) for k, w in zip(columns, weights, strict=False))}")
        print(f"  CONSTANT = {weights[-1]:.3f}")
    for score, figures, world in worst_worlds(policy, arguments.scenario, arguments.worlds)[:SHOWN]:
        told = ", ".join(f"{name} {figures[name]:.2f}" for name in TOLD if np.isfinite(figures.get(name, np.nan)))
        print(f"score {score:.2f}: {described(world)}: {told}")
    if arguments.picture is not None:
        print(write(draw(policy, seen), arguments.picture))


if __name__ == "__main__":
    main()
