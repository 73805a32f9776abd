"""Networks in PyTorch, as model cards describe them; the moments of their inputs; their tensors in a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from orbitcc.agents.model_card import LEAKY_SLOPE, Gate, Layer
from orbitcc.agents.policy import Tensors

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

BATCH_NORM_EPS, BATCH_NORM_MOMENTUM = 1e-3, 0.01
"""Of the layers of Astraea's released actor; the momentum, 0.99 there, is the weight of the new batch in PyTorch."""
ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "leaky_relu": partial(nn.LeakyReLU, LEAKY_SLOPE)}


class Dense(nn.Sequential):
    """float32[..., inputs] -> float32[..., units of the last layer]: linear, norm and activation of each layer.

    Weights begin orthogonal with gain sqrt(2), the last with another (Engstrom et al., 2020, appendix A.2), or, without
    a gain, uniform (Glorot and Bengio, 2010) and the last a tenth of that. Biases begin at zero.

    batch_norm: hidden layers also have batch norm without a scale, which :func:`exported` folds into them. It uses its
    running statistics, but for an update in `train()`.
    """

    def __init__(self, inputs: int, layers: Sequence[Layer], *, gain: float | None = None, batch_norm: bool = False):
        parts: list[nn.Module] = []
        linear: list[nn.Linear] = []
        for index, layer in enumerate(layers):
            linear.append(nn.Linear(inputs, layer.units))
            nn.init.zeros_(linear[-1].bias)
            if gain is not None:
                nn.init.orthogonal_(linear[-1].weight, 2**0.5)
            parts.append(linear[-1])
            if layer.norm == "layer":
                parts.append(nn.LayerNorm(layer.units, layer.norm_eps))
            elif batch_norm and index < len(layers) - 1:
                parts.append(nn.BatchNorm1d(layer.units, BATCH_NORM_EPS, BATCH_NORM_MOMENTUM))
                parts[-1].weight.requires_grad_(False)
            if layer.activation != "linear":
                parts.append(ACTIVATIONS[layer.activation]())
            inputs = layer.units
        super().__init__(*parts)
        if gain is not None:
            nn.init.orthogonal_(linear[-1].weight, gain)
        else:
            for part in linear:
                nn.init.xavier_uniform_(part.weight)
            with torch.no_grad():
                linear[-1].weight *= 0.1  # at first a policy that does little, whatever it observes
        self.eval()


class Gated(nn.Module):
    """The outputs of one network, its experts, weighed by the softmax of a second one's: float32[..., 1].

    :class:`orbitcc.training.mlp.Experts` with PyTorch's gradients.
    """

    def __init__(self, layers: Sequence[Layer], gate: Gate) -> None:
        super().__init__()
        self.experts = Dense(len(gate.expert_inputs), layers, gain=0.01)
        self.gate = Dense(len(gate.inputs), gate.layers, gain=0.1)
        self._expert_columns, self._gate_columns = list(gate.expert_inputs), list(gate.inputs)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        shares = self.gate(rows[..., self._gate_columns]).softmax(-1)
        return (self.experts(rows[..., self._expert_columns]) * shares).sum(-1, keepdim=True)


def exported(network: nn.Module | Iterable[nn.Module], name: str = "layers") -> dict[str, F32]:
    """A network, or its layers in their order, as the tensors of a checkpoint."""
    if isinstance(network, Gated):
        return {**exported(network.experts), **exported(network.gate, "gate")}
    found: dict[str, F32] = {}
    index = -1
    for layer in network if isinstance(network, Iterable) else network.children():
        if isinstance(layer, nn.Linear):
            index += 1
            found[f"{name}.{index}.weight"], found[f"{name}.{index}.bias"] = _array(layer.weight), _array(layer.bias)
        elif isinstance(layer, nn.LayerNorm):
            found[f"{name}.{index}.norm.scale"] = _array(layer.weight)
            found[f"{name}.{index}.norm.shift"] = _array(layer.bias)
        elif isinstance(layer, nn.BatchNorm1d):  # folded into the dense layer
            assert layer.running_mean is not None
            assert layer.running_var is not None
            average, deviation = layer.running_mean.numpy(), np.sqrt(layer.running_var.numpy() + layer.eps)
            found[f"{name}.{index}.weight"] /= deviation[:, None]
            bias = found[f"{name}.{index}.bias"]
            found[f"{name}.{index}.bias"] = (bias - average) / deviation + _array(layer.bias)
    return found


def denormalised(tensors: Tensors, mean: NDArray[Any], std: NDArray[Any]) -> dict[str, F32]:
    """The tensors of a network whose first layer takes inputs that are not normalised by these moments.

    mean, std: of at least the inputs of the network, which come first.
    """
    found = dict(tensors)
    width = found["layers.0.weight"].shape[1]
    weight = found["layers.0.weight"].astype(np.float64) / std[:width]
    found["layers.0.bias"] = (found["layers.0.bias"].astype(np.float64) - weight @ mean[:width]).astype(np.float32)
    found["layers.0.weight"] = weight.astype(np.float32)
    return found


def _array(tensor: torch.Tensor) -> F32:
    return np.array(tensor.detach().cpu().numpy(), np.float32)


class Moments:
    """Running mean and standard deviation of rows [n, D] (Chan et al., 1979), and rows normalised by them.

    clip: limit of normalised values. mean, std: float32[D], 0 and 1 at first.
    """

    FLOOR = 0.01
    """Smallest standard deviation: nearly constant inputs are not amplified (our choice; observations are ratios)."""

    def __init__(self, dim: int, clip: float = math.inf) -> None:
        self.clip = clip
        self.count = 0.0
        self._mean: NDArray[Any] = np.zeros(dim)  # float64
        self._square = np.zeros(dim)
        self.mean: F32 = np.zeros(dim, np.float32)
        self.std: F32 = np.ones(dim, np.float32)

    def __call__(self, rows: NDArray[Any]) -> F32:
        """Normalised rows, float32[..., W], of the first W inputs."""
        width = rows.shape[-1]
        scaled: F32 = (rows - self.mean[:width]) / self.std[:width]
        return np.clip(scaled, -self.clip, self.clip, out=scaled) if self.clip < math.inf else scaled

    def add(self, rows: NDArray[Any]) -> None:
        """Add rows [n, D], deviations from the mean so far: for a few rows at a time."""
        self.count += len(rows)
        off = rows - self._mean
        self._mean = self._mean + off.sum(axis=0) / self.count
        self._square += (off * (rows - self._mean)).sum(axis=0)
        self._freeze()

    def update(self, rows: NDArray[Any]) -> None:
        """Add rows [n, D], deviations from their own mean."""
        mean = rows.mean(axis=0, dtype=np.float64)
        self.merge(float(len(rows)), mean, ((rows - mean) ** 2).sum(axis=0))

    def merge(self, count: float, mean: F64, square: F64) -> None:
        """Add `count` rows of this mean [D] and sum of squared deviations from it [D]."""
        off, total = mean - self._mean, self.count + count
        self._square += square + off**2 * (self.count * count / total)
        self._mean += off * (count / total)
        self.count = total
        self._freeze()

    def begin(self, mean: F32, std: F32, count: float) -> None:
        """As if `count` rows of this mean and deviation had been added; the mean is kept in single precision."""
        self._mean = mean
        self.restore({"count": count, "mean": mean, "square": np.square(std, dtype=np.float64) * count})

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "mean": self._mean.tolist(), "square": self._square.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        self.count, self._square = state["count"], np.array(state["square"])
        self._mean = np.array(state["mean"], self._mean.dtype)
        self._freeze()

    def exact(self) -> tuple[F64, F64]:
        """Mean and standard deviation in double precision."""
        if self.count == 0.0:
            return self._mean, np.ones(len(self._mean))
        return self._mean, np.maximum(np.sqrt(self._square / self.count), self.FLOOR)

    def _freeze(self) -> None:
        if self.count > 0.0:
            self.mean, self.std = (moment.astype(np.float32) for moment in self.exact())
