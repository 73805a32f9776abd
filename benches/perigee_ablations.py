"""Ablations of perigee's recipe: one factor is changed at a time, with several training seeds and new schedules.

    python -m benches.perigee_ablations results/ablations [--variants NAME ...] [--seeds 1 2 3] [--agent-steps 1000000]
        [--first-run 7001] [--page docs/ablations.md]

Trains the missing checkpoints (`orbitcc train` with the settings of the variant), runs suites on schedules that neither
development nor the tables of docs/policies.md use, and writes the table: interquartile means over seeds, with the range
of the seeds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from benches import pictures
from benches.pages import replace
from benches.policies import ROWS, STATISTICS, Row
from orbitcc.eval import contenders, suites
from orbitcc.eval.figures import style
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import aggregate
from orbitcc.training.loop import DIVERGED

RECIPE = "perigee"
VARIANTS: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "no forgetting on silence": ("preset.observation.gap_s=0",),
    "mean RTT of an interval, not the least": ("preset.observation.rtt=mean",),
    "minimum RTT of 10 s": ("preset.observation.min_rtt_window_s=10",),
    "own queued packets not seen": ("preset.observation.own_queue=false",),
    "history of 4 intervals": ("preset.observation.history=4",),
    "handovers as reported": ("preset.observation.handovers=reported",),
    "handovers as they are": ('preset.observation.handovers="true"',),
    "steps linear, not logarithmic": ("preset.action.name=log-window", "preset.action.form=linear"),
    "every 60 ms": ("preset.interval_ms=60",),
    "delay twice": ("preset.reward.delay=2",),
    "losses four times": ("preset.reward.loss=2",),
    "each flow for itself": ("preset.reward.team=false",),
    "critic sees what the policy sees": ("ppo.privileged_critic=false",),
    "trained on train-leo only": ("scenario=train-leo",),
}
HEADS = {
    ("responsiveness", "goodput_over_optimal"): "goodput / optimal",
    ("responsiveness", "delay_inflation"): "delay inflation",
    ("responsiveness-loss", "goodput_over_optimal"): "goodput / optimal",
    ("leoem-single", "goodput_share"): "goodput",
    ("leo-access", "utilisation"): "utilisation",
    ("inter-rtt", "goodput_ratio"): "goodput ratio",
    ("intra-rtt", "goodput_ratio"): "goodput ratio",
    ("parking-lot", "long_ratio"): "long flow, 3 hops",
    ("cubic-friendliness", "own_share"): "own share, 1 BDP",
}
"""Suite and metric, of the first matching row of :data:`benches.policies.ROWS` -> title of the column."""
SHOWN = tuple(HEADS)
COLUMNS: tuple[Row, ...] = tuple(next(r for r in ROWS if (r.suite, r.metric) == shown) for shown in SHOWN)


def trained(out: Path, variant: str, seeds: Sequence[int], agent_steps: int) -> list[Path]:
    """The checkpoints of a variant; missing or interrupted training runs are completed first."""
    runs = out / "runs" / variant.replace(" ", "-").replace(",", "")
    settings = (*VARIANTS[variant], f"agent_steps={agent_steps}", f"ppo.lr_decay={agent_steps}")
    chosen = [part for setting in settings for part in ("--set", setting)]
    for seed in seeds:
        begun = list(runs.glob(f"*__{seed}__*"))
        command = [sys.executable, "-m", "orbitcc.cli", "train", RECIPE, "--seed", str(seed), "--out", str(runs)]
        command += ["--resume"] if begun else chosen
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, DIVERGED):
            raise SystemExit(f"{variant}, seed {seed}: {done.stderr.strip()}")
    return [next(runs.glob(f"*__{seed}__*")) / "best" for seed in seeds]


def measured(out: Path, variant: str, checkpoints: Sequence[Path], first_run: int) -> list[list[float]]:
    """The statistic of every seed, for each column."""
    line_up = contenders.line_up([], [str(path) for path in checkpoints])
    found = []
    for column in COLUMNS:
        results = run_suite(
            suites.get(column.suite, {"first_run": first_run}),
            line_up,
            out_dir=out / "suites" / variant.replace(" ", "-").replace(",", "") / column.suite,
            profile="quick",
            resume=True,
            quiet=True,
        )
        values = results.values(column.metric, **column.factors)
        found.append([float(STATISTICS[column.statistic](values[contender.label])) for contender in line_up])
    return found


def line(variant: str, found: Sequence[Sequence[float]]) -> str:
    """A row of the table."""
    cells = [f"{aggregate(seeds).value:.3f} ({min(seeds):.2f}–{max(seeds):.2f})" for seeds in found]
    return f"| {variant} | {' | '.join(cells)} |"


def draw(results: Mapping[str, Sequence[Sequence[float]]], path: Path) -> None:
    """A panel per column: every seed of every variant, and the range of the unchanged recipe."""
    from matplotlib.figure import Figure

    names = list(results)
    with mpl.rc_context(style.LIGHT.rc()):
        figure = Figure(figsize=(14, 1.0 + 0.3 * len(names)), layout="constrained")
        panels = figure.subplots(1, len(COLUMNS), sharey=True)
        for k, (ax, column) in enumerate(zip(panels, COLUMNS, strict=True)):
            base = results[names[0]][k]
            ax.axvspan(min(base), max(base), color=style.LIGHT.area, zorder=0)
            ax.axvline(float(np.mean(base)), color=style.LIGHT.edge, linewidth=0.9, zorder=1)
            for y, name in enumerate(names):
                seeds = results[name][k]
                ax.plot(seeds, [y] * len(seeds), "o", color=style.LIGHT.ink, markersize=3.5, alpha=0.55)
                ax.plot(np.median(seeds), y, "|", color=style.LIGHT.outage, markersize=11, markeredgewidth=2)
            ax.set_title(f"{column.suite}\n{HEADS[SHOWN[k]]}", fontsize=8)
            ax.tick_params(labelsize=7.5)
            ax.locator_params(axis="x", nbins=4)
        panels[0].set_yticks(range(len(names)), names)
        panels[0].invert_yaxis()
    pictures.write(figure, path, max_bytes=120_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--agent-steps", type=int, default=1_000_000)
    parser.add_argument("--first-run", type=int, default=7001)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    heads = [f"{column.suite}, {HEADS[shown]}" for shown, column in zip(SHOWN, COLUMNS, strict=True)]
    lines = [f"| variant | {' | '.join(heads)} |", "|---|" + "---|" * len(COLUMNS)]
    print("\n".join(lines), flush=True)
    results = {}
    for variant in arguments.variants:
        checkpoints = trained(arguments.out, variant, arguments.seeds, arguments.agent_steps)
        results[variant] = measured(arguments.out, variant, checkpoints, arguments.first_run)
        lines.append(line(variant, results[variant]))
        print(lines[-1], flush=True)
    if arguments.page is not None:
        replace(arguments.page, {"ablations": "\n".join(lines)})
        draw(results, arguments.page.parent / "images" / "ablations.png")


if __name__ == "__main__":
    main()
