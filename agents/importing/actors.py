"""Turns the actor of a TensorFlow 1 checkpoint into a checkpoint of ours (`orbitcc import`)."""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orbitcc.agents import checkpoint
from orbitcc.agents.importing.tensorflow import files_of, read_bundle
from orbitcc.agents.model_card import Imported, Layer, ModelCard, TrainingRange
from orbitcc.agents.policy import Tensors
from orbitcc.common.errors import FileError, OrbitccError, UnknownNameError
from orbitcc.common.files import DAMAGED_ARRAYS, MOST_TABLE, load_arrays, read_bytes, read_toml
from orbitcc.envs.description.model import as_orbitcc_error
from orbitcc.envs.environments.presets import preset

Array = NDArray[np.float64]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


KERNELS, BIASES = ("kernel", "w", "weights", "W"), ("bias", "b", "biases", "B")
"""What Keras and tf.layers, Stable-Baselines, and contrib and slim call the variables of a dense layer."""


class DenseLayer(_Model):
    """A dense layer: the names of its variables' parents, within the scope. kernel, bias: the names of its variables;
    empty: the one of KERNELS or BIASES that the checkpoint has. norm: batch normalisation before the activation, by the
    moving averages, with or without gamma. leaky_relu has the slope 0.2."""

    dense: str
    kernel: str = ""
    bias: str = ""
    norm: str = ""
    norm_eps: float = Field(default=1e-3, gt=0)
    activation: Literal["tanh", "relu", "leaky_relu", "linear"] = "linear"


class Layout(_Model):
    """The actor of a project. preset: observation, action and decision interval. scope: the common parent of its
    variables. squash: of the output. training_range: [low, high] by field; empty: not stated."""

    description: str
    preset: str
    scope: str = ""
    squash: Literal["tanh", "clip"] = "tanh"
    layers: tuple[DenseLayer, ...] = Field(min_length=1)
    training_range: dict[str, tuple[float, float]] = Field(default_factory=dict)


def layouts() -> dict[str, Layout]:
    """The layouts that come with OrbitCC, by name."""
    text = resources.files(__package__).joinpath("imports.toml").read_text(encoding="utf-8")
    return {name: Layout(**table) for name, table in tomllib.loads(text).items()}


def layout(name_or_file: str) -> Layout:
    """A layout by name, or from a TOML file. Raises OrbitccError for an unknown name or a wrong field."""
    if name_or_file in (known := layouts()):
        return known[name_or_file]
    if not name_or_file.endswith(".toml"):
        raise UnknownNameError("POLICY", name_or_file, known, "or a TOML file with a layout")
    try:
        return Layout(**read_toml(name_or_file))
    except ValidationError as error:
        raise as_orbitcc_error(error).under(name_or_file) from None


def tensors_of(chosen: Layout, variables: Mapping[str, NDArray[Any]]) -> Tensors:
    """The layers of the actor, with batch normalisation folded into weight and bias.

    Raises OrbitccError for a variable that is missing or does not fit.
    """

    def variable(
        parent: str, name: str, shape: tuple[int, ...], default: float | None = None, others: Sequence[str] = ()
    ) -> Array:
        keys = ["/".join(part for part in (chosen.scope, parent, own) if part) for own in (name, *others)]
        has = [key for key in keys if key in variables]
        if len(has) > 1:
            raise OrbitccError("PATH", " and ".join(has), "one of them; name it in the layout: kernel or bias = ...")
        if not has:
            if default is not None:
                return np.full(shape, default)
            wanted = keys[0] + (f" (or {', '.join(others)})" if others else "")
            near = ", ".join(difflib.get_close_matches(keys[0], variables, 5, 0.0))
            raise OrbitccError("PATH", wanted, f"a variable of the checkpoint ({near} ...)")
        key = has[0]
        found = np.asarray(variables[key], dtype=np.float64)
        if found.ndim != len(shape) or any(size not in (-1, has) for size, has in zip(shape, found.shape, strict=True)):
            wanted = ", ".join("any" if size < 0 else str(size) for size in shape)
            raise OrbitccError("PATH", f"{key} of shape {list(found.shape)}", f"shape [{wanted}]")
        if name == "moving_variance" and (found < 0).any():
            raise OrbitccError("PATH", f"{key} with a negative value", "variances")
        return found

    found: dict[str, NDArray[np.float32]] = {}
    width = -1
    for k, layer in enumerate(chosen.layers):
        kernels, biases = (layer.kernel,) if layer.kernel else KERNELS, (layer.bias,) if layer.bias else BIASES
        weight = variable(layer.dense, kernels[0], (width, -1), others=kernels[1:]).T
        width = len(weight)
        bias = variable(layer.dense, biases[0], (width,), others=biases[1:])
        if layer.norm:
            scale = variable(layer.norm, "gamma", (width,), 1.0)
            scale = scale / np.sqrt(variable(layer.norm, "moving_variance", (width,)) + layer.norm_eps)
            bias = (bias - variable(layer.norm, "moving_mean", (width,))) * scale + variable(
                layer.norm, "beta", (width,), 0.0
            )
            weight = weight * scale[:, None]
        found[f"layers.{k}.weight"] = np.ascontiguousarray(weight, dtype=np.float32)
        found[f"layers.{k}.bias"] = bias.astype(np.float32)
    return found


def import_policy(
    name_or_file: str, path: str | Path, out: str | Path, *, name: str = "", source: str = "", licence: str = ""
) -> checkpoint.Checkpoint:
    """Write the actor of the checkpoint at `path` as a checkpoint of ours into the folder `out`.

    name: of the policy; empty: that of the folder. source, licence: for the model card.
    Raises OrbitccError for files, variables or shapes that do not fit the layout; then nothing is written.
    """
    chosen = layout(name_or_file)
    tensors = tensors_of(chosen, read_bundle(path))
    used = preset(chosen.preset)
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()):
        raise FileError("--out", str(folder), "a new or empty folder")
    files = {file.name: hashlib.sha256(read_bytes(file, MOST_TABLE)).hexdigest()[:12] for file in files_of(path)}
    try:
        card = ModelCard(
            name=name or folder.resolve().name,
            description=chosen.description,
            **checkpoint.decisions_of(used),
            layers=tuple(
                Layer(units=len(tensors[f"layers.{k}.bias"]), activation=layer.activation)
                for k, layer in enumerate(chosen.layers)
            ),
            squash=chosen.squash,
            training_range=TrainingRange.model_validate({"scenario": "not stated", **chosen.training_range}),
            imported=Imported(source=source or "not stated", licence=licence or "not stated", files=files),
        )
    except ValidationError as error:
        raise as_orbitcc_error(error) from None
    checkpoint.save(folder, card, tensors)
    return checkpoint.load(folder)


def largest_difference(policy: checkpoint.Checkpoint, reference: str | Path) -> float:
    """Of the policy's actions from those of the original network: an .npz file with `observations` [n, D] and `actions`
    [n, A], of which those beyond [-1, 1] count as the bound. Raises OrbitccError for other files and shapes."""
    wanted = (
        f"an .npz file with observations [n, {policy.card.observation.dim}] and actions [n, {policy.card.action.dim}]"
    )
    try:
        names = ("observations", "actions")
        given = load_arrays(reference, names)
        observations, actions = (np.asarray(given[name], dtype=np.float32) for name in names)
        own = policy.policy.act(observations)
        return float(np.abs(own.reshape(actions.shape) - np.clip(actions, -1, 1)).max())
    except FileError as error:
        raise FileError("--reference", str(reference), f"{wanted} ({error.allowed})") from None
    except DAMAGED_ARRAYS as error:
        raise FileError("--reference", str(reference), f"{wanted} ({error})") from None
