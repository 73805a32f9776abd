"""The tables of docs/fidelity.md and docs/emulation.md for ECN, from the top of the repository.

    python -m benches.ecn
    python -m benches.ecn --emulator

Every run of Linux (tests/data/kernel_truth/ecn.csv) is run again, at the same offset of the second flow. A median
agrees if it lies within Linux's runs or near them (`TOLERANCE` in tests/sim/ecn_truth.py). With `--emulator` this
machine's kernel and the simulator run one flow with classic ECN over the same queues, five times each.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping

from orbitcc.envs import backends
from orbitcc.envs.scenarios import get
from tests.sim.ecn_truth import NAMES, compared, ensemble, measured

QUEUES = {"codel": "CoDel", "fq_codel": "FQ-CoDel", "pie": "PIE", "step": "step RED", "drop_tail": "drop-tail"}
FLOWS = {"cubic": "Cubic", "reno": "Reno", "dctcp": "DCTCP", "bbr": "BBR", "hybla": "Hybla", "vegas": "Vegas"}
FLOWS |= {"westwood": "Westwood", "illinois": "Illinois"}
UNITS = {
    "goodput_mbps": ("goodput", ", Mbit/s", 1),
    "goodput_mbps_second_half": ("goodput in the second half", ", Mbit/s", 1),
    "srtt_ms_second_half": ("smoothed RTT in the second half", ", ms", 1),
    "retransmitted_packets": ("retransmissions", "", 0),
    "marked_packets": ("marks", "", 0),
}


SECONDS, REPEATS = 20.0, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emulator", action="store_true", help="this machine's kernel beside the simulator")
    if parser.parse_args().emulator:
        emulated()
    else:
        against_linux()


def emulated() -> None:
    print("| queue | flow | side | goodput, Mbit/s | smoothed RTT, ms | marks | acknowledged with ECE | drops |")
    print("|---" * 8 + "|")
    for queue in ({"kind": "codel", "ecn": True}, {"kind": "fq_codel"}, {"kind": "pie", "ecn": True}):
        for controller in ("cubic", "reno", "bbr"):
            for side in ("emulator", "simulator"):
                runs = [_figures(queue, controller, side, seed) for seed in range(1, REPEATS + 1)]
                cells = [
                    f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"
                    for values, digits in zip(zip(*runs, strict=True), (1, 1, 0, 0, 0), strict=True)
                ]
                name = "kernel" if side == "emulator" else side
                head = f"{QUEUES[str(queue['kind'])]} | {FLOWS[controller]} | {name}"
                print(f"| {head} | {' | '.join(cells)} |", flush=True)


def _figures(queue: Mapping[str, object], controller: str, side: str, seed: int) -> tuple[float, ...]:
    made = get("dumbbell", rate_mbps=50.0, base_rtt_ms=40.0, duration_s=SECONDS).with_controller(controller)
    changed = {"links.0.queue": queue, "sim.ecn": "classic", "sim.kernel": "v6_12"}
    for field, value in changed.items():
        made = made.override(field, value)
    recording = backends.runner(side)(made.with_seed(seed), record_interval_s=0.5)
    (flow,), (link,) = recording.flow_totals, recording.link_totals
    names = ("goodput_mbps", "srtt_ms", "marked_packets", "reported_marked_packets")
    return (*(flow[name] for name in names), link["dropped_packets"])


def against_linux() -> None:
    heads = [f"{title} {side}{unit}" for title, unit, _ in UNITS.values() for side in ("Linux", "OrbitCC")]
    print(f"| queue | flow | beside | {' | '.join(heads)} |\n{'|---' * (3 + len(heads))}|")
    missed, count = [], 0
    for case in measured():
        names = [_title(name, case.queue) for name in case.flows.split("+")]
        rows = list(compared(case, ensemble(case)))
        for i, name in enumerate(names):
            beside = "–" if len(names) == 1 else f"{names[1]}, late" if i == 0 else names[0]
            values = {figure: (middle, value) for flow, figure, (_, middle, _), value, _ in rows if flow == i}
            known = {figure: [f"{x:.{UNITS[figure][2]}f}" for x in pair] for figure, pair in values.items()}
            cells = [cell for figure in NAMES for cell in known.get(figure, ["–", "–"])]
            queue = QUEUES[case.queue] + (", LEO path" if case.scenario == "E3" else "")
            print(f"| {queue} | {name}{', late' if i else ''} | {beside} | {' | '.join(cells)} |", flush=True)
        count += len(rows)
        missed += [(case, *row[:-1]) for row in rows if not row[-1]]
        print(case, file=sys.stderr, flush=True)
    print(f"\n{count - len(missed)} of {count} figures agree.", *missed, sep="\n")


def _title(name: str, queue: str) -> str:
    controller, _, off = name.partition(":")
    return FLOWS[controller] + (" without ECN" if off and queue != "drop_tail" else "")


if __name__ == "__main__":
    main()
