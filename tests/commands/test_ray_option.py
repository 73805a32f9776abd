"""`--ray` takes an address or none, and leaves the next option alone."""

import pytest
from typer.main import get_command

from benches.leaderboard import __main__ as leaderboard
from orbitcc.cli import app

FIRST = {"eval": "responsiveness", "reproduce": "leo", "assess": "reno", "search": "reno", "tune": "ppo-leo"}


@pytest.mark.parametrize("name", ["eval", "reproduce", "assess", "search", "train", "tune"])
def test_an_address_is_optional(name: str) -> None:
    command, first = get_command(app).commands[name], FIRST.get(name, "ppo-leo")

    def asked(*words: str) -> object:
        return command.make_context(name, [first, *words]).params["ray"]

    assert asked() is None
    assert asked("--ray") == "auto"
    assert asked("--ray", "--out", "folder") == "auto"
    assert asked("--ray", "10.0.0.1:6379", "--out", "folder") == "10.0.0.1:6379"
    assert asked("--ray=local") == "local"
    assert asked("--ray", "ray://head:10001") == "ray://head:10001"


def test_a_name_after_it_is_not_taken_for_an_address() -> None:
    found = get_command(app).commands["train"].make_context("train", ["--ray", "ppo-leo", "--seed", "1", "2"]).params
    assert (found["recipe"], found["ray"], list(found["seed"])) == ("ppo-leo", "auto", [1, 2])


def test_the_leaderboard_takes_it_too(monkeypatch, tmp_path) -> None:
    asked = []
    monkeypatch.setattr(leaderboard, "run", lambda *rest: asked.append(rest[-1]) or [])
    monkeypatch.setattr(leaderboard.cluster, "joined", lambda address: pytest.MonkeyPatch.context())
    for words in ([], ["--ray"], ["--ray", "10.0.0.1:6379"]):
        leaderboard.main([str(tmp_path), "--suites", "responsiveness", *words])
    assert asked == [None, "auto", "10.0.0.1:6379"]
