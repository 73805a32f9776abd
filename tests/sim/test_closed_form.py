"""Runs whose outcome can be worked out on paper.

Noise is off; packets are 1500 bytes on the wire, 1448 of them payload. The constant-rate checks of the Viasat queue,
the fairness of two flows and the fill of `dumbbell` are in tests/baselines.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.sim.networks import MS, Run, S, bernoulli, datagrams, direction, drop_tail, flow, link, network, run

PACKET_BITS = 12_000


def path(rate: int, rtt: int, **forward: Any) -> dict[str, Any]:
    """One link of `rate` bit/s, half of `rtt` (ns) in each direction."""
    return link(direction(rate, rtt // 2, **forward), direction(None, rtt // 2))


def reductions(result: Run) -> np.ndarray:
    """Rows in which the threshold was first seen changed."""
    ssthresh = np.nan_to_num(result.flow("ssthresh_packets"), posinf=1e9)
    return np.flatnonzero(np.diff(ssthresh)) + 1


def test_a_constant_rate_through_a_slower_link_loses_the_excess():
    # 120 Mbit/s into 100: of six arrivals, 100 us apart, five are served, 120 us each.
    slow = path(100_000_000, 50 * MS, queue=drop_tail(625_000))
    result = run(network(12.1, [slow], [datagrams(120_000_000)]))
    full = (result.t_s > 2) & (result.t_s <= 12)
    dropped, sent = (int(x[full].sum()) for x in (result.link("dropped_packets"), result.flow("sent_packets")))
    assert sent == 100_000
    assert abs(6 * dropped - sent) <= 6
    assert result.link("lost_packets").sum() == 0
    np.testing.assert_allclose(result.link("delivered_mbps")[full], 100, rtol=2e-3)
    # The queue holds 416 packets. It is one short from each departure to the next arrival: 80, 60, 40, 20 and 0 or
    # 100 us (which of two events at one time comes first) of every 600.
    missing = 416 - result.link("queue_bytes")[full].mean() / 1500
    assert missing == pytest.approx(200 / 600, abs=1e-5) or missing == pytest.approx(300 / 600, abs=1e-5)
    assert result.link("queue_bytes_max").max() == 416 * 1500


def test_the_last_of_a_queue_waits_for_all_of_it():
    # 416 packets of 120 us and 25 ms of propagation after the sender stops at 5 s.
    slow = path(100_000_000, 50 * MS, queue=drop_tail(625_000))
    result = run(network(5.5, [slow], [datagrams(120_000_000, stop=5 * S)]), interval=MS // 5)
    last = result.t_s[result.link("delivered_mbps") > 0][-1]
    assert last == pytest.approx(5 + 416 * 120e-6 + 0.025, abs=3e-4)


@pytest.mark.parametrize("sender", [flow("reno"), flow("cubic", hystart="off")], ids=["reno", "cubic"])
def test_slow_start_doubles_every_round_trip(sender):
    result = run(network(0.9, [path(10_000_000_000, 100 * MS)], [sender]), interval=50 * MS)
    between_rounds = result.flow("cwnd_packets")[::2]  # 50, 150, 250 ms ...
    np.testing.assert_array_equal(between_rounds, 10 * 2 ** np.arange(9))


def test_reno_follows_its_sawtooth():
    # The window W climbs by one per round trip, which lasts W packet times while the link is full, from half of what
    # pipe and buffer hold (Wm, here 2 BDP) to all of it. Period: the sum of W packet times = 3/8 Wm^2; mean: 7/9 Wm.
    rate, rtt = 40_000_000, 50 * MS
    pipe = rate * rtt // S // 8
    most = 2 * pipe / 1500
    result = run(network(150, [path(rate, rtt, queue=drop_tail(pipe))], [flow("reno")]))
    losses = [row for row in reductions(result) if result.t_s[row] > 20]
    periods = np.diff(result.t_s[losses])
    assert len(periods) >= 8
    assert periods.mean() == pytest.approx(3 / 8 * most**2 * PACKET_BITS / rate, rel=0.03)
    assert np.ptp(periods) <= 0.2
    whole = slice(losses[0], losses[-1])
    assert result.flow("cwnd_packets")[whole].mean() == pytest.approx(7 / 9 * most, rel=0.03)
    assert result.link("delivered_mbps")[whole].min() > 0.98 * rate / 1e6


def test_cubic_follows_its_curve_between_losses():
    # W(t) = C (t - K)^3 + Wmax with C = 0.4 and K the root of W(0) = 717/1024 Wmax, on a pipe so large that the
    # Reno-friendly window, switched off here, would not matter.
    controller = flow("cubic", friendliness="off", fast_convergence="off")
    big = path(200_000_000, 100 * MS, queue=drop_tail(1_250_000))
    result = run(network(80, [big], [controller]), interval=10 * MS)
    window, ssthresh = result.flow("cwnd_packets"), result.flow("ssthresh_packets")
    losses = reductions(result)
    checked = 0
    for lost, next_lost in pairwise(losses):
        if result.t_s[next_lost] - result.t_s[lost] < 5:
            continue
        # The curve begins with the first growth after the recovery.
        start = lost + np.flatnonzero(window[lost:next_lost] == ssthresh[lost])[-1]
        w_max = ssthresh[lost] * 1024 / 717
        k = np.cbrt((w_max - ssthresh[lost]) / 0.4)
        t = result.t_s[start : next_lost - 1] - result.t_s[start]
        np.testing.assert_allclose(window[start : next_lost - 1], 0.4 * (t - k) ** 3 + w_max, rtol=0.01)
        assert k > 10
        checked += 1
    assert checked >= 3


@pytest.mark.parametrize(("p", "seconds"), [(1e-4, 1000), (1e-3, 300), (1e-2, 200)])
def test_reno_follows_the_square_root_law(p, seconds):
    # Mean window sqrt(3 / (2 p)) on a path that is never full (Mathis et al. 1997); Linux grows by packets
    # acknowledged, so delayed acknowledgements do not slow it.
    lossy = path(10_000_000_000, 50 * MS, loss=bernoulli(p))
    rates = [
        run(network(seconds, [lossy], [flow("reno")], seed=seed), interval=S).flow("goodput_mbps")[10:].mean()
        for seed in range(1, 5)
    ]
    law = 1448 * 8 / 0.05 * np.sqrt(3 / 2 / p) * 1e-6
    assert np.mean(rates) == pytest.approx(law, rel=0.15)


def test_cubic_drops_about_as_often_as_in_ns3():
    # ns-3's Cubic (SACK, delayed ACKs of two, 60 s, buffer of 416 packets): 95.9 Mbit/s, mean RTT 86.8 ms, 223 drops.
    bottleneck = path(100_000_000, 50 * MS, queue={"kind": "drop_tail_packets", "limit": 416})
    result = run(network(60, [bottleneck], [flow("cubic")], header_bytes=66))
    assert result.total["goodput_mbps"] == pytest.approx(95.9, rel=0.01)
    assert result.total["srtt_ms"] == pytest.approx(86.8, rel=0.05)
    assert 223 / 5 < result.link_totals[0]["dropped_packets"] < 223 * 5
