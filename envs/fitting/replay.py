"""Files of the emulators LeoReplayer and Mahimahi: one whole number in each line."""

from __future__ import annotations

import numpy as np

from orbitcc.common.errors import FileContentError
from orbitcc.envs.fitting.recordings import Delays, Opportunities, Probes

DELAY_STEP_S = 0.01
FEWEST_S = 5.0
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
    _long_enough(numbers.size * DELAY_STEP_S, file)
    return Delays(file, numbers)


def as_probes(delays: Delays) -> Probes:
    """RTTs on a path with this delay in both directions."""
    return Probes(delays.file, np.arange(delays.owd_ms.size) / 100, 2 * delays.owd_ms, halves=True)


def _long_enough(seconds: float, file: str) -> None:
    if seconds < FEWEST_S:
        raise FileContentError("file", file, f"a trace of at least {FEWEST_S:g} s; it has {seconds:g} s")
