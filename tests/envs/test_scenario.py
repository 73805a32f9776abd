import json
import math

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import ControllerSpec, Flow
from orbitcc.envs.description.links import Direction, GammaJitter, GilbertElliott, Handover, Link, Outage, SineJitter
from orbitcc.envs.description.queues import Codel, DropTailBytes, FqCodel, Pie, Red, Viasat
from orbitcc.envs.description.scenario import Scenario, SimSettings

NAN = float("nan")


@pytest.fixture
def dumbbell():
    return scenarios.get("dumbbell")


def network(scenario):
    return json.loads(scenario.compile())


def test_without_shortcuts_the_outcome_is_the_same(dumbbell):
    short = dumbbell.override("duration_s", "5").with_controller("bbr3")
    exact = short.override("sim.exact", "true")
    assert network(exact)["exact"] is True
    assert "exact" not in network(short)
    assert simulate(exact).flow_totals == simulate(short).flow_totals


# -- flows on the command line -------------------------------------------------------------------------------


def test_flow_text_says_controller_parameters_and_start():
    flow = Flow.parse("cubic:hystart=off@20s")
    assert (flow.controller, flow.start_s) == (ControllerSpec(name="cubic", params={"hystart": "off"}), 20.0)
    assert Flow.parse("reno@1.5").start_s == 1.5
    assert str(flow.controller) == "cubic:hystart=off"


def test_flow_text_of_a_datagram_sender():
    flow = Flow.parse("udp:rate_mbps=20,stop=30s@5s")
    assert (flow.traffic.kind, flow.traffic.rate_mbps, flow.start_s, flow.stop_s) == ("cbr", 20.0, 5.0, 30.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cubik", "flow: unknown name 'cubik'; did you mean 'cubic'"),
        ("cubic:hystart=of", "flow.hystart: unknown name 'of'; did you mean 'off'"),
        ("cubic:hystar=off", "flow.hystar: unknown name 'hystar'; did you mean 'hystart'"),
        ("cubic:off", "flow: .*NAME"),
        ("cubic:", "flow: 'cubic:' .*NAME"),
        ("cubic@", "flow: 'cubic@' .*NAME"),
        ("cubic@soon", "flow: 'cubic@soon' .*NAME"),
        ("cubic@-1", "flow.start_s: -1.0"),
        ("cubic@nan", "flow.start_s: NaN"),
        ("udp", "flow.traffic.kind: .*cbr or on_off"),
        ("udp:rate_mbps=-3", r"flow.traffic.rate_mbps: -3 .*\[0.001, 1e\+06\] Mbit/s"),
    ],
)
def test_wrong_flow_text_is_one_clear_error(text, says):
    with pytest.raises(OrbitccError, match=says):
        Flow.parse(text)


# -- what is allowed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("links.0.rate_mbps", -1, r"links.0.rate_mbps: -1 .*\[0.001, 1e\+06\] Mbit/s"),
        ("links.0.rate_mbps", 0, "links.0.rate_mbps: 0 "),
        ("links.0.rate_mbps", NAN, "links.0.rate_mbps: NaN "),
        ("links.0.rate_mbps", "fast", "links.0.rate_mbps: 'fast' .*a number"),
        ("links.0.rate_mbps", [[0, 5], [3, 6], [2, 7]], "links.0.rate_mbps.2: 2 .*in increasing order of time"),
        ("links.0.rate_mbps", [[0, 5], [3, NAN]], "links.0.rate_mbps.1: NaN"),
        ("links.0.rate_mbps", [[1, 5]], "links.0.rate_mbps.0: 1 .*starts at time 0"),
        ("links.0.rate_mbps", [], "links.0.rate_mbps: .*a schedule"),
        ("links.0.rate_mbps", [[0, 5, 6]], "links.0.rate_mbps.0: .*a schedule"),
        ("links.0.delay_ms", -0.1, "links.0.delay_ms: -0.1"),
        ("links.0.delay_ms", float("inf"), "links.0.delay_ms: inf"),
        ("links.0.rat_mbps", 3, "links.0.rat_mbps: unknown name 'rat_mbps'; did you mean 'rate_mbps'"),
        ("links.1.rate_mbps", 3, "links.1: 1 .*0 to 0"),
        ("links.bottlenek.rate_mbps", 3, "links.bottlenek: .*did you mean 'bottleneck'"),
        ("links.0.loss", 1.5, r"links.0.loss: 1.5 .*\[0, 1\]"),
        ("links.0.loss", {"kind": "gilbert"}, "links.0.loss.kind: unknown name 'gilbert'"),
        ("links.0.loss", {"kind": "bernoulli", "p": -1}, "links.0.loss.p: -1"),
        ("links.0.loss", {"kind": "gilbert_elliott"}, "links.0.loss.to_bad_per_s: .*no default"),
        ("links.0.queue.limit_bytes", 0, "links.0.queue.limit_bytes: 0"),
        ("links.0.queue.limit_bytes", 1.5, "links.0.queue.limit_bytes: 1.5 .*whole number"),
        ("links.0.queue.kind", "codle", "links.0.queue.kind: unknown name 'codle'"),
        (
            "links.0.queue",
            {"kind": "viasat", "threshold_bytes": 10**8},
            "links.0.queue.threshold_bytes: 100000000 .*at most",
        ),
        (
            "links.0.queue",
            {"kind": "codel", "target_ms": 200},
            "links.0.queue.target_ms: 200.* at most interval_ms = 100",
        ),
        ("links.0.queue", {"kind": "fq_codel", "flows": 0}, "links.0.queue.flows: 0 "),
        ("links.0.queue", {"kind": "pie", "alpha": 33}, r"links.0.queue.alpha: 33 .*\[0, 32\]"),
        ("links.0.queue", {"kind": "red"}, "links.0.queue.limit_bytes: .*no default"),
        (
            "links.0.queue",
            {"kind": "red", "limit_bytes": 9000, "max_bytes": 9001},
            "links.0.queue.max_bytes: 9001 .*at most limit_bytes = 9000",
        ),
        (
            "links.0.queue",
            {"kind": "red", "limit_bytes": 9000, "min_bytes": 3001, "max_bytes": 3000},
            "links.0.queue.min_bytes: 3001 .*not above max_bytes",
        ),
        ("links.0.gate_ms", -1, "links.0.gate_ms: -1"),
        ("links.0.burst_bytes", 1.5, "links.0.burst_bytes: 1.5 .*whole number"),
        ("links.0.gate_phase_ms", 30, "links.0.gate_phase_ms: 30.* 0 if gate_ms is 0"),
        ("links.0.reverse", {"burst_bytes": 9000}, "links.0.reverse.burst_bytes: 9000 .*0 if the rate is unlimited"),
        ("flows.0.reroutes", [{"at_s": 3, "path": ["nowhere"]}], "flows.0.reroutes.0.path.0: unknown name 'nowhere'"),
        ("flows.0.reroutes", [{"at_s": 3, "path": [0]}] * 2, "flows.0.reroutes.1.at_s: 3"),
        ("flows.0.traffic", {"kind": "objects", "sigma": 9}, "flows.0.traffic.sigma: 9"),
        ("links.0.jitter", {"kind": "gama", "mean_ms": 1}, "links.0.jitter.kind: unknown name 'gama'"),
        ("links.0.jitter", {"kind": "gamma", "mean_ms": -1}, "links.0.jitter.mean_ms: -1"),
        ("sim.gro_segments", 65, r"sim.gro_segments: 65 .*\[1, 64\] segments"),
        (
            "links.0.handovers",
            [{"at_s": 5}, {"at_s": 5, "duration_ms": 10}],
            "links.0.handovers.1.at_s: 5.0 .*later than 5",
        ),
        (
            "links.0.outages",
            [{"at_s": 5, "duration_ms": 100}, {"at_s": 5.05, "duration_ms": 1}],
            "links.0.outages.1.at_s: 5.05",
        ),
        (
            "links.0.outages",
            [{"at_s": 5, "duration_ms": 1, "mode": "x"}],
            "links.0.outages.0.mode: 'x' .*'drop' or 'hold'",
        ),
        ("links.0.outages", [{"at_s": 1, "duration_ms": 1e-9}], r"links.0.outages.0.duration_ms: 1e-09 .*\[1e-06, "),
        ("links", [], "links: .*one link or more"),
        ("links", 3, "links: 3 is not allowed; allowed: a list$"),
        ("links.0", 3, "links.0: 3 is not allowed; allowed: a table with rate_mbps, name and optional "),
        ("name", "", "name: '' is not allowed; allowed: text that is not empty$"),
        ("flows", [], "flows: .*one flow or more"),
        ("flows.0.path", [1], "flows.0.path.0: 1 .*0 to 0"),
        ("flows.0.path", ["nowhere"], "flows.0.path.0: unknown name 'nowhere'.*bottleneck"),
        ("flows.0.path", [], "flows.0.path: .*one link or more"),
        ("flows.0.path", [False], "flows.0.path.0: False .*a whole number or text$"),
        ("flows.0.path", [0.0], "flows.0.path.0: 0.0 .*a whole number or text$"),
        ("flows.0.return_path", [False], "flows.0.return_path.0: False .*a whole number or text$"),
        ("flows.0.reroutes", [{"at_s": 3, "path": [0.0]}], "flows.0.reroutes.0.path.0: 0.0 .*a whole number or text$"),
        ("flows.0.pep", {"of": 0.0, "buffer_bytes": 20_000}, "flows.0.pep.of: 0.0 .*a whole number or text$"),
        ("flows.0.start_s", 60, "flows.0.start_s: 60.* before the end"),
        ("flows.0.stop_s", 0, "flows.0.stop_s: 0 "),
        ("flows.0.controller", "renoo", "flows.0.controller.name: unknown name 'renoo'; did you mean 'reno'"),
        ("flows.0.controller.params.hystart", "on", "flows.0.controller.params.hystart: unknown name 'on'"),
        ("flows.0.traffic", "bulky", "flows.0.traffic.kind: unknown name 'bulky'; did you mean 'bulk'"),
        ("sim.nois", False, "sim.nois: unknown name 'nois'; did you mean 'noise'"),
        ("sim.kernel", "v5", "sim.kernel: 'v5' .*'v6'"),
        ("sim.ssthresh_cache", "on", "sim.ssthresh_cache: 'on' .*kernel, off, live or a whole number"),
        ("sim.send_jitter_ms", NAN, "sim.send_jitter_ms: NaN"),
        ("sim.rmem_bytes", [1, 2, 3], "sim.rmem_bytes.0: 1"),
        ("duration_s", 0, "duration_s: 0 "),
        ("duration_s", True, "duration_s: True .*a number"),
        ("duration_s.x", 1, "duration_s.x: .*is a single value"),
        ("seed", -1, "seed: -1 .*whole number"),
        ("speed", 1, "speed: unknown name 'speed'"),
    ],
)
def test_a_wrong_field_is_named_with_value_and_range(dumbbell, key, value, says):
    with pytest.raises(OrbitccError, match=f"^{says}"):
        dumbbell.override(key, value)


def test_construction_in_python_gives_the_same_errors():
    with pytest.raises(
        OrbitccError, match=r"^rate_mbps: -3 is not allowed; allowed: a number in \[0.001, 1e\+06\] Mbit/s"
    ):
        Link(name="x", rate_mbps=-3)


def test_names_must_differ(dumbbell):
    with pytest.raises(OrbitccError, match="flows with different names"):
        dumbbell.with_flows([Flow(name="a", controller="cubic"), Flow(name="a", controller="reno")])
    with pytest.raises(OrbitccError, match="links with different names"):
        dumbbell.changed(links=(Link(name="a", rate_mbps=None), Link(name="a", rate_mbps=None)))


# -- variants ------------------------------------------------------------------------------------------------


def test_override_reads_text_as_the_command_line_does(dumbbell):
    changed = dumbbell.override("links.bottleneck.rate_mbps", "50").override("sim.noise", "false")
    assert (changed.links[0].rate_mbps, changed.sim.noise) == (50.0, False)
    stepped = dumbbell.override("links.0.rate_mbps", "[[0, 100], [30, 20]]")
    assert stepped.override("links.0.rate_mbps.1.1", "30").links[0].rate_mbps == ((0.0, 100.0), (30.0, 30.0))
    assert dumbbell.override("flows.0.controller.params.hystart", "off").flows[0].controller.params == {
        "hystart": "off"
    }


def test_overriding_a_part_of_the_reverse_direction_keeps_the_rest_of_it(dumbbell):
    reverse = dumbbell.override("links.0.reverse.loss", 0.1).links[0].reverse
    assert (reverse.loss, reverse.rate_mbps, reverse.delay_ms) == (0.1, 100.0, 25.0)


def test_flows_are_named_after_their_controllers(dumbbell):
    several = dumbbell.with_flows([Flow.parse("cubic"), Flow.parse("reno@20s"), Flow(name="mine", controller="reno")])
    assert several.flow_names == ("cubic-0", "reno-1", "mine")
    assert several.with_controller("cubic:hystart=off").flow_names == ("cubic-0", "cubic-1", "mine")


def test_base_rtt_and_capacity_follow_the_schedules():
    scenario = Scenario(
        name="x",
        duration_s=40,
        links=(
            Link(name="a", rate_mbps=None, delay_ms=((0, 10), (20, 30)), interpolate_delay=True, reverse=Direction()),
            Link(name="b", rate_mbps=((0, 100), (10, 50)), delay_ms=5),
            Link(name="c", rate_mbps=80),
        ),
        flows=(Flow(controller="cubic", uplink_delay_ms=7), Flow(controller="reno", path=("c",))),
    )
    assert scenario.base_rtt_ms(0, 0) == 7 + 10 + 2 * 5
    assert scenario.base_rtt_ms(0, 10) == 7 + 20 + 2 * 5
    assert scenario.base_rtt_ms(0, 30) == 7 + 30 + 2 * 5
    assert scenario.base_rtt_ms(1) == 0
    assert [scenario.capacity_mbps(t) for t in (0, 9.9, 10, 39)] == [80, 80, 50, 50]
    assert scenario.capacity_mbps(30, flow_index=1) == 80
    assert scenario.mean_capacity_mbps() == pytest.approx((10 * 100 + 30 * 50) / 40)
    assert math.isinf(scenario.with_flows([Flow(controller="cubic", path=("a",))]).capacity_mbps())


# -- files ---------------------------------------------------------------------------------------------------


def everything():
    return Scenario(
        name="everything",
        duration_s=30,
        seed=7,
        links=(
            Link(
                name="first",
                rate_mbps=((0, 100), (10.5, 50)),
                delay_ms=((0, 10), (20, 30)),
                loss=((0, 0.0), (5, GilbertElliott(to_bad_per_s=0.1, to_good_per_s=3)), (9, 0.01)),
                queue=Viasat(),
                ordering="overtaking",
                outages=(Outage(at_s=15, duration_ms=80, flush="queue"),),
                reverse=Direction(
                    rate_mbps=10, burst_bytes=9000, loss=0.001, queue=FqCodel(flows=100), gate_ms=50, gate_phase_ms=3
                ),
            ),
            Link(
                name="second",
                rate_mbps=None,
                queue=DropTailBytes(limit_bytes=5000),
                delay_ms=2,
                jitter=GammaJitter(mean_ms=4, tau_ms=20),
                reverse=Direction(delay_ms=2, jitter=SineJitter(sine_period_s=3)),
                handovers=(Handover(at_s=3, duration_ms=70), Handover(at_s=18)),
            ),
        ),
        flows=(
            Flow(controller="cubic:hystart=off", start_s=1, stop_s=20, delay_preference=0.2),
            Flow(controller="udp", path=("second",), traffic={"kind": "on_off", "rate_mbps": 5, "on_s": 1, "off_s": 2}),
            Flow(controller="reno", path=(0,), traffic={"kind": "bytes", "bytes": 10**6}, uplink_delay_ms=3),
            Flow(
                controller="cubic",
                traffic={"kind": "objects", "per_s": 2},
                reroutes=[{"at_s": 9, "path": ["second"]}],
            ),
        ),
        sim=SimSettings(noise=False, hz=250, frame_overhead_bytes=0, gro_segments=8),
    )


def test_a_scenario_file_gives_the_same_scenario(tmp_path):
    scenario = everything()
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert Scenario.load(scenario.save(tmp_path / "x.toml")).compile() == scenario.compile()


def test_a_file_of_another_version_is_refused(tmp_path):
    text = everything().to_toml().replace("schema_version = 1", "schema_version = 2")
    with pytest.raises(OrbitccError, match="schema_version: 2 .*allowed: 1"):
        Scenario.from_toml(text)


def test_each_backend_names_what_it_cannot_do():
    scenario = everything()
    assert scenario.unsupported("simulator") == ()
    assert scenario.unsupported("emulator") == ("sim.gro_segments",)
    assert scenario.with_controller("external").unsupported("simulator") == tuple(
        f"flows.{i}.controller" for i in (0, 2, 3)
    )
    assert scenarios.get("leo-responsiveness", loss=True).unsupported("emulator") == ()
    with pytest.raises(OrbitccError, match="backend: unknown name 'emulatr'; did you mean 'emulator'"):
        scenario.unsupported("emulatr")


# -- the compiled network ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "compiled"),
    [
        ({"kind": "drop_tail_packets", "limit_packets": 50}, {"limit": 50}),
        (
            {"kind": "viasat", "limit_bytes": 36_000_000},
            {"limit": 36_000_000, "threshold": 18_000_000, "drop_probability": 0.25},
        ),
        (
            {"kind": "codel", "target_ms": 7, "interval_ms": 90, "ecn": True, "ce_threshold_ms": 1.5},
            {"limit": 1000, "target": 7_000_000, "interval": 90_000_000, "ecn": True, "ce_threshold": 1_500_000},
        ),
        (
            {"kind": "fq_codel", "flows": 100, "ecn": False},
            {"limit": 10_240, "memory_limit": 33_554_432, "flows": 100, "quantum": 1514, "drop_batch": 64}
            | {"target": 5_000_000, "interval": 100_000_000, "ecn": False},
        ),
        (
            {"kind": "pie", "target_ms": 20, "update_ms": 30, "ecn": True},
            {"limit": 1000, "target": 20_000_000, "update": 30_000_000, "alpha": 2, "beta": 20, "ecn": True},
        ),
        # 256 x 0.16 and 256 x 3.2, rounded.
        (
            {"kind": "dualpi2"},
            {"limit": 10_000, "target": 15_000_000, "update": 16_000_000, "alpha": 41, "beta": 819, "step": 1_000_000}
            | {"coupling": 2, "classic_weight": 10, "drop_overload": True},
        ),
        # A quarter of the limit and a third of that; bursts of 8 packets: (1 - (7/8)^8) x 2^3 = 5.2 pass 8 + 1 - 5.
        (
            {"kind": "red", "limit_bytes": 60_000, "ecn": True},
            {"limit": 60_000, "min": 5_000, "max": 15_000, "max_probability": 0.02, "weight_log2": 3}
            | {"packet": 1000, "adaptive": False, "ecn": True},
        ),
    ],
)
def test_queues_are_compiled_with_every_setting(queue, compiled):
    link = {"name": "a", "rate_mbps": 10, "delay_ms": 5, "queue": queue}
    scenario = Scenario(name="x", description="x", duration_s=1, links=[link], flows=[{"controller": "cubic"}])
    assert network(scenario)["links"][0]["forward"]["queue"] == {"kind": queue["kind"]} | compiled


def test_compiled_units_are_nanoseconds_bits_per_second_and_bytes():
    net = network(everything())
    assert (net["seed"], net["duration"]) == (7, 30 * 10**9)
    first, second = net["links"]
    assert first["forward"]["rate"] == [[0, 100_000_000], [10_500_000_000, 50_000_000]]
    assert first["forward"]["delay"] == {"interpolate": False, "points": [[0, 10_000_000], [20 * 10**9, 30_000_000]]}
    assert [loss[1]["kind"] for loss in first["forward"]["loss"]] == ["none", "gilbert_elliott", "bernoulli"]
    assert first["forward"]["queue"]["limit"] == 36_000_000
    assert first["reverse"]["rate"] == [[0, 10_000_000]]
    assert first["outages"] == [
        {"at": 15 * 10**9, "duration": 80_000_000, "mode": "drop", "flush": "queue", "directions": "both"}
    ]
    assert first["reverse"]["gate"] == {"period": 50_000_000, "phase": 3_000_000}
    assert "gate" not in first["forward"]
    assert "handovers" not in first, "they are its outages"
    assert second["forward"]["jitter"] == {"kind": "gamma", "mean": 4_000_000, "shape": 2, "tau": 20_000_000}
    assert second["reverse"]["jitter"]["sine_period"] == 3 * 10**9
    assert second["handovers"] == [{"at": 3 * 10**9, "duration": 70_000_000}, {"at": 18 * 10**9, "duration": 0}]
    assert second["forward"]["rate"] == []
    assert "loss" not in second["forward"]
    assert [flow["path"] for flow in net["flows"]] == [[0, 1], [1], [0], [0, 1]]
    assert net["flows"][3]["reroutes"] == [{"at": 9 * 10**9, "path": [1]}]
    assert net["flows"][3]["traffic"] == {"kind": "objects", "per_s": 2.0, "mean_bytes": 30_000.0, "sigma": 1.318}
    assert net["flows"][0]["controller"]["params"]["hystart"] == "off"
    assert net["flows"][1]["traffic"] == {"kind": "on_off", "rate": 5_000_000, "on": 10**9, "off": 2 * 10**9}
    assert (net["tcp"]["header_bytes"], net["tcp"]["hz"], net["tcp"]["gro_segments"]) == (52, 250, 8)


@pytest.mark.parametrize(
    ("queue", "compiled"),
    [
        (Codel(), {"kind": "codel", "limit": 1000, "target": 5_000_000, "interval": 100_000_000}),
        (
            FqCodel(),
            {
                "kind": "fq_codel",
                "limit": 10_240,
                "memory_limit": 33_554_432,
                "flows": 1024,
                "quantum": 1514,
                "drop_batch": 64,
                "target": 5_000_000,
                "interval": 100_000_000,
            },
        ),
        (
            Pie(),
            {"kind": "pie", "limit": 1000, "target": 15_000_000, "update": 15_000_000, "alpha": 2, "beta": 20},
        ),
        (
            Red(limit_bytes=60_000),
            {
                "kind": "red",
                "limit": 60_000,
                "min": 5_000,
                "max": 15_000,
                "max_probability": 0.02,
                "weight_log2": 3,
                "packet": 1000,
                "adaptive": False,
            },
        ),
    ],
)
def test_managed_queues_have_the_defaults_of_linux_and_run(dumbbell, queue, compiled):
    scenario = dumbbell.override("links.0.queue", queue.model_dump(exclude_none=True)).override("duration_s", 1)
    assert scenario.links[0].queue == queue
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert network(scenario)["links"][0]["forward"]["queue"] == compiled
    assert simulate(scenario).flow_totals[0]["goodput_mbps"] > 10


def test_red_computes_thresholds_and_weight_as_tc_does():
    assert Red(limit_bytes=10**6, min_bytes=30_000).thresholds_bytes() == (30_000, 90_000)
    assert Red(limit_bytes=10**6, max_bytes=90_000).thresholds_bytes() == (30_000, 90_000)
    # A burst of (2 x 30 + 90) / 3 = 50 packets; 50 + 1 - 30 = 21 <= (1 - (1 - W)^50) / W from W = 2^-5 on (25.5).
    assert Red(limit_bytes=10**6, min_bytes=30_000).weight() == 5
    assert Red(limit_bytes=10**6, weight_log2=9).weight() == 9


def test_noise_is_one_serialisation_time_and_one_base_rtt_by_default(dumbbell):
    assert network(dumbbell)["noise"] == {"send_jitter": 1514 * 8 * 10, "start_jitter": 50_000_000}
    assert network(dumbbell.override("sim.noise", False))["noise"] == {"send_jitter": 0, "start_jitter": 0}
    assert network(dumbbell.override("sim.start_jitter_ms", 2))["noise"]["start_jitter"] == 2_000_000


def test_noise_is_of_the_slowest_link_and_the_shortest_path():
    links = [
        {"name": "fast", "rate_mbps": 100, "delay_ms": 10},
        # 12 Mbit/s on average over the ten seconds; there 5 to 15 ms in a straight line, and back the same.
        {"name": "slow", "rate_mbps": [[0, 8], [5, 16]], "delay_ms": [[0, 5], [10, 15]], "interpolate_delay": True},
    ]
    flows = [
        {"controller": "cubic", "uplink_delay_ms": 7},  # 2 x 10 + 2 x 5 + 7 = 37 ms at its start
        {"controller": "cubic", "start_s": 4},  # 2 x 10 + 2 x 9 = 38 ms
    ]
    made = network(Scenario.build({"name": "t", "duration_s": 10, "links": links, "flows": flows}))
    assert made["noise"] == {"send_jitter": 1514 * 8 * 1_000_000 // 12_000, "start_jitter": 37_000_000}
    # A reverse direction that is left out is interpolated, too.
    delay = {"interpolate": True, "points": [[0, 5_000_000], [10_000_000_000, 15_000_000]]}
    assert made["links"][1]["forward"]["delay"] == made["links"][1]["reverse"]["delay"] == delay


def test_a_link_without_reverse_is_mirrored_without_its_loss(dumbbell):
    link = network(dumbbell.override("links.0.loss", 0.1))["links"][0]
    assert link["forward"]["loss"] == [[0, {"kind": "bernoulli", "p": 0.1}]]
    assert {**link["reverse"], "loss": link["forward"]["loss"]} == link["forward"]
    assert "loss" not in link["reverse"]


def test_a_link_must_state_its_rate(dumbbell):
    with pytest.raises(OrbitccError, match='^rate_mbps: missing; give Mbit/s, a schedule, or "unlimited"'):
        Link(name="x")
    data = {"schema_version": 1, "duration_s": 1, "flows": [{"controller": "cubic"}]}
    with pytest.raises(OrbitccError, match=r"^links\.0\.rate_mbps: missing"):
        Scenario.from_dict({**data, "name": "a", "links": [{"name": "x", "delay_ms": 5}]})
    unlimited = Scenario.from_dict({**data, "name": "a", "links": [{"name": "x", "rate_mbps": "unlimited"}]})
    assert unlimited.links[0].rate_mbps is None
    assert 'rate_mbps = "unlimited"' in unlimited.to_toml()
    assert Scenario.from_toml(unlimited.to_toml()) == unlimited
    assert dumbbell.override("links.0.rate_mbps", "unlimited").links[0].rate_mbps is None


def test_a_misspelt_field_is_named_before_the_one_that_is_missing_then():
    with pytest.raises(OrbitccError, match=r"^rate_mpbs: unknown name 'rate_mpbs'; did you mean 'rate_mbps'"):
        Link.build({"name": "x", "rate_mpbs": 5})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("links.0.handovers", [20], "links.0.handovers.0: 20 .* a table with at_s and optional duration_ms$"),
        ("links.0.outages", [20], "links.0.outages.0: 20 .* a table with at_s, duration_ms and optional mode, "),
        ("links.0.late", 5, "links.0.late: 5 .* a table with p, delay_ms$"),
        ("links.0.queue", {"knd": "codel"}, "links.0.queue: {'knd': 'codel'} .* a table with kind = one of drop_tail"),
        ("links", [3], "links.0: 3 .* a table with rate_mbps, name and optional burst_bytes, "),
        ("flows", ["cubic"], "flows.0: 'cubic' .* a table with controller and optional name, "),
        ("flows.0.reroutes", [4], "flows.0.reroutes.0: 4 .* a table with at_s, path and optional return_path$"),
        ("sim", 3, "sim: 3 .* a table with optional kernel, "),
    ],
)
def test_what_should_be_a_table_is_answered_with_its_fields(dumbbell, key, value, says):
    with pytest.raises(OrbitccError, match=f"^{says}"):
        dumbbell.override(key, value)


def test_fields_of_a_file_are_set_though_other_scenarios_have_parameters_of_these_names(tmp_path):
    saved = scenarios.get("dumbbell").save(tmp_path / "mine.toml")
    changed = scenarios.load(saved, {"duration_s": "23", "seed": "4"})
    assert (changed.duration_s, changed.seed) == (23.0, 4)


def test_a_parameter_of_other_scenarios_is_answered_with_their_names():
    expected = r"^flows: leo-responsiveness has no such parameter; these scenarios do: dumbbell, "
    with pytest.raises(OrbitccError, match=expected):
        scenarios.load("leo-responsiveness", {"flows": "3"})


@pytest.mark.parametrize("position", ["²", "9" * 5000, "٣"])
def test_odd_digits_are_no_position(position):
    with pytest.raises(OrbitccError, match="unknown name"):
        scenarios.get("dumbbell").override(f"links.{position}.rate_mbps", 3)


@pytest.mark.parametrize("path", [None, ("fast",)])
def test_links_that_no_data_pass_do_not_delay_packets_at_their_hosts(path) -> None:
    fast = Link(name="fast", rate_mbps=100, delay_ms=20)
    slow = [Link(name=name, rate_mbps=0.2, delay_ms=20) for name in ("unused", "up")]
    alone = Scenario(name="s", duration_s=5, links=(fast,), flows=(Flow(controller="bbr", path=path),))
    beside = alone.changed(links=(fast, *slow), flows=(Flow(controller="bbr", path=("fast",), return_path=("up",)),))
    assert network(beside)["noise"]["send_jitter"] == network(alone)["noise"]["send_jitter"]
    passed = beside.changed(flows=(Flow(controller="bbr", path=("fast", "unused")),))
    assert network(passed)["noise"]["send_jitter"] == 1514 * 8 * 5_000  # at 0.2 Mbit/s
