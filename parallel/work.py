"""A function of many items, in worker processes of this machine or as tasks of a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, Protocol

from orbitcc.common.errors import OrbitccError
from orbitcc.parallel import cluster, processes


class Apply(Protocol):
    """(position, result) of every item, as they finish. name: of an item, in errors."""

    def __call__(
        self, function: Callable[[Any], Any], items: Sequence[Any], name: Callable[[Any], str] = str
    ) -> Iterator[tuple[int, Any]]: ...


@contextmanager
def workers(count: int | None = None, ray: str | None = None, policies: Iterable[str] = ()) -> Iterator[Apply]:
    """A function that applies functions to items, for a `with` block; work that still runs at its end is stopped.

    count: processes, or cores of a local Ray; default all cores. ray: the address of a cluster that takes the work
    (:func:`orbitcc.parallel.cluster.find`). policies: paths of checkpoints for its nodes.

    Raises:
        OrbitccError: `count` is below 1, the cluster cannot be used, a worker was killed, or a function has raised it.
    """
    if count is not None and count < 1:
        raise OrbitccError("workers", count, "1 or more")
    if ray:
        if count is not None and (ray := cluster.find(ray)) != cluster.LOCAL:
            raise OrbitccError("workers", count, "none with a cluster, which runs as many at once as it has cores")
        sent = cluster.checkpoints(policies)
        with cluster.joined(ray, count):
            yield lambda function, items, name=str: cluster.tasks(function, items, name, sent)
        return
    pool = _Pool(count or os.cpu_count() or 1)
    try:
        with processes.lost():
            yield pool.apply
    finally:
        pool.stop()


def ordered(apply: Apply, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The results in the order of the items."""
    return [value for _, value in sorted(apply(function, items), key=lambda found: found[0])]


class _Pool:
    """Worker processes, which begin with the first work for more than one."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._before = set(multiprocessing.active_children())
        self._executor: ProcessPoolExecutor | None = None
        self._busy = False

    def apply(
        self, function: Callable[[Any], Any], items: Sequence[Any], name: Callable[[Any], str] = str
    ) -> Iterator[tuple[int, Any]]:
        if min(self._count, len(items)) <= 1:
            yield from enumerate(map(function, items))
            return
        self._executor = self._executor or processes.pool(self._count)
        self._busy = True
        places = {self._executor.submit(function, item): k for k, item in enumerate(items)}
        for future in as_completed(places):
            yield places[future], future.result()
        self._busy = False

    def stop(self) -> None:
        """End the processes; a run may be long, so those under way are not waited for."""
        if self._executor is None:
            return
        children = set(multiprocessing.active_children()) - self._before
        self._executor.shutdown(wait=not self._busy, cancel_futures=True)
        if self._busy:
            for child in children:
                child.terminate()
