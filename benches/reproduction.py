"""Writes the claims and the table of medians into the documents, from the folders of `orbitcc reproduce`.

    python -m benches.reproduction [--leo DRAW... [--tbf DRAW...]] [--geo DRAW...] [--c4 DRAW...]

Draws of one paper are judged together; the tables of papers without draws stay. tbf: draws of the LEO paper with
shaper=tbf, for a column of their own. Claims about Astraea need its policy in the draws (docs/reproduction.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benches.pages import replace
from orbitcc.eval import papers
from orbitcc.eval.claims import Claim, ClaimResult
from orbitcc.eval.papers import Paper
from orbitcc.eval.report import leaders
from orbitcc.eval.results import Results

ROOT = Path(__file__).parents[1]
PICTURES = {
    "leo-inter-rtt": "inter-rtt/figures/goodput-ratio.png",
    "leo-efficiency": "efficiency/figures/ellipses.png",
}
"""Figures of the LEO paper for the documentation: name -> file below the folder of `orbitcc reproduce`."""

Judged = Sequence[tuple[Claim, ClaimResult]]


def verdict(outcome: ClaimResult) -> str:
    """The verdict, in italics unless the claim holds, and what it is worth."""
    said = outcome.verdict if outcome.verdict == "holds" else f"*{outcome.verdict}*"
    return f"{said} (calibrated)" if outcome.calibrated else said


def met(outcome: ClaimResult) -> str:
    """The share of resamples in which the criterion is met."""
    return "–" if outcome.share is None else f"{100 * outcome.share:.1f} %"


def rows_of(lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |" for cells in lines]


def has_bucket(claim: Claim) -> bool:
    """Whether a suite that the claim reads can have a token bucket."""
    read = {value.suite for part in (claim, *claim.claims) for value in part.values.values() if value.suite}
    taken = papers.suites_of(papers.get("leo"), {"shaper": "tbf"})
    return any(taken[name].settings for name in read)


def table(judged: Judged, shaped: Judged = ()) -> str:
    """The claims of a paper as a Markdown table, and the undecidable ones in the notes below it only.

    shaped: the same claims with a token bucket.
    """
    others = {claim.key: outcome for claim, outcome in shaped}
    head = ["no.", "claim", "criterion", "measured", "met in", "result", *["with token bucket"] * bool(others)]
    lines = []
    for claim, outcome in judged:
        if outcome.verdict == "undecidable":
            continue
        cells = [claim.key, claim.said, claim.expected, outcome.measured, met(outcome)]
        cells.append(verdict(outcome))
        if others:
            other = others[claim.key]
            cells.append(f"{verdict(other)}, {met(other)}" if has_bucket(claim) else "–")
        lines.append(cells)
    reasons: dict[str, list[str]] = {}
    for claim, outcome in judged:
        if reason := outcome.calibrated or outcome.reason:
            reasons.setdefault(reason, []).append(claim.key)
    notes = ["", *(f"- {', '.join(keys)}: {reason}." for reason, keys in reasons.items())] if reasons else []
    counted = [f"{papers.counts(judged)}."]
    if shaped:
        counted.append(f"With the token bucket {papers.counts(shaped)}.")
    return "\n".join([" ".join(counted), "", *rows_of([head, ["---"] * len(head), *lines]), *notes])


def medians(paper: Paper, all_results: Mapping[str, Results]) -> str:
    """The medians of a paper's suites as a Markdown table; the best, and what is tied with it, is bold."""
    scores = papers.medians(paper, all_results)
    metrics = [metric for metric, _ in next(iter(scores.values()))]
    first = [leaders(all_results[s.suite], m) for s, m in zip(paper.scores, metrics, strict=True)]
    titles = [f"{s.title} {'↑' if m.better == 'higher' else '↓'}" for s, m in zip(paper.scores, metrics, strict=True)]
    lines = [["contender", *titles], ["---"] * (1 + len(titles))]
    for label, cells in scores.items():
        shown = [
            f"**{m.format(value)}**" if label in best else m.format(value)
            for (m, value), best in zip(cells, first, strict=True)
        ]
        lines.append([label, *shown])
    return "\n".join(rows_of(lines))


def loaded(paper: Paper, folders: Sequence[Path]) -> dict[str, Results]:
    return papers.together([papers.load_paper(paper, folder) for folder in folders])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("leo", "geo", "c4", "tbf"):
        parser.add_argument(f"--{name}", nargs="+", type=Path, default=[], metavar="FOLDER")
    given = parser.parse_args()
    filled = {}
    for name, folders in (("geo", given.geo), ("c4", given.c4)):
        if folders:
            filled[name] = table(papers.judge(papers.get(name), loaded(papers.get(name), folders)))
    if given.leo:
        leo = papers.get("leo")
        shaped = papers.judge(leo, loaded(leo, given.tbf)) if given.tbf else ()
        runs = loaded(leo, given.leo)
        filled |= {"leo": table(papers.judge(leo, runs), shaped), "leo-medians": medians(leo, runs)}
        for name, picture in PICTURES.items():
            (ROOT / "docs" / "images" / f"{name}.png").write_bytes((given.leo[0] / picture).read_bytes())
    replace(ROOT / "docs" / "reproduction.md", filled)


if __name__ == "__main__":
    main()
