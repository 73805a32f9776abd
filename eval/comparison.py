"""Compares the results of two folders under the same conditions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from orbitcc.envs.errors import FileError
from orbitcc.envs.files import read_text
from orbitcc.eval import suites
from orbitcc.eval.results import CaseKey, Row, read_rows, value_of
from orbitcc.eval.statistics import Estimate, Standing, median_estimate, paired_difference, verdict
from orbitcc.eval.suites import Metric


@dataclass(frozen=True)
class Difference:
    """A metric of one contender in both results, over the cases both have; change: B - A, paired."""

    suite: str
    contender: str
    metric: Metric
    a: Estimate
    b: Estimate
    change: Estimate

    @property
    def verdict(self) -> Standing:
        """Whether B is better or worse."""
        return verdict(self.change, self.metric.better)


def differences(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> list[Difference]:
    """Every metric of every contender with runs in both folders.

    A case counts by its scenario and seed; of a contender's runs of one case (several versions) the last one counts.
    Raises FileError for a folder without the results, and where the two have nothing in common.
    """
    one, two = _rows(Path(a)), _rows(Path(b))
    found = []
    for (suite, contender), mine in one.items():
        other = two.get((suite, contender), {})
        common = [case for case in mine if case in other]
        if not common:
            continue
        for metric in suites.metrics_of(suite):
            left, right = ({case: value_of(rows[case], metric.key) for case in common} for rows in (mine, other))
            found.append(
                Difference(
                    suite,
                    contender,
                    metric,
                    median_estimate(left.values()),
                    median_estimate(right.values()),
                    paired_difference(right, left),
                )
            )
    if not found:
        raise FileError("run_b", str(b), f"the results with runs of a suite and contender that {a} has, too")
    return found


def _rows(folder: Path) -> dict[tuple[str, str], dict[CaseKey, Row]]:
    """(suite, contender) -> case -> row."""
    files = [folder / "runs.jsonl"] if (folder / "runs.jsonl").exists() else sorted(folder.glob("*/runs.jsonl"))
    if not files:
        raise FileError("run", str(folder), "the folder of the results, with runs.jsonl, or of several")
    found: dict[tuple[str, str], dict[CaseKey, Row]] = {}
    for file in files:
        text = read_text(file)
        whole = text[: text.rfind("\n") + 1]  # a torn last line is a run that was not finished
        for row in read_rows(whole.encode(), file):
            found.setdefault((row["suite"], row["contender"]), {})[(row["scenario"], row["seed"])] = row
    return found


__all__ = ["Difference", "differences"]
