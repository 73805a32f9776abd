"""What of a scenario this kernel cannot honour, by the names of its fields."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitcc.envs.scenario import Scenario

KERNEL: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "reno": {},
    "cubic": {
        "hystart": ("both", "train", "delay", "off"),
        "hystart_k": (3.0,),
        "search_rollback": ("off",),
        "fast_convergence": ("on", "off"),
        "friendliness": ("on", "off"),
    },
    "bbr": {},
    "hybla": {"rtt0_ms": (25.0,)},
    "illinois": {},
    "vegas": {},
    "westwood": {},
}
"""Controllers that Linux has under the same name, and the parameters that its version can have."""

HOSTS: Mapping[str, tuple[Any, ...]] = {"kernel": ("network", "v6"), "ssthresh_cache": ("network", "off")}
AGENTS = ("policy", "external")
MOST_FLOWS = 64_000


def unsupported(scenario: "Scenario") -> tuple[str, ...]:
    """The dotted names of the fields; none when the scenario can be run as it is."""
    return tuple(_fields(scenario))


def _fields(scenario: "Scenario") -> Iterator[str]:
    sim = scenario.sim
    if sim.kernel != "v6":
        yield "sim.kernel"
    if sim.initial_cwnd_packets != 10:
        yield "sim.initial_cwnd_packets"
    if sim.gro_segments != 1:
        yield "sim.gro_segments"
    if sim.ssthresh_cache not in ("kernel", "off"):
        yield "sim.ssthresh_cache"
    if len(scenario.flows) > MOST_FLOWS:
        yield "flows"
    for i, flow in enumerate(scenario.flows):
        yield from (f"flows.{i}.{field}" for field in _controller(flow.controller))


def _controller(spec: Any) -> Iterator[str]:
    from orbitcc.envs import controllers

    native, _ = controllers.make(spec.name, spec.params, "controller")
    name, params = native["name"], native["params"]
    if name in AGENTS or name == "udp":
        return
    if name not in KERNEL:
        yield "controller"
        return
    allowed = {**KERNEL[name], **HOSTS}
    for key, value in params.items():
        if value not in allowed.get(key, ()):
            yield f"controller.{key}" if key in spec.params else "controller"


def agents(scenario: "Scenario") -> tuple[bool, ...]:
    """Which of its flows a policy, or an environment, drives."""
    from orbitcc.envs import controllers

    made = (controllers.make(flow.controller.name, flow.controller.params)[0] for flow in scenario.flows)
    return tuple(native["name"] in AGENTS for native in made)
