"""The registry of controllers: name -> description, parameters, and how the simulator runs it.

`import orbitcc` registers the classical controllers and the learned policies. Scenarios, evaluation and the command
line use this registry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from orbitcc.common.errors import OrbitccError, UnknownNameError
from orbitcc.common.numbers import checked_number

if TYPE_CHECKING:
    from orbitcc._sim import FixedPolicy, Policy, PythonPolicy

Kind = Literal["baseline", "policy", "internal"]

EXTERNAL = "external"
"""The controller of flows that an environment's agents drive."""
LEAST_DELAY = 0.01
"""The smallest preference that can be asked for."""

CONTENDER = "contender"
"""The name of `external` in scenario files: a placeholder for whoever is evaluated, run or trained there."""

PROGRAM = "program"
"""The controller of flows whose hosts are programs of somebody else, which only the emulator runs."""

AnyPolicy: TypeAlias = "Policy | FixedPolicy | PythonPolicy"
"""A policy that drives flows inside the simulator: a neural network, or a policy in Python."""

Made = tuple[dict[str, Any], "dict[str, AnyPolicy]"]
"""The native controller, `{"name": ..., "params": {...}}`, and the policies to which it refers by key."""


@dataclass(frozen=True)
class Param:
    """One parameter of a controller: default, description and allowed values.

    `choices` lists allowed values; `low` and `high` are the bounds of a number, both included. With both, either is
    allowed. With neither, any value of the default's type is allowed. `only_with`: another parameter and the value
    that it must have for this one to act.
    """

    default: Any
    description: str
    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    only_with: tuple[str, Any] | None = None

    def check(self, name: str, value: Any) -> Any:
        """`value` in the type of the parameter. Raises OrbitccError if it is not allowed."""
        if self.choices:
            if value in self.choices:
                return value
            if self.high is None:
                raise UnknownNameError(name, value, [str(c) for c in self.choices])
            words = ", ".join(str(c) for c in self.choices)
            return self._number(name, value, f"{words} or ")
        if isinstance(self.default, bool):
            if isinstance(value, bool):
                return value
            raise OrbitccError(name, value, "true or false")
        if isinstance(self.default, int | float):
            return self._number(name, value)
        if isinstance(value, str):
            return value
        raise OrbitccError(name, value, "text")

    def _number(self, name: str, value: Any, otherwise: str = "") -> int | float:
        low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
        try:
            checked: int | float = checked_number(
                value, low, high, whole=not isinstance(self.default, float), otherwise=otherwise
            )
        except OrbitccError as error:
            raise error.at(name) from None
        return checked


HOST_PARAMS: Mapping[str, Param] = {
    "kernel": Param(
        "network",
        "TCP of the hosts and version of the algorithm: Linux 6.x (v6), 6.12, 4.15, or as in the scenario (network)",
        choices=("network", "v6", "v6_12", "v4_15"),
    ),
    "ssthresh_cache": Param(
        "network",
        "initial slow-start threshold: none (off), the one stored by earlier flows on the path (live), or in packets",
        choices=("network", "off", "live"),
        low=2,
        high=2**31 - 2,
    ),
    "ecn": Param(
        "network",
        "Explicit Congestion Notification of the flow: off, RFC 3168 (classic), RFC 9768 (accurate), or as in the "
        "scenario (network)",
        choices=("network", "off", "classic", "accurate"),
    ),
}
"""Parameters of every controller over TCP."""


@dataclass(frozen=True)
class ControllerInfo:
    """A controller in the registry.

    make: called with all parameters of `params`, checked and with defaults filled in.
    called: what flows with these parameters are named after; empty: the name of the controller.
    """

    name: str
    kind: Kind
    description: str
    make: Callable[[dict[str, Any]], Made]
    paper: str = ""
    params: Mapping[str, Param] = field(default_factory=dict)
    called: Callable[[Mapping[str, Any]], str] = lambda params: ""


_TABLE: dict[str, ControllerInfo] = {}


def register(info: ControllerInfo) -> ControllerInfo:
    """Add a controller. Raises ValueError if the name is already registered."""
    if info.name in _TABLE:
        raise ValueError(f"controller {info.name!r} is already registered")
    _TABLE[info.name] = info
    return info


def get(name: str, field: str = "controller") -> ControllerInfo:
    """The controller called `name`. Raises UnknownNameError about `field` with the nearest valid name."""
    try:
        return _TABLE[name]
    except KeyError:
        raise UnknownNameError(field, name, names(), "orbitcc list controllers") from None


def names(kind: Kind | None = None) -> tuple[str, ...]:
    """The registered names, sorted: those of one kind, or all that a user can choose."""
    return tuple(sorted(n for n, c in _TABLE.items() if (c.kind == kind if kind else c.kind != "internal")))


def check(name: str, params: Mapping[str, Any], field: str = "controller") -> dict[str, Any]:
    """All parameters of the controller `name`, checked, with defaults. Raises OrbitccError about `field`."""
    info = get(name, field)
    for key in params:
        if key not in info.params:
            raise UnknownNameError(f"{field}.{key}", key, info.params)
    checked = {k: p.check(f"{field}.{k}", params.get(k, p.default)) for k, p in info.params.items()}
    for key, param in info.params.items():
        if param.only_with is not None and checked[key] != param.default:
            other, needed = param.only_with
            if checked[other] != needed:
                raise OrbitccError(f"{field}.{key}", checked[key], f"{param.default} unless {other} = {needed}")
    return checked


def make(name: str, params: Mapping[str, Any], field: str = "controller") -> Made:
    """The native controller for `name` with these parameters. Raises OrbitccError about `field`."""
    return get(name, field).make(check(name, params, field))


def _native_external(params: dict[str, Any]) -> Made:
    return {"name": EXTERNAL, "params": params}, {}


register(
    ControllerInfo(
        name=EXTERNAL,
        kind="internal",
        description="driven step by step by an environment; not for plain runs",
        make=_native_external,
    )
)


def _no_program(params: dict[str, Any]) -> Made:
    raise OrbitccError("controller", PROGRAM, "a run with --backend emulator: only there is a program's TCP or QUIC")


register(
    ControllerInfo(
        name=PROGRAM,
        kind="internal",
        description="a client and a server of somebody else; of --program and --server",
        make=_no_program,
        params={key: Param("", f"of a program: its {key}") for key in ("name", "client", "server")},
        called=lambda params: str(params.get("name", "")),
    )
)
