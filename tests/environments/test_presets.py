"""Presets: names, spaces, documentation."""

from pathlib import Path

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import get
from tests import modules


def test_astraea_has_ten_features_of_five_intervals_with_finite_bounds() -> None:
    space = presets.preset("astraea").observation_space()
    assert space.shape == (50,)
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()
    assert presets.preset("astraea").interval_ns == 30_000_000


def test_every_native_observation_documents_every_index() -> None:
    for name in _sim.FUNCTIONS["observation"]:
        spec = presets.Native(name).definition("observation")
        rows = presets.describe(name).splitlines()[2:]
        assert len(rows) * spec["history"] == spec["dim"] == len(spec["labels"])
        assert len(rows) == spec["features"]


def test_every_feature_of_a_list_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "presets.md").read_text(encoding="utf-8")
    with pytest.raises(OrbitccError) as refused:
        presets.preset({"base": "ratios", "observation": {"name": "features", "features": ["speed"]}})
    assert refused.value.field == "preset.observation.features[0].name"
    names = str(refused.value.allowed).removeprefix("one of ").split(", ")
    assert len(names) == 23
    assert all(f"`{name}`" in text for name in names)


def test_every_function_and_its_bounds_are_in_the_documentation() -> None:
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "presets.md").read_text(encoding="utf-8")
    generated = modules.load(docs / "pages" / "reference.py").observation_page()
    for name in _sim.FUNCTIONS["observation"]:
        assert f"| `{name}` |" in text
        assert f"## {name}\n\n{presets.describe(name)}\n" in generated
    for name in _sim.FUNCTIONS["action"]:
        action = presets.Native(name).definition("action")
        assert f"| `{name}` | {action['meaning']} |" in text
    for name in _sim.FUNCTIONS["reward"]:
        assert f"| `{name}` |" in text
    for name in presets.PRESETS:
        assert f"| `{name}` |" in text


def test_functions_of_a_preset_can_be_replaced() -> None:
    changed = presets.preset("astraea", interval_ms=20)
    assert changed.interval_ns == 20_000_000
    assert changed.observation == presets.Native("astraea")


def test_the_hash_covers_parameters_and_is_the_same_for_the_same_definition() -> None:
    digest = presets.definition_hash("observation", "astraea")
    assert len(digest) == 16
    assert digest == presets.definition_hash("observation", {"name": "astraea", "history": 5})
    assert digest != presets.definition_hash("observation", {"name": "astraea", "history": 4})
    windowed = {"name": "astraea", "min_rtt_window_s": 10.0}
    assert presets.definition_hash("observation", windowed) == presets.definition_hash("observation", "astraea-leo")
    steps = presets.definition_hash("action", "astraea")
    assert steps != presets.definition_hash("action", {"name": "astraea", "step": 0.05})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            {"observation": {"name": "astraea", "history": 0}},
            "observation.history: 0 .* a number in 1 .. 64",
        ),
        ({"observation": {"name": "astraea", "windows": 1}}, "observation.windows"),
        ({"action": {"name": "astraea", "step": "fast"}}, "action.step"),
        ({"reward": {"name": "astraea", "fairness": -1}}, "reward.fairness"),
        ({"reward": {"fairness": 1}}, "reward"),
        ({"reward": "gold"}, "gold"),
    ],
)
def test_functions_refuse_what_they_do_not_know_by_name(function, message) -> None:
    with pytest.raises(OrbitccError, match=message):
        presets.preset("astraea", **function)


def test_parameters_of_functions_come_from_toml(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('base = "astraea-leo"\n[reward]\nname = "astraea"\nfairness = 0.3\nfloor = -0.5\n')
    made = presets.preset(str(path))
    assert made.name == "mine"
    assert made.native("observation").name == "astraea-leo"
    parameters = made.native("reward").definition("reward")["parameters"]
    assert (parameters["fairness"], parameters["floor"], parameters["throughput"]) == (0.3, -0.5, 0.1)


def test_a_mistake_in_the_file_of_a_preset_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for text, field in (("rate = 3", "rate"), ('base = "mine"', "base"), ('[action]\nname = "x"', "action")):
        path.write_text(text)
        with pytest.raises(OrbitccError) as caught:
            presets.preset(str(path))
        assert caught.value.field == f"{path}.{field}"


def test_a_bound_by_the_true_product_is_for_training_only() -> None:
    capped = presets.preset("astraea", action={"name": "astraea", "cap_bdp": 1.5, "cap_of": "true", "step": 0.05})
    assert capped.for_deployment().action == presets.Native("astraea", {"step": 0.05})
    kept = presets.preset("astraea", action={"name": "astraea", "cap_bdp": 3.0})
    assert kept.for_deployment() == kept


@pytest.mark.parametrize(("low", "high"), [([0.0], [np.inf]), ([1.0], [0.0]), ([], []), ([0.0], [1.0, 2.0])])
def test_custom_observations_need_finite_ordered_bounds(low, high) -> None:
    with pytest.raises(OrbitccError, match="observation"):
        presets.Observation(lambda stats, who: stats, low=np.array(low), high=np.array(high))


@pytest.mark.parametrize("interval", [float("nan"), 0.0, -1.0, 1e9, "30"])
def test_bad_intervals_are_refused(interval) -> None:
    with pytest.raises(OrbitccError, match="interval_ms"):
        presets.preset("astraea", interval_ms=interval)


def test_custom_functions_are_the_same_in_every_environment() -> None:
    cwnd = presets.STATS["cwnd_packets"]
    mine = presets.Preset(
        "mine",
        observation=presets.Observation(
            lambda stats, who: stats[:, [cwnd, presets.STATS["srtt_s"]]], low=np.zeros(2), high=np.array([1e4, 10.0])
        ),
        action=presets.Action(lambda actions, stats, who: stats[:, cwnd] + 5 * actions[:, 0]),
        reward=presets.Reward(lambda stats, who: stats[:, cwnd] / 100),
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
