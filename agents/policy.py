"""Builds a native network from tensors and a model card."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.agents.model_card import Gate, Layer, ModelCard
from orbitcc.envs.environments.presets import Native

Tensors = Mapping[str, NDArray[np.float32]]


def expected_tensors(card: ModelCard) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that a model card requires.

    `layers.I.weight` [out, in], `layers.I.bias` [out], with a layer norm `layers.I.norm.scale` and `.shift` [out]; the
    same for `gate.I` with a gate. With a normaliser `normaliser.mean` and `normaliser.std` [D].
    """
    shapes: dict[str, tuple[int, ...]] = {}
    networks = [("layers", card.layers, card.observation.dim)]
    if card.gate is not None:
        networks = [
            ("layers", card.layers, len(card.gate.expert_inputs)),
            ("gate", card.gate.layers, len(card.gate.inputs)),
        ]
    for name, layers, width in networks:
        for index, layer in enumerate(layers):
            shapes[f"{name}.{index}.weight"] = (layer.units, width)
            shapes[f"{name}.{index}.bias"] = (layer.units,)
            if layer.norm == "layer":
                shapes[f"{name}.{index}.norm.scale"] = (layer.units,)
                shapes[f"{name}.{index}.norm.shift"] = (layer.units,)
            width = layer.units
    if card.normaliser:
        shapes["normaliser.mean"] = shapes["normaliser.std"] = (card.observation.dim,)
    return shapes


def mismatch(card: ModelCard, tensors: Tensors) -> str | None:
    """The reason why these tensors do not fit this model card, or None."""
    if card.action.parameters.get("cap_of") == "true":
        return "its action has cap_of = true, a bound of the true BDP, which only a training can know"
    expected = expected_tensors(card)
    if card.gate is not None:
        if card.gate.layers[-1].units != card.layers[-1].units or card.action.dim != 1:
            return f"its gate weighs {card.gate.layers[-1].units} experts of {card.layers[-1].units}, for one action"
        columns = (*card.gate.inputs, *card.gate.expert_inputs)
        if not all(0 <= column < card.observation.dim for column in columns):
            return f"its gate takes column {max(columns)} of {card.observation.dim}"
    else:
        action, units = Native(card.action.preset, card.action.parameters).definition("action"), card.layers[-1].units
        if card.squash == "argmax" and action["choices"] is None:
            return f"its best output is its action, but the action {card.action.preset} does not select from a list"
        if units != (action["choices"] if card.squash == "argmax" else card.action.dim):
            return f"its last layer has {units} units for an action of {action['choices'] or card.action.dim}"
    for name, shape in expected.items():
        if name not in tensors:
            return f"the tensor {name} is missing"
        if tensors[name].shape != shape:
            return f"the tensor {name} has shape {list(tensors[name].shape)}, the card says {list(shape)}"
        if tensors[name].dtype != np.float32:
            return f"the tensor {name} is {tensors[name].dtype}, not float32"
        if not np.isfinite(tensors[name]).all():
            return f"the tensor {name} holds NaN or infinity"
    surplus = sorted(set(tensors) - set(expected))
    return f"the tensor {surplus[0]} is not in the card" if surplus else None


def build(card: ModelCard, tensors: Tensors) -> _sim.Policy:
    """The native network; `tensors` must fit the card (see :func:`mismatch`)."""
    return _sim.Policy(
        **network(card.layers, card.gate, tensors),
        observation=Native(card.observation.preset, card.observation.parameters).json(),
        action=Native(card.action.preset, card.action.parameters).json(),
        interval_ns=round(card.interval_ms * 1e6),
        interval_rtts=card.interval_rtts,
        interval_least_ns=round(card.interval_least_ms * 1e6),
        mean=tensors["normaliser.mean"] if card.normaliser else None,
        std=tensors["normaliser.std"] if card.normaliser else None,
        clip=card.clip,
        squash=card.squash,
        safety_filter=card.safety_filter.model_dump_json() if card.safety_filter is not None else None,
    )


def network(layers: Sequence[Layer], gate: Gate | None, tensors: Tensors) -> dict[str, Any]:
    """The arguments `layers` and `gate` of `_sim.Policy`."""
    made: dict[str, Any] = {"layers": _layers("layers", layers, tensors), "gate": None}
    if gate is not None:
        columns = {"inputs": list(gate.inputs), "expert_inputs": list(gate.expert_inputs)}
        made["gate"] = {"layers": _layers("gate", gate.layers, tensors), **columns}
    return made


def _layers(name: str, layers: Sequence[Layer], tensors: Tensors) -> list[dict[str, Any]]:
    """Layers as the simulator takes them."""
    made: list[dict[str, Any]] = []
    for index, layer in enumerate(layers):
        norm = None
        if layer.norm == "layer":
            scale, shift = tensors[f"{name}.{index}.norm.scale"], tensors[f"{name}.{index}.norm.shift"]
            norm = {"kind": "layer", "scale": scale, "shift": shift, "eps": layer.norm_eps}
        weight, bias = tensors[f"{name}.{index}.weight"], tensors[f"{name}.{index}.bias"]
        made.append({"weight": weight, "bias": bias, "norm": norm, "activation": layer.activation})
    return made
