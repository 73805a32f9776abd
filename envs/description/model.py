"""The base class of the parts of a scenario: frozen pydantic models whose errors are OrbitccError.

`number` and `schedule` check quantities; their messages state the allowed range and the unit.
"""

from __future__ import annotations

import bisect
import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from orbitcc.common.errors import MissingError, OrbitccError, UnknownNameError
from orbitcc.common.numbers import checked_number

T = TypeVar("T", bound="Model")

UNLIMITED = "unlimited"
"""A rate without a limit, in files; None in Python."""

Points = tuple[tuple[float, Any], ...]
"""A schedule: pairs of time in seconds and value; the first time is 0, and times increase strictly."""


class Kept(tuple[Any, ...]):
    """A part that many scenarios share (a schedule, outages) and that stores its compiled form.

    arrays: times [K] and values [K] of a schedule that was made from arrays.
    """

    compiled: Any = None
    arrays: Any = None


class Model(BaseModel):
    """A frozen model without unknown fields; construction raises OrbitccError that names a wrong field."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    also_called: ClassVar[Mapping[str, str]] = {}
    """Names of fields in other libraries -> ours, which an error then suggests."""
    also_needed: ClassVar[tuple[str, ...]] = ()
    """Fields that must be given although they have a default."""

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise as_orbitcc_error(error) from None

    # Tells pydantic that nested models need not go through this __init__ (the outermost one reports for all).
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_fields(cls, data: Any) -> Any:
        cls.check_fields(data)
        return data

    @classmethod
    def check_fields(cls, data: Any) -> None:
        """OrbitccError for what is no table, and for a field that there is not; both name the fields."""
        if isinstance(data, Mapping):
            for key in data:
                if key not in cls.model_fields:
                    raise UnknownNameError(str(key), key, cls.model_fields, meant=cls.also_called.get(str(key), ""))
        elif not isinstance(data, cls):
            fields = cls.model_fields.items()
            needed = [name for name, field in fields if field.is_required() or name in cls.also_needed]
            others = [name for name in cls.model_fields if name not in needed]
            parts = [", ".join(needed), f"optional {', '.join(others)}" if others else ""]
            raise OrbitccError("", data, f"a table with {' and '.join(filter(None, parts))}")

    @classmethod
    def trusted(cls, **values: Any) -> Self:
        """A model from values that are known to be correct and of their final types, without any check.

        Several times faster than `model_construct`, which matters when scenarios are drawn between episodes. Defaults
        are shared between models.
        """
        state, defaults = _prototype(cls)
        return _made(cls, state, {**defaults, **values})

    def with_trusted(self, changes: Mapping[str, Any]) -> Self:
        """A copy with these fields replaced, without any checks."""
        return _made(type(self), _prototype(type(self))[0], {**self.__dict__, **changes})

    @classmethod
    def build(cls, data: Any) -> Self:
        """As `model_validate`, but raises OrbitccError."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise as_orbitcc_error(error) from None

    def changed(self, **changes: Any) -> Self:
        """A copy with these fields replaced; the whole copy is checked again."""
        return type(self)(**{**{k: getattr(self, k) for k in type(self).model_fields}, **changes})


@functools.cache
def _prototype(cls: type[Model]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state of a model as pickle stores it, and the defaults of its fields."""
    made = cls.model_construct(_fields_set=set(cls.model_fields))
    return made.__getstate__(), dict(made.__dict__)


def _made(cls: type[T], state: dict[str, Any], contents: dict[str, Any]) -> T:
    """A model restored as by pickle, without any checks."""
    made = cls.__new__(cls)
    made.__setstate__({**state, "__dict__": contents})
    return made


_ALLOWED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table { name = value, ... }",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "string_too_short": "text that is not empty",
    "string_type": "text",
    "too_short": "a list that is not empty",
    "tuple_type": "a list",
}
"""Type of a pydantic error -> the allowed values, in terms of scenario files."""


_KIND = re.compile(r"str|int|float|bool|none|.*\[.*")
"""What pydantic appends to the place of an error where a field may have several kinds of values."""


def as_orbitcc_error(error: ValidationError) -> OrbitccError:
    """The first error of pydantic as an OrbitccError."""
    first, *others = error.errors(include_url=False)
    loc = first["loc"]
    if len(loc) > 1 and _KIND.fullmatch(str(loc[-1])):  # none of several kinds of values
        wanted = [_ALLOWED.get(one["type"], one["msg"]) for one in (first, *others) if one["loc"][:-1] == loc[:-1]]
        return OrbitccError(".".join(map(str, loc[:-1])), first["input"], " or ".join(dict.fromkeys(wanted)))
    where = ".".join(str(part) for part in loc)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, OrbitccError):
        return cause.under(where)
    if first["type"] in ("missing", "missing_argument"):
        return MissingError(where)
    if first["type"] in _ALLOWED:
        return OrbitccError(where, first["input"], _ALLOWED[first["type"]])
    message = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return OrbitccError(where, first["input"], message)


def number(
    low: float, high: float, unit: str = "", *, above: bool = False, whole: bool = False, optional: bool = False
) -> BeforeValidator:
    """A finite number in [low, high], or in (low, high] with `above`.

    whole: the number must be an integer.
    optional: None is allowed, too.
    """
    # no closure: the reference of scenario files reads the bounds
    bounds: dict[str, Any] = {"low": low, "high": high, "unit": unit}
    return BeforeValidator(functools.partial(checked_number, **bounds, above=above, whole=whole, optional=optional))


def schedule(item: Callable[[Any], Any], *, optional: bool = False) -> BeforeValidator:
    """One value, or a schedule `[[time_s, value], ...]`; `item` checks each value.

    optional: None is allowed, too; in files it is written "unlimited".
    """
    return BeforeValidator(functools.partial(_checked_schedule, item=item, optional=optional))


def _checked_schedule(value: Any, item: Callable[[Any], Any], optional: bool) -> Any:
    if optional and (value is None or value == UNLIMITED):
        return None
    if not isinstance(value, list | tuple):
        return item(value)
    shape = "a schedule [[time_s, value], ...] that starts at time 0, in increasing order of time"
    if not value:
        raise OrbitccError("", value, shape)
    points = []
    before = -1.0
    for i, point in enumerate(value):
        if not isinstance(point, list | tuple) or len(point) != 2:
            raise OrbitccError(str(i), point, shape)
        try:
            t = checked_number(point[0], 0.0, MAX_TIME_S, "s")
            if (i == 0 and t != 0.0) or t <= before:
                raise OrbitccError("", point[0], shape)
            points.append((t, item(point[1])))
        except OrbitccError as error:
            raise error.under(str(i)) from None
        before = t
    return tuple(points)


MAX_TIME_S = 1e6
"""The longest run, about 11 days: longer than in any paper, and well within 64-bit nanoseconds."""


def points_of(value: Any) -> Points:
    """The pairs of time and value of a field checked by `schedule`; empty for None."""
    if value is None:
        return ()
    return value if isinstance(value, tuple) else ((0.0, value),)


def value_at(value: Any, t_s: float, *, interpolate: bool = False) -> Any:
    """The value of a schedule at t_s: that of the last step, or with `interpolate` on the line to the next point."""
    if not isinstance(value, tuple):
        return value
    if t_s <= 0:
        return value[0][1]
    following = bisect.bisect_right(value, t_s, key=_time)
    now = value[following - 1]
    if interpolate and following < len(value):
        after = value[following]
        return now[1] + (after[1] - now[1]) * (t_s - now[0]) / (after[0] - now[0])
    return now[1]


_time = operator.itemgetter(0)


def mean_over(value: Any, duration_s: float) -> float:
    """The time mean of a stepwise schedule over [0, duration_s]."""
    if not isinstance(value, tuple):
        return float(value)
    total = 0.0
    before, now = value[0]
    for t, following in value[1:]:
        if t >= duration_s:
            break
        total += now * (t - before)
        before, now = t, following
    return (total + now * (duration_s - before)) / duration_s


def tagged(kinds: Mapping[str, type[Model]], shorthand: Callable[[Any], Any] | None = None) -> Callable[[Any], Any]:
    """A checker for tables whose `kind` names their model; `shorthand` first converts short forms to tables."""

    def check(value: Any) -> Any:
        if isinstance(value, tuple(kinds.values())):
            return value
        if shorthand is not None:
            value = shorthand(value)
            if isinstance(value, tuple(kinds.values())):
                return value
        if not isinstance(value, Mapping):
            raise OrbitccError("", value, f"a table with kind = one of {', '.join(kinds)}")
        if "kind" not in value:  # perhaps misspelt, so the whole table is shown
            raise OrbitccError("", dict(value), f"a table with kind = one of {', '.join(kinds)}")
        kind = value["kind"]
        if not isinstance(kind, str) or kind not in kinds:
            raise UnknownNameError("kind", kind, kinds)
        return kinds[kind].build(value)

    return check
