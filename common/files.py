"""Writes files atomically: under a temporary name, then renamed. Reads regular files of a limited size only."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import re
import stat
import struct
import tempfile
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

import tomli_w

from orbitcc.common.errors import FileContentError, FileError, NoSuchFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MB = 1_000_000
MOST_TEXT = 4 * MB
"""TOML and JSON that describe one thing: scenarios, recipes, cards, configurations, plans."""
MOST_TRACE = 32 * MB
"""Traces of paths."""
MOST_LINES = 5_000_000
"""Lines of such a file, and of a recording of a path."""
MOST_TABLE = 256 * MB
"""Files that grow by a line: runs.jsonl, metrics.csv, journals. Also weights and the files of recordings of runs."""
MOST_RECORDING = 600 * MB
"""A recording of a real path, unpacked: a capture, a log, or an hour of irtt with a packet every 10 ms (420 MB)."""
MOST_ITEM = MB
"""Letters of one item of a long JSON list."""
MOST_STATE = 8_000 * MB
"""A file of the state of a training run, such as a replay buffer."""
MOST_ARRAYS = 1_000 * MB
"""The arrays of an .npz file, unpacked."""
_MOST_MEMBERS, _MOST_INDEX = 1_000, 1 * MB
"""Arrays of an .npz file, and bytes of the list of them."""

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
        temporary = None
    except OSError as error:
        raise FileError("file", str(target), f"a writable place ({error.strerror or error})") from None
    finally:  # after an interruption, too
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    return target


def atomic_write_text(path: str | os.PathLike[str], text: str) -> Path:
    """As `atomic_write_bytes`, for UTF-8 text."""
    return atomic_write_bytes(path, text.encode("utf-8"))


def check_place(path: str | os.PathLike[str]) -> None:
    """FileError when a file cannot be written there; checked before long work starts."""
    if Path(path).is_dir():
        raise FileError("file", str(path), "a file, not a folder")
    folder = next(parent for parent in Path(path).absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise FileError("file", str(path), f"a writable place ({folder} is not a folder that can be written)")


def check_ending(field: str, path: Path, *endings: str) -> None:
    """FileError, which names the field, when the name of a file ends otherwise."""
    if path.suffix not in endings:
        raise FileError(field, str(path), f"a name ending in {' or '.join(endings)}")


def open_regular(
    path: str | os.PathLike[str], most_bytes: int, *, append: bool = False
) -> io.BufferedReader | io.BufferedRandom:
    """Open a regular file for reading without waiting: never a pipe, a device or a folder.

    append: open for reading and appending, and make the file if there is none.

    Raises:
        OrbitccError: it cannot be opened, is something else, or has more than `most_bytes`.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if append else os.O_RDONLY
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    except FileNotFoundError:
        raise NoSuchFileError("file", os.fspath(path)) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte, or a letter that no file name has
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise FileError("file", os.fspath(path), f"a readable file ({reason})") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise FileError("file", os.fspath(path), "a readable file (it is a folder, a pipe or a device)")
        if found.st_size > most_bytes:
            raise FileContentError("file", os.fspath(path), _at_most(found.st_size, most_bytes))
        return os.fdopen(descriptor, "a+b") if append else os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _at_most(size: int, most: int) -> str:
    return f"at most {most / MB:,g} MB (it has {size / MB:,.1f} MB)"


def read_bytes(path: str | os.PathLike[str], most_bytes: int = MOST_TEXT) -> bytes:
    """The content of a regular file; FileError when it cannot be read or has more than `most_bytes`."""
    with open_regular(path, most_bytes) as file:
        try:
            data = file.read(most_bytes + 1)
        except OSError as error:
            raise FileError("file", os.fspath(path), f"a readable file ({error.strerror or error})") from None
    if len(data) > most_bytes:
        raise FileContentError("file", os.fspath(path), _at_most(len(data), most_bytes))
    return data


def read_text(path: str | os.PathLike[str], most_bytes: int = MOST_TEXT) -> str:
    """The UTF-8 text of a regular file; FileError when it cannot be read or has more than `most_bytes`."""
    try:
        text = read_bytes(path, most_bytes).decode("utf-8-sig")  # without the byte order mark of Windows
    except UnicodeDecodeError:
        raise FileContentError("file", str(path), "UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


_MOST_PACKED = 50_000
"""Parts of a gzip file: bgzip makes one for each 64 kB."""
_PACKED = {b"\x28\xb5\x2f\xfd": "zstd -d", b"\xfd7zXZ\0": "unxz", b"BZh": "bunzip2", b"PK\3\4": "unzip",
           b"\x04\x22\x4d\x18": "lz4 -d"}  # fmt: skip


def read_unpacked(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """As `read_bytes`, and the content of a gzip file; `most_bytes` is a limit of both.

    Raises FileContentError for a damaged one, and for one that another program has packed.
    """
    data, name = read_bytes(path, most_bytes), os.fspath(path)
    for magic, command in _PACKED.items():
        if data.startswith(magic):
            raise FileContentError(
                "file", name, f"a file that is not packed, or by gzip; `{command} {name}` unpacks it"
            )
    parts: list[bytes] = []
    size = at = count = 0
    while data[at : at + 2] == b"\x1f\x8b":
        if (count := count + 1) > _MOST_PACKED:
            raise FileContentError("file", name, f"a gzip file of at most {_MOST_PACKED:,} parts")
        unpacker, more = zlib.decompressobj(wbits=31), 2**10
        while not unpacker.eof:
            given = data[at : at + more]  # little at first: what is left of it is copied
            if not given:
                raise FileContentError("file", name, "a whole gzip file; it is cut off")
            try:
                parts.append(unpacker.decompress(given, most_bytes + 1 - size))
            except zlib.error as error:
                raise FileContentError("file", name, f"a sound gzip file ({error})") from None
            size += len(parts[-1])
            if size > most_bytes:
                raise FileContentError("file", name, f"at most {most_bytes / MB:,g} MB when it is unpacked")
            at, more = at + len(given) - len(unpacker.unused_data), min(2 * more, MB)
    return b"".join(parts) if count else data


def csv_cells(line: str, where: str) -> list[str]:
    """The cells of a line of CSV; FileError, with `where`, when it is none."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise FileError(where, line, f"cells of CSV ({error})") from None


def csv_head(line: str, where: str) -> list[str]:
    """The names of the columns; FileError, with `where`, for one that is given twice."""
    head = csv_cells(line, where)
    if twice := next((name for k, name in enumerate(head) if name in head[:k]), None):
        raise FileError(where, twice, "each column once")
    return head


def read_json(path: str | os.PathLike[str], wanted: str, most_bytes: int = MOST_TEXT, *, own: bool = False) -> Any:
    """The content of a JSON file; FileError that says what is `wanted` when it is not JSON (see `parse_json`)."""
    text = read_text(path, most_bytes)
    try:
        return parse_json(text, own=own)
    except ValueError as error:
        raise FileContentError("file", str(path), f"{wanted}, as JSON text ({error})") from None


def parse_json(text: str | bytes, *, own: bool = False) -> Any:
    """The content of JSON text; ValueError when it is not JSON.

    Allowed: what RFC 8259 does, so neither NaN nor infinity; integers of 64 bits; text without lone surrogates.
    own: also NaN, infinity and longer integers, which Python writes.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        elif not text.isascii():
            text.encode()
        data = json.loads(text) if own else _JSON.decode(text)
        if "\\u" in text:  # an escape may be half of a letter
            json.dumps(data, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeError:
        raise ValueError("it is not UTF-8 text") from None
    return data


def _whole(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (value := int(text)) < 2**63:
        raise ValueError("an integer does not fit into 64 bits")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


_JSON = json.JSONDecoder(parse_int=_whole, parse_float=_finite, parse_constant=_no_number)
_BETWEEN = re.compile(r"[\s,]*")


def json_items(data: bytes, at: int) -> Iterator[Any]:
    """The items of a JSON list in `data`, which begins behind its bracket at `at`, one after the other.

    Raises ValueError as `parse_json` does, for a list without an end, and for an item of more than MOST_ITEM.
    """
    text, begin, more = "", 0, 2**16
    while True:
        found = _BETWEEN.match(text, begin)
        begin = found.end() if found else begin
        if text[begin : begin + 1] == "]":
            return
        try:
            item, begin = _JSON.raw_decode(text, begin)
            more = 2**16
        except json.JSONDecodeError:
            if at >= len(data) or more > MOST_ITEM:
                raise
            text, begin = text[begin:] + data[at : at + more].decode("utf-8", "replace"), 0
            at, more = at + more, 2 * more
            continue
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        yield item


def load_arrays(
    path: str | os.PathLike[str],
    known: Container[str] | None,
    wanted: str = "an .npz file",
    most_members: int = _MOST_MEMBERS,
) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file with a known name (None: all), without objects; others are not unpacked.

    The sizes that the file states are checked before anything is unpacked. most_members: arrays that it may have.

    Raises:
        OrbitccError: the file cannot be read, is damaged or has too large arrays; the message names what is `wanted`.
    """
    try:
        with open_regular(path, MOST_TABLE) as file:
            check_zip(file, _MOST_INDEX * most_members // _MOST_MEMBERS)
            with zipfile.ZipFile(file) as packed:
                if len(packed.infolist()) > most_members:
                    raise ValueError(f"it has more than {most_members:,} arrays")
                named = ((member.filename.removesuffix(".npy"), member) for member in packed.infolist())
                members = {name: member for name, member in named if known is None or name in known}
                total = sum(member.file_size for member in members.values())
                if total > MOST_ARRAYS:
                    raise ValueError(f"its arrays have {total / MB:,.0f} MB; at most {MOST_ARRAYS / MB:,g} MB are read")
                return {name: zipped_array(packed, member) for name, member in members.items()}
    except FileError:
        raise
    except OSError as error:
        raise FileError("file", str(path), f"a readable file ({error.strerror or error})") from None
    except DAMAGED_ARRAYS as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise FileError("file", str(path), f"{wanted} ({reason})") from None


def check_zip(file: IO[bytes], most_index: int = _MOST_INDEX) -> None:
    """ValueError unless the list of the files in a zip file is there and short: zipfile reads all of it at once."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - 65_557))  # the end record, and the longest comment behind it
    end = file.read()
    at = end.rfind(b"PK\5\6")
    if at < 0 or len(end) < at + 22:
        raise ValueError("it is no zip file")
    if struct.unpack_from("<I", end, at + 12)[0] > most_index or end[max(at - 20, 0) : at].startswith(b"PK\6\7"):
        raise ValueError("the list of its arrays is too long")
    file.seek(0)


def zipped_array(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """One array of an .npz file; ValueError where its header promises other than the file holds."""
    import numpy as np

    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("it is packed in a way that NumPy does not use")
    with packed.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError("an array of another version of NumPy's format")
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, in_columns, kind = header(file)
        if kind.hasobject:
            raise ValueError("an array of objects")
        count = math.prod(shape)
        size = count * kind.itemsize
        if count < 0 or kind.itemsize == 0 or size > member.file_size:
            raise ValueError("an array is larger than its file")
        data, done = memoryview(bytearray(size)), 0
        while part := file.read(min(size - done, MB)):  # in parts, so that the array is in memory once
            data[done : (done := done + len(part))] = part
        if done < size or file.read(1):
            raise ValueError("an array is not as large as its header says")
    return np.frombuffer(data, kind, count).reshape(shape, order="F" if in_columns else "C")


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file; FileError, with the line, when it is not TOML."""
    text = read_text(path)
    try:
        return parse_toml(text)
    except ValueError as error:
        raise FileContentError("file", str(path), f"TOML text ({error})") from None


MOST_LEVELS = 100
"""Parts of a dotted key, and levels of arrays and tables."""
_LONG_KEY = re.compile(rf"""(?<![\w"'.-])[\w"'-]++(?:[ \t]*+\.[ \t]*+[\w"'-]++){{{MOST_LEVELS}}}""")


def parse_toml(text: str) -> dict[str, Any]:
    """The content of TOML text; ValueError when it is not TOML, or so large that reading it would take long.

    Allowed: 4 MB, keys of 100 parts, 100 levels of arrays and tables, integers of 64 bits (TOML 1.0).
    """
    if len(text) > MOST_TEXT:
        raise ValueError(f"{len(text) / MB:.1f} MB; at most {MOST_TEXT / MB:g} MB are allowed")
    if _LONG_KEY.search(text):
        raise ValueError(f"a key of more than {MOST_LEVELS} parts")
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ValueError("arrays or tables are nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's own limit of 4,300 digits
        raise ValueError("an integer has thousands of digits") from None
    level: list[Any] = [data]
    for _ in range(MOST_LEVELS):
        values = [v for item in level for v in (item.values() if isinstance(item, dict) else item)]
        if any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
            raise ValueError("an integer does not fit into 64 bits")
        level = [v for v in values if isinstance(v, dict | list)]
        if not level:
            return data
    raise ValueError(f"arrays or tables are nested deeper than {MOST_LEVELS} levels")


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
