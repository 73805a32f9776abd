"""Medians, their intervals, and paired differences."""

import math

import numpy as np
import pytest

from orbitcc.eval.statistics import Estimate, median_estimate, paired_difference, verdict


def test_median_of_even_and_odd_counts():
    assert median_estimate([3, 1, 2]).median == 2
    assert median_estimate([4, 1, 3, 2]).median == 2.5


def test_the_same_values_give_the_same_interval():
    values = np.random.default_rng(1).normal(size=30)
    assert median_estimate(values) == median_estimate(values)


def test_the_interval_of_equal_values_is_a_point():
    estimate = median_estimate([0.5] * 8)
    assert (estimate.low, estimate.median, estimate.high, estimate.n) == (0.5, 0.5, 0.5, 8)


def test_the_interval_covers_the_true_median_about_as_often_as_it_says():
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(100):
        estimate = median_estimate(rng.normal(10, 2, size=50))
        covered += estimate.low <= 10 <= estimate.high
    assert 88 <= covered <= 100


def test_three_values_have_the_interval_of_their_extremes():
    # 7 of the 27 resamples hold the smallest value at least twice: it is the median of 26 % of them
    estimate = median_estimate([1.0, 2.0, 4.0])
    assert (estimate.low, estimate.high) == (1.0, 4.0)


def test_a_single_run_has_a_median_without_interval():
    estimate = median_estimate([0.9])
    assert estimate.median == 0.9
    assert not estimate.has_interval
    assert math.isnan(estimate.low)


def test_missing_values_do_not_count():
    estimate = median_estimate([1.0, float("nan"), 3.0])
    assert (estimate.median, estimate.n) == (2.0, 2)


def test_no_values_have_no_median():
    assert math.isnan(median_estimate([]).median)


def test_differences_are_paired_by_seed():
    first = {1: 10.0, 2: 20.0, 3: 30.0, 9: 500.0}
    second = {3: 29.0, 1: 9.5, 2: 18.0}
    difference = paired_difference(first, second)
    assert difference.n == 3
    assert difference.median == 1.0  # of 0.5, 2 and 1; seed 9 has no partner


def test_pairing_sees_a_small_effect_that_unpaired_medians_hide():
    rng = np.random.default_rng(3)
    hard = rng.uniform(0, 100, size=20)
    first = {i: hard[i] + 1.0 + 0.1 * rng.normal() for i in range(20)}
    second = {i: float(hard[i]) for i in range(20)}
    assert paired_difference(first, second).low > 0
    assert median_estimate(first.values()).low < median_estimate(second.values()).high


@pytest.mark.parametrize(
    ("difference", "better", "said"),
    [
        (Estimate(0.1, 0.05, 0.2, 9), "higher", "better"),
        (Estimate(-0.1, -0.2, -0.05, 9), "higher", "worse"),
        (Estimate(-0.1, -0.2, -0.05, 9), "lower", "better"),
        (Estimate(0.1, -0.05, 0.2, 9), "lower", "tied"),
        (Estimate(0.1, 0.05, 0.2, 5), "higher", "too few runs"),  # five of five: 1 in 16 by chance
    ],
)
def test_verdicts_follow_the_direction_of_the_metric(difference, better, said):
    assert verdict(difference, better) == said
