"""Astraea's learner: targets by hand, what is replayed, export, and a resume that changes nothing."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from orbitcc import _sim  # noqa: E402
from orbitcc.agents.policy import network  # noqa: E402
from orbitcc.envs.environments.presets import STATS, preset  # noqa: E402
from orbitcc.training import recipe as recipes  # noqa: E402
from orbitcc.training.astraea_td3 import (  # noqa: E402
    OWN,
    ActorCritics,
    AstraeaTd3Learner,
    Replay,
    TwinCritic,
    own_view,
)
from orbitcc.training.networks import Dense  # noqa: E402

GAMMA = 0.9
SMALL = (
    "agent_steps=1500",
    "evaluation.every=500",
    "evaluation.worlds=2",
    "learner.worlds=4",
    "learner.iteration=250",
    "learner.learning_starts=300",
    "learner.batch=64",
    "learner.replay=1000",
    "network.hidden=[16, 8]",
    "network.critic_hidden=[16, 16]",
    'scenario={name="train-astraea-loss", duration_s=6, mean_gap_s=2, rate_mbps=[5, 10], flows=[1, 20]}',
    "preset.interval_rtts=0",
)


def filled(rewards, ended=(), finished=()) -> Replay:
    """One flow in one world: at step t it sees t, is paid rewards[t] and then sees t + 1, or 100 + t at its end."""
    replay = Replay(rows=16, worlds=1, agents=1, width=1)
    for t, reward in enumerate(rewards):
        last = t in ended or t in finished
        replay.add(
            obs=np.full((1, 1, 1), t),
            next_obs=np.full((1, 1, 1), 100 + t if last else t + 1),
            own=np.zeros((1, 1, OWN)),
            next_own=np.zeros((1, 1, OWN)),
            state=np.full((1, 1, 12), 10 * t),
            next_state=np.full((1, 1, 12), 10 * t + 5),
            action=np.full((1, 1), 0.1 * t),
            reward=np.full((1, 1), reward),
            completed=np.ones((1, 1), np.bool_),
            ended=np.full((1, 1), last),
            finished=np.full((1, 1), t in finished),
        )
    return replay


def transitions(replay: Replay, steps: int) -> dict[float, tuple[float, float, float, float]]:
    """What was seen -> return, discount, what is seen after, the first number of the state after."""
    batch = replay.sample(400, steps, GAMMA, np.random.default_rng(1))
    rows = zip(batch["now"][:, 0], batch["returns"], batch["discount"], batch["after"], strict=True)
    return {float(now): (float(r), float(d), float(after[0]), float(after[1])) for now, r, d, after in rows}


def test_returns_of_three_steps_are_the_hand_computed_ones() -> None:
    found = transitions(filled([1.0, 2.0, 4.0, 8.0, 16.0]), 3)
    assert found[0] == pytest.approx((1 + 0.9 * 2 + 0.81 * 4, 0.729, 3.0, 25.0))
    assert found[2] == pytest.approx((4 + 0.9 * 8 + 0.81 * 16, 0.729, 5.0, 45.0))
    # The last steps have fewer rewards to add, and bootstrap from where the replay ends.
    assert found[3] == pytest.approx((8 + 0.9 * 16, 0.81, 5.0, 45.0))
    assert found[4] == pytest.approx((16, 0.9, 5.0, 45.0))


def test_a_flow_that_leaves_is_bootstrapped_from_its_last_observation_and_no_return_reaches_the_next_one() -> None:
    found = transitions(filled([1.0, 2.0, 4.0, 8.0], ended=[1]), 3)
    assert found[0] == pytest.approx((1 + 0.9 * 2, 0.81, 101.0, 15.0))
    assert found[1] == pytest.approx((2.0, 0.9, 101.0, 15.0))
    assert found[2] == pytest.approx((4 + 0.9 * 8, 0.81, 4.0, 35.0))


def test_nothing_follows_a_flow_that_finished() -> None:
    found = transitions(filled([1.0, 2.0, 4.0], finished=[1]), 3)
    assert found[0] == pytest.approx((1 + 0.9 * 2, 0.0, 101.0, 15.0))
    assert found[1] == pytest.approx((2.0, 0.0, 101.0, 15.0))
    assert found[2][1] == pytest.approx(0.9)


def test_returns_hold_when_the_replay_has_run_round() -> None:
    replay = filled([float(t) for t in range(20)])  # 16 rows: 4 to 19 are left
    found = transitions(replay, 2)
    assert min(found) == 4
    assert replay.transitions == 16
    assert found[15] == pytest.approx((15 + 0.9 * 16, 0.81, 17.0, 165.0))
    assert found[19] == pytest.approx((19.0, 0.9, 20.0, 195.0))


@pytest.mark.parametrize(("by_world", "shares"), [(False, [1 / 4] * 4), (True, [1 / 2, 1 / 6, 1 / 6, 1 / 6])])
def test_a_flow_alone_is_drawn_as_often_as_a_crowd_or_as_one_of_it(by_world: bool, shares: list[float]) -> None:
    replay = Replay(rows=8, worlds=3, agents=4, width=1)  # one flow, three flows, and nobody
    acted = np.array([[0, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0]], np.bool_)
    cells = np.zeros(acted.shape)
    for _ in range(11):
        replay.add(
            obs=np.arange(12.0).reshape(3, 4, 1),
            next_obs=np.zeros((3, 4, 1)),
            own=np.zeros((3, 4, OWN)),
            next_own=np.zeros((3, 4, OWN)),
            state=np.zeros((3, 4, 12)),
            next_state=np.zeros((3, 4, 12)),
            action=cells,
            reward=cells,
            completed=acted,
            ended=cells > 0,
            finished=cells,
        )
    seen = replay.sample(40_000, 1, GAMMA, np.random.default_rng(1), by_world)["now"][:, 0]
    assert [np.mean(seen == agent) for agent in np.flatnonzero(acted)] == pytest.approx(shares, abs=0.02)


class Fixed(torch.nn.Module):
    """Says what it is told to."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def fixed(actor, critic, width: int) -> ActorCritics:
    made = ActorCritics()
    made.settings, made.width = recipes.load("astraea").learner, width
    made.actor_target, made.critic_target = actor, critic
    return made


def test_targets_take_the_lower_critic_of_the_smoothed_target_action() -> None:
    actor = Fixed(lambda x: torch.full((len(x), 1), 0.5493))  # tanh: 0.5
    critic = Fixed(lambda x, a: torch.stack((10 * a, 3 + a)))
    batch = {
        "after": torch.zeros(4, 1),
        "returns": torch.tensor([1.0, 1.0, 1.0, 1.0]),
        "discount": torch.tensor([0.9, 0.9, 0.9, 0.0]),
    }
    noise = torch.tensor([0.0, 1.0, 10.0, 0.0])  # 0.05 each, clipped at 0.1
    found = fixed(actor, critic, 1).targets(batch, noise)
    expected = [1 + 0.9 * 3.5, 1 + 0.9 * 3.55, 1 + 0.9 * 3.6, 1.0]
    assert found.tolist() == pytest.approx(expected, abs=1e-4)


def test_targets_and_losses_are_those_of_torchrl() -> None:
    """TorchRL 0.14.1's TD3Loss on the same batch and linear networks, gamma 0.9, smoothing off, smooth L1."""

    def grid(a: int, b: int, modulus: int, shift: float) -> torch.Tensor:
        return torch.tensor([[((a * i + b * j) % modulus) / 10 - shift for j in range(3)] for i in range(6)])

    critics = torch.tensor([[1.0, -2.0, 0.5, 1.5], [0.5, 1.0, -1.5, 3.0]])
    both = Fixed(lambda x, a: torch.cat((x, a[:, None]), 1).matmul(critics.T).T)
    actor = Fixed(lambda x: x @ torch.tensor([[0.8], [-0.5], [0.3]]))
    batch = {
        "after": grid(5, 2, 13, 0.6),
        "returns": torch.tensor([0.1 * i - 0.2 for i in range(6)]),
        "discount": torch.tensor([0.0 if i == 4 else 0.9 for i in range(6)]),
    }
    networks, noise = fixed(actor, both, 3), torch.zeros(6)
    theirs = [-1.4441890717, -0.5679425001, -1.1195179224, -0.8445987701, 0.2, 2.0502288342]
    assert networks.targets(batch, noise).tolist() == pytest.approx(theirs, abs=1e-6)
    action = torch.tensor([((3 * i) % 7) / 5 - 0.6 for i in range(6)])
    loss = networks.critic_loss(both(grid(7, 3, 11, 0.5), action), batch, noise)
    assert loss.item() == pytest.approx(2.2329752445, abs=1e-6)


def test_both_critics_of_a_twin_are_the_networks_they_look_like() -> None:
    network = recipes.load("astraea", ["network.critic_hidden=[5, 4]"]).network
    critic = TwinCritic(3, network)
    x, action = torch.randn(7, 3), torch.rand(7)
    both = critic(x, action)
    for k in range(2):
        hidden = x
        for layer in range(3):
            if layer == 1:
                hidden = torch.cat((hidden, action[:, None]), dim=1)
            hidden = hidden @ critic.weights[layer][k] + critic.biases[layer][k]
            if layer < 2:
                hidden = torch.nn.functional.layer_norm(hidden, hidden.shape[-1:])
                hidden = torch.nn.functional.leaky_relu(hidden * critic.scales[layer][k] + critic.shifts[layer][k], 0.2)
        assert torch.allclose(both[k], hidden[:, 0], atol=1e-5)


def test_critics_see_each_flow_among_those_present() -> None:
    statistics = np.zeros((1, 3, len(STATS)))
    statistics[0, :, STATS["delivery_rate_bps"]] = [60e6, 20e6, 99e6]
    view = own_view(statistics, np.array([[True, True, False]]))
    assert view[0, 0] == pytest.approx([0.6, 0.2, 0.75])
    assert view[0, 1] == pytest.approx([0.2, -0.2, 0.25])
    assert not view[0, 2].any()


@pytest.fixture
def learner():
    made = AstraeaTd3Learner(recipes.load("astraea", SMALL), seed=3)
    yield made
    made.stop()


def test_the_exported_network_acts_as_the_averaged_actor_does(learner) -> None:
    while learner.critic_steps < 10:
        learner.iterate()
    obs = learner.env.obs[learner.env.active]
    with torch.inference_mode():
        expected = torch.tanh(learner.networks.averaged(torch.from_numpy(learner.scale(obs)))).numpy()
    trained = preset(learner.recipe.preset)
    native = _sim.Policy(
        **network(learner.layers, None, learner.tensors()),
        observation=trained.native("observation").json(),
        action=trained.native("action").json(),
        interval_ns=trained.interval_ns,
        squash=learner.squash,
    )
    assert np.abs(native.act(obs) - expected).max() < 1e-5


def test_worlds_are_out_of_step_and_the_reward_follows_its_curriculum(learner) -> None:
    ages = learner.env.journal()["ages"]
    for _ in range(210):  # the longest episode has 200 steps
        learner._step()
    assert ages == [0] * 4
    assert len(set(learner.env.journal()["ages"])) > 1
    weight = lambda: learner.env._core.batch.preset.reward.parameters["fairness"]  # noqa: E731
    assert weight() == learner.settings.fairness[0]
    learner.decisions = learner.recipe.agent_steps
    learner._apply_schedule()
    assert weight() == learner.settings.fairness[-1]


def test_what_networks_see_is_measured_for_the_share_of_the_run_that_is_asked_for() -> None:
    made = AstraeaTd3Learner(
        recipes.load("astraea", [*SMALL, "learner.replay=2000", "learner.scale_share=0.5"]), seed=3
    )
    counts = []
    while made.decisions < 1200:
        made.iterate()
        counts.append((made.decisions, made.scale.count, made.critic_steps))
    made.stop()
    (fixed,) = {count for decisions, count, _ in counts if decisions > 750 + 250}
    assert 750 <= fixed < 750 + 4 * 12, "no more than a step of all worlds later"
    assert any(learned and count == decisions < 750 for decisions, count, learned in counts), "while it learns"


@pytest.mark.parametrize("clock", ["world", "flow"])
def test_a_resumed_learner_goes_on_bit_for_bit(learner, tmp_path, clock: str) -> None:
    if clock == "flow":
        learner = AstraeaTd3Learner(recipes.load("astraea", [*SMALL, *OWN_CLOCKS]), seed=3)
    while learner.critic_steps < 4:
        learner.iterate()
    folder = tmp_path / "state"
    folder.mkdir()
    learner.save(folder)
    other = AstraeaTd3Learner(learner.recipe, seed=99)
    other.load(folder)
    for _ in range(2):
        first, second = learner.iterate(), other.iterate()
        assert first == second
    for name, tensor in learner.tensors().items():
        assert np.array_equal(tensor, other.tensors()[name]), name
    other.stop()


OWN_CLOCKS = ("preset.interval_rtts=0.25", "preset.interval_least_ms=5", "preset.clock=flow")


def test_on_flows_own_clocks_a_decision_is_replayed_with_what_happened_until_the_next(monkeypatch) -> None:
    made = AstraeaTd3Learner(recipes.load("astraea", [*SMALL, *OWN_CLOCKS, "learner.replay=100_000"]), seed=3)
    env, step, expected, waits = made.env, made.env.step, [], {}

    def watched(actions):
        before, state = env.obs.copy(), env.state()
        for cell in zip(*np.nonzero(env.active), strict=True):
            assert cell not in waits
            waits[cell] = (before[cell], actions[cell][0], state[cell[0]])
        obs, rewards, terminated, truncated, infos = step(actions)
        for cell in zip(*np.nonzero(infos["due"] | terminated | truncated), strict=True):
            if cell in waits:
                seen, action, state = waits.pop(cell)
                reward = made.settings.reward_scale * rewards[cell]
                ends = bool(terminated[cell] | truncated[cell])
                after = (obs[cell], infos["state"][cell[0]], reward, ends)
                expected.append((seen, action, state, *after))
        return obs, rewards, terminated, truncated, infos

    monkeypatch.setattr(env, "step", watched)
    idle = 0
    for _ in range(600):
        idle += int((env.present & ~env.active).sum())
        made._step()
    assert idle > 1000, "some wait while others act"
    replay, count = made.replay, len(expected)
    assert made.decisions == replay.total == replay.transitions == count > 1000
    parts = (replay.obs, replay.action, replay.state, replay.next_obs, replay.next_state, replay.reward, replay.ended)
    for part, wanted in zip(parts, zip(*expected, strict=True), strict=True):
        assert np.allclose(part[:count], np.array(wanted), atol=1e-7)
    followed = np.flatnonzero(replay.follows[:count] >= 0)
    assert followed.size > 0.9 * count
    assert np.array_equal(replay.obs[replay.follows[followed]], replay.next_obs[followed])
    assert not replay.ended[followed].any()
    made.stop()


def test_a_replay_that_is_full_forgets_its_oldest_steps() -> None:
    replay = Replay(rows=16, worlds=1, agents=2, width=1, capacity=5)
    for t in range(12):  # the first flow completes every third decision only
        cells = {"own": np.zeros((1, 2, OWN)), "next_own": np.zeros((1, 2, OWN)), "state": np.zeros((1, 2, 12))}
        cells |= {"next_state": np.zeros((1, 2, 12)), "action": np.zeros((1, 2)), "finished": np.zeros((1, 2))}
        seen = np.array([[[100.0 + t], [t]]])
        completed, ended = np.array([[t % 3 == 0, True]]), np.zeros((1, 2), np.bool_)
        replay.add(
            completed=completed, ended=ended, obs=seen, next_obs=seen + 1, reward=np.array([[10.0, 1.0]]), **cells
        )
    # steps 8 to 11 hold 1 + 2 + 1 + 1 decisions
    assert replay.transitions == 5
    assert transitions(replay, 2) == {
        8: pytest.approx((1.9, 0.81, 10.0, 0.0)),
        9: pytest.approx((1.9, 0.81, 11.0, 0.0)),
        10: pytest.approx((1.9, 0.81, 12.0, 0.0)),
        11: pytest.approx((1.0, 0.9, 12.0, 0.0)),
        109: pytest.approx((10.0, 0.9, 110.0, 0.0)),
    }


def test_an_actor_starts_out_doing_little() -> None:
    torch.manual_seed(1)
    actor = Dense(50, recipes.load("astraea").network.layers(1))
    assert torch.tanh(actor(torch.randn(256, 50))).abs().max() < 0.5


def test_the_published_actor_has_the_released_number_of_weights_and_its_batch_norm_is_folded_at_export() -> None:
    """The released checkpoint's actor: 53,824 weights, 449 biases, 1,344 values of batch norm."""
    settings = recipes.load("astraea-published", ["learner.worlds=1", "learner.replay=1000"])
    learner = AstraeaTd3Learner(settings, 1)
    actor = learner.networks.actor
    dense = [layer for layer in actor.modules() if isinstance(layer, torch.nn.Linear)]
    norms = [layer for layer in actor.modules() if isinstance(layer, torch.nn.BatchNorm1d)]
    assert sum(layer.weight.numel() for layer in dense) == 53_824
    assert sum(layer.bias.numel() for layer in dense) == 449
    assert sum(v.numel() for n in norms for v in (n.bias, n.running_mean, n.running_var)) == 1_344
    assert not any(norm.weight.requires_grad for norm in norms)
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for norm in norms:
            width = norm.num_features
            norm.bias.copy_(torch.from_numpy(rng.normal(size=width)))
            norm.running_mean.copy_(torch.from_numpy(rng.normal(size=width)))
            norm.running_var.copy_(torch.from_numpy(rng.uniform(0.1, 2.0, width)))
        learner.networks.averaged.load_state_dict(actor.state_dict())
        seen = torch.from_numpy(rng.normal(size=(5, 50)).astype(np.float32))
        wanted, x, tensors = actor(seen).numpy(), seen.numpy(), learner.tensors()
    for k in range(4):
        x = x @ tensors[f"layers.{k}.weight"].T + tensors[f"layers.{k}.bias"]
        x = np.where(x > 0, x, 0.2 * x) if k < 3 else x
    learner.stop()
    assert x == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert all(layer.norm == "none" for layer in learner.layers)
