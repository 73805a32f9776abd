"""A policy with several training seeds compared with classical controllers: the tables of docs/policies.md.

    python -m benches.policies results/policies CHECKPOINT [CHECKPOINT ...] [--beside CONTROLLER ...] [--first-run 1001]
        [--profile reduced] [--suites SUITE ...]

Give one checkpoint per training seed. Every suite runs on new schedules and seeds. A cell is the named statistic of its
runs; for the policy, it is the interquartile mean over its seeds with its 95 % interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from orbitcc.eval import contenders, suites
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import aggregate


@dataclass(frozen=True)
class Row:
    """A row of the table: a statistic over the runs of a metric, at the points of a suite with these factors."""

    suite: str
    metric: str
    label: str = ""
    factors: Mapping[str, Any] = field(default_factory=dict)
    statistic: str = "median"

    def __str__(self) -> str:
        return f"{self.suite}, {self.label or self.metric}"


ROWS = (
    Row("responsiveness", "goodput_over_optimal"),
    Row("responsiveness", "delay_inflation"),
    Row("responsiveness-loss", "goodput_over_optimal"),
    Row("responsiveness-loss", "delay_inflation"),
    Row("responsiveness-wide-loss", "goodput_over_optimal"),
    Row("responsiveness-wide-loss", "delay_inflation"),
    Row("delay-jump", "goodput_after", statistic="mean"),
    Row("delay-jump", "delay_inflation", statistic="mean"),
    Row("leoem-single", "goodput_share", statistic="mean"),
    Row("leoem-single", "delay_inflation", statistic="mean"),
    Row("leo-access", "utilisation"),
    Row("leo-access", "delay_inflation"),
    Row("leo-access-2024", "utilisation"),
    Row("leo-access-2024", "delay_inflation"),
    Row("inter-rtt", "goodput_ratio", "goodput ratio, 1 BDP", {"buffer_bdp": 1.0}, "mean"),
    Row(
        "inter-rtt", "goodput_ratio", "goodput ratio at 200 ms, 1 BDP", {"buffer_bdp": 1.0, "base_rtt_ms": 200}, "mean"
    ),
    Row("intra-rtt", "goodput_ratio", statistic="mean"),
    Row("parking-lot", "long_ratio", "long flow / best cross flow, 3 hops", {"bottlenecks": 3}, "mean"),
    Row("parking-lot", "long_ratio", "long flow / best cross flow, 6 hops", {"bottlenecks": 6}, "mean"),
    Row("efficiency", "delay_ratio", "worst delay ratio", statistic="max"),
    Row("efficiency", "goodput_share", "lowest goodput", statistic="min"),
    Row("cubic-friendliness", "own_share", "own share beside Cubic, 1 BDP", {"buffer_bdp": 1.0}, "mean"),
    Row("cubic-friendliness", "own_share", "own share beside Cubic, 4 BDP", {"buffer_bdp": 4.0}, "mean"),
    Row("cubic-friendliness", "own_share", "largest own share beside Cubic", statistic="max"),
    Row("bbr3-friendliness", "own_share", "own share beside BBRv3, 1 BDP", {"buffer_bdp": 1.0}, "mean"),
    Row("bbr3-friendliness", "own_share", "own share beside BBRv3, 4 BDP", {"buffer_bdp": 4.0}, "mean"),
    Row("extremes", "utilisation", "lowest utilisation", statistic="min"),
    Row("extremes", "delay_inflation", "worst delay inflation", statistic="max"),
    Row("geo-download", "time_5mb_s", "download time of 5 MB, s"),
    Row("geo-download", "steady_mbps", "steady throughput, Mbit/s"),
    Row("geo-download", "steady_rtt_ms", "steady RTT, ms"),
    Row("geo-download", "retransmission_rate"),
    Row("geo-download-2021", "time_5mb_s", "download time of 5 MB, s"),
    Row("geo-download-2021", "steady_mbps", "steady throughput, Mbit/s"),
    Row("geo-download-2021", "steady_rtt_ms", "steady RTT, ms"),
    Row("geo-download-2021", "retransmission_rate"),
    Row("geo-sharing", "own_share", "own share beside Cubic", {"beside": "cubic"}, "mean"),
    Row("geo-sharing", "own_share", "own share beside Hybla", {"beside": "hybla"}, "mean"),
    Row("geo-sharing", "own_share", "own share beside its own kind", {"beside": "itself"}, "mean"),
)
SUITES = list(dict.fromkeys(row.suite for row in ROWS))
LEO = [name for name in SUITES if not name.startswith("geo-")]
STATISTICS: dict[str, Callable[[Any], Any]] = {
    "median": np.nanmedian,
    "mean": np.nanmean,
    "min": np.nanmin,
    "max": np.nanmax,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--beside", nargs="*", default=["cubic", "bbr3", "leocc:trigger=global", "vivace"])
    parser.add_argument("--first-run", type=int, default=1001)
    parser.add_argument("--profile", default="reduced", choices=["quick", "reduced", "full"])
    parser.add_argument("--suites", nargs="*", default=LEO, choices=SUITES)
    arguments = parser.parse_args()
    line_up = contenders.line_up(arguments.beside, arguments.checkpoints)
    classics, seeds = line_up[: len(arguments.beside)], line_up[len(arguments.beside) :]
    own_name = f"{seeds[0].label.split(' ')[0]}, {len(seeds)} seeds"
    print(f"| suite, metric | {' | '.join(c.label for c in classics)} | {own_name} |")
    print("|---|" + "---|" * (len(classics) + 1))
    for name in arguments.suites:
        suite = suites.get(name, {"first_run": arguments.first_run})
        out = arguments.out / name
        results = run_suite(suite, line_up, out_dir=out, profile=arguments.profile, resume=True, quiet=True)
        for row in (row for row in ROWS if row.suite == name):
            statistic = STATISTICS[row.statistic]
            values = results.values(row.metric, **row.factors)
            if not all(values.values()):
                continue  # the profile has no such point
            found = {label: float(statistic(runs)) for label, runs in values.items()}
            own = aggregate([found[c.label] for c in seeds])
            interval = f" ({own.low:.3f}-{own.high:.3f})" if len(seeds) > 1 else ""
            cells = [f"{found[c.label]:.3f}" for c in classics]
            print(f"| {row} ({row.statistic}) | {' | '.join(cells)} | {own.value:.3f}{interval} |", flush=True)


if __name__ == "__main__":
    main()
