"""The native batch: the arrays are the caller's, and Python goes on while it steps."""

import threading
import time

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.batch import Batch
from orbitcc.envs.environments.presets import preset
from orbitcc.envs.scenarios import get


def specs(count: int, duration_s: float = 60.0) -> list[str]:
    scenario = get("dumbbell", duration_s=duration_s).with_flows([Flow(controller="external")])
    return [scenario.with_seed(seed).compile() for seed in range(count)]


def test_results_are_written_into_the_callers_arrays() -> None:
    worlds = _sim.Worlds(specs(3), max_agents=1, interval_ns=30_000_000, threads=2)
    frame = np.full((5, 1, worlds.observation_dim), -7.0, np.float32)  # the batch gets three of its rows
    reward, status = np.full((3, 1), -7.0, np.float32), np.zeros((3, 1), np.uint8)
    for _ in range(10):
        worlds.step(np.ones((3, 1, worlds.action_dim), np.float32), frame[1:4], reward, status)
    assert (frame[[0, 4]] == -7).all()
    assert (frame[1:4, 0, -9] > 0).all(), "everybody has an RTT"
    assert (np.abs(reward) <= 0.1).all()
    assert (status == _sim.STATUS_ACTIVE).all()


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((3, 1), np.float64),
        np.zeros((2, 1), np.float32),
        np.zeros((3, 2), np.float32)[:, ::2],
    ],
    ids=["type", "shape", "layout"],
)
def test_arrays_that_do_not_fit_are_refused(wrong: np.ndarray) -> None:
    worlds = _sim.Worlds(specs(3), max_agents=1, interval_ns=30_000_000, threads=1)
    actions = np.zeros((3, 1, worlds.action_dim), np.float32)
    obs, status = np.zeros((3, 1, worlds.observation_dim), np.float32), np.zeros((3, 1), np.uint8)
    before = worlds.now_ns().tolist()
    with pytest.raises((TypeError, ValueError)):
        worlds.step(actions, obs, wrong, status)  # type: ignore[arg-type]
    assert worlds.now_ns().tolist() == before


def test_python_goes_on_while_worlds_step() -> None:
    """One native call of half a second; if it held the interpreter this thread would wait for all of it."""
    batch = Batch(specs(48), max_agents=1, preset=preset(interval_ms=10_000), threads=1)
    for index in range(48):
        batch._worlds.set_cwnd(index, 0, 500, 100e6)
    batch.observe()
    stepping = threading.Thread(target=batch.step, args=(np.zeros((48, 1, 1), np.float32),))
    stepping.start()
    began = last = time.perf_counter()
    longest = 0.0
    while stepping.is_alive():
        time.sleep(1e-3)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    assert batch.now_s().min() >= 10
    assert last - began > 0.1
    assert longest < (last - began) / 2
