"""Progress of long work: a bar on a terminal, a plain line every few seconds elsewhere (always on stderr)."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Self

from orbitcc.common.names import plain, terminal

LINE_EVERY_S = 5.0


class Display:
    """Shows how much of `total` is done. Use as a context manager.

    who: begins every line said, to tell several pieces of work apart. bar: on a terminal, a bar. quiet: show nothing.
    """

    def __init__(self, total: int, title: str, *, who: str = "", bar: bool = True, quiet: bool = False) -> None:
        self.total, self.title = total, f"{title}, {who}" if who else title
        self._who, self._quiet = f"{who}: " if who else "", quiet
        self._last = -math.inf
        self._bar = None
        if bar and not quiet and sys.stderr.isatty():
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
            self._task = self._bar.add_task(terminal(title), total=total, note="")

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
        """Print one line."""
        self._line(self._who + text)

    def working(self, what: str) -> None:
        """Show the activity between two updates."""
        if self._bar is not None:
            self._bar.update(self._task, note=what)
        else:
            self._now_and_then(f"{self.title}: {what}")

    def update(self, done: int, note: str) -> None:
        """Show the progress and a note."""
        if self._bar is not None:
            self._bar.update(self._task, completed=min(done, self.total), note=note)
        else:
            share = min(done / self.total, 1.0) if self.total else 1.0
            self._now_and_then(f"{self.title}: {share:.0%}, {note}")

    def _now_and_then(self, text: str) -> None:
        if time.monotonic() - self._last >= LINE_EVERY_S:
            self._last = time.monotonic()
            self._line(text)

    def _line(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(terminal(text), highlight=False)
        elif not self._quiet:
            print(plain(text), file=sys.stderr, flush=True)


class Progress(Display):
    """Counts finished runs.

    total: all runs; done: runs that were finished before; quiet: show nothing.
    """

    def __init__(self, title: str, total: int, *, done: int = 0, quiet: bool = False) -> None:
        super().__init__(total, title, quiet=quiet or total == 0)
        self.done = self._already = done
        self._began = self._last = time.monotonic()

    def __enter__(self) -> Self:
        again = f" ({self.done} finished earlier)" if self.done else ""
        self.say(f"{self.title}: {self.total} runs{again}")
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.say(f"{self.title}: {self.done}/{self.total} runs, {time.monotonic() - self._began:.1f} s")

    def advance(self) -> None:
        """Count one finished run."""
        self.done += 1
        left_s = (time.monotonic() - self._began) / (self.done - self._already) * (self.total - self.done)
        self.update(self.done, f"{self.done}/{self.total} runs, {left_s:.0f} s left")
