"""Fields of a scenario that a backend does not support, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from orbitcc.common.errors import UnknownNameError
from orbitcc.envs import controllers
from orbitcc.envs.description.flows import Cbr, ControllerSpec, Flow
from orbitcc.envs.description.sim_settings import SimSettings

Backend = Literal["simulator", "emulator"]
"""The packet simulator, or the emulator: the same links in real time with this machine's TCP (docs/emulation.md)."""

_NO_RESUME: Mapping[str, tuple[Any, ...]] = {"resume_cwnd": (0.0,), "resume_rtt_ms": (0.0,)}
KERNEL: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "reno": {"abe": ("off",)},
    "cubic": {
        "hystart": ("both", "train", "delay", "off"),
        "hystart_k": (3.0,),
        "fast_convergence": ("on", "off"),
        "friendliness": ("on", "off"),
        "abe": ("off",),
        **_NO_RESUME,
    },
    "bbr": _NO_RESUME,
    "hybla": {"rtt0_ms": (25.0,)},
    "illinois": {},
    "vegas": {},
    "westwood": {},
}
"""Controllers that exist in Linux under the same name, and the parameter values that Linux supports."""

HOSTS: Mapping[str, tuple[Any, ...]] = {
    "kernel": ("network", "v6", "v6_12"),
    "ssthresh_cache": ("network", "off"),
}
AGENTS = ("policy", controllers.EXTERNAL)
"""Controllers for which something outside the kernel decides."""
MOST_FLOWS = 64_000


def check(backend: str, field: str = "backend") -> str:
    """`backend`. Raises UnknownNameError about `field` if it does not exist."""
    if not isinstance(backend, str) or backend not in get_args(Backend):
        raise UnknownNameError(field, backend, get_args(Backend))
    return backend


def unsupported(sim: SimSettings, flows: Sequence[Flow], backend: str) -> tuple[str, ...]:
    """The dotted names of the fields that `backend` does not support in a plain run."""
    check(backend)
    # Only environments can drive these flows; a plain run has no agent.
    found = [f"flows.{i}.controller" for i, flow in enumerate(flows) if flow.controller.name == controllers.EXTERNAL]
    if backend == "emulator":
        found += beyond_kernel(sim, flows)
    return tuple(found)


def beyond_kernel(sim: SimSettings, flows: Sequence[Flow]) -> tuple[str, ...]:
    """The fields that this machine's TCP does not support, also with agents."""
    return tuple(_beyond_kernel(sim, flows))


def _beyond_kernel(sim: SimSettings, flows: Sequence[Flow]) -> Iterator[str]:
    if sim.kernel == "v4_15":
        yield "sim.kernel"
    if sim.initial_cwnd_packets != 10:
        yield "sim.initial_cwnd_packets"
    if sim.gro_segments != 1:
        yield "sim.gro_segments"
    if sim.ssthresh_cache not in ("kernel", "off"):
        yield "sim.ssthresh_cache"
    if sim.ecn == "accurate":  # Linux 6.18 refuses net.ipv4.tcp_ecn = 3
        yield "sim.ecn"
    if len(flows) > MOST_FLOWS:
        yield "flows"
    for i, flow in enumerate(flows):
        if flow.receiver is not None:
            yield f"flows.{i}.receiver"
        if flow.pep is not None:
            yield f"flows.{i}.pep"
        if flow.transport is not None:
            yield f"flows.{i}.transport"
        if isinstance(flow.traffic, Cbr) and flow.traffic.packet_bytes is not None:
            yield f"flows.{i}.traffic.packet_bytes"
        yield from (f"flows.{i}.{field}" for field in _of_controller(flow.controller, sim.ecn))


def _of_controller(spec: ControllerSpec, ecn: str) -> Iterator[str]:
    if spec.name == controllers.PROGRAM:
        return
    native, _ = controllers.make(spec.name, spec.params, "controller")
    name, params = native["name"], native["params"]
    if name in AGENTS or name == "udp":
        return
    if name not in KERNEL:
        yield "controller"
        return
    allowed = {**KERNEL[name], **HOSTS, "ecn": ("network", ecn)}
    for key, value in params.items():
        if value not in allowed.get(key, ()):
            yield f"controller.{key}" if key in spec.params else "controller"
