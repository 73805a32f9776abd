"""The picture of a run: what its flows sent and got, what they believed, and what stood in the queue, against time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from orbitcc.common import names
from orbitcc.common.files import atomic_write_bytes
from orbitcc.envs.description.conditions import buffer_bytes
from orbitcc.envs.description.model import points_of
from orbitcc.envs.description.scenario import stem
from orbitcc.eval.figures import style
from orbitcc.eval.figures.base import check_name, narrowest, outages, render, staircase
from orbitcc.eval.figures.style import LIGHT, Line, Theme

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

Array = NDArray[np.float64]

MAX_FLOWS = 8
"""More flows than this are not listed one by one, and links not named."""
MAX_NAME = 14
"""Names up to this many letters leave room for a second column."""
MAX_THRESHOLDS = 2
"""Slow-start thresholds are drawn for up to this many flows."""
RATE_POINTS = 300
"""Rates are means over at least this part of a run: what a receiver gets within milliseconds comes in lumps."""
MAX_PACING = 2.4
"""Pacing rates are shown up to this multiple of the capacity."""
LABEL_INCHES = 0.145
"""Least distance of two labels."""
GUIDE = (0, (1, 1.6))
THRESHOLD = (0, (4, 1.6))


def plot_run(recording: Recording, path: str | os.PathLike[str]) -> Path:
    """Write the picture of a run; the suffix decides between PNG, PDF and SVG. Raises FileError."""
    target = Path(path)
    suffix = check_name(target)
    return atomic_write_bytes(target, render(draw_run(recording, LIGHT), suffix))


def draw_run(recording: Recording, theme: Theme, lines: Mapping[str, Line] | None = None) -> Figure:
    """Goodput, pacing rate (if anybody paces), RTT, congestion window and queue over one axis of time.

    Beside them what they are measured by: capacity, base RTT, bandwidth-delay product, buffer; outages and handovers.
    lines: flow name -> how its contender is drawn elsewhere; by default the colour follows the controller.
    """
    scenario = recording.scenario
    colours = style.flow_colours([flow.controller.name for flow in scenario.flows], theme)
    flows = [(flow.name, stem(flow.controller)) for flow in scenario.flows]
    called = [name if name.startswith(controller) else f"{name} ({controller})" for name, controller in flows]
    if lines is not None:
        called = list(recording.flow_names)
        colours = [theme.tone(lines[name].colour) for name in recording.flow_names]
    paces = bool(np.any(_known(recording.flows["pacing_mbps"]) > 0))
    ratios = [1.5, *([1.0] if paces else []), 1.0, 1.25, 0.75]
    with mpl.rc_context(theme.rc()):
        columns = _columns(called)
        head = 0.78 + 0.21 * (-(-len(called) // columns) if columns else 1)
        height = 1.78 * sum(ratios) + head
        figure = Figure(figsize=(10, height))
        axes = list(figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios, gridspec_kw={"hspace": 0.34}))
        figure.subplots_adjust(left=0.058, right=0.922, top=1 - head / height, bottom=0.48 / height)
        for ax in axes:
            _interruptions(ax, recording, theme)
        labels = [_rates(axes[0], recording, colours, theme)]
        if paces:
            labels.append(_pacing(axes[1], recording, colours, theme))
        labels.append(_delay(axes[-3], recording, colours, theme))
        labels.append(_window(axes[-2], recording, colours, theme))
        labels.append(_queues(axes[-1], recording, theme))
        for ax in axes:
            ax.set_ylim(bottom=0)
            ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        axes[-2].yaxis.set_major_formatter("{x:,.0f}")
        axes[-1].set_xlabel("seconds")
        axes[-1].set_xlim(0, scenario.duration_s)
        for ax, words in zip(axes, labels, strict=True):
            _label(ax, words)
        _heading(figure, recording, called, colours, theme)
    return figure


Label = tuple[float, str, str]
"""Where on the vertical axis, what, and in which colour."""


def _rates(ax: Axes, recording: Recording, colours: Sequence[str], theme: Theme) -> list[Label]:
    ax.set_title("Goodput, Mbit/s")
    t, goodput = _means(recording, "goodput_mbps")
    for i, colour in enumerate(colours):
        ax.plot(t, goodput[:, i], color=colour, linewidth=1.4, solid_joinstyle="round", zorder=3)
    top = ax.get_ylim()[1]
    labels = _capacity(ax, recording, theme)
    if labels:  # a filled hole delivers a burst in order: show it, but let it not set the scale
        peak = float(np.max(_known(goodput), initial=0.0))
        ax.set_ylim(top=max(ax.get_ylim()[1], min(1.05 * peak, 1.3 * ax.get_ylim()[1])))
    else:
        ax.set_ylim(top=top)
    starts = {at for at, _ in outages(recording)}
    marks = {
        "dotted: handovers": set(_changes(recording)) - starts,
        f"red: outages of {_lengths(recording)}": starts,
    }
    _note(ax, ", ".join(words for words, there in marks.items() if there), theme)
    return labels


def _pacing(ax: Axes, recording: Recording, colours: Sequence[str], theme: Theme) -> list[Label]:
    ax.set_title("Pacing rate, Mbit/s")
    pacing = recording.flows["pacing_mbps"]
    for i, colour in enumerate(colours):
        if np.any(_known(pacing[:, i]) > 0):
            _steps(ax, recording, pacing[:, i], colour)
    peak = 1.08 * float(np.max(_known(pacing), initial=0.0))
    labels = _capacity(ax, recording, theme)
    if labels:
        capacity = recording.links["capacity_mbps"][:, narrowest(recording)]
        peak = min(max(peak, 1.08 * float(capacity.max())), MAX_PACING * float(capacity.max()))
    ax.set_ylim(top=peak)
    return labels


def _capacity(ax: Axes, recording: Recording, theme: Theme) -> list[Label]:
    """The capacity of the narrowest link as a shaded staircase."""
    link = narrowest(recording)
    if link is None:
        return []
    points = points_of(recording.scenario.links[link].rate_mbps)
    staircase(ax, points, recording.scenario.duration_s, theme)
    return [(points[-1][1], "capacity", theme.muted)]


def _delay(ax: Axes, recording: Recording, colours: Sequence[str], theme: Theme) -> list[Label]:
    """Smoothed RTT over the unloaded one, which is one line if all flows share it."""
    ax.set_title("Smoothed round-trip time, ms")
    for i, colour in enumerate(colours):
        _steps(ax, recording, recording.flows["srtt_ms"][:, i], colour)
    base = recording.flows["base_rtt_ms"]
    present = ~np.isnan(base)
    lowest, highest = (f(np.where(present, base, edge), axis=1) for f, edge in ((np.min, np.inf), (np.max, -np.inf)))
    anyone = present.any(axis=1)
    shared = bool(np.all(highest[anyone] - lowest[anyone] < 1e-6))
    guides = [np.where(anyone, highest, np.nan)] if shared else list(base.T)
    for guide, colour in zip(guides, [theme.base_rtt] if shared else colours, strict=True):
        ax.plot(
            recording.t_s, guide, drawstyle="steps-pre", color=colour, linewidth=1.1, linestyle=(0, (3, 1.5)), zorder=4
        )
    ends = [_last(guide) for guide in guides]
    return [(ends[0], "base RTT", theme.base_rtt)] if shared else [(min(ends), "base RTTs", theme.muted)]


def _window(ax: Axes, recording: Recording, colours: Sequence[str], theme: Theme) -> list[Label]:
    """Windows, thresholds and, as an orientation, the product of the narrowest link and the shortest path."""
    ax.set_title("Congestion window, packets")
    window, threshold = recording.flows["cwnd_packets"], recording.flows["ssthresh_packets"]
    top = float(np.max(_known(window), initial=1.0))
    labels: list[Label] = []
    for i, colour in enumerate(colours):
        _steps(ax, recording, window[:, i], colour)
    if len(colours) == 1:
        labels.append((_last(window[:, 0]), "cwnd", colours[0]))
    link = narrowest(recording)
    if link is not None:
        base = recording.flows["base_rtt_ms"]
        base = np.min(np.where(np.isnan(base), np.inf, base), axis=1)
        bdp = recording.links["capacity_mbps"][:, link] * base * 125 / recording.scenario.sim.packet_bytes
        bdp = np.where(np.isfinite(bdp), bdp, np.nan)
        ax.plot(recording.t_s, bdp, drawstyle="steps-pre", color=theme.muted, linewidth=1.1, linestyle=GUIDE, zorder=4)
        labels.append((_last(bdp), "BDP", theme.muted))
        top = max(top, float(np.max(_known(bdp), initial=1.0)))
    for i, colour in enumerate(colours if len(colours) <= MAX_THRESHOLDS else []):
        if np.any(_known(recording.flows["pacing_mbps"][:, i]) > 0):
            continue  # those that pace may set one, but do not go by it
        line = np.where(np.isfinite(threshold[:, i]), threshold[:, i], np.nan)
        if np.isnan(line).all():
            continue
        paler = style.mix(colour, theme.page, 0.35)
        ax.plot(recording.t_s, line, color=paler, linewidth=1.0, linestyle=THRESHOLD, zorder=2)
        labels.append((_last(line), "ssthresh", paler))
    ax.set_ylim(top=1.08 * top)
    return labels


def _queues(ax: Axes, recording: Recording, theme: Theme) -> list[Label]:
    """Queue of every link with a rate, and the buffer where it is within reach."""
    t = recording.t_s - recording.t_s[0] / 2  # a mean over an interval belongs to its middle
    scenario = recording.scenario
    rated = [i for i, link in enumerate(scenario.links) if link.rate_mbps is not None]
    highest = max((float(np.nanmax(recording.links["queue_bytes_max"][:, i])) for i in rated), default=0.0)
    scale, unit = (1e6, "MB") if highest >= 2e6 else (1e3, "kB")
    for rank, i in enumerate(rated):
        share = rank / max(1, len(rated) - 1)
        colour = style.mix(theme.muted, theme.edge, share)
        mean, peak = (recording.links[name][:, i] / scale for name in ("queue_bytes", "queue_bytes_max"))
        if len(rated) == 1:
            ax.fill_between(t, 0, peak, color=theme.muted, alpha=0.18, linewidth=0)
            ax.fill_between(t, 0, mean, color=theme.muted, alpha=0.45, linewidth=0)
        else:
            ax.plot(t, mean, color=colour, linewidth=1.2, label=names.figure(recording.link_names[i]))
    buffers = sorted({buffer_bytes(scenario.links[i], scenario.sim.packet_bytes) for i in rated})
    labels: list[Label] = []
    if len(buffers) == 1 and buffers[0] <= 3 * highest:
        ax.axhline(buffers[0] / scale, color=theme.edge, linewidth=1.0, linestyle=(0, (4, 2)))
        ax.set_ylim(top=1.12 * buffers[0] / scale)
        labels.append((buffers[0] / scale, "buffer", theme.muted))
    if len(rated) == 1:
        ax.set_title(f"Queue, {unit}")
        _note(ax, "mean and peak of each interval", theme)
        return labels
    ax.set_title(f"Mean queue of each link, {unit}")
    if len(rated) <= MAX_FLOWS:
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=len(rated), fontsize=8, handlelength=1.2)
    return labels


def _known(values: Array) -> Array:
    return values[np.isfinite(values)]


def _last(values: Array) -> float:
    """The last known value."""
    known = _known(values)
    return float(known[-1]) if known.size else np.nan


def _steps(ax: Axes, recording: Recording, values: Array, colour: str) -> None:
    """A level at every recorded instant; finer lines where there are more of them than the page has columns."""
    width = 1.5 if recording.t_s.size <= 600 else 1.2 if recording.t_s.size <= 2000 else 0.9
    ax.plot(recording.t_s, values, color=colour, linewidth=width, solid_joinstyle="round", zorder=3)


def _means(recording: Recording, series: str) -> tuple[Array, Array]:
    """A rate of every flow, averaged over neighbouring intervals; the middle of each stretch, and the means."""
    values = np.where(recording.flows["active"] > 0, recording.flows[series], np.nan)
    size = max(1, recording.t_s.size // RATE_POINTS)
    starts = range(0, recording.t_s.size, size)
    edges = np.concatenate(([0.0], recording.t_s))
    middles = [(edges[k] + edges[min(k + size, recording.t_s.size)]) / 2 for k in starts]
    means = []
    for k in starts:
        part = values[k : k + size]
        present = ~np.isnan(part)
        share = np.maximum(present.sum(axis=0), 1)
        means.append(np.where(present.any(axis=0), np.where(present, part, 0.0).sum(axis=0) / share, np.nan))
    return np.array(middles), np.array(means)


def _changes(recording: Recording) -> list[float]:
    """When a path changes: handovers of any link, flows that are rerouted; seconds."""
    links, flows = recording.scenario.links, recording.scenario.flows
    times = {h.at_s for link in links for h in link.path_changes()} | {r.at_s for flow in flows for r in flow.reroutes}
    return sorted(t for t in times if t > 0)


def _interruptions(ax: Axes, recording: Recording, theme: Theme) -> None:
    """Mark handovers and shade outages; a short outage is drawn wide enough to be seen, with a triangle on top."""
    least, cut = recording.scenario.duration_s * 0.003, outages(recording)
    starts = {at for at, _ in cut}
    for at in _changes(recording):
        if at not in starts:
            ax.axvline(at, color=theme.edge, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    for at, length in cut:
        ax.axvspan(at, at + max(length, least), color=theme.outage, alpha=0.5, linewidth=0, zorder=1)
    if cut:
        middles = [at + max(length, least) / 2 for at, length in cut]
        ax.plot(middles, [1.0] * len(cut), "v", color=theme.outage, markersize=5, clip_on=False,
                transform=ax.get_xaxis_transform(), zorder=4)  # fmt: skip


def _lengths(recording: Recording) -> str:
    """`80 ms` or `45 to 120 ms`: the lengths of the outages."""
    found = sorted({1e3 * length for _, length in outages(recording)})
    return f"{found[0]:.3g} ms" if len(found) == 1 else f"{found[0]:.3g} to {found[-1]:.3g} ms" if found else ""


def _note(ax: Axes, words: str, theme: Theme) -> None:
    ax.text(1.0, 1.02, words, transform=ax.transAxes, ha="right", va="bottom", fontsize=8, color=theme.muted)


def _label(ax: Axes, labels: Sequence[Label]) -> None:
    """Names at the right ends of lines, apart from each other."""
    low, high = ax.get_ylim()
    figure = ax.get_figure(root=True)
    assert figure is not None
    inches = ax.get_position().height * figure.get_figheight()
    known = [(y, text, colour) for y, text, colour in labels if np.isfinite(y)]
    places = sorted((float(np.clip((y - low) / (high - low), 0, 1)), text, colour) for y, text, colour in known)
    heights = np.array([place[0] for place in places])
    least = LABEL_INCHES / inches
    for _ in range(8):
        for k in range(1, len(heights)):
            overlap = heights[k - 1] + least - heights[k]
            if overlap > 0:
                heights[k - 1] -= overlap / 2
                heights[k] += overlap / 2
        if len(heights) and heights[0] < 0:
            heights += max(-heights[0], 0.0)
    for height, (_, text, colour) in zip(heights, places, strict=True):
        ax.text(
            1.006,
            height,
            names.figure(text),
            transform=ax.transAxes,
            ha="left",
            va="center",
            fontsize=8.5,
            color=colour,
        )


def _heading(figure: Figure, recording: Recording, called: Sequence[str], colours: Sequence[str], theme: Theme) -> None:
    """Scenario and seed, then how each flow did, in its colour."""
    scenario, height = recording.scenario, figure.get_figheight()
    left, right, y = 0.012, 0.988, 1 - 0.27 / height
    figure.text(left, y, names.figure(scenario.name), fontsize=14, weight="bold", va="center")
    seed = f"seed {scenario.seed} · {scenario.duration_s:g} s"
    figure.text(right, y, seed, ha="right", va="center", color=theme.muted)
    columns, called = _columns(called), [names.figure(name) for name in called]
    indent = 0.03 + 0.0082 * max(len(name) for name in called)
    if not columns:
        goodput = sum(flow["goodput_mbps"] for flow in recording.flow_totals)
        words = f"{len(called)} flows, {goodput:.1f} Mbit/s together"
        figure.text(left, 1 - 0.56 / height, words, color=theme.muted, va="center")
        return
    for i, flow in enumerate(recording.flow_totals):
        row, column = divmod(i, columns)
        x, y = left + column * 0.5, 1 - (0.56 + 0.21 * row) / height
        lost, word = flow["retransmitted_packets"], "retransmitted"
        if lost != lost:  # QUIC sends frames again, not packets
            lost, word = flow["lost_packets"], "lost"
        words = f"{flow['goodput_mbps']:.1f} Mbit/s"
        if scenario.flows[i].controller.name != "udp":  # whose sender knows neither
            words += f" · {flow['delay_inflation']:.2f}× base RTT"
            words += f" · {100 * lost / max(1, flow['sent_packets']):.2f} % {word}"
        figure.text(x, y, f"▬ {called[i]}", color=colours[i], weight="bold", fontsize=8.5, va="center")
        figure.text(x + indent, y, words, color=theme.muted, fontsize=8.5, va="center")


def _columns(called: Sequence[str]) -> int:
    """How many columns the list of flows takes; 0: they are too many to be listed."""
    count, longest = len(called), max(len(name) for name in called)
    if count == 1 or longest > MAX_NAME:
        return 1 if count <= MAX_FLOWS // 2 else 0
    return 2 if count <= MAX_FLOWS else 0
