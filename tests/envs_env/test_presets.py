"""Presets: names, spaces, documentation."""

from pathlib import Path

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.envs import presets
from orbitcc.envs.batched import BatchedParallelEnv
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.parallel import parallel_env
from orbitcc.envs.scenario import Flow
from orbitcc.envs.scenarios import get
from orbitcc.envs.single import CongestionEnv
from orbitcc.envs.slots import FlowVectorEnv
from orbitcc.envs.vector import VectorCongestionEnv


def test_astraea_has_ten_features_of_five_intervals_with_finite_bounds() -> None:
    space = presets.preset("astraea").observation_space()
    assert space.shape == (50,)
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()
    assert presets.preset("astraea").interval_ns == 30_000_000


def test_every_native_observation_documents_every_index() -> None:
    for name, spec in _sim.PRESETS["observation"].items():
        rows = presets.describe(name).splitlines()[2:]
        assert len(rows) * spec["history"] == spec["dim"] == len(spec["labels"])
        assert len(rows) == spec["features"]


def test_every_piece_and_its_bounds_are_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "presets.md").read_text()
    for name in _sim.PRESETS["observation"]:
        assert f"### {name}\n" in text
        assert presets.describe(name) in text
    for name, action in _sim.PRESETS["action"].items():
        assert f"| `{name}` | {action['meaning']} |" in text
    for name, reward in _sim.PRESETS["reward"].items():
        assert reward["low"] == -reward["high"]
        assert f"| `{name}` |" in text
        assert f"+-{reward['high']:g} |" in text
    for name in presets.PRESETS:
        assert f"| `{name}` |" in text


def test_pieces_of_a_preset_can_be_replaced() -> None:
    changed = presets.preset("astraea", interval_ms=20)
    assert changed.interval_ns == 20_000_000
    assert changed.observation == "astraea"


def test_the_observation_hash_is_short_and_stable() -> None:
    digest = presets.observation_hash("astraea")
    assert len(digest) == 16
    assert digest == "e3f3f94337da364c"  # of shipped checkpoints


@pytest.mark.parametrize(("low", "high"), [([0.0], [np.inf]), ([1.0], [0.0]), ([], []), ([0.0], [1.0, 2.0])])
def test_custom_observations_need_finite_ordered_bounds(low, high) -> None:
    with pytest.raises(OrbitccError, match="observation"):
        presets.Observation(lambda stats: stats, low=np.array(low), high=np.array(high))


@pytest.mark.parametrize("interval", [float("nan"), 0.0, -1.0, 1e9, "30"])
def test_bad_intervals_are_refused(interval) -> None:
    with pytest.raises(OrbitccError, match="interval_ms"):
        presets.preset("astraea", interval_ms=interval)


def test_custom_pieces_are_the_same_in_every_environment() -> None:
    cwnd = presets.STATS["cwnd_packets"]
    mine = presets.Preset(
        "mine",
        observation=presets.Observation(
            lambda stats: stats[:, [cwnd, presets.STATS["srtt_s"]]], low=np.zeros(2), high=np.array([1e4, 10.0])
        ),
        action=presets.Action(lambda actions, stats: stats[:, cwnd] + 5 * actions[:, 0]),
        reward=presets.Reward(lambda stats: stats[:, cwnd] / 100),
    )
    scenario = get("dumbbell", duration_s=3).with_flows([Flow(controller="external")])
    acts = np.random.default_rng(1).uniform(-1, 1, 60).astype(np.float32)

    def played(env, act, pick) -> list[tuple[float, ...]]:
        env.reset(seed=4)
        rows = [env.step(act(a))[:2] for a in acts]
        return [(*pick(obs).tolist(), float(pick(reward))) for obs, reward in rows]

    expected = played(CongestionEnv(scenario, preset=mine), lambda a: np.array([a]), np.asarray)
    assert len({row[0] for row in expected}) > 10
    first = lambda values: np.asarray(values)[0]  # noqa: E731
    twice = lambda a: np.full((2, 1), a)  # noqa: E731
    assert played(VectorCongestionEnv(2, scenario, preset=mine), twice, first) == expected
    assert played(FlowVectorEnv(2, scenario, preset=mine), twice, first) == expected
    batched = BatchedParallelEnv(2, scenario, preset=mine)
    assert played(batched, lambda a: np.full((2, 1, 1), a), lambda values: first(first(values))) == expected
    named = lambda values: np.asarray(values["flow_0"])  # noqa: E731
    assert played(parallel_env(scenario, preset=mine), lambda a: {"flow_0": np.array([a])}, named) == expected
