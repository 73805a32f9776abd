"""Held-out scores: fixed worlds, the same figures whoever drives."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import Layer, ModelCard
from orbitcc.agents.policy import build
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.source import agent_flows
from orbitcc.envs.scenarios import DISTRIBUTIONS
from orbitcc.eval.heldout_metrics import FIGURES, Weights, failures, mean_figures, measure, print_figures
from orbitcc.training import compare, recipe
from orbitcc.training.heldout import HeldOut, _RecordedWorld, constant, uniform


@pytest.fixture(scope="module")
def heldout() -> HeldOut:
    return HeldOut("train-leo", "astraea", worlds=2, seed=77)


def test_scores_are_reproducible(heldout: HeldOut) -> None:
    again = HeldOut("train-leo", "astraea", worlds=2, seed=77)
    assert heldout.reward(constant(0.2)) == again.reward(constant(0.2))
    assert heldout.reward(uniform(1)) == again.reward(uniform(1))
    cubic = {"name": "cubic", "params": {}}
    assert heldout.run(cubic) == again.run(cubic)


def test_a_policy_has_every_score() -> None:
    shipped = checkpoint.load("astraea")
    scores = HeldOut("train-leo", shipped.preset, worlds=2, seed=77).score(shipped.policy)
    assert set(scores) == {*FIGURES, "action_spread"}
    without = {name for name, value in scores.items() if not np.isfinite(value)}
    assert without == {
        "jain_unequal_rtt",
        "ratio_unequal_rtt",
        "least_unequal_rtt",
    }  # flows of `train-leo` have equal RTTs


def test_cubic_fills_the_links(heldout: HeldOut) -> None:
    scores = heldout.run({"name": "cubic", "params": {}})
    assert 0.4 < scores["utilisation"] <= 1.0
    assert 0.0 <= scores["loss"] < 0.2


def test_the_shipped_policy_beats_random_and_constant_policies() -> None:
    name = "astraea"
    shipped = checkpoint.load(name)
    worlds = HeldOut(compare.trained_on(shipped)[0], shipped.preset, worlds=3, seed=2_000_000)
    ours = worlds.reward(shipped.policy.act)
    others = [constant(value) for value in (-1.0, 0.0, 0.1)] + [uniform(1)]
    assert ours > max(worlds.reward(other) for other in others)


def test_a_comparison_has_the_scorecard_of_classical_controllers_too(monkeypatch, capsys) -> None:
    monkeypatch.setattr(compare, "CONSTANTS", (0.0,))
    scores = compare.compare("astraea", worlds=1, seed=5)
    assert {"score", "starved", "flooded", "ratio_equal_rtt", "convergence_s"} <= set(scores["cubic"])
    assert scores["cubic"]["score"] == recipe.load("astraea").evaluation.score.score(scores["cubic"])
    assert set(scores["best constant action"]) == {"reward"}
    print_figures({"cubic": scores["cubic"], "nobody": {"reward": 0.5}})
    rows = {line.split()[1]: line for line in capsys.readouterr().out.splitlines() if len(line.split()) > 2}
    assert "0.5000" in rows["reward"]
    assert rows["starved"].split()[-2] == "lower"
    print_figures({"a": {"reward": 0.5, "convergence_s": float("nan")}, "b": {"reward": 0.4}})
    assert "convergence_s" not in capsys.readouterr().out


@pytest.mark.parametrize(("policy", "parts"), [("perigee", 5), ("astraea", 2), ("apogee", 0)])
def test_a_policy_is_compared_on_the_worlds_of_its_training(policy: str, parts: int) -> None:
    found, _ = compare.trained_on(checkpoint.load(policy))
    assert len(getattr(DISTRIBUTIONS.get(str(found), found), "parts", ())) == parts


def test_the_worlds_that_chose_a_policy_are_refused() -> None:
    with pytest.raises(OrbitccError, match=r"--seed: 1000000 .*whose worlds chose best/"):
        compare.compare("astraea", worlds=1, seed=1_000_000)


def test_a_policy_with_the_name_of_a_controller_is_not_compared(tmp_path) -> None:
    card, tensors = checkpoint.read(checkpoint.resolve("astraea"))
    named = checkpoint.save(tmp_path / "cubic", card.model_copy(update={"name": "cubic"}), tensors)
    with pytest.raises(OrbitccError, match=r"'cubic' .*a policy that does not have the name of a controller"):
        compare.compare(str(named), worlds=1)


def test_a_run_is_compared_on_the_worlds_of_its_own_configuration(tmp_path) -> None:
    plan = recipe.load("astraea", ["scenario=train-leo"])
    about = {"recipe": plan.model_dump(), "worlds": plan.world_digest()}
    run = RunFolder.create(tmp_path, "train-leo", "astraea", 1, about, name="run")
    shutil.copytree(checkpoint.SHIPPED / "astraea", run.best)
    assert compare.trained_on(checkpoint.load(str(run.best))) == (DISTRIBUTIONS["train-leo"], plan.evaluation)
    assert plan.evaluation.score != Weights()


def test_a_run_whose_worlds_have_changed_is_not_compared(tmp_path) -> None:
    about = {"recipe": recipe.load("astraea").model_dump(), "worlds": "0" * 12}
    run = RunFolder.create(tmp_path, "train-leo", "astraea", 1, about, name="run")
    shutil.copytree(checkpoint.SHIPPED / "astraea", run.best)
    with pytest.raises(OrbitccError, match="the worlds of .* have changed since the training began"):
        compare.trained_on(checkpoint.load(str(run.best)))


@pytest.mark.parametrize("words", [["perigee", "--worlds", "0"], ["perigee", "--seed", "-1"], ["no-such-policy"]])
def test_a_comparison_that_cannot_be_made_is_one_line(words: list[str], capsys) -> None:
    with pytest.raises(SystemExit) as left:
        compare.main(words)
    assert left.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_policy_whose_recipe_has_other_worlds_by_now_is_refused() -> None:
    loaded = checkpoint.load("astraea")
    earlier = loaded.card.training_range.model_copy(update={"scenario": "train-earlier"})
    loaded = replace(loaded, card=loaded.card.model_copy(update={"training_range": earlier}))
    with pytest.raises(OrbitccError, match=r"train-earlier; the recipe astraea has train-astraea-wide"):
        compare.trained_on(loaded)


TRAINED = "perigee"
PARTS = DISTRIBUTIONS[checkpoint.load(TRAINED).card.training_range.scenario].parts


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{PARTS.index(part)}")
def test_no_crawling_and_no_flooding_policy_scores_as_well_as_a_trained_one(part) -> None:
    trained = checkpoint.load(TRAINED)
    worlds = HeldOut(part, trained.preset, worlds=6, seed=2_000_000)
    native = {"name": "policy", "params": {"policy": "p"}}
    scores = {
        name: Weights().score(worlds.run(native, {"p": policy}))
        for name, policy in (
            ("trained", trained.policy),
            ("untrained", always(trained.card, 0.0)),  # its window stays at ten segments
            ("crawling", always(trained.card, -1.0)),
            ("flooding", always(trained.card, 1.0)),
        )
    }
    assert max(scores, key=scores.__getitem__) == "trained", scores


def test_an_evaluation_in_parts_has_the_figures_of_one_in_a_piece() -> None:
    shipped = checkpoint.load("astraea")
    worlds = HeldOut("train-leo", shipped.preset, worlds=2, seed=77)
    native = {"name": "policy", "params": {"policy": "p"}}
    scores = worlds.score(shipped.policy)
    again = {**worlds.play(shipped.policy.act), **worlds.run(native, {"p": shipped.policy})}
    np.testing.assert_array_equal([scores[key] for key in again], list(again.values()))
    found = []
    for scenario in worlds.scenarios:
        network = json.loads(scenario.compile())
        agents = agent_flows(scenario)
        for index in agents:
            network["flows"][index]["controller"] = native
        whole = _sim.Simulation(json.dumps(network), record_interval_ns=10**9, policies={"p": shipped.policy})
        whole.run()
        found.append(measure(scenario, agents, whole.recording(), whole.flow_totals(), whole.link_totals()))
    in_a_piece = mean_figures(found)
    np.testing.assert_array_equal([scores[key] for key in in_a_piece], list(in_a_piece.values()))


def test_the_evaluation_of_a_policy_that_floods_ends_when_that_is_certain(monkeypatch) -> None:
    """No world reaches its end; what was not simulated counts as flooded."""
    card = checkpoint.load("astraea").card
    worlds = HeldOut("train-leo", checkpoint.load("astraea").preset, worlds=2, seed=77)
    native, flood = {"name": "policy", "params": {"policy": "p"}}, always(card, 1.0)
    whole = worlds.run(native, {"p": flood})
    shares = []
    advance = _RecordedWorld.advance
    monkeypatch.setattr(_RecordedWorld, "advance", lambda self, share: (shares.append(share), advance(self, share)))
    scores = worlds.score(flood)
    assert 0.5 < max(shares) < 0.8
    assert scores["flooded"] >= whole["flooded"] > 0.5
    assert failures(scores)[0] == "floods"
    assert np.isnan(scores["reward"])
    assert set(scores) == {*FIGURES, "action_spread"}
    assert scores["loss"] == pytest.approx(whole["loss"], abs=0.1)
    assert scores["action_spread"] == 0
    assert np.flatnonzero(worlds.actions).tolist() == [len(worlds.actions) - 5]  # tanh(1)


def always(card: ModelCard, action: float) -> _sim.Policy:
    """A native policy with the observation of this card that always takes the same action."""
    weight, bias = np.zeros((1, card.observation.dim), np.float32), np.array([action], np.float32)
    layers = (Layer(units=1, activation="linear"),)
    linear = card.model_copy(update={"layers": layers, "gate": None, "normaliser": False})
    return build(linear, {"layers.0.weight": weight, "layers.0.bias": bias})


@pytest.mark.slow
@pytest.mark.parametrize("name", recipe.names())
def test_no_recipe_prefers_a_policy_that_hardly_sends(name: str) -> None:
    """With its own score and its first 32 held-out worlds, every classical controller is far better."""
    plan, card = recipe.load(name), checkpoint.load("astraea").card
    worlds = HeldOut(plan.world(), plan.preset, worlds=32, seed=plan.evaluation.seed)
    weights, native = plan.evaluation.score, {"name": "policy", "params": {"policy": "p"}}
    idle = {
        action: weights.score(worlds.run(native, {"p": always(card, action)}))
        for action in (0.0, -1.0)  # an untrained network, whose window stays at ten segments; the least window
    }
    useful = {
        controller: weights.score(worlds.run({"name": controller, "params": {}}))
        for controller in ("cubic", "reno", "vegas", "bbr")
    }
    assert max(idle.values()) < min(useful.values()) - 0.2, (idle, useful)


def test_fair_shares_of_an_idle_link_do_not_make_a_score() -> None:
    """Whoever uses 1.3 % of the link, and that in equal shares, is below all who use it, however unfairly."""
    figures = dict.fromkeys(FIGURES, 0.0) | {"jain_equal_rtt": 1.0, "jain_unequal_rtt": 1.0, "jain": 1.0}
    idle = figures | {"utilisation": 0.013, "log_share": np.log(0.013), "starved": 1.0, "unconverged": 1.0}
    idle |= {"ratio_equal_rtt": 0.976, "ratio_unequal_rtt": 0.976, "least_equal_rtt": 0.013, "least_unequal_rtt": 0.013}
    # one of two flows has nine tenths of the link, and one RTT of queue
    unfair = figures | {"utilisation": 0.9, "log_share": np.log(0.2) / 2, "unconverged": 1.0, "queue_delay_ratio": 1.0}
    unfair |= dict.fromkeys(("ratio_equal_rtt", "ratio_unequal_rtt", "least_equal_rtt", "least_unequal_rtt"), 0.1)
    for name in recipe.names():
        weights = recipe.load(name).evaluation.score
        assert weights.score(idle) < weights.score(unfair) - 0.5, name
