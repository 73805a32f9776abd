"""Pictures of a running episode."""

import gymnasium as gym
import numpy as np
import pytest

import orbitcc  # noqa: F401
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import get


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
            if k % 10 == 0:
                env.render()
        seen.append(rows)
    assert np.array_equal(*seen)


def test_handovers_are_marked_when_they_happen() -> None:
    env = CongestionEnv(scenario(), render_mode="rgb_array")
    env.reset(seed=1)
    while env.statistics()["time_s"] < 32:
        env.step(np.zeros(1, np.float32))
    assert env._core.pictures is not None
    assert list(env._core.pictures._of[0]._handovers) == pytest.approx([15.0, 30.0], abs=0.001)


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


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_vector_environment_has_the_frames_of_single_ones(mode: str) -> None:
    short = scenario().model_copy(update={"duration_s": 0.9})
    env = VectorCongestionEnv(2, short, render_mode="rgb_array", autoreset_mode=mode)
    alone = [CongestionEnv(short, render_mode="rgb_array") for _ in range(2)]
    env.reset(seed=3)
    for i, one in enumerate(alone):
        one.reset(seed=3 + i)
    ended = np.zeros(2, bool)
    for step in range(40):  # over the ends of episodes
        _, _, _, truncated, _ = env.step(np.ones((2, 1), np.float32))
        for i, one in enumerate(alone):
            if mode == "NextStep" and ended[i]:
                one.reset()
                continue
            over = one.step(np.ones(1, np.float32))[3]
            assert over == truncated[i]
            if over and mode == "SameStep":
                one.reset()
        ended = truncated
        if step in (10, 32, 39):
            frames = env.render()
            assert isinstance(frames, tuple)
            assert all(np.array_equal(frame, one.render()) for frame, one in zip(frames, alone, strict=True))


def test_flows_show_their_world_and_batches_every_world() -> None:
    flows = [Flow(controller="external"), Flow(controller="external", stop_s=3), Flow(controller="cubic")]
    staggered = get("dumbbell", duration_s=20).with_flows(flows)
    max_agents = FlowVectorEnv(4, staggered, render_mode="rgb_array")
    max_agents.reset(seed=1)
    for _ in range(200):
        max_agents.step(np.full((4, 1), 0.1, np.float32))
    frames = max_agents.render()
    assert max_agents.worlds.tolist() == [0, 0, 1, 1]
    assert np.array_equal(frames[0], frames[1])
    assert np.array_equal(frames[2], frames[3])
    assert not np.array_equal(frames[0], frames[2])
    assert max_agents._core.pictures is not None
    names = max_agents._core.pictures._of[0]._names
    assert names == ["external-0", "external-1", "cubic-2"], "a successor has its place's line"

    batch = BatchedParallelEnv(2, staggered, render_mode="rgb_array")
    alone = parallel_env(staggered, render_mode="rgb_array")
    batch.reset(seed=1)
    alone.reset(seed=2)
    for _ in range(30):
        batch.step(np.ones((2, 2, 1), np.float32))
        alone.step({agent: np.ones(1, np.float32) for agent in alone.agents})
    frames = batch.render()
    assert len(frames) == 2
    assert np.array_equal(frames[1], alone.render())


@pytest.mark.parametrize("make", [VectorCongestionEnv, FlowVectorEnv, BatchedParallelEnv])
def test_a_window_shows_the_first_world_of_many(make, monkeypatch) -> None:
    import matplotlib.pyplot as plt

    shown = []
    monkeypatch.setattr(plt, "pause", shown.append)
    plt.switch_backend("agg")
    env = make(2, scenario(), render_mode="human")
    env.reset(seed=1)
    assert len(plt.get_fignums()) == 1
    env.step(np.zeros((2, 1, 1) if make is BatchedParallelEnv else (2, 1), np.float32))
    assert len(shown) == 2
    assert env.render() is None
    env.close()
    assert not plt.get_fignums()


def film_length_s(folder) -> float:
    import imageio_ffmpeg

    (film,) = folder.glob("*.mp4")
    return imageio_ffmpeg.count_frames_and_secs(str(film))[1]


def test_films_can_be_recorded(tmp_path) -> None:
    pytest.importorskip("moviepy")
    env = gym.wrappers.RecordVideo(gym.make("orbitcc/Dumbbell-v0", render_mode="rgb_array"), str(tmp_path / "film"))
    env.reset(seed=1)
    for _ in range(10):
        env.step(env.action_space.sample())
    env.close()
    assert film_length_s(tmp_path / "film") == pytest.approx(11 / 30, abs=0.05)


def test_films_of_vector_environments_can_be_recorded(tmp_path) -> None:
    pytest.importorskip("moviepy")
    made = gym.make_vec(
        "orbitcc/Dumbbell-v0", num_envs=2, vectorization_mode="vector_entry_point", render_mode="rgb_array"
    )
    env = gym.wrappers.vector.RecordVideo(made, str(tmp_path / "film"), video_aspect_ratio=(1, 1))
    env.reset(seed=1)
    for _ in range(5):
        env.step(env.action_space.sample())
    env.close()
    assert film_length_s(tmp_path / "film") == pytest.approx(6 / 30, abs=0.05)


def test_films_can_be_recorded_with_sb3(tmp_path) -> None:
    recorder = pytest.importorskip("stable_baselines3.common.vec_env").VecVideoRecorder
    from orbitcc.envs.environments.sb3 import SB3VecEnv

    native = FlowVectorEnv(2, scenario(), autoreset_mode="SameStep", render_mode="rgb_array")
    env = recorder(
        SB3VecEnv(native), str(tmp_path / "film"), record_video_trigger=lambda step: step == 0, video_length=4
    )
    env.reset()
    for _ in range(5):
        env.step(np.zeros((2, 1), np.float32))
    env.close()
    assert list((tmp_path / "film").glob("*.mp4"))


def test_what_gymnasium_asks_for_a_film_is_there() -> None:
    env = gym.wrappers.RenderCollection(gym.make("orbitcc/Dumbbell-v0", render_mode="rgb_array"))
    assert env.metadata["render_fps"] == 30
    for asked in ("render_modes", "render_fps"):
        assert VectorCongestionEnv.metadata[asked] == CongestionEnv.metadata[asked]
    env.reset(seed=1)
    for _ in range(3):
        env.step(env.action_space.sample())
    assert len(env.render()) == 4


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(OrbitccError, match="render_mode"):
        CongestionEnv(scenario(), render_mode="ansi")
    with pytest.raises(OrbitccError, match="render_mode"):
        FlowVectorEnv(2, scenario(), render_mode="ansi")
