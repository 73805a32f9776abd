"""RLlib's APPO, IMPALA, SAC and DQN on plain ids, and on worlds with several agents through both wrappers.

Each takes half a minute to start: they run weekly (`make libraries`), when ORBITCC_LIBRARIES is set.
"""

import math
import os
import shutil
import tempfile
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import orbitcc

pytest.importorskip("ray.rllib")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("ORBITCC_LIBRARIES"), reason="takes minutes: `make libraries` runs it, weekly"
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _ray():
    import ray

    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    ray.init("local", num_cpus=2, include_dashboard=False, _temp_dir=str(folder))
    yield
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def discrete(_: object = None) -> gymnasium.Env:
    """Three actions for DQN: a smaller window, the same, a larger one."""
    env = gymnasium.make("orbitcc/Dumbbell-v0", duration_s=6)
    return gymnasium.wrappers.TransformAction(
        env, lambda action: np.array([(-1.0, 0.0, 1.0)[int(action)]], np.float32), gymnasium.spaces.Discrete(3)
    )


def worlds(config: dict) -> object:
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    return RLlibCongestionEnv({"scenario": "inter-rtt", "duration_s": 6, "join_s": 1, **config})


def petting_zoo(_: object = None) -> object:
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv

    return ParallelPettingZooEnv(orbitcc.parallel_env("inter-rtt", pad_absent=True, duration_s=6, join_s=1))


def built(name: str, env: object):
    from ray.rllib.algorithms import appo, dqn, impala, sac
    from ray.tune.registry import register_env

    configs = {"APPO": appo.APPOConfig, "IMPALA": impala.IMPALAConfig, "SAC": sac.SACConfig, "DQN": dqn.DQNConfig}
    if callable(env):
        register_env("ours", env)
        env = "ours"
    config = configs[name]().environment(env).env_runners(num_env_runners=0 if name in ("SAC", "DQN") else 1)
    config = config.debugging(log_level="ERROR", seed=1)
    if name in ("APPO", "IMPALA"):
        return config.training(train_batch_size_per_learner=200)
    return config.training(train_batch_size_per_learner=32, num_steps_sampled_before_learning_starts=50)


def learned(config) -> None:
    algorithm = config.build_algo()
    try:
        for _ in range(20):
            result = algorithm.train()
            if result.get("learners", {}).get("__all_modules__", {}).get("num_env_steps_trained", 0):
                break
        figures = {k: v for k, v in result["learners"].items() if k != "__all_modules__"}
        assert figures
        assert all(math.isfinite(part["total_loss"]) for part in figures.values() if "total_loss" in part)
    finally:
        algorithm.stop()


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("APPO", "orbitcc:orbitcc/Dumbbell-v0"),
        ("IMPALA", "orbitcc:orbitcc/Dumbbell-v0"),
        ("SAC", "orbitcc:orbitcc/Dumbbell-v0"),
        ("DQN", discrete),
    ],
)
def test_an_algorithm_learns_on_a_plain_id(name: str, env) -> None:
    learned(built(name, env))


@pytest.mark.parametrize("env", [worlds, petting_zoo])
@pytest.mark.parametrize("name", ["APPO", "IMPALA"])  # SAC of RLlib 2.60 fails where an agent joins later
def test_an_algorithm_learns_with_several_agents(name: str, env) -> None:
    config = built(name, env).multi_agent(policies={"shared"}, policy_mapping_fn=lambda agent, *rest, **more: "shared")
    learned(config)
