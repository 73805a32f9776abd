"""Astraea's learner: multi-agent TD3 with centralised twin critics and one policy shared by all flows.

Every flow acts on what it sees itself; while it learns, two critics also see the global state of its world (Liao et
al., EuroSys 2024: a variant of MADDPG with the improvements of TD3, Fujimoto et al., ICML 2018). Read from top to
bottom: networks, replay, targets, the loop.
:class:`orbitcc.training.learners.Td3Options` lists the hyper-parameters and their sources.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from orbitcc.agents.policy import Tensors
from orbitcc.agents.runs import plain_state
from orbitcc.common.errors import FileError
from orbitcc.envs.environments.batch import GLOBAL_STATE
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.presets import STATS
from orbitcc.training.episodes import EpisodeTotals
from orbitcc.training.learners import Td3Options
from orbitcc.training.networks import ACTIVATIONS, Dense, Moments, denormalised, exported
from orbitcc.training.recipe import PolicyShape, Recipe

OWN = 3
"""Inputs of the critics about the flow itself: throughput, distance to the mean, share of the sum."""

Array = NDArray[np.float32]


TARGET_NOISE, TARGET_NOISE_CLIP = 0.05, 0.1
"""Smoothing of target actions: standard deviation and limit (ours; Astraea publishes the same)."""
PRESENCE = 0.5
"""Expected mean share of sub-environments with a flow, which sets the size of the replay buffer."""
BRAKE_ACTION = -0.2
"""Exploring actions are at most this above `brake_bdp`."""


class TwinCritic(nn.Module):
    """Two critics, [K, inputs] and [K] actions -> [2, K], as one batched product each layer: half the calls.

    The action joins after the first hidden layer, as published.
    """

    def __init__(self, inputs: int, network: PolicyShape) -> None:
        super().__init__()
        widths = [inputs, *network.critic_hidden, 1]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        self.scales, self.shifts = nn.ParameterList(), nn.ParameterList()
        for index, (n, m) in enumerate(itertools.pairwise(widths)):
            rows = n + (index == 1)
            bound = math.sqrt(6 / (rows + m))
            self.weights.append(nn.Parameter(torch.empty(2, rows, m).uniform_(-bound, bound)))
            self.biases.append(nn.Parameter(torch.zeros(2, 1, m)))
            if index < len(widths) - 2 and network.norm == "layer":
                self.scales.append(nn.Parameter(torch.ones(2, 1, m)))
                self.shifts.append(nn.Parameter(torch.zeros(2, 1, m)))
        self._act = ACTIVATIONS[network.activation]()

    def forward(self, x: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        hidden = x.expand(2, *x.shape)
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if index == 1:
                hidden = torch.cat((hidden, action[None, :, None].expand(2, -1, 1)), dim=2)
            hidden = torch.baddbmm(bias, hidden, weight)
            if index < last:
                if len(self.scales):
                    hidden = functional.layer_norm(hidden, hidden.shape[-1:]) * self.scales[index] + self.shifts[index]
                hidden = self._act(hidden)
        return hidden[..., 0]


class Replay:
    """Decisions that were completed in the last steps of N worlds with S agents, for returns of n decisions.

    A decision has its observation, action, reward, and the observation at its end. For a flow that left or was cut off
    the latter is its last observation, from which the return is bootstrapped; a finished flow has none.

    rows: steps that are kept at most. capacity: decisions that are kept at most; 0: all of these steps.
    """

    def __init__(self, rows: int, worlds: int, agents: int, width: int, capacity: int = 0) -> None:
        size = capacity or rows * worlds * agents
        self.obs, self.next_obs = np.zeros((size, width), np.float32), np.zeros((size, width), np.float32)
        self.own, self.next_own = np.zeros((size, OWN), np.float32), np.zeros((size, OWN), np.float32)
        self.state, self.next_state = (np.zeros((size, GLOBAL_STATE), np.float32) for _ in range(2))
        self.action, self.reward = np.zeros(size, np.float32), np.zeros(size, np.float32)
        self.ended, self.finished = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        self.follows = np.full(size, -1)
        """The number of the same flow's next decision; -1: not known. Decision k is in place k modulo the size."""
        self.numbers = np.full((rows, worlds, agents), -1)
        """Of the decision that each flow completed in a step; -1: none."""
        self.last = np.full((worlds, agents), -1)
        """Of the last decision of each flow that goes on."""
        self.rows, self.filled, self.next = rows, 0, 0
        self.total = self.transitions = 0

    def add(self, *, completed: NDArray[np.bool_], ended: NDArray[np.bool_], **cells: NDArray[Any]) -> None:
        """One step of all worlds: an array [N, S, ...] for each field, of which those of completed decisions count."""
        size, count = len(self.reward), int(np.count_nonzero(completed))
        while self.filled == self.rows or self.transitions + count > size:
            oldest = self.numbers[(self.next - self.filled) % self.rows]
            self.transitions -= int(np.count_nonzero(oldest >= 0))
            self.filled -= 1
        numbers = self.total + np.arange(count)
        places, before = numbers % size, self.last[completed]
        for name, value in {**cells, "ended": ended}.items():
            getattr(self, name)[places] = value[completed]
        self.follows[places] = -1
        known = before >= max(self.total - self.transitions, 0)
        self.follows[before[known] % size] = numbers[known]
        self.numbers[self.next] = -1
        self.numbers[self.next][completed] = self.last[completed] = numbers
        self.last[ended] = -1
        self.total, self.transitions = self.total + count, self.transitions + count
        self.next = (self.next + 1) % self.rows
        self.filled += 1

    def sample(
        self, size: int, steps: int, gamma: float, rng: np.random.Generator, by_world: bool = False
    ) -> dict[str, Array]:
        """`size` decisions drawn uniformly (or one of each step of a world, drawn uniformly): `now` and `after`
        [size, D + 12 + 3], `action`, `returns` (of up to `steps` rewards), and `discount` of what follows (0 after a
        flow that finished)."""
        start = (self.next - self.filled) % self.rows
        found: list[NDArray[np.int64]] = []
        missing = size
        while missing > 0:  # about half of the cells are empty
            _, worlds, agents = self.numbers.shape
            cell = rng.integers(0, self.filled * worlds * (1 if by_world else agents), 3 * missing)
            if by_world:
                age, world = np.divmod(cell, worlds)
                acted = self.numbers[(start + age) % self.rows, world] >= 0
                agent = (rng.random((cell.size, agents)) * acted).argmax(axis=1)
            else:
                place, agent = np.divmod(cell, agents)
                age, world = np.divmod(place, worlds)
            drawn = self.numbers[(start + age) % self.rows, world, agent]
            found.append(drawn[drawn >= 0][:missing])
            missing -= found[-1].size
        first = np.concatenate(found) % len(self.reward)
        returns, last, count = self.reward[first].copy(), first.copy(), np.ones(size)
        going = ~self.ended[first]
        for k in range(1, steps):
            following = self.follows[last]
            going &= following >= 0
            following %= len(self.reward)
            returns += np.where(going, gamma**k * self.reward[following], 0.0).astype(np.float32)
            last[going] = following[going]
            count[going] += 1
            going &= ~self.ended[last]
        discount = gamma**count * ~self.finished[last]
        now = (self.obs[first], self.state[first], self.own[first])
        after = (self.next_obs[last], self.next_state[last], self.next_own[last])
        return {
            "now": np.concatenate(now, axis=1),
            "after": np.concatenate(after, axis=1),
            "action": self.action[first],
            "returns": returns.astype(np.float32),
            "discount": discount.astype(np.float32),
        }


class ActorCritics:
    """Actor and twin critics of a recipe, their targets, the average of the actor, and the losses.

    A mixin for subclasses of `torch.nn.Module`: our learner and RLlib's module use it. The actor observes the first
    `width` of the critics' inputs; its outputs are actions before tanh.
    """

    settings: Td3Options
    width: int

    def make(self, recipe: Recipe, width: int) -> None:
        self.settings, self.width, network = recipe.options(Td3Options), width, recipe.network
        self.actor = Dense(width, network.layers(1), batch_norm=network.norm == "batch")
        self.critic = TwinCritic(width + GLOBAL_STATE + OWN, network)
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.averaged = copy.deepcopy(self.actor)

    def targets(self, batch: Mapping[str, torch.Tensor], noise: torch.Tensor) -> torch.Tensor:
        """The target of both critics, [K]: the rewards and, discounted, the lower of both targets' values of the
        smoothed target action; `noise`: standard normal, [K]."""
        with torch.no_grad():
            smoothing = (TARGET_NOISE * noise).clamp(-TARGET_NOISE_CLIP, TARGET_NOISE_CLIP)
            action = torch.tanh(self.actor_target(batch["after"][:, : self.width])[:, 0]) + smoothing
            value = self.critic_target(batch["after"], action.clamp(-1.0, 1.0)).min(dim=0).values
            return batch["returns"] + batch["discount"] * value

    def critic_loss(self, said: torch.Tensor, batch: Mapping[str, torch.Tensor], noise: torch.Tensor) -> torch.Tensor:
        """Huber loss of the outputs of the two critics, [2, K], summed over them as published."""
        return 2 * functional.huber_loss(said, self.targets(batch, noise).expand_as(said))

    def actor_loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The first critic's mean value of the actions, negative, and a penalty for large ones."""
        before_tanh = self.actor.train()(batch["now"][:, : self.width])[:, 0]
        self.actor.eval()  # batch norm uses its running statistics, except here
        value = self.critic(batch["now"], torch.tanh(before_tanh))[0]
        return -value.mean() + self.settings.action_penalty * (before_tanh**2).mean()

    def learns_actor(self, updates: int) -> bool:
        """Whether the actor learns, too, in the update of the critics with this number, from 1."""
        return updates % self.settings.actor_every == 0

    def follow(self, updates: int) -> None:
        """Move targets and average after this update."""
        if self.learns_actor(updates):
            _follow(self.actor_target, self.actor, self.settings.tau)
            _follow(self.averaged, self.actor, self.settings.averaging)
        _follow(self.critic_target, self.critic, self.settings.tau)


class _Networks(ActorCritics, nn.Module):
    """The networks of our own learner."""

    def __init__(self, recipe: Recipe, width: int) -> None:
        super().__init__()
        self.make(recipe, width)


def own_view(statistics: NDArray[np.float64], present: NDArray[np.bool_]) -> Array:
    """Inputs of the critics about each active flow, f32[N, S, 3]; 0 for the others."""
    rate = np.where(present, delivered(statistics), 0.0)
    total, count = rate.sum(axis=1, keepdims=True), np.maximum(present.sum(axis=1, keepdims=True), 1)
    return np.where(present[..., None], compared(rate, total, count), 0.0).astype(np.float32)


def compared(rate: NDArray[np.float64], total: NDArray[Any], count: NDArray[Any]) -> NDArray[np.float64]:
    """Rates beside the sum and the number of those of their world: rate, distance to the mean, share, [..., 3]."""
    return np.stack((rate, rate - total / count, rate / np.maximum(total, 1e-9)), axis=-1)


class AstraeaTd3Learner:
    """Worlds, networks and replay behind :class:`orbitcc.training.loop.Learner`."""

    squash: Literal["tanh", "clip"] = "tanh"

    def __init__(self, recipe: Recipe, seed: int) -> None:
        torch.set_num_threads(1)  # networks this small lose more to hand-over than they gain
        settings, network = recipe.options(Td3Options), recipe.network
        self.recipe, self.settings = recipe, settings
        self.env = BatchedParallelEnv(
            settings.worlds,
            recipe.world(),
            preset=recipe.used_preset,
            stagger=True,
            statistics=True,
            journal=True,
            threads=settings.threads,
        )
        self.width = self.env.single_observation_space.shape[0]
        self.gate = None
        self.layers = network.layers(1)
        self.rng = np.random.default_rng([seed, 0xA57])
        torch.manual_seed(seed)
        self.noise_generator = torch.Generator().manual_seed(seed)
        self.networks = _Networks(recipe, self.width)
        self.actor_optimiser = torch.optim.Adam(self.networks.actor.parameters(), lr=settings.actor_lr)
        self.critic_optimiser = torch.optim.Adam(self.networks.critic.parameters(), lr=settings.critic_lr)
        cells = settings.worlds * self.env.max_agents
        self._own_clock = self.env.config.preset.own_clock
        # on flows' own clocks a step completes one decision of each world at least, as a rule
        per_step = settings.worlds if self._own_clock else cells * PRESENCE
        rows = max(settings.steps + 1, math.ceil(settings.replay / per_step))
        capacity = settings.replay + cells if self._own_clock else 0
        self.replay = Replay(rows, settings.worlds, self.env.max_agents, self.width, capacity)
        seen = self.env.single_observation_space
        self.scale = Moments(self.width + GLOBAL_STATE + OWN)
        self.scale_fixed = not settings.scale_inputs
        places = (settings.worlds, self.env.max_agents)
        self.noise, self.waits = np.zeros(places, np.float32), np.zeros(places, np.bool_)
        widths = {"obs": (self.width,), "own": (OWN,), "state": (GLOBAL_STATE,), "action": ()}
        self.decided = {name: np.zeros((*places, *width), np.float32) for name, width in widths.items()}
        """Of each flow: its last decision, and whether that waits for its outcome (`waits`)."""
        self.decisions = self.critic_steps = 0
        self.episodes = EpisodeTotals((settings.worlds, self.env.max_agents))
        self._low, self._high = seen.low, seen.high
        self.env.reset(seed=int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]))
        self._apply_schedule()

    # --- sampling ---

    def iterate(self) -> dict[str, float]:
        """Sample `iteration` decisions and learn meanwhile."""
        paid = Mean()
        learned: dict[str, Mean] = {}
        until = self.decisions + self.settings.iteration
        before = self.decisions
        flooded, starved, moves = Mean(), Mean(), Mean()
        while self.decisions < until:
            row, statistics = self._step()
            acted, completed = row["acted"], row["completed"]
            paid.add(row["reward"][completed])
            self.episodes.add(row["reward"], completed, row["ended"])
            moves.add(row["action"][acted] ** 2)
            flooded.add(window_bdp(statistics)[acted] > self.settings.brake_bdp)
            rate, fair = statistics[..., STATS["delivery_rate_bps"]], statistics[..., STATS["fair_share_bps"]]
            starved.add((rate < 0.1 * fair)[acted])
            if self.replay.transitions >= self.settings.learning_starts:
                while self.critic_steps * self.settings.update_every < self.decisions - self.settings.learning_starts:
                    for name, value in self._learn().items():
                        learned.setdefault(name, Mean()).add(np.asarray([value]))
        self._apply_schedule()
        return {
            "agent_steps": float(self.decisions - before),
            "train/reward": paid.value,
            **self.episodes.take(),
            "train/over_brake": flooded.value,
            "train/below_tenth_of_fair": starved.value,
            "train/action_rms": math.sqrt(moves.value),
            "learner/exploration_std": self._sigma(),
            "learner/learning_rate": self.actor_optimiser.param_groups[0]["lr"],
            **{f"learner/{name}": mean.value for name, mean in learned.items()},
        }

    def _step(self) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64]]:
        """Act once in all worlds and store it; returns the row and the statistics before the action."""
        env, settings = self.env, self.settings
        acted, present, obs, state = env.active, env.present, env.obs.copy(), env.state()
        statistics = env.statistics()
        action = np.zeros(acted.shape, np.float32)
        with torch.inference_mode():
            action[acted] = torch.tanh(self.networks.actor(torch.from_numpy(self.scale(obs[acted]))))[:, 0].numpy()
        rho = settings.noise_correlation
        new = math.sqrt(1 - rho * rho) * self.rng.standard_normal(self.noise.shape, dtype=np.float32)
        np.copyto(self.noise, self.noise * rho + new, where=acted | (not self._own_clock))
        action = np.clip(action + self._sigma() * self.noise, -1.0, 1.0)
        if settings.random_share:
            share = fallen(settings.random_share, settings.random_share_final, self._done_share(), settings)
            replaced = self.rng.random(action.shape) < share
            action[replaced] = self.rng.uniform(-1.0, 1.0, int(replaced.sum()))
        if settings.brake_bdp:
            over = window_bdp(statistics) > settings.brake_bdp
            action[over] = np.minimum(action[over], BRAKE_ACTION)
        end_obs, reward, terminated, truncated, infos = env.step(action[..., None])
        end_statistics = infos["statistics"]
        ended = terminated | truncated
        now = {
            "obs": obs,
            "own": own_view(statistics, present) * settings.own_inputs,
            "state": np.broadcast_to(state[:, None], (*acted.shape, GLOBAL_STATE)),
            "action": action,
        }
        for name, value in now.items():
            self.decided[name][acted] = value[acted]
        self.waits |= acted
        # a decision is complete when its flow decides next, which may be in another step, or ends
        completed = self.waits & (ended | infos["due"]) if self._own_clock else acted
        self.waits &= ~completed
        after: dict[str, NDArray[Any]] = {
            "next_obs": end_obs,
            "next_own": own_view(end_statistics, present) * settings.own_inputs,
            "next_state": np.broadcast_to(infos["state"][:, None], (*acted.shape, GLOBAL_STATE)),
            "reward": settings.reward_scale * reward,
            "finished": terminated,
        }
        self.replay.add(completed=completed, ended=ended, **self.decided, **after)
        self.decisions += int(completed.sum())
        if not self.scale_fixed:
            if acted.any():
                self.scale.add(np.concatenate((obs, now["state"], now["own"]), -1)[acted])
            measured = max(settings.learning_starts, settings.scale_share * self.recipe.agent_steps)
            self.scale_fixed = self.decisions >= measured
        told = {"action": action, "reward": reward, "acted": acted, "completed": completed, "ended": ended}
        return told, statistics

    # --- learning ---

    def _learn(self) -> dict[str, float]:
        """One step of the critics, and regularly one of the actor."""
        settings = self.settings
        sample = self.replay.sample(settings.batch, settings.steps, settings.gamma, self.rng, settings.by_world)
        batch = {name: torch.from_numpy(value) for name, value in sample.items()}
        for name in ("now", "after"):
            batch[name] = torch.from_numpy(self.scale(sample[name]))
        networks, noise = self.networks, torch.randn(settings.batch, generator=self.noise_generator)
        said = networks.critic(batch["now"], batch["action"])
        loss = networks.critic_loss(said, batch, noise)
        self._descend(loss, networks.critic, self.critic_optimiser)
        self.critic_steps += 1
        figures = {"critic_loss": loss.item(), "value": said.mean().item()}
        if networks.learns_actor(self.critic_steps):
            actor_loss = networks.actor_loss(batch)
            self._descend(actor_loss, networks.actor, self.actor_optimiser)
            figures["policy_loss"] = actor_loss.item()
        networks.follow(self.critic_steps)
        return figures

    def _descend(self, loss: torch.Tensor, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), self.settings.grad_clip)
        optimiser.step()

    def _done_share(self) -> float:
        return min(1.0, self.decisions / self.recipe.agent_steps)

    def _sigma(self) -> float:
        return fallen(self.settings.noise_std, self.settings.noise_std_final, self._done_share(), self.settings)

    def _apply_schedule(self) -> None:
        """Learning rates and the fairness weight of this part of the run."""
        settings, done = self.settings, self._done_share()
        fall = 1 + done * (settings.lr_final_share - 1)
        for optimiser, rate in (
            (self.actor_optimiser, settings.actor_lr),
            (self.critic_optimiser, settings.critic_lr),
        ):
            for group in optimiser.param_groups:
                group["lr"] = fall * rate
        if settings.fairness:
            self.env.set_reward(with_fairness(self.recipe, fairness_part(settings, done)))

    # --- export, resume ---

    def tensors(self) -> Tensors:
        return denormalised(exported(self.networks.averaged), *self.scale.exact())

    def save(self, folder: Path) -> None:
        arrays = {name: value for name, value in vars(self.replay).items() if isinstance(value, np.ndarray)}
        for name, value in arrays.items():  # one file each: they are large
            plain_state.write(folder, f"replay-{name}", value)
        state = {
            "replay": {name: value for name, value in vars(self.replay).items() if name not in arrays},
            "scale": self.scale.state(),
            "episodes": self.episodes.state(),
            **{name: getattr(self, name) for name in _PLAIN},
            "rng": self.rng.bit_generator.state,
            "noise_generator": self.noise_generator.get_state(),
            **{name: getattr(self, name).state_dict() for name in _MODULES},
        }
        plain_state.write(folder, _LEARNER, state)
        plain_state.write(folder, _WORLDS, self.env.journal())

    def load(self, folder: Path) -> None:
        """Continue exactly from :meth:`save`; the worlds are simulated again up to that moment.

        Raises:
            OrbitccError: a file is missing, or is not what :meth:`save` writes with this recipe.
        """
        state, worlds = (plain_state.read(folder, name) for name in (_LEARNER, _WORLDS))
        arrays = [name for name, value in vars(self.replay).items() if isinstance(value, np.ndarray)]
        replay = {name: plain_state.read(folder, f"replay-{name}") for name in arrays}
        try:
            for name in _MODULES:
                getattr(self, name).load_state_dict(state[name])
            self.noise_generator.set_state(state["noise_generator"])
            vars(self.replay).update(state["replay"], **replay)
            self.scale.restore(state["scale"])
            self.episodes.restore(state["episodes"])
            for name in _PLAIN:
                setattr(self, name, state[name])
            self.rng.bit_generator.state = state["rng"]
            self._apply_schedule()
            self.env.replay(worlds)
        except Exception as error:  # torch raises what it pleases
            raise FileError("resume", str(folder), f"the state of a run of this recipe ({error})") from None

    def stop(self) -> None:
        self.env.close()


_LEARNER, _WORLDS = "astraea", "worlds"
_PLAIN = ("scale_fixed", "noise", "waits", "decided", "decisions", "critic_steps")
_MODULES = ("networks", "actor_optimiser", "critic_optimiser")


class Mean:
    """A running mean."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, values: NDArray[Any]) -> None:
        self.total += float(values.sum(dtype=np.float64))
        self.count += values.size

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else float("nan")


def delivered(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each flow's delivery rate in units of 100 Mbit/s."""
    return statistics[..., STATS["delivery_rate_bps"]] / 1e8


def fallen(first: float, last: float, done: float, settings: Td3Options) -> float:
    """Exploration between its initial and its final size, after this share of the run."""
    return first + min(1.0, done / settings.noise_decay) * (last - first)


def fairness_part(settings: Td3Options, done: float) -> int:
    """The part of the curriculum of fairness that a run is in after this share of it."""
    return min(int(done * len(settings.fairness)), max(len(settings.fairness) - 1, 0))


def with_fairness(recipe: Recipe, part: int) -> dict[str, Any]:
    """The reward of a recipe with the weight of fairness of a part of its curriculum."""
    paid = recipe.used_preset.native("reward")
    return {"name": paid.name, **paid.parameters, "fairness": recipe.options(Td3Options).fairness[part]}


def window_bdp(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each flow's window over the bandwidth-delay product of its path; 0 where there is no flow."""
    bdp = statistics[..., STATS["capacity_bps"]] / 8 * statistics[..., STATS["base_rtt_s"]]
    return np.where(bdp > 0, statistics[..., STATS["cwnd_packets"]] * 1460 / np.maximum(bdp, 1.0), 0.0)


def _follow(target: nn.Module, source: nn.Module, share: float) -> None:
    """Move the target's parameters by this share towards the source's, and so the running statistics of batch norm."""
    with torch.no_grad():
        torch._foreach_lerp_(_moving(target), _moving(source), share)


def _moving(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())]
