"""Many pairs of cities over one shell of satellites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

FROM_S = 15.0
HOTTEST = 20
BEFORE_S, AFTER_S = 5, 3


class ConstellationSharing(Suite):
    """Flows of all pairs with one controller; routes change at each slot."""

    name = "constellation-sharing"
    scenario = "constellation"
    profiles: ClassVar = {"quick": 1, "reduced": 2, "full": 5}
    max_runs = 100

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"selection": rule, "pairs": 100} for rule in ("shortest", "sticky")]

    def case(self, point: Point, seed: int) -> Case:
        interruption = "none" if point["selection"] == "shortest" else "drop"
        return Case(seed, self.build(run=seed, duration_s=95.0, interruption=interruption, **point), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        scenario = recording.scenario
        inside = metrics.window(recording.t_s, FROM_S, scenario.duration_s)
        flows = {name: series[inside] for name, series in recording.flows.items()}
        goodputs = flows["goodput_mbps"].mean(axis=0)
        used = np.sort(link_utilisation(recording, FROM_S))[::-1][:HOTTEST]
        resent = float(flows["retransmitted_packets"].sum())
        return {
            "goodput_mbps": float(goodputs.mean()),
            "jain": metrics.jain(goodputs),
            "slowest_mbps": float(np.percentile(goodputs, 10)),
            "delay_inflation": float(np.nanmean(flows["srtt_ms"] / flows["base_rtt_ms"])),
            "after_reroute": _after_reroutes(recording),
            "hot_utilisation": float(used.mean()),
            "retransmission_rate": metrics.retransmission_rate(resent, float(flows["sent_packets"].sum())),
        }


def link_utilisation(recording: Recording, from_s: float) -> NDArray[np.float64]:
    """Mean rate of what each link delivers from a time on, divided by its rate: [L]; 0 for links without a rate."""
    inside = metrics.window(recording.t_s, from_s, recording.scenario.duration_s)
    capacity = recording.links["capacity_mbps"][inside].mean(axis=0)
    return recording.links["delivered_mbps"][inside].mean(axis=0) / capacity


def _after_reroutes(recording: Recording) -> float:
    """Goodput of flows in the seconds after their routes change, divided by that in the seconds before."""
    before: list[NDArray[np.float64]] = []
    after: list[NDArray[np.float64]] = []
    for k, flow in enumerate(recording.scenario.flows):
        goodput = recording.flows["goodput_mbps"][:, k]
        for reroute in flow.reroutes:
            if reroute.at_s >= FROM_S and reroute.at_s + AFTER_S < recording.scenario.duration_s:
                second = int(np.searchsorted(recording.t_s, reroute.at_s))
                before.append(goodput[second - BEFORE_S : second])
                after.append(goodput[second + 1 : second + 1 + AFTER_S])
    if not before or not np.any(before):
        return float("nan")
    return float(np.mean(after) / np.mean(before))
