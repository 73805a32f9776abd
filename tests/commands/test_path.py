import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from orbitcc.cli import app
from orbitcc.envs.orbits import formats, leoem
from orbitcc.envs.orbits.routing import PathSpec, find_path
from tests.commands.shell import called

SD_NY = ["--from", "San Diego", "--to", "New York"]


def path(*args):
    done = CliRunner().invoke(app, ["path", *args], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_figures_are_those_of_the_path():
    found = json.loads(
        path(*SD_NY, "--mode", "bp", "--selection", "sticky", "--duration", "120", "--seed", "3", "--json")
    )
    trace = find_path(PathSpec(source="San Diego", target="New York", mode="bp", selection="sticky"), 120, seed=3)
    expected = trace.statistics()
    assert (found["name"], found["duration_s"]) == (trace.name, 120)
    assert found["rtt_ms"] == pytest.approx(list(expected.rtt_ms))
    assert (found["changes"], tuple(found["hops"])) == (expected.changes, expected.hops)
    assert found["great_circle_rtt_ms"] == pytest.approx(26.1, abs=0.1)
    assert [slot["start_s"] for slot in found["slots"]] == [slot.start_s for slot in trace.slots]


def test_tables_show_the_base_rtt_the_handovers_and_the_hops():
    out = path(*SD_NY, "--mode", "bp", "--duration", "60")
    trace = find_path(PathSpec(source="San Diego", target="New York", mode="bp"), 60)
    assert f"{trace.statistics().rtt_ms[2]:.1f}" in out
    assert all(word in out for word in ("base RTT, ms", "first hop", "hops", "great circle 26.1 ms", "Merrillan"))


def test_an_outage_is_shown():
    out = path("--from", "New York", "--to", "London", "--mode", "bp", "--duration", "40")
    assert "no route for 100.0 % of the time" in out
    assert out.count("no route") == 2
    json.loads(path("--from", "New York", "--to", "London", "--mode", "bp", "--duration", "40", "--json"))


def test_known_paths_and_files_are_shown_too(tmp_path):
    found = json.loads(path("--path", "leoem-sd-ny-bp", "--json"))
    assert found["rtt_ms"] == pytest.approx(list(leoem.get("sd-ny-bp").trace.statistics().rtt_ms))
    assert found["great_circle_rtt_ms"] is None
    out = path("--path", "leoem-sd-ny-bp")
    assert "56 more (--out)" in out
    assert "first hop, last hop, middle (8.4 ms)" in out
    written = tmp_path / "a.csv"
    path("--path", "sd-ny-bp", "--duration", "400", "--out", str(written))
    again = json.loads(path("--path", str(written), "--json"))
    assert again["duration_s"] == 400


@pytest.mark.parametrize("suffix", ["csv", "log"])
def test_a_path_is_written_and_drawn(tmp_path, suffix):
    file, picture = tmp_path / f"a.{suffix}", tmp_path / "a.png"
    path(*SD_NY, "--duration", "30", "--at", "12", "--out", str(file), "--plot", str(picture))
    trace = find_path(PathSpec(source="San Diego", target="New York"), 30)
    seconds = np.arange(30.0)
    assert formats.load(file).base_rtt_ms(seconds) == pytest.approx(trace.base_rtt_ms(seconds), abs=1e-6)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_shell_of_ones_own():
    own = "{name='mine', planes=34, satellites_per_plane=34, inclination_deg=51.9, altitude_km=630, phasing=1}"
    one, other = (json.loads(path(*SD_NY, "--shell", s, "--duration", "30", "--json")) for s in (own, "kuiper1"))
    assert one.pop("name") != other.pop("name")
    assert one == other


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "--from: missing; it has no default"),
        (["--from", "Seattle"], "--to: missing"),
        (["--from", "Seatle", "--to", "Tokyo"], "--from: unknown place 'Seatle'; did you mean 'Seattle'?"),
        (["--from", "Seattle", "--to", "91,0"], "--to: '91,0' is not allowed; allowed: latitude in [-90, 90]"),
        (
            ["--from", "Seattle", "--to", "Seattle"],
            "--to: 'Seattle' is not allowed; allowed: a place other than the source",
        ),
        ([*SD_NY, "--shell", "starlink"], "--shell: unknown name 'starlink'; did you mean 'starlink1'?"),
        ([*SD_NY, "--shell", ""], "--shell: unknown name ''"),
        ([*SD_NY, "--shell", "{planes=3}"], "--shell.satellites_per_plane: missing"),
        (
            [*SD_NY, "--shell", "{planes=6, satellites_per_plane=4, inclination_deg=53, altitude_km=550}"],
            "--shell: 'custom' is not allowed; allowed: a shell dense enough",
        ),
        ([*SD_NY, "--mode", "fibre"], "--mode: 'fibre' is not allowed; allowed: 'isl', 'bp' or 'bp1'"),
        ([*SD_NY, "--selection", "best"], "--selection: 'best'"),
        ([*SD_NY, "--duration", "0"], "--duration: 0.0 is not allowed; allowed: a number in [1, 1e+06] s"),
        ([*SD_NY, "--seed", "-1"], "--seed: -1"),
        ([*SD_NY, "--min-elevation", "100"], "--min-elevation: 100.0"),
        ([*SD_NY, "--at", "301"], "--at: 301.0 is not allowed; allowed: a time within the path, 0 to 300 s"),
        ([*SD_NY, "--path", "sd-ny-bp"], "--path: 'sd-ny-bp' is not allowed; allowed: either --path, or"),
        (["--path", "leoem-sd-ny"], "--path: unknown name 'leoem-sd-ny'; did you mean 'leoem-sd-ny-bp'?"),
        (["--path", "none.csv"], "no such file: none.csv"),
        (["--path", "leoem-sd-ny-bp", "--shell", "kuiper1"], "--shell: 'kuiper1' is not allowed; allowed: none beside"),
        (["--path", "leoem-sd-ny-bp", "--min-elevation", "60"], "--min-elevation: 60.0"),
        ([*SD_NY, "--out", "a.txt"], "file: 'a.txt' is not allowed; allowed: a name ending in .csv"),
        ([*SD_NY, "--plot", "a.bmp"], "plot: 'a.bmp' is not allowed; allowed: a file name ending in .png"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_input_is_one_line_and_exit_code_2(args, says, tmp_path):
    done = called("path", *args, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == []
