"""PPO (Schulman et al., 2017) for one policy that all flows share, on one sub-environment per flow.

Decisions are samples in the order in which they are made, those of all flows in one row. With the clock `flow` of a
preset only flows that are due make one, and it is complete when its flow is due again or ends.

One file from sampling to update; :class:`~orbitcc.training.learners.PpoOptions` holds every hyper-parameter. Values,
log-probabilities and advantages are worked out once per iteration, for all of its decisions together, and large arrays
are made once (docs/performance.md says where the time goes).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import Layer, ModelCard
from orbitcc.agents.policy import Tensors
from orbitcc.agents.runs import plain_state
from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.presets import definition_hash
from orbitcc.training import privileged
from orbitcc.training.episodes import EpisodeTotals
from orbitcc.training.learners import PpoOptions
from orbitcc.training.mlp import Experts, Mlp
from orbitcc.training.networks import Moments
from orbitcc.training.recipe import PolicyShape, Recipe

F32 = NDArray[np.float32]

CLIP = float(ModelCard.model_fields["clip"].default)
"""Of normalised observations, in the native policy, too."""
_LEARNER, _WORLDS = "ppo", "worlds"
_SEEN = 1e6
"""Observations of which the normaliser of a policy that training begins with is taken to be the mean."""
_AT_ONCE = 2_048
"""Rows per call of the critic, so that intermediate results stay in the processor's cache."""


class PpoLearner:
    """Samples `flows` flows for `batch` agent steps, then makes `epochs` passes over them in minibatches.

    Behind :class:`orbitcc.training.loop.Learner`.
    """

    def __init__(self, recipe: Recipe, seed: int) -> None:
        torch.set_num_threads(1)  # networks this small lose more to thread hand-over than they gain
        self.recipe, self.settings = recipe, recipe.options(PpoOptions)
        self._can_replay = recipe.backend == "simulator"
        ppo = self.settings
        self._env = FlowVectorEnv(
            ppo.flows,
            recipe.world(),
            preset=recipe.used_preset,
            reward_scale=ppo.reward_scale,
            stagger=True,
            journal=self._can_replay,
            autoreset_mode="SameStep",
            backend=recipe.backend,
        )
        self._own_clock = self._env.preset.own_clock
        (sees,), acts = self._env.preset.observation_space().shape, self._env.preset.action_dim
        knows = privileged.DIM if ppo.privileged_critic else 0
        self.squash = ppo.squash
        self.layers: tuple[Layer, ...] = recipe.network.layers(acts)
        self.gate = recipe.network.gate(sees)
        self._rng = np.random.default_rng(seed)  # exploration and the order of minibatches
        first = torch.Generator().manual_seed(seed)
        deep = PolicyShape(hidden=ppo.critic_hidden or recipe.network.hidden, activation=recipe.network.activation)
        self.actor: Mlp | Experts = (
            Mlp(sees, self.layers, last_gain=0.01, generator=first)
            if self.gate is None
            else Experts(self.layers, self.gate, generator=first)
        )
        self.critic = Mlp(sees + knows, deep.layers(1), last_gain=1.0, generator=first)
        self.log_std = torch.full((acts,), math.log(ppo.exploration_std))
        self._learns_std = ppo.exploration_std_final == 0.0
        self._learned = [self.actor.theta, self.critic.theta, *([self.log_std] if self._learns_std else [])]
        self._optimiser = torch.optim.Adam(self._learned, lr=ppo.lr, eps=1e-5, fused=True)
        self.normaliser = Moments(sees, CLIP) if ppo.normalise_observations else None
        self.agent_steps = 0
        if recipe.start_from:
            self._begin_with(recipe.start_from)
        self._obs, _ = self._env.reset(seed=seed)
        self._episodes = EpisodeTotals(ppo.flows, ppo.reward_scale)
        rows = max(1, ppo.batch // ppo.flows) * ppo.flows
        self._rollout = _Samples(rows, ppo.flows if self._own_clock else 0, ppo.flows, sees, acts, knows)

    def iterate(self) -> dict[str, float]:
        self._schedule()
        self._sample()
        roll = self._rollout
        figures = self._judge()
        figures |= self._update()
        if self.normaliser is not None:  # not before: the divergence is from the policy that has sampled
            self.normaliser.update(roll.obs[roll.heeded])
        steps = int(np.count_nonzero(roll.heeded))
        self.agent_steps += steps
        paid = float(roll.rewards.sum(where=roll.heeded, dtype=np.float64))
        return {
            "agent_steps": steps,
            "train/reward": paid / (steps * self.settings.reward_scale),
            **self._episodes.take(),
            **figures,
        }

    def tensors(self) -> Tensors:
        found: dict[str, F32] = self.actor.tensors()
        if self.normaliser is not None:
            found["normaliser.mean"], found["normaliser.std"] = self.normaliser.mean.copy(), self.normaliser.std.copy()
        return found

    def save(self, folder: Path) -> None:
        state = {
            "actor": self.actor.theta,
            "critic": self.critic.theta,
            "log_std": self.log_std,
            "optimiser": self._optimiser.state_dict(),
            "normaliser": None if self.normaliser is None else self.normaliser.state(),
            "rng": self._rng.bit_generator.state,
            "agent_steps": self.agent_steps,
            "episodes": self._episodes.state(),
            **({"open": self._rollout.kept()} if self._own_clock else {}),
        }
        plain_state.write(folder, _LEARNER, state)
        if self._can_replay:
            plain_state.write(folder, _WORLDS, self._env.journal())

    def load(self, folder: Path) -> None:
        """Continue exactly from :meth:`save`; the worlds are simulated again up to that moment.

        Emulated worlds begin anew.

        Raises:
            OrbitccError: a file is missing, or is not what :meth:`save` writes with this recipe.
        """
        state = plain_state.read(folder, _LEARNER)
        worlds = plain_state.read(folder, _WORLDS) if self._can_replay else None
        try:
            self.actor.theta.copy_(state["actor"])
            self.critic.theta.copy_(state["critic"])
            self.log_std.copy_(state["log_std"])
            self._optimiser.load_state_dict(state["optimiser"])
            if self.normaliser is not None:
                self.normaliser.restore(state["normaliser"])
            self._rng.bit_generator.state = state["rng"]
            self.agent_steps = state["agent_steps"]
            self._episodes.restore(state["episodes"])
            if self._own_clock and worlds is not None:  # the flows of new worlds have decided nothing
                self._rollout.keep(state["open"])
            if worlds is not None:
                self._obs = self._env.replay(worlds)
        except Exception as error:  # torch raises what it pleases
            raise FileError("resume", str(folder), f"the state of a run of this recipe ({error})") from None

    def stop(self) -> None:
        self._env.close()

    def _begin_with(self, policy: str) -> None:
        """Take over the weights of a checkpoint, and its normaliser as if it had seen :data:`_SEEN` observations.

        Raises:
            OrbitccError: it cannot be read, or differs from this recipe in a part that the weights depend on.
        """
        loaded, used = checkpoint.load(policy), self._env.preset.for_deployment()
        card = loaded.card
        parts = {
            "observation": (card.observation.hash, definition_hash("observation", used.native("observation"))),
            "action": (card.action.hash, definition_hash("action", used.native("action"))),
            "network": ((card.layers, card.gate), (self.layers, self.gate)),
            "squash": (card.squash, self.squash),
            "normaliser": (card.normaliser, self.normaliser is not None),
        }
        for name, (has, wanted) in parts.items():
            if has != wanted:
                raise OrbitccError("start_from", policy, f"a policy with the {name} of the recipe")
        tensors = dict(loaded.tensors)
        self.actor.restore(tensors)
        if self.normaliser is not None:
            self.normaliser.begin(tensors["normaliser.mean"], tensors["normaliser.std"], _SEEN)

    def _schedule(self) -> None:
        """Learning rate and, unless it is learned, exploration: linear in agent steps, then constant."""
        ppo = self.settings
        share = min(1.0, self.agent_steps / ppo.lr_decay)
        self._optimiser.param_groups[0]["lr"] = ppo.lr + share * (ppo.lr_final - ppo.lr)
        if not self._learns_std:
            std = ppo.exploration_std + share * (ppo.exploration_std_final - ppo.exploration_std)
            self.log_std.fill_(math.log(std))

    def _sample(self) -> None:
        """Fill the rollout, and the inputs of the decisions after it."""
        env, roll = self._env, self._rollout
        kept = roll.begin()
        self._rng.standard_normal(out=roll.noise, dtype=np.float32)
        np.multiply(roll.noise[kept:], self.log_std.exp().numpy(), out=roll.sampled[kept:])
        actions: F32 = np.zeros((len(roll.open), roll.sampled.shape[1]), np.float32)
        while True:
            active = env.active()
            who: Any = np.flatnonzero(active) if self._own_clock else slice(None)
            rows = roll.follow(who, int(np.count_nonzero(active)) if self._own_clock else len(active))
            self._look(self._obs, who, roll.inputs[rows])
            if roll.filled >= roll.limit:
                return roll.end(who)
            roll.heeded[rows] = active[who]
            if self.normaliser is not None:
                roll.obs[rows] = self._obs[who]
            sampled = roll.sampled[rows]
            sampled += self.actor.forward(roll.rows[rows, : roll.sees]).numpy()
            actions[who] = np.tanh(sampled) if self.squash == "tanh" else sampled.clip(-1.0, 1.0)
            roll.act(who, rows)
            rewards, terminated, truncated = env.advance(actions)
            ended = terminated | truncated
            known = (roll.open >= 0) & (env.active() | ended) if self._own_clock else roll.open >= 0
            at = roll.open[known]
            roll.rewards[at], roll.ended[at] = rewards[known], ended[known]
            acted = known.copy()
            acted[known] = roll.heeded[at]
            self._episodes.add(rewards, acted, ended)
            if ended.any():
                cut = np.flatnonzero(known & truncated & ~terminated)
                if cut.size:
                    final = np.empty((cut.size, roll.inputs.shape[1]), np.float32)
                    self._look(env.observations(), cut, final)
                    roll.finals.append((roll.open[cut], final))
                roll.open[ended] = -1
            self._obs = env.renew()

    def _look(self, obs: F32, who: Any, into: F32) -> None:
        """Write the networks' inputs, f32[n, D + E]: the observation, then what only the critic observes.

        obs: of all sub-environments; who: an index of n of them.
        """
        sees = self._rollout.sees
        into[:, :sees] = obs[who] if self.normaliser is None else self.normaliser(obs[who])
        if self.settings.privileged_critic:
            truths = self._env.statistics()[who][:, privileged.COLUMNS]
            into[:, sees : sees + privileged.DIM] = privileged.privileged(self._env.state()[who], truths)

    def _judge(self) -> dict[str, float]:
        """Values, advantages and log-probabilities of the rollout."""
        ppo, roll, n = self.settings, self._rollout, self._rollout.filled
        values = self._values(roll.inputs[: roll.reached])
        final = np.zeros(n, np.float32)  # 0: nothing follows a connection that is done
        for rows, inputs in roll.finals:
            final[rows] = self._values(inputs)
        rewards, ended, follows = roll.rewards[:n], roll.ended[:n], roll.follows[:n]
        advantages = gae(rewards, values, follows, ended, final, roll.starts, ppo.gamma, ppo.gae_lambda, roll.waiting)
        returns, heeded = advantages + values[:n], roll.heeded[:n]
        unexplained, spread = float(advantages[heeded].var()), float(returns[heeded].var())
        if ppo.normalise_advantages:
            advantages -= advantages[heeded].mean()
            advantages /= advantages[heeded].std() + 1e-8
        new = slice(roll.begun, n)
        roll.judged[new, 0] = -0.5 * np.square(roll.noise[new]).sum(-1) - float(self.log_std.sum())
        roll.judged[:n, 1], roll.judged[:n, 2], roll.judged[:n, 3] = values[:n], advantages, returns
        return {"learner/value_explained": 1.0 - unexplained / max(spread, 1e-12)}

    def _values(self, inputs: F32) -> F32:
        """Of rows [n, D + E]: f32[n]."""
        rows = torch.from_numpy(inputs)
        values = torch.empty(len(rows))
        for part, out in zip(rows.split(_AT_ONCE), values.split(_AT_ONCE), strict=True):
            out.copy_(self.critic.forward(part).squeeze(1))
        return values.numpy()

    def _update(self) -> dict[str, float]:
        ppo, roll = self.settings, self._rollout
        inputs, sampled, judged = (torch.from_numpy(array) for array in (roll.inputs, roll.sampled, roll.judged))
        parts = max(1, round(np.count_nonzero(roll.heeded) / ppo.minibatch))
        sums, minibatches = np.zeros(len(_FIGURES)), 0
        for _ in range(ppo.epochs):
            divergence = 0.0
            for rows in torch.from_numpy(self._rng.permutation(np.flatnonzero(roll.heeded))).tensor_split(parts):
                picked = (array.index_select(0, rows) for array in (inputs, sampled, judged))
                figures = self._descend(*picked)
                divergence += figures[_FIGURES.index("kl")] / parts
                sums, minibatches = sums + figures, minibatches + 1
            if 0.0 < ppo.kl_target < divergence:
                break
        return {
            **{f"learner/{name}": float(value) / minibatches for name, value in zip(_FIGURES, sums, strict=True)},
            "learner/exploration_std": float(self.log_std.exp().mean()),
            "learner/epochs": minibatches / parts,
            "learner/learning_rate": self._optimiser.param_groups[0]["lr"],
        }

    def _descend(self, inputs: torch.Tensor, sampled: torch.Tensor, judged: torch.Tensor) -> NDArray[np.float64]:
        """One step of the optimiser; :data:`_FIGURES` of the minibatch before it.

        Args:
            inputs: f32[n, D + E].
            sampled: f32[n, A], before they were squashed.
            judged: f32[n, 4]: log-probability, value, advantage and return.
        """
        ppo = self.settings
        log_prob, old_values, advantages, returns = judged.unbind(1)
        mean = self.actor.forward(inputs[:, : self._rollout.sees]).detach().requires_grad_()
        values = self.critic.forward(inputs).detach().requires_grad_()
        log_std = self.log_std.detach().requires_grad_(self._learns_std)

        deviation = (sampled - mean) * torch.exp(-log_std)
        # what is constant in the log-density of a Gaussian cancels in the ratio; so does the slope of a tanh
        log_ratio = -0.5 * (deviation**2).sum(1) - log_std.sum() - log_prob
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - ppo.clip, 1.0 + ppo.clip)
        policy_loss = -torch.minimum(advantages * ratio, advantages * clipped).mean()
        value_loss = self._value_loss(values.squeeze(1), old_values, returns)
        entropy = (log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum()
        loss = policy_loss + ppo.value_weight * value_loss - ppo.entropy * entropy
        if ppo.action_penalty > 0.0:
            loss = loss + ppo.action_penalty * (mean**2).mean()

        loss.backward()
        if self.agent_steps < ppo.critic_first:  # the policy stays as it is
            for leaf in (mean, log_std):
                leaf.grad = None if leaf.grad is None else torch.zeros_like(leaf.grad)
        self.actor.backward(mean.grad)
        self.critic.backward(values.grad)
        self.log_std.grad = log_std.grad
        torch.nn.utils.clip_grad_norm_(self._learned, ppo.grad_clip)
        self._optimiser.step()
        with torch.no_grad():
            kl = (ratio - 1.0 - log_ratio).mean()  # http://joschu.net/blog/kl-approx.html, k3
            outside = (ratio != clipped).float().mean()
            return torch.stack([policy_loss, value_loss, entropy, kl, outside]).double().numpy()

    def _value_loss(self, values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
        ppo = self.settings
        if ppo.value_loss == "huber":
            return torch.nn.functional.smooth_l1_loss(values, returns)
        error = (values - returns) ** 2
        if ppo.value_loss == "clipped":
            near = old_values + (values - old_values).clamp(-ppo.clip, ppo.clip)
            error = torch.maximum(error, (near - returns) ** 2)
        return error.mean()


_FIGURES = ("policy_loss", "value_loss", "entropy", "kl", "clipped")
"""Figures of an optimiser step, logged as `learner/...`; `clipped`: share of ratios beyond the clip."""


def gae(
    rewards: F32,
    values: F32,
    follows: NDArray[np.int64],
    ended: NDArray[np.bool_],
    final_values: F32,
    starts: Sequence[int],
    gamma: float,
    lambda_: float,
    waiting: NDArray[np.int64] | None = None,
) -> F32:
    """Generalised advantage estimates, f32[n] (Schulman et al., 2016, equation 16), within connections.

    Args:
        rewards: of n decisions in the order of time, f32[n].
        values: of the observations acted on, and of those after the last decisions of flows, f32[n + m].
        follows: the row of `values` after each decision of the same connection, where it did not end, int[n].
        ended: whose connection ended after this decision, bool[n].
        final_values: where a connection ended, the value of its last observation: what it would have gone on to
            receive if it was cut off (truncated), 0 if it was done (terminated), f32[n].
        starts: the first decisions of moments, in order; no flow decides twice in one moment.
        gamma: discount per decision.
        lambda_: of the exponential average.
        waiting: decisions of which nothing is known yet, the last ones of their flows; their estimate is 0.
    """
    following: F32 = np.where(ended, final_values, values[follows])
    following *= gamma
    advantages: F32 = np.zeros(len(values), np.float32)
    advantages[: len(rewards)] = rewards + following - values[: len(rewards)]
    if waiting is not None:
        advantages[waiting] = 0.0
    keep = np.where(ended, np.float32(0), np.float32(gamma * lambda_))
    for start, stop in reversed(list(itertools.pairwise(starts))):  # nothing is known after the last moment
        advantages[start:stop] += keep[start:stop] * advantages[follows[start:stop]]
    return advantages[: len(rewards)]


class _Samples:
    """The decisions of an iteration, in arrays that are reused, in the order of time.

    limit: a rollout is full with so many decisions; more: how many can be beyond them. flows: that decide.
    """

    def __init__(self, limit: int, more: int, flows: int, sees: int, acts: int, knows: int) -> None:
        self.limit, self.sees = limit, sees
        rows = limit + more
        self.inputs: F32 = np.zeros((rows + flows, sees + knows), np.float32)
        """Inputs of the networks: the observation, possibly normalised, then the critic's: privileged inputs, state."""
        self.rows = torch.from_numpy(self.inputs)
        self.obs: F32 = np.zeros((rows, sees), np.float32)
        """Observations before normalisation, if they are normalised."""
        self.noise: F32 = np.zeros((rows, acts), np.float32)
        self.sampled: F32 = np.zeros((rows, acts), np.float32)
        self.rewards: F32 = np.zeros(rows, np.float32)
        self.ended = np.zeros(rows, np.bool_)
        self.heeded = np.zeros(rows, np.bool_)
        """What is learned from. A connection that has just begun does not apply its first action, and of some decisions
        nothing is known yet."""
        self.follows = np.zeros(rows, np.int64)
        """The row of the inputs of the same flow's next decision."""
        self.judged: F32 = np.zeros((rows, 4), np.float32)
        """Log-probability, value, advantage, return."""
        self.finals: list[tuple[NDArray[np.int64], F32]] = []
        """Where connections were cut off: decisions [k], last inputs [k, D + E]."""
        self.open = np.full(flows, -1)
        """The decision of each flow that is not complete; -1: none."""
        self.waiting = np.zeros(0, np.int64)
        """Decisions that are not complete at the end of the rollout. They are the first ones of the next."""
        self.begun = self.filled = self.reached = 0
        """How many decisions were kept, how many there are, and how many inputs."""
        self.starts: list[int] = []

    def begin(self) -> int:
        """Forget all decisions but those that wait; returns how many these are."""
        self.keep(self.kept())
        self.finals.clear()
        self.starts = [0] if self.begun else []
        return self.begun

    def kept(self) -> dict[str, NDArray[Any]]:
        """The decisions that wait for what they bring, as :meth:`keep` takes them."""
        flows = np.flatnonzero(self.open >= 0)
        rows = self.open[flows]
        return {"flows": flows, **{name: getattr(self, name)[rows] for name in _KEPT}}

    def keep(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Begin with these decisions."""
        self.begun = self.filled = len(kept["flows"])
        self.open[:] = -1
        self.open[kept["flows"]] = np.arange(self.begun)
        self.heeded[:], self.ended[:], self.rewards[:], self.follows[:] = False, False, 0.0, 0
        self.heeded[: self.begun] = True
        for name in _KEPT:
            getattr(self, name)[: self.begun] = kept[name]

    def follow(self, who: Any, count: int) -> slice:
        """The next rows, which these flows decide on: they follow their last decisions."""
        self.reached = self.filled + count
        before = self.open[who]
        self.follows[before[before >= 0]] = np.arange(self.filled, self.reached)[before >= 0]
        return slice(self.filled, self.reached)

    def act(self, who: Any, rows: slice) -> None:
        """These flows have decided."""
        self.open[who] = np.arange(rows.start, rows.stop)
        self.starts.append(rows.start)
        self.filled = rows.stop

    def end(self, who: Any) -> None:
        """No more decisions; these flows' last ones are complete."""
        self.open[who] = -1
        self.waiting = self.open[self.open >= 0]
        self.heeded[self.waiting] = False


_KEPT = ("inputs", "obs", "sampled", "judged")
"""What is kept of a decision that is not complete at the end of a rollout."""
