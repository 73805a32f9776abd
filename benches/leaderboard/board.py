"""The figures of all contenders in all suites, and who is better than whom."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orbitcc.common import names
from orbitcc.envs import controllers
from orbitcc.eval import suites
from orbitcc.eval.contenders import ORACLE
from orbitcc.eval.front import TIE, USES_THE_LINK
from orbitcc.eval.results import Results
from orbitcc.eval.suites.base import Metric

SKIPPED = (
    "responsiveness-shown", "responsiveness-loss-shown", "rate-step", "hystart", "buffers", "geo-probes", "geo-pep",
    "traces", "traces-transfer",
)  # fmt: skip
"""Runs that a paper shows, experiments about Cubic's switches, probes, in which no controller takes part, a path with a
proxy, on which contenders do not drive the whole connection, and paths of a trace set, which we do not distribute."""
LEFT_OUT = ("steady_power",)
"""Metrics that follow from two others of the same suite: in the CSV only."""
PAPER_ONLY = {
    "efficiency": ("jain",),
    "efficiency-aqm": ("jain",),
    "c4-tests": ("load",),
    "constellation-sharing": ("after_reroute", "hot_utilisation", "jain"),
}
"""Suite -> metrics that other pages show: fairness of equal flows is judged by other suites here, more than half of a
shared link is no merit, and docs/constellations.md has the rest of a hundred pairs."""
GOODPUT = ("goodput_share", "goodput_over_optimal", "goodput_after", "utilisation", "steady_mbps", "goodput_mbps")
DELAY = ("delay_inflation", "delay_ratio", "steady_rtt_ms", "rtt_over_base")
TARGET = ("own_share", "own_over_fair", "long_ratio")
"""Metrics that are best at their ideal value: less and more are both worse."""
COLUMNS = ("contender", "suite", "metric", "median", "low", "high", "runs", "share_of_the_possible")


@dataclass(frozen=True)
class Entry:
    """A line of leaderboard.csv: NaN where there is no value, or no interval."""

    contender: str
    suite: str
    metric: str
    median: float
    low: float
    high: float
    runs: int


Board = dict[str, dict[str, dict[str, Entry]]]
"""Suite -> contender -> metric -> entry, without the oracle: who is ranked."""
Possible = dict[str, dict[str, Entry]]
"""Suite -> metric -> entry of the oracle."""


def suite_names() -> list[str]:
    return [name for name in suites.names() if name not in SKIPPED]


def entries_of(results: Results) -> list[Entry]:
    """What goes into leaderboard.csv, in six digits."""
    return [
        Entry(who, results.suite.name, metric, *(float(f"{v:.6g}") for v in (e.median, e.low, e.high)), e.n)
        for who, estimates in results.estimates().items()
        for metric, e in estimates.items()
    ]


def csv_text(entries: Sequence[Entry]) -> str:
    """The tidy table; an empty field for NaN. The shares follow from the medians, in four digits."""
    possible = possible_of(entries)
    rows: list[list[object]] = [list(COLUMNS)]
    for e in entries:
        values = ("" if np.isnan(value) else f"{value:.6g}" for value in (e.median, e.low, e.high))
        part = share(e, possible)
        rows.append([e.contender, e.suite, e.metric, *values, e.runs, "" if np.isnan(part) else f"{part:.4g}"])
    return names.csv_text(rows)


def read_csv(path: Path) -> list[Entry]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Entry(
                row["contender"],
                row["suite"],
                row["metric"],
                *(float(row[name] or "nan") for name in ("median", "low", "high")),
                int(row["runs"]),
            )
            for row in csv.DictReader(file)
        ]


def table_of(page: Path) -> Path:
    """The CSV beside a page."""
    return page.with_suffix(".csv")


def board_of(entries: Sequence[Entry]) -> Board:
    board: Board = {}
    for entry in entries:
        if entry.contender != ORACLE:
            board.setdefault(entry.suite, {}).setdefault(entry.contender, {})[entry.metric] = entry
    return board


def possible_of(entries: Sequence[Entry]) -> Possible:
    possible: Possible = {}
    for entry in entries:
        if entry.contender == ORACLE:
            possible.setdefault(entry.suite, {})[entry.metric] = entry
    return possible


def with_rows(entries: Sequence[Entry], later: Sequence[Entry]) -> list[Entry]:
    """The entries with these behind those of their suites, in the place of earlier ones of the same contenders."""
    new = {(entry.contender, entry.suite) for entry in later}
    kept = [entry for entry in entries if (entry.contender, entry.suite) not in new]
    order = list(dict.fromkeys(entry.suite for entry in entries))
    return sorted([*kept, *(entry for entry in later if entry.suite in order)], key=lambda e: order.index(e.suite))


def share(entry: Entry, possible: Possible) -> float:
    """What part of the oracle's value it reaches; above 1: it is better than the oracle.

    The value divided by the oracle's, or the oracle's by the value where lower is better. NaN where one of both is
    missing or divides as 0, where the oracle's is 0, and for metrics with a target or by which nobody is compared.
    """
    metric = next((metric for metric in columns(entry.suite) if metric.key == entry.metric), None)
    best = possible.get(entry.suite, {}).get(entry.metric)
    if metric is None or metric.key in TARGET or best is None or best.median == 0:
        return float("nan")
    part, whole = (entry.median, best.median) if metric.better == "higher" else (best.median, entry.median)
    return part / whole if whole else float("nan")


def classical(name: str) -> bool:
    return name.partition(":")[0] in controllers.names("baseline")


def columns(suite: str) -> list[Metric]:
    """The metrics of a suite that its table shows, and that contenders are compared by."""
    left_out = (*LEFT_OUT, *PAPER_ONLY.get(suite, ()))
    return [metric for metric in suites.metrics_of(suite) if metric.key not in left_out]


def one_of(suite: str, keys: Sequence[str]) -> Metric | None:
    return next((metric for metric in columns(suite) if metric.key in keys), None)


def trade(suite: str) -> tuple[Metric, Metric] | None:
    """Goodput and delay, where the suite measures both."""
    goodput, delay = one_of(suite, GOODPUT), one_of(suite, DELAY)
    return (goodput, delay) if goodput is not None and delay is not None else None


def beaten_by(own: Mapping[str, Mapping[str, Entry]], suite: str) -> dict[str, int]:
    """Contender -> how many others are at least as good in every metric of the suite and better in one.

    Who leaves the link idle is compared by goodput alone. 0: on the Pareto front.
    """
    shown = columns(suite)
    values = np.array([[cells[metric.key].median for metric in shown] for cells in own.values()])
    away = np.nan_to_num(np.abs(values - [metric.ideal for metric in shown]), nan=np.inf)
    known = np.nan_to_num(values)
    tie = TIE * np.maximum(np.ptp(known, axis=0), np.maximum(np.abs(known)[:, None], np.abs(known)[None]))
    counted = np.ones(values.shape, dtype=bool)
    for k, metric in enumerate(shown):
        if metric.key in GOODPUT:
            counted[known[:, k] < USES_THE_LINK * known[:, k].max()] = np.arange(len(shown)) == k
    # [i, j]: is i at least as good as j, is i better than j, in each metric that counts for j?
    good = (away[:, None] <= away[None] + tie) | ~counted
    better = (away[:, None] < away[None] - tie) & counted
    return dict(zip(own, (good.all(axis=-1) & better.any(axis=-1)).sum(axis=0).tolist(), strict=True))
