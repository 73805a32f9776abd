"""Run folders and their metrics file."""

import pytest

from orbitcc.agents.runs.run_folder import MetricsFile, RunFolder, revision, versions
from orbitcc.common.errors import OrbitccError


def test_names_say_scenario_recipe_and_seed_and_never_collide(tmp_path) -> None:
    first = RunFolder.create(tmp_path, "train-leo", "ppo", 3, {"a": 1})
    second = RunFolder.create(tmp_path, "train-leo", "ppo", 3, {})
    assert first.path.name.startswith("train-leo__ppo__3__")
    assert first.path != second.path
    of_file = RunFolder.create(tmp_path, "/elsewhere/mine.toml", "ppo", 3, {})
    assert of_file.path.parent == tmp_path
    assert of_file.path.name.startswith("mine__ppo__3__")
    assert first.config() == {"a": 1}


def test_the_newest_run_is_resumed(tmp_path) -> None:
    for name in ("a__ppo__1__20260101-000000", "b__ppo__1__20260102-000000", "a__ppo__2__20260103-000000"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    (tmp_path / "a__ppo__1__20260104-000000").mkdir()
    assert RunFolder.latest(tmp_path, "ppo", 1).path.name == "b__ppo__1__20260102-000000"
    with pytest.raises(OrbitccError, match="resume"):
        RunFolder.latest(tmp_path, "ppo", 9)


def test_after_the_clock_was_set_back_the_newest_run_is_still_resumed(tmp_path) -> None:
    """The clock said 2999 when the first runs were made, eleven of them in one second."""
    for end in ("", "-2", "-11"):
        (tmp_path / f"a__ppo__1__29990101-000000{end}").mkdir()
        (tmp_path / f"a__ppo__1__29990101-000000{end}" / "config.json").write_text("{}")
    assert RunFolder.latest(tmp_path, "ppo", 1).path.name.endswith("-11")
    made = RunFolder.create(tmp_path, "b", "ppo", 1, {})
    assert made.path.name == "b__ppo__1__29990101-000000-12"
    assert RunFolder.latest(tmp_path, "ppo", 1).path == made.path
    assert RunFolder.create(tmp_path, "a", "ppo", 1, {}, name="mine").path.name == "mine"
    assert "2999" not in RunFolder.create(tmp_path, "a", "ppo", 2, {}).path.name


def test_a_name_is_not_taken_by_what_a_killed_process_left(tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".config.json.abc.tmp").write_text("{")
    assert RunFolder.create(tmp_path, "s", "r", 1, {"a": 1}, name="mine").config() == {"a": 1}
    with pytest.raises(OrbitccError, match="--name"):
        RunFolder.create(tmp_path, "s", "r", 1, {}, name="mine")


def test_a_file_in_the_way_is_one_clear_error(tmp_path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OrbitccError, match="out"):
        RunFolder.create(tmp_path / "out", "s", "r", 1, {})


def test_metrics_of_repeated_steps_are_dropped_on_resume(tmp_path) -> None:
    path = tmp_path / "metrics.csv"
    file = MetricsFile(path)
    for step in (10, 20, 30):
        file.write(step, {"x": step / 10})
    file.close()
    with path.open("a") as broken:
        broken.write("30,y")  # a line cut by a kill
    file = MetricsFile(path, keep_until=20)
    file.write(25, {"x": 9.0})
    file.close()
    assert path.read_text(encoding="utf-8").splitlines() == ["step,tag,value", "10,x,1.0", "20,x,2.0", "25,x,9.0"]


def test_provenance_is_recorded() -> None:
    assert "python" in versions()
    assert "numpy" in versions()
    assert revision()
