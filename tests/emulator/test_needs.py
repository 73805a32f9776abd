"""What is missing is said in one line with its remedy, before anything starts."""

import json
import os
import stat

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.emulator import needs, program
from orbitcc.emulator.needs import Need
from orbitcc.emulator.run import emulate
from orbitcc.envs import scenarios
from orbitcc.envs.description import support
from orbitcc.envs.description.scenario import Scenario
from tests.commands.shell import called, orbitcc


def need(name, found, *purposes):
    return Need(name, purposes, lambda: found, f"get {name}")


def test_the_first_thing_missing_is_told_with_its_remedy():
    given = (need("a", "here", "flows", "agents"), need("b", None, "agents"), need("c", None, "agents"))
    assert needs.missing("flows", given) is None
    assert needs.missing("agents", given) == "b is missing: get b"
    assert [(r.name, r.found) for r in needs.probe(given)] == [("a", "here"), ("b", None), ("c", None)]


def test_root_of_a_user_namespace_is_not_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert needs.is_real_root("         0          0 4294967295\n")
    assert not needs.is_real_root("         0       1000          1\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not needs.is_real_root("0 0 4294967295")


@pytest.mark.parametrize(
    ("release", "version"), [("6.18.44-x", (6, 18)), ("5.10.0", (5, 10)), ("6.1-rc3", (6, 1)), ("strange", (0, 0))]
)
def test_kernels_are_compared_by_their_numbers(release, version):
    assert needs.kernel_version(release) == version


def test_capabilities_and_lockdown_decide_about_bpf():
    # CAP_NET_ADMIN is bit 12, CAP_PERFMON 38, CAP_BPF 39 (include/uapi/linux/capability.h).
    assert needs._capabilities("Name: x\nCapEff:\t000001ffffffffff\n") == "held"
    assert needs._capabilities("CapEff:\t000000c000001000\n") == "held"
    assert needs._capabilities("CapEff:\t0000007fffffffff\n") is None
    assert needs._unlocked("none [integrity] confidentiality\n") == "integrity"
    assert needs._unlocked("none integrity [confidentiality]\n") is None
    assert needs._unlocked("") == "none"


def test_lockdown_and_btf_are_read_from_the_kernels_files(tmp_path, monkeypatch):
    files = {"LOCKDOWN": tmp_path / "lockdown", "BTF": tmp_path / "vmlinux"}
    for name, file in files.items():
        monkeypatch.setattr(needs, name, file)
    assert (needs._unlocked(), needs._btf()) == ("none", None)
    files["LOCKDOWN"].write_text("none integrity [confidentiality]\n")
    files["BTF"].write_text("")
    assert (needs._unlocked(), needs._btf()) == (None, str(files["BTF"]))
    files["LOCKDOWN"].write_text("none [integrity] confidentiality\n")
    assert needs._unlocked() == "integrity"


def test_a_missing_program_is_said_on_one_line(monkeypatch):
    monkeypatch.setattr(program, "find", lambda: None)
    lacks = needs.missing("flows")
    if lacks and not lacks.startswith(program.NAME):
        pytest.skip(lacks)
    with pytest.raises(OrbitccError, match="orbitcc-emulator is missing: make emulator"):
        emulate(scenarios.get("dumbbell", duration_s=1.0))


def test_a_program_without_agents_is_found_out(monkeypatch, tmp_path):
    fake = tmp_path / program.NAME
    fake.write_text('#!/bin/sh\necho \'{"version": "0", "agents": false}\'\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(program, "find", lambda: fake)
    found = {result.name: result.found for result in needs.probe()}
    assert found[program.NAME] == str(fake)
    assert found["agents in orbitcc-emulator"] is None
    assert program.abilities(tmp_path / "nothing") == {}
    remedy = "agents in orbitcc-emulator is missing: apt-get install libelf-dev zlib1g-dev, then make emulator\n"
    for export in ((), ("--export", str(tmp_path / "export"))):
        done = called("deploy", "perigee", *export)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith(f"error: deploy: '{fake}' is not allowed")
        assert done.stderr.endswith(remedy)
    assert not (tmp_path / "export").exists()


def test_the_doctor_tells_every_need_and_what_is_lacking():
    told = json.loads(orbitcc("doctor", "--json").stdout)
    assert [row["need"] for row in told["needs"]] == [n.name for n in needs.NEEDS]
    assert set(told["missing"]) == set(needs.PURPOSES)
    for row in told["needs"]:
        assert (row["found"] is None) == (row["remedy"] is not None)
    assert "controllers of this kernel" in orbitcc("doctor").stdout


def dumbbell(controller, **sim):
    scenario = scenarios.get("dumbbell", duration_s=2.0).with_controller(controller)
    return Scenario.build({**scenario.model_dump(), "sim": sim})


@pytest.mark.parametrize(
    ("scenario", "fields"),
    [
        (dumbbell("cubic"), ()),
        (dumbbell("cubic:hystart=off"), ()),
        (dumbbell("cubic-nohystart"), ()),
        (dumbbell("perigee"), ()),
        (dumbbell("external"), ()),
        (dumbbell("cubic:hystart=search"), ("flows.0.controller.hystart",)),
        (dumbbell("cubic:kernel=v4_15"), ("flows.0.controller.kernel",)),
        (dumbbell("bbr3"), ("flows.0.controller",)),
        (dumbbell("vivace-geo"), ("flows.0.controller",)),
        (dumbbell("hybla:rtt0_ms=30"), ("flows.0.controller.rtt0_ms",)),
        (dumbbell("cubic", ecn="classic"), ()),
        (dumbbell("cubic:ecn=classic", ecn="classic"), ()),
        (dumbbell("cubic:ecn=off", ecn="classic"), ("flows.0.controller.ecn",)),
        (dumbbell("cubic", ecn="accurate"), ("sim.ecn",)),
        (
            dumbbell("reno", kernel="v4_15", initial_cwnd_packets=20, gro_segments=4, ssthresh_cache="live"),
            ("sim.kernel", "sim.initial_cwnd_packets", "sim.gro_segments", "sim.ssthresh_cache"),
        ),
    ],
    ids=lambda value: "" if isinstance(value, Scenario) else " ".join(value) or "none",
)
def test_what_a_kernel_cannot_honour_is_named(scenario, fields):
    assert support.beyond_kernel(scenario.sim, scenario.flows) == fields
    if fields:
        with pytest.raises(OrbitccError, match=f"^{fields[0]}: .*what this kernel can do"):
            emulate(scenario)


@pytest.mark.parametrize("command", ["run", "eval"])
def test_an_unknown_backend_is_refused_in_one_line(command):
    done = orbitcc(command, "dumbbell" if command == "run" else "responsiveness", "--backend", "emulatr")
    assert done.returncode == 2
    assert "did you mean 'emulator'" in done.stderr
    assert done.stderr.count("\n") == 1
