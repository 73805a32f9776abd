"""PPO in one file of plain PyTorch, in the manner of CleanRL: one policy for every flow of many worlds.

    python examples/ppo_flows.py --total_steps 500_000

Each flow is a sub-environment of `FlowVectorEnv`. With next-step autoreset the step after an end is a reset: no action
is applied, so it is left out of the batch.
"""

import argparse
import time
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

from orbitcc.envs.environments.flow_vector import FlowVectorEnv


@dataclass
class Args:
    """Hyper-parameters: those of the recipe `sb3-ppo-leo`."""

    scenario: str = "train-leo"
    preset: str = "astraea-leo"
    seed: int = 1
    total_steps: int = 500_000  # agent steps
    flows: int = 256  # flows side by side
    steps: int = 128  # of each flow per iteration
    minibatch: int = 4_096
    epochs: int = 8
    lr: float = 4e-4  # falls linearly to 0
    gamma: float = 0.98
    gae_lambda: float = 0.95
    clip: float = 0.2
    exploration_std: float = 0.4  # at first
    grad_clip: float = 0.5


def network(inputs: int, outputs: int, last: float) -> nn.Sequential:
    """Two hidden layers, orthogonal weights."""
    layers: list[nn.Module] = []
    for i, o, gain in ((inputs, 64, 2**0.5), (64, 64, 2**0.5), (64, outputs, last)):
        layers += [nn.Linear(i, o), nn.Tanh()]
        nn.init.orthogonal_(layers[-2].weight, gain)
        nn.init.zeros_(layers[-2].bias)
    return nn.Sequential(*layers[:-1])


def train(args: Args) -> list[float]:
    """Mean reward per decision of every iteration."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    env = FlowVectorEnv(args.flows, args.scenario, preset=args.preset, stagger=True)
    (dim,) = env.single_observation_space.shape
    actor, critic = network(dim, 1, 0.01), network(dim, 1, 1.0)
    log_std = nn.Parameter(torch.full((1,), args.exploration_std).log())
    parameters = [*actor.parameters(), *critic.parameters(), log_std]
    optimiser = torch.optim.Adam(parameters, lr=args.lr, eps=1e-5)

    shape = (args.steps, args.flows)
    obs = torch.zeros((*shape, dim))
    actions, log_probs, rewards, values, following = (torch.zeros(shape) for _ in range(5))
    over, valid = torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)
    now = torch.from_numpy(env.reset(seed=args.seed)[0])
    ended = np.zeros(args.flows, bool)
    history: list[float] = []
    done, began = 0, time.monotonic()
    while done < args.total_steps:
        optimiser.param_groups[0]["lr"] = args.lr * (1 - done / args.total_steps)
        for t in range(args.steps):
            with torch.no_grad():
                choice = Normal(actor(now).squeeze(1), log_std.exp())
                action = choice.sample()
                obs[t], actions[t], log_probs[t] = now, action, choice.log_prob(action)
                values[t] = critic(now).squeeze(1)
            valid[t] = torch.from_numpy(~ended)
            after, reward, terminated, truncated, _ = env.step(action[:, None].numpy())
            now = torch.from_numpy(after)
            with torch.no_grad():  # a truncated flow has a future, a finished one has none
                following[t] = critic(now).squeeze(1) * torch.from_numpy(~terminated)
            ended = terminated | truncated
            rewards[t], over[t] = torch.from_numpy(reward), torch.from_numpy(ended).float()

        advantages, running = torch.zeros(shape), torch.zeros(args.flows)
        for t in reversed(range(args.steps)):
            delta = rewards[t] + args.gamma * following[t] - values[t]
            running = delta + args.gamma * args.gae_lambda * (1 - over[t]) * running
            advantages[t] = running
        batch = [x[valid] for x in (obs, actions, log_probs, advantages, advantages + values)]
        history.append(float(rewards[valid].mean()))
        done += int(valid.sum())

        for _ in range(args.epochs):
            for rows in torch.randperm(len(batch[0])).split(args.minibatch):
                x, a, old, advantage, target = (part[rows] for part in batch)
                ratio = (Normal(actor(x).squeeze(1), log_std.exp()).log_prob(a) - old).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                gain = torch.min(ratio * advantage, ratio.clamp(1 - args.clip, 1 + args.clip) * advantage)
                loss = -gain.mean() + 0.5 * (critic(x).squeeze(1) - target).square().mean()
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, args.grad_clip)
                optimiser.step()
        speed = done / (time.monotonic() - began)
        std = log_std.detach().exp().item()
        print(f"{done:>9,} agent steps  reward {history[-1]:.4f}  std {std:.2f}  {speed:,.0f} steps/s")
    return history


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in fields(Args):
        parser.add_argument(f"--{option.name}", type=type(option.default), default=option.default)
    train(Args(**vars(parser.parse_args())))
