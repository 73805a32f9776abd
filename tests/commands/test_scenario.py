"""`orbitcc scenario`: what is listed, shown, exported and drawn."""

import json

import pytest

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios import DISTRIBUTIONS, MEASURED, SCENARIOS
from tests.commands.shell import called

NEEDS_A_FILE = "path-trace"


def test_every_scenario_is_listed():
    done = called("list", "scenarios", "--json")
    listed = {entry["name"] for entry in json.loads(done.stdout)["scenarios"]}
    assert listed == {*SCENARIOS, *DISTRIBUTIONS, *MEASURED}


def test_a_named_scenario_shows_its_parameters_with_what_is_allowed():
    done = called("scenario", "show", "leo-path", "--set", "duration_s=30")
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "min_elevation_deg 25 a number in [0, 89] deg" in words
    assert "'isl', 'bp' or 'bp1'" in words
    assert "30 s" in words


@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - {NEEDS_A_FILE}))
def test_every_parameter_says_what_it_takes(name):
    from orbitcc.commands.scenario import allowed

    for key in SCENARIOS[name].params:
        assert allowed(name, key), key


@pytest.mark.parametrize("name", sorted({*SCENARIOS, *DISTRIBUTIONS} - {NEEDS_A_FILE}))
def test_an_exported_file_is_the_same_network(name, tmp_path):
    from orbitcc.commands.scenario import load

    scenario = load(name, [], 3)
    again = Scenario.load(scenario.save(tmp_path / "x.toml"))
    assert again == scenario
    assert again.compile() == scenario.compile()


def test_an_exported_file_gives_the_same_results(tmp_path):
    file = tmp_path / "geo.toml"
    done = called("scenario", "export", "geo-viasat-2020", "--set", "duration_s=20", "--out", str(file))
    assert done.returncode == 0, done.stderr
    again = ("scenario", "export", "dumbbell", "--out", str(file))
    assert "allowed: a file that does not exist yet, or --overwrite" in called(*again).stderr
    first = simulate(scenarios.get("geo-viasat-2020", duration_s=20.0))
    second = simulate(Scenario.load(file))
    assert first.flow_totals == second.flow_totals
    for key, series in first.flows.items():
        assert series.tobytes() == second.flows[key].tobytes(), key


@pytest.mark.parametrize("name", ["leo-responsiveness", "train-mixed", "double-dumbbell"])
def test_a_picture_is_drawn(name, tmp_path):
    done = called("scenario", "plot", name, "--out", str(tmp_path / "p.png"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "leo-pth"), "scenario: unknown name 'leo-pth'; did you mean 'leo-path'?"),
        (("show", "leo-path", "--set", "mode=laser"), "mode: 'laser' is not allowed"),
        (("plot", "dumbbell", "--out", "p.gif"), "plot: "),
        (("export", "dumbbell", "--out", "/proc/nowhere/x.toml"), "file: "),
        (("export", "dumbbell", "--seed", "-1", "--out", "x.toml"), "--seed: -1"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, said):
    done = called("scenario", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {said}"), done.stderr
    assert done.stderr.count("\n") == 1
