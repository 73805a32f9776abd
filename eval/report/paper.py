"""One self-contained page for all experiments of a paper: medians, claims, every picture."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from orbitcc.common.files import MOST_TABLE, read_bytes
from orbitcc.eval.claims import Claim, ClaimResult
from orbitcc.eval.figures.style import THEMES, ThemeName
from orbitcc.eval.front import unused
from orbitcc.eval.papers import Paper, counts, medians
from orbitcc.eval.report import about, leaders, mark
from orbitcc.eval.report.page import coloured, picture, write_page
from orbitcc.eval.results import Results


def write_paper_report(
    paper: Paper,
    all_results: Mapping[str, Results],
    judged: Sequence[tuple[Claim, ClaimResult]],
    out_dir: str | os.PathLike[str],
    command: str,
) -> Path:
    """Write report.html into out_dir from the pictures that each suite's own report left in its folder."""
    return write_page(
        Path(out_dir) / "report.html",
        "paper",
        kicker="OrbitCC reproduction",
        title=paper.title,
        lead=_lead(all_results, judged),
        about=html.escape(paper.source),
        sortable=True,
        medians=_medians(paper, all_results),
        claims=_claims(judged),
        suites="\n".join(_suite(results) for results in all_results.values()),
        command=command,
        own_facts={},
    )


def _lead(all_results: Mapping[str, Results], judged: Sequence[tuple[Claim, ClaimResult]]) -> str:
    runs = sum(len(results.rows) for results in all_results.values())
    return f"Claims in {runs} runs: {counts(judged)}."


def _medians(paper: Paper, all_results: Mapping[str, Results]) -> str:
    head = "".join(
        f"<th scope=col>{html.escape(score.title)}<small>{html.escape(score.suite)}</small></th>"
        for score in paper.scores
    )
    table = medians(paper, all_results)
    marks = {score.suite: unused(all_results[score.suite]) for score in paper.scores}
    first = [
        leaders(all_results[score.suite], metric)
        for score, (metric, _) in zip(paper.scores, next(iter(table.values())), strict=True)
    ]
    rows = []
    for label, cells in table.items():
        columns = "".join(
            f'<td data-value="{value!r}" data-title="{html.escape(score.title)}"><span class="value">'
            f"{html.escape(metric.format(value))}</span>{_rank(label, top)}"
            f"{mark(label, metric, marks[score.suite])}</td>"
            for score, (metric, value), top in zip(paper.scores, cells, first, strict=True)
        )
        rows.append(f"<tr><th scope=row>{html.escape(label)}</th>{columns}</tr>")
    body = "\n".join(rows)
    return (
        f"<div class=card><table class=sortable><thead><tr><th scope=col>contender</th>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _rank(label: str, first: Sequence[str]) -> str:
    """Who is best, alone or among those whom the runs do not tell apart."""
    if label not in first:
        return ""
    return f"<span class=rank>{'best' if len(first) == 1 else 'tied best'}</span>"


def _claims(judged: Sequence[tuple[Claim, ClaimResult]]) -> str:
    head = "".join(f"<th scope=col>{title}</th>" for title in ("", "claim", "expected", "measured", "verdict"))
    rows = []
    for claim, outcome in judged:
        met = "" if outcome.share is None else f"met in {outcome.share:.1%} of resamples"
        fitted = f"calibrated: {outcome.calibrated}" if outcome.calibrated else ""
        why = "".join(f"<small>{html.escape(note)}</small>" for note in (outcome.reason, met, fitted) if note)
        quote = f"“{claim.quote}”" if claim.quote else ""
        cells = (
            html.escape(claim.key),
            f"{html.escape(claim.statement)}<small>{html.escape(' '.join((quote, claim.source)).strip())}</small>",
            html.escape(claim.expected),
            html.escape(outcome.measured),
            coloured(outcome.verdict) + why,
        )
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    body = "\n".join(rows)
    return f'<table class="sortable claims"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'


def _suite(results: Results) -> str:
    pictures = []
    from orbitcc.eval.figures.by_suite import figures_of  # matplotlib: only when something is drawn

    for figure in figures_of(results):
        if figure.folded:
            continue  # in the suite's own report
        files: dict[ThemeName, bytes] = {}
        for name in THEMES:
            suffix = "" if name == "light" else "-dark"
            files[name] = read_bytes(results.out_dir / "figures" / f"{figure.slug}{suffix}.png", MOST_TABLE)
        caption = f"<strong>{html.escape(figure.title)}.</strong> {html.escape(figure.caption)}"
        pictures.append(picture(files, figure.title, caption))
    text = html.escape(about(results))
    body = "\n".join(pictures)
    return f"<section>\n<h2>{html.escape(results.suite.title)}</h2>\n<p>{text}</p>\n{body}\n</section>"
