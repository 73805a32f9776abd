"""Measured paths from recordings: delays, rates, outages and losses, with the estimators of `envs/fitting`.

What a gap means:

- No packet could be sent for more than 35 ms and five typical gaps (opportunities of LeoReplayer and Mahimahi): an
  outage that holds packets.
- Three probes in a row or more without an answer, over more than 35 ms: an outage that loses packets, from the first of
  them to the next one with an answer. Other probes without an answer are random losses, whose share changes where the
  log shows that it does (`noise.loss_steps`); each direction has half of them.
- The first outage within 0.5 s of a reconfiguration begins it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from orbitcc.common.errors import FileContentError
from orbitcc.envs.description.links import MAX_DELAY_MS
from orbitcc.envs.fitting import changes, noise, outages, rates
from orbitcc.envs.fitting.recordings import AnyRecording, Array, Intervals, Opportunities, Probes
from orbitcc.envs.orbits import formats
from orbitcc.envs.orbits.trace import Slot
from orbitcc.envs.orbits.trace_set import MeasuredPath

BIN_MS = 10
"""Time between rates of opportunities, and least time between delays."""
MOST_STEPS = 10_000_000
"""Steps of a log of pings: 28 hours of 10 ms."""
NOISE = 0.02
"""Least noise of the RTT in the search for reconfigurations, as a share of it (as `orbitcc fit`)."""
LEAST_BACK_S = 0.1
"""Stamps of answers that overtake one another fall by less."""
Seen = Sequence[tuple[float, float, Literal["drop", "hold"]]]
"""Outages: start and length in s, and what happens to packets."""


def of_replayer(name: str, delay_file: str, rate_file: str) -> MeasuredPath:
    """From a pair of files of LeoReplayer. Raises FileError that names file and line."""
    delays = formats.whole_numbers(delay_file, MAX_DELAY_MS, increasing=False)
    step_s = formats.DELAY_STEP_MS / 1e3
    end_s = delays.size * formats.DELAY_STEP_MS / 1e3
    chances = Opportunities(rate_file, formats.opportunities(rate_file))
    rate, seen = of_opportunities(chances, end_s)
    edges = reconfigurations(np.arange(delays.size) * step_s, delays, end_s, seen)
    rated_s = (float(chances.at_ms[-1]) + 1) / 1e3
    doubts = (f"rates and delays of different lengths: {rated_s:g} s and {end_s:g} s",)
    return MeasuredPath(
        name, "", "", end_s, delays, step_s, rate,
        slots=slots_of(edges, seen, None, end_s),
        doubts=doubts if abs(rated_s - end_s) > BIN_MS / 1e3 + 1e-9 else (),
    )  # fmt: skip


def of_mahimahi(name: str, down: Opportunities, up: Opportunities) -> MeasuredPath:
    """From the traces of both directions, as long as that of the data (down)."""
    end_s = float(down.at_ms[-1]) / 1e3
    rate, seen = of_opportunities(down, end_s)
    back, _ = of_opportunities(up, end_s)
    return MeasuredPath(name, "", "", end_s, rate_mbps=rate, back_mbps=back, slots=slots_of([0.0], seen, None, end_s))


def of_recording(name: str, found: AnyRecording) -> MeasuredPath:
    """From a log of pings, or one of iperf3 over TCP. Raises FileContentError for another kind of recording."""
    if isinstance(found, Probes):
        return of_probes(name, found)
    if isinstance(found, Intervals):
        seconds = np.arange(int(found.end_s[-1]) + 1)  # shorter intervals show when the sender wrote, not the path
        carried = np.interp(seconds, np.append(0.0, found.end_s), np.append(0.0, np.cumsum(found.wire_bytes)))
        end_s = float(seconds[-1])
        if not end_s:
            raise FileContentError("file", found.file, "a log of at least 1 s")
        return MeasuredPath(name, "", "", end_s, rate_mbps=np.diff(carried) * 8e-6, rate_step_s=1.0)
    raise FileContentError("file", found.file, "a log of pings, or JSON of iperf3 over TCP")


def of_probes(name: str, probes: Probes) -> MeasuredPath:
    """Half of the RTT each way, in steps of 10 ms or of the time between probes; a gap keeps the value before it."""
    sent, rtt, answered = probes.sent_s, probes.rtt_ms, ~np.isnan(probes.rtt_ms)
    apart_s = float(np.median(np.diff(sent)))
    step_s = max(BIN_MS / 1e3, round(apart_s, 3))
    if step_s > changes.SLOT_S:
        raise FileContentError("file", probes.file, f"a log with a probe every {changes.SLOT_S:g} s or more often")
    if sent[-1] / step_s > MOST_STEPS:
        raise FileContentError("file", probes.file, f"a log of at most {MOST_STEPS:,} steps of {step_s:g} s")
    end_s = (int(sent[-1] / step_s) + 1) * step_s
    cell = np.minimum((sent / step_s).astype(np.int64), round(end_s / step_s) - 1)
    count = np.bincount(cell[answered], minlength=round(end_s / step_s))
    mean = np.bincount(cell[answered], rtt[answered], minlength=count.size) / np.maximum(count, 1)
    delays = changes.filled(np.where(count > 0, mean, np.nan)) / 2
    seen: list[tuple[float, float, Literal["drop", "hold"]]] = []
    lost = ~answered
    for first, length in zip(*changes.runs_of(lost), strict=True):
        until_s = float(sent[first + length]) if first + length < sent.size else end_s
        if length >= outages.FEWEST_LOST and until_s - sent[first] > outages.OUTAGE_S:
            seen.append((float(sent[first]), until_s - float(sent[first]), "drop"))
            lost[first : first + length] = False
    edges = reconfigurations(sent[answered], rtt[answered], end_s, seen)
    # A slot has too few probes to count its own losses: the share changes where the whole log shows that it does.
    changed, shares = (
        np.array(v) for v in zip(*noise.loss_steps(noise.Losses(sent, lost, ~np.isnan(sent))), strict=True)
    )
    middles = (np.array(edges) + np.append(edges[1:], end_s)) / 2
    share = shares[np.maximum(np.searchsorted(changed, middles, side="right") - 1, 0)]
    gaps = np.diff(sent)
    long = gaps > max(1.0, 10 * apart_s)
    return MeasuredPath(
        name, "", "", end_s, delays, step_s,
        slots=slots_of(edges, seen, 1 - (1 - share) ** 0.5, end_s),
        pauses=tuple(zip(sent[:-1][long].tolist(), gaps[long].tolist(), strict=True)),
        doubts=_doubts(probes),
    )  # fmt: skip


def _doubts(probes: Probes) -> tuple[str, ...]:
    found = ["no times in the log: probes taken to be 1 s apart"] if probes.spaced else []
    if probes.back_s > LEAST_BACK_S:
        found.append(f"the clock steps back by up to {probes.back_s:.2g} s")
    return tuple(found)


def of_opportunities(chances: Opportunities, end_s: float) -> tuple[Array, Seen]:
    """Rates in bins of 10 ms, those of the rest of the time in bins with an outage, and the outages."""
    _, found = rates.of_opportunities(chances, end_s, find_outages=True)
    mbps = formats.rates_of(chances.at_ms, round(end_s * 1e3), BIN_MS, chances.file)
    served = rates.served_share(np.append(np.arange(mbps.size) * BIN_MS / 1e3, end_s), found)
    known = served >= rates.LEAST_SERVED
    mbps = np.where(known, mbps / np.maximum(served, rates.LEAST_SERVED), np.nan)
    return changes.filled(mbps) if known.any() else np.zeros(mbps.size), [(s.at_s, s.length_s, s.mode) for s in found]


def reconfigurations(at_s: Any, ms: Array, end_s: float, seen: Seen) -> list[float]:
    """The edges of 15-second slots, from 0 on, if outages or changes of the median delay lie on such a grid.

    Otherwise 0 alone.
    """
    width_s = max(0.5, end_s / changes.MOST_BINS, 3 * float(np.median(np.diff(at_s))))
    edges = np.arange(0, end_s + width_s, width_s)
    middle = changes.filled(changes.by_slot(at_s, ms, edges[:-1], 0.5))
    noise = max(changes.white_noise(middle), NOISE * float(np.median(middle)))
    moved = edges[changes.segments(middle, noise)[1:]] if noise > 0 else edges[:0]
    phase = changes.slot_phase([s[0] for s in seen])
    phase = changes.slot_phase(moved) if phase is None else phase  # its bins are longer than an outage
    return [0.0] if phase is None else changes.slot_edges(phase, end_s).tolist()


def slots_of(edges: Sequence[float], seen: Seen, loss: Any, end_s: float) -> tuple[Slot, ...]:
    """Slots that begin at the edges, and at outages. loss: share of packets lost in each of them; None: none."""
    shares = np.zeros(len(edges)) if loss is None else loss
    made = {k: Slot(t, mid_change=k > 0, loss=float(shares[k])) for k, t in enumerate(edges)}
    others = []
    for at_s, length_s, mode in seen:
        k = int(np.abs(np.asarray(edges) - at_s).argmin())
        cut: dict[str, Any] = {"interruption_ms": 1e3 * length_s, "interruption_mode": mode}
        if made[k].interruption_ms is None and abs(edges[k] - at_s) <= outages.GRID_S and (k > 0 or at_s == 0):
            made[k] = replace(made[k], start_s=at_s, **cut)
        else:
            loss_then = float(shares[np.searchsorted(edges, at_s, side="right") - 1])
            others.append(Slot(at_s, loss=loss_then, **cut))
    ordered = {s.start_s: s for s in sorted((*others, *made.values()), key=lambda s: s.start_s)}
    return tuple(s for s in ordered.values() if s.start_s < end_s)
