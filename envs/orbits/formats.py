"""Path traces as files: CSV, logs of LeoEM, and the pairs of files of LeoReplayer.

**CSV** (`.csv`): a line with the names of the columns, then a row for each time at which something is known.

- `t_s`: seconds from 0 on, increasing; the last row is the end of the path.
- `owd_fwd_ms`, `owd_rev_ms`: one-way delays, interpolated linearly between rows. Empty: no point in this row; without a
  reverse delay, it equals the forward delay.
- `cap_fwd_mbps`, `cap_rev_mbps`: rates from this time on; 0: no packet passes. Empty: as before; without a reverse
  rate, it equals the forward rate.
- `loss`: share of packets lost in each direction from this time on. Empty: 0 at the start of a slot, else as before.
- `flags`: the start of a slot, with words out of `slot access_fwd access_rev mid outage hold interruption=MS`. Empty:
  no slot starts.
- `nodes`: the route of the slot, `a > b > c`.

Only `t_s` and `owd_fwd_ms` are required. Lines that begin with `#` are comments; `# name: ...` names the path. Between
two rows, delays are interpolated and everything else stays constant. Time without a route is a slot with `outage`.

**LeoEM** (`.log`): a line per second, `index$[nodes]$count$[one-way delays of the hops in s]$their sum`, or
`index$NULL` without a route, which is an outage. Delays are constant during the second and equal in both directions. A
missing index is an error, as in LeoEM.

**LeoReplayer**: a file of delays (whole milliseconds, one line per 10 ms), and a file of opportunities to send 1500
bytes (one line with the millisecond of each; without a line, no packet passes). As in LeoReplayer, the latter file is
repeated when it ends.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import FileContentError, FileError, OrbitccError, UnknownNameError
from orbitcc.common.files import MOST_LINES, MOST_TRACE, atomic_write_text, csv_cells, csv_head, read_text
from orbitcc.common.numbers import checked_number
from orbitcc.envs.description.links import MAX_DELAY_MS, MAX_RATE_MBPS
from orbitcc.envs.description.model import MAX_TIME_S
from orbitcc.envs.orbits.trace import Capacity, PathTrace, Slot, steps

COLUMNS = ("t_s", "owd_fwd_ms", "owd_rev_ms", "cap_fwd_mbps", "cap_rev_mbps", "loss", "flags", "nodes")
_FLAGS = {
    "access_fwd": "access_fwd_change",
    "access_rev": "access_rev_change",
    "mid": "mid_change",
    "outage": "outage",
}  # fmt: skip
_BETWEEN = " > "

_LONGEST_LIST = 100_000
"""Letters of a list in a log of LeoEM."""
OPPORTUNITY_BITS = 1500 * 8
DELAY_STEP_MS = 10
BIN_MS = 100


def save(trace: PathTrace, path: str | os.PathLike[str]) -> Path:
    """Write a trace to a .csv file, or to a .log file in LeoEM's format. Raises FileError for other names."""
    return atomic_write_text(path, to_leoem(trace) if check_name(path) == ".log" else to_csv(trace))


def load(path: str | os.PathLike[str]) -> PathTrace:
    """Read a trace from a .csv file or a .log file of LeoEM. Raises FileError that names file, line and field."""
    read = from_leoem if check_name(path) == ".log" else from_csv
    return read(_text(path), os.fspath(path))


def _text(path: str | os.PathLike[str]) -> str:
    text = read_text(path, MOST_TRACE)
    if text.count("\n") > MOST_LINES:
        raise FileContentError("file", os.fspath(path), f"a trace of at most {MOST_LINES:,} lines")
    return text


def check_name(path: str | os.PathLike[str]) -> str:
    """The suffix of the file's name. Raises FileError unless it is .csv or .log."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".log"):
        raise FileError("file", os.fspath(path), "a name ending in .csv, or in .log for LeoEM's format")
    return suffix


# -- CSV --------------------------------------------------------------------------------------------------------


def to_csv(trace: PathTrace) -> str:
    """The trace as CSV text; `from_csv` restores the same trace."""
    rows: dict[float, dict[str, str]] = {}

    def put(t: float, **cells: str) -> None:
        rows.setdefault(t, {"t_s": repr(t)}).update(cells)

    for t, forward, reverse in zip(*(a.tolist() for a in (trace.t_s, trace.forward_ms, trace.reverse_ms)), strict=True):
        put(t, owd_fwd_ms=repr(forward), owd_rev_ms=repr(reverse))
    if trace.capacity is not None:
        own = trace.capacity
        for t, forward, reverse in zip(
            *(a.tolist() for a in (own.t_s, own.forward_mbps, own.reverse_mbps)), strict=True
        ):
            put(t, cap_fwd_mbps=repr(forward), cap_rev_mbps=repr(reverse))
    for slot in trace.slots:
        loss = repr(slot.loss) if slot.loss else ""
        put(slot.start_s, loss=loss, flags=_flags_text(slot), nodes=_BETWEEN.join(slot.nodes))
    out = io.StringIO()
    out.write(f"# name: {' '.join(trace.name.split())}\n")
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[t] for t in sorted(rows))
    return out.getvalue()


def _flags_text(slot: Slot) -> str:
    words = [word for word, name in _FLAGS.items() if getattr(slot, name)]
    if slot.interruption_mode == "hold":
        words.append("hold")
    if slot.interruption_ms is not None:
        words.append(f"interruption={slot.interruption_ms!r}")
    return " ".join(words) or "slot"


def from_csv(text: str, file: str = "trace.csv") -> PathTrace:
    """The trace from CSV text. Raises FileError that names file, line and field."""
    name = Path(file).stem
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if line.startswith("#"):
            key, _, value = line[1:].partition(":")
            name = value.strip() or name if key.strip() == "name" else name
        elif line.strip():
            lines.append((number, line))
    if not lines:
        raise FileError(file, "nothing", f"a line with the names of columns: {', '.join(COLUMNS)}")
    head = csv_head(lines[0][1], f"{file}, line {lines[0][0]}")
    for column in head:
        if column not in COLUMNS:
            raise UnknownNameError(f"{file}, line {lines[0][0]}", column, COLUMNS)
    for column in ("t_s", "owd_fwd_ms"):
        if column not in head:
            raise FileError(f"{file}, line {lines[0][0]}", ",".join(head), f"a column {column}")
    reader = _CsvRows(file)
    for number, line in lines[1:]:
        cells = csv_cells(line, f"{file}, line {number}")
        if len(cells) != len(head):
            raise FileError(f"{file}, line {number}", line, f"{len(head)} cells, one per column")
        reader.take(number, dict(zip(head, cells, strict=True)))
    return reader.trace(name)


class _CsvRows:
    """Reads the rows of a CSV file, one after the other."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.where = file
        self.end = -1.0
        self.knots: list[tuple[float, float, float]] = []
        self.rates: list[tuple[float, float, float]] = []
        self.slots: list[Slot] = []

    def take(self, number: int, cells: dict[str, str]) -> None:
        self.where = f"{self.file}, line {number}"
        t = self._number(cells, "t_s", MAX_TIME_S, "s")
        if t is None or (self.end < 0 and t != 0) or t <= self.end:
            allowed = "0 in the first row" if self.end < 0 else f"a time later than {self.end:g}"
            raise FileError(f"{self.where}, t_s", cells["t_s"], allowed)
        self.end = t
        self._take_pair(self.knots, t, cells, "owd_fwd_ms", "owd_rev_ms", MAX_DELAY_MS, "ms")
        self._take_pair(self.rates, t, cells, "cap_fwd_mbps", "cap_rev_mbps", MAX_RATE_MBPS, "Mbit/s")
        flags, loss = cells.get("flags", ""), self._number(cells, "loss", 1, "(share of packets)")
        if flags or not self.slots:
            self.slots.append(self._slot(t, flags, loss or 0.0, cells.get("nodes", "")))
        elif loss is not None and loss != self.slots[-1].loss:
            self.slots.append(Slot(t, outage=self.slots[-1].outage, loss=loss, nodes=self.slots[-1].nodes))

    def _take_pair(
        self, to: list[Any], t: float, cells: dict[str, str], forward: str, reverse: str, high: float, unit: str
    ) -> None:
        there, back = self._number(cells, forward, high, unit), self._number(cells, reverse, high, unit)
        if there is None and back is not None:
            raise FileError(f"{self.where}, {forward}", "", f"a value, because {reverse} has one")
        if there is not None:
            to.append((t, there, there if back is None else back))

    def _number(self, cells: dict[str, str], column: str, high: float, unit: str) -> float | None:
        text = cells.get(column, "")
        if not text:
            return None
        try:
            return float(checked_number(_float(text), 0, high, unit))
        except OrbitccError as error:
            raise FileError(f"{self.where}, {column}", text, error.allowed) from None

    def _slot(self, t: float, flags: str, loss: float, nodes: str) -> Slot:
        given: dict[str, Any] = {}
        for word in flags.split():
            key, equals, value = word.partition("=")
            if word in _FLAGS:
                given[_FLAGS[word]] = True
            elif word == "hold":
                given["interruption_mode"] = "hold"
            elif key == "interruption" and equals:
                given["interruption_ms"] = self._number({"flags": value}, "flags", MAX_TIME_S * 1e3, "ms")
            elif word != "slot":
                raise UnknownNameError(f"{self.where}, flags", word, ("slot", *_FLAGS, "hold", "interruption=MS"))
        return Slot(t, **given, loss=loss, nodes=tuple(nodes.split(_BETWEEN)) if nodes else ())

    def trace(self, name: str) -> PathTrace:
        if not self.knots or self.knots[0][0] != 0:
            raise FileError(f"{self.file}, owd_fwd_ms", "", "a delay in the first row, at time 0")
        if self.rates and self.rates[0][0] != 0:
            raise FileError(f"{self.file}, cap_fwd_mbps", "", "a rate in the first row, or none at all")
        if self.end == 0:
            raise FileError(self.file, "one row", "at least two rows; the last one is the end")
        if self.knots[-1][0] != self.end:
            self.knots.append((self.end, *self.knots[-1][1:]))
        if self.slots[-1].start_s == self.end:
            raise FileError(f"{self.where}, flags", _flags_text(self.slots[-1]), "no slot in the last row")
        t, forward, reverse = (np.array(values) for values in zip(*self.knots, strict=True))
        rates = [rate for rate in self.rates if rate[0] < self.end]
        capacity = Capacity(*(np.array(v) for v in zip(*rates, strict=True))) if rates else None
        return PathTrace(name, t, forward, reverse, tuple(self.slots), capacity)


# -- LeoEM ----------------------------------------------------------------------------------------------------------


def to_leoem(trace: PathTrace) -> str:
    """The trace at whole seconds as a log of LeoEM; its slots must name their nodes.

    Each hop gets an equal share of the mean delay of both directions. Satellites and gateways are numbered in the order
    of their appearance, unless all names are numbers, as in an imported log.
    """
    inner = dict.fromkeys(node for slot in trace.slots for node in slot.nodes[1:-1])
    numbered = all(node.isdecimal() for node in inner)
    numbers = {node: int(node) if numbered else k for k, node in enumerate(inner)}
    lines = []
    for second in range(math.ceil(trace.duration_s)):
        slot = trace.slot_at(second)
        if slot.outage:
            lines.append(f"{second + 1}$NULL")
            continue
        if len(slot.nodes) < 3:
            raise OrbitccError(
                "nodes", list(slot.nodes), "a trace that names the nodes of its routes, including both ends"
            )
        nodes = [-1, *(numbers[node] for node in slot.nodes[1:-1]), -2]
        total = float(trace.base_rtt_ms(second)) / 2e3
        delays = [total / (len(nodes) - 1)] * (len(nodes) - 1)
        lines.append(f"{second + 1}${nodes}${len(nodes)}${delays}${total!r}")
    return "\n".join(lines) + "\n"


def from_leoem(text: str, file: str = "trace.log") -> PathTrace:
    """The trace from a log of LeoEM. Raises FileError that names file, line and field."""
    delays: list[float] = []
    slots: list[Slot] = []
    route: tuple[str, ...] = ()
    first = 0
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{file}, line {number}"
        fields = line.split("$")
        index = _literal(fields[0], where, "index", int)
        if number == 1:
            first = index
        if index != first + number - 1:
            raise FileError(f"{where}, index", index, f"{first + number - 1} (one line per second)")
        second = float(number - 1)
        if len(fields) == 2 and fields[1].strip() == "NULL":
            if not slots or not slots[-1].outage:
                slots.append(Slot(second, outage=True))
            delays.append(delays[-1] if delays else math.nan)
            continue
        nodes, hops = _leoem_fields(fields, where)
        delays.append(1e3 * sum(hops))
        before, route = route, nodes
        if slots and not slots[-1].outage and before == nodes:
            continue
        slot = Slot(second, nodes=nodes)
        slots.append(slot.after(before) if before else slot)
    known = [d for d in delays if not math.isnan(d)]
    if not known:
        raise FileError(
            file, f"{len(delays)} lines", "a log with a route in at least one line: index$[nodes]$count$[delays]$sum"
        )
    filled = [known[0] if math.isnan(d) else d for d in delays]
    t, forward, reverse = steps(range(len(filled)), filled, filled, end_s=len(filled))
    return PathTrace(Path(file).stem, t, forward, reverse, tuple(slots))


def _leoem_fields(fields: Sequence[str], where: str) -> tuple[tuple[str, ...], list[float]]:
    """The nodes of one line, and the delays of its hops in seconds."""
    if len(fields) != 5:
        raise FileError(where, "$".join(fields), "index$[nodes]$count$[delays]$sum, or index$NULL")
    nodes = _literal(fields[1], where, "nodes", list)
    hops = _literal(fields[3], where, "delays", list)
    if len(nodes) < 3 or not all(isinstance(node, int) for node in nodes):
        raise FileError(f"{where}, nodes", fields[1], "a list of at least three whole numbers")
    if _literal(fields[2], where, "count", int) != len(nodes):
        raise FileError(f"{where}, count", fields[2], f"{len(nodes)}, the number of nodes")
    if len(hops) != len(nodes) - 1:
        raise FileError(f"{where}, delays", f"{len(hops)} delays", f"{len(nodes) - 1}, one per hop")
    for hop in hops:
        try:
            checked_number(hop, 0, MAX_DELAY_MS / 1e3, "s")
        except OrbitccError as error:
            raise FileError(f"{where}, delays", hop, error.allowed) from None
    total = _float(fields[4])
    if isinstance(total, str) or not math.isclose(total, sum(hops), rel_tol=1e-6):
        raise FileError(f"{where}, sum", fields[4], f"the sum of the delays, {sum(hops):g}")
    return tuple(str(node) for node in nodes), hops


def _literal(text: str, where: str, field: str, kind: type) -> Any:
    value: Any = None
    if len(text) <= _LONGEST_LIST:
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value = ast.literal_eval(text.strip())
    if not isinstance(value, kind):
        raise FileError(f"{where}, {field}", text, "a list" if kind is list else "a whole number")
    return value


# -- LeoReplayer ----------------------------------------------------------------------------------------------------


def load_replayer(
    delay_file: str | os.PathLike[str],
    bandwidth_file: str | os.PathLike[str],
    *,
    bin_ms: int = BIN_MS,
) -> PathTrace:
    """A trace from the files of LeoReplayer, as long as the file of delays. Raises FileError that names file and line.

    Delay and rate apply to each direction. Rates are means over `bin_ms`.
    """
    delays = whole_numbers(delay_file, MAX_DELAY_MS, increasing=False)
    end_ms = len(delays) * DELAY_STEP_MS
    t, forward, reverse = steps(np.arange(len(delays)) * DELAY_STEP_MS / 1e3, delays, delays, end_s=end_ms / 1e3)
    rates = rates_of(opportunities(bandwidth_file), end_ms, bin_ms, os.fspath(bandwidth_file))
    starts = np.append(0, 1 + np.flatnonzero(np.diff(rates)))
    capacity = Capacity(starts * bin_ms / 1e3, rates[starts], rates[starts])
    return PathTrace(Path(delay_file).stem, t, forward, reverse, capacity=capacity)


def opportunities(file: str | os.PathLike[str]) -> NDArray[np.float64]:
    """The times in ms at which 1500 bytes can be sent, from a file of LeoReplayer or Mahimahi."""
    return whole_numbers(file, MAX_TIME_S * 1e3, increasing=True)


def rates_of(stamps: NDArray[np.float64], end_ms: float, bin_ms: int, file: str = "") -> NDArray[np.float64]:
    """The rate in Mbit/s in each bin of [0, end_ms), for opportunities at these ms, which repeat from their end on."""
    period = int(stamps[-1])
    if period == 0:
        raise FileError(file, 0, "opportunities after the first millisecond")
    rounds = math.ceil((end_ms - 1) / period)  # a file that reaches the last millisecond is not repeated
    edges = np.append(np.arange(0, end_ms, bin_ms), end_ms)
    whole = np.clip(-(-edges // period) - 1, 0, rounds - 1)  # rounds before the one in which a bin begins
    bins = np.diff(whole * stamps.size + np.searchsorted(stamps, edges - whole * period, side="left"))
    lengths = np.minimum(bin_ms, end_ms - bin_ms * np.arange(bins.size))
    return bins * (OPPORTUNITY_BITS / 1e3) / lengths


def whole_numbers(file: str | os.PathLike[str], high: float, *, increasing: bool) -> NDArray[np.float64]:
    """The numbers of a file, one in each line: whole, in [0, high]. increasing: none is below the one before.

    Raises FileError that names file and line.
    """
    text = _text(file)
    found = _digits(text)
    if found is not None and found.max() <= high and not (increasing and (np.diff(found) < 0).any()):
        return found
    before = 0
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{os.fspath(file)}, line {number}"
        try:
            value = checked_number(_float(line), 0, high, "ms", whole=True)
        except OrbitccError as error:
            raise FileError(where, line, error.allowed) from None
        if increasing and value < before:
            raise FileError(where, value, f"{before} or later (times in order)")
        before = value
    if not text:
        raise FileError(os.fspath(file), "nothing", "a number in each line")
    return np.array([float(line) for line in text.splitlines()])


def _digits(text: str) -> NDArray[np.float64] | None:
    """The numbers of text with 1 to 15 digits in each line, and nothing else; None for other text."""
    letters = np.frombuffer(text.removesuffix("\n").encode() + b"\n", np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    length = np.diff(ends, prepend=-1) - 1
    digits = letters - ord("0")
    if length.min() < 1 or length.max() > 15 or (digits <= 9).sum() + ends.size < letters.size:
        return None
    found = np.zeros(ends.size)
    for k in range(int(length.max())):
        found += np.where(length > k, digits.take(ends - 1 - k, mode="wrap"), 0) * 10.0**k
    return found


def _float(text: str) -> Any:
    """The text as a number, or the text itself if it is none."""
    try:
        return float(text)
    except ValueError:
        return text
