"""Ablations of a recipe: one factor is changed at a time, with several training seeds and new schedules.

    python -m benches.policy_ablations perigee results/ablations [--variants KEY ...] [--seeds 1 2 3]
        [--agent-steps 1000000] [--first-run 7001] [--page docs/ablations.md]
    python -m benches.policy_ablations perigee --picture docs/ablations.md

The first command trains the missing checkpoints (`orbitcc train` with the settings of the variant), runs suites on
schedules that neither development nor the tables of docs/policies.md use, and writes the table: interquartile means
over seeds, with the range of the seeds. The second one draws the picture from the table on the page.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl

from benches import pictures
from benches.pages import replace
from benches.policies import ROWS, STATISTICS, Row
from orbitcc.envs.errors import FileError
from orbitcc.eval import contenders, suites
from orbitcc.eval.figures import style
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import aggregate
from orbitcc.training.loop import DIVERGED
from orbitcc.training.recipe import load


class Cell(NamedTuple):
    """A cell of the table: the interquartile mean over the seeds, their lowest and their highest value."""

    mean: float
    low: float
    high: float


class Specialist(NamedTuple):
    """A teacher: the parts of the mixture of worlds in which it teaches, and the weights with which it is trained."""

    worlds: tuple[str, ...]
    weights: tuple[float, ...]


class Variant(NamedTuple):
    """A row of the table: the settings of `orbitcc train` that make it, and teachers that are trained first.

    With teachers, the first 30 % of the decisions imitate those of the same seed.
    """

    label: str
    settings: tuple[str, ...] = ()
    teachers: tuple[Specialist, ...] = ()


_RATIOS = (
    '{name="inflation", rtt="least", window_s=6}',
    '{name="inflation", rtt="least", window_s=6, average_rtts=1}',
    '{name="inflation", rtt="least", window_s=1}',
    '{name="rtt-rise", window_s=6, average_rtts=1}',
    '{name="delivered", average_rtts=1}',
    '{name="rate-share", window_s=10}',
    '{name="rate-share", window_s=10, average_rtts=4}',
    '{name="loss", average_rtts=1}',
    '{name="loss", average_rtts=16}',
    '{name="own-queue", rtt="least", window_s=6}',
    '{name="own-queue", rtt="least", window_s=6, average_rtts=1}',
    '"pacing-rate"',
    '{name="min-rtt", window_s=6}',
    '{name="in-flight", window_s=6}',
    '{name="window", window_s=6}',
    '"window-change"',
    '"cleared"',
    '{name="silence", window_s=6}',
)
"""The observation of perigee as a list of `features`, which differ from `ratios` only in what counts as a pause."""
_PERIGEE = {
    "unchanged": Variant("unchanged recipe"),
    "no-gap": Variant("extremes kept after a pause in the ACKs", ("preset.observation.gap_s=0",)),
    "recurring-pauses": Variant(
        "recurring pauses do not discard extremes",
        (f'preset.observation={{name="features", base_window_s=6.0, features=[{", ".join(_RATIOS)}]}}',),
    ),
    "mean-rtt": Variant("mean RTT of an interval, not the minimum", ("preset.observation.rtt=mean",)),
    "min-rtt-10s": Variant("minimum RTT over 10 s, not 6 s", ("preset.observation.min_rtt_window_s=10",)),
    "no-own-queue": Variant("own queued packets not observed", ("preset.observation.own_queue=false",)),
    "history-4": Variant("history of 4 intervals, not 1", ("preset.observation.history=4",)),
    "handovers-reported": Variant("reported handovers observed", ("preset.observation.handovers=reported",)),
    "handovers-true": Variant("true handovers observed", ('preset.observation.handovers="true"',)),
    "linear-steps": Variant(
        "linear window steps, not logarithmic", ("preset.action.name=log-window", "preset.action.form=linear")
    ),
    "60ms": Variant("decisions every 60 ms, not 30 ms", ("preset.interval_ms=60",)),
    "delay-2": Variant("delay weight 2, not 1.25", ("preset.reward.delay=2",)),
    "loss-2": Variant("loss weight 2, not 0.5", ("preset.reward.loss=2",)),
    "own-reward": Variant("own reward per flow, not shared", ("preset.reward.team=false",)),
    "no-privileged-critic": Variant("no privileged critic", ("learner.privileged_critic=false",)),
    "train-leo": Variant("trained on train-leo only", ("scenario=train-leo",)),
}
_OF_PERIGEE = "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"
_OF_GATE = "[8,16,22,23,24,25,26,27,28]"
_WITHOUT_RIVALS = "[0.30,0.12,0,0.08,0.14,0.08,0.24,0.10]"


def _without(*features: int) -> list[int]:
    """The features of zenith's experts but these."""
    return [feature for feature in range(22) if feature not in features]


_ONE_PREFERENCE = (
    "scenario.common.delay_preference={low=1.0, high=1.0}",
    "preset.reward.delay=0.5",
    "preset.action.occupancy_range=0",
)
"""zenith without what its last two rows are about, from which all other rows differ in one part."""
_PARTS_OF_ZENITH = {
    "unchanged": Variant("recipe with one preference and without yielding by occupancy"),
    "linear": Variant("linear policy: one expert", ("network.experts=1",)),
    "inputs-of-perigee": Variant(
        "experts observe the features of perigee only", (f"network.expert_inputs={_OF_PERIGEE}",)
    ),
    "gate-rate-rtt": Variant(
        "gate also observes rate and RTT", ("network.gate_inputs=[8,11,12,16,22,23,24,25,26,27,28]",)
    ),
    "no-drains": Variant("no drains of the queue", ("preset.action.drain_every_s=0",)),
    "delay-in-base-rtts": Variant("delay penalised in base RTTs", ("preset.reward.delay_allowance_ms=0",)),
    "worlds-of-perigee": Variant("trained on train-leo-wide", ("scenario=train-leo-wide",)),
    "no-worlds-with-rivals": Variant(
        "without the training worlds that always contain a rival", (f"scenario.weights={_WITHOUT_RIVALS}",)
    ),
    "no-privileged-critic": Variant("no privileged critic", ("learner.privileged_critic=false",)),
    "no-jitter-queues": Variant("no queues above the jitter", (f"network.expert_inputs={_without(18, 19)}",)),
    "no-short-minima": Variant("no queues over shorter windows", (f"network.expert_inputs={_without(20, 21)}",)),
    "gate-without-losses": Variant("gate without losses", ("network.gate_inputs=[16,24,25,26,27,28]",)),
    "gate-without-jitter": Variant("gate without jitter", ("network.gate_inputs=[8,16,22,23,25,26,27]",)),
    "gate-without-extremes": Variant("gate without ratios of extremes", ("network.gate_inputs=[8,16,22,23,24,28]",)),
    "gru": Variant(
        "one linear layer, which observes a GRU in place of the gate",
        (
            "network.experts=0",
            "network.gru=16",
            "network.gru_every=4",
            f"network.gru_inputs={_OF_GATE}",
            f"network.head_inputs={_without()}",
        ),
    ),
    "distilled": Variant(
        "imitates two specialists before PPO: access networks, all other worlds",
        teachers=(
            Specialist(("access", "orbits"), (0, 0, 0, 0, 0, 0, 0.24, 0.10)),
            Specialist((), (0.30, 0.12, 0.25, 0.08, 0.14, 0.08, 0, 0)),
        ),
    ),
    "occupancy": Variant("flows yield by occupancy, as in Jury", ("preset.action.occupancy_range=0.05",)),
}
_ZENITH = {
    **{key: part._replace(settings=(*_ONE_PREFERENCE, *part.settings)) for key, part in _PARTS_OF_ZENITH.items()},
    "shipped": Variant("the recipe that ships: with a preference, and yielding by occupancy"),
}
VARIANTS = {"perigee": _PERIGEE, "zenith": _ZENITH}
"""Recipe -> key of a variant, which names its folders -> variant."""
HEADS = {
    ("responsiveness", "goodput_over_optimal"): "goodput / optimal",
    ("responsiveness", "delay_inflation"): "delay inflation",
    ("responsiveness-loss", "goodput_over_optimal"): "goodput / optimal",
    ("leoem-single", "goodput_share"): "goodput / bandwidth",
    ("leo-access", "utilisation"): "utilisation",
    ("inter-rtt", "goodput_ratio"): "goodput ratio, buffer of 1 BDP",
    ("intra-rtt", "goodput_ratio"): "goodput ratio",
    ("parking-lot", "long_ratio"): "long flow / best cross flow, 3 hops",
    ("cubic-friendliness", "own_share"): "own share beside Cubic, buffer of 1 BDP",
}
"""Suite and metric, of the first matching row of :data:`benches.policies.ROWS` -> title of the column."""
SHOWN = tuple(HEADS)
COLUMNS: tuple[Row, ...] = tuple(next(r for r in ROWS if (r.suite, r.metric) == shown) for shown in SHOWN)


def trained(out: Path, recipe: str, variant: str, seeds: Sequence[int], agent_steps: int) -> list[Path]:
    """The checkpoints of a variant (its key), those of its teachers first; interrupted training runs are completed."""
    chosen = VARIANTS[recipe][variant]
    settings = (*chosen.settings, f"agent_steps={agent_steps}", f"learner.lr_decay={agent_steps}")
    teachers = [
        [
            _trained(
                out / "runs" / f"{variant}-{k}", recipe, (*settings, f"scenario.weights={[*teacher.weights]}"), seed
            )
            for seed in seeds
        ]
        for k, teacher in enumerate(chosen.teachers)
    ]
    made = []
    for k, seed in enumerate(seeds):
        lesson: tuple[str, ...] = ()
        if teachers:
            listed = ", ".join(
                f"{{policy={json.dumps(str(run[k].resolve()))}, worlds={json.dumps(teacher.worlds)}}}"
                for run, teacher in zip(teachers, chosen.teachers, strict=True)
            )
            lesson = (f"distill={{teachers=[{listed}], agent_steps={agent_steps * 3 // 10}}}",)
        made.append(_trained(out / "runs" / variant, recipe, (*settings, *lesson), seed))
    return made


def _trained(runs: Path, recipe: str, settings: Sequence[str], seed: int) -> Path:
    """The checkpoint of one seed in a folder of runs."""
    command = [sys.executable, "-m", "orbitcc.cli", "train", recipe, "--seed", str(seed), "--out", str(runs)]
    begun = list(runs.glob(f"*__{seed}__*"))
    alone = ("finish.join={}",) if load(recipe).finish is not None else ()
    command += ["--resume"] if begun else [part for setting in (*settings, *alone) for part in ("--set", setting)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, DIVERGED):
        raise SystemExit(f"{runs.name}, seed {seed}: {done.stderr.strip()}")
    return next(runs.glob(f"*__{seed}__*")) / "best"


def measured(out: Path, variant: str, checkpoints: Sequence[Path], first_run: int) -> list[list[float]]:
    """The statistic of every seed, for each column."""
    line_up = contenders.line_up([], [str(path) for path in checkpoints])
    found = []
    for column in COLUMNS:
        results = run_suite(
            suites.get(column.suite, {"first_run": first_run}),
            line_up,
            out_dir=out / "suites" / variant / column.suite,
            profile="quick",
            resume=True,
            quiet=True,
        )
        values = results.values(column.metric, **column.factors)
        found.append([float(STATISTICS[column.statistic](values[contender.label])) for contender in line_up])
    return found


def line(label: str, found: Sequence[Sequence[float]]) -> str:
    """A row of the table."""
    cells = [f"{aggregate(seeds).value:.3f} ({min(seeds):.2f}–{max(seeds):.2f})" for seeds in found]
    return f"| {label} | {' | '.join(cells)} |"


def table(page: Path, recipe: str) -> tuple[list[str], dict[str, list[Cell]]]:
    """The table on a page: heads of its columns, and label of a row -> interquartile mean, lowest and highest seed."""
    name = f"{recipe}-ablations"
    found = re.search(rf"<!-- {name} -->\n(.*)\n<!-- /{name} -->", page.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise FileError("page", str(page), f"a page with a table between <!-- {name} --> and <!-- /{name} -->")
    heads, _, *rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in found[1].splitlines()]
    read: dict[str, list[Cell]] = {}
    for label, *cells in rows:
        read[label] = []
        for cell in cells:
            match = re.fullmatch(r"([\d.]+) \(([\d.]+)–([\d.]+)\)", cell)
            if match is None:
                raise FileError("page", str(page), f"cells such as 0.924 (0.92–0.93), not {cell!r}")
            read[label].append(Cell(*map(float, match.groups())))
    return heads[1:], read


def draw(page: Path, recipe: str) -> Path:
    """A panel per column of the table on the page: mean and range of every variant, and the range of the first row."""
    from matplotlib.figure import Figure

    heads, rows = table(page, recipe)
    first = next(iter(rows.values()))
    with mpl.rc_context(style.LIGHT.rc()):
        figure = Figure(figsize=(15, 1.3 + 0.3 * len(rows)), layout="constrained")
        panels = figure.subplots(1, len(heads), sharey=True)
        for k, (ax, head) in enumerate(zip(panels, heads, strict=True)):
            ax.axvspan(first[k].low, first[k].high, color=style.LIGHT.area, zorder=0)
            ax.axvline(first[k].mean, color=style.LIGHT.edge, linewidth=0.9, zorder=1)
            for y, cells in enumerate(rows.values()):
                ax.plot([cells[k].low, cells[k].high], [y, y], color=style.LIGHT.ink, linewidth=1.6, alpha=0.55)
                ax.plot(cells[k].mean, y, "|", color=style.LIGHT.outage, markersize=11, markeredgewidth=2)
            suite, _, metric = head.partition(", ")
            ax.set_title("\n".join([suite, *textwrap.wrap(metric, 18)]), fontsize=7)
            ax.tick_params(labelsize=7.5)
            ax.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(range(len(rows)), list(rows))
        panels[0].invert_yaxis()
    return pictures.write(figure, page.parent / "images" / f"{recipe}-ablations.png", max_bytes=120_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=list(VARIANTS))
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--variants", nargs="+", metavar="KEY")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--agent-steps", type=int, default=1_000_000)
    parser.add_argument("--first-run", type=int, default=7001)
    parser.add_argument("--page", type=Path, help="page that gets the table, and whose picture is drawn from it")
    parser.add_argument(
        "--picture", type=Path, metavar="PAGE", help="only draw the picture from the table on this page"
    )
    arguments = parser.parse_args()
    if arguments.picture is not None:
        draw(arguments.picture, arguments.recipe)
        return
    if arguments.out is None:
        parser.error("a folder for the results, or --picture PAGE, is required")
    known = VARIANTS[arguments.recipe]
    variants = arguments.variants or list(known)
    if unknown := [key for key in variants if key not in known]:
        parser.error(f"--variants {unknown[0]!r}: must be among {', '.join(known)}")
    heads = [f"{column.suite}, {HEADS[shown]}" for shown, column in zip(SHOWN, COLUMNS, strict=True)]
    lines = [f"| variant | {' | '.join(heads)} |", "|---|" + "---|" * len(COLUMNS)]
    print("\n".join(lines), flush=True)
    for key in variants:
        checkpoints = trained(arguments.out, arguments.recipe, key, arguments.seeds, arguments.agent_steps)
        lines.append(line(known[key].label, measured(arguments.out, key, checkpoints, arguments.first_run)))
        print(lines[-1], flush=True)
    if arguments.page is not None:
        replace(arguments.page, {f"{arguments.recipe}-ablations": "\n".join(lines)})
        draw(arguments.page, arguments.recipe)


if __name__ == "__main__":
    main()
