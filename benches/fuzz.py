"""Damages files at random and checks that each is refused in one line or read as if nothing had happened.

    python -m benches.fuzz [scenario recipe card run recording results trace traces log place] [--seconds 60] [--seed N]
        [--corpus FOLDER]

Files are changed by flipped bits, cut and repeated parts, and words that break readers; of files with a structure, a
value is also replaced by one of another type, and of recordings, arrays get other shapes. An input fails if the reader
raises anything but OrbitccError, writes more than one line, takes longer than 5 s of processor time, or gives a number
that is not finite; a damaged card, weight file or state fails, too, if it is accepted. Inputs that failed are kept in
the corpus and tried first the next time (`tests/data/corpus` in the repository).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import math
import os
import random
import re
import shutil
import struct
import sys
import tempfile
import time
import tomllib
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from orbitcc.agents import checkpoint, libraries
from orbitcc.agents.runs import plain_state, seal
from orbitcc.agents.runs.run_folder import CONFIG, RunFolder
from orbitcc.commands.run import print_tables
from orbitcc.commands.traces import show
from orbitcc.common.errors import OrbitccError
from orbitcc.common.files import toml_text
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.fitting.files import gather
from orbitcc.envs.fitting.fit import fit
from orbitcc.envs.orbits import formats, trace_set
from orbitcc.envs.orbits.trace_set import MeasuredPath
from orbitcc.envs.traces.check import check
from orbitcc.eval import contenders, suites
from orbitcc.eval.comparison import differences
from orbitcc.eval.figures.base import render
from orbitcc.eval.figures.run import draw_run
from orbitcc.eval.figures.style import LIGHT
from orbitcc.eval.report import write_report
from orbitcc.eval.results import Results, load_rows
from orbitcc.eval.runner import run_suite
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


ODD: tuple[Any, ...] = (
    None, True, -1, 0, 7, 2**63, 10**400, -0.5, 1e308, math.nan, math.inf, "", "x", "\ud800", "[/x]", "$x_{$", "=cmd()",
    "\x1b[2J", "a\nb", "~nobody/x", "9" * 5_000, "x" * 100_000, [], {}, [[]],
    {"kind": []}, {"": None}, ["x"] * 3, [1, [2]],
)  # fmt: skip
"""Values that a reader does not expect."""


def altered(value: Any, rng: random.Random) -> Any:
    """The same with one value in it, at any depth, replaced, removed or repeated."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: altered(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        again = [] if (kind := rng.random()) < 0.1 else [value[at]] * 2 if kind < 0.2 else [altered(value[at], rng)]
        return [*value[:at], *again, *value[at + 1 :]]
    return rng.choice(ODD)


def altered_json(data: bytes, rng: random.Random) -> bytes:
    """JSON text with one value replaced."""
    return json.dumps(altered(json.loads(data), rng)).encode()


def altered_toml(data: bytes, rng: random.Random) -> bytes:
    """TOML text with one value replaced."""
    changed = altered(tomllib.loads(data.decode()), rng)
    try:
        return toml_text(changed).encode("utf-8", "surrogatepass")
    except (AttributeError, TypeError, ValueError):  # TOML has no such value
        return damaged(data, rng)


class Target(ABC):
    """Files of one kind. accepts: may a changed file be read without an error?"""

    accepts = True

    def changed(self, data: bytes, rng: random.Random) -> bytes:
        """A sound content with changes; those of a kind with a structure keep to it half of the time."""
        return damaged(data, rng)

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

    def changed(self, data: bytes, rng: random.Random) -> bytes:
        return damaged(data, rng) if rng.random() < 0.5 else altered_toml(data, rng)

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


class RecipeFile(Target):
    """A recipe, some with worlds of their own, also with another length."""

    def seeds(self) -> list[bytes]:
        return [(recipe.RECIPES / f"{name}.toml").read_bytes() for name in recipe.names()]

    def changed(self, data: bytes, rng: random.Random) -> bytes:
        return damaged(data, rng) if rng.random() < 0.2 else altered_toml(data, rng)

    def read(self, data: bytes) -> None:
        path = self.folder / "recipe.toml"
        path.write_bytes(data)
        with contextlib.suppress(OrbitccError):
            recipe.load(str(path), ["agent_steps=30_000_000"])
        recipe.check_names(recipe.load(str(path)))


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

    def changed(self, data: bytes, rng: random.Random) -> bytes:
        is_json = self.files[data[0] - 48].suffix == ".json"
        return data[:1] + altered_json(data[1:], rng) if is_json and rng.random() < 0.5 else damaged(data, rng)

    def read(self, data: bytes) -> None:
        index = min(max(data[:1] or b"0", b"0")[0] - 48, len(self.files) - 1)
        path = self.files[max(index, 0)]
        path.write_bytes(data[1:])
        try:
            plan = recipe.Recipe.build(self.run.config("recipe", "seed", "command")["recipe"])
            check_state(self.run, plan)
            seal.check_owner(self.run.state, "run")
            if path.parent == self.run.state and data[1:] != self.sound[index] and path.name != seal.SEAL:
                raise AssertionError(f"a damaged {path.name} is accepted")
            plain_state.read(self.run.state, "ppo")
        finally:
            path.write_bytes(self.sound[max(index, 0)])


class RecordingFile(Target):
    def seeds(self) -> list[bytes]:
        return [simulate(scenarios.get("dumbbell", duration_s=2.0)).to_bytes()]

    def changed(self, data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.3:
            return damaged(data, rng)
        with np.load(io.BytesIO(data)) as stored:
            arrays: dict[str, Any] = dict(stored)
        name = "about" if rng.random() < 0.5 else rng.choice(sorted(arrays))
        if name == "about":
            arrays[name] = np.array(json.dumps(altered(json.loads(str(arrays[name])), rng)))
        else:
            shapes: tuple[Any, ...] = (arrays[name].T, arrays[name][:1], arrays[name].astype("<U8"), np.zeros(0), 1.0)
            arrays[name] = rng.choice(shapes)
        out = io.BytesIO()
        np.savez_compressed(out, **arrays)
        return out.getvalue()

    def read(self, data: bytes) -> None:
        path = self.folder / "run.npz"
        path.write_bytes(data)
        found = Recording.load(path)
        found.save_csv(self.folder / "run.csv")
        figure = draw_run(found, LIGHT)
        if len(found.flow_names) < 9:
            render(figure)
        with contextlib.redirect_stdout(io.StringIO()):
            print_tables(found)


class ResultRows(Target):
    """The runs.jsonl of finished results, for all that reads it: compare, the table, the report, and --resume."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.contenders = contenders.line_up(["cubic", "reno"], [])
        self.results = self.run(resume=False)
        self.sound = self.results.jsonl.read_bytes()

    def run(self, resume: bool) -> Results:
        suite = suites.get("responsiveness")
        return run_suite(
            suite, self.contenders, out_dir=self.folder / "sound", runs=1, workers=1, quiet=True, resume=resume
        )

    def seeds(self) -> list[bytes]:
        return [self.sound]

    def changed(self, data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.5:
            return damaged(data, rng)
        first, *others = data.splitlines(keepends=True)
        return altered_json(first, rng) + b"\n" + b"".join(others)

    def read(self, data: bytes) -> None:
        self.results.jsonl.write_bytes(data)
        rows = load_rows(self.results.jsonl)
        differences(self.results.out_dir, self.results.out_dir)
        if data != self.sound:  # accepted: go through everything that shows the rows
            known = [c.key for c in self.contenders]
            shown = replace(self.results, rows=[row for row in rows if row["contender"] in known])
            if {row["contender"] for row in shown.rows} == set(known):
                shown.write_csv()
                write_report(shown)
            self.run(resume=True)


class TraceFile(Target):
    """A path trace: CSV, a log of LeoEM, or a file of LeoReplayer beside a sound one. The first letter says which."""

    def seeds(self) -> list[bytes]:
        rows = "".join(f"{k},{20 + k % 3},,{10 + k % 5},,,{'slot' if k % 4 == 0 else ''},\n" for k in range(12))
        log = "".join(f"{k + 1}$[-1, {7 + k // 3}, -2]$3$[0.01, 0.02]$0.03\n" for k in range(12)) + "13$NULL\n"
        head = "# name: x\nt_s,owd_fwd_ms,owd_rev_ms,cap_fwd_mbps,cap_rev_mbps,loss,flags,nodes\n"
        delays, chances = "".join(f"{20 + k % 3}\n" for k in range(600)), "".join(f"{k * 2}\n" for k in range(3_000))
        return [f"c{head}{rows}".encode(), f"l{log}".encode(), f"d{delays}".encode(), f"b{chances}".encode()]

    def read(self, data: bytes) -> None:
        kind, content = chr(data[0]) if data else "c", data[1:]
        path = self.folder / ("trace.log" if kind == "l" else "trace.csv")
        path.write_bytes(content)
        if kind in "db":
            other = self.folder / "other"
            other.write_text("".join(f"{20 + k}\n" for k in range(600)))
            pair = (path, other) if kind == "d" else (other, path)
            trace = formats.load_replayer(*pair)
        else:
            trace = formats.load(path)
        formats.from_csv(formats.to_csv(trace))
        trace.statistics()


class TraceSetFile(Target):
    """The index of a trace set, whose digest fits."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        delays, rates = np.linspace(20.0, 30.0, 300), np.linspace(50.0, 20.0, 300)
        self.paths = [MeasuredPath(f"p{k}", "here", "", 30.0, delays, 0.1, rates, rates / 9, 0.1) for k in range(3)]

    def seeds(self) -> list[bytes]:
        entries = [{**p.entry(), "part": part} for p, part in zip(self.paths, trace_set.PARTS, strict=True)]
        index = {"format": trace_set.FORMAT, "source": "x", "unreadable": ["a.csv"], "unit": "month", "paths": entries}
        return [json.dumps(index).encode()]

    def changed(self, data: bytes, rng: random.Random) -> bytes:
        return damaged(data, rng) if rng.random() < 0.2 else altered_json(data, rng)

    def read(self, data: bytes) -> None:
        file = forged_set(self.folder / "set.npz", [path.arrays() for path in self.paths], data)
        with contextlib.redirect_stdout(io.StringIO()):
            show(file)
        found = trace_set.TraceSet(file)
        list(check(found))
        suite = suites.get("traces", {"traces": str(file)})
        for case in suite.cases("quick", 1):
            case.scenario.compile()


def forged_set(file: Path, arrays: Sequence[Mapping[str, Any]], index: bytes | str) -> Path:
    """A trace set with the arrays of each path and an index, whatever they are, and the digest that fits."""
    with zipfile.ZipFile(file, "w") as packed:
        for k, named in enumerate(arrays):
            for name, values in named.items():
                content = io.BytesIO()
                np.save(content, values)
                packed.writestr(f"{k}/{name}.npy", content.getvalue())
        packed.writestr("index.json", index)
        packed.comment = b"0" * 64
    whole = file.read_bytes()[:-64]
    file.write_bytes(whole + hashlib.sha256(whole).hexdigest().encode())
    return file


class LogFile(Target):
    """A recording of a path for `orbitcc fit`, in each of its forms."""

    def seeds(self) -> list[bytes]:
        answers = "".join(
            f"64 bytes from 192.0.2.1: icmp_seq={k} ttl=55 time={20 + k % 7}.5 ms\n" for k in range(1, 60)
        )
        end = "\n--- 192.0.2.1 ping statistics ---\n60 packets transmitted, 59 received, 1% packet loss, time 11800ms\n"
        rows = []
        for k in range(12):
            total = {"seconds": 1.0, "bytes": 1_250_000, "retransmits": k % 2, "omitted": False}
            rows.append({"streams": [{**total, "rtt": 30_000 + 500 * k}], "sum": total})
        log = {
            "start": {"tcp_mss_default": 1448, "test_start": {"protocol": "TCP", "blksize": 131_072, "reverse": 0}},
            "intervals": rows, "end": {"sum_received": {"bytes": 15_000_000}, "sender_tcp_congestion": "cubic"},
        }  # fmt: skip
        capture = self.folder / "seed.pcap"
        simulate(scenarios.get("dumbbell", duration_s=6.0, rate_mbps=2.0), pcap=capture)
        stream = [{"event": kind, "data": log[kind]} for kind in ("start", "end")]
        stream[1:1] = [{"event": "interval", "data": row} for row in rows]
        windows = "Pinging x with 32 bytes of data:\n" + "Reply from 192.0.2.1: bytes=32 time=30ms TTL=54\n" * 30
        fping = "".join(f"[17{k:08}.5] x : [{k}], 64 bytes, {20 + k % 7}.5 ms (20 avg, 0% loss)\n" for k in range(40))
        trips = [
            {"lost": k % 9 == 8, "timestamps": {"client": {"send": {"wall": k * 10**8}}}, "delay": {"rtt": 10**7 + k}}
            for k in range(40)
        ]
        lens = "timestamp,rtt,uplink,downlink\n" + "".join(f"17{k:010}0000000,{20 + k % 5},9,9\n" for k in range(40))
        head = "timestamp_start,timestamp_end,packet_loss,packets_send,ping_avg,ping_worst,ping_best\n"
        series = "".join(f"2023-09-28 12:{k}:03,2023-09-28 12:{k}:13,20.0,10,50.0,80.0,40.0\n" for k in range(10, 19))
        record, data = struct.Struct("<IIII"), capture.read_bytes()
        blocks, at = [struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)], 24
        blocks.append(struct.pack("<IIHHIHHB3xII", 1, 32, 101, 0, 0, 9, 1, 9, 0, 32))
        while at < len(data):
            seconds, nanos, kept, length = record.unpack_from(data, at)
            stamp, size = seconds * 10**9 + nanos, 32 + kept + -kept % 4
            packet = data[at + 16 : at + 16 + kept] + bytes(-kept % 4)
            blocks.append(struct.pack("<7I", 6, size, 0, stamp >> 32, stamp & 0xFFFFFFFF, kept, length) + packet)
            blocks.append(struct.pack("<I", size))
            at += 16 + kept
        texts = [f"PING x\n{answers}{end}", json.dumps(log), "\n".join(map(json.dumps, stream)), windows, fping,
                 json.dumps({"round_trips": trips}), lens, head + series]  # fmt: skip
        return [*(text.encode() for text in texts), gzip.compress(fping.encode()), data, b"".join(blocks)]

    def changed(self, data: bytes, rng: random.Random) -> bytes:
        one_line = data[:1] == b"{" and b"\n" not in data
        return altered_json(data, rng) if one_line and rng.random() < 0.7 else damaged(data, rng)

    def read(self, data: bytes) -> None:
        path = self.folder / "log"
        path.write_bytes(data)
        fit(gather([path])).to_toml()


class Place(Target):
    """What is no file, or too large, in the place of a file that is read. The content is the numbers of both."""

    accepts = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "file"
        self.readers: tuple[Callable[[Path], object], ...] = (
            Scenario.load, Recording.load, formats.load, load_rows, lambda path: gather([path]),
            lambda path: recipe.load(str(path)),
            lambda path: checkpoint.load(self._beside(path, checkpoint.CARD)),
            lambda path: checkpoint.load(self._beside(path, checkpoint.WEIGHTS)),
            lambda path: RunFolder(self._beside(path, CONFIG)).config(),
            lambda path: plain_state.read(self._beside(path, "x.json"), "x"),
            lambda path: libraries.digest(f"sb3:{path}"),
        )  # fmt: skip

    def _beside(self, path: Path, name: str) -> Path:
        """A folder in which this file has another name."""
        made = self.folder / "made"
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(checkpoint.SHIPPED / "perigee", made)
        (made / name).unlink(missing_ok=True)
        (made / name).symlink_to(path)
        return made

    def seeds(self) -> list[bytes]:
        return []

    def changed(self, data: bytes, rng: random.Random) -> bytes:
        return bytes((rng.randrange(len(self.readers)), rng.randrange(4)))

    def read(self, data: bytes) -> None:
        reader, kind = (data + bytes(2))[:2]
        path = self.path.with_suffix(".csv" if self.readers[reader] is formats.load else ".toml")
        path.unlink(missing_ok=True)
        if kind == 0:
            os.mkfifo(path)
        elif kind == 1:
            path.symlink_to("/dev/zero")
        elif kind == 2:
            with path.open("wb") as file:
                file.truncate(20_000_000_000)
        else:
            path.mkdir()
        try:
            self.readers[reader](path)
        finally:
            shutil.rmtree(path) if kind == 3 else path.unlink()


TARGETS: dict[str, Callable[[Path], Target]] = {
    "scenario": ScenarioFile,
    "recipe": RecipeFile,
    "card": CheckpointFiles,
    "run": RunState,
    "recording": RecordingFile,
    "results": ResultRows,
    "trace": TraceFile,
    "traces": TraceSetFile,
    "log": LogFile,
    "place": Place,
}


def failure(target: Target, data: bytes, sound: Sequence[bytes]) -> str:
    """What is wrong with how these bytes are read; empty if nothing."""
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # letters that a font lacks
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


def inputs(name: str, target: Target, sound: Sequence[bytes], seed: int, corpus: Path) -> Iterator[bytes]:
    """The corpus, then damaged files without an end."""
    for path in sorted((corpus / name).glob("*")):
        yield path.read_bytes()
    rng = random.Random(f"{name} {seed}")
    while True:
        yield target.changed(rng.choice(sound) if sound else b"", rng)


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
        for data in inputs(name, target, sound, seed, corpus):
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
