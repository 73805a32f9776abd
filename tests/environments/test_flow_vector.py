"""One sub-environment per flow: never idle, right at the ends of episodes, and the same packets as every other path."""

import itertools
import warnings

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from orbitcc.agents.runs import plain_state
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description import support
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
from orbitcc.envs.environments.config import EnvConfig
from orbitcc.envs.environments.connections import SHORTEST_CONNECTION_S, Buckets, never_idle
from orbitcc.envs.environments.core import STEP_INFO
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.presets import STATS
from orbitcc.envs.scenarios import distribution, get

NEXT, SAME = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP


def agent(**changes) -> Flow:
    return Flow(controller="external", **changes)


def busy(duration_s: float = 30.0):
    """One flow to the end, one that leaves, one that comes late, and Cubic."""
    flows = [agent(), agent(stop_s=7.4), agent(start_s=5.2, stop_s=20.0), Flow(controller="cubic")]
    return get("dumbbell", duration_s=duration_s).with_flows(flows)


def test_flows_add_up_and_the_number_of_flows_varies_across_worlds() -> None:
    env = FlowVectorEnv(40, distribution("train-leo").changed(duration_s=5.0))
    obs, infos = env.reset(seed=1)
    assert obs.shape == (40, 18)
    assert {key for key in infos if not key.startswith("_")} == set(STEP_INFO)
    sizes = np.bincount(env.worlds)
    assert sizes.sum() == 40
    assert len(set(sizes.tolist())) >= 3
    assert env.observation_space.contains(obs)
    again, _ = FlowVectorEnv(40, distribution("train-leo").changed(duration_s=5.0)).reset(seed=1)
    assert np.array_equal(obs, again)


def test_a_compiled_network_has_a_flow_in_every_flow_at_every_time() -> None:
    interval = 30_000_000
    network = busy().network()
    never_idle(network, interval, np.random.default_rng(1))
    flows = network["flows"]
    assert flows[3]["controller"]["name"] == "cubic"
    chains = {i: [flow] for i, flow in enumerate(flows[:3])}
    slot_of = {i: i for i in chains}
    for i, flow in enumerate(flows[4:], start=4):
        slot_of[i] = slot_of[flow["follows"]]
        chains[slot_of[i]].append(flow)
    assert len(chains[0]) == 1
    assert len(chains[1]) >= 2
    assert chains[2][1]["start"] == 5_220_000_000  # the next decision after 5.2 s
    for chain in chains.values():
        assert chain[0]["start"] == 0
        assert chain[-1]["stop"] is None
        for before, after in itertools.pairwise(chain):
            assert before["stop"] == after["start"]
            assert after["start"] % interval == 0
            assert before["stop"] - before["start"] >= SHORTEST_CONNECTION_S * 1e9
        assert network["duration"] - chain[-1]["start"] >= SHORTEST_CONNECTION_S * 1e9


@pytest.mark.parametrize("mode", [NEXT, SAME])
def test_flows_are_never_idle_and_every_end_is_a_truncation(mode: AutoresetMode) -> None:
    env = FlowVectorEnv(7, busy(), autoreset_mode=mode, threads=2, preset="astraea")
    rng = np.random.default_rng(0)
    env.reset(seed=3)
    ended_before = np.zeros(7, bool)
    ends = np.zeros(7, int)
    for _ in range(2100):  # two worlds' lives
        obs, rewards, terminated, truncated, infos = env.step(rng.uniform(-1, 1, (7, 1)).astype(np.float32))
        assert not terminated.any()
        assert env.observation_space.contains(obs)
        ends += truncated
        if mode is NEXT:
            assert (rewards[ended_before] == 0).all()
            assert not truncated[ended_before].any()
            assert (obs[:, -9] > 0).all(), "everybody has an RTT, or 2 without a sample"
            assert ((obs[:, -8] > 0) | (obs[:, -6] == 0)).all(), "and a smoothed one from the first ACK on"
        else:
            assert (env.statistics()[ended_before, STATS["active"]] == 1).all(), "the new connection has begun"
        if truncated.any():
            totals = infos["final_info"] if mode is SAME else infos
            assert np.array_equal(totals["_sent_packets"], truncated)
            assert (totals["sent_packets"][truncated] > 0).all()
            if mode is SAME:
                assert all(infos["final_obs"][i][-8] > 0 for i in np.flatnonzero(truncated))
        ended_before = truncated
    assert ends[0] == 2
    assert (ends[1:3] >= 4).all()


def test_the_last_global_state_is_kept_beside_the_last_observation() -> None:
    later, at_once = (FlowVectorEnv(5, busy(9.0), autoreset_mode=mode) for mode in (NEXT, SAME))
    later.reset(seed=3)
    at_once.reset(seed=3)
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(299):
        actions = rng.uniform(-1, 1, (5, 1)).astype(np.float32)
        *_, truncated, infos = at_once.step(actions)
        assert np.array_equal(later.step(actions)[3], truncated)
        if truncated.any():
            assert np.array_equal(infos["_final_state"], truncated)
            assert np.array_equal(infos["final_state"][truncated], later.state()[truncated])
            ends += int(truncated.sum())
        if truncated.all():  # their worlds are over
            assert not np.array_equal(at_once.state(), later.state())
            break
    assert ends > 5


def test_a_successor_is_a_new_connection() -> None:
    scenario = get("dumbbell", duration_s=12).with_flows([agent(stop_s=6.0)])
    env = FlowVectorEnv(1, scenario)
    env.reset(seed=1)
    for _ in range(1000):
        *_, truncated, _ = env.step(np.ones((1, 1), np.float32))
        if truncated[0]:
            break
    assert env.statistics()[0, STATS["cwnd_packets"]] > 30
    env.step(np.ones((1, 1), np.float32))
    row = env.statistics()[0]
    assert row[STATS["cwnd_packets"]] == 10
    assert row[STATS["time_s"]] == pytest.approx(6.03)
    assert row[STATS["interval_s"]] == pytest.approx(0.03)


def test_flow_per_flow_and_parallel_environment_send_the_same_packets() -> None:
    scenario = get("dumbbell", duration_s=6).with_flows([agent(), agent(), Flow(controller="cubic")])
    flows, parallel = FlowVectorEnv(4, scenario), parallel_env(scenario)
    obs, _ = flows.reset(seed=5)
    first, _ = parallel.reset(seed=5)
    while len(parallel.agents) < 2:  # flows wait until everybody is there
        first, *_ = parallel.step({agent: np.zeros(1, np.float32) for agent in parallel.agents})
    assert np.array_equal(obs[:2], np.stack(list(first.values())))
    assert np.array_equal(flows.state()[0], parallel.state())
    rng = np.random.default_rng(0)
    while parallel.agents:
        actions = rng.uniform(-1, 1, (4, 1)).astype(np.float32)
        obs, rewards, _, truncated, infos = flows.step(actions)
        theirs, paid, *_, last = parallel.step({f"flow_{i}": actions[i] for i in range(2)})
        assert np.array_equal(obs[:2], np.stack(list(theirs.values())))
        assert rewards[:2].tolist() == list(paid.values())
        assert np.array_equal(flows.state()[:2], np.stack([parallel.state()] * 2))
    assert truncated[:2].all()
    assert infos["sent_packets"][0] == last["flow_0"]["sent_packets"]


def test_seeds_and_functions_are_as_in_the_other_environments() -> None:
    env = FlowVectorEnv(3, busy(), preset="orca")
    assert env.reset(seed=1)[0].shape == (3, 70)
    before, _ = env.reset(seed=2)
    assert np.array_equal(before, env.reset(seed=2)[0])
    assert not np.array_equal(before, env.reset()[0])


def test_the_last_world_lends_what_is_needed_and_runs_the_rest_itself() -> None:
    env = FlowVectorEnv(4, busy(), background="reno")
    env.reset(seed=1)
    assert env.worlds.tolist() == [0, 0, 0, 1]
    assert [flow.controller.name for flow in env.scenario(1).flows] == ["external", "reno", "reno", "cubic"]


def test_staggered_worlds_do_not_end_together() -> None:
    env = FlowVectorEnv(9, busy(12.0), stagger=True)
    env.reset(seed=4)
    ends: dict[int, int] = {}
    for step in range(420):
        *_, truncated, _ = env.step(np.zeros((9, 1), np.float32))
        for world in np.flatnonzero(truncated[::3]):  # of the flows that stay to the end
            ends.setdefault(int(world), step)
    assert len(ends) == 3
    assert len(set(ends.values())) == 3


def test_bad_use_names_the_field() -> None:
    objects = get("dumbbell").with_flows([agent(traffic={"kind": "bytes", "bytes": 1000})])
    with pytest.raises(OrbitccError, match="traffic"):
        FlowVectorEnv(1, objects).reset(seed=1)
    env = FlowVectorEnv(3, busy())
    with pytest.raises(OrbitccError, match="reset"):
        env.step(np.zeros((3, 1), np.float32))
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match="shape"):
        env.step(np.zeros((2, 1), np.float32))
    with pytest.raises(OrbitccError, match="options"):
        env.reset(options={"scenario": busy()})
    with pytest.raises(OrbitccError, match="num_envs"):
        FlowVectorEnv(0, busy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.close()


def test_a_reward_is_changed_for_all_flows_from_the_next_step_on() -> None:
    def paid(throughput: float) -> list[float]:
        env = FlowVectorEnv(2, get("dumbbell", duration_s=3).with_flows([agent(), agent()]), reward_scale=2.0)
        env.reset(seed=1)
        up = np.ones((2, 1), np.float32)
        for _ in range(10):
            env.step(up)
        reward = {"name": "astraea", "ceiling": 10.0, "stability": 0.0, "fairness": 0.0}
        env.set_reward({**reward, "throughput": throughput})
        return env.step(up)[1].tolist()

    assert paid(1.0) == pytest.approx([10 * x for x in paid(0.1)], rel=1e-5)
    assert min(paid(0.1)) > 0.01


def test_the_halves_of_a_step_make_a_whole_one() -> None:
    whole, halves = (FlowVectorEnv(7, busy(9.0), autoreset_mode=SAME, reward_scale=3.0) for _ in range(2))
    assert np.array_equal(whole.reset(seed=3)[0], halves.reset(seed=3)[0])
    rng = np.random.default_rng(0)
    begun = np.zeros(7, bool)
    ends = 0
    for _ in range(700):
        actions = rng.uniform(-1, 1, (7, 1)).astype(np.float32)
        assert np.array_equal(halves.active(), ~begun), "a connection that has only just begun does not heed actions"
        obs, rewards, terminated, truncated, infos = whole.step(actions)
        ours = halves.advance(actions)
        assert all(np.array_equal(a, b) for a, b in zip(ours, (rewards, terminated, truncated), strict=True))
        if truncated.any():
            last = halves.observations()
            assert all(np.array_equal(infos["final_obs"][i], last[i]) for i in np.flatnonzero(truncated))
            assert np.array_equal(infos["final_state"], halves.state())
        assert np.array_equal(obs, halves.renew())
        begun = truncated & (obs == 0).all(axis=1)
        ends += int(begun.sum())
    assert ends >= 4


def test_halves_of_a_step_take_turns() -> None:
    env = FlowVectorEnv(3, busy(), autoreset_mode=SAME)
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match=r"advance\(\) first"):
        env.renew()
    env.advance(np.zeros((3, 1), np.float32))
    with pytest.raises(OrbitccError, match=r"renew\(\) in between"):
        env.advance(np.zeros((3, 1), np.float32))
    with pytest.raises(OrbitccError, match=r"renew\(\) in between"):
        env.step(np.zeros((3, 1), np.float32))
    env.reset()
    env.advance(np.zeros((3, 1), np.float32))


@pytest.mark.parametrize("mode", [NEXT, SAME])
@pytest.mark.parametrize("steps", [0, 400, 611])
def test_worlds_that_live_through_their_journal_go_on_identically(mode: AutoresetMode, steps: int, tmp_path) -> None:
    def make(**changes) -> FlowVectorEnv:
        worlds = distribution("train-leo").changed(duration_s=9.0)
        return FlowVectorEnv(9, worlds, autoreset_mode=mode, stagger=True, **changes)

    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (steps + 400, 9, 1)).astype(np.float32)
    first = make(journal=True)
    obs, _ = first.reset(seed=3)
    ended = 0
    for k in range(steps):
        obs, *_, truncated, _ = first.step(actions[k])
        ended += int(truncated.sum())
    assert ended > 9 or not steps
    plain_state.write(tmp_path, "worlds", first.journal())
    second = make(journal=True)
    assert np.array_equal(second.replay(plain_state.read(tmp_path, "worlds")), obs)
    for k in range(steps, steps + 400):
        ours, theirs = first.step(actions[k]), second.step(actions[k])
        assert all(np.array_equal(a, b) for a, b in zip(ours[:4], theirs[:4], strict=True))
    again = make(journal=True)
    assert np.array_equal(again.replay(second.journal()), ours[0])


def test_a_journal_is_kept_only_where_it_is_asked_for() -> None:
    env = FlowVectorEnv(3, busy())
    env.reset(seed=1)
    with pytest.raises(OrbitccError, match="journal=True"):
        env.journal()
    with pytest.raises(OrbitccError, match="journal=True"):
        env.replay({})
    keeping = FlowVectorEnv(3, busy(), journal=True)
    with pytest.raises(OrbitccError, match=r"reset\(\)"):
        keeping.journal()
    keeping.reset(seed=1)
    with pytest.raises(OrbitccError, match="journal"):
        keeping.restore(0, keeping.save(0))
    other = FlowVectorEnv(9, busy(), journal=True)
    with pytest.raises(OrbitccError, match="3 worlds"):
        other.replay(keeping.journal())
    for changes in ({"preset": "orca"}, {"interval_ms": 77}, {"background": "reno"}, {"transport": "quic"}):
        another = FlowVectorEnv(3, busy(), journal=True, **changes)
        another.reset(seed=1)
        with pytest.raises(OrbitccError, match="one of another environment"):
            another.replay(keeping.journal())


def test_a_damaged_journal_is_refused_and_changes_nothing() -> None:
    scenario = get("dumbbell", duration_s=3).with_flows([agent(), agent(stop_s=2.0)])
    env = FlowVectorEnv(4, scenario, journal=True)
    env.reset(seed=1)
    for _ in range(20):
        env.step(np.zeros((4, 1), np.float32))
    journal = env.journal()
    ages, actions, [state] = journal["ages"], journal["actions"], journal["generators"]
    assert ages == [20, 20]
    damages = [
        *[({part: None}, part) for part in ("networks", "ages", "actions", "generators", "scenarios", "over")],
        ({"ages": [1]}, "journal.ages: .*a list of 2 whole numbers"),
        ({"ages": [20, -1]}, "journal.ages: .*0 or more"),
        ({"ages": [20, 10**9]}, r"journal.actions: .*float32\[1000000000, 2, 2, 1\]"),
        ({"ages": [10, 10]}, r"journal.actions: 'float32\[20, 2, 2, 1\]' .*float32\[10, 2, 2, 1\]"),
        ({"actions": actions[:5]}, r"journal.actions: .*float32\[20, 2, 2, 1\]"),
        ({"actions": actions[:, :1]}, r"journal.actions: .*float32\[20, 2, 2, 1\]"),
        ({"actions": actions.tolist()}, "journal.actions"),
        ({"over": [True] * 4}, r"journal.over: .*bool\[4\]"),
        ({"over": np.ones(1, bool)}, r"journal.over: .*bool\[4\]"),
        ({"networks": [1, 2]}, "journal.networks: .*text"),
        ({"generators": []}, "journal.generators: .*a list of 1"),
        ({"scenarios": journal["scenarios"][:1]}, "journal.scenarios: .*a list of 2"),
    ]
    for damage, said in damages:
        with pytest.raises(OrbitccError, match=said):
            env.replay({**journal, **damage})
    for part in journal.keys() - {"of"}:
        with pytest.raises(OrbitccError, match=f"^journal: 'one without {part}' .*what journal.. of such"):
            env.replay({name: value for name, value in journal.items() if name != part})
    assert env.journal()["ages"] == ages, "it goes on where it was"
    within = [  # found while the worlds run again
        ({"networks": ["x", "y"]}, "network"),
        ({"actions": np.full_like(actions, np.nan)}, "action of flow_0"),
        ({"generators": [{**state, "state": {}}]}, "journal.generators: .*NumPy"),
        ({"generators": [3]}, "journal.generators: 3"),
        ({"scenarios": [{}, {}]}, r"journal.scenarios.0.name: missing"),
        ({"waiting": None}, "journal.waiting: .*by number of agents"),
        ({"waiting": {2: [3]}}, r"journal.waiting.2.0: 3 is not allowed"),
        ({"waiting": {"a": []}}, "journal.waiting: .*by number of agents"),
    ]
    for damage, said in within:
        with pytest.raises(OrbitccError, match=said):
            env.replay({**journal, **damage})
        env.step(np.zeros((4, 1), np.float32))
    env.replay(journal)
    assert env.journal()["ages"] == ages
    assert env.journal()["generators"] == [state]


def test_worlds_for_the_emulator_are_those_that_a_kernel_can_play() -> None:
    source = EnvConfig(distribution("train-leo-wide")).source()
    rng, buckets = np.random.default_rng(0), {live: Buckets(source, live=live) for live in (True, False)}
    drawn = {live: [found.next(1, rng, None) for _ in range(60)] for live, found in buckets.items()}
    beyond = {live: [support.beyond_kernel(w.sim, w.flows) for w in worlds] for live, worlds in drawn.items()}
    assert not any(beyond[True])
    assert any(beyond[False])
    assert "cubic" in {flow.controller.name for world in drawn[True] for flow in world.flows}
    with pytest.raises(OrbitccError, match="no world of the distribution that this kernel can play has so many flows"):
        Buckets(source, live=True).next(99, rng, None)


def test_where_so_many_flows_are_rare_their_first_world_is_played_again(monkeypatch) -> None:
    source = EnvConfig(distribution("train-leo")).source()
    buckets, rng = Buckets(source), np.random.default_rng(1)
    most = max(buckets.sizes(40)[0])
    alone = next(world for world in (source.draw(rng) for _ in range(1000)) if len(world.flows) == 1)
    monkeypatch.setattr(type(source), "draw", lambda *_: alone)
    first, second = (buckets.next(most, rng, None) for _ in range(2))
    assert len(first.flows) == len(second.flows) == most > 1
    assert first.links == second.links
    assert first.seed != second.seed
    with pytest.raises(OrbitccError, match="no world of the distribution has so many flows"):
        buckets.next(99, rng, None)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: FlowVectorEnv(2, "dumbbell", reward_scale=float("nan")), "reward_scale: NaN"),
        (lambda: FlowVectorEnv(2, "dumbbell", reward_scale="x"), "reward_scale: 'x'"),
        (lambda: FlowVectorEnv(2, "dumbbell", stagger="no"), "stagger: 'no' .*true or false"),
        (lambda: FlowVectorEnv(2, "dumbbell").reset(seed=[]), "seed: '0 seeds' .*one number, or 2 of them"),
        (lambda: BatchedParallelEnv(2, "dumbbell", statistics="x"), "statistics: 'x'"),
        (lambda: parallel_env("dumbbell", pad_absent="no"), "pad_absent: 'no'"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(made, said) -> None:
    with pytest.raises(OrbitccError, match=said):
        made()
