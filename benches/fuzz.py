"""Damages files at random and checks that each is refused in one line or read as if nothing had happened.

    python -m benches.fuzz [scenario card run recording results] [--seconds 60] [--seed N] [--corpus FOLDER]

Files are changed by flipped bits, cut and repeated parts, and words that break readers. An input fails if the reader
raises anything but OrbitccError, writes more than one line, takes longer than 5 s of processor time, or gives a number
that is not finite; a damaged card, weight file or state fails, too, if it is accepted. Inputs that failed are kept in
the corpus and tried first the next time (`tests/data/corpus` in the repository).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
import shutil
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from orbitcc.agents import checkpoint, plain_state, seal
from orbitcc.agents.runs import CONFIG, RunFolder
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.errors import OrbitccError
from orbitcc.eval.results import read_rows
from orbitcc.training import recipe
from orbitcc.training.resume import PROGRESS, check_state

CORPUS = Path(__file__).resolve().parent.parent / "tests" / "data" / "corpus"
SLOW_S = 5.0
WORDS = (
    b"nan", b"inf", b"-1", b"0", b"1e308", b"9" * 400, b"[" * 2_000, b"{a=" * 500, b'"', b"'''", b"\x00", b"\xff\xfe",
    b"true", b"[]", b"{}", b"null", b".", b"a.b.c.", b"\n[[links]]\n", b"\n[[flows]]\n", b"=", b"#", "é".encode(),
)  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The data with one to three random changes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randrange(len(changed) + 1), rng.choice((1, 2, 8, 64, 1_000))
        kind = rng.randrange(6)
        if kind == 0 and changed:
            changed[min(at, len(changed) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + length]
        elif kind == 2:
            changed[at:at] = changed[at : at + length] * rng.choice((1, 1, 2, 50))
        elif kind == 3:
            changed[at:at] = rng.choice(WORDS)
        elif kind == 4:
            del changed[at:]
        elif numbers := [i for i, byte in enumerate(changed) if chr(byte).isdigit()]:
            i = rng.choice(numbers)
            changed[i : i + 1] = rng.choice(WORDS)
    return bytes(changed)


class Target(ABC):
    """Files of one kind. accepts: may a changed file be read without an error?"""

    accepts = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def seeds(self) -> list[bytes]:
        """Sound contents."""

    @abstractmethod
    def read(self, data: bytes) -> None:
        """Read a file with this content, as a command does."""


class ScenarioFile(Target):
    def seeds(self) -> list[bytes]:
        names = {"dumbbell": 1.0, "leo-responsiveness": 1.0, "geo-rain": 1.0, "leo-access": 1.0, "parking-lot": 60.0}
        return [scenarios.get(name, duration_s=seconds).to_toml().encode() for name, seconds in names.items()]

    def read(self, data: bytes) -> None:
        path = self.folder / "scenario.toml"
        path.write_bytes(data)
        scenario = Scenario.load(path)
        Scenario.from_toml(scenario.to_toml())
        if scenario.duration_s <= 2.0 and len(scenario.flows) <= 8 and _packets(scenario) < 1e5:
            for total in simulate(scenario).flow_totals:
                if math.isinf(total["goodput_mbps"]) or total["goodput_mbps"] < 0:
                    raise AssertionError(f"goodput_mbps is {total['goodput_mbps']}")
        else:
            scenario.compile()


def _packets(scenario: Scenario) -> float:
    """About how many packets a run has."""
    return min(scenario.capacity_mbps(0.0, k) for k in range(len(scenario.flows))) * 1e6 / 12e3 * scenario.duration_s


class CheckpointFiles(Target):
    """A card or a weight file beside the sound other one."""

    accepts = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sound = checkpoint.SHIPPED / "perigee"

    def seeds(self) -> list[bytes]:
        return [(self.sound / name).read_bytes() for name in (checkpoint.CARD, checkpoint.WEIGHTS)]

    def read(self, data: bytes) -> None:
        path = self.folder / "policy"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.sound, path)
        is_card = data[:1] in (b"{", b"") or b'"schema_version"' in data
        (path / (checkpoint.CARD if is_card else checkpoint.WEIGHTS)).write_bytes(data)
        checkpoint.load(path)


class RunState(Target):
    """One file of a run folder: the configuration, or a file of the state."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        plan = recipe.load("ppo-leo")
        config = {"recipe": plan.model_dump(), "seed": 1, "command": "test"}
        self.run = RunFolder.create(folder, "dumbbell", "ppo-leo", 1, config, name="run")
        self.run.state.mkdir()
        plain_state.write(self.run.state, "ppo", {"a": [1, 2.5, (3,)], "b": {1: None}})
        (self.run.state / PROGRESS).write_text('{"agent_steps": 5}')
        seal.seal(self.run.state)
        self.files = [self.run.path / CONFIG, *sorted(self.run.state.iterdir())]
        self.sound = [path.read_bytes() for path in self.files]

    def seeds(self) -> list[bytes]:
        return [str(index).encode() + data for index, data in enumerate(self.sound)]

    def read(self, data: bytes) -> None:
        index = min(max(data[:1] or b"0", b"0")[0] - 48, len(self.files) - 1)
        path = self.files[max(index, 0)]
        path.write_bytes(data[1:])
        try:
            plan = recipe.Recipe.build(self.run.config("recipe", "seed", "command")["recipe"])
            check_state(self.run, plan)
            if path.parent == self.run.state and data[1:] != self.sound[index] and path.name != seal.SEAL:
                raise AssertionError(f"a damaged {path.name} is accepted")
            plain_state.read(self.run.state, "ppo")
        finally:
            path.write_bytes(self.sound[max(index, 0)])


class RecordingFile(Target):
    def seeds(self) -> list[bytes]:
        return [simulate(scenarios.get("dumbbell", duration_s=1.0)).to_bytes()]

    def read(self, data: bytes) -> None:
        path = self.folder / "run.npz"
        path.write_bytes(data)
        Recording.load(path)


class ResultRows(Target):
    def seeds(self) -> list[bytes]:
        row = {
            "suite": "s", "scenario": "0123", "point": {}, "seed": 1, "contender": "cubic", "controller": "cubic",
            "params": {}, "version": "0", "metrics": {"a": 0.5}, "elapsed_s": 0.0,
        }  # fmt: skip
        return [json.dumps(row).encode() + b"\n" + json.dumps(row).encode() + b"\n"]

    def read(self, data: bytes) -> None:
        read_rows(data, Path("runs.jsonl"))


TARGETS: dict[str, Callable[[Path], Target]] = {
    "scenario": ScenarioFile,
    "card": CheckpointFiles,
    "run": RunState,
    "recording": RecordingFile,
    "results": ResultRows,
}


def failure(target: Target, data: bytes, sound: Sequence[bytes]) -> str:
    """What is wrong with how these bytes are read; empty if nothing."""
    began = time.process_time()
    try:
        target.read(data)
        accepted = True
    except OrbitccError as error:
        accepted = False
        if len(str(error).splitlines()) != 1:
            return f"an error of {len(str(error).splitlines())} lines"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if time.process_time() - began > SLOW_S:
        return f"{time.process_time() - began:.0f} s of processor time"
    return "accepted" if accepted and not target.accepts and data not in sound else ""


def inputs(name: str, sound: Sequence[bytes], seed: int, corpus: Path) -> Iterator[bytes]:
    """The corpus, then damaged files without an end."""
    for path in sorted((corpus / name).glob("*")):
        yield path.read_bytes()
    rng = random.Random(f"{name} {seed}")
    while True:
        yield damaged(rng.choice(sound), rng)


def today() -> int:
    """The seed of the day: days since 1970."""
    return int(time.time()) // 86_400


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=today(), help="default: the day's")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    arguments = parser.parse_args(argv)
    failures = sum(
        fuzz(name, arguments.seconds, arguments.seed, arguments.corpus) for name in arguments.names or TARGETS
    )
    sys.exit(int(failures > 0))


def fuzz(name: str, seconds: float, seed: int, corpus: Path, report: Callable[[str], None] = print) -> int:
    """Try inputs of one kind for so long; returns the number of kinds of failures. One input of each is kept."""
    tried, reasons = 0, set[str]()
    with tempfile.TemporaryDirectory(prefix="orbitcc-fuzz-") as scratch:
        target = TARGETS[name](Path(scratch))
        sound = target.seeds()
        for data in sound:
            target.read(data)
        until = time.monotonic() + seconds
        for data in inputs(name, sound, seed, corpus):
            tried += 1
            reason = failure(target, data, sound)
            if reason and (kind := re.sub(r"\d+", "", reason)[:80]) not in reasons:  # one input of each kind
                reasons.add(kind)
                path = corpus / name / hashlib.sha256(data).hexdigest()[:16]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                report(f"{name}: {reason}: {path}")
            if time.monotonic() > until:
                break
    report(f"{name}: {tried} files, {len(reasons)} kinds of failures (seed {seed})")
    return len(reasons)


if __name__ == "__main__":
    main(sys.argv[1:])
