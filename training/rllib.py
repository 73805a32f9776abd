"""Shared-policy PPO with RLlib (new API stack).

All agents of all worlds feed one network. RLlib samples and learns; this file configures it, watches it, scores it on
held-out worlds and exports it. `env_runners = 0` keeps everything in one process, which is the fastest on a few cores;
more of them spread over a Ray cluster.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.agents import checkpoint
from orbitcc.agents.card import Action, Card, Layer, Observation, Training
from orbitcc.agents.envelope import envelope
from orbitcc.agents.folders import replace_folder, scratch
from orbitcc.agents.policy import build
from orbitcc.agents.runs import RunFolder, versions
from orbitcc.envs import scenarios
from orbitcc.envs.errors import FileError
from orbitcc.envs.presets import observation_hash, preset
from orbitcc.training.heldout import HeldOut, Scores
from orbitcc.training.logbook import Display, Logbook
from orbitcc.training.recipe import Recipe

MODULE = "shared"
_PROGRESS = "progress.json"


@dataclass
class Progress:
    """Where a run stands; saved with the learner's state."""

    agent_steps: int = 0
    seconds: float = 0.0
    best_reward: float = -float("inf")
    restarts: int = 0
    evaluated_at: int = -1
    scores: Scores = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    run: RunFolder
    agent_steps: int
    finished: bool
    best_reward: float
    scores: Scores


def train(recipe: Recipe, seed: int, run: RunFolder, *, resume: bool, command: str) -> Outcome:
    """Train until `recipe.agent_steps`, or until interrupted (Ctrl-C or SIGTERM), which saves and returns.

    Raises:
        OrbitccError: the run folder's state cannot be read.
    """
    progress = _read_progress(run) if resume else Progress()
    heldout = HeldOut(recipe.scenario, recipe.preset, recipe.evaluation.worlds, recipe.evaluation.seed)
    with _Interrupt() as interrupt, Display(recipe.agent_steps, recipe.name) as display:
        display.say(f"run folder {run.path}")
        algorithm = _start(recipe, seed + 100_003 * progress.restarts)
        logbook = Logbook(run, progress.agent_steps if resume else None)
        try:
            if resume:
                algorithm.restore_from_path(str((run.state / "rllib").resolve()))
            loop = _Loop(recipe, seed, run, command, progress, heldout, logbook, display, algorithm)
            scores = loop.run(interrupt)
        finally:
            logbook.close()
            algorithm.stop()
            _shutdown()
    finished = progress.agent_steps >= recipe.agent_steps
    return Outcome(run, progress.agent_steps, finished, progress.best_reward, scores)


@dataclass
class _Loop:
    recipe: Recipe
    seed: int
    run_folder: RunFolder
    command: str
    progress: Progress
    heldout: HeldOut
    logbook: Logbook
    display: Display
    algorithm: Any

    def run(self, interrupt: _Interrupt) -> Scores:
        """Iterations of sampling and learning, with an evaluation and a save every so often and at the end."""
        progress, target, every = self.progress, self.recipe.agent_steps, self.recipe.evaluation.every
        while not interrupt.requested:
            if progress.evaluated_at < 0 or progress.agent_steps - progress.evaluated_at >= every:
                self._evaluate_and_save()
            if progress.agent_steps >= target:
                break
            began = time.monotonic()
            figures = _figures(self.algorithm.train(), self.recipe.ppo.reward_scale)
            progress.seconds += time.monotonic() - began
            progress.agent_steps += int(figures.pop("agent_steps"))
            self.logbook.write(progress.agent_steps, figures)
            self.display.update(
                progress.agent_steps,
                f"reward {figures['train/reward']:.4f}, held-out {progress.scores['reward']:.4f}, "
                f"{figures['train/agent_steps_per_s']:,.0f} steps/s",
            )
        if progress.evaluated_at != progress.agent_steps:
            self._evaluate_and_save()
        if interrupt.requested:
            self.display.say("interrupted; saved: continue with --resume")
        return progress.scores

    def _evaluate_and_save(self) -> None:
        tensors = export(self.algorithm.get_module(MODULE), self.recipe)
        card = self._card()
        scores = self.heldout.score(build(card, tensors))
        self.progress.scores, self.progress.evaluated_at = scores, self.progress.agent_steps
        self.logbook.write(self.progress.agent_steps, {f"heldout/{key}": value for key, value in scores.items()})
        card = card.model_copy(update={"scores": {"heldout": _rounded(scores)}})
        if scores["reward"] > self.progress.best_reward:
            self.progress.best_reward = scores["reward"]
            checkpoint.save(self.run_folder.best, card, tensors)
        checkpoint.save(self.run_folder.last, card, tensors)
        self._save_state()

    def _save_state(self) -> None:
        fresh = scratch(self.run_folder.state)
        try:
            self.algorithm.save_to_path(str((fresh / "rllib").resolve()))
            (fresh / _PROGRESS).write_text(json.dumps(asdict(self.progress)), encoding="utf-8")
            replace_folder(fresh, self.run_folder.state)
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            raise FileError("out", str(self.run_folder.path), f"a writable folder ({error.strerror})") from None

    def _card(self) -> Card:
        pieces = preset(self.recipe.preset)
        observation, action = str(pieces.observation), str(pieces.action)
        widths = [*self.recipe.network.hidden, pieces.action_space().shape[0]]
        activations = [self.recipe.network.activation] * len(self.recipe.network.hidden) + ["linear"]
        interval_hours = pieces.interval_ms / 3.6e6
        return Card(
            name=self.recipe.name,
            description=self.recipe.description,
            observation=Observation(
                preset=observation, dim=pieces.observation_space().shape[0], hash=observation_hash(observation)
            ),
            action=Action(preset=action, dim=widths[-1]),
            interval_ms=pieces.interval_ms,
            layers=tuple(
                Layer.model_validate({"units": units, "activation": activation})
                for units, activation in zip(widths, activations, strict=True)
            ),
            envelope=envelope(scenarios.load(self.recipe.scenario)),
            training=Training(
                recipe=self.recipe.name,
                command=self.command,
                seed=self.seed,
                revision=str(self.run_folder.config()["revision"]),  # the sources may move on while it trains
                agent_steps=self.progress.agent_steps,
                simulated_hours=round(self.progress.agent_steps * interval_hours, 3),
                wall_minutes=round(self.progress.seconds / 60, 2),
                versions=versions(),
            ),
        )


def config(recipe: Recipe, seed: int) -> Any:
    """The RLlib `PPOConfig` of a recipe."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    from orbitcc.envs.rllib import RLlibCongestionEnv

    ppo = recipe.ppo
    arguments = {
        "scenario": recipe.scenario,
        "preset": recipe.preset,
        "reward_scale": ppo.reward_scale,
        "stagger": True,
        "give_up_below": ppo.give_up_below,
        "give_up_steps": math.ceil(ppo.give_up_s * 1e9 / preset(recipe.preset).interval_ns),
    }
    return (
        PPOConfig()
        .environment(RLlibCongestionEnv, env_config=arguments, disable_env_checking=True)
        .env_runners(num_env_runners=ppo.env_runners, num_envs_per_env_runner=ppo.worlds)
        .learners(num_learners=0)
        # Batches count steps of worlds: RLlib's count of agent steps breaks (NaN) once an agent it has seen stays away
        # for a whole iteration, as late joiners and leavers do.
        .multi_agent(policies={MODULE}, policy_mapping_fn=_everyone_shares, count_steps_by="env_steps")
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=list(recipe.network.hidden),
                fcnet_activation=recipe.network.activation,
                vf_share_layers=False,
            )
        )
        .training(
            train_batch_size_per_learner=ppo.batch,
            minibatch_size=ppo.minibatch,
            num_epochs=ppo.epochs,
            lr=[[0, ppo.lr], [ppo.lr_decay, ppo.lr_final]],  # linear in steps of worlds, then constant
            gamma=ppo.gamma,
            lambda_=ppo.gae_lambda,
            clip_param=ppo.clip,
            entropy_coeff=ppo.entropy,
            grad_clip=ppo.grad_clip,
            vf_clip_param=ppo.value_clip,
            use_kl_loss=True,  # with weight 0: the divergence is reported, the clipping does the work
            kl_coeff=0.0,
        )
        .callbacks(on_sample_end=_log_rewards)
        .debugging(seed=seed, log_level="ERROR")
    )


def export(module: Any, recipe: Recipe) -> dict[str, NDArray[np.float32]]:
    """The policy network of an RLlib module as the tensors of a checkpoint: mean actions only, no exploration."""
    actions = preset(recipe.preset).action_space().shape[0]
    state = {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}
    sources = [f"encoder.actor_encoder.net.mlp.{2 * i}" for i in range(len(recipe.network.hidden))] + ["pi.net.mlp.0"]
    tensors = {}
    for index, source in enumerate(sources):
        weight, bias = state[f"{source}.weight"], state[f"{source}.bias"]
        if source == sources[-1]:  # the head gives means, then logarithms of standard deviations
            weight, bias = weight[:actions], bias[:actions]
        tensors[f"layers.{index}.weight"] = np.ascontiguousarray(weight, np.float32)
        tensors[f"layers.{index}.bias"] = np.ascontiguousarray(bias, np.float32)
    return tensors


def _start(recipe: Recipe, seed: int) -> Any:
    # Ray reads these when it is imported or started: no token file in the home folder, no reports to its makers
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import logging

    import ray
    import torch

    torch.set_num_threads(1)  # networks this small lose more to thread hand-over than they gain
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")  # set: the cluster to scale out on
        local = {} if address else {"num_cpus": recipe.ppo.env_runners + 1, "include_dashboard": False}
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)  # after init, which sets it
    algorithm = config(recipe, seed).build_algo()
    log_std = math.log(recipe.ppo.exploration_std)
    algorithm.learner_group.foreach_learner(lambda learner: _set_log_std(learner.module[MODULE], log_std))
    algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=algorithm.learner_group, inference_only=True)
    return algorithm


def _set_log_std(module: Any, value: float) -> None:
    """Start the exploration at one standard deviation everywhere: the head's bias; its weights begin near zero."""
    import torch

    with torch.no_grad():
        bias = module.pi.net.mlp[0].bias
        bias[len(bias) // 2 :] = value


def _shutdown() -> None:
    import ray

    ray.shutdown()


def _everyone_shares(agent: str, *rest: Any, **more: Any) -> str:
    return MODULE


def _log_rewards(*, samples: list[Any], metrics_logger: Any, **_: Any) -> None:
    """RLlib callback: sums over everything sampled, for the mean reward per decision."""
    metrics_logger.log_value("reward_sum", sum(float(episode.get_return()) for episode in samples), reduce="sum")
    metrics_logger.log_value("decisions", sum(episode.agent_steps() for episode in samples), reduce="sum")


def _figures(result: dict[str, Any], reward_scale: float) -> dict[str, float]:
    sampled, learned = result["env_runners"], result["learners"][MODULE]
    decisions = max(1.0, float(sampled["decisions"]))
    return {
        "agent_steps": decisions,
        "train/reward": float(sampled["reward_sum"]) / (decisions * reward_scale),
        "train/agent_steps_per_s": decisions / float(result["time_this_iter_s"]),
        "learner/policy_loss": float(learned["policy_loss"]),
        "learner/value_loss": float(learned["vf_loss"]),
        "learner/value_explained": float(learned["vf_explained_var"]),
        "learner/entropy": float(learned["entropy"]),
        "learner/kl": float(learned["mean_kl_loss"]),
    }


def _rounded(scores: Scores) -> dict[str, float | None]:
    return {key: round(value, 6) if np.isfinite(value) else None for key, value in scores.items()}


def _read_progress(run: RunFolder) -> Progress:
    path = run.state / _PROGRESS
    try:
        progress = Progress(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise FileError("resume", str(path), f"the progress file of a run ({error})") from None
    progress.restarts += 1
    return progress


class _Interrupt:
    """The first Ctrl-C or SIGTERM asks for an orderly end, the second Ctrl-C forces one."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> _Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
