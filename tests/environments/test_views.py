"""What all views of worlds have in common: their configuration, seeds, options, errors, copies, infos."""

import copy
import itertools
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import orbitcc
from orbitcc.common.errors import OrbitccError, UnknownKeywordError
from orbitcc.envs.description.scenario import ControllerSpec, Flow
from orbitcc.envs.environments.core import STEP_INFO
from orbitcc.envs.environments.presets import STATS
from orbitcc.envs.scenarios import distribution, get


def agents(*flows: Flow, duration_s: float = 4.0):
    return get("dumbbell", duration_s=duration_s).with_flows(flows or [Flow(controller="external")])


def late_and_early(**more):
    joining = Flow(controller="external", start_s=1.0, stop_s=2.0)
    return agents(Flow(controller="external"), joining, Flow(controller="external", **more))


HALF_AN_RTT = {"base": "ratios", "interval_rtts": 0.5}
VIEWS = {
    "single": lambda given, **more: orbitcc.CongestionEnv(given, **more),
    "vector": lambda given, **more: orbitcc.VectorCongestionEnv(2, given, **more),
    "parallel": lambda given, **more: orbitcc.ParallelCongestionEnv(given, **more),
    "padded": lambda given, **more: orbitcc.ParallelCongestionEnv(given, pad_absent=True, **more),
    "batched": lambda given, **more: orbitcc.BatchedParallelEnv(2, given, **more),
    "flows": lambda given, **more: orbitcc.FlowVectorEnv(3, given, **more),
}


def act(env, rng: np.random.Generator) -> list:
    """A step with random actions; an episode that is over begins anew."""
    draw = lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)  # noqa: E731
    if isinstance(env, orbitcc.ParallelCongestionEnv):
        if not env.agents:
            env.reset()
        found = env.step({agent: draw(1) for agent in env.agents})
        return [sorted(part.items()) for part in found[:4]]
    if isinstance(env, orbitcc.CongestionEnv):
        found = env.step(draw(1))
        if found[2] or found[3]:
            return [*found[:4], env.reset()[0]]
        return list(found[:4])
    shape = (2, env.max_agents, 1) if isinstance(env, orbitcc.BatchedParallelEnv) else env.action_space.shape
    return list(env.step(draw(*shape))[:4])


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_takes_the_same_configuration(view: str) -> None:
    config = orbitcc.EnvConfig(distribution("train-leo").changed(duration_s=3.0), preset="orca", background="reno")
    env = VIEWS[view](config)
    assert env.config.preset.name == "orca"
    assert env.config.background == "reno"
    assert VIEWS[view](config, interval_ms=40).config.preset.interval_ms == 40
    by_keywords = VIEWS[view](config.scenario, preset="orca", background="reno")
    first, same = env.reset(seed=2)[0], by_keywords.reset(seed=2)[0]
    for one, other in zip(*(x.values() if isinstance(x, dict) else x for x in (first, same)), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("view", VIEWS)
def test_parameters_of_a_named_scenario_are_keywords_of_every_view(view: str) -> None:
    env = VIEWS[view]("dumbbell", rate_mbps=20)
    env.reset(seed=1)
    scenario = env.scenario(0) if callable(env.scenario) else env.scenario
    assert scenario.links[0].rate_mbps == 20


@pytest.mark.parametrize("view", VIEWS)
def test_an_unknown_keyword_is_an_error_of_ours_and_of_pythons(view: str) -> None:
    with pytest.raises(OrbitccError, match="did you mean 'interval_ms'"):
        VIEWS[view]("dumbbell", interval=20)
    with pytest.raises(TypeError, match="interval"):
        VIEWS[view]("dumbbell", interval=20)
    error = UnknownKeywordError("interval", "interval", ["interval_ms"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("view", VIEWS)
def test_steps_before_the_first_reset_need_a_reset(view: str) -> None:
    env = VIEWS[view](agents())
    with pytest.raises(gym.error.ResetNeeded, match=r"reset\(\) first"):
        act(env, np.random.default_rng(0)) if view not in ("parallel", "padded") else env.step({})


@pytest.mark.parametrize("view", VIEWS)
def test_seeds_may_be_any_kind_of_whole_number(view: str) -> None:
    plain, numpy = VIEWS[view](agents()), VIEWS[view](agents())
    plain.reset(seed=3)
    numpy.reset(seed=np.int64(3))
    for _ in range(3):
        mine, theirs = (act(env, np.random.default_rng(0)) for env in (plain, numpy))
        assert str(mine) == str(theirs)
    for seed in (-1, 1.5, "7", True):
        with pytest.raises(OrbitccError, match="seed"):
            plain.reset(seed=seed)


@pytest.mark.parametrize("view", VIEWS)
def test_unknown_options_are_refused(view: str) -> None:
    env = VIEWS[view](agents())
    known = r"\(allowed: none\)" if view == "flows" else r"did you mean 'scenario'\?"
    with pytest.raises(OrbitccError, match=rf"options\.scenari: unknown name 'scenari'.*{known}"):
        env.reset(seed=1, options={"scenari": agents()})
    with pytest.raises(OrbitccError, match="options: 3 is not allowed; allowed: a dict"):
        env.reset(seed=1, options=3)


def with_action(env, value) -> list:
    """A step in which everybody does this."""
    if isinstance(env, orbitcc.ParallelCongestionEnv):
        return [sorted(part.items()) for part in env.step({agent: [value] for agent in env.agents})[:4]]
    if isinstance(env, orbitcc.CongestionEnv):
        return list(env.step([value])[:4])
    if isinstance(env, orbitcc.BatchedParallelEnv):
        return list(env.step([[[value]] * env.max_agents] * 2)[:4])
    return list(env.step([[value]] * env.num_envs)[:4])


@pytest.mark.parametrize("view", VIEWS)
def test_actions_beyond_the_bounds_are_clipped(view: str) -> None:
    env, within = VIEWS[view](agents()), VIEWS[view](agents())
    env.reset(seed=1), within.reset(seed=1)
    for beyond, bound in ((50, 1), (-7, -1), (np.inf, 1), (-np.inf, -1), (1.5, 1)):
        assert str(with_action(env, beyond)) == str(with_action(within, bound))


@pytest.mark.parametrize("view", VIEWS)
def test_what_is_no_action_is_one_line_and_moves_nothing(view: str) -> None:
    env, untouched = VIEWS[view](agents()), VIEWS[view](agents())
    env.reset(seed=1), untouched.reset(seed=1)
    for wrong in ("x", None, {"a": 1}, 1j, [0.0, 0.0], np.nan):
        with pytest.raises(OrbitccError, match=r"^action.*: .* is not allowed; allowed: [^\n]*$"):
            with_action(env, wrong)
    with pytest.raises(OrbitccError, match="NaN is not allowed; allowed: numbers; those beyond .* are clipped"):
        with_action(env, np.nan)
    assert str(with_action(env, 0.3)) == str(with_action(untouched, 0.3))


@pytest.mark.parametrize("view", VIEWS)
def test_a_deep_copy_in_the_middle_of_an_episode_goes_on_identically(view: str) -> None:
    env = VIEWS[view](distribution("train-leo").changed(duration_s=3.0))
    env.reset(seed=5)
    rng = np.random.default_rng(1)
    for _ in range(40):
        act(env, rng)
    twin = copy.deepcopy(env)
    ours, theirs = np.random.default_rng(2), np.random.default_rng(2)
    mine = [act(env, ours) for _ in range(90)]
    assert str(mine) == str([act(twin, theirs) for _ in range(90)])


def test_a_deep_copy_goes_through_wrappers() -> None:
    env = gym.make("orbitcc/Dumbbell-v0", duration_s=3)
    env.reset(seed=1)
    env.step(np.ones(1, np.float32))
    twin = copy.deepcopy(env)
    for _ in range(20):
        one, other = (e.step(np.full(1, 0.3, np.float32)) for e in (env, twin))
        assert np.array_equal(one[0], other[0])


def test_vector_environments_say_how_they_begin_anew() -> None:
    for make in (orbitcc.VectorCongestionEnv, orbitcc.FlowVectorEnv):
        assert make(2, agents()).autoreset_mode is AutoresetMode.NEXT_STEP
        env = make(2, agents(), autoreset_mode="SameStep")
        assert env.autoreset_mode is env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP


def test_infos_tell_what_the_last_interval_was_like() -> None:
    env = orbitcc.CongestionEnv(agents(duration_s=30.0))
    _, info = env.reset(seed=1)
    assert set(info) == set(STEP_INFO)
    utilisation = []
    for k in range(600):
        *_, info = env.step(np.full(1, 0.5 if k < 150 else 0.0, np.float32))
        utilisation.append(info["step_utilisation"])
    row = env.statistics()
    assert info["step_goodput_mbps"] == pytest.approx(row["goodput_bps"] / 1e6)
    assert info["step_rtt_ms"] == pytest.approx(row["rtt_mean_s"] * 1e3)
    assert info["step_queue_bytes"] == row["queue_bytes"]
    assert info["step_utilisation"] == pytest.approx(row["goodput_bps"] / row["capacity_bps"])
    assert 0.05 < np.mean(utilisation) <= 1.0
    vector, parallel = orbitcc.VectorCongestionEnv(1, agents()), orbitcc.parallel_env(agents())
    max_agents = orbitcc.FlowVectorEnv(1, agents())
    for many in (vector, parallel, max_agents):
        many.reset(seed=1)
    for _ in range(20):
        of_vector = vector.step(np.zeros((1, 1), np.float32))[4]
        of_flows = max_agents.step(np.zeros((1, 1), np.float32))[4]
        of_parallel = parallel.step({"flow_0": np.zeros(1, np.float32)})[4]
    for name in STEP_INFO:
        assert of_vector[name][0] == of_parallel["flow_0"][name]
        assert of_flows[name].shape == (1,)


def test_single_agent_views_refuse_several_agents_and_name_those_for_them() -> None:
    for view in ("single", "vector"):
        with pytest.raises(OrbitccError, match=r"orbitcc\.parallel_env"):
            VIEWS[view](agents(), max_agents=2)


@pytest.mark.parametrize("scenario", ["train-leo", "train-geo"])
def test_every_sub_environment_always_has_a_flow_with_intervals_in_rtts(scenario: str) -> None:
    """A connection that ends within an interval is replaced at once, though decisions are on no grid."""
    env = orbitcc.FlowVectorEnv(12, scenario, preset=HALF_AN_RTT, autoreset_mode="SameStep", stagger=True)
    rng = np.random.default_rng(3)
    lengths, ended = [], 0
    env.reset(seed=5)
    for _ in range(1_500):
        actions = rng.uniform(-1, 1, (12, 1)).astype(np.float32)
        _, _, terminated, truncated, _ = env.step(actions)
        over = terminated | truncated
        ended += np.count_nonzero(truncated)
        rows = env.statistics()[~over]
        assert np.all(rows[:, STATS["active"]] == 1)
        rtts = rows[:, STATS["rtt_mean_s"]]
        lengths.extend(rows[:, STATS["interval_s"]] / rtts)
    assert ended > 20
    assert np.nanmedian(lengths) == pytest.approx(0.5, rel=0.2)  # of the mean RTT of the world


@pytest.mark.parametrize(("base_rtt_ms", "shortest", "longest"), [(40.0, 30.0, 30.0), (600.0, 120.0, 140.0)])
def test_an_interval_in_rtts_has_a_shortest_length(base_rtt_ms: float, shortest: float, longest: float) -> None:
    fifth = {"base": "ratios", "interval_rtts": 0.2, "interval_least_ms": 30.0}
    path = get("dumbbell", base_rtt_ms=base_rtt_ms, rate_mbps=200.0, duration_s=20.0, flows=1, controller="external")
    env = orbitcc.FlowVectorEnv(1, path, preset=fifth)
    env.reset(seed=1)
    lengths = []
    for _ in range(60):
        env.step(np.full((1, 1), -0.2, np.float32))
        lengths.append(1e3 * env.statistics()[0, STATS["interval_s"]])
    assert shortest - 1e-6 <= np.median(lengths[20:]) <= longest + 1e-6, "0.2 RTTs with a queue, at least 30 ms"


def test_connections_end_within_intervals_in_rtts() -> None:
    """A connection that ends within an interval is seen until its end, and its successor in every later interval."""
    path = get("dumbbell", duration_s=12.0)
    first = path.flows[0].changed(controller=ControllerSpec(name="external"), name="a", stop_s=5.0)
    env = orbitcc.FlowVectorEnv(1, path.with_flows([first]), preset=HALF_AN_RTT, autoreset_mode="SameStep")
    env.reset(seed=2)
    ends, begins = [], []
    for _ in range(1_000):
        _, _, _, truncated, _ = env.step(np.zeros((1, 1), np.float32))
        row = env.statistics()[0]
        begins.append(round(row[STATS["time_s"]] - row[STATS["interval_s"]], 9))
        if truncated[0]:
            ends.append(round(row[STATS["time_s"]], 9))
        if len(ends) == 2:
            break
    assert 5.0 <= ends[0] < 5.1
    # The second connection began at 5 s; as with intervals on a grid, it is seen from the next decision on.
    assert begins[begins.index(ends[0]) - 1] < 5.0
    assert ends[1] - ends[0] >= 1.9
    assert all(b > a for a, b in itertools.pairwise(begins))


@pytest.mark.parametrize(
    "made",
    [
        lambda: orbitcc.VectorCongestionEnv(2, agents(), backend="emulator"),
        lambda: orbitcc.BatchedParallelEnv(2, agents(), backend="emulator"),
    ],
    ids=["vector", "batched"],
)
def test_there_is_one_kernel_for_one_world(made) -> None:
    with pytest.raises(OrbitccError, match="^backend: 'emulator'.* simulator for 2 worlds"):
        made()
    with pytest.raises(OrbitccError, match="^backend: 'emulator'.* simulator for a journal"):
        orbitcc.FlowVectorEnv(1, agents(), backend="emulator", journal=True)


def test_only_backends_that_exist_run_environments() -> None:
    with pytest.raises(OrbitccError, match="backend"):
        orbitcc.CongestionEnv(agents(), backend="emulatr")


def test_a_padded_population_is_fixed_and_plays_the_same_packets() -> None:
    free, padded = orbitcc.parallel_env(late_and_early()), orbitcc.parallel_env(late_and_early(), pad_absent=True)
    free.reset(seed=3)
    obs, infos = padded.reset(seed=3)
    everybody = ["flow_0", "flow_1", "flow_2"]
    assert list(obs) == list(infos) == padded.agents == everybody
    assert [infos[a]["present"] for a in everybody] == [True, False, True]
    rng, absent = np.random.default_rng(0), 0
    while free.agents:
        actions = {agent: rng.uniform(-1, 1, 1).astype(np.float32) for agent in everybody}
        acted = list(free.agents)
        theirs = free.step({agent: actions[agent] for agent in acted})
        ours = padded.step(actions)
        assert all(set(part) == set(everybody) for part in ours)
        for agent in everybody:
            if agent in theirs[0]:
                assert np.array_equal(ours[0][agent], theirs[0][agent])
                assert ours[1][agent] == theirs[1][agent]
            else:
                absent += 1
                assert not ours[0][agent].any()
                assert ours[1][agent] == 0.0
            assert ours[4][agent]["present"] == (agent in free.agents)
            assert ours[0][agent] in padded.observation_space(agent)
        assert any(ours[3].values()) == (not free.agents)
    assert absent > 0
    assert padded.agents == []
    assert all(ours[3].values())
    assert not any(ours[2].values())


@pytest.mark.parametrize("everybody", [True, False])
def test_a_padded_population_is_terminated_if_all_objects_were_delivered_else_truncated(everybody: bool) -> None:
    small = Flow(controller="external", traffic={"kind": "bytes", "bytes": 50_000})
    env = orbitcc.parallel_env(agents(small, small if everybody else Flow(controller="external")), pad_absent=True)
    env.reset(seed=1)
    goodput = {}
    while env.agents:
        _, _, terminated, truncated, infos = env.step({agent: np.zeros(1, np.float32) for agent in env.agents})
        goodput |= {agent: info["goodput_mbps"] for agent, info in infos.items() if info["goodput_mbps"] > 0}
    assert set(terminated.values()) == {everybody}
    assert set(truncated.values()) == {not everybody}
    assert set(goodput) == {"flow_0", "flow_1"}


def test_rllibs_own_wrapper_meets_late_joiners_where_the_population_is_padded() -> None:
    wrapper = pytest.importorskip("ray.rllib.env.wrappers.pettingzoo_env").ParallelPettingZooEnv
    scenario = late_and_early(traffic={"kind": "bytes", "bytes": 50_000})
    env = wrapper(orbitcc.parallel_env(scenario, pad_absent=True))
    obs, _ = env.reset(seed=1)
    steps, ended = 0, False
    while not ended:
        obs, rewards, terminated, truncated, _ = env.step({agent: np.zeros(1, np.float32) for agent in obs})
        assert set(obs) == set(rewards) == {"flow_0", "flow_1", "flow_2"}
        ended = terminated["__all__"] or truncated["__all__"]
        steps += 1
    assert steps > 100


def test_torchrls_wrapper_meets_late_joiners_where_the_population_is_padded() -> None:
    torchrl = pytest.importorskip("torchrl.envs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is tested with an older PettingZoo, and says so
        env = torchrl.PettingZooWrapper(orbitcc.parallel_env(late_and_early(), pad_absent=True), use_mask=False)
    env.set_seed(1)
    torchrl.check_env_specs(env)
    (group,) = env.group_map
    steps = env.rollout(400, break_when_any_done=False)  # over the end of an episode
    ends = steps["next", "truncated"].flatten().nonzero().flatten().tolist()
    assert len(ends) >= 1
    present = steps["next", group, "info", "present"]
    assert present.shape == (400, 3)
    assert 0 < present.sum() < present.numel()
    totals = steps["next", group, "info", "goodput_mbps"]
    assert ((totals > 0).sum(0) == len(ends)).all()  # of every flow once in an episode


def test_truncated_quantile_critics_of_sb3_contrib_learn_on_flows() -> None:
    contrib = pytest.importorskip("sb3_contrib")
    from orbitcc.envs.environments.sb3 import SB3VecEnv

    env = SB3VecEnv(orbitcc.FlowVectorEnv(4, agents(), autoreset_mode="SameStep"))
    model = contrib.TQC("MlpPolicy", env, learning_starts=40, policy_kwargs={"net_arch": [16]}, seed=1, device="cpu")
    model.learn(120)
    assert model.num_timesteps >= 120
