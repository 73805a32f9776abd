"""Pictures of the GEO papers' experiments: boxes, download times, buffer settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from orbitcc.common import names
from orbitcc.eval.figures.grid import levels
from orbitcc.eval.figures.style import lines_of
from orbitcc.eval.suites.geo import RMEM_BYTES, WMEM_BYTES

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.figures.style import Line, Theme
    from orbitcc.eval.results import Results

TITLES = {
    "steady_mbps": "Throughput, Mbit/s",
    "steady_rtt_ms": "RTT, ms",
    "steady_power": "Power, Mbit",
    "start_up_mbps": "Throughput, Mbit/s",
    "start_up_rtt_ms": "RTT, ms",
    "start_up_power": "Power, Mbit",
    "p10_mbps": "10th percentile, Mbit/s",
    "p50_mbps": "Median, Mbit/s",
    "p90_mbps": "90th percentile, Mbit/s",
    "retransmission_rate": "Retransmitted, %",
}


def draw_boxes(results: Results, columns: Sequence[str], theme: Theme) -> Figure:
    """A panel per column, a box per contender over its runs."""
    titles = {
        m.key: f"{m.title}, {m.unit.strip()}" if m.unit.strip() else m.title
        for m in results.suite.metrics
        if m.key not in TITLES
    }
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(max(3.6 * len(columns), 6.0), 1.1 + 0.45 * len(results.labels)))
        axes = np.atleast_1d(figure.subplots(1, len(columns), sharey=True))
        for ax, column in zip(axes, columns, strict=True):
            for i, (label, values) in enumerate(results.values(column).items()):
                known = [100 * v if column == "retransmission_rate" else v for v in values if v == v]
                colour = theme.tone(lines_of(results)[label].colour)
                box = ax.boxplot(
                    known, positions=[-i], orientation="horizontal", widths=0.55, whis=(2.5, 97.5), patch_artist=True,
                    showfliers=False, showmeans=True,
                    boxprops={"facecolor": colour, "alpha": 0.35, "edgecolor": colour},
                    medianprops={"color": colour, "linewidth": 2},
                    meanprops={"marker": "o", "markersize": 4, "markerfacecolor": theme.ink, "markeredgecolor": "none"},
                    whiskerprops={"color": colour}, capprops={"color": colour},
                )  # fmt: skip
                del box
            ax.set_title(titles.get(column) or TITLES[column])
        axes[0].set_yticks([-i for i in range(len(results.labels))], [names.figure(label) for label in results.labels])
        figure.tight_layout()
    return figure


def draw_stacks(recordings: Mapping[str, Recording], lines: Mapping[str, Line], theme: Theme) -> Figure:
    """Throughput, RTT and retransmissions of the first flow over time, a column per contender, 1-s means."""
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(max(2.9 * len(recordings), 5.0), 5.2))
        axes = figure.subplots(3, len(recordings), sharex=True, sharey="row", squeeze=False)
        for column, (label, recording) in zip(axes.T, recordings.items(), strict=True):
            end_s = recording.flow_totals[0]["finished_s"] or recording.scenario.duration_s
            per = max(round(1.0 / float(recording.t_s[0])), 1)
            whole = min(int(end_s), recording.t_s.shape[0] // per)
            flow = {
                name: recording.flows[name][: whole * per, 0].reshape(whole, per)
                for name in ("delivery_mbps", "srtt_ms", "retransmitted_packets", "sent_packets")
            }
            sent = flow["sent_packets"].sum(axis=1)
            resent = 100 * flow["retransmitted_packets"].sum(axis=1) / np.maximum(sent, 1)
            rows = (flow["delivery_mbps"].mean(axis=1), flow["srtt_ms"][:, -1], resent)
            for ax, values in zip(column, rows, strict=True):
                ax.plot(np.arange(whole) + 0.5, values, color=theme.tone(lines[label].colour), linewidth=1.3)
                ax.set_ylim(bottom=0)
            column[0].set_title(names.figure(label), fontsize=9.5)
            column[-1].set_xlabel("seconds")
        for ax, title in zip(axes[:, 0], ("throughput, Mbit/s", "RTT, ms", "retransmitted, %"), strict=True):
            ax.set_ylabel(title)
        figure.align_ylabels(axes[:, 0])
        figure.tight_layout()
    return figure


def draw_rtts(results: Results, percentiles: Sequence[int], theme: Theme) -> Figure:
    """Share of a run's steady RTTs at or below a value, a line per contender: percentiles, means over the runs."""
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(7.5, 4.2))
        ax = figure.subplots()
        for label in results.labels:
            line = lines_of(results)[label]
            means = [float(np.mean(results.values(f"rtt_p{q}_ms")[label])) for q in percentiles]
            ax.plot(
                means,
                percentiles,
                marker="o",
                color=theme.tone(line.colour),
                linestyle=line.dashes,
                label=names.figure(label),
            )
        ax.set_xlabel("RTT, ms")
        ax.set_ylabel("% of RTTs at or below")
        ax.set_ylim(0, 100)
        ax.legend(loc="lower right")
        figure.tight_layout()
    return figure


def draw_download_times(results: Results, sizes_mb: Sequence[int], theme: Theme) -> Figure:
    """Seconds against megabytes, a line per contender with a band over its runs."""
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(7.5, 4.2))
        ax = figure.subplots()
        for label in results.labels:
            line = lines_of(results)[label]
            columns = np.array([results.values(f"time_{mb}mb_s")[label] for mb in sizes_mb])
            colour = theme.tone(line.colour)
            ax.plot(
                sizes_mb,
                columns.mean(axis=1),
                marker="o",
                color=colour,
                linestyle=line.dashes,
                label=names.figure(label),
            )
            low, high = np.percentile(columns, [2.5, 97.5], axis=1)
            ax.fill_between(sizes_mb, low, high, color=colour, alpha=0.15, linewidth=0)
        _finish(figure, ax)
    return figure


def draw_settings(results: Results, factor: str, sizes_mb: Sequence[int], theme: Theme) -> Figure:
    """Seconds against megabytes for the first contender, a line per value of a factor that has downloads."""
    label = results.labels[0]
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(7.5, 4.2))
        ax = figure.subplots()
        shown = 0
        for setting in levels(results, factor):
            columns = np.array([results.values(f"time_{mb}mb_s", **{factor: setting})[label] for mb in sizes_mb])
            if np.isnan(columns).all():
                continue
            colour = theme.tone(colours[shown % len(colours)])
            shown += 1
            dashes = "solid" if shown < 3 else (0, (4.5, 1.6))
            ax.plot(
                sizes_mb,
                columns.mean(axis=1),
                marker="o",
                color=colour,
                linestyle=dashes,
                label=names.figure(f"{factor}={setting}"),
            )
        _finish(figure, ax)
    return figure


def draw_buffers(results: Results, theme: Theme) -> Figure:
    """Goodput of the first contender for every setting, a panel per state of autotuning."""
    label = results.labels[0]
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(8.6, 3.6))
        axes = figure.subplots(1, 2, sharey=True)
        for ax, tuned in zip(axes, ("on", "off"), strict=True):
            rmem, wmem = list(RMEM_BYTES), list(WMEM_BYTES)
            for k, w in enumerate(wmem):
                values = [
                    float(np.median(results.values("goodput_mbps", rmem=r, wmem=w, autotuning=tuned)[label]))
                    for r in rmem
                ]
                x = np.arange(len(rmem)) + (k - 0.5) * 0.38
                bars = ax.bar(x, values, 0.36, color=theme.tone(("#0072B2", "#E69F00")[k]), label=f"tcp_wmem {w}")
                ax.bar_label(bars, [f"{v:.3g}" for v in values], fontsize=8, color=theme.muted, padding=2)
            ax.set_xticks(range(len(rmem)), [f"tcp_rmem {r}" for r in rmem])
            ax.set_title(f"Autotuning {tuned}")
            ax.grid(visible=False, axis="x")
        axes[0].set_ylabel("goodput, Mbit/s")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="upper right", ncols=2)
        figure.subplots_adjust(left=0.08, right=0.99, top=0.84, bottom=0.09, wspace=0.06)
    return figure


def _finish(figure: Figure, ax: mpl.axes.Axes) -> None:
    ax.set_xlabel("megabytes")
    ax.set_ylabel("seconds")
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    ax.legend(loc="upper left")
    figure.tight_layout()
