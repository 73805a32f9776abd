"""The micro-benchmarks of the LEO paper as scenarios."""

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario

FAMILIES = (
    "inter-rtt", "intra-rtt", "efficiency", "hard-handover", "delay-jump", "cubic-friendliness", "double-dumbbell",
)  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_is_a_file_and_back(name):
    scenario = scenarios.get(name)
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert scenario.capacity_mbps() == 100


def test_inter_rtt_has_a_short_flow_and_a_buffer_of_the_other():
    scenario = scenarios.get("inter-rtt", base_rtt_ms=160, buffer_bdp=0.2)
    assert [scenario.base_rtt_ms(i) for i in range(2)] == [20, 160]
    assert [flow.start_s for flow in scenario.flows] == [0, 50]
    assert scenario.links[0].queue.limit_bytes == int(0.2 * 100 * 2**20 * 0.160 / 8)
    assert scenario.links[0].outages == ()
    assert scenarios.get("inter-rtt", bdp_unit="si").links[0].queue.limit_bytes == 1_250_000


def test_intra_rtt_is_interrupted_every_15_s():
    outages = scenarios.get("intra-rtt", run=3).links[0].outages
    assert [o.at_s for o in outages] == [15.0 * k for k in range(1, 14)]
    lengths = [o.duration_ms for run in range(1, 81) for o in scenarios.get("intra-rtt", run=run).links[0].outages]
    assert (min(lengths), max(lengths)) == (45, 120)
    assert np.mean(lengths) == pytest.approx(82.5, abs=2)


def test_efficiency_has_all_flows_from_100_to_150_s_and_the_papers_buffer():
    scenario = scenarios.get("efficiency", flows=5)
    assert [(f.start_s, f.stop_s) for f in scenario.flows] == [(0, 150), (25, 175), (50, 200), (75, 225), (100, None)]
    assert (scenario.duration_s, scenario.links[0].queue.limit_bytes) == (250, 3_276_800)
    alone = scenarios.get("efficiency", flows=1)
    assert (alone.duration_s, alone.flows[0].stop_s) == (150, None)


def test_a_hard_handover_takes_packets_and_leaves_the_queue():
    recording = simulate(scenarios.get("hard-handover", interruption_ms=200, duration_s=30), record_interval_s=0.01)
    hop, bottleneck = (totals["lost_packets"] for totals in recording.link_totals)
    assert hop > 0
    assert bottleneck == 0
    assert scenarios.get("hard-handover", interruption_ms=0).links[0].outages == ()
    with pytest.raises(OrbitccError, match="interruption_ms: 100.0"):
        scenarios.get("hard-handover", every_s=0.1)


def test_delay_jumps_at_20_s():
    scenario = scenarios.get("delay-jump", base_rtt_ms=20, factor=3)
    assert [scenario.base_rtt_ms(t_s=t) for t in (0, 19.9, 20)] == [20, 20, 60]
    assert scenario.links[0].path_changes()[0].at_s == 20
    assert scenario.links[1].queue.limit_bytes == 262_144


def test_cubic_friendliness_changes_who_comes_first_and_how_many():
    def starts(**params):
        return {f.name: f.start_s for f in scenarios.get("cubic-friendliness", controller="bbr3", **params).flows}

    assert starts() == {"controller": 50, "cubic-0": 0}
    assert starts(first="controller") == {"controller": 0, "cubic-0": 50}
    many = starts(flows=21, base_rtt_ms=30)
    assert (many.pop("controller"), len(many)) == (0, 20)
    assert 1 <= min(many.values()) < max(many.values()) <= 50
    assert starts(flows=21) == starts(flows=21, first="controller") != starts(flows=21, run=2)


def test_the_double_dumbbell_crosses_over_and_returns():
    scenario = scenarios.get("double-dumbbell", base_rtt_ms=20)
    assert scenario.duration_s == 120
    assert [scenario.path_of(2, t) for t in (0, 39, 40, 79, 80)] == [(1,), (1,), (0,), (0,), (1,)]
    assert scenario.path_of(0, 50) == (0,)
    assert [link.queue.limit_bytes for link in scenario.links] == [655_360, 262_144]
    other = scenarios.get("double-dumbbell", base_rtt_ms=20, first_rtt_ms=50)
    assert [other.base_rtt_ms(i) for i in range(4)] == [50, 50, 20, 20]
    assert [r.at_s for r in other.flows[3].reroutes] == [100, 200]
    with pytest.raises(OrbitccError, match="return_s: 5.0 .*later than cross_s"):
        scenarios.get("double-dumbbell", return_s=5)


def test_flows_that_cross_over_share_the_first_bottleneck():
    recording = simulate(scenarios.get("double-dumbbell", base_rtt_ms=20), record_interval_s=1.0)
    goodput = recording.flows["goodput_mbps"]
    second = recording.links["delivered_mbps"][:, 1]
    t = recording.t_s
    assert goodput[(t > 20) & (t <= 40)].sum(axis=1).mean() > 185
    assert 90 < goodput[(t > 45) & (t <= 80)].sum(axis=1).mean() < 97
    assert second[(t > 45) & (t <= 80)].max() == 0
    assert goodput[(t > 100)].sum(axis=1).mean() > 185


@pytest.mark.parametrize("name", ["inter-rtt", "intra-rtt", "parking-lot", "efficiency", "leo-responsiveness"])
def test_the_bottleneck_may_have_the_papers_token_bucket(name):
    def bursts(**params):
        return {link.burst_bytes for link in scenarios.get(name, **params).links if link.rate_mbps is not None}

    assert bursts() == {0}
    assert bursts(shaper="tbf") == {15_000}
    assert bursts(shaper="tbf-later") == {393_216 if name == "leo-responsiveness" else 524_288}
