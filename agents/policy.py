"""Builds a native network from tensors and a model card."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.agents.model_card import ModelCard
from orbitcc.envs.environments.presets import Native

Tensors = Mapping[str, NDArray[np.float32]]


def expected_tensors(card: ModelCard) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that a model card requires.

    `layers.I.weight` [out, in], `layers.I.bias` [out], with a layer norm `layers.I.norm.scale` and `.shift` [out];
    with a normaliser `normaliser.mean` and `normaliser.std` [D].
    """
    shapes: dict[str, tuple[int, ...]] = {}
    width = card.observation.dim
    for index, layer in enumerate(card.layers):
        shapes[f"layers.{index}.weight"] = (layer.units, width)
        shapes[f"layers.{index}.bias"] = (layer.units,)
        if layer.norm == "layer":
            shapes[f"layers.{index}.norm.scale"] = (layer.units,)
            shapes[f"layers.{index}.norm.shift"] = (layer.units,)
        width = layer.units
    if card.normaliser:
        shapes["normaliser.mean"] = shapes["normaliser.std"] = (card.observation.dim,)
    return shapes


def mismatch(card: ModelCard, tensors: Tensors) -> str | None:
    """The reason why these tensors do not fit this model card, or None."""
    expected = expected_tensors(card)
    if card.layers[-1].units != card.action.dim:
        return f"its last layer has {card.layers[-1].units} units for an action of {card.action.dim}"
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
    layers: list[dict[str, Any]] = []
    for index, layer in enumerate(card.layers):
        norm = None
        if layer.norm == "layer":
            scale, shift = tensors[f"layers.{index}.norm.scale"], tensors[f"layers.{index}.norm.shift"]
            norm = {"kind": "layer", "scale": scale, "shift": shift, "eps": layer.norm_eps}
        weight, bias = tensors[f"layers.{index}.weight"], tensors[f"layers.{index}.bias"]
        layers.append({"weight": weight, "bias": bias, "norm": norm, "activation": layer.activation})
    return _sim.Policy(
        layers,
        observation=Native(card.observation.preset, card.observation.parameters).json(),
        action=Native(card.action.preset, card.action.parameters).json(),
        interval_ns=round(card.interval_ms * 1e6),
        interval_rtts=card.interval_rtts,
        mean=tensors["normaliser.mean"] if card.normaliser else None,
        std=tensors["normaliser.std"] if card.normaliser else None,
        clip=card.clip,
        squash=card.squash,
        safety_filter=card.safety_filter.model_dump_json() if card.safety_filter is not None else None,
    )
