"""Distillation: a student learns from teachers, one per kind of world, and then goes on with PPO.

The student drives, so the states are those that it visits, and in each of them it learns the action that the teacher of
this world would take there (DAgger: Ross et al., AISTATS 2011; the teachers of many worlds in one student: Rusu et al.,
ICLR 2016). Beside it the gate of the student may learn to predict what a sender cannot measure, the privileged inputs
of the critic, and the critic learns the values of the student, so that PPO begins with a critic that is warm.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import ModelCard
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.presets import Native, Preset
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.scenarios.distribution import Mixture as Worlds
from orbitcc.training.mlp import Mixture
from orbitcc.training.ppo import PpoLearner
from orbitcc.training.recipe import Distillation, Recipe

F32 = NDArray[np.float32]
_GRID: F32 = np.linspace(-1.0, 1.0, 4001, dtype=np.float32)
_FREE = ("steps_per_rtt", "drain_every_s", "drain_to", "drain_margin")
"""Parameters of an action function that do not change the step of an action on paths of the teacher's worlds."""


class Teacher:
    """A policy whose inputs are among the student's, and whose steps the student can take.

    Args:
        name: name or path of a checkpoint.
        student: observation, action and interval of the student.

    Raises:
        OrbitccError: the checkpoint cannot be read, or it has another interval, an observation with other features, or
            another kind of action than the student.
    """

    def __init__(self, name: str, student: Preset) -> None:
        loaded = checkpoint.load(name)
        self.name, self._policy, card = name, loaded.policy, loaded.card
        if card.gru is not None:
            self._refuse("a recurrent network", "a policy without a state")
        if card.interval != student.interval:
            self._refuse(
                f"an interval of {card.interval_ms:g} ms", f"the student's interval, {student.interval_ms:g} ms"
            )
        self._columns = self._inputs(card, student)
        self._actions = self._steps(card, student)

    def label(self, observations: F32) -> F32:
        """The student's actions that do what the teacher would do, f32[n, 1], for the student's observations."""
        acted = self._policy.act(np.ascontiguousarray(observations[:, self._columns]))
        return np.interp(acted, _GRID, self._actions).astype(np.float32)

    def _inputs(self, card: ModelCard, student: Preset) -> list[int]:
        """Columns of the teacher's inputs among the student's."""
        own = student.native("observation").definition("observation")
        other = Native(card.observation.preset, card.observation.parameters).definition("observation")
        if other["parameters"] == own["parameters"] and other["family"] == own["family"]:
            return list(range(int(own["dim"])))
        rest = [{k: v for k, v in found["parameters"].items() if k != "features"} for found in (own, other)]
        if not own["family"] == other["family"] == "features" or rest[0] != rest[1] or own["history"] != 1:
            self._refuse(f"the observation {card.observation.preset}", "the student's observation, or features of it")
        known = own["parameters"]["features"]
        for feature in other["parameters"]["features"]:
            if feature not in known:
                self._refuse(f"the feature {feature['name']} ({feature})", "features of the student's observation")
        return [known.index(feature) for feature in other["parameters"]["features"]]

    def _steps(self, card: ModelCard, student: Preset) -> F32:
        """The student's actions for the teacher's actions :data:`_GRID`."""
        own = dict(student.native("action").definition("action")["parameters"])
        other = dict(Native(card.action.preset, card.action.parameters).definition("action")["parameters"])
        steps = [(table.pop("step", 1.0), table.pop("cubic", 0.0)) for table in (own, other)]
        if any(own.get(key) != other.get(key) for key in {*own, *other} - set(_FREE)):
            self._refuse(f"the action {card.action.preset} with {card.action.parameters}", "steps as the student's")
        grids = [step * ((1.0 - cubic) * _GRID + cubic * _GRID**3) for step, cubic in steps]
        return np.interp(grids[1], grids[0], _GRID).astype(np.float32)

    def _refuse(self, has: str, allowed: str) -> None:
        raise OrbitccError("distill.teachers", self.name, f"{allowed}; this policy has {has}")


def assigned(settings: Distillation, world: Scenario | ScenarioDistribution) -> dict[str, int]:
    """Which teacher each kind of world has: name of a part of the mixture -> index of the teacher.

    Raises:
        OrbitccError: a name that no part has, a part with two teachers or none, or several teachers without `worlds`.
    """
    parts = {part.name for part in world.parts} if isinstance(world, Worlds) else {world.name}
    found: dict[str, int] = {}
    for index, teacher in enumerate(settings.teachers):
        for name in teacher.worlds:
            if name not in parts:
                raise OrbitccError("distill.teachers.worlds", name, f"a name of a part: {', '.join(sorted(parts))}")
            if name in found:
                raise OrbitccError("distill.teachers.worlds", name, "one teacher for each kind of world")
            found[name] = index
    others = [index for index, teacher in enumerate(settings.teachers) if not teacher.worlds]
    if len(others) > 1:
        raise OrbitccError("distill.teachers", f"{len(others)} without `worlds`", "at most one, for all other worlds")
    rest = sorted(parts - set(found))
    if rest and not others:
        raise OrbitccError("distill.teachers.worlds", list(found), f"a teacher for {', '.join(rest)}, too")
    return found | dict.fromkeys(rest, *others)


class DistillingLearner(PpoLearner):
    """Imitates its teachers for `distill.agent_steps` decisions, then learns as :class:`PpoLearner`."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        assert recipe.distill is not None
        self._distill = recipe.distill
        super().__init__(recipe, seed)
        self._teachers = [Teacher(teacher.policy, self._env.preset) for teacher in recipe.distill.teachers]
        self._assigned = assigned(recipe.distill, recipe.world())
        self._labels: F32 = np.zeros_like(self._rollout.sampled)
        if recipe.distill.privileged_weight > 0.0 and self._auxiliary == 0:
            raise OrbitccError(
                "distill.privileged_weight",
                recipe.distill.privileged_weight,
                "0 without a gate (network.experts) and a privileged critic (learner.privileged_critic)",
            )

    @property
    def _imitates(self) -> bool:
        return self.agent_steps < self._distill.agent_steps

    def _schedule(self) -> None:
        if self._imitates:
            share = self.agent_steps / self._distill.agent_steps
            self._set(self._distill.lr + share * (self.settings.lr - self._distill.lr), self._distill.exploration_std)
        else:
            super()._schedule()

    def _note(self, t: int) -> None:
        if not self._imitates:
            return
        names = [self._env.scenario(world).name for world in range(self._env.num_worlds)]
        teachers = np.array([self._assigned[name] for name in names])[self._env.worlds]
        for index, teacher in enumerate(self._teachers):
            mine = np.flatnonzero(teachers == index)
            if mine.size:
                self._labels[t, mine] = teacher.label(self._obs[mine])

    def _update(self) -> dict[str, float]:
        return self._imitate() if self._imitates else super()._update()

    def _imitate(self) -> dict[str, float]:
        roll, settings = self._rollout, self._distill
        inputs, labels, judged = (
            torch.from_numpy(array).flatten(0, 1) for array in (roll.inputs[:-1], self._labels, roll.judged)
        )
        heeded = np.flatnonzero(roll.heeded)
        parts = max(1, round(heeded.size / self.settings.minibatch))
        sums = np.zeros(len(_FIGURES))
        for _ in range(settings.epochs):
            for rows in torch.from_numpy(self._rng.permutation(heeded)).tensor_split(parts):
                picked = (array.index_select(0, rows) for array in (inputs, labels, judged))
                sums += self._approach(*picked)
        means = sums / (settings.epochs * parts)
        return {
            **{f"learner/{name}": float(value) for name, value in zip(_FIGURES, means, strict=True)},
            "learner/learning_rate": self._optimiser.param_groups[0]["lr"],
        }

    def _approach(self, inputs: torch.Tensor, labels: torch.Tensor, judged: torch.Tensor) -> NDArray[np.float64]:
        """One step of the optimiser towards the teachers' actions; :data:`_FIGURES` of the minibatch before it."""
        n, sees = len(inputs), self._rollout.sees
        mean = self.actor.forward(inputs[:, :sees])
        acted = torch.tanh(mean) if self.squash == "tanh" else mean
        error = acted - labels
        if self.squash == "clip":  # beyond the largest action all outputs act alike
            error = error * ~((labels.abs() >= 1.0) & (error * labels > 0.0))
        slope = 1.0 - acted**2 if self.squash == "tanh" else 1.0
        unknown = torch.zeros(1)
        if isinstance(self.actor, Mixture) and self._auxiliary:
            away = self.actor.auxiliary - inputs[:, sees:]
            unknown = (away**2).mean()
            weight = self._distill.privileged_weight * 2.0 / away.numel()
            self.actor.backward(error * slope * (2.0 / n), away * weight)
        else:
            self.actor.backward(error * slope * (2.0 / n))
        value_loss = self._towards_returns(inputs, judged)
        torch.nn.utils.clip_grad_norm_(self._learned, self.settings.grad_clip)
        self._optimiser.step()
        return np.array([float((error**2).mean()), float(unknown.mean()), float(value_loss)])


_FIGURES = ("imitation_loss", "privileged_loss", "value_loss")
