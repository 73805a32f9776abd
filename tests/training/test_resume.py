"""Resuming a run: what it needs, what it refuses, what it reports as lost, and that it never runs planted code."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from orbitcc.agents import checkpoint
from orbitcc.agents.runs import seal
from orbitcc.agents.runs.folders import locked
from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.common.errors import OrbitccError
from orbitcc.training import recipe, resume
from tests.commands.shell import called
from tests.training.named import of

WORLD = 'scenario={name="dumbbell", rate_mbps=10, base_rtt_ms=20, duration_s=4}'
TINY = (WORLD, "evaluation.worlds=1", "evaluation.every=400", "network.hidden=[8]")
OF = {
    "ppo-leo": ("learner.flows=8", "learner.batch=128", "learner.minibatch=64", "learner.epochs=1"),
    "astraea": (
        "least_agent_steps=1",
        "learner.worlds=2",
        "learner.iteration=100",
        "learner.learning_starts=100",
        "learner.batch=32",
        "learner.replay=2000",
    ),
    "sb3-ppo-leo": ("learner.flows=8", "learner.batch=128", "learner.minibatch=64", "learner.epochs=1"),
}


def settings(name: str, *more: str) -> list[str]:
    return [word for change in (*TINY, *OF[name], *more) for word in ("--set", change)]


def train(out: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return called("train", name, *words, "--out", str(out), "--json")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished run of our PPO."""
    out = tmp_path_factory.mktemp("runs")
    done = train(out, "ppo-leo", *settings("ppo-leo", "agent_steps=800"), "--name", "mine")
    assert done.returncode == 0, done.stderr
    return out / "mine"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, which has more to do."""
    path = Path(shutil.copytree(finished, tmp_path / "mine"))
    config = RunFolder(path).config()
    config["recipe"]["agent_steps"] = 1200
    RunFolder(path).write_config(config)
    return path


def resumed(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return train(run.parent, "ppo-leo", "--name", run.name, "--resume", *words)


class Planted:
    """What runs when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("name", ["worlds.pkl", "rest.pkl", "worlds.json", "ppo.safetensors"])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_planted_pickle_never_runs(name: str, sealed: bool, run: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (run / "state" / name).write_bytes(pickle.dumps(Planted(mark)))
    if sealed:
        seal.seal(run / "state")
    done = resumed(run)
    assert done.returncode == (0 if sealed and name.endswith(".pkl") else 2), done.stderr
    assert not mark.exists()


def test_the_state_of_another_library_is_loaded_only_if_this_user_saved_it(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("stable_baselines3")
    few = settings("sb3-ppo-leo", "agent_steps=400")
    assert train(tmp_path, "sb3-ppo-leo", *few, "--name", "mine").returncode == 0
    assert train(tmp_path, "sb3-ppo-leo", "--name", "mine", "--resume").returncode == 0
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    refused = train(tmp_path, "sb3-ppo-leo", "--name", "mine", "--resume")
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) <= 3  # the run's values, its folder, the error
    assert "can run code, and was not saved with your key" in refused.stderr
    assert "--trust mine" in refused.stderr
    for trusted in (["yours"], ["mine", "yours"]):
        words = [word for name in trusted for word in ("--trust", name)]
        unused = train(tmp_path, "sb3-ppo-leo", "--name", "mine", "--resume", *words)
        assert unused.returncode == 2
        assert "--trust: 'yours' is not allowed; allowed: mine" in unused.stderr
    assert train(tmp_path, "sb3-ppo-leo", "--name", "mine", "--resume", "--trust", "mine").returncode == 0


def test_a_run_is_resumed_by_its_folder_with_equal_settings(run: Path, tmp_path: Path) -> None:
    by_folder = train(tmp_path, str(run), "--resume", "--set", "learner.flows=8", "--set", "agent_steps=1200")
    assert by_folder.returncode == 0, by_folder.stderr
    assert json.loads(by_folder.stdout)["agent_steps"] >= 1200
    other = train(tmp_path, str(run), "--resume", "--set", "learner.flows=9")
    assert (other.returncode, "keeps the values it began with" in other.stderr) == (2, True)
    for words in (["--seed", "2"], ["--name", "yours"], ["--learner", "rllib"]):
        refused = train(tmp_path, str(run), "--resume", *words)
        assert (refused.returncode, f"{words[0]}: " in refused.stderr) == (2, True), refused.stderr
    refused = train(tmp_path / "elsewhere", str(run), "--resume")
    assert (refused.returncode, "--out: " in refused.stderr) == (2, True)
    assert not (tmp_path / "elsewhere").exists()
    nowhere = train(tmp_path, str(tmp_path / "nowhere"), "--resume")
    assert (nowhere.returncode, "the folder of a run" in nowhere.stderr) == (2, True)


def test_a_run_that_saved_nothing_begins_anew(run: Path) -> None:
    shutil.rmtree(run / "state")
    done = resumed(run)
    assert done.returncode == 0, done.stderr
    assert "nothing was saved; the run begins anew" in done.stderr
    assert json.loads(done.stdout)["agent_steps"] >= 1200


@pytest.mark.parametrize(
    ("name", "pickles"),
    [
        ("perigee", False),
        ("astraea", False),
        ("sb3-sac-leo", True),
        ("rllib-ppo-leo", True),
        ("rllib-dqn-leo", True),
        ("rllib-sac-worlds", True),
    ],
)
def test_what_another_user_saved_is_taken_only_without_pickles(name, pickles, tmp_path, monkeypatch) -> None:
    run, plan = RunFolder(tmp_path), recipe.load(of(name))
    run.state.mkdir()
    (run.state / resume.PROGRESS).write_text('{"agent_steps": 7}')
    seal.seal(run.state)
    assert resume.check_state(run, plan).agent_steps == 7
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    if pickles:
        with pytest.raises(OrbitccError, match="can run code"):
            resume.check_state(run, plan)
    assert resume.check_state(run, plan, trust=pickles).agent_steps == 7


@pytest.mark.parametrize("damaged", ["state/ppo.safetensors", "state/ppo.json", "state/worlds.json", "state/seal.json"])
def test_a_damaged_state_names_the_file_and_what_is_lost(damaged: str, run: Path) -> None:
    path = run / damaged
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    done = resumed(run)
    error = done.stderr.splitlines()[-1]
    assert done.returncode == 2
    assert path.name in error
    assert "its training is lost, but not the policies in best/ and last/" in error
    assert "Traceback" not in done.stderr


def test_a_run_goes_on_without_its_damaged_policies_and_figures(run: Path) -> None:
    (run / "best" / "policy.safetensors").write_bytes(b"")
    shutil.rmtree(run / "last")
    (run / "metrics.csv").write_bytes((run / "metrics.csv").read_bytes()[:200] + b"\xff\xfe")
    done = resumed(run)
    assert done.returncode == 0, done.stderr
    assert "the next evaluation writes best/ again" in done.stderr
    assert "the next evaluation writes last/ again" in done.stderr
    assert "metrics.csv: the figures after 0 of" in done.stderr
    for name in ("best", "last"):
        checkpoint.load(run / name)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"recipe": {"algorithm": "ppo"}}', "[" * 100_000])
def test_a_damaged_configuration_is_one_line(text: str, run: Path) -> None:
    (run / "config.json").write_text(text)
    done = resumed(run)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_no_flipped_bit_gives_another_configuration(run: Path) -> None:
    path, chosen = run / "config.json", RunFolder(run).config()
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 7):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert RunFolder(run).config() == chosen  # another space, say
        except OrbitccError:
            continue


def test_what_a_killed_process_leaves_is_put_in_order(run: Path) -> None:
    (run / "state").rename(run / ".state.0123abcd.old")
    (run / ".last.0123abcd.tmp").mkdir()
    (run / ".metrics.csv.0123abcd.tmp").write_text("half")
    done = resumed(run)
    assert done.returncode == 0, done.stderr
    assert "begins anew" not in done.stderr
    assert not list(run.glob(".*"))


def test_two_processes_cannot_train_in_one_folder(run: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from orbitcc.agents.runs.folders import locked\n"
        "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "locked\n"
        done = resumed(run)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert f"process {holder.pid}) writes to it" in done.stderr
    finally:
        holder.kill()
        holder.wait()
    with locked(run):  # it ends with the process
        pass
    assert not (run / ".lock").exists()


@pytest.mark.parametrize("recipe", ["ppo-leo", "astraea"])
def test_an_interrupted_run_ends_as_one_that_was_not(recipe: str, tmp_path: Path, monkeypatch) -> None:
    """SIGTERM after the second iteration: weights, selection and figures are those of a run without it, bit for bit."""
    from orbitcc.training import loop

    few = settings(recipe, "agent_steps=1000")
    assert train(tmp_path, recipe, *few, "--name", "whole").returncode == 0
    display = loop.Display.update
    updates = []

    def update(self, *words) -> None:
        display(self, *words)
        updates.append(1)
        if len(updates) == 2:
            os.kill(os.getpid(), loop.signal.SIGTERM)

    monkeypatch.setattr(loop.Display, "update", update)
    assert train(tmp_path, recipe, *few, "--name", "parts").returncode == loop.INTERRUPTED
    done = train(tmp_path, recipe, "--name", "parts", "--resume")
    assert done.returncode == 0, done.stderr
    assert figures(tmp_path / "parts") == figures(tmp_path / "whole")
    for name in ("best", "last"):
        ours, theirs = (checkpoint.read_tensors(tmp_path / run / name) for run in ("parts", "whole"))
        assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)


@pytest.mark.parametrize("recipe", ["ppo-leo", "astraea"])
@pytest.mark.parametrize("phase", ["part 3/", "decision by decision"])
def test_an_interrupt_ends_an_evaluation_too(recipe: str, phase: str, tmp_path: Path, monkeypatch) -> None:
    """SIGTERM in the second evaluation: the run ends at once, and goes on as one without an interrupt, bit for bit."""
    from orbitcc.training import loop

    few = settings(recipe, "agent_steps=1000")
    assert train(tmp_path, recipe, *few, "--name", "whole").returncode == 0
    working, update = loop.Display.working, loop.Display.update
    begun, later = [], []

    def work(self, text: str) -> None:
        working(self, text)
        if begun and later:
            later.append(text)
        elif begun and phase in text:
            later.append(text)
            os.kill(os.getpid(), loop.signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Display, "working", work)
        patch.setattr(loop.Display, "update", lambda self, *words: (begun.append(1), update(self, *words)))
        stopped = train(tmp_path, recipe, *few, "--name", "parts")
    assert stopped.returncode == loop.INTERRUPTED
    assert "interrupted; saved" in stopped.stderr
    assert len(later) == 1, "nothing is evaluated after the signal"
    assert train(tmp_path, recipe, "--name", "parts", "--resume").returncode == 0
    assert figures(tmp_path / "parts") == figures(tmp_path / "whole")
    for name in ("best", "last"):
        ours, theirs = (checkpoint.read_tensors(tmp_path / run / name) for run in ("parts", "whole"))
        assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)


def test_figures_of_an_evaluation_stand_once_though_the_process_is_killed_before_it_saves(run, tmp_path, monkeypatch):
    from orbitcc.training import loop

    whole = Path(shutil.copytree(run, tmp_path / "other" / "mine"))
    assert resumed(whole).returncode == 0

    def interrupt(self: loop.Display, text: str) -> None:
        os.kill(os.getpid(), loop.signal.SIGTERM)

    def killed(self: loop._Loop) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(loop.Display, "working", interrupt)
        assert resumed(run).returncode == loop.INTERRUPTED  # saved without its evaluation
    with monkeypatch.context() as patch:
        patch.setattr(loop._Loop, "_save_state", killed)
        assert "killed" in resumed(run).stderr  # the evaluation is written
    assert len(figures(run)) == len(figures(whole))
    assert resumed(run).returncode == 0
    assert figures(run) == figures(whole)


def test_the_state_is_also_saved_between_evaluations(run: Path, monkeypatch) -> None:
    from orbitcc.training import loop

    saves = []
    save = loop._Loop._save_state
    monkeypatch.setattr(loop, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(loop, "SAVE_SHARE", 1e9)
    monkeypatch.setattr(loop._Loop, "_save_state", lambda self: (saves.append(self.progress.agent_steps), save(self)))
    assert resumed(run).returncode == 0
    between = [steps for steps in saves if 800 < steps < 1200]
    assert len(between) >= 2, saves  # 128 decisions per iteration, an evaluation after 400


def figures(run: Path) -> list[str]:
    """The rows of metrics.csv but those of times."""
    rows = (run / "metrics.csv").read_text(encoding="utf-8").splitlines()
    return [row for row in rows if not any(word in row for word in ("seconds", "per_s"))]


def test_a_run_does_not_go_on_in_other_worlds(run: Path) -> None:
    config = RunFolder(run).config()
    RunFolder(run).write_config({**config, "worlds": "0" * 12})  # as if the file of its scenario had changed
    done = resumed(run)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "the worlds of dumbbell are not those with which the run began" in done.stderr
