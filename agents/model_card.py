"""The model card of a checkpoint: inputs, actions, training range, training and scores of a policy."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orbitcc.envs.environments.safety import SafetyFilter

Range = tuple[float, float]
LEAKY_SLOPE = 0.2
"""Of the activation `leaky_relu` below zero, as in Astraea's networks; the simulator's networks have the same."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Layer(_Model):
    """One dense layer: its units, activation and norm."""

    units: Annotated[int, Field(ge=1)]
    activation: Literal["tanh", "relu", "leaky_relu", "linear"]
    norm: Literal["none", "layer"] = "none"
    norm_eps: float = 1e-5


class Gate(_Model):
    """Weighs the outputs of a network's last layer, its experts, by the softmax of a second network's outputs.

    inputs, expert_inputs: columns of the observation that the gate and the experts observe.
    """

    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    inputs: Annotated[tuple[int, ...], Field(min_length=1)]
    expert_inputs: Annotated[tuple[int, ...], Field(min_length=1)]


class CardObservation(_Model):
    """The native observation of a policy: its name, the parameters that differ from the named ones, and the hash of its
    definition at the time of training."""

    preset: str
    parameters: dict[str, Any] = {}
    dim: Annotated[int, Field(ge=1)]
    hash: str


class CardAction(_Model):
    """The native action of a policy, described in the same way."""

    preset: str
    parameters: dict[str, Any] = {}
    dim: Annotated[int, Field(ge=1)]
    hash: str = ""


class TrainingRange(_Model):
    """The network conditions in which a policy was trained, as [low, high]; None: not stated.

    links: digests of what the policy should not be evaluated on, with spaces between them: of the links of worlds that
    are not drawn (`Scenario.links_digest`), and of a part of a trace set (:attr:`TracePool.part`).
    """

    scenario: str
    links: str = ""
    rate_mbps: Range | None = None
    base_rtt_ms: Range | None = None
    buffer_bdp: Range | None = None
    loss: Range | None = None
    flows: Range | None = None
    remarks: str = ""


class Training(_Model):
    """The training of a policy; `command` repeats it."""

    recipe: str
    command: str
    seed: int
    revision: str
    agent_steps: int
    simulated_hours: float | None = None
    """Of one flow. None where the interval depends on the RTT."""
    wall_minutes: float
    versions: dict[str, str]


class Imported(_Model):
    """Where a policy that others trained comes from (`orbitcc import`)."""

    source: str
    licence: str
    files: dict[str, str]
    """Name of a file -> first 12 hex digits of its SHA-256."""


class ModelCard(_Model):
    """`card.json`, schema version 1. A policy was either trained here or imported."""

    schema_version: Literal[1] = 1
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    description: str
    observation: CardObservation
    action: CardAction
    interval_ms: Annotated[float, Field(ge=0.1, le=10_000)]
    interval_rtts: Annotated[float, Field(ge=0, le=100)] = 0.0
    interval_least_ms: Annotated[float, Field(ge=0.1, le=10_000)] = 1.0
    clock: Literal["world", "flow"] = "world"
    """Of the training; played, a policy decides by its own flow's RTT in any case. A card leaves out `world`."""
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    gate: Gate | None = None
    normaliser: bool = False
    clip: Annotated[float, Field(ge=1e-6, le=1e6)] = 10.0
    squash: Literal["tanh", "clip", "argmax"] = "clip"
    training_range: TrainingRange
    safety_filter: SafetyFilter | None = None
    training: Training | None = None
    imported: Imported | None = None
    scores: dict[str, Any] = {}
    weights_sha256: str = ""
    """Of `policy.safetensors`; filled in when a checkpoint is saved."""
    digest: str = ""
    """SHA-256 of `card.json` with 64 zeros in the place of this value, which is the last one in the file."""

    @property
    def interval(self) -> tuple[float, float, float]:
        """`interval_ms`, `interval_rtts` and `interval_least_ms`, to compare with those of a preset."""
        return self.interval_ms, self.interval_rtts, self.interval_least_ms

    @model_validator(mode="after")
    def _has_an_origin(self) -> "ModelCard":
        if (self.training is None) == (self.imported is None):
            raise ValueError("needs either training or imported")
        return self
