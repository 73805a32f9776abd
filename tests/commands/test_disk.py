"""A disk that is full or read-only: one line, exit code 2, and nothing half-written."""

import importlib.util
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.shell import called

LIMIT = 8_192
"""No file may grow beyond this number of bytes: writing fails as on a full disk, without root."""
TINY = (
    *("--set", "agent_steps=800", "--set", "learner.flows=8"),
    *("--set", "learner.batch=128", "--set", "learner.minibatch=64"),
    *("--set", "evaluation.worlds=1", "--set", "network.hidden=[128,128]"),
    *("--set", "scenario={name='dumbbell', duration_s=4}"),
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "run --pcap": ("run", "dumbbell", "--set", "duration_s=5", "--pcap", "{out}/run.pcap"),
    "run --qlog": ("run", "dumbbell", "--set", "duration_s=5", "--qlog", "{out}/run.qlog"),
    "run --series": ("run", "leo-responsiveness", "--set", "duration_s=60", "--series", "{out}/run.csv"),
    "dataset": (
        "dataset",
        "dumbbell",
        "--id",
        "orbitcc/full-v0",
        "--set",
        "duration_s=8",
        "--flow",
        "cubic",
        "--root",
        "{out}",
    ),
    "train": ("train", "ppo-leo", *TINY, "--out", "{out}"),
    "tune": ("tune", "ppo-leo", *TINY, "--trials", "1", "--out", "{out}/tune"),
}
NEEDS = {"dataset": "minari", "train": "torch", "tune": "optuna"}


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def command(name: str, out: Path) -> list[str]:
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs {NEEDS[name]}")
    return [word.format(out=out) if "{out}" in word else word for word in COMMANDS[name]]


@pytest.mark.parametrize(
    "name", [name for name in COMMANDS if name not in ("dataset", "tune")]
)  # see below; tune trains
def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(name: str, tmp_path: Path) -> None:
    words = command(name, tmp_path)
    # -B: the limit would truncate the bytecode of imported modules, which later processes would read.
    done = subprocess.run(
        [sys.executable, "-B", "-m", "orbitcc.cli", *words],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=limited,
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, len(said)) == (2, 1), done.stderr
    assert "File too large" in said[0]
    assert "Traceback" not in done.stderr
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in left if path.suffix == ".tmp" or path.name.startswith(".")], left
    if name in ("train", "tune"):
        assert not list(tmp_path.rglob("state"))
    else:
        assert left == []


def test_a_data_set_is_given_up_before_the_disk_is_full(tmp_path: Path, monkeypatch) -> None:
    words = command("dataset", tmp_path)
    usage = shutil.disk_usage(tmp_path)
    rooms = iter([usage.free, 1_000_000])  # the first episode fits
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=next(rooms)))
    done = called(*words)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "No space left on device" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root may write everywhere: other users run it, as in .github/workflows/ci.yml"
)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_folder_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o500)
    done = called(*command(name, tmp_path / "kept"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_in_the_place_of_the_folder_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    done = called(*command(name, tmp_path / "kept"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_an_unreadable_series_file_is_made_again(tmp_path: Path) -> None:
    words = ("eval", "efficiency", "--controller", "cubic", "--profile", "quick", "--out", str(tmp_path / "r"))
    first = called(*words)
    assert first.returncode == 0, first.stderr
    (series,) = (tmp_path / "r" / "series").glob("*.npz")
    sound = series.read_bytes()
    series.write_bytes(sound[:1000])
    assert called(*words, "--resume").returncode == 0
    assert series.read_bytes() == sound
