"""Arrays over time, as schedules of links are made of."""

import numpy as np
import pytest

from orbitcc.envs.description.links import Link
from orbitcc.envs.impairments.series import Series


def series(points, lines=False):
    return Series.of(tuple(points), lines)


def test_a_product_of_steps_has_the_steps_of_both():
    rate, factor = series([(0.0, 100.0), (2.0, 50.0)]), series([(0.0, 1.0), (1.0, 0.5), (2.0, 1.0)])
    assert (rate * factor).points() == ((0.0, 100.0), (1.0, 50.0), (2.0, 50.0))
    assert (rate * Series.of(0.5)).points() == ((0.0, 50.0), (2.0, 25.0))
    assert (Series.of(8.0) * Series.of(0.5)).points() == 4.0


def test_steps_added_to_lines_jump():
    total = series([(0.0, 10.0), (10.0, 20.0)], lines=True) + series([(0.0, 0.0), (5.0, 3.0)])
    assert total.lines
    assert total.at([0, 4.9, 5, 10, 99]) == pytest.approx([10, 14.9, 18, 23, 23])
    Link(name="a", rate_mbps=None, delay_ms=total.points(), interpolate_delay=True)  # a valid schedule


def test_times_that_are_equal_but_for_rounding_are_one():
    one = series([(0.0, 1.0), (0.1 + 0.2, 2.0)]) * series([(0.0, 1.0), (0.3, 2.0)])
    assert one.t_s.size == 2
    assert one.at([0.2, 0.31]) == pytest.approx([1, 4])


def test_a_series_reads_as_its_points():
    steps = series([(0.0, 1.0), (1.0, 2.0)])
    assert np.array_equal(steps.at([0.0, 0.999, 1.0, 5.0]), [1, 1, 2, 2])
    assert Series.of(steps.points()).points() == steps.points()
