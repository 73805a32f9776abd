"""What emulation needs of a machine: what is there, what is missing, and what to do about it.

The lines of :func:`missing` are those that commands print and that tests are skipped with.
"""

import os
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orbitcc.common.errors import OrbitccError
from orbitcc.common.extras import installing
from orbitcc.emulator import program

Purpose = Literal["flows", "agents", "mininet", "deploy"]
PURPOSES: dict[Purpose, str] = {
    "flows": "run and eval with --backend emulator",
    "agents": "policies and environments on this kernel's TCP",
    "mininet": "Mininet with emulated links",
    "deploy": "policies as congestion controls of this machine",
}
AGENTS_SINCE = (6, 10)
"""The first Linux whose `cong_control` takes the four arguments our BPF programs expect."""
LOCKDOWN, BTF = Path("/sys/kernel/security/lockdown"), Path("/sys/kernel/btf/vmlinux")
BPF_CAPABILITIES = {12: "CAP_NET_ADMIN", 38: "CAP_PERFMON", 39: "CAP_BPF"}
"""Numbers and names of what loading a congestion control takes (include/uapi/linux/capability.h)."""


@dataclass(frozen=True)
class Need:
    """One thing: what for, what it is, and how to find out and help.

    found: says what is there; None: it is missing.
    """

    name: str
    purposes: tuple[Purpose, ...]
    found: Callable[[], str | None]
    remedy: str


@dataclass(frozen=True)
class NeedResult:
    """What became of asking for one need."""

    name: str
    purposes: tuple[Purpose, ...]
    found: str | None
    remedy: str

    @property
    def line(self) -> str:
        """For the user who misses it."""
        return f"{self.name} is missing: {self.remedy}"


def is_real_root(uid_map: str | None = None) -> bool:
    """Root of the machine, not of a user namespace: only the first namespace maps all numbers to themselves."""
    text = _read("/proc/self/uid_map") if uid_map is None else uid_map
    return os.geteuid() == 0 and text.split() == ["0", "0", "4294967295"]


def kernel_version(release: str | None = None) -> tuple[int, int]:
    """(6, 18) for 6.18.44."""
    found = re.match(r"(\d+)\.(\d+)", platform.release() if release is None else release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def _linux() -> str | None:
    return platform.release() if platform.system() == "Linux" else None


def _tun() -> str | None:
    try:
        device = os.open("/dev/net/tun", os.O_RDWR)
        number = os.fstat(device).st_rdev
        os.close(device)
    except OSError:
        return None
    return "/dev/net/tun" if number == os.makedev(10, 200) else None  # Linux's own number of this device


def _namespaces() -> str | None:
    if os.geteuid() == 0:
        return "as root"
    limits = [_read(f"/proc/sys/user/max_{kind}_namespaces").strip() for kind in ("user", "net")]
    forbidden = _read("/proc/sys/kernel/unprivileged_userns_clone").strip() == "0"
    forbidden = forbidden or _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").strip() == "1"
    return None if forbidden or "0" in limits or "" in limits else "in a user namespace"


def _program() -> str | None:
    found = program.find()
    return str(found) if found and program.abilities(found) else None


def _with_agents() -> str | None:
    found = program.find()
    return "built in" if found and program.abilities(found).get("agents") else None


def _modern() -> str | None:
    version = kernel_version()
    return platform.release() if platform.system() == "Linux" and version >= AGENTS_SINCE else None


def _root() -> str | None:
    return "uid 0" if is_real_root() else None


def _any_root() -> str | None:
    return "uid 0" if os.geteuid() == 0 else None


def _capabilities(status: str | None = None) -> str | None:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", _read("/proc/self/status") if status is None else status, re.MULTILINE)
    held = int(found[1], 16) if found else 0
    return "held" if all(held >> number & 1 for number in BPF_CAPABILITIES) else None


def _unlocked(lockdown: str | None = None) -> str | None:
    text = _read(str(LOCKDOWN)) if lockdown is None else lockdown
    chosen = re.search(r"\[(\w+)\]", text)
    level = chosen[1] if chosen else "none"
    return None if level == "confidentiality" else level


def _btf() -> str | None:
    return str(BTF) if BTF.exists() else None


def _mininet() -> str | None:
    from importlib.util import find_spec

    return "importable" if find_spec("mininet") else None


def _tool(name: str) -> Callable[[], str | None]:
    return lambda: shutil.which(name)


ALL: tuple[Purpose, ...] = ("flows", "agents", "mininet", "deploy")
EMULATION: tuple[Purpose, ...] = ("flows", "agents", "mininet")
BPF: tuple[Purpose, ...] = ("agents", "deploy")
NEEDS: tuple[Need, ...] = (
    Need("Linux", ALL, _linux, "emulation runs on Linux only"),
    Need("/dev/net/tun", EMULATION, _tun, "modprobe tun, and run as root or chmod 0666 /dev/net/tun"),
    Need("network namespaces", EMULATION, _namespaces, "run as root, or allow unprivileged user namespaces"),
    Need(program.NAME, ALL, _program, program.REMEDY),
    Need("root", BPF, _root, "run as root of the machine (BPF is not for user namespaces)"),
    Need("capabilities for BPF", BPF, _capabilities, f"run with {', '.join(BPF_CAPABILITIES.values())}"),
    Need("Linux 6.10 or newer", BPF, _modern, "boot a newer kernel"),
    Need("BTF of the kernel", BPF, _btf, "a kernel built with CONFIG_DEBUG_INFO_BTF"),
    Need("BPF without lockdown", BPF, _unlocked, "boot without lockdown=confidentiality"),
    Need(
        "agents in orbitcc-emulator",
        BPF,
        _with_agents,
        "apt-get install libelf-dev zlib1g-dev, then make emulator",
    ),
    Need("root, or a user namespace", ("mininet",), _any_root, "sudo, or: unshare -Urnm orbitcc mininet SCENARIO"),
    Need("mininet", ("mininet",), _mininet, f"install {installing('emulation')}"),
    Need("mnexec", ("mininet",), _tool("mnexec"), "apt-get install mininet"),
    Need("ip", ("mininet",), _tool("ip"), "apt-get install iproute2"),
    Need("ping", ("mininet",), _tool("ping"), "apt-get install iputils-ping"),
    Need("ifconfig", ("mininet",), _tool("ifconfig"), "apt-get install net-tools"),
)
BUILT = tuple(need for need in NEEDS if program.NAME in need.name)
"""What a build of the program brings, on every machine."""


def probe(needs: Sequence[Need] = NEEDS) -> list[NeedResult]:
    """Ask for everything."""
    return [NeedResult(need.name, need.purposes, need.found(), need.remedy) for need in needs]


def missing(purpose: Purpose, needs: Sequence[Need] = NEEDS) -> str | None:
    """The first thing that is missing for a purpose, with its remedy, as one line; None: all is there."""
    for need in needs:
        if purpose in need.purposes and need.found() is None:
            return NeedResult(need.name, need.purposes, None, need.remedy).line
    return None


def ready_program(*, agents: bool = False) -> str:
    """The program, when everything is there that it needs (and for agents, if asked).

    Raises:
        OrbitccError: something is missing; says what, and what to do.
    """
    lacks = missing("agents" if agents else "flows")
    if lacks:
        raise OrbitccError("backend", "emulator", f"a machine that can emulate: {lacks}")
    found = program.find()
    assert found is not None
    return str(found)


def controllers() -> tuple[str, ...]:
    """What this kernel has loaded of congestion controllers."""
    return tuple(_read("/proc/sys/net/ipv4/tcp_available_congestion_control").split())
