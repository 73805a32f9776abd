"""The output of ping: iputils on Linux, with or without timestamps (`-D`), and similar ones."""

from __future__ import annotations

import re

import numpy as np

from orbitcc.common.errors import FileContentError
from orbitcc.envs.fitting.recordings import Array, Probes

FEWEST = 20
"""A log needs as many answers."""
MOST = 10_000_000
"""Probes of a log: at one a second, 115 days."""
_ANSWER = re.compile(
    r"(?:\[(\d{1,10}\.\d{1,9})\] )?\d+ bytes from .*?icmp_seq=(\d+).*?time[=<](\d{1,9}(?:\.\d{1,9})?) ms(.*)"
)
_TOTALS = re.compile(r"(\d{1,12}) packets transmitted, .*?(?:time (\d{1,12})\s?ms)?")
_LONGEST_LINE = 1_000
_NUMBERS = 2**16
"""Sequence numbers of ICMP start again after as many."""


def is_ping(text: str) -> bool:
    return "icmp_seq=" in text or text.startswith("PING ")


def read(text: str, file: str) -> Probes:
    """The probes of a log.

    A missing sequence number is a lost probe. With `-D` the time of an answer is its stamp; a probe was sent one RTT
    before it. Without, probes are evenly spaced: the summary says how long all took; without a summary, 1 s apart.
    Raises FileContentError when there are fewer than 20 answers, or more probes than a log can have.
    """
    numbers, stamps, rtts = [], [], []
    seen: set[int] = set()
    rounds = highest = transmitted = took_ms = 0
    for line in text.splitlines():
        if len(line) > _LONGEST_LINE:
            raise FileContentError("file", file, f"output of ping with lines of at most {_LONGEST_LINE:,} letters")
        if found := _TOTALS.fullmatch(line):
            transmitted, took_ms = int(found[1]), int(found[2] or 0)
        if not (found := _ANSWER.fullmatch(line)):
            continue
        stamp, number, rtt, rest = found.groups()
        if len(number) > 5 or int(number) >= _NUMBERS:
            raise FileContentError(
                "file", file, f"output of ping with icmp_seq below {_NUMBERS:,}; it has {number[:20]}"
            )
        n = int(number) + rounds * _NUMBERS
        if seen and n < highest - _NUMBERS // 2:
            rounds += 1
            n += _NUMBERS
        highest = max(highest, n)
        if "DUP!" in rest or n in seen:
            continue
        seen.add(n)
        numbers.append(n)
        rtts.append(float(rtt))
        stamps.append(float(stamp) if stamp else np.nan)
    if len(numbers) < FEWEST:
        raise FileContentError("file", file, f"output of ping with at least {FEWEST} answers; it has {len(numbers)}")
    first = min(min(numbers), 1)
    count = max(max(numbers) - first + 1, transmitted)
    if count > MOST:
        raise FileContentError("file", file, f"output of ping with at most {MOST:,} probes; it has {count:,}")
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
        apart_s = took_ms / 1e3 / max(count - 1, 1) if took_ms else 1.0
        sent_s = order * apart_s
    return Probes(file, sent_s - sent_s[0], rtt_ms)
