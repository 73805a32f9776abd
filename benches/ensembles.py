"""The tables of docs/fidelity.md for two flows and for Westwood over GEO: `python -m benches.ensembles`.

The simulator runs the same ensembles as Linux: the second flow connects through the loaded queue, at the same offsets.
Host jitter (each packet waits up to this many microseconds at its host) shows how much a result depends on phases.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from tests.sim.ensembles import GEO_SERIALISATION_NS, LATE_S, Share, ensemble, measured, westwood

JITTERS_US = (0, 5, 60, 250)
TITLES = {"reno": "Reno", "cubic_hystart_on": "Cubic", "hybla": "Hybla", "bbr": "BBR"}
ROWS = [(scenario, cc) for scenario in ("S2", "S6") for cc in TITLES]
GEO_PHASES = 24


def cells(runs: Sequence[tuple[Share, Share]], figure: str, digits: int) -> str:
    """The 10th, 50th and 90th percentile of a figure, for both flows."""
    values = [v for i in (0, 1) for v in np.percentile([getattr(pair[i], figure) for pair in runs], [10, 50, 90])]
    return " | ".join(f"{value:.{digits}f}" for value in values)


def pairs(rows: Sequence[tuple[str, str]], jitters: Sequence[int], seeds: int, late_s: float) -> None:
    """A table per figure: ensembles of Linux, and of the simulator with each jitter."""
    found: list[tuple[str, list[tuple[Share, Share]]]] = []
    for scenario, controller in rows:
        kernel = list(measured(scenario, controller).values())
        if not kernel:
            continue
        where = f"{scenario} | {TITLES[controller]}"
        found.append((f"{where} | Linux", kernel))
        for jitter in jitters:
            source = f"OrbitCC, jitter {jitter} µs" if jitter else "OrbitCC"
            found.append((f"{where} | {source}", ensemble(scenario, controller, jitter, seeds, late_s)))
            print(found[-1][0], file=sys.stderr, flush=True)
    heads = " | ".join(f"{flow} flow, {part}" for flow in ("first", "second") for part in ("10 %", "median", "90 %"))
    for title, figure, digits in (
        ("Goodput in the second half of the run, Mbit/s", "goodput_mbps", 1),
        ("Retransmissions in the whole run, packets", "retransmitted_packets", 0),
    ):
        print(f"{title}:\n\n| scenario | controller | source | {heads} |\n{'|---' * 9}|")
        for where, runs in found:
            print(f"| {where} | {cells(runs, figure, digits)} |")
        print()


def geo() -> None:
    """Westwood at phases within one serialisation time, which is how a packet meets the departures before it."""
    print("| goodput, Mbit/s | retransmissions | phases |")
    print("|---|---|---|")
    phases = [westwood(k * GEO_SERIALISATION_NS // GEO_PHASES) for k in range(GEO_PHASES)]
    for lost in sorted({lost for _, lost in phases}):
        goodputs = [goodput for goodput, other in phases if other == lost]
        print(f"| {min(goodputs):.1f} to {max(goodputs):.1f} | {lost} | {len(goodputs)} of {GEO_PHASES} |")


def main() -> None:
    names = [f"{scenario}:{controller}" for scenario, controller in ROWS] + ["geo"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", default=names, help=f"one of {', '.join(names)}")
    parser.add_argument(
        "--jitter", type=int, action="append", metavar="US", help="host jitter in µs, can be repeated; 0: exact time"
    )
    parser.add_argument("--seeds", type=int, default=1, help="runs per offset")
    parser.add_argument(
        "--late", type=float, default=LATE_S, metavar="S", help="time at which the second flow connects, s"
    )
    args = parser.parse_args()
    for row in args.rows:
        if row not in names:
            parser.error(f"ROW = {row}: must be one of {', '.join(names)}")
    chosen = [(scenario, cc) for scenario, cc in ROWS if f"{scenario}:{cc}" in args.rows]
    pairs(chosen, args.jitter or JITTERS_US, args.seeds, args.late)
    if "geo" in args.rows:
        geo()


if __name__ == "__main__":
    main()
