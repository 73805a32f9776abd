"""Parts of published designs composed with a trained policy, without training: how flows share, and what is detected.

    python -m benches.competing results/competing [--policy zenith] [--first-run 2001] [--page docs/policies.md]

The first table runs suites for copies of the policy whose action has an `occupancy_range`. The second one runs the
policy with the pulses of Nimbus beside other flows and prints how often each feature says that a flow competes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benches.pages import replace
from benches.policies import STATISTICS
from orbitcc.agents import checkpoint
from orbitcc.agents.actions import with_parameters
from orbitcc.envs.description.flows import Cbr
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.presets import Preset, preset
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.scenarios import get
from orbitcc.eval import contenders, suites
from orbitcc.eval.runner import run_suite

RANGES = (0.0, 0.05, 0.1, 0.2, 0.4)
RUNS = 5
"""Runs per point of a suite."""
NIMBUS = float(np.log(3.0))
"""The feature `elasticity` at Nimbus's threshold, an elasticity of 2."""


class Column(NamedTuple):
    """A column of the first table."""

    suite: str
    metric: str
    statistic: str
    head: str


COLUMNS = (
    Column("intra-rtt", "goodput_ratio", "mean", "`intra-rtt`: goodput ratio ↑"),
    Column("inter-rtt", "goodput_ratio", "mean", "`inter-rtt`: goodput ratio ↑"),
    Column("inter-rtt", "goodput_share", "mean", "`inter-rtt`: goodput / bandwidth ↑"),
    Column("responsiveness", "goodput_over_optimal", "median", "`responsiveness`: goodput / optimal ↑"),
    Column("responsiveness", "delay_inflation", "median", "`responsiveness`: delay inflation ↓"),
)


def with_range(policy: str, occupancy_range: float, out: Path) -> str:
    """A copy of a checkpoint whose action picks from this range."""
    if not out.exists():
        with_parameters(policy, out, {"occupancy_range": occupancy_range}, name=f"{policy}-{occupancy_range:g}")
    return str(out)


def shares(policy: str, out: Path, first_run: int) -> str:
    """The first table."""
    copies = [with_range(policy, size, out / f"range-{size:g}") for size in RANGES]
    line_up = contenders.line_up((), copies)
    cells: dict[str, list[str]] = {}
    for name in dict.fromkeys(column.suite for column in COLUMNS):
        suite = suites.get(name, {"first_run": first_run})
        results = run_suite(suite, line_up, out_dir=out / name, profile="quick", runs=RUNS, resume=True, quiet=True)
        for column in (column for column in COLUMNS if column.suite == name):
            found = results.values(column.metric)
            statistic = STATISTICS[column.statistic]
            cells[column.head] = [f"{statistic(found[contender.label]):.3f}" for contender in line_up]
    lines = [f"| `occupancy_range` | {' | '.join(cells)} |", "|---" * (len(cells) + 1) + "|"]
    for k, size in enumerate(RANGES):
        lines.append(f"| {size:g} | {' | '.join(column[k] for column in cells.values())} |")
    return "\n".join(lines)


def _pulsed(loaded: checkpoint.Checkpoint, pulse: float) -> Preset:
    """The preset of a policy with pulses, and two features after those of the policy."""
    own = loaded.preset
    seen, acted = own.native("observation"), own.native("action")
    features = [*seen.parameters["features"], "filled-queue", {"name": "elasticity", "capacity": "true"}]
    features.append({"name": "elasticity", "window_s": 0})
    return preset(
        own,
        observation={"name": "features", **seen.parameters, "features": features},
        action={"name": acted.name, **acted.parameters, "pulse": pulse},
        interval_ms=own.interval_ms,  # elasticity needs a fixed interval
    )


def detected(policy: str, rival: Flow | None, pulse: float, seeds: range) -> tuple[NDArray[np.float64], float]:
    """Shares of the decisions in which the three features say that another flow competes, and the flow's goodput.

    A link of 50 Mbit/s with 40 ms and a buffer of a BDP; the policy is alone for 20 s, and counts from 40 to 100 s.
    """
    loaded = checkpoint.load(policy)
    flows = [Flow(controller="external"), *([rival] if rival else [])]
    scenario = get("dumbbell", rate_mbps=50, base_rtt_ms=40, duration_s=100).with_flows(flows)
    said, goodputs = [], []
    for seed in seeds:
        env = CongestionEnv(scenario, preset=_pulsed(loaded, pulse))
        observation, _ = env.reset(seed=seed)
        time_s, over = 0.0, False
        while not over:
            action = loaded.policy.act(observation[None, :-3])[0]
            observation, _, terminated, truncated, info = env.step(action)
            time_s, over = time_s + loaded.card.interval_ms / 1e3, terminated or truncated
            if time_s > 40.0:
                said.append(observation[-3:] > [0.5, NIMBUS, NIMBUS])
                goodputs.append(info["step_goodput_mbps"])
    return np.mean(said, axis=0), float(np.mean(goodputs))


def detections(policy: str, first_run: int) -> str:
    """The second table."""
    rivals = {
        "none": None,
        "20 Mbit/s of datagrams": Flow(controller="udp", traffic=Cbr(rate_mbps=20), start_s=20),
        "Cubic": Flow(controller="cubic", start_s=20),
    }
    lines = [
        "| beside | pulses | `filled-queue` | `elasticity`, true capacity | `elasticity`, measured | goodput, Mbit/s |",
        "|---|---|---|---|---|---|",
    ]
    for name, rival in rivals.items():
        for pulse in (0.0, 0.25):
            said, goodput = detected(policy, rival, pulse, range(first_run, first_run + 3))
            cells = " | ".join(f"{100 * share:.0f} %" for share in said)
            lines.append(f"| {name} | {f'{pulse:g}' if pulse else 'none'} | {cells} | {goodput:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--policy", default="zenith")
    parser.add_argument("--first-run", type=int, default=2001)
    parser.add_argument("--page", type=Path, help="write the tables between the marks of this page")
    arguments = parser.parse_args()
    parts = {
        "competing-detections": detections(arguments.policy, arguments.first_run),
        "competing-shares": shares(arguments.policy, arguments.out, arguments.first_run),
    }
    for text in parts.values():
        print(text, end="\n\n")
    if arguments.page:
        replace(arguments.page, parts)


if __name__ == "__main__":
    main()
