"""Writes the tables of docs/reproduction.md from campaigns: `python -m benches.reproduction LEO_OUT GEO_OUT`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from orbitcc.envs.files import atomic_write_text

DOC = Path(__file__).parents[1] / "docs" / "reproduction.md"


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


def main(leo: str, geo: str) -> None:
    text = DOC.read_text(encoding="utf-8")
    for name, folder in (("leo", leo), ("geo", geo)):
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        text = re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{table(Path(folder))}\n{end}", text, flags=re.DOTALL)  # noqa: B023
    atomic_write_text(DOC, text)


if __name__ == "__main__":
    main(*sys.argv[1:])
