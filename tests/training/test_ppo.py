"""PPO of our own: advantages, masks, gradients, exported policies, exact resuming, and that it learns."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from orbitcc import _sim
from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import Gate, Layer
from orbitcc.agents.policy import network
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.presets import STATS
from orbitcc.envs.scenarios import get
from orbitcc.training import loop, privileged, recipe
from orbitcc.training.mlp import Experts, Mlp
from orbitcc.training.networks import Moments
from orbitcc.training.ppo import CLIP, PpoLearner, gae

SMALL = (
    "preset=astraea-leo",
    "learner.normalise_observations=false",
    "agent_steps=1000",
    "evaluation.every=500",
    "evaluation.worlds=1",
    "network.hidden=[16,16]",
    "learner.flows=8",
    "learner.batch=512",
    "learner.minibatch=128",
    "learner.epochs=2",
)


def learner(*changes: str, seed: int = 1) -> PpoLearner:
    return PpoLearner(recipe.load("ppo-leo", [*SMALL, *changes]), seed)


def policy_of(trained: PpoLearner) -> _sim.Policy:
    tensors = trained.tensors()
    return _sim.Policy(
        **network(trained.layers, None, tensors),
        observation='"astraea-leo"',
        action='"astraea"',
        interval_ns=30_000_000,
        squash=trained.squash,
        mean=tensors.get("normaliser.mean"),
        std=tensors.get("normaliser.std"),
    )


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def advantages(
    rewards: np.ndarray, values: np.ndarray, ended: np.ndarray, final: np.ndarray, **rates: float
) -> np.ndarray:
    """Of flows that decide together, arrays [T, N] (or [T] of one flow), with values [T + 1, N]."""
    flows = rewards[0].size
    follows = np.arange(rewards.size) + flows
    flat = rewards.ravel(), values.ravel(), follows, ended.ravel(), final.ravel()
    return gae(*flat, range(0, rewards.size, flows), **rates).reshape(rewards.shape)


def test_advantages_of_a_connection_that_goes_on() -> None:
    """Gamma 0.5, lambda 0.5, by hand: the surprises are 1 + 0.5 x 2 - 1 = 1, 0 + 0.5 x 4 - 2 = 0, 2 + 0 - 4 = -2."""
    rewards, values = column(1, 0, 2), column(1, 2, 4, 0)
    nothing = np.zeros(3, bool), np.zeros(3, np.float32)
    found = advantages(rewards, values, *nothing, gamma=0.5, lambda_=0.5)
    assert found.tolist() == [1 + 0.25 * (0 + 0.25 * -2), 0 + 0.25 * -2, -2]


def test_a_connection_cut_off_is_worth_its_last_observation_and_nothing_of_the_next() -> None:
    """By hand: 0 + 0.5 x 6 - 2 = 1 where it is cut off; the first step sees that, but not what the successor gets."""
    rewards, values = column(1, 0, 2), column(1, 2, 4, 100)
    ended, final = column(0, 1, 0).astype(bool), column(0, 6, 0)
    found = advantages(rewards, values, ended, final, gamma=0.5, lambda_=0.5)
    assert found.tolist() == [1 + 0.25 * 1, 1, 2 + 50 - 4]
    done = advantages(rewards, values, ended, 0 * final, gamma=0.5, lambda_=0.5)
    assert done[1] == -2, "nothing follows a connection that is done"


def test_advantages_add_up_the_discounted_rewards_when_lambda_is_one() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(20, 3)).astype(np.float32), rng.normal(size=(21, 3)).astype(np.float32)
    ended, final = rng.random((20, 3)) < 0.2, rng.normal(size=(20, 3)).astype(np.float32)
    found = advantages(rewards, values, ended, final, gamma=0.9, lambda_=1.0)
    for agent in range(3):
        expected = float(values[-1, agent])
        for t in reversed(range(20)):
            expected = rewards[t, agent] + 0.9 * (final[t, agent] if ended[t, agent] else expected)
            assert found[t, agent] == pytest.approx(expected - values[t, agent], abs=1e-5)


def test_advantages_follow_each_flow_s_own_decisions() -> None:
    """Gamma 0.5, lambda 0.5. Flow A decides at 0, 1, 3 and 4 and waits then; flow B at 1 and 4, and ends after both.

    By hand, values 1 to 6 and 7 behind them: A's surprises are 1 + 0.5 x 2 - 1 = 1 and 0 + 0.5 x 4 - 2 = 0; its third
    decision is followed by the one that waits, 2 + 0.5 x 5 - 4 = 0.5, which is no estimate. B was cut off at a value of
    8, 1 + 0.5 x 8 - 3 = 2, then it is done, 1 - 6 = -5.
    """
    rewards, values = column(1, 0, 1, 2, 0, 1), column(1, 2, 3, 4, 5, 6, 7)
    ended, final = column(0, 0, 1, 0, 0, 1).astype(bool), column(0, 0, 8, 0, 0, 0)
    found = gae(rewards, values, np.array([1, 3, 0, 4, 0, 0]), ended, final, [0, 1, 3, 4], 0.5, 0.5, np.array([4]))
    assert found.tolist() == [1 + 0.25 * (0 + 0.25 * 0.5), 0 + 0.25 * 0.5, 2, 0.5, 0, -5]


@pytest.mark.parametrize("activation", ["tanh", "relu", "leaky_relu"])
def test_gradients_by_hand_are_those_of_autograd(activation: str) -> None:
    layers = [Layer(units=7, activation=activation), Layer(units=5, activation=activation)]
    ours = Mlp(4, [*layers, Layer(units=2, activation="linear")], last_gain=1.0)
    theirs = []
    for weight, bias in ours.weights:
        dense = torch.nn.Linear(weight.shape[1], weight.shape[0])
        dense.weight.data, dense.bias.data = weight.clone(), bias.copy_(torch.randn(len(bias))).clone()
        theirs += [dense, {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}.get(activation, torch.nn.LeakyReLU)()]
        if activation == "leaky_relu":
            theirs[-1] = torch.nn.LeakyReLU(0.2)
    network = torch.nn.Sequential(*theirs[:-1])
    for count in (30, 11):  # the second time in memory that is too large
        wide = torch.randn(count, 6)
        rows, weights = wide[:, :4], torch.randn(count, 2)  # rows of a larger array, as the learner's
        out = ours.forward(rows)
        assert torch.allclose(out, network(rows), atol=1e-6)
        network.zero_grad()
        (network(rows) * weights).sum().backward()
        ours.backward(weights)
        expected = torch.cat([p.grad.flatten() for p in network.parameters()])
        assert torch.allclose(ours.theta.grad, expected, atol=1e-5)


def test_gradients_of_a_mixture_are_those_of_autograd() -> None:
    linear = Layer(units=3, activation="linear")
    gate = Gate(layers=(Layer(units=6, activation="tanh"), linear), inputs=(4, 1), expert_inputs=(0, 1, 2))
    ours = Experts([linear], gate, generator=torch.Generator().manual_seed(1))
    ours.theta.copy_(torch.randn(len(ours.theta), generator=torch.Generator().manual_seed(2)))

    def network(theta: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        experts, bias, first, shift, second, end = theta.split([9, 3, 12, 6, 18, 3])
        values = rows[:, :3] @ experts.view(3, 3).T + bias
        hidden = torch.tanh(rows[:, [4, 1]] @ first.view(6, 2).T + shift)
        shares = torch.softmax(hidden @ second.view(3, 6).T + end, 1)
        return torch.einsum("nk,nk->n", values, shares)[:, None]

    for count in (30, 11):
        rows, weights = torch.randn(count, 5), torch.randn(count, 1)
        theta = ours.theta.clone().requires_grad_()
        expected = network(theta, rows)
        assert torch.allclose(ours.forward(rows), expected, atol=1e-6)
        (expected * weights).sum().backward()
        ours.backward(weights)
        assert torch.allclose(ours.theta.grad, theta.grad, atol=1e-5)


def test_a_mixture_learns_and_its_checkpoint_acts_as_the_learner_does(tmp_path: Path) -> None:
    # Observation of a list of features; the gate sees the last two, the experts the first three.
    listed = '["inflation", "delivered", "own-queue", "jitter", {name = "loss", average_rtts = 64}]'
    settings = [
        *SMALL,
        f'preset={{base="ratios", observation={{name="features", features={listed}}}}}',
        "network.hidden=[]",
        "network.experts=4",
        "network.gate_inputs=[3, 4]",
        "network.expert_inputs=[0, 1, 2]",
        "learner.normalise_observations=true",
    ]
    made = recipe.load("ppo-leo", settings)
    run = loop.new_run(made, 1, tmp_path, "a test")
    loop.train(made, 1, run, resume=False, command="a test")
    loaded = checkpoint.load(run.last)
    gate = loaded.card.gate
    assert gate is not None
    assert (gate.inputs, loaded.card.layers[-1].units) == ((3, 4), 4)
    tensors = checkpoint.read_tensors(run.last)
    rows = torch.rand(200, 5, generator=torch.Generator().manual_seed(3))
    seen = ((rows - torch.from_numpy(tensors["normaliser.mean"])) / torch.from_numpy(tensors["normaliser.std"])).clamp(
        -10, 10
    )
    dense = torch.nn.functional.linear
    part = {name: torch.from_numpy(value) for name, value in tensors.items()}
    values = dense(seen[:, :3], part["layers.0.weight"], part["layers.0.bias"])
    hidden = torch.tanh(dense(seen[:, 3:], part["gate.0.weight"], part["gate.0.bias"]))
    shares = torch.softmax(dense(hidden, part["gate.1.weight"], part["gate.1.bias"]), 1)
    expected = (values * shares).sum(1).clamp(-1, 1)
    assert np.allclose(loaded.policy.act(rows.numpy())[:, 0], expected.numpy(), atol=1e-6)
    alone = np.array([loaded.policy.act(row[None])[0, 0] for row in rows.numpy()])
    assert np.array_equal(alone, loaded.policy.act(rows.numpy())[:, 0]), "bit-equal over batch sizes"


LISTED = (
    *SMALL,
    'preset={base="ratios", observation={name="features", features=["inflation", "delivered", "own-queue", "jitter"]}}',
    "network.hidden=[]",
    "network.experts=4",
    "network.gate_inputs=[3]",
    "network.expert_inputs=[0, 1, 2]",
    "learner.normalise_observations=true",
    "learner.exploration_std_final=0.1",
)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy to start from, with a gate and a normaliser."""
    made = recipe.load("ppo-leo", list(LISTED))
    run = loop.new_run(made, 1, tmp_path_factory.mktemp("begun"), "a test")
    loop.train(made, 1, run, resume=False, command="a test")
    return run.last


def test_training_starts_from_a_checkpoint_and_the_critic_may_learn_first(begun: Path) -> None:
    trained = PpoLearner(recipe.load("ppo-leo", [*LISTED, f"start_from={begun}", "learner.critic_first=512"]), 2)
    first, critic = checkpoint.read_tensors(begun), trained.critic.theta.clone()
    for name, value in trained.tensors().items():
        assert np.allclose(value, first[name], rtol=1e-6), name
    trained.iterate()
    assert not torch.equal(trained.critic.theta, critic), "the critic learns"
    for name, value in trained.tensors().items():
        if name.startswith("normaliser"):  # a thousandth of what it has seen is new
            assert np.allclose(value, first[name], rtol=0.01, atol=1e-3), name
        else:
            assert np.array_equal(value, first[name]), name
    assert trained.agent_steps >= 512
    trained.iterate()
    assert not np.array_equal(trained.tensors()["layers.0.weight"], first["layers.0.weight"]), "then the policy learns"


def test_a_training_that_started_from_a_checkpoint_resumes_bit_for_bit(begun: Path, tmp_path: Path) -> None:
    plan = recipe.load("ppo-leo", [*LISTED, f"start_from={begun}"])
    ahead, resumed = PpoLearner(plan, 2), PpoLearner(plan, 3)
    ahead.iterate()
    ahead.save(tmp_path)
    resumed.load(tmp_path)
    for _ in range(4):
        ahead.iterate()
        resumed.iterate()
    for name, value in resumed.tensors().items():
        assert np.array_equal(value, ahead.tensors()[name]), name


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ('preset.action={name="log-window", cubic=0.4}', "action"),
        ('preset.observation.features=["inflation", "delivered", "own-queue", "silence"]', "observation"),
        ("network.experts=3", "network"),
        ("learner.squash=tanh", "squash"),
        ("learner.normalise_observations=false", "normaliser"),
    ],
)
def test_a_policy_of_another_kind_is_no_start(begun: Path, change: str, part: str) -> None:
    with pytest.raises(OrbitccError, match=f"start_from.*the {part} of the recipe"):
        PpoLearner(recipe.load("ppo-leo", [*LISTED, f"start_from={begun}", change]), 2)


def test_a_gate_observes_columns_that_there_are() -> None:
    with pytest.raises(OrbitccError, match=r"network.gate_inputs.*columns of the observation, 0 to 49"):
        learner("network.experts=2", "network.gate_inputs=[50]")


@pytest.mark.parametrize("squash", ["clip", "tanh"])
@pytest.mark.parametrize("normalise", ["true", "false"])
def test_the_exported_policy_acts_as_the_learner_does(squash: str, normalise: str) -> None:
    trained = learner(
        f"learner.squash={squash}", f"learner.normalise_observations={normalise}", "network.activation=leaky_relu"
    )
    trained.iterate()
    trained.actor.theta += 0.1 * torch.randn(trained.actor.theta.shape, generator=torch.Generator().manual_seed(1))
    obs = np.random.default_rng(0).uniform(0, 1, (64, 50)).astype(np.float32)
    seen = obs
    if trained.normaliser is not None:
        obs = trained.normaliser.mean + obs * trained.normaliser.std
        seen = trained.normaliser(obs)
    mean = trained.actor.forward(torch.from_numpy(seen)).numpy()
    expected = np.tanh(mean) if squash == "tanh" else np.clip(mean, -1, 1)
    assert expected.std() > 0.01
    assert np.allclose(policy_of(trained).act(obs), expected, atol=1e-5)


def test_the_normaliser_knows_mean_and_deviation_of_all_it_has_seen() -> None:
    rows = np.random.default_rng(0).normal([1.0, -3.0], [2.0, 0.1], (500, 2)).astype(np.float32)
    normaliser = Moments(2, CLIP)
    for part in np.split(rows, [3, 50, 400]):
        normaliser.update(part)
    assert np.allclose(normaliser.mean, rows.mean(axis=0), atol=1e-5)
    assert np.allclose(normaliser.std, rows.std(axis=0), atol=1e-5)
    normaliser.update(np.zeros((100_000, 2), np.float32))
    assert normaliser.std[1] >= Moments.FLOOR
    assert np.abs(normaliser(np.full((1, 2), 1e6, np.float32))).max() == CLIP


def test_what_nobody_heeds_is_not_learned_from() -> None:
    """A connection that has just begun sees zeros and acts from the next decision on."""
    trained = learner("learner.batch=4096")
    figures = trained.iterate()
    roll = trained._rollout
    begun = ~roll.heeded
    assert begun.any()
    assert (roll.inputs[:4096][begun] == 0).all()
    assert (roll.inputs[:4096][roll.heeded] != 0).any(axis=-1).all()
    assert roll.ended[:-8][begun[8:]].all(), "each of them follows an end"
    assert figures["agent_steps"] == roll.heeded.sum()
    learned = (trained.actor.theta, trained.critic.theta, trained.log_std)
    before = [part.clone() for part in learned]
    generator = trained._rng.bit_generator.state

    def learn() -> torch.Tensor:
        """The last gradients of a new update from where it stood."""
        for part, value in zip(learned, before, strict=True):
            part.copy_(value)
        trained._rng.bit_generator.state = generator
        trained._judge()
        trained._optimiser.state.clear()
        trained._update()
        return torch.cat([trained.actor.theta.grad, trained.critic.theta.grad])

    as_it_was = learn()
    roll.rewards[begun] += 1000.0
    roll.sampled[begun] += 1000.0
    assert torch.equal(learn(), as_it_was)
    roll.rewards[roll.heeded] += 1000.0
    assert not torch.equal(learn(), as_it_was)


def test_where_a_connection_is_cut_off_its_last_inputs_are_kept() -> None:
    trained = learner("learner.batch=4096", "learner.privileged_critic=true")
    trained.iterate()
    roll = trained._rollout
    kept = np.zeros_like(roll.ended)
    for rows, inputs in roll.finals:
        kept[rows] = True
        assert inputs.shape == (rows.size, 50 + privileged.DIM)
        assert (inputs[:, :50] != 0).any(axis=1).all(), "not the zeros of the connection that follows"
        assert (inputs[:, 50 + privileged.GLOBAL_STATE] != 0).all(), "the link still has a capacity"
    assert kept.any()
    assert np.array_equal(kept, roll.ended)


def test_the_values_of_all_rows_are_the_critics() -> None:
    trained = learner("learner.flows=60", "learner.batch=6000")
    trained.iterate()
    values = trained._values(trained._rollout.inputs)
    one_by_one = [float(trained.critic.forward(torch.from_numpy(row[None]))) for row in trained._rollout.inputs[::60]]
    assert values.shape == (101 * 60,)
    assert np.allclose(values[::60], one_by_one, atol=1e-5)


def test_only_the_critic_is_privileged() -> None:
    plain, knowing = learner(), learner("learner.privileged_critic=true", "learner.critic_hidden=[32]")
    assert plain.critic.weights[0][0].shape == (16, 50)
    assert knowing.critic.weights[0][0].shape == (32, 50 + privileged.DIM)
    assert knowing.actor.weights[0][0].shape == (16, 50)
    assert {name: value.shape for name, value in knowing.tensors().items()} == {
        name: value.shape for name, value in plain.tensors().items()
    }
    knowing.iterate()
    known = knowing._rollout.inputs[..., 50:]
    assert np.isfinite(known).all()
    assert np.abs(known).max() <= 10.0
    assert (known[:-8][knowing._rollout.heeded].std(axis=0) > 0).sum() >= 15, "most of it differs between flows"


def test_privileged_inputs_by_hand() -> None:
    """A link of 100 Mbit/s and 20 ms, a BDP of 250 kB."""
    row = np.zeros(len(STATS))
    truths = {
        "capacity_bps": 100e6,
        "base_rtt_s": 0.02,
        "queue_bytes": 250e3,
        "buffer_bytes": 500e3,
        "link_loss": 0.01,
        "fair_share_bps": 50e6,
        "flows_active": 2.0,
        "delivery_rate_bps": 25e6,
    }
    for name, value in truths.items():
        row[STATS[name]] = value
    state = np.arange(12, dtype=np.float32)
    found = privileged.privileged(state[None], row[None, privileged.COLUMNS])[0]
    assert found[:12].tolist() == np.minimum(state, 10).tolist()
    expected = [2.0, np.log10(50), np.log10(20) - 1, np.log(2), np.log(3), 0.1, 0.5, 0.2]
    assert found[12:].tolist() == pytest.approx(expected, rel=1e-6)
    outage = privileged.privileged(state[None], np.zeros((1, 8)))[0, 12:]
    assert (outage == 0).all()


def test_schedules_are_linear_in_agent_steps() -> None:
    trained = learner(
        "learner.lr=1e-3", "learner.lr_final=1e-4", "learner.lr_decay=1000", "learner.exploration_std_final=0.1"
    )
    for steps, rate, std in ((0, 1e-3, 0.4), (500, 5.5e-4, 0.25), (5000, 1e-4, 0.1)):
        trained.agent_steps = steps
        trained._schedule()
        assert trained._optimiser.param_groups[0]["lr"] == pytest.approx(rate)
        assert float(trained.log_std.exp()) == pytest.approx(std)
    assert trained.iterate()["learner/exploration_std"] == pytest.approx(0.1)
    learned = learner("learner.lr=1e-2")
    assert learned.iterate()["learner/exploration_std"] != pytest.approx(0.4, abs=1e-4)


def test_epochs_end_once_the_policy_is_too_far() -> None:
    assert learner("learner.lr=1e-2", "learner.epochs=6").iterate()["learner/epochs"] == 6
    assert learner("learner.lr=1e-2", "learner.epochs=6", "learner.kl_target=1e-6").iterate()["learner/epochs"] == 1


@pytest.mark.parametrize("kind", ["squared", "huber", "clipped"])
def test_value_losses_by_hand(kind: str) -> None:
    """Values 0.5 and 3, returns 0, values before 0: with clip 0.2 the worse of the error and the clipped value's."""
    trained = learner(f"learner.value_loss={kind}")
    found = trained._value_loss(torch.tensor([0.5, 3.0]), torch.zeros(2), torch.tensor([0.0, 0.0]))
    expected = {"squared": (0.25 + 9) / 2, "huber": (0.125 + 2.5) / 2, "clipped": (0.25 + 9) / 2}
    assert float(found) == pytest.approx(expected[kind])
    near = trained._value_loss(torch.tensor([0.5]), torch.zeros(1), torch.tensor([1.0]))
    assert float(near) == pytest.approx({"squared": 0.25, "huber": 0.125, "clipped": 0.64}[kind])


def test_a_penalty_keeps_actions_small() -> None:
    obs = np.random.default_rng(0).uniform(0, 1, (64, 50)).astype(np.float32)
    free, held = 0.0, 0.0
    for seed in (1, 2, 3):
        plain, kept = (
            learner("learner.lr=1e-2", seed=seed),
            learner("learner.lr=1e-2", "learner.action_penalty=10", seed=seed),
        )
        for _ in range(8):
            plain.iterate(), kept.iterate()
        free += float(np.abs(policy_of(plain).act(obs)).mean())
        held += float(np.abs(policy_of(kept).act(obs)).mean())
    assert held < 0.5 * free


def test_a_resumed_learner_goes_on_bit_for_bit(tmp_path: Path) -> None:
    changes = ["learner.normalise_observations=true", "learner.privileged_critic=true", "learner.batch=2048"]
    first = learner(*changes)
    first.iterate()
    first.save(tmp_path)
    second = learner(*changes, seed=7)
    second.load(tmp_path)
    for _ in range(2):
        assert second.iterate() == first.iterate()
    assert torch.equal(second.actor.theta, first.actor.theta)
    assert all(np.array_equal(value, second.tensors()[name]) for name, value in first.tensors().items())
    other = learner(*changes, "network.hidden=[8]")
    with pytest.raises(OrbitccError, match="resume"):
        other.load(tmp_path)
    with pytest.raises(OrbitccError, match="resume"):
        other.load(tmp_path / "nowhere")


def test_a_run_leaves_the_usual_folder_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    plan = recipe.load("ppo-leo", [*SMALL, "learner.normalise_observations=true"])
    run = RunFolder.create(tmp_path, plan.scenario, plan.name, 1, {"recipe": plan.model_dump(), "revision": "test"})
    first = loop.train(plan, 1, run, resume=False, command="test")
    assert first.finished
    longer = plan.model_copy(update={"agent_steps": first.agent_steps + 500})
    second = loop.train(longer, 1, run, resume=True, command="test")
    assert second.agent_steps > first.agent_steps
    tags = {line.split(",")[1] for line in (run.path / "metrics.csv").read_text(encoding="utf-8").splitlines()[1:]}
    assert {"train/reward", "heldout/reward", "learner/policy_loss", "learner/kl", "learner/value_explained"} <= tags
    loaded = checkpoint.load(run.last)
    assert loaded.card.normaliser
    assert [layer.units for layer in loaded.card.layers] == [16, 16, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("learner.privileged_critic=true", r"learner\.privileged_critic"),
        ("learner.kl_target=0.1", r"learner\.kl_target"),
        ("learner.squash=tanh", r"learner\.squash"),
        ("network.activation=leaky_relu", r"network\.activation"),
    ],
)
def test_settings_that_another_learner_does_not_know_are_refused(change: str, message: str) -> None:
    recipe.load("ppo-leo", [change])
    with pytest.raises(OrbitccError, match=message):
        recipe.load("sb3-ppo-leo", [change])
    with pytest.raises(OrbitccError, match=r"value_loss"):
        recipe.load("ppo-leo", ["learner.value_loss=absolute"])


def test_it_learns_on_a_tiny_world(tmp_path: Path) -> None:
    """One flow on a link of 10 Mbit/s; doing nothing leaves most of it idle."""
    scenario = tmp_path / "tiny.toml"
    world = get("dumbbell", rate_mbps=10, base_rtt_ms=30, duration_s=10).with_flows([Flow(controller="external")])
    scenario.write_text(world.to_toml())
    changes = [
        "learner.flows=32",
        "learner.batch=4096",
        "learner.minibatch=512",
        "learner.lr=1e-3",
        "learner.lr_decay=1_500_000",
        f"scenario={scenario}",
    ]
    trained = learner(*changes, "learner.epochs=4")
    rewards = [trained.iterate()["train/reward"] for _ in range(12)]
    assert np.mean(rewards[-2:]) > np.mean(rewards[:2]) + 0.02


OWN_CLOCKS = (
    'preset={base="astraea-leo", interval_rtts=0.25, interval_least_ms=10, clock="flow"}',
    "learner.privileged_critic=true",
)


def test_flows_on_clocks_of_their_own_learn_from_complete_decisions() -> None:
    """Every decision is learned from once, with what `FlowVectorEnv.step` tells of its flow until the next one."""
    trained = learner(*OWN_CLOCKS, "learner.batch=1024", "learner.epochs=1")
    plan, ppo = trained.recipe, trained.settings
    env = FlowVectorEnv(
        8, plan.world(), preset=plan.preset, reward_scale=ppo.reward_scale, stagger=True, autoreset_mode="SameStep"
    )
    obs, _ = env.reset(seed=1)
    waits: dict[int, tuple[int, int]] = {}  # of each flow: the iteration and the row of its decision
    expected: dict[tuple[int, int], tuple[float, bool, bytes]] = {}
    found: dict[tuple[int, int], tuple[float, bool, bytes]] = {}
    kept: list[tuple[int, int]] = []
    for iteration in range(3):
        trained.iterate()
        roll = trained._rollout
        assert roll.begun == len(kept)
        names = kept + [(iteration, row) for row in range(roll.begun, roll.filled)]
        row = roll.begun
        while row < roll.filled:
            due = np.flatnonzero(env.active())
            assert 0 < due.size <= 8
            actions = np.full((8, 1), 7.0, np.float32)  # of no effect where a flow is not due
            for flow in due:
                assert flow not in waits
                assert np.array_equal(roll.inputs[row, :50], obs[flow])
                actions[flow], waits[int(flow)] = roll.sampled[row].clip(-1, 1), names[row]
                row += 1
            obs, rewards, terminated, truncated, infos = env.step(actions)
            for flow in np.flatnonzero(terminated | truncated | env.active()):
                over = bool(terminated[flow] | truncated[flow])
                last = infos["final_obs"][flow] if over else obs[flow]
                if flow in waits:
                    expected[waits.pop(int(flow))] = (float(np.float32(rewards[flow])), over, last.tobytes())
        final = {int(row): inputs[k] for rows, inputs in roll.finals for k, row in enumerate(rows)}
        for row in np.flatnonzero(roll.heeded):
            after = final[row] if roll.ended[row] else roll.inputs[roll.follows[row]]
            assert names[row] not in found
            found[names[row]] = (float(roll.rewards[row]), bool(roll.ended[row]), after[:50].tobytes())
        kept = [names[row] for row in roll.waiting]
        assert sorted(kept) == sorted(waits.values())
        assert 1024 <= roll.filled < 1024 + 8
        assert trained.agent_steps == len(found)
    assert found == expected
    assert sum(over for _, over, _ in found.values()) > 0
    assert kept, "some are left for the next iteration"


def test_a_checkpoint_tells_the_clock_of_its_training_unless_it_is_the_usual_one(tmp_path: Path) -> None:
    for number, (settings, clock) in enumerate(((OWN_CLOCKS, "flow"), ((), "world"))):
        made = recipe.load("ppo-leo", [*SMALL, *settings])
        run = loop.new_run(made, number, tmp_path, "a test")
        loop.train(made, number, run, resume=False, command="a test")
        loaded = checkpoint.load(run.last)
        assert (loaded.card.clock, loaded.preset.clock) == (clock, clock)
        assert ('"clock"' in (run.last / "card.json").read_text()) == (clock == "flow")


def test_a_training_on_flows_own_clocks_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = (*OWN_CLOCKS, "learner.normalise_observations=true")
    ahead, resumed = learner(*settings, seed=2), learner(*settings, seed=3)
    for _ in range(2):
        ahead.iterate()
    ahead.save(tmp_path)
    resumed.load(tmp_path)
    assert ahead._rollout.waiting.size > 0, "some decisions are not complete"
    for _ in range(3):
        assert ahead.iterate() == resumed.iterate()
    for name, value in resumed.tensors().items():
        assert np.array_equal(value, ahead.tensors()[name]), name
