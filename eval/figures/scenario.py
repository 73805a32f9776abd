"""What a scenario does over time, before anything is sent: rate, base RTT, loss, outages, flows."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orbitcc.common import names
from orbitcc.envs.description.conditions import loss_rate
from orbitcc.envs.description.links import Direction
from orbitcc.envs.description.model import points_of
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval.figures import style
from orbitcc.eval.figures.style import Theme

MAX_LINES = 8
"""As many links, or flows, have lines of their own."""


def draw_scenario(scenario: Scenario, theme: Theme) -> Figure:
    """Rates of the links, base RTTs of the flows, losses, and who sends when; outages shaded, handovers dotted."""
    rated = [link for link in scenario.links if link.rate_mbps is not None]
    lossy = [link for link in scenario.links if any(loss_rate(v) > 0 for _, v in points_of(link.loss))]
    panels = 2 + bool(rated) + bool(lossy)
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 1.4 + 1.75 * panels))
        axes = list(np.atleast_1d(figure.subplots(panels, 1, sharex=True)))
        height = figure.get_figheight()
        longest = max(len(names.figure(flow.name)) for flow in scenario.flows)
        left = min(max(0.07, 0.02 + 0.0065 * longest), 0.6)  # room for the flows' names
        figure.subplots_adjust(left=left, right=0.975, top=1 - 0.82 / height, bottom=0.5 / height, hspace=0.32)
        about = f"seed {scenario.seed} · {scenario.duration_s:g} s"
        figure.text(0.012, 1 - 0.3 / height, names.figure(scenario.name), fontsize=13, weight="bold", va="center")
        figure.text(0.975, 1 - 0.3 / height, about, ha="right", va="center", color=theme.muted)
        if rated:
            _draw_rates(axes.pop(0), scenario, rated, theme)
        _draw_rtts(axes.pop(0), scenario, theme)
        if lossy:
            _draw_losses(axes.pop(0), scenario, lossy, theme)
        _draw_flows(axes.pop(0), scenario, theme)
        for ax in figure.axes:
            for link in scenario.links:
                for outage in link.outages:
                    end = outage.at_s + max(outage.duration_ms / 1e3, scenario.duration_s / 1500)
                    ax.axvspan(outage.at_s, end, color=theme.outage, alpha=0.25, linewidth=0, zorder=0)
                for change in link.path_changes():
                    ax.axvline(change.at_s, color=theme.edge, linewidth=0.7, linestyle=(0, (1, 2)), zorder=0)
        figure.axes[-1].set_xlabel("seconds")
        figure.axes[-1].set_xlim(0, scenario.duration_s)
    return figure


def _draw_rates(ax: Axes, scenario: Scenario, links: list[Any], theme: Theme) -> None:
    colours = style.flow_colours(["cubic"] * min(len(links), MAX_LINES), theme)
    for link, colour in zip(links[:MAX_LINES], colours, strict=True):
        _steps(ax, link, "rate_mbps", scenario.duration_s, colour, names.figure(link.name))
    ax.set_title("Rate, Mbit/s")
    ax.set_ylim(bottom=0)
    _legend(ax, len(links))


def _draw_rtts(ax: Axes, scenario: Scenario, theme: Theme) -> None:
    t = np.unique(np.append(np.linspace(0, scenario.duration_s, 1501), _knots(scenario)))
    t = t[t < scenario.duration_s]
    curves: dict[tuple[Any, ...], str] = {}
    for i, flow in enumerate(scenario.flows):
        key = (tuple(scenario.path_of(i)), flow.uplink_delay_ms, flow.reroutes)
        curves.setdefault(key, str(i))
    for index in list(curves.values())[:MAX_LINES]:
        rtt = [scenario.base_rtt_ms(int(index), float(s)) for s in t]
        ax.plot(t, rtt, color=theme.base_rtt, linewidth=1.3, drawstyle="steps-post", alpha=0.9)
    ax.set_title("Base RTT, ms" + (" (a line for each path)" if len(curves) > 1 else ""))
    ax.set_ylim(bottom=0)


def _draw_losses(ax: Axes, scenario: Scenario, links: list[Any], theme: Theme) -> None:
    colours = style.flow_colours(["reno"] * min(len(links), MAX_LINES), theme)
    for link, colour in zip(links[:MAX_LINES], colours, strict=True):
        points = [(t, 100 * loss_rate(v)) for t, v in points_of(link.loss)]
        x, y = [t for t, _ in points] + [scenario.duration_s], [v for _, v in points]
        ax.step(x, [*y, y[-1]], where="post", color=colour, label=names.figure(link.name))
    ax.set_title("Random loss, % of packets (long-run)")
    ax.set_ylim(bottom=0)
    _legend(ax, len(links))


def _draw_flows(ax: Axes, scenario: Scenario, theme: Theme) -> None:
    shown = scenario.flows[: 3 * MAX_LINES]
    colours = style.flow_colours([flow.controller.name for flow in shown], theme)
    for i, (flow, colour) in enumerate(zip(shown, colours, strict=True)):
        end = scenario.duration_s if flow.stop_s is None else flow.stop_s
        ax.barh(-i, end - flow.start_s, left=flow.start_s, height=0.6, color=colour)
        for reroute in flow.reroutes:
            ax.plot([reroute.at_s], [-i], "|", color=theme.page, markersize=9, markeredgewidth=2)
    called = [names.figure(flow.name) for flow in shown]
    ax.set_yticks([-i for i in range(len(shown))], called, fontsize=8 if len(shown) <= MAX_LINES else 6)
    ax.set_title(
        "Flows" + (f" (the first {len(shown)} of {len(scenario.flows)})" if len(shown) < len(scenario.flows) else "")
    )
    ax.set_ylim(0.6 - max(len(shown), 3), 0.6)
    ax.grid(visible=False, axis="y")


def _steps(ax: Axes, way: Direction, field: str, duration_s: float, colour: str, label: str) -> None:
    points = points_of(getattr(way, field))
    ax.step(
        [t for t, _ in points] + [duration_s], [v for _, v in points] + [points[-1][1]], where="post", color=colour,
        label=label,
    )  # fmt: skip


def _knots(scenario: Scenario) -> list[float]:
    """When some delay changes."""
    return [t for link in scenario.links for way in (link, link.backward()) for t, _ in points_of(way.delay_ms)]


def _legend(ax: Axes, lines: int) -> None:
    if 1 < lines <= MAX_LINES:
        ax.legend(loc="upper right", ncols=min(lines, 4), fontsize=8, bbox_to_anchor=(1.0, 1.22))
