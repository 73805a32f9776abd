"""Return and length of training episodes."""

import numpy as np
import pytest

pytest.importorskip("torch")

from orbitcc.training import recipe
from orbitcc.training.episodes import EpisodeTotals


def arrays(rewards, acted, ended):
    return np.array(rewards, np.float32), np.array(acted, bool), np.array(ended, bool)


def test_means_are_over_the_episodes_that_have_ended() -> None:
    episodes = EpisodeTotals(2, reward_scale=10.0)
    episodes.add(*arrays([10, 20], [1, 1], [0, 0]))
    assert episodes.take() == {}
    episodes.add(*arrays([10, 50], [1, 0], [1, 0]))  # the second does not decide: its reward is nobody's
    episodes.add(*arrays([70, 40], [1, 1], [1, 1]))
    found = episodes.take()  # 2 and 2 steps, 1 step: returns 2, 7 and 6
    assert found == {"train/episode_return": pytest.approx(5.0), "train/episode_length": pytest.approx(5 / 3)}
    assert episodes.take() == {}


def test_running_episodes_are_part_of_the_state() -> None:
    one, other = EpisodeTotals(1), EpisodeTotals(1)
    one.add(*arrays([3], [1], [0]))
    other.restore(one.state())
    for episodes in (one, other):
        episodes.add(*arrays([4], [1], [1]))
        assert episodes.take() == {"train/episode_return": 7.0, "train/episode_length": 2.0}


FLOWS = ("learner.flows=8", "learner.batch=16_000", "learner.minibatch=8_000", "learner.epochs=1")


def learner_of(name: str):
    if name == "astraea":
        from orbitcc.training.astraea_td3 import AstraeaTd3Learner

        changes = ("learner.worlds=8", "learner.iteration=40_000", "learner.learning_starts=100_000")
        return AstraeaTd3Learner(recipe.load(name, ["scenario=train-leo", *changes]), seed=1)
    plan = recipe.load(name, ["scenario=train-leo", *FLOWS])
    if name == "ppo-leo":
        from orbitcc.training.ppo import PpoLearner

        return PpoLearner(plan, 1)
    if name == "sb3-ppo-leo":
        pytest.importorskip("stable_baselines3")
        from orbitcc.training.sb3 import SB3Learner

        return SB3Learner(plan, 1)
    pytest.importorskip("ray.rllib")
    from orbitcc.training.rllib.learner import RLlibLearner

    return RLlibLearner(plan, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo-leo", "astraea", "sb3-ppo-leo", "rllib-ppo-leo"])
def test_every_learner_reports_return_and_length_of_its_episodes(name: str, ray_folder) -> None:
    learner = learner_of(name)
    figures = learner.iterate()  # 2,000 decisions of each flow, which is the time limit of these worlds
    learner.stop()
    assert 1 <= figures["train/episode_length"] <= 2000
    assert 0 < abs(figures["train/episode_return"]) < 0.2 * figures["train/episode_length"]
