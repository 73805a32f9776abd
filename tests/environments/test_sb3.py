"""The Stable-Baselines3 adapter: both native environments, ends of episodes, advantages."""

import warnings

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import get

sb3 = pytest.importorskip("stable_baselines3")


def scenario(*stops: float | None):
    flows = [Flow(controller="external", stop_s=stop) for stop in stops]
    return get("dumbbell", duration_s=6).with_flows(flows)


def shim(native):
    from orbitcc.envs.environments.sb3 import SB3VecEnv

    return SB3VecEnv(native)


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_ends_are_told_as_sb3_wants_them() -> None:
    env = shim(VectorCongestionEnv(3, scenario(None), autoreset_mode="SameStep"))
    env.seed(4)
    first = env.reset()
    assert np.array_equal(first, VectorCongestionEnv(3, scenario(None)).reset(seed=4)[0])
    for _ in range(250):
        obs, rewards, dones, infos = env.step(np.ones((3, 1), np.float32))
        assert rewards.dtype == np.float32
        if dones.any():
            break
    i = int(np.flatnonzero(dones)[0])
    assert infos[i]["TimeLimit.truncated"] is True
    assert not np.array_equal(infos[i]["terminal_observation"], obs[i])
    assert infos[i]["sent_packets"] > 100
    assert all(not info for info, done in zip(infos, dones, strict=True) if not done)


def test_a_finished_object_is_no_time_limit() -> None:
    flow = Flow(controller="external", traffic={"kind": "bytes", "bytes": 50_000})
    env = shim(VectorCongestionEnv(1, get("dumbbell").with_flows([flow]), autoreset_mode="SameStep"))
    env.reset()
    for _ in range(300):
        _, _, dones, infos = env.step(np.ones((1, 1), np.float32))
        if dones[0]:
            assert infos[0]["TimeLimit.truncated"] is False
            return
    raise AssertionError("the object is never delivered")


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
def test_sb3_learns_on_flows(algorithm: str) -> None:
    env = shim(FlowVectorEnv(4, scenario(None, 3.0), autoreset_mode="SameStep"))
    settings = {"n_steps": 64, "batch_size": 64} if algorithm == "PPO" else {"learning_starts": 100, "batch_size": 32}
    model = getattr(sb3, algorithm)("MlpPolicy", env, seed=1, device="cpu", **settings)
    before = [value.clone() for value in model.policy.state_dict().values()]
    model.learn(4 * 64 * 2)
    changed = [not bool((a == b).all()) for a, b in zip(before, model.policy.state_dict().values(), strict=True)]
    assert any(changed)


@pytest.mark.parametrize("kind", ["single", "vector", "flows"])
def test_recurrent_ppo_of_sb3_contrib_learns_on_every_environment(kind: str) -> None:
    contrib = pytest.importorskip("sb3_contrib")
    env = {
        "single": lambda: CongestionEnv(scenario(None)),
        "vector": lambda: shim(VectorCongestionEnv(2, scenario(None), autoreset_mode="SameStep")),
        "flows": lambda: shim(FlowVectorEnv(4, scenario(None, 3.0), autoreset_mode="SameStep")),
    }[kind]()
    small = {"net_arch": [], "lstm_hidden_size": 8}
    model = contrib.RecurrentPPO(
        "MlpLstmPolicy", env, n_steps=32, batch_size=32, n_epochs=2, policy_kwargs=small, seed=1, device="cpu"
    )
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(256)
    after = model.policy.state_dict()
    assert not [name for name, value in before.items() if bool((after[name] == value).all())]
    _, state = model.predict(model.get_env().reset(), episode_start=np.ones(model.n_envs, bool))
    assert state[0].shape == (1, model.n_envs, 8)
    assert (state[0] != 0).any()


def test_only_same_step_autoreset_fits() -> None:
    with pytest.raises(OrbitccError, match="SameStep"):
        shim(VectorCongestionEnv(1, scenario(None)))


@pytest.mark.parametrize("seed", ["a", -5, 1.5, True])
def test_a_seed_that_is_no_whole_number_is_refused(seed) -> None:
    env = shim(VectorCongestionEnv(2, scenario(None), autoreset_mode="SameStep"))
    with pytest.raises(OrbitccError, match=f"^seed: {seed!r} .*a whole number"):
        env.seed(seed)
    assert env.seed(3) == [3, 4]
    assert len(env.seed()) == 2
    env.reset()


def test_options_count_for_the_next_reset_and_for_each_environment() -> None:
    env = shim(VectorCongestionEnv(3, scenario(None), autoreset_mode="SameStep"))
    slow, fast = (
        get("dumbbell", rate_mbps=rate, duration_s=6).with_flows([Flow(controller="external")]) for rate in (5, 80)
    )

    def rates():
        return [env.native.scenario(i).links[0].rate_mbps for i in range(3)]

    env.set_options([{"scenario": slow}, {}, {"scenario": fast}])
    env.reset()
    assert rates() == [5, 100, 80]
    env.reset()  # options are used once
    assert rates() == [100, 100, 100]
    env.set_options({"scenario": slow})
    env.set_options()
    env.reset()
    assert rates() == [100, 100, 100]
    env.set_options({"scenario": slow})
    env.seed(3)
    first = env.reset()
    assert rates() == [5, 5, 5]
    native = VectorCongestionEnv(3, scenario(None))
    assert np.array_equal(first, native.reset(seed=3, options={"scenario": slow})[0])


@pytest.mark.parametrize(
    ("native", "options", "said"),
    [
        (VectorCongestionEnv, [{"scenario": None}], "options: .*one dict, or 2 of them"),
        (VectorCongestionEnv, 3, "options: 3 .*one dict, or 2 of them"),
        (VectorCongestionEnv, {"wind": 3}, "options.wind.*scenario"),
        (VectorCongestionEnv, [{}, {"reset_mask": True}], "options.reset_mask.*scenario"),
        (VectorCongestionEnv, [{}, 5], "options.*a dict of options by name"),
        (FlowVectorEnv, {"scenario": scenario(None)}, "options.scenario.*none"),
    ],
)
def test_options_that_cannot_be_passed_on_are_refused(native, options, said) -> None:
    env = shim(native(2, scenario(*[None] * (2 if native is FlowVectorEnv else 1)), autoreset_mode="SameStep"))
    with pytest.raises(OrbitccError, match=said):
        env.set_options(options)
    env.reset()


def test_other_environments_and_numbers_are_refused() -> None:
    with pytest.raises(OrbitccError, match="native: 'CongestionEnv'.*VectorCongestionEnv or a FlowVectorEnv"):
        shim(CongestionEnv("dumbbell"))
    env = shim(VectorCongestionEnv(2, scenario(None), autoreset_mode="SameStep"))
    assert env.get_attr("num_envs", indices=[1, -1]) == [2, 2]
    with pytest.raises(OrbitccError, match="indices: 5 .*0 to 1"):
        env.get_attr("num_envs", indices=[5])
