"""A results folder: the plan (results.json), every finished run (runs.jsonl), the tidy table (runs.csv).

`runs.jsonl` only ever grows, one line per finished run, written at once; an incomplete last line is cut off when the
results continues. A run is known by suite, scenario, contender and seed, and counts only for the version that made it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from orbitcc.agents.runs.folders import settle
from orbitcc.common.errors import FileContentError, FileError, OrbitccError
from orbitcc.common.files import MB, MOST_TABLE, atomic_write_text, open_regular, parse_json, read_bytes, read_text
from orbitcc.common.names import csv_text
from orbitcc.eval.contenders import SIMULATED, Contender, spec_text
from orbitcc.eval.statistics import Estimate, median_estimate, paired_difference
from orbitcc.eval.suites.base import MOST_NUMBER

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.suites.base import Case, Point, Suite

Row = dict[str, Any]
"""One finished run: suite, scenario, point, seed, contender, controller, params, version, metrics, elapsed_s; and
series, the digest of the file with its time series, if one is kept."""

Key = tuple[str, str, str, int]

CaseKey = tuple[str, int]
"""Scenario and seed."""

RUNS, PLAN = "runs.jsonl", "results.json"
ASSESSMENT = "assessment"
"""The suite of the rows of an assessment, which no other command knows."""

MOST_ROW = 1 * MB
"""Bytes of a row."""
_TEXTS = ("suite", "scenario", "contender", "controller", "version")
_PLAIN = str | int | float | bool
_TABLES: Mapping[str, tuple[Any, str]] = {
    "point": (str | int | float, f"numbers of at most {MOST_NUMBER:g} and text"),
    "params": (_PLAIN, "numbers, text, true and false"),
    "metrics": (int | float | None, f"numbers of at most {MOST_NUMBER:g} and null"),
}

KEY_COLUMNS = ("suite", "scenario", "seed", "contender", "controller", "parameters", "version")


@dataclass
class Results:
    """The results of one suite for several contenders: the plan, and the finished rows."""

    suite: Suite
    contenders: Sequence[Contender]
    profile: str
    runs: int
    out_dir: Path
    version: str
    command: str = ""
    rows: list[Row] = field(default_factory=list)

    @property
    def labels(self) -> list[str]:
        return [contender.label for contender in self.contenders]

    @property
    def jsonl(self) -> Path:
        return self.out_dir / RUNS

    def points(self) -> list[Point]:
        """The points of the suite's grid."""
        return list(self.suite.points(self.profile))

    def runs_of(self, contender: Contender, **factors: Any) -> list[Row]:
        """The rows of a contender; only at points with these factors."""
        own = [row for row in self.rows if row["contender"] == contender.key]
        return [row for row in own if all(row["point"].get(k) == v for k, v in factors.items())]

    def by_case(self, contender: Contender, metric: str, **factors: Any) -> dict[CaseKey, float]:
        """(scenario, seed) -> a metric, in the order of seeds and points; only at points with these factors."""
        return {(row["scenario"], row["seed"]): value_of(row, metric) for row in self.runs_of(contender, **factors)}

    def values(self, metric: str, **factors: Any) -> dict[str, list[float]]:
        """Label -> the metric of every run, in the order of seeds and points; only at points with these factors."""
        return {c.label: list(self.by_case(c, metric, **factors).values()) for c in self.contenders}

    def estimates(self, **factors: Any) -> dict[str, dict[str, Estimate]]:
        """Label -> metric key -> median and interval over the runs; only at points with these factors."""
        return {
            c.label: {m.key: median_estimate(self.by_case(c, m.key, **factors).values()) for m in self.suite.metrics}
            for c in self.contenders
        }

    def gaps(self, metric: str, **factors: Any) -> dict[str, tuple[int, int]]:
        """Label -> in how many runs a contender has a value, and of how many; only those that lack one.

        What no other contender has in a run, either, is not lacked.
        """
        values = {c.label: self.by_case(c, metric, **factors) for c in self.contenders}
        known = {case for own in values.values() for case, value in own.items() if value == value}
        asked = {k: [v for case, v in own.items() if case in known or len(values) == 1] for k, own in values.items()}
        counts = {label: (sum(value == value for value in own), len(own)) for label, own in asked.items()}
        return {label: (there, of) for label, (there, of) in counts.items() if there < of}

    def levels(self) -> dict[str, dict[str, Any]]:
        """Heading -> the level of the suite's factor `by`; empty where tables do not have rows for each."""
        by, suite = self.suite.by, self.suite
        return {} if by is None else {suite.level(point[by]): {by: point[by]} for point in self.points()}

    def differences(self) -> dict[str, dict[str, Estimate]]:
        """Label -> metric key -> median of (contender - first contender), paired by case; not for the first itself."""
        first = self.contenders[0]
        return {
            c.label: {
                m.key: paired_difference(self.by_case(c, m.key), self.by_case(first, m.key)) for m in self.suite.metrics
            }
            for c in self.contenders[1:]
        }

    def series_path(self, contender: Contender, case: Case) -> Path:
        """The file with the time series of a contender in a case."""
        readable = re.sub(r"[^A-Za-z0-9._-]+", "_", contender.label)[:60]
        unique = hashlib.sha256(f"{contender.key}|{case.digest}|{case.seed}|{self.version}".encode()).hexdigest()[:8]
        return self.out_dir / "series" / f"{readable}-{unique}.npz"

    def shown(self) -> list[Case]:
        """The cases whose time series are kept."""
        return [case for case in self.suite.cases(self.profile, self.runs) if self.suite.shows(case)]

    def recordings(self) -> dict[str, Recording]:
        """Label -> recording of the first case that is shown, for those that are there.

        Raises FileError for a file that is not as its run wrote it.
        """
        from orbitcc.envs.backends.simulator import Recording

        case = next(iter(self.shown()), None)
        if case is None:
            return {}
        key, found = (case.digest, case.seed), {}
        rows = {row["contender"]: row for row in self.rows if (row["scenario"], row["seed"]) == key}
        for contender in self.contenders:
            path = self.series_path(contender, case)
            if path.exists():
                if not has_series(path, rows.get(contender.key, {})):
                    raise FileContentError("file", str(path), f"as the run of {RUNS} wrote it: --resume makes it again")
                found[contender.label] = Recording.load(path)
        return found

    def write_csv(self) -> Path:
        """The tidy table: one line per run, in the order of contenders and seeds, whatever order they finished in."""
        order = {contender.key: i for i, contender in enumerate(self.contenders)}
        rows = sorted(self.rows, key=lambda row: (order[row["contender"]], row["seed"], row["scenario"]))
        factors = list(dict.fromkeys(name for row in rows for name in row["point"]))
        columns = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
        table: list[list[Any]] = [[*KEY_COLUMNS, *factors, *columns]]
        for row in rows:
            parameters = spec_text("", row["params"]).lstrip(":")
            keys = {**row, "parameters": parameters}
            where = (row["point"].get(factor, "") for factor in factors)
            table.append([*(keys[c] for c in KEY_COLUMNS), *where, *(_number(value_of(row, c)) for c in columns)])
        return atomic_write_text(self.out_dir / "runs.csv", csv_text(table))


def have_copies(rows: Iterable[Row]) -> bool:
    """Whether a world has several of these runs, all with the same figures, for example because nothing is random."""
    figures: dict[str, list[Any]] = {}
    for row in rows:
        figures.setdefault(json.dumps(row["point"], sort_keys=True), []).append(row["metrics"])
    return any(len(runs) > 1 and all(run == runs[0] for run in runs) for runs in figures.values())


def value_of(row: Row, metric: str) -> float:
    """A metric of a row; NaN where it has none (JSON knows no NaN, rows hold null)."""
    value = row["metrics"].get(metric)
    return float("nan") if value is None else float(value)


def key_of(row: Row) -> Key:
    return row["suite"], row["scenario"], row["contender"], row["seed"]


def digest(series: bytes) -> str:
    """16 hex digits of the content of a file with time series."""
    return hashlib.sha256(series).hexdigest()[:16]


def has_series(path: Path, row: Row) -> bool:
    """Is the file with the time series of this run there, as it was written?"""
    try:
        return digest(read_bytes(path, MOST_TABLE)) == row.get("series")
    except FileError:
        return False


def append(file: IO[bytes], row: Row) -> None:
    """Add one finished run, on the disk before this returns."""
    file.write(json.dumps(row, allow_nan=False, separators=(",", ":")).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def read_rows(data: bytes, path: Path) -> list[Row]:
    """The rows of a runs.jsonl of whole lines. Raises FileError naming a line that is no row, and its field."""
    rows = []
    for number, line in enumerate(io.BytesIO(data), start=1):
        try:
            if len(line) > MOST_ROW:
                raise ValueError(f"it has more than {MOST_ROW / MB:g} MB")
            rows.append(_checked(parse_json(line)))
        except ValueError as error:
            wanted = f"one finished run per line, as JSON ({error})"
            raise FileError(f"{path.name} line {number}", str(path), wanted) from None
    return rows


def load_rows(path: Path) -> list[Row]:
    """The rows of the runs.jsonl at `path`; a torn last line, a run that was not finished, is left out.

    Raises FileError for a file that cannot be read, and as `read_rows`.
    """
    data = read_bytes(path, MOST_TABLE)
    return read_rows(data[: data.rfind(b"\n") + 1], path)


def load_planned(path: Path) -> list[Row]:
    """The rows of the runs.jsonl at `path` that are cases of the plan beside it; all, if it is missing or damaged.

    Others are left from earlier plans for the same folder, for example with more runs. Raises FileError as `load_rows`.
    """
    rows = load_rows(path)
    try:
        cases = set(parse_json(read_text(path.with_name(PLAN)))["cases"])
    except (OrbitccError, ValueError, LookupError, TypeError):
        return rows
    return [row for row in rows if f"{row['scenario']} {row['seed']}" in cases]


def _checked(row: Any) -> Row:
    """The row; ValueError that names a field which is missing or of another type."""
    if not isinstance(row, dict):
        raise ValueError("it is no table")
    for name in _TEXTS:
        if not isinstance(row.get(name), str):
            raise ValueError(f"{name} must be text")
    if not _is_a(row.get("seed"), int):
        raise ValueError("seed must be a whole number")
    if not isinstance(row.get("series", ""), str):
        raise ValueError("series must be text")
    if not _is_a(row.get("elapsed_s", 0.0), int | float):
        raise ValueError("elapsed_s must be a number")
    for name, (kinds, wanted) in _TABLES.items():
        table = row.get(name)
        if not isinstance(table, dict) or not all(_is_a(value, kinds) for value in table.values()):
            raise ValueError(f"{name} must be a table of {wanted}")
    return row


def _is_a(value: Any, kinds: Any) -> bool:
    """Is it of one of these types? JSON's true and false are no numbers, and very large numbers are none, either."""
    if isinstance(value, int | float) and abs(value) > MOST_NUMBER:
        return False
    return isinstance(value, kinds) and (kinds is _PLAIN or not isinstance(value, bool))


@contextmanager
def opened(results: Results, resume: bool) -> Iterator[tuple[IO[bytes], list[Row]]]:
    """The results' runs.jsonl, locked and ready to append to, and the rows it holds.

    Raises FileError if the folder cannot be written, belongs to another process, holds runs though `resume` was not
    asked for, holds another suite's or another backend's, or a whole paper.
    """
    path, fresh = results.jsonl, not results.out_dir.exists()
    if any(results.out_dir.glob(f"*/{RUNS}")):
        raise FileError("out", str(results.out_dir), "a folder of its own, not one that holds a paper")
    try:
        results.out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError("out", str(results.out_dir), f"a writable folder ({error.strerror or error})") from None
    try:
        file = open_regular(path, MOST_TABLE, append=True)
    except FileError as error:
        raise FileError("out", str(results.out_dir), f"a writable folder ({path.name}: {error.allowed})") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FileError("out", str(results.out_dir), "a folder no other evaluation is writing to") from None
        file.seek(0)
        data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if data and not resume:
            raise FileError("out", str(results.out_dir), "a folder without runs, or --resume to continue these")
        if len(whole) < len(data):
            file.truncate(len(whole))
        rows = read_rows(whole, path)
        for row in rows:
            if row["suite"] != results.suite.name:
                raise FileError("out", str(results.out_dir), f"a folder of {row['suite']!r}: one suite per folder")
            emulated = row["version"].endswith(".emulator") or SIMULATED in row["contender"]
            if emulated != results.version.endswith(".emulator"):
                raise FileError("out", str(results.out_dir), "a folder of runs on this backend: one backend per folder")
        if rows and (other := _other_settings(results)) is not None:
            raise FileError("out", str(results.out_dir), f"a folder of runs with these settings; it has {other}")
        for folder in (results.out_dir, results.out_dir / "series", results.out_dir / "figures"):
            settle(folder)
        try:
            yield file, rows
        except OrbitccError:
            if not os.fstat(file.fileno()).st_size:  # nothing is left of results that were refused
                for left in (results.out_dir / PLAN, path):
                    left.unlink(missing_ok=True)
                if fresh:
                    with contextlib.suppress(OSError):
                        results.out_dir.rmdir()
            raise


def _other_settings(results: Results) -> str | None:
    """The settings of the plan in the folder, where they differ in more than the numbers of the runs; else None."""
    try:
        found = parse_json(read_text(results.out_dir / PLAN))["settings"]
        was, now = ({k: v for k, v in table.items() if k != "first_run"} for table in (found, results.suite.settings))
    except (OrbitccError, ValueError, LookupError, TypeError, AttributeError):
        return None
    if was == json.loads(json.dumps(now, default=str)):
        return None
    return ", ".join(f"{key} = {value}" for key, value in sorted(was.items())) or "none"


def write_plan(results: Results, cases: Sequence[Case], versions: Mapping[str, str]) -> None:
    """results.json: the plan, with the scenarios and seeds of its cases."""
    plan = {
        "suite": results.suite.name,
        "settings": results.suite.settings,
        "profile": results.profile,
        "runs": results.runs,
        "contenders": [{**vars(c), "params": dict(c.params)} for c in results.contenders],
        "cases": [f"{case.digest} {case.seed}" for case in cases],
        "command": results.command,
        "versions": dict(versions),
    }
    atomic_write_text(results.out_dir / PLAN, json.dumps(plan, indent=2) + "\n")


def _number(value: float) -> str:
    return "" if value != value else repr(value)
