"""The figures of the satellite paths in docs/links.md: `python -m benches.orbits`, from the top of the repository."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import orbitcc  # noqa: F401  (registers the controllers)
from benches.pictures import write
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.orbits import leoem
from orbitcc.envs.orbits.routing import PathSpec, find_path, find_route
from orbitcc.eval.figures.path import draw_line, draw_path
from orbitcc.eval.figures.run import draw_run
from orbitcc.eval.figures.style import LIGHT, Theme

FOLDER = Path("docs/images/links")
SELECTIONS = {
    "shortest": "the satellites of the shortest path",
    "elevation": "the highest satellite",
    "sticky": "the same satellite until it sets",
    "random": "the highest satellite after noise is added",
}
PHYSICAL = "#0072B2"


def selections(theme: Theme) -> Figure:
    """One bent pipe under each rule of selection."""
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 5.8))
        axes = figure.subplots(len(SELECTIONS), 1, sharex=True, sharey=True, gridspec_kw={"hspace": 0.42})
        figure.subplots_adjust(left=0.058, right=0.986, top=0.875, bottom=0.085)
        figure.text(
            0.012, 0.965, "Bent pipe San Diego – New York: base RTT, ms", fontsize=13, weight="bold", va="center"
        )
        for ax, (rule, words) in zip(axes, SELECTIONS.items(), strict=True):
            spec = PathSpec(source="San Diego", target="New York", mode="bp", selection=rule)  # type: ignore[arg-type]
            trace = find_path(spec, 600, seed=1)
            found = trace.statistics()
            draw_line(ax, trace, theme.base_rtt)
            ax.set_title(f"{rule}: {words}")
            note = f"{found.rtt_mean_ms:.1f} ± {found.rtt_sd_ms:.1f} ms, {found.access_changes} handovers at the ends"
            ax.text(1.0, 1.02, note, transform=ax.transAxes, ha="right", va="bottom", fontsize=8, color=theme.muted)
            ax.yaxis.set_major_locator(MaxNLocator(3))
        axes[-1].set_xlim(0, 600)
        axes[-1].set_xlabel("time, s")
    return figure


def logs(theme: Theme) -> Figure:
    """Each path of LeoEM as logged, and by exact geometry over the same satellites."""
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 7.2))
        axes = figure.subplots(3, 2, sharex=True, gridspec_kw={"hspace": 0.36, "wspace": 0.13})
        figure.subplots_adjust(left=0.05, right=0.986, top=0.905, bottom=0.07)
        figure.text(0.012, 0.967, "LeoEM's paths: base RTT, ms", fontsize=13, weight="bold", va="center")
        figure.text(0.75, 0.967, "▬ as logged", color=theme.base_rtt, weight="bold", va="center", ha="right")
        figure.text(0.986, 0.967, "▬ by exact geometry", color=PHYSICAL, weight="bold", va="center", ha="right")
        for ax, name in zip(axes.ravel(), leoem.names(), strict=True):
            path = leoem.get(name)
            _log(ax, path, theme)
        for ax in axes[-1]:
            ax.set_xlabel("time, s")
    return figure


def _log(ax: Axes, path: leoem.LeoemPath, theme: Theme) -> None:
    physical = find_path(path.physical, leoem.SECONDS)
    for slot in path.trace.slots:
        if slot.access_change:
            ax.axvline(slot.start_s, color=theme.edge, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
    draw_line(ax, physical, PHYSICAL, 1.4)
    draw_line(ax, path.trace, theme.base_rtt, 1.4)
    ax.set_title(path.name)
    medians = [trace.statistics().rtt_ms[2] for trace in (path.trace, physical)]
    note = "medians {:.1f} and {:.1f}".format(*medians)
    ax.text(1.0, 1.02, note, transform=ax.transAxes, ha="right", va="bottom", fontsize=8, color=theme.muted)
    ax.set_ylim(0, 1.12 * max(path.trace.statistics().rtt_ms[4], physical.statistics().rtt_ms[4]))
    ax.set_xlim(0, leoem.SECONDS)
    ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))


def route(theme: Theme, at_s: float, **given: str) -> Figure:
    chosen = find_route(PathSpec(source="San Diego", target="New York", **given), 300, seed=1)  # type: ignore[arg-type]
    return draw_path(chosen.trace(), theme, route=chosen, at_s=at_s)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    write(route(LIGHT, 100), FOLDER / "isl.png", max_bytes=120_000)  # a thousand thin lines
    write(route(LIGHT, 100, mode="bp", selection="random"), FOLDER / "bp.png")
    write(selections(LIGHT), FOLDER / "policies.png")
    write(logs(LIGHT), FOLDER / "leoem.png")
    scenario = scenarios.get("leoem", path="sd-ny-isl", controller="cubic")
    write(draw_run(simulate(scenario, record_interval_s=0.05), LIGHT), FOLDER / "leoem-cubic.png")
