"""Presets: names, spaces, documentation."""

from pathlib import Path

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.envs import presets
from orbitcc.envs.errors import OrbitccError


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
