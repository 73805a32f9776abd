"""Output of a training run: TensorBoard events, `metrics.csv`, and progress on the screen."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orbitcc.agents.runs.run_folder import METRICS, MetricsFile
from orbitcc.common import code
from orbitcc.common.errors import OrbitccError
from orbitcc.eval.heldout_metrics import FIGURES

Outcome: TypeAlias = Literal["finished", "stopped", "diverged", "failed"]


class Logbook:
    """Receives the figures of a training run: scalars by tag and agent step. Methods do nothing unless overridden.

    TensorBoard and `metrics.csv` are two of them, written by every run. `orbitcc train --track` and
    `--logbook module:factory` add others (:mod:`orbitcc.training.trackers`, docs/tuning.md), for which
    `factory(folder, resume_at)` is called: the run's folder, and the step from which on a resumed run repeats what it
    may have written before, or None.
    """

    outcome: Outcome = "finished"
    """How the run ended, known when `close` is called. `stopped`: by an interrupt; `--resume` continues it."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append figures, all finite."""

    def write_settings(self, settings: Mapping[str, Any], metrics: Sequence[str]) -> None:
        """The resolved recipe, nested, and the tags of the main metrics; called once at the start."""

    def write_histogram(self, step: int, tag: str, counts: NDArray[np.int64]) -> None:
        """A histogram of values over equal parts of [-1, 1]."""

    def write_reference(self, name: str, step: int, values: Mapping[str, float]) -> None:
        """The same tags for a reference that does not learn."""

    def close(self) -> None:
        """Called once at the end."""


class CsvLogbook(Logbook):
    """`metrics.csv`: a line per figure."""

    def __init__(self, folder: Path, resume_at: int | None = None) -> None:
        self._metrics = MetricsFile(folder / METRICS, keep_until=resume_at)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._metrics.write(step, values)

    def close(self) -> None:
        self._metrics.close()


class TensorBoardLogbook(Logbook):
    """Events for TensorBoard; references are separate runs beside this one."""

    def __init__(self, folder: Path, resume_at: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        _leave_errors_to_the_caller()
        purge = None if resume_at is None else resume_at + 1
        self._folder, self._purge, self._writer = folder, purge, SummaryWriter
        self._events = SummaryWriter(str(folder), purge_step=purge)
        self._references: dict[str, Any] = {}

    def write(self, step: int, values: Mapping[str, float]) -> None:
        _add_scalars(self._events, step, values)

    def write_settings(self, settings: Mapping[str, Any], metrics: Sequence[str]) -> None:
        from torch.utils.tensorboard.summary import hparams

        for summary in hparams(dict(flat(settings)), dict.fromkeys(metrics, math.nan)):
            self._events.file_writer.add_summary(summary)

    def write_histogram(self, step: int, tag: str, counts: NDArray[np.int64]) -> None:
        edges = np.linspace(-1.0, 1.0, len(counts) + 1)
        middles = (edges[1:] + edges[:-1]) / 2
        total, squares = float(counts @ middles), float(counts @ middles**2)
        self._events.add_histogram_raw(
            tag, -1.0, 1.0, int(counts.sum()), total, squares, edges[1:].tolist(), counts.tolist(), step
        )

    def write_reference(self, name: str, step: int, values: Mapping[str, float]) -> None:
        if name not in self._references:
            self._references[name] = self._writer(str(self._folder / "reference" / name), purge_step=self._purge)
        _add_scalars(self._references[name], step, values)

    def close(self) -> None:
        for writer in self._references.values():
            writer.close()
        self._events.close()


@functools.cache
def _leave_errors_to_the_caller() -> None:
    """Do not print what TensorBoard's thread cannot write: the next call of the writer raises the same error."""
    usual = threading.excepthook

    def hook(found: Any) -> None:
        of_the_writer = type(found.thread).__module__.startswith("tensorboard.")
        if not (of_the_writer and issubclass(found.exc_type, OSError)):
            usual(found)

    threading.excepthook = hook


def _add_scalars(events: Any, step: int, values: Mapping[str, float]) -> None:
    """Scalars with their descriptions, which `SummaryWriter.add_scalar` cannot write."""
    from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_SCALAR, Summary, SummaryMetadata

    for tag, value in values.items():
        plugin = SummaryMetadata.PluginData(plugin_name="scalars")
        about = SummaryMetadata(summary_description=describe(tag), plugin_data=plugin, data_class=DATA_CLASS_SCALAR)
        scalar = Summary.Value(tag=tag, simple_value=value, metadata=about)
        events.file_writer.add_summary(Summary(value=[scalar]), step)
    events.flush()


class Logbooks(Logbook):
    """Several logbooks at once; figures that are not finite are left out."""

    def __init__(self, books: Sequence[Logbook], theirs: Sequence[str] = ()) -> None:
        """theirs: the names of the first ones, which are code of somebody else."""
        self._books, self._theirs = tuple(books), tuple(theirs)
        self._failed: OrbitccError | None = None

    @staticmethod
    def open(folder: Path, resume_at: int | None = None, others: Sequence[str | MakeLogbook] = ()) -> Logbooks:
        """TensorBoard, `metrics.csv` and the others, each `package.module:factory` or a factory.

        Raises:
            OrbitccError: one of the others cannot be made; nothing is written then.
        """
        made = [factory(other) if isinstance(other, str) else other for other in others]
        books = [make(folder, resume_at) for make in (*made, TensorBoardLogbook, CsvLogbook)]
        return Logbooks(books, [str(other) for other in others])

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._each("write", step, _finite(values))

    def write_settings(self, settings: Mapping[str, Any], metrics: Sequence[str]) -> None:
        self._each("write_settings", settings, metrics)

    def write_histogram(self, step: int, tag: str, counts: NDArray[np.int64]) -> None:
        self._each("write_histogram", step, tag, counts)

    def write_reference(self, name: str, step: int, values: Mapping[str, float]) -> None:
        self._each("write_reference", name, step, _finite(values))

    def close(self) -> None:
        for book in self._books:
            book.outcome = self.outcome
        self._each("close")

    def _each(self, method: str, *given: Any) -> None:
        """Each book has a copy, which it may change. All are called; the first failure of the run is raised: as
        OrbitccError if it is one of somebody else's code."""
        for name, book in itertools.zip_longest(self._theirs, self._books):
            try:
                getattr(book, method)(*copy.deepcopy(given))
            except OrbitccError as error:
                self._failed = self._failed or error
            except code.RAISED as error:
                if name is None:
                    raise
                option, shown = _option(name)
                failure = code.refused(option, shown, f"a logbook whose `{method}` works", error)
                failure.__cause__ = error
                self._failed = self._failed or failure
        if self._failed is not None:
            raise self._failed


_TAGS = {
    "train/reward": "Mean reward per decision in the last iteration, with exploration. Higher is better.",
    "train/episode_return": "Mean return (sum of rewards) of the training episodes that ended in the last iteration.",
    "train/episode_length": "Mean number of decisions of these episodes.",
    "train/agent_steps_per_s": "Decisions per second of wall-clock time, learning included.",
    "train/seconds": "Wall-clock time spent in training, without evaluation.",
    "train/evaluation_seconds": "Wall-clock time of the last evaluation on held-out worlds.",
    "heldout/score": "Weighted sum of the held-out figures (the recipe's evaluation.score). best/ has the highest.",
    "heldout/action_spread": "Standard deviation of the actions on held-out worlds. Near 0 the policy is constant.",
    "learner/entropy": "Entropy of the action distribution. It falls as the policy becomes deterministic.",
    "learner/exploration_std": "Standard deviation of the exploration noise on actions.",
    "learner/learning_rate": "Learning rate of the optimiser.",
    "learner/epochs": "Passes over the last batch before the KL limit stopped them.",
    "learner/value_explained": "Share of the variance of returns that the value network explains. 1 is perfect.",
    "learner/value_loss": "Loss of the value network.",
    "learner/policy_loss": "PPO's clipped policy loss.",
    "learner/kl": "Mean divergence of the updated policy from the one that sampled.",
    "learner/clipped": "Share of samples whose probability ratio PPO clipped.",
    "learner/critic_loss": "Loss of the critics.",
}


def describe(tag: str) -> str:
    """The description of a scalar that TensorBoard shows beside its chart; empty for an unknown tag."""
    name = tag.removeprefix("heldout/")
    if name != tag and name in FIGURES:
        figure = FIGURES[name]
        meaning = figure.meaning[0].upper() + figure.meaning[1:]
        return f"{meaning}, on held-out worlds. {figure.better.capitalize()} is better."
    return _TAGS.get(tag, "")


MakeLogbook: TypeAlias = Callable[[Path, "int | None"], Logbook]
"""Makes a logbook for the folder of a run. The second argument: the step from which a run is resumed, or None."""


def factory(name: str) -> MakeLogbook:
    """The object named by `package.module:factory`; the working directory is searched first.

    Raises:
        OrbitccError: there is none.
    """
    option, shown = _option(name)
    found, allowed = (
        code.attribute("--logbook", name),
        "package.module:factory, where factory(folder, resume_at) makes a Logbook",
    )
    if not code.takes(found, Path(), None):
        raise OrbitccError("--logbook", name, allowed)

    def make(folder: Path, resume_at: int | None) -> Logbook:
        try:
            made = found(folder, resume_at)
        except code.RAISED as error:
            which = allowed if option == "--logbook" else "a tracker that answers"
            raise code.refused(option, shown, which, error) from error
        if not isinstance(made, Logbook):
            raise OrbitccError("--logbook", name, allowed)
        return made

    return make


def _option(name: str) -> tuple[str, str]:
    """The option that names a logbook, and its value."""
    module, _, made = name.partition(":")
    return ("--track", made.lower()) if module == f"{__package__}.trackers" else ("--logbook", name)


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {tag: float(value) for tag, value in values.items() if math.isfinite(value)}


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as pairs of a dotted name and a value."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, bool | int | float | str) else str(value)
