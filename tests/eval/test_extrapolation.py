"""Policies judged outside the conditions they were trained in."""

import pytest

from orbitcc.envs import scenarios
from orbitcc.envs.description.conditions import conditions
from orbitcc.eval.extrapolation import ABSOLUTE, _within
from tests.envs import trace_folders


def test_conditions_of_a_static_path():
    # buffer 2 BDP of 100 Mbit/s x 50 ms, by construction
    met = conditions([scenarios.get("dumbbell", buffer_bdp=2.0, flows=3)])
    assert met["rate_mbps"] == (100, 100)
    assert met["base_rtt_ms"] == (50, 50)
    assert met["buffer_bdp"] == pytest.approx((2.0, 2.0))
    assert met["flows"] == (3, 3)
    assert met["loss"] == (0, 0)


def test_conditions_span_schedules_and_scenarios():
    runs = [scenarios.get("leo-responsiveness", run=run, loss=True) for run in (1, 2)]
    met = conditions(runs)
    assert 50 <= met["rate_mbps"][0] < met["rate_mbps"][1] <= 100
    assert 5 <= met["base_rtt_ms"][0] < 20
    assert 80 < met["base_rtt_ms"][1] <= 100
    assert 0 < met["loss"][1] <= 0.01
    alone = conditions(runs[:1])
    assert all(met[name][0] <= alone[name][0] and alone[name][1] <= met[name][1] for name in met)


def test_a_gilbert_elliott_loss_counts_with_its_long_run_rate():
    # bad a quarter of the time, all packets lost there, one in ten thousand otherwise
    lossy = {"kind": "gilbert_elliott", "good_loss": 1e-4, "bad_loss": 1.0, "to_bad_per_s": 1.0, "to_good_per_s": 3.0}
    scenario = scenarios.get("dumbbell").override("links.0.loss", lossy)
    assert conditions([scenario])["loss"][1] == pytest.approx(0.25 + 0.75e-4)


def test_a_policy_outside_its_training_range_is_named_with_both_ranges(tmp_path, checkpoint_folder):
    from orbitcc.eval import contenders, suites
    from orbitcc.eval.extrapolation import warnings
    from orbitcc.eval.results import Results

    line_up = contenders.line_up(["cubic"], [str(checkpoint_folder)])
    results = Results(suites.get("responsiveness"), line_up, "quick", 2, tmp_path, "0")
    (warning,) = warnings(results)
    assert "idle-policy" in warning
    assert "trained: 10–20 Mbit/s" in warning  # its card says so; the runs have 50-100
    assert "base RTT" not in warning  # 1-500 ms covers them


def test_the_training_range_of_training_says_what_a_world_may_hold_at_any_time():
    from orbitcc.agents.training_range import training_range

    leo = training_range(scenarios.distribution("train-leo"))
    assert leo.rate_mbps == (5, 200)  # 10 to 200, halved at most by a reconfiguration
    assert (leo.base_rtt_ms, leo.buffer_bdp) == ((10, 250), (0.1, 8))
    assert leo.flows == (1, 5)
    assert training_range(scenarios.distribution("train-astraea")).flows == (
        1,
        5,
    )  # 2 to 5, and the first is alone at first
    single = training_range(scenarios.get("dumbbell"))
    assert (single.rate_mbps, single.base_rtt_ms, single.loss, single.flows) == ((100, 100), (50, 50), (0, 0), (1, 1))
    # A mixture has the widest range of its parts: LEO paths of 10 to 250 ms, and GEO links of 480 to 700 ms.
    assert training_range(scenarios.distribution("train-mixed")).base_rtt_ms == (10, 700)


def test_a_policy_is_named_that_was_trained_on_links_of_the_suite(tmp_path, checkpoint_folder):
    from safetensors.numpy import load_file

    from orbitcc.agents import checkpoint
    from orbitcc.agents.training_range import training_range
    from orbitcc.eval import contenders, suites
    from orbitcc.eval.extrapolation import warnings
    from orbitcc.eval.results import Results

    loaded, tensors = checkpoint.load(str(checkpoint_folder)), load_file(checkpoint_folder / checkpoint.WEIGHTS)
    for run, warned in ((2, True), (3, False)):
        range_ = training_range(scenarios.get("leo-responsiveness", run=run))
        card = loaded.card.model_copy(update={"name": f"on-{run}", "training_range": range_})
        checkpoint.save(tmp_path / f"on-{run}", card, tensors)
        line_up = contenders.line_up([], [str(tmp_path / f"on-{run}")])
        found = warnings(Results(suites.get("responsiveness"), line_up, "quick", 2, tmp_path, "0"))
        said = "on-2 was trained on links of this suite: its figures are those of a training set"
        assert [text for text in found if "links" in text] == [said] * warned
        assert any(text.startswith(f"on-{run} is evaluated outside its training range: ") for text in found)


def test_links_of_folders_and_parts_of_trace_sets_are_remembered(tmp_path):
    from orbitcc.agents.training_range import training_range
    from orbitcc.envs.scenarios.folder import load_folder
    from orbitcc.eval import suites
    from orbitcc.training import recipe

    world = scenarios.get("dumbbell", controller="external")
    world.save(tmp_path / "w.toml")
    assert training_range(load_folder(tmp_path)).links == world.links_digest
    traces = trace_folders.shared()
    for split, there in (("test", True), ("train", False)):
        plan = recipe.load("ppo-leo", [f"scenario.traces={traces}", f"scenario.split={split}"])
        own = training_range(plan.world()).links.split()
        assert (not suites.get("traces", {"traces": traces}).parts().isdisjoint(own)) == there


def test_rounding_and_a_residual_loss_are_no_warning():
    def outside(met, trained, name):
        return not _within(met, trained, ABSOLUTE.get(name, 0.0))

    assert not outside((5e-6, 5e-6), (0.0, 0.0), "loss")  # the GEO links
    assert outside((0.0, 1e-4), (0.0, 0.0), "loss")
    assert not outside((9.96, 200.9), (10.0, 200.0), "rate_mbps")  # 9.96 and 201 with three digits
    assert outside((9.9, 200.0), (10.0, 200.0), "rate_mbps")
    assert outside((1, 6), (1, 5), "flows")


def test_runs_that_are_copies_are_named(tmp_path):
    from orbitcc.eval import comparison, contenders, suites
    from orbitcc.eval.extrapolation import warnings
    from orbitcc.eval.runner import run_suite

    world = scenarios.get("dumbbell", duration_s=2).with_controller("external")
    world.override("sim.noise", False).save(tmp_path / "one.toml")
    line_up = contenders.line_up(["cubic", "reno"], [])
    for folder, noisy in (("still", False), ("noisy", True)):
        (tmp_path / folder).mkdir()
        world.override("sim.noise", noisy).save(tmp_path / folder / "one.toml")
        results = run_suite(
            suites.get(str(tmp_path / folder)),
            line_up,
            out_dir=tmp_path / f"out-{folder}",
            runs=2,
            workers=1,
            quiet=True,
        )
        told = [] if noisy else ["cubic, reno: runs of a world are equal in every figure; they are as good as one"]
        assert warnings(results) == told
        found = comparison.differences(results.out_dir, None, ["cubic"], ["reno"])
        assert ["as good as one" in line for line in comparison.warnings(found)] == [True] * len(told)
