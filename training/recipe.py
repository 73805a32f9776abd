"""Recipes: all settings of a training run, in a TOML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, model_validator

from orbitcc.agents.model_card import Gate, Gru, Layer
from orbitcc.envs import scenarios
from orbitcc.envs.description.flows import parse_value
from orbitcc.envs.description.model import Model, number
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.description.support import Backend
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
        """The hidden layers and a linear output layer with `actions` units, as a model card states them."""
        hidden = [Layer(units=units, activation=self.activation) for units in self.hidden]
        return (*hidden, Layer(units=actions, activation="linear"))


class LeakyNetwork(Network):
    """The network of our own learners, which also support `leaky_relu` (slope 0.2)."""

    activation: Literal["tanh", "relu", "leaky_relu"] = "tanh"  # type: ignore[assignment]


_column = Annotated[int, number(0, 4096, "column of the observation", whole=True)]


class PpoNetwork(LeakyNetwork):
    """The network of our own PPO, which may be a mixture of experts, or recurrent.

    experts: above 0, the network has so many outputs, which a second network, the gate, weighs by a softmax.
    gate_hidden: hidden layers of the gate, with the activation tanh.
    gate_inputs, expert_inputs: columns of the observation that they observe; empty: all.
    gru: above 0, a gated recurrent unit with so many units; the layers observe its state and the observation.
    gru_inputs, head_inputs: columns of the observation that the unit and the layers observe; empty: all.
    gru_every: decisions from one update of the state to the next.
    """

    experts: Annotated[int, number(0, 64, "experts", whole=True)] = 0
    gate_hidden: tuple[Annotated[int, number(1, 4096, "units", whole=True)], ...] = (16,)
    gate_inputs: tuple[_column, ...] = ()
    expert_inputs: tuple[_column, ...] = ()
    gru: Annotated[int, number(0, 4096, "units", whole=True)] = 0
    gru_inputs: tuple[_column, ...] = ()
    head_inputs: tuple[_column, ...] = ()
    gru_every: Annotated[int, number(1, 10_000, "decisions", whole=True)] = 1

    @model_validator(mode="after")
    def _is_one_kind(self) -> PpoNetwork:
        if self.gru and self.experts:
            raise OrbitccError("gru", self.gru, "0 in a mixture of experts (experts = 0 makes it none)")
        return self

    def layers(self, actions: int) -> tuple[Layer, ...]:
        return super().layers(self.experts or actions)

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

    def recurrence(self, inputs: int) -> Gru | None:
        """The recurrent unit in the same way."""
        if not self.gru:
            return None
        self._check_columns(inputs, "gru_inputs", "head_inputs")
        every = tuple(range(inputs))
        columns = {"inputs": self.gru_inputs or every, "head_inputs": self.head_inputs or every}
        return Gru(units=self.gru, every=self.gru_every, **columns)

    def _check_columns(self, inputs: int, *names: str) -> None:
        for name in names:
            columns = getattr(self, name)
            if any(column >= inputs for column in columns):
                raise OrbitccError(f"network.{name}", list(columns), f"columns of the observation, 0 to {inputs - 1}")


class Td3Network(LeakyNetwork):
    """The network of Astraea's learner, with normalisation and a separate shape of the critics.

    norm: `layer`: layer norm in actor and critics; `batch`: as published, batch norm without a scale in the actor only.
    """

    norm: Literal["none", "layer", "batch"] = "none"
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
    """Common settings of all implementations of proximal policy optimisation (Schulman et al., 2017)."""

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
    """PPO on `flows` parallel flows.

    batch: agent steps per iteration.
    lr_decay: agent steps in which the learning rate falls from `lr` to `lr_final`.
    """

    flows: Annotated[int, number(1, 100_000, "flows", whole=True)] = 256
    batch: Annotated[int, _steps] = 4_096
    lr_decay: Annotated[int, _steps] = 700_000


class OwnPpo(Ppo):
    """Our own PPO, `training/ppo.py`.

    critic_hidden: hidden layers of the value network; empty: those of the policy.
    privileged_critic: the value network also gets the features of :mod:`orbitcc.training.privileged`.
    normalise_observations: normalise by running mean and standard deviation, which the exported policy includes.
    normalise_advantages: normalise to mean 0 and standard deviation 1 over an iteration.
    squash: conversion of samples to actions: `clip` to [-1, 1], or `tanh`.
    exploration_std_final: final standard deviation, reached linearly like `lr_final`; 0: the deviation is learned.
    value_loss: `squared`, `huber` (linear beyond 1), or `clipped` (squared, with a change of the value of at most
    `clip` per iteration, as in Schulman's implementation).
    value_weight: weight of the value loss.
    kl_target: no further epoch once the mean divergence from the sampling policy exceeds this; 0: no limit.
    action_penalty: weight of the policy's mean squared output in the loss.
    sequence: decisions of a flow through which the gradients of a recurrent network pass.
    critic_first: agent steps at the beginning in which only the critic learns, for a policy that was trained before.
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
    sequence: Annotated[int, number(2, 10_000, "decisions", whole=True)] = 32
    critic_first: Annotated[int, number(0, 1e12, "agent steps", whole=True)] = 0


class Teacher(Model):
    """A policy that a student imitates.

    policy: name or path of a checkpoint.
    worlds: names of the parts of the mixture in which it teaches; empty: in all that no other teacher has.
    """

    policy: str
    worlds: tuple[str, ...] = ()


class Distillation(Model):
    """Imitation of teachers before PPO, `training/distill.py`.

    agent_steps: decisions of the imitation; the rest of the recipe's `agent_steps` is PPO.
    epochs: passes over the decisions of an iteration.
    lr: initial learning rate, which falls linearly to `ppo.lr`.
    exploration_std: standard deviation of the student's exploration.
    privileged_weight: weight of the gate's prediction of the critic's privileged inputs in the loss; 0: none.
    """

    teachers: Annotated[tuple[Teacher, ...], Field(min_length=1)]
    agent_steps: Annotated[int, _steps] = 1_000_000
    epochs: Annotated[int, number(1, 100, "", whole=True)] = 4
    lr: Annotated[float, _rate] = 2e-3
    exploration_std: Annotated[float, number(0, 10, "", above=True)] = 0.1
    privileged_weight: Annotated[float, number(0, 1e3, "")] = 0.0


_RllibPpo = TypeVar("_RllibPpo", bound=PpoSettings)


class RllibPpo(OwnPpo):
    """PPO of RLlib, whose critic observes the global state of the flow's world; `flows` counts per env runner.

    It has the settings of our own PPO, but for those that RLlib's loss lacks.
    """

    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    value_clip: Annotated[float, number(0, 1e9, "", above=True)] = 1e6
    array_runner: bool = True
    """Sample sub-environments as arrays; false: with RLlib's own env runner, which makes a Python object per step."""

    @model_validator(mode="after")
    def _as_rllib_can(self) -> RllibPpo:
        for name in (
            "squash",
            "value_loss",
            "normalise_advantages",
            "kl_target",
            "action_penalty",
            "sequence",
            "critic_first",
        ):
            if (value := getattr(self, name)) != (only := OwnPpo.model_fields[name].default):
                raise OrbitccError(name, value, f"{only}, with RLlib's PPO")
        return _minibatch_within(self, "batch", self.batch)


class RllibPpoWorlds(PpoSettings):
    """PPO of RLlib on `worlds` multi-agent environments per env runner; steps are steps of worlds."""

    worlds: Annotated[int, number(1, 1024, "worlds", whole=True)] = 16
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    value_clip: Annotated[float, number(0, 1e9, "", above=True)] = 1e6
    batch_world_steps: Annotated[int, _world_steps] = 4_096
    lr_decay_world_steps: Annotated[int, _world_steps] = 700_000
    give_up_below: Annotated[float, number(-1e6, 1e6)] = -0.09
    give_up_s: Annotated[float, number(0, 1e6, "s", above=True)] = 3.0

    @model_validator(mode="after")
    def _minibatch_within_batch(self) -> RllibPpoWorlds:
        return _minibatch_within(self, "batch_world_steps", self.batch_world_steps)


def _minibatch_within(ppo: _RllibPpo, name: str, batch: int) -> _RllibPpo:
    """RLlib refuses a batch below the minibatch."""
    if batch < ppo.minibatch:
        raise OrbitccError(name, batch, f"at least minibatch = {ppo.minibatch}")
    return ppo


class SacSettings(Model):
    """Common settings of all implementations of soft actor-critic (Haarnoja et al., 2018).

    alpha: initial temperature.
    """

    also_called: ClassVar[Mapping[str, str]] = _LEARNER_NAMES

    minibatch: Annotated[int, _steps] = 256
    lr: Annotated[float, _rate] = 3e-4
    gamma: Annotated[float, _fraction] = 0.98
    tau: Annotated[float, _rate] = 0.005
    alpha: Annotated[float, number(0, 1e3, "", above=True)] = 1.0
    grad_clip: Annotated[float, number(0, 1e6, "", above=True)] = 10.0
    reward_scale: Annotated[float, number(0, 1e6, "", above=True)] = 1.0


class Sac(SacSettings):
    """SAC on `flows` parallel flows; steps are agent steps."""

    flows: Annotated[int, number(1, 100_000, "flows", whole=True)] = 64
    batch: Annotated[int, _steps] = 4_096
    update_every: Annotated[float, number(0, 1e6, "agent steps", above=True)] = 16
    buffer: Annotated[int, _steps] = 200_000
    learning_starts: Annotated[int, number(0, 1e12, "agent steps", whole=True)] = 10_000


class RllibAlgorithm(Model):
    """An algorithm of RLlib with its own settings, on one sub-environment per flow.

    algorithm: APPO, DQN, IMPALA, PPO or SAC, or `module:Class`, a configuration of RLlib. DQN needs an action that
    selects from a list of factors.
    flows: sub-environments per env runner.
    batch: an iteration lasts at least so many agent steps.
    training: arguments of RLlib's `training()`.
    sampling: arguments of RLlib's `env_runners()`, for example `rollout_fragment_length`.
    """

    algorithm: str
    flows: Annotated[int, number(1, 100_000, "flows", whole=True)] = 64
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    batch: Annotated[int, _steps] = 4_096
    reward_scale: Annotated[float, number(0, 1e6, "", above=True)] = 1.0
    training: dict[str, Any] = Field(default_factory=dict)
    sampling: dict[str, Any] = Field(default_factory=dict)


class RllibSacWorlds(SacSettings):
    """SAC of RLlib, which replays complete episodes of worlds; steps are steps of worlds."""

    worlds: Annotated[int, number(1, 1024, "worlds", whole=True)] = 4
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    batch_world_steps: Annotated[int, _world_steps] = 4_096
    update_every_world_steps: Annotated[float, number(0, 1e6, "steps of worlds", above=True)] = 16
    buffer_world_steps: Annotated[int, _world_steps] = 200_000
    learning_starts_world_steps: Annotated[int, number(0, 1e12, "steps of worlds", whole=True)] = 10_000


class Td3(Model):
    """Astraea's learner (`training/astraea_td3.py`). Brackets give the value of the authors' code or paper."""

    also_called: ClassVar[Mapping[str, str]] = {**_LEARNER_NAMES, "learning_rate": "actor_lr", "buffer_size": "replay"}

    worlds: Annotated[int, number(1, 10_000, "worlds", whole=True)] = Field(
        default=160, description="number of parallel worlds [2 actors]"
    )
    threads: Annotated[int, number(0, 1024, "threads", whole=True)] = Field(
        default=1, description="number of threads that simulate worlds; 0: one per core"
    )
    iteration: Annotated[int, _steps] = Field(
        default=20_000, description="decisions between two points of the training curve"
    )
    replay: Annotated[int, _steps] = Field(
        default=400_000, description="size of the replay buffer in transitions [400,000]"
    )
    presence: Annotated[float, number(0, 1, "", above=True)] = Field(
        default=0.5,
        description="expected mean share of sub-environments with a flow, which sets the size of the replay buffer",
    )
    learning_starts: Annotated[int, _steps] = Field(default=20_000, description="decisions before the first update")
    scale_share: Annotated[float, _fraction] = Field(
        default=0.0,
        description="share of the run in which the scales of the inputs are measured, if learning starts earlier",
    )
    scale_inputs: bool = Field(
        default=True, description="subtract the measured mean of each input and divide by its standard deviation [no]"
    )
    own_inputs: bool = Field(
        default=True, description="the critics also observe the flow's own throughput and its share [no]"
    )
    batch: Annotated[int, _steps] = Field(default=1024, description="transitions per update [192]")
    by_world: bool = Field(
        default=False, description="sample all worlds equally often, whatever their number of flows [no]"
    )
    update_every: Annotated[int, _steps] = Field(
        default=128, description="decisions per critic update [about 20 to 60]"
    )
    actor_every: Annotated[int, _steps] = Field(default=2, description="critic updates per actor update [20]")
    actor_lr: Annotated[float, _rate] = Field(default=5e-4, description="learning rate of the actor [5e-5]")
    critic_lr: Annotated[float, _rate] = Field(default=1e-3, description="learning rate of the critics [1e-3]")
    lr_final_share: Annotated[float, _rate] = Field(
        default=0.2, description="final share of the learning rates, reached linearly [1]"
    )
    tau: Annotated[float, _rate] = Field(default=0.01, description="update rate of the target networks [0.005]")
    averaging: Annotated[float, _rate] = Field(
        default=0.01, description="update rate of the averaged actor that is exported [1]"
    )
    gamma: Annotated[float, _fraction] = Field(default=0.98, description="discount factor [0.98]")
    steps: Annotated[int, number(1, 100, "steps", whole=True)] = Field(default=5, description="steps of a return [1]")
    target_noise: Annotated[float, _fraction] = Field(default=0.05, description="noise on target actions [0.05]")
    target_noise_clip: Annotated[float, _fraction] = Field(default=0.1, description="limit of that noise [0.1]")
    noise_std: Annotated[float, _fraction] = Field(
        default=0.3, description="initial exploration noise [random actions]"
    )
    noise_std_final: Annotated[float, _fraction] = Field(default=0.1, description="final exploration noise")
    noise_decay: Annotated[float, number(0, 1, "", above=True)] = Field(
        default=0.5, description="share of the run in which the noise falls"
    )
    random_share: Annotated[float, _fraction] = Field(
        default=0.0, description="initial share of uniformly random actions [1]"
    )
    random_share_final: Annotated[float, _fraction] = Field(
        default=0.0, description="final share of random actions [0.05]"
    )
    noise_correlation: Annotated[float, number(0, 0.999)] = Field(
        default=0.9, description="correlation of the noise from one decision to the next [0]"
    )
    brake_bdp: Annotated[float, number(0, 1e3, "BDP")] = Field(
        default=2.0,
        description="above this window, exploring actions are at most `brake_action`; 0: off [window cap 1.5]",
    )
    brake_action: Annotated[float, number(-1, 0)] = Field(default=-0.2, description="see `brake_bdp`")
    action_penalty: Annotated[float, number(0, 1e3)] = Field(
        default=1e-3, description="weight of the squared pre-tanh action in the loss [0]"
    )
    grad_clip: Annotated[float, number(0, 1e6, "", above=True)] = Field(
        default=10.0, description="limit of the gradient norm [none]"
    )
    reward_scale: Annotated[float, number(0, 1e6, "", above=True)] = Field(
        default=10.0, description="factor on rewards [1]"
    )
    fairness: tuple[Annotated[float, number(0, 1e3)], ...] = Field(
        default=(),
        description="curriculum: fairness weights of the reward in equal parts of the run; (): as the preset [0.02]",
    )


class Evaluation(Model):
    """Evaluations on held-out worlds, which are the same every time.

    every: agent steps between evaluations.
    score: weights of the score that selects `best/`.
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


class Recipe(Model):
    """The fields of all recipes. A subclass per algorithm (:data:`BY_ALGORITHM`) adds the settings of its learner."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str = ""
    algorithm: str
    scenario: str | dict[str, Any] = Field(
        description="a name or a file, or a table with its `name` and settings: {name = 'train-leo', duration_s = 30}; "
        "with a `kind`, the table is a whole distribution (orbitcc.envs.scenarios.from_table)"
    )
    preset: str | dict[str, Any] = "astraea"
    agent_steps: Annotated[int, _steps]
    backend: Backend = Field(
        default="simulator",
        description="what runs the training worlds; the emulator plays one world at a time, in real time. Held-out "
        "worlds are always simulated",
    )
    network: Network = Network()
    evaluation: Evaluation = Evaluation()

    @classmethod
    def build(cls, data: Any) -> Self:
        """A recipe of the class for its `algorithm`.

        Raises:
            OrbitccError: an unknown algorithm, a value that is not allowed, or a setting of another algorithm.
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
        """The scenario or distribution of the training worlds.

        Raises:
            OrbitccError: unknown scenario or setting.
        """
        if isinstance(self.scenario, Mapping) and "kind" in self.scenario:
            return scenarios.from_table(self.scenario)
        settings = {} if isinstance(self.scenario, str) else {k: v for k, v in self.scenario.items() if k != "name"}
        return scenarios.load(self.scenario_name, settings)


class PpoRecipe(Recipe):
    """Our own PPO, with a `[distill]` table after imitation of teachers.

    start_from: name or path of a checkpoint whose policy training begins with; empty: with random weights.
    """

    algorithm: Literal["ppo"]
    start_from: str = ""
    network: PpoNetwork = PpoNetwork()
    ppo: OwnPpo = OwnPpo()
    distill: Distillation | None = None

    @model_validator(mode="after")
    def _recurrence_fits(self) -> PpoRecipe:
        if self.network.gru and self.distill is not None:
            raise OrbitccError("network.gru", self.network.gru, "0 with [distill], whose student is not recurrent")
        if self.network.gru and self.ppo.minibatch < self.ppo.sequence:
            raise OrbitccError("ppo.minibatch", self.ppo.minibatch, f"at least ppo.sequence = {self.ppo.sequence}")
        if self.start_from and (self.network.gru or self.distill is not None):
            raise OrbitccError("start_from", self.start_from, "nothing with a recurrent network or with [distill]")
        return self


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
    network: PpoNetwork = PpoNetwork()
    ppo: RllibPpo = RllibPpo()

    @model_validator(mode="after")
    def _is_not_recurrent(self) -> RllibPpoRecipe:
        if self.network.gru:
            raise OrbitccError("network.gru", self.network.gru, "0 with RLlib, whose own modules may be recurrent")
        return self


class RllibPpoWorldsRecipe(Recipe):
    algorithm: Literal["rllib-ppo-worlds"]
    ppo: RllibPpoWorlds = RllibPpoWorlds()


class RllibAlgorithmRecipe(Recipe):
    algorithm: Literal["rllib"]
    rllib: RllibAlgorithm


class RllibSacWorldsRecipe(Recipe):
    algorithm: Literal["rllib-sac-worlds"]
    sac: RllibSacWorlds = RllibSacWorlds()


RllibRecipe = RllibPpoRecipe | RllibPpoWorldsRecipe | RllibAlgorithmRecipe | RllibSacWorldsRecipe

BY_ALGORITHM: dict[str, type[Recipe]] = {
    "ppo": PpoRecipe,
    "astraea-td3": Td3Recipe,
    "sb3-ppo": Sb3PpoRecipe,
    "sb3-sac": Sb3SacRecipe,
    "rllib-ppo": RllibPpoRecipe,
    "rllib-ppo-worlds": RllibPpoWorldsRecipe,
    "rllib": RllibAlgorithmRecipe,
    "rllib-sac-worlds": RllibSacWorldsRecipe,
}
"""Algorithm -> class of its recipes."""

_OF_FLOWS = ("ppo", "sb3-ppo", "sb3-sac", "rllib-ppo", "rllib")
"""Algorithms that sample a FlowVectorEnv, which may have its world on the emulator."""

_DISCRETE = ("rllib", "sb3-ppo")
"""Algorithms that learn actions that select from a list."""

LEARNERS = {"rllib": "rllib-ppo"}
"""Learners that train recipes of our own PPO -> their algorithm."""


def names() -> list[str]:
    """The names of the recipes in the package."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def load(name_or_file: str, changes: Sequence[str] = ()) -> Recipe:
    """A recipe by name or from a TOML file, with changes as `key=value` (dotted keys).

    Raises:
        OrbitccError: an unknown recipe or key, a value that is not allowed, or a file that is not a recipe.
    """
    if name_or_file in names():
        data = read_toml(RECIPES / f"{name_or_file}.toml")
    elif name_or_file.endswith(".toml"):
        data = read_toml(name_or_file)
    else:
        raise UnknownNameError("recipe", name_or_file, names(), "orbitcc list recipes")
    return changed(data, changes)


def changed(data: dict[str, Any], changes: Sequence[str]) -> Recipe:
    """A recipe from its values, with changes as `key=value` (dotted keys).

    Raises:
        OrbitccError: an unknown key, or a value that is not allowed.
    """
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise OrbitccError("set", change, "KEY=VALUE, e.g. ppo.lr=1e-4")
        _put(data, key.strip(), parse_value(text))
    return Recipe.build(data)


def by_learner(recipe: Recipe, learner: str) -> list[str]:
    """The changes (:func:`load`) that make another learner train a recipe; its name gets the learner's as its end.

    Raises:
        OrbitccError: a learner that cannot train this recipe.
    """
    found = LEARNERS.get(learner)
    if found is None or not isinstance(recipe, PpoRecipe) or recipe.distill is not None:
        allowed = f"{', '.join(LEARNERS)}, for recipes of our own PPO without [distill] ({recipe.algorithm} here)"
        raise OrbitccError("learner", learner, allowed)
    return [f"algorithm={found}", f"name={recipe.name}-{learner}"]


def check_names(recipe: Recipe) -> None:
    """Check the names in a recipe before anything is written.

    Raises:
        OrbitccError: its scenario or preset is unknown, or its learner does not learn such actions or on this backend.
    """
    recipe.world()
    if recipe.backend != "simulator" and recipe.algorithm not in _OF_FLOWS:
        raise OrbitccError(
            "backend", recipe.backend, f"simulator, with {recipe.algorithm} (not {', '.join(_OF_FLOWS)})"
        )
    used = presets.preset(recipe.preset)
    if used.choices is not None and recipe.algorithm not in _DISCRETE:
        raise OrbitccError("preset.action", str(used.action), f"steps, with {recipe.algorithm}")


def _put(data: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    node = data
    for part in path:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise OrbitccError("set", key, f"a field ({part} is a single value)")
    node[last] = value


__all__ = ["BY_ALGORITHM", "RECIPES", "Evaluation", "Network", "Recipe", "changed", "check_names", "load", "names"]
