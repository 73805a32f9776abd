"""Networks of :mod:`orbitcc.training.networks` with hand-written gradients, in preallocated memory.

For networks of a few thousand weights autograd spends much on bookkeeping and on fresh memory, which is not in the
processor's cache: this takes a fifth less for minibatches of 2,048 rows, and two fifths less for 256
(docs/performance.md).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from orbitcc.agents.model_card import LEAKY_SLOPE, Gate, Layer

_TORCH: dict[str, Callable[[Any], Any]] = {  # in place
    "tanh": lambda x: x.tanh_(),
    "relu": lambda x: x.relu_(),
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu_(x, LEAKY_SLOPE),
    "linear": lambda x: x,
}
_BACKWARD: dict[str, Callable[[Any, Any], Any]] = {  # gradient times slope, in place; the slope is known by the output
    "tanh": lambda gradient, output: torch.ops.aten.tanh_backward(gradient, output, grad_input=gradient),
    "relu": lambda gradient, output: torch.ops.aten.threshold_backward(gradient, output, 0, grad_input=gradient),
    "leaky_relu": lambda gradient, output: torch.ops.aten.leaky_relu_backward(
        gradient, output, LEAKY_SLOPE, True, grad_input=gradient
    ),
    "linear": lambda gradient, output: gradient,
}


def _shapes(inputs: int, layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """Outputs and inputs of each layer."""
    widths = [inputs, *(layer.units for layer in layers)]
    return [(after, before) for before, after in itertools.pairwise(widths)]


def weights_of(inputs: int, layers: Sequence[Layer]) -> int:
    """How many numbers a network has."""
    return sum(after * (before + 1) for after, before in _shapes(inputs, layers))


class Mlp:
    """A feed-forward network, all of its weights in one vector `theta`, their gradients in `theta.grad`.

    Weights begin orthogonal, with gain sqrt(2) but for the last layer (Engstrom et al., 2020, appendix A.2).

    Args:
        inputs: numbers per row.
        layers: units and activation of each layer, the output's included; layer norms are not known.
        last_gain: of the output layer's first weights.
        generator: draws them.
        theta: a vector to hold the weights, with its gradient, both of `weights_of(inputs, layers)` numbers.
    """

    def __init__(
        self,
        inputs: int,
        layers: Sequence[Layer],
        *,
        last_gain: float,
        generator: torch.Generator | None = None,
        theta: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        self.layers = tuple(layers)
        self._shapes = _shapes(inputs, layers)
        numbers = weights_of(inputs, layers)
        self.theta, gradient = (torch.zeros(numbers), torch.zeros(numbers)) if theta is None else theta
        self.theta.grad = gradient
        self.weights, self._gradients = self._views(self.theta), self._views(gradient)
        for index, (weight, _) in enumerate(self.weights):
            last = index == len(self.weights) - 1
            torch.nn.init.orthogonal_(weight, last_gain if last else math.sqrt(2.0), generator=generator)
        self._rows = 0
        self._input: Any = None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """f32[n, inputs] -> f32[n, outputs]; the next call overwrites the result."""
        self._reserve(len(rows))
        self._input, x = rows, rows
        for (weight, bias), layer, room in zip(self.weights, self.layers, self._outputs, strict=True):
            out = room[: len(rows)]
            torch.addmm(bias, x, weight.T, out=out)
            x = _TORCH[layer.activation](out)
        return x

    def backward(self, gradient: torch.Tensor) -> None:
        """Set `theta.grad` from the gradient of a loss, f32[n, outputs], at the last outputs of `forward`."""
        n = len(gradient)
        ones, gradient = self._ones[:n], gradient.clone()
        for index in range(len(self.layers) - 1, -1, -1):
            below = self._outputs[index - 1][:n] if index else self._input
            (weight, _), (to_weight, to_bias) = self.weights[index], self._gradients[index]
            _BACKWARD[self.layers[index].activation](gradient, self._outputs[index][:n])
            torch.mm(gradient.T, below, out=to_weight)
            torch.mv(gradient.T, ones, out=to_bias)
            if index:
                gradient = torch.mm(gradient, weight, out=self._passed[index - 1][:n])

    def tensors(self, name: str = "layers") -> dict[str, NDArray[np.float32]]:
        """Copies of the weights as the tensors of a checkpoint."""
        found = {}
        for index, (weight, bias) in enumerate(self.weights):
            found[f"{name}.{index}.weight"], found[f"{name}.{index}.bias"] = weight.numpy().copy(), bias.numpy().copy()
        return found

    def restore(self, tensors: Mapping[str, NDArray[np.float32]], name: str = "layers") -> None:
        """Set the weights to those that :meth:`tensors` returned."""
        for index, (weight, bias) in enumerate(self.weights):
            weight.copy_(torch.from_numpy(tensors[f"{name}.{index}.weight"]))
            bias.copy_(torch.from_numpy(tensors[f"{name}.{index}.bias"]))

    def _reserve(self, rows: int) -> None:
        if rows > self._rows:
            self._rows = rows
            self._outputs = [torch.empty(rows, after) for after, _ in self._shapes]
            self._passed = [torch.empty(rows, after) for after, _ in self._shapes[:-1]]
            self._ones = torch.ones(rows)

    def _views(self, vector: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Weight [out, in] and bias [out] of each layer in a vector like `theta`."""
        found, start = [], 0
        for after, before in self._shapes:
            weight = vector[start : start + after * before].view(after, before)
            found.append((weight, vector[start + after * before : start + after * (before + 1)]))
            start += after * (before + 1)
        return found


class Experts:
    """Experts, the outputs of one network, weighed by the softmax of another one's: as :class:`Mlp`, with one output.

    The native policy network computes the same (`Gate` in sim/core/src/observe/policy.rs).

    Args:
        layers: of the experts' network; its outputs are the experts.
        gate: columns that both observe, and the gate's layers.
    """

    def __init__(self, layers: Sequence[Layer], gate: Gate, *, generator: torch.Generator | None = None) -> None:
        self._expert_columns, self._gate_columns = torch.tensor(gate.expert_inputs), torch.tensor(gate.inputs)
        experts = weights_of(len(gate.expert_inputs), layers)
        total = experts + weights_of(len(gate.inputs), gate.layers)
        self.theta = torch.zeros(total)
        self.theta.grad = gradient = torch.zeros(total)
        halves = [(self.theta[part], gradient[part]) for part in (slice(experts), slice(experts, total))]
        self.experts = Mlp(len(gate.expert_inputs), layers, last_gain=0.01, generator=generator, theta=halves[0])
        self.gate = Mlp(len(gate.inputs), gate.layers, last_gain=0.1, generator=generator, theta=halves[1])

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """f32[n, inputs] -> f32[n, 1]."""
        self._values = self.experts.forward(rows.index_select(1, self._expert_columns))
        self._shares = self.gate.forward(rows.index_select(1, self._gate_columns)).softmax(1)
        self._mean = (self._values * self._shares).sum(1, keepdim=True)
        return self._mean

    def backward(self, gradient: torch.Tensor) -> None:
        """Set `theta.grad` from the gradient of a loss at the last outputs of `forward`, f32[n, 1]."""
        towards = gradient * self._shares
        self.gate.backward(towards * (self._values - self._mean))
        self.experts.backward(towards)

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Copies of the weights as the tensors of a checkpoint."""
        return {**self.experts.tensors(), **self.gate.tensors("gate")}

    def restore(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        """Set the weights to those that :meth:`tensors` returned."""
        self.experts.restore(tensors)
        self.gate.restore(tensors, "gate")
