"""One self-contained page for all experiments of a paper: scorecard, claims, every picture."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from orbitcc.eval.campaign import Campaign
from orbitcc.eval.figures.style import THEMES, ThemeName
from orbitcc.eval.findings import Finding, Outcome
from orbitcc.eval.report import leaders
from orbitcc.eval.report.page import picture, write_page
from orbitcc.eval.studies import Study, scorecard


def write_study_report(
    study: Study,
    campaigns: Mapping[str, Campaign],
    judged: Sequence[tuple[Finding, Outcome]],
    out_dir: str | os.PathLike[str],
    command: str,
) -> Path:
    """Write report.html into out_dir from the pictures that each suite's own report left in its folder."""
    return write_page(
        Path(out_dir) / "report.html",
        "study",
        kicker="OrbitCC reproduction",
        title=study.title,
        lead=_lead(campaigns, judged),
        about=study.source,
        sortable=True,
        scorecard=_scorecard(study, campaigns),
        findings=_findings(judged),
        suites="\n".join(_suite(campaign) for campaign in campaigns.values()),
        command=command,
        own_facts={},
    )


def _lead(campaigns: Mapping[str, Campaign], judged: Sequence[tuple[Finding, Outcome]]) -> str:
    counts = {verdict: sum(o.verdict == verdict for _, o in judged) for verdict in ("holds", "fails", "undecidable")}
    runs = sum(len(campaign.rows) for campaign in campaigns.values())
    return (
        f"<strong>{counts['holds']}</strong> of {counts['holds'] + counts['fails']} decidable claims hold in {runs} "
        f"runs; {counts['undecidable']} cannot be decided here."
    )


def _scorecard(study: Study, campaigns: Mapping[str, Campaign]) -> str:
    head = "".join(
        f"<th scope=col>{html.escape(score.title)}<small>{html.escape(score.suite)}</small></th>"
        for score in study.scores
    )
    card = scorecard(study, campaigns)
    first = [
        leaders(campaigns[score.suite], metric)
        for score, (metric, _) in zip(study.scores, next(iter(card.values())), strict=True)
    ]
    rows = []
    for label, cells in card.items():
        columns = "".join(
            f'<td data-value="{value!r}" data-title="{html.escape(score.title)}"><span class="value">'
            f"{html.escape(metric.format(value))}</span>{_rank(label, top)}</td>"
            for score, (metric, value), top in zip(study.scores, cells, first, strict=True)
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


def _findings(judged: Sequence[tuple[Finding, Outcome]]) -> str:
    head = "".join(f"<th scope=col>{title}</th>" for title in ("", "claim", "expected", "measured", "verdict"))
    rows = []
    for finding, outcome in judged:
        why = f"<small>{html.escape(outcome.reason)}</small>" if outcome.reason else ""
        cells = (
            html.escape(finding.key),
            f"{html.escape(finding.claim)}<small>{html.escape(finding.source)}</small>",
            html.escape(finding.expected),
            html.escape(outcome.measured),
            f'<span class="{outcome.verdict}">{outcome.verdict}</span>{why}',
        )
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    body = "\n".join(rows)
    return f'<table class="sortable claims"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'


def _suite(campaign: Campaign) -> str:
    pictures = []
    from orbitcc.eval.figures.by_suite import figures_of  # matplotlib: only when something is drawn

    for figure in figures_of(campaign):
        if figure.folded:
            continue  # in the suite's own report
        files: dict[ThemeName, bytes] = {}
        for name in THEMES:
            suffix = "" if name == "light" else "-dark"
            files[name] = (campaign.out_dir / "figures" / f"{figure.slug}{suffix}.png").read_bytes()
        caption = f"<strong>{html.escape(figure.title)}.</strong> {html.escape(figure.caption)}"
        pictures.append(picture(files, figure.title, caption))
    text = html.escape(campaign.suite.description)
    body = "\n".join(pictures)
    return f"<section>\n<h2>{html.escape(campaign.suite.title)}</h2>\n<p>{text}</p>\n{body}\n</section>"
