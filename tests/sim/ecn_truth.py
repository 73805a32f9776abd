"""Linux with ECN through queues that mark (E1 and E2 of tests/data/kernel_truth/ecn.csv), and the same runs of ours."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from orbitcc._sim import Simulation
from tests.sim.networks import MS, S, direction, flow, link, network
from tests.sim.test_kernel_truth import DATA, RMEM, START, one_way

FRAME = 1_514
"""Linux's queues count the Ethernet header; the link is faster by as much."""
RATE = round(100_000_000 * FRAME / 1_500)
LATE_S = 20
SECONDS = {"E1": 60, "E2": 80}
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


def _spec(case: Case, late: int, seed: int) -> dict[str, Any]:
    there = direction(RATE, one_way([[0, 25 * MS]], START), queue=QUEUES[case.queue])
    senders = [
        _sender(name) | {"name": f"flow {i}", "start": START + i * late} for i, name in enumerate(case.flows.split("+"))
    ]
    seconds = SECONDS[case.scenario] + START / S
    links = [link(there, direction(None, 25 * MS))]
    return network(seconds, links, senders, seed=seed, hz=100, header_bytes=66, ack_bytes=66, rmem=RMEM)


@cache
def simulated(case: Case, offset_ms: float = 0.0, seed: int = 1) -> Run:
    """The flows of one run. A second flow's first data leave one handshake after it connects, 20 s into the first."""
    connects = LATE_S * S + round(offset_ms * MS)
    handshake = 50 * MS
    if case.scenario == "E2" and case.queue != "fq_codel":  # its SYN waits in the queue that it meets
        asked = Simulation(json.dumps(_spec(case, connects, seed)), record_interval_ns=START)
        asked.run_until(2 * START + connects)
        handshake = round(asked.flow_totals()[1]["srtt_ms"] * MS)
    simulation = Simulation(json.dumps(_spec(case, connects + handshake, seed)), record_interval_ns=100 * MS)
    simulation.run()
    series = simulation.recording()
    half = series["t_s"] > SECONDS[case.scenario] / 2 + 0.05
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


def ensemble(case: Case) -> list[Run]:
    """Ours, one run for each of Linux's."""
    return [simulated(case, offset, repeat) for offset, repeat in measured()[case]]


def compared(case: Case, ours: list[Run]) -> Iterator[tuple[int, str, tuple[float, float, float], float, bool]]:
    """(flow, figure, Linux's least, median and largest, our median, whether that lies within the tolerance)."""
    kernel = list(measured()[case].values())
    for i in range(len(kernel[0])):
        for name in NAMES:
            theirs = [getattr(run[i], name) for run in kernel]
            low, middle, high = min(theirs), float(np.median(theirs)), max(theirs)
            value = float(np.median([getattr(run[i], name) for run in ours]))
            share, plus = TOLERANCE[name]
            agrees = low - max(share * low, plus) <= value <= high + max(share * high, plus)
            yield i, name, (low, middle, high), value, agrees
