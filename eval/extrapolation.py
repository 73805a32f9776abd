"""Warns where results mean less: a policy outside its training range or on its training links, closed connections."""

from __future__ import annotations

from collections.abc import Iterable

from orbitcc.envs.controllers import PROGRAM
from orbitcc.envs.description.links import Bernoulli, GilbertElliott, Link, LoadLoss, Loss
from orbitcc.envs.description.model import points_of
from orbitcc.envs.description.queues import DropTailBytes, Red, Viasat
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval.results import Results, value_of

Range = tuple[float, float]


def warnings(results: Results) -> list[str]:
    """Sentences on contenders whose connections were closed in a run, and on policies that are evaluated outside their
    training range, or on the links on which they were trained.

    A policy in Python, and a program, have no model card.
    """
    from orbitcc.agents import checkpoint
    from orbitcc.agents.python_policy import is_python_policy

    found = []
    cases = results.suite.cases(results.profile, results.runs)
    met, links = conditions(case.scenario for case in cases), {case.scenario.links_digest for case in cases}
    links |= results.suite.parts()
    for contender in results.contenders:
        own = [row for row in results.rows if row["contender"] == contender.key]
        if closed := sum(value_of(row, "closed_connections") > 0 for row in own):
            found.append(
                f"{contender.label}: QUIC closed a connection in {closed} of {len(own)} runs, which sent nothing then"
            )
        source = str(contender.params.get("path", contender.controller))
        if not contender.digest or contender.controller == PROGRAM or is_python_policy(source):
            continue
        card = checkpoint.load(source).card
        outside = []
        for name, (what, unit) in NAMES.items():
            trained = getattr(card.training_range, name)
            if trained is not None and name in met and not _within(met[name], trained, ABSOLUTE.get(name, 0.0)):
                outside.append(f"{what} {_words(met[name], unit)} (trained: {_words(trained, unit)})")
        if not links.isdisjoint(card.training_range.links.split()):
            what = "was trained on links of this suite: its figures are those of a training set"
            found.append(f"{contender.label} {what}")
        if outside:
            found.append(f"{contender.label} is evaluated outside its training range: {'; '.join(outside)}")
    return found


MOST_TIMES = 1_000
NAMES = {
    "rate_mbps": ("rate", "Mbit/s"),
    "base_rtt_ms": ("base RTT", "ms"),
    "buffer_bdp": ("buffer", "BDP"),
    "loss": ("random loss", ""),
    "flows": ("flows", ""),
}


def conditions(scenarios: Iterable[Scenario]) -> dict[str, Range]:
    """Lowest and highest value of each of NAMES over all scenarios, flows and times.

    Measured paths, whose links have more than 1,000 times, are looked at 1,000 times; of each, 5 to 95 % count.
    """
    values: dict[str, list[float]] = {name: [] for name in NAMES}
    for scenario in scenarios:
        values["flows"].append(float(len(scenario.flows)))
        times = sorted({t for link in scenario.links for t in _times(link)})
        measured = len(times) > MOST_TIMES
        if measured:
            times = [k * scenario.duration_s / MOST_TIMES for k in range(MOST_TIMES)]
        for flow in range(len(scenario.flows)):
            own: dict[str, list[float]] = {name: [] for name in NAMES}
            path = [scenario.links[i] for i in scenario.path_of(flow)]
            buffers = [buffer_bytes(link, scenario.sim.packet_bytes) for link in path if link.rate_mbps is not None]
            for t in times:
                rtt, rate = scenario.base_rtt_ms(flow, t), scenario.capacity_mbps(t, flow)
                own["base_rtt_ms"].append(rtt)
                own["rate_mbps"].append(rate)
                own["buffer_bdp"] += [size / (rate * rtt * 125) for size in buffers if rtt > 0]
            for name, found in own.items():
                found.sort()
                few = len(found) // 20 if measured else 0
                values[name] += found[few : len(found) - few]
        for link in scenario.links:
            values["loss"] += [loss_rate(loss) for _, loss in points_of(link.loss)]
    return {name: (min(v), max(v)) for name, v in values.items() if v}


def buffer_bytes(link: Link, packet_bytes: int) -> float:
    """Size of a link's queue."""
    queue = link.queue
    if isinstance(queue, DropTailBytes | Viasat | Red):
        return float(queue.limit_bytes)
    return float(queue.limit_packets * packet_bytes)


def _times(link: Link) -> Iterable[float]:
    for schedule in (link.rate_mbps, link.delay_ms, link.backward().delay_ms):
        yield from (t for t, _ in points_of(schedule))


def loss_rate(loss: Loss) -> float:
    """The long-run share of lost packets, at full load."""
    if isinstance(loss, Bernoulli):
        return loss.p
    if isinstance(loss, LoadLoss):
        return loss.full_loss
    if isinstance(loss, GilbertElliott):
        bad = loss.to_bad_per_s / (loss.to_bad_per_s + loss.to_good_per_s)
        return bad * loss.bad_loss + (1 - bad) * loss.good_loss
    return float(loss)


RELATIVE = 0.005
"""Ranges are shown with three digits: an excess of half a unit of the third digit is rounding."""
ABSOLUTE = {"loss": 1e-5}
"""A flow that fills a buffer loses more than a packet in 100,000 there, so that every policy has met so few losses.

The residual loss of the GEO links, 5e-6, is below it."""


def _within(met: Range, trained: Range, absolute: float) -> bool:
    low, high = (max(RELATIVE * abs(end), absolute) for end in trained)
    return trained[0] - low <= met[0] and met[1] <= trained[1] + high


def _words(values: Range, unit: str) -> str:
    low, high = values
    return f"{low:.3g}{'' if low == high else f'–{high:.3g}'}{f' {unit}' if unit else ''}"
