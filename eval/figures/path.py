"""The picture of a path: where it runs at one moment, and its base RTT over time."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from orbitcc.common import names
from orbitcc.common.files import atomic_write_bytes
from orbitcc.envs.orbits.routing import Route
from orbitcc.envs.orbits.trace import JUMP_S, PathTrace
from orbitcc.eval.figures.base import check_name, render
from orbitcc.eval.figures.globe import ASPECT, draw_globe
from orbitcc.eval.figures.style import LIGHT, Theme

Array = NDArray[np.float64]

WIDTH, LEFT, RIGHT = 10.0, 0.058, 0.986
HEAD, SERIES, FOOT, BETWEEN = 0.8, 2.3, 0.5, 0.52
"""Inches: above the axes, of the RTT, below it, and between the map and it."""


def plot_path(trace: PathTrace, path: str | os.PathLike[str], *, route: Route | None = None, at_s: float = 0.0) -> Path:
    """Write the picture of a path; the suffix decides between PNG, PDF and SVG. Raises FileError."""
    target = Path(path)
    suffix = check_name(target)
    return atomic_write_bytes(target, render(draw_path(trace, LIGHT, route=route, at_s=at_s), suffix))


def draw_path(trace: PathTrace, theme: Theme, *, route: Route | None = None, at_s: float = 0.0) -> Figure:
    """The base RTT over time with its handovers; above it, for a computed route, the map of it at `at_s`."""
    with mpl.rc_context(theme.rc()):
        map_height = WIDTH * (RIGHT - LEFT) / ASPECT if route is not None else 0.0
        height = HEAD + SERIES + FOOT + (map_height + BETWEEN if route is not None else 0.0)
        figure = Figure(figsize=(WIDTH, height))
        series = figure.add_axes((LEFT, FOOT / height, RIGHT - LEFT, SERIES / height))
        draw_rtt(series, trace, theme)
        if route is not None:
            bottom = FOOT + SERIES + BETWEEN
            draw_globe(figure.add_axes((LEFT, bottom / height, RIGHT - LEFT, map_height / height)), route, at_s, theme)
            series.axvline(at_s, color=theme.muted, linewidth=1.1, zorder=2)
        _heading(figure, trace, theme)
    return figure


def draw_rtt(ax: Axes, trace: PathTrace, theme: Theme) -> None:
    """Base RTT against time; handovers at the ends in full lines, other changes of the route in dots."""
    ax.set_title("Base round-trip time, ms")
    words = ["lines: handovers at the ends", "dotted: other changes of the route"]
    for slot, end in zip(trace.slots, trace.ends_s(), strict=True):
        if slot.outage:
            ax.axvspan(slot.start_s, end, color=theme.outage, alpha=0.16, linewidth=0, zorder=1)
            words[2:] = ["red: no route"]
    changed = [s for s in trace.slots if s.change and s.start_s > 0 and not s.outage]
    upright = ax.get_xaxis_transform()
    ax.vlines(
        [s.start_s for s in changed if s.access_change], 0, 1,
        transform=upright, color=theme.edge, linewidth=0.8, zorder=1,
    )  # fmt: skip
    ax.vlines(
        [s.start_s for s in changed if not s.access_change], 0, 1,
        transform=upright, color=theme.edge, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1,
    )  # fmt: skip
    draw_line(ax, trace, theme.base_rtt)
    routed = np.concatenate([rtt for _, rtt in _stretches(trace)] or [np.zeros(1)])
    low, high = float(routed.min()), float(routed.max())
    room = max(0.12 * (high - low), 0.5)
    ax.set_ylim(0.0 if low < 2.5 * (high - low) else max(0.0, low - room), high + room)
    ax.set_xlim(0, trace.duration_s)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlabel("seconds")
    ax.text(1.0, 1.02, ", ".join(words), transform=ax.transAxes, ha="right", va="bottom", fontsize=8, color=theme.muted)


def draw_line(ax: Axes, trace: PathTrace, colour: str, width: float = 1.6) -> None:
    """The base RTT as a line, broken where there is no route."""
    for t, rtt in _stretches(trace):
        ax.plot(t, rtt, color=colour, linewidth=width, solid_joinstyle="round", zorder=3)


def _stretches(trace: PathTrace) -> list[tuple[Array, Array]]:
    """Times and RTTs of each stretch without an outage."""
    times: list[Array] = []
    open_end = False
    for slot, end in zip(trace.slots, trace.ends_s(), strict=True):
        if not slot.outage:
            inside = (trace.t_s >= slot.start_s) & (trace.t_s < end)
            t = np.concatenate(([slot.start_s], trace.t_s[inside], [end - JUMP_S]))
            if open_end:
                times[-1] = np.append(times[-1], t)
            else:
                times.append(t)
        open_end = not slot.outage
    return [(t, trace.base_rtt_ms(t)) for t in times]


def _heading(figure: Figure, trace: PathTrace, theme: Theme) -> None:
    found = trace.statistics()
    y = 1 - 0.3 / figure.get_figheight()
    figure.text(0.012, y, names.figure(trace.name), fontsize=13, weight="bold", va="center")
    words = "no route"
    if found.outage_share < 1:
        least, _, median, _, most = found.rtt_ms
        words = f"median {median:.1f} ms, {least:.1f} to {most:.1f} · {found.changes} changes"
        if found.hops:
            fewest, largest = found.hops
            words += f" · {fewest} hops" if fewest == largest else f" · {fewest} to {largest} hops"
    figure.text(RIGHT, y, words, ha="right", va="center", color=theme.muted)
