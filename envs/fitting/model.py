"""A fitted path, and the scenario that replays it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from orbitcc.envs.description.flows import ControllerSpec, Flow
from orbitcc.envs.description.links import Direction, GammaJitter, Handover, Link, Outage
from orbitcc.envs.description.queues import DropTailBytes
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.fitting import changes, rates
from orbitcc.envs.fitting.flows import MeasuredFlow
from orbitcc.envs.fitting.outages import FoundOutage
from orbitcc.envs.fitting.recordings import Array, Probes


@dataclass(frozen=True)
class Note:
    """A fitted quantity in words, and its origin: a file, or that it was not observable."""

    quantity: str
    value: str
    origin: str
    defaulted: bool = False


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted path. rate, back_rate: steps in Mbit/s (None: unlimited); slots_s, base_ms: base RTT in steps."""

    name: str
    duration_s: float
    rate: rates.Steps
    back_rate: rates.Steps | None
    slots_s: Array
    base_ms: Array
    jitter: GammaJitter | None
    loss: Any
    back_loss: float
    queue: DropTailBytes
    outages: tuple[FoundOutage, ...]
    phase_s: float | None
    notes: tuple[Note, ...]
    flows: tuple[MeasuredFlow, ...]
    probes: Probes | None

    def scenario(self) -> Scenario:
        """The path as one link with one Cubic flow."""
        half = [(t, v / 2) for t, v in zip(self.slots_s.tolist(), np.round(self.base_ms, 3).tolist(), strict=True)]
        delay: Any = half[0][1] if len(half) == 1 else half
        edges = [] if self.phase_s is None else np.arange(self.phase_s, self.duration_s, changes.SLOT_S).tolist()
        back = Direction(
            rate_mbps=None if self.back_rate is None else _points(self.back_rate),
            delay_ms=delay, jitter=self.jitter, loss=self.back_loss,
        )  # fmt: skip
        link = Link(
            name="path", rate_mbps=_points(self.rate), delay_ms=delay, loss=self.loss, jitter=self.jitter,
            queue=self.queue, reverse=back, outages=_outages(self.outages),
            handovers=tuple(Handover(at_s=round(t, 3)) for t in edges if t > 0) or None,
        )  # fmt: skip
        return Scenario(
            name=self.name,
            description="; ".join(f"{n.quantity}: {n.value} ({n.origin})" for n in self.notes),
            duration_s=round(self.duration_s, 3),
            links=(link,),
            flows=(Flow(controller=ControllerSpec(name="cubic")),),
        )

    def to_toml(self) -> str:
        """The scenario, below comments that say what was fitted to what."""
        lines = ["Fitted by `orbitcc fit` (docs/fitting.md)."]
        lines += [f"{n.quantity}: {n.value}. {n.origin[:1].upper()}{n.origin[1:]}." for n in self.notes]
        return "".join(f"# {' '.join(line.split())}\n" for line in lines) + "\n" + self.scenario().to_toml()


def _points(steps: rates.Steps) -> Any:
    rounded = np.round(steps[1], 4).tolist()
    return rounded[0] if len(rounded) == 1 else list(zip(np.round(steps[0], 4).tolist(), rounded, strict=True))


def _outages(outages: tuple[FoundOutage, ...]) -> tuple[Outage, ...]:
    found: list[Outage] = []
    end = 0.0
    for s in outages:
        at, length = round(max(s.at_s, end), 4), round(1e3 * (s.at_s + s.length_s - max(s.at_s, end)), 1)
        if length > 0:
            found.append(Outage(at_s=at, duration_ms=length, mode=s.mode, flush=s.flush))
            end = at + length / 1e3 + 1e-3
    return tuple(found)
