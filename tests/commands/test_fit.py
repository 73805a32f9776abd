"""`orbitcc fit` as it is called."""

import pytest

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from tests.commands.shell import orbitcc
from tests.envs.fitting_logs import iperf3_tcp, ping_log


@pytest.fixture
def ping(tmp_path):
    path = tmp_path / "ping.txt"
    path.write_text(ping_log([20.0 + k % 3 for k in range(60)]))
    return path


def test_a_fit_prints_a_table_and_writes_a_scenario_that_runs(tmp_path, ping):
    out = tmp_path / "new" / "mine.toml"
    done = orbitcc("fit", str(ping), "--out", str(out), "--name", "my-path")
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("base RTT", "rate", "not observable", f"scenario: {out}"):
        assert word in done.stdout
    assert Scenario.load(out).name == "my-path"
    assert orbitcc("run", str(out), "--json").returncode == 0
    assert [path.name for path in out.parent.iterdir()] == ["mine.toml"]


def test_an_existing_file_is_kept_unless_asked(tmp_path, ping):
    out = tmp_path / "mine.toml"
    out.write_text("mine")
    done = orbitcc("fit", str(ping), "--out", str(out))
    assert (done.returncode, done.stderr.count("\n"), out.read_text()) == (2, 1, "mine")
    assert "--overwrite" in done.stderr
    assert orbitcc("fit", str(ping), "--out", str(out), "--overwrite").returncode == 0
    assert Scenario.load(out).name == "mine"


def test_a_picture_shows_recordings_beside_two_runs(tmp_path, ping):
    capture, log = tmp_path / "run.pcap", tmp_path / "iperf3.json"
    simulate(scenarios.get("dumbbell", rate_mbps=10, duration_s=12), pcap=capture)
    log.write_text(iperf3_tcp([9.5] * 12, [50.0 + k for k in range(12)], [0] * 12))
    files = [str(capture), str(log), str(ping)]
    done = orbitcc("fit", *files, "--out", str(tmp_path / "a.toml"), "--plot", str(tmp_path / "a.png"))
    assert done.returncode == 0, done.stderr
    assert "recorded: run.pcap" in done.stdout
    assert "fitted scenario: bbr" in done.stdout
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("{ping}", "--out", "a.txt"), "a name ending in .toml"),
        (("{ping}", "--out", "a.toml", "--plot", "a.gif"), "ending in .png"),
        (("{ping}", "missing", "--out", "a.toml"), "no such file: missing"),
        (("{ping}",), "--out"),
        (("--out", "a.toml"), "TRACE"),
    ],
)
def test_a_wrong_call_is_one_line(tmp_path, monkeypatch, ping, args, says):
    monkeypatch.chdir(tmp_path)
    done = orbitcc("fit", *(arg.format(ping=ping) for arg in args))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert says in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ping.txt"]
