"""The check of all numbers: scenarios, recipes, parameters of controllers, command-line options."""

import math
from typing import Any

from orbitcc.common.errors import OrbitccError

REAL = "biuf"
"""Kinds of numpy's types whose values are real numbers: no text, no complex number, no object."""


def checked_number(
    value: Any,
    low: float,
    high: float,
    unit: str = "",
    above: bool = False,
    whole: bool = False,
    optional: bool = False,
    otherwise: str = "",
) -> Any:
    """A finite number in [low, high], or (low, high] with `above`; `whole` gives an int, `optional` also takes None.

    otherwise: what else the field takes, for the message.

    Raises:
        OrbitccError: with an empty field, for the caller to name.
    """
    if value is None and optional:
        return None
    kind = "a whole number" if whole else "a number"
    allowed = f"{otherwise}{kind} in {'(' if above else '['}{_short(low)}, {_short(high)}]{f' {unit}' if unit else ''}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        # numpy scalars pass through here
        if isinstance(value, str | bool) or not hasattr(value, "__float__"):
            raise OrbitccError("", value, allowed)
        try:
            value = float(value)
        except (TypeError, ValueError, OverflowError):  # an array
            raise OrbitccError("", value, allowed) from None
    if not low <= value <= high or not math.isfinite(value) or (above and value == low):
        raise OrbitccError("", value, allowed)
    if whole:
        if not float(value).is_integer():
            raise OrbitccError("", value, allowed)
        return int(value)
    return float(value)


def _short(x: float) -> str:
    return f"{int(x)}" if float(x).is_integer() and abs(x) < 1e6 else f"{x:g}"


def counted(count: int, noun: str) -> str:
    """`1 link`, `2 links`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def finite(value: Any) -> Any:
    """The same tables and lists, with None in the place of numbers that are not finite, as JSON needs."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
