"""Every metric against numbers worked out by hand."""

import math

import numpy as np
import pytest

from orbitcc.eval import metrics


def test_windows_are_strict_at_both_ends():
    t = np.arange(1.0, 6.0)
    assert metrics.window(t, 1, 5).tolist() == [False, True, True, True, False]


def test_a_sample_on_the_edge_up_to_rounding_is_python_policy():
    t = np.cumsum(np.full(30, 0.1))  # the tenth is 0.9999999999999999
    assert metrics.window(t, 0, 1.0).sum() == 9


def test_mean_in_window_leaves_out_missing_samples():
    assert metrics.mean_in_window([1, 2, 3, 4], [9.0, 1.0, float("nan"), 5.0], 1, 5) == 3.0


def test_mean_of_an_empty_window_is_not_a_number():
    assert math.isnan(metrics.mean_in_window([1, 2], [1.0, 1.0], 5, 6))


def test_goodput_over_optimal():
    # (40 + 60) / 2 = 50 of 80; the last sample ends at the run's end and does not count
    assert metrics.goodput_over_optimal([1, 2, 3], [40, 60, 99], 80.0, 0, 3) == pytest.approx(0.625)


def test_delay_inflation_drops_ten_seconds_at_both_ends():
    t = np.arange(1.0, 31.0)
    srtt, base = np.full(30, 1000.0), np.full(30, 50.0)
    srtt[10:15] = 100.0  # t = 11..15: 2 x 50
    srtt[15:19] = 75.0  # t = 16..19: 1.5 x 50
    assert metrics.delay_inflation(t, srtt, base, 0, 30) == pytest.approx((5 * 2.0 + 4 * 1.5) / 9)


def test_delay_inflation_follows_a_moving_base_rtt():
    t = np.arange(1.0, 24.0)
    base = np.where(t <= 11, 20.0, 80.0)
    srtt = np.where(t <= 11, 40.0, 80.0)  # t = 11 gives 2, t = 12 gives 1
    assert metrics.delay_inflation(t, srtt, base, 0, 23) == pytest.approx(1.5)


def test_delay_inflation_is_at_least_one():
    t = np.arange(1.0, 31.0)
    assert metrics.delay_inflation(t, np.full(30, 10.0), np.full(30, 50.0), 0, 30) == 1.0


def test_delay_inflation_of_a_run_too_short_to_trim_is_not_a_number():
    assert math.isnan(metrics.delay_inflation([1, 2], [10, 10], [10, 10], 0, 2))


def test_retransmissions_as_share_and_as_rate():
    assert metrics.retransmission_rate(5, 200) == 0.025
    assert metrics.retransmission_rate(0, 0) == 0.0
    assert metrics.retransmitted_mbps(1000, 10) == pytest.approx(1.2)  # 1000 x 1500 x 8 bits in 10 s


@pytest.mark.parametrize(
    ("shares", "index"), [([5, 5, 5, 5], 1.0), ([7, 0, 0, 0], 0.25), ([1, 2, 3], 36 / 42), ([4], 1.0)]
)
def test_jain_index(shares, index):
    assert metrics.jain(shares) == pytest.approx(index)


def test_jain_index_of_nothing_is_not_a_number():
    assert math.isnan(metrics.jain([0, 0]))


def test_goodput_ratios_are_per_second_and_skip_idle_seconds():
    ratios = metrics.goodput_ratios([10, 0, 0, 30], [20, 5, 0, 10])
    assert ratios.tolist() == pytest.approx([0.5, 0.0, 1 / 3])
    assert ratios.mean() != pytest.approx(35 / 40)  # the mean of ratios, not the ratio of means


def test_utilisation_weighs_by_capacity():
    assert metrics.utilisation([50, 50], [50, 150]) == pytest.approx(0.5)


def test_utilisation_is_at_most_1():
    assert metrics.utilisation([50.01, 50], [50, 50]) == 1.0
