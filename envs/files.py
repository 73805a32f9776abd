"""Writes files atomically: under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import tempfile
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from orbitcc.envs.errors import FileContentError, FileError, NoSuchFileError

DAMAGED_ARRAYS = (
    ValueError, KeyError, TypeError, EOFError, OverflowError, MemoryError, RecursionError, RuntimeError,
    zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError,
)  # fmt: skip
"""Whatever NumPy, zipfile and json raise for a damaged .npz file."""


def atomic_write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write `data` to `path`, making missing folders; readers see the old file or the new one, never a part.

    Raises FileError when the folder cannot be made or written.
    """
    target = Path(path)
    temporary: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            set_usual_mode(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise FileError("file", str(target), f"a writable place ({error.strerror or error})") from None
    return target


def atomic_write_text(path: str | os.PathLike[str], text: str) -> Path:
    """As `atomic_write_bytes`, for UTF-8 text."""
    return atomic_write_bytes(path, text.encode("utf-8"))


def check_place(path: str | os.PathLike[str]) -> None:
    """FileError when a file cannot be written there; checked before long work starts."""
    folder = next(parent for parent in Path(path).absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise FileError("file", str(path), f"a writable place ({folder} is not a folder that can be written)")


def read_text(path: str | os.PathLike[str]) -> str:
    """The UTF-8 text of a file; FileError when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileContentError("file", str(path), "UTF-8 text") from None
    except FileNotFoundError:
        raise NoSuchFileError("file", str(path)) from None
    except OSError as error:
        raise FileError("file", str(path), f"a readable file ({error.strerror or error})") from None


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file; FileError, with the line, when it is not TOML."""
    text = read_text(path)
    try:
        return parse_toml(text)
    except ValueError as error:
        raise FileContentError("file", str(path), f"TOML text ({error})") from None


_MOST_BYTES, _MOST_PARTS, _MOST_LEVELS = 4_000_000, 1_000, 100
_LONG_KEY = re.compile(rf"""(?<![\w"'.-])[\w"'-]++(?:[ \t]*+\.[ \t]*+[\w"'-]++){{{_MOST_PARTS}}}""")


def parse_toml(text: str) -> dict[str, Any]:
    """The content of TOML text; ValueError when it is not TOML, or so large that reading it would take long.

    Allowed: 4 MB, keys of 1,000 parts, 100 levels of arrays and tables, integers of 64 bits (TOML 1.0).
    """
    if len(text) > _MOST_BYTES:
        raise ValueError(f"{len(text) / 1e6:.1f} MB; at most {_MOST_BYTES / 1e6:g} MB are allowed")
    if _LONG_KEY.search(text):
        raise ValueError(f"a key of more than {_MOST_PARTS:,} parts")
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ValueError("arrays or tables are nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's own limit of 4,300 digits
        raise ValueError("an integer has thousands of digits") from None
    level: list[Any] = [data]
    for _ in range(_MOST_LEVELS):
        values = [v for item in level for v in (item.values() if isinstance(item, dict) else item)]
        if any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
            raise ValueError("an integer does not fit into 64 bits")
        level = [v for v in values if isinstance(v, dict | list)]
        if not level:
            return data
    raise ValueError(f"arrays or tables are nested deeper than {_MOST_LEVELS} levels")


def toml_text(data: Mapping[str, Any]) -> str:
    """`data` as TOML; entries that are None are left out (TOML has no null)."""
    return tomli_w.dumps(_without_none(data))


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_none(v) for v in value]
    return value


def set_usual_mode(descriptor: int) -> None:
    """Give an open temporary file, which is private, the mode that any new file has."""
    os.fchmod(descriptor, 0o666 & ~_umask())


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
