"""One network, every way of stepping it: the packets are the same to the last one."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from orbitcc import _sim
from orbitcc.agents import checkpoint
from orbitcc.agents.actions import with_parameters
from orbitcc.envs.description.scenario import Flow, Scenario
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import get

SEED = 6
KEYS = ("sent_packets", "received_bytes", "lost_packets", "retransmitted_packets")


def scenario(agents: int):
    flows = [Flow(controller="external")] * agents + [Flow(controller="cubic", start_s=1)]
    # flows start together: one sub-environment per flow begins when everybody is there
    return get("dumbbell", duration_s=8, rate_mbps=20).with_flows(flows).override("sim.start_jitter_ms", 0.0)


LOADED = checkpoint.load("perigee")
PRESET = LOADED.preset


def totals(flows) -> list[list[float]]:
    return [[flow[key] for key in KEYS] for flow in flows]


def native(agents: int, made: Scenario | None = None, policy: _sim.Policy = LOADED.policy) -> list[list[float]]:
    network = json.loads((made or scenario(agents)).with_seed(SEED).compile())
    for flow in network["flows"][:agents]:
        flow["controller"] = {"name": "policy", "params": {"policy": "p"}}
    simulation = _sim.Simulation(json.dumps(network), policies={"p": policy})
    simulation.run()
    return totals(simulation.flow_totals())


def test_one_agent_natively_alone_and_in_a_batch() -> None:
    act, expected = LOADED.policy.act, native(1)
    assert expected[0][0] > 1000
    single = CongestionEnv(scenario(1), preset=PRESET)
    obs, _ = single.reset(seed=SEED)
    over = False
    while not over:
        obs, _, _, over, _ = single.step(act(obs[None])[0])
    assert totals(single.totals()[0]) == expected

    vector = VectorCongestionEnv(3, scenario(1), preset=PRESET, threads=2)
    rows, _ = vector.reset(seed=[SEED + 1, SEED, SEED + 2])
    ended = np.zeros(3, bool)
    while not ended[1]:
        rows, _, _, ended, _ = vector.step(act(rows))
    assert totals(vector.totals(1)[0]) == expected


def test_several_agents_natively_in_parallel_in_a_batch_and_in_flows() -> None:
    act, expected = LOADED.policy.act, native(3)
    parallel = parallel_env(scenario(3), preset=PRESET)
    seen, _ = parallel.reset(seed=SEED)
    while parallel.agents:
        actions = act(np.stack([seen[agent] for agent in parallel.agents]))
        seen, *_ = parallel.step(dict(zip(parallel.agents, actions, strict=True)))
    assert totals(parallel.totals()[0]) == expected

    batched = BatchedParallelEnv(2, scenario(3), preset=PRESET, threads=2)
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

    max_agents = FlowVectorEnv(3, scenario(3), preset=PRESET)
    rows, _ = max_agents.reset(seed=SEED)
    over = np.zeros(3, bool)
    while not over.any():
        rows, _, _, over, _ = max_agents.step(act(rows))
    assert totals(max_agents.totals(0)[0]) == expected


def test_flows_with_other_rtts_and_starts_on_their_own_clocks_and_natively(tmp_path: Path) -> None:
    loaded = checkpoint.load(with_parameters("perigee", tmp_path / "rtts", {}, interval_rtts=0.5))
    flows = [
        Flow(controller="external", start_s=start_s, stop_s=stop_s, uplink_delay_ms=more_ms)
        for start_s, stop_s, more_ms in ((0.0, None, 0.0), (0.7, None, 70.0), (1.3, 6.1, 250.0))
    ]
    made = scenario(3).with_flows([*flows, Flow(controller="cubic", start_s=1)])
    expected = native(3, made, loaded.policy)
    results = {}
    for clock in ("flow", "world"):
        env = parallel_env(made, preset=replace(loaded.preset, clock=clock))
        seen, _ = env.reset(seed=SEED)
        while env.agents:
            actions = loaded.policy.act(np.stack([seen[agent] for agent in env.agents]))
            seen, *_ = env.step(dict(zip(env.agents, actions, strict=True)))
        results[clock] = totals(env.totals()[0])
    assert results["flow"] == expected
    assert results["world"] != expected, "one clock for all is not what is played"
