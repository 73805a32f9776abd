"""The table of docs/fidelity.md for ECN: `python -m benches.ecn`, from the top of the repository.

Every run of Linux (tests/data/kernel_truth/ecn.csv) is run again, at the same offset of the second flow. A median
agrees if it lies within Linux's runs or near them (`TOLERANCE` in tests/sim/ecn_truth.py).
"""

from __future__ import annotations

import sys

from tests.sim.ecn_truth import NAMES, compared, ensemble, measured

QUEUES = {"codel": "CoDel", "fq_codel": "FQ-CoDel", "step": "step RED"}
FLOWS = {"cubic": "Cubic", "cubic:off": "Cubic without ECN", "reno": "Reno", "dctcp": "DCTCP", "bbr": "BBR"}
UNITS = {
    "goodput_mbps": ("goodput", ", Mbit/s", 1),
    "goodput_mbps_second_half": ("goodput in the second half", ", Mbit/s", 1),
    "srtt_ms_second_half": ("smoothed RTT in the second half", ", ms", 1),
    "retransmitted_packets": ("retransmissions", "", 0),
    "marked_packets": ("marks", "", 0),
}


def main() -> None:
    heads = [f"{title} {side}{unit}" for title, unit, _ in UNITS.values() for side in ("Linux", "OrbitCC")]
    print(f"| queue | flow | beside | {' | '.join(heads)} |\n{'|---' * (3 + len(heads))}|")
    missed, count = [], 0
    for case in measured():
        names = [FLOWS[name] for name in case.flows.split("+")]
        rows = list(compared(case, ensemble(case)))
        for i, name in enumerate(names):
            beside = "–" if len(names) == 1 else f"{names[1]}, late" if i == 0 else names[0]
            values = {figure: (middle, value) for flow, figure, (_, middle, _), value, _ in rows if flow == i}
            cells = [f"{x:.{UNITS[figure][2]}f}" for figure in NAMES for x in values[figure]]
            print(
                f"| {QUEUES[case.queue]} | {name}{', late' if i else ''} | {beside} | {' | '.join(cells)} |", flush=True
            )
        count += len(rows)
        missed += [(case, *row[:-1]) for row in rows if not row[-1]]
        print(case, file=sys.stderr, flush=True)
    print(f"\n{count - len(missed)} of {count} figures agree.", *missed, sep="\n")


if __name__ == "__main__":
    main()
