"""Worker processes that end with their parent."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from orbitcc.agents import libraries


def pool(workers: int) -> ProcessPoolExecutor:
    """A pool of worker processes, which end when this process is killed and leave Ctrl-C to it.

    They are spawned, not forked: the native thread pool and matplotlib's caches do not survive a fork. They trust the
    policies of other libraries that this process trusts.
    """
    return ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_enter, initargs=(libraries.trusted(),)
    )


def _enter(trusted: tuple[Path, ...]) -> None:
    libraries.trust(trusted)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent: Any = parent_process()
    parent.join()
    os._exit(1)
