"""Short runs of the programs behind docs/reliability.md: kills at random moments, and fuzzed files."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benches import fuzz, kills
from orbitcc.common.errors import OrbitccError

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
    class TwoLinesError(OrbitccError):
        def __str__(self) -> str:
            return "a\nb"

    class Reader(fuzz.Target):
        accepts = False

        def seeds(self) -> list[bytes]:
            return []

        def read(self, data: bytes) -> None:
            if data == b"traceback":
                raise KeyError("x")
            if data == b"lines":
                raise TwoLinesError("a", "b", "c")
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


has_clock = pytest.mark.skipif(
    sys.platform != "linux",
    reason="the clock of a command is set by a library for Linux: .github/workflows/ci.yml runs it there",
)


@pytest.mark.slow
@pytest.mark.parametrize("clock_back", [False, pytest.param(True, marks=has_clock)])
def test_a_training_that_is_killed_ends_as_one_that_was_not(clock_back: bool) -> None:
    pytest.importorskip("torch")
    subject = kills.training("ppo-leo", 4_000, *kills.PPO)
    problems, told = kills.torment(subject, 2, random.Random(fuzz.today()), clock_back)
    print(told)
    assert problems == []


@pytest.mark.slow
@has_clock
def test_a_data_set_and_trials_are_the_same_when_the_clock_goes_back() -> None:
    for name in ("dataset", "tune"):
        problems, told = kills.torment(kills.SUBJECTS[name], 1, random.Random(fuzz.today()), clock_back=True)
        print(told)
        assert problems == []


@has_clock
def test_the_clock_of_a_process_goes_back_while_it_runs(tmp_path: Path) -> None:
    """What commands look at: the time of day in Python, in its C library and of `date`; intervals stay."""
    clock = kills.Clock(tmp_path)
    says = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", says], env={**os.environ, **clock.variables}, **pipes) as process:

        def ask() -> tuple[float, ...]:
            process.stdin.write("\n")
            process.stdin.flush()
            return tuple(float(word) for word in process.stdout.readline().split())

        before = ask()
        clock.set_back()
        after = ask()
    assert after[0] - before[0] == pytest.approx(-3600, abs=60)
    assert 0 <= after[1] - before[1] < 60
    date = subprocess.run(["date", "+%s"], env={**os.environ, **clock.variables}, capture_output=True, text=True)
    assert int(date.stdout) == pytest.approx(time.time() - 3600, abs=60)


def test_a_result_that_differs_is_noticed() -> None:
    """A subject whose result is drawn anew in every folder."""
    changing = kills.Subject(("list", "suites"), ("list", "suites"), lambda out: random.random())
    problems, _ = kills.torment(changing, 0, random.Random(1))
    assert len(problems) == 1
    assert "the result differs" in problems[0]
