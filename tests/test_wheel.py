"""The wheel: complete, and enough by itself."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")

pytestmark = pytest.mark.slow


def command(*args, cwd=None):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(args, capture_output=True, text=True, timeout=1200, check=False, cwd=cwd, env=env)
    if "Failed to fetch" in done.stderr:
        pytest.skip(f"no package index answers: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    command(UV, "build", "--wheel", "--quiet", "--out-dir", str(out), str(ROOT))
    return next(out.glob("*.whl"))


def test_the_wheel_serves_every_later_python(wheel):
    assert "-cp311-abi3-" in wheel.name


def test_the_wheel_holds_every_room(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert tops == {"orbitcc", next(top for top in tops if top.endswith(".dist-info"))}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    for name in tracked:
        room, _, rest = name.partition("/")
        if (ROOT / "orbitcc" / room).is_symlink() and rest:
            assert f"orbitcc/{name}" in names
        elif room == "orbitcc" and rest and not (ROOT / name).is_symlink():
            assert name in names
    assert "orbitcc/py.typed" in names
    assert any(name.startswith("orbitcc/_sim.") and name.endswith(".so") for name in names)
    assert "orbitcc/training/recipes/astraea.toml" in names


def test_the_wheel_runs_outside_the_checkout(wheel, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    command(UV, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv"))
    command(UV, "pip", "install", "--quiet", "--python", str(python), str(wheel), cwd=tmp_path)
    orbitcc = str(python.with_name("orbitcc"))
    assert "utilisation" in command(orbitcc, "run", "dumbbell", "--set", "duration_s=2", "--json", cwd=tmp_path)
    listed = command(orbitcc, "list", "--json", cwd=tmp_path)
    assert "astraea" in listed
    assert "perigee" in listed
    where = command(str(python), "-c", "import orbitcc; print(orbitcc.__file__)", cwd=tmp_path)
    assert where.startswith(str(tmp_path))


def test_the_wheel_runs_the_demo_and_tells_its_completion(wheel, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    command(UV, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv"))
    command(UV, "pip", "install", "--quiet", "--python", str(python), str(wheel), cwd=tmp_path)
    orbitcc = str(python.with_name("orbitcc"))
    assert "report" in command(orbitcc, "demo", cwd=tmp_path)
    script = command("env", "_ORBITCC_COMPLETE=source_bash", orbitcc, cwd=tmp_path)
    assert "_ORBITCC_COMPLETE=complete_bash" in script


def test_a_source_distribution_holds_what_a_wheel_is_built_from(tmp_path):
    command(UV, "build", "--sdist", "--quiet", "--out-dir", str(tmp_path), str(ROOT))
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"pyproject.toml", "LICENSE", "sim/Cargo.toml", "sim/core/src/worlds.rs", "sim/python/Cargo.toml"} <= names
    assert any(name.endswith("training/recipes/astraea.toml") for name in names)
    assert not any(name.endswith((".so", "orbitcc-emulator")) or "/target/" in name for name in names)
