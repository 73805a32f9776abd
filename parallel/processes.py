"""Worker processes that end with their parent."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

from orbitcc.agents import libraries
from orbitcc.common.errors import StateError

_SAFE = "PYTHONSAFEPATH"


@contextmanager
def safe_path() -> Iterator[None]:
    """Python processes that begin within a `with` block import nothing from the working directory by themselves.

    Once they run, :func:`multiprocessing` gives them this process's path.
    """
    before = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    try:
        yield
    finally:
        restore_path(before)


def restore_path(before: str | None = None) -> None:
    """Undo :func:`safe_path` for the processes that this one begins, as a user's programs."""
    if before is None:
        os.environ.pop(_SAFE, None)
    else:
        os.environ[_SAFE] = before


class _Process(SpawnProcess):
    def start(self) -> None:
        # A Ctrl-C while it imports waits until it has said what to do about it (:func:`begun`).
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with safe_path():
                super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Spawn(SpawnContext):
    Process = _Process


SPAWN = _Spawn()
"""Begins processes with :func:`safe_path`, which call :func:`begun`."""


def pool(workers: int) -> ProcessPoolExecutor:
    """A pool of worker processes, which end when this process is killed and leave Ctrl-C to it.

    They are spawned, not forked: the native thread pool and matplotlib's caches do not survive a fork. They trust the
    policies of other libraries that this process trusts.
    """
    with safe_path():  # its locks begin a process, too
        return ProcessPoolExecutor(workers, mp_context=SPAWN, initializer=_enter, initargs=(libraries.trusted(),))


@contextmanager
def lost() -> Iterator[None]:
    """OrbitccError about `workers` where a worker process of a pool was killed within a `with` block."""
    try:
        yield
    except BrokenProcessPool:
        sentence = (
            "a worker process was killed, perhaps because the machine has no memory left; what is finished is kept: "
            "continue with --resume, and with fewer --workers"
        )
        raise StateError("workers", sentence) from None


def _enter(trusted: tuple[Path, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    libraries.trust(trusted)
    begun()


def begun() -> None:
    """What a process of :data:`SPAWN` does first, after it has set what Ctrl-C does."""
    restore_path()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    end_with_parent()


def end_with_parent() -> None:
    """End this process at once when its parent is killed."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent: Any = parent_process()
    parent.join()
    os._exit(1)
