"""Every classical controller and every policy in every suite: makes docs/leaderboard.md, its table and its figures.

    python -m benches.leaderboard results/leaderboard [--profile quick] [--first-run 9301] [--suites SUITE ...]
        [--policy NAME_OR_PATH ...] [--traces SET.npz] [--ray [ADDRESS]] [--page PAGE.md]
    python -m benches.leaderboard --redraw docs/leaderboard.md

The policies that ship take part without being named. A run that was stopped continues when the same command is given
again; results of another version of the simulator are kept apart and never reused. A trace set on the disk adds its
test part as one more suite (not for docs/leaderboard.md, because the project distributes no set). Beside the page lie
leaderboard.csv (every median with its interval) and images/leaderboard-SUITE.png (goodput against delay). `--redraw`
makes the page and its figures again from leaderboard.csv. `python -m benches` says how old the page is.
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benches.leaderboard.board import Entry, csv_text, entries_of, read_csv, suite_names, table_of
from benches.leaderboard.origin import Stamp, commit, stated
from benches.leaderboard.page import write
from orbitcc.agents import checkpoint
from orbitcc.common import provenance
from orbitcc.common.files import atomic_write_text
from orbitcc.envs import controllers
from orbitcc.eval import contenders, suites
from orbitcc.eval.runner import run_suite
from orbitcc.parallel import cluster

VARIANTS = ("bbr3:draft=06",)
"""Contenders beside the classical controllers with their default parameters."""


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--profile", default="quick", choices=["quick", "reduced", "full"])
    parser.add_argument("--first-run", type=int, default=9301)
    parser.add_argument("--suites", nargs="*", default=suite_names(), choices=suite_names())
    parser.add_argument("--policy", action="append", default=[], metavar="NAME_OR_PATH")
    parser.add_argument("--traces", metavar="SET")
    parser.add_argument("--ray", nargs="?", const="auto", metavar="ADDRESS")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--redraw", type=Path, metavar="PAGE")
    arguments = parser.parse_args(argv)
    if arguments.redraw is not None:
        write(read_csv(table_of(arguments.redraw)), stated(arguments.redraw), arguments.redraw)
    elif arguments.out is None:
        parser.error("name the folder of the results, or use --redraw")
    else:
        with cluster.joined(arguments.ray) if arguments.ray else nullcontext():
            chosen = {name: {"first_run": arguments.first_run} for name in arguments.suites}
            if arguments.traces is not None:
                chosen["traces"] = {"traces": arguments.traces}
            entries = run(arguments.out, chosen, arguments.profile, arguments.policy, arguments.ray)
        if arguments.page is not None:
            command = f"python -m benches.leaderboard {shlex.join(argv)}".replace(" --page ", " \\\n    --page ")
            date = datetime.date.today().isoformat()
            stamp = Stamp(date, commit(Path(__file__).parent), provenance.version(), arguments.profile, command)
            atomic_write_text(table_of(arguments.page), csv_text(entries))
            write(entries, stamp, arguments.page)


def run(
    out: Path,
    chosen: Mapping[str, Mapping[str, Any]],
    profile: str,
    policies: Sequence[str],
    ray: str | None = None,
) -> list[Entry]:
    """Run what is missing. chosen: suite -> its settings.

    Raises SystemExit if the simulator is rebuilt meanwhile, whose runs cannot be told apart.
    """
    classical = [name for name in controllers.names("baseline") if name != "udp"]
    shipped = [name for name in checkpoint.shipped() if name not in policies]
    everybody = contenders.line_up([*classical, *VARIANTS], [*shipped, *policies])
    entries: list[Entry] = []
    for name, settings in chosen.items():
        suite = suites.get(name, settings)
        results = run_suite(suite, everybody, out_dir=out / name, profile=profile, ray=ray, resume=True, quiet=True)
        if provenance.version.__wrapped__() != results.version:
            raise SystemExit(f"the simulator was rebuilt during the run: delete {out / name} and run this again")
        entries += entries_of(results)
        print(f"{name}: {len(everybody)} contenders, {len(suite.cases(profile, results.runs))} runs each", flush=True)
    return entries


if __name__ == "__main__":
    main(sys.argv[1:])
