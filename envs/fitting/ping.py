"""The output of ping and fping: probes with sequence numbers (iputils, busybox, macOS, fping) or without (Windows)."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field

import numpy as np

from orbitcc.common.errors import FileContentError, quoted
from orbitcc.envs.fitting.recordings import Array, Probes

FEWEST = 20
"""A log needs as many answers."""
MOST = 10_000_000
"""Probes of a log: at one a second, 115 days."""
MOST_REPEATED = 0.01
"""Share of sequence numbers that come twice without the mark of a duplicate; more are those of a second run."""
MOST_LATE = 2_000
"""An answer comes after at most as many later ones: where numbers fall further, they started again in a gap."""
MOST_UNEVEN = 2e-3
"""By so much of its length a gap may differ from that of evenly spaced probes."""
DEFAULT_INTERVAL_S = 1.0
"""Of all these programs."""
_LONGEST_LINE = 1_000
_NUMBERS = 2**16
"""Sequence numbers of ICMP start again after as many."""
_DAY_S = 86_400.0
STEP_BACK_S = 2.0
"""A clock that is set may step back by as much."""

_FIGURE = r"(\d{1,9}(?:[.,]\d{1,9})?)"
_MS = "(?:ms|мс|ミリ秒|毫秒|밀리초|მწმ)"
_NUMBER = re.compile(r"(?:seq|icmp_req|pořadí)[=: ]{1,2}(\d+)")
_TIME = re.compile(rf"[=<]{_FIGURE}\s?{_MS}")
_HOPS = re.compile(r"\b(?:ttl|hlim|TTL)\s?=")
_BYTES = re.compile(
    r"(?<!\d)\d{1,6}\s(?:[Bb]ytes?|octe[tț]\w*|байт\w*|バイト\w*|字节|bajt\w*|tavu\w*|bayt\w*|바이트\w*|ბაიტ\w*)\b"
)
_DUPLICATE = re.compile(r"\(\w[^()]{0,30}!\)|duplicate for")
_HEADER = re.compile(r"\bPING6?[ (]+\w|\bПІНГ \w|\bPing \S+ \(")
_FROM_ZERO = re.compile(r": \d+ data bytes|\bPING6\(")
_TOTALS = re.compile(r"(?<!\d)(\d{1,12})(?!\d)[^\d,，]{0,60}[,，][^\d,，]{0,60}(\d{1,12})(?!\d)([^\d,，]{0,60})[,，]")
"""Sent and received, whatever the order of the words."""
_TOOK = re.compile(rf"(\d{{1,12}})\s?{_MS}$")
_REPLY = re.compile(r"(?:Reply from|Antwort von|R.{1,3}ponse de|Respuesta desde|Risposta da|Resposta de) ")
_WINDOWS_HEADER = re.compile(r"\b(?:Pinging|Ping wird|Envoi d|Haciendo ping|Esecuzione di Ping|Disparando)\b")
_NO_REPLY = re.compile(
    "timed out|unreachable|failure|expired|berschreitung|berschritten|nicht erreichbar|Fehler|d.{1,3}pass|"
    "impossible de joindre|inaccessible|agotado|inaccesible|scadut|non raggiungibile|esgotado",
    re.IGNORECASE,
)
"""Windows in English, German, French, Spanish, Italian and Portuguese, with letters that another code page spoils."""
_FPING = re.compile(rf"(?<!\S)(\S+)\s+: (?:duplicate for )?\[(\d{{1,9}})\], (?:\d+ bytes, {_FIGURE} ms|timed out)")
_FPING_TOTALS = re.compile(r"(\S+)\s+:((?: (?:\d{1,9}(?:\.\d{1,9})?|-))+)\s*")
_EPOCH = re.compile(r"(?:\[(\d{1,19}(?:\.\d{1,9})?)\]|(\d{10,19}|\d{1,11}\.\d{1,9}))\s")
_EPOCH_FIRST = re.compile(r"\[(\d{9,11}\.\d{1,9})\]\s")
"""As `ping -D` writes it, before words of any language."""
_DATE = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)")
_CLOCK = re.compile(r"(?:(?<=\dT)|(?<![\w:]))(\d\d?):(\d\d):(\d\d(?:[.,]\d{1,9})?+)(?:\s?([AP])M\b)?(Z|[+-]\d\d:?\d\d)?(?!\w|:\d)")  # fmt: skip # noqa: E501
_SHORT_CLOCK = re.compile(r"(?<![\w:.])\d{1,4}:[0-5]\d(?:[.,]\d{1,9})?(?![\w:])")
"""Minutes and seconds."""
FORMS = "ping (iputils, busybox, macOS, Windows) or fping with one target, as in docs/data.md"


def is_ping(text: str) -> bool:
    """Whether text is output of ping or fping, or looks like it."""
    marks = ("icmp_seq", "seq=", "PING ", "PING6(", "Pinging ", " TTL=", " ttl=", "bytes from")
    return any(mark in text for mark in marks) or bool(
        _REPLY.search(text) or _FPING.search(text[:_LONGEST_LINE]) or _FPING_TOTALS.fullmatch(text.split("\n", 1)[0])
    )


def read(text: str, file: str) -> Probes:
    """The probes of a log.

    A missing sequence number is a lost probe: from the first one on if the log has its header, otherwise from the first
    answer on. A sequence number belongs to the round of 65,536 that is nearest to the answer before, or, where they
    agree, to the stamps. Stamps are those of answers; a probe was sent one RTT before. Without stamps, probes are
    evenly spaced: a summary of iputils says how long all took; without one, they are 1 s apart. Raises FileContentError
    when there are fewer than 20 answers, more probes than a log can have, or a line that looks like an answer and is
    not understood.
    """
    log = _Log(file)
    lines = text.splitlines()
    cut = 0 if text.endswith("\n") else len(lines)
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST_LINE:
            raise log.wrong(f"lines of at most {_LONGEST_LINE:,} letters; line {number} has {len(line):,}")
        log.take(number, line, maybe_cut=number == cut or (number == 1 and not _BYTES.search(line)))
    return log.probes()


def _value(text: str) -> float:
    return float(text.replace(",", "."))


@dataclass
class _Log:
    """What the lines of a log say, one after the other."""

    file: str
    numbers: list[int] = field(default_factory=list)
    rtts: list[float] = field(default_factory=list)
    stamps: list[float] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    form: str = ""
    """Of the first answer: `numbered`, `windows` or `fping`."""
    host: str = ""
    """The target of fping."""
    header: str = ""
    lowest: int | None = None
    """The number of the first probe: of the header, or of the first answer."""
    last: int = -1
    """The highest number that a line names, of an answer or not."""
    previous: int | None = None
    """The number of the answer before, with all rounds."""
    stamp_s: float = np.nan
    falls: int = 0
    """Stamps that are earlier than the one before."""
    back_s: float = 0.0
    repeated: int = 0
    from_zero: bool = False
    transmitted: int = 0
    took_ms: int = 0
    summaries: list[str] = field(default_factory=list)
    in_results: bool = False
    """Whether the line before was a probe of Windows, so that this one is, too."""
    not_understood: str = ""

    def wrong(self, what: str) -> FileContentError:
        return FileContentError("file", self.file, f"output of ping with {what}")

    def _not_understood(self, number: int, line: str, *, maybe_cut: bool) -> None:
        """Refuse a line, or keep the first one that may be no answer, for the message about too few of them."""
        if not maybe_cut:
            raise self.unknown(number, line)
        self.not_understood = self.not_understood or quoted(number, line)

    def unknown(self, number: int, line: str) -> FileContentError:
        return FileContentError("file", self.file, f"output of {FORMS}; {quoted(number, line)}")

    def take(self, number: int, line: str, *, maybe_cut: bool) -> None:
        numbered, timed = _NUMBER.search(line), _TIME.search(line)
        if numbered is not None:
            if len(numbered[1]) > 5 or int(numbered[1]) >= _NUMBERS:
                raise self.wrong(f"icmp_seq below {_NUMBERS:,}; line {number} has {numbered[1][:20]}")
            if timed is not None:
                at_s = self._stamp_before(number, line, numbered.start())
                n = self._of_round(int(numbered[1]), at_s)
                if self.previous is not None and n < self.previous - MOST_LATE:
                    fall = f"line {number} falls from {self.previous % _NUMBERS} to {numbered[1]}"
                    raise self.wrong(
                        f"at most {_NUMBERS // 2:,} lost probes in a row, or it is not known how many; {fall}"
                    )
                self.previous = n
                self._probe("numbered", number, line, n, _value(timed[1]), at_s)
            elif _HOPS.search(line) or (maybe_cut and _BYTES.search(line)):
                self._not_understood(number, line, maybe_cut=maybe_cut)
            elif self.previous is not None:  # a message about a probe without an answer
                self.last = max(self.last, self._nearest(int(numbered[1])))
        elif " : " in line and (found := _FPING.search(line)):
            rtt = None if found[3] is None else _value(found[3])
            at_s = np.nan if rtt is None else self._stamp_before(number, line, found.start(), certain=True)
            self._probe("fping", number, line, int(found[2]), rtt, at_s, found[1])
        elif timed is not None and (_REPLY.search(line) or " TTL=" in line):
            at_s = self._stamp_before(number, line, timed.start())
            self._probe("windows", number, line, self.last + 1, _value(timed[1]), at_s)
        elif (self.form or self.header) == "windows" and _NO_REPLY.search(line):
            self._probe("windows", number, line, self.last + 1, None, np.nan)
        else:
            self._other(number, line, maybe_cut=maybe_cut)

    def _nearest(self, n: int) -> int:
        return n if self.previous is None else n + _NUMBERS * round((self.previous - n) / _NUMBERS)

    def _of_round(self, n: int, at_s: float) -> int:
        """The number with all rounds: nearest to the answer before, or where stamps say that more were lost, to them.

        They say so where their gap is that of so many probes at the pace of the answers before, to MOST_UNEVEN.
        """
        near = self._nearest(n)
        if len(self.numbers) < FEWEST or abs(near - self.numbers[-1]) <= MOST_LATE:
            return near
        first_s, last_s = self.stamps[0], self.stamps[-1]
        if not last_s > first_s or np.isnan(at_s):
            return near
        gap = (at_s - last_s) * (self.numbers[-1] - self.numbers[0]) / (last_s - first_s)
        timed = n + _NUMBERS * round((self.numbers[-1] + gap - n) / _NUMBERS)
        return timed if abs(timed - self.numbers[-1] - gap) <= MOST_UNEVEN * gap else near

    def _probe(self, form: str, number: int, line: str, n: int, rtt: float | None, at_s: float, host: str = "") -> None:
        """A probe: its number, RTT and stamp."""
        if self.form not in ("", form):
            raise self.wrong(f"lines of one program; {quoted(number, line, 'is of another')}")
        if self.host not in ("", host):
            raise self.wrong(f"one target; line {number} is of {host}, others of {self.host} (`grep` selects one)")
        self.form, self.host, self.in_results = form, host, form == "windows"
        self.last = max(self.last, n)
        self.lowest = n if self.lowest is None else min(self.lowest, n)
        if rtt is None:
            return
        if n in self.seen:
            self.repeated += not _DUPLICATE.search(line)
            return
        self.seen.add(n)
        self.numbers.append(n)
        self.rtts.append(rtt)
        self.stamps.append(at_s)

    def _stamp_before(self, number: int, line: str, at: int, *, certain: bool = False) -> float:
        """The time that stands before the answer, of which a part stands at this place; NaN without one."""
        begin = _BYTES.search(line, 0, at) or _REPLY.search(line, 0, at)
        before = line[: begin.start() if begin else at]
        return self._stamp(number, line, before, certain=certain or begin is not None) if before else np.nan

    def _stamp(self, number: int, line: str, before: str, *, certain: bool) -> float:
        """The time in s that stands before an answer; NaN without one.

        certain: whether all of `before` stands before the answer. A time of a clock is one within a day of the stamp
        before, unless it has a date as in ISO 8601.
        """
        if found := _EPOCH.fullmatch(before):
            digits = found[1] or found[2]
            at_s = float(digits) if len(digits) < 12 or "." in digits else int(digits) / 10 ** (len(digits) - 10)
        elif clock := _CLOCK.search(before):
            hours, minutes, seconds, half, zone = clock.groups()
            hour = int(hours) if half is None else int(hours) % 12 + 12 * (half == "P")
            at_s = 3600.0 * hour + 60.0 * int(minutes) + _value(seconds)
            if zone and zone != "Z":
                at_s -= int(zone[0] + "1") * (3600.0 * int(zone[1:3]) + 60.0 * int(zone[-2:]))
            if date := _DATE.search(before):
                try:
                    at_s += _DAY_S * datetime.date(*map(int, date.groups())).toordinal()
                except ValueError:
                    raise self.unknown(number, line) from None
            elif self.stamp_s - at_s > _DAY_S / 2:
                at_s += _DAY_S * round((self.stamp_s - at_s) / _DAY_S)
        elif found := _EPOCH_FIRST.match(before):
            at_s = float(found[1])
        elif certain and (sum(map(str.isdigit, before)) >= 6 or _SHORT_CLOCK.search(before)):
            stamps = "stamps of `ping -D`, `ts`, `date` or ISO 8601"
            raise self.wrong(f"{stamps}, or none; {quoted(number, line, 'has another')}")
        else:
            return np.nan
        if at_s < self.stamp_s:
            self.falls += 1
            self.back_s = max(self.back_s, self.stamp_s - at_s)
            if at_s < self.stamp_s - STEP_BACK_S:
                raise self.wrong(f"stamps that rise; {quoted(number, line, 'is earlier than the answer before')}")
        self.stamp_s = at_s
        return at_s

    def _other(self, number: int, line: str, *, maybe_cut: bool) -> None:
        """A line that is no probe: the header, the summary, a message, or something that is not understood."""
        bare = line.strip()
        windows = bare.endswith(":") and bool(_WINDOWS_HEADER.search(bare))
        if windows or _HEADER.search(line):
            if self.numbers or self.header:
                raise self.wrong(f"one run; {quoted(number, line, 'begins another (split the file there)')}")
            self.header = "windows" if windows else "ping"
            self.from_zero = windows or bool(_FROM_ZERO.search(line))
            self.lowest = 0 if self.from_zero else 1
        elif "%" in line and (found := _TOTALS.search(line)):
            took = _TOOK.search(bare)
            self.transmitted, self.took_ms = int(found[1]), int(took[1]) if took else 0
            self.from_zero |= found[3].strip() == "packets received"
        elif found := _FPING_TOTALS.fullmatch(line):
            self.summaries.append(found[2])
        elif bare and not bare.startswith(("---", "Control-", "Strg", "^C")):
            as_answer = _HOPS.search(line) or (self.in_results and bare[0] == line[0])
            self._not_understood(number, line, maybe_cut=maybe_cut or not as_answer)
        self.in_results &= bool(bare)

    def probes(self) -> Probes:
        if self.summaries and not self.form:  # of fping -q -C, which prints nothing else
            if len(self.summaries) > 1:
                raise self.wrong(f"one target; it has {len(self.summaries)} (`grep` selects one)")
            values = self.summaries[0].split()
            self.form, self.lowest, self.last = "fping", 0, len(values) - 1
            self.numbers = [n for n, value in enumerate(values) if value != "-"]
            self.rtts = [float(value) for value in values if value != "-"]
            self.stamps = [np.nan] * len(self.rtts)
        if self.repeated > MOST_REPEATED * len(self.numbers) + 1:
            raise self.wrong(f"one run; {self.repeated} sequence numbers come again (split the file)")
        if len(self.numbers) < FEWEST:
            why = f"; {self.not_understood}" if self.not_understood else ""
            raise self.wrong(f"at least {FEWEST} answers; it has {len(self.numbers)} in a form of docs/data.md{why}")
        assert self.lowest is not None
        last = self.last
        if self.transmitted and self.form == "numbered":
            end = self.transmitted - self.from_zero
            last = max(last, end if self.header else end + _NUMBERS * round((last - end) / _NUMBERS))
        count = last - self.lowest + 1
        if count > MOST:
            raise self.wrong(f"at most {MOST:,} probes; it has {count:,}")
        at, rtts = np.array(self.numbers) - self.lowest, np.array(self.rtts)
        rtt_ms: Array = np.full(count, np.nan)
        rtt_ms[at] = rtts
        stamps = np.array(self.stamps)
        known = ~np.isnan(stamps)
        order = np.arange(count, dtype=np.float64)
        if known.sum() < 2:
            apart_s = self.took_ms / 1e3 / max(self.transmitted - 1, 1) if self.took_ms else DEFAULT_INTERVAL_S
            return Probes(self.file, order * apart_s, rtt_ms, spaced=not self.took_ms)
        if np.ptp(stamps[known]) == 0 or self.falls > MOST_REPEATED * known.sum() + 1:
            raise self.wrong("stamps that rise from answer to answer (`ts` or `ts -s`, not `ts -i`)")
        return Probes(self.file, _sent_s(order, at[known], stamps[known], rtts[known]), rtt_ms, back_s=self.back_s)


def _sent_s(order: Array, at: Array, stamps: Array, rtts_ms: Array) -> Array:
    """When probes were sent, from 0: by the stamps of the answers of some of them.

    Stamps in whole seconds are those of evenly spaced probes, if that explains all of them to the second.
    """
    if (stamps % 1 == 0).all():
        slope, start = np.polyfit(at, stamps, 1)
        if np.abs(stamps - start - slope * at).max() <= 1:
            return np.asarray(slope * order)
        first = np.unique(stamps, return_index=True)[1]
        at, stamps, rtts_ms = at[first], stamps[first], rtts_ms[first]
    at, sent = np.sort(at), np.sort(stamps - rtts_ms / 1e3)
    sent_s = np.interp(order, at, sent)
    gap_s = float(np.median(np.diff(sent) / np.diff(at)))
    sent_s += gap_s * (np.minimum(order - at[0], 0) + np.maximum(order - at[-1], 0))
    return np.asarray(sent_s - sent_s[0])
