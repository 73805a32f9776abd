"""Ray: starts it on this machine or joins a cluster, compares the nodes' versions, runs tasks on every node."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import json
import logging
import os
import pickle
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from orbitcc.common import provenance
from orbitcc.common.errors import OrbitccError, StateError
from orbitcc.common.extras import installing
from orbitcc.common.files import MOST_TABLE, read_bytes
from orbitcc.common.names import plain

AUTO, LOCAL = "auto", "local"
"""Addresses: the running cluster, or a local one where none runs; always a local one."""
WHEEL = "ORBITCC_RAY_WHEEL"
"""Environment variable: a wheel of OrbitCC that Ray installs on nodes for the tasks of this process."""
ATTEMPTS = 3
"""How often Ray is started when it takes too long."""
TRIES = 4
"""How often a task is run when its worker or its node dies."""
PER_CORE = 2
"""Tasks that are submitted at once, per core of the cluster: one runs, one waits."""
BATCHES, WAIT_S = 8, 0.1
"""Results are taken when one of so many parts of the tasks has ended, or after so many seconds."""
ANSWER_S = 10.0
"""So long may a cluster take to answer before it is joined."""
LOOPBACK = "127.0.0.1"
OF_A_DRIVER = "orbitray-"
"""Temporary folders of local Rays begin with this: short, because names of sockets have at most 107 bytes."""
LOOK_EVERY_S = 1.0
"""Seconds between two looks at the size of the cluster, which may grow."""


def ray_module() -> Any:
    """Ray, imported with the settings that it reads then: no reports to its makers.

    Raises:
        OrbitccError: it is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise OrbitccError("ray", "(not installed)", f"an installation with {installing('train')}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # of workers; Ray itself waits 30 s, whatever is set
    import ray

    return ray


def find(address: str) -> str:
    """The address to start with: HOST:PORT, or `local`. `auto` becomes the running cluster's, or `local`.

    Ray itself would try for minutes where nothing answers, so this asks first.

    Raises:
        OrbitccError: Ray is not installed, or nothing answers at an address that was named.
    """
    if ray_module().is_initialized():
        return address
    if address == AUTO:
        from ray._private.services import find_bootstrap_address

        address = os.environ.get("RAY_ADDRESS") or AUTO
        if address == AUTO:  # what `ray start` has left, perhaps of a cluster that was killed
            left = find_bootstrap_address(None)
            if not left:
                return LOCAL
            file = importlib.import_module("ray._common.utils").get_ray_address_file(None)
            if why := _silent(left):
                said = f"ray: nothing answers at {left}, the address in {file} ({why}): this machine alone is used"
                print(plain(said), file=sys.stderr)
                return LOCAL
            if why := _unusable(left):  # perhaps a busy cluster: not replaced by this machine alone without being asked
                allowed = f"a Ray cluster that runs, or --ray local; `ray stop` removes the entry ({why})"
                raise OrbitccError("ray", f"{left} (from {file})", allowed)
            return left
    if address != LOCAL and (why := _silent(address) or _unusable(address)):
        raise OrbitccError("ray", address, f"HOST:PORT of a running Ray cluster, auto or local ({why})")
    return address


def _silent(address: str) -> str:
    """Why nothing answers at an address; empty where something does."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError, OverflowError) as error:
        return str(error)
    return ""


_ASK = """
import json, sys
from ray._raylet import GcsClient
print(flush=True)
nodes = GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10).values()
print(json.dumps([node.node_manager_address for node in nodes if node.state == 0]))
"""
"""Asks in a process of its own: Ray's client cannot be interrupted. The first line says that Ray is imported."""


def _unusable(address: str) -> str:
    """Why this process cannot join what answers at an address; empty where it can.

    A driver needs a node of the cluster on its own machine; without one, Ray waits for minutes.
    """
    if address.startswith("ray://"):
        return ""
    asking = subprocess.Popen(
        [sys.executable, "-P", "-c", _ASK, address], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with asking, ThreadPoolExecutor(1) as reader:
        assert asking.stdout is not None
        asking.stdout.readline()
        answer = reader.submit(asking.stdout.readline)
        try:
            nodes = json.loads(answer.result(ANSWER_S))
        except (TimeoutError, ValueError):
            return f"what listens there did not answer as Ray within {ANSWER_S:g} s"
        finally:
            asking.kill()
    here = ray_module()._private.services.node_ip_address_from_perspective(address)
    if here in nodes:
        return ""
    if LOOPBACK in nodes:
        _loopback(True)
        return ""
    return f"none of its nodes, {', '.join(nodes)}, runs on this machine: ray start --address={address}"


def _loopback(only: bool) -> None:
    """Let Ray use this machine's loopback address, as it does by itself on macOS, or the one that others can reach."""
    constants = importlib.import_module("ray._private.ray_constants")
    os.environ[constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = str(int(not only))
    vars(constants)["ENABLE_RAY_CLUSTER"] = not only  # Ray read the variable when it was imported


def _keep_to_this_machine() -> None:
    """A local Ray listens on the loopback address, and answers only who has the token that this process made."""
    _loopback(True)
    if os.environ.get("RAY_AUTH_MODE") != "token" or "RAY_AUTH_TOKEN" not in os.environ:
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
        with contextlib.suppress(ImportError):  # a Ray without tokens
            setup = importlib.import_module("ray._private.authentication.authentication_token_setup")
            setup.Config.initialize("")  # Ray has read both variables when it was imported
            setup.AuthenticationTokenLoader.instance().reset_cache()


@cache
def _private_folder() -> Path:
    """A folder of this user alone for Ray, which lets every user write into its own; removed when this process ends."""
    from orbitcc.agents.runs.folders import temporary

    stack = ExitStack()
    atexit.register(stack.close)
    home = importlib.import_module("ray._common.utils").get_default_system_temp_dir()
    folder = stack.enter_context(temporary(Path(home), OF_A_DRIVER))
    stack.callback(ray_module().shutdown)
    return folder


def start(address: str = LOCAL, cpus: int | None = None) -> bool:
    """Start Ray on this machine, or join the cluster at an address of :func:`find`.

    It never joins a cluster that was not named, whatever Ray's temporary folder or RAY_ADDRESS says. cpus: cores of a
    local one, default all. Returns False where this process is part of a cluster already.
    """
    ray = ray_module()
    if ray.is_initialized():
        return False
    arguments: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        _keep_to_this_machine()
        arguments |= {"include_dashboard": False, "num_cpus": cpus, "_temp_dir": str(_private_folder() / "r")}
    elif wheel := os.environ.get(WHEEL):
        if not Path(wheel).is_file():
            raise OrbitccError(WHEEL, wheel, "the path of a wheel of OrbitCC (`make dist` makes one)")
        if " " in sys.executable:  # Ray does not quote this path in the command that starts workers, and waits forever
            raise OrbitccError(WHEEL, wheel, f"with Python in a folder without spaces (here {sys.executable})")
        arguments["runtime_env"] = {"py_modules": [wheel]}
    _init(ray, arguments)
    return True


def _init(ray: Any, arguments: Mapping[str, Any]) -> None:
    """`ray.init`, again where the daemon of a busy machine needs longer than the 30 s that Ray waits for it.

    Raises:
        OrbitccError: it does not start: one sentence where Ray has a page of them.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init(**arguments)
            return
        except Exception as error:
            ray.shutdown()
            if attempt == ATTEMPTS or "timed out" not in str(error):
                first = " ".join(str(error).split())[:200] or type(error).__name__
                where = "it" if arguments["address"] == LOCAL else f"the cluster at {arguments['address']}"
                raise StateError("ray", f"{where} did not start in {attempt} attempts: {first}") from None


@contextmanager
def joined(address: str, cpus: int | None = None) -> Iterator[None]:
    """Ray within a `with` block: started or joined, and every node's version compared.

    Raises:
        OrbitccError: it does not start, or a node has another version.
    """
    address = find(address)
    began = start(address, cpus)
    try:
        if began and address != LOCAL:
            compare(nodes())
        yield
    finally:
        if began:
            ray_module().shutdown()


# -- versions ----------------------------------------------------------------------------------------------------------


@cache
def versions() -> dict[str, str]:
    """What has to be the same on all nodes: code, simulator, Python, and the libraries that compute."""
    return {**provenance.versions(), "code": provenance.code()}


@dataclass(frozen=True)
class Node:
    """A node of the cluster. versions: as :func:`versions` there, or `error` with the reason why there are none."""

    id: str
    host: str
    cores: int
    memory_gb: float
    versions: Mapping[str, str]


def nodes() -> list[Node]:
    """All nodes that live, those with cores first."""
    ray = ray_module()
    alive = [node for node in ray.nodes() if node["Alive"]]
    looks = [_on(node["NodeID"]).remote() for node in alive]
    found = []
    for node, look in zip(alive, looks, strict=True):
        try:
            seen = ray.get(look)
        except ray.exceptions.RayError as error:
            seen = {"error": line(error)}
        has = node["Resources"]
        host = f"{node['NodeManagerAddress']} ({node['NodeID'][:6]})"
        found.append(Node(node["NodeID"], host, int(has.get("CPU", 0)), has.get("memory", 0.0) / 2**30, seen))
    return sorted(found, key=lambda node: -node.cores)


def _on(node: str) -> Any:
    """A task that says a node's versions. It is sent by value: the node may lack OrbitCC."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def look() -> dict[str, str]:
        try:
            return importlib.import_module("orbitcc.parallel.cluster").versions()
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray_module().remote(look).options(num_cpus=0, scheduling_strategy=there)


def compare(found: Iterable[Node]) -> None:
    """Raises OrbitccError where a node's versions are not those of this process."""
    wrong = [(node, text) for node in found if node.cores and (text := difference(node.versions))]
    if wrong:
        node, text = wrong[0]
        more = f" (as {len(wrong) - 1} more nodes)" if len(wrong) > 1 else ""
        raise StateError("ray", f"node {node.host} has {text}{more}; {REMEDY}")


REMEDY = f"install the same wheel on all (`make dist` makes it), or set {WHEEL} to its path"


def difference(there: Mapping[str, str]) -> str:
    """What is different there, in words; empty where nothing is."""
    if "error" in there:
        return f"no OrbitCC that runs ({there['error']})"
    other = [(key, there.get(key, "unknown"), here) for key, here in versions().items() if there.get(key) != here]
    return ", ".join(f"{key} {theirs} (here {here})" for key, theirs, here in other)


# -- tasks -------------------------------------------------------------------------------------------------------------

ON_A_NODE = "orbitcc-node-"
"""Temporary folders of the processes of a cluster begin with this."""
Sent = Mapping[str, Mapping[str, bytes]]
"""Checkpoints that travel with tasks: path -> file -> content."""


def submit(function: Callable[[Any], Any], item: Any, sent: Any = None, **options: Any) -> Any:
    """Start function(item) on some node; returns the reference for :func:`result`.

    sent: reference of checkpoints that are to be found there under their paths here. options: Ray's, of a task.
    """
    return _remote(**options).remote(pickle.dumps((function, item)), versions(), sent)


@cache
def _remote(**options: Any) -> Any:
    """The task of all calls. It is sent by value: a node that joins late may lack OrbitCC, or have another."""

    def call(payload: bytes, expected: dict[str, str], sent: Any) -> tuple[Any, Any]:
        try:
            here = importlib.import_module("orbitcc.parallel.cluster")
            found = here.versions()
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        if found != expected:
            return found, None
        if sent:
            here.receive(sent)
        function, item = pickle.loads(payload)
        return None, function(item)

    return ray_module().remote(call).options(**options)


def cores() -> int:
    """The cores of all nodes."""
    return int(ray_module().cluster_resources().get("CPU", 0))


def result(reference: Any) -> Any:
    """The result of a finished :func:`submit`.

    Raises:
        OrbitccError: raised by the function, or the node has another version.
        ray.exceptions.RayError: the worker or the node died, or the function has failed with another error.
    """
    ray = ray_module()
    try:
        found, value = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, OrbitccError):
            raise error.cause from None
        raise
    if found is not None:
        raise StateError("ray", f"a node has {difference(found)}; {REMEDY}")
    return value


def tasks(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    name: Callable[[Any], str],
    sent: Sent | None = None,
) -> Iterator[tuple[int, Any]]:
    """(position, function(item)) of every item, as they finish; each takes a core of some node.

    No more are submitted than the cluster will soon run. Where a worker or a node dies, Ray runs the task again
    elsewhere; what fails in every try is reported at the end.

    Raises:
        OrbitccError: raised by a task; or tasks were lost, with the name of the first.
    """
    ray = ray_module()
    shared = ray.put(sent) if sent else None
    running: dict[Any, int] = {}
    waiting, lost, limit, looked = iter(range(len(items))), [], 0, -LOOK_EVERY_S
    while True:
        if time.monotonic() - looked >= LOOK_EVERY_S:
            limit = max(16, PER_CORE * cores())
            looked = time.monotonic()
        for k in islice(waiting, max(0, limit - len(running))):
            running[submit(function, items[k], shared, num_cpus=1, max_retries=TRIES - 1)] = k
        if not running:
            break
        # Looking through thousands of references takes a millisecond: not for every one that ends.
        ready, _ = ray.wait(list(running), num_returns=1 + len(running) // BATCHES, timeout=WAIT_S)
        for reference in ready:
            k = running.pop(reference)
            try:
                value = result(reference)
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayError as error:
                lost.append(f"{name(items[k])} ({line(error)})")
            else:
                yield k, value
    if lost:
        worst = "; ".join(lost[:3])
        raise StateError(
            "ray", f"{len(lost)} of {len(items)} failed in {TRIES} tries each; --resume tries them again: {worst}"
        )


def line(error: Exception) -> str:
    """The first sentence of one of Ray's errors, which fill pages."""
    return " ".join(str(error).split())[:200].partition(". ")[0] or type(error).__name__


def checkpoints(policies: Iterable[str]) -> Sent:
    """Checkpoints by their paths, for nodes that do not share this machine's disks.

    Raises:
        OrbitccError: a policy in the files of another library, which other machines neither have nor trust.
    """
    from orbitcc.agents.checkpoint import CARD, WEIGHTS, resolve
    from orbitcc.agents.libraries import is_library_policy
    from orbitcc.agents.python_policy import is_python_policy

    paths = set(policies)
    for path in filter(is_library_policy, sorted(paths)):
        raise OrbitccError("ray", path, "policies of OrbitCC; those of other libraries run on this machine (--workers)")
    own = {path: resolve(path) for path in paths if not is_python_policy(path)}
    return {
        path: {name: read_bytes(folder / name, MOST_TABLE) for name in (CARD, WEIGHTS)} for path, folder in own.items()
    }


def receive(sent: Sent) -> None:
    """Keep checkpoints in a folder of this process, where :func:`orbitcc.agents.checkpoint.resolve` finds them."""
    from orbitcc.agents.runs.folders import SENT

    for path, files in sent.items():
        if path not in SENT:
            SENT[path] = _scratch() / str(len(SENT))
            SENT[path].mkdir()
            for name, content in files.items():
                (SENT[path] / name).write_bytes(content)


@cache
def _scratch() -> Path:
    """A folder that is removed when this process ends."""
    from orbitcc.agents.runs.folders import temporary

    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(temporary(Path(tempfile.gettempdir()), ON_A_NODE))
