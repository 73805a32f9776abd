"""Writes findings and scorecard into the documents: `python -m benches.reproduction LEO_OUT GEO_OUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benches.pages import replace
from orbitcc.eval import studies
from orbitcc.eval.report import leaders

ROOT = Path(__file__).parents[1]
PICTURES = {
    "leo-inter-rtt": "inter-rtt/figures/goodput-ratio.png",
    "leo-efficiency": "efficiency/figures/ellipses.png",
}
"""Of the LEO study, shown in the README."""


def table(folder: Path) -> str:
    """The findings of a study as a Markdown table."""
    rows = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    lines = ["| | claim | criterion | measured | |", "|---|---|---|---|---|"]
    for row in rows:
        verdict = f"*{row['verdict']}*" if row["verdict"] != "holds" else "holds"
        verdict += f": {row['reason']}" if "reason" in row else ""
        cells = (row["finding"], f"{row['claim']} ({row['source']})", row["expected"], row["measured"], verdict)
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    counts = {v: sum(row["verdict"] == v for row in rows) for v in ("holds", "fails", "undecidable")}
    decided = counts["holds"] + counts["fails"]
    return "\n".join(
        [f"{counts['holds']} of {decided} decidable claims hold; {counts['undecidable']} are undecidable.", "", *lines]
    )


def card(study: studies.Study, folder: Path) -> str:
    """The scorecard of a study as a Markdown table; what is best, or tied with it, is bold."""
    campaigns = studies.load_study(study, folder)
    scores = studies.scorecard(study, campaigns)
    metrics = [metric for metric, _ in next(iter(scores.values()))]
    first = [leaders(campaigns[s.suite], m) for s, m in zip(study.scores, metrics, strict=True)]
    lines = [
        "| | "
        + " | ".join(
            f"{s.title} {'↑' if m.better == 'higher' else '↓'}" for s, m in zip(study.scores, metrics, strict=True)
        )
        + " |",
        "|---" * (1 + len(study.scores)) + "|",
    ]
    for label, cells in scores.items():
        shown = [
            f"**{m.format(value)}**" if label in best else m.format(value)
            for (m, value), best in zip(cells, first, strict=True)
        ]
        lines.append(f"| {label} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main(leo: str, geo: str) -> None:
    replace(ROOT / "docs" / "reproduction.md", {"leo": table(Path(leo)), "geo": table(Path(geo))})
    replace(ROOT / "README.md", {"scorecard": card(studies.get("leo"), Path(leo))})
    for name, picture in PICTURES.items():
        (ROOT / "docs" / "images" / f"{name}.png").write_bytes((Path(leo) / picture).read_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
