"""Writes the claims and the table of medians into the documents: `python -m benches.reproduction LEO_OUT GEO_OUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benches.pages import replace
from orbitcc.eval import papers
from orbitcc.eval.report import leaders

ROOT = Path(__file__).parents[1]
PICTURES = {
    "leo-inter-rtt": "inter-rtt/figures/goodput-ratio.png",
    "leo-efficiency": "efficiency/figures/ellipses.png",
}
"""Figures of the LEO paper for the documentation: name -> file in the output folder."""


def table(folder: Path) -> str:
    """The claims of a paper as a Markdown table."""
    rows = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    lines = ["| no. | claim | criterion | measured | result |", "|---|---|---|---|---|"]
    for row in rows:
        verdict = f"*{row['verdict']}*" if row["verdict"] != "holds" else "holds"
        verdict += f": {row['reason']}" if "reason" in row else ""
        cells = (row["key"], f"{row['statement']} ({row['source']})", row["expected"], row["measured"], verdict)
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    counts = {v: sum(row["verdict"] == v for row in rows) for v in ("holds", "fails", "undecidable")}
    decided = counts["holds"] + counts["fails"]
    return "\n".join(
        [f"{counts['holds']} of {decided} decidable claims hold; {counts['undecidable']} are undecidable.", "", *lines]
    )


def medians(paper: papers.Paper, folder: Path) -> str:
    """The medians of a paper's suites as a Markdown table; the best, and what is tied with it, is bold."""
    all_results = papers.load_paper(paper, folder)
    scores = papers.medians(paper, all_results)
    metrics = [metric for metric, _ in next(iter(scores.values()))]
    first = [leaders(all_results[s.suite], m) for s, m in zip(paper.scores, metrics, strict=True)]
    lines = [
        "| contender | "
        + " | ".join(
            f"{s.title} {'↑' if m.better == 'higher' else '↓'}" for s, m in zip(paper.scores, metrics, strict=True)
        )
        + " |",
        "|---" * (1 + len(paper.scores)) + "|",
    ]
    for label, cells in scores.items():
        shown = [
            f"**{m.format(value)}**" if label in best else m.format(value)
            for (m, value), best in zip(cells, first, strict=True)
        ]
        lines.append(f"| {label} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main(leo: str, geo: str) -> None:
    filled = {"leo": table(Path(leo)), "geo": table(Path(geo)), "leo-medians": medians(papers.get("leo"), Path(leo))}
    replace(ROOT / "docs" / "reproduction.md", filled)
    for name, picture in PICTURES.items():
        (ROOT / "docs" / "images" / f"{name}.png").write_bytes((Path(leo) / picture).read_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
