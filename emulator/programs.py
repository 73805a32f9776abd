"""Programs of somebody else in place of flows: a client and its server for each, as the command line names them."""

from __future__ import annotations

import math
import re
import shlex
import shutil
from collections.abc import Sequence
from typing import Any

from orbitcc.common.errors import MissingError, OrbitccError, StateError
from orbitcc.envs import controllers
from orbitcc.envs.controllers import PROGRAM
from orbitcc.envs.description.compile import ns
from orbitcc.envs.description.flows import Bulk, ControllerSpec, Flow
from orbitcc.envs.description.scenario import Scenario

FIRST_PORT = 6001
SECONDS_MORE = 2
"""Added to {seconds}: a client is ended with its flow, and one that ends before has failed."""
_PLACEHOLDER = re.compile(r"\{([^{}\s]*)\}")
_TURNED = "data from the server: "
_from_server: set[tuple[str, str]] = set()
"""Commands of clients that were seen to receive the data, with those of their servers."""


def specs(programs: Sequence[str], servers: Sequence[str]) -> list[ControllerSpec]:
    """The controllers of `--program NAME=COMMAND` and `--server [NAME=]COMMAND`, in the order of the programs.

    Raises OrbitccError for a name that is given twice, a missing server, an unknown placeholder, and no such command.
    """
    clients = _named("--program", programs, [text.partition("=")[0].strip() for text in programs])
    for name in clients:
        if not re.fullmatch(r"[\w.-]+", name):
            raise OrbitccError("--program", name, "NAME=COMMAND with a name of letters, digits, '.', '_' and '-'")
    own = _named("--server", servers, list(clients))
    for name in (name for name in clients if not own.get(name, own.get(""))):
        raise MissingError(f"--server {name}=COMMAND")
    if servers and not clients:
        raise MissingError("--program")
    found = []
    for name, client in clients.items():
        params = {"name": name, "client": client, "server": own.get(name, own.get("", ""))}
        for field in ("client", "server"):
            words(params[field], {}, {"client": "--program", "server": "--server"}[field])
        found.append(ControllerSpec(name=PROGRAM, params=params))
    return found


def _named(option: str, texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Name -> command; the name is empty where a text begins with none of these."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, command = text.partition("=")
        name, command = (name.strip(), command) if name.strip() in names else ("", text)
        if name in found:
            raise OrbitccError(option, text, "one command for each name")
        found[name] = command
    return found


def shell_words(command: str, field: str) -> list[str]:
    """The words of a command. Raises OrbitccError about `field`: an open quote, or a command that is not found."""
    try:
        split = shlex.split(command)
    except ValueError as error:
        raise OrbitccError(field, command, f"words as in a shell ({error})") from None
    if not split or shutil.which(split[0]) is None:
        raise OrbitccError(field, split[0] if split else command, "a command that this machine has")
    return split


def words(command: str, values: dict[str, Any], field: str) -> list[str]:
    """The words of a command, with values for its placeholders.

    Raises OrbitccError about `field`: an unknown placeholder, a quote that is not closed, a command that is not found.
    """
    for name in _PLACEHOLDER.findall(command):
        if name not in ("server", "port", "seconds"):
            raise OrbitccError(field, f"{{{name}}}", "the placeholders {server}, {port} and {seconds}")
    split = shell_words(command, field)
    return [_PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), word) for word in split]


def is_program(flow: Flow) -> bool:
    return flow.controller.name == PROGRAM


def setup(scenario: Scenario) -> list[dict[str, Any]]:
    """The clients and servers of a scenario's flows, as the emulator starts them; OrbitccError for other than bulk."""
    found = []
    for i, flow in enumerate(scenario.flows):
        if not is_program(flow):
            continue
        if not isinstance(flow.traffic, Bulk):
            raise OrbitccError(f"flows.{i}.traffic", flow.traffic.kind, "bulk for a program, which sends what it likes")
        params, stop_s = (
            controllers.check(PROGRAM, flow.controller.params),
            min(flow.stop_s or math.inf, scenario.duration_s),
        )
        side = int((params["client"], params["server"]) in _from_server)
        # Addresses as in `carrier::address`.
        values = {"server": f"10.{1 - side}.{i // 250}.{i % 250 + 1}", "port": FIRST_PORT + i,
                  "seconds": math.ceil(stop_s - flow.start_s) + SECONDS_MORE}  # fmt: skip
        commands = {key: words(params[key], values, f"flows.{i}.controller.{key}") for key in ("client", "server")}
        found.append({"flow": i, "name": params["name"], **commands, "port": values["port"], "side": side,
                      "stop": ns(stop_s), "settled": side == 1})  # fmt: skip
    return found


def with_flows_of_ours(scenario: Scenario) -> Scenario:
    """The scenario as the simulator's code follows it: a flow of TCP stands for each program."""
    reno = ControllerSpec(name="reno")
    return scenario.with_flows([f.changed(controller=reno) if is_program(f) else f for f in scenario.flows])


def refused(scenario: Scenario, error: ValueError) -> bool:
    """Whether a run that failed has to begin anew, with a client at the other end of its flow since its data come from
    the server; StateError if a program failed."""
    text = str(error)
    if text.startswith(_TURNED):
        params = scenario.flows[int(text.removeprefix(_TURNED))].controller.params
        _from_server.add((params["client"], params["server"]))
        return True
    if text.startswith("program "):
        name, _, sentence = text.partition(": ")
        raise StateError(name, sentence) from None
    return False


def check(report: Sequence[dict[str, Any]]) -> None:
    """StateError about a program that has sent more against the direction of its data than in it."""
    for one in report:
        if one["returned_bytes"] > one["data_bytes"]:
            sentence = f"more payload came back ({one['returned_bytes']}) than went there ({one['data_bytes']} bytes)"
            raise StateError(f"program {one['name']}", f"{sentence}: a program that sends in one direction is needed")
