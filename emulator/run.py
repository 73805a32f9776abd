"""One run of a scenario on this kernel, from start to end, in real time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from orbitcc.emulator import limits, program
from orbitcc.envs.compile import ns
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.model import checked_number
from orbitcc.envs.scenario import Scenario
from orbitcc.envs.simulate import PIECES, Recording

UNKNOWN_SERIES = ("rtt_ms", "lost_packets")
"""Series of flows that a stock kernel does not tell: single RTT samples, and packets found lost."""

UNKNOWN_TOTALS = ("lost_packets", "spurious_rtos", "tail_probes")


def emulate(
    scenario: Scenario,
    seed: int | None = None,
    record_interval_s: float = 1.0,
    progress: Callable[[float], None] | None = None,
) -> Recording:
    """Run `scenario` as :func:`orbitcc.envs.simulate.simulate` does, with real packets; takes as long as it lasts.

    The recording lacks the series that a kernel does not tell, and has `emulation`: what the links and the process say
    of themselves. Raises OrbitccError for fields that this backend cannot honour, and for what the machine lacks.
    """
    from orbitcc import _sim

    if seed is not None:
        scenario = scenario.with_seed(seed)
    refuse(scenario, plain=True)
    try:
        checked_number(record_interval_s, 1e-3, scenario.duration_s, "s")
    except OrbitccError as error:
        raise error.at("interval") from None
    binary = program.path(agents=limits.has_agents(scenario))
    try:
        simulation = _sim.Simulation(
            scenario.compile(),
            record_interval_ns=ns(record_interval_s),
            policies=scenario.policies(),
            emulator=binary,
        )
        end = simulation.duration_ns
        for piece in range(1, PIECES + 1):
            simulation.run_until(end * piece // PIECES)
            if progress is not None:
                progress(piece / PIECES)
        report = json.loads(simulation.finish())
    except OrbitccError:
        raise
    except ValueError as error:
        raise OrbitccError("scenario", scenario.name, f"a network this machine can emulate: {error}") from None
    series = simulation.recording()
    told = [flow.controller.name == "udp" for flow in scenario.flows]
    flows = {name: values for name, values in series["flows"].items() if name not in UNKNOWN_SERIES}
    totals = [_known(total) for total in simulation.flow_totals()]
    for total, downloads, datagram in zip(totals, report["hosts"]["downloads"], told, strict=True):
        total["objects"] = [tuple(download) for download in downloads]
        if datagram:
            total.update({"rtos": 0, "retransmitted_packets": 0})
    emulation = {
        "lateness": report["links"].pop("lateness"),
        "overruns": simulation.overruns,
        "links": report["links"],
        "hosts": {key: value for key, value in report["hosts"].items() if key != "downloads"},
    }
    return Recording(
        scenario=scenario,
        t_s=series["t_s"],
        flows=flows,
        links=series["links"],
        flow_totals=totals,
        link_totals=simulation.link_totals(),
        emulation=emulation,
    )


def refuse(scenario: Scenario, *, plain: bool) -> None:
    """OrbitccError for the first field that cannot be honoured; plain: there is no environment that acts."""
    for field in limits.unsupported(scenario):
        raise OrbitccError(field, _value(scenario, field), "what this kernel can do (docs/emulation.md)")
    for i, flow in enumerate(scenario.flows if plain else ()):
        if flow.controller.name == "external":
            raise OrbitccError(f"flows.{i}.controller", "external", "a controller that runs by itself (choose one)")


def _value(scenario: Scenario, field: str) -> Any:
    node: Any = scenario
    for part in field.split("."):
        if isinstance(node, tuple):
            node = node[int(part)]
        elif hasattr(node, part):
            node = getattr(node, part)
        else:
            node = node.params.get(part)
    return str(node)


def _known(total: dict[str, Any]) -> dict[str, Any]:
    """Totals without what a kernel does not tell."""
    return {name: float(np.nan) if name in UNKNOWN_TOTALS else value for name, value in total.items()}
