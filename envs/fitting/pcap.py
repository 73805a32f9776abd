"""Captures at the sender (`orbitcc run --pcap`, tcpdump): the segments of the one TCP flow that carries the data.

Ethernet and raw IPv4, timestamps in microseconds or nanoseconds. Offloading must be off (`ethtool -K DEV tso off`): a
capture of larger segments than the network carries shows fewer packets than it lost.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import FileContentError
from orbitcc.envs.fitting.recordings import Packets

_MAGIC = {b"\xd4\xc3\xb2\xa1": ("<", 1e-6), b"\xa1\xb2\xc3\xd4": (">", 1e-6),
          b"\x4d\x3c\xb2\xa1": ("<", 1e-9), b"\xa1\xb2\x3c\x4d": (">", 1e-9)}  # fmt: skip
_HEAD_BYTES = {1: 14, 101: 0, 228: 0}
"""Link types: Ethernet, raw IP, raw IPv4."""
ETHERNET_BYTES = 14
FEWEST, FEWEST_S = 500, 5.0
"""Packets and seconds that a capture needs."""
MAIN_SHARE = 0.95
"""The flow must carry as much of the data."""
SPURIOUS = 0.8
"""A segment acknowledged within this share of the smallest RTT after it was sent again had not been lost."""
_SACK = 5

Ints = NDArray[np.int64]


def is_pcap(data: bytes) -> bool:
    return data[:4] in _MAGIC


def read(data: bytes, file: str) -> Packets:
    """The data flow of a capture; FileContentError when there is none, more than one, or too little of it."""
    order, tick_s = _MAGIC[data[:4]]
    if len(data) < 24 or (kind := struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF) not in _HEAD_BYTES:
        raise FileContentError("file", file, "a capture of Ethernet or raw IPv4 packets")
    raw = np.frombuffer(data, np.uint8)
    at = _records(data, order, _HEAD_BYTES[kind] + 40)
    if not at.size:
        raise FileContentError("file", file, "a capture of one TCP flow; it has none")
    word = np.frombuffer(data[: len(data) // 4 * 4], np.uint8)  # kept as bytes: records are not aligned
    t_s = _u32(word, at, order) + _u32(word, at + 4, order) * tick_s
    ip = at + 16 + _HEAD_BYTES[kind]
    tcp4 = (raw[ip] >> 4 == 4) & (raw[ip + 9] == 6)
    t_s, ip = t_s[tcp4], ip[tcp4]
    tcp = ip + 4 * (raw[ip] & 15).astype(np.int64)
    fits = tcp + 20 <= len(data)
    t_s, ip, tcp = t_s[fits], ip[fits], tcp[fits]
    size = _u16(raw, ip + 2)
    payload = size - (tcp - ip) - 4 * (raw[tcp + 12] >> 4).astype(np.int64)
    ends = [_u32(raw, ip + 12, ">"), _u32(raw, ip + 16, ">"), _u16(raw, tcp), _u16(raw, tcp + 2)]
    forth, back = _main_flow(ends, payload, file)
    order_of = np.argsort(t_s, kind="stable")
    sent = order_of[forth[order_of] & (payload[order_of] > 0)]
    acks = order_of[back[order_of] & ((raw[tcp[order_of] + 13] & 0x16) == 0x10)]
    if sent.size < FEWEST or not acks.size or t_s[sent[-1]] - t_s[sent[0]] < FEWEST_S:
        raise FileContentError(
            "file", file, f"a capture of {FEWEST} data packets and {FEWEST_S:g} s with their acknowledgements"
        )
    seqs, numbers = _u32(raw, tcp[sent] + 4, ">"), _u32(raw, tcp[acks] + 8, ">")
    seq, ack = _unwrapped(seqs, seqs[0]), _unwrapped(numbers, seqs[0])
    segments = _Segments(t_s[sent], seq, payload[sent], size[sent] + ETHERNET_BYTES)
    segments.acknowledge(t_s[acks], ack)
    for k, row in enumerate(acks.tolist()):
        if raw[tcp[row] + 12] >> 4 > 8:  # more than the timestamps
            segments.selectively(t_s[row], data, int(tcp[row]), int(ack[k]), int(numbers[k]))
    found = segments.packets(file)
    if found.once.sum() < FEWEST / 10:
        raise FileContentError("file", file, "a capture at the sender, with the acknowledgements of most packets")
    return found


def _records(data: bytes, order: str, least: int) -> Ints:
    """Where the records begin whose kept bytes include the headers; a record that is cut off ends the file."""
    kept_of = struct.Struct(order + "I").unpack_from
    found, at = [], 24
    while at + 16 <= len(data):
        kept = kept_of(data, at + 8)[0]
        if at + 16 + kept > len(data):
            break
        if kept >= least:
            found.append(at)
        at += 16 + kept
    return np.array(found, np.int64)


def _u16(raw: Any, at: Ints) -> Ints:
    return raw[at].astype(np.int64) << 8 | raw[at + 1]


def _u32(raw: Any, at: Ints, order: str) -> Ints:
    four = [raw[at + k].astype(np.int64) for k in range(4)]
    a, b, c, d = four if order == ">" else four[::-1]
    return a << 24 | b << 16 | c << 8 | d


def _unwrapped(numbers: Ints, origin: int) -> Ints:
    """32-bit sequence numbers as distances from `origin`, beyond 4 GB."""
    steps = np.diff(numbers, prepend=origin)
    return np.cumsum((steps + 2**31) % 2**32 - 2**31)


def _main_flow(ends: list[Ints], payload: Ints, file: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which packets are those of the flow that carries the data, and which come back to its sender."""
    source, target, out, into = ends
    names, of = np.unique(np.stack((source, target, out, into)), axis=1, return_inverse=True)
    bytes_of = np.bincount(of.ravel(), weights=np.maximum(payload, 0))
    main = int(bytes_of.argmax()) if bytes_of.size else -1
    if main < 0 or bytes_of[main] == 0:
        raise FileContentError("file", file, "a capture of one TCP flow; it has none with data")
    if bytes_of[main] < MAIN_SHARE * bytes_of.sum():
        flows = int((bytes_of > 0.01 * bytes_of.sum()).sum())
        raise FileContentError("file", file, f"a capture of one TCP flow; {flows} flows carry the data (tshark -Y)")
    a, b, p, q = names[:, main]
    back = (source == b) & (target == a) & (out == q) & (into == p)
    return of.ravel() == main, back


class _Segments:
    """First transmissions in order, what was sent again, and when each was acknowledged."""

    def __init__(self, t_s: Any, seq: Ints, payload: Ints, wire: Ints) -> None:
        end = seq + payload
        highest = np.maximum.accumulate(end)
        new = end > np.append(-1, highest[:-1])
        self.sent_s, self.start, self.end, self.wire = t_s[new], seq[new], end[new], wire[new]
        self.acked_s = np.full(self.end.size, np.inf)
        self.again_s = np.full(self.end.size, np.nan)
        first, past = self._covered(seq[~new], end[~new])
        for a, b, t in zip(first.tolist(), past.tolist(), t_s[~new].tolist(), strict=True):
            np.fmin(self.again_s[a:b], t, out=self.again_s[a:b])  # the first time
        self._reached: dict[int, int] = {}
        """Where each SACK block begins -> up to where it is known."""

    def _covered(self, seq: Ints, end: Ints) -> tuple[Ints, Ints]:
        return np.searchsorted(self.start, seq), np.searchsorted(self.end, end, side="right")

    def acknowledge(self, t_s: Any, ack: Ints) -> None:
        rising = np.maximum.accumulate(ack)
        k = np.searchsorted(rising, self.end)
        within = k < t_s.size
        self.acked_s[within] = t_s[k[within]]

    def selectively(self, t_s: float, data: bytes, tcp: int, ack: int, number: int) -> None:
        """The SACK blocks (RFC 2018) of one acknowledgement; `number` is its 32-bit number, `ack` its distance."""
        at, end = tcp + 20, tcp + 4 * (data[tcp + 12] >> 4)
        end = min(end, len(data))
        while at < end - 1 and data[at]:
            length = 1 if data[at] == 1 else max(data[at + 1], 2)
            if at + length > end:
                break
            if data[at] == _SACK:
                edges = struct.unpack_from(f">{(length - 2) // 4}I", data, at + 2)
                for low, high in zip(edges[::2], edges[1::2], strict=True):
                    first, past = (ack + (edge - number + 2**31) % 2**32 - 2**31 for edge in (low, high))
                    known = self._reached.get(first, first)
                    if past > max(known, ack):  # otherwise known, or a duplicate (RFC 2883)
                        self._reached[first] = past
                        a, b = np.searchsorted(self.start, known), np.searchsorted(self.end, past, side="right")
                        np.minimum(self.acked_s[a:b], t_s, out=self.acked_s[a:b])
            at += length

    def packets(self, file: str) -> Packets:
        acked = np.where(np.isinf(self.acked_s), np.nan, self.acked_s)
        resent = ~np.isnan(self.again_s)
        least = float(np.nanmin((acked - self.sent_s)[~resent], initial=np.inf))
        lost = resent & ~(acked - self.again_s < SPURIOUS * least)
        origin = self.sent_s[0]
        payload = float((self.end - self.start)[~np.isnan(acked)].sum())
        return Packets(
            file,
            self.sent_s - origin,
            self.again_s - origin,
            acked - origin,
            self.wire.astype(np.float64),
            lost,
            payload,
        )
