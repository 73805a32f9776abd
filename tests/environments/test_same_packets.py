"""One network, every way of stepping it: the packets are the same to the last one."""

import json

import numpy as np

from orbitcc import _sim
from orbitcc.agents import checkpoint
from orbitcc.envs.description.scenario import Flow
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


def native(agents: int) -> list[list[float]]:
    network = json.loads(scenario(agents).with_seed(SEED).compile())
    for flow in network["flows"][:agents]:
        flow["controller"] = {"name": "policy", "params": {"policy": "p"}}
    simulation = _sim.Simulation(json.dumps(network), policies={"p": LOADED.policy})
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
