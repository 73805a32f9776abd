"""The loop around every learner."""

import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import Layer
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.cli import main
from orbitcc.common.errors import StateError
from orbitcc.envs.environments.presets import preset
from orbitcc.eval.heldout_metrics import FIGURES, Weights
from orbitcc.training import loop, recipe
from orbitcc.training.curves import read_curves

WORLD = 'scenario={name="dumbbell", rate_mbps=10, base_rtt_ms=20, duration_s=8}'
"""A link that is soon full, and an evaluation on it soon over."""


class Stubborn:
    """A learner whose policy always does the same."""

    squash = "clip"
    layers = (Layer(units=4, activation="leaky_relu", norm="layer"), Layer(units=1, activation="linear"))
    gate = None

    def __init__(self, plan: recipe.Recipe, seed: int) -> None:
        del seed
        self.width = preset(plan.preset).observation_space().shape[0]

    def iterate(self) -> dict[str, float]:
        return {"agent_steps": 500, "train/reward": 0.0}

    def tensors(self) -> dict[str, np.ndarray]:
        shapes = {"layers.0": (4, self.width), "layers.1": (1, 4)}
        weights = {f"{name}.weight": np.zeros(shape, np.float32) for name, shape in shapes.items()}
        weights |= {f"layers.0.norm.{name}": np.ones(4, np.float32) for name in ("scale", "shift")}
        return weights | {f"{name}.bias": np.full(shape[0], 0.3, np.float32) for name, shape in shapes.items()}

    def save(self, folder: Path) -> None:
        (folder / "opinion").write_text("0.3")

    def load(self, folder: Path) -> None:
        assert (folder / "opinion").read_text(encoding="utf-8") == "0.3"

    def stop(self) -> None:
        pass


@pytest.mark.parametrize("name", recipe.names())
def test_a_policy_that_always_does_the_same_is_reported_whoever_trains(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(loop, "_learner", Stubborn)
    changes = [WORLD, "agent_steps=1000", "evaluation.every=500", "evaluation.worlds=1"]
    plan = recipe.load(name, [*changes, "network.hidden=[4]"])
    run = RunFolder.create(
        tmp_path, plan.scenario_name, plan.name, 1, {"recipe": plan.model_dump(), "revision": "test"}
    )
    loop.train(plan, 1, run, resume=False, command="test")
    said = [line for line in capsys.readouterr().err.splitlines() if "nearly the same" in line]
    assert [line.split()[0] for line in said] == ["500", "1,000"]  # and not of the untrained policy
    rows = [line.split(",") for line in (run.path / "metrics.csv").read_text(encoding="utf-8").splitlines()]
    assert checkpoint.read_card(run.last).layers == Stubborn.layers
    assert [float(row[2]) for row in rows if row[1] == "heldout/action_spread"] == [pytest.approx(0, abs=1e-3)] * 3


@pytest.mark.parametrize("call", ["iterate", "save"])
def test_a_run_folder_that_is_removed_while_it_trains_is_one_line(call, tmp_path, monkeypatch) -> None:
    class Removing(Stubborn):
        pass

    def remove(self, *arguments):
        for run in tmp_path.iterdir():
            shutil.rmtree(run)
        return getattr(Stubborn, call)(self, *arguments)

    setattr(Removing, call, remove)
    with pytest.raises(StateError, match="this run folder was removed while it trained") as caught:
        train(tmp_path, Removing, monkeypatch)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_another_error_keeps_its_traceback(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Stubborn, "iterate", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, Stubborn, monkeypatch)


def train(tmp_path: Path, learner: type, monkeypatch, *changes: str) -> loop.TrainingResult:
    monkeypatch.setattr(loop, "_learner", learner)
    held = 'preset={base="astraea-leo", action={name="astraea", recovery="hold"}}'
    small = [WORLD, held, "agent_steps=10_000", "evaluation.every=1000", "evaluation.worlds=1", *changes]
    plan = recipe.load("sb3-ppo-leo", small)
    run = RunFolder.create(
        tmp_path, plan.scenario_name, plan.name, 1, {"recipe": plan.model_dump(), "revision": "test"}
    )
    return loop.train(plan, 1, run, resume=False, command="test")


def rows(outcome: loop.TrainingResult, tag: str) -> dict[int, float]:
    lines = [line.split(",") for line in (outcome.run.path / "metrics.csv").read_text(encoding="utf-8").splitlines()]
    return {int(step): float(value) for step, name, value in lines[1:] if name == tag}


def test_a_policy_that_floods_is_named_and_ends_the_run(tmp_path, monkeypatch, capsys) -> None:
    changes = ("evaluation.give_up_after=3", "evaluation.give_up_from=0.2")
    outcome = train(tmp_path, Stubborn, monkeypatch, *changes)
    assert outcome.agent_steps == 4000  # 2,000 is a fifth of the budget; that evaluation and two more
    assert not outcome.finished
    assert outcome.failure.startswith("gave up after 4,000 agent steps: in 3 evaluations in a row")
    assert "floods" in outcome.failure
    said = capsys.readouterr().err
    assert "1,000 agent steps: the policy floods" in said
    assert said.count(outcome.failure) == 1
    flooded = rows(outcome, "heldout/flooded")
    assert list(flooded) == [0, 1000, 2000, 3000, 4000]
    assert min(flooded.values()) > 0.6
    assert loop.read_progress(outcome.run).agent_steps == 4000  # saved
    checkpoint.load(outcome.run.last)


def test_a_run_whose_best_policy_is_the_untrained_one_says_so(tmp_path, monkeypatch) -> None:
    class Worse(Stubborn):
        """Fills the queue more and more."""

        bias = -2.0

        def iterate(self) -> dict[str, float]:
            self.bias += 1.0
            return super().iterate()

        def tensors(self) -> dict[str, np.ndarray]:
            return super().tensors() | {"layers.1.bias": np.full(1, self.bias, np.float32)}

    zero = [f"evaluation.score.{name}=0" for name in FIGURES if name != "loss"]
    loses = train(tmp_path / "one", Worse, monkeypatch, *zero, "agent_steps=2000")
    assert (loses.best_at, loses.untrained, loses.exit_code) == (0, True, 0)
    assert loop.TrainingResult.stored(loses.run, recipe.Recipe.build(loses.run.config()["recipe"])).untrained
    zero = [f"evaluation.score.{name}=0" for name in FIGURES if name != "utilisation"]
    gains = train(tmp_path / "two", Worse, monkeypatch, *zero, "evaluation.score.utilisation=1", "agent_steps=2000")
    assert gains.best_at > 0
    assert not gains.untrained


def test_a_run_may_be_told_never_to_give_up(tmp_path, monkeypatch) -> None:
    changes = ("evaluation.give_up_after=0", "evaluation.give_up_from=0", "agent_steps=3000")
    outcome = train(tmp_path, Stubborn, monkeypatch, *changes)
    assert outcome.finished
    assert outcome.failure == ""


def test_a_run_that_gave_up_may_go_on_for_as_many_evaluations_again(tmp_path, monkeypatch) -> None:
    changes = ("evaluation.give_up_after=2", "evaluation.give_up_from=0")
    first = train(tmp_path, Stubborn, monkeypatch, *changes)
    plan = recipe.Recipe.build(first.run.config()["recipe"])
    second = loop.train(plan, 1, first.run, resume=True, command="test")
    assert (first.agent_steps, second.agent_steps) == (2000, 4000)


class Shaken(Stubborn):
    """Breaks after so many iterations, in a way of its own."""

    broken_after = 3
    iterations = 0

    def iterate(self) -> dict[str, float]:
        self.iterations += 1
        return super().iterate() | {"learner/critic_loss": 1.0, "learner/value_explained": float("nan")}

    @property
    def broken(self) -> bool:
        return self.iterations >= self.broken_after


class LosesItsLoss(Shaken):
    def iterate(self) -> dict[str, float]:
        figures = super().iterate()
        return figures | ({"learner/critic_loss": float("nan")} if self.broken else {})


class LosesItsWeights(Shaken):
    def tensors(self) -> dict[str, np.ndarray]:
        tensors = super().tensors()
        if self.broken:
            tensors["layers.0.weight"][1, 2] = np.nan
        return tensors


class GrowsItsWeights(Shaken):
    def tensors(self) -> dict[str, np.ndarray]:
        tensors = super().tensors()
        if self.broken:
            tensors["layers.0.weight"][1, 2] = 1e30
        return tensors


class Stumbles(LosesItsWeights):
    def iterate(self) -> dict[str, float]:
        figures = super().iterate()
        if self.broken:
            raise ValueError("probability tensor contains either inf, nan or element < 0")
        return figures


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        (LosesItsLoss, "after 1,500 agent steps learner/critic_loss is nan"),
        (LosesItsWeights, "after 2,000 agent steps the weights layers.0.weight hold NaN or infinity"),
        (GrowsItsWeights, "after 2,000 agent steps the weights make no network (layers[0]: weights so large"),
        (Stumbles, "after 1,000 agent steps the weights layers.0.weight hold NaN or infinity"),
    ],
)
def test_a_learner_that_diverges_stops_with_its_last_sound_policy_saved(
    learner, reason, tmp_path, monkeypatch, capsys
) -> None:
    outcome = train(tmp_path, learner, monkeypatch)
    assert outcome.failure.startswith(f"diverged: {reason}")
    assert outcome.failure.endswith("best/ and last/ are those after 1,000")
    assert capsys.readouterr().err.count(outcome.failure) == 1
    assert not outcome.finished
    assert loop.read_progress(outcome.run).agent_steps == 1000
    assert np.isfinite(checkpoint.read_tensors(outcome.run.last)["layers.0.weight"]).all()


def test_an_error_of_a_sound_learner_is_no_divergence(tmp_path, monkeypatch) -> None:
    class Fails(Stubborn):
        def iterate(self) -> dict[str, float]:
            raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        train(tmp_path, Fails, monkeypatch)


class Alternating(Stubborn):
    """Always does the same, but something else at each evaluation: floods, then holds still."""

    asked = -1

    def tensors(self) -> dict[str, np.ndarray]:
        self.asked += 1
        return super().tensors() | {"layers.1.bias": np.full(1, (0.3, 0.0, 1.0)[self.asked % 3], np.float32)}


def test_best_follows_the_recipes_score_and_the_card_says_how(tmp_path, monkeypatch) -> None:
    zero = [f"evaluation.score.{name}=0" for name in Weights.model_fields]
    quiet = train(tmp_path, Alternating, monkeypatch, *zero, "evaluation.score.flooded=1", "agent_steps=2000")
    busy = train(tmp_path, Alternating, monkeypatch, *zero, "evaluation.score.utilisation=1", "agent_steps=2000")
    assert checkpoint.read_tensors(quiet.run.best)["layers.1.bias"] == [0.0]
    assert checkpoint.read_tensors(busy.run.best)["layers.1.bias"] != [0.0]
    card = checkpoint.read_card(quiet.run.best)
    assert card.scores["score"] == pytest.approx(quiet.best_score, abs=1e-6)
    assert card.scores["heldout"]["flooded"] == pytest.approx(quiet.best["flooded"], abs=1e-6)
    assert card.scores["selection"] == (
        "best/ has the highest score of all evaluations, on 1 held-out worlds of dumbbell (seed 1000000): - 1 flooded"
    )
    assert set(rows(quiet, "heldout/score").values()) == {-x for x in rows(quiet, "heldout/flooded").values()}
    assert rows(quiet, "heldout/reward")  # logged, whatever the score


def test_the_command_tells_a_failed_run_by_its_exit_code(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("stable_baselines3")
    monkeypatch.setattr(loop, "_learner", LosesItsLoss)
    words = ["train", "sb3-ppo-leo", "--set", WORLD, "--set", "evaluation.worlds=1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["orbitcc", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == loop.DIVERGED == 3
    assert "diverged: after 1,500 agent steps" in capsys.readouterr().err


class TakesTheSignals(Stubborn):
    """As Ray does when it starts: puts handlers of its own in the place of ours; then a batch system pre-empts it."""

    def __init__(self, plan: recipe.Recipe, seed: int) -> None:
        super().__init__(plan, seed)
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))

    def iterate(self) -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGTERM)
        return super().iterate()


def test_a_learner_that_takes_sigterm_does_not_lose_the_work(tmp_path, monkeypatch, capsys) -> None:
    before = signal.getsignal(signal.SIGTERM)
    outcome = train(tmp_path, TakesTheSignals, monkeypatch)
    assert (outcome.agent_steps, outcome.exit_code) == (500, loop.INTERRUPTED)
    assert loop.read_progress(outcome.run).agent_steps == 500
    assert "; --resume continues\n" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_learner_that_does_not_start_leaves_no_folder(tmp_path, monkeypatch) -> None:
    class NeverStarts(Stubborn):
        def __init__(self, plan: recipe.Recipe, seed: int) -> None:
            raise StateError("ray", "it did not start")

    with pytest.raises(StateError, match="ray: it did not start"):
        train(tmp_path, NeverStarts, monkeypatch)
    assert list(tmp_path.iterdir()) == []


def test_training_says_what_it_does_and_logs_what_there_is_to_see(tmp_path, monkeypatch, capsys) -> None:
    outcome = train(tmp_path, Stubborn, monkeypatch, "agent_steps=1000")
    said = capsys.readouterr().err
    assert "starting sb3-ppo" in said
    assert "evaluating" in said
    assert {"train/seconds", "train/evaluation_seconds", "train/agent_steps_per_s"} <= {
        line.split(",")[1] for line in (outcome.run.path / "metrics.csv").read_text(encoding="utf-8").splitlines()
    }
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(outcome.run.path))
    events.Reload()
    last = events.Histograms("heldout/actions")[-1].histogram_value
    assert last.num > 10  # it floods: the beginning of its world
    assert last.sum / last.num == pytest.approx(0.3, abs=0.05)  # what Stubborn always does
    assert any("hparams" in tag for tag in events.summary_metadata)
    cubic = read_curves(outcome.run.path / "reference" / "cubic")
    assert set(cubic["heldout/score"][1]) == {cubic["heldout/score"][1][0]}
    assert cubic["heldout/utilisation"][0] == [0, 1000]
    assert read_curves(outcome.run.path / "reference" / "constant-action")["heldout/reward"][0] == [0, 1000]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ppo-leo", ("learner.flows=4", "learner.batch=64", "learner.minibatch=32")),
        (
            "astraea",
            (
                "learner.worlds=2",
                "learner.iteration=200",
                "learner.learning_starts=100",
                "learner.batch=32",
                "learner.replay=2000",
            ),
        ),
    ],
)
def test_our_own_learners_save_on_sigterm_and_go_on(name, changes, tmp_path, monkeypatch) -> None:
    build = loop._learner

    def preempted(plan: recipe.Recipe, seed: int) -> loop.Learner:
        learner = build(plan, seed)
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # what ours must take the place of
        iterate = learner.iterate

        def once() -> dict[str, float]:
            figures = iterate()
            os.kill(os.getpid(), signal.SIGTERM)
            return figures

        learner.iterate = once
        return learner

    monkeypatch.setattr(loop, "_learner", preempted)
    small = [WORLD, "agent_steps=1_000_000", "evaluation.worlds=1", "network.hidden=[8]", *changes]
    plan = recipe.load(name, small)
    run = RunFolder.create(
        tmp_path, plan.scenario_name, plan.name, 1, {"recipe": plan.model_dump(), "revision": "test"}
    )
    first = loop.train(plan, 1, run, resume=False, command="test")
    assert first.exit_code == loop.INTERRUPTED
    assert first.agent_steps > 0
    second = loop.train(plan, 1, run, resume=True, command="test")
    assert second.agent_steps > first.agent_steps
    assert loop.read_progress(run).agent_steps == second.agent_steps
