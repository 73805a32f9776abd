"""Generated paths beside measured ones: distributions, correlations over time, and what controllers reach on both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.fitting.changes import SLOT_S, filled, runs_of
from orbitcc.envs.fitting.distribution import BIN_S, Observed
from orbitcc.parallel.work import Apply, ordered

CONTROLLERS = ("cubic", "reno", "vegas", "westwood", "bbr", "bbr3", "copa", "vivace")
SHARES = (5, 50, 95)
LAGS_S = (1.0, 15.0)
RANKED, GOODPUT = 0.9, 0.1
"""The rank correlation of controllers and the relative difference of goodput that a model is asked for."""

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
        for quantity, unit, of in _MARGINALS
        for train, test, made in [[_together(parts[p], of) for p in ("train", "test", "generated")]]
        if test.size and made.size and train.size
    ]
    figures = []
    for quantity, of_path in _figures():
        measured, made = (np.array([of_path(path) for path in parts[p]]) for p in ("test", "generated"))
        if not (np.isnan(measured).all() or np.isnan(made).all()):
            figures.append(
                Figure(quantity, *(float(np.nanmean(x)) for x in (measured, made)), float(np.nanstd(measured)))
            )
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


def _losses(path: Observed) -> Array:
    """The share of probes that are lost in each second, in %."""
    second = max(1, round(1 / path.step_s))
    whole = path.rtt_ms[: path.rtt_ms.size // second * second]
    return 100 * np.isnan(whole).reshape(-1, second).mean(axis=1)


def _outages(path: Observed) -> Array:
    """The lengths of runs of three lost probes and more, and of bins without service, in ms."""
    lengths = runs_of(np.isnan(path.rtt_ms))[1]
    silent = runs_of(_rates(path) <= 0.02 * np.mean(_rates(path)))[1] if _rates(path).size else np.array([])
    return 1e3 * np.concatenate((lengths[lengths >= 3] * path.step_s, silent * BIN_S))


_MARGINALS: tuple[tuple[str, str, Callable[[Observed], Array]], ...] = (
    ("rate in 0.1 s", "Mbit/s", _rates),
    ("mean rate of a path", "Mbit/s", lambda path: _rates(path).mean(keepdims=True)),
    ("RTT", "ms", lambda path: path.rtt_ms[~np.isnan(path.rtt_ms)]),
    ("median RTT of a path", "ms", lambda path: np.array([np.nanmedian(path.rtt_ms)])),
    ("change of the RTT between probes", "ms", lambda path: np.abs(np.diff(path.rtt_ms))),
    ("loss in a second", "%", _losses),
    ("outage", "ms", _outages),
)


def _figures() -> list[tuple[str, Callable[[Observed], float]]]:
    found: list[tuple[str, Callable[[Observed], float]]] = []
    for name, of in (("rate", _rate_of_seconds), ("RTT", _rtt_of_seconds)):
        for lag in LAGS_S:
            found.append(
                (f"{name}, correlation over {lag:g} s", lambda path, of=of, lag=lag: _correlation(of(path), lag))
            )
        found.append((f"{name}, share of the variance at 1/15 Hz", lambda path, of=of: _at_slots(of(path))))
    return found


def _rate_of_seconds(path: Observed) -> Array:
    return _seconds(_rates(path), BIN_S)


def _rtt_of_seconds(path: Observed) -> Array:
    known = path.rtt_ms if not np.isnan(path.rtt_ms).all() else np.array([])
    return _seconds(filled(known) if known.size else known, path.step_s)


def _seconds(values: Array, step_s: float) -> Array:
    """Means over half a second."""
    width = max(1, round(0.5 / step_s))
    return values[: values.size // width * width].reshape(-1, width).mean(axis=1)


def _correlation(halves: Array, lag_s: float) -> float:
    lag = round(2 * lag_s)
    if halves.size <= 2 * lag or halves.std() == 0:
        return float("nan")
    around = halves - halves.mean()
    return float((around[lag:] * around[:-lag]).mean() / (around**2).mean())


def _at_slots(halves: Array) -> float:
    if halves.size < 4 * SLOT_S or halves.std() == 0:
        return float("nan")
    power = np.abs(np.fft.rfft(halves - halves.mean())) ** 2
    return float(power[np.abs(np.fft.rfftfreq(halves.size, 0.5) * SLOT_S - 1) < 0.2].sum() / power.sum())


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


def table(found: Comparison) -> dict[str, Any]:
    """As JSON."""
    return {
        "paths": dict(found.paths),
        "marginals": [vars(m) for m in found.marginals],
        "figures": [vars(f) for f in found.figures],
        "controllers": [vars(r) | {"difference": r.difference} for r in found.reached],
        "rank_correlation": found.rank_correlation,
        "misses": found.misses(),
    }
