"""A candidate's assessment: what each criterion makes of its runs, next to the references, and where it was worst."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.files import atomic_write_text
from orbitcc.eval.assessment.criteria import WORST, Criterion, Figure, Grade, criteria
from orbitcc.eval.assessment.suite import AssessmentSuite
from orbitcc.eval.contenders import Contender, line_up
from orbitcc.eval.results import Results, value_of
from orbitcc.eval.runner import run_suite
from orbitcc.eval.suites.base import Case, Point

STANDARD = "cubic"
REFERENCES = ("cubic", "bbr3", "leocc")
"""Stand beside every candidate; the first is what ratios are taken of."""


@dataclass(frozen=True)
class Reading:
    """A figure of a contender where it was worst: the median of its runs there, Cubic's, and what that means."""

    figure: Figure
    point: Point
    value: float
    reference: float
    verdict: Grade


@dataclass(frozen=True)
class Judgement:
    """A criterion's outcome for one contender. readings: one per figure; worst: the case in which it was worst."""

    criterion: Criterion
    verdict: Grade
    readings: Sequence[Reading]
    worst: Case | None


@dataclass(frozen=True)
class Assessment:
    """results: the runs; outcomes: label -> a judgement per criterion. The first contender is the candidate."""

    results: Results
    outcomes: Mapping[str, Sequence[Judgement]]

    @property
    def candidate(self) -> Contender:
        return self.results.contenders[0]

    @property
    def judgements(self) -> Sequence[Judgement]:
        """The candidate's."""
        return self.outcomes[self.candidate.label]

    def count(self, label: str) -> dict[Grade, int]:
        """Verdict -> number of criteria."""
        return {v: sum(j.verdict == v for j in self.outcomes[label]) for v in WORST}


def contenders_of(controllers: Sequence[str], agents: Sequence[str]) -> list[Contender]:
    """The candidates, then those references that are not among them."""
    chosen = line_up(controllers, agents)
    own = {c.key for c in chosen}
    return [*chosen, *(r for r in line_up(REFERENCES, []) if r.key not in own)]


def assess(
    contenders: Sequence[Contender],
    *,
    out_dir: str | os.PathLike[str],
    profile: str = "quick",
    only: Sequence[str] | None = None,
    workers: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    quiet: bool = False,
    command: str = "",
) -> Assessment:
    """Run the worlds (of the criteria named in `only`, or all) for the contenders, Cubic among them, and judge.

    Raises OrbitccError for wrong arguments. KeyboardInterrupt leaves a folder that `resume` continues.
    """
    rows = [c for c in criteria() if only is None or c.key in only]
    families = list(dict.fromkeys(c.worlds for c in rows if c.worlds))
    results = run_suite(
        AssessmentSuite(families), contenders, out_dir=out_dir, profile=profile, workers=workers, ray=ray,
        resume=resume, quiet=quiet, command=command,
    )  # fmt: skip
    return judge(results, rows)


def judge(results: Results, rows: Sequence[Criterion]) -> Assessment:
    """Every criterion for every contender of the results; Cubic has to be one of them."""
    outcomes = {c.label: [_judge(results, c, row) for row in rows] for c in results.contenders}
    return Assessment(results, outcomes)


def _judge(results: Results, contender: Contender, row: Criterion) -> Judgement:
    if row.not_applicable:
        return Judgement(row, "not applicable", (), None)
    readings = [_read(results, contender, row, figure) for figure in row.figures]
    verdict = max((r.verdict for r in readings), key=WORST.__getitem__)
    told = max(readings, key=lambda r: (WORST[r.verdict], r.figure.excess(r.value, r.reference)))
    return Judgement(row, verdict, readings, _worst_case(results, contender, told))


def _read(results: Results, contender: Contender, row: Criterion, figure: Figure) -> Reading:
    standard = next(c for c in results.contenders if c.label == STANDARD)
    found = []
    for point in results.points():
        if point["worlds"] != row.worlds or not figure.holds_at(point):
            continue
        value, reference = (_median(results, c, figure.metric, point) for c in (contender, standard))
        found.append(Reading(figure, point, value, reference, figure.judge(value, reference)))
    return max(found, key=lambda r: (WORST[r.verdict], figure.excess(r.value, r.reference)))


def _median(results: Results, contender: Contender, metric: str, point: Point) -> float:
    values = [
        value_of(row, metric) for row in results.rows if row["contender"] == contender.key and row["point"] == point
    ]
    known = [v for v in values if not math.isnan(v)]
    return float(np.median(known)) if known else float("nan")


def _worst_case(results: Results, contender: Contender, reading: Reading) -> Case | None:
    """The run at the reading's point whose figure is furthest beyond what passes."""
    rows = [row for row in results.rows if row["contender"] == contender.key and row["point"] == reading.point]
    figure = reading.figure
    worst = max(rows, key=lambda row: figure.excess(value_of(row, figure.metric), reading.reference))
    return results.suite.case(reading.point, worst["seed"])


def worst_world(assessment: Assessment, judgement: Judgement, contender: Contender | None = None) -> Scenario | None:
    """The world in which the candidate was worst (or another contender there), ready to run."""
    if judgement.worst is None:
        return None
    entered = assessment.results.suite.enter(judgement.worst, contender or assessment.candidate)
    where = ", ".join(f"{k} {v}" for k, v in judgement.worst.point.items() if k != "worlds")
    about = f"RFC 9743, {judgement.criterion.section}: {judgement.criterion.title} ({where})"
    return entered.changed(name=judgement.criterion.key, description=about)


def write_worlds(assessment: Assessment) -> dict[str, str]:
    """Save the worst world of each criterion as worlds/KEY.toml; key -> the command that runs it."""
    commands = {}
    for judgement in assessment.judgements:
        world = worst_world(assessment, judgement)
        if world is not None:
            path = world.save(assessment.results.out_dir / "worlds" / f"{judgement.criterion.key}.toml")
            commands[judgement.criterion.key] = f"orbitcc run {shlex.quote(str(path))}"
    return commands


def as_dict(assessment: Assessment) -> dict[str, Any]:
    """The assessment for JSON."""
    return {
        "candidate": assessment.candidate.label,
        "profile": assessment.results.profile,
        "runs": assessment.results.runs,
        "version": assessment.results.version,
        "criteria": [
            {
                "key": own.criterion.key,
                "section": own.criterion.section,
                "title": own.criterion.title,
                "verdict": own.verdict,
                "beside": {
                    label: others[k].verdict
                    for label, others in assessment.outcomes.items()
                    if label != assessment.candidate.label
                },
                "figures": [_reading(reading) for reading in own.readings],
                **({"reason": own.criterion.not_applicable} if own.criterion.not_applicable else {}),
            }
            for k, own in enumerate(assessment.judgements)
        ],
    }


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "metric": reading.figure.metric,
        "verdict": reading.verdict,
        "value": None if math.isnan(reading.value) else reading.value,
        "cubic": None if math.isnan(reading.reference) else reading.reference,
        "point": dict(reading.point),
    }


def save(assessment: Assessment) -> Path:
    """assessment.json."""
    return atomic_write_text(
        assessment.results.out_dir / "assessment.json", json.dumps(as_dict(assessment), indent=2) + "\n"
    )
