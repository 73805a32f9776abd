"""The picture and the tables of docs/fidelity.md: `python -m benches.fidelity`, from the top of the repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from orbitcc.envs.files import atomic_write_bytes
from orbitcc.eval.figures import style
from orbitcc.eval.figures.base import render
from tests.sim.networks import S
from tests.sim.test_kernel_truth import (
    DATA,
    LOSS,
    RTT_STEPS_MS,
    START,
    every_100_ms,
    measured,
    second_half,
    simulated,
)

PICTURE = Path("docs/images/fidelity-s1.png")
TITLES = {
    "reno": "Reno",
    "cubic_hystart_on": "Cubic",
    "cubic_hystart_off": "Cubic, HyStart off",
    "hybla": "Hybla",
    "vegas": "Vegas",
    "westwood": "Westwood",
    "illinois": "Illinois",
    "bbr": "BBR",
}
SHOWN_S = 3
SEEDS = range(1, 31)


def draw() -> Figure:
    """The congestion window of S1 from the start: Linux as dots, the simulator as a line."""
    theme = style.LIGHT
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(9.5, 5.2), layout="constrained")
        panels = figure.subplots(2, len(TITLES) // 2, sharex=True)
        for ax, (controller, title) in zip(panels.flat, TITLES.items(), strict=True):
            colour = style.CONTROLLER_COLOURS.get(controller.split("_")[0], style.CONTROLLER_COLOURS["cubic"])
            ours = simulated("S1", controller)
            kernel = np.genfromtxt(DATA / f"S1_{controller}.csv", delimiter=",", names=True)
            t_s = ours.t_s - START / S
            shown = (t_s > 0) & (t_s <= SHOWN_S)
            ax.plot(t_s[shown], ours.flow("cwnd_packets")[shown], color=colour, label="OrbitCC")
            shown = kernel["t_s"] <= SHOWN_S
            dots = ax.scatter(kernel["t_s"][shown], kernel["cwnd_packets"][shown], s=17, zorder=3, label="Linux 6.1")
            dots.set(facecolor="none", edgecolor=theme.ink, linewidth=1)
            ax.set_title(title)
            ax.set(xlim=(0, SHOWN_S), xticks=range(SHOWN_S + 1))
            ax.set_ylim(0, None)
        for ax in panels[-1]:
            ax.set_xlabel("time (s)")
        for ax in panels[:, 0]:
            ax.set_ylabel("congestion window (packets)")
        panels[0, 0].legend(loc="lower right")
    return figure


def pair(kernel: float, ours: float, digits: int) -> str:
    return f"{kernel:.{digits}f} / {ours:.{digits}f}"


def lossless(scenarios: Sequence[str]) -> None:
    print("| Linux / OrbitCC | | goodput, Mbit/s | srtt of the second half, ms | retransmissions | largest window |")
    print("|---|---|---|---|---|---|")
    for scenario in scenarios:
        for controller, title in TITLES.items():
            kernel, ours = measured(scenario, controller)[0], simulated(scenario, controller)
            cells = (
                pair(kernel["goodput_mbps"], ours.total["goodput_mbps"], 2),
                pair(kernel["srtt_ms_second_half"], second_half(ours, "srtt_ms"), 1),
                pair(kernel["retransmitted_packets"], ours.total["retransmitted_packets"], 0),
                pair(kernel["cwnd_packets_max"], np.nanmax(every_100_ms(ours, "cwnd_packets")), 0),
            )
            print(f"| {scenario} | {title} | {' | '.join(cells)} |")


def spread(values: Sequence[float], digits: int) -> str:
    low, middle, high = np.percentile(values, [10, 50, 90])
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def lossy() -> None:
    print("| | | goodput: Linux | OrbitCC | srtt: Linux | OrbitCC | retransmissions: Linux | OrbitCC |")
    print("|---|---|---|---|---|---|---|---|")
    for scenario in LOSS:
        for controller, title in TITLES.items():
            kernel, ours = measured(scenario, controller), [simulated(scenario, controller, seed) for seed in SEEDS]

            def of_kernel(name: str, digits: int, kernel: list[dict[str, float]] = kernel) -> str:
                return ", ".join(f"{value:.{digits}f}" for value in sorted(row[name] for row in kernel))

            cells = (
                of_kernel("goodput_mbps", 1),
                spread([run.total["goodput_mbps"] for run in ours], 1),
                of_kernel("srtt_ms_second_half", 1),
                spread([second_half(run, "srtt_ms") for run in ours], 1),
                of_kernel("retransmitted_packets", 0),
                spread([run.total["retransmitted_packets"] for run in ours], 0),
            )
            print(f"| {scenario} | {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    print(atomic_write_bytes(PICTURE, render(draw())), end="\n\n")
    lossless(["S1"])
    print()
    lossless(list(RTT_STEPS_MS))
    print()
    lossy()
