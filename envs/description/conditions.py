"""The network conditions of scenarios: lowest and highest rate, base RTT, buffer, random loss and number of flows."""

from __future__ import annotations

from collections.abc import Iterable

from orbitcc.envs.description.links import Bernoulli, GilbertElliott, Link, LoadLoss, Loss
from orbitcc.envs.description.model import points_of
from orbitcc.envs.description.queues import DropTailBytes, Red, Viasat
from orbitcc.envs.description.scenario import Scenario

Range = tuple[float, float]
MOST_TIMES = 1_000
NAMES = ("rate_mbps", "base_rtt_ms", "buffer_bdp", "loss", "flows")


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
