"""Learned policies in the table of controllers: every shipped checkpoint by its name, any other as `policy:path=...`.

A path is a checkpoint's folder, or `package.module:factory` (:mod:`orbitcc.agents.python_policy`), or the checkpoint of
another library, `rllib:FOLDER` or `sb3:FILE` with its own options (:mod:`orbitcc.agents.libraries`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitcc.agents.runs.folders import CARD, SHIPPED, shipped
from orbitcc.common.errors import OrbitccError
from orbitcc.envs import controllers
from orbitcc.envs.controllers import LEAST_DELAY, AnyPolicy, ControllerInfo, Made, Param

if TYPE_CHECKING:
    from orbitcc.envs.description.flows import ControllerSpec

LEAST_INTERVAL_MS = 0.1
OPTIONS = {
    "interval_ms": Param(0.0, "ms between decisions; 0: as the policy's card says", low=0.0, high=10_000.0),
    "arithmetic": Param(
        "float", "arithmetic of the policy: float, or fixed (integers, as in a BPF program)", choices=("float", "fixed")
    ),
    "delay": Param(
        0.0,
        "how much delay counts, 0.01 to 1, for a policy that observes a preference; 0: as the policy's card says",
        low=0.0,
        high=1.0,
    ),
}
"""Parameters of every policy."""


def policy_spec(text: str) -> ControllerSpec:
    """The controller for `POLICY[:option=value,...]`, with a checkpoint's name or folder, or package.module:factory.

    Raises:
        OrbitccError: an option that policies do not have, or a value that is not allowed.
    """
    from orbitcc.agents.libraries import is_library_policy
    from orbitcc.envs.description.flows import ControllerSpec

    if is_library_policy(text):
        return ControllerSpec(name="policy", params={"path": text})
    path, colon, options = text.rpartition(":")
    if not colon or "=" not in options:
        return ControllerSpec(name="policy", params={"path": text})
    given = ControllerSpec.parse(f"policy:{options}").params
    if "path" in given:
        raise OrbitccError("path", given["path"], f"{', '.join(OPTIONS)} after the policy")
    return ControllerSpec(name="policy", params={"path": path, **given})


def _make(name_or_path: str, interval_ms: float, arithmetic: str, delay: float) -> Made:
    from orbitcc.agents import python_policy
    from orbitcc.agents.checkpoint import load, policy_with

    if 0 < interval_ms < LEAST_INTERVAL_MS:
        raise OrbitccError("controller.interval_ms", interval_ms, f"0, or {LEAST_INTERVAL_MS} ms and more")
    if 0 < delay < LEAST_DELAY:
        raise OrbitccError("controller.delay", delay, f"0, or {LEAST_DELAY} to 1")
    policy: AnyPolicy
    if python_policy.is_python_policy(name_or_path):
        if interval_ms:
            raise OrbitccError("controller.interval_ms", interval_ms, "0: a policy in Python has its own")
        if arithmetic == "fixed":
            raise OrbitccError("controller.arithmetic", arithmetic, "float: a policy in Python has no fixed-point form")
        if delay:
            raise OrbitccError("controller.delay", delay, "0: a policy in Python observes no preference")
        key, policy = name_or_path, python_policy.load(name_or_path)
    else:
        checkpoint = load(name_or_path)
        key, policy = str(checkpoint.path), checkpoint.policy
        if interval_ms or delay:
            key += (f"@{interval_ms:g}ms" if interval_ms else "") + (f":delay={delay:g}" if delay else "")
            try:
                policy = policy_with(checkpoint, interval_ms=interval_ms, delay=delay)
            except OrbitccError as error:
                raise error.under("controller") from None
        if arithmetic == "fixed":
            try:
                key, policy = f"{key}:fixed", policy.fixed()
            except ValueError as error:
                allowed = f"float for the policy {checkpoint.card.name}: {error}"
                raise OrbitccError("controller.arithmetic", arithmetic, allowed) from None
    return {"name": "policy", "params": {"policy": key}}, {key: policy}


def _agent(params: dict[str, Any]) -> Made:
    if not params["path"]:
        allowed = "the folder or the name of a checkpoint, or package.module:factory"
        raise OrbitccError("controller.path", params["path"], allowed)
    return _make(params["path"], **{option: params[option] for option in OPTIONS})


def _called(params: Mapping[str, Any]) -> str:
    from orbitcc.agents import libraries

    path = str(params.get("path", ""))
    return libraries.label(path) if libraries.is_library_policy(path) else "/".join(Path(path).parts[-2:])


def register_agents() -> None:
    """Register `policy` and every shipped checkpoint; weights are read at the first use."""
    controllers.register(
        ControllerInfo(
            name="policy",
            kind="policy",
            description="a trained policy from a checkpoint folder, or one in Python",
            make=_agent,
            params={
                "path": Param("", "folder or name of the checkpoint, or package.module:factory"),
                **OPTIONS,
            },
            called=_called,
        )
    )
    for name in shipped():
        description = json.loads((SHIPPED / name / CARD).read_text(encoding="utf-8"))["description"]
        controllers.register(
            ControllerInfo(
                name,
                "policy",
                description,
                lambda params, name=name: _make(name, **params),  # type: ignore[misc]
                params=OPTIONS,
            )
        )
