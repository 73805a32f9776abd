"""One self-contained page per results: numbers, pictures, and how to make them again."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitcc.common.files import atomic_write_bytes
from orbitcc.common.numbers import counted
from orbitcc.eval.contenders import Contender
from orbitcc.eval.figures.style import DARK, THEMES, ThemeName, lines_of
from orbitcc.eval.front import SHARES, USES_THE_LINK, front, idle, idle_by_share, unused
from orbitcc.eval.report.page import coloured, picture, words, write_page
from orbitcc.eval.results import Results
from orbitcc.eval.statistics import MIN_PAIRS, Estimate, median_estimate, paired_difference, verdict
from orbitcc.eval.suites.base import Metric

if TYPE_CHECKING:
    from orbitcc.eval.figures.by_suite import SuiteFigure


def write_report(results: Results, notes: Sequence[str] = ()) -> Path:
    """Draw the results' figures (in figures/) and write report.html beside them; returns the page's path.

    notes: plain sentences a reader must know, shown with the command.
    """
    pictures, description = [], results.suite.description
    from orbitcc.eval.figures.by_suite import figures_of  # matplotlib: only when something is drawn

    for figure in figures_of(results):
        files: dict[ThemeName, bytes] = {}
        for name, theme in THEMES.items():
            from orbitcc.eval.figures.base import render

            files[name] = render(figure.draw(theme))
            suffix = "" if name == "light" else "-dark"
            atomic_write_bytes(results.out_dir / "figures" / f"{figure.slug}{suffix}.png", files[name])
        pictures.append((figure.slug, _picture(figure, files)))
    return write_page(
        results.out_dir / "report.html",
        "results",
        kicker="OrbitCC evaluation",
        title=results.suite.title,
        lead=_lead(results),
        about=html.escape(about(results).removesuffix(description)) + words(description),
        runs=html.escape(pairs(results)),
        table=_table(results),
        table_note=_table_note(results),
        levels=_levels(results),
        differences=_differences(results),
        front="\n".join(shown for slug, shown in pictures if slug == "front"),
        figures="\n".join(shown for slug, shown in pictures if slug != "front"),
        notes="\n".join(f'<p class="warning">{html.escape(note)}</p>' for note in notes),
        command=results.command,
        own_facts=_facts(results),
        definitions="\n".join(
            f"<dt>{html.escape(m.title)}</dt><dd>{words(m.definition)}; {m.better} is better.</dd>"
            for m in results.suite.metrics
        ),
        source=words(results.suite.source),
        folders="".join(
            f", <code>{name}/</code> ({what})"
            for name, what in {"figures": "these pictures", "series": "the time series behind them"}.items()
            if (results.out_dir / name).is_dir()
        ),
    )


OVER_ALL = "medians over all scenarios; their spread is that between the scenarios"
"""What the first rows of tables are that also have rows for each level of a factor."""


def _runs(count: int) -> str:
    return counted(count, "run")


def pairs(results: Results) -> str:
    """How many runs each contender has, under all conditions together."""
    conditions = len(results.points())
    each = f" under each of {conditions} conditions, {results.runs * conditions} in all" if conditions > 1 else ""
    return f"{_runs(results.runs)} per contender{each}"


def about(results: Results) -> str:
    """What was run: the suite in words, after the conditions of these results where they are not those of the suite."""
    suite, points = results.suite, results.points()
    if points == list(suite.grid("full")) and not results.levels():
        own = ""
    else:
        levels = {factor: list(dict.fromkeys(str(point[factor]) for point in points)) for factor in points[0]}
        shown = ", ".join(results.levels())
        own = "; ".join(
            shown if factor == suite.by else f"{factor} {', '.join(values)}" for factor, values in levels.items()
        )
    fixed = ", ".join(f"{key} = {value}" for key, value in suite.settings.items() if key not in points[0])
    own = "; ".join(part for part in (own, fixed) if part)
    return (
        f"Conditions of this evaluation: {own}. The suite as a whole: {suite.description}" if own else suite.description
    )


def leaders(results: Results, metric: Metric, **factors: Any) -> list[str]:
    """Who has the best median, then everyone whom the runs do not tell apart from it. Empty with too few runs.

    Paired by run, nobody is better than the first, and the interval of the others' difference to it holds zero. At
    other things than goodput nobody leads who leaves the link idle. Nobody leads without a value in each run.
    factors: only at points with these.
    """
    out = set() if results.suite.trade is None or metric.key == results.suite.trade[0] else idle(results, **factors)
    out |= set(results.gaps(metric.key, **factors))
    runs = {c.label: results.by_case(c, metric.key, **factors) for c in results.contenders if c.label not in out}
    sign = -1 if metric.better == "higher" else 1
    medians = {label: median_estimate(own.values()) for label, own in runs.items()}
    ranked = sorted((label for label, e in medians.items() if e.has_interval), key=lambda k: sign * medians[k].median)
    if len(ranked) < 2:
        return []

    def against(other: str, first: str) -> str:
        return verdict(paired_difference(runs[other], runs[first]), metric.better)

    best = ranked[0]
    for other in ranked[1:]:
        best = other if against(other, best) == "better" else best
    return [best, *(other for other in ranked if other != best and against(other, best) == "tied")]


def _lead(results: Results) -> str:
    """What came out: who is on the front of goodput against delay, then a sentence per metric."""
    estimates, marks = results.estimates(), unused(results)
    sentences = []

    def strong(label: str) -> str:
        return f"<strong>{html.escape(label)}</strong>"

    def marked(label: str, metric: Metric) -> str:
        return strong(label) + (f" ({_uses(marks[label])})" if label in marks and metric.key not in SHARES else "")

    on_it = front(results)
    if on_it:
        sentences.append(f"On the front of goodput against delay: {' and '.join(map(strong, on_it))}.")
    decided = False
    for m in results.suite.metrics:
        first = leaders(results, m) if len(estimates) > 1 else []
        decided = decided or bool(first)
        left_out = results.suite.trade is not None and m.key != results.suite.trade[0] and idle(results)
        of_what = (
            "that use at least {} of the link" if idle_by_share(results) else "with at least {} of the best goodput"
        )
        among = " of the contenders " + of_what.format(f"{100 * USES_THE_LINK:.0f} %")
        among = among if left_out else ""
        if len(first) > 1:
            names = " and ".join(marked(label, m) for label in first)
            said = f"{names} are tied best{among} at about {m.format(estimates[first[0]][m.key].median)}"
        elif first:
            said = f"{marked(first[0], m)} is best{among} with {m.format(estimates[first[0]][m.key].median)}"
        else:
            said = ", ".join(f"{marked(k, m)} {m.format(e[m.key].median)}" for k, e in estimates.items())
        sentences.append(f"{html.escape(m.title)}: {said}.")
    if len(estimates) > 1 and not decided:
        sentences.append(f"Fewer than {MIN_PAIRS} runs per contender do not tell contenders apart.")
    return " ".join(sentences)


def lacking(results: Results) -> list[str]:
    """A sentence for each contender that has a metric in some of its runs only."""
    found = {metric.title: results.gaps(metric.key) for metric in results.suite.metrics}
    return [
        f"{title}: {label} has a value in {there} of {_runs(of)}"
        for title, gaps in found.items()
        for label, (there, of) in gaps.items()
    ]


def mark(label: str, metric: Metric, shares: Mapping[str, float]) -> str:
    """What stands beside a figure of a contender that leaves a fifth of the link unused (`front.unused`)."""
    if label not in shares or metric.key in SHARES:
        return ""
    return f'<span class="idle">{_uses(shares[label])}</span>'


def _uses(share: float) -> str:
    return f"uses {100 * share:.0f} % of the link"


def _who(results: Results, contender: Contender, tag: str, content: str) -> str:
    colour = lines_of(results)[contender.label].colour
    return f'<{tag} class="who" style="--light:{colour};--dark:{DARK.tone(colour)}">{content}</{tag}>'


def _name(contender: Contender) -> str:
    return f'<span class="swatch"></span>{html.escape(contender.label)}'


def _levels(results: Results) -> str:
    """A table for each level of the factor that the suite names, as over all runs."""
    tables = [f"<h3>{html.escape(level)}</h3>\n{_table(results, **at)}" for level, at in results.levels().items()]
    if len(tables) < 2:
        return ""
    return "<section>\n<h2>Each scenario</h2>\n" + "\n".join(tables) + "\n</section>"


def _table(results: Results, **factors: Any) -> str:
    """The figures of the runs at points with these factors."""
    estimates, marks = results.estimates(**factors), unused(results, **factors)
    first = {m.key: leaders(results, m, **factors) for m in results.suite.metrics}
    head = "".join(
        f"<th scope=col>{html.escape(m.title)}<small>{m.better} is better</small></th>" for m in results.suite.metrics
    )
    rows = []
    for c in results.contenders:
        cells = [_who(results, c, "th", _name(c)).replace("<th ", "<th scope=row ", 1)]
        for m in results.suite.metrics:
            estimate = estimates[c.label][m.key]
            content = f'<span class="value">{html.escape(m.format(estimate.median))}</span>'
            if len(estimates) > 1 and c.label in first[m.key]:
                content += f'<span class="rank">{"best" if len(first[m.key]) == 1 else "tied best"}</span>'
            content += mark(c.label, m, marks)
            if estimate.has_interval:
                content += f'<span class="range">{_between(m, estimate)}</span>'
                content += _track(m, estimate, [e[m.key] for e in estimates.values()])
            cell = _who(results, c, "td", content)
            cells.append(cell.replace("<td ", f'<td data-title="{html.escape(m.title)}" ', 1))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    return f"<table><thead><tr><th scope=col></th>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def _between(metric: Metric, estimate: Estimate) -> str:
    return html.escape(f"{metric.format(estimate.low)} – {metric.format(estimate.high)}")


def _track(metric: Metric, own: Estimate, everyone: Sequence[Estimate]) -> str:
    """Median and interval on an axis that all contenders share and that reaches the ideal value."""
    ends = [metric.ideal, *(end for e in everyone if e.has_interval for end in (e.low, e.high))]
    low, span = min(ends), (max(ends) - min(ends)) or 1.0
    left, middle, right = (100 * (x - low) / span for x in (own.low, own.median, own.high))
    return (
        f'<span class="track" aria-hidden="true"><i style="left:{left:.1f}%;width:{right - left:.1f}%"></i>'
        f'<b style="left:{middle:.1f}%"></b></span>'
    )


def _table_note(results: Results) -> str:
    most = max(e.n for own in results.estimates().values() for e in own.values())
    note = (
        f"Below each median of {MIN_PAIRS} runs or more, its 95 % bootstrap interval; dot and bar show both on a "
        "shared axis. “Tied best”: paired by run, the interval of the difference to the best holds zero."
        if most >= MIN_PAIRS
        else f"With fewer than {MIN_PAIRS} runs per contender there is no interval, and nobody is best: even if all of "
        "them point the same way, that is chance in more than 5 % of cases."
    )
    if len(results.levels()) > 1:
        note += f" Here: {OVER_ALL}."
    if results.suite.window:
        note += f" Figures are of {results.suite.window}."
    if any(unused(results, **at) for at in ({}, *results.levels().values())):
        note += (
            " Who uses less than 80 % of the link has a mark: where capacity is left over, equal shares and short "
            "queues are no merit."
        )
    if gaps := lacking(results):
        said = "; ".join(html.escape(gap) for gap in gaps)
        note += f" {said}. Their medians are over the runs with a value, and they are not called best."
    return note


def _differences(results: Results) -> str:
    """Each other contender against the first, run by run under the same conditions."""
    first, rows = results.contenders[0], []
    differences = results.differences()
    if all(d.n < 2 for own in differences.values() for d in own.values()):
        return ""
    for c in results.contenders[1:]:
        cells = []
        for m in results.suite.metrics:
            d = differences[c.label][m.key]
            scale, unit = (100, " points") if m.percent else (1, m.unit)
            low, middle, high = (f"{scale * x:+.{m.decimals}f}".replace("-", "−") for x in (d.low, d.median, d.high))
            interval = f'<span class="range">{low} to {high}</span>' if d.has_interval else ""
            cells.append(
                f'<td data-title="{html.escape(m.title)}"><span class="value">{middle}{unit}</span> '
                f"{coloured(verdict(d, m.better))}{interval}</td>"
            )
        who = _who(results, c, "th", _name(c)).replace("<th ", "<th scope=row ", 1)
        rows.append(f"<tr>{who}{''.join(cells)}</tr>")
    head = "".join(f"<th scope=col>{html.escape(m.title)}</th>" for m in results.suite.metrics)
    return (
        f"<section>\n<h2>Against {html.escape(first.label)}, run by run</h2>\n"
        f"<table><thead><tr><th scope=col></th>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table>\n"
        '<p class="note">Median of the differences under the same conditions and its 95 % bootstrap interval; '
        f"“tied” where the interval holds zero, “too few runs” below {MIN_PAIRS}.</p>\n</section>"
    )


def _picture(figure: SuiteFigure, files: Mapping[ThemeName, bytes]) -> str:
    title = html.escape(figure.title)
    shown = picture(files, figure.title, html.escape(figure.caption))
    if figure.folded:
        return f"<details><summary>{title}</summary>{shown}</details>"
    return f"<section>\n<h2>{title}</h2>\n{shown}\n</section>"


def _facts(results: Results) -> dict[str, str]:
    seeds = sorted({row["seed"] for row in results.rows})
    return {
        "profile": f"{results.profile}, {_runs(results.runs)} per contender",
        "seeds": f"{seeds[0]}–{seeds[-1]}" if len(seeds) > 1 else str(seeds[0]),
    }
