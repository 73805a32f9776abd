"""Pictures: a run, a campaign's distribution, the sending rate over the bandwidth there was.

Each `draw_*` returns a matplotlib figure in the given theme. No pyplot: nothing global, nothing to close.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from orbitcc.envs.errors import FileError
from orbitcc.envs.files import atomic_write_bytes
from orbitcc.envs.model import points_of
from orbitcc.eval import style
from orbitcc.eval.envelope import buffer_bytes
from orbitcc.eval.style import LIGHT, Line, Theme

if TYPE_CHECKING:
    from orbitcc.envs.simulate import Recording

FORMATS = ("png", "pdf", "svg")
DPI = 170
MAX_FLOWS = 8
"""More flows than this are not listed one by one, and links not named."""
MAX_NAME = 14
"""Names up to this many letters leave room for a second column."""


def check_name(path: Path) -> str:
    """The format a picture's name asks for; FileError when it is none."""
    suffix = path.suffix.lstrip(".").lower()
    if suffix not in FORMATS:
        raise FileError("plot", str(path), f"a file name ending in {', '.join('.' + f for f in FORMATS)}")
    return suffix


def plot_run(recording: Recording, path: str | os.PathLike[str]) -> Path:
    """Write the four-panel picture of a run; the suffix decides between PNG, PDF and SVG. Raises FileError."""
    target = Path(path)
    suffix = check_name(target)
    return atomic_write_bytes(target, render(draw_run(recording, LIGHT), suffix))


def render(figure: Figure, file_format: str = "png") -> bytes:
    """The figure as a file's content; the same figure gives the same bytes."""
    out = io.BytesIO()
    metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context({"svg.hashsalt": "orbitcc"}):
        figure.savefig(out, format=file_format, dpi=DPI, metadata=metadata[file_format])
    return out.getvalue()


def draw_run(recording: Recording, theme: Theme, lines: Mapping[str, Line] | None = None) -> Figure:
    """Goodput under the capacity, RTT over the base RTT, congestion window, queue; interruptions shaded.

    lines: flow name -> how its contender is drawn elsewhere; by default the colour follows the controller.
    """
    scenario, flows = recording.scenario, recording.flows
    t = recording.t_s - recording.t_s[0] / 2  # a mean over an interval belongs to its middle
    narrowest = _narrowest(recording)
    colours = style.flow_colours([flow.controller.name for flow in scenario.flows], theme)
    if lines is not None:
        colours = [theme.tone(lines[name].colour) for name in recording.flow_names]
    with mpl.rc_context(theme.rc()):
        columns = _columns(recording)
        head = 0.78 + 0.21 * (-(-len(recording.flow_names) // columns) if columns else 1)
        figure = Figure(figsize=(10, 7.6 + head))
        axes = figure.subplots(4, 1, sharex=True, gridspec_kw={"height_ratios": [1.6, 1, 1, 0.75], "hspace": 0.33})
        height = figure.get_figheight()
        figure.subplots_adjust(left=0.062, right=0.975, top=1 - head / height, bottom=0.48 / height)
        rate, delay, window, queue = axes
        rate.set_title("Goodput under the capacity, Mbit/s")
        delay.set_title("Smoothed and base round-trip time, ms")
        window.set_title("Congestion window, packets")
        if narrowest is not None:
            _staircase(rate, points_of(scenario.links[narrowest].rate_mbps), scenario.duration_s, theme)
        for i, name in enumerate(recording.flow_names):
            here = flows["active"][:, i] > 0
            _line(rate, t, np.where(here, flows["goodput_mbps"][:, i], np.nan), colours[i], name)
            _line(delay, t, np.where(here, flows["srtt_ms"][:, i], np.nan), colours[i])
            _line(window, t, np.where(here, flows["cwnd_packets"][:, i], np.nan), colours[i])
        if narrowest is not None:  # a filled hole delivers a burst in order: show it, but let it not set the scale
            top, peak = rate.get_ylim()[1], float(np.nanmax(flows["goodput_mbps"], initial=0.0))
            rate.set_ylim(top=max(top, min(1.05 * peak, 1.4 * top)))
        _base_rtt(delay, recording, colours, theme)
        if narrowest is not None:
            _bdp(window, recording, narrowest, theme)
        _queues(queue, t, recording, theme)
        for ax in axes:
            _interruptions(ax, recording, theme)
            ax.set_ylim(bottom=0)
            ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        window.yaxis.set_major_formatter("{x:,.0f}")
        queue.set_xlabel("seconds")
        queue.set_xlim(0, scenario.duration_s)
        _heading(figure, recording, colours, theme)
    return figure


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
                color=colour, linestyle=lines[label].dashes, linewidth=2, label=label,
            )  # fmt: skip
            ax.plot([np.median(x)], [0.5], "o", color=colour, markersize=6, markeredgecolor=theme.page, zorder=5)
        ax.axvline(ceiling, color=theme.edge, linewidth=0.9, linestyle=(0, (2, 2)))
        ax.text(ceiling - 0.004, 0.02, "ceiling", rotation=90, ha="right", va="bottom", fontsize=8, color=theme.muted)
        ax.set_xlim(left, 1.0)
        ax.set_ylim(0, 1.02)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        ax.set_xlabel(xlabel)
        ax.set_title("Share of runs at or below", pad=10)
        ax.legend(loc="upper right", bbox_to_anchor=(1.01, 1.125), ncols=min(len(values), 5), handlelength=1.8)
    return figure


def draw_sending_rate(
    recordings: Mapping[str, Recording], lines: Mapping[str, Line], window_s: tuple[float, float], theme: Theme
) -> Figure:
    """What each contender sends over the staircase of the bandwidth, one row each, and the base RTT below."""
    first = next(iter(recordings.values()))
    start, end = window_s
    link = _narrowest(first)
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
            _staircase(ax, stairs, first.scenario.duration_s, theme)
            colour = theme.tone(lines[label].colour)
            middle = recording.t_s - first.t_s[0] / 2  # a mean over an interval belongs to its middle
            ax.plot(middle, recording.flows["send_mbps"][:, 0], color=colour, linewidth=1.8)
            ax.text(
                0.008, 0.93, label, transform=ax.transAxes, color=colour, weight="bold", va="top", fontsize=10,
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
            for at, _ in _outages(first):
                ax.axvline(at, color=theme.edge, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        base.set_xlim(start, end)
    return figure


def _line(ax: Axes, t: NDArray[np.float64], values: NDArray[np.float64], colour: str, label: str | None = None) -> None:
    ax.plot(t, values, color=colour, label=label, solid_joinstyle="round", zorder=3)


def _narrowest(recording: Recording) -> int | None:
    """The link with the lowest mean rate, or None when no link has a rate."""
    rated = [i for i, link in enumerate(recording.scenario.links) if link.rate_mbps is not None]
    return min(rated, key=lambda i: recording.link_totals[i]["capacity_mbps"], default=None)


def _staircase(ax: Axes, points: Sequence[tuple[float, float]], duration_s: float, theme: Theme) -> None:
    """The capacity as a shaded staircase."""
    t = [at for at, _ in points] + [duration_s]
    rate = [value for _, value in points]
    rate = [*rate, rate[-1]]
    ax.fill_between(t, 0, rate, step="post", color=theme.area, linewidth=0, zorder=0)
    ax.plot(t, rate, drawstyle="steps-post", color=theme.edge, linewidth=1.1, zorder=1)
    ax.set_ylim(top=max(rate) * 1.08)


def _base_rtt(ax: Axes, recording: Recording, colours: Sequence[str], theme: Theme) -> None:
    """The unloaded RTT: one line if all flows share it, else one per flow."""
    base = recording.flows["base_rtt_ms"]
    shared = bool(np.all(np.nanmax(base, axis=1, initial=0) - np.nanmin(base, axis=1, initial=np.inf) < 1e-6))
    for i in range(1 if shared else base.shape[1]):
        line = np.nanmax(base, axis=1) if shared else base[:, i]
        colour = theme.base_rtt if shared else colours[i]
        ax.plot(
            recording.t_s, line, drawstyle="steps-pre", color=colour, linewidth=1.1, linestyle=(0, (3, 1.5)), zorder=2
        )


def _bdp(ax: Axes, recording: Recording, link: int, theme: Theme) -> None:
    """The bandwidth-delay product of the narrowest link and the shortest path, as an orientation."""
    base = np.nanmin(np.where(np.isnan(recording.flows["base_rtt_ms"]), np.inf, recording.flows["base_rtt_ms"]), axis=1)
    bdp = recording.links["capacity_mbps"][:, link] * base * 125 / recording.scenario.sim.packet_bytes
    ax.plot(
        recording.t_s, bdp, drawstyle="steps-pre", color=theme.muted, linewidth=1.0, linestyle=(0, (1, 1.6)), zorder=2
    )
    ax.text(
        1.0, 1.02, "dotted: bandwidth-delay product", transform=ax.transAxes, ha="right", va="bottom",
        fontsize=8, color=theme.muted,
    )  # fmt: skip


def _queues(ax: Axes, t: NDArray[np.float64], recording: Recording, theme: Theme) -> None:
    """Mean queue of every link with a rate, and the buffer where it is within reach."""
    rated = [i for i, link in enumerate(recording.scenario.links) if link.rate_mbps is not None]
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
            ax.plot(t, mean, color=colour, linewidth=1.2, label=recording.link_names[i])
    packet = recording.scenario.sim.packet_bytes
    buffers = sorted({buffer_bytes(recording.scenario.links[i], packet) for i in rated})
    if len(buffers) == 1 and buffers[0] <= 3 * highest:
        ax.axhline(buffers[0] / scale, color=theme.edge, linewidth=1.0, linestyle=(0, (4, 2)))
        ax.set_ylim(top=1.12 * buffers[0] / scale)
    if len(rated) == 1:
        ax.set_title(f"Queue, {unit}")
        note = "mean and peak of each interval; dashed: buffer"
        ax.text(1.0, 1.02, note, transform=ax.transAxes, ha="right", va="bottom", fontsize=8, color=theme.muted)
        return
    ax.set_title(f"Mean queue of each link, {unit}")
    if len(rated) <= MAX_FLOWS:
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=len(rated), fontsize=8, handlelength=1.2)


def _outages(recording: Recording) -> list[tuple[float, float]]:
    """(start, duration) of every outage of every link, seconds, without repetitions."""
    return sorted({(o.at_s, o.duration_ms / 1e3) for link in recording.scenario.links for o in link.outages})


def _interruptions(ax: Axes, recording: Recording, theme: Theme) -> None:
    """Shade outages; one that is too short to be seen gets a hair's width."""
    least = recording.scenario.duration_s * 0.0014
    for at, length in _outages(recording):
        ax.axvspan(at, at + max(length, least), color=theme.outage, alpha=0.38, linewidth=0, zorder=1)


def _heading(figure: Figure, recording: Recording, colours: Sequence[str], theme: Theme) -> None:
    """Scenario and seed, then how each flow did, in its colour."""
    scenario, height = recording.scenario, figure.get_figheight()
    left, right, y = 0.012, 0.975, 1 - 0.27 / height
    figure.text(left, y, scenario.name, fontsize=14, weight="bold", va="center")
    seed = f"seed {scenario.seed} · {scenario.duration_s:g} s"
    figure.text(right, y, seed, ha="right", va="center", color=theme.muted)
    names, columns = recording.flow_names, _columns(recording)
    indent = 0.03 + 0.0082 * max(len(name) for name in names)
    if not columns:
        goodput = sum(flow["goodput_mbps"] for flow in recording.flow_totals)
        words = f"{len(names)} flows, {goodput:.1f} Mbit/s together"
        figure.text(left, 1 - 0.56 / height, words, color=theme.muted, va="center")
        return
    for i, flow in enumerate(recording.flow_totals):
        row, column = divmod(i, columns)
        x, y = left + column * 0.5, 1 - (0.56 + 0.21 * row) / height
        words = (
            f"{flow['goodput_mbps']:.1f} Mbit/s · {flow['delay_inflation']:.2f}× base RTT · "
            f"{100 * flow['retransmitted_packets'] / max(1, flow['sent_packets']):.2f} % retransmitted"
        )
        figure.text(x, y, f"▬ {names[i]}", color=colours[i], weight="bold", fontsize=8.5, va="center")
        figure.text(x + indent, y, words, color=theme.muted, fontsize=8.5, va="center")


def _columns(recording: Recording) -> int:
    """How many columns the list of flows takes; 0: they are too many to be listed."""
    count, longest = len(recording.flow_names), max(len(name) for name in recording.flow_names)
    if count == 1 or longest > MAX_NAME:
        return 1 if count <= MAX_FLOWS // 2 else 0
    return 2 if count <= MAX_FLOWS else 0
