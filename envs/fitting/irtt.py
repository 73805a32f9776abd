"""The JSON of irtt (`irtt client -o FILE`), as the data set LENS publishes it: round trips of UDP packets."""

from __future__ import annotations

import numpy as np

from orbitcc.common.errors import FileContentError
from orbitcc.common.files import json_items
from orbitcc.envs.fitting.recordings import Array, Probes

FEWEST = 20
"""A log needs as many answers."""
MOST = 10_000_000
"""Round trips of a log."""
_LIST = b'"round_trips"'
_HEAD_BYTES = 100_000
"""The list of round trips begins in as many."""


def is_irtt(data: bytes) -> bool:
    """Whether JSON text is of irtt."""
    return _LIST in data[:_HEAD_BYTES]


def read(data: bytes, file: str) -> Probes:
    """The round trips, in the order of sending; a lost one has no RTT, whichever way it was lost.

    They are read one by one, because an hour with a packet every 10 ms has 400 MB. Raises FileContentError for other
    content, and for fewer than 20 answers.
    """
    sent_ns, rtt_ms = [], []
    try:
        for trip in json_items(data, data.index(b"[", data.index(_LIST)) + 1):
            stamp = trip["timestamps"]["client"]["send"]
            sent_ns.append((stamp.get("monotonic"), stamp.get("wall")))
            lost = trip["lost"] not in (False, "false")
            rtt_ms.append(np.nan if lost else float(trip["delay"]["rtt"]) / 1e6)
            if len(rtt_ms) > MOST:
                raise FileContentError("file", file, f"JSON of irtt with at most {MOST:,} round trips")
        clock = 0 if all(mono is not None for mono, _ in sent_ns) else 1
        origin = int(sent_ns[0][clock]) if sent_ns else 0
        sent_s: Array = np.array([(int(stamps[clock]) - origin) / 1e9 for stamps in sent_ns])
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        if isinstance(error, FileContentError):
            raise
        where = f"round trip {len(rtt_ms) + 1}: {type(error).__name__} {str(error)[:80]}"
        raise FileContentError("file", file, f"whole JSON of irtt; it is damaged or cut off at {where}") from None
    answers = int((~np.isnan(rtt_ms)).sum()) if rtt_ms else 0
    if answers < FEWEST:
        raise FileContentError("file", file, f"JSON of irtt with at least {FEWEST} answers; it has {answers}")
    order = np.argsort(sent_s, kind="stable")
    return Probes(file, sent_s[order] - sent_s.min(), np.array(rtt_ms)[order])
