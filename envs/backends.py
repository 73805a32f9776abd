"""What runs a scenario, and which of its fields a backend cannot honour."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, get_args

from orbitcc.envs.errors import UnknownNameError

if TYPE_CHECKING:
    from orbitcc.envs.scenario import Scenario
    from orbitcc.envs.simulate import Recording

Backend = Literal["simulator", "emulator"]
"""The packet simulator, or its links with this machine's own TCP at their ends, in real time (docs/emulation.md)."""


def check(backend: str, field: str = "backend") -> str:
    """`backend`; UnknownNameError about `field` when there is none of this name."""
    if backend not in get_args(Backend):
        raise UnknownNameError(field, backend, get_args(Backend))
    return backend


def runner(backend: str) -> Callable[..., Recording]:
    """What runs a scenario from start to end: `simulate`, or what takes the same arguments for real."""
    if check(backend) == "emulator":
        from orbitcc.emulator.run import emulate

        return emulate
    from orbitcc.envs.simulate import simulate

    return simulate


def unsupported(scenario: Scenario, backend: str) -> tuple[str, ...]:
    """The dotted names of the fields `backend` cannot honour in a plain run; none when it can run the scenario."""
    check(backend)
    # A plain run has nobody who acts; environments drive these flows.
    found = [f"flows.{i}.controller" for i, flow in enumerate(scenario.flows) if flow.controller.name == "external"]
    if backend == "emulator":
        from orbitcc.emulator import limits

        found += limits.unsupported(scenario)
    return tuple(found)
