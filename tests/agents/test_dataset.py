"""Decisions of flows: what is recorded is what happened, and Minari loads and replays it."""

import json

import numpy as np
import pytest

from orbitcc.agents.data.decisions import Actor, collect, expressed
from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.scenario import ControllerSpec
from orbitcc.envs.environments.presets import STATS, Native, preset
from orbitcc.envs.environments.single import CongestionEnv
from tests.commands.shell import called, orbitcc

DUMBBELL = {"duration_s": 4.0, "rate_mbps": 20.0}


def controller(text):
    return Flow.parse(text).controller


def test_a_watched_controller_sends_the_same_packets_as_in_a_plain_run():
    scenario = scenarios.get("dumbbell", **DUMBBELL).with_flows([Flow.parse("cubic"), Flow.parse("bbr3@1s")])
    episodes = list(collect(scenario, preset=preset("astraea"), seed=5))
    assert [(e.flow, e.controller) for e in episodes] == [("cubic-0", "cubic"), ("bbr3-1", "bbr3")]
    recording = simulate(scenario, seed=5, record_interval_s=0.03)
    for flow, episode in enumerate(episodes):
        ends = episode.statistics[:, STATS["time_s"]]
        rows = np.searchsorted(recording.t_s, ends - 1e-9)
        np.testing.assert_allclose(recording.t_s[rows], ends, atol=1e-9)
        windows = recording.flows["cwnd_packets"][rows, flow]
        assert (windows == episode.statistics[:, STATS["cwnd_packets"]]).mean() > 0.99  # the last sees the very end
        assert episode.observations.shape == (len(ends), 50)
        assert len(episode.actions) == len(episode.rewards) == len(ends) - 1
        assert not episode.terminated


@pytest.mark.parametrize("name", ["log-window", "astraea", "aurora", "log-rate"])
def test_actions_are_found_again_in_what_they_did(name):
    env = CongestionEnv("dumbbell", action=name, duration_s=8.0, rate_mbps=300.0, buffer_bdp=20.0)
    env.reset(seed=1)
    growth = 12 if "log" in name else 120
    rng, acted, seen = np.random.default_rng(0), [], [[*env.statistics().values()]]
    for step in range(260):
        acted.append(1.0 if step < growth else rng.uniform(-1, 1))
        env.step(np.array([acted[-1]], np.float32))
        seen.append([*env.statistics().values()])
    statistics = np.array(seen)
    found = expressed(Native(name), statistics[:-1], statistics[1:])
    known = statistics[:-1, STATS["cwnd_packets"]] > 100
    assert known.sum() > 100
    # A window is whole segments: one more or less is this much of an action.
    grain = 1.5 / statistics[:-1, STATS["cwnd_packets"]][known] / (0.25 * 0.3 if "log" in name else 0.025)
    assert (np.abs(found - acted)[known] <= np.maximum(grain, 1e-3)).all()


def test_windows_that_double_are_one_where_nothing_can_be_turned_round():
    from orbitcc.envs.environments.presets import Action

    rows = np.zeros((3, len(STATS)))
    rows[:, STATS["cwnd_packets"]] = [10, 20, 5]
    custom = Action(lambda actions, stats, who: stats[:, 0])
    np.testing.assert_allclose(expressed(custom, rows[:-1], rows[1:]), [1.0, -1.0])
    np.testing.assert_allclose(expressed(Native("orca"), rows[:1], rows[1:2]), [0.5])


def test_policies_in_other_terms_are_refused():
    with pytest.raises(OrbitccError, match="preset: 'aurora' is not allowed; allowed: the observation of perigee"):
        list(collect("dumbbell", [ControllerSpec(name="perigee")], preset=preset("aurora")))
    with pytest.raises(OrbitccError, match="a controller for the learning flows"):
        list(collect("train-leo"))
    assert Actor.of(controller("reno")).act is None


CBR = {"kind": "cbr", "rate_mbps": 1.0}
CROSS = Flow(controller="udp", traffic=CBR)


def test_udp_flows_are_no_episodes_and_stay_as_they_are():
    crowded = scenarios.get("parking-lot", hotspots_per_min=10, duration_s=6.0, long_start_s=1.0)
    assert sum(flow.controller.name == "udp" for flow in crowded.flows) == 4
    episodes = list(collect(crowded, [ControllerSpec(name="reno")]))
    assert [(e.flow, e.controller) for e in episodes] == [
        (flow, "reno") for flow in ("long", "cross-0", "cross-1", "cross-2")
    ]
    world = scenarios.get("dumbbell", **DUMBBELL).with_flows([CROSS, Flow.parse("cubic")])
    assert [(e.flow, e.controller) for e in collect(world)] == [("cubic-1", "cubic")]


def test_of_a_split_connection_the_part_behind_the_proxy_is_the_episode():
    behind = Flow(controller="cubic", pep={"of": 0, "buffer_bytes": 10**6})
    world = scenarios.get("dumbbell", **DUMBBELL).with_flows([Flow.parse("reno"), behind])
    assert [(e.flow, e.controller) for e in collect(world)] == [("cubic-1", "cubic")]


minari = pytest.importorskip("minari", reason="the extra `data` is not installed (`make full` brings it)")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    return tmp_path / "sets"


def made(name, *args):
    changes = [text for key, value in DUMBBELL.items() for text in ("--set", f"{key}={value}")]
    done = orbitcc("dataset", "dumbbell", "--id", name, *changes, *args)
    assert done.returncode == 0, done.stderr
    return minari.load_dataset(name)


def test_a_policys_decisions_replay_bit_for_bit(root):
    dataset = made("orbitcc/dumbbell-perigee-v0", "--policy", "perigee", "--episodes", "2", "--seed", "7")
    assert (dataset.total_episodes, dataset.total_steps > 100) == (2, True)
    env = dataset.recover_environment()
    for episode in dataset.iterate_episodes():
        obs, _ = env.reset(seed=int(dataset.storage.get_episode_metadata([episode.id]).__iter__().__next__()["seed"]))
        np.testing.assert_array_equal(obs, episode.observations[0])
        for k, action in enumerate(episode.actions):
            obs, reward, terminated, truncated, _ = env.step(action)
            np.testing.assert_array_equal(obs, episode.observations[k + 1])
            assert np.float32(reward) == np.float32(episode.rewards[k])
        assert (terminated, truncated) == (episode.terminations[-1], episode.truncations[-1])


def test_classical_flows_are_episodes_that_an_environment_takes(root):
    dataset = made("classics-v0", "--flow", "cubic", "--flow", "vegas", "--set", "flows=2", "--episodes", "1",
                   "--preset", "ratios", "--reward", "log-share")  # fmt: skip
    assert dataset.total_episodes == 2
    told = [metadata["controller"] for metadata in dataset.storage.get_episode_metadata([0, 1])]
    assert told == ["cubic", "vegas"]
    names = json.loads(dataset.storage.metadata["statistics"])
    assert tuple(names) == tuple(STATS)
    env = dataset.recover_environment()
    env.reset(seed=1)
    for episode in dataset.iterate_episodes():
        assert env.action_space.contains(episode.actions[0])
        assert all(env.observation_space.contains(obs) for obs in episode.observations)
        assert np.abs(episode.actions).max() > 0
        assert episode.infos["statistics"].shape == (len(episode.observations), len(names))
        env.step(episode.actions[0])


def test_a_world_with_udp_and_cubic_is_one_episode(root, tmp_path):
    world = scenarios.get("dumbbell", **DUMBBELL)
    world.with_flows([CROSS, Flow.parse("cubic")]).save(tmp_path / "udp.toml")
    world.with_flows([CROSS]).save(tmp_path / "alone.toml")
    done = called("dataset", "udp.toml", "--id", "udp-v0", "--episodes", "2", cwd=tmp_path)
    assert (done.returncode, minari.load_dataset("udp-v0").total_episodes) == (0, 2), done.stderr
    refused = called("dataset", "alone.toml", "--id", "alone-v0", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert "scenario: 'dumbbell' is not allowed; allowed: one with a flow that an agent can drive" in refused.stderr


@pytest.mark.parametrize("name", ["external", "contender"])
def test_a_flow_that_nobody_drives_is_no_data(name, root):
    done = called("dataset", "dumbbell", "--flow", name, "--id", "aa/nobody-v0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a controller that runs by itself" in done.stderr


def test_nothing_half_written_and_nothing_overwritten(root, monkeypatch):
    made("taken-v0", "--flow", "cubic", "--episodes", "1")
    before = sorted(path.name for path in root.iterdir())
    again = orbitcc("dataset", "dumbbell", "--id", "taken-v0", "--flow", "cubic")
    wrong = orbitcc("dataset", "dumbbell", "--id", "no version", "--flow", "cubic")
    begins = orbitcc("dataset", "dumbbell", "--id", "begins-v0", "--flow", "cubic@3s")
    assert (begins.returncode, begins.stderr.count("\n")) == (2, 1)
    assert "cubic@3s" in begins.stderr
    drawn = orbitcc("dataset", "train-leo", "--id", "drawn-v0", "--policy", "perigee", "--set", "duration_s=6")
    assert (drawn.returncode, drawn.stderr.count("\n")) == (2, 1)
    late = orbitcc("dataset", "dumbbell", "--id", "late-v0", "--flow", "cubic", "--set", "duration_s=0.001")
    assert [done.returncode for done in (again, wrong, late)] == [2, 2, 2]
    assert all(done.stderr.count("\n") == 1 for done in (again, wrong, late)), late.stderr
    assert "--id: 'taken-v0' is not allowed" in again.stderr
    assert sorted(path.name for path in root.iterdir()) == before
    words = ["dataset", "dumbbell", "--id", "ab/cd-v0", "--flow", "cubic", "--flow", "reno", "--flow", "bbr"]
    refused = orbitcc(*words, "--root", str(root / "fresh"))
    assert (refused.returncode, (root / "fresh").exists()) == (2, False), refused.stderr


@pytest.mark.parametrize("given", ["option", "variable"])
def test_a_relative_folder_of_data_sets_is_one_below_the_working_directory(given, tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", "sets" if given == "variable" else str(tmp_path / "other"))
    words = ["dataset", "dumbbell", "--id", "ab/cd-v0", "--episodes", "1", "--set", "duration_s=2"]
    done = called(*words, *(["--root", "sets"] if given == "option" else []), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sets" / "ab" / "cd-v0").is_dir()


def test_an_id_that_minari_refuses_is_one_line_before_any_work(tmp_path):
    pytest.importorskip("minari")
    done = called("dataset", "dumbbell", "--id", "x/y-v0", "--root", str(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "--id" in done.stderr
    assert list(tmp_path.iterdir()) == []
