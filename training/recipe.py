"""Recipes: everything `orbitcc train` needs to know, in a TOML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from orbitcc.agents.model_card import Layer
from orbitcc.envs import scenarios
from orbitcc.envs.description.flows import parse_value
from orbitcc.envs.description.model import Model, number
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments import presets
from orbitcc.envs.errors import OrbitccError, UnknownNameError
from orbitcc.envs.files import read_toml
from orbitcc.training.heldout_metrics import Weights

RECIPES = Path(__file__).resolve().parent / "recipes"

_fraction = number(0, 1, "")
_rate = number(0, 1, "", above=True)
_steps = number(1, 1e12, "agent steps", whole=True)
_world_steps = number(1, 1e12, "steps of worlds", whole=True)


class Network(Model):
    """The policy's hidden layers; a value function has a network of the same shape."""

    hidden: tuple[Annotated[int, number(1, 4096, "units", whole=True)], ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"

    def layers(self, actions: int) -> tuple[Layer, ...]:
        """Plain hidden layers and a linear output of so many actions, as a card states them."""
        hidden = [Layer(units=units, activation=self.activation) for units in self.hidden]
        return (*hidden, Layer(units=actions, activation="linear"))


class LeakyNetwork(Network):
    """Those of our own learners, which also know `leaky_relu` (slope 0.2)."""

    activation: Literal["tanh", "relu", "leaky_relu"] = "tanh"  # type: ignore[assignment]


class Td3Network(LeakyNetwork):
    """Astraea's: a norm, and critics of a shape of their own."""

    norm: Literal["none", "layer"] = "none"
    critic_hidden: tuple[Annotated[int, number(1, 4096, "units", whole=True)], ...] = (256, 128, 64)


_LEARNER_NAMES = {
    "learning_rate": "lr", "discount": "gamma", "lambda": "gae_lambda", "lambda_": "gae_lambda", "n_epochs": "epochs",
    "num_epochs": "epochs", "num_sgd_iter": "epochs", "batch_size": "minibatch", "minibatch_size": "minibatch",
    "sgd_minibatch_size": "minibatch", "train_batch_size": "batch", "n_steps": "batch", "clip_range": "clip",
    "clip_param": "clip", "ent_coef": "entropy", "entropy_coeff": "entropy", "max_grad_norm": "grad_clip",
    "buffer_size": "buffer", "num_env_runners": "env_runners", "num_workers": "env_runners", "n_envs": "flows",
    "num_envs": "flows", "slots": "flows",
}  # fmt: skip
"""Names in Stable-Baselines3 and RLlib -> ours, for errors."""


class PpoSettings(Model):
    """Proximal policy optimisation (Schulman et al., 2017), whoever implements it."""

    also_called: ClassVar[Mapping[str, str]] = _LEARNER_NAMES

    minibatch: Annotated[int, _steps] = 2_048
    epochs: Annotated[int, number(1, 100, "", whole=True)] = 6
    lr: Annotated[float, _rate] = 3e-4
    lr_final: Annotated[float, _rate] = 3e-5
    gamma: Annotated[float, _fraction] = 0.98
    gae_lambda: Annotated[float, _fraction] = 0.95
    clip: Annotated[float, _rate] = 0.2
    exploration_std: Annotated[float, number(0, 10, "", above=True)] = 1.0
    entropy: Annotated[float, _fraction] = 0.003
    grad_clip: Annotated[float, number(0, 1e6, "", above=True)] = 0.5
    reward_scale: Annotated[float, number(0, 1e6, "", above=True)] = 1.0


class Ppo(PpoSettings):
    """On `flows` flows in parallel; `batch` and `lr_decay`, from `lr` to `lr_final`, in agent steps."""

    flows: Annotated[int, number(1, 100_000, "flows", whole=True)] = 256
    batch: Annotated[int, _steps] = 4_096
    lr_decay: Annotated[int, _steps] = 700_000


class OwnPpo(Ppo):
    """Our own, `training/ppo.py`.

    critic_hidden: hidden layers of the value network; none: as the policy's.
    privileged_critic: the value network also sees what :mod:`orbitcc.training.privileged` knows of the flow's world.
    normalise_observations: by running mean and standard deviation, which the exported policy carries.
    normalise_advantages: to mean 0 and standard deviation 1 over an iteration.
    squash: how what is sampled becomes an action: `clip` it to [-1, 1], or its `tanh`.
    exploration_std_final: reached linearly, like `lr_final`; 0 = the standard deviation is learned.
    value_loss: of the error of the value: `squared`, `huber` (linear beyond 1), or `clipped` (squared, of a value that
        moves by `clip` at most per iteration; Schulman's implementation).
    value_weight: of the value loss, beside the policy's.
    kl_target: no further epoch once the policy is so far (mean divergence over an epoch) from the one that sampled;
        0 = never.
    action_penalty: weight of the policy's mean squared output, added to the loss.
    """

    critic_hidden: tuple[Annotated[int, number(1, 4096, "units", whole=True)], ...] = ()
    privileged_critic: bool = False
    normalise_observations: bool = False
    normalise_advantages: bool = True
    squash: Literal["clip", "tanh"] = "clip"
    exploration_std_final: Annotated[float, number(0, 10, "")] = 0.0
    value_loss: Literal["squared", "huber", "clipped"] = "squared"
    value_weight: Annotated[float, number(0, 1e6, "", above=True)] = 0.5
    kl_target: Annotated[float, number(0, 1e3, "")] = 0.0
    action_penalty: Annotated[float, number(0, 1e3, "")] = 0.0


class RllibPpo(Ppo):
    """RLlib's, whose critic sees the global state of the flow's world; `flows` are those of each env runner."""

    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    value_clip: Annotated[float, number(0, 1e9, "", above=True)] = 1e6
    array_runner: bool = True
    """Sample sub-environments as arrays; false: with RLlib's own env runner, a Python object per step."""


class RllibPpoWorlds(PpoSettings):
    """RLlib's on so many whole worlds of each env runner as multi-agent environments; counts in steps of worlds."""

    worlds: Annotated[int, number(1, 1024, "worlds", whole=True)] = 16
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    value_clip: Annotated[float, number(0, 1e9, "", above=True)] = 1e6
    batch_world_steps: Annotated[int, _world_steps] = 4_096
    lr_decay_world_steps: Annotated[int, _world_steps] = 700_000
    give_up_below: Annotated[float, number(-1e6, 1e6)] = -0.09
    give_up_s: Annotated[float, number(0, 1e6, "s", above=True)] = 3.0


class SacSettings(Model):
    """Soft actor-critic (Haarnoja et al., 2018), whoever implements it; `alpha` is the initial temperature."""

    also_called: ClassVar[Mapping[str, str]] = _LEARNER_NAMES

    minibatch: Annotated[int, _steps] = 256
    lr: Annotated[float, _rate] = 3e-4
    gamma: Annotated[float, _fraction] = 0.98
    tau: Annotated[float, _rate] = 0.005
    alpha: Annotated[float, number(0, 1e3, "", above=True)] = 1.0
    grad_clip: Annotated[float, number(0, 1e6, "", above=True)] = 10.0
    reward_scale: Annotated[float, number(0, 1e6, "", above=True)] = 1.0


class Sac(SacSettings):
    """On `flows` flows in parallel; counts in agent steps."""

    flows: Annotated[int, number(1, 100_000, "flows", whole=True)] = 64
    batch: Annotated[int, _steps] = 4_096
    update_every: Annotated[float, number(0, 1e6, "agent steps", above=True)] = 16
    buffer: Annotated[int, _steps] = 200_000
    learning_starts: Annotated[int, number(0, 1e12, "agent steps", whole=True)] = 10_000


class RllibSac(Sac):
    """RLlib's; `flows` are those of each env runner."""

    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0


class RllibSacWorlds(SacSettings):
    """RLlib's, which replays complete episodes of whole worlds; counts in their steps."""

    worlds: Annotated[int, number(1, 1024, "worlds", whole=True)] = 4
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    batch_world_steps: Annotated[int, _world_steps] = 4_096
    update_every_world_steps: Annotated[float, number(0, 1e6, "steps of worlds", above=True)] = 16
    buffer_world_steps: Annotated[int, _world_steps] = 200_000
    learning_starts_world_steps: Annotated[int, number(0, 1e12, "steps of worlds", whole=True)] = 10_000


class Td3(Model):
    """Astraea's learner (`training/astraea_td3.py`); in brackets what its authors' code or paper has, else ours."""

    also_called: ClassVar[Mapping[str, str]] = {**_LEARNER_NAMES, "learning_rate": "actor_lr", "buffer_size": "replay"}

    worlds: Annotated[int, number(1, 10_000, "worlds", whole=True)] = Field(
        default=160, description="side by side [2 actors]"
    )
    threads: Annotated[int, number(0, 1024, "threads", whole=True)] = Field(
        default=1, description="that step worlds; 0: all"
    )
    iteration: Annotated[int, _steps] = Field(default=20_000, description="decisions between two lines of the curve")
    replay: Annotated[int, _steps] = Field(default=400_000, description="transitions kept [400,000]")
    presence: Annotated[float, number(0, 1, "", above=True)] = Field(
        default=0.5,
        description="share of sub-environments with a flow, on average: what the replay's room is planned for",
    )
    learning_starts: Annotated[int, _steps] = Field(default=20_000, description="decisions before the first update")
    scale_share: Annotated[float, _fraction] = Field(
        default=0.0,
        description="share of the run in which what networks see is measured, if learning starts before",
    )
    batch: Annotated[int, _steps] = Field(default=1024, description="transitions per update [192]")
    by_world: bool = Field(
        default=False, description="all worlds are drawn from as often: a flow alone counts as much as a crowd [no]"
    )
    update_every: Annotated[int, _steps] = Field(
        default=128, description="decisions per critic update [about 20 to 60]"
    )
    actor_every: Annotated[int, _steps] = Field(default=2, description="critic updates per actor update [20]")
    actor_lr: Annotated[float, _rate] = Field(default=5e-4, description="[5e-5]")
    critic_lr: Annotated[float, _rate] = Field(default=1e-3, description="[1e-3]")
    lr_final_share: Annotated[float, _rate] = Field(default=0.2, description="of the rates, at the end; linear [1]")
    tau: Annotated[float, _rate] = Field(default=0.01, description="share by which targets follow [0.005]")
    averaging: Annotated[float, _rate] = Field(
        default=0.01, description="share by which the exported actor follows [1]"
    )
    gamma: Annotated[float, _fraction] = Field(default=0.98, description="[0.98]")
    steps: Annotated[int, number(1, 100, "steps", whole=True)] = Field(default=5, description="of a return [1]")
    target_noise: Annotated[float, _fraction] = Field(default=0.05, description="[0.05]")
    target_noise_clip: Annotated[float, _fraction] = Field(default=0.1, description="[0.1]")
    noise_std: Annotated[float, _fraction] = Field(default=0.3, description="of exploration, at first [random actions]")
    noise_std_final: Annotated[float, _fraction] = 0.1
    noise_decay: Annotated[float, number(0, 1, "", above=True)] = Field(
        default=0.5, description="share of the run it falls in"
    )
    random_share: Annotated[float, _fraction] = Field(
        default=0.0, description="of actions that are uniformly random instead, at first [1]"
    )
    random_share_final: Annotated[float, _fraction] = Field(default=0.0, description="likewise falling [0.05]")
    noise_correlation: Annotated[float, number(0, 0.999)] = Field(
        default=0.9, description="from one decision to the next [0]"
    )
    brake_bdp: Annotated[float, number(0, 1e3, "BDP")] = Field(
        default=2.0,
        description="above this window exploring actions are `brake_action` at most; 0: never [window cap 1.5]",
    )
    brake_action: Annotated[float, number(-1, 0)] = -0.2
    action_penalty: Annotated[float, number(0, 1e3)] = Field(
        default=1e-3, description="on the squared pre-tanh action [0]"
    )
    grad_clip: Annotated[float, number(0, 1e6, "", above=True)] = Field(default=10.0, description="[none]")
    reward_scale: Annotated[float, number(0, 1e6, "", above=True)] = Field(default=10.0, description="[1]")
    fairness: tuple[Annotated[float, number(0, 1e3)], ...] = Field(
        default=(),
        description="the reward's fairness weight in equal parts of the run, a curriculum; (): the preset's [0.02]",
    )


class Evaluation(Model):
    """Held-out worlds, the same at every evaluation; `score` chooses `best/`.

    `give_up_after` evaluations in a row that find the policy flooding or starving end a run, counted from the share
    `give_up_from` of its agent steps on; 0: none do.
    """

    every: Annotated[int, _steps] = 150_000
    worlds: Annotated[int, number(1, 10_000, "worlds", whole=True)] = 16
    seed: Annotated[int, number(0, 2**53, whole=True)] = 1_000_000
    score: Weights = Weights()
    give_up_after: Annotated[int, number(0, 10_000, "evaluations", whole=True)] = 5
    give_up_from: Annotated[float, _fraction] = 0.5


class Recipe(Model):
    """What all recipes have; one subclass per algorithm (:data:`BY_ALGORITHM`) adds what its learner knows."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str = ""
    algorithm: str
    scenario: str | dict[str, Any] = Field(
        description="a name or a file, or a table with its `name` and settings: {name = 'train-leo', duration_s = 30}"
    )
    preset: str | dict[str, Any] = "astraea"
    agent_steps: Annotated[int, _steps]
    network: Network = Network()
    evaluation: Evaluation = Evaluation()

    @classmethod
    def build(cls, data: Any) -> Self:
        """A recipe of the class that its `algorithm` names.

        Raises:
            OrbitccError: an unknown algorithm, a value that is not allowed, or a setting that the algorithm has not.
        """
        algorithm = data.get("algorithm") if isinstance(data, Mapping) else None
        if cls is Recipe and isinstance(algorithm, str):
            if algorithm not in BY_ALGORITHM:
                raise UnknownNameError("algorithm", algorithm, BY_ALGORITHM)
            made: Any = BY_ALGORITHM[algorithm].build(data)
            return made
        return super().build(data)

    @property
    def scenario_name(self) -> str:
        return self.scenario if isinstance(self.scenario, str) else str(self.scenario.get("name", ""))

    def world(self) -> Scenario | ScenarioDistribution:
        """What it trains on.

        Raises:
            OrbitccError: unknown scenario or setting.
        """
        settings = {} if isinstance(self.scenario, str) else {k: v for k, v in self.scenario.items() if k != "name"}
        return scenarios.load(self.scenario_name, settings)


class PpoRecipe(Recipe):
    algorithm: Literal["ppo"]
    network: LeakyNetwork = LeakyNetwork()
    ppo: OwnPpo = OwnPpo()


class Td3Recipe(Recipe):
    algorithm: Literal["astraea-td3"]
    network: Td3Network = Td3Network()
    td3: Td3 = Td3()


class Sb3PpoRecipe(Recipe):
    algorithm: Literal["sb3-ppo"]
    ppo: Ppo = Ppo()


class Sb3SacRecipe(Recipe):
    algorithm: Literal["sb3-sac"]
    sac: Sac = Sac()


class RllibPpoRecipe(Recipe):
    algorithm: Literal["rllib-ppo"]
    ppo: RllibPpo = RllibPpo()


class RllibPpoWorldsRecipe(Recipe):
    algorithm: Literal["rllib-ppo-worlds"]
    ppo: RllibPpoWorlds = RllibPpoWorlds()


class RllibSacRecipe(Recipe):
    algorithm: Literal["rllib-sac"]
    sac: RllibSac = RllibSac()


class RllibSacWorldsRecipe(Recipe):
    algorithm: Literal["rllib-sac-worlds"]
    sac: RllibSacWorlds = RllibSacWorlds()


RllibRecipe = RllibPpoRecipe | RllibPpoWorldsRecipe | RllibSacRecipe | RllibSacWorldsRecipe

BY_ALGORITHM: dict[str, type[Recipe]] = {
    "ppo": PpoRecipe,
    "astraea-td3": Td3Recipe,
    "sb3-ppo": Sb3PpoRecipe,
    "sb3-sac": Sb3SacRecipe,
    "rllib-ppo": RllibPpoRecipe,
    "rllib-ppo-worlds": RllibPpoWorldsRecipe,
    "rllib-sac": RllibSacRecipe,
    "rllib-sac-worlds": RllibSacWorldsRecipe,
}
"""Algorithm -> what its recipes are made of."""


def names() -> list[str]:
    """Recipes that travel with the package."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def load(name_or_file: str, changes: Sequence[str] = ()) -> Recipe:
    """A recipe by name, or from a TOML file, with `key=value` changes (dotted keys).

    Raises:
        OrbitccError: unknown recipe or key, a value that is not allowed, or a file that is no recipe.
    """
    if name_or_file in names():
        data = read_toml(RECIPES / f"{name_or_file}.toml")
    elif name_or_file.endswith(".toml"):
        data = read_toml(name_or_file)
    else:
        raise UnknownNameError("recipe", name_or_file, names(), "orbitcc list recipes")
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise OrbitccError("set", change, "KEY=VALUE, e.g. ppo.lr=1e-4")
        _put(data, key.strip(), parse_value(text))
    return Recipe.build(data)


def check_names(recipe: Recipe) -> None:
    """Look up what a recipe names, before anything is written.

    Raises:
        OrbitccError: its scenario or preset is unknown.
    """
    recipe.world()
    presets.preset(recipe.preset)


def _put(data: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    node = data
    for part in path:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise OrbitccError("set", key, f"a field ({part} is a single value)")
    node[last] = value


__all__ = ["BY_ALGORITHM", "RECIPES", "Evaluation", "Network", "Recipe", "check_names", "load", "names"]
