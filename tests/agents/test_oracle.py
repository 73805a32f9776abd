"""The oracle: its window and pace by hand, and what it reaches on links whose optimum is known."""

import numpy as np
import pytest

from orbitcc.agents import oracle
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.scenario import Flow, Scenario
from orbitcc.envs.environments.presets import STATS
from orbitcc.envs.scenarios import get
from orbitcc.eval import contenders

PAYLOAD = 1448 / 1514
NAME = "policy:path=orbitcc.agents.oracle:Oracle"


def run(scenario: Scenario, *flows: str) -> Recording:
    return simulate(scenario.with_flows([Flow.parse(text) for text in flows]))


@pytest.mark.parametrize(
    ("fair_bps", "loss", "window", "pacing_bps"),
    [
        (50e6, 0.0, 214, 50e6 * PAYLOAD),  # 50 Mbit/s x 51 ms / 12,112 bit = 210.5; 211 + 3
        (50e6, 0.1, 237, 50e6 / 0.9 * PAYLOAD),  # 233.9; 234 + 3
        (50e6, 1.0, 425, 100e6 * PAYLOAD),  # at most twice as much: 421.07; 422 + 3
        (0.0, 0.0, 3, 8 * 1448),  # a packet per second: a pace of 0 would be none
        (np.inf, 0.0, 1 << 20, 1e12 * PAYLOAD),
    ],
)
def test_the_window_is_share_times_rtt_and_three_packets(fair_bps, loss, window, pacing_bps) -> None:
    stats = np.zeros((1, len(STATS)))
    told = {"fair_share_bps": fair_bps, "link_loss": loss, "base_rtt_s": 0.05, "ack_gap_s": 0.001, "mss_bytes": 1448}
    for name, value in told.items():
        stats[0, STATS[name]] = value
    cwnd, pacing = oracle.control(np.zeros((1, 1), np.float32), stats, None)
    assert cwnd[0] == window
    assert pacing[0] == pytest.approx(pacing_bps, rel=1e-12)


@pytest.mark.parametrize(("rate_mbps", "base_rtt_ms"), [(100, 50), (20, 40), (500, 20)])
def test_it_fills_a_static_link_with_a_queue_of_a_packet_or_two(rate_mbps, base_rtt_ms) -> None:
    recorded = run(get("dumbbell", duration_s=10, rate_mbps=rate_mbps, base_rtt_ms=base_rtt_ms), NAME)
    later = recorded.t_s > 2
    goodput = recorded.flows["goodput_mbps"][later, 0]
    assert goodput == pytest.approx(rate_mbps * PAYLOAD, rel=2e-3)
    # Beyond the RTT of the empty path: a packet's transmission, and two that wait for the link or for their ACK.
    packet_ms = 1514 * 8 / (rate_mbps * 1e3)
    extra_ms = recorded.flows["srtt_ms"][later, 0] - base_rtt_ms
    assert (extra_ms >= packet_ms).all()
    assert (extra_ms <= 3.5 * packet_ms).all()
    assert recorded.flow_totals[0]["retransmitted_packets"] == 0


@pytest.mark.parametrize(("before", "after"), [(50.0, 100.0), (100.0, 50.0)])
def test_a_new_rate_is_reached_within_a_second(before, after) -> None:
    scenario = get("dumbbell", duration_s=10, base_rtt_ms=50).override("links.0.rate_mbps", [[0, before], [5, after]])
    recorded = run(scenario, NAME)
    t, goodput, srtt = recorded.t_s, recorded.flows["goodput_mbps"][:, 0], recorded.flows["srtt_ms"][:, 0]
    assert goodput[(t > 2) & (t <= 5)] == pytest.approx(before * PAYLOAD, rel=2e-3)
    # Of the first second after it, an interval of 5 ms and an RTT of 50 ms still have the old rate.
    first = t[t > 5][0]
    assert goodput[t == first][0] >= (1 - 0.06) * after * PAYLOAD
    assert goodput[t > first + 0.1] == pytest.approx(after * PAYLOAD, rel=2e-3)
    assert srtt[t > first + 0.1] == pytest.approx(50, abs=5 * 1514 * 8 / (after * 1e3))


def test_two_share_equally() -> None:
    recorded = run(get("dumbbell", duration_s=20, rate_mbps=100, base_rtt_ms=50), NAME, f"{NAME}@5s")
    later = recorded.t_s > 7
    assert recorded.flows["goodput_mbps"][later] == pytest.approx(50 * PAYLOAD, rel=0.01)
    assert (recorded.flows["srtt_ms"][later] < 50 + 7 * 0.12112).all(), "each has three packets to spare"


def test_a_contender_of_this_name_is_another_one_when_its_source_changes() -> None:
    found = contenders.oracle()
    assert found.label == contenders.ORACLE == "oracle"
    assert found.key == f"oracle#{found.digest}"
    assert len(found.digest) == 12
