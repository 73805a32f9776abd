"""Several training seeds: how they are asked for, trained side by side, interrupted, resumed and summed up."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3")

from orbitcc.agents.runs import seal
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.cli import main
from orbitcc.training import seeds
from orbitcc.training.loop import DIVERGED, INTERRUPTED, TrainingResult
from orbitcc.training.remote import Job
from orbitcc.training.seeds import SeedResult, exit_code, median_seed, over_seeds, print_summary, summary

SMALL = (
    "agent_steps=2000",
    "evaluation.every=1000",
    "evaluation.worlds=1",
    "learner.flows=8",
    "learner.batch=512",
    "learner.minibatch=256",
)
SETTINGS = [word for change in SMALL for word in ("--set", change)]


def result(seed: int, score: float, code: int = 0) -> SeedResult:
    best = dict.fromkeys(("utilisation", "score"), score)
    outcome = TrainingResult(RunFolder(Path(f"run-{seed}")), 1000, code == 0, best, best, score)
    return SeedResult(seed, outcome.run, code, outcome)


def ask(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["orbitcc", "train", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code or 0


@pytest.mark.parametrize(
    "words",
    [
        ["sb3-ppo-leo", "--seed", "3", "1", "2"],
        ["--seed", "3", "1", "2", "sb3-ppo-leo"],
        ["sb3-ppo-leo", "--seed", "3", "--seed", "1", "--seed", "2"],
        ["sb3-ppo-leo", "--seed=3", "1", "--seed", "2"],
    ],
)
def test_seeds_come_after_one_flag_or_several(words, tmp_path, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(seeds, "train_all", lambda jobs, at_once, ray: asked.extend([*jobs, at_once]) or [])
    assert ask(monkeypatch, *words, "--jobs", "2", "--out", str(tmp_path)) == 0
    *jobs, at_once = asked
    assert [job.seed for job in jobs] == [3, 1, 2]
    assert at_once == 2
    for job in jobs:
        assert job.run.config()["seed"] == job.seed
        assert job.run.config()["command"] == f"orbitcc train sb3-ppo-leo --seed {job.seed}"
        assert not job.resume


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "1", "2", "1"], "different seeds"),
        (["--seed", "1", "two"], "two"),
        (["--seed", "1", "2", "--jobs", "0"], "--jobs"),
        (["--seed", "1", "--jobs", "2"], "--jobs: 2 is not allowed; allowed: 1 with one seed"),
        (["--seed", "1", "2", "--jobs", "2", "--ray", "local"], "--jobs: 2 is not allowed; allowed: 1 with --ray"),
        (["--trust", "mine"], "--trust: it is for the state of a run that --resume continues"),
        (["--seed", "1", "2", "--resume"], "resume"),
    ],
)
def test_seeds_that_cannot_be_are_one_line(words, message, tmp_path, monkeypatch, capsys) -> None:
    assert ask(monkeypatch, "sb3-ppo-leo", *words, "--out", str(tmp_path / "runs")) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_the_summary_names_the_mean_and_the_median_seed(capsys) -> None:
    # 0.9 was interrupted: it does not count, a seed that failed does
    results = [result(4, 0.4), result(1, 0.1, DIVERGED), result(9, 0.9, INTERRUPTED), result(2, 0.2), result(3, 0.3)]
    assert over_seeds(results).value == pytest.approx(0.25)
    assert median_seed(results).seed == 2  # the lower one of 0.2 and 0.3
    print_summary(results)
    said = capsys.readouterr().out
    assert "seed 1: failed, 1,000 agent steps, best score 0.1000" in said
    assert "seed 9: interrupted" in said
    assert "over 4 of 5 seeds" in said
    assert "median seed 2: run-2/best" in said
    assert json.loads(json.dumps(summary(results)))["median_seed"] == 2


def test_the_exit_code_is_that_of_the_worst() -> None:
    crashed = replace(result(7, 0.1), code=1, outcome=None)
    assert exit_code([result(1, 0.1)]) == 0
    assert exit_code([result(1, 0.1), result(2, 0.1, DIVERGED)]) == DIVERGED
    assert exit_code([result(2, 0.1, DIVERGED), crashed]) == 1
    assert exit_code([crashed, result(2, 0.1, INTERRUPTED), result(3, 0.1, -signal.SIGTERM)]) == INTERRUPTED
    assert over_seeds([crashed]) is None
    assert median_seed([crashed]) is None


@pytest.mark.slow
def test_a_seed_that_crashes_does_not_stop_the_others(tmp_path: Path, capfd) -> None:
    from orbitcc.training import recipe

    def job(seed: int, scenario: str) -> Job:
        plan = recipe.load("sb3-ppo-leo", [*SMALL, f"scenario={scenario}"])
        about = {"recipe": plan.model_dump(), "revision": "test"}
        run = RunFolder.create(tmp_path, scenario, plan.name, seed, about)
        return Job(plan, seed, run, False, "test")

    first, second = seeds.train_all([job(1, str(tmp_path / "gone.toml")), job(2, "train-leo")], at_once=1)
    assert (first.status, first.outcome) == ("crashed", None)
    assert second.status == "finished"
    said = capfd.readouterr().err
    assert "seed 1: error: " in said
    assert "gone.toml" in said


@pytest.mark.slow
def test_interrupted_seeds_save_and_are_resumed_where_they_were(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "orbitcc.cli", "train", "sb3-ppo-leo", "--out", str(tmp_path), "--seed"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    seeds_asked = ["1", "2", "3", "--jobs", "2"]
    endless = [*SETTINGS[2:], "--set", "agent_steps=100_000_000", "--set", "evaluation.give_up_after=0"]
    process = subprocess.Popen([*command, *seeds_asked, *endless], env=environment, start_new_session=True)
    try:
        deadline = time.monotonic() + 240
        while len(list(tmp_path.glob("*/state/progress.json"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(1.0)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
        assert process.wait(timeout=120) == INTERRUPTED
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    folders = {path.name.split("__")[2]: path for path in tmp_path.iterdir()}
    assert sorted(folders) == ["1", "2", "3"]
    assert not (folders["3"] / "state").exists()  # never begun
    reached = {}
    for seed, folder in folders.items():
        config = RunFolder(folder).config()
        if seed != "3":
            stored = folder / "state" / "progress.json"
            progress = json.loads(stored.read_text(encoding="utf-8"))
            reached[seed] = progress["agent_steps"]
            if seed == "1":  # its last evaluation was at the end
                stored.write_text(json.dumps({**progress, "evaluated_at": reached[seed]}), encoding="utf-8")
                seal.seal(folder / "state")
        config["recipe"]["agent_steps"] = {"1": reached.get("1"), "2": reached.get("2", 0) + 600, "3": 600}[seed]
        RunFolder(folder).write_config(config)
    assert all(steps > 0 for steps in reached.values())

    before = (folders["1"] / "metrics.csv").stat().st_mtime_ns
    again = [*command, *seeds_asked, "--resume", "--json"]
    done = subprocess.run(again, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["status"] for row in found["seeds"]] == ["finished"] * 3
    assert (folders["1"] / "metrics.csv").stat().st_mtime_ns == before  # it was done: left alone
    assert found["seeds"][1]["agent_steps"] >= reached["2"] + 600
    assert found["seeds"][2]["agent_steps"] >= 600
    assert len(list(tmp_path.iterdir())) == 3  # the same folders
    assert found["score"]["seeds"] == 3
    assert (found["score"]["low"], found["score"]["high"], found["score"]["seeds"]) == (None, None, 3)  # too few


@pytest.mark.slow
def test_training_processes_end_with_the_command_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "orbitcc.cli", "train", "ppo-leo", "--seed", "1", "2", "--jobs", "2"]
    endless = [word for change in ("agent_steps=100_000_000", *SMALL[1:]) for word in ("--set", change)]
    process = subprocess.Popen([*command, *endless, "--out", str(tmp_path)], start_new_session=True)
    try:
        deadline = time.monotonic() + 240
        while len(list(tmp_path.glob("*/state/progress.json"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        process.kill()
        process.wait()
        left = [True]
        while any(left) and time.monotonic() < deadline:
            time.sleep(0.2)
            left = [
                int(path.read_text().split(")")[1].split()[2]) == process.pid
                for path in Path("/proc").glob("[0-9]*/stat")
            ]
        assert not any(left)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
