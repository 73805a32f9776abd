"""What the pictures over a grid show: pooled seconds where runs keep them, else runs."""

import pytest

from orbitcc.eval import contenders, suites
from orbitcc.eval.figures import grid as grid_figures
from orbitcc.eval.figures.style import THEMES
from orbitcc.eval.results import Results


def results(suite, metrics, tmp_path):
    """One contender, two runs at one point with these metrics."""
    chosen, line_up = suites.get(suite), contenders.line_up(["cubic"], [])
    point = dict(chosen.points("quick")[0])
    rows = [
        {"suite": suite, "scenario": "a", "point": point, "seed": seed, "contender": "cubic", "metrics": values}
        for seed, values in enumerate(metrics, start=1)
    ]
    return Results(chosen, line_up, "quick", 2, tmp_path, "test", rows=rows), point


def test_a_map_of_ratios_shows_the_mean_over_seconds(tmp_path):
    runs = [
        {"goodput_ratio": 0.2, "goodput_ratio_sd": 0.0, "seconds": 90.0},
        {"goodput_ratio": 0.9, "goodput_ratio_sd": 0.0, "seconds": 10.0},
    ]
    fair, _ = results("leoem-fairness", runs, tmp_path)
    figure = grid_figures.draw_map(fair, fair.suite.metrics[0], "path", THEMES["light"])
    assert "0.27" in [text.get_text() for text in figure.axes[0].texts]


def test_bars_reach_from_the_least_to_the_most_run_where_no_spread_is_kept(tmp_path):
    runs = [{"own_share": share, "seconds": 99.0, "goodput_ratio_sd": 0.1} for share in (0.2, 0.4)]
    beside, point = results("cubic-friendliness", runs, tmp_path)
    metric = next(m for m in beside.suite.metrics if m.key == "own_share")
    assert grid_figures._point(beside, "cubic", metric, point) == pytest.approx((0.3, 0.2, 0.4))
