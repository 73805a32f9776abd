"""Medians, their intervals, paired differences, and statistics over training seeds."""

import math

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.eval.statistics import (
    Estimate,
    aggregate,
    interquartile_mean,
    median_estimate,
    paired_difference,
    performance_profile,
    pooled,
    probability_of_improvement,
    verdict,
)


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


def test_fewer_than_six_runs_have_a_median_without_interval_and_no_verdict():
    # the extremes of n runs have the median between them in 1 - 2 x 0.5^n of cases: 93.75 % of 5, 96.9 % of 6
    for n in (1, 3, 5):
        estimate = median_estimate(range(1, n + 1))
        assert estimate.median == (n + 1) / 2
        assert not estimate.has_interval
        assert math.isnan(estimate.low)
        assert verdict(estimate, "higher") == "too few runs"
    assert 1 - 2 * 0.5**5 < 0.95 < 1 - 2 * 0.5**6
    six = median_estimate(range(1, 7))
    assert six.has_interval
    assert verdict(six, "higher") == "better"


def test_differences_do_not_depend_on_the_order_in_which_runs_finished():
    rng = np.random.default_rng(3)
    first, second = ({k: rng.normal() for k in range(9)} for _ in range(2))
    assert paired_difference(dict(reversed(first.items())), second) == paired_difference(first, second)


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
        (Estimate(0.1, 0.05, 0.2, 6), "higher", "better"),  # six of six: 1 in 32
    ],
)
def test_verdicts_follow_the_direction_of_the_metric(difference, better, said):
    assert verdict(difference, better) == said


# Scores of two made-up algorithms, 5 and 7 runs of 6 tasks, with ties. The expected numbers are what rliable 1.2.0
# (the package of Agarwal et al., 2021; with arch 7.2.0 and 50,000 resamples) gave for them: `metrics.aggregate_iqm`,
# `metrics.probability_of_improvement`, `library.get_interval_estimates`, `library.create_performance_profile`.
FIRST = np.array(
    [
        [0.50, 0.55, 0.53, 0.81, 0.79, 0.50],
        [0.49, 0.32, 0.47, 0.77, 0.55, 0.90],
        [0.53, 0.61, 0.95, 0.73, 0.63, 0.57],
        [0.46, 0.37, 0.80, 0.84, 0.41, 0.36],
        [0.59, 0.54, 0.75, 0.45, 0.89, 0.89],
    ]
)
SECOND = np.array(
    [
        [0.50, 0.53, 0.81, 0.53, 0.54, 0.46],
        [0.38, 0.16, 0.80, 0.34, 0.48, 0.77],
        [0.63, 0.54, 0.54, 0.47, 0.55, 0.50],
        [0.36, 0.28, 0.79, 0.60, 0.46, 0.48],
        [0.16, 0.49, 0.48, 0.66, 0.62, 0.44],
        [0.35, 0.28, 0.69, 0.49, 0.49, 0.12],
        [0.35, 0.76, 0.46, 0.16, 0.46, 0.62],
    ]
)
RESAMPLING = 0.006
"""Two resamplings of 10,000 and 50,000 may place a bound so far apart: these bounds fall on a grid."""


@pytest.mark.parametrize(
    ("scores", "value", "low", "high"),
    [(FIRST, 0.601875, 0.53123438, 0.674375), (SECOND, 0.4940909090909091, 0.45318182, 0.535)],
)
def test_the_interquartile_mean_and_its_stratified_interval_are_rliables(scores, value, low, high):
    found = aggregate(scores)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((low, high), abs=RESAMPLING)
    assert (found.runs, found.tasks) == scores.shape


def test_the_probability_of_improvement_is_rliables():
    found = probability_of_improvement(FIRST, SECOND)
    assert found.value == pytest.approx(0.7214285714285714, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((0.58571429, 0.84285714), abs=RESAMPLING)


def test_the_performance_profile_is_rliables():
    found = performance_profile(FIRST, [0.2, 0.4, 0.6, 0.8])
    assert found.share == pytest.approx([1.0, 0.9, 0.43333333, 0.2], abs=1e-8)  # strictly above: one score is 0.80
    assert found.low == pytest.approx([1.0, 0.8, 0.3, 0.06666667], abs=1 / 30 + 1e-8)  # 30 scores: a grid of 1/30
    assert found.high == pytest.approx([1.0, 1.0, 0.56666667, 0.33333333], abs=1 / 30 + 1e-8)


def test_the_interquartile_mean_drops_a_quarter_at_either_end_rounded_down():
    assert interquartile_mean(np.array([[1.0], [2.0], [3.0], [100.0]])) == 2.5
    assert interquartile_mean(np.array([[1.0], [2.0], [6.0]])) == 3.0  # floor(3 / 4) = 0: nothing is left out
    assert interquartile_mean(np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])) == 2.0


def test_ties_count_half():
    assert probability_of_improvement([1.0, 2.0], [1.0, 1.0]).value == 0.75
    assert probability_of_improvement([[1.0, 5.0]], [[1.0, 4.0]]).value == 0.75


def test_runs_are_resampled_within_their_task():
    # the tasks differ by 100, the runs of a task by nothing: only a resampling across tasks could see a spread
    found = aggregate(np.tile([0.0, 100.0], (6, 1)), lambda x: x.mean(axis=(-2, -1)))
    assert (found.low, found.value, found.high) == (50.0, 50.0, 50.0)


def test_the_stratified_interval_covers_the_truth_about_as_often_as_it_says():
    # Percentile intervals of ten runs are somewhat narrow: some 90 % of 60, within three standard deviations.
    rng = np.random.default_rng(5)
    found = [aggregate(rng.normal(10, 2, size=(10, 4))) for _ in range(60)]
    assert 46 <= sum(one.low <= 10 <= one.high for one in found) < 60


def test_one_run_has_a_value_without_interval():
    found = aggregate([0.7])
    assert found.value == 0.7
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_fewer_than_five_seeds_have_no_interval():
    found = probability_of_improvement([1.0], [0.0, 2.0, 2.0])
    assert found.value == pytest.approx(1 / 3)
    assert not found.has_interval
    assert [aggregate([1.0, 2.0, 3.0, 5.0]).has_interval, aggregate([1.0, 2.0, 3.0, 5.0, 8.0]).has_interval] == [
        False,
        True,
    ]
    alone = probability_of_improvement([1.0], [0.0])
    assert np.isnan([alone.low, alone.high]).all()


@pytest.mark.parametrize("scores", [[], [0.1, float("nan")], [[0.1], [float("inf")]], [[[0.1]]]])
def test_scores_that_are_no_numbers_of_runs_are_refused(scores):
    with pytest.raises(OrbitccError, match="finite numbers"):
        aggregate(scores)


def test_other_tasks_cannot_be_compared():
    with pytest.raises(OrbitccError, match="6 tasks"):
        probability_of_improvement(FIRST, SECOND[:, :4])


def test_groups_are_pooled_by_their_counts():
    # One value of 1 and three of 5 with a deviation of 2: mean 4, variance (9 + 3 (4 + 1)) / 4.
    mean, deviation = pooled([1.0, np.nan, 5.0], [0.0, 7.0, 2.0], [1, 9, 3])
    assert (float(mean), float(deviation)) == (4.0, pytest.approx(6**0.5))
    assert np.isnan(pooled([np.nan], [0.0], [4])[0])
