"""The library of scenarios by name: scenarios with parameters, and distributions of scenarios."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError, validate_call

from orbitcc.common import code
from orbitcc.common.errors import OrbitccError, StateError, UnknownNameError
from orbitcc.common.files import read_toml
from orbitcc.envs.description.flows import parse_value
from orbitcc.envs.description.model import as_orbitcc_error
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution, check_undone, replaced
from orbitcc.envs.orbits.pool import TracePool
from orbitcc.envs.orbits.trace_set import PARTS
from orbitcc.envs.scenarios.access import leo_access
from orbitcc.envs.scenarios.constellation import constellation
from orbitcc.envs.scenarios.distribution import Mixture, PathDistribution
from orbitcc.envs.scenarios.double_dumbbell import double_dumbbell
from orbitcc.envs.scenarios.efficiency import efficiency
from orbitcc.envs.scenarios.fairness import inter_rtt, intra_rtt
from orbitcc.envs.scenarios.folder import Folder, load_folder
from orbitcc.envs.scenarios.friendliness import cubic_friendliness
from orbitcc.envs.scenarios.geo import geo_ideal, geo_rain, geo_viasat_2020, geo_viasat_2021
from orbitcc.envs.scenarios.handover import delay_jump, hard_handover
from orbitcc.envs.scenarios.leo import leo_responsiveness
from orbitcc.envs.scenarios.micro import dumbbell
from orbitcc.envs.scenarios.orbits import leo_path, leoem_path, path_trace
from orbitcc.envs.scenarios.parking_lot import parking_lot
from orbitcc.envs.scenarios.pep import geo_pep
from orbitcc.envs.scenarios.starlink import starlink_2026
from orbitcc.envs.scenarios.training import DISTRIBUTIONS, MEASURED


@dataclass(frozen=True)
class ScenarioInfo:
    """A named scenario: `build` takes the parameters, and `params` holds their defaults.

    needs: see :func:`register`.
    """

    name: str
    description: str
    params: Mapping[str, Any]
    build: Callable[..., Scenario]
    needs: Mapping[str, tuple[str, str | float]]


SCENARIOS: dict[str, ScenarioInfo] = {}


def register(name: str, build: Callable[..., Scenario], **needs: tuple[str, str | float]) -> None:
    """Add a scenario. The first line of its docstring is its description; its keyword arguments are its parameters.

    needs: for a parameter, another one without which it has no effect: its name, and its value, or the number that it
    is above.
    """
    if name in SCENARIOS or name in DISTRIBUTIONS:
        raise ValueError(f"scenario {name!r} is already registered")
    params = {p.name: p.default for p in inspect.signature(build).parameters.values()}
    description = (inspect.getdoc(build) or "").partition("\n")[0]
    SCENARIOS[name] = ScenarioInfo(name, description, params, validate_call(build), needs)


register("dumbbell", dumbbell)
register("leo-responsiveness", leo_responsiveness)
register("leo-path", leo_path, gap_s=("flows", 1))
register("leoem", leoem_path, gap_s=("flows", 1), transient_share=("transient_ms", 0))
register("path-trace", path_trace)
register("constellation", constellation)
register("leo-access", leo_access)
register("starlink-2026", starlink_2026)
register("geo-ideal", geo_ideal)
register("geo-viasat-2020", geo_viasat_2020)
register("geo-viasat-2021", geo_viasat_2021)
register("geo-rain", geo_rain, fades_per_h=("weather", "fades"), start_percent=("weather", "rain"))
register("geo-pep", geo_pep, pep_controller=("connection", "proxy"), pep_buffer_bytes=("connection", "proxy"))
register("inter-rtt", inter_rtt, on_outage=("interruption_every_s", 0))
register("intra-rtt", intra_rtt, on_outage=("interruption_every_s", 0))
register("parking-lot", parking_lot, on_outage=("interruption_every_s", 0))
register("efficiency", efficiency, on_outage=("interruption_every_s", 0))
register("double-dumbbell", double_dumbbell)
register("cubic-friendliness", cubic_friendliness)
register("hard-handover", hard_handover)
register("delay-jump", delay_jump)


def named(name_or_file: str) -> str:
    """The same name; `package.module:attribute` is known by this name from then on.

    For command lines and programs only: no file may name code. The attribute is a Scenario, a distribution, or a
    function of keyword arguments with defaults that returns a Scenario; its arguments are parameters of the scenario.

    Raises:
        OrbitccError: it cannot be imported, or is none of these.
    """
    if name_or_file in (*SCENARIOS, *DISTRIBUTIONS) or not code.is_code(name_or_file):
        return name_or_file
    found = code.attribute("scenario", name_or_file)
    if isinstance(found, PathDistribution | Mixture):
        DISTRIBUTIONS[name_or_file] = found
    elif isinstance(found, Scenario):
        register(name_or_file, lambda: found)
    elif isinstance(found, FunctionType | MethodType | partial):
        register(name_or_file, found)
    else:
        raise OrbitccError("scenario", name_or_file, "a Scenario, a distribution, or a function that makes a Scenario")
    return name_or_file


def names() -> tuple[str, ...]:
    """All names: scenarios, then distributions."""
    return (*SCENARIOS, *DISTRIBUTIONS)


def get(name: str, **params: Any) -> Scenario:
    """The scenario called `name` with these parameters. Raises OrbitccError that names a wrong parameter."""
    if name not in SCENARIOS:
        raise UnknownNameError("scenario", name, SCENARIOS, "orbitcc list scenarios")
    info = SCENARIOS[name]
    for key in params:
        if key not in info.params:
            raise UnknownNameError(key, key, info.params)
    try:
        made = info.build(**params)
        _check_needs(info, params)
    except ValidationError as error:
        raise as_orbitcc_error(error) from None
    except code.RAISED as error:
        if not code.is_code(name) or isinstance(error, OrbitccError):
            raise
        raise code.refused(
            "scenario", name, "a function that makes a Scenario, whose arguments have defaults", error
        ) from None
    if not isinstance(made, Scenario):
        raise OrbitccError("scenario", name, f"a function that returns a Scenario, not {type(made).__name__}")
    return made


def _check_needs(info: ScenarioInfo, params: Mapping[str, Any]) -> None:
    """OrbitccError for a parameter that has no effect beside the others, which are valid."""
    for key, (other, needed) in info.needs.items():
        default, has = info.params[key], params.get(other, info.params[other])
        works = has == needed if isinstance(needed, str) else float(has) > needed
        if not works and params.get(key, default) != default:
            value = needed if isinstance(needed, str) else f"above {needed:g}"
            raise OrbitccError(key, params[key], f"{default} unless {other} is {value}")


TRAINING_RUNS = (2**30, 2**31 - 1)
"""First and last run from which environments draw. Suites number their runs from 1, at most from 10^9, so that no suite
uses one of these."""


class Runs(ScenarioDistribution):
    """A named scenario in the runs that are for training (:data:`TRAINING_RUNS`); each is as likely as any other.

    params: values of the scenario's other parameters. fields: those of its fields, by dotted name.
    """

    kind: Literal["runs"] = "runs"
    params: Mapping[str, Any] = Field(default={})
    fields: Mapping[str, Any] = Field(default={})

    @property
    def max_agents(self) -> int:
        return len(self.example.flows)

    @property
    def example(self) -> Scenario:
        """The first of the runs; all have equally many flows."""
        return self._run(TRAINING_RUNS[0])

    def _draw(self, rng: np.random.Generator) -> Scenario:
        low, high = TRAINING_RUNS
        return self._run(int(rng.integers(low, high, endpoint=True)))

    def _run(self, run: int) -> Scenario:
        return _overridden(get(self.name, **self.params, run=run), self.fields, SCENARIOS[self.name].params)


def for_training(name: str, settings: Mapping[str, Any] | None = None) -> Scenario | ScenarioDistribution:
    """What environments and recipes make of a name or a file: :func:`load`, but a named scenario whose parameter `run`
    is not set is drawn anew for every episode (:class:`Runs`) where runs have different links."""
    if "run" in getattr(SCENARIOS.get(name), "params", ()) and "run" not in (settings or {}):
        settings = {k: parse_value(v, k) if isinstance(v, str) else v for k, v in (settings or {}).items()}
        params = {key: value for key, value in settings.items() if key in SCENARIOS[name].params}
        fields = {key: value for key, value in settings.items() if key not in {*params, "transport"}}
        data = {"description": SCENARIOS[name].description, "transport": settings.get("transport")}
        runs = Runs.build({"name": name, "params": params, "fields": fields, **data})
        first = _overridden(get(name, **params, run=1), fields, SCENARIOS[name].params)
        if runs.example.links != first.links:  # else it is the seed of the noise
            return runs
    return load(name, settings)


def distribution(name: str) -> ScenarioDistribution:
    """The distribution called `name`."""
    if name not in DISTRIBUTIONS:
        raise UnknownNameError("distribution", name, DISTRIBUTIONS, "orbitcc list scenarios")
    return DISTRIBUTIONS[name]


def load(
    name_or_file: str | os.PathLike[str], settings: Mapping[str, Any] | None = None
) -> Scenario | ScenarioDistribution:
    """A scenario or a distribution by name or from a TOML file; a folder is a distribution of its scenarios.

    settings: values by key. A key is a parameter of the named scenario, the dotted name of a field
    (`links.0.rate_mbps`), or `transport` (:meth:`Scenario.over`). Text values are read as on the command line.
    """
    settings = {k: parse_value(v, k) if isinstance(v, str) else v for k, v in (settings or {}).items()}
    text = os.fspath(name_or_file)
    if text in SCENARIOS:
        params = {k: v for k, v in settings.items() if k in SCENARIOS[text].params}
        fields = {k: v for k, v in settings.items() if k not in params}
        return _overridden(get(text, **params), fields, SCENARIOS[text].params)
    if text in MEASURED:
        return measured({**settings, "split": text.removeprefix("traces-")})
    if text in DISTRIBUTIONS:
        return _distribution_overridden(DISTRIBUTIONS[text], settings)
    if os.path.isdir(text):
        return _distribution_overridden(load_folder(text), settings)
    if not (text.endswith(".toml") or os.sep in text or os.path.exists(text)):
        raise UnknownNameError("scenario", text, (*names(), *MEASURED), "orbitcc list scenarios")
    data = read_toml(text)
    kind = data.get("kind")
    if kind is None and "traces" not in data:
        return _overridden(Scenario.from_dict(data), settings, {})
    return _distribution_overridden(from_table(data), settings)


def measured(data: Mapping[str, Any]) -> ScenarioDistribution:
    """The windows of a trace set: `traces`, perhaps `split` (train) and `places`, and other fields that differ.

    `duration_s` is the length of worlds and windows.

    Raises:
        OrbitccError: no set is named, or a value is not allowed.
    """
    if not data.get("traces"):
        raise OrbitccError("traces", data.get("traces"), "the file of a trace set (`orbitcc traces import`)")
    fields = dict(data)
    pool: dict[str, Any] = {name: fields.pop(name) for name in ("traces", "split", "places") if name in fields}
    name = f"traces-{pool.setdefault('split', 'train')}"
    if name not in MEASURED:
        raise UnknownNameError("split", pool["split"], PARTS)
    chosen = MEASURED[name]
    pool["duration_s"] = fields.get("duration_s", chosen.duration_s)
    paths = TracePool.build(pool)
    return _distribution_overridden(chosen.changed(paths=paths, duration_s=paths.duration_s), fields)


def from_table(data: Mapping[str, Any]) -> ScenarioDistribution:
    """A distribution from a table: `kind = "paths"` with its fields, or `kind = "mixture"`; or :func:`measured` paths.

    A mixture has `parts`. Each part is a table with its `weight` (1 by default), the name of a distribution as `base`,
    and the fields that differ from it, or `traces`; `without` names fields that it does not have. `common` are fields
    of all parts. A part can be a `folder` with scenario files instead, which are used as they are.
    `weights` may list the weights of all parts instead.

    Raises:
        OrbitccError: an unknown kind, base or field, or a value that is not allowed.
    """
    if "traces" in data:
        return measured(data)
    if data.get("kind") == "paths":
        return PathDistribution.build(data)
    if data.get("kind") != "mixture":
        raise UnknownNameError("kind", data.get("kind"), ("paths", "mixture"))
    try:
        return _mixture(**data)
    except ValidationError as error:
        raise as_orbitcc_error(error) from None


@validate_call
def _mixture(
    parts: Annotated[list[dict[str, Any]], Field(min_length=1)],
    common: dict[str, Any] = {},  # noqa: B006
    weights: Any = None,
    **fields: Any,
) -> Mixture:
    if weights is not None and any("weight" in part for part in parts):
        raise OrbitccError("weights", weights, "none where parts have a weight of their own")
    if weights is None:
        weights = [part.get("weight", 1.0) for part in parts]
    made = []
    for index, part in enumerate(parts):
        try:
            whole = part if {"folder", "scenarios"} & part.keys() else {**common, **part}
            complete = _part(**{"name": fields.get("name", ""), **whole})
            if both := [name for name in part.get("without", ()) if name in part]:
                raise OrbitccError("without", both[0], "no field that the part sets itself")
            made.append((Folder if complete.get("kind") == "folder" else PathDistribution).build(complete))
        except ValidationError as error:
            raise as_orbitcc_error(error).under(f"parts.{index}") from None
        except OrbitccError as error:
            raise error.under(f"parts.{index}") from None
    return Mixture.build({**fields, "weights": weights, "parts": made})


@validate_call
def _part(base: str | None = None, without: tuple[str, ...] = (), weight: Any = None, **fields: Any) -> dict[str, Any]:
    """The fields of a part of a mixture, complete."""
    if "traces" in fields and base is None:
        return measured(fields).model_dump()
    if "folder" in fields and base is None and not without:
        folder = fields.pop("folder")
        if not (isinstance(folder, str) and os.path.isdir(folder)):
            raise OrbitccError("folder", folder, "a folder with scenarios in it (*.toml)")
        return {**load_folder(folder).model_dump(), **fields}
    if fields.get("kind") == "folder":
        return fields
    known = {name: chosen for name, chosen in DISTRIBUTIONS.items() if isinstance(chosen, PathDistribution)}
    if base is not None and base not in known:
        raise UnknownNameError("base", base, known)
    if unknown := [name for name in without if name not in PathDistribution.model_fields]:
        raise UnknownNameError("without", unknown[0], PathDistribution.model_fields)
    whole = known[base].model_dump() if base is not None else {"kind": "paths"}
    return {**whole, **fields, **dict.fromkeys(without)}


def _overridden(scenario: Scenario, fields: Mapping[str, Any], params: Mapping[str, Any]) -> Scenario:
    if len(fields) > 1:
        check_undone(scenario.model_dump(), [key for key in fields if key.partition(".")[0] in Scenario.model_fields])
    for key, value in fields.items():
        if key == "transport":
            scenario = scenario.over(value)
            continue
        first = key.partition(".")[0]
        if first == "transport":
            raise OrbitccError(key, value, "the whole table, e.g. transport={kind='quic', mtu_bytes=1300}")
        others = [name for name, info in SCENARIOS.items() if key in info.params]
        number = not isinstance(value, list | tuple | Mapping)
        if others and number and (first not in Scenario.model_fields or isinstance(getattr(scenario, first), tuple)):
            raise StateError(key, f"{scenario.name} has no such parameter; these scenarios do: {', '.join(others)}")
        if first not in Scenario.model_fields:  # name the parameters, too
            raise UnknownNameError(key, first, (*params, *Scenario.model_fields, "transport"))
        scenario = scenario.override(key, value)
    return scenario


def _distribution_overridden(chosen: ScenarioDistribution, fields: Mapping[str, Any]) -> ScenarioDistribution:
    if not fields:
        return chosen
    data = chosen.model_dump()
    check_undone(data, list(fields))
    for key, value in fields.items():
        data = replaced(data, key, value)
    return type(chosen).build(data)


__all__ = [
    "DISTRIBUTIONS",
    "MEASURED",
    "SCENARIOS",
    "TRAINING_RUNS",
    "Runs",
    "ScenarioInfo",
    "distribution",
    "for_training",
    "from_table",
    "get",
    "load",
    "measured",
    "names",
    "register",
]
