"""How policies of the recipe `astraea` share links, and how they compare with the released policy.

    python -m benches.astraea CHECKPOINT [CHECKPOINT ...] [--seed 5000] [--picture docs/images/astraea.png]

Give one checkpoint per training seed. Worlds are drawn with `--seed`; those of docs/policies.md were drawn once, and
nothing was chosen by them. Figures are from the last seconds of each run: the mean (or median, or worst value) over
worlds for each policy, then the interquartile mean over policies with its 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.agents import checkpoint
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.files import atomic_write_bytes
from orbitcc.envs.scenarios import get
from orbitcc.eval.assessment.worlds.base import WorldFamily
from orbitcc.eval.assessment.worlds.paths import Reordering, VaryingDelay, Wireless
from orbitcc.eval.figures import style
from orbitcc.eval.figures.base import render
from orbitcc.eval.statistics import aggregate
from orbitcc.eval.suites.base import Point

Array = NDArray[np.float64]

PAYLOAD, WIRE_BYTES = 1448 / 1514, 1514
LAST_S = 15
WORLDS = 12
"""Number of worlds of each kind."""
ASSESSED: dict[str, tuple[WorldFamily, Point]] = {
    "one flow, jitter of 50 ms": (Reordering(), {"reordering": "jitter 50 ms"}),
    "one flow, frames of 50 ms": (Wireless(), {"medium": "frames"}),
    "one flow, GEO path": (VaryingDelay(), {"path": "geo"}),
}
"""Worlds of the assessment by RFC 9743 in which the RTT varies without a queue."""
ASSESSED_WORLDS, ASSESSED_FROM_S = 3, 10
TOLERANCE, SPAN_S = 0.2, 5
"""Converged: all flows are within this share of the fair rate for this many seconds."""

BALANCE_MBPS = (20, 50, 100, 150)
BALANCE_MS = (10, 20, 50, 100, 140, 200)
RELEASED_BALANCE = {
    20: (1.45, 1.39, 1.27, 1.24, 1.17, 1.12),
    50: (1.35, 1.31, 1.21, 1.11, 1.07, 1.05),
    100: (1.26, 1.22, 1.12, 1.08, 1.09, 1.08),
    150: (1.32, 1.27, 1.12, 1.11, 1.12, 1.12),
}
"""RTT inflation at which the action of the released policy changes sign, by capacity and base RTT, computed from its
network (Liao et al., EuroSys 2024, inference code of July 2024)."""
STEP_MS = (25, 30, 40, 60, 100)
RELEASED_STEP = (90, 43, 35, 23, 14)
"""Throughput in Mbit/s of the released policy on a fluid link of 100 Mbit/s after the base RTT has risen from 20 ms."""


@dataclass(frozen=True)
class World:
    """Flows with these base RTTs that start one after the other on one link."""

    rate_mbps: float
    rtts_ms: tuple[float, ...]
    starts_s: tuple[float, ...]
    duration_s: float
    buffer_bdp: float = 1.0


def worlds(seed: int) -> dict[str, list[World]]:
    """The worlds of each row of the table: drawn uniformly from Astraea's ranges, and one with ten long-lived flows."""
    rng = np.random.default_rng(seed)

    def drawn(flows: int) -> World:
        rate, rtt = rng.uniform(40, 160), rng.uniform(10, 140)
        starts = tuple(10.0 * k for k in range(flows))
        return World(rate, (rtt,) * flows, starts, starts[-1] + 40)

    found = {name: [drawn(n) for _ in range(WORLDS)] for name, n in (("one", 1), ("two", 2), ("three", 3), ("five", 5))}
    found["inter"] = [World(rng.uniform(40, 160), (20.0, rtt), (0.0, 15.0), 60) for rtt in np.linspace(40, 200, WORLDS)]
    crowd = tuple(2.0 * k for k in range(10))
    found["ten"] = [World(100, (50.0,) * 10, crowd, crowd[-1] + 300, buffer_bdp=4.0)]
    return found


def played(policy: _sim.Policy, world: World, seed: int) -> tuple[Array, Array]:
    """Goodput in Mbit/s and smoothed RTT in ms of every flow per second, both [T, F]."""
    base = min(world.rtts_ms)
    scenario = get("dumbbell", duration_s=world.duration_s)
    limit = int(world.buffer_bdp * world.rate_mbps * base * 125)
    for field, value in {
        "links.0.rate_mbps": world.rate_mbps,
        "links.0.delay_ms": base / 2,
        "links.0.queue": {"kind": "drop_tail_bytes", "limit_bytes": limit},
    }.items():
        scenario = scenario.override(field, value)
    flows = zip(world.starts_s, world.rtts_ms, strict=True)
    scenario = scenario.with_flows(
        [Flow(controller="external", start_s=start, uplink_delay_ms=rtt - base) for start, rtt in flows]
    )
    return _recorded(policy, scenario.with_seed(seed).compile())


def _recorded(policy: _sim.Policy, network: str) -> tuple[Array, Array]:
    data = json.loads(network)
    for flow in data["flows"]:
        flow["controller"] = {"name": "policy", "params": {"policy": "p"}}
    simulation = _sim.Simulation(json.dumps(data), record_interval_ns=10**9, policies={"p": policy})
    simulation.run()
    series = simulation.recording()["flows"]
    return series["goodput_mbps"], series["srtt_ms"]


def convergence_s(goodput: Array, world: World) -> float:
    """Time from the start of the last flow to the first of `SPAN_S` fair seconds, or to the end if there are none."""
    joined = int(world.starts_s[-1])
    fair = world.rate_mbps * PAYLOAD / len(world.rtts_ms)
    near = (np.abs(goodput - fair) < TOLERANCE * fair).all(axis=1)
    for t in range(joined, len(near) - SPAN_S + 1):
        if near[t : t + SPAN_S].all():
            return float(t - joined)
    return float(len(near) - joined)


def figures(policy: _sim.Policy, seed: int) -> dict[str, float]:
    """The rows of the table for one policy."""
    table = worlds(seed)
    jobs = [(name, world) for name, rows in table.items() for world in rows]
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda job: played(policy, job[1], seed), jobs))
    seen: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        seen.setdefault(name, []).append(value)

    for (name, world), (goodput, srtt) in zip(jobs, runs, strict=True):
        last = goodput[-LAST_S:].mean(axis=0)
        note(f"{name}: utilisation", last.sum() / (world.rate_mbps * PAYLOAD))
        if name == "one":
            note("one: queue", _queue_ms(srtt[-LAST_S:], world))
            continue
        if name == "ten":
            joined = int(world.starts_s[-1])
            note("ten: first queue", _queue_ms(srtt[joined + 30 : joined + 60], world))
            note("ten: last queue", _queue_ms(srtt[-30:], world))
            continue
        note(f"{name}: ratio", last.min() / last.max())
        note(f"{name}: Jain", last.sum() ** 2 / (last.size * (last**2).sum()))
        note(f"{name}: convergence", convergence_s(goodput, world))
    for name, (family, point) in ASSESSED.items():
        for scenario in (family.world(point, seed + k) for k in range(ASSESSED_WORLDS)):
            goodput = _recorded(policy, scenario.compile())[0][ASSESSED_FROM_S:]
            capacity = [scenario.capacity_mbps(t + 0.5) for t in range(ASSESSED_FROM_S, ASSESSED_FROM_S + len(goodput))]
            note(name, float(goodput.mean()) / (float(np.mean(capacity)) * PAYLOAD))
    reduce: dict[str, tuple[str, Callable[[list[float]], float]]] = {
        "one flow: least utilisation": ("one: utilisation", min),
        "one flow: longest queue, ms": ("one: queue", max),
        "two: median ratio": ("two: ratio", _median),
        "two: worst ratio": ("two: ratio", min),
        "two: mean Jain index": ("two: Jain", _mean),
        "two: median convergence, s": ("two: convergence", _median),
        "three: median ratio": ("three: ratio", _median),
        "three: median convergence, s": ("three: convergence", _median),
        "five: median ratio": ("five: ratio", _median),
        "20 ms beside 40-200 ms: median ratio": ("inter: ratio", _median),
        "20 ms beside 40-200 ms: worst ratio": ("inter: ratio", min),
        "ten, 100 Mbit/s, 50 ms: queue after a minute, ms": ("ten: first queue", _mean),
        "ten, 100 Mbit/s, 50 ms: queue after five minutes, ms": ("ten: last queue", _mean),
        **{f"{name}: utilisation": (name, _mean) for name in ASSESSED},
    }
    return {label: reduced(seen[name]) for label, (name, reduced) in reduce.items()}


def _queue_ms(srtt: Array, world: World) -> float:
    return float(np.nanmean(srtt)) - world.rtts_ms[0]


def _median(values: list[float]) -> float:
    return float(np.median(values))


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def balance(trained: checkpoint.Checkpoint, rate_mbps: float, rtt_ms: float) -> float:
    """RTT inflation at which the action in steady state changes sign; 2 if it does not change below 2."""
    inflation = np.linspace(1.0, 2.0, 401)
    steady = {
        "own-queue": np.log1p(rate_mbps * (inflation - 1) * rtt_ms * 125 / WIRE_BYTES) / 4,
        "pacing-rate": np.full_like(inflation, math.log(rate_mbps / 10) / 2),
    }
    parameters = trained.card.observation.parameters
    names = [feature if isinstance(feature, str) else feature["name"] for feature in parameters["features"]]
    row = np.stack([steady.get(name, np.zeros_like(inflation)) for name in names], axis=1)  # no losses, no changes
    seen = np.tile(row, (1, parameters["history"])).astype(np.float32)
    action = trained.policy.act(np.ascontiguousarray(seen))[:, 0]
    below = np.flatnonzero(action < 0)
    return float(inflation[below[0]]) if below.size else 2.0


def after_step(policy: _sim.Policy, rtt_ms: float) -> tuple[float, float]:
    """Goodput in Mbit/s on a link of 100 Mbit/s after the base RTT has risen from 20 ms without an interruption.

    The means are over 10 to 30 s after the rise, and over 40 to 60 s.
    """
    scenario = get("dumbbell", duration_s=90).with_flows([Flow(controller="external")])
    scenario = scenario.override("links.0.rate_mbps", 100.0)
    scenario = scenario.override("links.0.delay_ms", [[0.0, 10.0], [30.0, rtt_ms / 2]])
    scenario = scenario.override("links.0.queue", {"kind": "drop_tail_bytes", "limit_bytes": 1_250_000})
    goodput, _ = _recorded(policy, scenario.with_seed(1).compile())
    return float(goodput[40:60].mean()), float(goodput[70:].mean())


def draw(policies: Sequence[checkpoint.Checkpoint]) -> Figure:
    """Balance points and steps of the RTT: dots for the released policy, lines for the training seeds."""
    theme = style.LIGHT
    colours = [style.CONTROLLER_COLOURS[name] for name in ("cubic", "reno", "bbr3", "astraea")]
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        for rate, colour in zip(BALANCE_MBPS, colours, strict=True):
            points = np.array([[balance(trained, rate, rtt) for rtt in BALANCE_MS] for trained in policies])
            left.fill_between(BALANCE_MS, points.min(axis=0), points.max(axis=0), color=colour, alpha=0.15, linewidth=0)
            left.plot(BALANCE_MS, np.median(points, axis=0), color=colour, label=f"{rate} Mbit/s")
            left.plot(BALANCE_MS, RELEASED_BALANCE[rate], color=colour, linestyle="", marker="o", markersize=4)
        left.set_xscale("log")
        left.set_xticks(BALANCE_MS, [str(rtt) for rtt in BALANCE_MS])
        left.set(xlabel="base RTT [ms]", ylabel="RTT / base RTT at which the action changes sign", ylim=(0.98, 1.6))
        left.set_title("steady-state queue: trained here (lines), released (dots)")
        left.legend()
        steps = np.array([[after_step(trained.policy, rtt) for rtt in STEP_MS] for trained in policies])
        x = np.arange(len(STEP_MS))
        for span, (label, colour) in enumerate((("10-30 s after", colours[-1]), ("40-60 s after", colours[1]))):
            for row in steps[:, :, span]:
                right.plot(x, row, color=colour, alpha=0.3)
            right.plot(x, np.median(steps[:, :, span], axis=0), color=colour, label=f"trained here, {label}")
        right.plot(x, RELEASED_STEP, color=theme.muted, linestyle="", marker="o", label="released, on a fluid link")
        right.set_xticks(x, [str(rtt) for rtt in STEP_MS])
        right.set(xlabel="base RTT after the step from 20 ms [ms]", ylabel="goodput [Mbit/s]", ylim=(0, 105))
        right.set_title("link of 100 Mbit/s after an RTT step")
        right.legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    policies = [checkpoint.load(path) for path in arguments.checkpoints]
    if arguments.picture is not None and any(trained.card.observation.preset != "features" for trained in policies):
        parser.error("--picture: only of policies that observe a list of features, as the recipe's do")
    rows = [figures(trained.policy, arguments.seed) for trained in policies]
    print(f"| metric | {' | '.join(f'seed {k + 1}' for k in range(len(rows)))} | interquartile mean |")
    print("|---|" + "---|" * (len(rows) + 1))
    for label in rows[0]:
        values = [row[label] for row in rows]
        mean = aggregate(values)
        interval = f" ({mean.low:.3f}-{mean.high:.3f})" if len(rows) > 1 else ""
        print(f"| {label} | {' | '.join(f'{value:.3f}' for value in values)} | {mean.value:.3f}{interval} |")
    if arguments.picture is not None:
        atomic_write_bytes(arguments.picture, render(draw(policies), arguments.picture.suffix.removeprefix(".")))


if __name__ == "__main__":
    main()
