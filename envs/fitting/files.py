"""Recognises the kind of a file by its content, and gathers the files of one path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from orbitcc.common.errors import FileContentError, OrbitccError
from orbitcc.common.files import MB, MOST_LINES, MOST_TABLE, MOST_TRACE, parse_json, read_bytes
from orbitcc.envs.description.model import MAX_TIME_S
from orbitcc.envs.fitting import iperf3, pcap, ping, replay
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
KINDS = "output of ping, JSON of iperf3, a pcap file, a file of LeoReplayer or Mahimahi (one whole number in each line)"


def read(path: str | os.PathLike[str]) -> AnyRecording:
    """The recording in a file, whatever its name. Raises FileError for a file of no known kind, or one too short."""
    name = os.fspath(path)
    data = read_bytes(name, MOST_TABLE)
    if not data.strip():
        raise FileContentError("file", name, f"{KINDS}; it is empty")
    found = pcap.read(data, name) if pcap.is_pcap(data) else _text(data, name)
    _check(found)
    return found


def _text(data: bytes, name: str) -> AnyRecording:
    """The recording in a text file."""
    if len(data) > MOST_TRACE or data.count(b"\n") > MOST_LINES:
        wanted = f"a pcap file, or a log of at most {MOST_TRACE / MB:g} MB and {MOST_LINES:,} lines"
        raise FileContentError("file", name, wanted)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise FileContentError("file", name, KINDS) from None
    if text.lstrip().startswith("{"):
        try:
            log = parse_json(text)
        except ValueError as error:
            raise FileContentError("file", name, f"JSON of iperf3 ({error})") from None
        return iperf3.read(log, name)
    if ping.is_ping(text):
        return ping.read(text, name)
    if replay.is_numbers(text):
        return replay.read(text, name)
    raise FileContentError("file", name, KINDS)


def _check(found: AnyRecording) -> None:
    """FileContentError unless all times and figures are such as a path can have: not negative, and not too large."""
    for field in fields(found):
        values = getattr(found, field.name)
        if isinstance(values, np.ndarray | float) and field.name != "lost":
            known = np.asarray(values)[~np.isnan(values)]
            last_s = known[-1] / (1e3 if field.name == "at_ms" else 1.0) if known.size else 0.0
            if known.size and (known.min() < 0 or known.max() > MOST_FIGURE):
                raise FileContentError("file", found.file, f"a recording with {field.name} in 0 .. {MOST_FIGURE:g}")
            if field.name in ("sent_s", "end_s", "at_ms") and not last_s <= MAX_TIME_S:
                raise FileContentError("file", found.file, f"a recording of at most {MAX_TIME_S:g} s")


def gather(paths: Sequence[str | os.PathLike[str]]) -> Gathered:
    """The recordings of files that belong to one path.

    Raises FileError as `read` does, and OrbitccError for half of a pair or for more than one pair.
    """
    if not paths:
        raise OrbitccError("TRACE", "(none)", f"one file or more: {KINDS}")
    found = [read(path) for path in paths]
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
