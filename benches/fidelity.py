"""The figures and most tables of docs/fidelity.md: `python -m benches.fidelity`, from the top of the repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from orbitcc.common.files import atomic_write_bytes
from orbitcc.eval.figures import style
from orbitcc.eval.figures.base import render
from tests.sim.ecn_truth import SLOT_S, leo_windows
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

PICTURES = Path("docs/images")
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
RETRANSMISSIONS = "Retransmissions, packets"
SEEDS = range(1, 31)


def draw() -> Figure:
    """The congestion window of S1 from the start: circles for Linux, a line for the simulator."""
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


def draw_leo() -> Figure:
    """The congestion window over a LEO path (E3): circles for Linux, a line for the simulator."""
    theme = style.LIGHT
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(9.5, 5.2), layout="constrained")
        panels = figure.subplots(2, 1, sharex=True)
        for ax, controller in zip(panels, ("reno", "cubic"), strict=True):
            kernel, ours = leo_windows(controller)
            t_s = 0.1 * np.arange(1, len(ours) + 1)
            ax.plot(t_s, ours[:, 0], color=style.CONTROLLER_COLOURS[controller], label="OrbitCC")
            dots = ax.scatter(t_s[9::10], kernel[9::10, 0], s=14, zorder=3, label="Linux 6.1")
            dots.set(facecolor="none", edgecolor=theme.ink, linewidth=1)
            ax.set_title(TITLES.get(controller, controller.capitalize()))
            ax.set_ylabel("congestion window (packets)")
            ax.set(xlim=(0, t_s[-1]), xticks=range(0, round(t_s[-1]) + 1, SLOT_S))
            ax.set_ylim(0, None)
        panels[-1].set_xlabel("time (s)")
        panels[0].legend(loc="upper right")
    return figure


def lossless(scenarios: Sequence[str]) -> None:
    """A table per scenario with one run of Linux and one of the simulator per controller."""
    figures = {"goodput": ", Mbit/s", "smoothed RTT": ", ms", "retransmissions": "", "largest window": ", packets"}
    heads = [f"{figure} {side}{unit}" for figure, unit in figures.items() for side in ("Linux", "OrbitCC")]
    for scenario in scenarios:
        print(f"{scenario}:\n\n| controller | {' | '.join(heads)} |\n{'|---' * (1 + len(heads))}|")
        for controller, title in TITLES.items():
            kernel, ours = measured(scenario, controller)[0], simulated(scenario, controller)
            cells = (
                f"{kernel['goodput_mbps']:.2f}",
                f"{ours.total['goodput_mbps']:.2f}",
                f"{kernel['srtt_ms_second_half']:.1f}",
                f"{second_half(ours, 'srtt_ms'):.1f}",
                f"{kernel['retransmitted_packets']:.0f}",
                f"{ours.total['retransmitted_packets']:.0f}",
                f"{kernel['cwnd_packets_max']:.0f}",
                f"{np.nanmax(every_100_ms(ours, 'cwnd_packets')):.0f}",
            )
            print(f"| {title} | {' | '.join(cells)} |")
        print()


def lossy() -> None:
    """A table per figure: the runs of Linux in order, and percentiles of the simulator's runs."""
    rows: dict[str, list[str]] = {}

    def add(figure: str, where: str, kernel: Sequence[float], ours: Sequence[float], digits: int) -> None:
        values = [*sorted(kernel), *np.percentile(ours, [10, 50, 90])]
        rows.setdefault(figure, []).append(f"| {where} | {' | '.join(f'{value:.{digits}f}' for value in values)} |")

    for scenario, loss in LOSS.items():
        for controller, title in TITLES.items():
            kernel, ours = measured(scenario, controller), [simulated(scenario, controller, seed) for seed in SEEDS]
            where = f"{100 * loss:g} % | {title}"
            for figure, key, digits in (
                ("Goodput, Mbit/s", "goodput_mbps", 1),
                (RETRANSMISSIONS, "retransmitted_packets", 0),
            ):
                add(figure, where, [row[key] for row in kernel], [run.total[key] for run in ours], digits)
            srtt_ms = [second_half(run, "srtt_ms") for run in ours]
            add("Smoothed RTT, ms", where, [row["srtt_ms_second_half"] for row in kernel], srtt_ms, 1)
    heads = "Linux, lowest | Linux, middle | Linux, highest | OrbitCC, 10 % | OrbitCC, median | OrbitCC, 90 %"
    for figure in ("Goodput, Mbit/s", "Smoothed RTT, ms", RETRANSMISSIONS):
        print(f"{figure}:\n\n| random loss | controller | {heads} |\n{'|---' * 8}|")
        print("\n".join(rows[figure]), end="\n\n")


if __name__ == "__main__":
    for name, figure in (("s1", draw()), ("leo", draw_leo())):
        print(atomic_write_bytes(PICTURES / f"fidelity-{name}.png", render(figure)))
    print()
    lossless(["S1", *RTT_STEPS_MS])
    lossy()
