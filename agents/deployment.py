"""Policies as congestion controls of this kernel: inside a BPF program, without a process (docs/deploying.md)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from orbitcc.agents.checkpoint import Checkpoint
from orbitcc.agents.runs.folders import SHIPPED
from orbitcc.common.errors import OrbitccError
from orbitcc.emulator import needs, program
from orbitcc.envs.environments.safety import SafetyFilter

NAME = re.compile(r"[A-Za-z0-9_]{1,15}")
"""What the kernel takes for the name of a BPF congestion control, and its BPF file system for a folder."""
ASSESSED = Path(__file__).with_name("assessed.json")
"""The criteria that shipped policies fail (`python -m benches.assessment`)."""
README = """# {name}

The policy {policy} as a congestion control of Linux {since} or newer, with BTF, on {machine}. {libraries}

    ./{loader} deploy {name} < {name}.bpf.o    # as root; afterwards no process is left
    sysctl net.ipv4.tcp_available_congestion_control
    iperf3 -c HOST -C {name}
    ip route change ROUTE congctl {name}
    ./{loader} deployed                        # flows, acknowledgements, decisions, fallbacks, nanoseconds
    ./{loader} undeploy {name}

Or with bpftool 7.2 or newer:

    mkdir -p /sys/fs/bpf/orbitcc/{name} && bpftool struct_ops register {name}.bpf.o /sys/fs/bpf/orbitcc/{name}
    rm -r /sys/fs/bpf/orbitcc/{name}

The policy is not known to be safe on the Internet. Assessment by RFC 9743:

{assessment}
"""
STATIC = "The loader needs no library."
DYNAMIC = "The loader needs glibc,\nlibelf and zlib (Debian: libelf1 zlib1g)."


def default_name(checkpoint: Checkpoint) -> str:
    """The name of a policy as far as the kernel takes it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", checkpoint.card.name)[:15]


def fails(checkpoint: Checkpoint) -> list[str] | None:
    """The criteria of RFC 9743 that a shipped policy fails, one line each; None: no assessment is known."""
    if checkpoint.path.parent.resolve() != SHIPPED.resolve():
        return None
    known: dict[str, list[str]] = json.loads(ASSESSED.read_text(encoding="utf-8"))
    return known.get(checkpoint.path.name)


def assessment(checkpoint: Checkpoint) -> list[str]:
    """The lines that a user reads before a policy is loaded."""
    failed = fails(checkpoint)
    if failed is None:
        return [f"not known; `orbitcc assess --policy {checkpoint.path}` makes one"]
    return [f"fails {line}" for line in failed] or ["no criterion failed"]


def make_object(checkpoint: Checkpoint, name: str, safety_filter: SafetyFilter | None) -> bytes:
    """The BPF object with a policy and its name inside.

    Raises:
        OrbitccError: a name that is not allowed, or a policy that has no fixed-point form, with the reason.
    """
    if not NAME.fullmatch(name):
        raise OrbitccError("name", name, "1 to 15 letters, digits and underscores")
    try:
        fixed = checkpoint.policy.fixed()
    except ValueError as error:
        raise OrbitccError("policy", checkpoint.card.name, f"a policy that can be deployed: {error}") from None
    chosen = safety_filter.model_dump_json() if safety_filter is not None else None
    return _ask(["object", name], fixed.data(chosen), "name", name)


def deploy(name: str, bpf_object: bytes) -> None:
    """Load an object and pin it: from now on every program may choose this congestion control.

    Raises:
        OrbitccError: the name is taken, the machine lacks something, or the kernel refuses the program.
    """
    _ready()
    _ask(["deploy", name], bpf_object, "name", name)


def undeploy(name: str) -> None:
    """Remove it; flows that use it keep it until they end. Raises OrbitccError if it is not deployed."""
    _ready()
    _ask(["undeploy", name], b"", "name", name)


def deployed() -> list[dict[str, Any]]:
    """Every deployed policy: name, flows now and in all, numbers of acknowledgements, decisions, fallbacks to Cubic,
    takeovers by the safety filter and their ends, and the mean ns of an acknowledgement and a decision (None: there was
    none)."""
    _ready()
    rows: list[dict[str, Any]] = []
    for told in json.loads(_ask(["deployed"], b"", "name", "")):
        row = {"name": told["name"], "flows": told["opened"] - told["closed"], "flows_in_all": told["opened"]}
        row |= {key: told[key] for key in ("acks", "decisions", "fallbacks", "taken_over", "handed_back")}
        for key, count in (("ack_ns", "acks"), ("decision_ns", "decisions")):
            row[key] = told[key] / told[count] if told[count] else None
        rows.append(row)
    return rows


def export(checkpoint: Checkpoint, name: str, bpf_object: bytes, out: Path) -> list[Path]:
    """Write the object, a program that loads it, and a README into a new folder, for machines without OrbitCC.

    Raises:
        OrbitccError: the folder exists or cannot be written.
    """
    loader = program.find()
    if loader is None:
        raise OrbitccError("export", str(out), f"a machine with {program.NAME}: {program.REMEDY}")
    if out.exists():
        raise OrbitccError("export", str(out), "a folder that does not exist yet")
    text = README.format(
        name=name,
        policy=checkpoint.card.name,
        since=".".join(map(str, needs.AGENTS_SINCE)),
        machine=os.uname().machine,
        libraries=STATIC if b"/ld-" not in loader.read_bytes()[:4096] else DYNAMIC,
        loader=program.NAME,
        assessment="\n".join(f"- {line}" for line in assessment(checkpoint)),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}", dir=out.parent))
    try:
        (part / f"{name}.bpf.o").write_bytes(bpf_object)
        (part / "README.md").write_text(text, encoding="utf-8")
        shutil.copy2(loader, part / program.NAME)
        part.chmod(0o755)
        part.rename(out)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return sorted(out.iterdir())


def _ready() -> None:
    lacks = needs.missing("deploy")
    if lacks:
        raise OrbitccError("deploy", os.uname().nodename, f"a machine whose kernel takes policies: {lacks}")


def _ask(words: list[str], given: bytes, field: str, value: str) -> bytes:
    lacks, binary = needs.missing("deploy", needs.BUILT), program.find()
    if lacks or binary is None:
        raise OrbitccError("deploy", str(binary or program.NAME), f"a program that takes policies: {lacks}")
    done = subprocess.run([binary, *words], input=given, capture_output=True)
    if done.returncode:
        line = done.stderr.decode(errors="replace").strip().rpartition("allowed: ")[2]
        raise OrbitccError(field, value, line or f"{words[0]} that ends well")
    return done.stdout
