"""Goodput against delay: medians, ellipses over the runs, and the front."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from orbitcc.common import names
from orbitcc.eval.figures import style
from orbitcc.eval.figures.grid import ellipse
from orbitcc.eval.figures.style import Theme
from orbitcc.eval.results import Results
from orbitcc.eval.suites.base import Metric


def draw_front(results: Results, goodput: Metric, delay: Metric, on_it: list[str], theme: Theme) -> Figure:
    """Delay decreases to the left, goodput increases upwards; a dashed line joins the contenders on the front."""
    lines = style.lines_of(results)
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(8, 4.8))
        ax = figure.subplots()
        figure.subplots_adjust(left=0.085, right=0.97, top=0.86, bottom=0.115)
        medians = {}
        for label in results.labels:
            colour = theme.tone(lines[label].colour)
            x, y = (np.array(results.values(metric.key)[label]) for metric in (delay, goodput))
            known = ~(np.isnan(x) | np.isnan(y))
            x, y = x[known], y[known]
            if not x.size:
                continue
            medians[label] = (float(np.median(x)), float(np.median(y)))
            if x.size > 2:
                ax.add_patch(ellipse(x, y, colour))
            ax.plot(*medians[label], "o", color=colour, markersize=7, label=names.figure(label), zorder=4)
            if label in on_it:
                ax.plot(*medians[label], "o", markersize=13, markerfacecolor="none", markeredgecolor=colour, zorder=5)
        edge = np.array(sorted(medians[label] for label in on_it if label in medians))
        if len(edge) > 1:
            ax.plot(*edge.T, color=theme.muted, linestyle=(0, (4, 3)), linewidth=1.1, zorder=2)
        ax.set_xlabel(_axis(delay))
        ax.set_title(_axis(goodput), pad=10)
        ax.legend(loc="upper right", bbox_to_anchor=(1.01, 1.165), ncols=min(len(medians), 5), handlelength=1.2)
    return figure


def _axis(metric: Metric) -> str:
    unit = metric.unit.strip()
    return metric.title if unit in ("", "×", "%") else f"{metric.title}, {unit}"
