"""A recurrent policy network: a gated recurrent unit (GRU), and layers that observe its state."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from orbitcc.agents.model_card import Gru, Layer
from orbitcc.training.mlp import LEAKY_SLOPE

_ACTIVATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, LEAKY_SLOPE),
    "linear": lambda x: x,
}
_CELL = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class GruNetwork(torch.nn.Module):
    """A GRU, and layers that observe columns of the observation and the state.

    The native policy network computes the same (`Gru` in sim/core/src/observe/gru.rs). The state of a flow is f32[units
    + 1], zeros when the flow begins: the state of the unit, then the decisions since its last update. As in
    :class:`orbitcc.training.mlp.Mlp`, all weights are in one vector `theta`, their gradients in `theta.grad`; the
    gradients are autograd's.

    Weights begin orthogonal, those of the unit gate by gate and with gain 1. The update gate begins at 0.73, a bias of
    1, so that the state persists (Jozefowicz et al., ICML 2015, section 5).

    Args:
        layers: units and activation of each layer after the unit, the output's included.
        gru: the unit.
        generator: draws the first weights.
    """

    def __init__(self, layers: Sequence[Layer], gru: Gru, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.layers, self.gru = tuple(layers), gru
        self._inputs = torch.tensor(gru.inputs)
        self._head_inputs = torch.tensor(gru.head_inputs, dtype=torch.int64)
        self.cell = torch.nn.GRUCell(len(gru.inputs), gru.units)
        widths = [len(gru.head_inputs) + gru.units, *(layer.units for layer in layers)]
        self.head = torch.nn.ModuleList(torch.nn.Linear(before, after) for before, after in itertools.pairwise(widths))
        with torch.no_grad():
            self._initialise(generator)
        self.theta = torch.zeros(sum(weights.numel() for weights in self.parameters()))
        self.theta.grad = gradient = torch.zeros_like(self.theta)
        start = 0
        for weights in self.parameters():
            part = slice(start, start + weights.numel())
            self.theta[part] = weights.data.flatten()
            weights.data, weights.grad = self.theta[part].view_as(weights), gradient[part].view_as(weights)
            start = part.stop

    @property
    def state_size(self) -> int:
        return self.gru.units + 1

    def step(self, rows: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs f32[n, A] and the states after them, f32[n, units + 1], of one decision of n flows.

        Args:
            rows: normalised observations, f32[n, D].
            state: before the decisions, f32[n, units + 1].
        """
        state = self._updated(rows, state)
        return self._outputs(rows, state[:, :-1]), state

    def forward(
        self, rows: torch.Tensor, state: torch.Tensor, keep: torch.Tensor, counted: torch.Tensor
    ) -> torch.Tensor:
        """Outputs over sequences of L decisions of n flows, of the counted decisions in the order of `rows`: f32[k, A].

        Args:
            rows: f32[L, n, D].
            state: before the first decisions, f32[n, units + 1].
            keep: false where a flow begins anew after a decision, bool[L, n].
            counted: decisions whose outputs are wanted, bool[L, n].
        """
        states = []
        for seen, kept in zip(rows, keep.to(rows.dtype).unsqueeze(-1), strict=True):
            state = self._updated(seen, state)
            states.append(state[:, :-1])
            state = state * kept
        self._made = self._outputs(rows[counted], torch.stack(states)[counted])
        return self._made

    def backward(self, gradient: torch.Tensor) -> None:
        """Set `theta.grad` from the gradient of a loss at the last outputs of :meth:`forward`."""
        assert self.theta.grad is not None
        self.theta.grad.zero_()
        self._made.backward(gradient)

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Copies of the weights as the tensors of a checkpoint."""
        found = {f"gru.{name}": getattr(self.cell, name).detach().numpy().copy() for name in _CELL}
        for index, dense in enumerate(self.head):
            found[f"layers.{index}.weight"] = dense.weight.detach().numpy().copy()
            found[f"layers.{index}.bias"] = dense.bias.detach().numpy().copy()
        return found

    def _updated(self, rows: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The state with which a decision is made."""
        hidden, count = state[:, :-1], state[:, -1]
        if self.gru.every == 1:
            hidden = self.cell(rows.index_select(1, self._inputs), hidden)
        else:
            due = (count == 0.0).nonzero().squeeze(1)
            seen = rows.index_select(0, due).index_select(1, self._inputs)
            hidden = hidden.index_copy(0, due, self.cell(seen, hidden.index_select(0, due)))
        return torch.cat([hidden, torch.remainder(count + 1.0, self.gru.every).unsqueeze(1)], 1)

    def _outputs(self, rows: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        x = torch.cat([rows.index_select(1, self._head_inputs), hidden], 1)
        for dense, layer in zip(self.head, self.layers, strict=True):
            x = _ACTIVATIONS[layer.activation](dense(x))
        return x

    def _initialise(self, generator: torch.Generator | None) -> None:
        for weights in (self.cell.weight_ih, self.cell.weight_hh):
            for gate in weights.chunk(3):
                torch.nn.init.orthogonal_(gate, generator=generator)
        self.cell.bias_ih.zero_()
        self.cell.bias_hh.zero_()
        self.cell.bias_ih.chunk(3)[1].fill_(1.0)
        for dense in self.head:
            gain = 0.01 if dense is self.head[-1] else math.sqrt(2.0)
            torch.nn.init.orthogonal_(dense.weight, gain, generator=generator)
            dense.bias.zero_()
