"""The library of scenarios, against the numbers of the papers they come from."""

import statistics

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.common.files import toml_text
from orbitcc.envs import scenarios
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios.leo import reconfigurations

RUN_2 = [  # run 2 in the order of the paper's repository: Mbit/s, ms, % loss, ms of outage
    (53, 16, 0.08, 66), (97, 90, 0.85, 77), (88, 32, 0.61, 119), (93, 25, 1.0, 95), (96, 70, 0.95, 114),
    (78, 69, 0.27, 49), (51, 51, 0.46, 85), (74, 59, 0.89, 112), (60, 76, 0.18, 74), (51, 27, 0.33, 62),
    (82, 70, 0.36, 110), (93, 76, 0.18, 102), (100, 58, 0.73, 91),
]  # fmt: skip


def test_the_leo_paper_draws_its_published_schedule():
    assert reconfigurations(2, 20, rtt="repo")[:13] == RUN_2
    assert reconfigurations(2, 20, order="L", rtt="repo")[:4] == [
        (53, 16, 0.08, None),
        (60, 99, 0.81, None),
        (69, 37, 0.61, None),
        (88, 9, 0.58, None),
    ]


@pytest.mark.parametrize(("order", "mean", "low", "high"), [("M", 74.47, 66.2, 81.6), ("L", 75.17, 68.0, 80.4)])
def test_the_leo_paper_has_its_published_optimal_bandwidth(order, mean, low, high):
    means = [
        statistics.mean(rate for rate, *_ in reconfigurations(run, 20, order=order, rtt="repo")) for run in range(1, 51)
    ]
    assert statistics.mean(means) == pytest.approx(mean, abs=0.005)
    assert (min(means), max(means)) == (pytest.approx(low, abs=0.05), pytest.approx(high, abs=0.051))


def test_leo_responsiveness_switches_delay_at_the_start_and_rate_at_the_end_of_an_interruption():
    scenario = scenarios.get("leo-responsiveness", run=2, rtt="repo", loss=True)
    path, bottleneck = scenario.links
    assert scenario.duration_s == 300
    assert len(bottleneck.outages) == 19  # none at 0
    assert (bottleneck.outages[0].at_s, bottleneck.outages[0].duration_ms) == (15.0, 77.0)
    assert {(o.mode, o.flush, o.directions) for o in bottleneck.outages} == {("drop", "queue", "both")}
    assert path.delay_ms[:2] == ((0.0, 16), (15.0, 90))
    assert path.loss[:2] == ((0.0, pytest.approx(0.0008)), (15.0, pytest.approx(0.0085)))
    assert bottleneck.rate_mbps[:2] == ((0.0, 53), (15.077, 97))
    assert (path.ordering, path.loss_at, bottleneck.queue.limit_bytes) == ("overtaking", "ingress", 655_360)
    # The whole RTT is on the data direction.
    assert (scenario.base_rtt_ms(t_s=0), path.reverse.delay_ms, bottleneck.reverse.rate_mbps) == (16, 0.0, None)


@pytest.mark.parametrize(("order", "first_ms"), [("M", 77), ("L", 0)])
def test_each_new_period_of_leo_responsiveness_is_one_handover(order, first_ms):
    path, bottleneck = scenarios.get("leo-responsiveness", run=2, order=order).links
    changes = path.path_changes()
    assert [h.at_s for h in changes] == [15.0 * k for k in range(1, 20)]
    assert changes[0].duration_ms == first_ms
    assert bottleneck.path_changes() == ()


def test_leo_responsiveness_variants():
    assert scenarios.get("leo-responsiveness", run=2).links[0].loss == 0.0
    assert scenarios.get("leo-responsiveness", run=2, order="L").links[1].outages == ()
    rtts = [rtt for run in range(1, 51) for _, rtt, _, _ in reconfigurations(run, 20)]
    assert (min(rtts), max(rtts)) == (10, 100)


def test_dumbbell_has_one_bdp_of_buffer():
    scenario = scenarios.get("dumbbell")
    assert (scenario.capacity_mbps(), scenario.base_rtt_ms(), scenario.duration_s) == (100, 50, 60)
    assert scenario.links[0].queue.limit_bytes == 625_000
    assert scenarios.get("dumbbell", buffer_bdp=0.001).links[0].queue.limit_bytes == 1514
    assert scenarios.get("dumbbell", flows=3, controller="reno").flow_names == ("reno-0", "reno-1", "reno-2")


def test_geo_ideal_is_the_viasat_link():
    scenario = scenarios.get("geo-ideal")
    queue = scenario.links[0].queue
    assert (scenario.capacity_mbps(), scenario.base_rtt_ms()) == (144, 597)
    assert (queue.kind, queue.threshold_bytes, queue.limit_bytes, queue.drop_probability) == (
        "viasat", 18_000_000, 36_000_000, 0.25
    )  # fmt: skip


def test_parking_lot_gives_every_flow_the_same_base_rtt():
    scenario = scenarios.get("parking-lot", bottlenecks=6, base_rtt_ms=80)
    assert len(scenario.links) == 6
    assert [scenario.path_of(i) for i in range(7)] == [(0, 1, 2, 3, 4, 5), (0,), (1,), (2,), (3,), (4,), (5,)]
    assert {scenario.base_rtt_ms(i) for i in range(7)} == {80}
    assert [flow.start_s for flow in scenario.flows] == [50] + [0] * 6
    other = scenarios.get("parking-lot", base_rtt_ms=80, long_rtt_ms=20)
    assert [other.base_rtt_ms(i) for i in range(4)] == [20, 80, 80, 80]


def test_parking_lot_interrupts_all_links_at_once_for_times_of_their_own():
    scenario = scenarios.get("parking-lot", bottlenecks=2, run=5)
    one, two = (link.outages for link in scenario.links)
    assert [o.at_s for o in one] == [o.at_s for o in two] == [15.0 * k for k in range(1, 14)]
    assert [o.duration_ms for o in one] != [o.duration_ms for o in two]
    assert all(45 <= o.duration_ms <= 120 and float(o.duration_ms).is_integer() for o in (*one, *two))
    assert {(o.mode, o.flush) for o in one} == {("drop", "queue")}
    held = scenarios.get("parking-lot", bottlenecks=2, run=5, on_outage="hold").links[0].outages
    assert {(o.mode, o.flush) for o in held} == {("hold", "none")}
    assert [o.duration_ms for o in held] == [o.duration_ms for o in one]
    assert scenarios.get("parking-lot", interruption_every_s=0).links[0].outages == ()


def test_parking_lot_takes_crowds():
    scenario = scenarios.get("parking-lot", hotspots_per_min=6, run=2)
    crowd = [flow for flow in scenario.flows if flow.controller.name == "udp"]
    assert len(crowd) > 10
    assert {flow.path for flow in crowd} == {(0,), (1,), (2,)}
    assert any(isinstance(link.rate_mbps, tuple) and link.outages for link in scenario.links)
    assert Scenario.from_toml(scenario.to_toml()) == scenario


def test_wrong_parameters_are_named():
    with pytest.raises(OrbitccError, match="scenario: unknown name 'dumbel'; did you mean 'dumbbell'"):
        scenarios.get("dumbel")
    with pytest.raises(OrbitccError, match="rate: unknown name 'rate'; did you mean 'rate_mbps'"):
        scenarios.get("dumbbell", rate=5)
    with pytest.raises(OrbitccError, match=r"^rate_mbps: NaN .*\[0.01, 1e\+06\] Mbit/s"):
        scenarios.get("dumbbell", rate_mbps=float("nan"))
    with pytest.raises(OrbitccError, match="^order: 'X' .*'M' or 'L'"):
        scenarios.get("leo-responsiveness", order="X")
    with pytest.raises(OrbitccError, match="controller.name: unknown name 'cubi'"):
        scenarios.get("dumbbell", controller="cubi")
    with pytest.raises(OrbitccError, match="long_start_s: 50.0 .*before the end"):
        scenarios.get("parking-lot", duration_s=20)


@pytest.mark.parametrize(
    ("name", "without", "parameter", "beside"),
    [
        ("leo-path", {}, {"gap_s": 3.0}, {"flows": 2}),
        ("leoem", {}, {"transient_share": 0.5}, {"transient_ms": 100.0}),
        ("geo-rain", {}, {"start_percent": 1.0}, {"weather": "rain"}),
        ("geo-rain", {"weather": "rain"}, {"fades_per_h": 2.0}, {"weather": "fades"}),
        ("geo-pep", {"connection": "end-to-end"}, {"pep_controller": "cubic"}, {"connection": "proxy"}),
        ("inter-rtt", {}, {"on_outage": "hold"}, {"interruption_every_s": 15.0}),
        ("parking-lot", {"interruption_every_s": 0.0}, {"on_outage": "hold"}, {"interruption_every_s": 15.0}),
    ],
)
def test_a_parameter_without_effect_is_refused(name, without, parameter, beside):
    ((key, value),), ((needed, _),) = parameter.items(), beside.items()
    with pytest.raises(OrbitccError, match=f"^{key}: {value!r} .* unless {needed} is "):
        scenarios.get(name, **without, **parameter)
    assert scenarios.get(name, **beside, **parameter) != scenarios.get(name, **beside)
    scenarios.get(name, **without, **{key: scenarios.SCENARIOS[name].params[key]})


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
@pytest.mark.parametrize("wrong", [float("nan"), "no such thing", [["list"]]], ids=["nan", "text", "list"])
def test_every_parameter_is_named_where_it_is_wrong(name, wrong):
    for parameter in scenarios.SCENARIOS[name].params:
        with pytest.raises(OrbitccError) as refused:
            scenarios.get(name, **{parameter: wrong})
        about = "file" if parameter == "bandwidth_file" and isinstance(wrong, str) else parameter
        assert refused.value.field.split(".")[0] == about
        assert refused.value.allowed
        assert "\n" not in str(refused.value)


def test_load_takes_parameters_and_fields():
    scenario = scenarios.load("dumbbell", {"duration_s": "5", "links.0.loss": "0.1"})
    assert (scenario.duration_s, scenario.links[0].loss) == (5.0, 0.1)
    with pytest.raises(OrbitccError, match="duratio_s: unknown name 'duratio_s'; did you mean 'duration_s'"):
        scenarios.load("dumbbell", {"duratio_s": "5"})


def test_load_reads_files(tmp_path):
    plain = scenarios.get("dumbbell").save(tmp_path / "plain.toml")
    assert scenarios.load(plain, {"links.0.rate_mbps": "50"}).capacity_mbps() == 50
    drawn = tmp_path / "drawn.toml"
    drawn.write_text(toml_text(scenarios.distribution("train-mixed").model_dump()))
    assert scenarios.load(drawn) == scenarios.distribution("train-mixed")
    drawn.write_text('kind = "path"\n')
    with pytest.raises(OrbitccError, match="kind: unknown name 'path'; did you mean 'paths'"):
        scenarios.load(drawn)


# -- training distributions ----------------------------------------------------------------------------------


def draws(name, count=200, seed=1):
    rng = np.random.default_rng(seed)
    return [scenarios.distribution(name).sample(rng) for _ in range(count)]


@pytest.mark.parametrize("name", scenarios.DISTRIBUTIONS)
def test_every_draw_is_a_valid_scenario(name):
    for scenario in draws(name, 60):
        read = Scenario.from_toml(scenario.to_toml())
        assert read == scenario
        assert read.compile() == scenario.compile()  # what pooled parts keep is what they compile to afresh


@pytest.mark.parametrize("name", scenarios.DISTRIBUTIONS)
def test_draws_are_repeated_by_the_seed(name):
    once, again, other = (draws(name, 20, seed) for seed in (3, 3, 4))
    assert [s.compile() for s in once] == [s.compile() for s in again]
    assert [s.compile() for s in once] != [s.compile() for s in other]


@pytest.mark.parametrize("name", scenarios.DISTRIBUTIONS)
def test_learning_flows_are_external_and_the_first_is_there_throughout(name):
    most = 0
    for scenario in draws(name):
        learning = [flow for flow in scenario.flows if flow.controller.name == "external"]
        most = max(most, len(learning))
        assert learning[0].start_s == 0
        assert learning[0].stop_s is None
        rivals = {"cubic", "bbr3", "reno"} if name == "train-leo-wide" else set()
        assert {flow.controller.name for flow in scenario.flows} <= {"external", "udp"} | rivals
    assert 1 <= most <= scenarios.distribution(name).max_agents


def test_train_astraea_stays_in_the_published_ranges():
    found = draws("train-astraea", 300)
    rates, rtts = [s.capacity_mbps() for s in found], [s.base_rtt_ms() for s in found]
    buffers = [s.links[0].queue.limit_bytes / (s.capacity_mbps() * s.base_rtt_ms() * 125) for s in found]
    assert 40 <= min(rates) < 45
    assert 155 < max(rates) <= 160
    assert 10 <= min(rtts) < 14
    assert 136 < max(rtts) <= 140
    assert min(buffers) < 0.2
    assert 10 < max(buffers) <= 16 + 1e-6
    assert {len(s.flows) for s in found} <= {1, 2, 3, 4, 5}
    assert {s.duration_s for s in found} == {60}
    for scenario in found:
        for flow in scenario.flows:
            rest = scenario.duration_s - flow.start_s
            assert flow.stop_s is None or 0.25 * rest <= flow.stop_s - flow.start_s <= rest


def test_train_leo_reconfigures_every_15_s():
    for scenario in draws("train-leo", 100):
        link = scenario.links[0]
        assert [t for t, _ in link.delay_ms] == [0, 15, 30, 45]
        assert all(10 <= 2 * delay <= 250 for _, delay in link.delay_ms)
        for (t, _), edge in zip(link.rate_mbps, (0, 15, 30, 45), strict=True):
            assert edge <= t <= edge + 0.150


def test_rivals_are_one_classical_flow_in_so_many_worlds():
    alone = scenarios.distribution("train-leo")
    beside = alone.changed(rivals={"probability": 0.3, "controllers": ["cubic", "vegas"]})
    found = [beside.sample(np.random.default_rng(k)) for k in range(300)]
    rivals = [[f for f in s.flows if f.name == "rival"] for s in found]
    assert 0.2 < sum(map(len, rivals)) / 300 < 0.4
    for scenario, flows in zip(found, rivals, strict=True):
        assert {f.controller.name for f in flows} <= {"cubic", "vegas"}
        assert all(f.start_s <= 30 and (f.stop_s or 60) - f.start_s >= 0.25 * (60 - f.start_s) for f in flows)
        # Nothing else about the world is another.
        assert alone.sample(np.random.default_rng(found.index(scenario))).links == scenario.links
    with pytest.raises(OrbitccError, match="cubid"):
        alone.changed(rivals={"controllers": ["cubid"]})


def test_train_mixed_is_15_percent_geo():
    geo = [s for s in draws("train-mixed", 1000) if s.base_rtt_ms() >= 480]
    assert 0.12 < len(geo) / 1000 < 0.18


def test_train_geo_has_bursty_loss_stalls_and_the_viasat_queue():
    found = draws("train-geo", 200)
    assert all(480 <= s.base_rtt_ms() <= 700 + 11 for s in found)  # the drift comes on top
    kinds = [s.links[0].queue.kind for s in found]
    assert 0.4 < kinds.count("viasat") / 200 < 0.6
    stalls = [o for s in found for o in s.links[0].outages if o.mode == "hold"]
    assert stalls
    assert max(o.duration_ms for o in stalls) <= 1575


def test_train_orbits_follows_paths_under_an_access_network():
    found = draws("train-orbits", 60)
    links = [s.links[0] for s in found]
    assert all(link.interpolate_delay and link.jitter is not None and link.gate_ms == 1.33 for link in links)
    rtts = [s.base_rtt_ms() for s in found]
    assert 20 < min(rtts) < 60
    assert 100 < max(rtts) < 250
    assert {o.mode for link in links for o in link.outages} == {"hold", "drop"}
    for scenario, link in zip(found, links, strict=True):
        packets = link.queue.limit_bytes / 1514
        assert packets >= 9.9
        assert all(0 < h.at_s < scenario.duration_s for h in link.handovers)
    told = [len(link.handovers) for link in links]
    assert min(told) < max(told) <= 4


@pytest.mark.parametrize("name", ["train-orbits", "train-geo"])
def test_a_disturbance_depends_on_its_number_alone(name):
    one, other = (scenarios.distribution(name).changed() for _ in range(2))
    one.disturbance(3)
    for i in (5, 3):
        a, b = one.disturbance(i), other.disturbance(i)
        assert (a.outages, a.handovers, a.forward.jitter) == (b.outages, b.handovers, b.forward.jitter)
        assert a.delay_ms_at_start() == b.delay_ms_at_start()
    assert one.disturbance(3).delay_ms_at_start() != one.disturbance(5).delay_ms_at_start()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("one_bottleneck_probability", "0.5", "one_bottleneck_probability: 0.5 .*1 with paths"),
        ("slots", "{}", "slots: 'a table' .*no table, because"),
        ("paths.size", "0", r"paths.size: 0 .*\[1, 100000\]"),
        ("access.interruption_ms", "[5, -1]", "access.interruption_ms.high: -1"),
        ("weather.attenuation.kind", '"snow"', "weather.attenuation.kind: unknown name 'snow'"),
    ],
)
def test_a_wrong_field_of_a_disturbance_is_named(key, value, says):
    with pytest.raises(OrbitccError, match=says):
        scenarios.load("train-orbits", {key: value})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("rate_mbps", "[5, nan]", "rate_mbps.high: NaN"),
        ("rate_mbps", "[50, 5]", "rate_mbps.low: 50.0 .*at most high"),
        ("base_rtt_ms", "{low = 0, high = 5, log = true}", "base_rtt_ms.low: 0"),
        ("slots.lengths_s", "[5, 6]", "slots.lengths_s: unknown name 'lengths_s'; did you mean 'length_s'"),
        ("overtaking_probability", "2", r"overtaking_probability: 2 .*\[0, 1\]"),
    ],
)
def test_a_wrong_range_is_named(key, value, says):
    with pytest.raises(OrbitccError, match=says):
        scenarios.load("train-leo", {key: value})
