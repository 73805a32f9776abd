"""Where figures go: TensorBoard and CSV by themselves, others through one protocol."""

import csv
import json
import math
import os
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.parallel.progress import Display
from orbitcc.training import trackers
from orbitcc.training.logbook import CsvLogbook, Logbook, Logbooks, TensorBoardLogbook, factory

TUNING = Path(__file__).parents[2] / "docs" / "tuning.md"


class Kept(Logbook):
    def __init__(self, folder, resume_at):
        self.told = [(folder, resume_at)]

    def write(self, step, values):
        self.told.append((step, dict(values)))

    def close(self):
        self.told.append("closed")


def test_all_are_told_the_same_finite_figures(tmp_path):
    pytest.importorskip("torch")
    kept = []

    def make(folder, resume_at):
        kept.append(Kept(folder, resume_at))
        return kept[0]

    books = Logbooks.open(tmp_path, None, [make])
    books.write_settings({"learner": {"lr": 1e-3}}, ["heldout/score"])
    books.write(10, {"train/reward": 0.5, "heldout/jain": math.nan})
    books.write_histogram(10, "heldout/actions", np.array([1, 2]))
    books.write_reference("cubic", 10, {"heldout/score": 0.3, "heldout/x": math.inf})
    books.close()
    assert kept[0].told == [(tmp_path, None), (10, {"train/reward": 0.5}), "closed"]
    rows = list(csv.reader((tmp_path / "metrics.csv").open()))
    assert rows == [["step", "tag", "value"], ["10", "train/reward", "0.5"]]
    assert list(tmp_path.glob("events.out.tfevents.*"))


def test_a_resumed_run_repeats_only_what_was_not_saved(tmp_path):
    first = CsvLogbook(tmp_path)
    first.write(1, {"a": 1.0})
    first.write(2, {"a": 2.0})
    first.close()
    again = CsvLogbook(tmp_path, resume_at=1)
    again.write(2, {"a": 3.0})
    again.close()
    assert [row[2] for row in csv.reader((tmp_path / "metrics.csv").open())][1:] == ["1.0", "3.0"]


@pytest.mark.parametrize("name", ["nowhere:make", "orbitcc.training.logbook", "orbitcc.training.logbook:nothing"])
def test_a_factory_that_is_none_is_told_at_once(name):
    with pytest.raises(OrbitccError, match="--logbook"):
        factory(name)


@pytest.mark.parametrize("raised", ["SystemExit(0)", "ValueError('no')"])
def test_a_logbook_that_fails_is_named(raised, tmp_path, monkeypatch):
    text = (
        f"from orbitcc.training.logbook import Logbook\nclass Bad(Logbook):\n    def write(self, *_): raise {raised}\n"
    )
    (tmp_path / "bad_logbook.py").write_text(f"{text}def make(folder, resume_at): return Bad()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    books = Logbooks.open(tmp_path, None, ["bad_logbook:make"])
    with pytest.raises(
        OrbitccError, match=r"--logbook: 'bad_logbook:make' .*whose `write` works .*bad_logbook.py line 3"
    ):
        books.write(1, {"train/reward": 1.0})
    with pytest.raises(OrbitccError, match="whose `write` works"):  # what went wrong first
        books.close()


class Greedy(Logbook):
    """Takes what it is told out of the table."""

    def write(self, step, values):
        values.clear()


def test_a_logbook_that_changes_what_it_is_told_changes_no_other(tmp_path):
    pytest.importorskip("torch")
    told = {"train/reward": 0.5}
    books = Logbooks.open(tmp_path, None, [lambda *_: Greedy()])
    books.write(10, told)
    books.close()
    rows = list(csv.reader((tmp_path / "metrics.csv").open()))
    assert rows[1:] == [["10", "train/reward", "0.5"]]
    assert told == {"train/reward": 0.5}


def test_all_logbooks_are_closed_whichever_fails(tmp_path):
    class Failing(Kept):
        def close(self):
            raise OSError("no")

    kept = Kept(tmp_path, None)
    books = Logbooks([Failing(tmp_path, None), kept], ["mine:make", "other:make"])
    books.outcome = "diverged"
    with pytest.raises(OrbitccError, match="mine:make.*whose `close` works"):
        books.close()
    assert kept.told[-1] == "closed"
    assert kept.outcome == "diverged"


def test_the_documented_logbook_works(tmp_path, monkeypatch):
    text = next(
        block
        for block in re.findall(r"```python\n(.*?)```", TUNING.read_text(encoding="utf-8"), re.DOTALL)
        if "class Lines" in block
    )
    (tmp_path / "trackers_of_the_page.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    book = factory("trackers_of_the_page:Lines")(tmp_path, None)
    book.write(5, {"train/reward": 1.0})
    book.close()
    assert (tmp_path / "lines.txt").read_text() == "5 train/reward 1.0\n"


ENTRIES = [({"train/reward": 0.5}, 5), ({"train/reward": 0.75}, 10)]


def _tracked(tracker: str, folder: Path) -> None:
    """What a run tells a tracker, interrupted once and resumed."""
    for resume_at, (values, step) in zip((None, 5), ENTRIES, strict=True):
        book = factory(trackers.named(tracker))(folder, resume_at)
        book.write_settings({"learner": {"lr": 1e-3}}, ["heldout/score"])
        book.write(step, values)
        book.write_reference("cubic", step, {"heldout/score": 0.25})
        book.close()


def test_mlflow_keeps_one_run_of_a_resumed_training(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    for name in ("mine", "other/mine"):
        (tmp_path / name).mkdir(parents=True)
        _tracked("mlflow", tmp_path / name)
    client = mlflow.MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("orbitcc").experiment_id])
    assert [run.info.run_name for run in runs] == ["mine", "mine"]  # in two folders
    for run in runs:
        assert run.info.status == "FINISHED"
        assert run.data.params == {"learner.lr": "0.001"}
        history = client.get_metric_history(run.info.run_id, "train/reward")
        assert [({"train/reward": m.value}, m.step) for m in history] == ENTRIES
        assert len(client.get_metric_history(run.info.run_id, "cubic/heldout/score")) == 2


def test_mlflow_says_how_a_run_ended(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    (tmp_path / "mine").mkdir()
    expected = {"finished": "FINISHED", "stopped": "KILLED", "diverged": "FAILED", "failed": "FAILED"}
    for outcome in expected:
        book = factory(trackers.named("mlflow"))(tmp_path / "mine", None)
        book.outcome = outcome
        book.close()
    factory(trackers.named("mlflow"))(tmp_path / "mine", None)  # killed before it saved anything, and begun anew:
    factory(trackers.named("mlflow"))(tmp_path / "mine", None)
    client = mlflow.MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("orbitcc").experiment_id], order_by=["start_time ASC"])
    assert [run.info.status for run in runs] == [*expected.values(), "KILLED", "RUNNING"]


def test_a_server_that_does_not_answer_is_told_soon(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    (tmp_path / "mine").mkdir()
    began = time.monotonic()
    with pytest.raises(OrbitccError, match="--track: 'mlflow' .* a tracker that answers"):
        factory(trackers.named("mlflow"))(tmp_path / "mine", None)
    assert time.monotonic() - began < 60
    assert "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in os.environ


def test_trackio_keeps_one_run_of_a_resumed_training(tmp_path, monkeypatch):
    pytest.importorskip("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "kept"))
    (tmp_path / "mine").mkdir()
    read = (
        "import sys, sqlite3, json, pathlib; from pathlib import Path\n"
        "from tests.training.test_logbook import _tracked\n"
        "for _ in range(2): _tracked('trackio', Path(sys.argv[1]))\n"
    )  # in a process of its own: the library reads the variable when it is imported
    subprocess.run([sys.executable, "-c", read, str(tmp_path / "mine")], check=True, cwd=TUNING.parents[1], timeout=120)
    with sqlite3.connect(tmp_path / "kept" / "orbitcc.db") as data:
        rows = data.execute("select run_id, step, metrics from metrics order by id").fetchall()
    runs = {run: [(step, json.loads(text)) for own, step, text in rows if own == run] for run, _, _ in rows}
    assert len(runs) == 2  # a later run of the same name is another
    for told in runs.values():
        assert [({"train/reward": m["train/reward"]}, step) for step, m in told if "train/reward" in m] == ENTRIES


def test_wandb_writes_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    (tmp_path / "mine").mkdir()
    _tracked("wandb", tmp_path / "mine")
    files = list((tmp_path / "mine").rglob("*.wandb"))
    assert len(files) == 2  # a resumed run is a second file of the same run, which `wandb sync` joins
    assert len({file.name for file in files}) == 1
    factory(trackers.named("wandb"))(tmp_path / "mine", None).close()
    assert len({file.name for file in (tmp_path / "mine").rglob("*.wandb")}) == 2  # a later run of the same name
    deadline = time.monotonic() + 30  # the library's own process writes them, a moment after `finish` returns
    while not all(b"train/reward" in file.read_bytes() for file in files):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_tracker_that_is_not_there_is_told_before_anything_is_written(tmp_path, monkeypatch):
    from tests.commands.shell import called

    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    for tracker, says in (
        ("wandb", "a tracker that is installed: the extra `wandb`"),
        ("comet", "one of wandb, mlflow, trackio"),
    ):
        done = called("train", "ppo-leo", "--track", tracker, "--out", str(tmp_path / "runs"))
        assert done.returncode == 2
        assert says in done.stderr
        assert not (tmp_path / "runs").exists()


def test_tensorboard_shows_a_description_beside_each_chart(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    book = TensorBoardLogbook(tmp_path)
    book.write(1, {"train/reward": 0.5, "heldout/utilisation": 0.9, "learner/unheard_of": 1.0})
    book.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    about = {tag: events.SummaryMetadata(tag).summary_description for tag in events.Tags()["scalars"]}
    assert about["heldout/utilisation"].startswith("Delivered over possible bits of the busiest link")
    assert about["heldout/utilisation"].endswith("Higher is better.")
    assert "reward per decision" in about["train/reward"]
    assert about["learner/unheard_of"] == ""


def test_a_line_of_progress_never_exceeds_the_whole(capsys):
    with Display(100_000, "mine") as display:
        display.update(130_965, "130,965 agent steps, reward 0.1")
    assert capsys.readouterr().err.strip() == "mine: 100%, 130,965 agent steps, reward 0.1"


FULL = """
import resource, sys
from pathlib import Path
from orbitcc.training.logbook import TensorBoardLogbook
book = TensorBoardLogbook(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    try:
        for step in range(1_000):
            book.write(step, {"train/reward": 1.0})
    finally:
        book.close()
except OSError as error:
    print(error.strerror)
"""


def test_a_full_disk_under_tensorboard_is_one_error_of_the_caller(tmp_path):
    pytest.importorskip("torch")
    words = [sys.executable, "-B", "-c", FULL, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.stdout == "File too large\n"
    assert "Traceback" not in done.stderr
