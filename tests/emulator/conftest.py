"""What emulation needs is not everywhere: its tests are skipped with the doctor's own line."""

import os
from pathlib import Path

import pytest

from orbitcc.emulator import needs


@pytest.fixture(autouse=True)
def _as_the_doctor_says(request):
    for purpose in needs.PURPOSES:
        if request.node.get_closest_marker(purpose):
            lacks = needs.missing(purpose)
            if lacks:
                pytest.skip(lacks)


def traces():
    """What a run could leave behind: processes of ours, devices, controllers, parameters of the machine."""
    ours, others = [], []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")[0]
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                tested = b"PYTEST_CURRENT_TEST=" in (entry / "environ").read_bytes()
            except OSError:
                continue
            if os.path.basename(command) in (b"orbitcc-emulator", b"mnexec") and state != "Z":
                (ours if tested else others).append(entry.name)
    cubic = Path("/sys/module/tcp_cubic/parameters")
    return {
        "processes": sorted(ours),
        "devices": sorted(os.listdir("/sys/class/net")),
        # Ours are named after their process.
        "controllers": [name for name in needs.controllers() if str(_pid(name)) not in others],
        "parameters": {file.name: file.read_text() for file in sorted(cubic.iterdir())} if cubic.exists() else {},
    }


def _pid(controller):
    try:
        return int(controller[4:], 16) if controller.startswith("orl") else 0
    except ValueError:
        return 0


@pytest.fixture
def leaves_nothing():
    """The same traces after a test as before it, soon."""
    import time

    before = traces()
    yield
    for _ in range(100):
        if traces() == before:
            break
        time.sleep(0.05)
    assert traces() == before
