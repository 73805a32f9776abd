"""`orbitcc train`: what the user got wrong is one line and exit code 2, before anything is written."""

import sys
from pathlib import Path

import pytest

from orbitcc.agents import checkpoint
from orbitcc.cli import main
from orbitcc.eval.contenders import from_policy
from tests.training.named import of


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ppo-lea"], "did you mean 'ppo-leo'"),
        ([of("ppo-mixed"), "--set", "learner.lr=nan"], "learner.lr"),
        ([of("ppo-mixed"), "--set", "scenario=train-mix"], "did you mean 'train-mixed'"),
        ([of("ppo-mixed"), "--set", "preset=astrea"], "did you mean 'astraea'"),
        ([of("ppo-mixed"), "--resume"], "resume"),
        ([of("ppo-mixed"), "--resume", "--set", "learner.lr=1e-4"], "a folder with a run"),
        (["ppo-leo", "--seed", str(2**70)], "--seed: "),
        (["ppo-leo", "--set", "learner.lr=1e-4", "--set", "learner.lr=1e-5"], "--set: 'learner.lr' is not allowed"),
        (["ppo-leo", "--set", "start_from=nowhere"], "start_from: unknown policy 'nowhere'"),
        (["ppo-leo", "--logbook", "os:getcwd"], "--logbook: 'os:getcwd' is not allowed"),
    ],
)
def test_bad_input_is_one_line(arguments, message: str, tmp_path: Path, monkeypatch, capsys) -> None:
    out = tmp_path / "runs"
    monkeypatch.setattr(sys, "argv", ["orbitcc", "train", *arguments, "--out", str(out)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("words", [["--set", "start_from=perigee"], ["--logbook", "builtins:print"]])
def test_nothing_is_left_of_a_run_that_never_began(words: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "argv", ["orbitcc", "train", "ppo-leo", *SMALL, *words, "--out", str(tmp_path / "runs")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")
    assert not (tmp_path / "runs").exists()


def test_an_unwritable_place_is_one_line(tmp_path: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("ray.rllib")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(sys, "argv", ["orbitcc", "train", of("ppo-mixed"), "--out", str(tmp_path / "file")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


SMALL = (
    *("--set", "agent_steps=2000", "--set", "learner.flows=8"),
    *("--set", "learner.batch=512", "--set", "learner.minibatch=256"),
    *("--set", "learner.epochs=1", "--set", "evaluation.worlds=2", "--set", "evaluation.every=1000"),
    *("--set", "scenario={name = 'train-leo', duration_s = 10}"),
)


def test_a_named_run_is_called_by_its_name_and_goes_on_with_equal_settings(tmp_path: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("torch")

    def train(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["orbitcc", "train", "ppo-leo", *arguments, "--out", str(tmp_path)])
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0), capsys.readouterr().err

    assert train(*SMALL, "--name", "Mine.2")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["Mine.2"]
    assert checkpoint.load(tmp_path / "Mine.2" / "best").card.name == "mine.2"
    assert from_policy(str(tmp_path / "Mine.2" / "last")).label == "mine.2"
    code, error = train(*SMALL, "--name", "Mine.2")
    assert (code, "--resume to continue that run" in error) == (2, True)
    assert train(*SMALL, "--name", "Mine.2", "--resume")[0] == 0
    code, said = train("--name", "Mine.2", "--resume")
    assert (code, "the recipe has others: " in said) == (0, True)
    assert "agent_steps" in said
    code, said = train("--name", "Mine.2", "--seed", "5", "--resume")
    assert (code, "--seed: 5 is not allowed; allowed: 1, as in the run" in said) == (2, True)
    code, error = train(*SMALL, "--set", "learner.lr=1e-5", "--name", "Mine.2", "--resume")
    assert (code, "a resumed run keeps the values it began with" in error) == (2, True)
    for wrong in ("../elsewhere", "Cubic"):
        code, error = train("--name", wrong)
        assert (code, "--name" in error) == (2, True)


def test_a_named_run_that_was_killed_before_it_had_a_folder_begins_with_resume(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    """As a supervisor starts it, which always gives --resume."""
    pytest.importorskip("torch")
    words = ["train", "ppo-leo", "--name", "mine", "--resume", "--out", str(tmp_path / "runs"), *SMALL]
    monkeypatch.setattr(sys, "argv", ["orbitcc", *words])
    begins = "mine: no run of this name was there; it begins"
    for first in (True, False):
        with pytest.raises(SystemExit) as caught:
            main()
        assert not caught.value.code
        assert (begins in capsys.readouterr().err) == first
