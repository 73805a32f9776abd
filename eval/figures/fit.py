"""The picture of a fitted path: recordings beside the scenario, over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orbitcc.common import names
from orbitcc.envs.description.conditions import loss_rate
from orbitcc.envs.description.model import points_of
from orbitcc.envs.fitting.changes import MOST_BINS
from orbitcc.envs.fitting.model import Fit
from orbitcc.eval.figures import style
from orbitcc.eval.figures.base import staircase
from orbitcc.eval.figures.style import Theme

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

MAX_TRACES = 3
"""As many flows are drawn."""
GREYS = ("#444B54", "#8A8F98", "#B6BDC6")


def draw_fit(found: Fit, runs: Sequence[Recording], theme: Theme) -> Figure:
    """Rate, RTT and losses: what was recorded in grey, the link of the scenario, and runs of controllers on it."""
    colours = style.flow_colours([run.scenario.flows[0].controller.name for run in runs], theme)
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 7.2))
        axes = figure.subplots(3, 1, sharex=True, height_ratios=[1.3, 1.3, 1])
        figure.subplots_adjust(left=0.065, right=0.975, top=0.86, bottom=0.07, hspace=0.3)
        figure.text(0.012, 0.965, names.figure(found.name), fontsize=13, weight="bold", va="center")
        about = f"{found.duration_s:g} s · recorded in grey, fitted in colour"
        figure.text(0.975, 0.965, about, ha="right", va="center", color=theme.muted)
        _rates(axes[0], found, runs, colours, theme)
        _rtts(axes[1], found, runs, colours, theme)
        _losses(axes[2], found, runs, colours)
        for ax in axes:
            for outage in found.outages:
                end = outage.at_s + max(outage.length_s, found.duration_s / 1500)
                ax.axvspan(outage.at_s, end, color=theme.outage, alpha=0.25, linewidth=0, zorder=0)
            ax.set_ylim(bottom=0)
        axes[-1].set_xlim(0, found.duration_s)
        axes[-1].set_xlabel("seconds (red: outages)")
    return figure


def _rates(ax: Axes, found: Fit, runs: Sequence[Recording], colours: Sequence[str], theme: Theme) -> None:
    link = found.scenario().links[0]
    staircase(ax, points_of(link.rate_mbps), found.duration_s, theme)
    for flow, grey in zip(found.flows[:MAX_TRACES], GREYS, strict=False):
        t, mbps = _thinned(flow.edges_s[:-1], flow.mbps)
        ax.plot(t, mbps, color=grey, linewidth=1, label=names.figure(Path(flow.file).name))
    for run, colour in zip(runs, colours, strict=True):
        name = str(run.scenario.flows[0].controller)
        middle = run.t_s - run.t_s[0] / 2
        ax.plot(middle, run.flows["goodput_mbps"][:, 0], color=colour, label=f"{names.figure(name)} in the scenario")
    ax.set_title("Rate, Mbit/s (area: fitted)", pad=8)
    ax.legend(loc="lower right", ncols=5, fontsize=8, bbox_to_anchor=(1.0, 1.0))


def _rtts(ax: Axes, found: Fit, runs: Sequence[Recording], colours: Sequence[str], theme: Theme) -> None:
    if found.probes is not None:
        t, rtt = _thinned(found.probes.sent_s, found.probes.rtt_ms)
        ax.plot(t, rtt, ".", color=GREYS[1], markersize=2, label=names.figure(Path(found.probes.file).name))
    for flow, grey in zip(found.flows[:MAX_TRACES], GREYS, strict=False):
        label = f"{names.figure(Path(flow.file).name)}, least of each bin"
        ax.plot(flow.edges_s[:-1], flow.rtt_ms, color=grey, linewidth=1, label=label)
    for run, colour in zip(runs, colours, strict=True):
        ax.plot(run.t_s, run.flows["rtt_ms"][:, 0], color=colour)
    t, base = np.append(found.slots_s, found.duration_s), np.append(found.base_ms, found.base_ms[-1])
    ax.plot(t, base, drawstyle="steps-post", color=theme.base_rtt, linewidth=2, label="fitted base RTT")
    ax.set_title("RTT, ms", pad=8)
    ax.legend(loc="lower right", ncols=4, fontsize=8, bbox_to_anchor=(1.0, 1.0))


def _losses(ax: Axes, found: Fit, runs: Sequence[Recording], colours: Sequence[str]) -> None:
    seconds = np.arange(0, found.duration_s + 1)
    for flow, grey in zip(found.flows[:MAX_TRACES], GREYS, strict=False):
        lost, sent = (np.histogram(flow.edges_s[:-1], seconds, weights=w)[0] for w in (flow.lost, flow.sent))
        ax.step(seconds[:-1], 100 * lost / np.maximum(sent, 1), where="post", color=grey, linewidth=1)
    if not found.flows and found.probes is not None:
        lost, sent = (
            np.histogram(found.probes.sent_s[which], seconds)[0]
            for which in (np.isnan(found.probes.rtt_ms), np.ones(found.probes.sent_s.size, dtype=bool))
        )
        ax.step(seconds[:-1], 100 * lost / np.maximum(sent, 1), where="post", color=GREYS[1], linewidth=1)
    for run, colour in zip(runs, colours, strict=True):
        lost, sent = run.flows["lost_packets"][:, 0], run.flows["sent_packets"][:, 0]
        ax.step(run.t_s - run.t_s[0], 100 * lost / np.maximum(sent, 1), where="post", color=colour)
    points: list[tuple[float, Any]] = [(t, 100 * loss_rate(v)) for t, v in points_of(found.scenario().links[0].loss)]
    x, y = [t for t, _ in points] + [found.duration_s], [v for _, v in points]
    ax.step(
        x, [*y, y[-1]], where="post", color="black", linestyle=(0, (2, 2)), linewidth=1.2, label="fitted random losses"
    )
    ax.set_title("Lost packets, % of those sent in a second", pad=8)
    ax.legend(loc="lower right", fontsize=8, bbox_to_anchor=(1.0, 1.0))


def _thinned(t_s: Any, values: Any) -> tuple[Any, Any]:
    """At most as many values as there are bins."""
    step = -(-len(t_s) // MOST_BINS)
    return t_s[::step], values[::step]
