"""Fixed-point arithmetic compared with floating point: the table of docs/deploying.md.

    python -m benches.fixed_point [--policies NAME ...] [--suites NAME ...] [--docs docs]

A packet that is sent earlier or later changes all that follow, so that single runs in both arithmetics differ by
chance. Every case of a suite therefore runs with several copies of the policy, whose last layer has another bias (STEP
apart), in floating and in fixed point. Goodput is the sum over all flows and cases, the RTT the mean of their smoothed
RTTs; the change is that of the mean over the copies, with its standard error. Actions are compared on the same
statistics: those of the runs in floating point, of up to EPISODES flows per suite. Lines of the page that are not
measured again stay.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benches.pages import between, replace
from orbitcc.agents import checkpoint, fixed_point
from orbitcc.agents.decisions import Episode, collect
from orbitcc.agents.safety_filter import filtered
from orbitcc.envs import backends
from orbitcc.envs.description.flows import ControllerSpec
from orbitcc.eval.contenders import Contender, from_policy
from orbitcc.eval.suites import SUITES
from orbitcc.eval.suites.base import Case, Suite

SUITES_OF = {
    "perigee": (
        "responsiveness",
        "responsiveness-loss",
        "intra-rtt",
        "inter-rtt",
        "parking-lot",
        "efficiency",
        "leo-access",
    ),
    "zenith": ("responsiveness", "intra-rtt", "inter-rtt", "parking-lot", "leo-access", "geo-download"),
    "apogee": ("geo-download", "geo-sharing"),
}
STEP = 1e-5
COPIES = {"quick": 5, "reduced": 19}
NOISY = ("leo-access", "geo-sharing")
"""Suites that need the profile `reduced`; the others have `quick`."""
EPISODES = 40


@dataclass(frozen=True)
class Line:
    """A suite with a policy. Changes are from floating to fixed point, with their standard errors; differences of
    actions are in shares of the range of an action, 2."""

    suite: str
    policy: str
    runs: int
    goodput: tuple[float, float]
    rtt: tuple[float, float]
    decisions: int
    p99: float
    largest: float


def shifted(policy: str, bias: float, folder: Path) -> Path:
    """A copy of a policy with another bias of its last layer."""
    loaded = checkpoint.load(policy)
    tensors = dict(checkpoint.read_tensors(loaded.path))
    last = f"layers.{len(loaded.card.layers) - 1}.bias"
    tensors[last] = tensors[last] + np.float32(bias)
    return checkpoint.save(folder / f"{policy}{bias:+g}", loaded.card, tensors)


def measured(suite: Suite, cases: list[Case], contender: Contender) -> tuple[float, float]:
    """Goodput and mean smoothed RTT of all flows of these cases."""
    scenarios = [suite.enter(case, contender) for case in cases]
    flows = [flow for s in scenarios for flow in backends.runner("simulator")(s, record_interval_s=1.0).flow_totals]
    return float(np.sum([flow["goodput_mbps"] for flow in flows])), float(np.mean([flow["srtt_ms"] for flow in flows]))


def change(plain: NDArray[np.float64], fixed: NDArray[np.float64]) -> tuple[float, float]:
    """Relative change of the mean, and its standard error."""
    errors = [values.std(ddof=1) / np.sqrt(len(values)) for values in (plain, fixed)]
    return float(fixed.mean() / plain.mean() - 1), float(np.hypot(*errors) / plain.mean())


def differences(policy: str, episodes: list[Episode]) -> NDArray[np.float64]:
    """Differences of the actions in fixed point from those of the episodes, as shares of the range of an action."""
    native = checkpoint.load(policy).policy
    apart = [np.zeros(0)]
    for episode in episodes:
        decisions = fixed_point.decide(native, fixed_point.records(episode.statistics[:-1]))
        apart.append(np.abs(decisions["action"] / fixed_point.ONE - episode.actions[:, 0]) / 2)
    return np.concatenate(apart)


def compared(name: str, policy: str, folder: Path) -> Line:
    """Run a suite with a policy in both arithmetics."""
    suite = SUITES[name]()
    profile = "reduced" if name in NOISY else "quick"
    cases = suite.cases(profile, suite.runs(profile))
    copies = [shifted(policy, STEP * (k - COPIES[profile] // 2), folder / name) for k in range(COPIES[profile])]
    runs = [
        np.array([measured(suite, cases, from_policy(f"{copy}:arithmetic={arithmetic}")) for copy in copies])
        for arithmetic in ("float", "fixed")
    ]
    bare = from_policy(str(filtered(policy, folder / name / policy, None)))
    played = (suite.enter(case, bare) for case in cases)
    episodes = (episode for s in played for episode in collect(s, preset=checkpoint.load(policy).preset))
    driven = str(ControllerSpec(name=bare.controller, params=dict(bare.params)))
    own = (episode for episode in episodes if episode.controller == driven)
    apart = differences(policy, list(islice(own, EPISODES)))
    goodput, rtt = (change(runs[0][:, k], runs[1][:, k]) for k in range(2))
    p99 = float(np.quantile(apart, 0.99))
    return Line(name, policy, len(cases) * len(copies), goodput, rtt, len(apart), p99, float(apart.max()))


def percent(change: tuple[float, float]) -> str:
    """A change and its standard error."""
    return f"{100 * change[0]:+.2f} ± {100 * change[1]:.2f}"


def rows(lines: list[Line]) -> dict[tuple[str, str], str]:
    """A row in Markdown for each line, by suite and policy."""
    return {
        (x.suite, x.policy): f"| {x.suite} | {x.policy} | {x.runs} | {percent(x.goodput)} | {percent(x.rtt)} "
        f"| {x.decisions:,} | {x.p99:.1e} | {x.largest:.1e} |"
        for x in lines
    }


def table(known: Mapping[tuple[str, str], str]) -> str:
    """These rows as a table, in the order of SUITES_OF."""
    head = "| suite | policy | runs | goodput, % | RTT, % | decisions | action, 99th percentile | action, largest |"
    order = ((suite, policy) for policy, suites in SUITES_OF.items() for suite in suites)
    return "\n".join([head, "|---|---|---|---|---|---|---|---|", *(known[key] for key in order if key in known)])


def written(page: Path) -> dict[tuple[str, str], str]:
    """The rows of a page."""
    found = (row for row in between(page, "fixed-point").splitlines()[2:] if row.startswith("|"))
    return {(cells[1].strip(), cells[2].strip()): row for row in found if (cells := row.split("|"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="*", help="default: those of SUITES_OF")
    parser.add_argument("--suites", nargs="*", help="default: those of SUITES_OF")
    parser.add_argument("--docs", type=Path)
    given = parser.parse_args()
    page = given.docs / "deploying.md" if given.docs is not None else None
    with tempfile.TemporaryDirectory() as folder:
        for policy, suites in SUITES_OF.items():
            for suite in suites:
                chosen = given.policies is None or policy in given.policies
                if not chosen or not (given.suites is None or suite in given.suites):
                    continue
                measured_now = rows([compared(suite, policy, Path(folder))])
                print(*measured_now.values(), flush=True)
                if page is not None:
                    replace(page, {"fixed-point": table(written(page) | measured_now)})


if __name__ == "__main__":
    main()
