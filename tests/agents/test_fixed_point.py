"""Policies in fixed point: the same decisions as in floating point."""

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.data.decisions import collect
from orbitcc.agents.registry import policy_spec
from orbitcc.agents.safety_filter import filtered
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.scenarios import get
from orbitcc.eval.contenders import from_controller, from_policy
from tests.agents.test_checkpoint import card, tensors

SCENARIOS = (
    ("perigee", "leo-responsiveness", {"run": 2}),
    ("perigee", "dumbbell", {"flows": 2, "buffer_bdp": 4.0}),
    ("apogee", "geo-ideal", {}),
    ("zenith", "leo-responsiveness", {"run": 1}),
    ("zenith", "dumbbell", {"flows": 2, "buffer_bdp": 4.0}),
    ("zenith", "starlink-2026", {}),
)


@pytest.mark.parametrize(("policy", "scenario", "settings"), SCENARIOS)
def test_actions_are_within_a_thousandth_of_those_in_floating_point(policy, scenario, settings, tmp_path) -> None:
    bare = filtered(policy, tmp_path / "bare", None)
    played = get(scenario, **settings, duration_s=40.0, controller=policy_spec(str(bare)))
    loaded = checkpoint.load(bare)
    for episode in collect(played, preset=loaded.preset):
        seen, actions = loaded.policy.fixed().decide(episode.statistics[:-1])
        apart = np.abs(actions - episode.actions[:, 0]) / 2
        assert len(apart) > 200
        off = np.abs(seen[:, : episode.observations.shape[1]] - episode.observations[:-1])
        given = loaded.card.observation.parameters.get("features", [""] * off.shape[1])
        names = [feature["name"] if isinstance(feature, dict) else feature for feature in given]
        told = np.array([name == checkpoint.PREFERENCE for name in names])
        assert np.quantile(off[:, ~told], 0.99) < 2e-4
        # a logarithm from -4.6 to -1.9 that follows from the occupancy, which is estimated from ratios of rates; one
        # that is nearly too far from what a share explains may count in one arithmetic and not in the other
        assert not told.any() or np.quantile(off[:, told], 0.99) < 0.005
        assert np.quantile(apart, 0.99) < 1e-3


def test_a_run_decides_in_fixed_point() -> None:
    played = get("dumbbell", duration_s=20.0, controller="perigee")
    flow = played.flows[0]
    fixed = played.with_flows([flow.changed(controller=policy_spec("perigee:arithmetic=fixed"))])
    plain, integers = (simulate(scenario, record_interval_s=0.1) for scenario in (played, fixed))
    cwnd = [run.flows["cwnd_packets"][:, 0] for run in (plain, integers)]
    assert not np.array_equal(*cwnd), "integers round otherwise"
    for column in ("goodput_mbps", "srtt_ms"):
        a, b = (run.flow_totals[0][column] for run in (plain, integers))
        assert a == pytest.approx(b, rel=0.005)


def test_a_policy_with_an_option_is_another_contender() -> None:
    plain, fixed = from_policy("perigee"), from_policy("perigee:arithmetic=fixed")
    assert fixed == from_controller("perigee:arithmetic=fixed")
    assert (fixed.label, dict(fixed.params)) == ("perigee:arithmetic=fixed", {"arithmetic": "fixed"})
    assert fixed.key != plain.key
    assert from_policy("perigee:arithmetic=float") == plain
    with pytest.raises(OrbitccError, match="arithmetic"):
        from_policy("perigee:arithmetic=double")
    with pytest.raises(OrbitccError, match="path"):
        from_policy("perigee:path=apogee")


def test_policies_without_a_fixed_point_form_are_refused_with_the_reason(tmp_path) -> None:
    saved = checkpoint.save(tmp_path / "wide", card(), tensors())
    for name, reason in (
        ("astraea", "float for the policy astraea: observation.history = 5 has no fixed-point form, only 1 has"),
        ("tests.agents.policies:constant", "float: a policy in Python has no fixed-point form"),
        (str(saved), "has no fixed-point form"),
    ):
        scenario = get("dumbbell", duration_s=1.0).with_flows(
            [get("dumbbell").flows[0].changed(controller=policy_spec(f"{name}:arithmetic=fixed"))]
        )
        with pytest.raises(OrbitccError, match=r"arithmetic.*fixed") as error:
            scenario.policies()
        assert reason in str(error.value)


def test_decisions_in_fixed_point_are_not_collected_as_those_of_the_network() -> None:
    played = get("dumbbell", duration_s=1.0, controller="perigee")
    flow = played.flows[0].changed(controller=policy_spec("perigee:arithmetic=fixed"))
    with pytest.raises(OrbitccError, match="a policy without interval_ms and arithmetic"):
        next(iter(collect(played.with_flows([flow]))))
