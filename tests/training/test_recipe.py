"""Recipes: what ships is valid, what is wrong is named."""

import pytest

from orbitcc.envs.errors import OrbitccError
from orbitcc.training import recipe


@pytest.mark.parametrize("name", recipe.names())
def test_every_shipped_recipe_is_valid_and_named_after_its_file(name: str) -> None:
    assert recipe.load(name).name == name
    assert recipe.load(name).description


def test_values_can_be_set() -> None:
    changed = recipe.load("ppo-mixed", ["ppo.lr=1e-4", "scenario=train-leo", "network.hidden=[32]"])
    assert changed.ppo.lr == 1e-4
    assert changed.scenario == "train-leo"
    assert changed.network.hidden == (32,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ppo.lr=-1", r"ppo\.lr"),
        ("ppo.lr=nan", r"ppo\.lr"),
        ("ppo.lrr=1", "did you mean 'lr'"),
        ("agent_steps=0", "agent_steps"),
        ("ppo.lr", "KEY=VALUE"),
        ("name.x=1", "single value"),
        ("algorithm=dqn", "algorithm"),
        ("ppo.flows=4", r"ppo\.flows"),  # it samples whole worlds
        ("ppo.batch=4", "did you mean"),
        ("sac.lr=1e-3", "sac"),
        ("ppo.batch_world_steps=4095", "at least minibatch = 4096"),
        ("network.norm=layer", r"network\.norm"),  # Astraea's
    ],
)
def test_wrong_values_name_the_field(change: str, message: str) -> None:
    with pytest.raises(OrbitccError, match=message):
        recipe.load("ppo-mixed", [change])


def test_unknown_recipes_suggest_a_known_one() -> None:
    with pytest.raises(OrbitccError, match="did you mean 'ppo-mixed'"):
        recipe.load("ppo-mixt")


def test_a_recipe_may_be_a_file(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nalgorithm = "rllib-ppo"\nscenario = "dumbbell"\nagent_steps = 10\n')
    assert recipe.load(str(path)).name == "mine"
    path.write_text("name = ")
    with pytest.raises(OrbitccError, match="TOML"):
        recipe.load(str(path))


@pytest.mark.parametrize("algorithm", ["rllib-ppo", "sb3-ppo", "rllib-ppo-worlds", "astraea-td3", "rllib-sac"])
def test_a_setting_that_cannot_apply_is_refused(algorithm: str) -> None:
    table = {"name": "mine", "scenario": "dumbbell", "agent_steps": 10, "algorithm": algorithm}
    assert recipe.Recipe.build(table).algorithm == algorithm
    for section, setting in (("ppo", "privileged_critic"), ("network", "slope")):
        with pytest.raises(OrbitccError, match=section):
            recipe.Recipe.build({**table, section: {setting: True}})
    if algorithm != "astraea-td3":
        with pytest.raises(OrbitccError, match="norm"):
            recipe.Recipe.build({**table, "network": {"norm": "layer"}})
        with pytest.raises(OrbitccError, match="activation"):
            recipe.Recipe.build({**table, "network": {"activation": "leaky_relu"}})


@pytest.mark.parametrize("name", recipe.names())
def test_a_run_folder_keeps_the_whole_recipe(name: str) -> None:
    plan = recipe.load(name)
    assert recipe.Recipe.build(plan.model_dump()) == plan
