"""Registration of controllers that the simulator implements under the same name and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orbitcc.envs.controllers import HOST_PARAMS, ControllerInfo, Made, Param, register

RESUME: Mapping[str, Param] = {
    "resume_cwnd": Param(
        0.0,
        "Careful Resume (RFC 9959): window of an earlier connection over this path, in segments; 0: off",
        low=0,
        high=1e6,
    ),
    "resume_rtt_ms": Param(0.0, "RTT of that earlier connection, ms", low=0, high=1e6),
}
"""Parameters of controllers with Careful Resume."""

NO_THRESHOLD: Mapping[str, Param] = {
    "ssthresh_cache": replace(
        HOST_PARAMS["ssthresh_cache"],
        description="the flow leaves a slow-start threshold to later flows on its path (live), or none (off); it uses "
        "none itself",
        low=None,
        high=None,
    )
}
"""Of controllers that do not use the slow-start threshold."""

ACCURATE_ECN: Mapping[str, Param] = {
    "ecn": replace(HOST_PARAMS["ecn"], description="always RFC 9768 (accurate)", choices=("network", "accurate"))
}
"""Of controllers that need accurate ECN."""


def native(
    name: str,
    description: str,
    *,
    paper: str = "",
    params: Mapping[str, Param] | None = None,
    tcp: bool = True,
) -> ControllerInfo:
    """Register the native controller `name`; a controller over TCP also has the parameters of its hosts."""
    unwritten = dict.fromkeys(HOST_PARAMS, "network") if tcp else {}

    def make(values: dict[str, Any]) -> Made:
        given = {key: value for key, value in values.items() if key not in unwritten or unwritten[key] != value}
        return {"name": name, "params": given}, {}

    own = params or {}
    known = {**own, **{key: param for key, param in HOST_PARAMS.items() if tcp and key not in own}}
    return register(ControllerInfo(name, "baseline", description, make, paper=paper, params=known))


def preset(of: ControllerInfo, name: str, description: str, **values: Any) -> ControllerInfo:
    """Register `of` under another name, with these parameters fixed."""

    def make(rest: dict[str, Any]) -> Made:
        return of.make({**{k: p.default for k, p in of.params.items()}, **rest, **values})

    rest = {k: p for k, p in of.params.items() if k not in values and _acts(p, values)}
    return register(ControllerInfo(name, "baseline", description, make, paper=of.paper, params=rest))


def _acts(param: Param, fixed: Mapping[str, Any]) -> bool:
    """Can a parameter act beside these fixed ones?"""
    return param.only_with is None or fixed.get(param.only_with[0], param.only_with[1]) == param.only_with[1]
