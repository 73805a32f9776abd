"""Learned policies in the table of controllers: every shipped checkpoint by its name, any other as `policy:path=...`.

A path is a checkpoint's folder, or `package.module:factory` (:mod:`orbitcc.agents.python_policy`).
"""

import json
from typing import Any

from orbitcc.agents.folders import CARD, SHIPPED, shipped
from orbitcc.envs import controllers
from orbitcc.envs.controllers import ControllerInfo, Made, Param
from orbitcc.envs.errors import OrbitccError

INTERVAL = Param(0.0, "ms between decisions; 0: as the policy's card says", low=0.0, high=10_000.0)
LEAST_INTERVAL_MS = 0.1


def _make(name_or_path: str, interval_ms: float) -> Made:
    from orbitcc.agents import python_policy
    from orbitcc.agents.checkpoint import load, policy_every

    if 0 < interval_ms < LEAST_INTERVAL_MS:
        raise OrbitccError("controller.interval_ms", interval_ms, f"0, or {LEAST_INTERVAL_MS} ms and more")
    if python_policy.is_python_policy(name_or_path):
        if interval_ms:
            raise OrbitccError("controller.interval_ms", interval_ms, "0: a policy in Python has its own")
        return {"name": "policy", "params": {"policy": name_or_path}}, {name_or_path: python_policy.load(name_or_path)}
    checkpoint = load(name_or_path)
    key = str(checkpoint.path)
    if not interval_ms:
        return {"name": "policy", "params": {"policy": key}}, {key: checkpoint.policy}
    key = f"{key}@{interval_ms:g}ms"
    return {"name": "policy", "params": {"policy": key}}, {key: policy_every(checkpoint, interval_ms)}


def _agent(params: dict[str, Any]) -> Made:
    if not params["path"]:
        allowed = "the folder or the name of a checkpoint, or package.module:factory"
        raise OrbitccError("controller.path", params["path"], allowed)
    return _make(params["path"], params["interval_ms"])


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
                "interval_ms": INTERVAL,
            },
        )
    )
    for name in shipped():
        description = json.loads((SHIPPED / name / CARD).read_text(encoding="utf-8"))["description"]
        controllers.register(
            ControllerInfo(
                name,
                "policy",
                description,
                lambda params, name=name: _make(name, params["interval_ms"]),  # type: ignore[misc]
                params={"interval_ms": INTERVAL},
            )
        )
