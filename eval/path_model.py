"""A model of the paths of a trace set, and generated paths beside measured ones.

The model is fitted to the train part alone and compared with the test part: distributions, correlations over time, and
what controllers reach on both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.fitting.changes import SLOT_S, filled
from orbitcc.envs.fitting.distribution import (
    BIN_S,
    FEWEST_PATHS,
    PROBE_S,
    Observed,
    distribution,
    observe,
    outages,
)
from orbitcc.envs.fitting.model import Note
from orbitcc.envs.orbits.trace_set import TraceSet, opened
from orbitcc.envs.scenarios import from_table, measured
from orbitcc.parallel.work import Apply, ordered

CONTROLLERS = ("cubic", "reno", "vegas", "westwood", "bbr", "bbr3", "copa", "vivace")
SHARES = (5, 50, 95)
LAGS_S = (1.0, 15.0)
RANKED, GOODPUT = 0.9, 0.1
"""The rank correlation of controllers and the relative difference of goodput that a model is asked for."""

OTHERS = "other places"
"""The part of a model for places with few paths in the train part."""
LONGEST_S = 120.0
"""Length of generated paths at most; otherwise the median of the measured ones."""
COMPARED_BDP = 2.0
"""Buffer on the paths that controllers are compared on."""
GENERATED = 0x9E4
"""Part of the seed of generated worlds."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Marginal:
    """A quantity of all paths together: 5, 50 and 95 % quantiles, and how far two distributions are apart at most.

    distance: largest difference between the shares below a value (Kolmogorov and Smirnov), generated against test;
    between_parts: the same of the train part against the test part, the yardstick.
    """

    quantity: str
    unit: str
    measured: tuple[float, ...]
    generated: tuple[float, ...]
    distance: float
    between_parts: float


@dataclass(frozen=True)
class Figure:
    """A figure of a path, averaged over paths, with its spread over them (standard deviation)."""

    quantity: str
    measured: float
    generated: float
    spread: float


@dataclass(frozen=True)
class Reached:
    """Goodput of a controller in Mbit/s, mean over paths, and RTT over base RTT."""

    controller: str
    measured_mbps: float
    generated_mbps: float

    @property
    def difference(self) -> float:
        return self.generated_mbps / self.measured_mbps - 1 if self.measured_mbps > 0 else float("nan")


@dataclass(frozen=True)
class Comparison:
    marginals: Sequence[Marginal]
    figures: Sequence[Figure]
    reached: Sequence[Reached]
    paths: Mapping[str, int]

    @property
    def rank_correlation(self) -> float:
        """Of the goodput of the controllers (Spearman); NaN where all reach the same."""
        from scipy.stats import spearmanr

        measured, generated = ([getattr(r, f"{name}_mbps") for r in self.reached] for name in ("measured", "generated"))
        return float(spearmanr(measured, generated).statistic)

    def misses(self) -> list[str]:
        """Sentences on what of the generated paths is not like the measured ones."""
        found = [
            f"{m.quantity}: {m.distance:.2f} apart, train and test {m.between_parts:.2f}"
            for m in self.marginals
            if m.distance > max(0.1, 2 * m.between_parts)
        ]
        found += [
            f"{f.quantity}: {f.generated:.2f} instead of {f.measured:.2f}, beyond the spread over paths, {f.spread:.2f}"
            for f in self.figures
            if abs(f.generated - f.measured) > f.spread
        ]
        found += [
            f"{r.controller}: goodput {r.difference:+.0%}" for r in self.reached if not abs(r.difference) <= GOODPUT
        ]
        if not self.rank_correlation >= RANKED:
            found.append(f"order of the controllers: rank correlation {self.rank_correlation:.2f}, asked {RANKED:g}")
        return found


@dataclass(frozen=True)
class PathModel:
    """The distribution as a table (a scenario file), what each part was fitted to, and the comparison."""

    table: dict[str, Any]
    notes: Mapping[str, Sequence[Note]]
    comparison: Comparison
    seen: Mapping[str, Sequence[Observed]]


def model(traces: TraceSet, name: str, apply: Apply, paths: int = 200, worlds: int = 40) -> PathModel:
    """Fit a distribution to paths of the train part, one part for each place with five or more, and compare.

    paths: at most as many of each part of the split, in its fixed order; worlds: as many of the measured and of the
    generated paths carry one flow of each controller. Raises OrbitccError for a set with too few paths.
    """
    numbers = {part: traces.numbers(part)[:paths] for part in ("train", "test")}
    seen = {part: ordered(apply, _observed, [(traces.path, k) for k in own]) for part, own in numbers.items()}
    places: dict[str, list[Observed]] = {}
    for k, path in zip(numbers["train"], seen["train"], strict=True):
        places.setdefault(traces.entries[k]["place"], []).append(path)
    others = [path for own in places.values() if len(own) < FEWEST_PATHS for path in own]
    chosen = {place: own for place, own in places.items() if len(own) >= FEWEST_PATHS}
    chosen = chosen | ({OTHERS: others} if len(others) >= FEWEST_PATHS else {}) or {"all places": seen["train"]}
    duration_s = float(np.clip(round(float(np.median([path.duration_s for path in seen["train"]]))), 10, LONGEST_S))
    fitted = {place: distribution(own, name, duration_s) for place, own in sorted(chosen.items())}
    parts = [_plain(part.fields) for part in fitted.values()]
    source = traces.index.get("source") or traces.path
    common = {"name": name, "description": f"generated paths, fitted to the train part of {source}"}
    weights = [float(len(chosen[place])) for place in fitted]
    table = {"kind": "mixture", **common, "weights": weights, "parts": parts}
    alone = {"flows": [1, 1], "buffer_bdp": [COMPARED_BDP, COMPARED_BDP]}
    made = dict(zip(fitted, (from_table({"kind": "paths", **part, **alone}) for part in parts), strict=True))
    there = [traces.entries[k]["place"] for k in numbers["test"]]
    tested = [place if place in made else OTHERS for place in there]
    if any(place in tested for place in made):
        weights = [float(tested.count(place)) for place in made]  # places as in the test part
    generated = []
    for k in range(max(worlds, len(seen["test"]))):
        rng = np.random.default_rng((GENERATED, k))
        place = rng.choice(len(weights), p=np.array(weights) / sum(weights))
        generated.append(list(made.values())[place].sample(rng))
    rated = any(path.rate_mbps is not None for path in seen["test"])
    steps = [path.step_s for path in seen["test"] if path.rtt_ms is not None]
    step_s = float(np.median(steps)) if steps else None
    replayed = measured({"traces": traces.path, "split": "test", "duration_s": duration_s, **alone})
    seen["generated"] = [
        observe(f"generated {k}", world.links[0], world.duration_s, k, rated=rated, step_s=step_s)
        for k, world in enumerate(generated)
    ]
    sampled = {
        "test": [replayed.sample(np.random.default_rng((GENERATED, k))) for k in range(worlds)],
        "generated": generated[:worlds],
    }
    notes = {place: part.notes for place, part in fitted.items()}
    return PathModel(table, notes, compare(seen, sampled, apply), seen)


def _observed(job: tuple[str, int]) -> Observed:
    """A path of a set, at the interval of its delays, but at most every 20 ms."""
    traces, k = opened(job[0]), job[1]
    path = traces.measured(k)
    step_s = None if path.delay_ms is None else max(PROBE_S, path.delay_step_s)
    return observe(path.name, path.trace().link(), path.duration_s, k, rated=path.rate_mbps is not None, step_s=step_s)


def _plain(value: Any) -> Any:
    """Models as tables of what differs from their defaults."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return value.model_dump(exclude_defaults=True) if isinstance(value, BaseModel) else value


def compare(
    parts: Mapping[str, Sequence[Observed]], worlds: Mapping[str, Sequence[Scenario]], apply: Apply
) -> Comparison:
    """Compare. parts: paths of `train`, `test` and `generated`; worlds: those of `test` and `generated`.

    Raises OrbitccError if a part has no path.
    """
    for name, paths in parts.items():
        if not paths:
            raise OrbitccError(name, "no path", "at least one path of this part")
    marginals = [
        Marginal(quantity, unit, _quantiles(test), _quantiles(made), _distance(made, test), _distance(train, test))
        for quantity, unit, of in MARGINALS
        for train, test, made in [[_together(parts[p], of) for p in ("train", "test", "generated")]]
        if test.size and made.size and train.size
    ]
    figures = []
    for quantity, of_path in _figures():
        measured, made = (np.array([of_path(path) for path in parts[p]]) for p in ("test", "generated"))
        if not (np.isnan(measured).all() or np.isnan(made).all()):
            means = float(np.nanmean(measured)), float(np.nanmean(made))
            figures.append(Figure(quantity, means[0], means[1], float(np.nanstd(measured))))
    reached = []
    jobs = [(c, s, p) for c in CONTROLLERS for p in ("test", "generated") for s in worlds[p]]
    goodputs: dict[tuple[str, str], list[float]] = {}
    for (controller, _, part), mbps in zip(jobs, ordered(apply, _goodput, [job[:2] for job in jobs]), strict=True):
        goodputs.setdefault((controller, part), []).append(mbps)
    for controller in CONTROLLERS:
        both = (float(np.mean(goodputs[controller, part])) for part in ("test", "generated"))
        reached.append(Reached(controller, *both))
    return Comparison(marginals, figures, reached, {name: len(paths) for name, paths in parts.items()})


def _goodput(job: tuple[str, Scenario]) -> float:
    controller, scenario = job
    flows = tuple(flow.changed(controller=controller) for flow in scenario.flows)
    return float(simulate(scenario.changed(flows=flows)).flow_totals[0]["goodput_mbps"])


# -- quantities -------------------------------------------------------------------------------------------------------


def _rates(path: Observed) -> Array:
    return np.array([]) if path.rate_mbps is None else path.rate_mbps


def _rtts(path: Observed) -> Array:
    return np.array([]) if path.rtt_ms is None else path.rtt_ms


def _losses(path: Observed) -> Array:
    """The share of probes that are lost in each second, in %."""
    second, rtt = max(1, round(1 / path.step_s)), _rtts(path)
    return 100 * np.isnan(rtt[: rtt.size // second * second]).reshape(-1, second).mean(axis=1)


MARGINALS: tuple[tuple[str, str, Callable[[Observed], Array]], ...] = (
    ("rate in 0.1 s", "Mbit/s", _rates),
    (
        "mean rate of a path",
        "Mbit/s",
        lambda path: _rates(path).mean(keepdims=True) if _rates(path).size else _rates(path),
    ),
    ("RTT", "ms", _rtts),
    (
        "median RTT of a path",
        "ms",
        lambda path: np.nanmedian(_rtts(path), keepdims=True) if _rtts(path).size else _rtts(path),
    ),
    ("change of the RTT between probes", "ms", lambda path: np.abs(np.diff(_rtts(path)))),
    ("loss in a second", "%", _losses),
    ("length of an outage", "ms", lambda path: np.array([1e3 * length for _, length, _ in outages(path)])),
)


def _figures() -> list[tuple[str, Callable[[Observed], float]]]:
    def over(kind: str, lag_s: float) -> Callable[[Observed], float]:
        return lambda path: correlation(halves(path, kind), lag_s)

    def at_slots(kind: str) -> Callable[[Observed], float]:
        return lambda path: _at_slots(halves(path, kind))

    return [
        figure
        for kind in ("rate", "RTT")
        for figure in (
            *((f"{kind}, correlation over {lag_s:g} s", over(kind, lag_s)) for lag_s in LAGS_S),
            (f"{kind}, share of the variance at 1/15 Hz", at_slots(kind)),
        )
    ]


def halves(path: Observed, kind: str) -> Array:
    """Means of the `rate` or `RTT` over half a second; empty if it was not measured."""
    values, step_s = (_rates(path), BIN_S) if kind == "rate" else (_rtts(path), path.step_s)
    if not values.size or np.isnan(values).all():
        return np.zeros(0)
    width = max(1, round(0.5 / step_s))
    return filled(values)[: values.size // width * width].reshape(-1, width).mean(axis=1)


def correlation(means: Array, lag_s: float) -> float:
    """Of means over half a second, this far apart; NaN for a short path or a constant."""
    lag = round(2 * lag_s)
    if means.size <= 2 * lag or means.std() == 0:
        return float("nan")
    around = means - means.mean()
    return float((around[lag:] * around[:-lag]).mean() / (around**2).mean())


def _at_slots(means: Array) -> float:
    if means.size < 4 * SLOT_S or means.std() == 0:
        return float("nan")
    power = np.abs(np.fft.rfft(means - means.mean())) ** 2
    return float(power[np.abs(np.fft.rfftfreq(means.size, 0.5) * SLOT_S - 1) < 0.2].sum() / power.sum())


def _together(paths: Sequence[Observed], of: Callable[[Observed], Array]) -> Array:
    values = np.concatenate([of(path) for path in paths])
    return values[~np.isnan(values)]


def _quantiles(values: Array) -> tuple[float, ...]:
    return tuple(float(v) for v in np.percentile(values, SHARES))


def _distance(one: Array, other: Array) -> float:
    """The largest difference between the shares of values up to any x."""
    at = np.concatenate((one, other))
    below = [np.searchsorted(np.sort(x), at, side="right") / x.size for x in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


def as_json(model: PathModel) -> dict[str, Any]:
    found = model.comparison
    return {
        "model": model.table,
        "notes": {place: [vars(note) for note in notes] for place, notes in model.notes.items()},
        "paths": dict(found.paths),
        "marginals": [vars(m) for m in found.marginals],
        "figures": [vars(f) for f in found.figures],
        "controllers": [vars(r) | {"difference": r.difference} for r in found.reached],
        "rank_correlation": found.rank_correlation,
        "misses": found.misses(),
    }
