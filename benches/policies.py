"""A policy with several training seeds compared with classical controllers: tables of the documentation.

    python -m benches.policies results/policies [CHECKPOINT ...] [--beside CONTROLLER ...] [--first-run 1001]
        [--profile reduced] [--suites SUITE ...] [--transport tcp quic]

Give one checkpoint per training seed. Every suite runs on new schedules and seeds. A cell is the named statistic of its
runs; for the policy, it is the interquartile mean over its seeds with its 95 % interval. Everything runs over each
transport (controllers of quinn, whose transport is QUIC, not over TCP), and a row of the table is a contender then.
A dash stands where no run has the metric, for example because the connection was closed before.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from orbitcc.envs.description.flows import QUINN, parse_value
from orbitcc.eval import contenders, suites
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import aggregate


@dataclass(frozen=True)
class Row:
    """A row of the table: a statistic over the runs of a metric, at the points of a suite with these factors."""

    suite: str
    metric: str
    label: str = ""
    factors: Mapping[str, Any] = field(default_factory=dict, hash=False)
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
    parser.add_argument("checkpoints", nargs="*")
    parser.add_argument("--beside", nargs="*", default=["cubic", "bbr3", "leocc:trigger=global", "vivace"])
    parser.add_argument("--first-run", type=int, default=1001)
    parser.add_argument("--profile", default="reduced", choices=["quick", "reduced", "full"])
    parser.add_argument("--suites", nargs="*", default=LEO, choices=SUITES)
    parser.add_argument("--transport", nargs="*", default=["tcp"])
    arguments = parser.parse_args()
    by_transport = {}
    for transport in arguments.transport:
        beside = [text for text in arguments.beside if transport != "tcp" or not text.startswith(QUINN)]
        line_up = contenders.line_up(beside, arguments.checkpoints)
        by_transport[transport] = line_up[: len(beside)], line_up[len(beside) :]
    several = len(arguments.transport) > 1
    headings = []
    for transport, (classics, seeds) in by_transport.items():
        over = f", {transport}" if several else ""
        headings += [f"{c.label}{over}" for c in classics]
        headings += [f"{seeds[0].label.split(' ')[0]}, {len(seeds)} seeds{over}"] if seeds else []
    if not several:
        print(f"| suite, metric | {' | '.join(headings)} |")
        print("|---|" + "---|" * len(headings))
    columns = [["contender, transport", *headings]]
    for name in arguments.suites:
        cells: dict[Row, list[str]] = {}
        for transport, (classics, seeds) in by_transport.items():
            chosen = {} if transport == "tcp" else {"transport": parse_value(transport)}
            suite = suites.get(name, {"first_run": arguments.first_run, **chosen})
            out = arguments.out / (f"{name}-{list(by_transport).index(transport)}" if several else name)
            results = run_suite(
                suite, [*classics, *seeds], out_dir=out, profile=arguments.profile, resume=True, quiet=True
            )
            for row in (row for row in ROWS if row.suite == name):
                statistic = STATISTICS[row.statistic]
                values = results.values(row.metric, **row.factors)
                if not all(values.values()):
                    continue  # the profile has no such point
                found = {label: float(statistic(runs)) for label, runs in values.items() if np.isfinite(runs).any()}
                cells.setdefault(row, []).extend(f"{found[c.label]:.3f}" if c.label in found else "–" for c in classics)
                if seeds and not all(c.label in found for c in seeds):
                    cells[row].append("–")
                elif seeds:
                    own = aggregate([found[c.label] for c in seeds])
                    interval = f" ({own.low:.3f}-{own.high:.3f})" if own.has_interval else ""
                    cells[row].append(f"{own.value:.3f}{interval}")
        columns += [[f"{row} ({row.statistic})", *those] for row, those in cells.items()]
        for row, those in cells.items() if not several else ():
            print(f"| {row} ({row.statistic}) | {' | '.join(those)} |", flush=True)
    for number, line in enumerate(zip(*columns, strict=True) if several else ()):
        print(f"| {' | '.join(line)} |" + ("\n|" + "---|" * len(line) if number == 0 else ""))


if __name__ == "__main__":
    main()
