"""Presets whose flows decide on their own clocks (`clock = "flow"`), in RLlib's learners of single flows."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.scenarios import get
from orbitcc.training import recipe
from tests.commands.shell import called

pytest.importorskip("ray.rllib")
import torch
from ray.rllib.core.columns import Columns

from orbitcc.envs.environments.rllib import StatefulFlowVectorEnv, counting_decisions
from orbitcc.training import rllib
from orbitcc.training.rllib.critic import PrivilegedFlows
from orbitcc.training.rllib.runner import DECIDES, ArrayEnvRunner
from orbitcc.training.rllib.td3 import CriticFlows

FIELDS = ("interval_rtts=0.5", "interval_least_ms=5", "interval_ms=30")
SMALL_PPO = ("learner.flows=6", "learner.batch=1200", "learner.minibatch=256", "network.hidden=[16, 8]")
SMALL_TD3 = (
    "learner.worlds=3",
    "learner.iteration=500",
    "learner.learning_starts=600",
    "learner.batch=64",
    "learner.replay=20000",
    "network.hidden=[16, 8]",
    "network.critic_hidden=[16, 16]",
)
KINDS: dict[str, tuple[str, type[StatefulFlowVectorEnv], tuple[str, ...]]] = {
    "global state": ("rllib-ppo-leo", StatefulFlowVectorEnv, SMALL_PPO),
    "privileged": ("rllib-ppo-leo", PrivilegedFlows, (*SMALL_PPO, "learner.privileged_critic=true")),
    "td3": ("astraea", CriticFlows, SMALL_TD3),
}
"""Recipe, environment and settings."""


def two_flows(folder: Path) -> str:
    """A scenario file: base RTTs of 40 and 200 ms, and the second flow changes hands."""
    late = Flow(controller="external", start_s=1.0, stop_s=5.0, uplink_delay_ms=160.0)
    path = get("dumbbell", base_rtt_ms=40.0, rate_mbps=20.0, duration_s=7.0)
    return str(path.with_flows([Flow(controller="external"), late]).save(folder / "two.toml"))


def plan_of(name: str, scenario: str, clock: str, *changes: str) -> recipe.Recipe:
    by_rllib = [] if name.startswith("rllib") else recipe.by_learner(recipe.load(name), "rllib")
    fields = [f"preset.{field}" for field in (*FIELDS, f"clock={clock}")]
    return recipe.load(name, [*by_rllib, f"scenario={scenario}", *fields, *changes])


class Watched:
    """A runner whose environment's resets and steps are written down."""

    def __init__(self, config: Any) -> None:
        self.runner = ArrayEnvRunner(config=config)
        self.seeds: list[int | None] = []
        self.actions: list[np.ndarray] = []
        env = self.runner.env.unwrapped
        reset, step = env.reset, env.step

        def reset_(*, seed=None, options=None):
            self.seeds.append(seed)
            return reset(seed=seed, options=options)

        def step_(actions):
            self.actions.append(np.array(actions))
            return step(actions)

        env.reset, env.step = reset_, step_


def by_plain_loop(env, seed: int | None, actions: list[np.ndarray]) -> tuple[dict[int, list[dict]], int]:
    """The episodes of each flow, as a dictionary of open decisions finds them, and how many decisions are complete."""
    with counting_decisions():
        made = env()
    obs, _ = made.reset(seed=seed)
    due, open_ = made.active(), {}
    episodes: dict[int, list[dict]] = defaultdict(list)
    complete = 0
    for action in actions:
        for flow in range(made.num_envs):
            if due[flow]:
                assert flow not in open_, "complete before the next one"
                open_[flow] = {"obs": obs[flow].copy(), "action": action[flow], "reward": 0.0}
        obs, rewards, terminated, truncated, _ = made.step(action)
        due = made.active()
        for flow in range(made.num_envs):
            over = bool(terminated[flow] or truncated[flow])
            due[flow] &= not over
            if flow not in open_:
                continue
            open_[flow]["reward"] += rewards[flow]
            if over or due[flow]:
                if not episodes[flow] or episodes[flow][-1]["over"]:
                    episodes[flow].append({"decisions": [], "over": False})
                episodes[flow][-1]["decisions"].append(open_.pop(flow))
                episodes[flow][-1] |= {"over": over, "last": obs[flow].copy()}
                complete += 1
    made.close()
    return episodes, complete


def joined(samples: list[list[Any]]) -> list[dict[str, Any]]:
    """Whole episodes, in the order in which they began to be sampled, from their parts in consecutive samples."""
    found: dict[str, dict[str, Any]] = {}
    for sample in samples:
        assert len({part.id_ for part in sample}) == len(sample)
        for part in sample:
            assert len(part) > 0
            assert len(part.get_observations()) == len(part) + 1
            whole = found.setdefault(part.id_, {"obs": [], "actions": [], "rewards": [], "inputs": [], "over": False})
            assert not whole["over"]
            assert part.t_started == len(whole["rewards"])
            if whole["rewards"]:
                assert np.array_equal(part.get_observations(0), whole["last"])
            whole["obs"] += list(part.get_observations()[:-1])
            whole["actions"] += list(part.get_actions())
            whole["rewards"] += list(part.get_rewards())
            if "action_dist_inputs" in part.extra_model_outputs:
                whole["inputs"] += list(part.get_extra_model_outputs("action_dist_inputs"))
            whole["over"], whole["last"] = part.is_done, part.get_observations(-1)
    return list(found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_the_decisions_that_a_plain_loop_finds(kind: str, tmp_path: Path) -> None:
    name, env, changes = KINDS[kind]
    plan = plan_of(name, two_flows(tmp_path), "flow", *changes)
    config = rllib.config(plan, seed=1)
    watched = Watched(config)
    runner = watched.runner
    samples = [runner.sample(num_timesteps=count) for count in (400, 7, 5, 1, 900)]
    (seed,) = watched.seeds

    arguments = dict(config.env_config)
    arguments.pop("global_state", None)
    wanted, complete = by_plain_loop(lambda: env(6, **arguments), seed, watched.actions)

    episodes = joined(samples)
    by_actions = {runner._for_env(np.array(one["actions"])).tobytes(): one for one in episodes}
    assert len(by_actions) == len(episodes)
    for wish in (one for flow in wanted.values() for one in flow):
        found = by_actions.pop(np.array([one["action"] for one in wish["decisions"]]).tobytes())
        assert found["over"] is wish["over"]
        assert np.array_equal(found["last"], wish["last"])
        assert np.array_equal(found["obs"], [one["obs"] for one in wish["decisions"]])
        assert np.array_equal(found["rewards"], [one["reward"] for one in wish["decisions"]])
        if found["inputs"]:  # what the module has told is that of the same row
            seen = {Columns.OBS: torch.from_numpy(np.array(found["obs"]))}
            told = runner.module.forward_inference(seen)[Columns.ACTION_DIST_INPUTS]
            assert np.allclose(told, found["inputs"], atol=1e-5)
    assert not by_actions
    assert sum(one["over"] for one in episodes) >= 6
    lengths = {flow: sum(len(one["decisions"]) for one in wanted[flow]) for flow in wanted}
    assert lengths[0] > 2 * lengths[1], "the RTTs differ"

    counts = [sum(len(part) for part in sample) for sample in samples]
    assert sum(counts) == complete
    assert all(asked <= count < asked + 6 for asked, count in zip((400, 7, 5, 1, 900), counts, strict=True))
    metrics = runner.get_metrics()
    assert metrics["num_env_steps_sampled_lifetime"].peek() == complete
    assert metrics["decisions"].peek() == complete
    assert metrics["num_episodes"].peek() == sum(one["over"] for one in episodes)
    paid = sum(sum(one["rewards"]) for one in episodes)
    assert metrics["reward_sum"].peek() == pytest.approx(paid)


def test_with_one_flow_in_each_world_both_clocks_are_sampled_alike(tmp_path: Path) -> None:
    scenario = get("dumbbell", base_rtt_ms=40.0, rate_mbps=20.0, duration_s=4.0).with_flows(
        [Flow(controller="external")]
    )
    file = str(scenario.save(tmp_path / "one.toml"))
    samples = {}
    for clock in ("world", "flow"):
        runner = ArrayEnvRunner(config=rllib.config(plan_of("rllib-ppo-leo", file, clock, *SMALL_PPO), seed=1))
        samples[clock] = [runner.sample(num_timesteps=count) for count in (600, 7, 1200)]
    ends = 0
    for ours, theirs in zip(samples["flow"], samples["world"], strict=True):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert (one.t_started, one.t, one.is_truncated) == (other.t_started, other.t, other.is_truncated)
            ends += one.is_truncated
            for part in ("observations", "actions", "rewards"):
                assert np.array_equal(getattr(one, f"get_{part}")(), getattr(other, f"get_{part}")()), part
            for column in ("action_logp", "action_dist_inputs"):
                assert np.array_equal(one.get_extra_model_outputs(column), other.get_extra_model_outputs(column))
    assert ends >= 6


def test_the_learner_gets_every_decision_of_a_sample_once(tmp_path: Path) -> None:
    config = rllib.config(plan_of("rllib-ppo-leo", two_flows(tmp_path), "flow", *SMALL_PPO), seed=1)
    runner = ArrayEnvRunner(config=config)
    learner = config.build_learner(spaces=runner.get_spaces())
    for _ in range(2):
        samples = runner.sample()
        rewards = np.concatenate([part.get_rewards() for part in samples])
        batch = learner._learner_connector(rl_module=learner.module, batch={}, episodes=samples, shared_data={})
        rows = batch["default_policy"]
        assert int(rows["loss_mask"].sum()) == len(rewards) >= 1200
        assert np.allclose(rows["rewards"][rows["loss_mask"]], rewards)


def test_whole_episodes_have_the_decisions_of_their_flows(tmp_path: Path) -> None:
    config = rllib.config(plan_of("rllib-ppo-leo", two_flows(tmp_path), "flow", *SMALL_PPO), seed=1)
    runner = ArrayEnvRunner(config=config)
    runner.sample(num_timesteps=20)  # leaves open decisions, which are of worlds that are gone then
    for _ in range(2):
        episodes = runner.sample(num_episodes=4)
        assert len(episodes) >= 4
        assert all(part.is_done and part.t_started == 0 and len(part) > 0 for part in episodes)
    begun = runner.sample(num_timesteps=6)
    assert all(part.t_started == 0 for part in begun)


def test_of_a_decision_that_another_kind_of_sample_made_the_module_told_nothing(tmp_path: Path) -> None:
    config = rllib.config(plan_of("rllib-ppo-leo", two_flows(tmp_path), "flow", *SMALL_PPO), seed=1)
    watched = Watched(config)
    runner = watched.runner
    samples = [runner.sample(num_timesteps=60, random_actions=random) for random in (True, False, False, True)]
    arguments = {key: value for key, value in config.env_config.items() if key != "global_state"}
    _, complete = by_plain_loop(lambda: StatefulFlowVectorEnv(6, **arguments), watched.seeds[0], watched.actions)
    assert sum(len(part) for sample in samples for part in sample) == complete
    assert len(joined(samples)) >= 6
    unknown = []
    for sample in samples[1:3]:
        told = np.concatenate([part.get_extra_model_outputs("action_logp") for part in sample])
        unknown.append(np.count_nonzero(np.isnan(told)))
    assert 0 < unknown[0] < 6
    assert unknown[1] == 0
    assert not any(part.extra_model_outputs for sample in (samples[0], samples[3]) for part in sample)


def test_the_noise_of_a_flow_that_waits_stays(tmp_path: Path) -> None:
    config = rllib.config(plan_of("astraea", two_flows(tmp_path), "flow", *SMALL_TD3), seed=1)
    runner = ArrayEnvRunner(config=config)
    runner.sample(num_timesteps=30)
    module, changed = runner.module, []
    before = module._noise.clone()
    rows = torch.from_numpy(runner._observations)
    due = torch.tensor([True, False, True, False, False, True])
    module.forward_exploration({Columns.OBS: rows, DECIDES: due})
    changed = (module._noise != before)[:, 0]
    assert torch.equal(changed, due)


@pytest.mark.parametrize("name", ["ppo-leo", "astraea"])
def test_recipes_of_ours_learn_with_rllib_on_flows_own_clocks(name: str, tmp_path: Path) -> None:
    evaluation = ("agent_steps=3000", "least_agent_steps=1", "evaluation.every=1500", "evaluation.worlds=2")
    changes = SMALL_PPO if name == "ppo-leo" else SMALL_TD3
    fields = [f"preset.{field}" for field in (*FIELDS, "clock=flow")]
    settings = [word for one in (*evaluation, *changes, *fields) for word in ("--set", one)]
    scenario = two_flows(tmp_path)
    settings += ["--set", f"scenario={scenario}"]
    done = called("train", name, "--learner", "rllib", "--name", "run", "--out", str(tmp_path), *settings)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    reached = json.loads((run / "state" / "progress.json").read_text(encoding="utf-8"))["agent_steps"]
    assert reached >= 3000
    loaded = checkpoint.load(run / "last")
    assert (loaded.card.clock, loaded.preset.clock) == ("flow", "flow")
    assert "learner/policy_loss" in (run / "metrics.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("env_runners", [0, 2])
def test_schedules_and_figures_count_decisions(env_runners: int, tmp_path: Path) -> None:
    changes = (
        *SMALL_PPO,
        f"learner.env_runners={env_runners}",
        "learner.lr=1e-3",
        "learner.lr_final=1e-4",
        "learner.lr_decay=6000",
    )
    learner = rllib.RLlibLearner(plan_of("rllib-ppo-leo", two_flows(tmp_path), "flow", *changes), seed=1)
    try:
        first, second = learner.iterate(), learner.iterate()
        counted = first["agent_steps"] + second["agent_steps"]
        assert 2400 <= counted < 2400 + 2 * 6 * max(env_runners, 1)
        assert learner.algorithm.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime")) == counted
        assert second["learner/learning_rate"] == pytest.approx(1e-3 - 9e-4 * counted / 6000, rel=1e-3)
        assert -0.1 <= second["train/reward"] <= 0.1
    finally:
        learner.stop()
