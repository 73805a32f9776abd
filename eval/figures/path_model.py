"""The picture of a model of measured paths: distributions of both, and what controllers reach on both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orbitcc.common import names
from orbitcc.envs.fitting.distribution import BIN_S, Observed
from orbitcc.eval.figures.style import CONTROLLER_COLOURS, Theme
from orbitcc.eval.path_model import MARGINALS, Array, PathModel, correlation, halves

MEASURED, GENERATED = "#0072B2", "#D55E00"
LAGS_S = np.arange(0.5, 20.1, 0.5)
DRAWN = (
    "rate in 0.1 s", "RTT", "change of the RTT between probes", "mean rate of a path", "length of an outage",
    "loss in a second",
)  # fmt: skip
"""The first three of these that were measured are drawn."""


def draw_model(found: PathModel, theme: Theme) -> Figure:
    """Above: cumulative distributions. Below: correlation over time, one path of each kind, goodput of controllers."""
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(11, 6.6))
        axes = figure.subplots(2, 3)
        figure.subplots_adjust(left=0.065, right=0.985, top=0.87, bottom=0.08, wspace=0.22, hspace=0.38)
        title = f"{found.table['name']}: generated paths beside measured ones"
        figure.text(0.012, 0.965, names.figure(title), fontsize=13, weight="bold", va="center")
        colours = {"test": theme.tone(MEASURED), "generated": theme.tone(GENERATED)}
        of = {quantity: (unit, function) for quantity, unit, function in MARGINALS}
        measured = {m.quantity for m in found.comparison.marginals}
        for ax, quantity in zip(axes[0], [name for name in DRAWN if name in measured], strict=False):
            _distribution(ax, found, quantity, *of[quantity], colours)
        axes[0, 0].legend(loc="lower right", fontsize=8.5)
        _correlations(axes[1, 0], found, colours)
        _examples(axes[1, 1], found, colours)
        _controllers(axes[1, 2], found, theme)
    return figure


def _distribution(
    ax: Axes,
    found: PathModel,
    quantity: str,
    unit: str,
    of: Callable[[Observed], Array],
    colours: dict[str, str],
) -> None:
    ax.set_title(f"{quantity[0].upper()}{quantity[1:]}, {unit}")
    ax.set_ylabel("share below")
    for part, colour in colours.items():
        values = np.concatenate([of(path) for path in found.seen[part]])
        if (values := np.sort(values[~np.isnan(values)])).size:
            share = np.arange(1, values.size + 1) / values.size
            every = max(1, values.size // 2000)
            label = f"{'measured, test part' if part == 'test' else part} ({len(found.seen[part])} paths)"
            ax.plot(values[::every], share[::every], color=colour, label=label)
            ax.set_xlim(
                left=0, right=max(ax.get_xlim()[1] if part != "test" else 0, float(np.percentile(values, 99.5)))
            )
    ax.set_ylim(0, 1)


def _correlations(ax: Axes, found: PathModel, colours: dict[str, str]) -> None:
    ax.set_title("Correlation over time")
    ax.set_xlabel("seconds (full: RTT, dashed: rate)")
    for part, colour in colours.items():
        for kind, dashes in (("RTT", "solid"), ("rate", (0, (4, 2)))):
            rows = [[correlation(halves(path, kind), lag) for lag in LAGS_S] for path in found.seen[part]]
            means = _means(np.array(rows))
            if not np.isnan(means).all():
                ax.plot(LAGS_S, means, color=colour, linestyle=dashes)
    ax.axhline(0, color="0.7", linewidth=0.7)
    ax.set_ylim(-0.4, 1)
    ax.set_xlim(0, LAGS_S[-1])


def _means(rows: Array) -> Array:
    """Means of columns over what is known of them."""
    known = ~np.isnan(rows)
    count = known.sum(axis=0)
    return np.where(count > 0, np.where(known, rows, 0).sum(axis=0) / np.maximum(count, 1), np.nan)


def _examples(ax: Axes, found: PathModel, colours: dict[str, str]) -> None:
    """The path of each kind with the median of its kind, as rate or else as RTT."""
    rated = any(path.rate_mbps is not None for path in found.seen["test"])
    ax.set_title("A path of each, " + ("rate in Mbit/s" if rated else "RTT in ms"))
    for part, colour in colours.items():
        rows = [(path, path.rate_mbps if rated else path.rtt_ms) for path in found.seen[part]]
        typical = _typical([values for _, values in rows if values is not None])
        if typical is not None:
            step_s = BIN_S if rated else next(path.step_s for path, values in rows if values is typical)
            ax.plot(np.arange(typical.size) * step_s, typical, color=colour, linewidth=0.8, alpha=0.85)
    ax.set_xlim(0, 60)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("seconds")


def _typical(several: Sequence[Array]) -> Array | None:
    if not several:
        return None
    medians = [float(np.nanmedian(values)) for values in several]
    return several[int(np.argsort(medians)[len(medians) // 2])]


def _controllers(ax: Axes, found: PathModel, theme: Theme) -> None:
    ax.set_title("Goodput on generated paths, Mbit/s")
    most = 1.05 * max(max(r.measured_mbps, r.generated_mbps) for r in found.comparison.reached)
    ax.plot([0, most], [0, most], color=theme.muted, linewidth=0.8)
    ax.fill_between([0, most], [0, 0.9 * most], [0, 1.1 * most], color=theme.area, alpha=0.5, linewidth=0)
    for r in found.comparison.reached:
        colour = theme.tone(CONTROLLER_COLOURS.get(r.controller, "#555555"))
        ax.plot(r.measured_mbps, r.generated_mbps, "o", color=colour, markersize=6, label=r.controller)
    ax.set_xlim(0, most)
    ax.set_ylim(0, most)
    ax.set_xlabel("on measured paths (band: within 10 %)")
    ax.legend(loc="upper left", fontsize=7.5, ncols=2, handlelength=1.0)
