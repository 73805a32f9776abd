"""CRC-32C (RFC 3720, section 12.1), which TensorFlow's files have as checksums, for megabytes at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

POLYNOMIAL = 0x82F63B78
"""Castagnoli's, with the lowest power at the highest bit (RFC 3720, section 12.1)."""
MASK = 0xA282EAD8
"""kMaskDelta of tensorflow/core/lib/hash/crc32c.h."""
PIECE = 1 << 16
"""Bytes that are computed at once; a power of two."""


def masked_crc32c(data: bytes | memoryview) -> int:
    """The CRC-32C of the bytes, masked as TensorFlow stores it."""
    crc: Any = np.uint32(0xFFFFFFFF)
    for at in range(0, len(data), PIECE):
        part = np.frombuffer(data[at : at + PIECE], np.uint8)
        length = 1 << (len(part) - 1).bit_length()
        states = _zeros(0)[0][np.concatenate([np.zeros(length - len(part), np.uint8), part])]  # zeros first change none
        for k in range(length.bit_length() - 1):  # two neighbours, each of 2^k bytes, become one
            states = _after(_zeros(k), states[::2]) ^ states[1::2]
        for k in range(len(part).bit_length()):
            crc = _after(_zeros(k), crc) if len(part) >> k & 1 else crc
        crc ^= states[0]
    plain = int(~crc)
    return ((plain >> 15 | plain << 17) + MASK) & 0xFFFFFFFF


@cache
def _zeros(k: int) -> Words:
    """By byte of the state and its value, [4, 256]: the state after 2^k bytes of zero."""
    if k:
        return _after(_zeros(k - 1), _zeros(k - 1))
    table: Any = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = table >> 1 ^ np.uint32(POLYNOMIAL) * (table & 1)
    rest = [np.arange(256, dtype=np.uint32) << 8 * byte for byte in range(3)]
    return np.stack([table, *rest])


def _after(tables: Words, state: Any) -> Any:
    """The state after the zeros that the tables are made for."""
    first, second = tables[0][state & 255] ^ tables[1][state >> 8 & 255], tables[2][state >> 16 & 255]
    return first ^ second ^ tables[3][state >> 24]
