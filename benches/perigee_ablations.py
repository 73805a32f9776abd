"""What each part of perigee's recipe buys: one factor changed at a time, several training seeds, fresh schedules.

    python -m benches.perigee_ablations results/ablations [--variants NAME ...] [--seeds 1 2 3] [--agent-steps 1000000]
        [--first-run 7001] [--page docs/ablations.md]

Trains what is not there yet (`orbitcc train` with the variant's settings), runs suites on schedules that neither
development nor the tables of docs/policies.md use, and writes the table: interquartile means over seeds, with
the range of the seeds below.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benches.policies import ROWS, STATISTICS, Row
from orbitcc.envs.files import atomic_write_text
from orbitcc.eval import contenders, suites
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
    "handovers as they are": ("preset.observation.handovers=true",),
    "steps linear, not logarithmic": ("preset.action.name=log-window", "preset.action.form=linear"),
    "steps without the cube": ("preset.action.name=log-window", "preset.action.cubic=0"),
    "the rate moves, not the window": ("preset.action.name=log-rate",),
    "every 60 ms": ("preset.interval_ms=60",),
    "delay half": ("preset.reward.delay=0.5",),
    "delay twice": ("preset.reward.delay=2",),
    "losses not counted": ("preset.reward.loss=0",),
    "losses four times": ("preset.reward.loss=2",),
    "each flow for itself": ("preset.reward.team=false",),
    "critic sees what the policy sees": ("ppo.privileged_critic=false",),
    "two layers of 64": ("network.hidden=[64, 64]",),
    "trained on slots only": ("scenario=train-leo",),
}
SHOWN = (
    ("responsiveness", "goodput_over_optimal"),
    ("responsiveness", "delay_inflation"),
    ("responsiveness-loss", "goodput_over_optimal"),
    ("leoem-single", "goodput_share"),
    ("leo-access", "utilisation"),
    ("inter-rtt", "goodput_ratio"),
    ("intra-rtt", "goodput_ratio"),
    ("parking-lot", "long_ratio"),
    ("cubic-friendliness", "own_share"),
)
"""The first row of :data:`benches.policies.ROWS` with each."""
COLUMNS: tuple[Row, ...] = tuple(next(r for r in ROWS if (r.suite, r.metric) == shown) for shown in SHOWN)


def trained(out: Path, variant: str, seeds: Sequence[int], agent_steps: int) -> list[Path]:
    """The checkpoints of a variant, trained or finished now where they are not."""
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


def row(out: Path, variant: str, checkpoints: Sequence[Path], first_run: int) -> str:
    """A line of the table."""
    line_up = contenders.line_up([], [str(path) for path in checkpoints])
    cells = []
    for column in COLUMNS:
        campaign = run_suite(
            suites.get(column.suite, {"first_run": first_run}),
            line_up,
            out_dir=out / "suites" / variant.replace(" ", "-").replace(",", "") / column.suite,
            profile="quick",
            resume=True,
            quiet=True,
        )
        values = campaign.values(column.metric, **column.factors)
        statistic = STATISTICS[column.statistic]
        seeds = [float(statistic(values[contender.label])) for contender in line_up]
        cells.append(f"{aggregate(seeds).value:.3f} ({min(seeds):.2f}–{max(seeds):.2f})")
    return f"| {variant} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--agent-steps", type=int, default=1_000_000)
    parser.add_argument("--first-run", type=int, default=7001)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    lines = [f"| | {' | '.join(map(str, COLUMNS))} |", "|---|" + "---|" * len(COLUMNS)]
    print("\n".join(lines), flush=True)
    for variant in arguments.variants:
        checkpoints = trained(arguments.out, variant, arguments.seeds, arguments.agent_steps)
        lines.append(row(arguments.out, variant, checkpoints, arguments.first_run))
        print(lines[-1], flush=True)
    if arguments.page is not None:
        atomic_write_text(arguments.page, "\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
