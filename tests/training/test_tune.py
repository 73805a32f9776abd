"""Searches over recipes: ranges are checked, trials count, and a search goes on."""

import csv
import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.common.errors import OrbitccError
from orbitcc.eval import journal
from orbitcc.training import recipe
from orbitcc.training import tune as tuning
from orbitcc.training.loop import INTERRUPTED
from orbitcc.training.remote import Job
from orbitcc.training.tune import SearchRange, default_space, tune
from tests.commands.shell import orbitcc

SMALL = [
    "agent_steps=256", "learner.flows=8", "learner.batch=128", "learner.minibatch=64", "learner.epochs=1",
    "evaluation.worlds=1", "evaluation.every=256", "network.hidden=[4]",
]  # fmt: skip


def test_ranges_are_read():
    assert SearchRange.parse("learner.lr=log(1e-4, 1e-2)") == ("learner.lr", SearchRange(1e-4, 1e-2, "log"))
    assert SearchRange.parse("learner.epochs=int(2,8)") == ("learner.epochs", SearchRange(2, 8, "int"))
    assert SearchRange.parse("learner.clip=(0.1,0.3)") == ("learner.clip", SearchRange(0.1, 0.3))
    assert SearchRange.parse("network.activation=tanh|relu")[1].choices == ("tanh", "relu")


@pytest.mark.parametrize(
    "text",
    ["learner.lr", "learner.lr=0.1", "learner.lr=log(0,1)", "learner.lr=(2,1)", "learner.epochs=int(1.5,3)", "=(1,2)"],
)
def test_what_is_no_range_is_refused(text):
    with pytest.raises(OrbitccError, match="--search"):
        SearchRange.parse(text)


@pytest.mark.parametrize("name", recipe.names())
def test_every_recipe_has_something_to_search_by_habit_within_what_is_allowed(name):
    space = default_space(recipe.load(name))
    assert any(key.endswith("lr") for key in space)
    for key, values in space.items():
        for end in (values.low, values.high):
            recipe.load(name, [f"{key}={end}"])


def test_a_range_beyond_what_is_allowed_is_told_before_anything_is_tried(tmp_path):
    pytest.importorskip("optuna")
    with pytest.raises(OrbitccError, match="learner.clip"):
        tune("ppo-leo", SMALL, {"learner.clip": SearchRange(0.1, 3.0)}, trials=1, seeds=[1], folder=tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("learner.lr=0.1", "learner.lr"),
        (" learner.lr = 0.1", "learner.lr"),
        ("learner={lr=0.1}", "learner.lr"),
        ("network.hidden=[4]", "network"),
    ],
)
def test_a_value_for_all_trials_of_what_is_searched_is_refused(tmp_path, change, key):
    pytest.importorskip("optuna")
    fixed = change.partition("=")[0].strip()
    with pytest.raises(OrbitccError, match=f"^--set: '{fixed}' is not .* another field than {key}, which is searched"):
        tune("ppo-leo", [change], {key: SearchRange(1e-4, 1e-2)}, trials=1, seeds=[1], folder=tmp_path / "t")
    assert not (tmp_path / "t").exists()
    tuning._check("ppo-leo", ["learner.lr_final=1e-6"], {"learner.lr": SearchRange(1e-4, 1e-2)})  # only begins alike


def test_what_is_set_is_not_searched_by_habit():
    plan = recipe.load("ppo-leo", ["learner.lr=1e-3"])
    assert set(default_space(plan)) - set(default_space(plan, ["learner.lr=1e-3"])) == {"learner.lr"}


def test_a_folder_holds_one_search(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    pytest.importorskip("torch")
    monkeypatch.setattr(tuning, "_tune", lambda *arguments: arguments)
    asked = {"trials": 1, "seeds": [1], "folder": tmp_path / "t"}
    space = {"learner.lr": SearchRange(1e-4, 1e-2, "log")}
    tune("ppo-leo", SMALL, space, **asked)
    tune("ppo-leo", SMALL, space, **{**asked, "trials": 2})  # more of the same
    others = [
        ("recipe", lambda: tune("perigee", [], space, **asked)),
        ("recipe", lambda: tune("ppo-leo", [*SMALL, "learner.gamma=0.9"], space, **asked)),
        ("space", lambda: tune("ppo-leo", SMALL, {"learner.lr": SearchRange(1e-4, 1e-3, "log")}, **asked)),
        ("training seeds", lambda: tune("ppo-leo", SMALL, space, **{**asked, "seeds": [1, 2]})),
        ("seed", lambda: tune("ppo-leo", SMALL, space, seed=5, **asked)),
    ]
    for what, other in others:
        with pytest.raises(OrbitccError, match=f"this one has another {what}"):
            other()


def test_nothing_is_left_of_a_search_that_is_refused(tmp_path):
    pytest.importorskip("optuna")
    pytest.importorskip("ray")
    folder = tmp_path / "t"
    with pytest.raises(OrbitccError, match="127.0.0.1:1"):
        tune(
            "ppo-leo",
            SMALL,
            {"learner.lr": SearchRange(1e-4, 1e-2)},
            trials=1,
            seeds=[1],
            folder=folder,
            ray="127.0.0.1:1",
        )
    assert not folder.exists()


@pytest.mark.slow
def test_a_search_tries_keeps_and_goes_on(tmp_path):
    pytest.importorskip("optuna")
    pytest.importorskip("torch")
    folder = tmp_path / "search"
    changes = [word for change in SMALL for word in ("--set", change)]
    command = ["tune", "ppo-leo", *changes, "--search", "learner.lr=log(1e-4,1e-2)", "--out", str(folder), "--json"]
    first = orbitcc(*command, "--trials", "1")
    assert first.returncode == 0, first.stderr
    again = orbitcc(*command, "--trials", "2")
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert found["complete"] + found["pruned"] == 2
    rows = list(csv.DictReader((folder / "trials.csv").open()))
    assert len(rows) == 2
    assert rows[0]["learner.lr"] != rows[1]["learner.lr"]
    best = max(float(row["score"]) for row in rows if row["score"])
    assert found["best_score"] == best
    assert recipe.load(str(folder / "best.toml")).learner.lr == found["best"]["learner.lr"]
    runs = list((folder / "runs").iterdir())
    assert len(runs) == 2
    kept = [json.loads((run / "state" / "progress.json").read_text()) for run in runs]
    (best_at,) = {one["best_at"] for one in kept if one["best_score"] == best}
    assert found["untrained"] == ([1] if best_at == 0 else [])


@pytest.mark.slow
def test_a_search_that_is_interrupted_names_what_its_user_can_do(tmp_path):
    pytest.importorskip("optuna")
    pytest.importorskip("torch")
    endless = ["agent_steps=100_000_000", *SMALL[1:], "evaluation.give_up_after=0"]
    words = [word for change in endless for word in ("--set", change)]
    command = [sys.executable, "-m", "orbitcc.cli", "tune", "ppo-leo", *words, "--trials", "1", "--out", str(tmp_path)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 100
        while not list(tmp_path.glob("runs/*/state")) and time.monotonic() < until:
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=100)
    finally:
        running.kill()
    assert running.returncode == 130, said
    assert "trial 0, seed 1: interrupted; saved\n" in said
    assert "--resume" not in said + out
    assert out.endswith("interrupted; the same command continues\n")


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: ["{}", *lines[1:]],
        lambda lines: ["5", *lines[1:]],
        lambda lines: lines[1:],
        lambda lines: [line.replace('"learner.lr"', '"learner.gamma"') for line in lines],
        lambda lines: [line.replace('"values":[0.5]', '"values":[1e300]') for line in lines],
        lambda lines: [line.replace('"op_code":4', '"op_code":99') for line in lines],
        lambda lines: [line.replace('"worker_id"', '"worker"') for line in lines],
    ],
)
def test_a_damaged_journal_is_one_line(damage, tmp_path):
    optuna = pytest.importorskip("optuna")
    path = tmp_path / "journal.log"

    def study():
        return journal.study(path, "s")

    for _ in range(2):  # the second goes on with the first one's digests
        trial = study().ask({"learner.lr": optuna.distributions.FloatDistribution(0, 1)})
        study().tell(trial, 0.5)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(damage(lines)) + "\n")
    with pytest.raises(OrbitccError, match=r"journal\.log line \d+: .*an entry of Optuna's journal"):
        study()
    path.write_text("\n".join(lines) + "\nhalf of a li")
    assert [trial.value for trial in study().trials] == [0.5, 0.5]


def resealed(path, change):
    """The journal with other entries, whose digests fit."""
    entries = [{k: v for k, v in json.loads(line).items() if k != "digest"} for line in path.read_text().splitlines()]
    lines, last = [], ""
    for entry in change(entries):
        last = journal._digest(last, entry)
        lines.append(json.dumps({**entry, "digest": last}))
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: [*entries, {"op_code": 99, "worker_id": "x"}],
        lambda entries: [*entries, {"worker_id": "x"}],
        lambda entries: [*entries, {"op_code": None}],
        lambda entries: entries[1:],
        lambda entries: [{**entries[0], "study_name": [1]}, *entries[1:]],
    ],
)
def test_entries_without_sense_are_one_line_though_their_digests_fit(change, tmp_path):
    pytest.importorskip("optuna")
    path = tmp_path / "journal.log"
    study = journal.study(path, "s")
    study.tell(study.ask(), 0.5)
    resealed(path, change)
    with pytest.raises(OrbitccError, match=r"journal\.log: .*a journal of this kind of search"):
        journal.study(path, "s")


SPACE = {"learner.lr": SearchRange(1e-4, 1e-2, "log"), "network.hidden": SearchRange(choices=([4], [8]))}


@pytest.mark.parametrize(
    ("space", "change"),
    [
        (SPACE, None),
        (SPACE | {"learner.lr": SearchRange(1e-4, 1e-3, "log")}, "range"),
        (SPACE | {"learner.clip": SearchRange(0.1, 0.3)}, "one more"),
        ({"learner.lr": SPACE["learner.lr"]}, "one less"),
        (
            SPACE,
            lambda entry: entry | ({"param_value_internal": 5.0} if entry.get("param_name") == "learner.lr" else {}),
        ),
        (SPACE, "waits"),
    ],
)
@pytest.mark.filterwarnings("ignore:Choices for a categorical")
def test_a_trial_that_the_search_would_not_try_is_refused(space, change, tmp_path):
    pytest.importorskip("optuna")
    path = tmp_path / "journal.log"
    study = journal.study(path, "s")
    trial = study.ask()
    tuning._drawn(SPACE, trial)
    study.tell(trial, 0.5)
    if change == "waits":
        study.enqueue_trial({"learner.lr": 5e-3})
    elif callable(change):
        resealed(path, lambda entries: map(change, entries))
    found = journal.study(path, "s")
    if change is None:
        journal.check_trials(found, path, lambda trial: tuning._drawn(space, trial))
    else:
        with pytest.raises(
            OrbitccError, match=r"the journal of this search alone \(trial [01] has values that it would"
        ):
            journal.check_trials(found, path, lambda trial: tuning._drawn(space, trial))


@pytest.mark.parametrize("values", [[0.5, 0.6], [float("inf")], ["0.9"], [True]])
def test_a_trial_whose_result_is_not_one_number_is_refused(values, tmp_path):
    pytest.importorskip("optuna")
    path = tmp_path / "journal.log"
    study = journal.study(path, "s")
    study.tell(study.ask(), 0.5)
    resealed(path, lambda entries: [e | ({"values": values} if "values" in e else {}) for e in entries])
    with pytest.raises(OrbitccError, match=r"another result than one number|as it was written"):
        journal.check_trials(journal.study(path, "s"), path, lambda trial: None)


def test_a_journal_that_minimises_is_refused(tmp_path):
    pytest.importorskip("optuna")
    path = tmp_path / "journal.log"
    journal.study(path, "s")
    resealed(path, lambda entries: [{**entry, "directions": [1]} for entry in entries])
    with pytest.raises(OrbitccError, match="it does not maximise"):
        journal.study(path, "s")


def test_scores_are_those_of_the_run_folders(tmp_path, monkeypatch):
    stored = {1: 0.25, 2: 0.75}
    monkeypatch.setattr(
        tuning, "TrainingResult",
        SimpleNamespace(stored=lambda run, plan: SimpleNamespace(best_score=stored[run.config("seed")["seed"]])),
    )  # fmt: skip
    for seed in stored:
        plan = tuning._plan("ppo-leo", SMALL, {"learner.lr": 1e-3})
        tuning.new_run(plan, seed, tmp_path / "runs", "trial 0 of somewhere")

    def check(number=0, value=0.5, rate=1e-3):
        trial = SimpleNamespace(number=number, value=value, params={"learner.lr": rate})
        tuning._check_scores([trial], tmp_path, "ppo-leo", SMALL, (1, 2))

    check()
    for other, said in (
        ({"value": 0.9}, "trial 0 has another score than its runs"),
        ({"number": 1}, "trial 1 has no run with its values"),
        ({"rate": 2e-3}, "trial 0 has no run with its values"),
    ):
        with pytest.raises(OrbitccError, match=said):
            check(**other)


class Trial:
    number, params = 7, {"learner.lr": 1e-3}


class Study:
    def __init__(self):
        self.told = []

    def tell(self, trial, value=None, state=None):
        self.told.append((value, state and state.name))


@pytest.mark.parametrize(
    ("codes", "asked", "told"),
    [
        ((0, 0), False, [(0.25, None)]),
        ((0, INTERRUPTED), True, [(None, "FAIL")]),
        ((INTERRUPTED, 0), True, [(None, "FAIL")]),  # not the mean of those that have ended
        ((0, INTERRUPTED), False, "was stopped"),
        ((0, 1), False, "failed"),
    ],
)
def test_a_trial_counts_only_with_all_of_its_seeds(codes, asked, told, tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    outcome = SimpleNamespace(best_score=0.25, untrained=False)
    monkeypatch.setattr(tuning, "TrainingResult", SimpleNamespace(stored=lambda run, recipe: outcome))
    plan, study = recipe.load("ppo-leo"), Study()
    jobs = [Job(plan, seed, RunFolder(tmp_path / str(seed)), False, "") for seed in (1, 2)]
    trying = tuning._Trying(study, lambda text: None)
    trying.running = SimpleNamespace(submit=lambda job, who: None)
    trying.begin(Trial(), lambda trial: jobs)
    trying.end(jobs[0], codes[0], asked)
    if isinstance(told, str):
        with pytest.raises(OrbitccError, match=f"trial 7 {told}; the same command continues"):
            trying.end(jobs[1], codes[1], asked)
    else:
        trying.end(jobs[1], codes[1], asked)
        assert study.told == told
