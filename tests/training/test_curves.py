"""The picture of a run: every line can be read."""

import pytest

from orbitcc.training.curves import _apart, plot_curves


def test_labels_of_close_lines_stand_apart_in_the_order_of_their_lines() -> None:
    assert _apart([0.30, 0.10, 0.11], 0.05) == pytest.approx([0.30, 0.10, 0.15])
    assert _apart([1.0, 1.0, 1.0], 0.5) == pytest.approx([1.0, 1.5, 2.0])
    assert _apart([], 0.1) == []


def test_a_run_without_scores_yet_is_drawn(tmp_path) -> None:
    curves = {"train/reward": ([0, 10], [0.0, 0.1])}
    marks = {"heldout/reward": {"best constant": 0.02, "random": 0.019}}
    picture = plot_curves(curves, tmp_path / "deep" / "run.png", marks)
    assert picture.read_bytes().startswith(b"\x89PNG")
