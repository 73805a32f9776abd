"""Two policies as one network, which selects between them by the minimum RTT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.agents import checkpoint
from orbitcc.agents.checkpoint import Checkpoint
from orbitcc.agents.model_card import CardObservation, Gate, Layer, ModelCard, TrainingRange
from orbitcc.agents.policy import Tensors
from orbitcc.common.errors import OrbitccError
from orbitcc.common.numbers import checked_number
from orbitcc.envs.environments.presets import definition_hash

SLOPE = 60.0
"""Of the unit that compares: it changes its sign within 3 % of the minimum RTT."""
WEIGHT = 120.0
"""Of this unit in the gate, for the experts of the long paths: exp(-120) is 0 in single precision, and weights in fixed
point are below 128."""
COMPARED = {"name": "min-rtt", "window_s": 30.0}
"""The feature that selects, ln(minimum RTT / 50 ms). A queue that stands for less than 30 s does not change it."""


def joined(short: str | Path, long: str | Path, out: Path, above_ms: float) -> Path:
    """Write a checkpoint to the folder `out` that acts as `long` above this minimum RTT, and as `short` below.

    Its experts are those of both policies. Its gate has the units of both gates and one unit more: this unit compares
    the minimum RTT of the last 30 s, a further feature, with `above_ms`. It gives the experts of `long` no weight below
    it and all weight above it. Name, description, training and scores are those of `short`. The decision interval is
    that of `long`: for short RTTs it must be that of `short`.

    Raises:
        OrbitccError: no such checkpoint; a policy that is no mixture of linear experts; two policies whose
            observations, actions, gates or intervals differ; or a folder that exists or cannot be written.
    """
    try:
        checked_number(above_ms, 1.0, 10_000.0, "ms")
    except OrbitccError as error:
        raise error.at("above_ms") from None
    a, b = checkpoint.load(short), checkpoint.load(long)
    if out.exists():
        raise OrbitccError("out", str(out), "a folder that does not exist yet")
    _check_parts(a.card, b.card)
    column = a.card.observation.dim
    gate, other = a.card.gate, b.card.gate
    assert gate is not None
    assert other is not None
    first, second = dict(a.tensors), _renormalised(b, a)
    tensors = {
        "normaliser.mean": np.append(first["normaliser.mean"], np.float32(math.log(above_ms / 50.0))),
        "normaliser.std": np.append(first["normaliser.std"], np.float32(1.0)),
    }
    for part in ("weight", "bias"):
        tensors[f"layers.0.{part}"] = np.concatenate([first[f"layers.0.{part}"], second[f"layers.0.{part}"]])
    inputs = tuple(dict.fromkeys((*gate.inputs, *other.inputs, column)))
    columns = [[inputs.index(column) for column in used] for used in (gate.inputs, other.inputs, (column,))]
    tensors |= _joined_gate(first, second, columns)
    units = [len(tensors[f"gate.{k}.bias"]) for k in range(2)]
    layers = tuple(layer.model_copy(update={"units": n}) for layer, n in zip(gate.layers, units, strict=True))
    update: dict[str, Any] = {
        "observation": _comparing(a.card.observation),
        "layers": (Layer(units=len(tensors["layers.0.bias"]), activation="linear"),),
        "gate": Gate(layers=layers, inputs=inputs, expert_inputs=gate.expert_inputs),
        **dict(zip(("interval_ms", "interval_rtts", "interval_least_ms"), b.card.interval, strict=True)),
        "training_range": _union(a.card.training_range, b.card.training_range, above_ms),
        "scores": {**a.card.scores, "joined": _origin(b.card, above_ms)},
    }
    return checkpoint.save(out, a.card.model_copy(update=update), tensors)


def _check_parts(a: ModelCard, b: ModelCard) -> None:
    """Refuse two policies that cannot be joined."""
    for name, card in (("short", a), ("long", b)):
        if card.gate is None or len(card.layers) != 1 or len(card.gate.layers) != 2 or not card.normaliser:
            raise OrbitccError(name, card.name, "a mixture of linear experts with one hidden layer in its gate")
    parts = {
        "observation": (a.observation, b.observation),
        "action": (a.action, b.action),
        "inputs of the experts": (a.gate and a.gate.expert_inputs, b.gate and b.gate.expert_inputs),
        "squash": (a.squash, b.squash),
        "clip": (a.clip, b.clip),
        "interval for short RTTs": (a.interval_ms if a.interval_rtts == 0 else -1.0, b.interval_least_ms),
    }
    for name, (one, other) in parts.items():
        if one != other:
            raise OrbitccError("long", b.name, f"a policy with the {name} of {a.name}")
    if a.observation.preset != "features" or a.observation.parameters.get("history", 1) != 1:
        raise OrbitccError("short", a.name, "a policy whose observation is a list of features without a history")


def _comparing(observation: CardObservation) -> CardObservation:
    """The observation with the feature that selects as its last one."""
    parameters = {**observation.parameters, "features": [*observation.parameters["features"], COMPARED]}
    named = definition_hash("observation", {"name": observation.preset, **parameters})
    return observation.model_copy(update={"parameters": parameters, "dim": observation.dim + 1, "hash": named})


def _renormalised(of: Checkpoint, to: Checkpoint) -> dict[str, NDArray[np.float32]]:
    """The tensors of a policy, its first layers for inputs in the mean and the standard deviation of another one."""
    tensors, other, gate = dict(of.tensors), dict(to.tensors), of.card.gate
    assert gate is not None
    std = tensors["normaliser.std"].astype(float)
    scale = other["normaliser.std"] / std
    shift = (other["normaliser.mean"].astype(float) - tensors["normaliser.mean"]) / std
    made = dict(tensors)
    for name, columns in (("layers", list(gate.expert_inputs)), ("gate", list(gate.inputs))):
        weight = tensors[f"{name}.0.weight"].astype(float)
        made[f"{name}.0.weight"] = (weight * scale[columns]).astype(np.float32)
        made[f"{name}.0.bias"] = (tensors[f"{name}.0.bias"] + weight @ shift[columns]).astype(np.float32)
    return made


def _joined_gate(first: Tensors, second: Tensors, columns: Sequence[Sequence[int]]) -> dict[str, NDArray[np.float32]]:
    """Hidden units: those of both gates, then the one that compares. Outputs: the experts of both.

    columns: inputs of the first gate, the second gate and the unit that compares.
    """
    units = [len(tensors["gate.0.bias"]) for tensors in (first, second)]
    experts = [len(tensors["gate.1.bias"]) for tensors in (first, second)]
    hidden = np.zeros((sum(units) + 1, 1 + max(map(max, columns))), np.float32)
    weights = np.zeros((sum(experts), sum(units) + 1), np.float32)
    row = unit = 0
    for tensors, used, some, many in zip((first, second), columns[:2], units, experts, strict=True):
        hidden[unit : unit + some, used] = tensors["gate.0.weight"]
        weights[row : row + many, unit : unit + some] = tensors["gate.1.weight"]
        row, unit = row + many, unit + some
    hidden[-1, columns[2]] = SLOPE
    weights[experts[0] :, -1] = WEIGHT
    bias = [np.concatenate([first[f"gate.{k}.bias"], second[f"gate.{k}.bias"]]) for k in range(2)]
    return {
        "gate.0.weight": hidden,
        "gate.0.bias": np.append(bias[0], np.float32(0.0)),
        "gate.1.weight": weights,
        "gate.1.bias": bias[1],
    }


def _union(a: TrainingRange, b: TrainingRange, above_ms: float) -> TrainingRange:
    """The smallest range that contains both."""
    both: dict[str, Any] = {}
    for name in ("rate_mbps", "base_rtt_ms", "buffer_bdp", "loss", "flows"):
        one, other = getattr(a, name), getattr(b, name)
        both[name] = (min(one[0], other[0]), max(one[1], other[1])) if one and other else None
    remarks = f"{a.remarks}; above {above_ms:g} ms: {b.remarks}"
    return TrainingRange(scenario=f"{a.scenario} and {b.scenario}", remarks=remarks, **both)


def _origin(card: ModelCard, above_ms: float) -> dict[str, Any]:
    """What the card of a joined policy says about the policy for long paths."""
    training = card.training.model_dump() if card.training is not None else None
    return {"above_ms": above_ms, "training": training, "weights_sha256": card.weights_sha256, "scores": card.scores}
