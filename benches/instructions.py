"""Instructions per packet, counted: `python -m benches.instructions [--before counts.json] [--save counts.json]`.

Unlike a time, a count does not depend on other load of the machine. It needs cargo and valgrind: callgrind counts the
instructions of `run` in `sim/core/examples/network.rs`, and of `step` in `environments.rs` beside it. Each row takes
about ten seconds.

`--sim FOLDER` counts another version: the folder `sim` of a checkout into which both programs have been copied. The
networks are those of this version without the parameters of controllers, so that each version takes its own defaults,
under names that may have changed.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from orbitcc.envs import scenarios
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.scenario import Scenario

SIM = Path(__file__).resolve().parents[1] / "sim"
MOST_GROWTH = 0.03
"""A row fails if its count grows by more than this share."""


def rows() -> list[tuple[str, Scenario, bool]]:
    """The rows: name, scenario of `orbitcc bench`, and whether to count per hop."""
    dumbbell, ten = scenarios.get("dumbbell"), [Flow.parse("cubic") for _ in range(10)]
    quiet = dumbbell.override("sim.noise", "false")
    lot = scenarios.get("parking-lot", bottlenecks=6, interruption_every_s=0)
    return [
        ("1 Cubic flow", dumbbell.with_controller("cubic"), False),
        ("1 Cubic flow, hosts without jitter", quiet.with_controller("cubic"), False),
        ("1 BBR flow", dumbbell.with_controller("bbr"), False),
        ("1 BBRv3 flow", dumbbell.with_controller("bbr3"), False),
        ("1 Vivace flow", dumbbell.with_controller("vivace"), False),
        ("1 flow driven by an environment", dumbbell.with_controller("external"), False),
        ("1 flow driven by an environment, hosts without jitter", quiet.with_controller("external"), False),
        ("10 Cubic flows", dumbbell.with_flows(ten), False),
        ("7 Cubic flows, parking lot of 6 hops, per hop", lot.with_controller("cubic"), True),
        ("1 Cubic flow, GEO", scenarios.get("geo-ideal").with_controller("cubic"), False),
        ("1 Cubic flow, LEO access", scenarios.get("leo-access").with_controller("cubic"), False),
    ]


def without_parameters(network: str) -> str:
    """The same network for any version of the simulator."""
    spec = json.loads(network)
    for flow in spec["flows"]:
        flow["controller"].pop("params")
    return json.dumps(spec)


def steps() -> list[tuple[str, Scenario]]:
    """The rows of environments: name and scenario."""
    busy, idle = scenarios.get("dumbbell", base_rtt_ms=30), scenarios.get("dumbbell", rate_mbps=1, base_rtt_ms=300)
    four = [Flow.parse("external") for _ in range(4)]
    return [
        ("1 step of an agent, 61 packets, 4 agents per world", busy.with_flows(four)),
        ("1 step of an agent, 0.7 packets", idle.with_controller("external")),
    ]


def built(sim: Path) -> dict[str, Path]:
    """Build the programs; exit with a message if a tool is missing."""
    for tool in ("cargo", "valgrind"):
        if shutil.which(tool) is None:
            sys.exit(f"error: {tool} is not installed")
    command = ["cargo", "build", "--release", "--package", "orbitcc-core", "--examples"]
    done = subprocess.run([*command, "--message-format=json"], cwd=sim, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return {m["target"]["name"]: Path(m["executable"]) for m in messages if m.get("executable")}


def counted(program: Path, function: str, network: str) -> tuple[int, list[int]]:
    """Instructions of a function of the program, and the numbers that the program prints first."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "network.json"
        text.write_text(network)
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={function}",
             str(program), str(text)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    counts = re.search(r"Collected : (\d+)", done.stderr)
    assert counts is not None, done.stderr
    return int(counts[1]), [int(n) for n in done.stdout.split()[:2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="file of --save with counts to compare with")
    parser.add_argument("--save", type=Path, help="write the counts to this file")
    parser.add_argument("--sim", type=Path, default=SIM, help="folder of the simulator to count")
    options = parser.parse_args()
    before = json.loads(options.before.read_text(encoding="utf-8")) if options.before else {}
    programs, counts, failed = built(options.sim), {}, False
    every = [(what, scenario, "network", "run", per_hop) for what, scenario, per_hop in rows()]
    every += [(what, scenario, "environments", "step", False) for what, scenario in steps()]
    for what, scenario, program, function, second in every:
        network = without_parameters(scenario.compile())
        total, units = counted(programs[program], f"{program}::{function}", network)
        counts[what] = total / units[second]
        change = counts[what] / before[what] - 1 if what in before else 0.0
        failed |= change > MOST_GROWTH
        print(f"{what}: {counts[what]:,.0f}" + (f" ({100 * change:+.1f} %)" if what in before else ""), flush=True)
    if options.save:
        options.save.write_text(json.dumps(counts, indent=2) + "\n")
    sys.exit(f"error: a count grew by more than {100 * MOST_GROWTH:.0f} %" if failed else 0)


if __name__ == "__main__":
    main()
