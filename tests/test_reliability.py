"""Short runs of the programs behind docs/reliability.md: kills at random moments, and fuzzed files."""

import random
from pathlib import Path

import pytest

from benches import fuzz, kills
from orbitcc.envs.errors import OrbitccError

SECONDS = 2.0
"""Of fuzzing each kind of file in every test run; `python -m benches.fuzz` does a minute, weekly."""


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_damaged_files_are_refused_in_one_line_or_read(name: str, tmp_path: Path) -> None:
    if name == "run":
        pytest.importorskip("torch")
    for kept in (fuzz.CORPUS / name).glob("*"):
        folder = tmp_path / kept.name
        folder.mkdir()
        target = fuzz.TARGETS[name](folder)
        assert fuzz.failure(target, kept.read_bytes(), target.seeds()) == "", kept
    told: list[str] = []
    failures = fuzz.fuzz(name, SECONDS, fuzz.today(), tmp_path / "corpus", told.append)
    print("\n".join(told))
    assert failures == 0, told


def test_the_fuzzer_notices_what_it_looks_for(tmp_path: Path) -> None:
    class Reader(fuzz.Target):
        accepts = False

        def seeds(self) -> list[bytes]:
            return []

        def read(self, data: bytes) -> None:
            if data == b"traceback":
                raise KeyError("x")
            if data == b"lines":
                raise OrbitccError("a", "b", "c\nd")
            if data == b"refused":
                raise OrbitccError("a", "b", "c")

    reader = Reader(tmp_path)
    tried = (b"traceback", b"lines", b"refused", b"sound", b"x")
    found = {data: fuzz.failure(reader, data, [b"sound"]) for data in tried}
    assert found == {
        b"traceback": "KeyError: 'x'",
        b"lines": "an error of 2 lines",
        b"refused": "",
        b"sound": "",
        b"x": "accepted",
    }


@pytest.mark.slow
def test_a_training_that_is_killed_ends_as_one_that_was_not() -> None:
    pytest.importorskip("torch")
    subject = kills.training("ppo-leo", 4_000, *kills.PPO)
    problems, told = kills.torment(subject, 2, random.Random(fuzz.today()))
    print(told)
    assert problems == []


def test_a_result_that_differs_is_noticed() -> None:
    """A subject whose result is drawn anew in every folder."""
    changing = kills.Subject(("list", "suites"), ("list", "suites"), lambda out: random.random())
    problems, _ = kills.torment(changing, 0, random.Random(1))
    assert len(problems) == 1
    assert "the result differs" in problems[0]
