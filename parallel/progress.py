"""Progress of long work: a bar on a terminal, a plain line every few seconds elsewhere (always on stderr)."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from orbitcc.common.names import plain, terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LINE_EVERY_S = 5.0


class Progress:
    """Counts finished runs. Use as a context manager.

    total: all runs; done: runs that were finished before; quiet: show nothing.
    """

    def __init__(self, title: str, total: int, *, done: int = 0, quiet: bool = False) -> None:
        self.title, self.total, self.done = title, total, done
        self._already = done
        self._quiet = quiet or total == 0
        self._bar: Bar | None = None
        self._began = self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich import progress as rich
            from rich.console import Console

            columns = (
                rich.TextColumn("[bold]{task.description}"),
                rich.BarColumn(),
                rich.MofNCompleteColumn(),
                rich.TimeElapsedColumn(),
                rich.TextColumn("[dim]left"),
                rich.TimeRemainingColumn(),
            )
            self._bar = rich.Progress(*columns, console=Console(stderr=True))
            self._bar.start()
            self._bar.add_task(terminal(self.title), total=self.total, completed=self.done)
        elif not self._quiet:
            again = f" ({self.done} finished earlier)" if self.done else ""
            print(f"{plain(self.title)}: {self.total} runs{again}", file=sys.stderr, flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif not self._quiet:
            elapsed = time.monotonic() - self._began
            print(f"{plain(self.title)}: {self.done}/{self.total} runs, {elapsed:.1f} s", file=sys.stderr, flush=True)

    def advance(self) -> None:
        """Count one finished run."""
        self.done += 1
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.done)
        elif not self._quiet and now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            left = (now - self._began) / (self.done - self._already) * (self.total - self.done)
            print(f"{plain(self.title)}: {self.done}/{self.total} runs, {left:.0f} s left", file=sys.stderr, flush=True)
