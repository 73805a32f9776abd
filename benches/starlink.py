"""The table and the figure of `starlink-2026` in docs/links.md.

`python -m benches.starlink`, from the top of the repository; takes ten minutes on one core. Every contender runs alone,
with data down and up, through queues that drop from the front and from the tail.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import orbitcc  # noqa: F401  (registers the controllers)
from benches import pictures
from benches.pages import replace
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.eval.contenders import from_controller
from orbitcc.eval.figures.style import LIGHT, Theme, lines
from orbitcc.eval.statistics import median_estimate

DOCUMENT = Path("docs/links.md")
PICTURE = Path("docs/images/links/starlink-2026.png")
CONTENDERS = {
    "cubic": "Cubic",
    "bbr": "BBR",
    "bbr3": "BBRv3",
    "leocc": "LeoCC",
    "c4": "C4",
    "perigee": "perigee",
    "zenith": "zenith",
    "astraea": "astraea",
}
OWN = {"perigee": "#56B4E9", "astraea": "#1A1A1A"}
"""Colours other than those of all figures, where two contenders would be too alike."""
WAYS, DROPS = ("down", "up"), ("front", "tail")
RUNS, SECONDS = 30, 120.0
SHOWN = ("bbr3", "up", 2)
"""Contender, direction and run of the lower plot."""

Array = NDArray[np.float64]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Outcome:
    """Figures of one run: Mbit/s, ms, percent of the packets sent (twice), and the smoothed RTT over time."""

    goodput: float
    rtt: float
    dropped: float
    lost: float
    t_s: Array
    srtt_ms: Array


def outcome(contender: str, way: str, drop: str, run: int) -> Outcome:
    scenario = scenarios.get("starlink-2026", direction=way, drop=drop, run=run, duration_s=SECONDS)
    recording = simulate(from_controller(contender).take_all(scenario), record_interval_s=0.1)
    flow, link = recording.flow_totals[0], recording.link_totals[0]
    share = 100 / max(1, flow["sent_packets"])
    return Outcome(
        flow["goodput_mbps"],
        flow["srtt_p95_ms"],
        share * link["dropped_packets"],
        share * link["lost_packets"],
        recording.t_s,
        recording.flows["srtt_ms"][:, 0],
    )


def table(outcomes: Mapping[Key, list[Outcome]]) -> str:
    heads = ("data", "contender", "a full queue drops", "goodput, Mbit/s ↑", "25 %", "75 %")
    more = ("95 % RTT, ms ↓", "25 %", "75 %", "dropped by the queue, %", "lost on the air, %")
    rows = [f"| {' | '.join((*heads, *more))} |", "|---" * len((*heads, *more)) + "|"]
    for (contender, way, drop), runs in outcomes.items():
        goodput, low, high = np.percentile([run.goodput for run in runs], (50, 25, 75))
        rtt, fast, slow = np.percentile([run.rtt for run in runs], (50, 25, 75))
        dropped, lost = (np.median([getattr(run, name) for run in runs]) for name in ("dropped", "lost"))
        rows.append(
            f"| {way} | {CONTENDERS[contender]} | {drop} | {goodput:.1f} | {low:.1f} | {high:.1f} "
            f"| {rtt:.0f} | {fast:.0f} | {slow:.0f} | {dropped:.2f} | {lost:.3f} |"
        )
    return "\n".join(rows)


def differences(outcomes: Mapping[Key, list[Outcome]]) -> str:
    """What the front changes in the same runs, for contenders that fill the queue."""
    heads = ("data", "contender", "change of the goodput, %", "from", "to", "change of the 95 % RTT, %", "from", "to")
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for contender, label in CONTENDERS.items():
        for way in WAYS:
            front, tail = (outcomes[contender, way, drop] for drop in DROPS)
            if not any(run.dropped for run in tail):
                continue
            cells = []
            for name in ("goodput", "rtt"):
                pairs = [(getattr(a, name), getattr(b, name)) for a, b in zip(front, tail, strict=True)]
                change = median_estimate(100 * (a / b - 1) for a, b in pairs)
                cells += [f"{value:+.1f}" for value in (change.median, change.low, change.high)]
            rows.append(f"| {way} | {label} | {' | '.join(cells)} |")
    return "\n".join(rows)


def figure(outcomes: Mapping[Key, list[Outcome]], theme: Theme = LIGHT) -> Figure:
    colours = {name: style.colour for name, style in lines([(name, name) for name in CONTENDERS]).items()} | OWN
    with mpl.rc_context(theme.rc()):
        drawn = Figure(figsize=(10, 6.6))
        grid = drawn.add_gridspec(2, 2, height_ratios=[1.6, 1], hspace=0.42, wspace=0.16)
        drawn.subplots_adjust(left=0.06, right=0.985, top=0.87, bottom=0.075)
        drawn.text(0.012, 0.965, "One flow on starlink-2026", fontsize=13, weight="bold", va="center")
        x = 0.985
        for name, label in reversed(CONTENDERS.items()):
            drawn.text(x, 0.965, f"● {label}", color=colours[name], weight="bold", va="center", ha="right")
            x -= 0.028 + 0.0082 * len(label)
        for column, way in enumerate(WAYS):
            axes = drawn.add_subplot(grid[0, column])
            for name in CONTENDERS:
                points = [_point(axes, outcomes[name, way, drop], colours[name], drop) for drop in DROPS]
                axes.plot(*np.transpose(points), color=colours[name], linewidth=0.8, zorder=2)
            axes.set_title(f"Data {way}: goodput, Mbit/s")
            axes.set_xlabel("95th percentile of the smoothed RTT, ms")
            axes.set_ylim(bottom=0)
        name, way, run = SHOWN
        below = drawn.add_subplot(grid[1, :])
        for drop, colour in zip(DROPS, (colours[name], theme.muted), strict=True):
            shown = outcomes[name, way, drop][run - 1]
            below.plot(shown.t_s, shown.srtt_ms, color=colour, linewidth=1.3, label=f"drops from the {drop}")
        below.set_title(f"Data {way}, run {run}: smoothed RTT of {CONTENDERS[name]}, ms")
        below.set_xlabel("time, s")
        below.set_xlim(0, SECONDS)
        below.set_ylim(bottom=0)
        below.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncol=2)
    return drawn


def _point(axes: Axes, runs: list[Outcome], colour: str, drop: str) -> tuple[float, float]:
    """Median and quartiles of both axes: filled for queues that drop from the front."""
    low, x, high = np.percentile([run.rtt for run in runs], (25, 50, 75))
    least, y, most = np.percentile([run.goodput for run in runs], (25, 50, 75))
    axes.errorbar(
        x,
        y,
        xerr=[[x - low], [high - x]],
        yerr=[[y - least], [most - y]],
        fmt="o",
        color=colour,
        markersize=6 if drop == "front" else 9,
        markerfacecolor=colour if drop == "front" else "none",
        elinewidth=0.7,
        zorder=3,
    )
    return float(x), float(y)


def main() -> None:
    outcomes: dict[Key, list[Outcome]] = {}
    for way in WAYS:
        for contender in CONTENDERS:
            for drop in DROPS:
                runs = [outcome(contender, way, drop, run) for run in range(1, RUNS + 1)]
                outcomes[contender, way, drop] = runs
                print(contender, way, drop, file=sys.stderr, flush=True)
    pictures.write(figure(outcomes), PICTURE)
    replace(DOCUMENT, {"starlink-2026": table(outcomes), "starlink-2026-front": differences(outcomes)})


if __name__ == "__main__":
    main()
