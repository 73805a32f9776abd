"""CSV of published data sets: LENS (irtt and ping), WetLinks (net_ping.csv)."""

from __future__ import annotations

import datetime
import math

import numpy as np

from orbitcc.common.errors import FileContentError, quoted
from orbitcc.common.files import csv_cells, csv_head
from orbitcc.envs.fitting.ping import FEWEST, MOST, MOST_REPEATED, STEP_BACK_S
from orbitcc.envs.fitting.recordings import Array, Probes

LENS = ("timestamp", "rtt")
WETLINKS = ("timestamp_start", "timestamp_end", "packet_loss", "packets_send", "ping_avg", "ping_worst", "ping_best")
_SECONDS, _NANOSECONDS = 1e11, 1e17
"""Times since 1970 are below in s, as LENS has them of ping, or above in ns, as of irtt."""


def is_table(text: str) -> bool:
    """Whether the first line names columns of one of the data sets."""
    first = text[:2_000].split("\n", 1)[0].replace('"', "").replace(" ", "")
    return "," in first and bool({"timestamp", "timestamp_start", "site_name"} & set(first.strip().split(",")))


def read(text: str, file: str) -> Probes:
    """The probes of a table.

    LENS: a row per probe. Of irtt (with `uplink` and `downlink`) lost ones have no RTT above 0; of ping a row has the
    time of the answer, and lost probes have no row. WetLinks: a row per series of probes, which are taken to be evenly
    spaced, as are the lost ones; the first answer has the best RTT, the last one the worst, the others have the RTT
    that makes their mean that of the row. Raises FileError for other columns or cells, fewer than 20 answers, or rows
    of LENS whose clock steps back by more than 2 s or that come again.
    """
    lines = text.splitlines()
    head = csv_head(lines[0], f"{file}, line 1")
    wanted = WETLINKS if set(WETLINKS) <= set(head) else LENS
    if not set(wanted) <= set(head):
        allowed = f"a table of LENS ({','.join(LENS)}) or net_ping.csv of WetLinks ({','.join(WETLINKS)})"
        raise FileContentError("file", file, f"{allowed}; {quoted(1, lines[0], 'has no such columns')}")
    at, answers_only = [head.index(name) for name in wanted], wanted is LENS and "uplink" not in head
    sent: list[float] = []
    rtts: list[float] = []
    back_s, before_s, seen, again = 0.0, -math.inf, set[tuple[float, float]](), 0
    for number, line in enumerate(lines[1:], start=2):
        cells = csv_cells(line, f"{file}, line {number}") if line.strip() else []
        try:
            if cells and len(cells) != len(head):
                raise ValueError
            if cells and wanted is WETLINKS:
                _series([cells[k] for k in at], sent, rtts, file)
            elif cells:
                stamp, rtt = (float(cells[k]) for k in at)
                if _SECONDS < stamp < _NANOSECONDS:  # ms or us
                    raise ValueError
                at_s = stamp / 1e9 if stamp > _NANOSECONDS else stamp
                if at_s < before_s - STEP_BACK_S:
                    wanted_rows = "rows in order of time (split the file there)"
                    raise FileContentError("file", file, f"{wanted_rows}; {quoted(number, line, 'is earlier')}")
                back_s, before_s = max(back_s, before_s - at_s), at_s
                again += (stamp, rtt) in seen
                seen.add((stamp, rtt))
                sent.append(at_s - max(rtt, 0) / 1e3 * answers_only)
                rtts.append(rtt if rtt > 0 else math.nan)
                if not math.isfinite(sent[-1]):
                    raise ValueError
        except FileContentError:
            raise
        except (ValueError, OverflowError):
            if number == len(lines) and not text.endswith("\n"):
                break  # it is cut off
            raise FileContentError("file", file, f"rows of {','.join(wanted)}; {quoted(number, line)}") from None
    rtt_ms: Array = np.array(rtts)
    if (answers := int((~np.isnan(rtt_ms)).sum())) < FEWEST:
        raise FileContentError("file", file, f"a table of at least {FEWEST} answers; it has {answers}")
    if again > MOST_REPEATED * len(rtts) + 1:
        raise FileContentError("file", file, f"a table with a row for each probe; {again} come again")
    order = np.argsort(sent, kind="stable")
    sent_s = np.array(sent)[order]
    return Probes(file, sent_s - sent_s[0], rtt_ms[order], counts_losses=not answers_only, back_s=back_s)


def _series(row: list[str], sent: list[float], rtts: list[float], file: str) -> None:
    """Add the probes of a row of WetLinks; ValueError for a wrong one, FileContentError for too many."""
    start_s, end_s = (_seconds(text) for text in row[:2])
    share, count = float(row[2]) / 100, round(float(row[3]))
    if not 0 <= share <= 1 or count < 0 or end_s < start_s:
        raise ValueError
    if count > MOST - len(rtts):
        raise FileContentError("file", file, f"a table of at most {MOST:,} probes")
    answers = round(count * (1 - share))
    values = []
    if answers:
        mean, worst, best = (float(text) for text in row[4:])
        if not 0 < best <= mean <= worst < math.inf:
            raise ValueError
        others = (mean * answers - best - worst) / max(answers - 2, 1)
        values = [best, *[others] * (answers - 2), worst] if answers > 1 else [mean]
    sent += np.linspace(start_s, end_s, count, endpoint=False).tolist()
    places = np.full(count, np.nan)
    places[np.arange(answers) * count // max(answers, 1)] = values
    rtts += places.tolist()


def _seconds(text: str) -> float:
    """Seconds since 1970 of a time of ISO 8601, of UTC where it has no zone."""
    at = datetime.datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp()
