"""Building blocks of the worlds of an assessment, and measurements of their runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from orbitcc.envs.description.flows import ControllerSpec, Flow
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.queues import DropTailBytes
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.contenders import Contender

CANDIDATE = ControllerSpec(name="external")
"""Placeholder for the controller under assessment."""
PACKET_BYTES = 1514
PAYLOAD_BYTES = 1448
RECORD_INTERVAL_S = 0.1


class AssessmentWorlds(Suite):
    """Worlds of an assessment, which differ in a few factors. Flows keep the order that `world` gives them."""

    scenario = "dumbbell"
    record_interval_s = RECORD_INTERVAL_S

    @abstractmethod
    def world(self, point: Point, seed: int) -> Scenario:
        """The scenario; flows of the candidate have the controller `external`."""

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.world(point, seed), point)

    def enter(self, case: Case, contender: Contender) -> Scenario:
        """The scenario with the contender in place of the candidate."""
        return contender.take(case.scenario, lambda flow: flow.controller == CANDIDATE)


def dumbbell(
    flows: Sequence[Flow],
    rate_mbps: float,
    rtt_ms: float,
    duration_s: float,
    /,
    *,
    seed: int,
    buffer_bdp: float = 1.0,
    **link: Any,
) -> Scenario:
    """Flows through one link with a buffer of `buffer_bdp` bandwidth-delay products, three packets at least.

    link: further fields of the link; by default, `reverse` has the same delay and no rate limit.
    """
    buffer = max(int(rate_mbps * rtt_ms * 125 * buffer_bdp), 3 * PACKET_BYTES)
    fields: dict[str, Any] = {
        "rate_mbps": rate_mbps,
        "delay_ms": rtt_ms / 2,
        "queue": DropTailBytes(limit_bytes=buffer),
        "reverse": Direction(delay_ms=rtt_ms / 2),
        **link,
    }
    return Scenario(
        name="assessment",
        duration_s=duration_s,
        seed=seed,
        links=(Link(name="bottleneck", **fields),),
        flows=tuple(flows),
    )


def candidates(count: int, **fields: Any) -> list[Flow]:
    """`count` flows of the candidate."""
    return [Flow(name=f"candidate-{k}", controller=CANDIDATE, **fields) for k in range(count)]


def others(controller: str, count: int, **fields: Any) -> list[Flow]:
    """`count` flows of another controller."""
    spec = ControllerSpec(name=controller)
    return [Flow(name=f"{controller}-{k}", controller=spec, **fields) for k in range(count)]


def goodputs(recording: Recording, start_s: float, end_s: float) -> np.ndarray:
    """Mean goodput of every flow in the window, in Mbit/s: [F]."""
    inside = metrics.window(recording.t_s, start_s, end_s + 1e-6)
    return np.asarray(recording.flows["goodput_mbps"][inside].mean(axis=0))


def total(recording: Recording, series: str, start_s: float, end_s: float, flows: slice = slice(None)) -> float:
    """Sum of a series of counts over the flows and the samples of the window."""
    inside = metrics.window(recording.t_s, start_s, end_s + 1e-6)
    return float(recording.flows[series][inside, flows].sum())


def seconds(series: np.ndarray) -> np.ndarray:
    """Means over full seconds of samples taken every `RECORD_INTERVAL_S`: [T, ...] -> [T / 10, ...]."""
    per = round(1 / RECORD_INTERVAL_S)
    whole = series.shape[0] // per * per
    return series[:whole].reshape(-1, per, *series.shape[1:]).mean(axis=1)


def link_figures(recording: Recording, start_s: float, end_s: float) -> dict[str, float]:
    """Figures of the slowest link in the window: utilisation, mean queueing delay in ms, dropped share of packets."""
    inside = metrics.window(recording.t_s, start_s, end_s + 1e-6)
    narrowest = int(np.argmin(recording.links["capacity_mbps"].mean(axis=0)))
    link = {name: series[inside, narrowest] for name, series in recording.links.items()}
    capacity = float(link["capacity_mbps"].mean())
    dropped = float(link["dropped_packets"].sum())
    sent = float(recording.flows["sent_packets"][inside].sum())
    return {
        "utilisation": metrics.utilisation(link["delivered_mbps"], link["capacity_mbps"]),
        "queue_ms": float(link["queue_bytes"].mean()) * 8e-3 / capacity,
        "loss_share": dropped / sent if sent else 0.0,
    }


def pick(profile: str, quick: Sequence[Any], full: Sequence[Any]) -> Sequence[Any]:
    """The values of a factor in the profile `quick` or `full`."""
    return quick if profile == "quick" else full
