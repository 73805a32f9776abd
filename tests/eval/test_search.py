"""A search finds what is known to go wrong, within the declared ranges, the same way every time."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios.folder import Folder
from orbitcc.eval import suites
from orbitcc.eval.contenders import from_controller
from orbitcc.eval.runner import run_suite
from orbitcc.eval.search import Search, run_search, save, space_of
from orbitcc.eval.search.regret import entered, regret, shortfalls
from orbitcc.eval.search.search import _Shrink, told_apart
from tests.commands.shell import called

pytest.importorskip("optuna")


def search(tmp_path, target, objective="utilisation", against="cubic", scenario="train-leo", trials=16):
    return Search(
        from_controller(target), (from_controller(against),), objective, space_of(scenario), trials, Path(tmp_path)
    )


def test_a_controller_is_not_searched_against_itself(tmp_path):
    for target, against in (("cubic:hystart=both", "cubic"), ("cubic", "cubic:fast_convergence=on")):
        done = called("search", target, "--against", against, "--out", str(tmp_path / "out"))
        assert (done.returncode, done.stdout) == (2, "")
        assert f"another controller than {target}" in done.stderr
        assert not (tmp_path / "out").exists()
    for more, told in (
        (("--against", "cubic", "--against", "cubic:hystart=both"), "another controller than bbr3 and cubic"),
        (("--against", "cubic", "--against", "reno", "--objective", "starvation"), "one, which is the rival"),
    ):
        done = called("search", "bbr3", *more, "--out", str(tmp_path / "out"))
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("cubic@5",), "TARGET: 'cubic@5' is not allowed"),
        (("cubik",), "TARGET: unknown name 'cubik'"),
        (("cubic:hystart=maybe",), "TARGET.params.hystart: unknown name 'maybe'"),
        (("cubic", "--against", "reno@5"), "--against: 'reno@5' is not allowed"),
        (("perigee", "--against", "no_module:make:delay=x"), "--against"),
    ],
)
def test_a_wrong_controller_is_told_by_its_argument(tmp_path, args, said):
    done = called("search", *args, "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_space_is_what_the_distribution_declares():
    space = space_of("train-leo")
    spans = {p.name: p.span for p in space.parameters}
    declared = scenarios.distribution("train-leo")
    assert spans["rate_mbps"] == declared.rate_mbps
    assert spans["base_rtt_ms_2"] == declared.base_rtt_ms
    assert spans["rate_factor_1"] == declared.slots.rate_factor
    assert spans["loss"].high == declared.loss.p.high
    assert all(p.span.low <= p.default <= p.span.high or p.change for p in space.parameters)
    assert not any(p.change for p in space_of("train-astraea").parameters)  # static links


def test_the_rtt_of_an_access_network_is_searched(tmp_path):
    """As in models of measured paths: 0.1 ms, and 40 to 50 ms that the access network always adds."""
    access = "[access]\nprocessing_rtt_ms = [30, 35]\nterrestrial_rtt_ms = [10, 15]\n"
    fields = 'kind = "paths"\nname = "m"\nrate_mbps = [90, 110]\nbase_rtt_ms = [0.1, 0.1]\nbuffer_bdp = [1, 2]\n'
    (tmp_path / "m.toml").write_text(f"{fields}flows = [1, 1]\n{access}")
    space = space_of(str(tmp_path / "m.toml"))
    rtt = next(p for p in space.parameters if p.name == "base_rtt_ms")
    assert (rtt.span.low, rtt.span.high, rtt.default) == (pytest.approx(40.1), pytest.approx(50.1), 50.0)


def test_a_world_has_what_was_chosen():
    made = search(".", "reno").world({"base_rtt_ms": 20.0, "base_rtt_ms_2": 80.0, "rate_factor_3": 0.5, "loss": 0.01})
    assert [made.base_rtt_ms(0, t) for t in (5, 15, 25, 35)] == [20, 20, 80, 80]
    assert made.capacity_mbps(35) == 0.5 * made.capacity_mbps(5)
    assert made.links[0].loss == 0.01


def test_cubic_collapses_under_loss_and_bbr3_stalls_on_a_stale_rtt():
    lossy = search(".", "cubic", against="bbr3")
    assert lossy.regret({"loss": 0.01}) > 0.5 > 0.1 > abs(lossy.regret({}))
    stale = search(".", "bbr3")
    deep = {"base_rtt_ms": 20.0, "buffer_bdp": 4.0}
    assert stale.regret({**deep, "base_rtt_ms_1": 100.0}) > 0.3 > 0.1 > abs(stale.regret(deep))


def test_of_several_references_the_best_in_a_world_counts():
    both = replace(search(".", "reno"), against=(from_controller("cubic"), from_controller("bbr3")))
    each = [replace(both, against=(one,)) for one in both.against]
    lossy, stale = {"loss": 0.01}, {"base_rtt_ms": 20.0, "buffer_bdp": 4.0, "base_rtt_ms_1": 100.0}
    for values, best in ((lossy, 1), (stale, 0)):
        regrets = [one.regret(values) for one in each]
        assert both.regret(values) == max(regrets) == regrets[best] > min(regrets)


def test_power_is_utilisation_over_inflation():
    world = search(".", "reno").world({"buffer_bdp": 4.0})
    run = simulate(entered(world, from_controller("reno")), record_interval_s=1.0)
    used, inflation, power = (shortfalls(run, o) for o in ("utilisation", "delay", "power"))
    assert inflation[-1] > 1.5  # a full buffer
    np.testing.assert_allclose(1 - power, (1 - used) / (1 + inflation))
    nothing = world.changed(links=(world.links[0].changed(rate_mbps=((0.0, 50.0), (20.0, 0.001))),))
    assert shortfalls(simulate(entered(nothing, from_controller("reno"))), "power")[-1] > 0.9


def test_vivace_yields_to_cubic_where_there_is_room_for_a_queue():
    beside = search(".", "vivace", "starvation")
    assert beside.regret({"buffer_bdp": 4.0}) > 0.3


def test_of_what_matters_in_the_same_way_one_is_kept():
    worlds = [(0.5, 7.0, ("+a",)), (0.7, 8.0, ("+a",)), (0.6, 2.0, ("-a",)), (0.01, 5.0, ("+b",))]
    found = told_apart([(got, {"a": a}, kind) for got, a, kind in worlds])
    assert [(f.regret, f.values, f.met) for f in found] == [(0.7, {"a": 8.0}, 2), (0.6, {"a": 2.0}, 1)]


def test_a_world_is_shrunk_to_what_matters():
    chosen = search(".", "cubic", against="bbr3")
    noisy = {**chosen.space.defaults(), "loss": 0.01, "rate_mbps": 60.0, "base_rtt_ms_3": 60.0, "rate_factor_2": 0.9}
    got, values, kind = _Shrink(chosen)(noisy)
    assert kind == ("+loss",)
    assert (values["rate_mbps"], values["base_rtt_ms_3"], values["rate_factor_2"]) == (50.0, 0.0, 1.0)
    assert got >= 0.9 * chosen.regret(noisy)


@pytest.mark.slow
def test_a_search_that_is_resumed_or_has_more_workers_ends_alike(tmp_path, monkeypatch):
    monkeypatch.setattr("orbitcc.eval.search.search.SHRUNK", 1)
    whole = run_search(search(tmp_path / "a", "cubic", against="bbr3", trials=16), workers=2, quiet=True)
    run_search(search(tmp_path / "b", "cubic", against="bbr3", trials=8), workers=1, quiet=True)
    with pytest.raises(OrbitccError, match="--resume"):
        run_search(search(tmp_path / "b", "cubic", against="bbr3", trials=16), workers=1, quiet=True)
    parts = run_search(search(tmp_path / "b", "cubic", against="bbr3", trials=16), workers=1, quiet=True, resume=True)
    assert parts == whole
    first, second = (json.loads((tmp_path / name / "found.json").read_text(encoding="utf-8")) for name in "ab")
    assert first == second
    assert any("+loss" in one.matters for one in whole)
    tried = [Scenario.load(path) for path in sorted((tmp_path / "a" / "worst").glob("*.toml"))]
    chosen = search(tmp_path, "cubic", against="bbr3")
    regrets = [regret(world, "utilisation", chosen.target, chosen.against) for world in tried]
    assert 1 < len(regrets) <= 16
    assert regrets == sorted(regrets, reverse=True)
    assert regrets[0] >= whole[0].regret / 1.01
    with pytest.raises(OrbitccError, match="another"):
        run_search(search(tmp_path / "a", "reno", trials=16), workers=1, quiet=True, resume=True)
    commands = save(search(tmp_path / "a", "cubic", against="bbr3"), whole)
    world = Scenario.load(tmp_path / "a" / "worlds" / "01.toml")
    replay = Scenario.load(commands["01"].split()[-1])
    assert [f.controller.name for f in world.flows] == ["external"]
    assert [f.controller.name for f in replay.flows] == ["cubic"]
    assert regret(world, "utilisation", chosen.target, chosen.against) == pytest.approx(whole[0].regret)
    assert simulate(replay).flow_totals[0]["received_bytes"] > 0


def test_a_folder_is_a_distribution_and_a_suite(tmp_path):
    chosen = search(tmp_path, "cubic")
    for k, loss in enumerate((0.0, 0.01)):
        chosen.world({"loss": loss}).save(tmp_path / "worlds" / f"{k}.toml")
    found = scenarios.load(str(tmp_path / "worlds"))
    assert isinstance(found, Folder)
    assert found.max_agents == 1
    drawn = [found.sample(np.random.default_rng(k)) for k in range(8)]
    assert {world.links[0].loss for world in drawn} == {0.0, 0.01}
    assert len({world.seed for world in drawn}) == 8
    suite = suites.get(str(tmp_path / "worlds"))
    results = run_suite(suite, [from_controller("reno")], out_dir=tmp_path / "out", workers=1, quiet=True)
    assert [row["point"]["world"] for row in results.rows] == ["0", "1"]
    with pytest.raises(OrbitccError, match="toml"):
        scenarios.load(str(tmp_path / "out"))


def test_an_error_in_a_file_of_a_folder_names_the_file(tmp_path):
    search(tmp_path, "cubic").world({}).save(tmp_path / "1.toml")
    text = (tmp_path / "1.toml").read_text(encoding="utf-8")
    (tmp_path / "2.toml").write_text(text.replace("rate_mbps", "rate_mpbs"), encoding="utf-8")
    for load in (scenarios.load, suites.get):
        with pytest.raises(OrbitccError, match=r"2\.toml, links\.0\.rate_mpbs: .* did you mean 'rate_mbps'"):
            load(str(tmp_path))
    (tmp_path / "2.toml").write_text("a", encoding="utf-8")
    with pytest.raises(OrbitccError, match=r"2\.toml: must be TOML"):
        suites.get(str(tmp_path))


def test_what_cannot_be_searched_is_said(tmp_path):
    with pytest.raises(OrbitccError, match="declares ranges"):
        space_of("dumbbell")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "objective", "against", "scenario", "trials", "sign"),
    [
        ("bbr3", "utilisation", "cubic", "train-leo", 96, "+base_rtt_ms changes"),
        ("cubic", "utilisation", "bbr3", "train-leo", 64, "+loss"),
        ("vivace", "starvation", "cubic", "train-leo", 64, ""),
        ("hybla", "loss", "cubic", "train-geo", 64, ""),
    ],
)
def test_known_failures_are_found_without_being_told(tmp_path, target, objective, against, scenario, trials, sign):
    found = run_search(search(tmp_path, target, objective, against, scenario, trials), quiet=True)
    assert found
    assert not sign or any(sign in one.matters for one in found), [one.matters for one in found]
