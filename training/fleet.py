"""Training runs side by side: in processes of this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from orbitcc.common.errors import OrbitccError
from orbitcc.parallel import cluster, processes
from orbitcc.parallel.progress import Display
from orbitcc.training.loop import INTERRUPTED, train
from orbitcc.training.recipe import Recipe
from orbitcc.training.remote import Job, RemoteFleet, needed_cores
from orbitcc.training.resume import PROGRESS, TrainingState, read_progress

_POLL_S = 0.2
"""Seconds between two looks at the processes."""
Saved = Callable[[Job, TrainingState], None]
"""Called with a job and its state when its run folder has been saved."""


class Fleet(Protocol):
    """The training runs that are running; its length is their number."""

    def __len__(self) -> int: ...

    def submit(self, job: Job, who: str) -> None:
        """Start a training as soon as there is room for it. who: begins its lines."""

    def room(self, jobs: int, cores: int) -> bool:
        """Whether so many more training runs, of which each takes so many cores, would begin at once."""

    def wait(self) -> list[tuple[Job, int]]:
        """A moment later: the jobs that have ended, with their exit codes."""

    def stop(self, job: Job | None = None) -> None:
        """Let one training, or all, save and end, as Ctrl-C does."""


@contextmanager
def fleet(
    at_once: int, ray: str | None, recipes: Sequence[Recipe], saved: Saved = lambda job, state: None
) -> Iterator[Fleet]:
    """A fleet within a `with` block.

    at_once: processes. ray: the address of a cluster that trains instead as many at once as it has cores for.
    recipes: what is trained.

    Raises:
        OrbitccError: the cluster cannot be used.
    """
    if ray:
        with cluster.joined(ray, max(os.cpu_count() or 1, *map(needed_cores, recipes))):
            yield RemoteFleet(saved)
        return
    own = _Processes(at_once, saved)
    try:
        yield own
    finally:
        own.kill()


class _Processes:
    """A process of its own for each training, `at_once` of them at a time."""

    def __init__(self, at_once: int, saved: Saved) -> None:
        self._at_once, self._saved = at_once, saved
        self._waiting: deque[tuple[Job, str]] = deque()
        self._running: dict[int, tuple[Job, BaseProcess]] = {}
        self._given_up: list[Job] = []
        self._stopped: set[int] = set()
        self._told: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running) + len(self._given_up)

    def submit(self, job: Job, who: str) -> None:
        self._waiting.append((job, who))

    def room(self, jobs: int, cores: int) -> bool:
        return not self or (len(self._running) + len(self._waiting) + jobs) * cores <= self._at_once

    def wait(self) -> list[tuple[Job, int]]:
        while self._waiting and len(self._running) < self._at_once:
            job, who = self._waiting.popleft()
            process = _start(job, who, alone=self._at_once == 1)
            self._running[process.sentinel] = job, process
        ended = set(wait(list(self._running), timeout=_POLL_S)) if self._running else set()
        for sentinel, (job, _) in self._running.items():
            self._look(sentinel, job)
        found = [(job, INTERRUPTED) for job in self._given_up]
        self._given_up.clear()
        for sentinel in [sentinel for sentinel in self._running if sentinel in ended]:
            job, process = self._running.pop(sentinel)
            process.join()
            found.append((job, process.exitcode or 0))
        return found

    def stop(self, job: Job | None = None) -> None:
        stopped = [entry for entry in self._waiting if job in (None, entry[0])]
        for entry in stopped:
            self._waiting.remove(entry)
            self._given_up.append(entry[0])
        for sentinel, (own, process) in self._running.items():
            if job in (None, own) and sentinel not in self._stopped:
                self._stopped.add(sentinel)
                process.terminate()  # SIGTERM: harmless to one that Ctrl-C has reached already

    def kill(self) -> None:
        for _, process in self._running.values():
            process.kill()

    def _look(self, sentinel: int, job: Job) -> None:
        """Report a state that was saved since the last call."""
        try:
            written = (job.run.state / PROGRESS).stat().st_mtime_ns
            if self._told.get(sentinel) == written:
                return
            state = read_progress(job.run)
        except (OSError, OrbitccError):  # nothing yet, or just while it is replaced
            return
        self._told[sentinel] = written
        self._saved(job, state)


def _start(job: Job, who: str, alone: bool) -> BaseProcess:
    process = processes.SPAWN.Process(target=_train, args=(job, who, alone), name=who)
    # the child ignores Ctrl-C until its training can save
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    return process


def _train(job: Job, who: str, alone: bool) -> None:
    """The main function of a training's process."""
    processes.begun()

    def show(recipe: Recipe) -> Display:
        return Display(recipe.agent_steps, recipe.name, who=who, bar=alone)

    try:
        outcome = train(
            job.recipe,
            job.seed,
            job.run,
            resume=job.resume,
            command=job.command,
            show=show,
            logbooks=job.logbooks,
            trust=job.trust,
            again=job.again,
        )
    except OrbitccError as error:
        show(job.recipe).say(f"error: {error}")
        sys.exit(2)
    sys.exit(outcome.exit_code)
