"""The picture of a run: every line can be read."""

import pytest

from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.common.errors import OrbitccError
from orbitcc.training import recipe
from orbitcc.training.curves import _apart, _as_long_as, main, mean_curve, plot_curves


def test_labels_of_close_lines_stand_apart_in_the_order_of_their_lines() -> None:
    assert _apart([0.30, 0.10, 0.11], 0.05) == pytest.approx([0.30, 0.10, 0.15])
    assert _apart([1.0, 1.0, 1.0], 0.5) == pytest.approx([1.0, 1.5, 2.0])
    assert _apart([], 0.1) == []


def test_a_run_without_scores_yet_is_drawn(tmp_path) -> None:
    curves = {"train/reward": ([0, 10], [0.0, 0.1])}
    marks = {"heldout/reward": {"best constant": 0.02, "random": 0.019}}
    picture = plot_curves([curves], tmp_path / "deep" / "run.png", marks)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_curve_of_several_seeds_is_the_interquartile_mean_where_all_have_values() -> None:
    curves = [
        ([0, 100, 200], [0.0, 1.0, 2.0]),
        ([0, 200, 300], [0.0, 4.0, 5.0]),
        ([50, 250], [1.0, 1.0]),
        ([0, 300], [9.0, 9.0]),
    ]
    steps, values = mean_curve(curves)
    assert steps == [50, 100, 200]
    # at 50: 0.5, 1, 1, 9; at 100: 1, 2, 1, 9; at 200: 2, 4, 1, 9 -> the middle two of each
    assert values == pytest.approx([1.0, 1.5, 3.0])


def test_several_runs_are_drawn_and_need_not_have_the_same_figures(tmp_path) -> None:
    runs = [
        {"heldout/score": ([0, 10], [0.0, 0.1]), "heldout/flooded": ([0, 10], [0.0, 0.1])},
        {"heldout/score": ([0, 12], [0.0, 0.2])},
    ]
    assert plot_curves(runs, tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")


def test_runs_of_different_recipes_are_not_drawn_together(tmp_path) -> None:
    folders = []
    for number, change in enumerate(([], ["learner.lr=1e-4"])):
        plan = recipe.load("sb3-ppo-leo", change)
        config = {"recipe": plan.model_dump()}
        folders.append(str(RunFolder.create(tmp_path, plan.scenario, plan.name, number, config).path))
    with pytest.raises(OrbitccError, match="a run of the same recipe"):
        main([*folders, str(tmp_path / "both.png")])
    with pytest.raises(OrbitccError, match="then the picture"):
        main(folders[:1])


@pytest.mark.parametrize("name", ["sb3-ppo-leo", "astraea", "zenith"])
def test_runs_of_one_recipe_may_have_different_lengths(name: str) -> None:
    whole, short = (recipe.load(name, change) for change in ([], ["agent_steps=1_300_000"]))
    assert _as_long_as(short, whole) == whole
    assert _as_long_as(recipe.load(name, ["evaluation.worlds=3"]), whole) != whole
