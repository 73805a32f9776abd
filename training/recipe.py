"""Recipes: all settings of a training run, in a TOML file."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, SerializeAsAny, model_validator

from orbitcc.agents.checkpoint import load as load_checkpoint
from orbitcc.agents.model_card import Gate, Layer, TrainingRange
from orbitcc.agents.safety_filter import limits
from orbitcc.agents.training_range import training_range
from orbitcc.common import code
from orbitcc.common.errors import FileError, OrbitccError, UnknownNameError
from orbitcc.common.files import MOST_LEVELS, MOST_TABLE, read_bytes, read_toml
from orbitcc.envs import scenarios
from orbitcc.envs.description.flows import ControllerSpec, parse_value
from orbitcc.envs.description.model import Model, number
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution, check_undone
from orbitcc.envs.description.support import Backend
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.safety import SafetyFilter
from orbitcc.envs.scenarios.distribution import Mixture, PathDistribution, written
from orbitcc.eval.contenders import digest_of, policies_of
from orbitcc.eval.heldout_metrics import Weights
from orbitcc.training.learners import ALGORITHMS, Algorithm, FlowPpoOptions

RECIPES = Path(__file__).resolve().parent / "recipes"

_fraction = number(0, 1, "")
_rate = number(0, 1, "", above=True)
_steps = number(1, 1e12, "agent steps", whole=True)
_column = Annotated[int, number(0, 4096, "column of the observation", whole=True)]
_units = Annotated[int, number(1, 4096, "units", whole=True)]
_Options = TypeVar("_Options", bound=Model)


class PolicyShape(Model):
    """The policy's hidden layers; a value function has a network of the same shape.

    Our own PPO and RLlib's (`rllib-ppo`) also train mixtures of experts:

    experts: above 0, the network has so many outputs, which a second network, the gate, weighs by a softmax.
    gate_hidden: hidden layers of the gate, with the activation tanh.
    gate_inputs, expert_inputs: columns of the observation that they observe; empty: all.

    Astraea's learner (also in RLlib) has normalisation, and a separate shape of the critics:

    norm: `layer`: layer norm in actor and critics; `batch`: as published, batch norm without a scale in the actor only.
    critic_hidden: hidden layers of the critics.
    """

    hidden: tuple[_units, ...] = (64, 64)
    activation: Literal["tanh", "relu", "leaky_relu"] = Field(
        default="tanh",
        description="of hidden layers; not all algorithms have `leaky_relu` (slope 0.2)",
    )
    experts: Annotated[int, number(0, 64, "experts", whole=True)] = 0
    gate_hidden: tuple[_units, ...] = (16,)
    gate_inputs: tuple[_column, ...] = ()
    expert_inputs: tuple[_column, ...] = ()
    norm: Literal["none", "layer", "batch"] = "none"
    critic_hidden: tuple[_units, ...] = (256, 128, 64)

    @model_validator(mode="after")
    def _has_a_gate_only_with_experts(self) -> PolicyShape:
        for name in ("gate_hidden", "gate_inputs", "expert_inputs") if not self.experts else ():
            if (value := getattr(self, name)) != PolicyShape.model_fields[name].default:
                raise OrbitccError(name, list(value), "none without experts")
        return self

    def layers(self, actions: int) -> tuple[Layer, ...]:
        """The hidden layers and a linear output layer, as a model card states them; the layer has `actions` units, or
        one for each expert."""
        # Batch norm is folded into the layer.
        norm: Literal["none", "layer"] = "layer" if self.norm == "layer" else "none"
        hidden = [Layer(units=units, activation=self.activation, norm=norm) for units in self.hidden]
        return (*hidden, Layer(units=self.experts or actions, activation="linear"))

    def gate(self, inputs: int) -> Gate | None:
        """As a model card states it, for observations of so many numbers.

        Raises:
            OrbitccError: a column that the observation does not have.
        """
        if not self.experts:
            return None
        self._check_columns(inputs, "gate_inputs", "expert_inputs")
        hidden = [Layer(units=units, activation="tanh") for units in self.gate_hidden]
        every = tuple(range(inputs))
        return Gate(
            layers=(*hidden, Layer(units=self.experts, activation="linear")),
            inputs=self.gate_inputs or every,
            expert_inputs=self.expert_inputs or every,
        )

    def _check_columns(self, inputs: int, *names: str) -> None:
        for name in names:
            columns = getattr(self, name)
            if any(column >= inputs for column in columns):
                raise OrbitccError(f"network.{name}", list(columns), f"columns of the observation, 0 to {inputs - 1}")

    def check_for(self, algorithm: str) -> None:
        """Raises OrbitccError for a value that this algorithm does not heed."""
        kind = ALGORITHMS[algorithm]
        if self.activation not in kind.activations:
            raise OrbitccError("activation", self.activation, f"{' or '.join(kind.activations)}, with {algorithm}")
        for name, field in PolicyShape.model_fields.items():
            value = getattr(self, name)
            if name not in ("hidden", "activation", *kind.network) and value != field.default:
                raise OrbitccError(name, value, f"{field.default}, with {algorithm}")


class Evaluation(Model):
    """Evaluations on held-out worlds, which are the same every time.

    every: agent steps between evaluations.
    score: weights of the score that selects the best policy.
    give_up_after: end the run after this number of consecutive evaluations in which the policy floods or starves; 0:
    never.
    give_up_from: count these evaluations from this share of the agent steps on.
    """

    every: Annotated[int, _steps] = 150_000
    worlds: Annotated[int, number(1, 10_000, "worlds", whole=True)] = 16
    seed: Annotated[int, number(0, 2**53, whole=True)] = 1_000_000
    score: Weights = Weights()
    give_up_after: Annotated[int, number(0, 10_000, "evaluations", whole=True)] = 5
    give_up_from: Annotated[float, _fraction] = 0.5


class FilterBounds(Model):
    """The safety filter in which a policy learns and acts. Its other limits come from the training range of the
    recipe's worlds (:func:`orbitcc.agents.safety_filter.limits`).

    max_bdp: largest window in measured bandwidth-delay products, at least 1.5; 0: no bound.
    patience_s: Cubic takes over after so long outside of the training range; 0: never.
    """

    max_bdp: Annotated[float, number(0, 1e3, "BDP")] = 4.0
    patience_s: Annotated[float, number(0, 1e4, "s")] = 1.0

    def around(self, training_range: TrainingRange) -> SafetyFilter:
        """The whole filter.

        Raises:
            OrbitccError: a bound that would stop the start of a connection.
        """
        return limits(training_range, self.max_bdp, self.patience_s)


class Recipe(Model):
    """A learner with its options, the worlds in which it learns, and how the result is evaluated.

    algorithm: name of the learner (:data:`orbitcc.training.learners.ALGORITHMS`).
    preset: observation, action and reward.
    start_from: name or path of a checkpoint whose policy our own PPO begins with; empty: with random weights.
    learner: options of the learner.
    safety_filter: limits around what the policy decides, in the training worlds, in the held-out ones and in its card.

    `--set agent_steps=N` makes a run shorter or longer. It scales the schedules of the learner
    (`orbitcc.training.learners.Algorithm.schedules`) that are not set themselves: where the learning rate and the
    exploration of PPO reach their final values (`lr_decay`), and how far back the averaged actor of TD3 reaches
    (`averaging`, in the inverse ratio). Shares of the run scale by themselves. Nothing else changes: not the warm-up
    (`learning_starts`, `critic_first`), buffers and batches, nor the distance of evaluations (`evaluation.every`).
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str = ""
    algorithm: str
    scenario: str | dict[str, Any] = Field(
        description="a name or a file, or a table with its `name` and settings: {name = 'train-leo', duration_s = 30}; "
        "with `traces`, the windows of a trace set (orbitcc.envs.scenarios.measured); "
        "with a `kind`, the table is a whole distribution (orbitcc.envs.scenarios.from_table)"
    )
    preset: str | dict[str, Any] = presets.DEFAULT
    agent_steps: Annotated[int, _steps]
    least_agent_steps: Annotated[int, _steps] = Field(
        default=1, description="`orbitcc train` refuses a length below this one, with which the recipe does not work"
    )
    backend: Backend = Field(
        default="simulator",
        description="what runs the training worlds; the emulator plays one world at a time, in real time. Held-out "
        "worlds are always simulated",
    )
    start_from: str = ""
    network: PolicyShape = PolicyShape()
    learner: SerializeAsAny[Model] = Field(default=Model(), description="its fields depend on the algorithm")
    evaluation: Evaluation = Evaluation()
    safety_filter: FilterBounds | None = None

    @model_validator(mode="before")
    @classmethod
    def _options_of_the_algorithm(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or not isinstance(data.get("algorithm"), str):
            return data
        if data["algorithm"] not in ALGORITHMS:
            raise UnknownNameError("algorithm", data["algorithm"], ALGORITHMS)
        given, kind = data.get("learner", {}), ALGORITHMS[data["algorithm"]].options
        try:
            return {**data, "learner": given if isinstance(given, kind) else kind.build(given)}
        except OrbitccError as error:
            raise error.under("learner") from None

    @model_validator(mode="after")
    def _parts_fit(self) -> Recipe:
        try:
            self.network.check_for(self.algorithm)
        except OrbitccError as error:
            raise error.under("network") from None
        code.from_file("start_from", self.start_from)
        if self.start_from and self.algorithm != "ppo":
            raise OrbitccError("start_from", self.start_from, "nothing with a learner but ppo")
        return self

    @property
    def kind(self) -> Algorithm:
        return ALGORITHMS[self.algorithm]

    def options(self, kind: type[_Options]) -> _Options:
        """The options of the learner, as the type that the caller knows."""
        assert isinstance(self.learner, kind)
        return self.learner

    @property
    def scenario_name(self) -> str:
        if isinstance(self.scenario, str):
            return self.scenario
        table = self.scenario
        return str(table.get("name", f"traces-{table.get('split', 'train')}" if "traces" in table else ""))

    def world(self) -> Scenario | ScenarioDistribution:
        """The scenario or distribution of the training worlds.

        Raises:
            OrbitccError: unknown scenario or setting.
        """
        if isinstance(self.scenario, str):
            return scenarios.for_training(self.scenario)
        try:
            named = self.scenario.get("name") in scenarios.MEASURED
            if "kind" in self.scenario or ("traces" in self.scenario and not named):
                return scenarios.from_table(self.scenario)
            settings = {key: value for key, value in self.scenario.items() if key != "name"}
            return scenarios.for_training(self.scenario_name, settings)
        except OrbitccError as error:
            raise (
                error if error.field == "scenario" or isinstance(error, FileError) else error.under("scenario")
            ) from None

    def held_out_world(self) -> Scenario | ScenarioDistribution:
        """Where policies are compared during the training: the same worlds, but of a trace set those of its validation
        part."""
        world = self.world()
        return world.held_out() if isinstance(world, PathDistribution | Mixture) else world

    @cached_property
    def used_preset(self) -> presets.Preset:
        """The preset with the safety filter of the recipe: what learners, evaluations and cards use.

        Raises:
            OrbitccError: an unknown preset or scenario, or limits that are not allowed.
        """
        used = presets.preset(self.preset)
        if self.safety_filter is None:
            return used
        if used.safety_filter is not None:
            raise OrbitccError("preset.safety_filter", "a table", "nothing where the recipe has one")
        world = self.world()
        try:
            return replace(used, safety_filter=self.safety_filter.around(training_range(world)))
        except OrbitccError as error:
            raise error.under("safety_filter") from None

    def world_digest(self) -> str:
        """12 hex digits of the training worlds, whose file or definition may change while the recipe does not."""
        world = self.world()
        others = [digest for scenario in written(world) for digest in policies_of(scenario)]
        text = json.dumps([world.model_dump(mode="json"), others, _contents(world.model_dump(mode="json"))])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def preset_digest(self) -> str:
        """12 hex digits of the preset, whose file may change while the recipe does not."""
        return hashlib.sha256(self.used_preset.identity.encode()).hexdigest()[:12]


def _contents(value: Any) -> list[str]:
    """The digests of files of elements and of policies that rivals are, which a description names by place."""
    found: list[str] = []
    if isinstance(value, dict):
        if isinstance(tle := value.get("tle"), str) and tle:
            found.append(hashlib.sha256(read_bytes(Path(tle), MOST_TABLE)).hexdigest())
        if value.get("name") == "policy" and isinstance(value.get("params"), dict):
            found.append(digest_of(ControllerSpec.build(value)))
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += _contents(inner)
    return found


WARM_UP = ("learning_starts", "learning_starts_world_steps")
"""Settings of learners that are at most a fifth of a run."""
LEARNERS = {"rllib": {"ppo": "rllib-ppo", "astraea-td3": "rllib-td3"}}
"""Other learners -> the algorithms whose recipes they train, and the algorithm by which they do."""


def names() -> list[str]:
    """The names of the recipes in the package."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def load(name_or_file: str, changes: Sequence[str] = ()) -> Recipe:
    """A recipe by name or from a TOML file, with changes as `key=value` (dotted keys).

    Folders with scenarios are looked for beside the file, in the working directory, then among the recipes of the
    package, so that a copy of one finds its worlds.

    Raises:
        OrbitccError: an unknown recipe or key, a value that is not allowed, or a file that is not a recipe.
    """
    if name_or_file in names():
        file = RECIPES / f"{name_or_file}.toml"
    elif name_or_file.endswith(".toml"):
        file = Path(name_or_file)
    else:
        raise UnknownNameError("recipe", name_or_file, names(), "orbitcc list recipes")
    data = read_toml(file)
    parts = worlds.get("parts") if isinstance(worlds := data.get("scenario"), dict) else None
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and isinstance(folder := part.get("folder"), str):
            places = (file.parent, Path(), RECIPES)
            part["folder"] = next((str(place / folder) for place in places if (place / folder).is_dir()), folder)
    return changed(data, changes)


def changed(data: dict[str, Any], changes: Sequence[str]) -> Recipe:
    """A recipe from its values, with changes as `key=value` (dotted keys).

    A change of `agent_steps` scales the schedules of the learner (see :class:`Recipe`) that are not set themselves.

    Raises:
        OrbitccError: an unknown key, or a value that is not allowed.
    """
    given: dict[str, Any] = {}
    check_undone({}, list(dict.fromkeys(change.partition("=")[0].strip() for change in changes)))
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise OrbitccError("set", change, "KEY=VALUE, e.g. learner.lr=1e-4")
        given[key.strip()] = parse_value(text, key.strip())
    stated = copy.deepcopy(data)
    for key, value in given.items():
        _put(data, key, value)
    if "agent_steps" in given:
        _scale_schedules(data, stated, given)
    return Recipe.build(data)


def _scale_schedules(data: dict[str, Any], stated: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Scale the schedules in `data` with the length of the training; `stated` has the one before the change."""
    recipe = Recipe.build(copy.deepcopy(data))
    begun = Recipe.build({**copy.deepcopy(data), "agent_steps": stated.get("agent_steps", recipe.agent_steps)})
    schedules, factor = recipe.kind.schedules, recipe.agent_steps / begun.agent_steps
    for name, power in schedules.items():
        if factor != 1 and not {f"learner.{name}", "learner"} & given.keys():
            _put(data, f"learner.{name}", _scaled(getattr(recipe.learner, name), factor**power))


def _scaled(value: float, factor: float) -> float:
    """A number of agent steps, at least 1, or a rate, at most 1."""
    return max(1, round(value * factor)) if isinstance(value, int) else min(1.0, value * factor)


def by_learner(recipe: Recipe, learner: str) -> list[str]:
    """The changes (:func:`load`) that make another learner train a recipe; its name gets the learner's as its end.

    Raises:
        OrbitccError: a learner that cannot train this recipe.
    """
    found = LEARNERS.get(learner, {}).get(recipe.algorithm)
    if found is None:
        allowed = f"{', '.join(LEARNERS)}, for recipes with ppo or astraea-td3 ({recipe.algorithm} here)"
        raise OrbitccError("learner", learner, allowed)
    return [f"algorithm={found}", f"name={recipe.name}-{learner}"]


def check_names(recipe: Recipe) -> None:
    """Check the names in a recipe before anything is written.

    Raises:
        OrbitccError: its scenario, its preset or the policy that it begins with is unknown, its learner does not learn
            such actions or on this backend, or its length is too short to learn anything.
    """
    _check_length(recipe)
    recipe.world()
    if recipe.start_from:
        try:
            load_checkpoint(recipe.start_from)
        except OrbitccError as error:
            raise error.at("start_from") from None
    if recipe.backend != "simulator" and not recipe.kind.by_flow:
        those = ", ".join(name for name, kind in ALGORITHMS.items() if kind.by_flow)
        raise OrbitccError("backend", recipe.backend, f"simulator, with {recipe.algorithm} (not {those})")
    used = recipe.used_preset
    if recipe.kind.one_clock:
        presets.require_one_clock(used, recipe.algorithm)
    if used.choices is not None and not recipe.kind.discrete:
        raise OrbitccError("preset.action", str(used.action), f"steps, with {recipe.algorithm}")


def _check_length(recipe: Recipe) -> None:
    """At least `least_agent_steps`, five times the warm-up of a replay buffer, and one batch of PPO."""
    least, why = recipe.least_agent_steps, "least_agent_steps; shorter runs of this recipe do not work"
    for name in WARM_UP:
        if (length := 5 * getattr(recipe.learner, name, 0)) > least:
            least, why = length, f"five times learner.{name}"
    if isinstance(recipe.learner, FlowPpoOptions) and recipe.learner.batch > least:
        least, why = recipe.learner.batch, "learner.batch"
    if recipe.agent_steps < least:
        raise OrbitccError("agent_steps", recipe.agent_steps, f"at least {least:,} ({why})")


def _complete(table: dict[str, Any], field: str) -> None:
    """Give named worlds all values of one of their tables, so that a change of one value keeps the others."""
    if field in table or not isinstance(name := table.get("name"), str) or "kind" in table or "traces" in table:
        return
    value = getattr(scenarios.for_training(name), field, None)
    if isinstance(value, Model):
        table[field] = value.model_dump(mode="json")


def _put(data: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    if len(path) >= MOST_LEVELS:
        raise OrbitccError("set", f"{key[:40]} ...", f"a key of at most {MOST_LEVELS} parts")
    node = data
    if path[:1] == ["scenario"] and isinstance(name := data.get("scenario"), str):
        data["scenario"] = {"name": name}
    table = data.get("scenario")
    if key == "scenario.traces" and isinstance(table, dict) and table.get("name") not in scenarios.MEASURED:
        table.pop("name", None)  # the worlds of a trace set, not those of the recipe
    if path[:1] == ["scenario"] and len(path) > 1 and isinstance(table := data.get("scenario"), dict):
        _complete(table, path[1])
    for part in path:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise OrbitccError("set", key, f"a field ({part} is a single value)")
    node[last] = value
