"""Files of the emulators LeoReplayer and Mahimahi: one whole number in each line."""

from __future__ import annotations

import os

import numpy as np

from orbitcc.common.errors import FileContentError
from orbitcc.common.files import read_text
from orbitcc.envs.description.model import MAX_TIME_S
from orbitcc.envs.description.queues import MAX_BUFFER_BYTES
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.fitting import rates
from orbitcc.envs.fitting.recordings import Delays, Opportunities, Probes

DELAY_STEP_S = 0.01
FEWEST_S = 5.0
REPEATED_S = 3600.0
FEW_FALLS = 0.01
"""Numbers that rise by 5,000 and more, and fall in at most this share of lines, are times with a wrong line."""
MOST_PER_MS = 100.0
"""Numbers that rise more slowly than this many lines per ms are no opportunities: at 1500 bytes, 1.2 Gbit/s."""


def is_numbers(text: str) -> bool:
    return all(line.strip().isdecimal() for line in text.splitlines())


def read(text: str, file: str) -> Opportunities | Delays:
    """Opportunities if the numbers never fall and are times of at most 1.2 Gbit/s on average; otherwise delays.

    Raises FileContentError when the file covers less than 5 s.
    """
    try:
        numbers = np.array([float(line) for line in text.split()])
    except ValueError:  # a digit of another kind, such as a superscript
        raise FileContentError("file", file, "one whole number in each line") from None
    if not numbers.size or not np.isfinite(numbers).all():
        raise FileContentError("file", file, "one whole number in each line, of at most 300 digits")
    span_ms = numbers[-1] - numbers[0]
    if (np.diff(numbers) >= 0).all() and numbers.size <= MOST_PER_MS * span_ms:
        _long_enough(float(numbers[-1]) / 1e3, file)
        return Opportunities(file, numbers)
    falls = np.flatnonzero(np.diff(numbers) < 0)
    if falls.size <= FEW_FALLS * numbers.size and span_ms >= FEWEST_S * 1e3:
        wanted = "times that never fall, or delays"
        raise FileContentError("file", file, f"{wanted}; line {falls[0] + 2} has {numbers[falls[0] + 1]:g} after "
                               f"{numbers[falls[0]]:g}")  # fmt: skip
    _long_enough(numbers.size * DELAY_STEP_S, file)
    return Delays(file, numbers)


def as_probes(delays: Delays) -> Probes:
    """RTTs on a path with this delay in both directions."""
    return Probes(delays.file, np.arange(delays.owd_ms.size) / 100, 2 * delays.owd_ms, halves=True, counts_losses=False)


def of_mahimahi(downlink: str | os.PathLike[str], uplink: str | os.PathLike[str], delay_ms: float) -> Scenario:
    """A path of two traces of Mahimahi, which repeat for an hour, with a delay in each direction; queues without limit.

    Downlink is the direction of the data. Each line of a trace is a time in ms when 1500 bytes can leave; rates are
    means over 0.1 s. Raises FileError for a trace that is none.
    """
    ways = {}
    for way, path in (("downlink", downlink), ("uplink", uplink)):
        wanted = "a trace of Mahimahi: a time in ms in each line, none before the one above it, and the last above 0"
        text = read_text(path)
        if not text.strip() or not is_numbers(text):
            raise FileContentError(way, os.fspath(path), wanted)
        at_ms = np.array([float(line) for line in text.split()])
        if (np.diff(at_ms) < 0).any() or not 0 < at_ms[-1] <= 1e3 * MAX_TIME_S:
            raise FileContentError(way, os.fspath(path), wanted)
        # A short one is repeated until it has many bins.
        span_s = at_ms[-1] / 1e3 * np.ceil(FEWEST_S / (at_ms[-1] / 1e3))
        steps, _ = rates.of_opportunities(Opportunities(os.fspath(path), at_ms), span_s, find_outages=False)
        rounds = np.arange(max(1, int(REPEATED_S / span_s)))[:, None] * span_s
        t_s, mbps = rates.merged((rounds + steps[0]).ravel(), np.tile(steps[1], len(rounds)))
        ways[way] = {
            "rate_mbps": list(zip(np.round(t_s, 6).tolist(), np.round(mbps, 6).tolist(), strict=True)),
            "delay_ms": delay_ms,
            "queue": {"kind": "drop_tail_bytes", "limit_bytes": int(MAX_BUFFER_BYTES)},
        }
    link = {"name": "path", **ways["downlink"], "reverse": ways["uplink"]}
    flow = {"controller": "cubic"}
    return Scenario.build({"name": "mahimahi", "duration_s": REPEATED_S, "links": [link], "flows": [flow]})


def _long_enough(seconds: float, file: str) -> None:
    if seconds < FEWEST_S:
        raise FileContentError("file", file, f"a trace of at least {FEWEST_S:g} s; it has {seconds:g} s")
