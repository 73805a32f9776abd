"""One run of a scenario on this kernel, from start to end, in real time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.common.numbers import checked_number
from orbitcc.emulator import needs, programs
from orbitcc.envs import controllers
from orbitcc.envs.backends.simulator import PARTS, UNKNOWN_TO_UDP, Recording
from orbitcc.envs.description import support
from orbitcc.envs.description.compile import ns
from orbitcc.envs.description.refusals import refusal
from orbitcc.envs.description.scenario import Scenario

UNKNOWN = ("rtt_ms", "spurious_rtos", "tail_probes")
"""Series and totals of flows that a stock kernel does not supply."""

TOLD_OF_AGENTS = "lost_packets"
"""Series that it supplies only for flows of our own program."""

OF_HOSTS = ("cwnd_packets", "ssthresh_packets", "pacing_mbps", "retransmitted_packets")
"""Series that the packets of somebody else's program do not tell."""


def emulate(
    scenario: Scenario,
    seed: int | None = None,
    record_interval_s: float = 1.0,
    progress: Callable[[float], None] | None = None,
) -> Recording:
    """Run `scenario` as :func:`orbitcc.envs.backends.simulator.simulate` does, with real packets.

    Takes as long as the scenario lasts. The recording lacks the series that a kernel does not tell, and has
    `emulation`: what the links and the process say of themselves. Raises OrbitccError for fields that this backend
    cannot honour, and for what the machine lacks.
    """
    from orbitcc import _sim

    if seed is not None:
        scenario = scenario.with_seed(seed)
    refuse(scenario, plain=True)
    try:
        checked_number(record_interval_s, 1e-3, scenario.duration_s, "s")
    except OrbitccError as error:
        raise error.at("interval") from None
    ours = programs.with_flows_of_ours(scenario)
    foreign = [programs.is_program(flow) for flow in scenario.flows]
    driven = _driven(ours)
    binary = needs.ready_program(agents=any(driven))
    report: dict[str, Any] = {}
    while not report:
        try:
            simulation = _sim.Simulation(
                ours.compile(),
                record_interval_ns=ns(record_interval_s),
                policies=ours.policies(),
                emulator=binary,
                programs=json.dumps(programs.setup(scenario)),
            )
            end = simulation.duration_ns
            for part in range(1, PARTS + 1):
                simulation.run_until(end * part // PARTS)
                if progress is not None:
                    progress(part / PARTS)
            report = json.loads(simulation.finish())
        except OrbitccError:
            raise
        except ValueError as error:
            if not programs.refused(scenario, error):
                raise refusal(scenario, error, "this machine can emulate") from None
    programs.check(report["programs"])
    series = simulation.recording()
    flows = {name: values for name, values in series["flows"].items() if name not in UNKNOWN}
    told = [agent or program for agent, program in zip(driven, foreign, strict=True)]
    if any(told):
        flows[TOLD_OF_AGENTS] = np.where(told, flows[TOLD_OF_AGENTS], np.nan)
    else:
        del flows[TOLD_OF_AGENTS]
    datagrams = [flow.controller.name == "udp" for flow in scenario.flows]
    for name in OF_HOSTS:
        silent = np.logical_or(foreign, datagrams) if name in UNKNOWN_TO_UDP else np.array(foreign)
        if silent.any():
            flows[name] = np.where(silent, np.nan, flows[name])
    totals = simulation.flow_totals()
    for i, (total, downloads) in enumerate(zip(totals, report["hosts"]["downloads"], strict=True)):
        total["objects"] = [tuple(download) for download in downloads]
        unknown = (*UNKNOWN, *(() if told[i] else (TOLD_OF_AGENTS,)))
        unknown += ("retransmitted_packets", "rtos") if foreign[i] else ()
        unknown += (*UNKNOWN_TO_UDP, "received_datagrams") if datagrams[i] else ()
        total.update(dict.fromkeys(unknown, float("nan")))
        del total["rtt_ms"]
    emulation = {
        "lateness": report["links"].pop("lateness"),
        "overruns": simulation.overruns,
        "links": report["links"],
        "hosts": {key: value for key, value in report["hosts"].items() if key != "downloads"},
        **({"programs": report["programs"]} if any(foreign) else {}),
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
    for field in support.beyond_kernel(scenario.sim, scenario.flows):
        raise OrbitccError(field, _value(scenario, field), "what this kernel can do (docs/emulation.md)")
    programs.setup(scenario)
    for i, flow in enumerate(scenario.flows if plain else ()):
        if flow.controller.name == "external":
            raise OrbitccError(f"flows.{i}.controller", "external", "a controller that runs by itself (choose one)")


def _driven(scenario: Scenario) -> tuple[bool, ...]:
    """Which of its flows a policy, or an environment, drives."""
    made = (controllers.make(flow.controller.name, flow.controller.params)[0] for flow in scenario.flows)
    return tuple(native["name"] in support.AGENTS for native in made)


def _value(scenario: Scenario, field: str) -> Any:
    node: Any = scenario
    for part in field.split("."):
        if isinstance(node, tuple):
            node = node[int(part)]
        elif hasattr(node, part):
            node = getattr(node, part)
        else:
            node = node.params.get(part)
    return str(getattr(node, "kind", node))
