"""CPU time of a learner by part, in microseconds per decision on one core, over a whole training run.

    python -m benches.learner sb3-ppo-leo ppo-leo --seeds 1 2

prints the tables of docs/performance.md, and the score of each final policy on worlds that no recipe evaluates on. The
time of a part excludes that of the parts inside it; the cost of the measurement is in the rest.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections import Counter
from typing import Any

import numpy as np

from orbitcc import _sim
from orbitcc.agents.policy import network
from orbitcc.envs.environments.batch import Batch
from orbitcc.envs.environments.core import Core
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.presets import preset
from orbitcc.training import recipe as recipes
from orbitcc.training.heldout import HeldOut
from orbitcc.training.heldout_metrics import Figures
from orbitcc.training.loop import Learner, _learner

HELDOUT_WORLDS, HELDOUT_SEED = 32, 2_000_000
"""Worlds on which the final policy is scored; recipes evaluate on those of seed 1000000."""


class Parts:
    """CPU time by part: methods are wrapped, and the time of a part stops while it calls another part."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._open: list[str] = []
        self._since = 0.0

    def time(self, owner: Any, method: str, part: str) -> None:
        """From now on, count the time of `owner.method` for `part`."""
        wrapped = getattr(owner, method)

        @functools.wraps(wrapped)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._turn()
            self._open.append(part)
            try:
                return wrapped(*args, **kwargs)
            finally:
                self._turn()
                self._open.pop()

        setattr(owner, method, timed)

    def _turn(self) -> None:
        now = time.process_time()
        if self._open:
            self.spent[self._open[-1]] += now - self._since
        self._since = time.process_time()


def watch(parts: Parts, algorithms: set[str]) -> None:
    """Wrap the methods that learners of these algorithms call; nothing else is imported."""
    parts.time(Batch, "step", "simulation")
    parts.time(Core, "begin", "new worlds")
    for method in ("step", "advance", "renew", "observations", "active"):
        parts.time(FlowVectorEnv, method, "flows as sub-environments")
    parts.time(FlowVectorEnv, "_totals", "one dictionary per flow")
    if "sb3-ppo" in algorithms:
        from stable_baselines3 import PPO

        from orbitcc.envs.environments.sb3 import SB3VecEnv

        parts.time(SB3VecEnv, "step_wait", "one dictionary per flow")
        parts.time(PPO, "collect_rollouts", "acting")
        parts.time(PPO, "train", "update")
    if "ppo" in algorithms:
        from orbitcc.training.ppo import PpoLearner

        parts.time(PpoLearner, "_sample", "acting")
        parts.time(PpoLearner, "_look", "inputs")
        parts.time(PpoLearner, "_judge", "values and advantages")
        parts.time(PpoLearner, "_update", "update")


def train(plan: recipes.Recipe, seed: int, parts: Parts) -> tuple[Learner, int, float]:
    """The learner, its number of decisions, and the CPU seconds of sampling and learning, without evaluations."""
    learner = _learner(plan, seed)
    parts.spent.clear()
    steps, began = 0, time.process_time()
    while steps < plan.agent_steps:
        steps += int(learner.iterate()["agent_steps"])
    return learner, steps, time.process_time() - began


def score(plan: recipes.Recipe, learner: Learner) -> Figures:
    """The held-out metrics of its policy on :data:`HELDOUT_WORLDS` worlds."""
    made, tensors = preset(plan.preset), learner.tensors()
    policy = _sim.Policy(
        **network(learner.layers, learner.gate, learner.gru, tensors),
        observation=made.native("observation").json(),
        action=made.native("action").json(),
        interval_ns=made.interval_ns,
        mean=tensors.get("normaliser.mean"),
        std=tensors.get("normaliser.std"),
        squash=learner.squash,
    )
    return HeldOut(plan.world(), plan.preset, HELDOUT_WORLDS, HELDOUT_SEED).score(policy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # native threads are one per core
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    plans = [recipes.load(name, asked.changes) for name in asked.recipe]
    parts = Parts()
    watch(parts, {plan.algorithm for plan in plans})
    for seed in asked.seeds:
        for plan in plans:  # in turn, so that other load affects all of them
            learner, steps, seconds = train(plan, seed, parts)
            each = {part: 1e6 * spent / steps for part, spent in parts.spent.most_common()}
            scores = score(plan, learner)
            learner.stop()
            print(f"{plan.name}, seed {seed}: {steps:,} decisions, {steps / seconds:,.0f} per CPU second")
            print("  µs:", ", ".join(f"{part} {value:.2f}" for part, value in each.items()), end="")
            print(f", rest {1e6 * seconds / steps - sum(each.values()):.2f}")
            print("  held out:", ", ".join(f"{key} {np.round(value, 4)}" for key, value in scores.items()), flush=True)


if __name__ == "__main__":
    main()
