"""A training run from start to end, whoever learns: evaluation on held-out worlds, checkpoints, resuming, interrupts.

A learner samples and learns; this file asks it for one iteration after another, scores what it exports, and saves.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Protocol

import numpy as np

from orbitcc.agents import checkpoint
from orbitcc.agents.card import Action, Card, Layer, Observation, Training
from orbitcc.agents.envelope import envelope
from orbitcc.agents.folders import replace_folder, scratch
from orbitcc.agents.policy import Tensors, build
from orbitcc.agents.runs import RunFolder, versions
from orbitcc.envs.errors import FileError
from orbitcc.envs.presets import definition_hash, preset
from orbitcc.training.heldout import HeldOut, Scores
from orbitcc.training.logbook import Display, Logbook
from orbitcc.training.recipe import Recipe

_PROGRESS = "progress.json"
DEGENERATE = 0.01
"""Standard deviation of the actions on held-out worlds below which a policy is reported as degenerate (our choice)."""


class Learner(Protocol):
    """What trains: a learner of our own, RLlib or Stable-Baselines3."""

    squash: Literal["tanh", "clip"]
    """How the exported network's last layer becomes an action: `clip` or `tanh`."""

    layers: tuple[Layer, ...]
    """The exported network, first hidden layer to output layer: units, activation, norm; as the card keeps them."""

    def iterate(self) -> dict[str, float]:
        """Sample and learn once: `agent_steps` decisions taken, `train/reward` per decision, and `learner/...`."""

    def tensors(self) -> Tensors:
        """The policy network as the tensors of a checkpoint: deterministic actions, no exploration."""

    def save(self, folder: Path) -> None:
        """Write all that is needed to go on into an existing folder."""

    def load(self, folder: Path) -> None:
        """Go on from what :meth:`save` wrote."""

    def stop(self) -> None:
        """Free what the learner holds."""


@dataclass
class Progress:
    """Where a run stands; saved with the learner's state."""

    agent_steps: int = 0
    seconds: float = 0.0
    best_reward: float = -float("inf")
    restarts: int = 0
    evaluated_at: int = -1
    scores: Scores = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    run: RunFolder
    agent_steps: int
    finished: bool
    best_reward: float
    scores: Scores


def train(recipe: Recipe, seed: int, run: RunFolder, *, resume: bool, command: str) -> Outcome:
    """Train until `recipe.agent_steps`, or until interrupted (Ctrl-C or SIGTERM), which saves and returns.

    Raises:
        OrbitccError: the run folder's state cannot be read.
    """
    progress = _read_progress(run) if resume else Progress()
    heldout = HeldOut(recipe.world(), recipe.preset, recipe.evaluation.worlds, recipe.evaluation.seed)
    with _Interrupt() as interrupt, Display(recipe.agent_steps, recipe.name) as display:
        display.say(f"run folder {run.path}")
        learner = _learner(recipe, seed + 100_003 * progress.restarts)
        logbook = Logbook(run, progress.agent_steps if resume else None)
        try:
            if resume:
                learner.load(run.state)
            loop = _Loop(recipe, seed, run, command, progress, heldout, logbook, display, learner)
            scores = loop.run(interrupt)
        finally:
            logbook.close()
            learner.stop()
    finished = progress.agent_steps >= recipe.agent_steps
    return Outcome(run, progress.agent_steps, finished, progress.best_reward, scores)


@dataclass
class _Loop:
    recipe: Recipe
    seed: int
    run_folder: RunFolder
    command: str
    progress: Progress
    heldout: HeldOut
    logbook: Logbook
    display: Display
    learner: Learner

    def run(self, interrupt: _Interrupt) -> Scores:
        """Iterations of sampling and learning, with an evaluation and a save every so often and at the end."""
        progress, target, every = self.progress, self.recipe.agent_steps, self.recipe.evaluation.every
        while not interrupt.requested:
            if progress.evaluated_at < 0 or progress.agent_steps - progress.evaluated_at >= every:
                self._evaluate_and_save()
            if progress.agent_steps >= target:
                break
            began = time.monotonic()
            figures = self.learner.iterate()
            progress.seconds += time.monotonic() - began
            agent_steps = int(figures.pop("agent_steps"))
            progress.agent_steps += agent_steps
            figures["train/agent_steps_per_s"] = agent_steps / (time.monotonic() - began)
            self.logbook.write(progress.agent_steps, figures)
            self.display.update(
                progress.agent_steps,
                f"reward {figures['train/reward']:.4f}, held-out {progress.scores['reward']:.4f}, "
                f"{figures['train/agent_steps_per_s']:,.0f} steps/s",
            )
        if progress.evaluated_at != progress.agent_steps:
            self._evaluate_and_save()
        if interrupt.requested:
            self.display.say("interrupted; saved: continue with --resume")
        return progress.scores

    def _evaluate_and_save(self) -> None:
        tensors = self.learner.tensors()
        card = self._card().model_copy(update={"normaliser": "normaliser.mean" in tensors})
        scores = self.heldout.score(build(card, tensors))
        if self.progress.agent_steps and scores["action_spread"] < DEGENERATE:
            self.display.say(f"{self.progress.agent_steps:,} agent steps: the policy always does nearly the same")
        self.progress.scores, self.progress.evaluated_at = scores, self.progress.agent_steps
        self.logbook.write(self.progress.agent_steps, {f"heldout/{key}": value for key, value in scores.items()})
        card = card.model_copy(update={"scores": {"heldout": _rounded(scores)}})
        if scores["reward"] > self.progress.best_reward:
            self.progress.best_reward = scores["reward"]
            checkpoint.save(self.run_folder.best, card, tensors)
        checkpoint.save(self.run_folder.last, card, tensors)
        self._save_state()

    def _save_state(self) -> None:
        fresh = scratch(self.run_folder.state)
        try:
            fresh.mkdir()
            self.learner.save(fresh)
            (fresh / _PROGRESS).write_text(json.dumps(asdict(self.progress)), encoding="utf-8")
            replace_folder(fresh, self.run_folder.state)
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise FileError("out", str(self.run_folder.path), f"a writable folder ({error.strerror})") from None

    def _card(self) -> Card:
        pieces = preset(self.recipe.preset).for_deployment()
        observation, action = pieces.native("observation"), pieces.native("action")
        interval_hours = pieces.interval_ms / 3.6e6
        return Card(
            name=self.recipe.name,
            description=self.recipe.description,
            observation=Observation(
                preset=observation.name,
                parameters=dict(observation.parameters),
                dim=pieces.observation_space().shape[0],
                hash=definition_hash("observation", observation),
            ),
            action=Action(
                preset=action.name,
                parameters=dict(action.parameters),
                dim=pieces.action_space().shape[0],
                hash=definition_hash("action", action),
            ),
            interval_ms=pieces.interval_ms,
            interval_rtts=pieces.interval_rtts,
            squash=self.learner.squash,
            layers=self.learner.layers,
            envelope=envelope(self.recipe.world()),
            training=Training(
                recipe=self.recipe.name,
                command=self.command,
                seed=self.seed,
                revision=str(self.run_folder.config()["revision"]),  # the sources may move on while it trains
                agent_steps=self.progress.agent_steps,
                simulated_hours=round(self.progress.agent_steps * interval_hours, 3),
                wall_minutes=round(self.progress.seconds / 60, 2),
                versions=versions(),
            ),
        )


_LEARNERS = {
    "astraea-td3": "orbitcc.training.astraea_td3:AstraeaTd3Learner",
    "ppo": "orbitcc.training.ppo:PpoLearner",
    "rllib-ppo": "orbitcc.training.rllib:RLlibLearner",
    "rllib-sac": "orbitcc.training.rllib:RLlibLearner",
    "sb3-ppo": "orbitcc.training.sb3:SB3Learner",
    "sb3-sac": "orbitcc.training.sb3:SB3Learner",
}
"""Algorithm of a recipe -> module and class of its learner; only that one is imported."""


def _learner(recipe: Recipe, seed: int) -> Learner:
    module, name = _LEARNERS[recipe.algorithm].split(":")
    return getattr(import_module(module), name)(recipe, seed)


def _rounded(scores: Scores) -> dict[str, float | None]:
    return {key: round(value, 6) if np.isfinite(value) else None for key, value in scores.items()}


def _read_progress(run: RunFolder) -> Progress:
    path = run.state / _PROGRESS
    try:
        progress = Progress(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise FileError("resume", str(path), f"the progress file of a run ({error})") from None
    progress.restarts += 1
    return progress


class _Interrupt:
    """The first Ctrl-C or SIGTERM asks for an orderly end, the second Ctrl-C forces one."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> _Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
