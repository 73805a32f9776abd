"""PPO (Schulman et al., 2017) for one policy that all flows share, on a slot per flow.

One file from sampling to update. The recipe's :class:`~orbitcc.training.recipe.Ppo` holds every hyper-parameter.
Networks of this size cost more in calls than in arithmetic as soon as batches are small, so acting, with one row per
flow, is numpy on the memory of torch's weights; values, log-probabilities and advantages are computed once per
iteration, for all of its transitions together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from orbitcc.agents.card import Card, Layer
from orbitcc.agents.policy import Tensors
from orbitcc.envs.errors import FileError
from orbitcc.envs.slots import FlowVectorEnv
from orbitcc.training import privileged
from orbitcc.training.recipe import Recipe

F32 = NDArray[np.float32]

LEAKY_SLOPE = 0.2
"""Of `leaky_relu`, as in the native policy network."""
_TORCH: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "leaky_relu": lambda: nn.LeakyReLU(LEAKY_SLOPE),
}
_NUMPY: dict[str, Callable[[F32], Any]] = {  # in place
    "tanh": lambda x: np.tanh(x, out=x),
    "relu": lambda x: np.maximum(x, 0, out=x),
    "leaky_relu": lambda x: np.maximum(x, LEAKY_SLOPE * x, out=x),
}
_STATE = "ppo.pt"


class PpoLearner:
    """Samples `slots` flows for `batch` agent steps, then makes `epochs` passes over them in minibatches.

    Behind :class:`orbitcc.training.loop.Learner`.
    """

    def __init__(self, recipe: Recipe, seed: int) -> None:
        torch.set_num_threads(1)  # networks this small lose more to thread hand-over than they gain
        self.recipe, self.settings = recipe, recipe.ppo
        ppo = self.settings
        self._env = FlowVectorEnv(
            ppo.slots,
            recipe.scenario,
            preset=recipe.preset,
            reward_scale=ppo.reward_scale,
            stagger=True,
            autoreset_mode="SameStep",
        )
        sees, acts = self._env.single_observation_space.shape[0], self._env.single_action_space.shape[0]
        knows = privileged.DIM if ppo.privileged_critic else 0
        self.squash = ppo.squash
        self.layers: tuple[Layer, ...] = recipe.network.layers(acts)
        self._rng = np.random.default_rng(seed)  # exploration and the order of minibatches
        torch.manual_seed(seed)
        activation, hidden = recipe.network.activation, recipe.network.hidden
        self.actor = _network(sees, hidden, acts, activation, last_gain=0.01)
        self.critic = _network(sees + knows, ppo.critic_hidden or hidden, 1, activation, last_gain=1.0)
        self.log_std = nn.Parameter(torch.full((acts,), math.log(ppo.exploration_std)))
        self.log_std.requires_grad_(ppo.exploration_std_final == 0.0)
        self._parameters = [*self.actor.parameters(), *self.critic.parameters(), self.log_std]
        self._optimiser = torch.optim.Adam(self._parameters, lr=ppo.lr, eps=1e-5, fused=True)
        self.normaliser = Normaliser(sees) if ppo.normalise_observations else None
        self.agent_steps = 0
        self._obs, _ = self._env.reset(seed=seed)
        self._rollout = _Rollout(max(1, ppo.batch // ppo.slots), ppo.slots, sees, acts, knows)

    def iterate(self) -> dict[str, float]:
        self._schedule()
        self._sample()
        batch, figures = self._learn_from()
        figures |= self._update(batch)
        if self.normaliser is not None:  # not before: the divergence is from the policy that has sampled
            self.normaliser.update(self._rollout.obs[self._rollout.heeded])
        steps = len(batch.advantages)
        self.agent_steps += steps
        paid = float(self._rollout.rewards.sum(where=self._rollout.heeded, dtype=np.float64))
        return {"agent_steps": steps, "train/reward": paid / (steps * self.settings.reward_scale), **figures}

    def tensors(self) -> Tensors:
        found = {}
        for index, layer in enumerate(_dense(self.actor)):
            found[f"layers.{index}.weight"] = layer.weight.detach().numpy().copy()
            found[f"layers.{index}.bias"] = layer.bias.detach().numpy().copy()
        if self.normaliser is not None:
            found["normaliser.mean"], found["normaliser.std"] = self.normaliser.mean.copy(), self.normaliser.std.copy()
        return found

    def save(self, folder: Path) -> None:
        torch.save(
            {
                "actor": self.actor.state_dict(),
                "critic": self.critic.state_dict(),
                "log_std": self.log_std.detach(),
                "optimiser": self._optimiser.state_dict(),
                "normaliser": None if self.normaliser is None else self.normaliser.state(),
                "rng": self._rng.bit_generator.state,
                "agent_steps": self.agent_steps,
            },
            folder / _STATE,
        )

    def load(self, folder: Path) -> None:
        """Networks, optimiser and generator go on as they were; the worlds are drawn anew.

        Raises:
            OrbitccError: the file is missing, or is not what :meth:`save` writes with this recipe.
        """
        path = folder / _STATE
        try:
            state = torch.load(path, weights_only=True)
            self.actor.load_state_dict(state["actor"])
            self.critic.load_state_dict(state["critic"])
            self._optimiser.load_state_dict(state["optimiser"])
            with torch.no_grad():
                self.log_std.copy_(state["log_std"])
            if self.normaliser is not None:
                self.normaliser.restore(state["normaliser"])
            self._rng.bit_generator.state = state["rng"]
            self.agent_steps = state["agent_steps"]
        except Exception as error:  # torch raises what it pleases
            raise FileError("resume", str(path), f"the state of a run of this recipe ({error})") from None

    def stop(self) -> None:
        self._env.close()

    def _schedule(self) -> None:
        """Learning rate and, unless it is learned, exploration: linear in agent steps, then constant."""
        ppo = self.settings
        share = min(1.0, self.agent_steps / ppo.lr_decay)
        self._optimiser.param_groups[0]["lr"] = ppo.lr + share * (ppo.lr_final - ppo.lr)
        if ppo.exploration_std_final > 0.0:
            std = ppo.exploration_std + share * (ppo.exploration_std_final - ppo.exploration_std)
            self.log_std.data.fill_(math.log(std))

    def _sample(self) -> None:
        """Fill the rollout."""
        env, roll = self._env, self._rollout
        roll.noise[...] = self._rng.standard_normal(roll.noise.shape, np.float32)
        act = _Actor(self.actor, self.recipe.network.activation, self.settings.slots)
        spread = self.log_std.detach().exp().numpy() * roll.noise
        roll.finals.clear()
        obs = self._obs
        for t in range(roll.steps):
            roll.obs[t] = obs
            roll.heeded[t] = env.active()
            if roll.extra is not None:
                roll.extra[t] = self._extra()
            seen = roll.obs[t] if self.normaliser is None else self.normaliser(obs)
            sampled = np.add(act(seen), spread[t], out=roll.sampled[t])
            actions = np.tanh(sampled) if self.squash == "tanh" else np.clip(sampled, -1.0, 1.0)
            roll.rewards[t], terminated, truncated = env.advance(actions)
            np.logical_or(terminated, truncated, out=roll.ended[t])
            cut = np.flatnonzero(truncated & ~terminated)
            if cut.size:
                extra = None if roll.extra is None else self._extra()[cut]
                roll.finals.append((t, cut, env.observations()[cut], extra))
            obs = env.renew()
        self._obs = obs

    def _extra(self) -> F32:
        """What the critic sees beside the observation now, f32[slots, DIM]."""
        return privileged.privileged(self._env.state(), self._env.statistics()[:, privileged.COLUMNS])

    @torch.no_grad()
    def _learn_from(self) -> tuple[_Batch, dict[str, float]]:
        """The rollout as rows to learn from: values, advantages and log-probabilities, without what nobody heeded."""
        ppo, roll = self.settings, self._rollout
        values = np.empty((roll.steps + 1, ppo.slots), np.float32)
        values[:-1] = self._values(roll.obs, roll.extra)
        values[-1] = self._values(self._obs, None if roll.extra is None else self._extra())
        final = np.zeros((roll.steps, ppo.slots), np.float32)  # 0: nothing follows a connection that is done
        if roll.finals:
            extra = None if roll.extra is None else np.concatenate([rest for *_, rest in roll.finals])
            at = np.concatenate([np.full(cut.size, t) for t, cut, *_ in roll.finals])
            slots = np.concatenate([cut for _, cut, *_ in roll.finals])
            final[at, slots] = self._values(np.concatenate([obs for _, _, obs, _ in roll.finals]), extra)
        advantages = gae(roll.rewards, values, roll.ended, final, ppo.gamma, ppo.gae_lambda)
        rows = np.flatnonzero(roll.heeded)
        returns = advantages + values[:-1]

        def take(array: F32) -> torch.Tensor:
            return torch.from_numpy(array.reshape(roll.steps * ppo.slots, -1)[rows])

        seen = take(roll.obs)
        if self.normaliser is not None:
            seen = torch.from_numpy(self.normaliser(seen.numpy()))
        batch = _Batch(
            seen=seen,
            known=seen if roll.extra is None else torch.cat([seen, take(roll.extra)], dim=1),
            sampled=take(roll.sampled),
            log_prob=-0.5 * (take(roll.noise) ** 2).sum(1) - self.log_std.sum(),
            values=take(values[:-1]).squeeze(1),
            advantages=take(advantages).squeeze(1),
            returns=take(returns).squeeze(1),
        )
        explained = 1.0 - float((batch.returns - batch.values).var()) / max(float(batch.returns.var()), 1e-12)
        if ppo.normalise_advantages:
            batch.advantages.sub_(batch.advantages.mean()).div_(batch.advantages.std() + 1e-8)
        return batch, {"learner/value_explained": explained}

    def _values(self, obs: F32, extra: F32 | None) -> F32:
        """Of rows [..., D]: f32[...]."""
        seen = obs if self.normaliser is None else self.normaliser(obs)
        known = seen if extra is None else np.concatenate([seen, extra], axis=-1)
        return self.critic(torch.from_numpy(known)).squeeze(-1).numpy()

    def _update(self, batch: _Batch) -> dict[str, float]:
        ppo, count = self.settings, len(batch.advantages)
        parts = max(1, round(count / ppo.minibatch))
        sums: dict[str, float] = {}
        minibatches = 0
        for _ in range(ppo.epochs):
            order = torch.from_numpy(self._rng.permutation(count))
            divergence = 0.0
            for rows in order.tensor_split(parts):
                loss, figures = self._loss(batch.rows(rows))
                self._optimiser.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self._parameters, ppo.grad_clip)
                self._optimiser.step()
                minibatches += 1
                for name, value in figures.items():
                    sums[name] = sums.get(name, 0.0) + float(value)
                divergence += float(figures["kl"]) / parts
            if 0.0 < ppo.kl_target < divergence:
                break
        return {
            **{f"learner/{name}": value / minibatches for name, value in sums.items()},
            "learner/exploration_std": float(self.log_std.detach().exp().mean()),
            "learner/epochs": minibatches / parts,
        }

    def _loss(self, batch: _Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        ppo = self.settings
        mean = self.actor(batch.seen)
        deviation = (batch.sampled - mean) * torch.exp(-self.log_std)
        # what is constant in the log-density of a Gaussian cancels in the ratio; so does the slope of a tanh
        log_ratio = -0.5 * (deviation**2).sum(1) - self.log_std.sum() - batch.log_prob
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - ppo.clip, 1.0 + ppo.clip)
        policy_loss = -torch.minimum(batch.advantages * ratio, batch.advantages * clipped).mean()
        value_loss = self._value_loss(self.critic(batch.known).squeeze(1), batch)
        entropy = (self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum()
        loss = policy_loss + ppo.value_weight * value_loss - ppo.entropy * entropy
        if ppo.action_penalty > 0.0:
            loss = loss + ppo.action_penalty * (mean**2).mean()
        with torch.no_grad():
            figures = {
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": entropy.detach(),
                "kl": (ratio - 1.0 - log_ratio).mean(),  # http://joschu.net/blog/kl-approx.html, k3
                "clipped": (ratio != clipped).float().mean(),
            }
        return loss, figures

    def _value_loss(self, values: torch.Tensor, batch: _Batch) -> torch.Tensor:
        ppo = self.settings
        if ppo.value_loss == "huber":
            return nn.functional.smooth_l1_loss(values, batch.returns)
        error = (values - batch.returns) ** 2
        if ppo.value_loss == "clipped":
            near = batch.values + (values - batch.values).clamp(-ppo.clip, ppo.clip)
            error = torch.maximum(error, (near - batch.returns) ** 2)
        return error.mean()


def gae(
    rewards: F32, values: F32, ended: NDArray[np.bool_], final_values: F32, gamma: float, lambda_: float
) -> F32:
    """Generalised advantage estimates, f32[T, N] (Schulman et al., 2016, equation 16), within connections.

    Args:
        rewards: f32[T, N].
        values: of the observations acted on, and of those after the last step, f32[T + 1, N].
        ended: whose connection ended with this step, bool[T, N]; the next row belongs to another one.
        final_values: where a connection ended, the value of its last observation: what it would have gone on to
            receive if it was cut off (truncated), 0 if it was done (terminated), f32[T, N].
        gamma: discount per step.
        lambda_: of the exponential average.
    """
    follows = np.where(ended, final_values, values[1:])
    surprise = rewards + np.float32(gamma) * follows - values[:-1]
    keep = np.where(ended, np.float32(0), np.float32(gamma * lambda_))
    advantages = surprise
    for t in range(len(rewards) - 2, -1, -1):
        advantages[t] += keep[t] * advantages[t + 1]
    return advantages


class Normaliser:
    """Running mean and standard deviation of observations (Chan et al., 1979), as the native policy applies them."""

    CLIP = float(Card.model_fields["clip"].default)
    FLOOR = 0.01
    """Of the standard deviation: what hardly ever changes is not blown up (our choice; observations are ratios)."""

    def __init__(self, dim: int) -> None:
        self._count = 0.0
        self._mean, self._square = np.zeros(dim), np.zeros(dim)  # float64
        self.mean: F32 = np.zeros(dim, np.float32)
        self.std: F32 = np.ones(dim, np.float32)

    def __call__(self, obs: F32) -> F32:
        scaled = (obs - self.mean) / self.std
        return np.clip(scaled, -self.CLIP, self.CLIP, out=scaled)

    def update(self, obs: F32) -> None:
        """Count rows [n, D] in."""
        mean, count = obs.mean(axis=0, dtype=np.float64), float(len(obs))
        off, total = mean - self._mean, self._count + count
        self._square += ((obs - mean) ** 2).sum(axis=0) + off**2 * (self._count * count / total)
        self._mean += off * (count / total)
        self._count = total
        self.mean = self._mean.astype(np.float32)
        self.std = np.maximum(np.sqrt(self._square / total), self.FLOOR).astype(np.float32)

    def state(self) -> dict[str, Any]:
        return {"count": self._count, "mean": torch.from_numpy(self._mean), "square": torch.from_numpy(self._square)}

    def restore(self, state: dict[str, Any]) -> None:
        self._count = state["count"]
        self._mean, self._square = state["mean"].numpy(), state["square"].numpy()
        self.update(np.zeros((0, self._mean.size), np.float32))


class _Actor:
    """The policy's mean for a fixed number of rows: numpy on the memory of torch's weights, without allocations."""

    def __init__(self, network: nn.Sequential, activation: str, rows: int) -> None:
        dense = _dense(network)
        self._weights = [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in dense]
        self._out = [np.empty((rows, layer.out_features), np.float32) for layer in dense]
        self._activate = _NUMPY[activation]

    def __call__(self, x: F32) -> F32:
        for (weight, bias), out in zip(self._weights, self._out, strict=True):
            np.matmul(x, weight, out=out)
            out += bias
            if out is not self._out[-1]:
                self._activate(out)
            x = out
        return x


class _Rollout:
    """What was sampled, [T, N, ...], reused by every iteration."""

    def __init__(self, steps: int, slots: int, sees: int, acts: int, knows: int) -> None:
        self.steps = steps
        self.obs = np.empty((steps, slots, sees), np.float32)
        self.extra = np.empty((steps, slots, knows), np.float32) if knows else None
        self.noise = np.empty((steps, slots, acts), np.float32)
        self.sampled = np.empty((steps, slots, acts), np.float32)
        self.rewards = np.empty((steps, slots), np.float32)
        self.ended = np.empty((steps, slots), np.bool_)
        self.heeded = np.empty((steps, slots), np.bool_)
        self.finals: list[tuple[int, NDArray[np.int64], F32, F32 | None]] = []
        """Steps that cut connections off: step, slots [k], last observations [k, D], what the critic knows [k, E]."""


@dataclass(frozen=True)
class _Batch:
    """Transitions to learn from: `seen` [n, D] by the policy, `known` [n, D + E] to the critic, the rest [n]."""

    seen: torch.Tensor
    known: torch.Tensor
    sampled: torch.Tensor
    log_prob: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor

    def rows(self, index: torch.Tensor) -> _Batch:
        picked = {name: value.index_select(0, index) for name, value in vars(self).items() if name != "known"}
        known = picked["seen"] if self.known is self.seen else self.known.index_select(0, index)
        return _Batch(**picked, known=known)


def _network(inputs: int, hidden: tuple[int, ...], outputs: int, activation: str, last_gain: float) -> nn.Sequential:
    """Dense layers with orthogonal weights, of gain sqrt(2) but for the last (Engstrom et al., 2020, appendix A.2)."""
    widths = [inputs, *hidden, outputs]
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
        last = index == len(hidden)
        layer = nn.Linear(before, after)
        nn.init.orthogonal_(layer.weight, last_gain if last else math.sqrt(2.0))
        nn.init.zeros_(layer.bias)
        layers += [layer] if last else [layer, _TORCH[activation]()]
    return nn.Sequential(*layers)


def _dense(network: nn.Sequential) -> list[Any]:
    return [layer for layer in network if isinstance(layer, nn.Linear)]
