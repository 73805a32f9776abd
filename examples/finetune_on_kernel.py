"""Fine-tune a shipped policy on this machine's own TCP with Stable-Baselines3, and compare it before and after.

    python examples/finetune_on_kernel.py --minutes 10 --out runs/perigee-on-kernel

Needs root and what `orbitcc doctor` lists for agents. The kernel does not wait while PPO learns: the connection goes on
with its latest window, and the step after an update is one long interval.
"""

import argparse
import time
from pathlib import Path

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from orbitcc.agents import checkpoint
from orbitcc.emulator.run import emulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.presets import Native, preset
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.scenarios import get

POLICY = "perigee"
LEARNING_RATE = 5e-5
EXPLORATION_STD = 0.1


class Until(BaseCallback):
    """Stops at a time of the clock."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self.end = end

    def _on_step(self) -> bool:
        return time.monotonic() < self.end


def layers(model: PPO) -> list[torch.nn.Linear]:
    """The linear layers of the policy, in order."""
    hidden = [layer for layer in model.policy.mlp_extractor.policy_net if isinstance(layer, torch.nn.Linear)]
    return [*hidden, model.policy.action_net]


def goodput_and_delay(scenario: Scenario, policy: str, runs: int) -> tuple[float, float]:
    """Medians over runs on the kernel: Mbit/s, and smoothed RTT over base RTT."""
    entered = scenario.with_controller(f"policy:path={policy}")
    totals = [emulate(entered, seed=k).flow_totals[0] for k in range(1, runs + 1)]
    return tuple(float(np.median([total[key] for total in totals])) for key in ("goodput_mbps", "delay_inflation"))


def main(minutes: float, out: Path, runs: int = 3, duration_s: float = 45.0, steps: int = 1024) -> dict[str, tuple]:
    """Goodput and delay inflation before and after, by name."""
    torch.set_num_threads(1)
    shipped = checkpoint.SHIPPED / POLICY
    card, tensors = checkpoint.read(shipped)
    scenario = get("leo-responsiveness", run=1, duration_s=duration_s)
    mean, std = tensors["normaliser.mean"], tensors["normaliser.std"]
    chosen = preset(
        "ratios",
        observation=Native(card.observation.preset, card.observation.parameters),
        action=Native(card.action.preset, card.action.parameters),
        reward={"name": "log-share", "delay": 0.5, "loss": 0.5},
    )
    plain = CongestionEnv(scenario, preset=chosen, backend="emulator")
    box = gymnasium.spaces.Box(-card.clip, card.clip, plain.observation_space.shape, np.float32)
    env = gymnasium.wrappers.TransformObservation(
        plain, lambda obs: np.clip((obs - mean) / std, -card.clip, card.clip).astype(np.float32), box
    )
    hidden = [layer.units for layer in card.layers[:-1]]
    model = PPO(
        "MlpPolicy",
        env,
        learning_rate=LEARNING_RATE,
        n_steps=steps,
        batch_size=256,
        n_epochs=4,
        gamma=0.98,
        device="cpu",
        policy_kwargs={
            "activation_fn": torch.nn.Tanh,
            "net_arch": {"pi": hidden, "vf": hidden},
            "log_std_init": float(np.log(EXPLORATION_STD)),
        },
        seed=1,
    )
    with torch.no_grad():
        for index, layer in enumerate(layers(model)):
            layer.weight.copy_(torch.from_numpy(tensors[f"layers.{index}.weight"]))
            layer.bias.copy_(torch.from_numpy(tensors[f"layers.{index}.bias"]))
    before = goodput_and_delay(scenario, POLICY, runs)
    print(f"before: {before[0]:.1f} Mbit/s, {before[1]:.2f} x base RTT", flush=True)
    model.learn(10**9, callback=Until(time.monotonic() + 60 * minutes))
    print(f"{model.num_timesteps} decisions")
    env.close()
    tuned = dict(tensors)
    for index, layer in enumerate(layers(model)):
        tuned[f"layers.{index}.weight"] = layer.weight.detach().numpy().copy()
        tuned[f"layers.{index}.bias"] = layer.bias.detach().numpy().copy()
    changes = {"name": out.name, "description": f"{POLICY}, fine-tuned on a Linux kernel"}
    checkpoint.save(out, card.model_copy(update=changes), tuned)
    after = goodput_and_delay(scenario, str(out), runs)
    print(f"after:  {after[0]:.1f} Mbit/s, {after[1]:.2f} x base RTT: {out}")
    return {"before": before, "after": after}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=Path("runs/perigee-on-kernel"))
    given = parser.parse_args()
    main(given.minutes, given.out)
