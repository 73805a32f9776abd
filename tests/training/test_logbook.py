"""Where figures go: TensorBoard and CSV by themselves, others through one protocol."""

import csv
import math
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from orbitcc.envs.errors import OrbitccError
from orbitcc.training.logbook import CsvLogbook, Display, Logbook, Logbooks, TensorBoardLogbook, factory

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


def test_the_documented_trackers_work_with_their_libraries_interfaces(tmp_path, monkeypatch):
    """Neither W&B nor MLflow is installed: fakes take the calls that both document."""
    calls = []
    config = types.SimpleNamespace(update=lambda settings, allow_val_change: calls.append(("config", settings)))
    run = types.SimpleNamespace(
        log=lambda values, step: calls.append(("log", step, values)), config=config, finish=lambda: calls.append("end")
    )
    wandb = types.ModuleType("wandb")
    wandb.init = lambda *, project, id, dir, resume: calls.append((project, id, resume)) or run
    mlflow = types.ModuleType("mlflow")
    mlflow.start_run = lambda run_name: calls.append(run_name)
    mlflow.log_metrics = lambda values, step: calls.append(("metrics", step, values))
    mlflow.end_run = lambda: calls.append("ended")
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    text = next(
        b
        for b in re.findall(r"```python\n(.*?)```", TUNING.read_text(encoding="utf-8"), re.DOTALL)
        if "class Wandb" in b
    )
    (tmp_path / "trackers_of_the_page.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("wandb", "mlflow"):
        book = factory(f"trackers_of_the_page:{name}")(tmp_path / "a-run", None)
        book.write_settings({"lr": 1}, [])
        book.write(5, {"train/reward": 1.0})
        book.close()
    assert calls == [
        ("orbitcc", "a-run", "allow"), ("config", {"lr": 1}), ("log", 5, {"train/reward": 1.0}), "end",
        "a-run", ("metrics", 5, {"train/reward": 1.0}), "ended",
    ]  # fmt: skip


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
        display.update(130_965, "reward 0.1")
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
