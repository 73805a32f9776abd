"""Worlds come and go, and the process does not grow."""

import resource

import numpy as np
import pytest

from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import distribution, get

GROWTH_KB = 12_000
"""What allocators may keep; a leak of a world each time would be a thousand times that."""


def resident_kb() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() // 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.slow
def test_world_replacements_do_not_grow_memory() -> None:
    env = VectorCongestionEnv(50, get("dumbbell", duration_s=2).with_flows([Flow(controller="external")]), threads=1)
    env.reset(seed=1)
    rounds, before = 2_000, 0  # 100,000 worlds
    for k in range(rounds):
        if k == rounds // 4:
            before = resident_kb()
        env.reset()
    assert resident_kb() - before < GROWTH_KB


@pytest.mark.slow
def test_steps_do_not_grow_memory() -> None:
    world = distribution("train-leo").changed(duration_s=6.0)
    env = FlowVectorEnv(200, world, autoreset_mode="SameStep", threads=1)
    env.reset(seed=1)
    steps, before = 5_000, 0  # a million decisions
    actions = np.zeros((200, 1), np.float32)
    for k in range(steps):
        if k == steps // 2:
            before = resident_kb()
        env.step(actions)
    assert resident_kb() - before < GROWTH_KB
