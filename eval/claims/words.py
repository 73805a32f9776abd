"""The criterion of a claim in words, from the data that is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orbitcc.eval.claims.claim import Claim, Comparison, Limit, Range, Value, split
from orbitcc.eval.claims.evidence import REDUCTIONS, STATISTICS, shown

SIGNS = {"above": ">", "at_least": "≥", "below": "<", "at_most": "≤"}


def criterion(claim: Claim) -> str:
    """All conditions; those with the same subject stand together."""
    if claim.claims:
        return f"{', '.join(c.key for c in claim.claims)} hold"
    by_subject: dict[str, list[str]] = {}
    for condition in claim.conditions:
        subject, test = _comparison(condition, claim)
        by_subject.setdefault(subject, []).append(test)
    return "; ".join(
        f"{subject}{' ' if tests[0][0] in '<>≤≥' or tests[0].startswith('within') else ': '}{', '.join(tests)}"
        for subject, tests in by_subject.items()
    )


def _comparison(c: Comparison, claim: Claim) -> tuple[str, str]:
    """The quantity, and what it has to be."""
    subject, test = _quantity(c, claim)
    limits = {name: _other(limit, c, claim) for name, limit in c.limits.items()}
    tests = [f"{SIGNS[name]} {limit}" for name, limit in limits.items()]
    if c.near is not None:
        tolerance = [f"{c.percent:g} %"] * (c.percent > 0) + [f"{c.by:g}"] * (c.by > 0)
        tests.append(f"within {' or '.join(tolerance)} of {_other(c.near, c, claim)}")
    tests += [f"{end} for {level}" for end in ("highest", "lowest") if (level := getattr(c, end))]
    test = f"{test} {' and '.join(tests)}".strip()
    if c.otherwise:
        test += f", or {' '.join(_comparison(c.otherwise, claim))}"
    return subject, test


def _quantity(c: Comparison, claim: Claim) -> tuple[str, str]:
    """`of` with what is subtracted or divided by: the value, and the levels of it."""
    subject, test = _named(c.of, claim)
    for sign, other in (("−", c.minus), ("/", c.per)):
        if other is not None:
            subject, test = (subject, test) if test else ("", subject)
            test = f"{test} {sign} {_other(other, c, claim)}"
    return subject, test


def _other(limit: Limit, c: Comparison, claim: Claim) -> str:
    """A limit; of the value that is compared only the levels."""
    if isinstance(limit, str):
        subject, levels = _named(limit, claim)
        return levels if levels and split(limit)[0] == split(c.of)[0] else f"{subject} {levels}".strip()
    return _numbers(limit) if isinstance(limit, dict) else _number(limit)


def _named(name: str, claim: Claim) -> tuple[str, str]:
    """The value of that name, and its levels."""
    base, *levels = split(name)
    value = claim.values[base]
    if value.numbers:
        return _numbers({k: x for k, x in value.numbers.items() if not levels or k in levels}), ""
    source = _source(value, claim)
    found = [(_factor(source, level), level) for level in levels]
    said = [claim.words.factors[f][0].format(level) if f in claim.words.factors else level for f, level in found]
    return _value(value, claim, [factor for factor, _ in found]), ", ".join(said)


def _value(value: Value, claim: Claim, chosen: Sequence[str]) -> str:
    """A value; `chosen` are the factors of which a level is named elsewhere."""
    if value.of:
        subject, test = _comparison(value, claim) if value.compares else _quantity(value, claim)
        said = f"{subject}: {test}" if subject and test else subject + test
    else:
        limits = [f"{SIGNS[name]} {_other(limit, value, claim)}" for name, limit in value.limits.items()]
        said = " ".join((_read(value, claim, chosen), *limits))
    if value.times not in (1, 100):
        said = f"{'−' if value.times == -1 else f'{value.times:g} × '}{said}"
    if value.plus:
        said = f"{said} {'+' if value.plus > 0 else '−'} {_number(abs(value.plus))}"
    if value.absolute:
        said = f"|{said}|"
    if not value.reduce:
        return said
    factors = value.over or [f for f in _factors(value, claim) if f != "contender"]
    if value.statistic == "runs" and not value.of:
        factors = ["run"]
    over = " and ".join(claim.words.factors[f][1] for f in factors)
    joint = {"count": f"of {over} with", "share": f"of {over} with", "rank_correlation": f"of {over} and"}
    return f"{REDUCTIONS[value.reduce].words} {joint.get(value.reduce, f'over {over} of')} {said}"


def _read(value: Value, claim: Claim, chosen: Sequence[str]) -> str:
    """What is read from runs."""
    words = claim.words
    said = [STATISTICS[value.statistic].words, words.metrics[value.metric]]
    if value.against:
        said.append(f"against {value.against}:")
    if isinstance(value.who, str):
        said.append(f"of {value.who}")
    elif "contender" not in chosen:
        said.append(f"of {', '.join(value.who)}")
    where = []
    for factor, levels in value.at.items():
        if factor in chosen or levels == "all":
            continue
        if isinstance(levels, Range):
            ends = [f"≥ {levels.low:g}"] * (levels.low > -1e9) + [f"≤ {levels.high:g}"] * (levels.high < 1e9)
            where += [words.factors[factor][0].format(" and ".join(ends))] if ends else []
        else:
            several = levels if isinstance(levels, list) else [levels]
            where.append(words.factors[factor][0].format(", ".join(map(shown, several))))
    return " ".join(x for x in (*said, f"at {', '.join(where)}" if where else "") if x)


def _source(value: Value, claim: Claim) -> Value:
    """The first value that it is made from."""
    return _source(claim.values[split(value.of)[0]], claim) if value.of else value


def _factor(source: Value, level: str) -> str:
    """The factor that has the level."""
    at = {factor: levels for factor, levels in source.at.items() if isinstance(levels, list)}
    return next((factor for factor, levels in at.items() if level in map(shown, levels)), "contender")


def _factors(value: Value, claim: Claim) -> list[str]:
    """The factors that label a value before it is reduced."""
    if not value.of:
        return value.listed
    name, *levels = split(value.of)
    before = claim.values[name]
    left = [f for f in _factors(before, claim) if f not in before.over] if before.over or not before.reduce else []
    left = left or ["contender"] * ("contender" in _factors(before, claim))
    return [f for f in left if f not in [_factor(_source(before, claim), level) for level in levels]]


def _numbers(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{_number(x)} ({level})" if len(numbers) > 1 else _number(x) for level, x in numbers.items())


def _number(x: float) -> str:
    return f"{x:.4g}".replace("-", "−")
