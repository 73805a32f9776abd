"""The tables of docs/assessment.md: assessments of every controller and every shipped policy by RFC 9743.

`python -m benches.assessment [--out FOLDER] [--resume]` runs the profile `quick` and writes the tables between the
marks of the page. `--resume` continues a run that was stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from benches.pages import replace
from orbitcc.agents import checkpoint
from orbitcc.eval.assessment import Assessment, assess, contenders_of
from orbitcc.eval.assessment.criteria import STANDARD, Grade, where

ASSESSED = Path(__file__).parents[1] / "agents" / "assessed.json"
PAGE = Path(__file__).parents[1] / "docs" / "assessment.md"
CONTROLLERS = (
    "cubic", "reno", "hybla", "westwood", "illinois", "vegas", "copa", "bbr", "bbr3", "leocc", "satcp", "vivace",
    "prague", "c4",
)  # fmt: skip
COUNTED: Mapping[str, Grade] = {"number of passes": "pass", "number of concerns": "concern", "number of fails": "fail"}
SHORT = {"pass": "pass", "concern": "*concern*", "fail": "**fail**", "not applicable": "–"}


def verdicts(assessment: Assessment) -> str:
    """A row per criterion and a column per contender; the last rows count the results."""
    labels = list(assessment.outcomes)
    lines = [f"| § | criterion | {' | '.join(labels)} |", f"|---|---|{'---|' * len(labels)}"]
    for k, judgement in enumerate(assessment.judgements):
        cells = " | ".join(SHORT[assessment.outcomes[label][k].verdict] for label in labels)
        lines.append(f"| {judgement.criterion.section} | {judgement.criterion.title} | {cells} |")
    for words, verdict in COUNTED.items():
        counts = " | ".join(str(assessment.count(label)[verdict]) for label in labels)
        lines.append(f"| | {words} | {counts} |")
    return "\n".join(lines)


def figures(assessment: Assessment, policies: Iterable[str]) -> str:
    """A figure of each criterion that a policy failed, at the point where it was worst."""
    lines = ["| policy | § | metric | measured | Cubic | world |", "|---|---|---|---|---|---|"]
    for label in policies:
        for judgement in assessment.outcomes[label]:
            for r in [r for r in judgement.readings if r.verdict == "fail"][:1]:
                told = (r.figure.title, r.figure.format(r.value), r.figure.format(r.reference), where(r.point))
                lines.append(f"| {label} | {judgement.criterion.section} | {' | '.join(told)} |")
    return "\n".join(lines)


def failed(assessment: Assessment, policies: Iterable[str]) -> dict[str, list[str]]:
    """What `orbitcc deploy` prints of each policy: a line per criterion that it fails."""
    told: dict[str, list[str]] = {}
    for label in policies:
        told[label] = []
        for judgement in assessment.outcomes[label]:
            worst = [r for r in judgement.readings if r.verdict == "fail"]
            figures = "; ".join(
                f"{r.figure.title} {r.figure.format(r.value)} (Cubic {r.figure.format(r.reference)}; {where(r.point)})"
                for r in worst
            )
            if worst:
                told[label].append(f"{judgement.criterion.section} {judgement.criterion.title}: {figures}")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/assessment-of-all"))
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()
    line_up = contenders_of(CONTROLLERS, checkpoint.shipped())
    assert line_up[0].label == STANDARD
    assessment = assess(line_up, out_dir=given.out, resume=given.resume)
    text = json.dumps(failed(assessment, checkpoint.shipped()), indent=2, ensure_ascii=False)
    ASSESSED.write_text(text + "\n", encoding="utf-8")
    replace(PAGE, {"verdicts": verdicts(assessment), "figures": figures(assessment, checkpoint.shipped())})


if __name__ == "__main__":
    main()
