"""Pictures of the results over a grid of conditions: maps, curves, ellipses, goodput over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from orbitcc.common import names
from orbitcc.eval.figures import style
from orbitcc.eval.figures.base import narrowest, outages, staircase
from orbitcc.eval.statistics import pooled

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.envs.description.model import Points
    from orbitcc.eval.figures.style import Line, Theme
    from orbitcc.eval.results import Results
    from orbitcc.eval.suites.base import Metric


def levels(results: Results, factor: str) -> list[Any]:
    """The values of a factor, in the order of the grid."""
    return list(dict.fromkeys(point[factor] for point in results.points() if factor in point))


def draw_map(results: Results, metric: Metric, factor: str, theme: Theme) -> Figure:
    """Contenders against the values of a factor; the better, the fuller the colour.

    Where runs keep the spread over their seconds, the mean over all seconds, else the median over runs.
    """
    columns, labels = levels(results, factor), results.labels
    values = np.array(
        [[_cell(results, label, metric, {factor: c}) for c in columns] for label in labels], dtype=np.float64
    )
    scale = 100.0 if metric.percent else 1.0
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(1.9 + 1.12 * len(columns), 1.0 + 0.44 * len(labels)))
        ax = figure.subplots()
        low, high = np.nanmin(values), np.nanmax(values)
        better = values if metric.better == "higher" else low + high - values
        colours = LinearSegmentedColormap.from_list("", [theme.area, theme.tone("#0072B2")])
        ax.imshow(better, cmap=colours, norm=Normalize(low, high if high > low else low + 1), aspect="auto")
        for (i, k), value in np.ndenumerate(values):
            full = high > low and (better[i, k] - low) / (high - low) > 0.55
            ink = theme.page if full else theme.ink
            text = "–" if np.isnan(value) else f"{scale * value:.{metric.decimals if metric.decimals < 3 else 2}f}"
            ax.text(k, i, text, ha="center", va="center", color=ink, fontsize=9.5)
        ax.set_xticks(
            range(len(columns)), [names.figure(str(c).upper()) if isinstance(c, str) else f"{c:g}" for c in columns]
        )
        ax.set_yticks(range(len(labels)), [names.figure(label) for label in labels])
        ax.tick_params(length=0)
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
        unit = metric.unit.strip()
        ax.set_title(f"{metric.title}{f', {unit}' if unit and unit != '×' else ''}", pad=8)
        figure.tight_layout()
    return figure


def draw_curves(
    results: Results,
    metric: Metric,
    factor: str,
    xlabel: str,
    theme: Theme,
    *,
    panels: str | None = None,
    marks: Callable[[Any], Mapping[str, float]] | None = None,
) -> Figure:
    """A metric against a factor, a line per contender, one panel per value of another factor.

    Where runs keep the spread over their seconds (`<metric>_sd`, `seconds`), points are pooled over seconds, bars are
    one standard deviation; else they are means over runs with bars from least to most. marks: lines to compare with.
    """
    rows: list[Any] = levels(results, panels) if panels else [None]
    x = np.array(levels(results, factor), dtype=np.float64)
    nudge = (x.max() - x.min()) / (60 * max(len(results.labels), 1)) if x.size > 1 else 0.0
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(max(4.2 * len(rows), 7.0), 4.0))
        axes = np.atleast_1d(figure.subplots(1, len(rows), sharey=True))
        for ax, row in zip(axes, rows, strict=True):
            where = {} if panels is None else {panels: row}
            for i, label in enumerate(results.labels):
                line = style.lines_of(results)[label]
                points = np.array([_point(results, label, metric, {**where, factor: _own(v)}) for v in x])
                offset = (i - (len(results.labels) - 1) / 2) * nudge
                bars = np.abs(points[:, 1:].T - points[:, 0])
                ax.errorbar(
                    x + offset, points[:, 0], yerr=bars, label=names.figure(label), color=theme.tone(line.colour),
                    linestyle=line.dashes, marker="o", markersize=3.6, linewidth=1.6, elinewidth=0.8, capsize=1.5,
                )  # fmt: skip
            for name, value in (marks(row) if marks else {}).items():
                ax.axhline(value, color=theme.edge, linewidth=1.1, linestyle=(0, (4, 2)), zorder=1)
                ax.text(
                    0.99, value, names.figure(name), transform=ax.get_yaxis_transform(), ha="right", va="bottom",
                    fontsize=8, color=theme.muted,
                    bbox={"facecolor": theme.page, "edgecolor": "none", "pad": 1, "alpha": 0.7},
                )  # fmt: skip
            if panels is not None:
                ax.set_title(f"{panels.replace('_', ' ')} = {row:g}")
            ax.set_xticks(x, [f"{v:g}" for v in x])
            ax.set_xlabel(xlabel)
            ax.set_ylim(bottom=0)
        axes[0].set_ylabel(f"{metric.title}{metric.unit if metric.unit.strip() != '×' else ''}")
        height = figure.get_figheight()
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="upper left", ncols=min(len(results.labels), 7), handlelength=1.8
        )
        figure.subplots_adjust(
            left=0.07 if len(rows) > 1 else 0.09, right=0.985, top=1 - (0.72 if panels else 0.45) / height,
            bottom=0.5 / height, wspace=0.08,
        )  # fmt: skip
    return figure


def draw_ellipses(results: Results, x: str, y: str, factor: str, theme: Theme) -> Figure:
    """Means of two metrics over the runs with the ellipse of one standard deviation, a panel per value of a factor."""
    rows = levels(results, factor)
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(max(4.0 * len(rows), 6.0), 4.1))
        axes = np.atleast_1d(figure.subplots(1, len(rows), sharex=True, sharey=True))
        for ax, row in zip(axes, rows, strict=True):
            for label in results.labels:
                colour = theme.tone(style.lines_of(results)[label].colour)
                a, b = (np.array(results.values(key, **{factor: row})[label]) for key in (x, y))
                resent = np.array(results.values("retransmitted_mbps", **{factor: row})[label]) / 100.0
                ax.plot(a.mean(), b.mean(), "o", color=colour, label=names.figure(label), markersize=6)
                ax.plot([a.mean()] * 2, [b.mean(), b.mean() - resent.mean()], color=colour, alpha=0.35, linewidth=3)
                if a.size > 2:
                    ax.add_patch(ellipse(a, b, colour))
            ax.set_title(f"{row:g} {factor}")
            ax.set_xlabel("delay ratio")
        axes[0].set_ylabel("goodput of all / bandwidth")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="upper left", ncols=min(len(results.labels), 7))
        figure.subplots_adjust(left=0.11 if len(rows) == 1 else 0.065, right=0.985, top=0.82, bottom=0.125, wspace=0.07)
    return figure


def draw_goodputs(recordings: Mapping[str, Recording], lines: Mapping[str, Line], theme: Theme) -> Figure:
    """Goodput of every flow over the bandwidth there was, one row per contender, 1-s means."""
    rows = len(recordings)
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 0.8 + 1.45 * rows))
        axes = np.atleast_1d(figure.subplots(rows, 1, sharex=True, sharey=True))
        height = figure.get_figheight()
        figure.subplots_adjust(left=0.055, right=0.98, top=1 - 0.32 / height, bottom=0.5 / height, hspace=0.22)
        for ax, (label, recording) in zip(axes, recordings.items(), strict=True):
            scenario = recording.scenario
            link = narrowest(recording)
            stairs: Points = () if link is None else _points(scenario.links[link].rate_mbps)
            staircase(ax, stairs, scenario.duration_s, theme)
            t, goodput = _by_second(recording)
            controllers = [flow.controller.name for flow in scenario.flows]
            for i, colour in enumerate(style.flow_colours(controllers, theme)):
                ax.plot(t, goodput[:, i], color=colour, linewidth=1.5)
            for at, _ in outages(recording):
                ax.axvline(at, color=theme.outage, linewidth=0.6, alpha=0.35, zorder=1)
            ax.text(
                0.008, 0.93, names.figure(label), transform=ax.transAxes, color=theme.tone(lines[label].colour),
                weight="bold", va="top", fontsize=10,
                bbox={"facecolor": theme.area, "edgecolor": "none", "pad": 1.5, "alpha": 0.8},
            )  # fmt: skip
            ax.set_xlim(0, scenario.duration_s)
        axes[0].set_title("Goodput, Mbit/s", pad=6)
        axes[-1].set_xlabel("seconds")
    return figure


def _points(value: Any) -> Points:
    from orbitcc.envs.description.model import points_of

    return points_of(value)


def _by_second(recording: Recording) -> tuple[np.ndarray, np.ndarray]:
    """Middles of seconds and mean goodputs in them."""
    goodput = recording.flows["goodput_mbps"]
    per = max(round(1.0 / float(recording.t_s[0])), 1)
    whole = goodput.shape[0] // per
    means = goodput[: whole * per].reshape(whole, per, -1).mean(axis=1)
    return np.arange(whole) + 0.5, means


def _own(value: float) -> float | int:
    return int(value) if float(value).is_integer() else float(value)


def _cell(results: Results, label: str, metric: Metric, where: Mapping[str, Any]) -> float:
    """The mean over the seconds of all runs where runs keep their spread, else the median over runs."""
    if _over_seconds(results, label, metric, where):
        return _point(results, label, metric, where)[0]
    known = [v for v in results.values(metric.key, **where)[label] if v == v]
    return float(np.median(known)) if known else float("nan")


def _over_seconds(results: Results, label: str, metric: Metric, where: Mapping[str, Any]) -> bool:
    """Do runs keep the metric's spread over their seconds?"""
    return any(sd == sd for sd in results.values(f"{metric.key}_sd", **where)[label])


def _point(results: Results, label: str, metric: Metric, where: Mapping[str, Any]) -> tuple[float, float, float]:
    """Mean, and the ends of its bar."""
    means = results.values(metric.key, **where)[label]
    if _over_seconds(results, label, metric, where):
        deviations, seconds = (results.values(key, **where)[label] for key in (f"{metric.key}_sd", "seconds"))
        mean, sd = map(float, pooled(means, deviations, seconds))
        return mean, max(mean - sd, 0.0), mean + sd
    known = [m for m in means if m == m]
    if not known:
        return float("nan"), float("nan"), float("nan")
    return float(np.mean(known)), min(known), max(known)


def ellipse(x: np.ndarray, y: np.ndarray, colour: str) -> Ellipse:
    """One standard deviation of the covariance of the points."""
    values, vectors = np.linalg.eigh(np.cov(x, y))
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    width, height = 2 * np.sqrt(np.maximum(values[::-1], 0))
    return Ellipse(
        (float(x.mean()), float(y.mean())), width, height, angle=float(angle), facecolor=colour, alpha=0.25,
        edgecolor=colour,
    )  # fmt: skip
