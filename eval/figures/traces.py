"""The picture of a trace set: rates, RTTs, outages and losses of each place, and the parts of its paths."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orbitcc.common import names
from orbitcc.envs.orbits.trace_set import PARTS, TraceSet
from orbitcc.eval.figures.style import Theme, mix

COLOUR = "#0072B2"
MOST_PLACES = 24
"""As many places are drawn."""
_SHADES = dict(zip(PARTS, (0.0, 0.45, 0.75), strict=True))


def draw_traces(found: TraceSet, theme: Theme) -> Figure:
    """One row for each place: dots are medians of paths, bars reach from their 5 % to their 95 %, over all paths."""
    places = found.places[:MOST_PLACES]
    rows = {place: [e for e in found.entries if e["place"] == place] for place in places}
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10.5, 1.75 + 0.32 * len(places)))
        height = figure.get_figheight()
        axes = figure.subplots(1, 4, sharey=True)
        left = min(0.26, 0.03 + 0.0085 * max(map(len, places)))
        figure.subplots_adjust(left=left, right=0.985, top=1 - 0.95 / height, bottom=0.55 / height, wspace=0.12)
        figure.text(
            0.012, 1 - 0.25 / height, names.figure(found.index["source"]), fontsize=13, weight="bold", va="center"
        )
        more = "" if len(found.places) <= MOST_PLACES else f" · {MOST_PLACES} of {len(found.places)} places"
        about = f"{len(found.entries):,} paths · {found.index['layout']} · licence: {found.index['licence']}{more}"
        figure.text(0.985, 1 - 0.25 / height, names.figure(about)[:110], ha="right", va="center", color=theme.muted)
        _spans(axes[0], rows, "rate_mbps", "Rate, Mbit/s", theme)
        _spans(axes[1], rows, "rtt_ms", "RTT, ms", theme)
        _shares(axes[2], rows, theme)
        _parts(axes[3], rows, theme)
        axes[0].set_yticks(range(len(places)), [names.figure(place) for place in places])
        axes[0].set_ylim(len(places) - 0.5, -0.5)
    return figure


def _spans(ax: Axes, rows: dict[str, list[dict[str, Any]]], field: str, title: str, theme: Theme) -> None:
    ax.set_title(title)
    colour, any_there = theme.tone(COLOUR), False
    for y, entries in enumerate(rows.values()):
        spreads = [e[field] for e in entries if e[field] is not None]
        if not spreads:
            continue
        any_there = True
        low, high = min(s[0] for s in spreads), max(s[2] for s in spreads)
        ax.plot([low, high], [y, y], color=mix(colour, theme.page, 0.6), linewidth=5, solid_capstyle="butt")
        ax.plot(
            [s[1] for s in spreads],
            [y] * len(spreads),
            "o",
            color=colour,
            alpha=0.35,
            markersize=3.5,
            markeredgewidth=0,
        )
    if not any_there:
        ax.text(0.5, 0.5, "not measured", transform=ax.transAxes, ha="center", color=theme.muted)
        ax.set_xticks([])
    else:
        ax.set_xlim(left=0)
        ax.set_xlabel("dots: medians of paths; bar: 5 % to 95 %", fontsize=7.5)


def _shares(ax: Axes, rows: dict[str, list[dict[str, Any]]], theme: Theme) -> None:
    ax.set_title("Time in outages, losses, %")
    for y, entries in enumerate(rows.values()):
        total_s = sum(e["duration_s"] for e in entries)
        down = 100 * sum(e["outage_s"] for e in entries) / total_s
        lost = 100 * sum(e["loss"] * e["duration_s"] for e in entries) / total_s
        ax.barh(y - 0.18, down, 0.3, color=theme.outage, label="outages" if y == 0 else None)
        ax.barh(y + 0.18, lost, 0.3, color="#B8860B", label="losses, each way" if y == 0 else None)
    ax.set_xlim(left=0, right=max(0.1, ax.get_xlim()[1]))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, fontsize=7.5, borderaxespad=1.9)


def _parts(ax: Axes, rows: dict[str, list[dict[str, Any]]], theme: Theme) -> None:
    ax.set_title("Paths in each part")
    colour = theme.tone(COLOUR)
    for y, entries in enumerate(rows.values()):
        start = 0
        for part in PARTS:
            count = sum(e["part"] == part for e in entries)
            shade = mix(colour, theme.page, _SHADES[part])
            ax.barh(y, count, 0.62, left=start, color=shade, label=part if y == 0 else None)
            start += count
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=3,
        fontsize=7.5,
        borderaxespad=1.9,
        columnspacing=1,
        handlelength=1.4,
    )
