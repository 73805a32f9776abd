"""Distillation: labels, who teaches where, what is refused, exact resuming, and that a student learns its teachers."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import Gate, Layer
from orbitcc.agents.runs import RunFolder
from orbitcc.envs.environments.presets import STATS, preset
from orbitcc.envs.errors import OrbitccError
from orbitcc.training import distill, loop, recipe
from orbitcc.training.mlp import Mixture
from orbitcc.training.recipe import Recipe

FEATURES = '["inflation", "delivered", {name = "min-rtt", window_s = 6}, {name = "loss", average_rtts = 64}]'
WORLDS = """
kind = "mixture"
name = "near-and-far"
common = {duration_s = 10, flows = {low = 1, high = 1}, rate_mbps = {low = 10, high = 40}}
parts = [
    {name = "near", base = "train-leo", without = ["slots"], base_rtt_ms = {low = 20, high = 30}},
    {name = "far", base = "train-leo", without = ["slots"], base_rtt_ms = {low = 150, high = 200}},
]
"""
RECIPE = """
name = "student"
algorithm = "ppo"
agent_steps = 12_000
scenario = {{{worlds}}}
[preset]
base = "ratios"
observation = {{name = "features", features = {features}}}
[network]
hidden = []
experts = 2
gate_hidden = [8]
[learner]
flows = 16
batch = 1_024
minibatch = 256
privileged_critic = true
critic_hidden = [16]
normalise_observations = true
exploration_std_final = 0.05
lr = 1e-4
[evaluation]
every = 100_000
worlds = 1
give_up_after = 0
"""


def written(folder: Path, name: str, features: str = FEATURES, worlds: str = WORLDS) -> str:
    """The file of a recipe."""
    folder.mkdir(exist_ok=True)
    inline = ", ".join(line.strip() for line in worlds.strip().replace(",\n", ", ").replace("[\n", "[").splitlines())
    path = folder / f"{name}.toml"
    path.write_text(RECIPE.format(worlds=inline.replace(", ]", "]"), features=features), encoding="utf-8")
    return str(path)


def constant(folder: Path, name: str, action: float, *changes: str, features: str = FEATURES) -> str:
    """A checkpoint that always takes one action."""
    settings = ("network.experts=0", "agent_steps=1", "learner.batch=16", "learner.minibatch=16", *changes)
    made = recipe.load(written(folder, name, features), settings)
    run = loop.new_run(made, 1, folder / name, "a test")
    loop.train(made, 1, run, resume=False, command="a test")
    tensors = {key: 0 * value for key, value in checkpoint.read_tensors(run.last).items()}
    tensors["normaliser.std"] += 1
    tensors["layers.0.bias"] += np.float32(action)
    checkpoint.save(run.last, checkpoint.read_card(run.last), tensors)
    return str(run.last)


@pytest.fixture(scope="module")
def teachers(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """One that speeds up, one that slows down."""
    folder = tmp_path_factory.mktemp("teachers")
    return constant(folder, "up", 0.3), constant(folder, "down", -0.2)


def student(folder: Path, *changes: str) -> Recipe:
    return recipe.load(written(folder, "student"), changes)


def taught(*pairs: tuple[str, str]) -> str:
    listed = ", ".join(f'{{policy = "{policy}", worlds = [{worlds}]}}' for policy, worlds in pairs)
    return f"distill.teachers=[{listed}]"


def test_a_student_does_in_each_world_what_its_teacher_does(tmp_path: Path, teachers: tuple[str, str]) -> None:
    """The actions of the teachers are 0.3 on near paths and -0.2 on far ones, which the minimum RTT tells apart."""
    up, down = teachers
    made = student(
        tmp_path,
        taught((up, '"near"'), (down, "")),
        "distill.agent_steps=60000",
        "distill.lr=1e-2",
        "distill.privileged_weight=0.1",
    )
    learner = distill.DistillingLearner(made, 1)
    first = learner.iterate()
    figures = [learner.iterate() for _ in range(50)]
    assert first["learner/imitation_loss"] > 0.03
    assert figures[-1]["learner/imitation_loss"] < 0.005
    assert figures[-1]["learner/privileged_loss"] < 0.8 * figures[5]["learner/privileged_loss"]
    assert figures[-1]["learner/value_explained"] > 0.2, "the critic is warm when PPO begins"
    roll = learner._rollout
    acted = learner.actor.forward(torch.from_numpy(roll.inputs[-2, :, : roll.sees])).numpy()[:, 0]
    far = learner._env.statistics()[:, STATS["base_rtt_s"]] > 0.1
    met = roll.heeded[-1]
    assert np.abs(acted[met & ~far] - 0.3).max(initial=0) < 0.15
    assert np.abs(acted[met & far] + 0.2).max(initial=0) < 0.15
    learner.stop()


def test_labels_are_the_actions_with_the_step_of_the_teacher(tmp_path: Path, teachers: tuple[str, str]) -> None:
    """exp(0.25 (0.3 a + 0.7 a^3)) at a = 0.3 is exp(0.25 x 0.1089): with steps of 0.5 a, an action of 0.05445."""
    step = 'preset.action={name = "log-window", step = 0.5, cubic = 0}'
    made = distill.Teacher(teachers[0], preset(student(tmp_path, step).preset))
    assert made.label(np.zeros((3, 4), np.float32))[:, 0] == pytest.approx([0.05445] * 3, abs=1e-5)
    smaller = 'preset.action={name = "log-window", step = 0.02, cubic = 0}'
    made = distill.Teacher(teachers[0], preset(student(tmp_path, smaller).preset))
    assert made.label(np.zeros((1, 4), np.float32)) == [[1.0]], "beyond the student's steps: its largest"


def test_a_teacher_may_observe_less_than_its_student(tmp_path: Path) -> None:
    some = '[{name = "loss", average_rtts = 64}, "inflation"]'
    teacher = constant(tmp_path, "some", 0.0, features=some)
    tensors, card = checkpoint.read_tensors(Path(teacher)), checkpoint.read_card(Path(teacher))
    tensors["layers.0.weight"] = np.array([[0.5, -0.25]], np.float32)
    checkpoint.save(Path(teacher), card, tensors)
    made = distill.Teacher(teacher, preset(student(tmp_path).preset))
    rows = np.array([[0.4, 9.0, 9.0, 0.8]], np.float32)  # inflation 0.4, loss 0.8
    acted = 0.5 * 0.8 - 0.25 * 0.4
    assert made.label(rows)[0, 0] == pytest.approx(acted, abs=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["preset.interval_ms=60"], "interval, 60 ms; this policy has an interval of 30 ms"),
        (
            ['preset.observation={name="features", features=["inflation"]}'],
            "of the student.*the feature delivered",
        ),
        (["preset.observation=ratios"], "the observation features"),
        (['preset.action={name="log-rate"}'], "steps as the student's"),
        (["network.experts=0", "distill.privileged_weight=1"], "0 without a gate"),
        (["learner.privileged_critic=false", "distill.privileged_weight=1"], "0 without a gate"),
    ],
)
def test_a_teacher_that_cannot_teach(
    tmp_path: Path, teachers: tuple[str, str], changes: list[str], message: str
) -> None:
    with pytest.raises(OrbitccError, match=message):
        distill.DistillingLearner(student(tmp_path, taught((teachers[0], "")), *changes), 1)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("up", '"moon"')], "name of a part: far, near"),
        ([("up", '"near"')], "a teacher for far, too"),
        ([("up", '"near", "far"'), ("down", '"far"')], "one teacher for each kind of world"),
        ([("up", ""), ("down", "")], "at most one, for all other worlds"),
        ([("nobody", "")], "nobody"),
    ],
)
def test_every_world_has_one_teacher(
    tmp_path: Path, teachers: tuple[str, str], pairs: list[tuple[str, str]], message: str
) -> None:
    paths = dict(zip(("up", "down"), teachers, strict=True))
    given = [(paths.get(name, name), worlds) for name, worlds in pairs]
    with pytest.raises(OrbitccError, match=message):
        distill.DistillingLearner(student(tmp_path, taught(*given)), 1)


def test_a_run_that_is_resumed_equals_one_that_was_not(tmp_path: Path, teachers: tuple[str, str]) -> None:
    """Interrupted while it imitates and while it learns with PPO."""
    up, down = teachers
    made = student(tmp_path, taught((up, '"near"'), (down, "")), "distill.agent_steps=4000", "agent_steps=8000")
    whole = distill.DistillingLearner(made, 3)
    for _ in range(8):
        whole.iterate()
    parts = distill.DistillingLearner(made, 3)
    for at in range(8):
        parts.iterate()
        if at in (1, 5):
            (tmp_path / f"{at}").mkdir()
            parts.save(tmp_path / f"{at}")
            parts.stop()
            parts = distill.DistillingLearner(made, 3)
            parts.load(tmp_path / f"{at}")
    assert torch.equal(whole.actor.theta, parts.actor.theta)
    assert torch.equal(whole.critic.theta, parts.critic.theta)
    whole.stop()
    parts.stop()


def test_the_command_trains_a_student(tmp_path: Path, teachers: tuple[str, str]) -> None:
    from typer.testing import CliRunner

    from orbitcc.cli import app

    up, down = teachers
    words = ["distill", "--student", written(tmp_path, "student"), "--teacher", f"{up}=near", "--teacher", down]
    small = ["--set", "distill.agent_steps=1000", "--set", "agent_steps=3000"]
    result = CliRunner().invoke(app, [*words, *small, "--out", str(tmp_path / "runs"), "--name", "one", "--json"])
    assert result.exit_code == 0, result.output
    run = RunFolder(tmp_path / "runs" / "one")
    table = run.config("recipe")["recipe"]["distill"]
    assert [list(teacher["worlds"]) for teacher in table["teachers"]] == [["near"], []]
    card = checkpoint.load(run.last).card
    assert card.gate is not None
    assert card.gate.layers[-1].units == 2, "what the gate predicts in training is not in the checkpoint"


def test_gradients_with_auxiliary_outputs_are_those_of_autograd() -> None:
    linear = Layer(units=3, activation="linear")
    gate = Gate(layers=(Layer(units=6, activation="tanh"), linear), inputs=(4, 1), expert_inputs=(0, 1, 2))
    ours = Mixture([linear], gate, auxiliary=2)
    ours.theta.copy_(torch.randn(len(ours.theta), generator=torch.Generator().manual_seed(2)))
    theta = ours.theta.clone().requires_grad_()
    rows, weights, further = torch.randn(30, 5), torch.randn(30, 1), torch.randn(30, 2)
    experts, bias, first, shift, second, end = theta.split([9, 3, 12, 6, 30, 5])
    values = rows[:, :3] @ experts.view(3, 3).T + bias
    hidden = torch.tanh(rows[:, [4, 1]] @ first.view(6, 2).T + shift)
    outputs = hidden @ second.view(5, 6).T + end
    mean = (values * torch.softmax(outputs[:, :3], 1)).sum(1, keepdim=True)
    assert torch.allclose(ours.forward(rows), mean, atol=1e-6)
    assert torch.allclose(ours.auxiliary, outputs[:, 3:], atol=1e-6)
    ((mean * weights).sum() + (outputs[:, 3:] * further).sum()).backward()
    ours.backward(weights, further)
    assert torch.allclose(ours.theta.grad, theta.grad, atol=1e-5)
    assert ours.tensors()["gate.1.weight"].shape == (3, 6)
