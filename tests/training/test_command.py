"""`orbitcc train`: what the user got wrong is one line and exit code 2, before anything is written."""

import sys
from pathlib import Path

import pytest

from orbitcc.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ppo-mixt"], "did you mean 'ppo-mixed'"),
        (["ppo-mixed", "--set", "ppo.lr=nan"], "ppo.lr"),
        (["ppo-mixed", "--set", "scenario=train-mix"], "did you mean 'train-mixed'"),
        (["ppo-mixed", "--set", "preset=astrea"], "did you mean 'astraea'"),
        (["ppo-mixed", "--resume"], "resume"),
        (["ppo-mixed", "--resume", "--set", "ppo.lr=1e-4"], "a folder with a run"),
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


def test_an_unwritable_place_is_one_line(tmp_path: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("ray.rllib")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(sys, "argv", ["orbitcc", "train", "ppo-mixed", "--out", str(tmp_path / "file")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
