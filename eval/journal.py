"""The folder of a search: what was asked for there, and Optuna's journal, put in order after a kill or a full disk.

Every entry of the journal has a digest of itself and of all before it, which shows damage.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orbitcc.agents.runs.folders import LOCK, locked
from orbitcc.common.errors import FileContentError, FileError, OrbitccError
from orbitcc.common.files import MOST_TABLE, atomic_write_text, open_regular, parse_json, read_bytes, read_json

ASKED = "search.json"
_DIGEST = "digest"


@contextmanager
def claimed(folder: Path, asked: Mapping[str, Any], resume: bool, journal: Path) -> Iterator[None]:
    """Keep a folder for one search within a `with` block; nothing is left of a search that is refused in it.

    asked: what makes this search; plain values. resume: may it continue the same search? journal: of its trials.

    Raises:
        OrbitccError: the folder cannot be written, another process uses it, or it holds another search.
    """
    fresh = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError("out", str(folder), f"a folder that can be written ({error.strerror})") from None
    try:
        with locked(folder):
            begun = _claim(folder / ASKED, asked, resume, journal)
            try:
                yield
            except OrbitccError:
                if not begun and not _has_results(folder, journal):
                    for left in (folder / ASKED, journal):
                        left.unlink(missing_ok=True)
                raise
    finally:
        if fresh:
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()


def _has_results(folder: Path, journal: Path) -> bool:
    """Whether a trial has ended, or anything else has been written."""
    others = {path.name for path in folder.iterdir()} - {ASKED, journal.name}
    written = any(not name.endswith(LOCK) for name in others)
    return written or (journal.exists() and b'"values":[' in read_bytes(journal, MOST_TABLE))


def _claim(path: Path, asked: Mapping[str, Any], resume: bool, journal: Path) -> bool:
    """Write down what is asked for; returns whether the same search has begun before."""
    known = _known(path, journal)
    if known is None:
        atomic_write_text(path, json.dumps(asked, indent=2) + "\n")
    elif not resume:
        raise FileError("out", str(path.parent), "a folder without a search, or --resume to continue this one")
    elif other := [key for key, value in json.loads(json.dumps(asked)).items() if known.get(key) != value]:
        raise FileError("out", str(path.parent), f"a folder of the same search: this one has another {other[0]}")
    return known is not None


def _known(path: Path, journal: Path) -> dict[str, Any] | None:
    """What was asked for in a folder; None where there was no search."""
    if not path.exists():
        if journal.exists():
            raise FileError("out", str(path.parent), f"a folder without the trials of a search whose {ASKED} is gone")
        return None
    known = read_json(path, "a JSON table: what was searched for", own=True)
    if not isinstance(known, dict):
        raise FileContentError("file", str(path), "a JSON table: what was searched for")
    return known


def study(path: Path, name: str, **options: Any) -> Any:
    """The study of this name in the journal at `path`, a new one if the journal is empty.

    options: of `optuna.create_study`.

    Raises:
        OrbitccError: the journal cannot be written, a line of it is damaged, or it is of another study.
    """
    import optuna

    try:
        kept = storage(path)
        if path.stat().st_size:
            kept.get_study_id_from_name(name)
        made = optuna.create_study(study_name=name, storage=kept, direction="maximize", load_if_exists=True, **options)
        if made.directions != [optuna.study.StudyDirection.MAXIMIZE]:
            raise ValueError("it does not maximise")
        return made
    except OrbitccError:
        raise
    except Exception as error:  # an entry with a digest that fits, and no sense
        wanted = f"a journal of this kind of search, as it was written ({type(error).__name__}: {error})"
        raise FileError(path.name, str(path), wanted) from None


def check_trials(study: Any, path: Path, suggest: Callable[[Any], Any]) -> None:
    """Check that every finished trial has values that this search could have tried.

    suggest: draws the values of a trial. Which of them the sampler would have drawn is not checked: that depends on
    what ran at the same time, and on Optuna's version.

    Raises:
        OrbitccError: a trial has other values or ranges, or waits to be tried, which no search of ours leaves.
    """
    import optuna

    states = optuna.trial.TrialState
    for trial in study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED, states.WAITING)):
        fixed = optuna.trial.FixedTrial(trial.params)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.filterwarnings("error", message=".* is out of the range")
                suggest(fixed)
            if fixed.distributions != trial.distributions or trial.state == states.WAITING:
                raise ValueError
        except (ValueError, UserWarning):
            raise foreign(path, f"trial {trial.number} has values that it would not try") from None
        if trial.state == states.COMPLETE and not (len(trial.values) == 1 and _is_finite(trial.values[0])):
            raise foreign(path, f"trial {trial.number} has another result than one number")


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def foreign(path: Path, why: str) -> FileError:
    """The error about a journal with trials of something else."""
    return FileError(path.name, str(path), f"the journal of this search alone ({why})")


def storage(path: Path) -> Any:
    """Optuna's storage in the journal at `path`. Only one process at a time may use it.

    Raises:
        OrbitccError: the journal cannot be written, or a line of it is damaged.
    """
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    class Backend(JournalFileBackend):
        """Adds the digests. last: that of the last entry."""

        last = ""

        def append_logs(self, logs: Sequence[Mapping[str, Any]]) -> None:
            entries = []
            for log in logs:
                self.last = _digest(self.last, log)
                entries.append({**log, _DIGEST: self.last})
            super().append_logs(entries)

    for left in path.parent.glob(f"{path.name}.lock*"):  # Optuna would wait for its owner for half a minute
        left.unlink(missing_ok=True)
    try:
        with open_regular(path, MOST_TABLE, append=True) as file:
            file.seek(0)
            data = file.read()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                file.truncate(whole)  # a last line without its end was not written completely
    except FileError as error:
        raise FileError("out", str(path.parent), f"a writable folder ({path.name}: {error.allowed})") from None
    except OSError as error:
        raise FileError("out", str(path.parent), f"a writable folder ({error.strerror or error})") from None
    backend = Backend(str(path))
    for number, line in enumerate(data[:whole].splitlines(), start=1):
        wanted = "an entry of Optuna's journal, as it was written"
        try:
            entry = parse_json(line, own=True)
            if not isinstance(entry, dict):
                raise ValueError("it is no table")
            stated, backend.last = entry.pop(_DIGEST, None), _digest(backend.last, entry)
            if stated != backend.last:
                raise ValueError(f"its {_DIGEST} does not fit: damaged, or of an earlier version?")
        except (RecursionError, ValueError) as error:
            raise FileError(f"{path.name} line {number}", str(path), f"{wanted} ({error})") from None
    return JournalStorage(backend)


def _digest(before: str, entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{before}{json.dumps(entry)}".encode()).hexdigest()[:16]
