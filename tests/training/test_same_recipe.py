"""What a run or a search began with: a change of one value keeps the others, and other files are noticed."""

from pathlib import Path

import pytest

from orbitcc.agents import checkpoint
from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.environments import presets
from orbitcc.training import recipe


def test_a_change_of_one_value_of_a_table_of_the_worlds_keeps_the_others() -> None:
    changed = recipe.load("ppo-leo", ["scenario.slots.long_interruption_probability=0.1"]).world().slots
    before = scenarios.for_training(recipe.load("ppo-leo").scenario_name).slots
    assert changed == before.changed(long_interruption_probability=0.1)


@pytest.mark.parametrize(
    "changes",
    [
        ["scenario.duration_s=10", "scenario=train-geo"],
        ["preset.clock=flow", "preset=ratios"],
        ["learner.lr=1e-3", "learner={lr=1e-4}"],
    ],
)
def test_a_change_that_undoes_an_earlier_one_is_refused(changes: list[str]) -> None:
    with pytest.raises(OrbitccError, match="which it would undo"):
        recipe.load("ppo-leo", changes)


@pytest.mark.parametrize(
    ("part", "match"), [({"without": ["slots"], "slots": {}}, "without"), ({"weight": 2.0}, "weights")]
)
def test_parts_of_mixtures_that_contradict_themselves_are_refused(part: dict, match: str) -> None:
    table = {"kind": "mixture", "name": "m", "parts": [{"base": "train-leo", **part}]}
    with pytest.raises(OrbitccError, match=match):
        scenarios.from_table({**table, **({"weights": [1.0]} if "weight" in part else {})})


def test_the_digests_cover_preset_files_and_the_policies_of_rivals(tmp_path: Path) -> None:
    preset, rival = tmp_path / "mine.toml", tmp_path / "rival"
    changes = [
        f'preset="{preset}"',
        f'scenario.rivals={{probability=1.0, controllers=[{{name="policy", params={{path="{rival}"}}}}]}}',
    ]
    found = []
    for base, policy in (("ratios", "perigee"), ("astraea", "apogee")):
        preset.write_text(f'base = "{base}"\n')
        rival.unlink(missing_ok=True)
        rival.symlink_to(checkpoint.SHIPPED / policy)
        plan = recipe.load("ppo-leo", changes)
        found.append((plan.preset_digest(), plan.world_digest()))
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


def test_a_preset_that_begins_with_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.toml").write_text(f'base = "{tmp_path / "loop.toml"}"\n')
    with pytest.raises(OrbitccError, match="does not begin with itself"):
        presets.preset(str(tmp_path / "loop.toml"))


def test_the_identity_of_a_preset_is_what_it_does() -> None:
    ratios = presets.preset("ratios")
    renamed = presets.Preset(
        "other", ratios.observation, ratios.action, ratios.reward, ratios.interval_ms, ratios.interval_rtts,
        ratios.interval_least_ms, ratios.clock,
    )  # fmt: skip
    assert renamed.identity == ratios.identity != presets.preset("astraea").identity
