"""Recognises the kind of a file by its content, and gathers the files of one path."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from orbitcc.common.errors import FileContentError, OrbitccError, quoted
from orbitcc.common.files import MB, MOST_LINES, MOST_RECORDING, parse_json, read_unpacked
from orbitcc.envs.description.model import MAX_TIME_S
from orbitcc.envs.fitting import iperf3, irtt, pcap, ping, replay, tables
from orbitcc.envs.fitting.recordings import (
    AnyRecording,
    Datagrams,
    Delays,
    Gathered,
    Intervals,
    Opportunities,
    Packets,
    Probes,
)

MOST_FIGURE = 1e15
"""Times, bytes and numbers of packets in a recording."""
MOST_LOG = 64 * MB
"""A log as text; an hour of LENS with a ping every 10 ms has 33 MB."""
_PERHAPS_NONE = ("rtt_ms", "again_s", "acked_s")
"""Fields in which NaN says that there is no value."""
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""At all of these, `splitlines` begins another line."""
KINDS = (
    "output of ping or fping, JSON of iperf3 or irtt, CSV of LENS or WetLinks, a capture (pcap, pcapng), "
    "a file of LeoReplayer or Mahimahi (one whole number in each line)"
)


def read(path: str | os.PathLike[str]) -> AnyRecording:
    """The recording in a file, whatever its name. Raises FileError for a file of no known kind, or one too short."""
    name = os.fspath(path)
    data = read_unpacked(name, MOST_RECORDING)
    if not data.strip():
        raise FileContentError("file", name, f"{KINDS}; it is empty")
    if pcap.is_capture(data):
        found: AnyRecording = pcap.read(data, name)
    elif data.lstrip()[:1] == b"{" and irtt.is_irtt(data):
        found = irtt.read(data, name)
    else:
        found = _text(data, name)
    _check(found)
    return found


def _text(data: bytes, name: str) -> AnyRecording:
    """The recording in a text file, in UTF-8 or as PowerShell writes it; ping may have letters of any code page."""
    wanted = f"a capture, JSON of irtt, or a log of at most {MOST_LOG / MB:g} MB and {MOST_LINES:,} lines"
    too_large = FileContentError("file", name, f"{wanted}; `split -C {MOST_LOG // MB}m {name}` cuts it")
    if len(data) > MOST_LOG:
        raise too_large
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = data.decode("utf-16" if wide else "utf-8-sig", "replace")
    if sum(map(text.count, _LINE_ENDS)) - text.count("\r\n") > MOST_LINES:
        raise too_large
    if not text.strip():
        raise FileContentError("file", name, f"{KINDS}; it is empty")
    if text.lstrip().startswith("{"):
        return iperf3.read(_json(text, name), name)
    if tables.is_table(text):
        return tables.read(text, name)
    if ping.is_ping(text):
        return ping.read(text, name)
    if replay.is_numbers(text):
        return replay.read(text, name)
    if "[ ID] Interval" in text:
        raise FileContentError("file", name, "JSON of iperf3 (`iperf3 --json`), not its text for people")
    lines = [(k, line) for k, line in enumerate(text.splitlines(), start=1) if line.strip()]
    others = [(k, line) for k, line in lines if not line.strip().isdecimal()]
    number, line = others[0] if 2 * len(others) < len(lines) else lines[0]
    raise FileContentError("file", name, f"{KINDS}; {quoted(number, line)}")


def _json(text: str, name: str) -> Any:
    """The content of JSON text, also of `iperf3 --json-stream`."""
    try:
        if (stream := iperf3.from_stream(text)) is not None:
            return stream
        return parse_json(text)
    except ValueError as error:
        why = f"JSON of iperf3 or irtt ({error})"
        if isinstance(error, json.JSONDecodeError):
            if error.msg == "Extra data":
                why = f"JSON of one test; line {error.lineno} begins another (split the file there)"
            elif error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
                why = f"whole JSON of iperf3 or irtt; it is cut off in line {error.lineno} (was the test ended early?"
                why += " `iperf3 --json-stream` writes each interval at once)"
        raise FileContentError("file", name, why) from None


def _check(found: AnyRecording) -> None:
    """FileContentError unless all times and figures are such as a path can have: not negative, and not too large."""
    for field in fields(found):
        values = getattr(found, field.name)
        if isinstance(values, np.ndarray | float):
            known = np.asarray(values)[~np.isnan(values)]
            if known.size < np.size(values) and field.name not in _PERHAPS_NONE:
                raise FileContentError("file", found.file, f"a recording with numbers as {field.name}")
            last_s = known[-1] / (1e3 if field.name == "at_ms" else 1.0) if known.size else 0.0
            if field.name != "lost" and known.size and (known.min() < 0 or known.max() > MOST_FIGURE):
                raise FileContentError("file", found.file, f"a recording with {field.name} in 0 .. {MOST_FIGURE:g}")
            if field.name in ("sent_s", "end_s", "at_ms") and not 0 < last_s <= MAX_TIME_S:
                wanted = f"a recording of more than 0 and at most {MAX_TIME_S:g} s; it has {last_s:g} s"
                raise FileContentError("file", found.file, wanted)


FURTHEST, FURTHEST_MS = 3.0, 50.0
"""Least RTTs of recordings of one path are not apart by more than this factor and so many milliseconds."""


def _check_together(found: Sequence[AnyRecording]) -> None:
    """FileContentError where a recording is given twice, or two are of different paths by their least RTTs."""
    known: dict[bytes, str] = {}
    least: list[tuple[float, str]] = []
    for one in found:
        if isinstance(one, Opportunities | Delays):  # pairs are checked apart, and both directions may have the same
            continue
        values = [np.asarray(getattr(one, field.name)) for field in fields(one) if field.name != "file"]
        content = type(one).__name__.encode() + b"".join(v.tobytes() for v in values if v.dtype.kind in "biuf")
        if content in known:
            wanted = f"another recording than {known[content]}: both have the same content"
            raise FileContentError("file", one.file, wanted)
        known[content] = one.file
        rtts = np.asarray(getattr(one, "rtt_ms", []), dtype=float)
        if np.isfinite(rtts).any():
            least.append((float(np.nanmin(rtts)), one.file))
    if least and (short := min(least))[0] * FURTHEST < (long := max(least))[0] and long[0] > short[0] + FURTHEST_MS:
        wanted = f"a recording of the same path as {short[1]}: the least RTTs are {long[0]:.4g} and {short[0]:.4g} ms"
        raise FileContentError("file", long[1], wanted)


def gather(paths: Sequence[str | os.PathLike[str]]) -> Gathered:
    """The recordings of files that belong to one path.

    Raises FileError as `read` does, and OrbitccError for half of a pair or for more than one pair.
    """
    if not paths:
        raise OrbitccError("TRACE", "(none)", f"one file or more: {KINDS}")
    found = [read(path) for path in paths]
    _check_together(found)
    chances = [r for r in found if isinstance(r, Opportunities)]
    delays = [r for r in found if isinstance(r, Delays)]
    if len(delays) > 1 or len(chances) > 2:
        raise OrbitccError("TRACE", (delays + chances)[-1].file, "one pair of files of LeoReplayer or Mahimahi")
    if delays and not chances:
        raise OrbitccError(
            "TRACE", delays[0].file, "half of a pair of LeoReplayer: add its file of opportunities (the bandwidth)"
        )
    if len(chances) == 1 and not delays:
        raise OrbitccError(
            "TRACE",
            chances[0].file,
            "half of a pair: add LeoReplayer's file of delays, or Mahimahi's file of the other direction",
        )
    return Gathered(
        probes=[*(replay.as_probes(d) for d in delays), *(r for r in found if isinstance(r, Probes))],
        packets=[r for r in found if isinstance(r, Packets)],
        intervals=[r for r in found if isinstance(r, Intervals)],
        datagrams=[r for r in found if isinstance(r, Datagrams)],
        opportunities=chances,
    )
