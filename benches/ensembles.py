"""The tables of docs/fidelity.md on two flows and on Westwood over GEO: `python -m benches.ensembles`.

Ours are made as Linux's were: the second flow connects through the loaded queue, at the same offsets. Host jitter (each
packet waits up to so many microseconds at its host) shows what of a result is a matter of phases.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from tests.sim.ensembles import GEO_SERIALISATION_NS, LATE_S, Share, ensemble, measured, westwood

JITTERS_US = (0, 5, 60, 250)
ROWS = [(scenario, cc) for scenario in ("S2", "S6") for cc in ("reno", "cubic_hystart_on", "hybla", "bbr")]
GEO_PHASES = 24


def spread(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in np.percentile(values, [10, 50, 90]))


def cells(runs: Sequence[tuple[Share, Share]]) -> list[str]:
    """Second-half goodput of both flows, then their retransmissions: 10th, 50th, 90th percentiles."""
    goodputs = [spread([pair[i].goodput_mbps for pair in runs], 1) for i in (0, 1)]
    return [*goodputs, *(spread([pair[i].retransmitted_packets for pair in runs], 0) for i in (0, 1))]


def pairs(rows: Sequence[tuple[str, str]], jitters: Sequence[int], seeds: int, late_s: float) -> None:
    print("| | | first, Mbit/s | second | first, retransmissions | second |")
    print("|---|---|---|---|---|---|")
    for scenario, controller in rows:
        kernel = list(measured(scenario, controller).values())
        if not kernel:
            continue
        title = f"{scenario} {controller.removesuffix('_hystart_on')}"
        print(f"| {title} | Linux | {' | '.join(cells(kernel))} |", flush=True)
        for jitter in jitters:
            name = f"jitter {jitter} µs" if jitter else "exact"
            ours = ensemble(scenario, controller, jitter, seeds, late_s)
            print(f"| | {name} | {' | '.join(cells(ours))} |", flush=True)


def geo() -> None:
    """Westwood over phases below one serialisation: how a packet meets the departures of the one before."""
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
    parser.add_argument("--jitter", type=int, action="append", metavar="US", help="repeat; 0 is exact time")
    parser.add_argument("--seeds", type=int, default=1, help="runs per offset")
    parser.add_argument("--late", type=float, default=LATE_S, metavar="S", help="when the second flow connects")
    args = parser.parse_args()
    for row in args.rows:
        if row not in names:
            parser.error(f"ROW = {row}: must be one of {', '.join(names)}")
    chosen = [(scenario, cc) for scenario, cc in ROWS if f"{scenario}:{cc}" in args.rows]
    pairs(chosen, args.jitter or JITTERS_US, args.seeds, args.late)
    if "geo" in args.rows:
        print()
        geo()


if __name__ == "__main__":
    main()
