"""Captures at the sender (`orbitcc run --pcap`, tcpdump): the segments of the one TCP flow that carries the data.

pcap and pcapng; IPv4 and IPv6 on the link types of LINKS, with VLANs. Offloading must be off (`ethtool -K DEV tso
off`): a capture of larger segments than the network carries shows fewer packets than it lost. Own reader: scapy and
dpkt need two to five times as long for the records alone, python-pcapng 25 times, and none gives arrays.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import FileContentError
from orbitcc.envs.fitting.recordings import Packets

_MAGIC = {b"\xd4\xc3\xb2\xa1": ("<", 1e-6), b"\xa1\xb2\xc3\xd4": (">", 1e-6),
          b"\x4d\x3c\xb2\xa1": ("<", 1e-9), b"\xa1\xb2\x3c\x4d": (">", 1e-9)}  # fmt: skip
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_FOREIGN = {b"snoop\0\0\0": "snoop", b"GMBU": "Network Monitor", b"RTSS": "Network Monitor", b"TRSNIFF": "Sniffer",
            b"\x34\xcd\xb2\xa1": "modified pcap", b"\xa1\xb2\xcd\x34": "modified pcap"}  # fmt: skip
_ETHERNET, _SLL, _SLL2 = 1, 113, 276
_RAW, _LOOPBACK = (12, 14, 101, 228, 229), (0, 108)
LINKS = "Ethernet, `tcpdump -i any` (SLL, SLL2), raw IP and loopback"
_IPV4, _IPV6, _VLAN = 0x0800, 0x86DD, (0x8100, 0x88A8, 0x9100)
_MOST_TAGS, _MOST_EXTENSIONS = 3, 4
_EXTENSIONS = (0, 43, 60)
"""Hop-by-hop options, routing, destination options."""
ETHERNET_BYTES = 14
FEWEST, FEWEST_S = 500, 5.0
"""Packets and seconds that a capture needs."""
MOST_PACKETS = 5_000_000
"""Packets of a capture, or blocks of pcapng; 600 MB of packets with 100 bytes each have as many."""
MAIN_SHARE = 0.95
"""The flow must carry as much of the data."""
SPURIOUS = 0.8
"""A segment acknowledged within this share of the smallest RTT after it was sent again had not been lost."""
_SACK = 5

Ints = NDArray[np.int64]


def is_capture(data: bytes) -> bool:
    """Whether this is a capture, also one that `read` refuses."""
    return data[:4] in _MAGIC or data[:4] == _PCAPNG or any(data.startswith(magic) for magic in _FOREIGN)


def read(data: bytes, file: str) -> Packets:
    """The data flow of a capture; FileContentError when there is none, more than one, or too little of it."""
    if other := next((name for magic, name in _FOREIGN.items() if data.startswith(magic)), None):
        command = f"editcap -F pcap {file} out.pcap"
        raise FileContentError("file", file, f"a capture as pcap or pcapng, not {other}; `{command}` converts it")
    records = _records(data, file) if data[:4] in _MAGIC else _blocks(data, file)
    raw = np.frombuffer(data + bytes(64), np.uint8)  # headers may be read beyond the end, and are dropped then
    t_s, end = records.t_s, records.at + records.kept
    ip, place, known = _network(raw, records, file)
    tcp, size, ends, fits = _transport(raw, ip, end, records.length - (ip - records.at))
    rows = np.flatnonzero(known & fits)
    if not rows.size:
        cut = bool(known.any() and (records.kept < records.length)[known].all() and records.kept[known].max() < 60)
        why = "the kept bytes end before the headers (`tcpdump -s 128` keeps them)" if cut else "it has none"
        raise FileContentError("file", file, f"a capture of one TCP flow; {why}")
    t_s, end, ip, place, tcp, size = (values[rows] for values in (t_s, end, ip, place, tcp, size))
    ends = [values[rows] for values in ends]
    payload = size - (tcp - ip) - 4 * (raw[tcp + 12] >> 4).astype(np.int64)
    forth, back = (_once(which, place) for which in _main_flow(ends, payload, file))
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
        words = raw[tcp[row] + 12] >> 4
        if words > 8 or (words > 5 and raw[tcp[row] + 22] != 8):  # more than the timestamps, or other options
            segments.selectively(t_s[row], data, int(tcp[row]), int(end[row]), int(ack[k]), int(numbers[k]))
    found = segments.packets(file)
    if found.once.sum() < FEWEST / 10:
        raise FileContentError("file", file, "a capture at the sender, with the acknowledgements of most packets")
    return found


@dataclass(frozen=True)
class _Records:
    """The packets of a capture, [N]: times, where the kept bytes begin, how many, of how many, link type, interface."""

    t_s: Any
    at: Ints
    kept: Ints
    length: Ints
    link: Ints
    interface: Ints

    @classmethod
    def of(cls, rows: list[tuple[Any, ...]]) -> _Records:
        columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0)] * 6
        return cls(columns[0].astype(np.float64), *(column.astype(np.int64) for column in columns[1:]))


def _records(data: bytes, file: str) -> _Records:
    """Those of pcap; a record that is cut off ends the file."""
    order, tick_s = _MAGIC[data[:4]]
    if len(data) < 24:
        raise FileContentError("file", file, "a whole capture; it is cut off in its header")
    length_of, places, at = struct.Struct(order + "I").unpack_from, [], 24
    while at + 16 <= len(data):
        after = at + 16 + length_of(data, at + 8)[0]
        if after > len(data):
            break
        places.append(at)
        if len(places) > MOST_PACKETS:
            raise _too_many(file)
        at = after
    heads = np.array(places, np.int64)
    seconds, ticks, kept, length = (_u32(np.frombuffer(data, np.uint8), heads + k, order) for k in (0, 4, 8, 12))
    link = np.full_like(heads, struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF)
    return _Records(seconds + ticks * tick_s, heads + 16, kept, length, link, np.zeros_like(heads))


def _too_many(file: str) -> FileContentError:
    wanted = f"a capture of at most {MOST_PACKETS:,} packets or blocks"
    return FileContentError("file", file, f"{wanted}; `editcap -c {MOST_PACKETS} {file} out.pcap` cuts it")


def _blocks(data: bytes, file: str) -> _Records:
    """Those of pcapng (draft-ietf-opsawg-pcapng): enhanced packets of all interfaces; a cut block is the end."""
    found: list[tuple[Any, ...]] = []
    interfaces: list[tuple[int, float, int]] = []  # of this section: link type, tick, offset in s
    at, order, seen, count = 0, "<", 0, 0
    while at + 12 <= len(data):
        if (count := count + 1) > MOST_PACKETS:
            raise _too_many(file)
        if data[at : at + 4] == _PCAPNG:
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            seen, interfaces = seen + len(interfaces), []
        kind, size = struct.unpack_from(order + "II", data, at)
        if size < 12 or size % 4 or at + size > len(data):
            break
        if kind == 1 and size >= 20:
            link = struct.unpack_from(order + "H", data, at + 8)[0]
            interfaces.append((link, *_clock(data[at + 16 : at + size - 4], order)))
        elif kind == 6 and size >= 32:
            which, high, low, kept, length = struct.unpack_from(order + "5I", data, at + 8)
            if which >= len(interfaces) or kept > size - 32:
                break
            link, tick_s, offset_s = interfaces[which]
            found.append((offset_s + (high << 32 | low) * tick_s, at + 28, kept, length, link, seen + which))
        elif kind in (2, 3):
            command = f"editcap -F pcap {file} out.pcap"
            raise FileContentError("file", file, f"pcapng of enhanced packets (type 6); `{command}` converts it")
        at += size
    return _Records.of(found)


def _clock(options: bytes, order: str) -> tuple[float, int]:
    """The tick (if_tsresol) in s, 1 us by default, and the offset (if_tsoffset) in s of an interface."""
    at, tick_s, offset_s = 0, 1e-6, 0
    while at + 4 <= len(options):
        code, size = struct.unpack_from(order + "HH", options, at)
        value = options[at + 4 : at + 4 + size]
        if code == 9 and size == 1 and len(value) == 1:
            tick_s = 2.0 ** -(value[0] & 127) if value[0] & 128 else 10.0 ** -(value[0] & 127)
        elif code == 14 and size == 8 and len(value) == 8:
            offset_s = struct.unpack(order + "q", value)[0]
        at += 4 + size + -size % 4
    return tick_s, offset_s


def _network(raw: Any, records: _Records, file: str) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Where the IP header of each record is; a number for the place where it was seen; whether it is one of IP."""
    at, link = records.at, records.link
    ip, proto, place = at.copy(), np.zeros_like(at), records.interface << 40
    raw_ip = np.isin(link, (*_RAW, *_LOOPBACK))
    ip[np.isin(link, _LOOPBACK)] += 4
    for kind, head, where in ((_ETHERNET, 14, 12), (_SLL, 16, 14), (_SLL2, 20, 0)):
        of_kind = (link == kind) & (records.kept > head)
        ip[of_kind] += head
        proto[of_kind] = _u16(raw, at[of_kind] + where)
        if kind == _SLL:  # whether it came or went; on the loopback interface each packet does both
            place[of_kind] += _u16(raw, at[of_kind])
        if kind == _SLL2:
            place[of_kind] += _u32(raw, at[of_kind] + 4, ">") << 8 | raw[at[of_kind] + 10]
    if at.size and not (raw_ip | np.isin(link, (_ETHERNET, _SLL, _SLL2))).any():
        raise FileContentError("file", file, f"a capture of {LINKS}; it has link type {link[0]} (see tcpdump.org)")
    for _ in range(_MOST_TAGS):
        tagged = np.isin(proto, _VLAN) & (ip + 4 <= at + records.kept)
        proto[tagged] = _u16(raw, ip[tagged] + 2)
        ip[tagged] += 4
    within = ip < at + records.kept
    version = np.where(within, raw[np.where(within, ip, 0)] >> 4, 0)
    named = np.where(raw_ip, np.isin(version, (4, 6)), np.where(version == 6, proto == _IPV6, proto == _IPV4))
    return ip, place, within & named & np.isin(version, (4, 6))


def _transport(raw: Any, ip: Ints, end: Ints, length: Ints) -> tuple[Ints, Ints, list[Ints], NDArray[np.bool_]]:
    """Where the TCP header is, the bytes of the IP packet, its ends (addresses, ports), and whether it is one of TCP.

    length: bytes of the packet on the wire from the IP header on, which count where the header says 0 (offloading).
    """
    safe = np.where(ip + 40 <= end, ip, 0)
    six = raw[safe] >> 4 == 6
    after = np.where(six, safe + 40, safe + 4 * (raw[safe] & 15).astype(np.int64))
    proto = np.where(six, raw[safe + 6], raw[safe + 9]).astype(np.int64)
    for _ in range(_MOST_EXTENSIONS):
        more = six & np.isin(proto, _EXTENSIONS) & (after + 8 <= end)
        proto[more] = raw[after[more]]
        after[more] += 8 * (raw[after[more] + 1].astype(np.int64) + 1)
    fits = (safe == ip) & (proto == 6) & (after + 20 <= end)
    after = np.where(fits, after, 0)
    size = np.where(six, 40 + _u16(raw, safe + 4), _u16(raw, safe + 2))
    size = np.where(size <= 40 * six, length, size)
    source, target = (_address(raw, safe, six, first) for first in (0, 1))
    return after, size, [source, target, _u16(raw, after), _u16(raw, after + 2)], fits


def _address(raw: Any, ip: Ints, six: Any, which: int) -> Ints:
    """The source (0) or the target (1) as one number: of IPv6, the words folded."""
    folded = np.zeros_like(ip)
    for k in range(4):
        folded = folded * 0x9E3779B97F4A7C1 + _u32(raw, ip + 8 + 16 * which + 4 * k, ">")
    return np.where(six, folded, _u32(raw, ip + 12 + 4 * which, ">"))


def _once(which: NDArray[np.bool_], place: Ints) -> NDArray[np.bool_]:
    """Those of these packets that were seen in the place where most of them were: `-i any` sees some more than once."""
    places, counts = np.unique(place[which], return_counts=True)
    return which & (place == places[counts.argmax()]) if places.size else which


def _u16(raw: Any, at: Ints) -> Ints:
    return _unsigned(raw, at, ">u2")


def _u32(raw: Any, at: Ints, order: str) -> Ints:
    return _unsigned(raw, at, order + "u4")


def _unsigned(raw: Any, at: Ints, kind: str) -> Ints:
    """The numbers that begin at these bytes."""
    everywhere = np.ndarray((raw.size - int(kind[-1]) + 1,), kind, raw, strides=(1,))
    return everywhere[at].astype(np.int64)


def _unwrapped(numbers: Ints, origin: int) -> Ints:
    """32-bit sequence numbers as distances from `origin`, beyond 4 GB."""
    steps = np.diff(numbers, prepend=origin)
    return np.cumsum((steps + 2**31) % 2**32 - 2**31)


def _main_flow(ends: list[Ints], payload: Ints, file: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which packets are those of the flow that carries the data, and which come back to its sender."""
    source, target, out, into = ends
    flow = np.zeros_like(source)
    for name in ends:
        names, of = np.unique(name, return_inverse=True)
        _, first, flow = np.unique(flow * names.size + of, return_index=True, return_inverse=True)
    bytes_of = np.bincount(flow, weights=np.maximum(payload, 0))
    main = int(bytes_of.argmax()) if bytes_of.size else -1
    if main < 0 or bytes_of[main] == 0:
        raise FileContentError("file", file, "a capture of one TCP flow; it has none with data")
    if bytes_of[main] < MAIN_SHARE * bytes_of.sum():
        flows = int((bytes_of > 0.01 * bytes_of.sum()).sum())
        raise FileContentError("file", file, f"a capture of one TCP flow; {flows} flows carry the data (tshark -Y)")
    a, b, p, q = (name[first[main]] for name in ends)
    back = (source == b) & (target == a) & (out == q) & (into == p)
    return flow == main, back


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

    def selectively(self, t_s: float, data: bytes, tcp: int, end: int, ack: int, number: int) -> None:
        """The SACK blocks (RFC 2018) of one acknowledgement; `number` is its 32-bit number, `ack` its distance.

        end: of the kept bytes.
        """
        at, end = tcp + 20, min(end, tcp + 4 * (data[tcp + 12] >> 4))
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
