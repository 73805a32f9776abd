"""The scorecard: what is measured on recordings worked out by hand, scores over it, failures by name."""

import math

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval.heldout_metrics import (
    FIGURES,
    Weights,
    convergence,
    failures,
    fair_shares,
    fairness,
    flooded_windows,
    max_min_shares,
    measure,
)
from orbitcc.training import recipe
from orbitcc.training.heldout import HeldOut

YES, NO = True, False


def dumbbell(rate_mbps: float = 10, **changes) -> Scenario:
    """40 ms, and a queue of 1 BDP."""
    queue = {"kind": "drop_tail_bytes", "limit_bytes": 5_000 * rate_mbps}
    link = {"name": "hop", "rate_mbps": rate_mbps, "delay_ms": 20, "queue": queue}
    return Scenario.build(
        {"name": "test", "duration_s": 20, "links": [link], "flows": [{"controller": "cubic"}]} | changes
    )


def run(scenario: Scenario, learning=(0,)) -> dict[str, float]:
    simulation = _sim.Simulation(scenario.compile(), record_interval_ns=10**9, policies=scenario.policies())
    simulation.run()
    return measure(scenario, list(learning), simulation.recording(), simulation.flow_totals(), simulation.link_totals())


def always(action: float, rate_mbps: float) -> dict[str, float]:
    """The figures of a policy that knows one action only."""
    layer = {"weight": np.zeros((1, 50), np.float32), "bias": np.full(1, action, np.float32)}
    policy = _sim.Policy(
        [layer | {"norm": None, "activation": "linear"}],
        observation='"astraea"',
        action='{"name": "astraea", "recovery": "hold"}',
        interval_ns=30_000_000,
    )
    return HeldOut(dumbbell(rate_mbps), "astraea", 1, 1).run(
        {"name": "policy", "params": {"policy": "p"}}, {"p": policy}
    )


# -- fair shares ---


def test_one_link_is_shared_equally_among_those_there() -> None:
    there = np.array([[YES, YES, YES], [YES, NO, YES], [NO, NO, NO]])
    shares = max_min_shares(np.full((3, 1), 12.0), np.ones((3, 3, 1), bool), there)
    assert shares.tolist() == [[4, 4, 4], [6, 0, 6], [0, 0, 0]]


def test_what_a_flow_cannot_use_elsewhere_goes_to_the_others() -> None:
    # flow 0 crosses links of 10 and 4; flow 1 the first, flow 2 the second: 2 and 2 there, 8 are left for flow 1
    crosses = np.array([[[YES, YES], [YES, NO], [NO, YES]]])
    shares = max_min_shares(np.array([[10.0, 4.0]]), crosses, np.ones((1, 3), bool))
    assert shares.tolist() == [[2, 8, 2]]


def test_a_flow_that_no_link_limits_has_an_endless_share() -> None:
    crosses = np.array([[[YES, NO], [NO, YES]]])
    shares = max_min_shares(np.array([[np.inf, 6.0]]), crosses, np.ones((1, 2), bool))
    assert shares.tolist() == [[math.inf, 6]]


def test_shares_are_of_payload_less_unresponsive_traffic_and_follow_reroutes_and_outages() -> None:
    scenario = Scenario.build(
        {
            "name": "test",
            "duration_s": 4,
            "links": [{"name": "a", "rate_mbps": 10, "delay_ms": 5}, {"name": "b", "rate_mbps": 10, "delay_ms": 5}],
            "flows": [
                {"controller": "cubic", "path": ["a"], "reroutes": [{"at_s": 2, "path": ["b"]}]},
                {"controller": "cubic", "path": ["b"]},
                {"controller": "udp", "path": ["b"], "traffic": {"kind": "cbr", "rate_mbps": 2}},
            ],
            "sim": {"mss_bytes": 1000, "frame_overhead_bytes": 198},  # 1250 bytes on the wire: payload is 80 %
        }
    )
    series = {
        "t_s": np.array([1.0, 2.0, 3.0, 4.0]),
        "flows": {"goodput_mbps": np.tile([0.0, 0.0, 2.0], (4, 1))},
        "links": {"capacity_mbps": np.full((4, 2), 10.0), "outage": np.array([[0, 0], [0, 0], [0, 0], [0, 0.6]])},
    }
    shares = fair_shares(scenario, series, np.ones((4, 3), bool))
    assert shares.tolist() == [[8, 6, 0], [3, 3, 0], [3, 3, 0], [0, 0, 0]]


# -- fairness ---


def test_fairness_counts_windows_with_two_flows_apart_by_rtt() -> None:
    parts = np.array([[1.0, 1.0, 0.0], [3.0, 1.0, 9.0], [5.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    there = np.array([[YES, YES, NO], [YES, YES, NO], [YES, NO, NO], [YES, YES, NO]])
    base = np.array([[40, 43, 0], [40, 80, 0], [40, 0, 0], [40, 40, 0]], float)
    found = fairness(parts, there, base)
    assert found["jain"] == pytest.approx((1.0 + 16 / 20 + 1 / 2) / 3)
    assert found["jain_equal_rtt"] == pytest.approx((1.0 + 1 / 2) / 2)
    assert found["jain_unequal_rtt"] == pytest.approx(16 / 20)
    assert found["ratio_equal_rtt"] == pytest.approx((1.0 + 0.0) / 2)
    assert found["ratio_unequal_rtt"] == pytest.approx(1 / 3)
    assert found["least_equal_rtt"] == pytest.approx((1.0 + 0.0) / 2)
    assert found["least_unequal_rtt"] == 1.0  # 3 and 1, at most 1
    assert all(np.isnan(list(fairness(parts[2:3], there[2:3], base[2:3]).values())))


def test_flows_that_share_an_idle_link_equally_have_no_least_share() -> None:
    parts, there = np.array([[0.01, 0.01], [0.0, 0.0]]), np.ones((2, 2), bool)
    found = fairness(parts, there, np.full((2, 2), 40.0))
    assert (found["ratio_equal_rtt"], found["least_equal_rtt"]) == (1.0, pytest.approx(0.005))


# -- convergence ---


def test_convergence_is_the_first_of_three_windows_in_a_row_near_the_share() -> None:
    parts = np.array([[0.2], [0.9], [0.3], [0.8], [1.2], [1.0], [0.1]])  # alone at 1 and from 3 on
    found = convergence(parts, np.ones((7, 1), bool))
    assert (found["convergence_s"], found["unconverged"]) == (3.0, 0.0)
    steady = np.array([0.8, 1.2, 1.0, 0.1])
    assert found["goodput_cv"] == pytest.approx(steady.std() / steady.mean())


def test_a_join_without_convergence_counts_with_all_its_time_to_the_next_change() -> None:
    # flow 0 has converged at once; with flow 1 (4 windows) they never come to halves; its leave is no join
    parts = np.array([[1.0, 0]] * 4 + [[1.8, 0.2]] * 4 + [[1.0, 0]] * 3)
    there = np.array([[YES, NO]] * 4 + [[YES, YES]] * 4 + [[YES, NO]] * 3)
    found = convergence(parts, there)
    assert (found["convergence_s"], found["unconverged"]) == (2.0, 0.5)
    assert found["goodput_cv"] == 0.0


def test_a_join_that_is_followed_too_soon_says_nothing() -> None:
    there = np.array([[YES, NO]] * 2 + [[YES, YES]] * 3)
    found = convergence(np.ones((5, 2)), there)
    assert (found["convergence_s"], found["unconverged"]) == (0.0, 0.0)
    assert np.isnan(convergence(np.ones((2, 1)), np.ones((2, 1), bool))["convergence_s"])


def test_windows_without_a_share_neither_converge_nor_disturb() -> None:
    parts = np.array([[1.0], [1.0], [np.nan], [1.0]])
    assert convergence(parts, np.ones((4, 1), bool))["convergence_s"] == 0.0


# -- on recordings ---


def test_a_flow_that_fills_its_link_has_converged_and_neither_starves_nor_floods() -> None:
    found = run(dumbbell())
    assert found["utilisation"] > 0.95
    assert found["convergence_s"] <= 2
    assert (found["starved"], found["flooded"]) == (0.0, 0.0)
    assert found["queue_delay_ratio"] == pytest.approx(found["queue_delay_ms"] / 40, rel=0.05)
    assert np.isnan(found["jain"])  # alone


def test_a_flow_with_a_window_of_nearly_nothing_starves() -> None:
    found = always(-1.0, rate_mbps=100)
    assert found["starved"] > 0.9
    assert found["flooded"] == 0.0
    assert failures(found) == ["starves"]


def test_a_flow_that_pushes_without_end_floods() -> None:
    found = always(1.0, rate_mbps=10)
    assert found["flooded"] > 0.9
    assert failures(found) == ["floods"]


def test_interruptions_are_no_flooding() -> None:
    link = dumbbell().links[0].model_dump() | {
        "outages": [{"at_s": at, "duration_ms": 300, "mode": "drop"} for at in (4, 8, 12, 16)]
    }
    assert run(dumbbell(links=[link]))["flooded"] == 0.0


@pytest.mark.parametrize(("outage", "judged"), [([0, 0.3, 0, 0], [0, 3]), ([0, 0, 0, 0.2], [0, 1, 2])])
def test_windows_with_and_after_an_outage_are_not_judged(outage: list[float], judged: list[int]) -> None:
    """Four windows of one flow over 10 Mbit/s and 100 ms: 125 kB of queue are one bandwidth-delay product."""
    scenario = dumbbell(flows=[{"controller": "external"}])
    for flooded in range(4):
        queue = np.full((4, 1), 100_000.0)
        queue[flooded] = 200_000.0
        series = {
            "t_s": np.arange(1.0, 5.0),
            "flows": {
                "active": np.ones((4, 1)),
                "base_rtt_ms": np.full((4, 1), 100.0),
                "lost_packets": np.zeros((4, 1)),
                "sent_packets": np.full((4, 1), 800.0),
            },
            "links": {
                "capacity_mbps": np.full((4, 1), 10.0),
                "queue_bytes": queue,
                "outage": np.array(outage)[:, None],
            },
        }
        expected = 1 / len(judged) if flooded in judged else 0.0
        assert flooded_windows(scenario, [0], series).mean() == pytest.approx(expected), flooded


# -- scores ---


def test_every_figure_can_have_a_weight() -> None:
    assert list(Weights.model_fields) == list(FIGURES)


def test_a_score_adds_what_should_be_high_and_takes_off_what_should_be_low() -> None:
    nothing = dict.fromkeys(Weights.model_fields, 0.0)
    weights = Weights(**(nothing | {"utilisation": 2, "loss": 3, "jain": 0.5}))
    assert str(weights) == "2 utilisation - 3 loss + 0.5 jain"
    assert weights.score({"utilisation": 0.9, "loss": 0.1, "jain": 0.8}) == pytest.approx(1.8 - 0.3 + 0.4)
    assert str(Weights(**nothing)) == "0"


def test_a_figure_without_value_counts_as_its_worst() -> None:
    nothing = dict.fromkeys(Weights.model_fields, 0.0)
    for name, figure in FIGURES.items():
        weights = Weights(**(nothing | {name: 1}))
        without = weights.score({name: math.nan})
        # No policy can win by having no value: a perfect one scores better.
        assert without < weights.score({name: 1.0 if figure.better == "higher" else 0.0}), name
        assert without == weights.score({}) == (1 if figure.better == "higher" else -1) * figure.worst


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("evaluation.score.utilization=1", "did you mean 'utilisation'"),
        ("evaluation.score.loss=-1", "evaluation.score.loss"),
        ("evaluation.score.loss=nan", "evaluation.score.loss"),
        ("evaluation.give_up_after=-1", "evaluation.give_up_after"),
        ("evaluation.give_up_from=1.5", "evaluation.give_up_from"),
    ],
)
def test_weights_that_cannot_be_are_refused_by_name(change: str, message: str) -> None:
    with pytest.raises(OrbitccError, match=message):
        recipe.load("sb3-ppo-leo", [change])


def test_a_recipe_changes_single_weights() -> None:
    plan = recipe.load("sb3-ppo-leo", ["evaluation.score.reward=1", "evaluation.score.loss=0"])
    assert (plan.evaluation.score.reward, plan.evaluation.score.loss) == (1.0, 0.0)
    assert plan.evaluation.score.utilisation == Weights().utilisation


def test_failures_have_names() -> None:
    assert failures({"flooded": 0.7, "starved": 0.7, "action_spread": 0.001}) == [
        "floods",
        "starves",
        "always does nearly the same",
    ]
    assert failures({"flooded": 0.3, "starved": 0.4, "action_spread": 0.1}) == []
