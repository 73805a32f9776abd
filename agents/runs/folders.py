"""Folders that change as a whole, and that one process at a time writes to."""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import stat
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from orbitcc.common.errors import StateError

CARD, WEIGHTS = "card.json", "policy.safetensors"
CONFIG, BEST = "config.json", "best"
"""In a run folder: its configuration and the policy to use."""
LOCK = ".lock"
SHIPPED = Path(__file__).resolve().parents[2] / "checkpoints"
SENT: dict[str, Path] = {}
"""Checkpoints that another machine has sent to this process: their path there -> their folder here."""
_OLD, _NEW = "old", "tmp"
_TEMPORARY: set[Path] = set()
"""Temporary folders of this process, which its own locks do not keep from it."""
_YOUNG_S = 10.0
_EXCHANGE, _AT_FDCWD = 2, -100  # RENAME_EXCHANGE and AT_FDCWD of Linux, renameat2(2)


def shipped() -> list[str]:
    """Names of the checkpoints that travel with the package."""
    if not SHIPPED.is_dir():
        return []
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / CARD).is_file())


def scratch(folder: Path, ending: str = _NEW) -> Path:
    """A name beside `folder` to build its next version under."""
    return folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.{ending}")


def replace_folder(fresh: Path, folder: Path) -> None:
    """Put `fresh` where `folder` is; readers see the old one or the new one.

    Linux exchanges both in one step. Elsewhere the old one steps aside first, and comes back if the move fails;
    :func:`settle` puts it back if this process ends in between.
    """
    if not folder.exists():
        fresh.rename(folder)
        return
    if _exchange(fresh, folder):
        shutil.rmtree(fresh, ignore_errors=True)
        return
    aside = scratch(folder, _OLD)
    folder.rename(aside)
    try:
        fresh.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def settle(parent: Path) -> None:
    """Remove what a process that was killed has left in a folder, after what it had moved aside is put back."""
    for aside in parent.glob(f".*.{_OLD}"):
        folder = parent / aside.name[1:].rsplit(".", 2)[0]
        if not folder.exists():
            aside.rename(folder)
    for left in (*parent.glob(f".*.{_OLD}"), *parent.glob(f".*.{_NEW}")):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


@contextlib.contextmanager
def temporary(home: Path, prefix: str) -> Iterator[Path]:
    """A new folder in `home` that is removed at the end of a `with` block, or by the next one with this prefix after
    its process was killed. The prefix must be one of this function alone. A home that was made for it is removed, too,
    if it is empty at the end.
    """
    fresh = not home.exists()
    home.mkdir(parents=True, exist_ok=True)
    for left in home.glob(f"{prefix}*"):
        with contextlib.suppress(StateError, OSError):
            found = left.lstat()
            young = abs(time.time() - found.st_mtime) < _YOUNG_S  # its process has perhaps not locked it yet
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and left not in _TEMPORARY and not young:
                with locked(left):
                    shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=home, prefix=prefix))
    _TEMPORARY.add(folder)
    try:
        with locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _TEMPORARY.discard(folder)
        if fresh:
            with contextlib.suppress(OSError):  # it is not empty
                home.rmdir()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes that ask for the same lock away from an existing folder. It ends with the process.

    Raises:
        OrbitccError: another process has the lock.
    """
    path = folder / LOCK
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
            file = os.fdopen(descriptor, "a+", encoding="utf-8")
        except OSError:  # a folder that cannot be written: who writes to it will say so
            yield
            return
        with file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    file.seek(0)
                    sentence = f"another process ({file.read().strip()}) writes to it; end it, or use another folder"
                    raise StateError(str(folder), sentence) from None
                yield  # a file system without locks
                return
            if not _is_at(file.fileno(), path):
                continue  # its former owner has just removed it
            file.truncate(0)
            file.write(f"{os.uname().nodename}, process {os.getpid()}")
            file.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_at(descriptor: int, path: Path) -> bool:
    """Is this open file the one at `path`?"""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step, where the system can."""
    if sys.platform != "linux":
        return False
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library before glibc 2.28
        return False
    return bool(call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0)
