"""What a policy of several training seeds is worth beside the classics: the tables of docs/policies.md.

    python -m benches.policies results/policies CHECKPOINT [CHECKPOINT ...] [--beside CONTROLLER ...] [--first-run 1001]
        [--profile reduced] [--suites SUITE ...]

One checkpoint for each training seed. Every suite runs on fresh schedules and seeds; a cell is the median over runs,
and for the policy the interquartile mean of its seeds' medians with its 95 % interval.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from orbitcc.eval import contenders, suites
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import aggregate

COLUMNS: dict[str, tuple[str, ...]] = {
    "responsiveness": ("goodput_over_optimal", "delay_inflation"),
    "responsiveness-loss": ("goodput_over_optimal", "delay_inflation"),
    "leoem-single": ("goodput_share", "delay_inflation"),
    "inter-rtt": ("goodput_ratio",),
    "intra-rtt": ("goodput_ratio",),
    "parking-lot": ("long_ratio",),
    "efficiency": ("delay_ratio", "goodput_share"),
    "cubic-friendliness": ("own_share",),
}
"""Suite -> the metrics shown."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--beside", nargs="*", default=["cubic", "bbr3", "leocc:trigger=global", "vivace"])
    parser.add_argument("--first-run", type=int, default=1001)
    parser.add_argument("--profile", default="reduced", choices=["quick", "reduced", "full"])
    parser.add_argument("--suites", nargs="*", default=list(COLUMNS), choices=list(COLUMNS))
    arguments = parser.parse_args()
    line_up = contenders.line_up(arguments.beside, arguments.checkpoints)
    classics, seeds = line_up[: len(arguments.beside)], line_up[len(arguments.beside) :]
    own_name = f"{seeds[0].label.split(' ')[0]}, {len(seeds)} seeds"
    print(f"| suite, metric | {' | '.join(c.label for c in classics)} | {own_name} |")
    print("|---|" + "---|" * (len(classics) + 1))
    for name in arguments.suites:
        suite = suites.get(name, {"first_run": arguments.first_run})
        out = arguments.out / name
        campaign = run_suite(suite, line_up, out_dir=out, profile=arguments.profile, resume=True, quiet=True)
        for metric in COLUMNS[name]:
            values = campaign.values(metric)
            medians = {label: float(np.nanmedian(found)) for label, found in values.items()}
            own = aggregate([medians[c.label] for c in seeds])
            interval = f" ({own.low:.3f}-{own.high:.3f})" if len(seeds) > 1 else ""
            cells = [f"{medians[c.label]:.3f}" for c in classics]
            print(f"| {name}, {metric} | {' | '.join(cells)} | {own.value:.3f}{interval} |", flush=True)


if __name__ == "__main__":
    main()
