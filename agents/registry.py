"""Learned policies in the table of controllers: every shipped checkpoint by its name, any other as `agent:path=...`.

A path is a checkpoint's folder, or `package.module:factory` (:mod:`orbitcc.agents.outside`).
"""

import json
from typing import Any

from orbitcc.agents.folders import CARD, SHIPPED, shipped
from orbitcc.envs import controllers
from orbitcc.envs.controllers import ControllerInfo, Made, Param
from orbitcc.envs.errors import OrbitccError


def _make(name_or_path: str) -> Made:
    from orbitcc.agents import outside
    from orbitcc.agents.checkpoint import load

    if outside.is_outside(name_or_path):
        return {"name": "policy", "params": {"policy": name_or_path}}, {name_or_path: outside.load(name_or_path)}
    checkpoint = load(name_or_path)
    key = str(checkpoint.path)
    return {"name": "policy", "params": {"policy": key}}, {key: checkpoint.policy}


def _agent(params: dict[str, Any]) -> Made:
    if not params["path"]:
        allowed = "the folder or the name of a checkpoint, or package.module:factory"
        raise OrbitccError("controller.path", params["path"], allowed)
    return _make(params["path"])


def register_agents() -> None:
    """Register `agent` and every shipped checkpoint; weights are read when a flow uses them."""
    controllers.register(
        ControllerInfo(
            name="agent",
            kind="agent",
            description="a trained policy from a checkpoint folder, or one in Python",
            make=_agent,
            params={"path": Param("", "folder or name of the checkpoint, or package.module:factory")},
        )
    )
    for name in shipped():
        description = json.loads((SHIPPED / name / CARD).read_text(encoding="utf-8"))["description"]
        controllers.register(
            ControllerInfo(name, "agent", description, lambda params, name=name: _make(name))  # type: ignore[misc]
        )
