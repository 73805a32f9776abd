"""Reads the variables of a TensorFlow 1 checkpoint (PREFIX.index, PREFIX.data-00000-of-00001) without TensorFlow.

The index is a LevelDB table from the name of a variable to a BundleEntryProto, with the header under the empty name;
the data file holds the raw values (tensorflow/core/util/tensor_bundle, tensorflow/core/lib/io/format.cc). Each block of
the index and each variable has a checksum (tensorflow/core/lib/hash/crc32c.h).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.agents.importing.crc32c import masked_crc32c
from orbitcc.common.errors import FileError, NoSuchFileError
from orbitcc.common.files import MB, MOST_TABLE, read_bytes

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
MOST_INDEX, MOST_KEY, MOST_VARINT = 1 * MB, 1_000, 10
"""Bytes of the index, of the name of a variable, and of a number of seven bits per byte."""
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8"}
"""DT_FLOAT, DT_DOUBLE, DT_INT32, DT_INT64. Variables of other types are left out."""

WANTED = (
    "a TensorFlow 1 checkpoint: PREFIX, with PREFIX.index and PREFIX.data-00000-of-00001, their folder, or a SavedModel"
)


def read_bundle(path: str | Path) -> dict[str, NDArray[np.generic]]:
    """Name -> value of every variable of numbers. Raises FileError for missing, damaged and other files."""
    try:
        index, data = map(read_bytes, files_of(path), (MOST_INDEX, MOST_TABLE))
        return dict(_variables(index, memoryview(data)))
    except NoSuchFileError as error:
        raise FileError("PATH", str(path), f"{WANTED} (No such file: {error.value})") from None
    except FileError as error:
        raise FileError("PATH", str(path), f"{WANTED} ({error.allowed})") from None
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, MemoryError, struct.error) as error:
        raise FileError("PATH", str(path), f"{WANTED} (damaged, or of another kind: {error})") from None


def files_of(path: str | Path) -> tuple[Path, Path]:
    """The two files of a checkpoint."""
    prefix = _prefix(Path(path))
    return Path(f"{prefix}.index"), Path(f"{prefix}.data-00000-of-00001")


def _prefix(path: Path) -> Path:
    if path.is_dir():
        found = sorted(path.glob("*.index")) or sorted(path.glob("variables/*.index"))  # a SavedModel has the latter
        if len(found) != 1:
            raise FileError("PATH", str(path), f"{WANTED} ({len(found)} files *.index in this folder)")
        path = found[0]
    return path.with_suffix("") if path.suffix == ".index" else path


def _variables(index: bytes, data: memoryview) -> Iterator[tuple[str, NDArray[np.generic]]]:
    *_, magic = struct.unpack("<Q", index[-8:])
    if magic != MAGIC:
        raise ValueError("no table of LevelDB")
    footer = index[-FOOTER:-8]
    *meta, at = _handle(footer, 0)  # the meta index, which bundles leave empty
    *table, at = _handle(footer, at)
    if any(footer[at:]) or any(_block(index, *meta)):
        raise ValueError("a footer that TensorFlow does not write")
    end = taken = 0
    before: bytes | None = None
    for _, handle in _block(index, *table):
        offset, size, _ = _handle(handle, 0)
        if offset < end:  # each is read once
            raise ValueError("blocks that overlap")
        end = offset + size
        for name, value in _block(index, offset, size):
            if before is not None and name <= before:
                raise ValueError("names out of order")
            before, entry = name, _message(value)
            if not name:  # the header
                if entry.get(1, [1]) != [1] or entry.get(2, [0]) != [0]:
                    raise ValueError("several data files, or big-endian numbers")
                continue
            dtype = DTYPES.get(entry.get(1, [0])[0])
            if dtype is None:
                continue
            dims = [_message(dim).get(1, [0])[0] for dim in _message(entry.get(2, [b""])[0]).get(2, [])]
            start, size = entry.get(4, [0])[0], entry.get(5, [0])[0]
            if start + size > len(data):
                raise ValueError(f"the data file ends before {name.decode()}")
            taken += size
            if taken > len(data):  # each byte has one checksum
                raise ValueError("variables that overlap")
            if [masked_crc32c(data[start : start + size])] != [int.from_bytes(x, "little") for x in entry.get(6, [])]:
                raise ValueError(f"the checksum of the variable {name.decode()} does not fit")
            yield name.decode(), np.frombuffer(data[start : start + size], dtype).reshape(dims)


def _handle(data: bytes, at: int) -> tuple[int, int, int]:
    """Offset and size of a block, and the position after them."""
    offset, at = _varint(data, at)
    return offset, *_varint(data, at)


def _block(table: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block; each key shares a prefix with the one before."""
    block = table[offset : offset + size]
    kind, checksum = struct.unpack_from("<BI", table, offset + size)
    if masked_crc32c(table[offset : offset + size + 1]) != checksum:
        raise ValueError(f"the checksum of the block at byte {offset} of the index does not fit")
    if kind != 0:
        raise ValueError("compressed")
    restarts = struct.unpack("<I", block[-4:])[0]
    end, at, key = size - 4 * (restarts + 1), 0, b""
    while at < end:
        shared, at = _varint(block, at)
        own, at = _varint(block, at)
        length, at = _varint(block, at)
        if shared + own > MOST_KEY:
            raise ValueError(f"a name of more than {MOST_KEY:,} bytes")
        key = key[:shared] + block[at : at + own]
        at += own + length
        yield key, block[at - length : at]


def _message(data: bytes) -> dict[int, list[Any]]:
    """Number of a field -> its values, of a protocol buffer."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, and the position after it."""
    value = 0
    for k in range(MOST_VARINT):
        if k and not data[at + k]:
            raise ValueError("a number with an idle byte")
        value |= (data[at + k] & 0x7F) << 7 * k
        if data[at + k] < 0x80:
            return value, at + k + 1
    raise ValueError(f"a number of more than {MOST_VARINT} bytes")
