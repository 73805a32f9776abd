"""Backends that run a scenario from start to end: the simulator (`orbitcc._sim`) and this machine's kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orbitcc.envs.description import support

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording


def runner(backend: str) -> Callable[..., Recording]:
    """`simulate`, or what takes the same arguments for real; UnknownNameError when there is no such backend."""
    if support.check(backend) == "emulator":
        from orbitcc.emulator.run import emulate

        return emulate
    from orbitcc.envs.backends.simulator import simulate

    return simulate
