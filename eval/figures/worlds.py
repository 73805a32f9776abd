"""Pictures of one world: what is sent into its narrowest link and what stands before it, for one or two contenders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from orbitcc.common import names
from orbitcc.envs.description.model import points_of
from orbitcc.eval.figures.base import narrowest, outages, staircase
from orbitcc.eval.figures.style import Line, Theme

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

POINTS = 240
"""Drawn per line: a run longer than that is averaged."""
GUIDE = (0, (1, 2))


def draw_world(recordings: Mapping[str, Recording], lines: Mapping[str, Line], theme: Theme) -> Figure:
    """Sending rate of each contender's flows over the capacity, and the queue in ms below.

    recordings: label -> a run of the same world; a flow counts to the contender whose label its name begins with,
    dotted are all others in the first one's run.
    """
    first = next(iter(recordings.values()))
    link = narrowest(first)
    scenario = first.scenario
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(9, 3.5))
        rate, queue = figure.subplots(2, 1, sharex=True, height_ratios=[1.5, 1], gridspec_kw={"hspace": 0.42})
        figure.subplots_adjust(left=0.07, right=0.98, top=0.87, bottom=0.13)
        if link is not None:
            staircase(rate, points_of(scenario.links[link].rate_mbps), scenario.duration_s, theme)
        for at, _ in outages(first):
            for ax in (rate, queue):
                ax.axvline(at, color=theme.outage, linewidth=0.8, alpha=0.5)
        top = float(np.max(first.links["capacity_mbps"][:, link])) if link is not None else 0.0
        for rank, (label, run) in enumerate(recordings.items()):
            colour, dashes = theme.tone(lines[label].colour), lines[label].dashes
            own = [k for k, name in enumerate(run.flow_names) if name.startswith(label)]
            sent = np.nan_to_num(run.flows["send_mbps"])
            t, values = _thinned(run.t_s, sent[:, own].sum(axis=1))
            rate.plot(t, values, color=colour, linestyle=dashes, label=names.figure(label), zorder=4 - rank)
            top = max(top, float(np.percentile(values, 99)))
            if rank == 0 and len(own) < len(run.flow_names):
                rest = [k for k in range(len(run.flow_names)) if k not in own]
                t, values = _thinned(run.t_s, sent[:, rest].sum(axis=1))
                rate.plot(t, values, color=theme.muted, linestyle=GUIDE, linewidth=1.1, label="others beside it")
            if link is not None:
                capacity = run.links["capacity_mbps"][:, link]
                wait = run.links["queue_bytes"][:, link] * 8e-3 / np.where(capacity > 0, capacity, np.nan)
                t, wait = _thinned(run.t_s, wait)
                queue.plot(t, wait, color=colour, linestyle=dashes, zorder=4 - rank)
        rate.set_ylim(0, 1.25 * top if top > 0 else 1)
        rate.set_title("Sent, Mbit/s")
        queue.set_title("Queue, ms")
        queue.set_ylim(bottom=0)
        queue.set_xlabel("seconds")
        for ax in (rate, queue):
            ax.set_xlim(0, scenario.duration_s)
            ax.yaxis.set_major_locator(MaxNLocator(3))
        rate.legend(loc="upper right", bbox_to_anchor=(1.01, 1.24), ncols=3, handlelength=1.8)
    return figure


def _thinned(t_s: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over so many samples that `POINTS` are left."""
    per = max(1, len(values) // POINTS)
    whole = len(values) // per * per
    return t_s[per - 1 : whole : per], values[:whole].reshape(-1, per).mean(axis=1)
