"""The registry of suites and the responsiveness suite's conditions and measurements."""

import shutil

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.eval import contenders, suites
from orbitcc.eval.runner import run_suite
from orbitcc.eval.suites.common import ratio_values
from orbitcc.eval.suites.geo import download_values
from orbitcc.eval.suites.links import link_values
from orbitcc.eval.suites.transients import regain_s
from tests.envs import trace_folders


def test_suites_are_listed_by_name():
    assert "responsiveness" in suites.names()


def test_an_unknown_suite_names_the_nearest_one():
    with pytest.raises(OrbitccError, match="responsiveness"):
        suites.get("responsivness")


def test_a_name_that_is_no_suite_is_told_of_folders_and_of_scenarios(tmp_path):
    with pytest.raises(OrbitccError, match=r"nofolder.*; or a folder with scenarios \(\*\.toml\)\)$"):
        suites.get("nofolder")
    file = scenarios.get("dumbbell").save(tmp_path / "ho.toml")
    with pytest.raises(OrbitccError, match=r"a folder with scenarios \(\*\.toml\), such as that of this file"):
        suites.get(str(file))
    with pytest.raises(OrbitccError, match="dumbbell is a scenario, a single run: `orbitcc run dumbbell`"):
        suites.get("dumbbell")


def test_profiles_are_the_same_runs_cut_short():
    suite = suites.get("responsiveness")
    assert (suite.runs("quick"), suite.runs("reduced"), suite.runs("full")) == (6, 10, 50)
    quick, reduced = suite.cases("quick", 6), suite.cases("reduced", 10)
    assert [case.digest for case in quick] == [case.digest for case in reduced][:6]
    assert len({case.digest for case in reduced}) == 10


def test_run_2_is_the_one_the_paper_shows():
    # the paper's repository, random.seed(2): 53, 97, 88 Mbit/s and 16, 90, 32 ms come first
    (case,), (lossy,) = (suites.get(f"responsiveness{loss}-shown").cases("full", 1) for loss in ("", "-loss"))
    assert (case.scenario.links[0].loss, lossy.scenario.links[0].loss[0]) == (0.0, (0.0, 0.0008))
    assert [case.scenario.capacity_mbps(t) for t in (7, 22, 37)] == [53, 97, 88]
    assert [case.scenario.base_rtt_ms(0, t) for t in (7, 22, 37)] == [16, 90, 32]


def test_the_optimum_is_the_mean_of_the_twenty_bandwidths():
    suite = suites.get("responsiveness")
    case = suite.case({}, 2)
    recording = simulate(suite.enter(case, contenders.from_controller("reno")), record_interval_s=1.0)
    values = suite.measure(case, recording)
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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cubic", "cubic"), ("cubic", "cubic:hystart=both"), ("cubic:hystart_k=3", "cubic:kernel=network"),
        ("cubic-nohystart", "cubic:hystart=off"), ("perigee", "perigee"),
    ],
)  # fmt: skip
def test_a_repeated_contender_is_refused_however_it_is_spelt(one, other):
    with pytest.raises(OrbitccError, match="once"):
        contenders.line_up([one, "reno", other], [])


def test_parameters_of_the_host_make_another_design():
    assert len(contenders.line_up(["cubic", "cubic:kernel=v6", "cubic:ecn=classic"], [])) == 3


def test_an_unknown_agent_is_refused():
    with pytest.raises(OrbitccError):
        contenders.line_up([], ["no-such-policy"])


def settings_of(name: str) -> dict:
    """What a suite needs."""
    needed = suites.SUITES[name].own_settings
    given = {"traces": trace_folders.shared() if "traces" in needed else None, "trained_on": "A"}
    return {key: value for key, value in given.items() if key in needed}


@pytest.mark.parametrize("name", suites.names())
def test_every_suite_measures_its_metrics_and_draws_its_figures(name, tmp_path):
    """The first case of the quick profile, for one contender: what a suite says it measures is there, and finite."""
    from orbitcc.eval.figures.by_suite import figures_of
    from orbitcc.eval.results import Results
    from orbitcc.eval.runner import Task, execute

    suite = suites.get(name, settings_of(name))
    line_up = contenders.line_up(["cubic"], [])
    case = suite.case(suite.points("quick")[0], 1)
    row, _ = execute(Task(suite, case, line_up[0], "test", None))
    assert row["point"] == dict(case.point)
    known = {key for key, value in row["metrics"].items() if value is not None}
    assert {metric.key for metric in suite.metrics} <= known
    results = Results(suite, line_up, "quick", 1, tmp_path, "test")
    results.rows = [{**row, "point": dict(point), "scenario": str(point)} for point in suite.points("quick")]
    for figure in figures_of(results):
        if figure.slug not in ("ecdf",):
            from orbitcc.eval.figures.style import THEMES

            assert figure.draw(THEMES["dark"]).get_axes()


@pytest.mark.parametrize("name", suites.names())
def test_cases_differ_and_come_again(name):
    suite = suites.get(name, settings_of(name))
    cases = suite.cases("quick", 2)
    keys = [(case.digest, case.seed) for case in cases]
    assert len(set(keys)) == len(keys)
    assert keys == [(case.digest, case.seed) for case in suite.cases("quick", 2)]


def test_regaining_a_link_means_to_keep_it_for_three_seconds():
    t = np.arange(1, 501) / 10
    goodput = np.where((t <= 20) | (t > 29.0), 95.0, 0.0)
    assert regain_s(t, goodput, 20.0, 100.0) == pytest.approx(9.0)
    dip = np.where((t > 30.0) & (t <= 31.0), 0.0, goodput)
    assert regain_s(t, dip, 20.0, 100.0) == pytest.approx(11.0)
    assert regain_s(t, np.zeros_like(t), 20.0, 100.0) == pytest.approx(30.0)


def test_a_download_counts_as_resent_by_its_steady_half():
    t = np.arange(1, 1001) / 10
    flow = dict.fromkeys(("srtt_ms", "rtt_ms"), np.full((1000, 1), 600.0))
    flow |= {"goodput_mbps": np.full((1000, 1), 80.0), "sent_packets": np.full((1000, 1), 700.0)}
    flow |= {"ssthresh_packets": np.full((1000, 1), np.nan), "delivery_mbps": np.full((1000, 1), 80.0)}
    flow["sent_packets"][:12] = 0.0
    flow["ssthresh_packets"][34:] = 500.0
    flow["goodput_mbps"][300:, 0] = 110.0
    for second in (60, 72, 84):
        flow["delivery_mbps"][10 * second : 10 * second + 12] = 10.0
    flow["delivery_mbps"][900:903] = 0.0  # too short for a dip
    for at_s, expected in ((20.0, 0.0), (80.0, 1.0)):
        resent = np.where(np.isclose(t, at_s), 3.0, 0.0)[:, None]
        recording = Recording(None, t, {**flow, "retransmitted_packets": resent}, {}, [{"finished_s": None}], [])
        values = download_values(recording)
        assert values["resent_any"] == expected
        assert values["at_100_mbps_s"] == 30.0
        assert values["time_10mb_s"] == pytest.approx(1.0, abs=0.2)
        assert values["slow_start_s"] == pytest.approx(2.2)
        assert values["early_resent_rate"] == (3.0 / (288 * 700) if at_s == 20.0 else 0.0)
        assert (values["dip_every_s"], values["dip_length_s"]) == (pytest.approx(12.0), pytest.approx(1.2))


def test_the_hystart_suite_takes_cubic_only():
    suite = suites.get("hystart")
    with pytest.raises(OrbitccError, match="cubic"):
        suite.enter(suite.case({"hystart": "both"}, 1), contenders.from_controller("bbr"))


def test_beside_cubic_only_one_flow_is_the_contender():
    suite = suites.get("cubic-friendliness")
    scenario = suite.enter(suite.case({"base_rtt_ms": 40, "buffer_bdp": 1.0}, 1), contenders.from_controller("bbr3"))
    assert [flow.controller.name for flow in scenario.flows] == ["bbr3", "cubic"]


@pytest.mark.parametrize("flows", [3, 9])
def test_in_a_crowd_one_flow_is_the_contender(flows):
    suite = suites.get("cubic-crowd")
    case = suite.case({"flows": flows}, 1)
    controllers = [flow.controller.name for flow in suite.enter(case, contenders.from_controller("bbr3")).flows]
    assert controllers == ["bbr3"] + ["cubic"] * (flows - 1)
    assert case.scenario.base_rtt_ms(0) == 30


def test_scored_windows_leave_out_their_edges():
    t = np.arange(1.0, 201.0)
    goodput = np.ones((200, 2))
    goodput[99] = goodput[199] = (100.0, 0.0)  # the samples at 100 and at 200 s
    values = ratio_values(Recording(None, t, {"goodput_mbps": goodput}, {}, [], []), 100.0, 200.0, 100.0)
    assert values["seconds"] == 99
    assert values["goodput_ratio"] == 1.0
    assert values["second_share"] == 0.5
    assert values["goodput_cv"] == 0.0


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("responsiveness", {"run": 3}),
        ("responsiveness", {"controller": "cubic"}),
        ("inter-rtt", {"duration_s": 90}),
        ("inter-rtt", {"rate_mbps": 50}),
        ("leoem-fairness", {"flows": 1}),
        ("inter-rtt", {"join_s": 190}),
        ("parking-lot", {"long_start_s": 190}),
        ("efficiency", {"life_s": 20}),
        ("four-flows", {"life_s": 20}),
        ("cubic-friendliness", {"rival": "bbr3"}),
        ("leo-access", {"profile": "since-2024"}),
        ("responsiveness", {"loss": True}),
    ],
)
def test_what_a_suite_rests_on_is_no_setting(name, setting):
    with pytest.raises(OrbitccError, match="does not set itself"):
        suites.get(name, setting)


@pytest.mark.parametrize("name", ["c4-tests", "l4s", "responsiveness-wide", "responsiveness-wide-loss"])
@pytest.mark.parametrize("key", ["buffer_bdp", "base_rtt_ms", "nonsense"])
def test_a_suite_with_a_network_of_its_own_takes_no_parameters(name, key):
    with pytest.raises(OrbitccError, match=f"unknown name '{key}'"):
        suites.get(name, {key: 9})
    assert suites.get(name, {"first_run": 7}).first_run == 7


@pytest.mark.parametrize("name", ["efficiency", "cubic-friendliness", "four-flows", "leoem-fairness", "leo-access"])
@pytest.mark.parametrize("controller", ["cubic", "reno"])
def test_the_contenders_flows_and_no_others_have_the_transport_of_the_settings(name, controller):
    suite, plain = suites.get(name, {"transport": "quic"}), suites.get(name)
    case, own = suite.cases("quick", 1)[0], contenders.from_controller(controller)
    flows = suite.entered(case, own).flows
    assert sum(flow.transport is not None for flow in flows) == (1 if name == "cubic-friendliness" else len(flows))
    assert case.digest != plain.cases("quick", 1)[0].digest


@pytest.mark.parametrize("name", suites.names())
def test_the_transport_of_the_settings_is_that_of_the_run_or_refused(name):
    suite = suites.get(name, {**settings_of(name), "transport": "quic"})
    for point in suite.points("quick"):
        case = suite.case(point, 1)
        if any(flow.pep is not None or flow.receiver is not None for flow in case.scenario.flows):
            with pytest.raises(OrbitccError, match="None with transport quic"):
                suite.entered(case, contenders.from_controller("cubic"))
            continue
        scenario = suite.entered(case, contenders.from_controller("cubic"))
        assert any(flow.transport is not None for flow in scenario.flows)
    if name == "responsiveness":  # it has QUIC anyway
        assert suite.entered(case, contenders.from_controller("quinn-bbr")).flows[0].transport is not None


def test_a_rival_with_other_weights_is_another_case(tmp_path):
    for name in ("perigee", "apogee"):
        shutil.copytree(checkpoint.SHIPPED / name, tmp_path / name)
    digests = []
    for name in ("perigee", "apogee"):
        (tmp_path / "rival").unlink(missing_ok=True)
        (tmp_path / "rival").symlink_to(tmp_path / name)
        flow = Flow(controller={"name": "policy", "params": {"path": str(tmp_path / "rival")}})
        digests.append(suites.Case(1, scenarios.get("dumbbell").with_flows([flow])).digest)
    assert digests[0] != digests[1]


def test_copies_of_a_world_are_no_independent_runs(tmp_path):
    world = scenarios.get("dumbbell", controller="external")
    for name in ("a", "b"):
        world.changed(name=name).save(tmp_path / f"{name}.toml")
    with pytest.raises(OrbitccError, match=r"another world than a\.toml"):
        suites.get(str(tmp_path))


QUEUE = {"kind": "drop_tail_packets", "limit_packets": 50}


def test_utilisation_is_that_of_the_link_that_a_flow_was_rerouted_to():
    links = [{"name": n, "rate_mbps": 5, "delay_ms": 10, "queue": QUEUE} for n in ("a", "b")]
    flow = {"controller": "cubic", "path": ["a"], "reroutes": [{"at_s": 2.0, "path": ["b"]}]}
    world = scenarios.Scenario.build({"name": "w", "duration_s": 20.0, "links": links, "flows": [flow]})
    values = link_values(simulate(world, record_interval_s=0.1))
    assert values["utilisation"] > 0.9


def test_a_factor_of_the_grid_can_be_pinned():
    suite = suites.get("parking-lot", {"bottlenecks": 2})
    points = suite.points("full")
    assert [p["base_rtt_ms"] for p in points] == list(range(20, 201, 20))
    assert {p["bottlenecks"] for p in points} == {2}
    assert len(suite.case(points[0], 1).scenario.links) == 2
    assert suites.get("efficiency", {"flows": 7}).points("full") == [{"flows": 7}]
    with pytest.raises(OrbitccError, match="bottlenecks: 0"):
        suites.get("parking-lot", {"bottlenecks": 0})


def test_the_alternatives_of_a_source_are_settings():
    paper, code = (suites.get("responsiveness", settings) for settings in ({}, {"rtt": "repo"}))
    least = [
        min(s.case({}, run).scenario.base_rtt_ms(0, 15.0 * k + 7) for run in range(1, 9) for k in range(20))
        for s in (paper, code)
    ]
    assert least == [10, 5]
    with pytest.raises(OrbitccError, match="unknown name 'rttt'"):
        suites.get("responsiveness", {"rttt": "paper"})
    with pytest.raises(OrbitccError, match="rtt: 'papr' is not allowed"):
        suites.get("responsiveness", {"rtt": "papr"})


def test_runs_from_another_number_are_fresh_schedules():
    usual, fresh = (suites.get("responsiveness", settings).cases("quick", 3) for settings in ({}, {"first_run": 1001}))
    assert [case.seed for case in fresh] == [1001, 1002, 1003]
    assert not {case.digest for case in usual} & {case.digest for case in fresh}
    assert [suites.get("responsiveness", {"first_run": 1001}).shows(case) for case in fresh] == [False, True, False]
    with pytest.raises(OrbitccError, match="first_run"):
        suites.get("responsiveness", {"first_run": 0})


def test_the_rival_of_bbr3_friendliness_is_bbr3() -> None:
    suite = suites.get("bbr3-friendliness")
    case = suite.case({"base_rtt_ms": 40, "buffer_bdp": 1.0}, 3)
    assert [str(flow.controller) for flow in case.scenario.flows] == ["cubic", "bbr3"]
    assert case.scenario.flows[1].name == "bbr3-0"


def _folder(path, *flows):
    """A folder with the scenario `one`: a dumbbell of 24 s with these flows."""
    scenarios.get("dumbbell", duration_s=24, rate_mbps=10).with_flows(list(flows)).save(path / "one.toml")
    return str(path)


def test_a_folder_without_a_flow_of_the_contender_is_refused(tmp_path):
    folder = _folder(tmp_path, Flow(controller="cubic"), Flow(controller="bbr3"))
    with pytest.raises(OrbitccError, match=r"one.toml, flows: 'cubic, bbr3'.*controller = \"contender\""):
        suites.get(folder)


def test_the_contender_of_a_folder_drives_its_flows_alone_and_is_measured(tmp_path):
    folder = _folder(tmp_path, Flow(name="beside", controller="reno"), Flow(controller="contender", start_s=4.0))
    suite = suites.get(folder)
    (case,) = suite.cases("quick", 1)
    played = suite.enter(case, contenders.from_controller("cubic"))
    assert [str(flow.controller) for flow in played.flows] == ["reno", "cubic"]
    recording = simulate(played, record_interval_s=1.0)
    got = suite.measure(case, recording)["goodput_mbps"]
    # the contender starts at 4 s, and its first 10 s are left out: t = 15..24 s of the second flow
    assert got == pytest.approx(recording.flows["goodput_mbps"][14:, 1].mean())
    assert got != pytest.approx(recording.flows["goodput_mbps"][14:, 0].mean())


def test_in_a_folder_goodput_is_the_contenders_and_compared_with_what_it_could_have(tmp_path):
    flows = [
        Flow(name="voice", controller="udp", traffic={"kind": "cbr", "rate_mbps": 2}),
        Flow(name="beside", controller="reno", stop_s=19.0),
        Flow(controller="contender"),
    ]
    suite = suites.get(_folder(tmp_path, *flows))
    (case,) = suite.cases("quick", 1)
    recording = simulate(suite.enter(case, contenders.from_controller("cubic")), record_interval_s=1.0)
    values = suite.measure(case, recording)
    # of 10 Mbit/s, 2 are for voice; the rest is for two flows in the samples of 10 to 19 s, then for one
    assert values["fair_mbps"] == pytest.approx((9 * 4 + 5 * 8) / 14, rel=0.01)
    assert values["goodput_over_fair"] == values["goodput_mbps"] / values["fair_mbps"]
    assert suite.trade == ("goodput_over_fair", "delay_inflation")
    assert {"utilisation", "goodput_over_fair"} <= {metric.key for metric in suite.metrics}


@pytest.mark.parametrize(
    ("fields", "first", "last"),
    [
        ({"stop_s": 9.0}, 5, 9),  # half of its time is 4.5 s
        ({"start_s": 1.0, "stop_s": 9.5}, 6, 9),  # half is over at 5.25 s, and 9 to 10 s is no whole sample
        ({"stop_s": 23.0}, 11, 23),
        ({"traffic": {"kind": "bytes", "bytes": 6_000_000}}, 3, 5),  # 5.02 s at 9.56 Mbit/s, and a start
    ],
)
def test_the_time_of_a_flow_in_a_folder_ends_where_it_stops_or_its_transfer_is_complete(tmp_path, fields, first, last):
    later = Flow(name="later", controller="reno", start_s=23.5)
    suite = suites.get(_folder(tmp_path, Flow(controller="contender", **fields), later))
    (case,) = suite.cases("quick", 1)
    recording = simulate(suite.enter(case, contenders.from_controller("cubic")), record_interval_s=1.0)
    values = suite.measure(case, recording)
    assert values["goodput_mbps"] == pytest.approx(recording.flows["goodput_mbps"][first - 1 : last, 0].mean())
    assert values["fair_mbps"] == 10.0
    assert values["goodput_over_fair"] == pytest.approx(0.956, abs=0.005)
    assert values["utilisation"] > 0.99


@pytest.mark.parametrize("fields", [{"stop_s": 0.4}, {"traffic": {"kind": "bytes", "bytes": 20_000}}])
def test_a_flow_of_a_folder_without_a_whole_sample_has_no_values(tmp_path, fields):
    suite = suites.get(_folder(tmp_path, Flow(controller="contender", **fields)))
    (case,) = suite.cases("quick", 1)
    recording = simulate(suite.enter(case, contenders.from_controller("cubic")), record_interval_s=1.0)
    assert recording.flow_totals[0]["sent_packets"] > 10
    values = suite.measure(case, recording)
    assert {metric.key for metric in suite.metrics} <= set(values)
    assert np.isnan(list(values.values())).all()


@pytest.mark.parametrize("duration_s", [6.001, 6.1, 6.9])
def test_a_shorter_sample_at_the_end_of_a_run_does_not_count(tmp_path, duration_s):
    noise = Flow(name="noise", controller="udp", traffic={"kind": "cbr", "rate_mbps": 4.0})
    found = []
    for lasts_s in (6.0, duration_s):
        folder = tmp_path / str(lasts_s)
        folder.mkdir()
        scenario = scenarios.get("dumbbell", duration_s=lasts_s, rate_mbps=10).override("sim.noise", "false")
        scenario.with_flows([Flow(controller="contender"), noise]).save(folder / "one.toml")
        suite = suites.get(str(folder))
        (case,) = suite.cases("quick", 1)
        entered = suite.enter(case, contenders.from_controller("cubic"))
        found.append(suite.measure(case, simulate(entered, record_interval_s=1.0)))
    assert found[0] == found[1]
    assert found[0]["fair_mbps"] == pytest.approx(6.0, abs=0.05)


def test_a_folder_may_have_a_scenario_of_less_than_a_second(tmp_path):
    worlds = tmp_path / "worlds"
    worlds.mkdir()
    scenarios.get("dumbbell", duration_s=0.8).with_flows([Flow(controller="contender")]).save(worlds / "one.toml")
    beside = contenders.line_up(["cubic"], [])
    rows = run_suite(suites.get(str(worlds)), beside, out_dir=tmp_path / "out", runs=1, workers=1, quiet=True).rows
    assert len(rows) == 1


def test_utilisation_in_a_folder_is_that_of_the_slowest_link(tmp_path):
    scenario = scenarios.get("dumbbell", duration_s=10, rate_mbps=10).with_flows([Flow(controller="contender")])
    fast = scenario.links[0].changed(name="fast", rate_mbps=None)
    scenario.changed(links=(fast, *scenario.links)).save(tmp_path / "one.toml")
    suite = suites.get(str(tmp_path))
    (case,) = suite.cases("quick", 1)
    values = suite.measure(
        case, simulate(suite.enter(case, contenders.from_controller("cubic")), record_interval_s=1.0)
    )
    assert 0.8 < values["utilisation"] <= 1.0
    assert values["fair_mbps"] == 10.0


def test_the_placeholder_of_files_is_the_external_controller():
    assert Flow(controller="contender") == Flow(controller="external")
