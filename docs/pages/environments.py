"""A page for every registered environment: spaces, parameters, reward, a picture and an animation of a policy."""

from __future__ import annotations

import inspect
import io
import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from orbitcc.agents.data.decisions import Actor
from orbitcc.envs.description.scenario import ControllerSpec, ScenarioDistribution
from orbitcc.envs.environments.presets import DEFAULT, PRESETS, describe
from orbitcc.envs.environments.registration import IDS, test_id
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.scenarios import DISTRIBUTIONS, SCENARIOS, Runs, for_training

from . import write_changed
from .reference import allowed, code, prose

POLICY = "perigee"
FRAMES, EVERY_S, SIZE = 16, 1.2, (480, 270)
"""An animation shows 19 s in 16 frames."""


def film(scenario: str) -> tuple[bytes, bytes]:
    """A PNG and a GIF of a policy that ships with OrbitCC, with seed 1."""
    actor = Actor.of(ControllerSpec(name=POLICY))
    assert actor.act is not None
    assert actor.preset is not None
    env = CongestionEnv(scenario, preset=actor.preset, render_mode="rgb_array")
    obs, _ = env.reset(seed=1)
    pictures, steps, over = [], round(EVERY_S / (actor.preset.interval_ms / 1e3)), False
    for _ in range(FRAMES):
        for _ in range(steps):
            obs, _, terminated, truncated, _ = env.step(actor.act(obs[None])[0])
            over = terminated or truncated
            if over:
                break
        frame: Any = env.render()
        pictures.append(Image.fromarray(frame))
        if over:
            break
    env.close()
    still, moving = io.BytesIO(), io.BytesIO()
    pictures[-1].quantize(64).save(still, "PNG", optimize=True)
    small = [picture.resize(SIZE, Image.Resampling.LANCZOS).quantize(32) for picture in pictures]
    small[0].save(moving, "GIF", save_all=True, append_images=small[1:], duration=200, loop=0, optimize=True)
    return still.getvalue(), moving.getvalue()


def parameters(scenario: str) -> str:
    """The table of a scenario's parameters, which are arguments of its environment."""
    if scenario not in SCENARIOS:
        return (
            "Every episode draws a new world from a distribution. A distribution has no parameters. Change its fields "
            "in a [recipe](../recipes.md) or with `--set`."
        )
    signature = inspect.signature(SCENARIOS[scenario].build)
    rows = ["| parameter | default | allowed |", "|---|---|---|"]
    hints = inspect.get_annotations(inspect.unwrap(SCENARIOS[scenario].build), eval_str=True)
    for name, parameter in signature.parameters.items():
        annotation = hints.get(name, parameter.annotation)
        default = parameter.default
        taken = re.sub(r"\[a table\]\(#\w+\)", "a table", allowed(annotation, ()))
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        rows.append(f"| `{name}` | {code(shown)} | {taken} |")
    return "\n".join(rows)


def episodes(scenario: str) -> str:
    """What the episodes of an environment are drawn from, and whether one may train on them."""
    if scenario in DISTRIBUTIONS:
        return "for training: every episode draws a new world from a distribution"
    if isinstance(for_training(scenario), Runs):
        test = test_id(scenario)
        return f"for training: every episode draws a run that no suite uses. For tests: `{test}` is run 1 of the suites"
    return "the same links in every episode, so for tests: suites use them, too"


def page(env_id: str, scenario: str) -> str:
    env = CongestionEnv(scenario)
    loaded = for_training(scenario)
    example = loaded.example if isinstance(loaded, Runs) else loaded
    description = loaded.description if isinstance(loaded, ScenarioDistribution) else SCENARIOS[scenario].description
    act, obs = env.action_space, env.observation_space
    native = env.config.preset.native("action").definition("action")
    reward = env.config.preset.native("reward").definition("reward")
    length = "drawn" if not hasattr(example, "duration_s") else f"{np.max(example.duration_s):g} s"
    other = ", ".join(f"`{name}`" for name in PRESETS)
    return f"""# {env_id}

{prose(description)}

![Animation of the policy {POLICY} in this environment](images/{scenario}.gif)

```python
import gymnasium
import orbitcc

env = gymnasium.make("{env_id}")
observation, info = env.reset(seed=1)
observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
```

| | |
|---|---|
| scenario | `{scenario}` |
| episodes | {episodes(scenario)} |
| action space | `Box({act.low.min():g}, {act.high.max():g}, {act.shape}, float32)` |
| observation space | `Box({obs.low.min():g}, {obs.high.max():g}, {obs.shape}, float32)` |
| decision interval | {env.config.preset.interval_ms:g} ms |
| episode | {length} |
| several worlds | `gymnasium.make_vec("{env_id}", num_envs=8, vectorization_mode="vector_entry_point")` |
| all agents | `orbitcc.parallel_env("{scenario}")` (PettingZoo) |

## Parameters

Arguments of `gymnasium.make`, in addition to those of [all environments](../../environments.md#settings).

{parameters(scenario)}

## Actions

With the default preset, `{DEFAULT}`: {native["meaning"]}.

[Presets](../../presets.md) describes the others: {other}.

## Observations

{describe(DEFAULT)}

## Rewards

With the default preset, the reward is between {reward["low"]:.2g} and {reward["high"]:.2g} per decision and the same
for all agents of a world: the mean of 0.1 × (ln(share of the capacity) − 0.5 × queueing delay / base RTT − needless
loss).

## End of an episode

The time limit, or a scheduled leave of the flow, truncates the episode. A completed transfer terminates it.

## Picture

A frame of `render_mode="rgb_array"`: goodput of every flow and capacity, queue, RTT and handovers. The policy
`{POLICY}` controls the agent.

![Goodput, queue and RTT at the bottleneck in the last 20 s](images/{scenario}.png)
"""


def _pictured(scenario: str) -> tuple[str, tuple[bytes, bytes]]:
    return scenario, film(scenario)


def write(folder: Path) -> None:
    """Write all pages, their index, and the pictures that are missing."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    missing = [scenario for scenario in IDS.values() if not (images / f"{scenario}.gif").exists()]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for scenario, (still, moving) in pool.map(_pictured, missing):
            (images / f"{scenario}.png").write_bytes(still)
            (images / f"{scenario}.gif").write_bytes(moving)
            print(f"rendered {scenario}", flush=True)
    index = ["# Environments by id", "", "One environment for every scenario that needs no argument.", ""]
    index += ["| id | scenario | episodes |", "|---|---|---|"]
    for env_id, scenario in IDS.items():
        write_changed(folder / f"{scenario}.md", page(env_id, scenario))
        loaded = for_training(scenario)
        told = loaded.description if isinstance(loaded, ScenarioDistribution) else SCENARIOS[scenario].description
        index.append(f"| [{env_id}]({scenario}.md) | {prose(told).replace('|', ' ')} | {episodes(scenario)} |")
    index += ["", "```{toctree}", ":hidden:", "", *IDS.values(), "```", ""]
    write_changed(folder / "index.md", "\n".join(index))
