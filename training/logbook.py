"""What a training run writes while it goes: TensorBoard events, `metrics.csv`, and a sign of life on the screen."""

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from orbitcc.agents.runs import METRICS, MetricsFile, RunFolder


class Logbook:
    """Scalars by tag and agent step, into TensorBoard and `metrics.csv`."""

    def __init__(self, folder: RunFolder, resume_at: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = None if resume_at is None else resume_at + 1
        self._folder, self._purge, self._writer = folder.path, purge, SummaryWriter
        self._events = SummaryWriter(str(folder.path), purge_step=purge)
        self._references: dict[str, Any] = {}
        self._metrics = MetricsFile(folder.path / METRICS, keep_until=resume_at)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append; values that are not finite (a figure that does not exist yet) are left out."""
        finite = {tag: float(value) for tag, value in values.items() if math.isfinite(value)}
        for tag, value in finite.items():
            self._events.add_scalar(tag, value, step)
        self._metrics.write(step, finite)
        self._events.flush()

    def write_settings(self, settings: Mapping[str, Any], metrics: Sequence[str]) -> None:
        """Show single values of nested settings, and which of our tags to judge by, in TensorBoard's table of runs."""
        from torch.utils.tensorboard.summary import hparams

        for summary in hparams(dict(_flat(settings)), dict.fromkeys(metrics, math.nan)):
            self._events.file_writer.add_summary(summary)

    def write_histogram(self, step: int, tag: str, counts: NDArray[np.int64]) -> None:
        """How often values fell into equal parts of [-1, 1]."""
        edges = np.linspace(-1.0, 1.0, len(counts) + 1)
        middles = (edges[1:] + edges[:-1]) / 2
        total, squares = float(counts @ middles), float(counts @ middles**2)
        self._events.add_histogram_raw(
            tag, -1.0, 1.0, int(counts.sum()), total, squares, edges[1:].tolist(), counts.tolist(), step
        )

    def write_reference(self, name: str, step: int, values: Mapping[str, float]) -> None:
        """The same tags of something that does not learn: TensorBoard draws it as a run of its own beside this one."""
        if name not in self._references:
            self._references[name] = self._writer(str(self._folder / "reference" / name), purge_step=self._purge)
        for tag, value in values.items():
            if math.isfinite(value):
                self._references[name].add_scalar(tag, value, step)
        self._references[name].flush()

    def close(self) -> None:
        for writer in self._references.values():
            writer.close()
        self._events.close()
        self._metrics.close()


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, bool | int | float | str) else str(value)


class Display:
    """A progress bar on a terminal, else one plain line every few seconds, on standard error.

    who: begins every line said, to tell several runs apart; `bar` = False: plain lines on a terminal, too.
    """

    def __init__(self, total: int, title: str, every_s: float = 5.0, who: str = "", bar: bool = True) -> None:
        self._total = total
        self._title = f"{title}, {who}" if who else title
        self._who = f"{who}: " if who else ""
        self._every_s = every_s
        self._last = -math.inf
        self._bar = None
        if bar and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(title, total=total, note="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """One line now."""
        self._line(self._who + text)

    def _line(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def working(self, what: str) -> None:
        """What goes on between two updates."""
        if self._bar is not None:
            self._bar.update(self._task, note=what)
        elif time.monotonic() - self._last >= self._every_s:
            self._last = time.monotonic()
            self._line(f"{self._title}: {what}")

    def update(self, done: int, note: str) -> None:
        """How far it is, and one figure worth watching."""
        if self._bar is not None:
            self._bar.update(self._task, completed=min(done, self._total), note=note)
        elif time.monotonic() - self._last >= self._every_s:
            self._last = time.monotonic()
            self._line(f"{self._title}: {done:,} of {self._total:,} agent steps, {note}")
