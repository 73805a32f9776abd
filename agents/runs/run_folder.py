"""The folder of a training run, equal for all learners.

runs/<scenario>__<recipe>__<seed>__<time>/
    config.json     the resolved recipe, command, seed, versions, revision
    metrics.csv     step, tag, value: what TensorBoard shows, as text
    events.out.*    TensorBoard
    best/           checkpoint (policy.safetensors + card.json): the policy to use
    last/           checkpoint: the last policy
    state/          the learner's state for --resume: safetensors and JSON, what other libraries store, and the digests
"""

import contextlib
import csv
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitcc.agents.runs.folders import BEST, LOCK, settle
from orbitcc.agents.runs.folders import CONFIG as CONFIG
from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.common.files import MOST_TABLE, atomic_write_text, open_regular, parse_json, read_text

METRICS, LAST, STATE = "metrics.csv", "last", "state"
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_STAMP = re.compile(r"(\d{8}-\d{6})(?:-(\d+))?")
DIGEST = "digest"
"""The entry of a run's configuration that shows damage."""
_PACKAGES = ("numpy", "gymnasium", "pettingzoo", "torch", "ray", "stable-baselines3", "safetensors")


@dataclass(frozen=True)
class RunFolder:
    """An existing run folder; `fresh`: the one around it was made for it."""

    path: Path
    fresh: bool = field(default=False, compare=False)

    @staticmethod
    def create(
        root: Path, scenario: str, recipe: str, seed: int, config: Mapping[str, Any], *, name: str | None = None
    ) -> "RunFolder":
        """Make a new folder with its `config.json`.

        scenario: a name or a file. name: of the folder; None: scenario, recipe, seed and time. Names sort in
        the order in which runs of a recipe and seed are made, even if the clock has been set back.

        Raises:
            OrbitccError: the name is taken or not allowed, or the folder cannot be written.
        """
        if name is not None and not RUN_NAME.fullmatch(name):
            raise OrbitccError(
                "--name", name, "at most 200 letters, digits, dots, dashes, underscores; a letter or digit first"
            )
        stamp, first = time.strftime("%Y%m%d-%H%M%S"), 1
        last = max(map(_made, _runs(root, recipe, seed)), default=("", 0))
        if name is None and last[0] >= stamp:
            stamp, first = last[0], last[1] + 1
        base = name or f"{Path(scenario).stem}__{recipe}__{seed}__{stamp}"
        fresh = not root.exists()
        try:
            root.mkdir(parents=True, exist_ok=True)
            path = root / (base if first == 1 else f"{base}-{first}")
            for number in range(first + 1, first + 100):
                try:
                    path.mkdir()
                    break
                except FileExistsError:
                    if all(entry.name.startswith(".") for entry in path.iterdir()):
                        break  # left by a process that was killed before it wrote the configuration
                    if name is not None:
                        taken = f"a name that no run in {root} has, or --resume to continue that run"
                        raise OrbitccError("--name", name, taken) from None
                    path = root / f"{base}-{number}"
        except OSError as error:
            raise FileError("out", str(root), f"a folder that can be written ({error.strerror})") from None
        folder = RunFolder(path, fresh)
        folder.write_config(config)
        return folder

    @staticmethod
    def latest(root: Path, recipe: str, seed: int, name: str | None = None) -> "RunFolder":
        """The newest run of this recipe and seed under `root`, or the run `name`.

        Raises:
            OrbitccError: there is none.
        """
        candidates = [root / name] if name else _runs(root, recipe, seed)
        candidates = [path for path in candidates if (path / CONFIG).exists()]
        if not candidates:
            raise OrbitccError("resume", str(root), f"a folder with a run {name or f'*__{recipe}__{seed}__*'}")
        return RunFolder(max(candidates, key=_made))

    def recover(self) -> bool:
        """Put in order what a killed process has left; returns whether a state has been saved."""
        settle(self.path)
        return self.state.is_dir()

    @property
    def name(self) -> str:
        """The run's name as model cards have it: the folder's, in lower case, other characters as dashes."""
        return re.sub(r"[^a-z0-9._-]+", "-", self.path.name.lower()).lstrip("._-") or "run"

    def take_back(self) -> None:
        """Remove the folder of a run that never began, which holds only its configuration, and the one around it that
        was made for it."""
        with contextlib.suppress(OSError):
            if {entry.name for entry in self.path.iterdir()} <= {CONFIG, LOCK}:
                (self.path / CONFIG).unlink(missing_ok=True)
                (self.path / LOCK).unlink(missing_ok=True)
                self.path.rmdir()
                if self.fresh:
                    self.path.parent.rmdir()

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write `config.json`, with a digest of its contents."""
        atomic_write_text(self.path / CONFIG, json.dumps({**config, DIGEST: _digest(config)}, indent=2) + "\n")

    def config(self, *needed: str) -> dict[str, Any]:
        """The content of `config.json`.

        Raises:
            OrbitccError: it cannot be read or was changed, or one of the `needed` entries is missing.
        """
        path = str(self.path / CONFIG)
        try:
            data = parse_json(read_text(path), own=True)
        except FileError:
            raise
        except ValueError as error:
            raise FileError("file", path, f"JSON text ({error})") from None
        if not isinstance(data, dict):
            raise FileError("file", path, "a JSON table")
        if data.pop(DIGEST, "") != _digest(data):
            raise FileError("file", path, f"the configuration as it was written (its {DIGEST} does not fit: damaged?)")
        for key in needed:
            if key not in data:
                raise FileError("file", path, f"the configuration of a run ({key!r} is missing)")
        return data

    @property
    def best(self) -> Path:
        return self.path / BEST

    @property
    def last(self) -> Path:
        return self.path / LAST

    @property
    def state(self) -> Path:
        return self.path / STATE


def _digest(config: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _runs(root: Path, recipe: str, seed: int) -> list[Path]:
    return list(root.glob(f"*__{recipe}__{seed}__*"))


def _made(path: Path) -> tuple[str, int]:
    """When a run was made, from its folder's name: the second, and the number among the runs of that second."""
    match = _STAMP.fullmatch(path.name.rsplit("__", 1)[-1])
    return (match[1], int(match[2] or 1)) if match else ("", 0)


_LONGEST_ROW = 1_000
"""Bytes of a row of `metrics.csv`."""
EVALUATION_SECONDS = "train/evaluation_seconds"
"""The figure of an evaluation whose tag does not begin with `heldout/`."""


class MetricsFile:
    """`metrics.csv`, appended line by line: `step,tag,value`."""

    def __init__(self, path: Path, keep_until: int | None = None) -> None:
        """Open for appending. `keep_until` drops lines of later steps: they are repeated by a resumed run."""
        rows: list[list[str]] = []
        if keep_until is not None and path.exists():
            rows = [row for row in _rows(path) if int(row[0]) <= keep_until]
        lines = "".join(",".join(row) + "\n" for row in [["step", "tag", "value"], *rows])
        atomic_write_text(path, lines)
        self._file = path.open("a", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file, lineterminator="\n")

    def write(self, step: int, values: Mapping[str, float]) -> None:
        for tag, value in values.items():
            self._writer.writerow([step, tag, repr(float(value))])
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _rows(path: Path) -> list[list[str]]:
    """The complete rows of `metrics.csv`."""
    found = []
    try:
        with open_regular(path, MOST_TABLE) as file:
            for line in file:
                row = line.rstrip(b"\n").decode("utf-8", "replace").split(",") if len(line) <= _LONGEST_ROW else []
                if line.endswith(b"\n") and len(row) == 3 and row[0].isdecimal() and len(row[0]) < 16:
                    found.append(row)
    except (OSError, FileError):
        return []
    return found


def forget_evaluation(path: Path, step: int) -> None:
    """Take the figures of the evaluation at this step out of `metrics.csv`, which is then made again.

    A killed run has them if its state was saved before its evaluation.
    """
    rows = [row for row in _rows(path) if not (int(row[0]) == step and _is_of_an_evaluation(row[1]))]
    if path.exists():
        atomic_write_text(path, "".join(",".join(row) + "\n" for row in [["step", "tag", "value"], *rows]))


def _is_of_an_evaluation(tag: str) -> bool:
    return tag.startswith("heldout/") or tag == EVALUATION_SECONDS


def last_step(path: Path) -> int:
    """The step of the last row of `metrics.csv`; -1 without one."""
    return max((int(row[0]) for row in _rows(path)), default=-1)


def versions() -> dict[str, str]:
    """Versions of this package, Python and the learning libraries."""
    found = {"python": platform.python_version()}
    for name in ("orbitcc", *_PACKAGES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def revision() -> str:
    """The commit of the source tree, with `+` where files differ from it; `unknown` outside a checkout."""
    here = Path(__file__).resolve().parent
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=here, env=environment, capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        return commit + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
