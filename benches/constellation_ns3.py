"""Compares `constellation` with ns-3 in Hypatia's experiment with TCP: the tables and the picture of
docs/constellations.md.

    python -m benches.constellation_ns3 HYPATIA OUT [--page docs/constellations.md]

HYPATIA is a clone of the repository snkas/hypatia (git), with its cities and its traffic matrix. OUT keeps the networks
and the results of ns-3; the page and its picture are written with --page. It needs g++ and Debian's package of ns-3
(libns3-dev), and takes half an hour of one core, nearly all of it for ns-3.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import orbitcc  # noqa: F401  (registers the controllers)
from benches import hypatia, ns3, pictures
from benches.ns3_network import SOURCE, Array, Carried, Network, link_numbers, simulated
from benches.pages import replace
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.queues import DropTailPackets
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.description.sim_settings import SimSettings
from orbitcc.envs.errors import OrbitccError
from orbitcc.eval.figures.style import LIGHT

PICTURE = "images/constellation-unused.png"
"""Beside the page."""
DURATION_S = 200.0
INTERVAL_S = 0.1
"""Duration, and interval of the use of links: Hypatia's."""
FROM_S = 20.0
"""Goodputs and rates are means from here on."""
SATELLITES = {"fixed": "fixed at 0 s", "moving": "moving, routes selected every second"}
SIMULATORS = ("ns-3", "OrbitCC")
SEEDS = range(1, 6)
"""Runs of OrbitCC; ns-3 draws nothing."""
OPPOSITE_S = 100.0
OFFSETS_S = (0.0, 0.1, 0.7, 1.9, 3.1)
"""The second of two flows in opposite directions starts so much later."""


@dataclass(frozen=True)
class Runs:
    """The runs of one network: simulator -> what was carried in each of its runs."""

    scenario: Scenario
    carried: Mapping[str, Sequence[Carried]]

    def unused_mbps(self, carried: Carried) -> Array:
        """Unused bandwidth of the first flow's path in each interval: [T], NaN while there is no path.

        As in paper/ns3_experiments/traffic_matrix/step_3_generate_plots.py of Hypatia: the rate of a link minus what
        the busiest link between two satellites of the path carries.
        """
        scenario, flow = self.scenario, self.scenario.flows[0]
        times_s = INTERVAL_S * (np.arange(len(carried.link_mbps)) + 0.5)
        ways = [(0.0, flow.path), *((reroute.at_s, reroute.path) for reroute in flow.reroutes)]
        unused = np.full(len(times_s), np.nan)
        for (from_s, path), (until_s, _) in itertools.pairwise([*ways, (DURATION_S, ())]):
            links = {k: scenario.links[k] for k in link_numbers(scenario, path)}
            now = (times_s >= from_s) & (times_s < until_s)
            for outage in (outage for link in links.values() for outage in link.outages):
                now &= (times_s < outage.at_s) | (times_s >= outage.at_s + outage.duration_ms / 1e3)
            between = [k for k, link in links.items() if " > " in link.name]
            unused[now] = hypatia.RATE_MBPS - carried.link_mbps[now][:, between].max(axis=1, initial=0.0)
        return np.clip(unused, 0.0, None)


def per_second(unused_mbps: Array) -> Array:
    """Means over seconds, as in the figure of the paper; NaN for a second without a path."""
    return unused_mbps.reshape(-1, round(1 / INTERVAL_S)).mean(axis=1)


def steady(carried: Carried) -> tuple[Array, Array]:
    """Mean goodput of each flow, and mean rate of each link that has a rate."""
    first = round(FROM_S / INTERVAL_S)
    rates = carried.link_mbps[first:].mean(axis=0)
    return carried.goodput_mbps[first:].mean(axis=0), rates[~np.isnan(rates)]


def experiment(clone: Path, out: Path, program: Path) -> dict[str, Runs]:
    """Hypatia's experiment in both simulators, with fixed and with moving satellites."""
    cities, pairs = hypatia.inputs(clone)
    found = {}
    for name, label in SATELLITES.items():
        scenario = hypatia.scenario(cities, pairs, DURATION_S, fixed=name == "fixed")
        print(
            f"satellites {label}: {len(scenario.flows)} flows, {len(scenario.links)} links", file=sys.stderr, flush=True
        )
        theirs = Network(scenario).run(program, INTERVAL_S, out / f"{name}.txt")
        ours = [simulated(scenario.with_seed(seed), INTERVAL_S) for seed in SEEDS]
        found[name] = Runs(scenario, {"ns-3": [theirs], "OrbitCC": ours})
    return found


def goodput_rows(found: Mapping[str, Runs]) -> str:
    heads = ["goodput of all flows", *(f"{q} of flows" for q in ("10th percentile", "median", "90th percentile"))]
    lines = [_row("satellites", "simulator", *(f"{head}, Mbit/s" for head in (*heads, "mean rate of links"))), _rule(7)]
    for name, simulator in itertools.product(SATELLITES, SIMULATORS):
        figures = []
        for carried in found[name].carried[simulator]:
            goodput, rates = steady(carried)
            figures.append((goodput.sum(), *np.percentile(goodput, [10, 50, 90]), rates.mean()))
        cells = [_cell(values, digits) for values, digits in zip(np.transpose(figures), (0, 2, 2, 2, 1), strict=True)]
        lines.append(_row(SATELLITES[name], simulator, *cells))
    return "\n".join(lines)


def agreement_rows(found: Mapping[str, Runs]) -> str:
    heads = (f"correlation of {what}" for what in ("goodputs", "rates of links", "unused bandwidth over time"))
    lines = [_row("satellites", "runs", "total goodput, second / first", *heads), _rule(6)]
    for name, runs in found.items():
        (theirs,), ours = runs.carried["ns-3"], runs.carried["OrbitCC"]
        for label, pairs in {
            "ns-3 and OrbitCC": [(theirs, other) for other in ours],
            "OrbitCC with two seeds": list(itertools.combinations(ours, 2)),
        }.items():
            figures = []
            for pair in pairs:
                (goodput, rates), (goodput_2, rates_2) = map(steady, pair)
                curve, curve_2 = (per_second(runs.unused_mbps(carried)) for carried in pair)
                both = ~np.isnan(curve)
                samples = [(goodput, goodput_2), (rates, rates_2), (curve[both], curve_2[both])]
                correlations = [np.corrcoef(one, two)[0, 1] for one, two in samples]
                figures.append((goodput_2.sum() / goodput.sum(), *correlations))
            lines.append(_row(SATELLITES[name], label, *(_cell(values, 2) for values in np.transpose(figures))))
    return "\n".join(lines)


def unused_rows(found: Mapping[str, Runs]) -> str:
    heads = ("mean unused bandwidth, Mbit/s", "time with more than a third unused, %", "with more than half unused, %")
    lines = [_row("satellites", "simulator", *heads), _rule(5)]
    for name, simulator in itertools.product(SATELLITES, SIMULATORS):
        figures = []
        for carried in found[name].carried[simulator]:
            unused = found[name].unused_mbps(carried)
            unused = unused[~np.isnan(unused)] / hypatia.RATE_MBPS
            figures.append(
                (hypatia.RATE_MBPS * unused.mean(), *(100 * np.mean(unused > part) for part in (1 / 3, 0.5)))
            )
        cells = [_cell(values, digits) for values, digits in zip(np.transpose(figures), (2, 0, 0), strict=True)]
        lines.append(_row(SATELLITES[name], simulator, *cells))
    return "\n".join(lines)


def draw(found: Mapping[str, Runs]) -> Figure:
    """Unused bandwidth over time, second by second: fixed above, moving below."""
    with mpl.rc_context(LIGHT.rc()):
        figure = Figure(figsize=(8.5, 4.6), layout="constrained")
        for ax, (name, label) in zip(
            figure.subplots(len(SATELLITES), sharex=True, sharey=True), SATELLITES.items(), strict=True
        ):
            for simulator, colour in zip(SIMULATORS, (LIGHT.muted, "#0072B2"), strict=True):
                curve = per_second(found[name].unused_mbps(found[name].carried[simulator][0]))
                ax.plot(np.arange(len(curve)) + 0.5, curve, color=colour, label=simulator, linewidth=1.3)
            ax.set(title=f"satellites {label}", xlim=(0, DURATION_S))
            ax.set_ylabel("unused, Mbit/s")
        figure.axes[0].set_ylim(bottom=0)
        figure.axes[0].legend(loc="upper right", ncols=2)
        figure.axes[-1].set_xlabel("time, s")
    return figure


def opposite(start_s: float | None, packets: SimSettings) -> Scenario:
    """A Reno flow over 10 Mbit/s, 93 ms and 100 packets, and one in the opposite direction that starts at a time."""
    queue = DropTailPackets(limit_packets=hypatia.QUEUE_PACKETS)
    unused = Direction(rate_mbps=None)
    east = Link(name="west > east", rate_mbps=hypatia.RATE_MBPS, delay_ms=46.5, queue=queue, reverse=unused)
    west = east.changed(name="east > west")
    flows = [Flow(controller=hypatia.RENO, path=(east.name,), return_path=(west.name,))]
    if start_s is not None:
        flows.append(Flow(controller=hypatia.RENO, path=(west.name,), return_path=(east.name,), start_s=start_s))
    return Scenario(name="opposite", duration_s=OPPOSITE_S, links=(east, west), flows=tuple(flows), sim=packets)


def opposite_rows(out: Path, program: Path) -> str:
    """Goodputs of one flow, and of two in opposite directions."""
    lines = [_row("segments, bytes", "simulator", "one flow, Mbit/s", "two opposite flows, Mbit/s"), _rule(4)]
    for packets, simulator in itertools.product((hypatia.PACKETS, SimSettings()), SIMULATORS):
        print(f"opposite flows: {packets.mss_bytes} bytes, {simulator}", file=sys.stderr, flush=True)
        goodputs = []
        for k, start_s in enumerate((None, *OFFSETS_S)):
            scenario, file = opposite(start_s, packets), out / f"opposite-{packets.mss_bytes}-{k}.txt"
            ours = simulator == "OrbitCC"
            carried = simulated(scenario, 1.0) if ours else Network(scenario).run(program, 1.0, file)
            goodputs.append(carried.goodput_mbps[round(FROM_S) :].mean(axis=0).sum())
        lines.append(_row(str(packets.mss_bytes), simulator, f"{goodputs[0]:.1f}", _cell(goodputs[1:], 1)))
    return "\n".join(lines)


def _cell(values: Sequence[float] | Array, digits: int) -> str:
    """The mean and, of several values, the range."""
    mean, low, high = (
        f"{value:.{digits}f}".replace("-", "−") for value in (np.mean(values), np.min(values), np.max(values))
    )
    return mean if len(values) == 1 else f"{mean} ({low}–{high})"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(columns: int) -> str:
    return "|---" * columns + "|"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hypatia", type=Path, help="a clone of snkas/hypatia")
    parser.add_argument("out", type=Path, help="a folder for networks and results of ns-3")
    parser.add_argument("--page", type=Path, help="write the tables into this page, and the picture beside it")
    arguments = parser.parse_args(argv)
    try:
        hypatia.inputs(arguments.hypatia)
    except OrbitccError as error:
        parser.error(str(error))
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        program = ns3.built(Path(folder), SOURCE)
        parts = {"ns3-opposite": opposite_rows(arguments.out, program)}
        found = experiment(arguments.hypatia, arguments.out, program)
    parts["ns3-goodput"] = goodput_rows(found)
    parts["ns3-agreement"] = agreement_rows(found)
    parts["ns3-unused"] = unused_rows(found)
    for name, text in parts.items():
        print(f"{name}:\n\n{text}\n")
    if arguments.page is not None:
        replace(arguments.page, parts)
        pictures.write(draw(found), arguments.page.parent / PICTURE, max_bytes=150_000)


if __name__ == "__main__":
    main()
