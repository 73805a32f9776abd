"""Every classical controller and every policy in every suite: makes docs/leaderboard.md, its table and its figures.

    python -m benches.leaderboard results/leaderboard [--profile quick] [--first-run 9301] [--suites SUITE ...]
        [--policy NAME_OR_PATH ...] [--traces SET.npz [--digest D]] [--ray [ADDRESS]] [--workers N] [--page PAGE.md]
    python -m benches.leaderboard results/again --again docs/leaderboard.md [--only NAME ...] [--workers N]
    python -m benches.leaderboard --redraw docs/leaderboard.md

The policies that ship take part without being named, and the oracle, which is not ranked. A run that was stopped
continues when the same command is given again, and runs what is missing, as the oracle in results from before there was
one; results of another version of the simulator are kept apart and never reused. `--again` runs some contenders alone
(the oracle, if none is named), in the suites, the profile and the runs of a page, and puts their figures into the page,
which tells their own version. A trace set on the disk adds its test part as one more suite (not for
docs/leaderboard.md, because the project distributes no set); its digest stands in the page's command, and a set with
another digest is refused. Beside the page lie leaderboard.csv (every median with its
interval) and images/leaderboard-SUITE.png (goodput against delay). `--redraw` makes the page and its figures again from
leaderboard.csv. `python -m benches` says how old the page is.
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benches.leaderboard.board import (
    Entry,
    classical,
    csv_text,
    entries_of,
    read_csv,
    suite_names,
    table_of,
    with_rows,
)
from benches.leaderboard.origin import Stamp, commit, stated
from benches.leaderboard.page import write
from orbitcc.agents import checkpoint
from orbitcc.common import provenance
from orbitcc.common.errors import OrbitccError
from orbitcc.common.files import atomic_write_text
from orbitcc.envs import controllers
from orbitcc.envs.orbits.trace_set import opened
from orbitcc.eval import contenders, suites
from orbitcc.eval.contenders import ORACLE, Contender
from orbitcc.eval.runner import run_suite
from orbitcc.parallel import cluster

HERE = Path(__file__).parent
VARIANTS = ("bbr3:draft=06",)
"""Contenders beside the classical controllers with their default parameters."""


def main(argv: Sequence[str]) -> None:
    parser = parser_of()
    arguments = parser.parse_args(argv)
    if arguments.redraw is not None:
        write(read_csv(table_of(arguments.redraw)), stated(arguments.redraw), arguments.redraw)
    elif arguments.out is None:
        parser.error("name the folder of the results, or use --redraw")
    elif arguments.again is not None:
        for name in ("profile", "first_run", "suites", "policy", "traces", "digest", "ray", "page"):
            if getattr(arguments, name) != parser.get_default(name):
                parser.error(f"--{name.replace('_', '-')} is that of the page with --again")
        run_again(arguments.again, arguments.only, arguments.out, arguments.workers)
    else:
        baselines = [name for name in controllers.names("baseline") if name != "udp"]
        shipped = [name for name in checkpoint.shipped() if name not in arguments.policy]
        ranked = contenders.line_up([*baselines, *VARIANTS], [*shipped, *arguments.policy])
        with cluster.joined(arguments.ray) if arguments.ray else nullcontext():
            entries = run(arguments, [*ranked, contenders.oracle()], arguments.out, arguments.workers, arguments.ray)
        if arguments.page is not None:
            words = [*argv, "--digest", arguments.digest] if arguments.digest and "--digest" not in argv else argv
            command = f"python -m benches.leaderboard {shlex.join(words)}".replace(" --page ", " \\\n    --page ")
            stamp = Stamp(today(), commit(HERE), provenance.version(), arguments.profile, command)
            atomic_write_text(table_of(arguments.page), csv_text(entries))
            write(entries, stamp, arguments.page)


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--profile", default="quick", choices=["quick", "reduced", "full"])
    parser.add_argument("--first-run", type=int, default=9301)
    parser.add_argument("--suites", nargs="*", default=suite_names(), choices=suite_names())
    parser.add_argument("--policy", action="append", default=[], metavar="NAME_OR_PATH")
    parser.add_argument("--traces", metavar="SET")
    parser.add_argument("--digest", metavar="DIGEST")
    parser.add_argument("--ray", nargs="?", const="auto", metavar="ADDRESS")
    parser.add_argument("--workers", type=int, metavar="N")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--again", type=Path, metavar="PAGE")
    parser.add_argument("--only", nargs="+", default=[ORACLE], metavar="NAME")
    parser.add_argument("--redraw", type=Path, metavar="PAGE")
    return parser


def run_again(page: Path, names: Sequence[str], out: Path, workers: int | None = None) -> None:
    """Run these contenders alone as a page says that all ran, and put their figures into the page and its table.

    Raises SystemExit if the page does not say how it was made.
    """
    try:
        stamp, entries = stated(page), read_csv(table_of(page))
    except OSError as error:
        raise SystemExit(f"--again {page}: {error.strerror}; it must be a page with its table") from None
    words = shlex.split(stamp.command.replace("\\\n", " "))
    ranked = [name for name in names if name != ORACLE]
    baselines = [name for name in ranked if classical(name)]
    try:
        everybody = contenders.line_up(baselines, [name for name in ranked if name not in baselines])
    except OrbitccError as error:
        raise SystemExit(f"--only: {error}") from None
    if ORACLE in names:
        everybody.append(contenders.oracle())
    later = run(parser_of().parse_args(words[3:]), everybody, out, workers)
    made = Stamp(today(), commit(HERE), provenance.version(), stamp.profile, stamp.command).made
    entries = with_rows(entries, later)
    atomic_write_text(table_of(page), csv_text(entries))
    write(entries, stamp.with_later(names, made), page)


def today() -> str:
    return datetime.date.today().isoformat()


def run(
    asked: argparse.Namespace,
    everybody: Sequence[Contender],
    out: Path,
    workers: int | None = None,
    ray: str | None = None,
) -> list[Entry]:
    """Run what is missing of these contenders. asked: the suites and their settings, as the command has them.

    The digest of its trace set is put into `asked`.
    Raises SystemExit if the simulator is rebuilt meanwhile, whose runs cannot be told apart, or if the set has not the
    digest that is asked for.
    """
    chosen: dict[str, dict[str, Any]] = {name: {"first_run": asked.first_run} for name in asked.suites}
    if asked.traces is not None:
        chosen["traces"] = {"traces": asked.traces}
        found = opened(asked.traces).digest
        if found != (asked.digest or found):
            raise SystemExit(f"--digest {asked.digest}: {asked.traces} has the digest {found}; it must be the same set")
        asked.digest = found
    entries: list[Entry] = []
    for name, settings in chosen.items():
        suite = suites.get(name, settings)
        results = run_suite(
            suite,
            everybody,
            out_dir=out / name,
            profile=asked.profile,
            workers=workers,
            ray=ray,
            resume=True,
            quiet=True,
        )
        if provenance.version.__wrapped__() != results.version:
            raise SystemExit(f"the simulator was rebuilt during the run: delete {out / name} and run this again")
        entries += entries_of(results)
        cases = suite.cases(asked.profile, results.runs)
        print(f"{name}: contenders: {len(everybody)}; runs of each: {len(cases)}", flush=True)
    return entries


if __name__ == "__main__":
    main(sys.argv[1:])
