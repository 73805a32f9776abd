"""A figure of a suite: goodput against delay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from benches import labels
from benches.leaderboard.board import Entry, beaten_by, classical
from orbitcc.eval.figures import style
from orbitcc.eval.suites.base import Metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE_IN = (5.8, 5.0)
FONT = 12
BLUE, GREY = "#0B6BA8", "#8A929C"


def draw(own: Mapping[str, Mapping[str, Entry]], suite: str, goodput: Metric, delay: Metric) -> Figure:
    """Goodput against delay: a point and a name for each contender, who is on the front in blue."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    beaten = beaten_by(own, suite)
    known = {
        name: (cells[delay.key].median, cells[goodput.key].median)
        for name, cells in own.items()
        if not np.isnan([cells[delay.key].median, cells[goodput.key].median]).any()
    }
    theme = style.LIGHT
    with mpl.rc_context({**theme.rc(), "font.size": FONT, "xtick.labelsize": FONT, "ytick.labelsize": FONT}):
        figure = Figure(figsize=SIZE_IN, dpi=72)  # a pixel is a point
        ax = figure.add_axes((0.135, 0.12, 0.845, 0.8))
        x, y = (np.array(values) for values in zip(*known.values(), strict=True))
        if x.max() > 2.5 * x.min():
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 8)))
            ax.xaxis.set_minor_locator(mpl.ticker.NullLocator())
            ax.xaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_major_locator(mpl.ticker.MaxNLocator(7, steps=[1, 2, 5, 10]))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.margins(0.13, 0.16)
        colours = [BLUE if beaten[name] == 0 else GREY for name in known]
        for name, at_x, at_y, colour in zip(known, x, y, colours, strict=True):
            ax.plot(at_x, at_y, "o" if classical(name) else "D", color=colour, markersize=7, zorder=3)
        ax.set_title(suite, fontsize=FONT + 2)
        ax.set_xlabel(f"{delay.title}{', ' + unit_of(delay) if unit_of(delay) else ''}  (← better)", fontsize=FONT)
        ax.set_ylabel(
            f"{goodput.title}{', ' + unit_of(goodput) if unit_of(goodput) else ''}  (better →)", fontsize=FONT
        )
        figure.draw_without_rendering()  # fixes the limits of the axes
        points = ax.transData.transform(np.column_stack([x, y]))
        texts = [figure.text(0, 0, name, fontsize=FONT - 1.5, ha="center", va="center", zorder=4) for name in known]
        sizes = np.array([(box.width + 8, box.height) for box in (text.get_window_extent() for text in texts)])
        middles = labels.place(points, sizes, ax.get_window_extent().extents)
        whole = 72 * np.array(SIZE_IN)
        for text, middle, size, point, colour in zip(texts, middles, sizes, points, colours, strict=True):
            text.set(position=middle / whole, color=theme.muted if colour == GREY else colour)
            edge = point + (middle - point) * labels.reach(middle - point, size)
            if np.hypot(*(edge - point)) > 10:
                way = np.array([point, edge]) / whole
                figure.add_artist(mpl.lines.Line2D(*way.T, color=theme.edge, linewidth=0.8, zorder=2))
    return figure


def unit_of(metric: Metric) -> str:
    return metric.unit.strip()
