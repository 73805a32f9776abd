"""The picture of a trace: rates, RTT, window, action, largest contributions and gate over time."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orbitcc.common import names
from orbitcc.common.files import atomic_write_bytes
from orbitcc.eval.figures.base import check_name, render
from orbitcc.eval.figures.style import LIGHT, Theme

if TYPE_CHECKING:
    from orbitcc.eval.trace import Trace

MOST_INPUTS = 7
"""Number of inputs that are drawn: those whose contributions vary most."""
LEGEND_COLUMNS = 44
"""Width of the space for the legend in characters; longer labels take more lines."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A4B2A", "#5B5EA6")


def plot_trace(trace: Trace, path: Path) -> Path:
    """Write the picture; the suffix decides between PNG, PDF and SVG. Raises FileError."""
    return atomic_write_bytes(path, render(draw_trace(trace, LIGHT), check_name(path)))


def draw_trace(trace: Trace, theme: Theme) -> Figure:
    """Contributions are drawn where the network has them, otherwise the inputs that vary most."""
    gated, linear = trace.gate.shape[1] > 0, bool(np.any(trace.contributions))
    rows = 5 + gated
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(11, 1.75 * rows + 1.2))
        axes = list(figure.subplots(rows, 1, sharex=True, height_ratios=[1, 1, 1, 0.8, 1.5, *([0.8] if gated else [])]))
        figure.subplots_adjust(left=0.06, right=0.72, top=0.94, bottom=0.06, hspace=0.38)
        title = f"{names.figure(trace.policy)} ({names.figure(trace.flow)}) in {names.figure(trace.scenario.name)}"
        figure.suptitle(title, x=0.06, ha="left")
        measured = trace.measured
        grey = theme.muted
        _lines(axes[0], trace, "Mbit/s", {"goodput": measured["goodput_mbps"], "available": measured["capacity_mbps"]})
        _lines(axes[1], trace, "RTT, ms", {"RTT": measured["rtt_ms"], "base RTT": measured["base_rtt_ms"]})
        _lines(axes[2], trace, "packets", {"window": measured["cwnd_packets"], "queue": measured["queue_packets"]})
        _lines(axes[3], trace, "action", {"action": trace.actions})
        shown = trace.contributions if linear else trace.inputs
        varied = np.argsort(-shown.std(axis=0))[:MOST_INPUTS]
        picked = {trace.labels[k]: shown[:, k] for k in sorted(varied)}
        _lines(axes[4], trace, "contribution" if linear else "input", picked)
        if gated:
            shares = {f"expert {k + 1}": trace.gate[:, k] for k in range(trace.gate.shape[1])}
            _lines(axes[5], trace, "weight", shares)
        for ax in (axes[3], axes[4]):
            ax.axhline(0.0, color=grey, linewidth=0.8)
        axes[-1].set_xlabel("seconds")
    return figure


def _lines(ax: Axes, trace: Trace, title: str, lines: dict[str, NDArray[np.float64]]) -> None:
    ax.set_title(title)
    for (label, values), colour in zip(lines.items(), COLOURS, strict=False):
        ax.plot(trace.time_s, values, color=colour, linewidth=1.0, label=fill(names.figure(label), LEGEND_COLUMNS))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.06), fontsize=7.5, handlelength=1.2, frameon=False)
