"""The scenarios over satellite paths."""

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.presets import STATS
from orbitcc.envs.environments.vector import VectorCongestionEnv
from orbitcc.envs.orbits import formats, leoem
from orbitcc.envs.orbits.routing import PathSpec, find_path
from orbitcc.envs.orbits.trace import Capacity, PathTrace, Slot


def goodput(scenario):
    return simulate(scenario).flow_totals[0]["goodput_mbps"]


# -- leo-path -------------------------------------------------------------------------------------------------------


def test_leo_path_is_the_path_between_its_places():
    given = {"source": "Seattle", "target": "40.7,-74.0", "mode": "bp", "selection": "sticky", "duration_s": 60}
    scenario = scenarios.get("leo-path", run=3, start_s=100, **given)
    given.pop("duration_s")
    trace = find_path(PathSpec(**given, start_s=100), 60, seed=3)
    for t in (0.0, 7.3, 31.9, 59.0):
        assert scenario.base_rtt_ms(t_s=t) == pytest.approx(float(trace.base_rtt_ms(t)), abs=1e-6)
    median = trace.statistics().rtt_ms[2]
    assert scenario.links[0].queue.limit_bytes == pytest.approx(100 * median * 125, abs=1)


def test_handovers_at_the_ends_interrupt_a_leo_path():
    scenario = scenarios.get("leo-path", mode="bp", selection="random", run=2)
    link = scenario.links[0]
    slots = find_path(PathSpec(source="San Diego", target="New York", mode="bp", selection="random"), 300, seed=2).slots
    assert [o.at_s for o in link.outages] == [s.start_s for s in slots if s.access_change]
    assert len(link.outages) > 5
    assert all(45 <= o.duration_ms <= 120 for o in link.outages)
    assert {(o.mode, o.flush, o.directions) for o in link.outages} == {("drop", "queue", "both")}
    assert [h.at_s for h in link.handovers] == [s.start_s for s in slots if s.change]
    held = scenarios.get("leo-path", mode="bp", selection="random", run=2, interruption="hold").links[0]
    assert {(o.mode, o.flush) for o in held.outages} == {("hold", "none")}
    assert scenarios.get("leo-path", run=2, interruption="none").links[0].outages == ()


def test_recordings_and_statistics_know_the_handovers_of_a_path():
    scenario = scenarios.get("leoem", path="sd-ny-isl", duration_s=70, controller="external")
    times = [h.at_s for h in scenario.links[2].handovers]
    assert times == [48, 64]
    got = simulate(scenario.with_controller("cubic"), record_interval_s=1.0)
    counted = got.flows["handovers"][:, 0]
    assert {float(t): int(n) for t, n in zip(got.t_s, counted, strict=True) if n} == dict.fromkeys(times, 1)
    env = VectorCongestionEnv(1, scenario)
    env.reset(seed=1)
    step_s = 0.03
    for k in range(1, int(66 / step_s)):
        env.step(np.zeros((1, 1), dtype=np.float32))
        ahead, since = (env.statistics()[0, STATS[f"handover_{what}_s"]] for what in ("in", "since"))
        now = round((k + 1) * step_s, 9)  # an interval has passed when an environment starts
        assert ahead == pytest.approx(min((t - now for t in times if t > now), default=np.inf))
        assert since == pytest.approx(min((now - t for t in times if t <= now), default=np.inf), abs=1e-9)


def test_runs_of_a_leo_path_differ_and_repeat():
    made = [scenarios.get("leo-path", run=run, duration_s=30).compile() for run in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


def test_a_leo_path_survives_its_file(tmp_path):
    scenario = scenarios.get("leo-path", mode="bp", selection="random", duration_s=30, controller="bbr")
    again = Scenario.load(scenario.save(tmp_path / "path.toml"))
    assert again == scenario
    assert again.compile() == scenario.compile()


def test_flows_share_a_leo_path():
    scenario = scenarios.get("leo-path", shell={"planes": 34, "satellites_per_plane": 34, "inclination_deg": 51.9,
                             "altitude_km": 630}, flows=2, gap_s=5, duration_s=20)  # fmt: skip
    totals = simulate(scenario).flow_totals
    assert [flow.start_s for flow in scenario.flows] == [0, 5]
    assert min(total["goodput_mbps"] for total in totals) > 1
    assert 60 < totals[0]["goodput_mbps"] + totals[1]["goodput_mbps"] * 15 / 20 < 96


def test_wrong_settings_of_a_leo_path_are_named():
    for given, says in (
        ({"source": "Atlantis"}, "source: unknown place 'Atlantis'"),
        ({"target": "Oulu"}, r"target: 'Oulu' .* a route from San Diego \(shell starlink1, mode isl\)"),
        ({"shell": "iridium"}, "shell: unknown name 'iridium'"),
        ({"run": -1}, "run: -1"),
        ({"interruption": "lose"}, "interruption: 'lose'"),
    ):
        with pytest.raises(OrbitccError, match=says):
            scenarios.get("leo-path", duration_s=30, **given)


# -- leoem ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", leoem.names())
def test_leoem_plays_the_logs_delays_with_the_papers_rates_and_buffers(name):
    path = leoem.get(name)
    scenario = scenarios.get("leoem", path=name)
    assert scenario.link_names == ("uplink-0", "first-hop", "path", "last-hop")
    assert [link.rate_mbps for link in scenario.links] == [100, 150, 100, 150]
    assert {link.queue.limit_bytes for link in scenario.links} == {1500 * path.buffer_packets}
    for second in range(0, 300, 7):
        expected = float(path.trace.base_rtt_ms(second))
        assert scenario.base_rtt_ms(t_s=second) == pytest.approx(expected)
        assert scenario.base_rtt_ms(t_s=second + 0.9) == pytest.approx(expected)
    most = 22 * 1500 * path.buffer_packets
    assert scenario.sim.rmem_bytes == scenario.sim.wmem_bytes == (10_240, 87_380, most)


def test_leoem_takes_the_hop_down_whose_satellite_changes():
    first, path, last = scenarios.get("leoem", path="sd-ny-isl", run=4).links[1:]
    assert [o.at_s for o in first.outages] == [48, 144, 224]
    assert [o.at_s for o in last.outages] == [48, 64, 144, 160, 240]
    assert all(45 <= o.duration_ms <= 120 for o in (*first.outages, *last.outages))
    assert {(o.mode, o.flush) for o in (*first.outages, *last.outages)} == {("drop", "none")}
    # Between them a torn link loses what was on it; the queue of the first one when the first hop changes.
    assert [(o.at_s, o.flush) for o in path.outages] == [
        (48, "queue"), (64, "none"), (144, "queue"), (160, "none"), (224, "queue"), (240, "none")
    ]  # fmt: skip
    assert all(0.5 < o.duration_ms < 10 for o in path.outages)
    assert [h.at_s for h in path.handovers] == [48, 64, 144, 160, 224, 240]
    assert [h.duration_ms for h in path.handovers[:2]] == [
        max(first.outages[0].duration_ms, last.outages[0].duration_ms), last.outages[1].duration_ms
    ]  # fmt: skip
    assert first.outages[0].duration_ms != last.outages[0].duration_ms  # each end has its own
    assert first.handovers == last.handovers == ()


def test_leoems_interruptions_may_be_the_original_ones():
    _, first, _, last = scenarios.get("leoem", path="sd-ny-isl", interruption="original", duration_s=400).links
    assert [o.duration_ms for o in first.outages] == pytest.approx([8.4, 9.0, 8.6, 8.4])
    assert [o.duration_ms for o in last.outages] == pytest.approx([7.5, 5.1, 7.6, 4.7, 5.4, 7.5, 5.1])
    assert scenarios.get("leoem", path="sd-ny-isl", interruption="none").links[1].outages == ()
    runs = [scenarios.get("leoem", path="sd-ny-isl", run=run).links[1].outages for run in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_two_flows_of_leoem_have_an_uplink_each_and_start_in_turn():
    scenario = scenarios.get("leoem", path="sd-sha-isl", flows=2)
    assert scenario.link_names == ("uplink-0", "uplink-1", "first-hop", "path", "last-hop")
    assert [scenario.path_of(k) for k in (0, 1)] == [(0, 2, 3, 4), (1, 2, 3, 4)]
    assert [flow.start_s for flow in scenario.flows] == [0, 100]


def test_leoem_lasts_longer_by_repetition():
    scenario = scenarios.get("leoem", path="sd-ny-bp", duration_s=400)
    assert scenario.base_rtt_ms(t_s=350) == pytest.approx(scenario.base_rtt_ms(t_s=50))
    assert scenario.links[-1].outages[-1].at_s == 364


def test_a_queue_forms_where_leoem_has_it():
    one = simulate(scenarios.get("leoem", path="sd-sha-isl", interruption="none", duration_s=40))
    assert np.argmax([total["queue_bytes_mean"] for total in one.link_totals]) == 0  # the host's own link
    two = simulate(scenarios.get("leoem", path="sd-sha-isl", interruption="none", duration_s=40, flows=2, gap_s=1))
    queues = dict(zip(two.link_names, (total["queue_bytes_mean"] for total in two.link_totals), strict=True))
    assert max(queues, key=queues.get) == "path"


@pytest.mark.slow
def test_the_bent_pipes_of_leoem_are_the_hard_ones_for_cubic():
    cubic = {path: goodput(scenarios.get("leoem", path=path)) for path in ("sd-ny-bp", "sd-sha-isl")}
    assert cubic["sd-ny-bp"] < 85 < cubic["sd-sha-isl"]
    assert goodput(scenarios.get("leoem", path="sd-ny-bp", controller="satcp")) > cubic["sd-ny-bp"] + 3


def test_an_unknown_path_of_leoem_is_named():
    with pytest.raises(OrbitccError, match="path: unknown name 'sd-nyc'"):
        scenarios.get("leoem", path="sd-nyc")


# -- path-trace -----------------------------------------------------------------------------------------------------


def test_a_file_is_a_scenario(tmp_path):
    slots = (Slot(0.0), Slot(5.0, access_fwd_change=True, interruption_ms=200.0))
    trace = PathTrace("mine", [0, 10], [20, 30], [20, 30], slots)
    scenario = scenarios.get("path-trace", file=str(formats.save(trace, tmp_path / "a.csv")), controller="reno")
    assert (scenario.description, scenario.duration_s, scenario.capacity_mbps()) == ("mine", 10, 100)
    assert scenario.base_rtt_ms(t_s=5) == 50
    assert [(o.at_s, o.duration_ms) for o in scenario.links[0].outages] == [(5, 200)]
    assert scenario.links[0].queue.limit_bytes == pytest.approx(100 * 49 * 125, rel=0.02)
    longer = scenarios.get("path-trace", file=str(tmp_path / "a.csv"), duration_s=25)
    assert [o.at_s for o in longer.links[0].outages] == [5, 15]
    assert 60 < goodput(scenario) < 96


def test_a_files_own_rates_are_played(tmp_path):
    trace = PathTrace("mine", [0, 20], [10, 10], [10, 10], capacity=Capacity([0, 10], [40, 20], [4, 4]))
    file = str(formats.save(trace, tmp_path / "a.csv"))
    scenario = scenarios.get("path-trace", file=file)
    assert (scenario.mean_capacity_mbps(), scenario.links[0].reverse.rate_mbps) == (30, ((0, 4), (10, 4)))
    assert 26 < goodput(scenario) < 30
    assert scenarios.get("path-trace", file=file, rate_mbps=10).capacity_mbps() == 10


def test_leoreplayers_files_are_a_scenario(tmp_path):
    (tmp_path / "delay.txt").write_text("15\n" * 500)
    # 24 Mbit/s with a hole of 80 ms in every second
    stamps = [s for s in range(5000) for _ in range(2) if not 500 <= s % 1000 < 580]
    (tmp_path / "bw.txt").write_text("".join(f"{s}\n" for s in stamps))
    scenario = scenarios.get(
        "path-trace", file=str(tmp_path / "delay.txt"), bandwidth_file=str(tmp_path / "bw.txt"), buffer_bdp=5
    )
    assert scenario.base_rtt_ms() == 30
    assert 19 < goodput(scenario) < 24 * 0.92


def test_a_file_must_be_given_and_lead_somewhere(tmp_path):
    with pytest.raises(OrbitccError, match="file: '' .* the name of a file"):
        scenarios.get("path-trace")
    nowhere = PathTrace("nowhere", [0, 10], [5, 5], [5, 5], (Slot(0.0, outage=True),))
    with pytest.raises(OrbitccError, match="file: .*a.csv' .* a route at some time"):
        scenarios.get("path-trace", file=str(formats.save(nowhere, tmp_path / "a.csv")))


def test_leoems_transient_lowers_the_delay_for_a_while_after_each_change():
    plain, mixed = (scenarios.get("leoem", path="sd-ny-isl", transient_ms=ms) for ms in (0, 120))
    # appendix of the traces: the RTT is 54.7 ms until 48 s, then 140.0, and 49.6 from 64 s on
    for t, rtt_ms, share in ((47.9, 54.7, 1), (48.0, 140.0, 0.72), (48.1, 140.0, 0.72), (48.13, 140.0, 1),
                             (63.9, 140.0, 1), (64.06, 49.6, 0.72), (64.2, 49.6, 1)):  # fmt: skip
        assert plain.base_rtt_ms(0, t) == pytest.approx(rtt_ms, abs=0.3)
        assert mixed.base_rtt_ms(0, t) == pytest.approx(share * plain.base_rtt_ms(0, t), rel=1e-6)
    half = scenarios.get("leoem", path="sd-ny-isl", transient_ms=120, transient_share=0.5)
    assert half.base_rtt_ms(0, 64.06) == pytest.approx(49.6 / 2, abs=0.3)
