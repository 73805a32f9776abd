"""Runs a suite for its contenders on all cores.

Every run is a simulation of its own with its own seed, so results depend neither on how many workers there are nor on
the order they finish in. Finished runs are appended at once; the results that was killed continues.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitcc.emulator.run import refuse
from orbitcc.envs import backends
from orbitcc.envs.description import support
from orbitcc.envs.errors import OrbitccError
from orbitcc.eval import provenance
from orbitcc.eval import results as store
from orbitcc.eval.contenders import Contender
from orbitcc.eval.progress import Progress
from orbitcc.eval.results import Results, Row
from orbitcc.eval.suites import Case, Suite


@dataclass(frozen=True)
class Task:
    """One run: a case with a contender on a backend. series: file for its time series, or None."""

    suite: Suite
    case: Case
    contender: Contender
    version: str
    series: Path | None
    backend: str = "simulator"


def execute(task: Task) -> Row:
    """Run and measure."""
    began = time.perf_counter()
    scenario = task.suite.enter(task.case, task.contender)
    recording = backends.runner(task.backend)(scenario, record_interval_s=task.suite.record_interval_s)
    values = task.suite.measure(task.case, recording)
    if task.series is not None:
        recording.save(task.series)
    return {
        "suite": task.suite.name,
        "scenario": task.case.digest,
        "point": dict(task.case.point),
        "seed": task.case.seed,
        "contender": task.contender.key,
        "controller": task.contender.controller,
        "params": dict(task.contender.params),
        "version": task.version,
        "metrics": {name: None if value != value else value for name, value in values.items()},
        "elapsed_s": round(time.perf_counter() - began, 3),
    }


def run_suite(
    suite: Suite,
    contenders: Sequence[Contender],
    *,
    out_dir: str | os.PathLike[str],
    profile: str = "quick",
    runs: int | None = None,
    workers: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    quiet: bool = False,
    command: str = "",
    backend: str = "simulator",
) -> Results:
    """Run the missing runs and compile the table; returns the results with a row for every planned run.

    runs: overrides the profile's number of runs per contender. workers: processes, default all cores. ray: the address
    of a Ray cluster that takes the runs instead ("local": one of this machine alone). backend: emulated runs take their
    own time, one after the other; their results never mix with simulated ones.
    Raises OrbitccError for wrong arguments. KeyboardInterrupt leaves a folder that `resume` continues.
    """
    if not contenders:
        raise OrbitccError("contenders", 0, "at least one controller or agent")
    labels = [c.label for c in contenders]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice:
        raise OrbitccError("contenders", twice, "every controller and agent once")
    if workers is not None and workers < 1:
        raise OrbitccError("workers", workers, "1 or more")
    if ray:
        _check_ray(ray)
    count = suite.runs(profile, runs)
    version = provenance.version()
    if support.check(backend) == "emulator":
        if ray or (workers or 1) > 1:
            raise OrbitccError("workers", ray or workers, "1 for the emulator: runs would disturb each other")
        version, workers = f"{version}.emulator", 1
    results = Results(suite, list(contenders), profile, count, Path(out_dir), version, command)
    cases = suite.cases(profile, count)
    for contender in contenders:
        try:
            entered = suite.enter(cases[0], contender)  # one that does not fit is refused before anything is written
            if backend == "emulator":
                refuse(entered, plain=True)
        except OrbitccError as error:
            raise error.under(contender.label) from None
    tasks = [
        Task(suite, case, c, results.version, results.series_path(c, case) if suite.shows(case) else None, backend)
        for case in cases  # by case, so that an interrupted results has all contenders on the same cases
        for c in contenders
    ]
    with store.opened(results, resume) as (file, known):
        store.write_plan(results, {**provenance.versions(), "orbitcc": results.version})
        finished = {store.key_of(row): row for row in known if row["version"] == results.version}
        missing = [task for task in tasks if _key(task) not in finished or not _series_kept(task)]
        with Progress(suite.name, len(tasks), done=len(tasks) - len(missing), quiet=quiet) as progress:
            for row in _over_ray(missing, ray) if ray else _results(missing, workers or os.cpu_count() or 1):
                store.append(file, row)
                finished[store.key_of(row)] = row
                progress.advance()
        results.rows = [finished[_key(task)] for task in tasks]
        results.write_csv()
    return results


def _key(task: Task) -> store.Key:
    return task.suite.name, task.case.digest, task.contender.key, task.case.seed


def _series_kept(task: Task) -> bool:
    return task.series is None or task.series.exists()


def _over_ray(tasks: Sequence[Task], address: str) -> Iterator[Row]:
    """The same over a Ray cluster, through Ray's own pool; runs whose series are kept stay on this machine."""
    if not tasks:
        return
    # Before Ray is imported: it would write a token into the home folder, and report its use.
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.util.multiprocessing import Pool

    ray.init(address=address, log_to_driver=False)
    try:
        yield from map(execute, [task for task in tasks if task.series is not None])
        with Pool() as pool:
            yield from pool.imap_unordered(execute, [task for task in tasks if task.series is None])
    finally:
        ray.shutdown()


def _check_ray(address: str) -> None:
    """Is Ray installed, and does the cluster answer? Ray itself would try for minutes."""
    if importlib.util.find_spec("ray") is None:
        raise OrbitccError("ray", address, "the learners installed: pip install 'orbitcc[train]'")
    if address in ("local", "auto"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError, OverflowError) as error:
        raise OrbitccError("ray", address, f"HOST:PORT of a running Ray cluster, auto or local ({error})") from None


def _results(tasks: Sequence[Task], workers: int) -> Iterator[Row]:
    """The rows of the tasks, as they finish."""
    if min(workers, len(tasks)) <= 1:
        yield from map(execute, tasks)
        return
    before = set(multiprocessing.active_children())
    # Spawned, not forked: the native thread pool and matplotlib's caches do not survive a fork.
    pool = ProcessPoolExecutor(
        min(workers, len(tasks)), mp_context=multiprocessing.get_context("spawn"), initializer=_enter_worker
    )
    try:
        for future in as_completed([pool.submit(execute, task) for task in tasks]):
            yield future.result()
        pool.shutdown()
    except BaseException:
        # A run may be long: do not wait for those under way.
        children = set(multiprocessing.active_children()) - before
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.terminate()
        raise


def _enter_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """Workers end by themselves when their parent was killed."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)
