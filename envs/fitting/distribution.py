"""A distribution of access links, fitted to many measured paths.

Each path is probed as it would be replayed, every 20 ms, and described by a few quantities; a quantity of the
distribution is a range that most of the paths lie in. What the paths do not show keeps its default, which the notes say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.links import Link
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.fitting import changes, fit
from orbitcc.envs.fitting.model import Note
from orbitcc.envs.fitting.recordings import Array, Gathered, Probes
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.probe import probe
from orbitcc.envs.impairments.series import Series

PROBE_S, BIN_S = 0.02, 0.1
FEWEST_PATHS = 5
OUTAGE_PROBES = 3
"""Probes lost in a row are an outage: at 20 ms, 60 ms and more."""
SILENT = 0.02
"""Bins with less than this share of a path's mean rate, and so few lost probes that packets wait: an outage that holds."""
NEAR_EDGE_S = 0.6
UNKNOWN_MBPS = (50.0, 250.0)
"""Downlinks of Starlink (docs/links.md), where no rate was measured."""
CORRELATED = 0.2
"""A smaller correlation of neighbours counts as none."""


@dataclass(frozen=True, eq=False)
class Observed:
    """What a path shows: rate_mbps [T] in bins of 0.1 s (None: none was measured), rtt_ms [N] of probes every step_s.

    RTTs are NaN where a probe was lost. rate_mbps is 0 during outages.
    """

    name: str
    rate_mbps: Array | None
    rtt_ms: Array
    step_s: float = PROBE_S

    @property
    def duration_s(self) -> float:
        return self.rtt_ms.size * self.step_s


def observe(
    name: str, link: Link, duration_s: float, seed: int, *, rated: bool = True, step_s: float = PROBE_S
) -> Observed:
    """Probe a link for this long; rated: its rate was measured, too; step_s: as often as the measured paths were."""
    rng = np.random.default_rng(seed)
    rtt_ms = probe(link, np.arange(0.0, duration_s - 1e-9, step_s), rng)
    if not rated or link.rate_mbps is None:
        return Observed(name, None, rtt_ms, step_s)
    edges = np.arange(0.0, duration_s + BIN_S / 2, BIN_S)
    rate = Series.of(link.rate_mbps)
    times = np.unique(np.concatenate((rate.t_s, edges)))
    carried = np.append(0.0, np.cumsum(np.diff(times) * rate.at(times[:-1])))
    mbps = np.diff(np.interp(edges, times, carried)) / BIN_S
    for outage in link.outages:
        if outage.directions in ("both", "forward"):
            span = np.clip(np.array([outage.at_s, outage.at_s + outage.duration_ms / 1e3]), 0, duration_s) / BIN_S
            covered = np.clip(span[1] - np.arange(mbps.size), 0, 1) - np.clip(span[0] - np.arange(mbps.size), 0, 1)
            mbps = mbps * (1 - covered)
    return Observed(name, mbps, rtt_ms, step_s)


@dataclass(frozen=True)
class Described:
    """A path in figures; NaN for those it does not show.

    rate_mbps: geometric mean over slots. slot_rate_sd, noise_sd: of the logarithm of the rate of slots, and of the rate
    within slots as a share of the slot's. noise_tau_s: correlation time within slots. floor_rtt_ms: base RTT of the
    shortest slot; longer_ms: how much longer the slots are, and slot_sd_ms their root mean square. edge_share: share of slot edges with
    an outage. outages_ms: lengths at edges; others_ms: away from them. held: share of outages in which packets wait.
    """

    slots: Array
    rate_mbps: float
    slot_log_rates: Array
    slot_rate_sd: float
    noise_sd: float
    noise_tau_s: float
    floor_rtt_ms: float
    longer_ms: Array
    slot_sd_ms: float
    jitter_rtt_ms: float
    jitter_tau_ms: float
    jitter_shape: float
    loss: float
    edge_share: float
    outages_ms: Array
    others_ms: Array
    held: float


def describe(path: Observed) -> Described:
    """The figures of one path."""
    at = np.arange(path.rtt_ms.size) * path.step_s
    fitted = fit.fit(Gathered([Probes(path.name, at, path.rtt_ms)], [], [], [], []))
    gaps = _outages(path)
    phase = fitted.phase_s if fitted.phase_s is not None else changes.slot_phase([start for start, _, _ in gaps])
    slots = changes.slot_edges(0.0 if phase is None else phase, path.duration_s)
    near, away, held = [], [], []
    for start, length, waits in gaps:
        distance = float("inf") if phase is None else abs((start - phase + 7.5) % changes.SLOT_S - 7.5)
        (near if distance <= NEAR_EDGE_S else away).append(1e3 * length)
        held.append(waits)
    inside = np.zeros(path.rtt_ms.size, dtype=bool)
    for start, length, _ in gaps:
        inside[int(start / path.step_s) : int((start + length) / path.step_s) + 1] = True
    lost = float(np.isnan(path.rtt_ms[~inside]).mean()) if not inside.all() else float("nan")
    jitter = fitted.jitter
    base = fitted.base_ms[np.maximum(np.searchsorted(fitted.slots_s, slots, side="right") - 1, 0)]
    longer = base - base.min()
    rates = _rates(path, slots)
    return Described(
        slots, *rates, float(base.min()), longer, float(np.sqrt(np.mean(longer**2))),
        2 * jitter.mean_ms if jitter else 0.0, jitter.tau_ms if jitter else float("nan"),
        float(jitter.shape) if jitter else float("nan"), lost,
        len(near) / max(slots.size - 1, 1) if phase is not None else float("nan"),
        np.array(near), np.array(away), float(np.mean(held)) if held else float("nan"),
    )  # fmt: skip


def _outages(path: Observed) -> list[tuple[float, float, bool]]:
    """(start in s, length in s, whether packets wait) of each outage: probes lost in a row, or bins without service."""
    starts, lengths = changes.runs_of(np.isnan(path.rtt_ms))
    long = lengths >= OUTAGE_PROBES
    found = [
        (s * path.step_s, n * path.step_s, False)
        for s, n in zip(starts[long].tolist(), lengths[long].tolist(), strict=True)
    ]
    if path.rate_mbps is not None:
        silent = path.rate_mbps < SILENT * path.rate_mbps.mean()
        for s, n in zip(*(v.tolist() for v in changes.runs_of(silent)), strict=True):
            start, length = s * BIN_S, n * BIN_S
            if not any(a < start + length and start < a + b for a, b, _ in found):
                found.append((start, length, True))
    return sorted(found)


def _rates(path: Observed, slots: Array) -> tuple[float, Array, float, float, float]:
    """Mean rate, log rates of the slots, their standard deviation, and noise and its correlation time within slots."""
    if path.rate_mbps is None:
        nan = float("nan")
        return nan, np.array([]), nan, nan, nan
    mbps = path.rate_mbps
    slot = np.searchsorted(slots, (np.arange(mbps.size) + 0.5) * BIN_S, side="right") - 1
    served = mbps >= SILENT * mbps.mean()
    means = np.array(
        [mbps[(slot == k) & served].mean() if ((slot == k) & served).any() else np.nan for k in range(slots.size)]
    )
    logs = np.log(means[~np.isnan(means)])
    around = np.where(served, mbps / means[slot] - 1, np.nan)
    second = round(1 / BIN_S)
    a, b = around[:-second], around[second:]
    both = ~np.isnan(a) & ~np.isnan(b) & (slot[:-second] == slot[second:])
    spread = float(np.nanstd(around))
    kept = float((a[both] * b[both]).mean() / spread**2) if both.any() and spread > 0 else 0.0
    tau = -1 / np.log(kept) if CORRELATED < kept < 1 else 0.0
    return float(np.exp(logs.mean())), logs, float(logs.std()), spread, float(tau)


@dataclass(frozen=True)
class Fitted:
    """Fields of a distribution of paths (`kind = "paths"`), and what each of them comes from."""

    fields: dict[str, Any]
    notes: tuple[Note, ...]


def distribution(paths: Sequence[Observed], name: str, duration_s: float) -> Fitted:
    """Ranges in which the figures of the paths lie. Raises OrbitccError for fewer than five paths."""
    if len(paths) < FEWEST_PATHS:
        raise OrbitccError("paths", len(paths), f"at least {FEWEST_PATHS} paths to fit a distribution to")
    return _Ranges(paths, name, duration_s).fitted()


class _Ranges:
    def __init__(self, paths: Sequence[Observed], name: str, duration_s: float) -> None:
        self.all = [describe(path) for path in paths]
        self.name, self.duration_s = name, duration_s
        self.observed_s = sum(path.duration_s for path in paths)
        self.notes: list[Note] = []

    def note(self, quantity: str, value: str, origin: str, *, defaulted: bool = False) -> None:
        self.notes.append(Note(quantity, value, origin, defaulted))

    def span(
        self, quantity: str, unit: str, figure: Callable[[Described], float], least: float = 0.0, most: float = np.inf
    ) -> Span:
        """The uniform range with the mean and the spread of a figure, within its extremes; `least` if no path shows it.

        Of the logarithm, if the largest value is more than twice the smallest.
        """
        values = np.array([figure(path) for path in self.all])
        values = np.clip(values[~np.isnan(values)], least, most)
        if not values.size:
            self.note(quantity, f"{least:g} {unit}".strip(), "shown by no path", defaulted=True)
            return Span(low=least, high=least)
        bounds, log = (values.min(), values.max()), bool(0 < 2 * values.min() < values.max())
        scale = np.log(values) if log else values
        ends = scale.mean() + np.sqrt(3) * scale.std() * np.array([-1, 1])
        low, high = (float(f"{v:.4g}") for v in np.clip(np.exp(ends) if log else ends, *bounds))
        self.note(quantity, f"{low:.4g} to {high:.4g} {unit}".strip(), f"{values.size} paths")
        return Span(low=low, high=high, log=log and high > low)

    def fitted(self) -> Fitted:
        rated = [path for path in self.all if not np.isnan(path.rate_mbps)]
        if rated:
            rate = self.span("rate", "Mbit/s", lambda p: p.rate_mbps, 0.01)
            rates = self._rates(rated)
        else:
            rate, rates = Span(low=UNKNOWN_MBPS[0], high=UNKNOWN_MBPS[1], log=True), {}
            self.note(
                "rate",
                f"{UNKNOWN_MBPS[0]:g} to {UNKNOWN_MBPS[1]:g} Mbit/s",
                "not measured; our default",
                defaulted=True,
            )
        overlay = AccessOverlay(
            handover_probability=0.0,
            processing_rtt_ms=self.span("RTT of the shortest slot", "ms", lambda p: p.floor_rtt_ms),
            terrestrial_rtt_ms=Span(low=0, high=0),
            slot_sd_ms=self.span("longer RTTs of slots, rms", "ms", lambda p: p.slot_sd_ms),
            slot_correlation=self._slot_correlation(),
            jitter_rtt_ms=self.span("jitter, mean", "ms", lambda p: p.jitter_rtt_ms),
            jitter_tau_ms=self.span("jitter, correlation time", "ms", lambda p: p.jitter_tau_ms, 0.1),
            jitter_shape=self._shape(),
            frame_ms=Span(low=0, high=0),
            settling_rtt_ms=Span(low=0, high=0),
            loss=self.span("loss each way", "", lambda p: p.loss / 2, 0.0, 1.0),
            **self._outages(),
            **rates,
        )  # fmt: skip
        fields = {
            "kind": "paths",
            "name": self.name,
            "duration_s": self.duration_s,
            "rate_mbps": rate,
            "base_rtt_ms": [0.1, 0.1],
            "buffer_bdp": [0.5, 4],
            "flows": [1, 1],
            "access": overlay,
        }
        return Fitted(fields, tuple(self.notes))

    def _rates(self, rated: Sequence[Described]) -> dict[str, Any]:
        pairs = [(path.slot_log_rates[:-1], path.slot_log_rates[1:], path.rate_mbps) for path in rated]
        one, two = (np.concatenate([p[k] - np.log(p[2]) for p in pairs]) for k in (0, 1))
        correlation = float(np.clip(np.corrcoef(one, two)[0, 1], 0, 0.99)) if one.size > 2 and one.std() > 0 else 0.0
        tau = float(np.median([path.noise_tau_s for path in rated]))
        self.note("rates of neighbouring slots, correlation", f"{correlation:.2f}", f"{one.size} pairs of slots")
        self.note("rate within slots, correlation time", f"{tau:.2g} s", f"median of {len(rated)} paths")
        return {
            "rate_sd": self.span("rates of slots, sd of the logarithm", "", lambda p: p.slot_rate_sd, 0, 2),
            "rate_correlation": round(correlation, 3),
            "noise_sd": self.span("rate within slots, sd", "", lambda p: p.noise_sd, 0, 1),
            "noise_tau_s": round(tau, 3),
        }

    def _slot_correlation(self) -> float:
        """Of the normal variables x whose sizes |x| make slots longer.

        Variables with correlation r have sizes with (sqrt(1 - r^2) + r asin(r) - 1) / (pi / 2 - 1).
        """
        known = [path.longer_ms / path.slot_sd_ms for path in self.all if path.slot_sd_ms > 0]
        one, two = (np.concatenate([x[k] for x in known] or [np.zeros(0)]) for k in (slice(None, -1), slice(1, None)))
        seen = float(np.corrcoef(one, two)[0, 1]) if one.size > 2 and one.std() > 0 and two.std() > 0 else 0.0
        r = np.linspace(0, 0.99, 100)
        found = float(np.interp(seen, (np.sqrt(1 - r**2) + r * np.arcsin(r) - 1) / (np.pi / 2 - 1), r))
        self.note("RTTs of neighbouring slots, correlation", f"{found:.2f}", f"{one.size} pairs of slots")
        return round(found, 3)

    def _shape(self) -> int:
        shapes = [path.jitter_shape for path in self.all if not np.isnan(path.jitter_shape)]
        return max(1, round(float(np.median(shapes)))) if shapes else 1

    def _outages(self) -> dict[str, Any]:
        at_edges = np.concatenate([path.outages_ms for path in self.all])
        others = np.concatenate([path.others_ms for path in self.all])
        shares = np.array([path.edge_share for path in self.all])
        share = float(np.nanmean(shares)) if not np.isnan(shares).all() else 0.0
        held = np.array([path.held for path in self.all])
        waits = float(np.nanmean(held)) if not np.isnan(held).all() else 0.0
        self.note("slot edges with an outage", f"{share:.2f}", f"{at_edges.size} outages")
        per_s = others.size / self.observed_s
        self.note("outages away from edges", f"{60 * per_s:.3g} per minute", f"{others.size} outages")
        none = Span(low=0, high=0)
        found: dict[str, Any] = {
            "interruption_probability": Span(low=round(share, 4), high=round(share, 4)),
            "interruption_ms": none,
            "ramp_ms": none,
            "hold_probability": round(waits, 3),
            "bursts_per_s": none,
            "obstructions_per_s": round(per_s, 6),
        }
        if at_edges.size:
            low, high = np.percentile(at_edges, (5, 95)).tolist()
            found["interruption_ms"] = Span(low=low, high=high)
            self.note("length of outages at edges", f"{low:.0f} to {high:.0f} ms", f"{at_edges.size} outages")
        if others.size:
            found["obstruction_ms"] = mean = round(float(others.mean()), 1)
            self.note("length of the others", f"{mean:.0f} ms on average", f"{others.size} outages")
        return found
