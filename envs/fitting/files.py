"""Recognises the kind of a file by its content, and gathers the files of one path."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from orbitcc.envs.errors import FileContentError, FileError, NoSuchFileError, OrbitccError
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

KINDS = "output of ping, JSON of iperf3, a pcap file, a file of LeoReplayer or Mahimahi (one whole number in each line)"


def read(path: str | os.PathLike[str]) -> AnyRecording:
    """The recording in a file, whatever its name. Raises FileError for a file of no known kind, or one too short."""
    name = os.fspath(path)
    data = _bytes(name)
    if not data.strip():
        raise FileContentError("file", name, f"{KINDS}; it is empty")
    if pcap.is_pcap(data):
        return pcap.read(data, name)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise FileContentError("file", name, KINDS) from None
    if text.lstrip().startswith("{"):
        try:
            return iperf3.read(json.loads(text), name)
        except json.JSONDecodeError as error:
            raise FileContentError("file", name, f"JSON of iperf3 ({error})") from None
    if ping.is_ping(text):
        return ping.read(text, name)
    if replay.is_numbers(text):
        return replay.read(text, name)
    raise FileContentError("file", name, KINDS)


def _bytes(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except FileNotFoundError:
        raise NoSuchFileError("file", name) from None
    except OSError as error:
        raise FileError("file", name, f"a readable file ({error.strerror or error})") from None


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
