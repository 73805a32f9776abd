"""Held-out metrics: figures of a recorded run, the score that chooses a policy, and named failures.

A world is recorded in windows of one second. Flows that learn are judged; others only take their part of the links. A
flow counts in windows in which it is there throughout. Its *fair share* is its part of the max-min fair allocation
(Bertsekas and Gallager, Data Networks, 6.5.2) of the links' capacity in that window, in payload, after unresponsive
traffic has had what it got.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.description.model import Model, number
from orbitcc.envs.description.scenario import Scenario

Array = NDArray[np.float64]
Figures = dict[str, float]
"""Name of a figure -> value; NaN where it has no meaning (fairness of a single flow)."""

EQUAL_RTT = 1.1
"""Flows have equal base RTTs in a window in which the largest is at most so many times the smallest."""
LEAST_SHARE = 0.01
"""A smaller part of the fair share counts as this one in `log_share`."""
STARVED = 0.1
"""A flow starves in a window in which it gets less than this part of its fair share."""
FLOOD_BDP = 1.5
"""A window is flooded when a link's mean queue is longer than so many bandwidth-delay products ..."""
FLOOD_LOSS = 0.1
"""... or when more than this part of what learning flows sent was lost. Windows with and after outages do not count."""
TOLERANCE = 0.25
"""A flow is at its fair share within this part of it ..."""
SPAN_S = 3
"""... and a network has converged when all flows have been there for so many windows in a row."""
FAILURE_SHARE = 0.5
"""A policy that floods more than this share of windows, or starves in more, has failed (Cubic on GEO links: 0.3)."""
SAME_ACTION = 0.01
"""A policy whose actions spread less (standard deviation) always does the same."""


@dataclass(frozen=True)
class MetricMeaning:
    """What a figure means; `worst` stands for it in a score where it has no value."""

    meaning: str
    better: Literal["higher", "lower"]
    worst: float


FIGURES = {
    "reward": MetricMeaning("mean reward per decision", "higher", -10.0),
    "log_share": MetricMeaning(
        f"ln(goodput over fair share), at least ln {LEAST_SHARE:g} and at most 0, mean over the seconds of all flows",
        "higher",
        math.log(LEAST_SHARE),
    ),
    "utilisation": MetricMeaning("delivered over possible bits of the busiest link", "higher", 0.0),
    "queue_delay_ms": MetricMeaning("smoothed RTT above the unloaded RTT, mean over flows", "lower", 10_000.0),
    "queue_delay_ratio": MetricMeaning("queueing delay over the unloaded RTT, mean over flows", "lower", 10.0),
    "loss": MetricMeaning("lost of sent packets", "lower", 1.0),
    "jain": MetricMeaning(
        "Jain's index of goodput over fair share, mean over seconds with two flows or more", "higher", 0.0
    ),
    "jain_equal_rtt": MetricMeaning("Jain's index, seconds with equal base RTTs only", "higher", 0.0),
    "jain_unequal_rtt": MetricMeaning("Jain's index, seconds with unequal base RTTs only", "higher", 0.0),
    "ratio_equal_rtt": MetricMeaning("smallest over largest goodput per fair share, equal base RTTs", "higher", 0.0),
    "ratio_unequal_rtt": MetricMeaning(
        "smallest over largest goodput per fair share, unequal base RTTs", "higher", 0.0
    ),
    "least_equal_rtt": MetricMeaning(
        "smallest goodput over fair share of the flows, at most 1, seconds with two flows or more and equal base RTTs",
        "higher",
        0.0,
    ),
    "least_unequal_rtt": MetricMeaning(
        "smallest goodput over fair share of the flows, at most 1, seconds with unequal base RTTs", "higher", 0.0
    ),
    "convergence_s": MetricMeaning("time from a flow's entry to convergence, or to the next change", "lower", 60.0),
    "unconverged": MetricMeaning("share of entries without convergence before the next change", "lower", 1.0),
    "goodput_cv": MetricMeaning(
        "standard deviation over mean of goodput per fair share after convergence", "lower", 1.0
    ),
    "starved": MetricMeaning(
        f"share of the seconds of all flows with less than {STARVED:.0%} of the fair share", "lower", 1.0
    ),
    "flooded": MetricMeaning(
        f"share of seconds with a queue over {FLOOD_BDP:g} BDP or a loss over {FLOOD_LOSS:.0%}", "lower", 1.0
    ),
}
"""Tags `heldout/...`. All but `reward` come from the recording of native runs."""

_weight = number(0, 1e6)


class Weights(Model):
    """`[evaluation.score]`: the score is the sum of weight x figure, minus where lower is better.

    The logarithm of the share leads, so that a flow that hardly sends loses more than one that fills its queue, and
    both lose against one that does neither. A queue of one base RTT costs half a unit, a lost packet twice itself;
    fairness counts half as much, most of it where RTTs are equal. Our choice.
    """

    reward: Annotated[float, _weight] = 0.0
    log_share: Annotated[float, _weight] = 1.0
    utilisation: Annotated[float, _weight] = 0.0
    queue_delay_ms: Annotated[float, _weight] = 0.0
    queue_delay_ratio: Annotated[float, _weight] = 0.5
    loss: Annotated[float, _weight] = 2.0
    jain: Annotated[float, _weight] = 0.0
    jain_equal_rtt: Annotated[float, _weight] = 0.0
    jain_unequal_rtt: Annotated[float, _weight] = 0.0
    ratio_equal_rtt: Annotated[float, _weight] = 0.3
    ratio_unequal_rtt: Annotated[float, _weight] = 0.2
    least_equal_rtt: Annotated[float, _weight] = 0.0
    least_unequal_rtt: Annotated[float, _weight] = 0.0
    convergence_s: Annotated[float, _weight] = 0.0
    unconverged: Annotated[float, _weight] = 0.2
    goodput_cv: Annotated[float, _weight] = 0.0
    starved: Annotated[float, _weight] = 0.0
    flooded: Annotated[float, _weight] = 0.5

    def score(self, figures: Mapping[str, float]) -> float:
        """Higher is better. A figure without a value counts as its worst (`FIGURES`)."""
        return sum(weight * _value(figures, name) for name, weight in self._signed())

    def __str__(self) -> str:
        """As a formula: `1 utilisation - 0.2 queue_delay_ratio ...`."""
        terms = [f"{'-' if weight < 0 else '+'} {abs(weight):g} {name}" for name, weight in self._signed()]
        return " ".join(terms).removeprefix("+ ") or "0"

    def _signed(self) -> list[tuple[str, float]]:
        weights = {name: float(getattr(self, name)) for name in FIGURES}
        return [(name, w if FIGURES[name].better == "higher" else -w) for name, w in weights.items() if w]


def _value(figures: Mapping[str, float], name: str) -> float:
    value = figures.get(name, math.nan)
    return value if math.isfinite(value) else FIGURES[name].worst


def failures(figures: Mapping[str, float]) -> list[str]:
    """What is wrong with a policy, by name: `floods`, `starves`, `always does nearly the same`."""
    found = []
    if figures.get("flooded", 0.0) > FAILURE_SHARE:
        found.append("floods")
    if figures.get("starved", 0.0) > FAILURE_SHARE:
        found.append("starves")
    if figures.get("action_spread", math.inf) < SAME_ACTION:
        found.append("always does nearly the same")
    return found


def measure(
    scenario: Scenario,
    learning: Sequence[int],
    series: Mapping[str, Any],
    flow_totals: Sequence[Mapping[str, Any]],
    link_totals: Sequence[Mapping[str, Any]],
) -> Figures:
    """The figures of one finished run.

    learning: positions of the flows that are judged. series: `recording()` of the simulation, in windows of one second.
    """
    flows: Mapping[str, Array] = series["flows"]
    own = [flow_totals[index] for index in learning if flow_totals[index]["sent_packets"]]
    delays = np.array([flow["srtt_ms"] - flow["base_rtt_ms"] for flow in own])
    base = np.array([flow["base_rtt_ms"] for flow in own])
    active = flows["active"] >= 1.0
    there = active.copy()  # whole windows only: neither the first nor the last of a flow
    there[1:] &= active[:-1]
    there[:-1] &= active[1:]
    there[0] &= np.array([flow.start_s == 0.0 for flow in scenario.flows])
    share = fair_shares(scenario, series, there)[:, learning]
    got, there = flows["goodput_mbps"][:, learning], there[:, learning]
    counts = there & (share > 0) & np.isfinite(share)
    parts = np.divide(got, share, out=np.full_like(got, np.nan), where=counts)
    return {
        "log_share": _mean(np.log(np.clip(parts[counts], LEAST_SHARE, 1.0))),
        "utilisation": max(link["utilisation"] for link in link_totals),
        "queue_delay_ms": _mean(delays),
        "queue_delay_ratio": _mean(delays[base > 0] / base[base > 0]),
        "loss": sum(f["lost_packets"] for f in own) / max(1, sum(f["sent_packets"] for f in own)),
        **fairness(parts, counts, flows["base_rtt_ms"][:, learning]),
        **convergence(parts, there),
        "starved": _mean(parts[counts] < STARVED),
        "flooded": _mean(flooded_windows(scenario, learning, series)),
    }


def fair_shares(scenario: Scenario, series: Mapping[str, Any], there: NDArray[np.bool_]) -> Array:
    """Max-min fair goodput of every flow in every window, Mbit/s: there bool[T, F] -> [T, F].

    0 for flows that are not there, that send unresponsive traffic, or whose links were out for half of the window or
    more; infinity where no link has a rate.
    """
    links, crosses = series["links"], _crosses(scenario, series["t_s"])
    datagrams = np.array([flow.controller.name == "udp" for flow in scenario.flows])
    taken = np.einsum("tf,tfl->tl", series["flows"]["goodput_mbps"] * datagrams, crosses)
    payload = scenario.sim.mss_bytes / scenario.sim.packet_bytes
    up = links["outage"] < 0.5
    room = np.where(up, np.maximum(links["capacity_mbps"] * (1 - links["outage"]) * payload - taken, 0.0), 0.0)
    return max_min_shares(room, crosses, there & ~datagrams)


def max_min_shares(room: Array, crosses: NDArray[np.bool_], there: NDArray[np.bool_]) -> Array:
    """Water-filling: room [T, L] Mbit/s, crosses bool[T, F, L] (flow crosses link), there bool[T, F] -> [T, F]."""
    left, waiting = room.astype(np.float64), there.copy()
    shares = np.zeros(there.shape)
    rows = np.arange(len(room))
    for _ in range(room.shape[1]):
        users = np.einsum("tf,tfl->tl", waiting.astype(np.float64), crosses)
        offer = np.divide(left, users, out=np.full_like(left, np.inf), where=users > 0)
        tight = offer.argmin(axis=1)
        level = np.maximum(offer[rows, tight], 0.0)
        served = waiting & crosses[rows, :, tight] & np.isfinite(level)[:, None]
        shares = np.where(served, level[:, None], shares)
        left -= np.where(np.isfinite(left), np.einsum("tf,tfl->tl", shares * served, crosses), 0.0)
        waiting &= ~served
    return np.where(waiting, np.inf, shares)


def fairness(parts: Array, there: NDArray[np.bool_], base_rtt_ms: Array) -> Figures:
    """Over windows with two flows or more, all [T, F]: Jain's index and smallest over largest, where any flow gets
    something; and the smallest, at most 1."""
    x = np.where(there, parts, 0.0)
    count, squares = there.sum(axis=1), (x**2).sum(axis=1)
    several = count >= 2
    shared = several & (squares > 0)
    least = np.minimum(np.where(there, x, np.inf).min(axis=1), 1.0)
    jain, ratio = np.full(len(x), np.nan), np.full(len(x), np.nan)
    jain[shared] = x.sum(axis=1)[shared] ** 2 / (count * squares)[shared]
    ratio[shared] = np.where(there, x, np.inf).min(axis=1)[shared] / x.max(axis=1)[shared]
    longest = np.where(there, base_rtt_ms, -np.inf).max(axis=1)
    equal = longest <= EQUAL_RTT * np.where(there, base_rtt_ms, np.inf).min(axis=1)
    return {
        "jain": _mean(jain[shared]),
        "jain_equal_rtt": _mean(jain[shared & equal]),
        "jain_unequal_rtt": _mean(jain[shared & ~equal]),
        "ratio_equal_rtt": _mean(ratio[shared & equal]),
        "ratio_unequal_rtt": _mean(ratio[shared & ~equal]),
        "least_equal_rtt": _mean(least[several & equal]),
        "least_unequal_rtt": _mean(least[several & ~equal]),
    }


def convergence(parts: Array, there: NDArray[np.bool_]) -> Figures:
    """From each entry to the next entry or leave: when do all flows come to their shares, how steady are they then?

    parts [T, F]: goodput over fair share, NaN where there is no share to come to; there bool[T, F]. Entries with less
    than `SPAN_S` windows before the next change say nothing. Without convergence the time is censored: all of the time
    until the next change counts.
    """
    near = (np.abs(parts - 1.0) <= TOLERANCE) | ~there | np.isnan(parts)
    changed = np.ones(len(there) + 1, np.bool_)  # the end changes everything, too
    changed[1:-1] = (there[1:] != there[:-1]).any(axis=1)
    entered = there.copy()
    entered[1:] &= ~there[:-1]
    bounds = np.flatnonzero(changed)
    times: list[float] = []
    censored: list[bool] = []
    spreads: list[float] = []
    for begin, end in itertools.pairwise(bounds):
        if not entered[begin].any() or end - begin < SPAN_S:
            continue
        all_near = near[begin:end].all(axis=1)
        held = np.convolve(all_near, np.ones(SPAN_S), "valid") == SPAN_S
        censored.append(not held.any())
        if censored[-1]:
            times.append(float(end - begin))
            continue
        first = int(held.argmax())
        times.append(float(first))
        for steady in parts[begin + first : end, there[begin]].T:
            known = steady[np.isfinite(steady)]
            if known.size >= SPAN_S and known.mean() > 0:
                spreads.append(float(known.std() / known.mean()))
    return {
        "convergence_s": _mean(times),
        "unconverged": _mean(censored),
        "goodput_cv": _mean(spreads),
    }


def flooded_windows(scenario: Scenario, learning: Sequence[int], series: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Which windows are flooded, of those with a learning flow and without an outage now or just before."""
    flows, links = series["flows"], series["links"]
    there = flows["active"][:, learning] >= 1.0
    base_ms = np.where(there, flows["base_rtt_ms"][:, learning], 0.0)
    crosses = _crosses(scenario, series["t_s"])[:, learning]
    longest_ms = (base_ms[:, :, None] * crosses).max(axis=1)  # of the flows of each link
    bdp_bytes = longest_ms * np.where(np.isfinite(links["capacity_mbps"]), links["capacity_mbps"], 0.0) * 125
    used = longest_ms > 0
    standing = (used & (links["queue_bytes"] > FLOOD_BDP * bdp_bytes)).any(axis=1)
    lost, sent = (flows[name][:, learning].sum(axis=1) for name in ("lost_packets", "sent_packets"))
    losing = lost > FLOOD_LOSS * np.maximum(sent, 1.0)
    out = (links["outage"] > 0).any(axis=1)
    out[1:] |= out[:-1]
    judged = there.any(axis=1) & ~out
    return (standing | losing)[judged]


def _crosses(scenario: Scenario, t_s: Array) -> NDArray[np.bool_]:
    """Which flow crosses which link at the end of each window, bool[T, F, L]."""
    crosses = np.zeros((len(t_s), len(scenario.flows), len(scenario.links)), np.bool_)
    for index, flow in enumerate(scenario.flows):
        crosses[:, index, scenario.positions(flow.path)] = True
        for reroute in flow.reroutes:
            later = t_s >= reroute.at_s
            crosses[later, index] = False
            for position in scenario.positions(reroute.path):
                crosses[later, index, position] = True
    return crosses


def mean_figures(worlds: Sequence[Mapping[str, float]]) -> Figures:
    """Means over worlds of each figure; worlds where it has no value do not count."""
    return {name: _mean([x for world in worlds if np.isfinite(x := world[name])]) for name in worlds[0]}


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def print_figures(policies: Mapping[str, Mapping[str, float]], title: str | None = None) -> None:
    """A table on standard output: a row per figure that exists for these worlds, a column per policy."""
    from rich.console import Console
    from rich.table import Table

    from orbitcc.common.names import terminal

    table = Table("figure", *map(terminal, policies), "better", title=None if title is None else terminal(title))
    for name in dict.fromkeys(name for figures in policies.values() for name in figures):
        better = FIGURES[name].better if name in FIGURES else "higher" if name == "score" else ""
        cells = [_cell(figures.get(name, math.nan)) for figures in policies.values()]
        if not any(cells):
            continue
        table.add_row(terminal(name), *cells, better)
    Console().print(table)


def _cell(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else ""
