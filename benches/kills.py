"""Kills commands at random moments, and compares what resumes with what was never killed (docs/reliability.md).

    python -m benches.kills [NAME ...] [--kills 30] [--seed N]
    python -m benches.kills [NAME ...] --each-second
    python -m benches.kills [NAME ...] --clock-back

Each command runs once without a kill. Then it is started again and again in another folder and killed after a random
time, by SIGKILL or SIGTERM in turn, until the kills are used up. At last it runs to its end. The program prints a line
per command and ends with exit code 1 if a result differs, a command fails, or a process outlives its parent.
Whenever a run ends before its kill, it is compared, and a new folder is begun. With --each-second a command is killed
by SIGKILL once at every second of the time that it takes, each time in a new folder, and then continued to its end.
With --clock-back the clock that a command sees goes back by an hour halfway to each kill, and stays there when the
command is continued. This needs a C compiler and Linux.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orbitcc.agents import checkpoint

LIMIT_S = 600.0
"""No command may take longer, whatever was killed before."""
ORPHANS_S = 120.0
"""Children of a killed process end within this time; some of Ray's need a minute."""
ENDS = (-signal.SIGKILL, -signal.SIGTERM, 0, 1, 130, signal.SIGTERM, -signal.SIGABRT)
"""Exit codes of killed processes. The last two are Ray's: while it starts, it answers SIGTERM in its own way."""
TRAIN = (
    *("--set", "scenario={name='dumbbell', rate_mbps=10, base_rtt_ms=20, duration_s=4}"),
    *("--set", "evaluation.worlds=1", "--set", "network.hidden=[8]"),
)
PPO = (
    *("--set", "learner.flows=8", "--set", "learner.batch=128"),
    *("--set", "learner.minibatch=64", "--set", "learner.epochs=1"),
)
TD3 = ("worlds=2", "iteration=100", "learning_starts=100", "batch=32", "replay=2000")
DIFFERS = ("seconds", "per_s", "wall_minutes")
"""Parts of the names of figures that no two runs share."""


@dataclass(frozen=True)
class Subject:
    """A command, what it is called with to continue, and the part of its folder that must be equal.

    exact: is the result that of a run without kills? RLlib's and Stable-Baselines3's worlds begin anew.
    """

    start: tuple[str, ...]
    again: tuple[str, ...]
    result: Callable[[Path], Any]
    exact: bool = True
    begins_anew: bool = False
    """Without a run folder to continue, the command is called as at first."""
    complete: str = ""
    """What the command makes in one step at its end; once it is there, the command refuses to make it again."""


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUBJECTS)}; default: all")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86_400, help="default: the day's")
    parser.add_argument("--each-second", action="store_true", help="one kill at every second, not at random moments")
    parser.add_argument("--clock-back", action="store_true", help="the clock goes back by an hour before each kill")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.names) - set(SUBJECTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if not arguments.each_second:
        print(f"seed {arguments.seed}", flush=True)
    failed = False
    for name in arguments.names or SUBJECTS:
        rng = None if arguments.each_second else random.Random(f"{name} {arguments.seed}")
        problems, told = torment(SUBJECTS[name], arguments.kills, rng, arguments.clock_back)
        print(f"{name}: {told}", flush=True)
        for problem in problems:
            print(f"  {problem}", flush=True)
        failed |= bool(problems)
    sys.exit(int(failed))


def torment(subject: Subject, kills: int, rng: random.Random | None, clock_back: bool = False) -> tuple[list[str], str]:
    """The problems found, and a line that says what was done.

    rng: draws the moments of the kills; None: one kill at each second, whatever `kills` says.
    clock_back: set the clock back by an hour halfway to each kill.
    """
    with tempfile.TemporaryDirectory(prefix="orbitcc-kills-") as scratch:
        base = Path(scratch)
        clock = Clock(base) if clock_back else None
        began = time.monotonic()
        code, error = _finish(_process(subject.start, base / "whole"))
        whole_s = time.monotonic() - began
        if code:
            return [f"without a kill: exit code {code}: {error}"], "not started"
        wanted = subject.result(base / "whole")
        if rng is None:
            moments: list[float | None] = []
            for second in range(math.ceil(whole_s)):
                moments += [float(second), None]
        else:
            moments = [rng.uniform(0.0, whole_s) for _ in range(kills)]
        problems: list[str] = []
        compared, killed, round_ = 0, 0, 0
        while True:
            folder = base / f"killed-{round_}"
            begun = folder.exists() and not (subject.begins_anew and not _kept(folder))
            process = _process(subject.again if begun else subject.start, folder, clock)
            moment = moments.pop(0) if moments else None
            if clock and moment is not None:
                _ends_within(process, moment / 2)
                clock.set_back()
                moment /= 2
            if moment is not None and not _ends_within(process, moment):
                process.send_signal(signal.SIGKILL if rng is None or killed % 2 else signal.SIGTERM)
                killed += 1
                problems += _outlived(process)
                continue
            if moment is not None and rng is not None:
                moments.append(rng.uniform(0.0, whole_s))
            code, error = _finish(process)
            if code and subject.complete and (folder / subject.complete).exists():
                code = 0
            compared += 1
            if code:
                problems.append(f"after {killed} kills: exit code {code}: {error}")
            elif subject.exact and (found := subject.result(folder)) != wanted:
                problems.append(f"after {killed} kills the result differs: {_difference(found, wanted)}")
            shutil.rmtree(folder, ignore_errors=True)
            round_ += 1
            if problems or not moments:
                break
        equal = "equal to" if subject.exact else "as complete as"
        return problems, (
            f"{killed} kills within {whole_s:.1f} s each; {compared} runs came to their end, "
            f"{compared - len(problems)} {equal} the one without kills"
        )


def _kept(folder: Path) -> bool:
    return any(folder.rglob("config.json"))


class Clock:
    """The time of day that commands see: each call of `set_back` takes an hour off, also while they run.

    Intervals and the times of files stay real, so that files made earlier seem to come from the future.
    """

    def __init__(self, folder: Path) -> None:
        library, file = folder / "clock.so", folder / "clock"
        source = Path(__file__).with_name("clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self._seconds = np.memmap(file, np.int64, "w+", shape=1)
        self.variables = {"LD_PRELOAD": str(library), "ORBITCC_CLOCK": str(file)}

    def set_back(self) -> None:
        self._seconds -= 3600


def _process(words: Sequence[str], folder: Path, clock: Clock | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "orbitcc.cli", *(word.replace("{out}", str(folder)) for word in words)]
    return subprocess.Popen(
        command,
        env={**os.environ, **clock.variables} if clock else None,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _ends_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a process and the last line that it wrote."""
    try:
        _, error = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return 124, f"did not end in {LIMIT_S:g} s"
    return process.returncode, (error.strip().splitlines() or [""])[-1]


def _outlived(process: subprocess.Popen[str]) -> list[str]:
    """Wait for the end of a killed process; its group has to end with it."""
    code, error = _finish(process)
    if code not in ENDS or "Traceback" in error:
        return [f"a killed process ended with exit code {code}: {error}"]
    until = time.monotonic() + ORPHANS_S
    while time.monotonic() < until:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return []
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    return [f"children of a killed process were there {ORPHANS_S:g} s later"]


def _difference(found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        return ", ".join(str(key) for key in {*found, *wanted} if found.get(key) != wanted.get(key))
    return f"{str(found)[:200]} instead of {str(wanted)[:200]}"


# -- results ----------------------------------------------------------------------------------------------------------


def _trained(out: Path) -> dict[str, Any]:
    """Weights, selection and figures of a training run."""
    run = out / "mine"
    with (run / "metrics.csv").open(encoding="utf-8") as file:
        figures = [row for row in csv.reader(file) if not any(part in row[1] for part in DIFFERS)]
    policies = {}
    for name in ("best", "last"):
        loaded = checkpoint.load(run / name)
        policies[name] = (loaded.card.weights_sha256, loaded.card.scores, loaded.card.training.agent_steps)
    return {"figures": figures, **policies}


def _tuned(out: Path) -> Any:
    with (out / "trials.csv").open(encoding="utf-8") as file:
        return [row[1:] for row in csv.reader(file) if row[1] != "fail"], (out / "best.toml").read_text(
            encoding="utf-8"
        )


def _searched(out: Path) -> Any:
    return json.loads((out / "found.json").read_text(encoding="utf-8"))


def _table(folder: Path) -> list[dict[str, str]]:
    with (folder / "runs.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _evaluated(out: Path) -> Any:
    return {"table": _table(out), "series": sorted(_digest(path) for path in (out / "series").glob("*.npz"))}


def _looked(out: Path) -> Any:
    return {suite.name: _evaluated(suite) for suite in sorted(out.iterdir()) if suite.is_dir()}


def _reproduced(out: Path) -> Any:
    tables = {path.parent.name: _table(path.parent) for path in sorted(out.glob("*/runs.csv"))}
    return {**tables, "claims": json.loads((out / "claims.json").read_text(encoding="utf-8"))}


def _collected(out: Path) -> Any:
    """The values of a data set, and that nothing else is in the folder."""
    import h5py

    found = {}
    with h5py.File(out / "orbitcc" / "kills-v0" / "data" / "main_data.hdf5") as file:
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()} if hasattr(item, "dtype") else {}))
    return {name: hashlib.sha256(data).hexdigest() for name, data in found.items()}, sorted(os.listdir(out))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def training(recipe: str, steps: int, *more: str, exact: bool = True) -> Subject:
    """A training run with ten evaluations."""
    about = ("--set", f"agent_steps={steps}", "--set", f"evaluation.every={steps // 10}", *TRAIN, *more)
    return Subject(
        ("train", recipe, *about, "--name", "mine", "--out", "{out}"),
        ("train", "{out}/mine", "--resume"),
        _trained,
        exact,
        begins_anew=True,
    )


_TUNE = ("tune", "ppo-leo", "--set", "agent_steps=2000", "--set", "evaluation.every=500", *TRAIN, *PPO)
_SEARCH = ("search", "reno", "--against", "cubic", "--trials", "48", "--workers", "2", "--out", "{out}")
_EVAL = ("eval", "efficiency", "--controller", "cubic", "--controller", "bbr", "--profile", "reduced")
_REPRODUCE = ("reproduce", "geo", "--profile", "quick", "--out", "{out}")
_DATASET = ("dataset", "dumbbell", "--flow", "cubic", "--episodes", "20", "--id", "orbitcc/kills-v0", "--root", "{out}")
SUBJECTS = {
    "train ppo": training("ppo-leo", 20_000, *PPO),
    "train astraea": training("astraea", 4_000, *(word for change in TD3 for word in ("--set", f"learner.{change}"))),
    "train sb3": training("sb3-ppo-leo", 10_000, *PPO, exact=False),
    "train rllib": training("rllib-ppo-leo", 4_000, *PPO, "--set", "learner.env_runners=0", exact=False),
    "tune": Subject((*_TUNE, "--trials", "4", "--out", "{out}"), (*_TUNE, "--trials", "4", "--out", "{out}"), _tuned),
    "search": Subject(_SEARCH, (*_SEARCH, "--resume"), _searched),
    "eval": Subject((*_EVAL, "--out", "{out}"), (*_EVAL, "--out", "{out}", "--resume"), _evaluated),
    "reproduce": Subject(_REPRODUCE, (*_REPRODUCE, "--resume"), _reproduced),
    "dataset": Subject(_DATASET, _DATASET, _collected, complete="orbitcc/kills-v0"),
    "demo": Subject(("demo", "--shipped", "--out", "{out}"), ("demo", "--shipped", "--out", "{out}"), _looked),
}


if __name__ == "__main__":
    main(sys.argv[1:])
