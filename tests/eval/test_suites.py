"""The registry of suites and the responsiveness suite's conditions and measurements."""

import numpy as np
import pytest

from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.simulate import simulate
from orbitcc.eval import contenders, suites


def test_suites_are_listed_by_name():
    assert "responsiveness" in suites.names()


def test_an_unknown_suite_names_the_nearest_one():
    with pytest.raises(OrbitccError, match="responsiveness"):
        suites.get("responsivness")


def test_profiles_are_the_same_runs_cut_short():
    suite = suites.get("responsiveness")
    assert (suite.runs("quick"), suite.runs("reduced"), suite.runs("full")) == (6, 10, 50)
    quick, reduced = suite.cases("quick", 6), suite.cases("reduced", 10)
    assert [case.digest for case in quick] == [case.digest for case in reduced][:6]
    assert len({case.digest for case in reduced}) == 10


def test_run_2_is_the_one_the_study_shows():
    # the study's repository, random.seed(2): 53, 97, 88 Mbit/s and 16, 90, 32 ms come first
    case = suites.get("responsiveness").case({}, 2)
    assert case.seed == 2
    assert [case.scenario.capacity_mbps(t) for t in (7, 22, 37)] == [53, 97, 88]
    assert [case.scenario.base_rtt_ms(0, t) for t in (7, 22, 37)] == [16, 90, 32]


def test_the_optimum_is_the_mean_of_the_twenty_bandwidths():
    suite = suites.get("responsiveness")
    case = suite.case({}, 2)
    recording = simulate(suite.enter(case, contenders.from_controller("reno")), record_interval_s=1.0)
    values = suite.measure(recording)
    rates = [case.scenario.capacity_mbps(15 * i + 7) for i in range(20)]
    assert values["optimal_mbps"] == pytest.approx(np.mean(rates))
    goodput = recording.flows["goodput_mbps"][:-1, 0]  # t = 1..299
    assert values["goodput_over_optimal"] == pytest.approx(goodput.mean() / np.mean(rates))
    inflation = (recording.flows["srtt_ms"] / recording.flows["base_rtt_ms"])[10:289, 0]  # t = 11..289
    assert values["delay_inflation"] == pytest.approx(inflation.mean())


def test_a_contender_drives_the_flow_and_gives_it_its_name():
    suite = suites.get("responsiveness")
    scenario = suite.enter(suite.case({}, 1), contenders.from_controller("cubic:hystart=off"))
    assert [str(flow.controller) for flow in scenario.flows] == ["cubic:hystart=off"]
    assert scenario.flow_names == ("cubic:hystart=off",)


def test_parameters_make_another_contender():
    plain, off = contenders.line_up(["cubic", "cubic:hystart=off"], [])
    assert plain.key != off.key


@pytest.mark.parametrize(
    "text", ["cubik", "cubic:hystarr=off", "cubic:hystart=sometimes", "cubic@20s", "cubic:rate_mbps=3", "external"]
)
def test_wrong_controllers_are_refused(text):
    with pytest.raises(OrbitccError):
        contenders.line_up([text], [])


def test_a_repeated_contender_is_refused():
    with pytest.raises(OrbitccError, match="once"):
        contenders.line_up(["cubic", "reno", "cubic"], [])


def test_an_unknown_agent_is_refused():
    with pytest.raises(OrbitccError):
        contenders.line_up([], ["no-such-policy"])
