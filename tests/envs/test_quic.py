"""Flows of QUIC in scenarios, environments and suites. The hosts themselves are tested in sim/quic."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import orbitcc
from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.flows import Flow, Quic
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.batch import Batch
from orbitcc.envs.environments.presets import preset
from orbitcc.envs.environments.source import EpisodeSource
from orbitcc.eval import contenders, suites
from orbitcc.eval.extrapolation import warnings
from orbitcc.eval.runner import run_suite

RATIOS = preset("ratios")


def of_dumbbell(*flows: str, duration_s: float = 4.0) -> Scenario:
    return scenarios.get("dumbbell", duration_s=duration_s).with_flows([Flow.parse(flow) for flow in flows])


def test_a_flow_says_its_transport_in_files_texts_and_by_its_controller() -> None:
    assert Flow.parse("cubic:transport=quic").transport == Quic()
    assert Flow.parse("quinn-cubic").transport == Quic(), "controllers of quinn have no other"
    assert Flow(controller="cubic", transport="tcp").transport is None  # type: ignore[arg-type]
    scenario = of_dumbbell("cubic", "quinn-cubic").override("flows.1.transport", "{kind = 'quic', mtu_bytes = 1300}")
    again = Scenario.from_toml(scenario.to_toml())
    assert [flow.transport for flow in again.flows] == [None, Quic(mtu_bytes=1300)]
    compiled = again.network()["flows"]
    assert "quic" not in compiled[0]
    assert compiled[1]["quic"]["mtu"] == 1300


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"controller": "udp", "traffic": {"kind": "cbr", "rate_mbps": 1}, "transport": "quic"}, "transport"),
        ({"controller": "quinn-bbr", "transport": "tcp"}, "transport: 'tcp' is not allowed; allowed: quic"),
        (
            {"controller": "quinn-cubic", "transport": {"kind": "quic", "mtu_bytes": 9_000}},
            "transport.initial_window_bytes: None is not allowed; allowed: a number with packets of 9,000 bytes",
        ),
        (
            {"controller": "cubic", "transport": {"kind": "quic", "initial_window_bytes": 50_000}},
            "transport.initial_window_bytes: 50000 is not allowed; allowed: None for cubic",
        ),
        ({"controller": "cubic", "transport": "quick"}, "transport.kind: unknown name 'quick'"),
        ({"controller": "cubic", "transport": {"kind": "quic", "mtu_bytes": 500}}, "transport.mtu_bytes: 500"),
        ({"controller": "cubic", "transport": "quic", "receiver": {"kind": "divide", "parts": 2}}, "receiver"),
    ],
)
def test_what_does_not_fit_is_one_line(changes: dict[str, object], says: str) -> None:
    with pytest.raises(OrbitccError) as raised:
        Flow.build(changes)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("name", "first"), [("quinn-newreno", 12_000), ("quinn-cubic", 12_000), ("quinn-bbr", 240_000)]
)
def test_controllers_of_quinn_begin_with_their_own_windows_or_the_given_one(name: str, first: int) -> None:
    """Its BBR begins with 200 packets of 1,200 bytes, the others with 10."""
    for given, window in ((None, first), (50_000, 50_000)):
        world = of_dumbbell(name, duration_s=0.05)
        flow = world.flows[0].changed(transport=Quic(initial_window_bytes=given))
        seen = simulate(world.with_flows([flow]), record_interval_s=0.01).flows["cwnd_packets"][:, 0]
        assert seen[~np.isnan(seen)][0] == math.ceil(window / 1_452)


def test_a_run_beside_tcp_tells_what_quic_tells_and_leaves_out_the_rest(tmp_path: Path) -> None:
    recording = simulate(of_dumbbell("cubic", "quinn-cubic", duration_s=10.0), record_interval_s=0.1)
    tcp, quic = recording.flow_totals
    assert min(tcp["goodput_mbps"], quic["goodput_mbps"]) > 20
    assert tcp["goodput_mbps"] + quic["goodput_mbps"] < 100 * 1448 / 1480, "together no more than the link"
    lost = tcp["lost_packets"] + quic["lost_packets"]
    assert recording.link_totals[0]["dropped_packets"] == pytest.approx(lost, abs=50)
    assert tcp["retransmitted_packets"] >= 0
    assert math.isnan(quic["retransmitted_packets"])
    assert np.isnan(recording.flows["retransmitted_packets"][:, 1]).all()
    assert 50 <= np.nanmin(recording.flows["rtt_ms"][:, 1]) < 60
    assert np.nanmin(recording.flows["srtt_ms"][:, 1]) >= 50, "a handshake without a sample is no RTT of 0"
    (tmp_path / "run.npz").write_bytes(recording.to_bytes())
    again = Recording.load(tmp_path / "run.npz")
    assert math.isnan(again.flow_totals[1]["retransmitted_packets"])


def test_the_same_for_any_number_of_threads_and_for_agents_that_join_late() -> None:
    specs = [of_dumbbell(f"contender@{k}s", "cubic").with_seed(k).over("quic").compile() for k in range(4)]

    def played(threads: int) -> np.ndarray:
        batch = Batch(specs, max_agents=1, preset=RATIOS, threads=threads)
        for index, spec in enumerate(specs):
            batch.reset(index, spec)
        batch.observe()
        seen = [batch.now_s().copy()]
        for step in range(60):
            batch.step(np.full((4, 1, 1), np.sin(step), np.float32))
            seen.append(batch.obs.copy().ravel())
        return np.concatenate(seen)

    first = played(1)
    assert [0 < t - k < 0.12 for k, t in enumerate(first[:4])] == [True] * 4, "soon after the agent began"
    assert np.array_equal(first, played(4))


def test_every_view_takes_the_transport() -> None:
    pytest.importorskip("ray.rllib")
    from orbitcc.envs.environments.rllib import RLlibCongestionEnv

    single = orbitcc.CongestionEnv("dumbbell", transport="quic", preset="ratios", duration_s=2.0)
    single.reset(seed=1)
    info = {}
    for _ in range(40):
        *_, info = single.step(np.array([0.3], np.float32))
    assert info["step_goodput_mbps"] > 1
    with pytest.raises(OrbitccError, match="cannot be copied"):
        single.save()
    parallel = orbitcc.parallel_env("dumbbell", transport="quic", preset="ratios", flows=2)
    observations, _ = parallel.reset(seed=1)
    assert len(observations) >= 1
    agents = RLlibCongestionEnv({"scenario": "dumbbell", "transport": "quic", "preset": "ratios", "duration_s": 2.0})
    observed, _ = agents.reset(seed=1)
    for _ in range(20):
        actions = {name: agents.get_action_space(name).sample() for name in observed}
        observed, rewards, *_ = agents.step(actions)
    assert all(math.isfinite(reward) for reward in rewards.values())
    assert agents.observation_spaces[next(iter(observed))].contains(next(iter(observed.values())))
    drawn = scenarios.load("train-leo", {"transport": "quic"})
    flows = EpisodeSource(drawn).draw(np.random.default_rng(1)).flows
    assert {flow.transport is not None for flow in flows if flow.controller.name == "external"} == {True}
    with pytest.raises(OrbitccError, match="needs the statistic packets_out, which QUIC lacks"):
        orbitcc.CongestionEnv("dumbbell", transport="quic", preset="astraea").reset(seed=1)


def test_a_suite_gives_the_transport_to_the_contender_alone() -> None:
    suite = suites.get("cubic-friendliness", {"transport": "quic"})
    case = suite.cases("quick", 1)[0]
    entered = suite.entered(case, contenders.from_controller("reno"))
    assert {flow.controller.name: flow.transport for flow in entered.flows} == {"reno": Quic(), "cubic": None}
    plain = suites.get("cubic-friendliness").entered(case, contenders.from_controller("reno"))
    assert {flow.transport for flow in plain.flows} == {None}


def test_what_no_host_of_quic_can_do_is_refused_by_name() -> None:
    with pytest.raises(OrbitccError, match="asks for news of the path"):
        simulate(of_dumbbell("leocc:transport=quic"))
    assert of_dumbbell("quinn-cubic").unsupported("emulator") == ("flows.0.transport", "flows.0.controller")


def test_both_sides_log_in_qlog_and_pcap_is_refused(tmp_path: Path) -> None:
    scenario = of_dumbbell("cubic", "quinn-cubic", duration_s=0.5)
    simulate(scenario, record_interval_s=0.1, qlog=tmp_path / "run.qlog")
    traces = json.loads((tmp_path / "run.qlog").read_text())["traces"]
    assert [trace["vantage_point"]["type"] for trace in traces] == ["client", "client", "server"]
    sent, received = ([event["name"] for event in trace["events"]] for trace in traces[1:])
    assert sent.count("transport:packet_sent") > received.count("transport:packet_received") > 100, (
        "some are on the way"
    )
    with pytest.raises(OrbitccError, match="a run without flows of QUIC"):
        simulate(scenario, record_interval_s=0.1, pcap=tmp_path / "run.pcap")


def test_a_run_and_an_evaluation_warn_of_a_connection_that_its_hosts_closed(tmp_path: Path) -> None:
    """After an overshoot into a deep buffer the receiver has more than 1,024 gaps, which quinn refuses."""
    quic = Quic(stream_window_bytes=100_000_000, send_window_bytes=100_000_000)
    deep = scenarios.get("dumbbell", base_rtt_ms=600.0, buffer_bdp=4.0, duration_s=30.0)
    closed, stopped = Flow(controller="quinn-cubic", transport=quic), Flow.parse("quinn-cubic:stop=5s")  # type: ignore[arg-type]
    recording = simulate(deep.with_flows([closed, stopped]))
    ((name, at_s),) = recording.closed_connections()
    assert name == "quinn-cubic-0"
    assert 5 < at_s < 30
    deep.with_flows([closed.changed(controller="contender")]).save(tmp_path / "deep.toml")
    suite, line_up = suites.get(str(tmp_path)), contenders.line_up(["quinn-cubic", "reno:kernel=v6"], [])
    results = run_suite(suite, line_up, out_dir=tmp_path / "out", runs=1, workers=1, quiet=True)
    assert warnings(results)[0] == "quinn-cubic: QUIC closed a connection in 1 of 1 runs, which sent nothing then"


def test_one_field_of_the_transport_of_all_flows_is_refused_with_what_to_write() -> None:
    with pytest.raises(
        OrbitccError, match=r"^transport\.mtu_bytes: 1300 is not allowed; allowed: the whole table, e\.g\. "
    ):
        scenarios.load("dumbbell", {"transport.mtu_bytes": 1300})
    table = scenarios.load("dumbbell", {"transport": "{kind='quic', mtu_bytes=1300}"})
    assert isinstance(table, Scenario)
    assert [flow.transport for flow in table.flows] == [Quic(mtu_bytes=1300)] * len(table.flows)
