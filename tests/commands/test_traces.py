"""`orbitcc traces import`: one process at a time, and nothing is left of one that is refused."""

import os

from orbitcc.agents.runs.folders import locked
from orbitcc.envs.traces.importing import parts_of
from tests.commands.shell import orbitcc
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
    assert not parts_of(out).exists()
