"""Runs a suite for its contenders on all cores.

Every run is a simulation of its own with its own seed, so results depend neither on how many workers there are nor on
the order they finish in. Finished runs are appended at once; an evaluation that was killed continues with them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orbitcc.common import provenance
from orbitcc.common.errors import OrbitccError, StateError
from orbitcc.common.files import atomic_write_bytes
from orbitcc.emulator.run import refuse
from orbitcc.envs import backends
from orbitcc.envs.backends.simulator import begun
from orbitcc.envs.description import support
from orbitcc.eval import results as store
from orbitcc.eval.contenders import Contender, policies_of
from orbitcc.eval.results import Results, Row
from orbitcc.eval.suites import Case, Suite
from orbitcc.parallel import cluster, work
from orbitcc.parallel.progress import Progress


@dataclass(frozen=True)
class Task:
    """One run: a case with a contender on a backend. series: file for its time series, or None."""

    suite: Suite
    case: Case
    contender: Contender
    version: str
    series: Path | None
    backend: str = "simulator"


Made = tuple[Row, bytes | None]
"""A finished run: its row, and the content of the file for its time series."""


def execute(task: Task) -> Made:
    """Run and measure."""
    began = time.perf_counter()
    scenario = task.suite.entered(task.case, task.contender)
    interval_s = min(task.suite.record_interval_s, scenario.duration_s)
    recording = backends.runner(task.backend)(scenario, record_interval_s=interval_s)
    task.contender.check_unchanged()
    if policies_of(task.case.scenario) and replace(task.case).digest != task.case.digest:
        raise StateError(task.suite.name, "files of a policy that its scenarios name were changed meanwhile")
    values = task.suite.measured(task.case, recording)
    if closed := recording.closed_connections():
        values["closed_connections"] = float(len(closed))
    series = recording.to_bytes() if task.series is not None else None
    row = {
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
    return row if series is None else {**row, "series": store.digest(series)}, series


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
    of a Ray cluster that takes the runs instead (:func:`orbitcc.parallel.cluster.find`). backend: emulated runs take
    their own time, one after the other; their results never mix with simulated ones.
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
    count = suite.runs(profile, runs)
    built = ".".join(filter(None, (provenance.version(), provenance.source(type(suite)))))
    version = built
    if support.check(backend) == "emulator":
        if ray or (workers or 1) > 1:
            raise OrbitccError("workers", ray or workers, "1 for the emulator: runs would disturb each other")
        version, workers = f"{version}.emulator", 1
    if ray:
        ray = cluster.find(ray)  # before anything is written
    results = Results(suite, list(contenders), profile, count, Path(out_dir), version, command)
    cases = suite.cases(profile, count)
    versions = {c.key: built if c.simulated else version for c in contenders}
    for contender in contenders:
        try:
            entered = suite.entered(cases[0], contender)  # one that does not fit is refused before anything is written
            if backend == "emulator" and not contender.simulated:
                refuse(entered, plain=True)
            elif not any(flow.controller.names_code for flow in entered.flows):  # whose code runs in workers alone
                begun(entered, min(suite.record_interval_s, entered.duration_s))
        except OrbitccError as error:
            raise error.under(contender.label) from None
    tasks = [
        Task(
            suite,
            case,
            c,
            versions[c.key],
            results.series_path(c, case) if suite.shows(case) else None,
            "simulator" if c.simulated else backend,
        )
        for case in cases  # by case, so that a stopped evaluation has all contenders on the same cases
        for c in contenders
    ]
    paths = {_key(task): task.series for task in tasks if task.series is not None}
    policies = [str(c.params["path"]) for c in contenders if c.params.get("path")]
    with work.workers(workers, ray, policies) as apply, store.opened(results, resume) as (file, known):
        store.write_plan(results, cases, {**provenance.versions(), "orbitcc": results.version})
        points = {_key(task): dict(task.case.point) for task in tasks}
        finished = {
            key: row
            for row in known
            if row["version"] == versions.get(row["contender"])
            and row["point"] == points.get(key := store.key_of(row), row["point"])
        }
        missing = [
            task
            for task in tasks
            if (row := finished.get(_key(task))) is None
            or (task.series is not None and not store.has_series(task.series, row))
        ]
        with Progress(suite.name, len(tasks), done=len(tasks) - len(missing), quiet=quiet) as progress:
            for _, (row, series) in apply(execute, missing, _name):
                key = store.key_of(row)
                if series is not None:
                    atomic_write_bytes(paths[key], series)
                store.append(file, row)
                finished[key] = row
                progress.advance()
        results.rows = [finished[_key(task)] for task in tasks]
        results.write_csv()
    return results


def _key(task: Task) -> store.Key:
    return task.suite.name, task.case.digest, task.contender.key, task.case.seed


def _name(task: Task) -> str:
    """The run, for errors."""
    point = "".join(f", {key} {value}" for key, value in task.case.point.items())
    return f"{task.suite.name}, {task.contender.label}{point}, seed {task.case.seed}"
