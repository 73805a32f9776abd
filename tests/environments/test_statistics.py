"""The raw statistics: every column is described and stays within its range; a wrong name gets near ones."""

import gymnasium as gym
import numpy as np
import pytest

import orbitcc
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.presets import STATISTICS

MAY_BE_NAN = {"rtt_mean_s", "rtt_min_s"}


def test_every_column_has_a_unit_a_range_a_source_and_a_meaning() -> None:
    assert [s.name for s in STATISTICS] == list(orbitcc.STATS)
    assert len({s.name for s in STATISTICS}) == len(STATISTICS)
    suffix = {"_s": "s", "_bps": "bit/s", "_packets": "packets", "_bytes": "bytes"}
    for s in STATISTICS:
        assert s.low < s.high
        assert s.source in ("kernel", "per-ack", "oracle")
        assert s.meaning.endswith((".", "sample"))
        assert {unit for end, unit in suffix.items() if s.name.endswith(end)} <= {s.unit}, s.name
    assert {s.name for s in STATISTICS if "NaN" in s.meaning} == MAY_BE_NAN


@pytest.mark.parametrize("scenario", ["train-mixed", "parking-lot", "leo-access"])
def test_values_stay_within_their_ranges(scenario: str) -> None:
    env = orbitcc.BatchedParallelEnv(4, scenario)
    env.reset(seed=3)
    rng, low, high = np.random.default_rng(3), *np.array([(s.low, s.high) for s in STATISTICS]).T
    nan = np.array([s.name in MAY_BE_NAN for s in STATISTICS])
    seen = 0
    for _ in range(300):
        env.step(rng.uniform(-1, 1, (4, env.max_agents, 1)).astype(np.float32))
        rows = env.statistics().reshape(-1, len(STATISTICS))
        rows = rows[rows[:, orbitcc.STATS["active"]] == 1]
        seen += len(rows)
        assert not np.isnan(rows[:, ~nan]).any()
        known = np.where(np.isnan(rows), low.clip(-1e300), rows)
        outside = ((known < low) | (known > high)).any(axis=0)
        assert not outside.any(), np.array(list(orbitcc.STATS))[outside]
    assert seen > 300


def test_a_wrong_column_suggests_the_nearest() -> None:
    with pytest.raises(KeyError, match="unknown statistic 'srtt'; did you mean 'srtt_s'"):
        orbitcc.STATS["srtt"]
    assert "srtt" not in orbitcc.STATS
    assert orbitcc.STATS.get("srtt") is None


WRAPPED = {"reward": "Reward(f)", "action": "Action(f)", "observation": "Observation(f, low, high)"}


@pytest.mark.parametrize(("kind", "hint"), WRAPPED.items())
def test_a_bare_function_is_answered_with_how_to_wrap_it(kind: str, hint: str) -> None:
    with pytest.raises(OrbitccError, match=f"{kind}: wrap the function f as orbitcc") as caught:
        gym.make("orbitcc/Dumbbell-v0", **{kind: lambda stats, who: stats[:, 0]})
    assert hint in str(caught.value)


def test_what_is_public_is_listed() -> None:
    assert dir(orbitcc) == sorted(orbitcc.__all__)
    for name in orbitcc.__all__:
        assert getattr(orbitcc, name) is not None
