"""The text of docs/leaderboard.md, from the figures, questions.toml and page.md."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benches import pictures
from benches.leaderboard.board import (
    TARGET,
    Board,
    Entry,
    Possible,
    beaten_by,
    board_of,
    classical,
    columns,
    possible_of,
    share,
    trade,
)
from benches.leaderboard.figure import draw, unit_of
from benches.leaderboard.origin import Stamp
from orbitcc.common.files import atomic_write_text, read_toml
from orbitcc.envs.description.model import Model
from orbitcc.eval import suites
from orbitcc.eval.contenders import ORACLE
from orbitcc.eval.front import TIE, USES_THE_LINK
from orbitcc.eval.suites.base import Metric

FOLDER = Path(__file__).parent
PAGE = (FOLDER / "page.md").read_text(encoding="utf-8")
HEAT = (1.0, 2.5, 5.0, 8.0, 12.0)
"""Upper bounds of the shades of the overview."""
SOFT = re.compile("(?<=etrans)(?=mission)|(?<=hrough)(?=put)")
"""Where titles of columns may be hyphenated."""
KNOWING = f"{ORACLE} (knows rate, RTT and rivals)"
REFERENCE = "cubic"
"""Stands in every table, beside the contenders of a Pareto front."""


class Question(Model):
    """A table of the page. short: its column in the overview."""

    title: str
    short: str
    suites: dict[str, str]
    """Suite -> what happens in it."""
    note: str = ""
    table: bool = False
    """Whether the page shows the figures; those of all questions are in leaderboard.csv."""

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


class Words(Model):
    """questions.toml."""

    questions: tuple[Question, ...]
    factors: dict[str, str]
    """Factor of a suite's grid -> what readers call it."""
    names: dict[str, str]
    """Value of a factor -> what readers call it, where that differs."""
    missing: dict[str, str]
    """Metric -> why a run may have no value of it."""
    measured: Question
    """Where a trace set takes part."""
    possible: str
    """What the section on shares of the possible says above its table."""

    def asked(self, board: Board) -> list[Question]:
        """Those of which the board has a suite."""
        return [question for question in (*self.questions, self.measured) if set(question.suites) & set(board)]


WORDS = Words.build(read_toml(str(FOLDER / "questions.toml")))


def write(entries: Sequence[Entry], stamp: Stamp, page: Path) -> None:
    """The page and its figures."""
    board = board_of(entries)
    atomic_write_text(page, page_text(board, possible_of(entries), stamp))
    for suite in on_page(board):
        axes = trade(suite)
        if axes is not None:
            picture = page.parent / "images" / f"leaderboard-{suite}.png"
            pictures.write(draw(board[suite], suite, *axes), picture, max_bytes=40_000)


def on_page(board: Board) -> list[str]:
    """The suites in the order of the page."""
    return [suite for question in WORDS.asked(board) for suite in question.suites if suite in board]


def page_text(board: Board, possible: Possible, stamp: Stamp) -> str:
    """The whole page, from the figures and where they come from."""
    beaten = {suite: beaten_by(own, suite) for suite, own in board.items()}
    asked = WORDS.asked(board)
    names = list(next(iter(board.values())))
    return PAGE.format(
        contenders=len(names),
        others=len(names) - 1,
        suites=len(board),
        stamp=stamp,
        size={"quick": "smallest", "reduced": "second", "full": "largest"}[stamp.profile],
        command=stamp.command,
        overview=overview(asked, beaten, names),
        tie=f"{100 * TIE:g}",
        uses=f"{100 * USES_THE_LINK:g}",
        possible=f"{WORDS.possible}\n{shares(asked, board, possible, beaten)}\n\n" if possible else "",
        sections="".join(section(question, board, possible, beaten, stamp.profile) for question in asked),
    )


def mean_of(question: Question, beaten: Mapping[str, Mapping[str, int]], name: str) -> float:
    return float(np.mean([beaten[suite][name] for suite in question.suites if suite in beaten]))


def overall(asked: Sequence[Question], beaten: Mapping[str, Mapping[str, int]], name: str) -> float:
    """The mean over the questions."""
    return float(np.mean([mean_of(question, beaten, name) for question in asked]))


def overview(asked: Sequence[Question], beaten: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> str:
    """Contenders by questions, shaded."""
    cells = {name: [mean_of(question, beaten, name) for question in asked] for name in names}
    every = {name: overall(asked, beaten, name) for name in names}
    head = "".join(f'<th scope="col"><a href="#{q.anchor}">{q.short}</a></th>' for q in asked)
    lines = [f'<tr><th scope="col">contender</th><th scope="col">All</th>{head}</tr>']
    for name in sorted(names, key=lambda name: (every[name], name)):
        row = ""
        for question, value in zip(asked, cells[name], strict=True):
            front = any(beaten[suite][name] == 0 for suite in question.suites if suite in beaten)
            row += f'<td class="h{shade(value)}">{strong(f"{value:.1f}", front)}</td>'
        lines.append(f'<tr><th scope="row">{label(name)}</th><td>{every[name]:.1f}</td>{row}</tr>')
    return boxed(lines[:1], lines[1:], "lb heat")


def shade(value: float) -> int:
    """0 is the darkest."""
    return next((k for k, bound in enumerate(HEAT) if value < bound), len(HEAT))


def shares(asked: Sequence[Question], board: Board, possible: Possible, beaten: Mapping[str, Mapping[str, int]]) -> str:
    """Goodput and delay of the oracle, of the best classical controller in each, and of the best policy overall.

    The suites are those that measure both. Who leaves the link idle is not the best in delay.
    """
    names = list(next(iter(board.values())))
    rated = {name: overall(asked, beaten, name) for name in names if not classical(name)}
    policy = min(rated, key=lambda name: (rated[name], name), default=None)
    body: dict[str, str] = {}
    home = {suite: question.title for question in asked for suite in question.suites}
    for suite in on_page(board):
        if (axes := trade(suite)) is None or suite not in possible:
            continue
        own, row = board[suite], f'<th scope="row"><code>{suite}</code></th>'
        most = np.nanmax([cells[axes[0].key].median for cells in own.values()])
        busy = [name for name in own if own[name][axes[0].key].median >= USES_THE_LINK * most]
        for metric, able in zip(axes, ([*own], busy), strict=True):
            sign = -1 if metric.better == "higher" else 1
            known = {name: sign * own[name][metric.key].median for name in able if classical(name)}
            best = min(known, key=lambda name: (np.nan_to_num(known[name], nan=np.inf), name), default=None)
            row += f"<td class=first>{metric.format(possible[suite][metric.key].median)}</td>"
            for name in (best, policy):
                entry = None if name is None else own[name][metric.key]
                who = f"{label(best)} " if name is not None and name == best else ""
                row += f"<td>{who}{metric.format(entry.median)}{part(entry, possible)}</td>" if entry else "<td>–</td>"
        body[home[suite]] = f"{body.get(home[suite], '')}<tr>{row}</tr>"
    of = "".join(
        f'<th scope="col" class=first>oracle</th><th scope="col">best classical</th>'
        f'<th scope="col">{label(policy) if policy else "policy"}</th>'
        for _ in range(2)
    )
    kinds = "".join(f'<th colspan="3" scope="colgroup">{kind}</th>' for kind in ("goodput ↑", "delay ↓"))
    head = [f'<tr><th rowspan="2" scope="col">suite</th>{kinds}</tr>', f"<tr>{of}</tr>"]
    return boxed(head, list(body.values()), "lb")


def part(entry: Entry, possible: Possible) -> str:
    """The share of the possible, behind a figure; empty where there is none."""
    value = share(entry, possible)
    return "" if np.isnan(value) else f" <small>({value:.2f})</small>"


def section(
    question: Question, board: Board, possible: Possible, beaten: Mapping[str, Mapping[str, int]], profile: str
) -> str:
    """A question: its suites with their runs, its table if it has one, and its figures."""
    own = [suite for suite in question.suites if suite in board]
    lines = [f"## {question.title}", ""]
    lines += [f"- `{suite}` ({runs_of(suite, board, profile)}): {question.suites[suite]}" for suite in own]
    lines += ["", question.note] if question.note else []
    if question.table:
        lines += ["", *table(question, own, board, possible, beaten)]
    drawn = [
        f"![{alternative(beaten[suite], suite, *axes)}](images/leaderboard-{suite}.png)"
        for suite in own
        if (axes := trade(suite))
    ]
    lines += ["", *drawn] if drawn else []
    return "\n".join([*lines, "", ""])


def table(
    question: Question,
    own: Sequence[str],
    board: Board,
    possible: Possible,
    beaten: Mapping[str, Mapping[str, int]],
) -> list[str]:
    """The figures of the oracle, which is not ranked, of the contenders on a Pareto front of the question, of Cubic."""
    shown = [who for who in board[own[0]] if who == REFERENCE or any(beaten[suite][who] == 0 for suite in own)]
    names = sorted(shown, key=lambda name: (mean_of(question, beaten, name), name))
    over = "".join(f'<th colspan="{len(columns(suite))}" scope="colgroup">{suite}</th>' for suite in own)
    titles = "".join(
        f'<th scope="col"{" class=first" * (k == 0)} data-metric="{suite}/{metric.key}">{title(metric)}</th>'
        for suite in own
        for k, metric in enumerate(columns(suite))
    )
    head = [
        f'<tr><th rowspan="2" scope="col">contender</th><th rowspan="2" scope="col">Better rivals ↓</th>{over}</tr>',
        f"<tr>{titles}</tr>",
    ]
    notes: dict[str, str] = {}
    body = []
    for name in names:
        row = f'<th scope="row">{label(name)}</th><td>{mean_of(question, beaten, name):.1f}</td>'
        for suite in own:
            most = max(entry.runs for cells in board[suite].values() for entry in cells.values())
            for k, metric in enumerate(columns(suite)):
                entry = board[suite][name][metric.key]
                mark = noted(entry, metric, most, notes)
                figure = strong(figure_of(entry.median, metric), beaten[suite][name] == 0)
                row += f"<td{' class=first' * (k == 0)}>{figure}{mark}{part(entry, possible)}</td>"
        body.append(f"<tr>{row}</tr>")
    if any(suite in possible for suite in own):
        row = f'<th scope="row">{KNOWING}</th><td>–</td>'
        for suite in own:
            for k, metric in enumerate(columns(suite)):
                known = possible.get(suite, {}).get(metric.key)
                row += f"<td{' class=first' * (k == 0)}>{figure_of(known.median if known else np.nan, metric)}</td>"
        body.insert(0, f"<tr>{row}</tr>")
    said = [f"{mark} {text}." for text, mark in notes.items()]
    return [boxed(head, body, "lb"), *(["", *said] if said else [])]


def title(metric: Metric) -> str:
    """With the unit and the better direction."""
    better = f"→\u00a0{metric.ideal:g}" if metric.key in TARGET else {"higher": "↑", "lower": "↓"}[metric.better]
    unit = unit_of(metric)
    unit = f", {unit}" if unit else ""
    return html.escape(SOFT.sub("\u00ad", f"{metric.title}{unit}\u00a0{better}").replace(" / ", "\u00a0/ "))


def figure_of(value: float, metric: Metric) -> str:
    """A cell; its unit is in the header."""
    return "–" if np.isnan(value) else f"{100 * value if metric.percent else value:.{metric.decimals}f}"


def noted(entry: Entry, metric: Metric, most: int, notes: dict[str, str]) -> str:
    """The mark of a footnote, for a figure that is missing or rests on fewer runs than the others of its suite."""
    if entry.runs == most:
        return ""
    why = WORDS.missing.get(metric.key, "the run has no such value")
    text = (
        f"No run gives this value: {why}"
        if entry.runs == 0
        else f"From {entry.runs} of {most} runs; the others have none: {why}"
    )
    return notes.setdefault(text, f"<sup>{len(notes) + 1}</sup>")


def runs_of(suite: str, board: Board, profile: str) -> str:
    """`2 runs; base RTT in ms: 40, 120; buffer in BDP: 1`."""
    runs = max(entry.runs for cells in board[suite].values() for entry in cells.values())
    if suite in WORDS.measured.suites:
        return f"{runs} run{'s' * (runs != 1)}"
    points = suites.get(suite).points(profile)
    factors = {name: sorted({point[name] for point in points}, key=order) for name in points[0]}
    said = [f"{WORDS.factors[name]}: {', '.join(map(shown, values))}" for name, values in factors.items()]
    return "; ".join([f"{runs} run{'s' * (runs != 1)}", *said])


def shown(value: float | int | str) -> str:
    return WORDS.names.get(value, value) if isinstance(value, str) else f"{value:g}"


def order(value: float | int | str) -> tuple[float, str]:
    return (0.0, value) if isinstance(value, str) else (float(value), "")


def label(name: str) -> str:
    """A contender's name; learned policies are marked."""
    return html.escape(name) + ("" if classical(name) else " ◆")


def strong(text: str, bold: bool) -> str:
    return f"<b>{text}</b>" if bold else text


def boxed(head: Sequence[str], body: Sequence[str], name: str) -> str:
    """A table that scrolls by itself, its first column stays. The head is one line."""
    return "\n".join(
        [
            f'<div class="{name}" tabindex="0"><table><thead>{"".join(head)}</thead><tbody>',
            *body,
            "</tbody></table></div>",
        ]
    )


def alternative(beaten: Mapping[str, int], suite: str, goodput: Metric, delay: Metric) -> str:
    front = ", ".join(name for name, n in beaten.items() if n == 0)
    return f"{suite}: {goodput.title.lower()} against {delay.title.lower()}; on the Pareto front: {front}"
