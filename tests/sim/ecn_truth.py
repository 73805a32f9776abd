"""Linux through queues that mark and on a LEO path (tests/data/kernel_truth/ecn.csv), and the same runs of ours."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc._sim import Simulation
from tests.sim.networks import MS, S, direction, drop_tail, flow, link, network
from tests.sim.test_kernel_truth import DATA, RMEM, START, one_way

FRAME = 1_514
"""Linux's queues count the Ethernet header; the link is faster by as much."""
RATE = round(100_000_000 * FRAME / 1_500)
LATE_S = 20
SECONDS = {"E1": 60, "E2": 80, "E3": 120}
SLOT_S = 15
RATES_MBPS, RTTS_MS = (58, 66, 80, 56, 77, 94, 87, 51), (82, 25, 93, 72, 87, 67, 23, 13)
OUTAGES_MS = (0, 102, 71, 94, 45, 74, 48, 46)
"""E3: what begins with each slot. Packets that arrive behind the bottleneck during an outage are lost, both ways."""
_STEP, _FIVE_MS, _INTERVAL = 65 * FRAME, 5 * MS, 100 * MS
QUEUES: dict[str, dict[str, Any]] = {
    "codel": {"kind": "codel", "limit": 1_000, "target": _FIVE_MS, "interval": _INTERVAL, "ecn": True},
    "fq_codel": {
        "kind": "fq_codel",
        "limit": 10_240,
        "memory_limit": 32 * 2**20,
        "flows": 1_024,
        "quantum": FRAME,
        "drop_batch": 64,
        "target": _FIVE_MS,
        "interval": _INTERVAL,
    },
    "drop_tail": drop_tail(655_360),
    # tc's smallest weight is a half.
    "step": {
        "kind": "red",
        "limit": 1_000 * FRAME,
        "min": _STEP,
        "max": _STEP,
        "max_probability": 1.0,
        "weight_log2": 1,
        "packet": FRAME,
        "adaptive": False,
        "ecn": True,
    },
}


@dataclass(frozen=True)
class Figures:
    """One flow of a run: Mbit/s, ms, packets."""

    goodput_mbps: float
    goodput_mbps_second_half: float
    srtt_ms_second_half: float
    retransmitted_packets: float
    marked_packets: float


NAMES = tuple(field.name for field in fields(Figures))
TOLERANCE = {
    "goodput_mbps": (0.02, 0.0),
    "goodput_mbps_second_half": (0.02, 0.0),
    "srtt_ms_second_half": (0.01, 0.0),
    "retransmitted_packets": (0.05, 2.0),
    "marked_packets": (0.05, 2.0),
}
"""How far the median may lie outside Linux's runs: a share of theirs, or a sum if that is more."""


@dataclass(frozen=True, order=True)
class Case:
    scenario: str
    queue: str
    flows: str


Run = tuple[Figures, ...]


@cache
def measured() -> dict[Case, dict[tuple[float, int], Run]]:
    """Linux's flows of each case by the offset of the second, ms, and the repeat."""
    found: dict[Case, dict[tuple[float, int], Run]] = {}
    with open(DATA / "ecn.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            runs = found.setdefault(Case(row["scenario"], row["queue"], row["flows"]), {})
            key = float(row["offset_ms"]), int(row["repeat"])
            runs[key] = (*runs.get(key, ()), Figures(*(float(row[name]) for name in NAMES)))
    return found


def _sender(name: str) -> dict[str, Any]:
    controller, _, off = name.partition(":")
    return flow(controller) if off or controller == "dctcp" else flow(controller, ecn="classic")


def _spec(case: Case, late: int, seed: int, start: int = START) -> dict[str, Any]:
    """The network of a case. late: when the second flow sends, after the first, ns; start: of the first."""
    if case.scenario == "E3":
        first = start + RTTS_MS[0] * MS  # data, with which the slots begin
        links = _leo_path(case.queue, start, first)
    else:
        first = start
        there = direction(RATE, one_way([[0, 25 * MS]], start), queue=QUEUES[case.queue])
        links = [link(there, direction(None, 25 * MS))]
    path = list(range(len(links)))
    senders = [
        _sender(name) | {"name": f"flow {i}", "start": start + i * late, "path": path}
        for i, name in enumerate(case.flows.split("+"))
    ]
    seconds = SECONDS[case.scenario] + first / S
    return network(seconds, links, senders, seed=seed, hz=100, header_bytes=66, ack_bytes=66, rmem=RMEM)


def _leo_path(queue: str, start: int, first: int) -> list[dict[str, Any]]:
    """The bottleneck, and behind it what delays both ways and fails."""
    slots = [0, *(first + k * SLOT_S * S for k in range(1, len(RATES_MBPS)))]
    rates = [[at, round(mbps * 1e6 * FRAME / 1_500)] for at, mbps in zip(slots, RATES_MBPS, strict=True)]
    delays = [[at, rtt * MS // 2] for at, rtt in zip(slots, RTTS_MS, strict=True)]
    # The measured link counts propagation from a packet's first bit, but for the handshake, whose packets are small.
    there = [[max(at, start + 1), d - round(12e6 / mbps)] for (at, d), mbps in zip(delays, RATES_MBPS, strict=True)]
    outages = [
        {"at": at, "duration": ms * MS, "mode": "drop", "flush": "none", "directions": "both"}
        for at, ms in zip(slots[1:], OUTAGES_MS[1:], strict=True)
    ]
    bottleneck = link(direction(rates, queue=QUEUES[queue])) | {"name": "bottleneck"}
    return [bottleneck, link(direction(None, [delays[0], *there]), direction(None, delays), *outages)]


@cache
def simulated(case: Case, offset_ms: float = 0.0, seed: int = 1) -> Run:
    """The flows of one run. A second flow's first data leave one handshake after it connects, 20 s into the first.

    offset_ms: of the second flow; in E3, when the only one connects, in a tick of the kernel.
    """
    connects = LATE_S * S + round(offset_ms * MS)
    handshake = 50 * MS
    if case.scenario == "E2" and case.queue != "fq_codel":  # its SYN waits in the queue that it meets
        asked = Simulation(json.dumps(_spec(case, connects, seed)), record_interval_ns=START)
        asked.run_until(2 * START + connects)
        handshake = round(asked.flow_totals()[1]["srtt_ms"] * MS)
    start = round(offset_ms * MS) if case.scenario == "E3" else START
    simulation = Simulation(json.dumps(_spec(case, connects + handshake, seed, start)), record_interval_ns=100 * MS)
    simulation.run()
    series = simulation.recording()
    half = series["t_s"] > SECONDS[case.scenario] / 2 + 0.05 + (case.scenario == "E3") * RTTS_MS[0] / 1e3
    goodputs, srtts = (series["flows"][name][half].mean(axis=0) for name in ("goodput_mbps", "srtt_ms"))
    return tuple(
        Figures(
            total["goodput_mbps"],
            float(goodputs[i]),
            float(srtts[i]),
            total["retransmitted_packets"],
            total["marked_packets"],
        )
        for i, total in enumerate(simulation.flow_totals())
    )


def leo_windows(controller: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Linux's and our [T, 2]: window and retransmissions so far, packets, every 100 ms of E3 with a drop-tail queue."""
    table = np.genfromtxt(DATA / f"E3_{controller}.csv", delimiter=",", skip_header=1)
    case = Case("E3", "drop_tail", f"{controller}:off")
    simulation = Simulation(json.dumps(_spec(case, 0, 1)), record_interval_ns=START)
    simulation.run()
    series = simulation.recording()
    rows = np.rint((table[:, 0] * S + START + RTTS_MS[0] * MS) / START).astype(int) - 1
    flows = series["flows"]
    ours = [flows["cwnd_packets"][rows, 0], np.cumsum(flows["retransmitted_packets"][:, 0])[rows]]
    return table[:, 1:], np.stack(ours, axis=1)


def ensemble(case: Case) -> list[Run]:
    """Ours, one run for each of Linux's."""
    return [simulated(case, offset, repeat) for offset, repeat in measured()[case]]


def compared(case: Case, ours: list[Run]) -> Iterator[tuple[int, str, tuple[float, float, float], float, bool]]:
    """(flow, figure, Linux's least, median and largest, our median, whether that lies within the tolerance)."""
    kernel = list(measured()[case].values())
    for i in range(len(kernel[0])):
        for name in NAMES:
            if name == "marked_packets" and case.queue == "drop_tail":  # which marks nothing
                continue
            theirs = [getattr(run[i], name) for run in kernel]
            low, middle, high = min(theirs), float(np.median(theirs)), max(theirs)
            value = float(np.median([getattr(run[i], name) for run in ours]))
            share, plus = TOLERANCE[name]
            agrees = low - max(share * low, plus) <= value <= high + max(share * high, plus)
            yield i, name, (low, middle, high), value, agrees
