"""What rests on phases, as ensembles: two flows of which one comes late (S2 and S6 of tests/data/kernel_truth), and
Westwood over GEO."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from orbitcc._sim import Simulation
from tests.sim.networks import MS, S, direction, drop_tail, flow, link, network, run
from tests.sim.test_kernel_truth import CONTROLLERS, DATA, START, one_way

US = 1_000
LATE_S = 20
SECONDS = {"S2": 80, "S6": 120}
BUFFER = {"S2": 625_000, "S6": 1_250_000}
RTTS_MS = {"S2": (50, 50), "S6": (20, 100)}
QUEUE_RUN_GAP_NS = 120_000
"""Linux's two flows have one host, whose queue runs for each of their packets: as many as fit on the link."""
GEO_RATE = 144_000_000
GEO_SERIALISATION_NS = 83_333


@dataclass(frozen=True)
class Share:
    """What one flow got: Mbit/s of the second half of the run, retransmitted packets and timeouts of all of it."""

    goodput_mbps: float
    retransmitted_packets: float
    rtos: float


@cache
def measured(scenario: str, controller: str) -> dict[float, tuple[Share, Share]]:
    """Linux's flows by the offset of the second, ms."""
    runs: dict[float, list[Share]] = {}
    with open(DATA / "ensembles.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if (row["scenario"], row["controller"]) == (scenario, controller):
                names = ("goodput_mbps_second_half", "retransmitted_packets", "rtos")
                runs.setdefault(float(row["offset_ms"]), []).append(Share(*(float(row[name]) for name in names)))
    return {offset: (first, second) for offset, (first, second) in runs.items()}


def spec(scenario: str, controller: str, late: int, jitter_us: float, seed: int) -> dict[str, Any]:
    """The network, its second flow `late` ns after the first; every packet waits up to `jitter_us` at its host."""
    rtts = [rtt * MS for rtt in RTTS_MS[scenario]]
    there = min(rtts) // 2
    queue = drop_tail(BUFFER[scenario])
    shared = link(direction(100_000_000, one_way([[0, there]], START), queue=queue), direction())
    back = [link(direction(), direction(None, rtt - there)) | {"name": f"back-{i}"} for i, rtt in enumerate(rtts)]
    sender = CONTROLLERS[controller]
    flows = [
        sender | {"name": name, "path": [0, i + 1], "start": START + i * late}
        for i, name in enumerate(("first", "second"))
    ]
    made = network(SECONDS[scenario] + START / S, [shared, *back], flows, seed=seed, hz=100)
    return made | {
        "noise": {"send_jitter": round(jitter_us * US), "start_jitter": 0, "queue_run_gap": QUEUE_RUN_GAP_NS}
    }


@cache
def simulated(
    scenario: str, controller: str, offset_ms: float, jitter_us: float = 0, seed: int = 1, late_s: float = LATE_S
) -> tuple[Share, Share]:
    """Both flows, the second of which connects `late_s` and `offset_ms` after the first has begun.

    Its SYN waits in the queue, so that its first data leave that much more than a base RTT later; what it meets is
    read in a run of its own. If it comes sooner than in Linux's runs, the run is over as much sooner.
    """
    connects = round(late_s * S) + round(offset_ms * MS)
    seed += round(1_000 * offset_ms)
    asked = Simulation(json.dumps(spec(scenario, controller, connects, jitter_us, seed)), record_interval_ns=START)
    asked.run_until(2 * START + connects)  # the next sample of what is recorded
    handshake = round(asked.flow_totals()[1]["srtt_ms"] * MS)

    started = spec(scenario, controller, connects + handshake, jitter_us, seed)
    seconds = SECONDS[scenario] - LATE_S + late_s
    started["duration"] = round(seconds * S) + START
    simulation = Simulation(json.dumps(started), record_interval_ns=100 * MS)
    simulation.run()
    series = simulation.recording()
    second_half = series["t_s"] > seconds - SECONDS[scenario] / 2 + 0.05
    goodputs = series["flows"]["goodput_mbps"][second_half].mean(axis=0)
    totals = simulation.flow_totals()
    first, second = (
        Share(float(goodput), total["retransmitted_packets"], total["rtos"])
        for goodput, total in zip(goodputs, totals, strict=True)
    )
    return first, second


def ensemble(
    scenario: str, controller: str, jitter_us: float = 0, seeds: int = 1, late_s: float = LATE_S
) -> list[tuple[Share, Share]]:
    """Ours, at the offsets of Linux's, so many runs at each."""
    return [
        simulated(scenario, controller, offset, jitter_us, seed, late_s)
        for offset in measured(scenario, controller)
        for seed in range(1, seeds + 1)
    ]


def westwood(late_ns: int, seconds: int = 100) -> tuple[float, int]:
    """Goodput (Mbit/s) and retransmissions of one flow over 600 ms and `late_ns`, 144 Mbit/s and 36 MB of buffer."""
    there = direction(GEO_RATE, 300 * MS - GEO_SERIALISATION_NS + late_ns, queue=drop_tail(36_000_000))
    started = flow("westwood") | {"start": 2 * MS}
    result = run(network(seconds, [link(there, direction(None, 300 * MS))], [started], hz=100))
    return result.total["goodput_mbps"], result.total["retransmitted_packets"]
