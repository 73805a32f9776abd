"""Mutation testing: one small change to the code at a time, on which the tests beside the code have to fail.

    python -m benches.mutants                               # 25 mutants of each group, an hour on two cores
    python -m benches.mutants observe metrics --count 40 --seed 2
    python -m benches.mutants --again build/mutants/outcomes.json   # only the survivors of an earlier run

A mutant negates a comparison, swaps an arithmetic or logical operator or `min` and `max`, changes a number, or removes
a statement. Declarations of parameters, features and statistics, texts, and zeros that something is compared with are
left alone. Mutants that do not compile do not count. Only copies are changed, in build/mutants.

In Rust, the unit tests run first, then the integration tests of the group. A mutant that only the hashes of
`event_logs.txt` notice is named as such, and counts as a survivor.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build/mutants"
TREE, TARGET = WORK / "tree", WORK / "target"
LIMIT_S = 180.0
"""A test that takes longer hangs, which counts as noticed."""


@dataclass(frozen=True)
class Group:
    """Files, and the tests beside them: integration tests of `orbitcc-core`, or the arguments of pytest."""

    files: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def rust(self) -> bool:
        return self.files[0].startswith("sim/")


CORE = "sim/core/src"
GROUPS = {
    "observe": Group((f"{CORE}/observe/**/*.rs",), ("formulas",)),
    "tcp": Group((f"{CORE}/tcp/**/*.rs",), ("recovery", "aggregation", "misbehaving", "traffic")),
    "link": Group((f"{CORE}/link/**/*.rs",), ("queues",)),
    "cc": Group((f"{CORE}/cc/**/*.rs",), ("bbr", "bbr3", "copa", "leocc", "satcp", "slow_start", "vivace")),
    "compile": Group(
        ("envs/description/compile.py",),
        ("tests/envs/test_scenario.py", "tests/envs/test_simulate.py", "tests/sim/test_links.py"),
    ),
    "checkpoint": Group(
        ("agents/checkpoint.py", "agents/training_range.py", "agents/model_card.py"),
        ("tests/agents/test_checkpoint.py", "tests/eval/test_extrapolation.py", "tests/agents/test_safety_filter.py"),
    ),
    "metrics": Group(
        ("eval/metrics.py", "eval/statistics.py", "eval/heldout_metrics.py"),
        ("tests/eval/test_metrics.py", "tests/eval/test_statistics.py", "tests/eval/test_heldout_metrics.py"),
    ),
    "claims": Group(("eval/claims/*.py", "eval/quantities/*.py"), ("tests/eval/test_claims.py",)),
}


@dataclass(frozen=True)
class Mutant:
    group: str
    path: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n    - {self.before.strip()}\n    + {self.after.strip()}"


SWAPS = {
    "<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "*": "/", "/": "*", "+=": "-=", "-=": "+=", "|=": "&=",
    "&&": "||", "||": "&&", "and": "or", "or": "and", "min": "max", "max": "min", "minimum": "maximum",
    "maximum": "minimum", "true": "false", "false": "true", "True": "False", "False": "True", "not": "",
}  # fmt: skip
NUMBER = re.compile(r"\d[\d_]*(\.\d+)?(e-?\d+)?$")


def other(token: str, left: str) -> str | None:
    """What replaces a token after `left`; None: nothing. Small whole numbers grow by one, others double."""
    if not NUMBER.match(token):
        return SWAPS.get(token)
    plain = token.replace("_", "")
    if float(plain) == 0 and left.endswith((" < ", " > ", " <= ", " >= ", " == ", " != ")):
        return None
    if plain.isdigit():
        return str(int(plain) + 1 if int(plain) < 10 else 2 * int(plain))
    return repr(2 * float(plain) or 1.0)


RUST_TOKEN = re.compile(
    r"""//.*|\#!?\[.*?\]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'|(?<![\w.])\d[\d_]*(?:\.\d+)?(?:e-?\d+)?(?![\w.])"""
    r"""|(?<=[ ])(?:[-+*/|]=?|[<>=!]=|[<>]|&&|\|\|)(?=[ ])|\b(?:min|max)(?=\()|\b(?:true|false)\b"""
    r"""|(?<=[ (])!(?=[a-z(])"""
)
BOUNDS = re.compile(r"\b(within|number|one_of|kind|ratio)\(|assert|#\[|, (Kernel|PerAck|Oracle), \"")
STATEMENT = re.compile(r"(\s+)(?:\*?[\w.\[\]]+(?:\(\))? [-+*/|&]?= .*;|[\w.]+\([^{]*\);)$")


def rust_mutations(text: str) -> Iterator[tuple[int, str]]:
    """(Index of a line, the changed line) for the code above the unit tests."""
    for index, line in enumerate(re.split(r"(?m)^#\[cfg\(test\)\]\nmod \w+ \{", text)[0].splitlines()):
        if line.lstrip().startswith(("//", "use ", "pub use", "#")) or BOUNDS.search(line):
            continue
        for found in RUST_TOKEN.finditer(line):
            new = "" if found[0] == "!" else other(found[0], line[: found.start()])
            if new is not None:
                yield index, line[: found.start()] + new + line[found.end() :]
        statement = STATEMENT.match(line)
        if statement and not line.lstrip().startswith(("let ", "return", "const ", "static ", "type ")):
            yield index, statement[1] + "();"


def python_mutations(text: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.OP, tokenize.NAME, tokenize.NUMBER):
            continue
        index, line = token.start[0] - 1, lines[token.start[0] - 1]
        if "Field(" in line or "import" in line:
            continue
        if (new := other(token.string, line[: token.start[1]])) is not None:
            changed = line[: token.start[1]] + new + line[token.end[1] :]
            try:
                ast.parse("\n".join([*lines[:index], changed, *lines[index + 1 :]]))
            except SyntaxError:
                continue
            yield index, changed


def mutants(name: str, group: Group) -> list[Mutant]:
    """All mutants of a group of the copied tree."""
    found = []
    for path in sorted(p for pattern in group.files for p in TREE.glob(pattern)):
        if path.stem.endswith(("tests", "testing")):
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for index, after in rust_mutations(text) if group.rust else python_mutations(text):
            found.append(Mutant(name, str(path.relative_to(TREE)), index + 1, lines[index], after))
    return found


def passes(command: list[str], limit_s: float | None = LIMIT_S) -> tuple[bool, str]:
    """Whether a command succeeds in the copied tree within some seconds, and what it printed."""
    env = {
        **os.environ,
        "PYTHONPATH": str(TREE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CARGO_TARGET_DIR": str(TARGET),
        "CARGO_INCREMENTAL": "1",
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "OMP_NUM_THREADS": "1",
    }
    child = subprocess.Popen(
        command, cwd=TREE, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return False, "timeout"
    return child.returncode == 0, output


def cargo(*tests: str) -> list[str]:
    return ["cargo", "test", "--quiet", "--manifest-path", "sim/Cargo.toml", "--package", "orbitcc-core", *tests]


def commands(group: Group) -> dict[str, list[str]]:
    """What may notice a mutant, in order."""
    if group.rust:
        beside = [part for test in group.tests for part in ("--test", test)]
        return {"unit tests": cargo("--lib"), "tests": cargo(*beside), "hashes": cargo("--test", "event_logs")}
    return {
        "tests": [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *group.tests]
    }


def outcome(mutant: Mutant) -> str:
    """The tests that notice a mutant, or `survives`, or `does not compile`."""
    path = TREE / mutant.path
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[mutant.line - 1] == mutant.before, mutant
    lines[mutant.line - 1] = mutant.after
    path.write_text("\n".join(lines) + "\n")
    try:
        for name, command in commands(GROUPS[mutant.group]).items():
            passed, output = passes(command)
            if "could not compile" in output:
                return "does not compile"
            if not passed:
                return name
        return "survives"
    finally:
        path.write_text(text)


def copy_tree() -> None:
    """Copy the tracked files and the built simulator. Unchanged files keep their times, so that cargo builds little."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    wanted = [*listed.stdout.split("\n"), *(str(p.relative_to(ROOT)) for p in (ROOT / "orbitcc").glob("_sim*.so"))]
    for name in filter(None, wanted):
        source, copy = ROOT / name, TREE / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            copy.unlink(missing_ok=True)
            copy.symlink_to(source.readlink())
        elif source.is_file() and not (copy.is_file() and copy.read_bytes() == source.read_bytes()):
            shutil.copyfile(source, copy)


LEFT = ("survives", "hashes")


def survivors(path: Path) -> list[Mutant]:
    """The survivors of an earlier run that the code still has."""
    found = []
    for one in json.loads(path.read_text(encoding="utf-8")):
        name, line = one["group"], one["line"]
        same = [m for m in mutants(name, GROUPS[name]) if (m.before, m.after) == (one["before"], one["after"])]
        if one.pop("outcome") in LEFT and same:
            found.append(min(same, key=lambda m: (m.path != one["path"], abs(m.line - line))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", help=f"any of {', '.join(GROUPS)}; default: all")
    parser.add_argument("--count", type=int, default=25, help="mutants of each group that compile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=Path, help="try the survivors in this file again, and no others")
    parser.add_argument("--save", type=Path, default=WORK / "outcomes.json")
    args = parser.parse_args()
    copy_tree()
    again = survivors(args.again) if args.again else None
    outcomes: list[tuple[Mutant, str]] = []
    for name in args.groups or GROUPS:
        group = GROUPS[name]
        for command in commands(group).values():
            passed, output = passes(command, limit_s=None)  # the first build takes minutes
            assert passed, f"{name}: fails without a change:\n{output[-2_000:]}"
        if again is None:
            every = mutants(name, group)
            random.Random(args.seed).shuffle(every)
        else:
            every = [m for m in again if m.group == name]
        done = 0
        for mutant in every:
            if done == args.count and again is None:
                break
            found = outcome(mutant)
            if found == "does not compile":
                continue
            done += 1
            outcomes.append((mutant, found))
            args.save.write_text(json.dumps([asdict(m) | {"outcome": o} for m, o in outcomes], indent=1) + "\n")
            if found in LEFT:
                print(f"{'only in the hashes: ' if found == 'hashes' else ''}{mutant}", flush=True)
        left = sum(m.group == name and o in LEFT for m, o in outcomes)
        print(f"{name}: {done - left} of {done} mutants noticed (of {len(every)} possible)", flush=True)
    left = sum(o in LEFT for _, o in outcomes)
    print(f"{len(outcomes) - left} of {len(outcomes)} noticed")


if __name__ == "__main__":
    main()
