"""`orbitcc traces import`: one process at a time, and nothing is left of one that is refused. It keeps other files."""

import os
from pathlib import Path

import pytest

from orbitcc.agents.runs.folders import locked
from orbitcc.envs.traces import importing
from orbitcc.envs.traces.importing import parts_of
from orbitcc.eval.figures import base
from tests.commands.shell import called, orbitcc
from tests.envs import trace_folders
from tests.envs.fitting_logs import ping_log


def test_a_second_import_to_the_same_file_is_refused(tmp_path):
    for place in "abc":
        (tmp_path / "in" / place).mkdir(parents=True)
        (tmp_path / "in" / place / "1.txt").write_text(ping_log([20.0] * 300, interval_s=0.1))
    out = tmp_path / "set.npz"
    parts_of(out).mkdir()
    command = ("traces", "import", "pings", str(tmp_path / "in"), "--out", str(out), "--workers", "1")
    with locked(parts_of(out)):
        done = orbitcc(*command)
    assert done.returncode == 2
    assert "another process" in done.stderr
    assert not out.exists()
    assert orbitcc(*command).returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["in", "set.npz", "set.png"]


def test_nothing_is_left_of_an_import_that_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    out = tmp_path / "new" / "set.npz"
    done = orbitcc("traces", "import", "pings", str(tmp_path / "in"), "--out", str(out), "--workers", "1")
    assert done.returncode == 2
    assert os.listdir(tmp_path) == ["in"]


def logs(folder: Path) -> Path:
    for place in "abc":
        trace_folders.ping(folder / place / "1.txt", 300)
    return folder


def test_other_folders_and_pictures_are_kept(tmp_path):
    out, picture = tmp_path / "set.npz", tmp_path / "set.png"
    command = ("traces", "import", "pings", str(logs(tmp_path / "in")), "--out", str(out), "--workers", "1")
    precious = parts_of(out) / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine")
    for more in ((), ("--overwrite",)):
        done = called(*command, *more)
        assert done.returncode == 2
        assert "set.npz.parts is not a folder that an import has made" in done.stderr
    assert precious.read_text() == "mine"
    precious.unlink()
    picture.write_text("mine")
    done = called(*command)
    assert done.returncode == 2
    assert f"'{picture}' is not allowed" in done.stderr
    assert (picture.read_text(), out.exists()) == ("mine", False)
    assert called(*command, "--overwrite").returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("step", ["render", "_clear"])
def test_an_import_that_is_stopped_at_its_end_continues_with_the_same_command(tmp_path, monkeypatch, step):
    """While the picture is drawn, or its parts are removed."""
    out = tmp_path / "set.npz"
    command = ("traces", "import", "pings", str(logs(tmp_path / "in")), "--out", str(out), "--workers", "1")

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(importing if step == "_clear" else base, step, stopped)
        done = called(*command)
    assert done.returncode == 130
    assert done.stderr.endswith("what was read is kept. Continue with the same command\n")
    content = out.read_bytes()
    done = called(*command)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == ["in", "set.npz", "set.png"]
    assert "--overwrite" in called(*command).stderr  # now it is a set as any other


def test_an_import_says_that_times_are_assumed(tmp_path):
    for file in logs(tmp_path / "in").rglob("*.txt"):
        file.write_text("\n".join(line.partition("] ")[2] for line in file.read_text().splitlines()) + "\n")
    done = called("traces", "import", "pings", str(tmp_path / "in"), "--out", str(tmp_path / "set.npz"))
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if "warning" in line]
    assert said == ["warning: 3 of 3 paths, first a/1: no times in the log: probes taken to be 1 s apart"]
