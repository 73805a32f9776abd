"""Worlds that are saved, cloned, pickled, and stepped in other processes."""

import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.parallel import ParallelCongestionEnv
from orbitcc.envs.environments.presets import STATS
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.scenarios import distribution, get
from orbitcc.parallel import cluster

ACTIONS = np.random.default_rng(0).uniform(-1, 1, (300, 3, 1)).astype(np.float32)


def world():
    return distribution("train-leo").changed(duration_s=4.0)


def trajectory(env, steps=range(100, 200)) -> list:
    return [np.concatenate([np.ravel(part) for part in env.step(ACTIONS[k])[:4]]) for k in steps]


def lone(env, steps=range(100, 200)) -> list:
    found = []
    for k in steps:
        obs, reward, terminated, truncated, _ = env.step(ACTIONS[k, 0])
        found.append([*obs, reward])
        if terminated or truncated:
            found.append(env.reset()[0])
    return found


def test_a_clone_of_the_single_environment_continues_identically() -> None:
    env = CongestionEnv(world())
    env.reset(seed=3)
    lone(env, range(20))
    twin = env.clone()
    ours, theirs = lone(env), lone(twin)
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_clone_of_the_vector_environment_continues_identically_over_episode_ends() -> None:
    env = VectorCongestionEnv(3, world())
    env.reset(seed=3)
    trajectory(env, range(100))
    twin = env.clone()
    assert np.array_equal(trajectory(env), trajectory(twin))


def test_a_saved_episode_can_be_put_into_another_place_of_the_batch() -> None:
    env = VectorCongestionEnv(2, get("dumbbell").with_flows([Flow(controller="external")]))
    env.reset(seed=1)
    for _ in range(50):
        env.step(np.ones((2, 1), np.float32))
    obs = env.restore(1, env.save(0))
    assert np.array_equal(obs[0], obs[1])
    for _ in range(50):
        obs, *_ = env.step(np.ones((2, 1), np.float32))
        assert np.array_equal(obs[0], obs[1])


def test_the_parallel_environment_goes_back_to_a_saved_moment() -> None:
    scenario = get("dumbbell", duration_s=6).with_flows(
        [Flow(controller="external"), Flow(controller="external", start_s=3)]
    )
    env = ParallelCongestionEnv(scenario)
    env.reset(seed=1)
    act = lambda: env.step({agent: np.ones(1, np.float32) for agent in env.agents})  # noqa: E731
    for _ in range(20):
        act()
    saved, twin = env.save(), env.clone()
    first = [act()[0] for _ in range(150)]
    assert len(env.agents) == 2
    env.restore(saved)
    assert env.agents == twin.agents == ["flow_0"]
    again = [act()[0] for _ in range(150)]
    for one, other in zip(first, again, strict=True):
        assert {a: o.tolist() for a, o in one.items()} == {a: o.tolist() for a, o in other.items()}


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_clone_of_flows_continues_identically_over_new_connections_and_worlds(mode: str) -> None:
    env = FlowVectorEnv(7, world(), autoreset_mode=mode, threads=2)
    env.reset(seed=3)
    acts = np.random.default_rng(1).uniform(-1, 1, (500, 7, 1)).astype(np.float32)
    for act in acts[:90]:
        env.step(act)
    twin = env.clone()
    for act in acts[90:]:
        ours, theirs = env.step(act), twin.step(act)
        assert all(np.array_equal(a, b) for a, b in zip(ours[:4], theirs[:4], strict=True))
        assert ours[4].keys() == theirs[4].keys()
    assert np.array_equal(env.state(), twin.state())
    assert [env.scenario(k) for k in range(env.num_worlds)] == [twin.scenario(k) for k in range(env.num_worlds)]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_world_of_flows_goes_back_to_any_saved_moment(mode: str) -> None:
    flows = [Flow(controller="external"), Flow(controller="external", stop_s=2.4)]
    env = FlowVectorEnv(4, get("dumbbell", duration_s=6).with_flows(flows), autoreset_mode=mode)
    env.reset(seed=2)
    acts = np.random.default_rng(1).uniform(-1, 1, (180, 4, 1)).astype(np.float32)
    saved, seen = [], []
    for act in acts:  # not over the end of the world, after which the generator draws
        saved.append(env.save(1))
        results = env.step(act)
        seen.append([part[2:] for part in results[:4]])
    ends = [k for k, row in enumerate(seen) if row[3].any()]
    assert ends, "a connection was replaced"
    for start in (0, 50, ends[0], ends[0] + 1, ends[0] + 2):
        obs = env.restore(1, saved[start])
        if start:
            assert np.array_equal(obs[2:], seen[start - 1][0])
        for act, expected in zip(acts[start : start + 40], seen[start : start + 40], strict=False):
            found = [part[2:] for part in env.step(act)[:4]]
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_what_was_not_saved_of_flows_is_not_restored() -> None:
    env = FlowVectorEnv(2, external({}, {}))
    env.reset(seed=1)
    scenario, state, over = env.save(0)
    for bad in (None, (1, 2, 3), (scenario, state, [False, False]), (scenario, state, over[None]), (scenario, 2, over)):
        with pytest.raises(OrbitccError, match=r"^state: .*what save\(\) returned"):
            env.restore(0, bad)


def test_a_saved_world_fits_only_as_many_flows() -> None:
    env = FlowVectorEnv(3, get("dumbbell").with_flows([Flow(controller="external")] * 2))
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match="2 sub-environments"):
        env.restore(1, env.save(0))


SHORT = {"traffic": {"kind": "bytes", "bytes": 100_000}}


def ended(scenario, **settings):
    """A single environment at the end of its first episode."""
    env = CongestionEnv(scenario, **settings)
    env.reset(seed=1)
    while not any(env.step(np.zeros(1, np.float32))[2:4]):
        pass
    return env


def external(*flows: dict[str, Any], duration_s: float = 3.0):
    return get("dumbbell", duration_s=duration_s).with_flows([Flow(controller="external", **flow) for flow in flows])


@pytest.mark.parametrize("flow", [SHORT, {"stop_s": 1.0}, {}], ids=["delivered", "left", "time limit"])
def test_an_episode_restored_at_its_end_is_over(flow: dict[str, Any]) -> None:
    env = ended(external(flow))
    last = env.save()
    fresh = CongestionEnv(external(flow))
    fresh.reset(seed=2)
    running = fresh.save()
    for over in (env, env.clone(), fresh):
        over.restore(last)
        with pytest.raises(OrbitccError, match=r"reset\(\) first"):
            over.step(np.zeros(1, np.float32))
    fresh.restore(running)
    assert not any(fresh.step(np.zeros(1, np.float32))[2:4])
    env.reset(seed=1)
    env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize("flow", [SHORT, {"stop_s": 1.0}, {}], ids=["delivered", "left", "time limit"])
def test_a_vector_world_restored_at_its_end_is_renewed_by_the_next_step(flow: dict[str, Any]) -> None:
    env = VectorCongestionEnv(2, external(flow))
    env.reset(seed=1)
    actions, over = np.zeros((2, 1), np.float32), np.zeros(2, bool)
    while not over[0]:
        obs, _, terminated, truncated, _ = env.step(actions)
        over = terminated | truncated
    twin = env.clone()
    assert np.array_equal(twin.restore(0, env.save(0)), obs)
    ends = 0
    for _ in range(150):
        ours, theirs = env.step(actions), twin.step(actions)
        assert all(np.array_equal(a, b) for a, b in zip(ours[:4], theirs[:4], strict=True))
        ends += int((ours[2] | ours[3])[0])
    assert ends >= 1


def test_a_vector_world_restored_at_its_end_is_renewed_at_once_in_same_step_mode() -> None:
    scenario = external(SHORT)
    last = ended(scenario)
    env, twin = (VectorCongestionEnv(2, scenario, autoreset_mode="SameStep") for _ in range(2))
    env.reset(seed=1)
    twin.reset(seed=1)
    obs = env.restore(0, last.save())
    first, _ = twin.reset(options={"reset_mask": np.array([True, False])})
    assert np.array_equal(obs, first)
    ends = 0
    for _ in range(100):
        ours, theirs = (one.step(np.zeros((2, 1), np.float32))[:4] for one in (env, twin))
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
        ends += int(ours[2][0])
    assert ends >= 1


@pytest.mark.parametrize("pad_absent", [False, True])
def test_a_parallel_episode_restored_at_its_end_is_over(pad_absent: bool) -> None:
    env = ParallelCongestionEnv(external(SHORT, {"stop_s": 1.0}), pad_absent=pad_absent)
    env.reset(seed=1)
    to_the_end(env)
    saved = env.save()
    env.reset(seed=2)
    assert env.agents
    assert env.restore(saved) == {}
    assert env.agents == []
    with pytest.raises(OrbitccError, match=r"reset\(\) first"):
        env.step({})


def test_a_world_restored_in_a_pause_waits_for_the_next_agent() -> None:
    scenario = external({"stop_s": 1.0}, {"start_s": 2.0})
    batch = BatchedParallelEnv(1, scenario)
    batch.reset(seed=1)
    while batch.active.any():
        batch.step(np.zeros((1, 2, 1), np.float32))
    env = ParallelCongestionEnv(scenario)
    env.reset(seed=2)
    assert set(env.restore(batch.save(0))) == {"flow_1"}
    assert env.agents == ["flow_1"]


def to_the_end(env) -> tuple[dict[str, bool], dict[str, bool]]:
    """Who terminated and who was truncated in the last step of an episode."""
    while env.agents:
        _, _, terminated, truncated, _ = env.step({agent: np.zeros(1, np.float32) for agent in env.agents})
    return terminated, truncated


def test_a_padded_population_that_is_restored_ends_as_the_saved_one() -> None:
    """Terminated if every object was delivered, also before the restored moment, and in no other episode."""
    longer = {"traffic": {"kind": "bytes", "bytes": 400_000}}
    delivered, left = (
        ParallelCongestionEnv(external(first, longer), pad_absent=True) for first in (SHORT, {"stop_s": 1.0})
    )
    saved = []
    for env in (delivered, left):
        infos = env.reset(seed=1)[1]
        while infos["flow_0"]["present"]:
            *_, infos = env.step({agent: np.zeros(1, np.float32) for agent in env.agents})
        assert infos["flow_1"]["present"]
        saved.append(env.save())
    both, none = {"flow_0": True, "flow_1": True}, {"flow_0": False, "flow_1": False}
    assert to_the_end(delivered.clone()) == (both, none)
    assert to_the_end(left.clone()) == (none, both)
    delivered.restore(saved[1])
    left.restore(saved[0])
    assert to_the_end(delivered) == (none, both)
    assert to_the_end(left) == (both, none)


@pytest.mark.parametrize("kind", ["vector", "flows", "batched"])
@pytest.mark.parametrize("number", [99, -1, 1.0, "a", True, None])
def test_a_world_that_is_not_there_is_named(kind: str, number: Any) -> None:
    env = MADE[kind]()
    env.reset(seed=1)
    saved, last = env.save(0), (env.num_envs if kind == "vector" else env.num_worlds) - 1
    calls = (env.save, env.totals, env.scenario, lambda world: env.restore(world, saved))
    for call in calls:
        with pytest.raises(OrbitccError, match=rf"^world: {number!r} .*a whole number from 0 to {last}$"):
            call(number)


def batched_steps(env, steps) -> list:
    found = []
    for k in steps:
        act = np.random.default_rng(k).uniform(-1, 1, (env.num_worlds, env.max_agents, 1)).astype(np.float32)
        obs, rewards, terminated, truncated, infos = env.step(act)
        found.append([obs, rewards, terminated, truncated, infos["active"], infos["renewed"], env.obs.copy()])
    return found


def same(ours: list, theirs: list) -> bool:
    return all(np.array_equal(a, b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))


def test_a_clone_of_a_batch_of_worlds_continues_identically_over_their_ends() -> None:
    env = BatchedParallelEnv(3, world(), threads=2)
    env.reset(seed=3)
    batched_steps(env, range(70))
    twin = env.clone()
    ours = batched_steps(env, range(70, 300))
    assert same(ours, batched_steps(twin, range(70, 300)))
    assert any(row[5].any() for row in ours), "worlds were drawn anew"
    assert np.array_equal(env.state(), twin.state())


def test_a_world_of_a_batch_goes_back_to_a_saved_moment() -> None:
    env = BatchedParallelEnv(2, world())
    env.reset(seed=3)
    batched_steps(env, range(40))
    saved, before, statistics = env.save(1), env.obs.copy(), env.statistics()
    pick = lambda rows: [[part[1] for part in row] for row in rows]  # noqa: E731
    first = pick(batched_steps(env, range(40, 90)))
    assert np.array_equal(env.restore(1, saved)[1], before[1])
    assert np.array_equal(env.statistics()[1], statistics[1])
    assert statistics.shape == (2, env.max_agents, len(STATS))
    assert same(first, pick(batched_steps(env, range(40, 90))))


MADE = {
    "single": lambda: CongestionEnv(world(), preset="astraea-leo", interval_ms=20),
    "vector": lambda: VectorCongestionEnv(3, world(), preset="orca", threads=2),
    "parallel": lambda: ParallelCongestionEnv(world(), max_agents=2),
    "flows": lambda: FlowVectorEnv(6, world(), autoreset_mode="SameStep"),
    "batched": lambda: BatchedParallelEnv(2, world(), preset="astraea-20ms"),
}


def first_numbers(env) -> np.ndarray:
    first = env.reset(seed=5)[0]
    return np.concatenate(list(first.values())) if isinstance(first, dict) else first


@pytest.mark.parametrize("kind", MADE)
def test_pickling_carries_the_configuration(kind: str) -> None:
    env = MADE[kind]()
    expected = first_numbers(env)  # a running environment is pickled without its worlds
    twin = pickle.loads(pickle.dumps(env))
    assert np.array_equal(first_numbers(twin), expected)


def _sample(env, queue) -> None:
    env.reset(seed=9)
    queue.put([env.step(ACTIONS[k])[0] for k in range(30)])


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_processes_step_the_same_environment(method: str) -> None:
    env = VectorCongestionEnv(3, world(), threads=2)
    env.reset(seed=9)
    expected = [env.step(ACTIONS[k])[0] for k in range(30)]  # its threads exist before the fork
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_sample, args=(env, queue))
    process.start()
    try:
        found = queue.get(timeout=120)
    finally:
        process.join(30)
    assert process.exitcode == 0
    assert np.array_equal(found, expected)


def test_ray_workers_step_the_same_environment() -> None:
    ray = pytest.importorskip("ray")
    env = CongestionEnv(get("dumbbell", duration_s=3).with_flows([Flow(controller="external")]))
    env.reset(seed=9)
    expected = [env.step(ACTIONS[k, 0])[0] for k in range(30)]
    cluster.start(cpus=1)
    try:

        @ray.remote
        def work(remote_env):
            remote_env.reset(seed=9)
            return [remote_env.step(ACTIONS[k, 0])[0] for k in range(30)]

        assert np.array_equal(ray.get(work.remote(env), timeout=120), expected)
    finally:
        ray.shutdown()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"preset": {"base": "ratios", "observation": "astraea"}}, "observation"),
        ({"preset": {"base": "ratios", "action": "astraea"}}, "action"),
        ({"preset": {"base": "ratios", "reward": "orca"}}, "reward"),
        ({"preset": {"base": "ratios", "interval_ms": 50}}, "interval_ms"),
        ({"preset": {"base": "ratios", "interval_rtts": 0.5}}, "interval_rtts"),
        ({"preset": {"base": "ratios", "safety_filter": {}}}, "safety_filter"),
    ],
)
def test_a_state_of_another_preset_is_refused(changes: dict[str, Any], field: str) -> None:
    saving = CongestionEnv("dumbbell", preset="ratios")
    saving.reset(seed=1)
    saved = saving.save()
    other = CongestionEnv("dumbbell", **changes)
    other.reset(seed=1)
    with pytest.raises(OrbitccError, match=f"state.preset.{field}: .* that of this environment"):
        other.restore(saved)
    other.step(np.zeros(1, np.float32))  # it goes on where it was
    same = CongestionEnv("dumbbell", preset="ratios")
    same.reset(seed=2)
    same.restore(saved)


@pytest.mark.parametrize("saved", [None, 3, {}, [1], b"x", (1, 2), (None, None)])
def test_what_was_not_saved_is_not_restored(saved) -> None:
    env = CongestionEnv("dumbbell")
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match=r"^state.*what save\(\) returned"):
        env.restore(saved)


def test_a_state_is_restored_with_its_own_scenario() -> None:
    env = CongestionEnv("dumbbell")
    env.reset(seed=1)
    scenario, state = env.save()
    for other in (None, scenario.changed(duration_s=1.0)):
        with pytest.raises(OrbitccError, match=r"^state\.scenario: .*dumbbell, with which it was saved"):
            env.restore((other, state))
    assert env.scenario == scenario
