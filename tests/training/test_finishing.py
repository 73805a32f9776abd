"""What a run makes of its best policy at its end."""

import json
import shutil
import signal

import pytest

pytest.importorskip("torch")

from orbitcc.agents import checkpoint
from orbitcc.agents.actions import with_parameters
from orbitcc.agents.joining import joined
from orbitcc.agents.runs import seal
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.agents.safety_filter import filtered, limits
from orbitcc.common.errors import OrbitccError
from orbitcc.training import loop, recipe
from tests.commands.shell import called

SMALL = [
    "agent_steps=1500",
    "learner.flows=8",
    "learner.batch=512",
    "learner.minibatch=256",
    "evaluation.every=1500",
    "evaluation.worlds=1",
    'scenario={name="dumbbell", rate_mbps=10, base_rtt_ms=20, duration_s=5}',
    "finish.join.agent_steps=1000",
    "finish.join.evaluation.every=1000",
    'finish.join.scenario={name="dumbbell", rate_mbps=10, base_rtt_ms=600, duration_s=5}',
]


def begin(tmp_path, *changes: str) -> tuple[recipe.Recipe, RunFolder]:
    plan = recipe.load("zenith", [*SMALL, *changes])
    return plan, loop.new_run(plan, 3, tmp_path, "orbitcc train zenith --seed 3", "run")


def test_a_run_trains_and_joins_both_parts_and_changes_action_and_filter(tmp_path, capsys) -> None:
    plan, run = begin(tmp_path)
    result = loop.train(plan, 3, run, resume=False, command="orbitcc train zenith --seed 3")
    assert (result.finished, result.failure, result.agent_steps >= 1500) == (True, "", True)
    said = capsys.readouterr().err
    assert said.index("zenith: ") < said.index("zenith-geo: ")
    stored = run.long.config("recipe", "seed", "command")
    assert stored["recipe"]["start_from"] == str(run.selected)
    assert (stored["seed"], stored["command"]) == (3, "orbitcc train zenith --seed 3")

    # the same by hand, with the commands of `orbitcc policy`
    both = joined(run.selected, run.long.best, tmp_path / "both", 470.0)
    rtts = plan.finish.interval_rtts
    told = plan.finish.preference
    assert told == {"usual": 0.1, "contested": 0.01}
    wider = with_parameters(both, tmp_path / "wider", plan.finish.action, interval_rtts=rtts, preference=told)
    preference = checkpoint.read_card(run.best).observation.parameters["features"][29]
    assert (
        preference
        == {"name": "delay-preference", **told}
        != checkpoint.read_card(run.selected).observation.parameters["features"][29]
    )
    assert checkpoint.read_card(run.long.best).interval_rtts == 0.2 != checkpoint.read_card(wider).interval_rtts == rtts
    safe = filtered(wider, tmp_path / "safe", limits(checkpoint.read_card(both).training_range, 4.0, 1.0))
    assert checkpoint.read_card(run.best) == checkpoint.read_card(safe)
    assert (run.best / checkpoint.WEIGHTS).read_bytes() == (safe / checkpoint.WEIGHTS).read_bytes()
    assert run.policy == run.best
    assert checkpoint.load(run.path).path == run.best.resolve()  # the run itself stands for it
    assert sorted(path.name for path in run.path.iterdir() if path.name.startswith(".")) in ([], [".lock"])


def test_an_interrupted_second_part_goes_on(tmp_path, monkeypatch) -> None:
    plan, run = begin(tmp_path)
    trained = loop._train

    def interrupted(what, seed, folder, progress, *rest):
        if what.name == "zenith-geo":
            monkeypatch.setattr(loop, "_train", trained)
            return ""  # before anything is saved
        return trained(what, seed, folder, progress, *rest)

    monkeypatch.setattr(loop, "_train", interrupted)
    first = loop.train(plan, 3, run, resume=False, command="c")
    assert (first.finished, first.exit_code) == (False, loop.INTERRUPTED)
    assert not run.best.exists()
    with pytest.raises(
        OrbitccError, match=r"best: does not exist: the run is not finished, `orbitcc train .*/run --res"
    ):
        checkpoint.load(run.path)
    assert run.policy == run.selected
    before = (run.path / "metrics.csv").read_bytes()
    second = loop.train(plan, 3, run, resume=True, command="c")
    assert second.finished
    assert loop.TrainingResult.stored(run, plan).finished
    assert (run.path / "metrics.csv").read_bytes() == before, "the first part is not trained again"


def test_an_interrupt_at_the_very_end_of_the_first_part_begins_no_second_one(tmp_path, monkeypatch) -> None:
    plan, run = begin(tmp_path)
    evaluate = loop._Loop._evaluate_and_save

    def interrupted(self):
        evaluate(self)
        if self.progress.agent_steps >= plan.agent_steps:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loop._Loop, "_evaluate_and_save", interrupted)
    first = loop.train(plan, 3, run, resume=False, command="c")
    assert (first.finished, first.exit_code) == (False, loop.INTERRUPTED)
    assert not run.long.path.exists()
    monkeypatch.undo()
    assert loop.train(plan, 3, run, resume=True, command="c").finished


def test_a_run_whose_state_is_saved_but_not_evaluated_is_evaluated_first(tmp_path) -> None:
    plan, run = begin(tmp_path)
    assert loop.train(plan, 3, run, resume=False, command="c").finished
    shutil.rmtree(run.long.path)
    shutil.rmtree(run.best)
    path = run.state / "progress.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    steps = stored["evaluated_at"]
    path.write_text(json.dumps({**stored, "evaluated_at": 0, "best_score": -1e9}))
    seal.seal(run.state)
    assert not loop.TrainingResult.stored(run, plan).finished
    assert loop.train(plan, 3, run, resume=True, command="c").finished
    assert json.loads(path.read_text(encoding="utf-8"))["evaluated_at"] == steps


def test_lost_policies_are_made_again(tmp_path, capsys) -> None:
    plan, run = begin(tmp_path)
    assert loop.train(plan, 3, run, resume=False, command="c").finished
    for lost in (run.best, run.selected):
        with (lost / checkpoint.WEIGHTS).open("r+b") as file:
            file.write(b"damaged")
    assert not loop.TrainingResult.stored(run, plan).finished
    assert loop.train(plan, 3, run, resume=True, command="c").finished
    assert "writes selected/ again" in capsys.readouterr().err
    assert checkpoint.load(run.best)
    assert checkpoint.load(run.selected)

    (run.long.path / "config.json").unlink()
    shutil.rmtree(run.best)
    with pytest.raises(OrbitccError, match=r"long/config.json.*its training begins again"):
        loop.train(plan, 3, run, resume=True, command="c")


def test_a_run_that_begins_anew_keeps_no_policy_of_the_first_try(tmp_path) -> None:
    plan, run = begin(tmp_path)
    assert loop.train(plan, 3, run, resume=False, command="c").finished
    shutil.rmtree(run.state)
    for folder in (run.long.path, run.best, run.selected):
        (folder / "old").touch()
    assert loop.train(plan, 3, run, resume=False, command="c").finished
    assert not (run.long.path / "old").exists()
    assert not (run.best / "old").exists()
    assert not (run.selected / "old").exists()


def test_a_second_part_that_gave_up_is_not_joined_when_the_run_goes_on(tmp_path, monkeypatch) -> None:
    plan, run = begin(tmp_path, "finish.join.evaluation.give_up_after=1", "finish.join.evaluation.give_up_from=0")
    monkeypatch.setattr(loop, "failures", lambda scores: ["floods"])
    first = loop.train(plan, 3, run, resume=False, command="c")
    assert (first.finished, first.exit_code) == (False, loop.DIVERGED)
    assert "gave up" in first.failure
    again = loop.train(plan, 3, run, resume=True, command="c")
    assert (again.finished, again.exit_code) == (False, loop.DIVERGED)
    assert not run.best.exists()


def test_a_second_part_that_diverges_is_a_failure_of_the_run(tmp_path, monkeypatch) -> None:
    plan, run = begin(tmp_path)
    trained = loop._train
    monkeypatch.setattr(
        loop, "_train", lambda what, *rest: "diverged: x" if what.name == "zenith-geo" else trained(what, *rest)
    )
    result = loop.train(plan, 3, run, resume=False, command="c")
    assert (result.finished, result.failure, result.exit_code) == (False, "diverged: x", loop.DIVERGED)


def test_without_a_second_part_the_interval_of_the_training_is_the_shortest_one(tmp_path) -> None:
    plan, run = begin(tmp_path, "finish.join={}", "finish.max_bdp=2")
    assert loop.train(plan, 3, run, resume=False, command="c").finished
    best, card = checkpoint.read_card(run.selected), checkpoint.read_card(run.best)
    assert (best.interval, card.interval) == ((30.0, 0.0, 1.0), (30.0, plan.finish.interval_rtts, 30.0))
    assert (card.gate, card.layers) == (best.gate, best.layers)
    assert card.action.parameters["occupancy_range"] == plan.finish.action["occupancy_range"]
    assert card.safety_filter == limits(best.training_range, 2.0, 1.0)
    assert not run.long.path.exists()
    shutil.rmtree(run.best)
    assert run.policy == run.selected
    assert loop.train(plan, 3, run, resume=True, command="c").finished
    assert checkpoint.read_card(run.best) == card


def test_the_command_names_the_policy_to_use_and_refuses_parts_that_do_not_fit(tmp_path) -> None:
    words = [word for change in SMALL for word in ("--set", change)]
    done = called("train", "zenith", *words, "--name", "one", "--out", str(tmp_path))
    assert str(tmp_path / "one" / "best") in done.stdout
    several = called("train", "zenith", *words, "--seed", "1", "2", "--name", "two", "--out", str(tmp_path))
    assert "two-1" in several.stdout
    assert "/best" in several.stdout
    refused = called("train", "zenith", "--set", "finish.join.network.experts=2", "--out", str(tmp_path / "no"))
    assert refused.returncode == 2
    assert "finish.join" in refused.stderr
    assert not (tmp_path / "no").exists()
