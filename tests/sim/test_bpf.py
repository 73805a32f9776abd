"""The BPF objects that ship are those of the sources beside them.

The digests of both, which `make bpf` writes, are compared everywhere; where the compiler is the one that made the
objects, they are built again and compared byte for byte.
"""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BPF = ROOT / "sim" / "emulator" / "bpf"
SUMS = "SHA256SUMS"
HEADER = Path("/usr/include/bpf/libbpf_version.h")


def recorded(folder):
    """What compiled the objects, and file name -> digest."""
    first, *lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    return first.removeprefix("# "), {name: digest for digest, name in (line.split() for line in lines)}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_sources_and_objects_are_those_of_the_last_make_bpf():
    _, sums = recorded(BPF)
    files = {path.name: digest(path) for path in BPF.iterdir() if path.suffix in (".c", ".h", ".o")}
    assert len([name for name in files if name.endswith(".bpf.o")]) == 4
    changed = sorted(name for name in {*sums, *files} if sums.get(name) != files.get(name))
    assert not changed, "changed since the objects were built: run make bpf"


def test_the_same_compiler_makes_the_same_objects(tmp_path):
    clang = shutil.which("clang")
    if clang is None or not (shutil.which("llvm-strip") or shutil.which("llvm-strip-14")) or not HEADER.exists():
        pytest.skip("compiling BPF takes clang, llvm and libbpf-dev: make system")
    version = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    numbers = re.findall(r"^#define LIBBPF_M\w+_VERSION (\d+)", HEADER.read_text(encoding="utf-8"), re.MULTILINE)
    here, (made, sums) = f"{version}, libbpf {'.'.join(numbers)}", recorded(BPF)
    if here != made:
        pytest.skip(f"the objects were made with {made}; here is {here}")
    done = subprocess.run(
        ["make", "--no-print-directory", "bpf", f"BPF_OUT={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert recorded(tmp_path) == (made, sums)
    for path in tmp_path.glob("*.bpf.o"):
        assert path.read_bytes() == (BPF / path.name).read_bytes(), path.name
