"""Fits one path to its recordings: each quantity from the best of them that shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from orbitcc.envs.description.links import MIN_RATE_MBPS, GammaJitter, GilbertElliott
from orbitcc.envs.description.queues import PACKET_BYTES, DropTailBytes
from orbitcc.envs.fitting import changes, flows, noise, rates
from orbitcc.envs.fitting.flows import KnownBase, MeasuredFlow
from orbitcc.envs.fitting.model import Fit, Note
from orbitcc.envs.fitting.outages import FoundOutage
from orbitcc.envs.fitting.recordings import Array, Datagrams, Gathered, Probes

DEFAULT_RATE_MBPS = 100.0
DEFAULT_RTT_MS = 50.0
DEFAULT_BDP = 2.0
"""The queue where no recording filled it, as on the downlink of starlink-2026."""
SATURATED = 0.01
"""Datagrams that lose more than this share had filled the link."""
UDP_JITTER = 0.75
"""E|X - Y| of two independent Gamma variables of shape 2, in units of their mean: what iperf3 (RFC 3550) averages."""
NEARLY = 0.9
"""Flows of this share of the fastest are fast."""
SMALLER = 0.9
"""A queue below this share of the one that the main flow filled was not filled."""
SAME = 1.05
"""Flows with a longer base RTT than this share of the least have misjudged their queue."""
LEAST_RTT_MS = 0.01
SLOW_MS = 200.0
"""RTTs of a flow that change more slowly show a little queue, not jitter."""


def fit(found: Gathered, name: str = "fitted") -> Fit:
    """The path that the recordings describe."""
    return _Fitting(found, name).result()


class _Fitting:
    """Estimates one quantity after the other, each from the best recording that shows it, and notes its origin."""

    def __init__(self, found: Gathered, name: str) -> None:
        self.found, self.name = found, name
        self.notes: list[Note] = []
        self.probes = max(found.probes, key=lambda p: p.sent_s.size) if found.probes else None
        self.phase_s: float | None = None
        self.jitter: GammaJitter | None = None

    def note(self, quantity: str, value: str, origin: str, *, defaulted: bool = False) -> None:
        self.notes.append(Note(quantity, value, origin, defaulted))

    def result(self) -> Fit:
        probed = None if self.probes is None else self._probed(self.probes)
        rtt_jitter_ms = 0.0 if self.jitter is None else 2 * self.jitter.mean_ms
        self.flows = (
            *(flows.from_packets(p, rtt_jitter_ms, probed) for p in self.found.packets),
            *(flows.from_intervals(p, rtt_jitter_ms, probed) for p in self.found.intervals),
        )
        self.main = _main(self.flows)
        self._with_one_queue(rtt_jitter_ms, probed)
        end_s = self._duration_s()
        rate, back_rate, outages = self._rate(end_s)
        slots, base = self._base(probed)
        if self.jitter is None:
            self._jitter()
        within = slots < end_s
        slots, base = slots[within], base[within]
        mean_mbps, median_ms = rates.mean(rate, end_s), float(np.median(base))
        loss, back_loss = self._loss()
        queue = self._queue(mean_mbps, median_ms)
        outages = self._seen_outages(outages)
        return Fit(
            self.name, end_s, rate, back_rate, slots, base, self.jitter, loss, back_loss, queue,
            tuple(s for s in outages if s.at_s < end_s), self.phase_s, tuple(self.notes), self.flows, self.probes,
        )  # fmt: skip

    def _with_one_queue(self, jitter_ms: float, probed: KnownBase | None) -> None:
        """Estimate the other flows again, with the queue that the main flow filled: theirs looks smaller by chance."""
        main = self.main
        if main is None or not main.overflowed:
            return
        size = (main.drop, main.queue_bytes)
        again = list(self.flows)
        for k, packets in enumerate(self.found.packets):
            if again[k] is not main and again[k].queue_bytes < SMALLER * main.queue_bytes:
                again[k] = flows.from_packets(packets, jitter_ms, probed, size)
        self.flows = tuple(again)

    def _duration_s(self) -> float:
        if self.found.opportunities:
            if self.probes is not None and self.probes.halves:
                return float(self.probes.sent_s[-1]) + 0.01
            return float(self.found.opportunities[0].at_ms[-1]) / 1e3
        if self.main is not None:
            return self.main.duration_s
        if self.found.datagrams:
            return float(self.found.datagrams[0].end_s[-1])
        assert self.probes is not None
        return float(self.probes.sent_s[-1])

    # -- rate -------------------------------------------------------------------------------------------------------

    def _rate(self, end_s: float) -> tuple[rates.Steps, rates.Steps | None, tuple[FoundOutage, ...]]:
        if self.found.opportunities:
            forward, *others = self.found.opportunities
            rate, outages = rates.of_opportunities(forward, end_s, find_outages=True)
            back = rates.of_opportunities(others[0], end_s, find_outages=False)[0] if others else rate
            self._note_rate(rate, end_s, f"the opportunities of {_name(forward)}")
            return rate, back, outages
        flow, sd_ms = self.main, 0.0 if self.jitter is None else self.jitter.mean_ms / self.jitter.shape**0.5
        if flow is not None and flow.loaded and flow.busy.any():
            rate = rates.of_flow(flow, sd_ms)
            when = f"while packets waited in the queue ({flow.busy.mean():.0%} of the time)"
            self._note_rate(rate, end_s, f"what {_name(flow)} carried {when}")
            return rate, None, flow.outages
        if self.found.datagrams:
            sent = self.found.datagrams[0]
            return self._datagram_rate(sent, end_s), None, ()
        if flow is not None:
            rate = rates.bound_of_flow(flow)
            self._note_rate(rate, end_s, f"a lower bound: the most that {_name(flow)} carried, without a queue")
            return rate, None, flow.outages
        rate = (np.zeros(1), np.array([DEFAULT_RATE_MBPS]))
        self.note("rate", f"{DEFAULT_RATE_MBPS:g} Mbit/s", "not observable from ping; our default", defaulted=True)
        return rate, None, ()

    def _datagram_rate(self, sent: Datagrams, end_s: float) -> rates.Steps:
        edges = np.append(0.0, sent.end_s)
        mbps = sent.wire_bytes * 8e-6 / np.diff(edges)
        if sent.lost.sum() > SATURATED * sent.packets.sum():
            rate = rates.merged(edges[:-1], np.maximum(mbps, MIN_RATE_MBPS))
            self._note_rate(rate, end_s, f"the datagrams of {_name(sent)} that arrived; more were sent")
            return rate
        rate = (np.zeros(1), np.array([max(float(mbps.max()), MIN_RATE_MBPS)]))
        self._note_rate(rate, end_s, f"a lower bound: the datagrams of {_name(sent)} did not fill the link")
        return rate

    def _note_rate(self, rate: rates.Steps, end_s: float, origin: str) -> None:
        low, high = float(rate[1].min()), float(rate[1].max())
        spread = f", {low:.4g} to {high:.4g} in {rate[1].size} steps" if rate[1].size > 1 else ""
        self.note("rate", f"{rates.mean(rate, end_s):.4g} Mbit/s{spread}", origin)

    # -- delay ------------------------------------------------------------------------------------------------------

    def _probed(self, probes: Probes) -> KnownBase:
        """Slots and base RTTs of probes; the rest of their RTTs is jitter."""
        answered = ~np.isnan(probes.rtt_ms)
        at, rtt = probes.sent_s[answered], probes.rtt_ms[answered]
        end_s = float(probes.sent_s[-1])
        width_s = max(0.5, end_s / changes.MOST_BINS, 3 * float(np.median(np.diff(probes.sent_s))))
        edges = np.arange(0, end_s + width_s, width_s)
        middle = changes.filled(changes.by_slot(at, rtt, edges[:-1], 0.5))
        starts = np.array(changes.segments(middle, max(changes.white_noise(middle), 0.02 * float(np.median(middle)))))
        moved = np.array([changes.step_near(at, rtt, t, width_s) for t in edges[starts[1:]].tolist()])
        self.phase_s = changes.slot_phase(moved)
        slots = np.append(0.0, moved) if self.phase_s is None else changes.slot_edges(self.phase_s, end_s)
        slots, base = flows.joined(slots, changes.filled(changes.by_slot(at, rtt, slots, noise.LOW)))
        self.jitter, too_long_ms = noise.fit_jitter(at, rtt - flows.at_slots(slots, base, at))
        base = np.maximum(base - too_long_ms, LEAST_RTT_MS)
        kind = "the delays, twice, of" if probes.halves else "the answers of"
        kind = "the answers, taken to be of probes 1 s apart, of" if probes.spaced else kind
        self._note_base(base, f"{kind} {_name(probes)}")
        self._note_jitter(f"{kind} {_name(probes)} above the base RTT")
        return KnownBase(slots, base, end_s)

    def _base(self, probed: KnownBase | None) -> tuple[Array, Array]:
        if self.main is not None and self.phase_s is None:
            self.phase_s = self.main.phase_s
        if probed is not None:
            return probed.slots_s, probed.base_ms
        if self.main is not None:
            self._note_base(self.main.base_ms, f"the least RTTs of {_name(self.main)}")
            return self.main.slots_s, self.main.base_ms
        self.note("base RTT", f"{DEFAULT_RTT_MS:g} ms", "not observable without RTTs; our default", defaulted=True)
        return np.zeros(1), np.array([DEFAULT_RTT_MS])

    def _note_base(self, base: Array, origin: str) -> None:
        low, high = float(base.min()), float(base.max())
        spread = f"{low:.4g} to {high:.4g} ms in {base.size} steps" if base.size > 1 else f"{low:.4g} ms"
        slots = f", slots of 15 s from {self.phase_s:.2f} s" if self.phase_s is not None else ""
        self.note("base RTT", spread + slots, origin)

    def _jitter(self) -> None:
        """From a flow that never filled its link, or from datagrams."""
        for flow in self.flows if self.probes is None else ():
            if not flow.loaded and flow.excess is not None:
                jitter, _ = noise.fit_jitter(*flow.excess)
                self.jitter = jitter if jitter is not None and jitter.tau_ms < SLOW_MS else None
                return self._note_jitter(f"the RTTs of {_name(flow)}, which never filled the link")
        for log in self.found.datagrams:
            seen = float(np.median(log.jitter_ms)) / UDP_JITTER
            if seen >= noise.LEAST_JITTER_MS:
                self.jitter = GammaJitter(mean_ms=round(seen, 3))
                return self._note_jitter(f"a lower bound: the jitter of {_name(log)}, as of independent packets")
        if self.probes is None:
            self.note("jitter", "none", "not observable: no recording of an almost empty path (ping)", defaulted=True)
        return None

    def _note_jitter(self, origin: str) -> None:
        j = self.jitter
        words = f"Gamma, mean {j.mean_ms:.3g} ms each way, shape {j.shape}, tau {j.tau_ms:.3g} ms" if j else "none"
        self.note("jitter", words, origin)

    # -- losses, queue, outages -------------------------------------------------------------------------------

    def _loss(self) -> tuple[Any, float]:
        """The loss of the data direction, and of the other one."""
        main = self.main
        level = np.inf if main is None else SAME * _mean_base_ms(main)
        seen = [f for f in self.flows if f.losses is not None and (not f.loaded or _mean_base_ms(f) <= level)]
        counted = [f for f in self.flows if f.losses is None]
        below = ", while the queue was not full" if any(f.overflowed for f in self.flows) else ""
        if seen:
            found = noise.fit_losses([f.losses for f in seen if f.losses is not None], main.losses if main else None)
            origin = f"packets that {_files(seen)} sent again{below}"
            if isinstance(found.model, list):
                origin += f"; over time as in {_name(main)}"
            self._note_loss(found, origin)
            return found.model, 0.0
        if counted:
            found = noise.fit_counts(*np.sum([f.counts for f in counted], axis=0).tolist())
            self._note_loss(found, f"packets that {_files(counted)} sent again{below}; counts do not show bursts")
            return found.model, 0.0
        logs = [d for d in self.found.datagrams if d.lost.sum() <= SATURATED * d.packets.sum()]
        if logs:
            found = noise.fit_counts(sum(float(d.lost.sum()) for d in logs), sum(float(d.packets.sum()) for d in logs))
            self._note_loss(found, f"datagrams that {_files(logs)} lost; counts do not show bursts")
            return found.model, 0.0
        if self.probes is not None and self.probes.counts_losses:
            return self._probe_loss(self.probes)
        self.note("loss", "none", "not observable without a flow or ping; our default", defaulted=True)
        return 0.0, 0.0

    def _probe_loss(self, probes: Probes) -> tuple[Any, float]:
        """Probes are lost in either direction: half of the losses belong to each. Bursts go to the data."""
        together = np.ones(probes.sent_s.size, dtype=bool)
        found = noise.fit_losses([noise.Losses(probes.sent_s, np.isnan(probes.rtt_ms), together)])
        if isinstance(found.model, GilbertElliott):
            self._note_loss(found, f"probes of {_name(probes)} without an answer, all on the way of the data")
            return found.model, 0.0
        self._note_loss(found, f"probes of {_name(probes)} without an answer, half of them each way")
        each = 1 - (1 - found.share) ** 0.5
        return each, each

    def _note_loss(self, found: noise.LossFit, origin: str) -> None:
        words = f"{100 * found.share:.3g} ± {100 * found.error:.1g} % ({found.losses} of {found.packets} packets)"
        steps = [m for _, m in found.model] if isinstance(found.model, list) else [found.model]
        shares = [100 * (m.good_loss if isinstance(m, GilbertElliott) else m) for m in steps]
        chain = steps[0]
        if isinstance(chain, GilbertElliott):
            words += f", bursts of {1e3 / chain.to_good_per_s:.3g} ms, {chain.to_bad_per_s:.3g} per s"
            words += f", {shares[0]:.2g} % between them" if len(shares) == 1 and shares[0] else ""
        if len(shares) > 1:
            words += f", {min(shares):.2g} to {max(shares):.2g} % in {len(shares)} steps"
        self.note("loss", words if found.losses else f"none in {found.packets} packets", origin)

    def _queue(self, mbps: float, rtt_ms: float) -> DropTailBytes:
        """As the main flow filled it, or another one; otherwise the default, or more if a flow had more queued."""
        filled = [f for f in self.flows if f.overflowed]
        if filled:
            best = self.main if self.main in filled else max(filled, key=lambda f: f.queue_bytes)
            size = max(round(best.queue_bytes), PACKET_BYTES)
            origin = f"the data queued in {_name(best)} when a full queue lost packets"
            drop = next((f.drop for f in (best, *filled) if f.drop is not None), None)
            self.note("queue", _bytes(size, mbps) + (f", drops from the {drop}" if drop else ""), origin)
            if drop is None:
                why = "not observable: what was queued fits both tail and front; our default"
                self.note("drops", "from the tail", why, defaulted=True)
            return DropTailBytes(limit_bytes=size, drop=drop or "tail")
        default = DEFAULT_BDP * mbps * rtt_ms * 125
        most = max((f.queue_bytes for f in self.flows if f.loaded), default=0.0)
        size = round(max(default, most, 10 * PACKET_BYTES))
        why = "no flow filled it" if self.flows else "no flow was recorded"
        self.note("queue", _bytes(size, mbps), f"not observable: {why}; {DEFAULT_BDP:g} BDP or more", defaulted=True)
        return DropTailBytes(limit_bytes=size)

    def _seen_outages(self, outages: tuple[FoundOutage, ...]) -> tuple[FoundOutage, ...]:
        """The outages. Those that lose packets lose the queue unless most flows that had one show otherwise."""
        seen = [s.flush == "queue" for f in self.flows for s in f.outages if s.mode == "drop" and s.queued]
        flush: Literal["none", "queue"] = "queue" if 2 * sum(seen) >= len(seen) else "none"
        outages = tuple(replace(s, flush=flush) if s.mode == "drop" else s for s in outages)
        if not outages:
            return ()
        lengths = np.array([s.length_s for s in outages]) * 1e3
        lost = sum(s.mode == "drop" for s in outages)
        words = f"{len(outages)} of {lengths.min():.0f} to {lengths.max():.0f} ms"
        origin = _name(self.found.opportunities[0] if self.found.opportunities else self.main)
        kept = "packets wait" if not lost else f"{lost} lose packets" + (" and the queue" if flush == "queue" else "")
        self.note("outages", f"{words}; {kept}", f"gaps in {origin}")
        return outages


def _main(several: tuple[MeasuredFlow, ...]) -> MeasuredFlow | None:
    """The flow that shows the path over time: of the fast ones, that with the lowest base RTT, an upper bound."""
    loaded = [f for f in several if f.loaded] or list(several)
    fastest = max((float(f.mbps.mean()) for f in loaded), default=0.0)
    fast = [f for f in loaded if f.mbps.mean() >= NEARLY * fastest]
    return min(fast, key=lambda f: f.own_base_ms, default=None)


def _mean_base_ms(flow: MeasuredFlow) -> float:
    return float(flow.base_at(flow.edges_s).mean())


def _bytes(size: float, mbps: float) -> str:
    return f"{size / 1e3:.4g} kB, {size * 8e-3 / mbps:.3g} ms at the mean rate"


def _name(recording: Any) -> str:
    return Path(recording.file).name


def _files(several: Any) -> str:
    return ", ".join(_name(r) for r in several)
