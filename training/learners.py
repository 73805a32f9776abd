"""The learners of recipes: each one's options, and what it can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, model_validator

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.model import Model, number

_fraction = number(0, 1, "")
_rate = number(0, 1, "", above=True)
_steps = number(1, 1e12, "agent steps", whole=True)
_world_steps = number(1, 1e12, "steps of worlds", whole=True)

_LEARNER_NAMES = {
    "learning_rate": "lr", "discount": "gamma", "lambda": "gae_lambda", "lambda_": "gae_lambda", "n_epochs": "epochs",
    "num_epochs": "epochs", "num_sgd_iter": "epochs", "batch_size": "minibatch", "minibatch_size": "minibatch",
    "sgd_minibatch_size": "minibatch", "train_batch_size": "batch", "n_steps": "batch", "clip_range": "clip",
    "clip_param": "clip", "ent_coef": "entropy", "entropy_coeff": "entropy", "max_grad_norm": "grad_clip",
    "buffer_size": "buffer", "num_env_runners": "env_runners", "num_workers": "env_runners", "n_envs": "flows",
    "num_envs": "flows", "slots": "flows",
}  # fmt: skip
"""Names in Stable-Baselines3 and RLlib -> ours, for errors."""


class AnyPpoOptions(Model):
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


class FlowPpoOptions(AnyPpoOptions):
    """PPO on `flows` parallel flows.

    batch: agent steps per iteration.
    lr_decay: agent steps in which the learning rate falls from `lr` to `lr_final`; `--set agent_steps` scales it.
    """

    flows: Annotated[int, number(1, 100_000, "flows", whole=True)] = 256
    batch: Annotated[int, _steps] = 4_096
    lr_decay: Annotated[int, _steps] = 700_000


class CriticPpoOptions(FlowPpoOptions):
    """PPO with a value network of its own shape, which our own and RLlib's learner have.

    critic_hidden: hidden layers of the value network; empty: those of the policy.
    privileged_critic: the value network also gets the features of :mod:`orbitcc.training.privileged`.
    normalise_observations: normalise by running mean and standard deviation, which the exported policy includes.
    exploration_std_final: final standard deviation, reached linearly like `lr_final`; 0: the deviation is learned.
    value_weight: weight of the value loss.
    """

    critic_hidden: tuple[Annotated[int, number(1, 4096, "units", whole=True)], ...] = ()
    privileged_critic: bool = False
    normalise_observations: bool = False
    exploration_std_final: Annotated[float, number(0, 10, "")] = 0.0
    value_weight: Annotated[float, number(0, 1e6, "", above=True)] = 0.5


class PpoOptions(CriticPpoOptions):
    """Our own PPO, `training/ppo.py`.

    normalise_advantages: normalise to mean 0 and standard deviation 1 over an iteration.
    squash: conversion of samples to actions: `clip` to [-1, 1], or `tanh`.
    value_loss: `squared`, `huber` (linear beyond 1), or `clipped` (squared, with a change of the value of at most
    `clip` per iteration, as in Schulman's implementation).
    kl_target: no further epoch once the mean divergence from the sampling policy exceeds this; 0: no limit.
    action_penalty: weight of the policy's mean squared output in the loss.
    critic_first: agent steps at the beginning in which only the critic learns, for a policy that was trained before.
    """

    normalise_advantages: bool = True
    squash: Literal["clip", "tanh"] = "clip"
    value_loss: Literal["squared", "huber", "clipped"] = "squared"
    kl_target: Annotated[float, number(0, 1e3, "")] = 0.0
    action_penalty: Annotated[float, number(0, 1e3, "")] = 0.0
    critic_first: Annotated[int, number(0, 1e12, "agent steps", whole=True)] = 0


_RllibPpo = TypeVar("_RllibPpo", bound=AnyPpoOptions)


class RllibPpoOptions(CriticPpoOptions):
    """PPO of RLlib, whose critic observes the global state of the flow's world; `flows` counts per env runner."""

    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    value_clip: Annotated[float, number(0, 1e9, "", above=True)] = 1e6

    @model_validator(mode="after")
    def _minibatch_within_batch(self) -> RllibPpoOptions:
        return _minibatch_within(self, "batch", self.batch)


class RllibPpoWorldsOptions(AnyPpoOptions):
    """PPO of RLlib on `worlds` multi-agent environments per env runner; steps are steps of worlds."""

    worlds: Annotated[int, number(1, 1024, "worlds", whole=True)] = 16
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    value_clip: Annotated[float, number(0, 1e9, "", above=True)] = 1e6
    batch_world_steps: Annotated[int, _world_steps] = 4_096
    lr_decay_world_steps: Annotated[int, _world_steps] = 700_000
    give_up_below: Annotated[float, number(-1e6, 1e6)] = -0.09
    give_up_s: Annotated[float, number(0, 1e6, "s", above=True)] = 3.0

    @model_validator(mode="after")
    def _minibatch_within_batch(self) -> RllibPpoWorldsOptions:
        return _minibatch_within(self, "batch_world_steps", self.batch_world_steps)


def _minibatch_within(ppo: _RllibPpo, name: str, batch: int) -> _RllibPpo:
    """RLlib refuses a batch below the minibatch."""
    if batch < ppo.minibatch:
        raise OrbitccError(name, batch, f"at least minibatch = {ppo.minibatch}")
    return ppo


class AnySacOptions(Model):
    """Common settings of all implementations of soft actor-critic (Haarnoja et al., 2018).

    alpha: initial temperature.
    """

    also_called: ClassVar[Mapping[str, str]] = _LEARNER_NAMES

    minibatch: Annotated[int, _steps] = 256
    lr: Annotated[float, _rate] = 3e-4
    gamma: Annotated[float, _fraction] = 0.98
    tau: Annotated[float, _rate] = 0.005
    alpha: Annotated[float, number(0, 1e3, "", above=True)] = 1.0
    reward_scale: Annotated[float, number(0, 1e6, "", above=True)] = 1.0


class FlowSacOptions(AnySacOptions):
    """SAC on `flows` parallel flows; steps are agent steps."""

    flows: Annotated[int, number(1, 100_000, "flows", whole=True)] = 64
    batch: Annotated[int, _steps] = 4_096
    update_every: Annotated[float, number(0, 1e6, "agent steps", above=True)] = 16
    buffer: Annotated[int, _steps] = 200_000
    learning_starts: Annotated[int, number(0, 1e12, "agent steps", whole=True)] = 10_000


class RllibOptions(Model):
    """An algorithm of RLlib with its own settings, on one sub-environment per flow.

    algorithm: APPO, DQN, IMPALA, PPO or SAC, or `ray.rllib.algorithms.MODULE:CLASS`. DQN needs an action that
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


class RllibSacWorldsOptions(AnySacOptions):
    """SAC of RLlib, which replays complete episodes of worlds; steps are steps of worlds."""

    grad_clip: Annotated[float, number(0, 1e6, "", above=True)] = 10.0
    worlds: Annotated[int, number(1, 1024, "worlds", whole=True)] = 4
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0
    batch_world_steps: Annotated[int, _world_steps] = 4_096
    update_every_world_steps: Annotated[float, number(0, 1e6, "steps of worlds", above=True)] = 16
    buffer_world_steps: Annotated[int, _world_steps] = 200_000
    learning_starts_world_steps: Annotated[int, number(0, 1e12, "steps of worlds", whole=True)] = 10_000


class Td3Options(Model):
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
    learning_starts: Annotated[int, _steps] = Field(
        default=20_000, description="decisions before the first update; at most a fifth of the run"
    )
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
        default=0.01,
        description="update rate of the averaged actor that is exported; `--set agent_steps` scales it inversely [1]",
    )
    gamma: Annotated[float, _fraction] = Field(default=0.98, description="discount factor [0.98]")
    steps: Annotated[int, number(1, 100, "steps", whole=True)] = Field(default=5, description="steps of a return [1]")
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
        description="above this window, exploring actions are at most -0.2; 0: off [window cap 1.5]",
    )
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

    @model_validator(mode="after")
    def _replays_a_batch(self) -> Td3Options:
        if self.replay < self.batch:
            raise OrbitccError("replay", self.replay, f"at least batch = {self.batch}")
        return self


class RllibTd3Options(Td3Options):
    """Astraea's learner in RLlib (`training/rllib/td3.py`), with the same settings.

    worlds: per env runner.
    iteration: decisions that are sampled before the networks are updated.
    """

    iteration: Annotated[int, _steps] = 5_000
    env_runners: Annotated[int, number(0, 1024, "processes", whole=True)] = 0

    @model_validator(mode="after")
    def _has_one_core_per_env_runner(self) -> RllibTd3Options:
        if self.threads != 1:
            raise OrbitccError("threads", self.threads, "1: more cores are for env_runners")
        return self


@dataclass(frozen=True)
class Algorithm:
    """What a recipe's `algorithm` stands for.

    options: the model of the recipe's table `[learner]`.
    learner: module and class of the learner; only that one is imported.
    library: the package beside PyTorch that it needs. What the learner saves then contains pickled objects, which can
        run code when they are loaded.
    network: fields of the table `[network]` beside `hidden` and `activation` that it heeds.
    activations: of hidden layers.
    by_flow: it samples one sub-environment per flow, whose world may be on the emulator; others sample whole worlds.
    discrete: it learns actions that select from a list, too.
    one_clock: it takes each step of a flow for a decision, and refuses presets whose flows decide on their own clocks.
    schedules: options that `--set agent_steps` multiplies (1) or divides (-1) by the ratio of the lengths.
    """

    options: type[Model]
    learner: str
    library: str = ""
    network: tuple[str, ...] = ()
    activations: tuple[str, ...] = ("tanh", "relu")
    by_flow: bool = True
    discrete: bool = False
    one_clock: bool = False
    schedules: Mapping[str, int] = field(default_factory=dict)


_DECAY, _AVERAGE = {"lr_decay": 1}, {"averaging": -1}
_LEAKY = ("tanh", "relu", "leaky_relu")
_EXPERTS = ("experts", "gate_hidden", "gate_inputs", "expert_inputs")
_RLLIB = "orbitcc.training.rllib:RLlibLearner"
_SB3 = "orbitcc.training.sb3:SB3Learner"

ALGORITHMS = {
    "ppo": Algorithm(
        PpoOptions, "orbitcc.training.ppo:PpoLearner", network=_EXPERTS, activations=_LEAKY, schedules=_DECAY
    ),
    "astraea-td3": Algorithm(
        Td3Options,
        "orbitcc.training.astraea_td3:AstraeaTd3Learner",
        network=("norm", "critic_hidden"),
        activations=_LEAKY,
        by_flow=False,
        schedules=_AVERAGE,
    ),
    "sb3-ppo": Algorithm(FlowPpoOptions, _SB3, "stable_baselines3", discrete=True, one_clock=True, schedules=_DECAY),
    "sb3-sac": Algorithm(FlowSacOptions, _SB3, "stable_baselines3", one_clock=True),
    "rllib": Algorithm(RllibOptions, _RLLIB, "ray.rllib", discrete=True, one_clock=True),
    "rllib-ppo": Algorithm(
        RllibPpoOptions, _RLLIB, "ray.rllib", network=_EXPERTS, activations=_LEAKY, schedules=_DECAY
    ),
    "rllib-td3": Algorithm(
        RllibTd3Options, _RLLIB, "ray.rllib", network=("norm", "critic_hidden"), activations=_LEAKY, schedules=_AVERAGE
    ),
    "rllib-ppo-worlds": Algorithm(
        RllibPpoWorldsOptions, _RLLIB, "ray.rllib", by_flow=False, schedules={"lr_decay_world_steps": 1}
    ),
    "rllib-sac-worlds": Algorithm(RllibSacWorldsOptions, _RLLIB, "ray.rllib", by_flow=False),
}
"""Algorithms of recipes by name."""
