"""A policy is loaded, listed and removed; what cannot be deployed is refused in one line."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orbitcc.agents import checkpoint, deployment
from orbitcc.common.errors import OrbitccError
from orbitcc.emulator import needs, program
from orbitcc.envs.environments.safety import SafetyFilter
from tests.agents.test_preferences import preferring
from tests.commands.shell import called, orbitcc
from tests.deploy.conftest import deploy


def test_a_policy_stays_after_the_command_and_is_listed_until_it_is_removed(machine, name):
    done = orbitcc("deploy", "perigee", "--name", name)
    assert done.returncode == 0, done.stderr
    assert "fails 5.1.1 Congestion collapse and full backoff" in done.stdout
    assert done.stdout.index("fails") < done.stdout.index(f"{name} is a congestion control")
    assert name in needs.controllers()
    listed = json.loads(called("deploy", "--list", "--json").stdout)
    assert {"name": name, "flows": 0, "decisions": 0}.items() <= next(r for r in listed if r["name"] == name).items()
    again = called("deploy", "perigee", "--name", name)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert f"name: '{name}' is not allowed; allowed: a name that is not deployed" in again.stderr
    assert called("undeploy", name).returncode == 0
    assert name not in needs.controllers()
    gone = called("undeploy", name)
    assert (gone.returncode, "a name that is deployed" in gone.stderr) == (2, True)


def test_a_name_of_the_kernel_is_refused(machine):
    with pytest.raises(OrbitccError, match="name: 'cubic' is not allowed; allowed: a name that no congestion control"):
        deploy("cubic")
    assert "cubic" not in {row["name"] for row in deployment.deployed()}


def test_a_loader_that_is_killed_leaves_nothing_or_all(machine, name):
    made = deployment.make_object(checkpoint.load("perigee"), name, None)
    for k in range(6):
        process = subprocess.Popen([program.find(), "deploy", name], stdin=subprocess.PIPE)
        process.stdin.write(made)
        process.stdin.close()
        time.sleep(0.15 * k)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if name in {row["name"] for row in deployment.deployed()}:
            deployment.undeploy(name)
        until = time.monotonic() + 10.0  # the kernel frees what a killed process held a moment later
        while name in needs.controllers() and time.monotonic() < until:
            time.sleep(0.05)
    deployment.deploy(name, made)
    deployment.undeploy(name)
    assert name not in needs.controllers()


@pytest.mark.parametrize("ending", ["~999999999", "~999999999~1", "~1~1"])  # no such process, or a later one
def test_what_a_dead_loader_has_registered_is_removed(machine, name, ending):
    deploy(name)
    folder = Path("/sys/fs/bpf/orbitcc") / name
    folder.rename(folder.with_name(name + ending))  # as if it had died just before it gave the folder its name
    assert name in needs.controllers()
    assert name not in {row["name"] for row in deployment.deployed()}
    until = time.monotonic() + 10.0
    while name in needs.controllers() and time.monotonic() < until:
        time.sleep(0.05)
    assert name not in needs.controllers()
    assert not folder.with_name(name + ending).exists()


def test_an_export_holds_all_that_another_machine_needs(machine, name, tmp_path):
    out = tmp_path / "export"
    done = called("deploy", "perigee", "--name", name, "--export", str(out))
    assert done.returncode == 0, done.stderr
    assert name not in needs.controllers()
    with (out / f"{name}.bpf.o").open("rb") as file:
        subprocess.run([out / program.NAME, "deploy", name], stdin=file, check=True)
    assert name in needs.controllers()
    subprocess.run([out / program.NAME, "undeploy", name], check=True)
    assert f"./{program.NAME} deploy {name} < {name}.bpf.o" in (out / "README.md").read_text(encoding="utf-8")


def test_the_object_holds_the_preference_that_was_asked_for(machine, name, tmp_path):
    policy, objects = preferring(tmp_path / "asked"), []
    for k, asked in enumerate([(), ("--delay", "1"), ("--delay", "0.2")]):
        done = called("deploy", str(policy), "--name", name, *asked, "--export", str(tmp_path / str(k)))
        assert done.returncode == 0, done.stderr
        objects.append((tmp_path / str(k) / f"{name}.bpf.o").read_bytes())
    assert objects[0] == objects[1]  # the usual preference of this policy is 1
    assert objects[2] != objects[0]


HIDE_BTF = "mount -t tmpfs none /sys/kernel/btf"
LOCK = (
    "mount -t tmpfs none /sys/kernel/security"
    " && echo 'none integrity [confidentiality]' > /sys/kernel/security/lockdown"
)
DROP = "setpriv --bounding-set=-{0} --inh-caps=-{0} "
HELD = "capabilities for BPF is missing: run with CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF"


@pytest.mark.parametrize(
    ("prepare", "prefix", "reason"),
    [
        (HIDE_BTF, "", "BTF of the kernel is missing: a kernel built with CONFIG_DEBUG_INFO_BTF"),
        (LOCK, "", "BPF without lockdown is missing: boot without lockdown=confidentiality"),
        ("true", DROP.format("bpf"), HELD),
        ("true", DROP.format("perfmon"), HELD),
    ],
    ids=["no BTF", "lockdown", "no CAP_BPF", "no CAP_PERFMON"],
)
def test_the_doctor_and_the_command_say_what_this_machine_lacks(machine, name, prepare, prefix, reason):
    lacking = shutil.which("unshare") is None or shutil.which("setpriv") is None
    if lacking or subprocess.run(["unshare", "--mount", "sh", "-c", prepare], capture_output=True).returncode:
        pytest.skip("unshare, setpriv or a mount is missing")

    def run(*words):
        line = f"{prepare} && exec {prefix}{sys.executable} -m orbitcc.cli {' '.join(words)}"
        return subprocess.run(["unshare", "--mount", "sh", "-c", line], capture_output=True, text=True)

    told = json.loads(run("doctor", "--json").stdout)
    assert told["missing"]["deploy"] == reason
    done = run("deploy", "perigee", "--name", name)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.rstrip().endswith(f"a machine whose kernel takes policies: {reason}")
    assert name not in needs.controllers()


def test_the_doctor_says_that_this_machine_can_deploy(machine):
    assert json.loads(orbitcc("doctor", "--json").stdout)["missing"]["deploy"] is None
    assert "deploy (policies as congestion controls of this machine): ready" in orbitcc("doctor").stdout


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("astraea", "observation.history = 5 has no fixed-point form, only 1 has"),
        ("examples.python_policy:make", "one in Python has no fixed-point form"),
    ],
)
def test_a_policy_that_cannot_be_deployed_is_refused_by_name_with_the_reason(policy, reason):
    done = called("deploy", policy)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"policy: '{policy}'" in done.stderr
    assert reason in done.stderr


@pytest.mark.parametrize("name", ["", "with-dash", "sixteen_letters_", "a.b"])
def test_a_name_that_the_kernel_does_not_take_is_refused(name):
    with pytest.raises(OrbitccError, match="allowed: 1 to 15 letters, digits and underscores"):
        deployment.make_object(checkpoint.load("perigee"), name, None)


def test_limits_are_integers_of_the_program():
    # 4 BDP in Q16; 8 ms and 312.5 ms in ns; 675 Mbit/s in bytes per second; 0.12 in Q24; a second.
    chosen = SafetyFilter(max_bdp=4.0, min_rtt_ms=(8.0, 312.5), max_rate_mbps=675.0, max_loss=0.12, patience_s=1.0)
    words = [262_144, 8_000_000, 312_500_000, 84_375_000, 2_013_266, 1_000_000_000]
    fixed = checkpoint.load("perigee").policy.fixed()
    assert fixed.data(chosen.model_dump_json())[:48] == b"".join(word.to_bytes(8, "little") for word in words)
    assert fixed.data(None)[:48] == bytes(48)
