"""The figures of each suite in a report, in order: by_suite.toml names them, this module draws them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from orbitcc.eval.figures import base, geo, grid, run
from orbitcc.eval.figures.front import draw_front
from orbitcc.eval.figures.style import Theme, lines_of
from orbitcc.eval.front import front, trade
from orbitcc.eval.results import Results
from orbitcc.eval.suites.geo import MARKS_MB, RTT_PERCENTILES
from orbitcc.eval.suites.responsiveness import PAYLOAD, SHOWCASE_RUN, SHOWCASE_WINDOW_S

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from orbitcc.envs.backends.simulator import Recording


@dataclass(frozen=True)
class SuiteFigure:
    """A figure of the results, drawn once per theme. folded: the page shows its title, a click shows the figure."""

    slug: str
    title: str
    caption: str
    draw: Callable[[Theme], Canvas]
    folded: bool = False


@dataclass(frozen=True)
class Drawing:
    """What a function draws: results, the row of the table, the metric that it names, and time series by label."""

    results: Results
    row: Mapping[str, Any]
    metric: Any
    shown: Mapping[str, Recording]

    def marks(self, panel: Any) -> dict[str, float]:
        given = self.row.get("marks", {}).items()
        return {name: 1 / float(panel) if value == "1 / panel" else value for name, value in given}


def figures_of(results: Results) -> Sequence[SuiteFigure]:
    """The figures of finished results: goodput against delay first."""
    table = _table()
    names = [vars(kind)["name"] for kind in type(results.suite).__mro__ if "name" in vars(kind)]
    rows: list[Any] = next((table[name] for name in names if name in table), [])
    first = [{"draw": "front"}] if trade(results) is not None and len(results.contenders) > 1 else []
    shown = results.recordings()
    return [figure for row in [*first, *rows] for figure in _figures(row, table["kinds"], results, shown)]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("by_suite.toml").read_text(encoding="utf-8"))


def _figures(
    row: Mapping[str, Any], kinds: Mapping[str, Any], results: Results, shown: Mapping[str, Recording]
) -> Iterator[SuiteFigure]:
    kind = kinds.get(row["draw"], {})
    if kind.get("recorded") and not shown:
        return
    metric = next((m for m in results.suite.metrics if m.key == row.get("metric")), None)
    start, end = SHOWCASE_WINDOW_S
    number = results.suite.first_run
    said: dict[str, Any] = {"runs": results.runs, "metric": metric, "start": start, "end": end}
    said |= {"first": number, "showcase": number + SHOWCASE_RUN - 1}
    said["own"] = row.get("caption", "").format(**said)
    each = [{label: recording} for label, recording in shown.items()] if kind.get("each") else [shown]
    for number, recordings in enumerate(each, start=1):
        said |= {"number": number, "label": ", ".join(recordings)}
        texts = {key: {**row, **kind}[key].format(**said) for key in ("slug", "title", "caption")}
        draw = partial(DRAW[row["draw"]], Drawing(results, row, metric, recordings))
        yield SuiteFigure(**texts, draw=draw, folded=kind.get("folded", False))


def _front(d: Drawing, theme: Theme) -> Canvas:
    measured = trade(d.results)
    assert measured is not None  # or the figure would not be among those of the results
    return draw_front(d.results, *measured, front(d.results), theme)


def _ecdf(d: Drawing, theme: Theme) -> Canvas:
    values = d.results.values("goodput_over_optimal")
    return base.draw_ecdf(values, lines_of(d.results), "goodput / optimal", theme, ceiling=PAYLOAD)


def _curves(d: Drawing, theme: Theme) -> Canvas:
    x, xlabel, panels = d.row["x"], d.row["xlabel"], d.row.get("panels")
    return grid.draw_curves(d.results, d.metric, x, xlabel, theme, panels=panels, marks=d.marks)


DRAW: Mapping[str, Callable[[Drawing, Theme], Canvas]] = {
    "front": _front,
    "ecdf": _ecdf,
    "curves": _curves,
    "map": lambda d, theme: grid.draw_map(d.results, d.metric, d.row["x"], theme),
    "ellipses": lambda d, theme: grid.draw_ellipses(d.results, d.row["x"], d.row["y"], d.row["panels"], theme),
    "flows": lambda d, theme: grid.draw_goodputs(d.shown, lines_of(d.results), theme),
    "sending_rate": lambda d, theme: base.draw_sending_rate(d.shown, lines_of(d.results), SHOWCASE_WINDOW_S, theme),
    "runs": lambda d, theme: run.draw_run(next(iter(d.shown.values())), theme, lines=lines_of(d.results)),
    "stacks": lambda d, theme: geo.draw_stacks(d.shown, lines_of(d.results), theme),
    "boxes": lambda d, theme: geo.draw_boxes(d.results, d.row["columns"], theme),
    "rtts": lambda d, theme: geo.draw_rtts(d.results, RTT_PERCENTILES, theme),
    "download_times": lambda d, theme: geo.draw_download_times(d.results, MARKS_MB, theme),
    "settings": lambda d, theme: geo.draw_settings(d.results, "hystart", MARKS_MB, theme),
    "buffers": lambda d, theme: geo.draw_buffers(d.results, theme),
}
