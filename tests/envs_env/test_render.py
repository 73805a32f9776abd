"""Pictures of a running episode."""

import gymnasium as gym
import numpy as np
import pytest

import orbitcc  # noqa: F401
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.parallel import parallel_env
from orbitcc.envs.registration import single
from orbitcc.envs.scenario import Flow
from orbitcc.envs.scenarios import get
from orbitcc.envs.single import CongestionEnv


def scenario():
    return get("leo-responsiveness").with_flows([Flow(controller="external"), Flow(controller="cubic")])


def test_frames_change_with_the_episode_and_start_anew_with_the_next() -> None:
    env = CongestionEnv(scenario(), render_mode="rgb_array")
    env.reset(seed=1)
    frames = [env.render()]
    for _ in range(2):
        for _ in range(40):
            env.step(np.ones(1, np.float32))
        frames.append(env.render())
    for frame in frames:
        assert (frame.shape, frame.dtype) == ((450, 800, 3), np.uint8)
    assert not np.array_equal(frames[0], frames[1])
    assert not np.array_equal(frames[1], frames[2])
    env.reset(seed=1)
    assert np.array_equal(env.render(), frames[0])
    env.close()


def test_pictures_do_not_disturb_the_episode() -> None:
    seen = []
    for mode in (None, "rgb_array"):
        env = CongestionEnv(scenario(), render_mode=mode)
        env.reset(seed=2)
        rows = []
        for k in range(60):
            rows.append(env.step(np.array([np.sin(k)], np.float32))[0])
            env.render()
        seen.append(rows)
    assert np.array_equal(*seen)


def test_handovers_are_marked_when_they_happen() -> None:
    env = CongestionEnv(scenario(), render_mode="rgb_array")
    env.reset(seed=1)
    while env.statistics()["time_s"] < 32:
        env.step(np.zeros(1, np.float32))
    assert env._picture is not None
    assert list(env._picture._handovers) == pytest.approx([15.0, 30.0], abs=0.001)


def test_a_window_follows_every_step(monkeypatch) -> None:
    import matplotlib.pyplot as plt

    shown = []
    monkeypatch.setattr(plt, "pause", shown.append)
    plt.switch_backend("agg")
    env = parallel_env(scenario(), render_mode="human")
    env.reset(seed=1)
    for _ in range(3):
        env.step({agent: np.zeros(1, np.float32) for agent in env.agents})
    assert len(shown) == 4
    env.close()
    assert not plt.get_fignums()


def test_films_can_be_recorded(tmp_path) -> None:
    pytest.importorskip("moviepy")
    env = gym.wrappers.RecordVideo(gym.make("orbitcc/Dumbbell-v0", render_mode="rgb_array"), str(tmp_path))
    env.reset(seed=1)
    for _ in range(10):
        env.step(env.action_space.sample())
    env.close()
    assert list(tmp_path.glob("*.mp4"))


def test_what_gymnasium_asks_for_a_film_is_there() -> None:
    env = gym.wrappers.RenderCollection(gym.make("orbitcc/Dumbbell-v0", render_mode="rgb_array"))
    assert env.metadata["render_fps"] == 30
    assert single.metadata == CongestionEnv.metadata  # type: ignore[attr-defined]
    env.reset(seed=1)
    for _ in range(3):
        env.step(env.action_space.sample())
    assert len(env.render()) == 4


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(OrbitccError, match="render_mode"):
        CongestionEnv(scenario(), render_mode="ansi")
