"""Recipes: what ships is valid, what is wrong is named."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orbitcc.agents.training_range import training_range
from orbitcc.common.errors import OrbitccError
from orbitcc.common.files import read_toml, toml_text
from orbitcc.envs import scenarios
from orbitcc.envs.controllers import EXTERNAL
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.environments.safety import SafetyFilter
from orbitcc.envs.scenarios import DISTRIBUTIONS
from orbitcc.training import recipe
from tests.training.named import of


@pytest.mark.parametrize("name", recipe.names())
def test_every_shipped_recipe_is_valid_and_named_after_its_file(name: str) -> None:
    assert recipe.load(of(name)).name == name
    assert recipe.load(of(name)).description


def test_values_can_be_set() -> None:
    changed = recipe.load(of("ppo-mixed"), ["learner.lr=1e-4", "scenario=train-leo", "network.hidden=[32]"])
    assert changed.learner.lr == 1e-4
    assert changed.scenario == "train-leo"
    assert changed.network.hidden == (32,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("learner.lr=-1", r"learner\.lr"),
        ("learner.lr=nan", r"learner\.lr"),
        ("learner.lrr=1", "did you mean 'lr'"),
        ("agent_steps=0", "agent_steps"),
        ("learner.lr", "KEY=VALUE"),
        ("name.x=1", "single value"),
        ("algorithm=dqn", "algorithm"),
        ("learner.flows=4", r"learner\.flows"),  # it samples whole worlds
        ("learner.batch=4", "did you mean"),
        ("sac.lr=1e-3", "sac"),
        ("learner.batch_world_steps=4095", "at least minibatch = 4096"),
        ("network.norm=layer", r"network\.norm"),  # Astraea's
    ],
)
def test_wrong_values_name_the_field(change: str, message: str) -> None:
    with pytest.raises(OrbitccError, match=message):
        recipe.load(of("ppo-mixed"), [change])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("sb3-sac-leo", "learner.grad_clip=1", r"learner\.grad_clip"),
        ("astraea", ("algorithm=rllib-td3", "learner.threads=2"), r"learner\.threads: 2 .*env_runners"),
        ("astraea", "learner.replay=100", r"learner\.replay: 100 .*at least batch = "),
        ("ppo-leo", "network.gate_inputs=[3]", r"network\.gate_inputs: \[3\] .*none without experts"),
        ("ppo-leo", "network.gate_hidden=[8]", r"network\.gate_hidden: \[8\] .*none without experts"),
    ],
)
def test_a_value_without_effect_is_refused(name: str, change: str | tuple[str, ...], message: str) -> None:
    with pytest.raises(OrbitccError, match=message):
        recipe.load(of(name), [change] if isinstance(change, str) else change)


@pytest.mark.parametrize("name", ["ppo-mixed", "astraea"])
def test_only_learners_of_single_flows_train_on_the_emulator(name: str) -> None:
    with pytest.raises(OrbitccError, match=r"backend.*simulator, with (rllib-ppo-worlds|astraea-td3)"):
        recipe.check_names(recipe.load(of(name), ["backend=emulator"]))
    with pytest.raises(OrbitccError, match="backend"):
        recipe.load(of(name), ["backend=mininet"])
    recipe.check_names(recipe.load("perigee", ["backend=emulator"]))


def test_unknown_recipes_suggest_a_known_one() -> None:
    with pytest.raises(OrbitccError, match="did you mean 'ppo-leo'"):
        recipe.load("ppo-lea")


def test_a_recipe_may_be_a_file(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nalgorithm = "rllib-ppo"\nscenario = "dumbbell"\nagent_steps = 10\n')
    assert recipe.load(str(path)).name == "mine"
    path.write_text("name = ")
    with pytest.raises(OrbitccError, match="TOML"):
        recipe.load(str(path))


@pytest.mark.parametrize("algorithm", ["rllib-ppo", "sb3-ppo", "rllib-ppo-worlds", "astraea-td3", "rllib"])
def test_a_setting_that_cannot_apply_is_refused(algorithm: str) -> None:
    table = {"name": "mine", "scenario": "dumbbell", "agent_steps": 10, "algorithm": algorithm}
    if algorithm == "rllib":
        table["learner"] = {"algorithm": "SAC"}
    assert recipe.Recipe.build(table).algorithm == algorithm
    foreign = "batch_world_steps" if algorithm == "rllib-ppo" else "privileged_critic"
    for section, setting in (("learner", foreign), ("network", "slope")):
        with pytest.raises(OrbitccError, match=section):
            recipe.Recipe.build({**table, section: {setting: True}})
    if algorithm != "astraea-td3":
        with pytest.raises(OrbitccError, match="norm"):
            recipe.Recipe.build({**table, "network": {"norm": "layer"}})
    if algorithm not in ("astraea-td3", "rllib-ppo"):
        with pytest.raises(OrbitccError, match="activation"):
            recipe.Recipe.build({**table, "network": {"activation": "leaky_relu"}})


@pytest.mark.parametrize("name", recipe.names())
def test_a_run_folder_keeps_the_whole_recipe(name: str) -> None:
    plan = recipe.load(of(name))
    assert recipe.Recipe.build(plan.model_dump()) == plan


@pytest.mark.parametrize("name", recipe.names())
def test_a_copy_of_a_recipe_finds_its_worlds(name: str, tmp_path: Path) -> None:
    shutil.copy(recipe.RECIPES / f"{name}.toml", tmp_path / "mine.toml")
    assert recipe.load(str(tmp_path / "mine.toml")) == recipe.load(name)


def test_worlds_may_be_a_mixture_in_the_recipe() -> None:
    parts = [
        {"weight": 3, "base": "train-leo", "without": ["slots"], "duration_s": 20},
        {"base": "train-geo", "flows": {"low": 1, "high": 2}},
    ]
    table = {"kind": "mixture", "name": "two-worlds", "common": {"duration_s": 30, "mean_gap_s": 5}, "parts": parts}
    recipe_table = {"name": "mine", "algorithm": "ppo", "scenario": table, "agent_steps": 10}
    made = recipe.Recipe.build(recipe_table)
    worlds = made.world()
    assert (made.scenario_name, worlds.name, worlds.weights) == ("two-worlds", "two-worlds", (3.0, 1.0))
    leo, geo = worlds.parts
    assert (leo.slots, leo.duration_s, geo.duration_s) == (None, 20, 30)
    assert leo.rate_mbps == DISTRIBUTIONS["train-leo"].rate_mbps
    assert (geo.flows.high, geo.geo) == (2, DISTRIBUTIONS["train-geo"].geo)
    drawn = [worlds.sample(np.random.default_rng(seed)).duration_s for seed in range(400)]
    assert 0.65 < drawn.count(20) / 400 < 0.85  # three of four, five standard deviations of a binomial share


def test_a_part_of_a_mixture_may_be_a_folder_of_scenarios_for_training_alone(tmp_path: Path) -> None:
    scenarios.get("dumbbell", duration_s=7).changed(
        flows=(Flow(name="a", controller=EXTERNAL), Flow(name="b", controller=EXTERNAL))
    ).save(tmp_path / "1.toml")
    parts = [{"base": "train-leo", "weight": 3}, {"name": "hard", "folder": str(tmp_path), "weight": 1}]
    table = {"kind": "mixture", "name": "mine", "common": {"duration_s": 30}, "parts": parts}
    made = recipe.Recipe.build({"name": "mine", "algorithm": "ppo", "scenario": table, "agent_steps": 10})
    worlds, held_out = made.world(), made.held_out_world()
    drawn = [worlds.sample(np.random.default_rng(seed)) for seed in range(400)]
    hard = [world for world in drawn if world.duration_s == 7]
    assert 0.15 < len(hard) / 400 < 0.35  # one of four, five standard deviations of a binomial share
    assert len({world.seed for world in hard}) == len(hard)
    assert (held_out.weights, [part.duration_s for part in held_out.parts]) == ((3.0,), [30])
    assert scenarios.from_table(worlds.model_dump()) == worlds
    with pytest.raises(OrbitccError, match=r"^scenario\.parts: .*not folders alone"):
        recipe.Recipe.build({**made.model_dump(), "scenario": {**table, "parts": parts[1:]}}).world()
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nalgorithm = "ppo"\nagent_steps = 10\n[scenario]\nkind = "mixture"\nname = "mine"\n'
        '[[scenario.parts]]\nbase = "train-leo"\n[[scenario.parts]]\nname = "hard"\nfolder = "worlds"\n'
    )
    (tmp_path / "worlds").mkdir()
    (tmp_path / "1.toml").rename(tmp_path / "worlds" / "1.toml")
    beside = recipe.load(str(tmp_path / "mine.toml")).world()
    assert [world.duration_s for world in beside.parts[1].scenarios] == [7]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": [{"folder": "nowhere"}]}, r"parts\.0\.folder: 'nowhere' .*a folder with scenarios"),
        ({"kind": "mix"}, "kind: unknown name 'mix'"),
        ({"parts": []}, "parts: .*a list that is not empty"),
        ({"parts": [5]}, r"parts\.0: 5 .*a table"),
        ({"common": 5}, "common: 5 .*a table"),
        ({"parts": [{"base": ["train-leo"]}]}, r"parts\.0\.base: \['train-leo'\] .*text"),
        ({"parts": [{"base": "train-leo", "without": 5}]}, r"parts\.0\.without: 5 .*a list"),
        ({"parts": [{"base": "train-leo", "without": [[1]]}]}, r"parts\.0\.without\.0: \[1\] .*text"),
        ({"parts": [{"base": "train-mars"}]}, r"parts\.0\.base: unknown name 'train-mars'"),
        ({"parts": [{"base": "train-mixed"}]}, r"parts\.0\.base"),
        (
            {"parts": [{"base": "train-leo", "without": ["slot"]}]},
            r"parts\.0\.without: unknown name 'slot'; did you mean 'slots'",
        ),
        ({"parts": [{"base": "train-leo", "rate_mbps": {"low": 5, "high": 1}}]}, r"parts\.0\.rate_mbps"),
        ({"parts": [{"base": "train-leo", "weight": -1}]}, r"weights\.0: -1"),
    ],
)
def test_a_mixture_names_what_is_wrong(changes: dict, message: str) -> None:
    table = {"kind": "mixture", "name": "worlds", "parts": [{"base": "train-leo"}], **changes}
    with pytest.raises(OrbitccError, match=rf"^scenario\.{message}"):
        recipe.Recipe.build({"name": "mine", "algorithm": "ppo", "scenario": table, "agent_steps": 10}).world()


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("ppo-leo", 'scenario={name="train-leo", rate_mbps=-1}', "scenario.rate_mbps.low"),
        ("ppo-leo", 'scenario={name="dumbbell", nope=1}', "scenario.nope"),
        ("ppo-leo", 'scenario={name="nope"}', "scenario"),
        ("ppo-leo", 'scenario={name="nope.toml", rate_mbps=1}', "file"),
        ("ppo-leo", 'scenario={kind="nope"}', "scenario.kind"),
        ("ppo-leo", 'preset="nope"', "preset"),
        ("ppo-leo", 'preset={base="nope"}', "preset.base"),
        ("ppo-leo", 'preset={base="astraea", rate=3}', "preset.rate"),
        ("ppo-leo", 'preset={base="astraea", interval_ms=-3}', "preset.interval_ms"),
        ("ppo-leo", 'preset={base="astraea", reward={name="astraea", nope=1}}', "preset.reward.nope"),
        ("ppo-leo", 'preset={base="astraea", safety_filter={max_loss=2}}', "preset.safety_filter.max_loss"),
        ("ppo-leo", 'preset={base="astraea", safety_filter={max_rtt=2}}', "preset.safety_filter.max_rtt"),
        ("zenith", "preset.safety_filter.max_bdp=2", "preset.safety_filter"),
        ("zenith", "safety_filter.max_bdp=1", "safety_filter.max_bdp"),
        ("zenith", "safety_filter.max_bdp=2000", "safety_filter.max_bdp"),
        ("zenith", "safety_filter.patience_s=-1", "safety_filter.patience_s"),
        ("zenith", "safety_filter.max_loss=0.1", "safety_filter.max_loss"),
        ("zenith", "safety_filter=3", "safety_filter"),
    ],
)
def test_an_error_names_the_whole_path_of_a_field(name: str, change: str, field: str) -> None:
    with pytest.raises(OrbitccError) as caught:
        recipe.check_names(recipe.load(name, [change]))
    assert caught.value.field == field


def test_a_shorter_run_has_shorter_schedules_and_the_same_warm_up() -> None:
    whole, short = (recipe.load("ppo-leo", changes) for changes in ([], ["agent_steps=300_000"]))
    assert (whole.agent_steps, whole.learner.lr_decay, short.learner.lr_decay) == (400_000, 400_000, 300_000)
    assert short.changed(agent_steps=whole.agent_steps, learner=whole.learner) == whole
    assert recipe.load("ppo-leo", ["agent_steps=300_000", "learner.lr_decay=7"]).learner.lr_decay == 7
    worlds = recipe.load(of("ppo-mixed"), ["agent_steps=1_000_000"])
    assert worlds.learner.lr_decay_world_steps == 250_000  # of 1,000,000, as the run a quarter of 4,000,000
    whole, short = (recipe.load("astraea", changes) for changes in ([], ["agent_steps=1_800_000"]))
    assert (whole.learner.averaging, short.learner.averaging) == (0.001, 0.002)
    assert short.learner.changed(averaging=0.001) == whole.learner  # learning_starts, replay, shares of the run ...


@pytest.mark.parametrize("name", recipe.names())
def test_a_recipe_that_is_loaded_again_keeps_its_schedules(name: str) -> None:
    plan = recipe.load(name, ["agent_steps=2_400_000"])
    assert recipe.changed(plan.model_dump(), ["agent_steps=2_400_000"]) == plan
    recipe.check_names(plan)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("astraea", ["agent_steps=600_000"], r"agent_steps: 600000 .* at least 1,200,000 \(least_agent_steps"),
        ("astraea-quick", ["agent_steps=99_999"], r"agent_steps: 99999 .* at least 100,000 \(five times .*learning_st"),
        ("rllib-sac-worlds", ["agent_steps=39_999"], r"at least 40,000 \(five times learner.learning_starts_world_"),
        ("zenith", ["agent_steps=8_000"], r"agent_steps: 8000 .* at least 8,192 \(learner.batch\)"),
    ],
)
def test_a_run_that_is_too_short_to_learn_is_refused(name: str, changes: list[str], message: str) -> None:
    with pytest.raises(OrbitccError, match=message):
        recipe.check_names(recipe.load(of(name), changes))


@pytest.mark.parametrize("wrong", [0, "many", []])
@pytest.mark.parametrize("field", ["agent_steps", "learner.lr_decay"])
def test_a_length_of_another_type_is_one_line(field: str, wrong: object, tmp_path: Path) -> None:
    data = read_toml(recipe.RECIPES / "zenith.toml")
    recipe._put(data, field, wrong)
    (tmp_path / "own.toml").write_text(toml_text(data))
    for changes in ([], ["agent_steps=500_000"]):
        with pytest.raises(OrbitccError, match=rf"^{field}: .*a whole number"):
            recipe.check_names(recipe.load(str(tmp_path / "own.toml"), changes))
    with pytest.raises(OrbitccError, match=rf"^{field}: .*a whole number"):
        recipe.check_names(recipe.load("zenith", [f"{field}={wrong!r}"]))


def test_the_safety_filter_of_a_recipe_has_the_training_range_of_its_worlds() -> None:
    changes = [
        "safety_filter={max_bdp=3}",
        "scenario.rate_mbps={low=2, high=50}",
        "scenario.loss={p={low=0, high=0.02}}",
    ]
    plan = recipe.load("ppo-leo", [*changes, "scenario.name=train-leo"])
    low, high = training_range(plan.world()).base_rtt_ms
    found = plan.used_preset
    assert found.safety_filter == SafetyFilter(
        max_bdp=3.0,
        min_rtt_ms=(low / 1.25, high * 1.25),
        max_rate_mbps=1.5 * training_range(plan.world()).rate_mbps[1],
        max_loss=0.02 + 0.1,
        patience_s=1.0,
    )
    assert replace(found, safety_filter=None) == recipe.load("ppo-leo").used_preset
    assert recipe.changed(plan.model_dump(), []).used_preset == found  # as a resumed run loads it
