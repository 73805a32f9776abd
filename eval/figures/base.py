"""Figures of results (distributions, sending rates over the available rate) and the helpers that all figures share.

Each `draw_*` returns a matplotlib figure in the given theme. No pyplot: nothing global, nothing to close.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from orbitcc.common import names
from orbitcc.common.errors import FileError
from orbitcc.envs.description.model import points_of
from orbitcc.eval.figures.style import Line, Theme

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

FORMATS = ("png", "pdf", "svg")
DPI = 170


def check_name(path: Path) -> str:
    """The format a picture's name asks for; FileError when it is none."""
    suffix = path.suffix.lstrip(".").lower()
    if suffix not in FORMATS:
        raise FileError("plot", str(path), f"a file name ending in {', '.join('.' + f for f in FORMATS)}")
    return suffix


def render(figure: Figure, file_format: str = "png", dpi: int = DPI) -> bytes:
    """The figure as a file's content; the same figure gives the same bytes."""
    out = io.BytesIO()
    metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "orbitcc"}):
        figure.savefig(out, format=file_format, dpi=dpi, metadata=metadata[file_format])
    return out.getvalue()


def draw_ecdf(
    values: Mapping[str, Sequence[float]], lines: Mapping[str, Line], xlabel: str, theme: Theme, ceiling: float
) -> Figure:
    """Cumulative distribution over runs, one step line per contender, a dot at each median."""
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(8, 4.6))
        ax = figure.subplots()
        figure.subplots_adjust(left=0.08, right=0.97, top=0.87, bottom=0.115)
        smallest = min((min(v) for v in values.values() if len(v)), default=0.0)
        left = min(0.9, max(0.0, np.floor((smallest - 0.02) * 10) / 10))
        for label, sample in values.items():
            x = np.sort(np.asarray(sample, dtype=np.float64))
            share = np.arange(1, x.size + 1) / x.size
            colour = theme.tone(lines[label].colour)
            ax.step(
                np.concatenate((x[:1], x)), np.concatenate(([0.0], share)), where="post",
                color=colour, linestyle=lines[label].dashes, linewidth=2, label=names.figure(label),
            )  # fmt: skip
            ax.plot([np.median(x)], [0.5], "o", color=colour, markersize=6, markeredgecolor=theme.page, zorder=5)
        ax.axvline(ceiling, color=theme.edge, linewidth=0.9, linestyle=(0, (2, 2)))
        ax.text(ceiling - 0.004, 0.02, "ceiling", rotation=90, ha="right", va="bottom", fontsize=8, color=theme.muted)
        ax.set_xlim(left, 1.0)
        ax.set_ylim(0, 1.02)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        ax.set_xlabel(xlabel)
        ax.set_title("Share of runs at or below", pad=10)
        ax.legend(loc="upper left", handlelength=1.8)  # where no curve is
    return figure


def draw_sending_rate(
    recordings: Mapping[str, Recording], lines: Mapping[str, Line], window_s: tuple[float, float], theme: Theme
) -> Figure:
    """What each contender sends over the staircase of the bandwidth, one row each, and the base RTT below."""
    first = next(iter(recordings.values()))
    start, end = window_s
    link = narrowest(first)
    stairs = points_of(first.scenario.links[link].rate_mbps) if link is not None else ()
    inside = (first.t_s > start) & (first.t_s <= end + first.t_s[0])
    top = max((float(np.nanmax(r.flows["send_mbps"][inside, 0])) for r in recordings.values()), default=0.0)
    top = max([top, *(rate for t, rate in stairs)]) * 1.12
    rows = len(recordings)
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 0.95 + 1.5 * rows + 1.35))
        axes = figure.subplots(rows + 1, 1, sharex=True, gridspec_kw={"height_ratios": [1.25] * rows + [1]})
        height = figure.get_figheight()
        figure.subplots_adjust(left=0.06, right=0.975, top=1 - 0.42 / height, bottom=0.5 / height, hspace=0.28)
        for ax, (label, recording) in zip(axes, recordings.items(), strict=False):
            staircase(ax, stairs, first.scenario.duration_s, theme)
            colour = theme.tone(lines[label].colour)
            middle = recording.t_s - first.t_s[0] / 2  # a mean over an interval belongs to its middle
            ax.plot(middle, recording.flows["send_mbps"][:, 0], color=colour, linewidth=1.8)
            ax.text(
                0.008, 0.93, names.figure(label), transform=ax.transAxes, color=colour, weight="bold",
                va="top", fontsize=10,
                bbox={"facecolor": theme.area, "edgecolor": "none", "pad": 1.5, "alpha": 0.8},
            )  # fmt: skip
            ax.set_ylim(0, top)
            ax.yaxis.set_major_locator(MaxNLocator(3))
        axes[0].set_title("Sending rate over the bandwidth there was, Mbit/s", pad=8)
        base = axes[-1]
        base.plot(first.t_s, first.flows["base_rtt_ms"][:, 0], drawstyle="steps-pre", color=theme.base_rtt)
        base.fill_between(
            first.t_s, 0, first.flows["base_rtt_ms"][:, 0], step="pre", color=theme.base_rtt, alpha=0.10, linewidth=0
        )
        base.set_title("Base round-trip time, ms")
        base.set_ylim(bottom=0)
        base.yaxis.set_major_locator(MaxNLocator(3))
        base.set_xlabel("seconds")
        for ax in axes:
            for at, _ in outages(first):
                ax.axvline(at, color=theme.edge, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        base.set_xlim(start, end)
    return figure


def narrowest(recording: Recording) -> int | None:
    """The link with the lowest mean rate, or None when no link has a rate."""
    rated = [i for i, link in enumerate(recording.scenario.links) if link.rate_mbps is not None]
    return min(rated, key=lambda i: recording.link_totals[i]["capacity_mbps"], default=None)


def staircase(ax: Axes, points: Sequence[tuple[float, float]], duration_s: float, theme: Theme) -> None:
    """The capacity as a shaded staircase."""
    t = [at for at, _ in points] + [duration_s]
    rate = [value for _, value in points]
    rate = [*rate, rate[-1]]
    ax.fill_between(t, 0, rate, step="post", color=theme.area, linewidth=0, zorder=0)
    ax.plot(t, rate, drawstyle="steps-post", color=theme.edge, linewidth=1.1, zorder=1)
    ax.set_ylim(top=max(rate) * 1.08)


def outages(recording: Recording) -> list[tuple[float, float]]:
    """(start, duration) of every outage of every link, seconds, without repetitions."""
    return sorted({(o.at_s, o.duration_ms / 1e3) for link in recording.scenario.links for o in link.outages})
