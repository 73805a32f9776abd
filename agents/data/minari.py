"""Decisions of flows as Minari data sets: one flow per episode (docs/data.md). Needs the extra `data`."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import orbitcc
from orbitcc.agents.data.decisions import FlowEpisode, table_of
from orbitcc.agents.runs.folders import temporary
from orbitcc.common.errors import FileError, OrbitccError, StateError
from orbitcc.common.extras import installing
from orbitcc.envs.environments.presets import STATS, Preset, to_choices

ROOT = "MINARI_DATASETS_PATH"
"""Minari's own variable: where data sets are, if not in its folder in the home folder."""
_NO_LIMIT = 10**9
"""Steps of an episode, which the scenario ends itself: d3rlpy asks for a number."""
_SCRATCH = ".orbitcc-"
_MARGIN_BYTES = 32_000_000
"""Room on the disk beside that of the next episode, for what HDF5 has not written yet."""
_ID = re.compile(r"([\w-]+/)*[\w-]+-v\d+")


def check(dataset_id: str, root: Path | None = None) -> Path:
    """Where the data set will be.

    Raises:
        OrbitccError: Minari is missing, the id is none, or there is such a data set.
    """
    if importlib.util.find_spec("minari") is None or importlib.util.find_spec("h5py") is None:
        raise StateError("dataset", f"Minari is not installed: it comes with {installing('data')}")
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        known = _ID.fullmatch(dataset_id) is not None and parse_dataset_id(dataset_id) is not None
    except ValueError:  # Minari's names have two letters at least
        known = False
    if not known:
        allowed = "names of two letters or more, joined by /, and a version, e.g. orbitcc/dumbbell-cubic-v0"
        raise OrbitccError("--id", dataset_id, allowed)
    folder = root or Path(os.environ.get(ROOT) or Path.home() / ".minari" / "datasets")
    place = folder.absolute() / dataset_id  # Minari refuses a relative folder
    if os.path.lexists(place):
        raise OrbitccError("--id", dataset_id, f"an id that is not taken (there is {place})")
    return place


def write(
    dataset_id: str,
    episodes: Iterable[FlowEpisode],
    preset: Preset,
    environment: Mapping[str, Any],
    *,
    root: Path | None = None,
    algorithm: str = "",
    command: str = "",
) -> tuple[Path, int, int]:
    """Write a data set as the episodes come; where it is, its episodes and its decisions.

    Infos of an episode hold `statistics`, f64[T+1, F] (`STATS`), and who decided.

    environment: arguments of :class:`orbitcc.CongestionEnv` beside the preset, for `recover_environment`.

    Raises:
        OrbitccError: as :func:`check`, or no flow decided anything.
    """
    place = check(dataset_id, root)
    home = place.parents[dataset_id.count("/")]
    with _write_errors(place), temporary(home, _SCRATCH) as scratch, _datasets_in(scratch), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # authors may be added later
        dataset, count, decisions = _write(scratch, dataset_id, episodes, preset, environment, algorithm, command)
        if dataset is None:
            raise OrbitccError("episodes", 0, "worlds in which a flow decides twice at least")
        _keep(scratch, home, dataset_id)
    return place, count, decisions


def _write(
    scratch: Path,
    dataset_id: str,
    episodes: Iterable[FlowEpisode],
    preset: Preset,
    environment: Mapping[str, Any],
    algorithm: str,
    command: str,
) -> tuple[Any, int, int]:
    import minari
    from gymnasium.envs.registration import EnvSpec
    from minari.data_collector import EpisodeBuffer

    dataset, decisions, count = None, 0, 0
    for count, episode in enumerate(episodes, start=1):
        _check_room(scratch, episode)
        steps = len(episode.rewards)
        ends = np.zeros(steps, np.bool_)
        ends[-1] = True
        never = np.zeros(steps, np.bool_)
        buffer = EpisodeBuffer(
            id=count - 1,
            seed=episode.seed,
            observations=episode.observations,
            actions=episode.actions if preset.choices is None else to_choices(episode.actions[:, 0], preset.choices),
            rewards=episode.rewards.tolist(),
            terminations=(ends if episode.terminated else never).tolist(),
            truncations=(never if episode.terminated else ends).tolist(),
            infos={"statistics": episode.statistics},
        )
        decisions += steps
        if dataset is None:
            kwargs = {**environment, "preset": table_of(preset)}
            dataset = minari.create_dataset_from_buffers(
                dataset_id,
                [buffer],
                env=EnvSpec(
                    "orbitcc/Recorded-v0",
                    entry_point="orbitcc.envs.environments.single:CongestionEnv",
                    kwargs=kwargs,
                    max_episode_steps=_NO_LIMIT,
                ),
                observation_space=preset.observation_space(),
                action_space=preset.action_space(),
                algorithm_name=algorithm or None,
                author="OrbitCC",
                description=f"One flow per episode; made by `{command}`." if command else "One flow per episode.",
                requirements=[f"orbitcc=={orbitcc.__version__}"],
                data_format="hdf5",
            )
            dataset.storage.update_metadata({"statistics": json.dumps(list(STATS))})
        else:
            dataset.storage.update_episodes([buffer])
        about = {"flow": episode.flow, "controller": episode.controller, "scenario": episode.scenario.name}
        dataset.storage.update_episode_metadata([about], [count - 1])
    return dataset, count, decisions


def _keep(scratch: Path, home: Path, dataset_id: str) -> None:
    """Move a whole data set from the scratch folder to where it belongs, with what describes its namespaces."""
    for part in Path(dataset_id).parents:
        made = scratch / part / "namespace_metadata.json"
        if made.is_file() and not (home / part / made.name).exists():
            (home / part).mkdir(parents=True, exist_ok=True)
            os.replace(made, home / part / made.name)
    (home / dataset_id).parent.mkdir(parents=True, exist_ok=True)
    os.replace(scratch / dataset_id, home / dataset_id)


@contextlib.contextmanager
def _write_errors(place: Path) -> Iterator[None]:
    """The errors of a folder that cannot be written, as one line."""
    try:
        yield
    except OSError as error:
        raise FileError("folder", str(place), f"a writable place ({error.strerror or error})") from None


def _check_room(folder: Path, episode: FlowEpisode) -> None:
    """OSError before the disk is full: HDF5 ends the process when it cannot write."""
    arrays = (episode.observations, episode.actions, episode.rewards, episode.statistics)
    needed = _MARGIN_BYTES + 4 * sum(array.nbytes for array in arrays)
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, f"No space left on device: less than {needed / 1e6:.0f} MB")


@contextlib.contextmanager
def _datasets_in(folder: Path) -> Iterator[None]:
    before = os.environ.get(ROOT)
    os.environ[ROOT] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[ROOT]
        else:
            os.environ[ROOT] = before
