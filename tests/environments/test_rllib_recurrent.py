"""RLlib's own recurrent modules on our multi-agent environment, and on flows."""

import math
from typing import Any

import pytest

pytest.importorskip("ray.rllib")
pytestmark = pytest.mark.slow


@pytest.fixture
def algorithm(ray_folder, request):
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    from orbitcc.envs.environments.rllib import FLOWS, RLlibCongestionEnv, register_envs

    ray.init("local", num_cpus=1, include_dashboard=False, _temp_dir=str(ray_folder))
    model = DefaultModelConfig(fcnet_hiddens=[16], use_lstm=True, lstm_cell_size=8, max_seq_len=16)
    config: Any = (
        PPOConfig()
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .learners(num_learners=0)
        .rl_module(model_config=model)
        .training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=2)
        .debugging(seed=1, log_level="ERROR")
    )
    if request.param == "worlds":
        config.environment(RLlibCongestionEnv, env_config={"scenario": "train-leo"})
        config.multi_agent(
            policies={"shared"}, policy_mapping_fn=lambda agent, *rest, **more: "shared", count_steps_by="env_steps"
        )
    else:
        register_envs()
        config.environment(FLOWS, env_config={"scenario": "train-leo"})
        config.env_runners(gym_env_vectorize_mode="vector_entry_point")
    made = config.build_algo()
    yield made, "shared" if request.param == "worlds" else "default_policy"
    made.stop()
    ray.shutdown()


@pytest.mark.parametrize("algorithm", ["worlds", "flows"], indirect=True)
def test_an_lstm_of_rllib_trains(algorithm) -> None:
    made, name = algorithm
    module = made.get_module(name)
    assert module.is_stateful()
    before = {key: value.clone() for key, value in module.state_dict().items() if "lstm" in key}
    assert len(before) == 4
    result = made.train()
    assert result["env_runners"]["num_env_steps_sampled"] >= 512
    assert math.isfinite(result["learners"][name]["total_loss"])
    after = made.get_module(name).state_dict()
    assert not [key for key, value in before.items() if bool((after[key] == value).all())]
