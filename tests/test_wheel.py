"""The wheel: complete, and enough by itself, on every Python of this machine.

The extra `train` takes three gigabytes and five minutes, so it is tried on the running Python alone;
ORBITCC_PYTHONS=all tries it on all. Nothing here is pinned: packages are the newest that the wheel allows.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
CHECKER = """
import gymnasium, orbitcc
from gymnasium.utils.env_checker import check_env
check_env(gymnasium.make("orbitcc/Dumbbell-v0").unwrapped, skip_render_check=True)
print(gymnasium.__version__)
"""

pytestmark = pytest.mark.slow


def command(*args, cwd=None, **settings):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= {"UV_PYTHON_DOWNLOADS": "never", **settings}
    done = subprocess.run(args, capture_output=True, text=True, timeout=1800, check=False, cwd=cwd, env=env)
    if "Failed to fetch" in done.stderr:
        pytest.skip(f"no package index answers: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def interpreter(version):
    """A Python of this version; skips where there is none."""
    found = [sys.executable if version == RUNNING else None, shutil.which(f"python{version}")]
    found += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    for path in filter(None, found):
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)  # pyenv's shims fail
        if asked.returncode == 0 and asked.stdout.startswith(f"Python {version}."):
            return path
    asked = subprocess.run(
        [UV, "python", "find", "--no-project", "--no-python-downloads", version],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        pytest.skip(f"Python {version} was not found: on PATH, in ~/.pyenv/versions, by `uv python find`")
    return asked.stdout.strip()


def environment(python, requirement, folder):
    """The folder of the programs of an environment of its own, with this installed."""
    command(UV, "venv", "--quiet", "--no-config", "--python", python, str(folder))
    own = folder / "bin" / "python"
    command(UV, "pip", "install", "--quiet", "--no-config", "--python", str(own), requirement, cwd=folder)
    return own.parent


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Built once, whichever of pytest's workers asks first."""
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "built-wheel"
    with open(f"{out}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            command(UV, "build", "--wheel", "--quiet", "--out-dir", f"{out}.tmp", str(ROOT))
            os.rename(f"{out}.tmp", out)
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


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_alone_runs_outside_the_checkout(wheel, tmp_path, version):
    programs = environment(interpreter(version), str(wheel), tmp_path / "venv")
    orbitcc, python = str(programs / "orbitcc"), str(programs / "python")
    assert "utilisation" in command(orbitcc, "run", "dumbbell", "--set", "duration_s=2", "--json", cwd=tmp_path)
    assert "report" in command(orbitcc, "demo", cwd=tmp_path)  # without learners it trains nothing
    listed = command(orbitcc, "list", "--json", cwd=tmp_path)
    assert "astraea" in listed
    assert "perigee" in listed
    where = command(python, "-c", "import orbitcc; print(orbitcc.__file__)", cwd=tmp_path)
    assert where.startswith(str(tmp_path))
    used = command(python, "-c", CHECKER, cwd=tmp_path).split()[-1]
    assert tuple(map(int, used.split(".")[:2])) >= (1, 4), "Ray's older Gymnasium is not for the base"
    script = command("env", "_ORBITCC_COMPLETE=source_bash", orbitcc, cwd=tmp_path)
    assert "_ORBITCC_COMPLETE=complete_bash" in script


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_with_learners_trains_outside_the_checkout(wheel, tmp_path, version):
    if version != RUNNING and os.environ.get("ORBITCC_PYTHONS") != "all":
        pytest.skip(f"three gigabytes for Python {version}: ORBITCC_PYTHONS=all tries the learners on every Python")
    folder = tmp_path / "venv"
    programs = environment(interpreter(version), f"{wheel}[train]", folder)
    try:
        said = command(str(programs / "orbitcc"), "demo", "--out", "demo", cwd=tmp_path)
        assert "curves:" in said
        assert (tmp_path / "demo" / "curves.png").exists()
        page = (ROOT / "docs" / "tutorials" / "bring-your-rllib-script.md").read_text(encoding="utf-8")
        script = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]
        assert script.count("range(10)") == 1
        (tmp_path / "plain.py").write_text(script.replace("range(10)", "range(1)"), encoding="utf-8")
        assert "iteration 0: " in command(str(programs / "python"), "plain.py", cwd=tmp_path, HOME=str(tmp_path))
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # pytest keeps folders


def test_a_source_distribution_holds_what_a_wheel_is_built_from(tmp_path):
    command(UV, "build", "--sdist", "--quiet", "--out-dir", str(tmp_path), str(ROOT))
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"pyproject.toml", "LICENSE", "sim/Cargo.toml", "sim/core/src/worlds.rs", "sim/python/Cargo.toml"} <= names
    assert {"sim/fixed/src/decide.c", "sim/emulator/bpf/safety.h"} <= names
    assert any(name.endswith("training/recipes/astraea.toml") for name in names)
    assert any(name.endswith("training/recipes/zenith-worlds/worst-1-01.toml") for name in names)
    assert not any(name.endswith((".so", "orbitcc-emulator")) or "/target/" in name for name in names)
