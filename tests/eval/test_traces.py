"""The suites of measured paths, and trainings on them."""

import json

import pytest

from orbitcc.agents.training_range import training_range
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.orbits.trace_set import opened
from orbitcc.envs.scenarios import measured
from orbitcc.eval import suites
from orbitcc.training import recipe as recipes
from tests.commands.shell import called
from tests.envs import trace_folders

SET = trace_folders.shared


def test_runs_are_the_paths_of_the_test_part_in_its_order():
    suite, found = suites.get("traces", {"traces": SET()}), opened(SET())
    order = [found.entries[k] for k in found.numbers("test")]
    places = sorted({e["place"] for e in order})
    assert [point["place"] for point in suite.points("quick")] == places
    cases = suite.cases("full", suite.runs("full"))
    names = {case.scenario.description for case in cases}
    assert names == {e["name"] for e in order}
    here = [e["name"] for e in order if e["place"] == places[0]]
    assert [c.scenario.description for c in cases if c.point == {"place": places[0]}] == here
    assert suite.runs("full") == max(sum(e["place"] == p for e in order) for p in places)
    one = suites.get("traces", {"traces": SET(), "place": places[0]})
    assert [dict(c.point) for c in one.cases("quick", 1)] == [{"place": places[0]}]


def test_places_of_the_training_are_told_from_others():
    suite, found = suites.get("traces-transfer", {"traces": SET(), "trained_on": "A"}), opened(SET())
    place = {e["name"]: e["place"] for e in found.entries}
    cases = suite.cases("quick", suite.runs("quick"))
    seen = {
        group: {place[c.scenario.description] for c in cases if c.point["group"] == group} for group in suite.groups
    }
    assert seen["trained on"] == {"A"}
    assert "A" not in seen["others"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"traces": "no.npz"}, "no such file"),
        ({"traces": 3}, "--set traces=SET.npz"),
        ({"places": "A"}, "--set traces=SET.npz"),
        ({"traces": "SET", "places": "A,Z"}, "unknown name 'Z'"),
        ({"traces": "SET", "place": "Z"}, "place: 'Z'"),
        ({"traces": "SET", "trained_on": "A"}, "trained_on"),
        ({"traces": "SET", "first_run": 500}, "first_run: 500"),
        ({"traces": "SET", "path": 1}, "path: 1 .* does not set itself"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    given = {key: SET() if value == "SET" else value for key, value in settings.items()}
    with pytest.raises(OrbitccError, match=words):
        suites.get("traces", given).cases("quick", 1)


@pytest.mark.parametrize("trained_on", ["", "A,B,C,D", "Z"])
def test_some_but_not_all_places_can_be_those_of_the_training(trained_on):
    with pytest.raises(OrbitccError, match=r"trained_on|unknown name 'Z'"):
        suites.get("traces-transfer", {"traces": SET(), "trained_on": trained_on})


def test_a_suite_without_a_set_says_what_to_set():
    done = called("eval", "traces", "--controller", "cubic")
    assert done.returncode == 2
    assert done.stderr == (
        "error: traces: None is not allowed; allowed: --set traces=SET.npz with traces: `orbitcc traces import`\n"
    )


def test_a_policy_is_trained_and_evaluated_on_measured_paths(tmp_path):
    table = f"{{traces = {SET()!r}, split = 'train', duration_s = 8}}"
    small = ["agent_steps=600", "learner.flows=8", "learner.batch=256", "learner.minibatch=64", "evaluation.worlds=2"]
    settings = [word for change in (f"scenario={table}", *small) for word in ("--set", change)]
    done = called("train", "ppo-leo", *settings, "--name", "mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    card = json.loads((tmp_path / "runs/mine/best/card.json").read_text())
    assert card["training_range"]["scenario"] == "traces-train"
    assert card["training_range"]["rate_mbps"] == [12, 12]
    args = ["--policy", "runs/mine", "--controller", "cubic", "--runs", "1", "--out", "out"]
    done = called("eval", "traces", "--set", f"traces={SET()}", *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out/runs.jsonl").read_text().splitlines()]
    places = {opened(SET()).entries[k]["place"] for k in opened(SET()).numbers("test")}
    assert {(row["point"]["place"], row["contender"].partition("-")[0]) for row in rows} >= {
        (p, "cubic") for p in places
    }
    assert all(0.5 < r["metrics"]["goodput_share"] < 0.96 for r in rows if r["controller"] == "cubic")
    assert all(r["metrics"]["rtt_over_base"] >= 1 for r in rows if r["controller"] == "cubic")
    again = called("eval", "traces", "--set", f"traces={SET()}", *args, "--resume", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "out/report.html").is_file()


def test_a_recipe_names_a_set_and_is_compared_on_its_validation_part():
    changes = [f"scenario={{traces={SET()!r}, places=['A', 'C']}}"]
    plan = recipes.load("ppo-leo", changes)
    assert plan.scenario_name == "traces-train"
    assert plan.world().paths.places == ("A", "C")
    assert plan.held_out_world().paths.split == "validation"
    assert plan.world_digest() == recipes.load("ppo-leo", changes).world_digest()
    other = recipes.load("ppo-leo", [f"scenario={{name='traces-train', traces={SET()!r}}}"])
    assert other.world() == measured({"traces": SET()})
    for given in ((), ("scenario=traces-train",), ("scenario.split=train",)):
        dotted = recipes.load("ppo-leo", [*given, f"scenario.traces={SET()}", "scenario.duration_s=9"])
        assert dotted.world() == measured({"traces": SET(), "duration_s": 9})
    assert recipes.load("ppo-leo", ["scenario.duration_s=9"]).world().duration_s == 9
    with pytest.raises(OrbitccError, match=r"traces: None .*orbitcc traces import"):
        recipes.load("ppo-leo", ["scenario=traces-train"]).world()


def test_the_training_range_is_that_of_the_paths():
    found = training_range(measured({"traces": SET()}))
    low, high = found.base_rtt_ms
    assert (low, high) == (2 * 21, 2 * 50)  # 20 + 1 ms to 30 + 20 ms each way
    assert found.rate_mbps == (12, 12)
    assert found.loss == (0, 0)
