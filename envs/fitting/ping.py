"""The output of ping: iputils on Linux, with or without timestamps (`-D`), and similar ones."""

from __future__ import annotations

import re

import numpy as np

from orbitcc.envs.errors import FileContentError
from orbitcc.envs.fitting.recordings import Array, Probes

FEWEST = 20
"""A log needs as many answers."""
_ANSWER = re.compile(r"^(?:\[(\d+\.\d+)\] )?\d+ bytes from .*icmp_seq=(\d+).*time[=<]([\d.]+) ms(.*)$", re.M)
_TOTALS = re.compile(r"^(\d+) packets transmitted, .*?(?:time (\d+)\s?ms)?$", re.M)
_NUMBERS = 2**16
"""Sequence numbers of ICMP start again after as many."""


def is_ping(text: str) -> bool:
    return "icmp_seq=" in text or text.startswith("PING ")


def read(text: str, file: str) -> Probes:
    """The probes of a log.

    A missing sequence number is a lost probe. With `-D` the time of an answer is its stamp; a probe was sent one RTT
    before it. Without, probes are evenly spaced: the summary says how long all took; without a summary, 1 s apart.
    Raises FileContentError when there are fewer than 20 answers.
    """
    numbers, stamps, rtts = [], [], []
    seen: set[int] = set()
    rounds = 0
    for stamp, number, rtt, rest in _ANSWER.findall(text):
        n = int(number) + rounds * _NUMBERS
        if seen and n < max(seen) - _NUMBERS // 2:
            rounds += 1
            n += _NUMBERS
        if "DUP!" in rest or n in seen:
            continue
        seen.add(n)
        numbers.append(n)
        rtts.append(float(rtt))
        stamps.append(float(stamp) if stamp else np.nan)
    if len(numbers) < FEWEST:
        raise FileContentError("file", file, f"output of ping with at least {FEWEST} answers; it has {len(numbers)}")
    total = _TOTALS.search(text)
    first = min(min(numbers), 1)
    count = max(max(numbers) - first + 1, int(total.group(1)) if total else 0)
    rtt_ms: Array = np.full(count, np.nan)
    order = np.arange(count, dtype=np.float64)
    at = np.array(numbers) - first
    rtt_ms[at] = rtts
    sent_s: Array
    if not np.isnan(stamps).any():
        sent_s = np.interp(order, np.sort(at), np.sort(np.array(stamps) - np.array(rtts) / 1e3))
        gap_s = float(np.median(np.diff(np.sort(stamps)) / np.diff(np.sort(at))))
        late = np.arange(count) > at.max()
        sent_s[late] += gap_s * (np.flatnonzero(late) - at.max())
    else:
        apart_s = int(total.group(2)) / 1e3 / max(count - 1, 1) if total and total.group(2) else 1.0
        sent_s = order * apart_s
    return Probes(file, sent_s - sent_s[0], rtt_ms)
