"""Limits and the criteria of claims in words, from the data that is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from orbitcc.eval.quantities.evidence import REDUCTIONS, STATISTICS, shown
from orbitcc.eval.quantities.limits import ClaimCriterion, Comparison, LevelRange, Limit, Limits, Value, multiple, split

SIGNS = {"above": ">", "at_least": "≥", "below": "<", "at_most": "≤"}


def in_words(criterion: ClaimCriterion) -> str:
    """All conditions; those with the same subject stand together."""
    by_subject: dict[str, list[str]] = {}
    for condition in criterion.conditions:
        subject, test = _comparison(condition, criterion)
        by_subject.setdefault(subject, []).append(test)
    return "; ".join(_joined(subject, ", ".join(tests)) for subject, tests in by_subject.items())


def _joined(subject: str, test: str) -> str:
    """`median U ≥ 0.35`, `median U: leocc > bbr3`."""
    if not subject or not test:
        return subject + test
    return f"{subject}{' ' if test[0] in '<>≤≥−/' or test.startswith('within') else ': '}{test}"


def _comparison(
    c: Comparison, criterion: ClaimCriterion, read: str = "", chosen: Sequence[str] = ()
) -> tuple[str, str]:
    """The quantity, and what it has to be. read: the quantity itself, where it is no value with a name."""
    subject, test = (read, "") if read else _quantity(c, criterion, chosen)
    return subject, f"{test} {limits_in_words(c, lambda limit: _other(limit, c, criterion))}".strip()


def limits_in_words(limits: Limits, said: Callable[[Limit], str]) -> str:
    """`≥ 0.35 and ≤ 0.65`; said: a limit in words."""
    tests = [f"{SIGNS[name]} {' or '.join(map(said, limit))}" for name, limit in limits.limits.items()]
    if limits.near is not None:
        tolerance = [f"{limits.percent:g} %"] * (limits.percent > 0) + [f"{limits.by:g}"] * (limits.by > 0)
        tests.append(f"within {' or '.join(tolerance)} of {said(limits.near)}")
    tests += [f"{end} for {level}" for end in ("highest", "lowest") if (level := getattr(limits, end))]
    return " and ".join(tests)


def _quantity(c: Comparison, criterion: ClaimCriterion, chosen: Sequence[str] = ()) -> tuple[str, str]:
    """`of` with what is subtracted or divided by: the value, and the levels of it."""
    subject, test = _named(c.of, criterion, chosen)
    for sign, other in (("−", c.minus), ("/", c.per)):
        if other is not None:
            test = f"{test} {sign} {_other(other, c, criterion)}".strip()
    return subject, test


def _other(limit: Limit, c: Comparison, criterion: ClaimCriterion) -> str:
    """A limit; of the value that is compared only the levels."""
    if isinstance(limit, str):
        subject, levels = _named(limit, criterion)
        said = levels if levels and split(limit)[0] == split(c.of)[0] else _joined(subject, levels)
        return said if multiple(limit) == 1 else f"{multiple(limit):g} × {said}"
    return _numbers(limit) if isinstance(limit, dict) else _number(limit)


def _named(name: str, criterion: ClaimCriterion, chosen: Sequence[str] = ()) -> tuple[str, str]:
    """The value of that name, without the factors that are chosen elsewhere, and its levels."""
    base, *levels = split(name)
    value = criterion.values[base]
    if value.numbers:
        return _numbers({k: x for k, x in value.numbers.items() if not levels or k in levels}), ""
    factors = [_factor(_source(value, criterion), level) for level in levels]
    said = [criterion.words.factors[f][0].format(level) for f, level in zip(factors, levels, strict=True)]
    return _value(value, criterion, [*chosen, *factors]), ", ".join(said)


def _value(value: Value, criterion: ClaimCriterion, chosen: Sequence[str]) -> str:
    read = "" if value.of else _read(value, criterion, chosen)
    said = _joined(*_comparison(value, criterion, read, chosen))
    if value.times == -1 and value.plus:
        said = f"{_number(value.plus)} − {said}"
    elif value.plus and value.times == 1:
        said = f"{said} {'+' if value.plus > 0 else '−'} {_number(abs(value.plus))}"
    elif value.times not in (1, 100):
        said = f"{'−' if value.times == -1 else f'{_number(value.times)} × '}{said}"
    said = f"abs({said})" if value.absolute else said
    if not value.reduce:
        return said
    factors = value.over or [f for f in _factors(value, criterion) if f != "contender"]
    over = " and ".join(criterion.words.factors[f][1] for f in factors)
    return REDUCTIONS[value.reduce].words.format(over, said)


def _read(value: Value, criterion: ClaimCriterion, chosen: Sequence[str]) -> str:
    """What is read from runs."""
    words = criterion.words
    said = [STATISTICS[value.statistic].words, words.metrics[value.metric]]
    if "contender" not in chosen:
        said.append(f"of {value.who if isinstance(value.who, str) else ', '.join(value.who)}")
    if value.against:
        said.append(f"against {value.against}")
    said.append(words.suites.get(value.suite, ""))
    where = []
    for factor, levels in value.at.items():
        if isinstance(levels, LevelRange):
            ends = (("≥", levels.low), ("≤", levels.high))
            shown_levels = [f"{sign} {_number(end)}" for sign, end in ends if math.isfinite(end)]
        else:
            several = levels if isinstance(levels, list) else [levels]
            shown_levels = [] if levels == "all" else list(map(shown, several))
        if shown_levels and factor not in chosen:
            where.append(words.factors[factor][0].format(", ".join(shown_levels)))
    return " ".join(x for x in (*said, f"at {', '.join(where)}" if where else "") if x)


def _source(value: Value, criterion: ClaimCriterion) -> Value:
    """The first value that it is made from."""
    return _source(criterion.values[split(value.of)[0]], criterion) if value.of else value


def _factor(source: Value, level: str) -> str:
    """The factor that has the level."""
    if level in source.who:
        return "contender"
    listed = {factor: levels for factor, levels in source.at.items() if isinstance(levels, list)}
    return next((factor for factor, levels in listed.items() if level in map(shown, levels)), "path")


def _factors(value: Value, criterion: ClaimCriterion) -> list[str]:
    """The factors that label a value before it is reduced."""
    if not value.of:
        return value.listed
    name, *levels = split(value.of)
    before = criterion.values[name]
    gone = {_factor(_source(before, criterion), level) for level in levels}
    gone |= set(before.over) if before.over or not before.reduce else set(_factors(before, criterion)) - {"contender"}
    return [f for f in _factors(before, criterion) if f not in gone]


def _numbers(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{_number(x)} ({level})" if len(numbers) > 1 else _number(x) for level, x in numbers.items())


def _number(x: float) -> str:
    return f"{x:.5g}".replace("-", "−")
