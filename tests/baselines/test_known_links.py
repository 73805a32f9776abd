"""Classical controllers on links whose outcome is known."""

import numpy as np
import pytest

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow


def dumbbell(*flows, seed=1):
    return simulate(scenarios.get("dumbbell").with_flows([Flow.parse(flow) for flow in flows]), seed=seed)


def test_one_cubic_flow_fills_the_dumbbell():
    # ns-3's Cubic on the same link: 95.9 Mbit/s, 86.8 ms.
    total = dumbbell("cubic").flow_totals[0]
    assert 95 <= total["goodput_mbps"] <= 96.5
    assert 80 <= total["srtt_ms"] <= 92
    assert total["rtos"] == 0


def test_slow_start_without_hystart_overshoots():
    with_it, without = (dumbbell(flow).flow_totals[0]["retransmitted_packets"] for flow in ("cubic", "cubic-nohystart"))
    assert without > 5 * with_it


def test_two_cubic_flows_become_fair():
    jain = []
    for seed in range(1, 21):
        last = dumbbell("cubic", "cubic@20s", seed=seed).flows["goodput_mbps"][-30:].mean(axis=0)
        jain.append(last.sum() ** 2 / (2 * (last**2).sum()))
    assert np.median(jain) >= 0.85


def test_reno_follows_its_sawtooth():
    # Between half and all of the pipe and buffer: 2 BDP in flight at the top, 1 BDP after a loss, so no idle link.
    recording = dumbbell("reno")
    late = recording.t_s > 10
    window = recording.flows["cwnd_packets"][late, 0]
    most = (625_000 + 625_000) / 1514
    assert window.max() == pytest.approx(most, rel=0.03)
    assert window.min() == pytest.approx(most / 2, rel=0.06)
    assert recording.links["delivered_mbps"][late, 0].min() > 99


@pytest.mark.parametrize(("rate", "share", "backlog"), [(160, 0.10, 18e6), (200, 0.28, 36e6)])
def test_the_viasat_queue_under_a_constant_rate(rate, share, backlog):
    # 160 Mbit/s into 144: above 18 MB a quarter is dropped, 120 < 144, so the backlog stays at the threshold and the
    # loss is the excess. 200: even above it 150 > 144 get in, so the queue is full in the end.
    scenario = scenarios.get("geo-ideal", duration_s=60)
    scenario = scenario.with_flows([Flow.parse(f"udp:rate_mbps={rate}")])
    recording = simulate(scenario, seed=1)
    end = slice(-20, None)
    arrivals = rate * 1e6 / 8 / 1514
    assert recording.links["dropped_packets"][end, 0].mean() / arrivals == pytest.approx(share, rel=0.02)
    assert recording.links["queue_bytes"][end, 0].mean() == pytest.approx(backlog, rel=0.01)
    if rate == 160:
        filled = recording.t_s[recording.links["queue_bytes_max"][:, 0] >= 18e6][0]
        assert filled == pytest.approx(9.0, abs=1.0)
