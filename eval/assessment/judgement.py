"""A candidate's assessment: the result of each criterion beside the references, and the worlds where it was worst."""

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

from orbitcc.common.files import atomic_write_text
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval.assessment.criteria import GRADES, STANDARD, Criterion, CriterionFigure, Grade, criteria, where
from orbitcc.eval.assessment.suite import AssessmentSuite
from orbitcc.eval.contenders import Contender, line_up
from orbitcc.eval.results import Results, value_of
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import median
from orbitcc.eval.suites.base import Case, Point

REFERENCES = (STANDARD, "bbr3", "leocc")
"""Controllers that run beside every candidate; multiples are of the first one's values."""


@dataclass(frozen=True)
class Reading:
    """A figure of a contender at its worst point: the median of its runs, Cubic's median, and the result.

    rank: a larger one is worse; place of the result in `GRADES`, and value over the limit for a pass.
    """

    figure: CriterionFigure
    point: Point
    value: float
    reference: float
    rank: tuple[int, float]

    @property
    def verdict(self) -> Grade:
        return GRADES[self.rank[0]]


@dataclass(frozen=True)
class Judgement:
    """A criterion's outcome for one contender.

    readings: one per figure.
    worst: the one that decides, and `case` the run at its point that exceeds the limit for a pass the most.
    """

    criterion: Criterion
    readings: Sequence[Reading]
    worst: Reading | None = None
    case: Case | None = None

    @property
    def verdict(self) -> Grade:
        return self.worst.verdict if self.worst else "not applicable"


@dataclass(frozen=True)
class Assessment:
    """The outcome of all criteria for all contenders; the first contender is the candidate.

    results: the runs.
    outcomes: label of a contender -> one judgement per criterion.
    """

    results: Results
    outcomes: Mapping[str, Sequence[Judgement]]

    @property
    def candidate(self) -> Contender:
        return self.results.contenders[0]

    @property
    def judgements(self) -> Sequence[Judgement]:
        """The judgements of the candidate."""
        return self.outcomes[self.candidate.label]

    def count(self, label: str) -> dict[Grade, int]:
        """Number of criteria with each result."""
        return {v: sum(j.verdict == v for j in self.outcomes[label]) for v in GRADES}


def contenders_of(controllers: Sequence[str], agents: Sequence[str]) -> list[Contender]:
    """The candidates, followed by the references that are not among them."""
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
    """Run the worlds of all criteria, or of those in `only`, for the contenders, and evaluate them.

    Cubic must be among the contenders. Raises OrbitccError for wrong arguments. After KeyboardInterrupt, `resume`
    continues from the folder.
    """
    rows = [c for c in criteria() if only is None or c.key in only]
    families = list(dict.fromkeys(c.worlds for c in rows if c.worlds))
    results = run_suite(
        AssessmentSuite(families), contenders, out_dir=out_dir, profile=profile, workers=workers, ray=ray,
        resume=resume, quiet=quiet, command=command,
    )  # fmt: skip
    return judge(results, rows)


def judge(results: Results, rows: Sequence[Criterion]) -> Assessment:
    """Evaluate every criterion for every contender of the results; Cubic must be one of them."""
    outcomes = {c.label: [_judge(results, c, row) for row in rows] for c in results.contenders}
    return Assessment(results, outcomes)


def _judge(results: Results, contender: Contender, row: Criterion) -> Judgement:
    if row.not_applicable:
        return Judgement(row, ())
    readings = [_read(results, contender, row, figure) for figure in row.figures]
    worst = max(readings, key=lambda reading: reading.rank)
    runs = results.runs_of(contender, **worst.point)
    values = np.array([value_of(run, worst.figure.metric) for run in runs])
    case = runs[int(np.argmax(worst.figure.excess(values, worst.reference)))]
    return Judgement(row, readings, worst, results.suite.case(worst.point, case["seed"]))


def _read(results: Results, contender: Contender, row: Criterion, figure: CriterionFigure) -> Reading:
    standard = next(c for c in results.contenders if c.label == STANDARD)
    points = [point for point in results.points() if point["worlds"] == row.worlds and figure.holds_at(point)]
    values, cubic = (
        np.array([median(results.by_case(c, figure.metric, **point).values()) for point in points])
        for c in (contender, standard)
    )
    ranks = list(zip(figure.judge(values, cubic), figure.excess(values, cubic), strict=True))
    k = max(range(len(points)), key=ranks.__getitem__)
    return Reading(figure, points[k], values[k], cubic[k], ranks[k])


def worst_world(assessment: Assessment, judgement: Judgement, contender: Contender | None = None) -> Scenario | None:
    """The world in which the candidate was worst, ready to run; `contender` replaces the candidate."""
    if judgement.case is None:
        return None
    entered = assessment.results.suite.entered(judgement.case, contender or assessment.candidate)
    criterion = judgement.criterion
    about = f"RFC 9743, {criterion.section}: {criterion.title} ({where(judgement.case.point)})"
    return entered.changed(name=criterion.key, description=about)


def write_worlds(assessment: Assessment) -> dict[str, str]:
    """Save the worst world of each criterion as worlds/KEY.toml; return key -> the command that runs it."""
    commands = {}
    for judgement in assessment.judgements:
        world = worst_world(assessment, judgement)
        if world is not None:
            path = world.save(assessment.results.out_dir / "worlds" / f"{judgement.criterion.key}.toml")
            commands[judgement.criterion.key] = f"orbitcc run {shlex.quote(str(path))}"
    return commands


def as_dict(assessment: Assessment) -> dict[str, Any]:
    """The assessment as data for JSON."""
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
    """Write assessment.json."""
    return atomic_write_text(
        assessment.results.out_dir / "assessment.json", json.dumps(as_dict(assessment), indent=2) + "\n"
    )
