"""Hotspots: for some seconds, other users take a share of a link's rate, as unresponsive traffic or as a rate cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from orbitcc.envs.description.flows import Cbr, ControllerSpec, Flow
from orbitcc.envs.description.links import MIN_RATE_MBPS
from orbitcc.envs.description.model import Model, number
from orbitcc.envs.description.ranges import Random, Span, span
from orbitcc.envs.impairments.series import Series

UDP = ControllerSpec(name="udp")


@dataclass(frozen=True, slots=True)
class Hotspot:
    """From start_s to end_s a share of the rate is taken; during the first and the last ramp_s, half of that share."""

    start_s: float
    end_s: float
    ramp_s: float
    share: float
    cut: bool

    def stages(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Start and end of each half of the share."""
        return (self.start_s, self.end_s), (self.start_s + self.ramp_s, self.end_s - self.ramp_s)


class Hotspots(Model):
    """A Poisson process of hotspots (all ranges are our choice).

    per_s: hotspots per second, counted from the end of the last one.
    share: share of the rate that is taken.
    mean_s: mean of the exponential length, which is limited to length_s.
    ramp_s: duration of the ramps at the start and end.
    cut_probability: share of hotspots that cut the rate; the others send traffic of constant rate.
    """

    per_s: Annotated[float, number(0, 10, "1/s")] = 1 / 60
    share: Annotated[Span, span(0, 0.95)] = Span(low=0.2, high=0.8)
    mean_s: Annotated[float, number(0, 1e4, "s", above=True)] = 8.0
    length_s: Annotated[Span, span(0.1, 1e4, "s")] = Span(low=1, high=40)
    ramp_s: Annotated[Span, span(0, 1e3, "s")] = Span(low=0.1, high=2)
    cut_probability: Annotated[float, number(0, 1)] = 0.2

    def draw(self, rng: Random, duration_s: float) -> list[Hotspot]:
        """The hotspots that start within [0, duration_s), in order and without overlaps."""
        found: list[Hotspot] = []
        t = rng.exponential(1 / self.per_s) if self.per_s > 0 else duration_s
        while t < duration_s:
            length = min(max(rng.exponential(self.mean_s), self.length_s.low), self.length_s.high)
            ramp = min(self.ramp_s.draw(rng), 0.4 * length)
            share = self.share.draw(rng)
            found.append(Hotspot(t, t + length, ramp, share, rng.random() < self.cut_probability))
            t += length + rng.exponential(1 / self.per_s)
        return found


def rate_factor(hotspots: Sequence[Hotspot]) -> Series | None:
    """The share of the rate that the cuts among the hotspots leave; None without cuts."""
    t, values = [0.0], [1.0]
    for spot in hotspots:
        if spot.cut:
            (start, end), (full, ebb) = spot.stages()
            half = 1 - spot.share / 2
            t += [start, full, ebb, end]
            values += [half, 1 - spot.share, half, 1.0]
    if len(t) == 1:
        return None
    at, factors = np.array(t), np.array(values)
    last = np.append(np.diff(at) > 1e-9, True)  # a ramp can have no length
    return Series(at[last], factors[last])


def traffic(hotspots: Sequence[Hotspot], hop: int, rate_mbps: float, duration_s: float) -> list[Flow]:
    """The hotspots that are not cuts, as unresponsive flows over link `hop` of rate_mbps."""
    flows = []
    for k, spot in enumerate(h for h in hotspots if not h.cut):
        for stage, (start, end) in enumerate(spot.stages()):
            rate = spot.share / 2 * rate_mbps
            if start < duration_s and rate >= MIN_RATE_MBPS:
                flows.append(
                    Flow.trusted(
                        name=f"hotspot-{hop}-{k}{'ab'[stage]}",
                        controller=UDP,
                        path=(hop,),
                        start_s=start,
                        stop_s=end if end < duration_s else None,
                        traffic=Cbr.trusted(rate_mbps=rate),
                    )
                )
    return flows
