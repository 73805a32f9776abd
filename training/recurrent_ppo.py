"""PPO for a recurrent policy: states of flows in the rollout, and updates over sequences from stored states.

An iteration is cut into sequences of `learner.sequence` decisions of one flow. Each begins with the state that the flow
had when it was sampled, and gradients pass through all decisions of a sequence (truncated backpropagation through
time). A state is zeros where a connection begins. The critic is not recurrent: it observes the state of the policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from orbitcc.agents import plain_state
from orbitcc.envs.errors import FileError
from orbitcc.training.gru import GruNetwork
from orbitcc.training.ppo import F32, PpoLearner
from orbitcc.training.recipe import Recipe

_STATES = "states"


class RecurrentPpoLearner(PpoLearner):
    """As :class:`PpoLearner`, for recipes with `network.gru`."""

    actor: GruNetwork

    def __init__(self, recipe: Recipe, seed: int) -> None:
        self._state_size = recipe.network.gru + 1
        super().__init__(recipe, seed)
        self._states = torch.zeros(self.settings.flows, self._state_size)

    def save(self, folder: Path) -> None:
        super().save(folder)
        plain_state.write(folder, _STATES, {"states": self._states})

    def load(self, folder: Path) -> None:
        super().load(folder)
        states = plain_state.read(folder, _STATES)
        try:
            self._states.copy_(states["states"])
        except Exception as error:  # torch raises what it pleases
            raise FileError("resume", str(folder), f"the state of a run of this recipe ({error})") from None

    def _make_actor(self, sees: int, generator: torch.Generator) -> GruNetwork:
        assert self.gru is not None
        return GruNetwork(self.layers, self.gru, generator=generator)

    def _sample(self) -> None:
        super()._sample()
        self._note(self._rollout.steps)

    def _note(self, t: int) -> None:
        """Put the states before step `t` into the rollout, zeros where a connection begins."""
        roll = self._rollout
        if t > 0:
            self._states[torch.from_numpy(~roll.heeded[t - 1] | roll.ended[t - 1])] = 0.0
        roll.rows[t, :, -self._state_size :] = self._states

    def _look(self, obs: F32, into: F32) -> None:
        super()._look(obs, into)
        into[:, -self._state_size :] = self._states.numpy()

    def _means(self, t: int) -> F32:
        with torch.no_grad():
            means, self._states = self.actor.step(self._rollout.rows[t, :, : self._rollout.sees], self._states)
        found: F32 = means.numpy()
        return found

    def _minibatches(self, parts: int) -> Iterator[torch.Tensor]:
        roll, length = self._rollout, min(self.settings.sequence, self._rollout.steps)
        flows, steps = self.settings.flows, torch.arange(length).unsqueeze(1)
        heeded = torch.from_numpy(roll.heeded).flatten()
        sequences = torch.from_numpy(self._rng.permutation(-(-roll.steps // length) * flows))
        for picked in sequences.tensor_split(parts):
            at = picked // flows * length + steps  # [length, n]
            rows = at.clamp(max=roll.steps - 1) * flows + picked % flows
            counted = heeded[rows] & (at < roll.steps)
            self._picked = rows, counted
            if counted.any():
                yield rows[counted]

    def _mean(self, inputs: torch.Tensor) -> torch.Tensor:
        """Of the minibatch that :meth:`_minibatches` has yielded last."""
        roll, (rows, counted) = self._rollout, self._picked
        seen = roll.rows.flatten(0, 1)[rows]
        keep = torch.from_numpy(roll.heeded & ~roll.ended).flatten()[rows]
        return self.actor(seen[..., : roll.sees], seen[0, :, -self._state_size :], keep, counted)
