"""What the simulator says of a network that it does not take, in the names of the scenario."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import controllers
from orbitcc.envs.description.flows import ControllerSpec
from orbitcc.envs.description.model import Model

if TYPE_CHECKING:
    from orbitcc.envs.description.scenario import Scenario

_OURS = {"tcp": "sim", "quic": "transport", "relays": "pep", "from": "of"}
_OF_CONTROLLER = re.compile(r"(flows\[\d+\]\.controller): (?:[\w-]+\.)?(\w+)(?: = [^:]*)?: (.*)", re.DOTALL)
_OF_OTHERS = re.compile(r"([\w.\[\]]+) = [^:]*: (.*)", re.DOTALL)


def refusal(scenario: Scenario, error: ValueError, takes: str) -> OrbitccError:
    """The error that the native check of a network (`sim/core/src/validation`) raised, about the scenario's own field.

    takes: who refuses, e.g. `the simulator takes`.
    """
    text = str(error)
    if found := _OF_CONTROLLER.fullmatch(text):
        native, reason = f"{found[1]}.{found[2]}", found[3]
    elif found := _OF_OTHERS.fullmatch(text):
        native, reason = found[1], found[2]
    else:
        return OrbitccError("scenario", scenario.name, f"a network {takes}: {text}")
    field, value = _field(scenario, native)
    if field == "sim.rmem_bytes" and value is None:  # the default is too small for the packets
        field, value, reason = "sim.mss_bytes", scenario.sim.mss_bytes, text
    return OrbitccError(field, value, f"a value {takes} ({reason})")


def _field(scenario: Scenario, native: str) -> tuple[str, Any]:
    """The dotted name and the value of what has this native name; of its table, if it has no field of its own."""
    node: Any = scenario
    parts: list[str] = []
    for word in re.findall(r"\w+", native):
        if isinstance(node, tuple):
            if not word.isdigit():  # of a point of a schedule: time and value
                break
            parts.append(word)
            node = node[int(word)]
            if isinstance(node, tuple):
                parts.append("1")
                node = node[1]
        elif isinstance(node, ControllerSpec) and word != "name":
            known = controllers.check(node.name, node.params)
            if word in known:
                parts += ["params", word]
                node = known[word]
            break
        elif isinstance(node, Model):
            if word == "forward" or word.isdigit() or (word == "reverse" and getattr(node, word) is None):
                continue  # there are no such tables: a single value is a schedule of one point
            ours = _OURS.get(word, word)
            names = [name for name in type(node).model_fields if name == ours or name.startswith(f"{ours}_")]
            if not names:
                break
            parts.append(names[0])
            node = getattr(node, names[0])
    return ".".join(parts), node
