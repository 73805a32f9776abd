"""Two network namespaces joined by emulated links, for ordinary programs: a server here, a client there."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from orbitcc.common.errors import OrbitccError
from orbitcc.emulator import needs
from orbitcc.emulator.ports import Carried, Ports
from orbitcc.envs.description.flows import Cbr, ControllerSpec, Flow
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.scenario import Scenario

SENDER, RECEIVER = "10.0.0.1", "10.0.0.2"
RMEM = (4096, 131_072, 67_108_864)
"""Receive buffers where a scenario says nothing: Linux's default, with the simulator's maximum."""
_numbers = itertools.count()
_PLACES = Path("/run/netns")
_OWN = re.compile(r"orbitcc([0-9a-f]+)-\d+[ab]")
"""Namespaces of the process with this number."""
_SET_PARENT_DEATH = 1


class TwoHosts:
    """Hosts `SENDER` and `RECEIVER`, whose packets go the ways of the first flow of `scenario`.

    A context manager; at its end the namespaces are gone. The clock of the links starts with :meth:`start`. Buffers of
    the hosts are those of the scenario. Needs root and what `orbitcc doctor` lists for `flows`.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._binary = needs.ready_program()
        sim = scenario.sim
        self._buffers = {"tcp_rmem": sim.rmem_bytes or RMEM, "tcp_wmem": sim.wmem_bytes}
        for i, flow in enumerate(scenario.flows):
            if flow.pep is not None:
                raise OrbitccError(f"flows.{i}.pep", flow.pep.of, "no proxy: packets of programs pass links alone")
        first, there = scenario.flows[0], scenario.path_of(0)
        uplink: tuple[int, ...] = ()
        if first.uplink_delay_ms:  # the emulator carries packets over links alone
            name, delay_ms = f"uplink-{len(scenario.links)}", first.uplink_delay_ms
            link = Link(name=name, rate_mbps=None, delay_ms=delay_ms, reverse=Direction(delay_ms=0.0))
            uplink = (len(scenario.links),)
            scenario = scenario.changed(links=(*scenario.links, link))
        # A network needs a flow; this one is never sent.
        flow = Flow(
            controller=ControllerSpec(name="udp"),
            traffic=Cbr(rate_mbps=1.0),
            path=(*uplink, *there),
            return_path=first.return_path,
            reroutes=tuple(
                r.model_copy(update={"path": (*uplink, *scenario.positions(r.path))}) for r in first.reroutes
            ),
        )
        self._network = scenario.with_flows([flow]).compile()
        self._ports: Ports | None = None
        name = f"orbitcc{os.getpid():x}-{next(_numbers)}"
        self.names = (f"{name}a", f"{name}b")

    def __enter__(self) -> TwoHosts:
        remove_left()
        try:
            for name, address in zip(self.names, (SENDER, RECEIVER), strict=True):
                _run("ip", "netns", "add", name)
                for command in (
                    "link set lo up",
                    "tuntap add dev path mode tun",
                    "link set dev path txqueuelen 20000 gso_max_segs 1 up",
                    f"addr add {address}/24 dev path",
                ):
                    _run("ip", "-n", name, *command.split())
                for setting, sizes in self._buffers.items():
                    value = f"net.ipv4.{setting}={' '.join(map(str, sizes))}"
                    _run("ip", "netns", "exec", name, "sysctl", "-qw", value)
                _run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ports is not None:
            self._ports.kill()
        for name in self.names:
            _remove(name)

    def start(self) -> None:
        """Start the clock of the links."""
        places = [{"namespace": f"/run/netns/{name}", "device": "path"} for name in self.names]
        self._ports = Ports(self._binary, self._network, places, "links.0")

    def read(self) -> Carried:
        """What has passed since the start: forward is from `SENDER` to `RECEIVER`."""
        assert self._ports is not None
        return self._ports.read()

    def default_route(self, host: str, gateway: str) -> None:
        """Let everything else that this host sends take the links, too. The other host forwards nothing."""
        _run("ip", "-n", self.names[host == RECEIVER], "route", "add", "default", "via", gateway)

    def listens(self, host: str) -> bool:
        """Does a program of this host wait at any port, for connections or datagrams?"""
        tables = [f"/proc/net/{kind}" for kind in ("tcp", "tcp6", "udp", "udp6")]
        rows = subprocess.run(self.command(host, "cat", *tables), capture_output=True, text=True).stdout.splitlines()
        return any(row.split()[3] in ("0A", "07") for row in rows)  # of TCP, LISTEN; of UDP, not connected

    def command(self, host: str, *words: str) -> list[str]:
        """The command line that runs `words` on this host."""
        return ["ip", "netns", "exec", self.names[host == RECEIVER], *words]

    def set_controller(self, name: str) -> None:
        """The congestion control that programs of the sender get unless they choose one."""
        _run("ip", "-n", self.names[0], "route", "change", "10.0.0.0/24", "dev", "path", "congctl", name)

    def popen(self, host: str, words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program on this host. The kernel kills it when this process ends."""
        call = ctypes.CDLL(None).prctl
        return subprocess.Popen(
            self.command(host, *words),
            preexec_fn=lambda: call(_SET_PARENT_DEATH, signal.SIGKILL, 0, 0, 0),
            **options,
        )


def _remove(name: str) -> None:
    """End what runs in a namespace, and remove it."""
    left = subprocess.run(["ip", "netns", "pids", name], check=False, capture_output=True, text=True)
    for process in left.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def remove_left() -> None:
    """Remove the namespaces of processes that were killed."""
    for path in _PLACES.glob("orbitcc*"):
        if (found := _OWN.fullmatch(path.name)) and not Path(f"/proc/{int(found[1], 16)}").exists():
            _remove(path.name)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OrbitccError("hosts", " ".join(words), f"a command that works: {done.stderr.strip()}")
