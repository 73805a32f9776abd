"""One network, every way of stepping it: the packets are the same to the last one."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.agents import checkpoint
from orbitcc.agents.actions import with_parameters
from orbitcc.agents.policy import expected_tensors
from orbitcc.agents.safety_filter import filtered
from orbitcc.envs.description.scenario import Flow, Scenario
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.safety import SafetyFilter
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import get

SEED = 6
KEYS = ("sent_packets", "received_bytes", "lost_packets", "retransmitted_packets")


def scenario(agents: int):
    flows = [Flow(controller="external")] * agents + [Flow(controller="cubic", start_s=1)]
    # flows start together: one sub-environment per flow begins when everybody is there
    return get("dumbbell", duration_s=8, rate_mbps=20).with_flows(flows).override("sim.start_jitter_ms", 0.0)


LIMITS = [None, SafetyFilter(max_bdp=1.5, patience_s=0.0), SafetyFilter(min_rtt_ms=(60.0, 100.0), patience_s=0.5)]
"""No safety filter, one that bounds the window, and one by which Cubic takes over on this path of 30 ms."""


def loaded(limits: SafetyFilter | None, tmp_path: Path) -> checkpoint.Checkpoint:
    """The policy with a safety filter in its card, of which its preset is made."""
    made = checkpoint.load(filtered("perigee", tmp_path / "filtered", limits))
    assert (made.card.safety_filter, made.preset.safety_filter) == (limits, limits)
    return made


def totals(flows) -> list[list[float]]:
    return [[flow[key] for key in KEYS] for flow in flows]


def native(agents: int, policy: _sim.Policy, made: Scenario | None = None) -> list[list[float]]:
    network = json.loads((made or scenario(agents)).with_seed(SEED).compile())
    for flow in network["flows"][:agents]:
        flow["controller"] = {"name": "policy", "params": {"policy": "p"}}
    simulation = _sim.Simulation(json.dumps(network), policies={"p": policy})
    simulation.run()
    return totals(simulation.flow_totals())


@pytest.mark.parametrize("limits", LIMITS)
def test_one_agent_natively_alone_and_in_a_batch(limits: SafetyFilter | None, tmp_path: Path) -> None:
    policy = loaded(limits, tmp_path)
    act, expected, preset = policy.policy.act, native(1, policy.policy), policy.preset
    assert expected[0][0] > 1000
    assert limits is None or expected != native(1, checkpoint.load("perigee").policy), "the filter acts"
    single = CongestionEnv(scenario(1), preset=preset)
    obs, _ = single.reset(seed=SEED)
    over = False
    while not over:
        obs, _, _, over, _ = single.step(act(obs[None])[0])
    assert totals(single.totals()[0]) == expected

    vector = VectorCongestionEnv(3, scenario(1), preset=preset, threads=2)
    rows, _ = vector.reset(seed=[SEED + 1, SEED, SEED + 2])
    ended = np.zeros(3, bool)
    while not ended[1]:
        rows, _, _, ended, _ = vector.step(act(rows))
    assert totals(vector.totals(1)[0]) == expected


@pytest.mark.parametrize("limits", LIMITS)
def test_several_agents_natively_in_parallel_in_a_batch_and_in_flows(
    limits: SafetyFilter | None, tmp_path: Path
) -> None:
    policy = loaded(limits, tmp_path)
    act, expected, preset = policy.policy.act, native(3, policy.policy), policy.preset
    parallel = parallel_env(scenario(3), preset=preset)
    seen, _ = parallel.reset(seed=SEED)
    while parallel.agents:
        actions = act(np.stack([seen[agent] for agent in parallel.agents]))
        seen, *_ = parallel.step(dict(zip(parallel.agents, actions, strict=True)))
    assert totals(parallel.totals()[0]) == expected

    batched = BatchedParallelEnv(2, scenario(3), preset=preset, threads=2)
    obs, infos = batched.reset(seed=SEED)
    last = None
    while not infos.get("renewed", np.zeros(2, bool))[0]:
        actions = np.zeros((2, batched.max_agents, 1), np.float32)
        actions[infos["active"]] = act(obs[infos["active"]])
        last = batched.save(0)
        obs, _, _, _, infos = batched.step(actions)
        final = actions
    assert last is not None
    batched.restore(0, last)  # renewed within the step: play the last interval again
    batched._core.step(final)
    assert totals(batched.totals(0)[0]) == expected

    max_agents = FlowVectorEnv(3, scenario(3), preset=preset)
    rows, _ = max_agents.reset(seed=SEED)
    over = np.zeros(3, bool)
    while not over.any():
        rows, _, _, over, _ = max_agents.step(act(rows))
    assert totals(max_agents.totals(0)[0]) == expected


@pytest.mark.parametrize("limits", LIMITS)
def test_flows_with_other_rtts_and_starts_on_their_own_clocks_and_natively(
    limits: SafetyFilter | None, tmp_path: Path
) -> None:
    policy = loaded(limits, tmp_path)
    policy = checkpoint.load(with_parameters(policy.path, tmp_path / "rtts", {}, interval_rtts=0.5))
    flows = [
        Flow(controller="external", start_s=start_s, stop_s=stop_s, uplink_delay_ms=more_ms)
        for start_s, stop_s, more_ms in ((0.0, None, 0.0), (0.7, None, 70.0), (1.3, 6.1, 250.0))
    ]
    made = scenario(3).with_flows([*flows, Flow(controller="cubic", start_s=1)])
    expected = native(3, policy.policy, made)
    results = {}
    for clock in ("flow", "world"):
        env = parallel_env(made, preset=replace(policy.preset, clock=clock))
        seen, _ = env.reset(seed=SEED)
        while env.agents:
            actions = policy.policy.act(np.stack([seen[agent] for agent in env.agents]))
            seen, *_ = env.step(dict(zip(env.agents, actions, strict=True)))
        results[clock] = totals(env.totals()[0])
    assert results["flow"] == expected
    assert results["world"] != expected, "one clock for all is not what is played"


@pytest.mark.parametrize("limits", LIMITS[1:])
def test_a_constant_action_in_an_environment_and_as_a_network(limits: SafetyFilter, tmp_path: Path) -> None:
    plain = checkpoint.load("perigee")
    weights = {name: np.zeros_like(values) for name, values in plain.tensors.items()}
    bias = max(name for name in weights if name.startswith("layers.") and name.endswith(".bias"))
    weights[bias] = np.full_like(weights[bias], 0.5)
    card = plain.card.model_copy(update={"safety_filter": limits, "squash": "clip", "normaliser": False, "gate": None})
    weights = {name: values for name, values in weights.items() if name in expected_tensors(card)}
    same = checkpoint.load(checkpoint.save(tmp_path / "same", card, weights))
    env = CongestionEnv(scenario(1), preset=same.preset)
    env.reset(seed=SEED)
    over = False
    while not over:
        _, _, _, over, _ = env.step(np.full(1, 0.5, np.float32))
    assert totals(env.totals()[0]) == native(1, same.policy)
