"""A training run with any learner: evaluation on held-out worlds, checkpoints, resuming, interrupts.

A learner samples and learns; this file asks it for one iteration after another, scores what it exports, and saves.
"""

from __future__ import annotations

import json
import math
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NoReturn, Protocol

import numpy as np

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import Gate, Layer, ModelCard, Training
from orbitcc.agents.policy import Tensors, build
from orbitcc.agents.runs import seal
from orbitcc.agents.runs.folders import locked, replace_folder, scratch
from orbitcc.agents.runs.run_folder import (
    CONFIG,
    EVALUATION_SECONDS,
    METRICS,
    RunFolder,
    forget_evaluation,
    revision,
    versions,
)
from orbitcc.agents.training_range import training_range
from orbitcc.common.errors import FileError, OrbitccError, StateError
from orbitcc.envs import controllers
from orbitcc.eval.heldout_metrics import Figures, failures
from orbitcc.parallel.progress import Display
from orbitcc.training.heldout import HeldOut, constant
from orbitcc.training.logbook import Logbook, Logbooks, MakeLogbook, Outcome
from orbitcc.training.recipe import Recipe
from orbitcc.training.resume import PROGRESS, TrainingState, check_state, mend, read_progress

SAVE_EVERY_S, SAVE_SHARE = 60.0, 0.02
"""Between evaluations the state is saved once a minute, or less often where saving takes a larger share of the time."""
UNTRAINED = "best/ IS THE UNTRAINED POLICY: no later evaluation had a higher score"
"""What a run says at its end if its training did not improve the policy."""
DIVERGED, INTERRUPTED = 3, 130
"""Exit codes of a run whose policy has diverged, and of one that was interrupted (128 + SIGINT)."""


class Learner(Protocol):
    """A learner: our own, RLlib's or Stable-Baselines3's."""

    squash: Literal["tanh", "clip", "argmax"]
    """How the output of the exported network becomes an action: `clip` or `tanh`."""

    layers: tuple[Layer, ...]
    """The layers of the exported network as in the model card, from the first hidden layer to the output."""

    gate: Gate | None
    """What weighs the outputs of the last layer, if they are experts."""

    def iterate(self) -> dict[str, float]:
        """Sample and learn once: `agent_steps` decisions taken, `train/reward` per decision, `train/episode_return` and
        `train/episode_length` of episodes that have ended, and `learner/...`."""

    def tensors(self) -> Tensors:
        """The policy network as the tensors of a checkpoint: deterministic actions, no exploration."""

    def save(self, folder: Path) -> None:
        """Write the complete state into an existing folder."""

    def load(self, folder: Path) -> None:
        """Restore the state that :meth:`save` wrote."""

    def stop(self) -> None:
        """Free the learner's resources."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of a run.

    scores, best: figures of the last policy and of `best/`. best_at: agent steps after which `best/` was saved (-1:
    unknown). failure: why it stopped for good, or nothing.
    """

    run: RunFolder
    agent_steps: int
    finished: bool
    scores: Figures
    best: Figures
    best_score: float
    best_at: int = -1
    failure: str = ""

    @property
    def untrained(self) -> bool:
        """Whether `best/` is the policy from before the training, although later ones were evaluated."""
        return self.best_at == 0 < self.agent_steps

    @property
    def exit_code(self) -> int:
        return DIVERGED if self.failure else 0 if self.finished else INTERRUPTED

    @staticmethod
    def stored(run: RunFolder, recipe: Recipe) -> TrainingResult:
        """The result that is stored in the run folder."""
        return _outcome(run, recipe, read_progress(run))


def new_run(recipe: Recipe, seed: int, out: Path, command: str, name: str | None = None) -> RunFolder:
    """A run folder in `out`, with the resolved recipe, the versions and the revision, for :func:`train`.

    Raises:
        OrbitccError: a run with this name exists, or it is that of a controller, or the folder cannot be written.
    """
    if name is not None and name.lower() in controllers.names():
        raise OrbitccError("--name", name, "a name that no controller has: tables would show two of them")
    about = {"recipe": recipe.model_dump(), "seed": seed, "command": command, "worlds": recipe.world_digest()}
    about["preset"] = recipe.preset_digest()
    config = {**about, "revision": revision(), "versions": versions()}
    return RunFolder.create(out, recipe.scenario_name, recipe.name, seed, config, name=name)


class Diverged(Exception):
    """The run diverged."""


class Interrupted(Exception):
    """An interrupt ended an evaluation."""


def train(
    recipe: Recipe,
    seed: int,
    run: RunFolder,
    *,
    resume: bool,
    command: str,
    show: Callable[[Recipe], Display] = lambda recipe: Display(recipe.agent_steps, recipe.name),
    logbooks: Sequence[str | MakeLogbook] = (),
    saved: Callable[[TrainingState], None] = lambda state: None,
    trust: bool = False,
    again: str = "--resume continues",
) -> TrainingResult:
    """Train until `recipe.agent_steps`, or until an interrupt (Ctrl-C or SIGTERM), which saves and returns.

    `best/` is the policy with the highest score.

    resume: continue from the saved state. With our own learners the run continues bit for bit as if it had never ended.

    A learner that diverges ends the run, too (`TrainingResult.failure`): figures or weights are no numbers any more, or
    evaluation after evaluation finds that the policy floods or starves (`[evaluation] give_up_after`).

    show: makes what shows the progress of a recipe.
    logbooks: where figures go beside TensorBoard and `metrics.csv` (:class:`orbitcc.training.logbook.Logbook`).
    saved: called when the run folder holds a new state, and at the end.
    trust: resume from a state with pickled objects although it was not saved with this user's key.
    again: how the user continues a run that has ended early, for messages; empty: whoever calls this says it.

    Raises:
        OrbitccError: the run folder's state is damaged or cannot be trusted, another process trains in it, it was
            removed, or a logbook cannot be made.
    """
    with locked(run.path), Interrupt() as interrupt, _guarded(run, resume):
        run.recover()
        progress = check_state(run, recipe, trust) if resume else TrainingState()
        if not resume:
            shutil.rmtree(run.best, ignore_errors=True)  # of an earlier training in this folder
        failure = _gave_up(recipe, progress)
        if not _is_trained(recipe, progress) or (not failure and _is_lost(run.best)):
            display = show(recipe)
            failure = _train(recipe, seed, run, progress, resume, command, display, logbooks, saved, interrupt, again)
        else:
            saved(progress)
        return replace(_outcome(run, recipe, progress), failure=failure)


@contextmanager
def _guarded(run: RunFolder, resume: bool) -> Iterator[None]:
    """Take back a run that fails before it has begun. OrbitccError instead of what libraries raise when the folder is
    removed within a `with` block."""
    there = (run.path / CONFIG).is_file()
    try:
        yield
    except BaseException as error:
        if there and isinstance(error, Exception) and not (run.path / CONFIG).is_file():
            raise StateError(str(run.path), "this run folder was removed while it trained: begin again") from None
        if not resume:
            run.take_back()
        raise


def _is_trained(recipe: Recipe, progress: TrainingState) -> bool:
    """Whether the training is over, its last evaluation included."""
    return progress.agent_steps >= recipe.agent_steps and progress.evaluated_at == progress.agent_steps


def _is_lost(policy: Path) -> bool:
    """Whether a checkpoint is missing or damaged."""
    try:
        checkpoint.load(policy)
    except OrbitccError:
        return True
    return False


def _gave_up(recipe: Recipe, progress: TrainingState) -> str:
    """Why a training that is over has failed, or nothing."""
    gave_up = 0 < recipe.evaluation.give_up_after <= progress.failing
    return "gave up: its last policies flooded or starved" if gave_up and _is_trained(recipe, progress) else ""


def _train(
    recipe: Recipe,
    seed: int,
    run: RunFolder,
    progress: TrainingState,
    resume: bool,
    command: str,
    display: Display,
    logbooks: Sequence[str | MakeLogbook],
    saved: Callable[[TrainingState], None],
    interrupt: Interrupt,
    again: str,
) -> str:
    """Why the run diverged, or nothing. `progress` is brought up to date."""
    progress.restarts += resume
    if 0 < recipe.evaluation.give_up_after <= progress.failing:
        progress.failing = 0
    heldout = HeldOut(recipe.held_out_world(), recipe.used_preset, recipe.evaluation.worlds, recipe.evaluation.seed)
    failure = ""
    with display:
        display.say(f"run folder {run.path}")
        for damage in mend(run, progress) if resume else ():
            display.say(damage)
        if _is_trained(recipe, progress):
            progress.evaluated_at = -1  # its best policy was lost
        display.say("starting Ray" if recipe.kind.library == "ray.rllib" else f"starting {recipe.algorithm}")
        learner = logbook = None
        outcome: Outcome = "failed"
        try:
            learner = _learner(recipe, seed + 100_003 * progress.restarts)
            interrupt.take()  # Ray has put handlers of its own in their place
            if resume and progress.evaluated_at < progress.agent_steps:
                forget_evaluation(run.path / METRICS, progress.agent_steps)
            logbook = Logbooks.open(run.path, progress.agent_steps if resume else None, logbooks)
            logbook.write_settings(recipe.model_dump(), ("heldout/score", "heldout/reward"))
            if resume:
                learner.load(run.state)
            parts = (progress, heldout, logbook, display, learner, saved, interrupt, again)
            _Loop(recipe, seed, run, command, *parts).run()
            outcome = "finished" if _is_trained(recipe, progress) else "stopped"
        except Diverged as error:
            failure, outcome = str(error), "diverged"
            display.say(failure)
        finally:
            try:
                if logbook is not None:
                    logbook.outcome = outcome
                    logbook.close()
            finally:
                if learner is not None:
                    learner.stop()
    saved(progress)
    return failure


@dataclass
class _Loop:
    recipe: Recipe
    seed: int
    run_folder: RunFolder
    command: str
    progress: TrainingState
    heldout: HeldOut
    logbook: Logbook
    display: Display
    learner: Learner
    saved: Callable[[TrainingState], None]
    interrupt: Interrupt
    again: str
    _numbers: set[str] = field(default_factory=set)
    _saved_at: float = field(default_factory=time.monotonic)
    _save_s: float = 0.0
    _references: dict[str, Figures] = field(default_factory=dict)

    def run(self) -> None:
        """Iterate sampling and learning, with regular evaluations and saves, and one of each at the end."""
        progress = self.progress
        try:
            self._run()
        except Interrupted:
            if 0 <= progress.evaluated_at < progress.agent_steps:
                self._save_state()  # without an evaluation, so that a resumed run has the evaluations of any other
            saved = "saved" if self.run_folder.state.is_dir() else "nothing to save yet"
            self.display.say("; ".join(filter(None, ("interrupted", saved, self.again))))

    def _run(self) -> None:
        progress, target, every = self.progress, self.recipe.agent_steps, self.recipe.evaluation.every
        while True:
            self._stop_if_interrupted()
            if progress.evaluated_at < 0 or progress.agent_steps - progress.evaluated_at >= every:
                self._evaluate_and_save()
            if progress.agent_steps >= target:
                break
            began = time.monotonic()
            figures = self._iterate()
            progress.seconds += time.monotonic() - began
            agent_steps = int(figures.pop("agent_steps"))
            progress.agent_steps += agent_steps
            figures["train/agent_steps_per_s"] = agent_steps / (time.monotonic() - began)
            figures["train/seconds"] = progress.seconds
            self.logbook.write(progress.agent_steps, figures)
            self.display.update(
                progress.agent_steps,
                f"{progress.agent_steps:,} agent steps, reward {figures['train/reward']:.4f}, "
                f"held-out {_shown(progress.scores['reward'])}, "
                f"score {progress.scores['score']:.3f}{self._failing()}, "
                f"{figures['train/agent_steps_per_s']:,.0f} steps/s",
            )
            self._check(figures)
            if self._save_is_due():
                self._check_weights(self.learner.tensors())
                self._save_state()
        if progress.evaluated_at != progress.agent_steps:
            self._evaluate_and_save()

    def _stop_if_interrupted(self) -> None:
        if self.interrupt.requested:
            raise Interrupted

    def _evaluating(self, text: str) -> None:
        """Called several times a second during an evaluation, which writes nothing before it is complete."""
        self._stop_if_interrupted()
        self.display.working(text)

    def _iterate(self) -> dict[str, float]:
        try:
            return self.learner.iterate()
        except Exception as error:
            self._check_weights(self.learner.tensors(), error)  # many a learner stumbles over its NaN before we see it
            raise

    def _check(self, figures: dict[str, float]) -> None:
        """Stop when a mean reward or a loss that was finite is not finite any more."""
        watched = {tag: x for tag, x in figures.items() if tag == "train/reward" or tag.endswith("loss")}
        for tag, value in watched.items():
            if tag in self._numbers and not math.isfinite(value):
                self._diverged(f"{tag} is {value}")
        self._numbers |= {tag for tag, value in watched.items() if math.isfinite(value)}

    def _check_weights(self, tensors: Tensors, cause: Exception | None = None) -> None:
        for name, values in tensors.items():
            if not np.isfinite(values).all():
                self._diverged(f"the weights {name} hold NaN or infinity", cause)

    def _diverged(self, reason: str, cause: Exception | None = None) -> NoReturn:
        raise Diverged(
            f"diverged: after {self.progress.agent_steps:,} agent steps {reason}; "
            f"best/ and last/ are those after {self.progress.evaluated_at:,}"
        ) from cause

    def _evaluate_and_save(self) -> None:
        progress, tensors = self.progress, self.learner.tensors()
        self._check_weights(tensors)
        card = self._card().model_copy(update={"normaliser": "normaliser.mean" in tensors})
        began, weights = time.monotonic(), self.recipe.evaluation.score
        try:
            policy = build(card, tensors)
        except ValueError as error:
            self._diverged(f"the weights make no network ({error})", error)
        scores = self.heldout.score(policy, self._evaluating)
        scores["score"] = score = weights.score(scores)
        self._measure_references()
        if progress.agent_steps and failures(scores):
            self.display.say(f"{progress.agent_steps:,} agent steps: the policy {' and '.join(failures(scores))}")
        progress.scores, progress.evaluated_at = scores, progress.agent_steps
        figures = {f"heldout/{key}": value for key, value in scores.items()}
        figures[EVALUATION_SECONDS] = time.monotonic() - began
        self.logbook.write(progress.agent_steps, figures)
        self.logbook.write_histogram(progress.agent_steps, "heldout/actions", self.heldout.actions)
        for name, lines in self._references.items():
            self.logbook.write_reference(name, progress.agent_steps, lines)
        card = card.model_copy(
            update={"scores": {"heldout": _rounded(scores), "score": round(score, 6), "selection": self._selection()}}
        )
        if score > progress.best_score:
            progress.best, progress.best_score, progress.best_at = scores, score, progress.agent_steps
            checkpoint.save(self.run_folder.best, card, tensors)
        checkpoint.save(self.run_folder.last, card, tensors)
        self._count_failures(scores)
        self._save_state()
        if 0 < self.recipe.evaluation.give_up_after <= progress.failing:
            raise Diverged(
                f"gave up after {progress.agent_steps:,} agent steps: in {progress.failing} evaluations in a row the "
                f"policy flooded or starved, in the last it {' and '.join(failures(scores))}; saved "
                f"({', '.join(filter(None, (self.again, 'evaluation.give_up_after=0 never gives up')))})"
            )

    def _measure_references(self) -> None:
        """Figures of Cubic and of a constant action on the same worlds, for flat lines beside the curves."""
        if self._references:
            return
        self.display.say("evaluating Cubic and a constant action for comparison")
        actions, weights = self.heldout.actions.copy(), self.recipe.evaluation.score
        cubic = self.heldout.run({"name": "cubic", "params": {}}, progress=self._evaluating)
        if not weights.reward:  # Cubic has none
            cubic["score"] = weights.score(cubic)
        same = self.heldout.play(constant(0.0), self._evaluating)
        self.heldout.actions[:] = actions
        self._references = {
            name: {f"heldout/{key}": value for key, value in figures.items()}
            for name, figures in (("cubic", cubic), ("constant-action", same))
        }

    def _count_failures(self, scores: Figures) -> None:
        steps = self.progress.agent_steps
        late = steps > 0 and steps >= self.recipe.evaluation.give_up_from * self.recipe.agent_steps
        failed = late and {"floods", "starves"} & set(failures(scores))
        self.progress.failing = self.progress.failing + 1 if failed else 0

    def _failing(self) -> str:
        """The failures of the last evaluated policy for the progress line; the untrained policy is not reported."""
        return "".join(f", {failure}" for failure in failures(self.progress.scores) if self.progress.evaluated_at)

    def _selection(self) -> str:
        """The rule that chooses `best/`, for the model card."""
        evaluation = self.recipe.evaluation
        return (
            f"best/ has the highest score of all evaluations, on {evaluation.worlds} held-out worlds of "
            f"{self.recipe.scenario_name} (seed {evaluation.seed}): {evaluation.score}"
        )

    def _save_is_due(self) -> bool:
        return time.monotonic() - self._saved_at > max(SAVE_EVERY_S, self._save_s / SAVE_SHARE)

    def _save_state(self) -> None:
        began = time.monotonic()
        fresh = scratch(self.run_folder.state)
        try:
            fresh.mkdir()
            self.learner.save(fresh)
            (fresh / PROGRESS).write_text(json.dumps(asdict(self.progress)), encoding="utf-8")
            seal.seal(fresh)
            replace_folder(fresh, self.run_folder.state)
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise FileError(
                "out", str(self.run_folder.path), f"a writable folder ({error.strerror or error})"
            ) from None
        self.saved(self.progress)
        self._saved_at = time.monotonic()
        self._save_s = self._saved_at - began

    def _card(self) -> ModelCard:
        deployed = self.recipe.used_preset.for_deployment()
        hours = self.progress.agent_steps * deployed.interval_ms / 3.6e6
        return ModelCard(
            name=self.run_folder.name,
            description=self.recipe.description,
            **checkpoint.decisions_of(deployed),
            squash=self.learner.squash,
            layers=self.learner.layers,
            gate=self.learner.gate,
            training_range=training_range(self.recipe.world()),
            training=Training(
                recipe=self.recipe.name,
                command=self.command,
                seed=self.seed,
                revision=str(self.run_folder.config()["revision"]),  # the sources may move on while it trains
                agent_steps=self.progress.agent_steps,
                simulated_hours=round(hours, 3) if deployed.interval_rtts == 0 else None,
                wall_minutes=round(self.progress.seconds / 60, 2),
                versions=versions(),
            ),
        )


def _learner(recipe: Recipe, seed: int) -> Learner:
    module, name = recipe.kind.learner.split(":")
    return getattr(import_module(module), name)(recipe, seed)


def _outcome(run: RunFolder, recipe: Recipe, progress: TrainingState) -> TrainingResult:
    finished = _is_trained(recipe, progress)
    return TrainingResult(
        run, progress.agent_steps, finished, progress.scores, progress.best, progress.best_score, progress.best_at
    )


def _shown(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "none"


def _rounded(scores: Figures) -> dict[str, float | None]:
    return {key: round(value, 6) if np.isfinite(value) else None for key, value in scores.items()}


class Interrupt:
    """The first Ctrl-C or SIGTERM requests an orderly end, the second Ctrl-C forces one."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.getsignal(number)
        self.take()
        return self

    def take(self) -> None:
        """Install the signal handlers, again if another library has replaced them."""
        for number in self._before:
            signal.signal(number, self._ask)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
