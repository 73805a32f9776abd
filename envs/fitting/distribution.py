"""A distribution of access links, fitted to many measured paths.

Each path is probed as it would be replayed, and described by a few quantities. A range of the distribution has the mean
and the spread of a quantity over the paths. What no path shows keeps its default, which the notes say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.links import Link
from orbitcc.envs.description.model import mean_over
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.fitting import changes, fit
from orbitcc.envs.fitting.model import Note
from orbitcc.envs.fitting.recordings import Array, Gathered, Probes
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.access_cycle import AccessCycle
from orbitcc.envs.impairments.probe import probe
from orbitcc.envs.impairments.series import Series

PROBE_S, BIN_S = 0.02, 0.1
FEWEST_PATHS = 5
OUTAGE_PROBES = 3
"""Probes lost in a row are an outage: at 20 ms, 60 ms and more."""
SILENT = 0.02
"""Bins with less than this share of a path's mean rate are an outage; it holds packets if no probe is lost in it."""
NEAR_EDGE_S = 0.6
UNKNOWN_MBPS, UNKNOWN_RTT_MS = (20.0, 300.0), (20.0, 120.0)
"""Those of `traces-train`, for paths without measured rates or delays."""
CORRELATED = 0.2
"""A smaller correlation of neighbours counts as none."""
BEFORE_S, AFTER_S, FEWEST_PROBES = 0.075, 0.14, 5
"""Around slot edges (Aalborg, arXiv 2601.08439), and the fewest probes there that show spikes."""
NAN = float("nan")
_NONE = Span(low=0, high=0)


@dataclass(frozen=True, eq=False)
class Observed:
    """What a path shows: rate_mbps [T] in bins of 0.1 s, rtt_ms [N] of probes every step_s; None: not measured.

    RTTs are NaN where a probe was lost. rate_mbps is 0 during outages.
    """

    name: str
    duration_s: float
    rate_mbps: Array | None
    rtt_ms: Array | None
    step_s: float = PROBE_S
    rate_ratio: float = NAN
    """Mean rate over that of the other direction, if it was measured."""


def observe(
    name: str, link: Link, duration_s: float, seed: int, *, rated: bool = True, step_s: float | None = PROBE_S
) -> Observed:
    """Probe a link for this long, as its path was measured: with its rates or not, every step_s (None: no RTTs)."""
    times = np.arange(0.0, duration_s - 1e-9, step_s) if step_s is not None else None
    rtt_ms = None if times is None else probe(link, times, np.random.default_rng(seed))
    every_s = PROBE_S if step_s is None else step_s
    if not rated or link.rate_mbps is None:
        return Observed(name, duration_s, None, rtt_ms, every_s)
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
    back = link.backward().rate_mbps
    ratio = (
        NAN
        if back is None or back == link.rate_mbps
        else mean_over(link.rate_mbps, duration_s) / mean_over(back, duration_s)
    )
    return Observed(name, duration_s, mbps, rtt_ms, every_s, ratio)


@dataclass(frozen=True)
class Described:
    """A path in figures; NaN for those it does not show.

    rate_mbps: geometric mean over slots (slot_log_rates). slot_rate_sd: standard deviation of these logarithms.
    noise_sd: of the rate within slots, as a share of the slot's; noise_tau_s: its correlation time.
    floor_rtt_ms: base RTT of the shortest slot; longer_ms: how much longer the slots are; slot_sd_ms: its root mean
    square. spike_ms: by how much RTTs around slot edges are longer. edge_share: share of slot edges with an outage.
    outages_ms: lengths of those; others_ms: of the others. held: share of outages in which packets wait.
    """

    slots: Array
    rate_mbps: float = NAN
    slot_log_rates: Array = field(default_factory=lambda: np.zeros(0))
    slot_rate_sd: float = NAN
    noise_sd: float = NAN
    noise_tau_s: float = NAN
    floor_rtt_ms: float = NAN
    longer_ms: Array = field(default_factory=lambda: np.zeros(0))
    slot_sd_ms: float = NAN
    jitter_rtt_ms: float = NAN
    jitter_tau_ms: float = NAN
    jitter_shape: float = NAN
    spike_ms: float = NAN
    loss: float = NAN
    edge_share: float = NAN
    outages_ms: Array = field(default_factory=lambda: np.zeros(0))
    others_ms: Array = field(default_factory=lambda: np.zeros(0))
    held: float = NAN
    rate_ratio: float = NAN


def describe(path: Observed) -> Described:
    """The figures of one path."""
    gaps = outages(path)
    phase = changes.slot_phase([start for start, _, _ in gaps])
    if path.rtt_ms is None:
        slots = changes.slot_edges(phase or 0.0, path.duration_s)
        return Described(slots, **_cuts(gaps, phase, slots), **_rates(path, slots))
    at: Array = np.arange(path.rtt_ms.size, dtype=np.float64) * path.step_s
    fitted = fit.fit(Gathered([Probes(path.name, at, path.rtt_ms)], [], [], [], []))
    phase = phase if fitted.phase_s is None else fitted.phase_s
    slots = changes.slot_edges(phase or 0.0, path.duration_s)
    inside = np.zeros(path.rtt_ms.size, dtype=bool)
    for start, length, _ in gaps:
        inside[int(start / path.step_s) : int((start + length) / path.step_s) + 1] = True
    base = fitted.base_ms[np.maximum(np.searchsorted(fitted.slots_s, slots, side="right") - 1, 0)]
    longer, jitter = base - base.min(), fitted.jitter
    return Described(
        slots,
        **_cuts(gaps, phase, slots),
        **_rates(path, slots),
        floor_rtt_ms=float(base.min()),
        longer_ms=longer,
        slot_sd_ms=float(np.sqrt(np.mean(longer**2))),
        jitter_rtt_ms=2 * jitter.mean_ms if jitter else 0.0,
        jitter_tau_ms=jitter.tau_ms if jitter else NAN,
        jitter_shape=jitter.shape if jitter else NAN,
        spike_ms=_spike(at, path.rtt_ms, slots) if phase is not None else NAN,
        loss=float(np.isnan(path.rtt_ms[~inside]).mean()) if not inside.all() else NAN,
    )


def _cuts(gaps: Sequence[tuple[float, float, bool]], phase: float | None, slots: Array) -> dict[str, Any]:
    """The outages of a path, at slot edges and away from them."""
    half, starts = changes.SLOT_S / 2, np.array([start for start, _, _ in gaps])
    lengths_ms = 1e3 * np.array([length for _, length, _ in gaps])
    near = np.zeros(starts.size, dtype=bool)
    if phase is not None:
        near = np.abs((starts - phase + half) % changes.SLOT_S - half) <= NEAR_EDGE_S
    return {
        "edge_share": NAN if phase is None else min(float(near.sum()) / max(slots.size - 1, 1), 1.0),
        "outages_ms": lengths_ms[near],
        "others_ms": lengths_ms[~near],
        "held": float(np.mean([holds for _, _, holds in gaps])) if gaps else NAN,
    }


def _spike(at: Array, rtt_ms: Array, slots: Array) -> float:
    """By how much the mean RTT from BEFORE_S to AFTER_S around slot edges exceeds that of the rest, in ms.

    0 within two standard errors.
    """
    edge = slots[1:][np.abs(at[:, None] - slots[1:]).argmin(axis=1)] if slots.size > 1 else np.full(at.size, np.inf)
    around = (at >= edge - BEFORE_S) & (at < edge + AFTER_S) & ~np.isnan(rtt_ms)
    if around.sum() < FEWEST_PROBES:
        return NAN
    usual = changes.filled(changes.by_slot(at, rtt_ms, slots, 0.5))[np.searchsorted(slots, at, side="right") - 1]
    others, more = ~around & ~np.isnan(rtt_ms), rtt_ms - usual
    found = float(more[around].mean() - more[others].mean())
    return found if found > 2 * float(more[around].std()) / np.sqrt(around.sum()) else 0.0


def outages(path: Observed) -> list[tuple[float, float, bool]]:
    """(start in s, length in s, whether packets wait) of each outage: probes lost in a row, or bins without service."""
    found: list[tuple[float, float, bool]] = []
    if path.rtt_ms is not None:
        starts, lengths = changes.runs_of(np.isnan(path.rtt_ms))
        long = lengths >= OUTAGE_PROBES
        lost = zip(starts[long].tolist(), lengths[long].tolist(), strict=True)
        found = [(s * path.step_s, n * path.step_s, False) for s, n in lost]
    if path.rate_mbps is not None:
        silent = path.rate_mbps < SILENT * path.rate_mbps.mean()
        for s, n in zip(*(v.tolist() for v in changes.runs_of(silent)), strict=True):
            start, length = s * BIN_S, n * BIN_S
            if not any(a < start + length and start < a + b for a, b, _ in found):
                found.append((start, length, True))
    return sorted(found)


def _rates(path: Observed, slots: Array) -> dict[str, Any]:
    """The rates of slots and within slots."""
    if path.rate_mbps is None:
        return {}
    mbps = path.rate_mbps
    slot = np.searchsorted(slots, (np.arange(mbps.size) + 0.5) * BIN_S, side="right") - 1
    served = mbps >= SILENT * mbps.mean()
    count = np.bincount(slot[served], minlength=slots.size)
    means = np.where(count > 0, np.bincount(slot[served], mbps[served], slots.size) / np.maximum(count, 1), np.nan)
    logs = np.log(means[~np.isnan(means)])
    around = np.where(served, mbps / means[slot] - 1, np.nan)
    second = round(1 / BIN_S)
    a, b = around[:-second], around[second:]
    both = ~np.isnan(a) & ~np.isnan(b) & (slot[:-second] == slot[second:])
    spread = float(np.nanstd(around))
    kept = float((a[both] * b[both]).mean() / spread**2) if both.any() and spread > 0 else 0.0
    tau, in_mean = _correlation_time(kept, float(np.median(np.diff(np.append(slots, path.duration_s)))))
    sd = spread / np.sqrt(1 - in_mean)
    return {
        "rate_mbps": float(np.exp(logs.mean())),
        "slot_log_rates": logs,
        "slot_rate_sd": float(np.sqrt(max(logs.var() - in_mean * sd**2, 0.0))),
        "noise_sd": float(sd),
        "noise_tau_s": tau,
        "rate_ratio": path.rate_ratio,
    }


def _correlation_time(kept: float, slot_s: float) -> tuple[float, float]:
    """The correlation time in s of noise in slots, and the share of its variance that is in the means of slots.

    kept: correlation over 1 s of what is left without the means. With correlation exp(-t / tau), the mean over a slot
    has a share v = 2 x (1 - x (1 - exp(-1 / x))) of the variance, x = tau / slot_s; what is left has a correlation of
    (exp(-1 / tau) - v) / (1 - v).
    """
    tau = np.geomspace(0.05, slot_s, 400)
    x = tau / slot_s
    v = 2 * x * (1 - x * (1 - np.exp(-1 / x)))
    left = (np.exp(-1 / tau) - v) / (1 - v)
    top = int(left.argmax())  # beyond it the means take more than a longer correlation gives
    if kept <= CORRELATED:
        return 0.0, 0.0
    k = min(int(np.searchsorted(left[: top + 1], kept)), top)
    return round(float(tau[k]), 3), float(v[k])


@dataclass(frozen=True)
class Fitted:
    """Fields of a `PathDistribution`, and what each of them comes from."""

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
        rate, rtt, parts = Span(low=UNKNOWN_MBPS[0], high=UNKNOWN_MBPS[1], log=True), [0.1, 0.1], self._outages()
        if rated := [path for path in self.all if not np.isnan(path.rate_mbps)]:
            rate = self.span("rate", "Mbit/s", lambda p: p.rate_mbps, 0.01)
            parts |= self._rates(rated)
        else:
            self.default("rate", UNKNOWN_MBPS, "Mbit/s")
            parts |= {"rate_sd": _NONE, "noise_sd": _NONE}
        if any(not np.isnan(path.floor_rtt_ms) for path in self.all):
            parts |= self._delays()
        else:
            self.default("RTT", UNKNOWN_RTT_MS, "ms")
            self.note("jitter and losses", "none", "not measured; our default", defaulted=True)
            rtt = list(UNKNOWN_RTT_MS)
            parts |= {"processing_rtt_ms": _NONE, "slot_sd_ms": _NONE, "jitter_rtt_ms": _NONE, "loss": _NONE}
        ratio = Span(low=2, high=20, log=True)
        if any(not np.isnan(path.rate_ratio) for path in self.all):
            ratio = self.span("rate over that of the other direction", "", lambda p: p.rate_ratio, 0.1, 1000)
        else:
            self.default("rate over that of the other direction", (ratio.low, ratio.high), "")
        overlay = AccessOverlay(
            handover_probability=0.0, terrestrial_rtt_ms=_NONE, frame_ms=_NONE, settling_rtt_ms=_NONE, ramp_ms=_NONE,
            bursts_per_s=_NONE, **parts,
        )  # fmt: skip
        fields = {
            "name": self.name,
            "duration_s": self.duration_s,
            "rate_mbps": rate,
            "base_rtt_ms": rtt,
            "buffer_bdp": Span(low=0.1, high=8, log=True),
            "flows": Span(low=1, high=5),
            "mean_gap_s": 6.0,
            "ack_path": {"rate_ratio": ratio, "loss": _NONE},
            "access": overlay,
            **self._spikes(),
        }
        return Fitted(fields, tuple(self.notes))

    def default(self, quantity: str, ends: tuple[float, float], unit: str) -> None:
        self.note(quantity, f"{ends[0]:g} to {ends[1]:g} {unit}", "not measured; our default", defaulted=True)

    def _delays(self) -> dict[str, Any]:
        return {
            "processing_rtt_ms": self.span("RTT of the shortest slot", "ms", lambda p: p.floor_rtt_ms),
            "slot_sd_ms": self.span("longer RTTs of slots, rms", "ms", lambda p: p.slot_sd_ms),
            "slot_correlation": self._slot_correlation(),
            "jitter_rtt_ms": self.span("jitter, mean", "ms", lambda p: p.jitter_rtt_ms),
            "jitter_tau_ms": self.span("jitter, correlation time", "ms", lambda p: p.jitter_tau_ms, 0.1),
            "jitter_shape": self._shape(),
            "loss": self.span("loss each way", "", lambda p: p.loss / 2, 0.0, 1.0),
        }

    def _rates(self, rated: Sequence[Described]) -> dict[str, Any]:
        # A few slow slots must not add fast ones: the spread is that of a normal distribution with this middle half.
        around = np.concatenate([path.slot_log_rates - np.log(path.rate_mbps) for path in rated])
        low, high = np.percentile(around, (25, 75))
        robust = min(float((high - low) / 1.349 / around.std()), 1.0) if around.std() > 0 else 1.0
        pairs = [(path.slot_log_rates[:-1], path.slot_log_rates[1:], path.rate_mbps) for path in rated]
        one, two = (np.concatenate([p[k] - np.log(p[2]) for p in pairs]) for k in (0, 1))
        correlation = float(np.clip(np.corrcoef(one, two)[0, 1], 0, 0.99)) if one.size > 2 and one.std() > 0 else 0.0
        tau = float(np.median([path.noise_tau_s for path in rated]))
        self.note("rates of neighbouring slots, correlation", f"{correlation:.2f}", f"{one.size} pairs of slots")
        self.note("rate within slots, correlation time", f"{tau:.2g} s", f"median of {len(rated)} paths")
        return {
            "rate_sd": self.span("rates of slots, sd of the logarithm", "", lambda p: robust * p.slot_rate_sd, 0, 2),
            "rate_correlation": round(correlation, 3),
            "noise_sd": self.span("rate within slots, sd", "", lambda p: p.noise_sd, 0, 1),
            "noise_tau_s": round(tau, 3),
        }

    def _spikes(self) -> dict[str, Any]:
        """Triangular spikes in both directions; their mean height is twice the mean delay."""
        if not any(path.spike_ms > 0 for path in self.all):
            return {}
        share = float(np.mean([path.spike_ms > 0 for path in self.all]))
        heights = self.span(
            "RTT around slot edges, longer by", "ms", lambda p: p.spike_ms if p.spike_ms > 0 else np.nan
        )
        self.note("paths with it", f"{share:.0%}", f"{len(self.all)} paths")
        one = Span(low=1, high=1)
        cycle = AccessCycle(spike_ms=heights, uplink_factor=one, steps=1, silence_share=_NONE, loss=_NONE)
        return {"access_cycle": cycle, "access_cycle_probability": round(share, 3)}

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
        found: dict[str, Any] = {
            "interruption_probability": Span(low=round(share, 4), high=round(share, 4)),
            "interruption_ms": _NONE,
            "hold_probability": round(waits, 3),
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
