"""`orbitcc compare`: paired by case, the better direction known, folders checked."""

import json
import re
import shutil

import pytest

from orbitcc.agents import checkpoint
from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.eval import contenders
from orbitcc.eval.comparison import _training_seed, differences, warnings
from tests.commands.shell import called


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


def test_runs_of_several_versions_are_compared_with_a_warning(results, other):
    assert warnings(differences(results.out_dir, other)) == []
    text = (other / "runs.jsonl").read_text(encoding="utf-8")
    (version,) = {row["version"] for row in results.rows}
    (other / "runs.jsonl").write_text(text.replace(version, "0.0.1+sim.1.emulator"))
    (said,) = warnings(differences(results.out_dir, other))
    assert said.endswith(f": {version}, 0.0.1+sim.1.emulator")
    done = called("compare", str(results.out_dir), str(other), "--json")
    assert done.stderr == f"warning: {said}\n"


def test_further_runs_of_another_version_leave_those_of_the_table(results, other):
    before = differences(results.out_dir, other)
    file = other / "runs.jsonl"
    runs = [json.loads(line) for line in (results.out_dir / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
    further = [json.dumps(row | {"version": "0.0.1+sim.1.emulator"}) for row in runs]
    kept = file.read_text(encoding="utf-8").splitlines()[: len(runs)]
    file.write_text("\n".join([*kept, *further]) + "\n", encoding="utf-8")
    after = differences(results.out_dir, other)
    assert [d.change.median for d in after] == [d.change.median for d in before]
    assert warnings(after) == []


@pytest.mark.parametrize("field", ["metrics", "point"])
def test_a_number_whose_square_is_infinite_is_refused(field, other):
    row = json.loads((other / "runs.jsonl").read_text(encoding="utf-8").splitlines()[0])
    row[field][next(iter(row[field]), "x")] = 1e308
    (other / "runs.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(FileError, match=rf"runs.jsonl line 1: .*{field} must be a table of numbers of at most 1e\+100"):
        differences(other, other)


def test_a_folder_of_a_paper_is_all_its_suites(results, other):
    assert len(differences(results.out_dir, other.parent)) == 6


def test_folders_without_common_runs_are_refused(results, tmp_path):
    with pytest.raises(FileError, match="the folder of the results"):
        differences(results.out_dir, tmp_path)
    with pytest.raises(FileError, match="the folder of the results"):
        differences(tmp_path / "nowhere", results.out_dir)


def test_assessments_are_not_compared(results, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        text = (results.out_dir / "runs.jsonl").read_text(encoding="utf-8")
        (tmp_path / name / "runs.jsonl").write_text(text.replace('"responsiveness"', '"assessment"'), encoding="utf-8")
    one, two = (str(tmp_path / name) for name in ("one", "two"))
    for args in ((one, two), (one, "--a", "cubic", "--b", "reno")):
        done = called("compare", *args)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        said = f"run_a: '{one}' is not allowed; allowed: results of `orbitcc eval` or `orbitcc reproduce`, not of"
        assert said in done.stderr


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


def test_two_contenders_of_one_folder_are_compared_run_by_run(results):
    found = {d.metric.key: d for d in differences(results.out_dir, first=["cubic"], second=["reno"])}
    assert found.keys() == {m.key for m in results.suite.metrics}
    for key, difference in found.items():
        assert (difference.contender, difference.other, difference.change.n) == ("cubic", "reno", 3)
        assert difference.change.median == results.differences()["reno"][key].median


def test_contenders_of_two_folders_are_compared_under_the_conditions_of_both(results, other):
    (found,) = (
        d for d in differences(results.out_dir, other, ["reno"], ["cubic"]) if d.metric.key == "goodput_over_optimal"
    )
    (plain,) = (
        d for d in differences(results.out_dir, None, ["reno"], ["cubic"]) if d.metric.key == "goodput_over_optimal"
    )
    assert found.change.median == pytest.approx(plain.change.median + 0.05)


def seeds_of(folder, tmp_path, scores):
    """Results of eight runs in which design -> training seed -> shift of the goodput; and a model card for each."""
    (row, *_) = [json.loads(line) for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = []
    for design, shifts in scores.items():
        for seed, shift in shifts.items():
            for run in range(8):
                goodput = 0.4 + 0.05 * run + shift  # schedules differ more than policies
                metrics = row["metrics"] | {"goodput_over_optimal": goodput}
                key = f"{design}#{seed:012d}"
                own = {"seed": run, "contender": key, "params": {"path": f"{design}-{seed}"}, "metrics": metrics}
                lines.append(json.dumps(row | own))
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "runs.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "seeds"


@pytest.fixture
def trained(monkeypatch):
    """Model cards whose training seed is the end of the path."""
    from types import SimpleNamespace

    from orbitcc.agents import checkpoint

    def load(path):
        seed = int(path.rpartition("-")[2])
        return SimpleNamespace(card=SimpleNamespace(training=SimpleNamespace(seed=seed)))

    monkeypatch.setattr(checkpoint, "load", load)
    digest = lambda text: SimpleNamespace(digest=f"{int(text.rpartition('-')[2]):012d}")  # noqa: E731
    monkeypatch.setattr(contenders, "from_controller", digest)


def test_designs_with_several_training_seeds_are_paired_by_seed(results, tmp_path, trained):
    # Seed k is worth 0.01 k in both designs, and `new` adds 0.001 to it: nothing that unpaired seeds could show.
    numbers = range(1, 7)
    scores = {"old": {k: 0.01 * k for k in numbers}, "new": {k: 0.01 * k + 0.001 for k in reversed(numbers)}}
    folder = seeds_of(results.out_dir, tmp_path, scores)
    found = differences(folder, first=["old"], second=["new"])
    (goodput,) = (d for d in found if d.metric.key == "goodput_over_optimal")
    assert goodput.seeds
    assert goodput.change.n == 6  # the pairs are six seeds, not 48 runs
    assert (goodput.change.low, goodput.change.high) == pytest.approx((0.001, 0.001))
    assert goodput.verdict == "better"


def test_a_policy_that_was_trained_anew_since_has_no_seed(results, tmp_path, trained, monkeypatch):
    from types import SimpleNamespace

    numbers = range(1, 7)
    scores = {design: {k: 0.01 * k for k in numbers} for design in ("old", "new")}
    folder = seeds_of(results.out_dir, tmp_path, scores)
    monkeypatch.setattr(contenders, "from_controller", lambda text: SimpleNamespace(digest="another"))
    assert {_training_seed(json.loads(line)) for line in (folder / "runs.jsonl").read_text().splitlines()} == {-1}


def test_five_training_seeds_decide_nothing_however_many_runs_they_have(results, tmp_path, trained):
    scores = {design: dict.fromkeys(range(5), shift) for design, shift in (("old", 0.0), ("new", 0.2))}
    folder = seeds_of(results.out_dir, tmp_path, scores)
    assert {d.verdict for d in differences(folder, first=["old"], second=["new"])} == {"too few runs"}


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (["cubic"], [], "--b: missing"),
        ([], ["cubic"], "--a: missing"),
        ([], [], "compare: name a second folder"),
        (["cubik"], ["reno"], "--a: unknown name 'cubik'; did you mean 'cubic'"),
        (["cubic"], ["*"], "--b: 'cubic' is not allowed; allowed: a single contender, or policies"),
    ],
)
def test_contenders_that_cannot_be_paired_are_refused(results, first, second, says):
    with pytest.raises(OrbitccError, match=says):
        differences(results.out_dir, first=first, second=second)


def test_designs_with_other_numbers_of_seeds_are_refused(results, tmp_path, trained):
    folder = seeds_of(results.out_dir, tmp_path, {"old": {1: 0.0, 2: 0.0}, "new": {1: 0.0, 2: 0.0, 3: 0.0}})
    with pytest.raises(OrbitccError, match="'2 and 3 contenders'"):
        differences(folder, first=["old"], second=["new"])


def test_who_leaves_the_link_unused_has_a_mark_and_differences_have_units(results, tmp_path, capsys):
    rows = [json.loads(line) for line in results.jsonl.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if row["contender"] == "reno":
            row["metrics"] |= {"goodput_over_optimal": 0.4, "delay_inflation": 1.0}
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = {d.metric.key: d.unused for d in differences(tmp_path, first=["cubic"], second=["reno"])}
    assert found["delay_inflation"] == (False, True)
    assert found["goodput_over_optimal"] == (False, False)
    out = called("compare", str(tmp_path), "--a", "cubic", "--b", "reno").stdout
    assert "1.00×*" in out
    assert "* uses less than 80 % of the link" in " ".join(out.split())
    assert re.search(r"[+-][0-9.]+×", out)
    assert re.search(r"[+-][0-9.]+ points", out)


def test_one_folder_alone_says_what_to_name(results):
    done = called("compare", str(results.out_dir))
    assert done.returncode == 2
    assert (
        "name a second folder (RUN_B), or two contenders of this one with --a NAME and --b NAME: cubic, " in done.stderr
    )


def test_the_table_fits_80_columns(results, monkeypatch):
    from typer.testing import CliRunner

    from orbitcc.cli import app

    monkeypatch.setenv("COLUMNS", "80")
    out = CliRunner().invoke(app, ["compare", str(results.out_dir), "--a", "cubic", "--b", "reno"]).stdout
    assert "responsiveness: A cubic, B reno" in out
    assert "too few runs" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_a_policy_may_not_have_the_name_of_a_controller(tmp_path):
    loaded = checkpoint.load("perigee")
    card = loaded.card.model_copy(update={"name": "cubic"})
    checkpoint.save(tmp_path / "mine", card, checkpoint.read_tensors(loaded.path))
    with pytest.raises(OrbitccError, match="name: 'cubic' is not allowed"):
        contenders.line_up(["cubic"], [str(tmp_path / "mine")])
