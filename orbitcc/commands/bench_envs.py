"""Rows of `orbitcc bench` about environments and learners on them.

Where threads or learners matter it is wall time that counts, so these rows want an otherwise idle machine.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from orbitcc.commands.measurement import REPEATS, Measurement, median
from orbitcc.common.numbers import counted

if TYPE_CHECKING:
    from orbitcc.envs.environments.vector import VectorCongestionEnv

PACKET_BYTES = 1514
WORLDS = 256
FLOWS = 4


def _env_steps(_results: list[Measurement]) -> Measurement:
    """CPU time through the vector environment and one native thread."""
    envs, hold = _busy(16, threads=1)
    value = median(lambda: _steps_per_s(lambda: envs.step(hold), 200, 16, time.process_time))
    return Measurement("env steps through Python", value, "steps/s", 40_000, 90_000, higher_is_better=True)


def _wall_steps(_results: list[Measurement], threads: int) -> Measurement:
    envs, hold = _busy(WORLDS, threads)
    value = median(lambda: _steps_per_s(lambda: envs.step(hold), 50, WORLDS, time.perf_counter))
    what = f"env steps, {WORLDS} worlds, {counted(threads, 'thread')} (wall time)"
    return Measurement(what, value, "steps/s", higher_is_better=True)


def _threads(results: list[Measurement]) -> Measurement:
    one, two = (result.value for result in results[-2:])
    return Measurement(f"2 threads against 1, {WORLDS} worlds (wall time)", two / one, "x", 1.7, higher_is_better=True)


def _agent_steps(_results: list[Measurement]) -> Measurement:
    """CPU time for decisions of four agents in each of 64 worlds, on one native thread."""
    import numpy as np

    from orbitcc.envs import scenarios
    from orbitcc.envs.description.scenario import Flow
    from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv

    scenario = scenarios.get("dumbbell", rate_mbps=100, base_rtt_ms=30)
    flows = [Flow.parse("external") for _ in range(FLOWS)]
    envs = BatchedParallelEnv(64, scenario.with_flows(flows), threads=1)
    envs.reset(seed=1)
    _fill(envs, _full_window() / FLOWS)
    hold = np.zeros((64, FLOWS, 1), np.float32)
    value = median(lambda: _steps_per_s(lambda: envs.step(hold), 50, 64 * FLOWS, time.process_time))
    what = f"agent steps, {FLOWS} agents in each of 64 worlds"
    return Measurement(what, value, "steps/s", higher_is_better=True)


def _ppo_share(_results: list[Measurement], num_envs: int) -> Measurement:
    """Stable-Baselines3's PPO on `orbitcc/LeoResponsiveness-v0` and on nothing, in turn; one thread learns.

    With one environment SB3's own settings (in half as long a rollout), with many those of the recipe `sb3-ppo-leo`;
    but a learning rate of 0, so that the policy, and with it the number of packets, stays that of the start.
    """
    import torch
    from stable_baselines3 import PPO

    from orbitcc.envs.environments.sb3 import SB3VecEnv
    from orbitcc.envs.environments.vector import VectorCongestionEnv

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ours = SB3VecEnv(VectorCongestionEnv(num_envs, "leo-responsiveness", autoreset_mode="SameStep"))
    settings: dict[str, Any] = {"learning_rate": 0.0, "seed": 1, "device": "cpu"}
    settings |= {"n_steps": 1024} if num_envs == 1 else {"n_steps": 128, "batch_size": 4096, "n_epochs": 8}
    models = [PPO("MlpPolicy", env, **settings) for env in (ours, nothing_like(ours))]
    steps = models[0].n_steps * num_envs

    def rate(model: Any) -> float:
        began = time.perf_counter()
        model.learn(steps, reset_num_timesteps=False)
        return steps / (time.perf_counter() - began)

    rates = [[rate(model) for model in models] for _ in range(REPEATS + 1)][1:]
    torch.set_num_threads(threads)
    value = 100 * statistics.median(own / idle for own, idle in rates)
    what = f"SB3 PPO's speed, {counted(num_envs, 'env')}, against an environment that does nothing"
    return Measurement(f"{what} (wall time)", value, "%", 85, higher_is_better=True)


def nothing_like(env: Any) -> Any:
    """An SB3 `VecEnv` with the same spaces that always returns the same arrays."""
    import numpy as np
    from stable_baselines3.common.vec_env import VecEnv

    class Nothing(VecEnv):
        def __init__(self) -> None:
            super().__init__(env.num_envs, env.observation_space, env.action_space)
            self.observation_space.seed(1)
            obs = np.stack([self.observation_space.sample() for _ in range(self.num_envs)])
            rewards, dones = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, np.bool_)
            self._same: Any = obs, rewards, dones, [{} for _ in range(self.num_envs)]

        def reset(self) -> Any:
            return self._same[0]

        def step_async(self, actions: Any) -> None:
            pass

        def step_wait(self) -> Any:
            return self._same

        def close(self) -> None:
            pass

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * self.num_envs

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            pass

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return [None] * self.num_envs

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * self.num_envs

    return Nothing()


def _busy(num_envs: int, threads: int) -> tuple[VectorCongestionEnv, Any]:
    """Paths of 100 Mbit/s and 30 ms, each kept busy by an agent, and the action that holds its window."""
    import numpy as np

    from orbitcc.envs import scenarios
    from orbitcc.envs.environments.vector import VectorCongestionEnv

    scenario = scenarios.get("dumbbell", rate_mbps=100, base_rtt_ms=30)
    envs = VectorCongestionEnv(num_envs, scenario, threads=threads)
    envs.reset(seed=1)
    _fill(envs, _full_window())
    return envs, np.zeros((num_envs, 1), np.float32)


def _full_window() -> float:
    """Packets with which a path of 100 Mbit/s and 30 ms is full, with a queue and without loss."""
    return 1.2 * 100e6 * 0.030 / 8 / PACKET_BYTES


def _fill(envs: Any, packets: float) -> None:
    """Grow all windows to so many packets, and let the start pass."""
    import numpy as np

    from orbitcc.envs.environments.presets import STATS

    for _ in range(200):
        window = envs.statistics()[..., STATS["cwnd_packets"]]
        envs.step(np.where(window < packets, 1.0, 0.0).astype(np.float32)[..., None])


def _steps_per_s(step: Callable[[], object], count: int, agents: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(count):
        step()
    return agents * count / (clock() - began)


ROWS: tuple[Callable[[list[Measurement]], Measurement], ...] = (
    _env_steps,
    functools.partial(_wall_steps, threads=1),
    functools.partial(_wall_steps, threads=2),
    _threads,
    _agent_steps,
)
if importlib.util.find_spec("stable_baselines3"):
    ROWS = (*ROWS, functools.partial(_ppo_share, num_envs=1), functools.partial(_ppo_share, num_envs=256))
