"""Experiment trackers as logbooks of training runs: Weights & Biases, MLflow and Trackio (`orbitcc train --track`).

Each is set up by its own environment variables (`WANDB_MODE=offline`, `MLFLOW_TRACKING_URI`, `TRACKIO_DIR`); without
any, MLflow and Trackio write to this machine, and Weights & Biases asks for an account. Projects are called `orbitcc`,
runs as their folders. A resumed run continues its run of the tracker, and no other does.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orbitcc.common.errors import OrbitccError, UnknownNameError
from orbitcc.common.extras import installing
from orbitcc.common.files import atomic_write_text, read_text
from orbitcc.training.logbook import Logbook, flat

PROJECT = "orbitcc"


def named(tracker: str) -> str:
    """The logbook of a tracker as `module:factory` (:func:`orbitcc.training.logbook.factory`).

    Raises:
        OrbitccError: there is no such tracker, or its library is not installed.
    """
    if tracker not in TRACKERS:
        raise UnknownNameError("--track", tracker, TRACKERS)
    if find_spec(tracker) is None:
        raise OrbitccError("--track", tracker, f"a tracker that is installed: {installing(tracker)}")
    return f"{__name__}:{TRACKERS[tracker].__name__}"


def _identity(folder: Path) -> str:
    """The run's name with a digest of its folder's place: two runs called `mine` are two runs of a tracker, too."""
    place = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    return f"{folder.name}-{place}"


@contextmanager
def _impatient() -> Iterator[None]:
    """MLflow waits four minutes for a server that does not answer; here some seconds, if its variables say nothing."""
    usual = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
    own = [name for name in usual if name not in os.environ]
    os.environ.update({name: usual[name] for name in own})
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


class Tracker(Logbook):
    """A tracker that takes scalars by name: those of a reference are called `NAME/TAG`."""

    def write_reference(self, name: str, step: int, values: Mapping[str, float]) -> None:
        self.write(step, {f"{name}/{tag}": value for tag, value in values.items()})


class Wandb(Tracker):
    def __init__(self, folder: Path, resume_at: int | None) -> None:
        import wandb

        kept = folder / "wandb" / "run-id"
        if resume_at is None or not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            atomic_write_text(kept, f"{folder.name}-{secrets.token_hex(4)}")
        name, place = folder.name, str(folder)
        self._run = wandb.init(project=PROJECT, id=read_text(kept), name=name, dir=place, resume="allow")

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def write_settings(self, settings: Mapping[str, Any], metrics: Sequence[str]) -> None:
        self._run.config.update(dict(settings), allow_val_change=True)

    def close(self) -> None:
        self._run.finish(exit_code={"finished": 0, "stopped": 255}.get(self.outcome, 1))  # 255: it calls this killed


class Mlflow(Tracker):
    def __init__(self, folder: Path, resume_at: int | None) -> None:
        import mlflow

        with _impatient():
            experiment = mlflow.set_experiment(PROJECT).experiment_id
        self._client, tags = mlflow.MlflowClient(), {"orbitcc.run": _identity(folder), "mlflow.runName": folder.name}
        found = self._client.search_runs([experiment], f"tags.`orbitcc.run` = '{tags['orbitcc.run']}'", max_results=1)
        if found and resume_at is not None:
            self._run = found[0].info.run_id
            self._client.update_run(self._run, "RUNNING")
            return
        for run in found:  # one that had saved nothing when it was killed
            if run.info.status == "RUNNING":
                self._client.set_terminated(run.info.run_id, "KILLED")
        self._run = self._client.create_run(experiment, tags=tags, run_name=folder.name).info.run_id

    def write(self, step: int, values: Mapping[str, float]) -> None:
        for tag, value in values.items():
            self._client.log_metric(self._run, tag, value, step=step)

    def write_settings(self, settings: Mapping[str, Any], metrics: Sequence[str]) -> None:
        for key, value in flat(settings):
            self._client.log_param(self._run, key, str(value)[:6000])  # no value may be longer

    def close(self) -> None:
        self._client.set_terminated(
            self._run, {"finished": "FINISHED", "stopped": "KILLED"}.get(self.outcome, "FAILED")
        )


class Trackio(Tracker):
    """It takes the settings only when a run begins, so that its run begins with them."""

    def __init__(self, folder: Path, resume_at: int | None) -> None:
        self._name, self._run = _identity(folder), None
        self._resume = "never" if resume_at is None else "allow"

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._begun({}).log(dict(values), step=step)

    def write_settings(self, settings: Mapping[str, Any], metrics: Sequence[str]) -> None:
        self._begun(dict(flat(settings)))

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()

    def _begun(self, settings: Mapping[str, Any]) -> Any:
        if self._run is None:
            import trackio

            self._run = trackio.init(
                project=PROJECT, name=self._name, config=dict(settings), resume=self._resume, embed=False
            )
        return self._run


TRACKERS: Mapping[str, type[Tracker]] = {"wandb": Wandb, "mlflow": Mlflow, "trackio": Trackio}
"""Name of a tracker, also of its library and of the extra that installs it -> its logbook."""
