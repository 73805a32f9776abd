"""The repository's further experiments: their conditions, and what is known of their outcome."""

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.scenarios import get
from orbitcc.eval import suites
from orbitcc.eval.contenders import from_controller, line_up
from orbitcc.eval.runner import Task, execute


def run(name, controller, **point):
    suite = suites.get(name)
    found = next(p for p in suite.points("full") if all(p[k] == v for k, v in point.items()))
    return execute(Task(suite, suite.case(found, 1), from_controller(controller), "", None))[0]["metrics"]


def test_rates_go_up_to_500():
    suite = suites.get("high-rates")
    assert [p["rate_mbps"] for p in suite.points("full")] == list(range(150, 501, 50))
    case = suite.case({"rate_mbps": 500}, 1)
    assert (case.scenario.capacity_mbps(), case.scenario.base_rtt_ms(0), case.scenario.base_rtt_ms(1)) == (500, 40, 40)
    assert 0.7 < run("high-rates", "bbr3", rate_mbps=150)["goodput_share"] <= 0.957


def test_four_flows_are_together_when_they_are_scored():
    suite = suites.get("four-flows")
    scenario = suite.case({"base_rtt_ms": 20, "buffer_bdp": 1.0, "queue": "codel"}, 1).scenario
    assert [flow.start_s for flow in scenario.flows] == [0, 25, 50, 75]
    assert [flow.stop_s or scenario.duration_s for flow in scenario.flows] == [100, 125, 150, 175]
    assert scenario.links[0].queue.kind == "codel"


def test_a_managed_queue_takes_the_delay_from_many_flows_of_cubic():
    deep, managed = run("efficiency", "cubic", flows=5), run("efficiency-aqm", "cubic", flows=5, queue="fq_codel")
    assert managed["delay_ratio"] < 1.5 < 4 < deep["delay_ratio"]


def test_wide_changes_are_those_of_the_repository():
    wide, lossy = (suites.get(name).cases("full", 50) for name in ("responsiveness-wide", "responsiveness-wide-loss"))
    rates = [case.scenario.capacity_mbps(t) for case in wide for t in range(5, 200, 10)]
    rtts = [case.scenario.base_rtt_ms(0, t) for case in wide for t in range(5, 200, 10)]
    assert (min(rates), max(rates), min(rtts), max(rtts)) == (1, 100, 20, 200)
    assert {case.scenario.base_rtt_ms(0, t) for case in lossy for t in range(5, 200, 10)} == {100}
    losses = [loss for case in lossy for _, loss in case.scenario.links[0].loss]
    assert 0 <= min(losses) < 0.002 < 0.048 < max(losses) <= 0.05
    assert wide[0].scenario.links[0].loss == 0.0


def test_a_policy_may_decide_more_often_than_its_card_says():
    plain, often = line_up(["perigee", "perigee:interval_ms=20"], [])
    assert (often.label, often.key != plain.key) == ("perigee:interval_ms=20", True)
    got = {}
    for contender in (plain, often):
        suite = suites.get("rate-step")
        got[contender.label] = execute(Task(suite, suite.case({}, 1), contender, "", None))[0]["metrics"]
    assert got["perigee"] != got["perigee:interval_ms=20"]


def test_the_interval_of_the_card_makes_the_same_packets():
    scenario = get("dumbbell", duration_s=5.0)
    from orbitcc.agents.checkpoint import load
    from orbitcc.envs.backends.simulator import simulate

    ms = load("perigee").card.interval_ms
    runs = [
        simulate(scenario.with_controller(text)).flow_totals[0] for text in ("perigee", f"perigee:interval_ms={ms}")
    ]
    assert runs[0]["sent_packets"] == runs[1]["sent_packets"]


@pytest.mark.parametrize("value", [-1, 0.05, 20_000])
def test_an_impossible_interval_is_named(value):
    with pytest.raises(OrbitccError, match="interval_ms"):
        get("dumbbell").with_controller(f"perigee:interval_ms={value}").policies()
