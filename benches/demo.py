"""The training of `orbitcc demo` over five seeds, judged on schedules that no training saw.

python -m benches.demo FOLDER [--recipe NAME] [--page docs/training.md]

Trains the recipe with seeds 1 to 5 in FOLDER (a finished run is kept), evaluates all five beside Cubic and BBRv3 on
`responsiveness` and `intra-rtt` with their default schedules, and prints a table and how many seeds are above both in
goodput and below both in delay. With --page it writes the table between marks of that page.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from pathlib import Path

from benches import pages
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.commands.demo import RECIPE
from orbitcc.common.files import atomic_write_text
from orbitcc.eval import contenders, suites
from orbitcc.eval.results import Results
from orbitcc.eval.runner import run_suite

SEEDS = (1, 2, 3, 4, 5)
RIVALS = ("cubic", "bbr3")


def train(folder: Path, recipe: str, seed: int) -> tuple[Path, float]:
    """The policy of a seed, and the CPU seconds of its training, Ray's start and the evaluations included."""
    name = f"{recipe}-{seed}"
    measured = folder / f"{name}.cpu_s"
    if not measured.exists():
        words = ["train", recipe, "--seed", str(seed), "--out", str(folder), "--name", name]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "orbitcc.cli", *words], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        atomic_write_text(measured, f"{spent:.1f}\n")
    return RunFolder(folder / name).best, float(measured.read_text(encoding="utf-8"))


def table(results: dict[str, Results], spent: dict[str, float]) -> tuple[str, list[str]]:
    """The table as Markdown, and the labels of the policies that are not ahead of both rivals in both."""
    found = {suite: result.estimates() for suite, result in results.items()}
    goodput = {label: e["goodput_over_optimal"].median for label, e in found["responsiveness"].items()}
    delay = {label: e["delay_inflation"].median for label, e in found["responsiveness"].items()}
    ratio = {label: e["goodput_ratio"].median for label, e in found["intra-rtt"].items()}
    rows = [
        "| contender | goodput / optimal ↑ | RTT / base RTT ↓ | fairness of two flows ↑ | training, CPU s ↓ |",
        "|---|---|---|---|---|",
    ]
    for label in goodput:
        cpu = f"{spent[label]:.0f}" if label in spent else "–"
        rows.append(f"| {label} | {goodput[label]:.3f} | {delay[label]:.3f} | {ratio[label]:.3f} | {cpu} |")
    rivals = [label for label in goodput if label not in spent]
    behind = [label for label in spent if any(goodput[label] <= goodput[r] or delay[label] >= delay[r] for r in rivals)]
    return "\n".join(rows), behind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recipe", default=RECIPE)
    parser.add_argument("--page", type=Path)
    chosen = parser.parse_args()
    trained = [train(chosen.folder, chosen.recipe, seed) for seed in SEEDS]
    line_up = contenders.line_up(RIVALS, [str(policy) for policy, _ in trained])
    results = {
        name: run_suite(suites.get(name), line_up, out_dir=chosen.folder / name, profile="quick", resume=True)
        for name in ("responsiveness", "intra-rtt")
    }
    spent = dict(zip([c.label for c in line_up if c.digest], (seconds for _, seconds in trained), strict=True))
    text, behind = table(results, spent)
    print(text)
    print(
        f"{len(spent) - len(behind)} of {len(spent)} seeds are ahead of {' and '.join(RIVALS)} in goodput and in delay"
    )
    if chosen.page is not None:
        pages.replace(chosen.page, {"demo-seeds": text})


if __name__ == "__main__":
    main()
