"""What each backend cannot do: fields of a scenario, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.links import Direction, GilbertElliott, Link, Viasat
from orbitcc.envs.description.model import points_of
from orbitcc.envs.errors import UnknownNameError

Backend = Literal["simulator", "emulator"]
"""The packet simulator, or the same network built from Linux's own queues (tc, netem) with real TCP."""


def unsupported(links: Sequence[Link], flows: Sequence[Flow], backend: str) -> tuple[str, ...]:
    """The dotted names of the fields `backend` cannot honour; none when it can run these flows on these links.

    What stands under `sim` is for the simulator alone and is not counted.
    """
    if backend not in get_args(Backend):
        raise UnknownNameError("backend", backend, get_args(Backend))
    # A plain run has nobody who acts; environments drive these flows in the simulator.
    found = [f"flows.{i}.controller" for i, flow in enumerate(flows) if flow.controller.name == "external"]
    if backend == "emulator":
        for i, link in enumerate(links):
            found += [f"links.{i}.{field}" for field in _beyond_tc(link)]
    return tuple(found)


def _beyond_tc(link: Link) -> Iterator[str]:
    yield from _direction_beyond_tc(link)
    if link.reverse is not None:
        yield from (f"reverse.{field}" for field in _direction_beyond_tc(link.reverse))
    for k, outage in enumerate(link.outages):
        # An interface that is down drops what arrives, both ways, and has lost its queue.
        if outage.mode == "hold":
            yield f"outages.{k}.mode"
        if outage.flush == "none":
            yield f"outages.{k}.flush"
        if outage.directions != "both":
            yield f"outages.{k}.directions"


def _direction_beyond_tc(way: Direction) -> Iterator[str]:
    changes = len(points_of(way.delay_ms)) > 1
    if changes and way.interpolate_delay:
        yield "interpolate_delay"
    if changes and way.ordering == "fifo":  # netem lets packets overtake
        yield "ordering"
    if any(isinstance(loss, GilbertElliott) for _, loss in points_of(way.loss)):  # netem's counts packets, not time
        yield "loss"
    if isinstance(way.queue, Viasat):
        yield "queue"
    if way.jitter is not None:
        yield "jitter"
    if way.gate_ms:
        yield "gate_ms"
