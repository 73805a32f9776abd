"""How much worse a target does in a world than a reference in the same one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import metrics
from orbitcc.eval.contenders import Contender
from orbitcc.eval.search.space import EVERY_S

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

Objective = Literal["utilisation", "delay", "power", "fairness", "starvation", "loss"]
OBJECTIVES: tuple[Objective, ...] = ("utilisation", "delay", "power", "fairness", "starvation", "loss")
START_S = 2.0
"""Of the first quarter so much does not count, but for losses."""


def entered(world: Scenario, contender: Contender) -> Scenario:
    """The world with a contender in the place of the target."""
    return contender.take(world, lambda flow: flow.controller.name == "external")


def regret(world: Scenario, objective: Objective, target: Contender, against: Sequence[Contender]) -> float:
    """What a reference achieves less what the target does: 0 is as good, 1 as bad as can be (delay: in base RTTs).

    Of several references that against which it is largest. Of utilisation, delay and power (utilisation over the RTT in
    base RTTs; Kleinrock 1979) it is that of the quarter in which the target is worst: 10 s without data are one,
    whatever comes later.
    """
    own, *others = (
        shortfalls(simulate(entered(world, c), record_interval_s=1.0), objective) for c in (target, *against)
    )
    for contender in (target, *against):
        contender.check_unchanged()
    return max(float(np.nanmax(own - other)) for other in others)


def shortfalls(recording: Recording, objective: Objective) -> np.ndarray:
    """What is missing to the ideal: in each quarter, or in all of the run."""
    flows, end_s = recording.flows, recording.scenario.duration_s
    if objective == "loss":
        return np.array([flows["retransmitted_packets"].sum() / max(flows["sent_packets"].sum(), 1.0)])
    if objective in ("utilisation", "delay", "power"):
        quarters = [
            metrics.window(recording.t_s, max(at, START_S), at + EVERY_S + 1e-6) for at in np.arange(0, end_s, EVERY_S)
        ]
        rtts = flows["srtt_ms"][:, 0] / flows["base_rtt_ms"][:, 0]
        inflation = np.array([np.mean(rtts[q]) for q in quarters])
        delivered, capacity = (recording.links[name][:, 0] for name in ("delivered_mbps", "capacity_mbps"))
        utilisation = np.array([metrics.utilisation(delivered[q], capacity[q]) for q in quarters])
        if objective == "power":
            return 1 - np.where(np.isnan(inflation), 0.0, utilisation / inflation)
        return inflation - 1 if objective == "delay" else 1 - utilisation
    shares = flows["goodput_mbps"][metrics.window(recording.t_s, EVERY_S, end_s + 1)].mean(axis=0)
    if not shares.any():
        return np.array([1.0])
    if objective == "fairness":
        return np.array([2 * (1 - metrics.jain(shares))])  # of two flows 0.5 is the least
    return np.array([1 - min(1.0, 2 * float(shares[0] / shares.sum()))])  # of its fair half
