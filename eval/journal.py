"""Optuna's journal of a search, put in order after a process that was killed or a disk that was full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orbitcc.envs.errors import FileError


def storage(path: Path) -> Any:
    """Optuna's storage in the journal at `path`. Only one process at a time may use it.

    Raises:
        OrbitccError: the journal cannot be written, or a line of it is damaged.
    """
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    for left in path.parent.glob(f"{path.name}.lock*"):  # Optuna would wait for its owner for half a minute
        left.unlink(missing_ok=True)
    try:
        with path.open("a+b") as file:
            file.seek(0)
            data = file.read()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                file.truncate(whole)  # a last line without its end was not written completely
    except OSError as error:
        raise FileError("out", str(path.parent), f"a writable folder ({error.strerror or error})") from None
    for number, line in enumerate(data[:whole].splitlines(), start=1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            raise FileError(f"{path.name} line {number}", str(path), "an entry of Optuna's journal, as JSON")
    return JournalStorage(JournalFileBackend(str(path)))
