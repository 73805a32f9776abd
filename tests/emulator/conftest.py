"""What emulation needs is not everywhere: its tests are skipped with the doctor's own line."""

import ctypes
import os
import platform
import time
from pathlib import Path

import pytest

from orbitcc.emulator import needs, two_hosts


@pytest.fixture(autouse=True)
def _as_the_doctor_says(request):
    for purpose in needs.PURPOSES:
        if request.node.get_closest_marker(purpose):
            lacks = needs.missing(purpose)
            if lacks:
                pytest.skip(lacks)


def traces():
    """What a run could leave behind: processes, devices, namespaces, BPF programs, controllers, settings."""
    ours, children, others, namespaces = [], [], [], set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")[0]
                state = (entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
                # Of what tests have started, not of pytest itself.
                tested = b"PYTEST_CURRENT_TEST=" in (entry / "environ").read_bytes()
            except OSError:
                continue
            if state == "Z":
                continue
            named = os.path.basename(command) in (b"orbitcc-emulator", b"mnexec")
            if tested:
                children.append(entry.name)
            if named:
                (ours if tested else others).append(entry.name)
            if tested or entry.name == str(os.getpid()):
                namespaces |= {link for link in _links(entry) if link.startswith("net:")}
    cubic = Path("/sys/module/tcp_cubic/parameters")
    return {
        "processes": sorted(ours),
        "children": sorted(children),
        "namespaces": sorted(namespaces),
        "named namespaces": sorted(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else [],
        "devices": sorted(os.listdir("/sys/class/net")),
        "others": sorted(others),
        "BPF programs": sorted(_programs()),
        # Ours are named after their process.
        "controllers": [name for name in needs.controllers() if str(_pid(name)) not in others],
        "parameters": {file.name: file.read_text(encoding="utf-8") for file in sorted(cubic.iterdir())}
        if cubic.exists()
        else {},
        "settings": _settings(),
    }


def _links(entry):
    for place in (entry / "ns" / "net", *_listed(entry / "fd")):
        try:
            yield os.readlink(place)
        except OSError:
            continue


def _listed(folder):
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _programs():
    """Numbers of all BPF programs of the machine, as far as we may know."""
    call = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
    next_program, found = 11, set()  # BPF_PROG_GET_NEXT_ID
    asked = (ctypes.c_uint32 * 3)()  # start_id, next_id, open_flags
    while call and ctypes.CDLL(None).syscall(call, next_program, ctypes.byref(asked), ctypes.sizeof(asked)) == 0:
        found.add(asked[1])
        asked[0] = asked[1]
    return found


def _settings():
    """Of the machine's own network namespace."""
    found = {}
    for folder in ("ipv4", "core"):
        for file in sorted(_listed(Path("/proc/sys/net", folder))):
            if file.is_file() and file.name != "tcp_available_congestion_control":
                try:
                    found[file.name] = file.read_bytes()
                except OSError:
                    continue
    return found


def _pid(controller):
    try:
        return int(controller[4:], 16) if controller.startswith("orl") else 0
    except ValueError:
        return 0


@pytest.fixture
def leaves_nothing():
    """The same traces after a test as before it, soon: the kernel takes seconds to forget programs."""
    two_hosts.remove_left()  # of processes that were killed long before: commands under test remove them, too
    before = traces()
    yield
    deadline = time.monotonic() + 30
    while (left := _added(before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def _added(before):
    """What differs; of BPF programs only new ones, since those before may be some that the kernel has yet to forget."""
    after = traces()
    if after["others"] or before["others"]:
        # Programs of other runs: who is gone cannot be asked which were his.
        after["BPF programs"] = []
    after["BPF programs"] = sorted(set(after["BPF programs"]) - set(before["BPF programs"]))
    expected = before | {"BPF programs": [], "others": after["others"]}
    return {key: (expected[key], value) for key, value in after.items() if value != expected[key]}
