"""Every classical controller and every policy in every suite: makes docs/leaderboard.md, its table and its figures.

    python -m benches.leaderboard results/leaderboard [--profile quick] [--first-run 9301] [--suites SUITE ...]
        [--policy NAME_OR_PATH ...] [--ray [ADDRESS]] [--page docs/leaderboard.md]
    python -m benches.leaderboard --redraw docs/leaderboard.md

The policies that ship take part without being named. A run that was stopped continues when the same command is given
again; results of another version of the simulator are kept apart and never reused. Beside the page lie leaderboard.csv
(every median with its interval) and images/leaderboard-SUITE.png (goodput against delay). `--redraw` makes the page and
its figures again from leaderboard.csv. `python -m benches` says how old the page is.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import html
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benches import labels, pictures
from orbitcc.agents import checkpoint
from orbitcc.envs import controllers
from orbitcc.envs.files import atomic_write_text
from orbitcc.eval import cluster, contenders, provenance, suites
from orbitcc.eval.figures import style
from orbitcc.eval.front import TIE, USES_THE_LINK
from orbitcc.eval.results import Results
from orbitcc.eval.runner import run_suite
from orbitcc.eval.suites.base import Metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

SKIPPED = (
    "responsiveness-shown", "responsiveness-loss-shown", "rate-step", "hystart", "buffers", "geo-probes", "geo-pep",
)  # fmt: skip
"""Runs that a paper shows, experiments about Cubic's switches, probes, in which no controller takes part, and a path
with a proxy, on which contenders do not drive the whole connection."""
VARIANTS = ("bbr3:draft=06",)
"""Contenders beside the classical controllers with their default parameters."""
LEFT_OUT = ("steady_power",)
"""Metrics that follow from two others of the same suite: in the CSV only."""
PAPER_ONLY = {
    "efficiency": ("jain",),
    "efficiency-aqm": ("jain",),
    "c4-tests": ("load",),
    "constellation-sharing": ("after_reroute", "hot_utilisation", "jain"),
}
"""Suite -> metrics that other pages show: fairness of equal flows is judged by other suites here, more than half of a
shared link is no merit, and docs/constellations.md has the rest of a hundred pairs."""
GOODPUT = ("goodput_share", "goodput_over_optimal", "goodput_after", "utilisation", "steady_mbps", "goodput_mbps")
DELAY = ("delay_inflation", "delay_ratio", "steady_rtt_ms")
TARGET = ("own_share", "own_over_fair", "long_ratio")
"""Metrics that are best at their ideal value: less and more are both worse."""
WATCHED = ("sim/core/src", "eval/suites", "eval/metrics.py", "checkpoints", "benches/leaderboard.py")
"""What the figures depend on."""
COLUMNS = ("contender", "suite", "metric", "median", "low", "high", "runs")
HEAT = (1.0, 2.5, 5.0, 8.0, 12.0)
"""Upper bounds of the shades of the overview."""


@dataclass(frozen=True)
class Question:
    """A table of the page. short: its column in the overview."""

    title: str
    short: str
    suites: Mapping[str, str]
    """Suite -> what happens in it."""
    note: str = ""

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


QUESTIONS = (
    Question(
        "Does it fill a LEO path that changes every 15 s?",
        "LEO path",
        {
            "responsiveness": "one flow runs for 300 s. Every 15 s the path gets a new bandwidth (50–100 Mbit/s) and a "
            "new base RTT (10–100 ms), and an interruption of 45–120 ms empties the queue of the bottleneck.",
            "leoem-single": "one flow runs for 300 s at 100 Mbit/s on paths that the emulator LeoEM logged. The base "
            "RTT changes every second. Every 16 s or more the satellite at an end changes, which interrupts the path "
            "for 45–120 ms.",
        },
    ),
    Question(
        "Does it survive random loss?",
        "Random loss",
        {
            "responsiveness-loss": "the paths of `responsiveness` with a random loss of 0–1 % that changes every 15 s.",
            "responsiveness-wide-loss": "one flow runs for 200 s at a base RTT of 100 ms. Every 10 s the path gets a "
            "new bandwidth (1–100 Mbit/s) and a new random loss (0–5 %).",
        },
    ),
    Question(
        "Does it recover from interruptions and sudden changes?",
        "Sudden changes",
        {
            "hard-handover": "one flow runs for 100 s at 100 Mbit/s and 50 ms. Every 5 s the path is interrupted.",
            "delay-jump": "one flow runs for 50 s at 100 Mbit/s. After 20 s the base RTT rises once.",
            "responsiveness-wide": "one flow runs for 200 s. Every 10 s the path gets a new bandwidth (1–100 Mbit/s) "
            "and a new base RTT (20–200 ms), without an interruption.",
        },
    ),
    Question(
        "Is it fair to flows of the same controller?",
        "Own kind",
        {
            "leoem-fairness": "two flows share a path that LeoEM logged. The second starts after 100 s; seconds "
            "200–300 are evaluated.",
            "intra-rtt": "two flows of the same base RTT share 100 Mbit/s. The second starts after 50 s, every 15 s "
            "the path is interrupted for 45–120 ms, and seconds 100–200 are evaluated.",
            "high-rates": "two flows of 40 ms share a link of more than 100 Mbit/s. The second starts after 50 s; "
            "seconds 100–200 are evaluated.",
        },
    ),
    Question(
        "Is it fair across different RTTs and several bottlenecks?",
        "RTTs, bottle\u00adnecks",
        {
            "inter-rtt": "a flow of 20 ms has a link of 100 Mbit/s. After 50 s a flow with another base RTT joins; "
            "seconds 100–200 are evaluated.",
            "parking-lot": "a chain of bottlenecks of 100 Mbit/s, each with a cross flow. After 50 s a long flow over "
            "all of them joins; seconds 100–200 are evaluated. A ratio of 1 is max-min fair, a ratio of one over the "
            "number of bottlenecks is proportionally fair.",
            "cross-path": "two pairs of flows have a bottleneck of 100 Mbit/s each. Then the second pair is rerouted "
            "through the bottleneck of the first pair; the first seconds after this change are evaluated.",
        },
    ),
    Question(
        "Is it fair to Cubic, Hybla and BBRv3?",
        "Other kinds",
        {
            "cubic-friendliness": "the contender joins a Cubic flow of the same base RTT on 100 Mbit/s after 50 s; "
            "seconds 100–200 are evaluated.",
            "bbr3-friendliness": "the same with a BBRv3 flow in the place of Cubic.",
            "cubic-crowd": "one flow of the contender competes with several Cubic flows on 100 Mbit/s and 30 ms; "
            "seconds 100–200 are evaluated.",
            "geo-sharing": "after 20 s the contender joins a flow of Cubic, Hybla or itself on a GEO link; "
            "seconds 100–200 are evaluated. The median is over these three.",
        },
        "The own share is best at one half and the ratio to the fair share at 1: a lower value means that the "
        "contender yields, a higher one that it takes bandwidth from the others.",
    ),
    Question(
        "Do many flows keep the queue short?",
        "Many flows",
        {
            "efficiency": "flows start evenly over 100 s on 100 Mbit/s and 50 ms, with a drop-tail queue of five "
            "bandwidth-delay products and an interruption every 15 s; seconds 100–150 are evaluated.",
            "efficiency-aqm": "the same with FQ-CoDel, PIE or CoDel at the bottleneck.",
            "four-flows": "four flows start 25 s apart on 100 Mbit/s with a drop-tail queue, FQ-CoDel or CoDel; "
            "seconds 75–100 are evaluated.",
        },
    ),
    Question(
        "Do a hundred pairs of cities share a constellation well?",
        "Shared satel\u00adlites",
        {
            "constellation-sharing": "a hundred pairs of cities, with one flow each, share Starlink's first shell for "
            "95 s; links have 10 Mbit/s. Every 15 s the routes change: to the shortest ones, or when the satellite of "
            "a city sets, with an interruption of 45–120 ms.",
        },
        "[Shared constellations](constellations.md) has more metrics and both kinds of routes apart.",
    ),
    Question(
        "Does it download fast over a GEO link?",
        "GEO",
        {
            "geo-download": "one download of 1 GB over a model of a Viasat link as measured in July 2020 (at most 144 "
            "Mbit/s, at least 564 ms).",
            "geo-download-2021": "the same over the model of May 2021 (120 Mbit/s on average).",
        },
        "*Steady* is the second half of the bytes, *start-up* the first 50 MB.",
    ),
    Question(
        "Does it fill a Starlink-like access link?",
        "Access link",
        {
            "leo-access": "one flow runs for 120 s over a model of measurements before 2024: jitter, bursts of loss, "
            "interruptions and a rate that changes.",
            "leo-access-2024": "the same with measurements since 2024: delay spikes at the edges of the 15 s slots, "
            "rates in steps and bursts, and periods of loss.",
        },
        "[Link models](links.md) describes both models and their sources.",
    ),
    Question(
        "Does it work with the coupled queues of L4S?",
        "L4S",
        {
            "l4s": "one flow is alone or beside a Cubic flow with classic ECN, behind the coupled queues of DualPI2: "
            "paths of 40 Mbit/s with 20 or 600 ms, and for 120 s on those of `responsiveness`.",
        },
        "Packets of Prague and C4 carry ECT(1) and wait in the queue for low delay. All others wait in the queue of "
        "Cubic; of these, only DCTCP reacts to marks.",
    ),
    Question(
        "Does it pass the tests of the authors of C4?",
        "C4 tests",
        {
            "c4-tests": "downloads of up to 60 s from draft-huitema-ccwg-c4-test: alone, with RTTs from 30 to 200 ms, "
            "with the jitter of bad Wi-Fi, and beside C4 or Cubic.",
        },
    ),
    Question(
        "Does it work at extreme rates, RTTs and buffers?",
        "Ex\u00adtremes",
        {
            "extremes": "one flow runs for 60 s on a link of 100 Mbit/s, 50 ms and a buffer of one bandwidth-delay "
            "product, of which one value is replaced by an extreme one.",
        },
    ),
)

FACTORS = {
    "path": "path",
    "base_rtt_ms": "base RTT in ms",
    "buffer_bdp": "buffer in BDP",
    "flows": "number of flows",
    "interruption_ms": "interruption in ms",
    "factor": "factor of the RTT",
    "bottlenecks": "number of bottlenecks",
    "rate_mbps": "rate in Mbit/s",
    "link_mbps": "rate in Mbit/s",
    "queue": "queue",
    "beside": "other flow",
    "test": "test",
    "selection": "routes",
    "pairs": "number of pairs",
}
"""Factor of a suite's grid -> what readers call it."""

NAMES = {
    "fifo": "drop-tail",
    "fq_codel": "FQ-CoDel",
    "codel": "CoDel",
    "pie": "PIE",
    "cubic": "Cubic",
    "hybla": "Hybla",
    "itself": "itself",
    "nobody": "none",
    "20 ms": "20 ms",
    "leo": "LEO",
    "geo": "GEO",
}
"""Value of a factor -> what readers call it."""

SOFT = re.compile("(?<=etrans)(?=mission)|(?<=hrough)(?=put)")
"""Where titles of columns may be hyphenated."""

CAPTION = (
    "Up and to the left is better. Blue: on the Pareto front of the suite (bold in the table). Diamonds: policies."
)

MISSING = {
    "goodput_ratio": "neither flow delivered anything in the evaluated seconds",
    "jain": "no flow delivered anything in the evaluated seconds",
    "own_share": "there is no other flow, or neither delivered anything in the evaluated seconds",
    "own_over_fair": "no flow delivered anything in the evaluated seconds",
    "long_ratio": "no cross flow delivered anything in the evaluated seconds",
    "delay_inflation": "no RTT was measured in the evaluated seconds",
    "delay_ratio": "no RTT was measured in the evaluated seconds",
    "steady_rtt_ms": "no RTT was measured in the second half of the bytes",
}
"""Metric -> why a run may have no value of it."""

PAGE = """# Leaderboard

This page compares {contenders} contenders: the classical controllers and the trained policies (marked ◆) that ship with
OrbitCC. All of them run in the same {suites} experiments (*suites*), on schedules and random seeds that were not used
during development. One command made all figures with one version of the code.
The [glossary](glossary.md) defines our terms.

- **Made** on {stamp.date} from commit {stamp.commit} with simulator version `{stamp.version}`.
- **Size**: profile `{stamp.profile}`, the {size} of the three profiles. The number of runs is given below each table.
- **Policies**: each policy takes part with the checkpoint that ships. [Policies](policies.md) reports the spread over
  five training seeds and the conditions that each policy was trained for. Many suites lie outside these conditions.
- **Data**: [leaderboard.csv](leaderboard.csv) holds the median, the 95 % bootstrap interval and the number of runs of
  every figure.

This command makes the page again. After an interruption, the same command continues. The profile `quick` takes about
ten minutes on two cores.

```sh
{command}
```

**To enter**, open a pull request with the page that this command writes and one of the following:

- a checkpoint: a folder with `card.json` and `policy.safetensors` under `checkpoints/`, below 1 MB, with the recipe
  that trained it and the scores of five seeds on the model card;
- a Python module whose factory returns a policy (`--policy module:factory`, see [Training](training.md)).

The schedules depend on `--first-run`: choose a number that nobody has used, and name it in the pull request.

## Overview

{overview}

**How to read it**: a cell is the number of other contenders that are better, as a mean over the suites of the question;
0.0 is best. **Bold**: on the Pareto front of at least one of these suites, that is, no other contender is better there.
*All* is the mean over the questions, which have equal weight; the rows are sorted by it. The column titles lead to the
tables.

*Better* means at least as good in every metric of a suite and better in one. Two values are equal if they differ by
less than {tie} % of the larger one or of the metric's range. A contender whose goodput is below
{uses} % of the best goodput of a suite is compared by its goodput only, because low delay on an idle link is no merit.

Where runs are few, small differences are noise. Compare the intervals in [leaderboard.csv](leaderboard.csv) before you
draw conclusions.

{sections}## Metrics

| metric | unit | best | definition |
|---|---|---|---|
{definitions}

In leaderboard.csv the columns `median`, `low` and `high` use the units of this table, except that percentages are
fractions there: 0.0044 is 0.44 %. `low` and `high` are the bounds of the 95 % bootstrap interval of the median over
runs. They are empty where there is a single run.
"""


@dataclass(frozen=True)
class Stamp:
    """Where the figures come from."""

    date: str
    commit: str
    version: str
    profile: str
    command: str


STATED = re.compile(
    r"- \*\*Made\*\* on (?P<date>\d{4}-\d\d-\d\d) from commit (?P<commit>(?:`(?P<hash>[0-9a-f]{12})`|unknown)[^`\n]*?)"
    r" with simulator version `(?P<version>\d+\.\d+\.\d+[a-z0-9.]*\+sim\.[0-9a-f]{8})`\.\n"
    r"- \*\*Size\*\*: profile `(?P<profile>\w+)`.*?```sh\n(?P<command>.+?)\n```",
    re.DOTALL,
)


@dataclass(frozen=True)
class Entry:
    """A line of leaderboard.csv: NaN where there is no value, or no interval."""

    contender: str
    suite: str
    metric: str
    median: float
    low: float
    high: float
    runs: int


Board = dict[str, dict[str, dict[str, Entry]]]
"""Suite -> contender -> metric -> entry."""


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--profile", default="quick", choices=["quick", "reduced", "full"])
    parser.add_argument("--first-run", type=int, default=9301)
    parser.add_argument("--suites", nargs="*", default=suite_names(), choices=suite_names())
    parser.add_argument("--policy", action="append", default=[], metavar="NAME_OR_PATH")
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
            entries = run(
                arguments.out, arguments.suites, arguments.profile, arguments.first_run, arguments.policy, arguments.ray
            )
        if arguments.page is not None:
            command = f"python -m benches.leaderboard {shlex.join(argv)}".replace(" --page ", " \\\n    --page ")
            date = datetime.date.today().isoformat()
            stamp = Stamp(date, commit(Path(__file__).parent), provenance.version(), arguments.profile, command)
            atomic_write_text(table_of(arguments.page), csv_text(entries))
            write(entries, stamp, arguments.page)


def suite_names() -> list[str]:
    return [name for name in suites.names() if name not in SKIPPED]


# -- measuring ---------------------------------------------------------------------------------------------------------


def run(
    out: Path, names: Sequence[str], profile: str, first_run: int, policies: Sequence[str], ray: str | None = None
) -> list[Entry]:
    """Run what is missing. Raises SystemExit if the simulator is rebuilt meanwhile, whose runs cannot be told apart."""
    classical = [name for name in controllers.names("baseline") if name != "udp"]
    shipped = [name for name in checkpoint.shipped() if name not in policies]
    everybody = contenders.line_up([*classical, *VARIANTS], [*shipped, *policies])
    entries: list[Entry] = []
    for name in names:
        suite = suites.get(name, {"first_run": first_run})
        results = run_suite(suite, everybody, out_dir=out / name, profile=profile, ray=ray, resume=True, quiet=True)
        if provenance.version.__wrapped__() != results.version:
            raise SystemExit(f"the simulator was rebuilt during the run: delete {out / name} and run this again")
        entries += entries_of(results)
        print(f"{name}: {len(everybody)} contenders, {len(suite.cases(profile, results.runs))} runs each", flush=True)
    return entries


def entries_of(results: Results) -> list[Entry]:
    """What goes into leaderboard.csv, in six digits."""
    return [
        Entry(who, results.suite.name, metric, *(float(f"{v:.6g}") for v in (e.median, e.low, e.high)), e.n)
        for who, estimates in results.estimates().items()
        for metric, e in estimates.items()
    ]


def csv_text(entries: Sequence[Entry]) -> str:
    """The tidy table; an empty field for NaN."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for e in entries:
        values = ("" if np.isnan(value) else f"{value:.6g}" for value in (e.median, e.low, e.high))
        table.writerow([e.contender, e.suite, e.metric, *values, e.runs])
    return text.getvalue()


def read_csv(path: Path) -> list[Entry]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Entry(
                row["contender"],
                row["suite"],
                row["metric"],
                *(float(row[name] or "nan") for name in ("median", "low", "high")),
                int(row["runs"]),
            )
            for row in csv.DictReader(file)
        ]


def table_of(page: Path) -> Path:
    """The CSV beside a page."""
    return page.with_suffix(".csv")


# -- where a page comes from -------------------------------------------------------------------------------------------


def commit(folder: Path) -> str:
    """The commit of the checkout, and which of WATCHED differ from it; `unknown` outside a checkout."""
    found = git(folder, "rev-parse", "--short=12", "HEAD")
    if found is None:
        return "unknown"
    root = Path(git(folder, "rev-parse", "--show-toplevel") or ".")
    changed = [path for path in WATCHED if git(root, "status", "--porcelain", "--", path)]
    return f"`{found}`" + (f" (uncommitted changes in {', '.join(changed)})" if changed else "")


def stated(page: Path) -> Stamp:
    """What a page says about its origin. Raises SystemExit if it says nothing."""
    found = STATED.search(page.read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"{page} does not state its commit and version: write it with --page")
    return Stamp(*(found[name] for name in ("date", "commit", "version", "profile", "command")))


def age(page: Path) -> str:
    """The page's commit and date, and how many commits since then changed what its figures depend on.

    The commit that brought the page itself does not count.
    """
    stamp = stated(page)
    known = re.match("`([0-9a-f]{12})`", stamp.commit)
    name = f"commit {known[1]}" if known else "an unknown commit"
    return f"{page}: {name}, {stamp.date}; commits since then that changed {', '.join(WATCHED)}: {newer(page, known)}"


def newer(page: Path, known: re.Match[str] | None) -> str:
    folder = page.resolve().parent
    root = git(folder, "rev-parse", "--show-toplevel")
    if known is None or root is None:
        return "unknown"
    since = git(Path(root), "rev-list", f"{known[1]}..HEAD", "--", *WATCHED)
    brought = git(folder, "rev-list", "-1", "HEAD", "--", table_of(page).name)
    return "unknown" if since is None else str(len(set(since.split()) - {brought}))


def git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None outside a checkout, or for a commit that is not there."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


# -- who is better -----------------------------------------------------------------------------------------------------


def columns(suite: str) -> list[Metric]:
    """The metrics of a suite that its table shows, and that contenders are compared by."""
    left_out = (*LEFT_OUT, *PAPER_ONLY.get(suite, ()))
    return [metric for metric in suites.metrics_of(suite) if metric.key not in left_out]


def one_of(suite: str, keys: Sequence[str]) -> Metric | None:
    return next((metric for metric in columns(suite) if metric.key in keys), None)


def trade(suite: str) -> tuple[Metric, Metric] | None:
    """Goodput and delay, where the suite measures both."""
    goodput, delay = one_of(suite, GOODPUT), one_of(suite, DELAY)
    return (goodput, delay) if goodput is not None and delay is not None else None


def beaten_by(own: Mapping[str, Mapping[str, Entry]], suite: str) -> dict[str, int]:
    """Contender -> how many others are at least as good in every metric of the suite and better in one.

    Who leaves the link idle is compared by goodput alone. 0: on the Pareto front.
    """
    shown = columns(suite)
    values = np.array([[cells[metric.key].median for metric in shown] for cells in own.values()])
    away = np.nan_to_num(np.abs(values - [metric.ideal for metric in shown]), nan=np.inf)
    known = np.nan_to_num(values)
    tie = TIE * np.maximum(np.ptp(known, axis=0), np.maximum(np.abs(known)[:, None], np.abs(known)[None]))
    counted = np.ones(values.shape, dtype=bool)
    for k, metric in enumerate(shown):
        if metric.key in GOODPUT:
            counted[known[:, k] < USES_THE_LINK * known[:, k].max()] = np.arange(len(shown)) == k
    # [i, j]: is i at least as good as j, is i better than j, in each metric that counts for j?
    good = (away[:, None] <= away[None] + tie) | ~counted
    better = (away[:, None] < away[None] - tie) & counted
    return dict(zip(own, (good.all(axis=-1) & better.any(axis=-1)).sum(axis=0).tolist(), strict=True))


# -- the page ----------------------------------------------------------------------------------------------------------


def write(entries: Sequence[Entry], stamp: Stamp, page: Path) -> None:
    """The page and its figures."""
    board = board_of(entries)
    atomic_write_text(page, page_text(board, stamp))
    for suite in on_page(board):
        axes = trade(suite)
        if axes is not None:
            picture = page.parent / "images" / f"leaderboard-{suite}.png"
            pictures.write(draw(board[suite], suite, *axes), picture, max_bytes=40_000)


def board_of(entries: Sequence[Entry]) -> Board:
    board: Board = {}
    for entry in entries:
        board.setdefault(entry.suite, {}).setdefault(entry.contender, {})[entry.metric] = entry
    return board


def on_page(board: Board) -> list[str]:
    """The suites in the order of the page."""
    return [suite for question in QUESTIONS for suite in question.suites if suite in board]


def page_text(board: Board, stamp: Stamp) -> str:
    """The whole page, from the figures and where they come from."""
    beaten = {suite: beaten_by(own, suite) for suite, own in board.items()}
    asked = [question for question in QUESTIONS if set(question.suites) & set(board)]
    names = list(next(iter(board.values())))
    return PAGE.format(
        contenders=len(names),
        others=len(names) - 1,
        suites=len(board),
        stamp=stamp,
        size={"quick": "smallest", "reduced": "second", "full": "largest"}[stamp.profile],
        command=stamp.command,
        overview=overview(asked, beaten, names),
        tie=f"{100 * TIE:g}",
        uses=f"{100 * USES_THE_LINK:g}",
        sections="".join(section(question, board, beaten, stamp.profile) for question in asked),
        definitions="\n".join(definitions(board)),
    )


def mean_of(question: Question, beaten: Mapping[str, Mapping[str, int]], name: str) -> float:
    return float(np.mean([beaten[suite][name] for suite in question.suites if suite in beaten]))


def overview(asked: Sequence[Question], beaten: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> str:
    """Contenders by questions, shaded."""
    cells = {name: [mean_of(question, beaten, name) for question in asked] for name in names}
    every = {name: float(np.mean(row)) for name, row in cells.items()}
    head = "".join(f'<th scope="col"><a href="#{q.anchor}">{q.short}</a></th>' for q in asked)
    lines = [f'<tr><th scope="col">contender</th><th scope="col">All</th>{head}</tr>']
    for name in sorted(names, key=lambda name: (every[name], name)):
        row = ""
        for question, value in zip(asked, cells[name], strict=True):
            front = any(beaten[suite][name] == 0 for suite in question.suites if suite in beaten)
            row += f'<td class="h{shade(value)}">{strong(f"{value:.1f}", front)}</td>'
        lines.append(f'<tr><th scope="row">{label(name)}</th><td>{every[name]:.1f}</td>{row}</tr>')
    return boxed(lines[:1], lines[1:], "lb heat")


def shade(value: float) -> int:
    """0 is the darkest."""
    return next((k for k, bound in enumerate(HEAT) if value < bound), len(HEAT))


def section(question: Question, board: Board, beaten: Mapping[str, Mapping[str, int]], profile: str) -> str:
    """A question's table, with what happens in its suites above, runs and figures below."""
    own = [suite for suite in question.suites if suite in board]
    names = sorted(board[own[0]], key=lambda name: (mean_of(question, beaten, name), name))
    over = "".join(f'<th colspan="{len(columns(suite))}" scope="colgroup">{suite}</th>' for suite in own)
    titles = "".join(
        f'<th scope="col"{" class=first" * (k == 0)} data-metric="{suite}/{metric.key}">{title(metric)}</th>'
        for suite in own
        for k, metric in enumerate(columns(suite))
    )
    head = [
        f'<tr><th rowspan="2" scope="col">contender</th><th rowspan="2" scope="col">Better rivals ↓</th>{over}</tr>',
        f"<tr>{titles}</tr>",
    ]
    notes: dict[str, str] = {}
    body = []
    for name in names:
        row = f'<th scope="row">{label(name)}</th><td>{mean_of(question, beaten, name):.1f}</td>'
        for suite in own:
            most = max(entry.runs for cells in board[suite].values() for entry in cells.values())
            for k, metric in enumerate(columns(suite)):
                entry = board[suite][name][metric.key]
                mark = noted(entry, metric, most, notes)
                figure = strong(figure_of(entry.median, metric), beaten[suite][name] == 0)
                row += f"<td{' class=first' * (k == 0)}>{figure}{mark}</td>"
        body.append(f"<tr>{row}</tr>")
    lines = [f"## {question.title}", "", *(f"- `{suite}`: {question.suites[suite]}" for suite in own), ""]
    lines += [boxed(head, body, "lb"), "", f"Runs per contender: {', '.join(runs_of(s, board, profile) for s in own)}."]
    lines += [f"{mark} {text}." for text, mark in notes.items()]
    lines += ["", question.note] if question.note else []
    drawn = [
        f"![{alternative(beaten[suite], suite, *axes)}]({picture})"
        for suite in own
        if (axes := trade(suite))
        for picture in [f"images/leaderboard-{suite}.png"]
    ]
    if drawn:
        lines += ["", *drawn, "", CAPTION]
    return "\n".join([*lines, "", ""])


def title(metric: Metric) -> str:
    """With the unit and the better direction."""
    better = f"→\u00a0{metric.ideal:g}" if metric.key in TARGET else {"higher": "↑", "lower": "↓"}[metric.better]
    unit = unit_of(metric)
    unit = f", {unit}" if unit else ""
    return html.escape(SOFT.sub("\u00ad", f"{metric.title}{unit}\u00a0{better}").replace(" / ", "\u00a0/ "))


def unit_of(metric: Metric) -> str:
    return metric.unit.strip()


def figure_of(value: float, metric: Metric) -> str:
    """A cell; its unit is in the header."""
    return "–" if np.isnan(value) else f"{100 * value if metric.percent else value:.{metric.decimals}f}"


def noted(entry: Entry, metric: Metric, most: int, notes: dict[str, str]) -> str:
    """The mark of a footnote, for a figure that is missing or rests on fewer runs than the others of its suite."""
    if entry.runs == most:
        return ""
    why = MISSING.get(metric.key, "the run has no such value")
    text = (
        f"No run gives this value: {why}"
        if entry.runs == 0
        else f"From {entry.runs} of {most} runs; the others have none: {why}"
    )
    return notes.setdefault(text, f"<sup>{len(notes) + 1}</sup>")


def runs_of(suite: str, board: Board, profile: str) -> str:
    """`2 in inter-rtt (base RTT in ms: 40, 120; buffer in BDP: 1)`."""
    runs = max(entry.runs for cells in board[suite].values() for entry in cells.values())
    points = suites.get(suite).points(profile)
    factors = {name: sorted({point[name] for point in points}, key=order) for name in points[0]}
    said = "; ".join(f"{FACTORS[name]}: {', '.join(map(shown, values))}" for name, values in factors.items())
    return f"{runs} in `{suite}`{f' ({said})' if said else ''}"


def shown(value: float | int | str) -> str:
    return NAMES.get(value, value) if isinstance(value, str) else f"{value:g}"


def order(value: float | int | str) -> tuple[float, str]:
    return (0.0, value) if isinstance(value, str) else (float(value), "")


def definitions(board: Board) -> list[str]:
    """Rows of the last table: every metric once, with what differs between suites."""
    found: dict[str, str] = {}
    for suite in on_page(board):
        for m in suites.metrics_of(suite):
            cells = f"| {m.title} | {unit_of(m) or '–'} | {m.ideal:g} | {m.definition} |"
            found.setdefault(cells, suite)
    return list(found)


def label(name: str) -> str:
    """A contender's name; learned policies are marked."""
    return html.escape(name) + ("" if classical(name) else " ◆")


def classical(name: str) -> bool:
    return name.partition(":")[0] in controllers.names("baseline")


def strong(text: str, bold: bool) -> str:
    return f"<b>{text}</b>" if bold else text


def boxed(head: Sequence[str], body: Sequence[str], name: str) -> str:
    """A table that scrolls by itself, its first column stays."""
    rows = ["<thead>", *head, "</thead>", "<tbody>", *body, "</tbody>"]
    return "\n".join([f'<div class="{name}" tabindex="0"><table>', *rows, "</table></div>"])


def alternative(beaten: Mapping[str, int], suite: str, goodput: Metric, delay: Metric) -> str:
    front = ", ".join(name for name, n in beaten.items() if n == 0)
    return f"{suite}: {goodput.title.lower()} against {delay.title.lower()}; on the Pareto front: {front}"


# -- the figures -------------------------------------------------------------------------------------------------------

SIZE_IN = (5.8, 5.0)
FONT = 12
BLUE, GREY = "#0B6BA8", "#8A929C"


def draw(own: Mapping[str, Mapping[str, Entry]], suite: str, goodput: Metric, delay: Metric) -> Figure:
    """Goodput against delay: a point and a name for each contender, who is on the front in blue."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    beaten = beaten_by(own, suite)
    known = {
        name: (cells[delay.key].median, cells[goodput.key].median)
        for name, cells in own.items()
        if not np.isnan([cells[delay.key].median, cells[goodput.key].median]).any()
    }
    theme = style.LIGHT
    with mpl.rc_context({**theme.rc(), "font.size": FONT, "xtick.labelsize": FONT, "ytick.labelsize": FONT}):
        figure = Figure(figsize=SIZE_IN, dpi=72)  # a pixel is a point
        ax = figure.add_axes((0.135, 0.12, 0.845, 0.8))
        x, y = (np.array(values) for values in zip(*known.values(), strict=True))
        if x.max() > 2.5 * x.min():
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 8)))
            ax.xaxis.set_minor_locator(mpl.ticker.NullLocator())
            ax.xaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_major_locator(mpl.ticker.MaxNLocator(7, steps=[1, 2, 5, 10]))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.margins(0.13, 0.16)
        colours = [BLUE if beaten[name] == 0 else GREY for name in known]
        for name, at_x, at_y, colour in zip(known, x, y, colours, strict=True):
            ax.plot(at_x, at_y, "o" if classical(name) else "D", color=colour, markersize=7, zorder=3)
        ax.set_title(suite, fontsize=FONT + 2)
        ax.set_xlabel(f"{delay.title}{', ' + unit_of(delay) if unit_of(delay) else ''}  (← better)", fontsize=FONT)
        ax.set_ylabel(
            f"{goodput.title}{', ' + unit_of(goodput) if unit_of(goodput) else ''}  (better →)", fontsize=FONT
        )
        figure.draw_without_rendering()  # fixes the limits of the axes
        points = ax.transData.transform(np.column_stack([x, y]))
        texts = [figure.text(0, 0, name, fontsize=FONT - 1.5, ha="center", va="center", zorder=4) for name in known]
        sizes = np.array([(box.width + 8, box.height) for box in (text.get_window_extent() for text in texts)])
        middles = labels.place(points, sizes, ax.get_window_extent().extents)
        whole = 72 * np.array(SIZE_IN)
        for text, middle, size, point, colour in zip(texts, middles, sizes, points, colours, strict=True):
            text.set(position=middle / whole, color=theme.muted if colour == GREY else colour)
            edge = point + (middle - point) * labels.reach(middle - point, size)
            if np.hypot(*(edge - point)) > 10:
                way = np.array([point, edge]) / whole
                figure.add_artist(mpl.lines.Line2D(*way.T, color=theme.edge, linewidth=0.8, zorder=2))
    return figure


if __name__ == "__main__":
    main(sys.argv[1:])
