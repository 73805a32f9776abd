"""Training runs on the nodes of a Ray cluster, whose run folders appear on this machine's disk.

A training run works in a temporary folder of its node. Whenever it saves, its folder travels to the driver, which
puts it into the place of the run folder. If the node dies, the training continues on another one from there.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orbitcc.agents.runs import seal
from orbitcc.agents.runs.folders import LOCK, replace_folder, scratch, temporary
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.common.errors import OrbitccError
from orbitcc.common.names import plain
from orbitcc.parallel import cluster
from orbitcc.parallel.progress import Display
from orbitcc.training.loop import INTERRUPTED, TrainingResult, train
from orbitcc.training.recipe import Recipe
from orbitcc.training.resume import TrainingState

_POLL_S = 0.5
"""Seconds between two looks for lines and run folders of the training runs."""


@dataclass(frozen=True)
class Job:
    """The training of one seed in a run folder that exists; `resume` if it has begun before."""

    recipe: Recipe
    seed: int
    run: RunFolder
    resume: bool
    command: str
    logbooks: tuple[str, ...] = ()
    trust: bool = False
    """Resume from pickled state that was not saved with this user's key."""
    again: str = "--resume continues"
    """How the user continues it, for messages; empty: whoever made the job says it."""

    @property
    def is_done(self) -> bool:
        return self.resume and TrainingResult.stored(self.run, self.recipe).finished

    @property
    def cores(self) -> int:
        return needed_cores(self.recipe)


def needed_cores(recipe: Recipe) -> int:
    """The cores that a training takes: its own process and RLlib's env runners."""
    return 1 + getattr(recipe.learner, "env_runners", 0)


@dataclass(frozen=True)
class _Order:
    """A job as its node gets it. folder: the packed run folder. number: of this try among all tries of all jobs."""

    job: Job
    who: str
    folder: bytes
    box: str
    number: int


@dataclass
class _RunningJob:
    order: _Order
    tries: int
    group: Any
    stopped: bool = False


class RemoteFleet:
    """Training runs on a cluster that this process has joined (:func:`orbitcc.parallel.cluster.joined`).

    saved: called with the job and its state when a run folder has arrived.
    """

    def __init__(self, saved: Callable[[Job, TrainingState], None] = lambda job, state: None) -> None:
        self._saved = saved
        self._name = f"orbitcc-{uuid.uuid4().hex}"
        self._box = _box(self._name)
        self._running: dict[Any, _RunningJob] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._running)

    def submit(self, job: Job, who: str) -> None:
        """Start a training as soon as there are cores for it. who: begins its lines."""
        if (has := cluster.cores()) < job.cores:
            _say(f"{who}: waits for {job.cores} cores; the cluster has {has}")
        self._start(job, who, tries=1)

    def room(self, jobs: int, cores: int) -> bool:
        """Whether so many more training runs, of which each takes so many cores, would begin at once."""
        free = cluster.cores() - sum(running.order.job.cores for running in self._running.values())
        return not self or free >= jobs * cores

    def _start(self, job: Job, who: str, tries: int) -> None:
        self._count += 1
        order = _Order(job, who, pack(job.run.path), self._name, self._count)
        group, options = _group(job.cores)
        reference = cluster.submit(_train, order, num_cpus=1, max_retries=0, **options)
        self._running[reference] = _RunningJob(order, tries, group)

    def wait(self) -> list[tuple[Job, int]]:
        """Take what has arrived for half a second; the jobs that ended meanwhile, with their exit codes."""
        ready, _ = cluster.ray_module().wait(list(self._running), num_returns=1, timeout=_POLL_S)
        self._collect()
        ended = []
        for reference in ready:
            running = self._running.pop(reference)
            code = self._code(reference, running)
            if running.group is not None:
                from ray.util import remove_placement_group

                remove_placement_group(running.group)
            if code is None:
                job = running.order.job
                begun = job.run.state.is_dir()
                _say(f"{running.order.who}: its node or process died; it {'continues' if begun else 'begins'} again")
                self._start(replace(job, resume=begun), running.order.who, running.tries + 1)
            else:
                ended.append((running.order.job, code))
        return ended

    def stop(self, job: Job | None = None) -> None:
        """Let one training, or all, save and end, as Ctrl-C does."""
        for reference, running in self._running.items():
            if not running.stopped and job in (None, running.order.job):
                running.stopped = True
                cluster.ray_module().cancel(reference, recursive=False)

    def _collect(self) -> None:
        current = {running.order.number: running.order.job for running in self._running.values()}
        for number, line, arrived in cluster.ray_module().get(self._box.take.remote()):
            if line:
                _say(line)
            elif number in current:  # else of a node that was given up
                folder, state = arrived
                unpack(folder, current[number].run.path)
                if current[number].run.state.is_dir():
                    seal.seal(current[number].run.state)  # with the key of this machine's user
                self._saved(current[number], state)

    def _code(self, reference: Any, running: _RunningJob) -> int | None:
        """The exit code of a try that has ended; None: try again."""
        errors = cluster.ray_module().exceptions
        who, job = running.order.who, running.order.job
        try:
            return int(cluster.result(reference))
        except OrbitccError as error:
            _say(f"{who}: error: {error}")
            job.run.take_back()
            return 2
        except errors.TaskCancelledError:
            return INTERRUPTED
        except errors.RayTaskError as error:
            _say(f"{who}: {error}")
            return 1
        except errors.RayError as error:
            if running.stopped:
                return INTERRUPTED
            if running.tries < cluster.TRIES:
                return None
            again = f"; {job.again}" if job.again else ""
            _say(f"{who}: error: failed in {cluster.TRIES} tries{again} ({cluster.line(error)})")
            return 1


def _train(order: _Order) -> int:
    """The task: train in a folder of this node."""
    ray = cluster.ray_module()
    box, job = ray.get_actor(order.box), order.job
    with temporary(Path(tempfile.gettempdir()), cluster.ON_A_NODE) as folder:
        run = RunFolder(folder / job.run.path.name)
        unpack(order.folder, run.path)

        def deliver(state: TrainingState) -> None:
            ray.get(box.post.remote(order.number, "", (pack(run.path), state)))

        outcome = train(
            job.recipe,
            job.seed,
            run,
            resume=job.resume,
            command=job.command,
            show=lambda recipe: _Lines(recipe, order, box),
            logbooks=job.logbooks,
            saved=deliver,
            trust=True,  # the driver has checked what it sends
            again=job.again,
        )
        return outcome.exit_code


class _Lines(Display):
    """Sends every line to the driver."""

    def __init__(self, recipe: Recipe, order: _Order, box: Any) -> None:
        super().__init__(recipe.agent_steps, recipe.name, who=order.who, bar=False)
        self._number, self._box = order.number, box

    def _line(self, text: str) -> None:
        self._box.post.remote(self._number, text, None)


def _box(name: str) -> Any:
    """An actor beside this process that keeps what training runs post until this process takes it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray = cluster.ray_module()

    class Box:  # here, so that it is sent by value: its process may import another OrbitCC
        def __init__(self) -> None:
            self.posted: list[tuple[int, str, Any]] = []

        def post(self, number: int, line: str, arrived: Any) -> None:
            self.posted.append((number, line, arrived))

        def take(self) -> list[tuple[int, str, Any]]:
            taken, self.posted = self.posted, []
            return taken

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(Box).options(name=name, num_cpus=0, scheduling_strategy=here).remote()


def _group(cores: int) -> tuple[Any, dict[str, Any]]:
    """Cores for a training run and its env runners, so that runs do not wait for each other's; and Ray's options."""
    if cores == 1:
        return None, {}
    from ray.util import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = placement_group([{"CPU": 1}] * cores)
    inside = PlacementGroupSchedulingStrategy(
        group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
    )
    return group, {"scheduling_strategy": inside}


def pack(folder: Path) -> bytes:
    """A folder as bytes."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as packed:
        packed.add(folder, arcname=".", filter=lambda entry: None if entry.name.endswith(LOCK) else entry)
    return data.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Put a packed folder's files and folders in place, each as a whole; others in the folder stay."""
    fresh = scratch(folder)
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        packed.extractall(fresh, filter="data")
    folder.mkdir(exist_ok=True)
    for entry in fresh.iterdir():
        if entry.is_dir():
            replace_folder(entry, folder / entry.name)
        else:
            os.replace(entry, folder / entry.name)
    fresh.rmdir()


def _say(text: str) -> None:
    print(plain(text), file=sys.stderr, flush=True)
