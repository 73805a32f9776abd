"""The table and the picture of `constellation` in docs/constellations.md.

    python -m benches.constellation OUT [--first-run 17001] [--runs 3]
    python -m benches.constellation --picture

The first command runs the suite `constellation-sharing` and takes ten minutes of one core; the second draws the links
of one run under Cubic.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

import orbitcc  # noqa: F401  (registers the controllers)
from benches import pictures
from benches.pages import replace
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.orbits import places
from orbitcc.envs.orbits.constellation import SHELLS
from orbitcc.envs.orbits.places import MEAN_RADIUS_KM
from orbitcc.envs.orbits.shared import SharedRoutes
from orbitcc.eval import contenders, suites
from orbitcc.eval.figures.globe import Projection, draw_ground
from orbitcc.eval.figures.style import LIGHT
from orbitcc.eval.runner import run_suite
from orbitcc.eval.suites.constellation import FROM_S, link_utilisation

DOCUMENT = Path("docs/constellations.md")
PICTURE = Path("docs/images/constellation.png")
CONTROLLERS = ("cubic", "bbr3", "leocc", "c4", "vivace")
POLICIES = ("perigee", "zenith")
COLUMNS = {
    "goodput_mbps": "goodput per pair, Mbit/s ↑",
    "slowest_mbps": "10th percentile, Mbit/s ↑",
    "delay_inflation": "delay inflation ↓",
    "retransmission_rate": "retransmissions, % ↓",
    "after_reroute": "goodput after a reroute / before ↑",
    "hot_utilisation": "utilisation of the 20 busiest links ↑",
}
PERCENT = ("retransmission_rate",)
RULES = {"shortest": "shortest routes", "sticky": "satellites kept until they set, with outages"}
SEEN_FROM = {"The Americas": (15.0, -85.0), "Europe and Africa": (25.0, 20.0), "Asia and Australia": (15.0, 115.0)}
"""Title of a globe -> the point below its middle, degrees north and east."""


def table(out: Path, first_run: int, runs: int) -> str:
    """Mean over the runs, and their range, of every contender."""
    line_up = contenders.line_up(CONTROLLERS, POLICIES)
    suite = suites.get("constellation-sharing", {"first_run": first_run})
    results = run_suite(suite, line_up, out_dir=out, profile="full", runs=runs, resume=True)
    lines = [f"| routes | contender | {' | '.join(COLUMNS.values())} |", f"|---|---|{'---|' * len(COLUMNS)}"]
    for rule, contender in itertools.product(RULES, line_up):
        cells = []
        for key in COLUMNS:
            values = np.array(results.values(key, selection=rule)[contender.label]) * (100 if key in PERCENT else 1)
            cells.append(f"{values.mean():.2f} ({values.min():.2f}–{values.max():.2f})")
        lines.append(f"| {RULES[rule]} | {contender.label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw() -> Figure:
    """How much of each link is used, on globes: links between satellites, and cities."""
    scenario = scenarios.get("constellation", run=1)
    used = link_utilisation(simulate(scenario), FROM_S)
    shell = SHELLS["starlink1"]
    cities = sorted({name.removeprefix("up ") for name in scenario.link_names if name.startswith("up ")})
    routes = SharedRoutes(
        shell, cities, scenario.duration_s, selection="shortest", slot_s=15.0, min_elevation_deg=25.0, seed=1
    )
    satellites = routes.constellation.positions_km([scenario.duration_s / 2])[0]
    links: dict[tuple[int, int], float] = {}
    for name, share in zip(scenario.link_names, used, strict=True):
        if " > " in name:
            ends = sorted(_number(label, shell.satellites_per_plane) for label in name.split(" > "))
            links[ends[0], ends[1]] = max(share, links.get((ends[0], ends[1]), 0.0))
    busiest_last = sorted(links, key=lambda ends: links[ends])
    heat = LinearSegmentedColormap.from_list("use", [LIGHT.grid, LIGHT.base_rtt, LIGHT.outage])
    with mpl.rc_context(LIGHT.rc()):
        figure = Figure(figsize=(12, 4.1), layout="constrained")
        axes = figure.subplots(1, len(SEEN_FROM))
        for ax, (title, (north, east)) in zip(axes, SEEN_FROM.items(), strict=True):
            view = Projection.above(places.find(f"{north},{east}").position_km())
            draw_ground(ax, view, 2 * MEAN_RADIUS_KM, LIGHT)
            shown = [ends for ends in busiest_last if view.faces(satellites[list(ends)]).all()]
            lines = LineCollection(
                [view.plane(satellites[list(ends)]) for ends in shown],
                array=np.array([links[ends] for ends in shown]),
                cmap=heat,
                norm=Normalize(0, 1),
                linewidths=[0.6 + 2.2 * links[ends] for ends in shown],
                capstyle="round",
                zorder=3,
            )
            ax.add_collection(lines, autolim=False)
            ground = np.array([places.find(city).position_km() for city in cities])
            dots = view.plane(ground[view.faces(ground)])
            ax.plot(dots[:, 0], dots[:, 1], "s", color=LIGHT.ink, markersize=3.2, zorder=4)
            reach = 1.12 * MEAN_RADIUS_KM
            ax.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], title=title, aspect="equal")
            ax.set_frame_on(False)
        bar = figure.colorbar(ScalarMappable(Normalize(0, 1), heat), ax=axes, shrink=0.75, pad=0.01)
        bar.set_label("mean rate / capacity of a link")
    return figure


def _number(label: str, per_plane: int) -> int:
    plane, slot = label.split("/")
    return int(plane) * per_plane + int(slot)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--first-run", type=int, default=17001)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--picture", action="store_true", help="only draw the picture")
    arguments = parser.parse_args(argv)
    if arguments.picture:
        pictures.write(draw(), PICTURE, max_bytes=200_000)
    elif arguments.out is None:
        parser.error("a folder for the results, or --picture, is required")
    else:
        replace(DOCUMENT, {"constellation": table(arguments.out, arguments.first_run, arguments.runs)})


if __name__ == "__main__":
    main()
