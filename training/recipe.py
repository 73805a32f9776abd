"""Recipes: everything `orbitcc train` needs to know, in a TOML file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from orbitcc.agents.card import Layer
from orbitcc.envs.errors import OrbitccError, UnknownNameError
from orbitcc.envs.files import read_toml
from orbitcc.envs.flows import parse_value
from orbitcc.envs.model import Model, number
from orbitcc.training.scorecard import Weights

RECIPES = Path(__file__).resolve().parent / "recipes"

_fraction = number(0, 1, "")
_rate = number(0, 1, "", above=True)
_steps = number(1, 1e12, "agent steps", whole=True)


class Network(Model):
    """The policy's hidden layers; the value function has a network of the same shape."""

    hidden: tuple[Annotated[int, number(1, 4096, "units", whole=True)], ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"

    def layers(self, actions: int) -> tuple[Layer, ...]:
        """Plain hidden layers and a linear output of so many actions, as a card states them."""
        hidden = [Layer(units=units, activation=self.activation) for units in self.hidden]
        return (*hidden, Layer(units=actions, activation="linear"))


class Ppo(Model):
    """Proximal policy optimisation (Schulman et al., 2017).

    `worlds`, `env_runners` and `give_up_...` are RLlib's, which samples whole worlds: there `batch` and `lr_decay`
    count steps of worlds. Stable-Baselines3 samples `slots` flows, and they count agent steps.
    """

    slots: Annotated[int, number(1, 100_000, "flows", whole=True)] = 256
    worlds: Annotated[int, number(1, 1024, "worlds", whole=True)] = 16
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    batch: Annotated[int, number(1, 1e9, "steps of worlds", whole=True)] = 4_096
    minibatch: Annotated[int, _steps] = 2_048
    epochs: Annotated[int, number(1, 100, "", whole=True)] = 6
    lr: Annotated[float, _rate] = 3e-4
    lr_final: Annotated[float, _rate] = 3e-5
    lr_decay: Annotated[int, number(1, 1e12, "steps of worlds", whole=True)] = 700_000
    gamma: Annotated[float, _fraction] = 0.98
    gae_lambda: Annotated[float, _fraction] = 0.95
    clip: Annotated[float, _rate] = 0.2
    exploration_std: Annotated[float, number(0, 10, "", above=True)] = 1.0
    entropy: Annotated[float, _fraction] = 0.003
    grad_clip: Annotated[float, number(0, 1e6, "", above=True)] = 0.5
    value_clip: Annotated[float, number(0, 1e9, "", above=True)] = 1e6
    give_up_below: Annotated[float, number(-1e6, 1e6)] = -0.09
    give_up_s: Annotated[float, number(0, 1e6, "s", above=True)] = 3.0
    reward_scale: Annotated[float, number(0, 1e6, "", above=True)] = 1.0


class Sac(Model):
    """Soft actor-critic (Haarnoja et al., 2018) on `slots` flows side by side; `alpha` is the temperature at first.

    `worlds` and `env_runners` are RLlib's. With `worlds` it replays complete episodes of so many whole worlds instead,
    and `batch`, `buffer`, `learning_starts` and `update_every` count steps of worlds.
    """

    worlds: Annotated[int, number(0, 1024, "worlds", whole=True)] = 0
    slots: Annotated[int, number(1, 100_000, "flows", whole=True)] = 64
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    batch: Annotated[int, _steps] = 4_096
    minibatch: Annotated[int, _steps] = 256
    update_every: Annotated[float, number(0, 1e6, "agent steps", above=True)] = 16
    buffer: Annotated[int, _steps] = 200_000
    learning_starts: Annotated[int, number(0, 1e12, "agent steps", whole=True)] = 10_000
    lr: Annotated[float, _rate] = 3e-4
    gamma: Annotated[float, _fraction] = 0.98
    tau: Annotated[float, _rate] = 0.005
    alpha: Annotated[float, number(0, 1e3, "", above=True)] = 1.0
    grad_clip: Annotated[float, number(0, 1e6, "", above=True)] = 10.0
    reward_scale: Annotated[float, number(0, 1e6, "", above=True)] = 1.0


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
    """A recipe, checked."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str = ""
    algorithm: Literal["rllib-ppo", "rllib-sac", "sb3-ppo", "sb3-sac"]
    scenario: str
    preset: str = "astraea"
    agent_steps: Annotated[int, _steps]
    network: Network = Network()
    ppo: Ppo = Ppo()
    sac: Sac = Sac()
    evaluation: Evaluation = Evaluation()

    @property
    def settings(self) -> Ppo | Sac:
        """Those of the recipe's own algorithm."""
        return self.ppo if self.algorithm.endswith("ppo") else self.sac


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
        raise UnknownNameError("recipe", name_or_file, names())
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
    from orbitcc.envs import presets, scenarios

    scenarios.load(recipe.scenario)
    presets.preset(recipe.preset)


def _put(data: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    node = data
    for part in path:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise OrbitccError("set", key, f"a field ({part} is a single value)")
    node[last] = value


__all__ = ["RECIPES", "Evaluation", "Network", "Ppo", "Recipe", "Sac", "check_names", "load", "names"]
