"""How much delay counts: drawn with a world, told to policy and reward, and an option of a trained policy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.data.decisions import collect
from orbitcc.agents.model_card import Layer
from orbitcc.agents.registry import policy_spec
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.description.scenario import ControllerSpec, Scenario
from orbitcc.envs.environments.presets import definition_hash, preset
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.scenarios import get
from orbitcc.envs.scenarios.training import TRAIN_LEO
from orbitcc.eval.contenders import from_policy
from orbitcc.training.heldout import HeldOut
from tests.commands.shell import called

CONSTANT: dict[str, Any] = {"name": "delay-preference", "usual": 1.0}


def preferring(folder: Path, feature: dict[str, Any] = CONSTANT) -> Path:
    """A checkpoint whose action is 0.2 more than the logarithm of the preference."""
    shipped = checkpoint.load("perigee").card
    parameters = {"features": ["inflation", feature]}
    hashed = definition_hash("observation", {"name": "features", **parameters})
    seen = {"preset": "features", "parameters": parameters, "dim": 2, "hash": hashed}
    made = shipped.model_copy(
        update={
            "name": "asked",
            "observation": shipped.observation.model_copy(update=seen),
            "layers": (Layer(units=1, activation="linear"),),
            "normaliser": False,
        }
    )
    weights = {"layers.0.weight": np.array([[0.0, 1.0]], np.float32), "layers.0.bias": np.array([0.2], np.float32)}
    return checkpoint.save(folder, made, weights)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return preferring(tmp_path / "asked")


def driven(policy: str) -> Scenario:
    played = get("dumbbell", duration_s=10.0)
    return played.with_flows([played.flows[0].changed(controller=policy_spec(policy))])


def test_all_learning_flows_of_a_world_have_one_preference_from_the_range() -> None:
    worlds = TRAIN_LEO.changed(delay_preference=Span(low=0.1, high=1.0, log=True), flows=Span(low=2, high=3))
    seen = []
    for seed in range(300):
        scenario = worlds.sample(np.random.default_rng(seed))
        learners = [f.delay_preference for f in scenario.flows if f.controller.name == "external"]
        assert len(set(learners)) == 1
        seen.append(learners[0])
    assert 0.1 <= min(seen) < 0.13
    assert 0.8 < max(seen) <= 1.0
    assert np.median(seen) == pytest.approx(np.sqrt(0.1), rel=0.25)
    some = worlds.changed(delay_preference_probability=0.3)
    drawn = [some.sample(np.random.default_rng(seed)).flows[0].delay_preference for seed in range(300)]
    assert 60 <= sum(asked > 0 for asked in drawn) <= 120  # 90 and four standard deviations
    plain = TRAIN_LEO.sample(np.random.default_rng(1))
    assert not any(f.delay_preference for f in plain.flows)


def test_the_environment_tells_the_preference_to_the_observation_and_to_the_reward() -> None:
    played = get("dumbbell", duration_s=20.0, buffer_bdp=4.0)

    def paid(preference: float, weight: float, usual: float = 1.0, rival: str = "") -> list[float]:
        """The rewards of a window that grows until the queue is full."""
        feature = {"name": "delay-preference", "usual": usual, "contested": 0.2 * usual}
        flow = played.flows[0]
        rivals = [flow.changed(name="other", controller=ControllerSpec(name=rival))] if rival else []
        own = flow.changed(controller=ControllerSpec(name="external"), delay_preference=preference)
        chosen = preset(
            "ratios",
            observation={"name": "features", "features": [feature]},
            reward={"name": "log-share", "delay": weight},
        )
        env = CongestionEnv(played.with_flows([own, *rivals]), preset=chosen)
        env.reset(seed=1)
        rewards = []
        for _ in range(200):
            observation, reward, *_ = env.step(np.array([1.0], np.float32))
            rewards.append(reward)
        if preference:
            assert observation[0] == pytest.approx(np.log(preference), abs=1e-6)
        return rewards

    assert paid(0.25, 1.0) == pytest.approx(paid(0.0, 0.25), abs=1e-6)
    assert paid(1.0, 1.0) == pytest.approx(paid(0.0, 1.0), abs=1e-6)
    assert paid(0.25, 1.0)[-1] > paid(1.0, 1.0)[-1] + 0.05
    # A flow that asks for nothing is rewarded by the usual preference, beside another controller by the contested one.
    assert paid(0.0, 1.0, usual=0.25) == pytest.approx(paid(0.25, 1.0), abs=1e-6)
    assert paid(0.0, 1.0, usual=0.5, rival="cubic") == pytest.approx(paid(0.1, 1.0, rival="cubic"), abs=1e-6)
    assert paid(0.25, 1.0, usual=0.5) == paid(0.25, 1.0)


@pytest.mark.parametrize(("beside", "low", "high"), [(0, 0.09, 0.1), (4, 0.01, 0.012)])
def test_a_preference_gives_way_where_others_fill_the_queue(beside: int, low: float, high: float) -> None:
    played = get("dumbbell", duration_s=40.0, buffer_bdp=2.0)
    flow = played.flows[0]
    cubic = [
        flow.changed(name=f"other-{k}", controller=ControllerSpec(name="cubic"), start_s=1.0) for k in range(beside)
    ]
    own = flow.changed(controller=ControllerSpec(name="external"))
    feature = {"name": "delay-preference", "usual": 0.1, "contested": 0.01}
    chosen = preset("ratios", observation={"name": "features", "features": [feature]})
    env = CongestionEnv(played.with_flows([own, *cubic]), preset=chosen)
    env.reset(seed=1)
    # The window grows to about what the link holds, and then swings.
    for k in range(1_200):
        observation, *_ = env.step(np.array([0.25 if k < 165 else 0.5 * np.sin(0.5 * k)], np.float32))
    assert low - 1e-6 <= np.exp(observation[0]) <= high + 1e-6


def test_a_trained_policy_takes_another_preference_as_an_option(saved: Path) -> None:
    rates = [simulate(driven(f"{saved}{asked}")).flow_totals[0]["goodput_mbps"] for asked in ("", ":delay=0.5")]
    assert rates[1] < 0.2 * rates[0]  # the window grows at an action of 0.2, and shrinks at 0.2 + ln 0.5
    plain, asked = from_policy(str(saved)), from_policy(f"{saved}:delay=0.5")
    assert plain.key != asked.key
    assert asked.label == "asked:delay=0.5"
    assert from_policy(f"{saved}:delay=0") == plain


def test_a_flow_tells_its_preference_to_whatever_drives_it(saved: Path) -> None:
    def rate(policy: str, asked: float) -> float:
        played = driven(policy)
        flow = played.flows[0].changed(delay_preference=asked)
        return float(simulate(played.with_flows([flow])).flow_totals[0]["goodput_mbps"])

    assert rate(str(saved), 0.5) == rate(f"{saved}:delay=0.5", 0.0) < 0.2 * rate(str(saved), 0.0)
    with pytest.raises(OrbitccError, match="0 beside the policy's option delay"):
        rate(f"{saved}:delay=0.1", 0.5)
    played = get("dumbbell", duration_s=10.0)
    external = played.with_flows([Flow.parse("external:delay_preference=0.5")])
    taken = from_policy(str(saved)).take(external, lambda flow: flow.controller.name == "external")
    assert simulate(taken).flow_totals[0]["goodput_mbps"] == rate(str(saved), 0.5)


def test_held_out_worlds_ask_the_policy_for_what_they_draw(saved: Path) -> None:
    policy, card_preset = checkpoint.load(saved).policy, checkpoint.load(saved).preset
    worlds = TRAIN_LEO.changed(duration_s=10.0)

    def used(**asked: Any) -> float:
        return HeldOut(worlds.changed(**asked), card_preset, 4, 1).score(policy)["utilisation"]

    assert used(delay_preference=Span(low=0.01, high=0.02)) < 0.5 * used()


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        ({"delay_preference": 2}, "a number in [0, 1]"),
        ({"delay_preference": float("nan")}, "a number in [0, 1]"),
        ({"delay_preference": 0.005}, "0, or 0.01 to 1"),
        ({"delay_preference": 0.5}, "0 with arithmetic=fixed"),
    ],
)
def test_a_preference_that_a_flow_cannot_ask_for_is_refused(changed: dict[str, float], allowed: str) -> None:
    flow = get("dumbbell").flows[0].changed(controller=ControllerSpec.parse("zenith:arithmetic=fixed"))
    with pytest.raises(OrbitccError, match="delay_preference") as error:
        flow.changed(**changed)
    assert allowed in str(error.value)


def test_a_preference_that_is_asked_for_does_not_give_way(saved: Path, tmp_path: Path) -> None:
    gives_way = preferring(tmp_path / "gives-way", {**CONSTANT, "contested": 0.5})
    cubic = get("dumbbell").flows[0].changed(name="other", controller=ControllerSpec(name="cubic"))

    def own_rate(policy: str) -> float:
        alone = driven(policy)
        return float(simulate(alone.with_flows([*alone.flows, cubic])).flow_totals[0]["goodput_mbps"])

    assert own_rate(str(gives_way)) < 0.9 * own_rate(str(saved))  # an action of 0.2 + ln 0.5 instead of 0.2
    assert own_rate(f"{gives_way}:delay=0.9") == own_rate(f"{saved}:delay=0.9")


def test_a_flow_that_asks_has_what_it_asks_for_beside_others() -> None:
    played = get("dumbbell", duration_s=20.0, buffer_bdp=2.0)
    flow = played.flows[0]
    own = flow.changed(controller=ControllerSpec(name="external"), delay_preference=0.3)
    feature = {"name": "delay-preference", "usual": 0.1, "contested": 0.01}
    chosen = preset("ratios", observation={"name": "features", "features": [feature]})
    cubic = flow.changed(name="other", controller=ControllerSpec(name="cubic"))
    env = CongestionEnv(played.with_flows([own, cubic]), preset=chosen)
    env.reset(seed=1)
    assert all(np.exp(env.step(np.array([0.1], np.float32))[0][0]) == pytest.approx(0.3) for _ in range(500))


def test_the_preference_is_a_constant_in_fixed_point(saved: Path) -> None:
    loaded = checkpoint.load(saved)
    policy = checkpoint.policy_with(loaded, delay=0.5)
    for episode in collect(driven(str(saved)), preset=loaded.preset):
        observations, actions = policy.fixed().decide(episode.statistics[:-1])
        assert observations[:, 1] == pytest.approx(np.log(0.5), abs=2e-6)
        assert actions == pytest.approx(0.2 + np.log(0.5), abs=1e-4)


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("perigee:delay=0.2", "no preference for the policy perigee, which does not observe one"),
        ("perigee:delay=0.001", "0, or 0.01 to 1"),
        ("perigee:delay=2", "a number in [0, 1]"),
        ("tests.agents.policies:constant:delay=0.2", "a policy in Python observes no preference"),
    ],
)
def test_a_preference_that_a_policy_cannot_have_is_refused(policy: str, allowed: str) -> None:
    with pytest.raises(OrbitccError, match="delay") as error:
        driven(policy).policies()
    assert allowed in str(error.value)


def test_deploy_refuses_a_preference_that_the_policy_does_not_observe() -> None:
    done = called("deploy", "perigee", "--delay", "0.2")
    assert done.returncode == 2
    assert "--delay: 0.2 is not allowed; allowed: no preference for the policy perigee" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
