"""PPO for recurrent policies: gradients, states in the rollout, sequences, exact resuming, and that it remembers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from gymnasium.spaces import Box

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import Gru, Layer
from orbitcc.envs.errors import OrbitccError
from orbitcc.training import loop, ppo, recipe
from orbitcc.training.gru import GruNetwork
from orbitcc.training.recurrent_ppo import RecurrentPpoLearner

SMALL = (
    "preset=astraea-leo",
    "learner.normalise_observations=false",
    "agent_steps=1000",
    "evaluation.every=500",
    "evaluation.worlds=1",
    "network.hidden=[]",
    "network.gru=5",
    "network.gru_inputs=[0,3,4]",
    "learner.critic_hidden=[16]",
    "learner.flows=8",
    "learner.batch=512",
    "learner.minibatch=128",
    "learner.epochs=2",
    "learner.sequence=16",
)


def learner(*changes: str, seed: int = 1) -> RecurrentPpoLearner:
    return RecurrentPpoLearner(recipe.load("ppo-leo", [*SMALL, *changes]), seed)


def network(every: int = 1) -> GruNetwork:
    layers = [Layer(units=4, activation="leaky_relu"), Layer(units=2, activation="linear")]
    made = GruNetwork(
        layers, Gru(units=3, inputs=(1, 2), head_inputs=(0,), every=every), generator=torch.Generator().manual_seed(1)
    )
    made.theta.copy_(torch.randn(len(made.theta), generator=torch.Generator().manual_seed(2)))
    return made


def test_weights_and_gradients_share_one_vector() -> None:
    """Outputs and gradients are those of PyTorch's modules with the same weights."""
    made = network()
    theirs = torch.nn.GRU(2, 3)  # it has no resets, and takes a sequence at once
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(theirs, f"{name}_l0").data = torch.from_numpy(made.tensors()[f"gru.{name}"])
    rows, state = torch.randn(6, 4, 3), torch.cat([torch.randn(4, 3), torch.zeros(4, 1)], 1)
    everything = torch.ones(6, 4, dtype=torch.bool)
    out = made(rows, state, everything, everything)
    hidden, last = theirs(rows[..., 1:], state[None, :, :3].contiguous())
    tensors = {name: torch.from_numpy(value) for name, value in made.tensors().items()}
    x = torch.cat([rows[..., :1], hidden], 2).flatten(0, 1)
    x = torch.nn.functional.leaky_relu(x @ tensors["layers.0.weight"].T + tensors["layers.0.bias"], 0.2)
    expected = x @ tensors["layers.1.weight"].T + tensors["layers.1.bias"]
    assert torch.allclose(out, expected, atol=1e-6)
    weights = torch.randn(24, 2)
    (expected * weights).sum().backward()
    made.backward(weights)
    assert torch.allclose(made.cell.weight_hh.grad, theirs.weight_hh_l0.grad, atol=1e-5)
    assert torch.allclose(made.cell.bias_hh.grad, theirs.bias_hh_l0.grad, atol=1e-5)
    parts = torch.cat([weights.grad.flatten() for weights in made.parameters()])
    assert torch.equal(parts, made.theta.grad)
    assert torch.equal(torch.cat([weights.data.flatten() for weights in made.parameters()]), made.theta)
    assert last.shape == (1, 4, 3)


@pytest.mark.parametrize("every", [1, 3])
def test_a_sequence_is_its_steps_and_nothing_passes_the_end_of_a_connection(every: int) -> None:
    made, rows = network(every), torch.randn(9, 4, 3)
    keep = torch.ones(9, 4, dtype=torch.bool)
    keep[4, 2] = False
    begin = torch.zeros(4, 4)
    begin[:3, :3] = torch.randn(3, 3)
    counted = torch.ones(9, 4, dtype=torch.bool)
    counted[2, 1] = False
    out = made(rows, begin, keep, counted)
    assert out.shape == (35, 2)
    state, steps = begin, []
    for t in range(9):
        mean, state = made.step(rows[t], state)
        state = state * keep[t].unsqueeze(1)
        steps.append(mean)
    assert torch.allclose(out, torch.stack(steps)[counted], atol=1e-6)
    alone = network(every)
    fresh = alone(rows[5:, 2:3], torch.zeros(1, 4), keep[5:, 2:3], counted[5:, 2:3])
    assert torch.allclose(fresh, torch.stack(steps)[5:, 2], atol=1e-6)


def test_states_of_the_rollout_are_those_of_the_policy_and_zero_where_connections_begin() -> None:
    trained = learner("learner.batch=4096", "learner.privileged_critic=true", "network.gru_inputs=[]")
    for _ in range(2):
        before = trained._states.clone()
        trained._sample()
        roll = trained._rollout
        states = roll.inputs[..., -6:]
        assert np.array_equal(states[0], before), "an iteration goes on where the last one ended"
        begins = ~roll.heeded[:-1] | roll.ended[:-1]
        assert begins.any()
        assert (states[1:-1][begins] == 0).all()
        assert (states[1:-1][~begins][:, :5] != 0).any(axis=1).all()
        with torch.no_grad():
            for t in (0, 7, 300):
                mean, after = trained.actor.step(roll.rows[t, :, :50], roll.rows[t, :, -6:])
                assert np.allclose(mean.numpy() + roll.noise[t] * 0.4, roll.sampled[t], atol=1e-6)
                kept = roll.heeded[t] & ~roll.ended[t]
                assert np.allclose(after[kept].numpy(), states[t + 1][kept], atol=1e-6)
        for t, flows, inputs in roll.finals:
            assert inputs.shape[1] == roll.inputs.shape[2]
            assert (inputs[:, -6:-1] != 0).any(axis=1).all(), f"the state at the end of {flows} in step {t}"
    assert trained.critic.weights[0][0].shape[1] == 50 + ppo.privileged.DIM + 6


@pytest.mark.parametrize("length", [16, 100])
def test_an_epoch_covers_every_heeded_decision_once(length: int) -> None:
    """With sequences that fill the rollout of 512 steps, and with ones that do not."""
    trained = learner("learner.batch=4096", f"learner.sequence={length}", "learner.minibatch=256")
    trained._sample()
    roll = trained._rollout
    parts = list(trained._minibatches(7))
    assert len(parts) == 7
    assert sorted(torch.cat(parts).tolist()) == np.flatnonzero(roll.heeded).tolist()
    for rows in trained._minibatches(7):
        mean = trained._mean(trained._rollout.rows.flatten(0, 1)[rows]).detach().numpy()
        noise = roll.noise.reshape(-1, 1)[rows] * 0.4
        assert np.allclose(mean + noise, roll.sampled.reshape(-1, 1)[rows], atol=1e-5)


def test_the_exported_policy_acts_as_the_learner_does(tmp_path: Path) -> None:
    made = recipe.load("ppo-leo", [*SMALL, "learner.normalise_observations=true", "network.gru_every=2"])
    run = loop.new_run(made, 1, tmp_path, "a test")
    assert loop.train(made, 1, run, resume=False, command="a test").finished
    loaded = checkpoint.load(run.last)
    assert loaded.card.gru == Gru(units=5, inputs=(0, 3, 4), head_inputs=tuple(range(50)), every=2)
    assert len(loaded.card.layers) == 1, "a linear head"
    tensors = checkpoint.read_tensors(run.last)
    actor = GruNetwork(loaded.card.layers, loaded.card.gru)
    for name, weights in actor.named_parameters():
        weights.data.copy_(torch.from_numpy(tensors[name.replace("cell.", "gru.").replace("head.", "layers.")]))
    rows = np.random.default_rng(3).uniform(0, 1, (20, 6, 50)).astype(np.float32)
    state, native = torch.zeros(6, 6), np.zeros((6, 6), np.float32)
    for row in rows:
        seen = np.clip((row - tensors["normaliser.mean"]) / tensors["normaliser.std"], -10, 10)
        mean, state = actor.step(torch.from_numpy(seen), state)
        assert np.allclose(loaded.policy.act(row, native), mean.detach().clamp(-1, 1).numpy(), atol=1e-6)
        assert np.allclose(native, state.detach().numpy(), atol=1e-6)


def test_a_resumed_run_is_bit_equal_to_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = learner()
    for _ in range(2):
        whole.iterate()
    whole.save(tmp_path)
    resumed = learner(seed=9)
    resumed.load(tmp_path)
    for one in (whole, resumed):
        one.iterate()
    assert torch.equal(whole.actor.theta, resumed.actor.theta)
    assert torch.equal(whole._states, resumed._states)
    assert np.array_equal(whole._rollout.inputs, resumed._rollout.inputs)


def test_a_run_resumes_from_its_folder(tmp_path: Path) -> None:
    made = recipe.load("ppo-leo", [*SMALL])
    run = loop.new_run(made, 1, tmp_path, "a test")
    loop.train(made, 1, run, resume=False, command="a test")
    longer = made.model_copy(update={"agent_steps": 1500})
    assert loop.train(longer, 1, run, resume=True, command="a test").agent_steps >= 1500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["network.experts=2"], r"network\.gru.*0 in a mixture of experts"),
        (["network.gru_inputs=[50]"], r"network\.gru_inputs.*columns of the observation, 0 to 49"),
        (["learner.minibatch=8"], r"learner\.minibatch.*at least learner\.sequence = 16"),
        (["algorithm=rllib-ppo", "learner.sequence=32"], r"network\.gru.*0, with rllib-ppo"),
        (['distill={teachers=[{policy="perigee"}]}'], r"network\.gru.*0 with \[distill\]"),
    ],
)
def test_what_does_not_fit_is_named(changes: list[str], message: str) -> None:
    with pytest.raises(OrbitccError, match=message):
        learner(*changes)


EPISODE = 8


class Recall:
    """Flows that observe a number, -1 or 1, with the first decision of an episode alone, and 0 after it; an action is
    worth more, the closer it is to half of that number."""

    def __init__(self, flows: int, *_: Any, **__: Any) -> None:
        space = Box(-1.0, 1.0, (1,), np.float32)
        self.preset = SimpleNamespace(observation_space=lambda: space, action_dim=1)
        self._flows, self._age = flows, np.arange(flows) % EPISODE
        self._cue = np.zeros(flows, np.float32)

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        self._rng = np.random.default_rng(seed)
        return self.renew(), {}

    def active(self) -> np.ndarray:
        return np.ones(self._flows, bool)

    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rewards = -((actions[:, 0] - 0.5 * self._cue) ** 2)
        self._age += 1
        return rewards.astype(np.float32), self._age == EPISODE, np.zeros(self._flows, bool)

    def renew(self) -> np.ndarray:
        self._age %= EPISODE
        begins = self._age == 0
        self._cue[begins] = self._rng.choice([-1.0, 1.0], int(begins.sum()))
        return np.where(begins, self._cue, 0.0).astype(np.float32)[:, None]


@pytest.mark.slow
def test_it_remembers_what_a_network_without_memory_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory the best reward per decision is -0.25 * 7/8 = -0.219, less the exploration's variance."""
    monkeypatch.setattr(ppo, "FlowVectorEnv", Recall)
    settings = [
        "network.hidden=[]",
        "learner.critic_hidden=[16]",
        "learner.flows=64",
        "learner.batch=2048",
        "learner.minibatch=512",
        "learner.epochs=8",
        "learner.lr=1e-2",
        "learner.lr_final=1e-3",
        "learner.lr_decay=60_000",
        "learner.exploration_std=0.3",
        "learner.exploration_std_final=0.1",
        "learner.entropy=0",
        "learner.gamma=0.5",
    ]
    reached = {}
    for kind, make in (("recurrent", RecurrentPpoLearner), ("dense", ppo.PpoLearner)):
        units = ["network.gru=8", "learner.sequence=16"] if kind == "recurrent" else []
        trained = make(recipe.load("ppo-leo", [*settings, *units]), 1)
        rewards = [trained.iterate()["train/reward"] for _ in range(30)]
        reached[kind] = float(np.mean(rewards[-3:]))
    assert reached["dense"] < -0.219
    assert reached["recurrent"] > -0.05, reached


@pytest.mark.slow
def test_it_remembers_the_rtt_of_the_empty_path() -> None:
    """Paths of different lengths, and no feature that tells a queue from a longer path: the RTT of the last 100 ms, the
    delivered share, losses, the last change of the window, and the rate."""
    listed = '[{name="min-rtt", window_s=0.1}, "delivered", "loss", "window-change", "pacing-rate"]'
    settings = [
        f'preset={{base="astraea-leo", observation={{name="features", features={listed}}}}}',
        "learner.normalise_observations=true",
        "learner.privileged_critic=true",
        "learner.critic_hidden=[64,64]",
        "learner.batch=8192",
        "learner.epochs=4",
        "learner.lr=1e-3",
        "learner.lr_decay=400_000",
        "learner.exploration_std_final=0.1",
    ]
    reached = {}
    for kind, make in (("recurrent", RecurrentPpoLearner), ("dense", ppo.PpoLearner)):
        units = ["network.hidden=[]", "network.gru=32"] if kind == "recurrent" else []
        trained = make(recipe.load("ppo-leo", [*settings, *units]), 1)
        rewards = []
        while trained.agent_steps < 300_000:
            rewards.append(trained.iterate()["train/reward"])
        trained.stop()
        reached[kind] = float(np.mean(rewards[-5:]))
    assert reached["recurrent"] > reached["dense"] + 0.01, reached
