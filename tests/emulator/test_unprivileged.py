"""Without privileges: a user namespace in which the emulator, and Mininet, have them over networks of their own."""

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orbitcc.emulator import program

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0, reason="becoming nobody takes root: runs where tests are root's, as in .ci/run on Debian"
    ),
    pytest.mark.usefixtures("leaves_nothing"),
]

# In mounts of its own: a device that all may open, and doors to root's home, where Python may be, and to this checkout.
DOOR = """
door() {
  behind="/mnt/behind$1"
  mkdir -p "$behind" && mount --bind "$1" "$behind" && mount -t tmpfs -o mode=755 none "$1"
  for entry in "$behind"/.[!.]* "$behind"/*; do
    if [ -d "$entry" ]; then inside="$1/${entry##*/}"; mkdir "$inside" && mount --bind "$entry" "$inside"; fi
  done
}
mount -t tmpfs -o mode=755 none /mnt && mknod -m 666 /mnt/tun c 10 200 && mount --bind /mnt/tun /dev/net/tun
"""
SHUT = [str(folder) for folder in reversed(Path.cwd().parents) if not folder.stat().st_mode & stat.S_IXOTH]
DOOR += "".join(f"door {shlex.quote(folder)}\n" for folder in dict.fromkeys([str(Path.home()), *SHUT]))
NOBODY = "exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all"


def as_nobody(*command):
    """What a command says to somebody who may do nothing; skips where it cannot be tried."""
    for tool in ("unshare", "setpriv", "mount"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is missing: apt-get install util-linux")
    if not program.find():
        pytest.skip(f"{program.NAME} is missing: {program.REMEDY}")
    inside = ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c"]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "PYTHONDONTWRITEBYTECODE": "1", "MPLCONFIGDIR": "/tmp"}
    tried = subprocess.run([*inside, f"{DOOR}{NOBODY} unshare -Urn true"], capture_output=True, text=True, timeout=60)
    if tried.returncode:
        pytest.skip(f"no user namespaces for everybody here: {tried.stderr.strip().splitlines()[-1:]}")
    script = f"{DOOR}{NOBODY} {shlex.join(command)}"
    done = subprocess.run([*inside, script], env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode == 126:  # of unshare and setpriv: the program was found and could not be started
        pytest.skip(f"somebody who may do nothing cannot start Python here: {done.stderr.strip().splitlines()[-1:]}")
    return done


def orbitcc(*arguments):
    return (sys.executable, "-m", "orbitcc.cli", *arguments)


@pytest.mark.flows
def test_nobody_runs_a_scenario_under_every_controller_of_the_kernel():
    done = as_nobody(
        *orbitcc("run", "dumbbell", "--set", "duration_s=3", "--flow", "cubic", "--flow", "reno"),
        *("--backend", "emulator", "--json"),
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert all(flow["goodput_mbps"] > 1 for flow in told["flows"])
    assert told["emulation"]["links"]["real_time_priority"].startswith("no:")


@pytest.mark.flows
def test_nobody_runs_a_program_of_somebody_else():
    client = """-c 'import socket; s = socket.create_connection(("{server}", {port}))\nwhile 1: s.sendall(bytes(99))'"""
    server = """-c 'import socket; s = socket.create_server(("", {port})).accept()[0]\nwhile s.recv(9999): pass'"""
    programs = ("--program", f"mine={sys.executable} {client}", "--server", f"{sys.executable} {server}")
    done = as_nobody(*orbitcc("run", "dumbbell", "--set", "duration_s=2", *programs, "--json"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flows"][0]["goodput_mbps"] > 1


def test_nobody_is_told_what_agents_and_mininet_need():
    told = json.loads(as_nobody(*orbitcc("doctor", "--json")).stdout)
    found = {row["need"]: row["found"] for row in told["needs"]}
    assert found["network namespaces"] == "in a user namespace"
    assert told["missing"]["agents"].startswith("root is missing")
    assert "unshare -Urnm" in told["missing"]["mininet"]
    refused = as_nobody(*orbitcc("run", "dumbbell", "--flow", "perigee", "--backend", "emulator"))
    assert refused.returncode == 2
    assert "root is missing" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.mininet
def test_nobody_has_mininet_in_a_user_namespace():
    command = shlex.join(orbitcc("mininet", "dumbbell", "--script"))
    write = "script=$(mktemp) && trap 'rm $script' EXIT && echo s0 ping -c 3 -i 0.2 d0 > $script"
    done = as_nobody("sh", "-c", f"{write} && unshare -Urnm {command} $script")
    assert done.returncode == 0, done.stderr
    assert "3 received" in done.stdout + done.stderr
