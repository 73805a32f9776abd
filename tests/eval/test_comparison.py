"""`orbitcc compare`: paired by case, the better direction known, folders checked."""

import json
import shutil

import pytest

from orbitcc.envs.errors import FileError
from orbitcc.eval.comparison import differences


@pytest.fixture
def other(results, tmp_path):
    """The same results, where every run of cubic has 5 points more goodput and a last line is torn."""
    folder = tmp_path / "other"
    shutil.copytree(results.out_dir, folder)
    lines = []
    for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["contender"] == "cubic":
            row["metrics"]["goodput_over_optimal"] += 0.05
        lines.append(json.dumps(row))
    (folder / "runs.jsonl").write_text("\n".join(lines) + '\n{"suite": "resp')
    return folder


def test_differences_are_those_of_the_runs(results, other):
    found = {(d.contender, d.metric.key): d for d in differences(results.out_dir, other)}
    assert found["cubic", "goodput_over_optimal"].change.median == pytest.approx(0.05)
    assert found["reno", "goodput_over_optimal"].change.median == 0
    assert found["cubic", "goodput_over_optimal"].verdict == "too few runs"
    assert len(found) == 6


def test_a_folder_of_a_paper_is_all_its_suites(results, other):
    assert len(differences(results.out_dir, other.parent)) == 6


def test_folders_without_common_runs_are_refused(results, tmp_path):
    with pytest.raises(FileError, match="the folder of the results"):
        differences(results.out_dir, tmp_path)
    with pytest.raises(FileError, match="the folder of the results"):
        differences(tmp_path / "nowhere", results.out_dir)


def test_a_metric_without_a_value_is_null_in_json(results, other):
    from typer.testing import CliRunner

    from orbitcc.cli import app

    for folder in (results.out_dir, other):
        lines = [
            json.loads(line)
            for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()
            if line.endswith("}")
        ]
        for row in lines:
            row["metrics"]["retransmission_rate"] = None
        (other.parent / f"{folder.name}-null").mkdir()
        text = "".join(json.dumps(row) + "\n" for row in lines)
        (other.parent / f"{folder.name}-null" / "runs.jsonl").write_text(text)
    folders = [str(other.parent / f"{folder.name}-null") for folder in (results.out_dir, other)]
    result = CliRunner().invoke(app, ["compare", *folders, "--json"])
    found = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    (rate,) = (d for d in found if d["contender"] == "cubic" and d["metric"] == "retransmission_rate")
    assert (rate["a"], rate["difference"], rate["runs"]) == (None, None, 0)
    assert "nan" not in CliRunner().invoke(app, ["compare", *folders]).stdout
