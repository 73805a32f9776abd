"""The socket buffers of a GEO path's hosts (Linux 4.15): which of them limits a transfer, and to what.

The grid is that of Claypool et al.'s HyStart paper. Bands reach from its published rates to what one window per round
trip allows. The path has no noise, and its queue holds 36 MB, so that nothing is lost.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from tests.sim.networks import MS, Run, direction, drop_tail, flow, link, network, run

LINK_MBPS = 144
LARGE = 60_000_000
RMEM = {
    "A": [4096, 131_072, 6_291_456],
    "B": [4096, 262_144, 6_291_456],
    "C": [4096, 131_072, 12_582_912],
    "D": [LARGE] * 3,
}
WMEM = {"default": [4096, 16_384, 4_194_304], "large": [LARGE] * 3}


@cache
def transfer(rmem: str, wmem: str, autotuning: bool) -> Run:
    path = link(direction(LINK_MBPS * 1_000_000, 300 * MS, queue=drop_tail(36_000_000)), direction(None, 300 * MS))
    hosts = {"kernel": "v4_15", "hz": 250, "rmem": RMEM[rmem], "wmem": WMEM[wmem], "moderate_rcvbuf": autotuning}
    return run(network(60, [path], [flow("cubic")], **hosts))


def rate(rmem: str, wmem: str, autotuning: bool) -> float:
    """Mbit/s of the second half."""
    result = transfer(rmem, wmem, autotuning)
    assert result.total["rtos"] == 0
    return float(result.flow("goodput_mbps")[len(result.t_s) // 2 :].mean())


@pytest.mark.parametrize(
    ("rmem", "wmem", "low", "high"),
    [
        *((rmem, wmem, 25, 45) for rmem in "AB" for wmem in WMEM),
        *((rmem, "default", 28, 56) for rmem in "CD"),
        ("C", "large", 50, 90),
        ("D", "large", 0.9 * LINK_MBPS, LINK_MBPS),
    ],
)
def test_autotuned_buffers_limit_the_rate(rmem, wmem, low, high):
    assert low <= rate(rmem, wmem, True) <= high


@pytest.mark.parametrize("wmem", WMEM)
def test_fixed_receive_buffers_limit_it_more(wmem):
    assert 0.6 <= rate("A", wmem, False) <= 1.0
    assert 0.6 <= rate("C", wmem, False) <= 1.0, "the maximum does not matter"
    assert 1.9 <= rate("B", wmem, False) / rate("A", wmem, False) <= 2.1, "the default does"
    assert rate("D", wmem, False) == pytest.approx(rate("D", wmem, True), rel=0.05)


def test_the_receive_window_is_the_limit():
    # One window per round trip: half of the largest buffer, or half of the first one less the segment kept back.
    per_window = 8e-6 / 0.6
    assert rate("A", "large", True) == pytest.approx(6_291_456 / 2 * per_window, rel=0.01)
    assert rate("C", "large", True) == pytest.approx(12_582_912 / 2 * per_window, rel=0.01)
    assert rate("A", "large", False) == pytest.approx((131_072 / 2 - 1460) * per_window, rel=0.02)


def test_large_buffers_make_autotuning_indifferent():
    tuned, fixed = transfer("D", "large", True), transfer("D", "large", False)
    for second in (3, 4, 5):
        at = int(np.searchsorted(tuned.t_s, second))
        assert tuned.flow("cwnd_packets")[at] == pytest.approx(fixed.flow("cwnd_packets")[at], rel=0.1)
    growth = tuned.flow("cwnd_packets")
    rounds = [growth[int(np.searchsorted(tuned.t_s, 0.65 + 0.6 * k))] for k in range(7)]
    assert all(after >= 1.9 * before for before, after in pairwise(rounds)), rounds
