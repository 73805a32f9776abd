"""Common parts of the micro-benchmarks of the LEO paper (Mazilu et al.): hosts, buffers, outages."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Annotated, Literal

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.links import MAX_RATE_MBPS, Direction, Link, Outage
from orbitcc.envs.description.model import MAX_TIME_S, number
from orbitcc.envs.description.queues import PACKET_BYTES, DropTailBytes
from orbitcc.envs.description.scenario import SimSettings

Rate = Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")]
Rtt = Annotated[float, number(0.01, 6e4, "ms")]
BufferBdp = Annotated[float, number(0.001, 1e4)]
Duration = Annotated[float, number(0.001, MAX_TIME_S, "s")]
Start = Annotated[float, number(0, MAX_TIME_S, "s")]
Every = Annotated[float, number(0, MAX_TIME_S, "s")]
"""Seconds between outages; 0: none."""
Run = Annotated[int, number(1, 2**31, whole=True)]
"""Number of the run, which determines all random draws."""

BdpUnit = Literal["mebi", "si"]
"""Whether a million is 2^20, as in the paper's bandwidth-delay products, or 10^6."""
OnOutage = Literal["drop", "hold"]
"""`drop`: an outage loses the queue and arriving packets, as when an interface goes down; `hold`: they wait."""
Shaper = Literal["exact", "tbf", "tbf-later"]
"""`exact`: a link without bursts; `tbf`: a token bucket of 15 kB, as in the paper's code; `tbf-later`: one as in its
later code, 10 x 2^20 / 250 bits per Mbit/s, that is, 42 ms of the rate."""
TBF_BURST_BYTES = 15_000


def buffer_bytes(rate_mbps: float, rtt_ms: float, buffer_bdp: float, unit: BdpUnit) -> int:
    """`buffer_bdp` bandwidth-delay products in the paper's unit, at least one packet."""
    return max(int(buffer_bdp * bdp_bytes(rate_mbps, rtt_ms, unit)), PACKET_BYTES)


def bdp_bytes(rate_mbps: float, rtt_ms: float, unit: BdpUnit) -> float:
    return rate_mbps * (2**20 if unit == "mebi" else 10**6) * rtt_ms / 8e3


def hosts(rate_mbps: float, rtt_ms: float, buffer: int) -> SimSettings:
    """Hosts with socket buffers of 22 times the sum of BDP and buffer, in the paper's unit."""
    most = int(22 * (bdp_bytes(rate_mbps, rtt_ms, "mebi") + buffer))
    return SimSettings(rmem_bytes=(10_240, 87_380, most), wmem_bytes=(10_240, 87_380, most))


def interruptions(
    run: int, every_s: float, duration_s: float, *, links: int = 1, on_outage: OnOutage = "drop"
) -> list[tuple[Outage, ...]]:
    """For each link, an outage every `every_s` seconds, at the same times for all links.

    Each outage has its own length, drawn in whole milliseconds from 45 to 120.
    """
    if 0 < every_s <= 0.12:
        raise OrbitccError("interruption_every_s", every_s, "0 for none, or more than the longest outage, 0.12 s")
    draw = random.Random(run)
    found: list[list[Outage]] = [[] for _ in range(links)]
    k = 1
    while every_s > 0 and k * every_s < duration_s:
        for outages in found:
            outages.append(outage(k * every_s, draw.randint(45, 120), on_outage))
        k += 1
    return [tuple(outages) for outages in found]


def outage(at_s: float, duration_ms: float, on_outage: OnOutage) -> Outage:
    return Outage(at_s=at_s, duration_ms=duration_ms, mode=on_outage, flush="queue" if on_outage == "drop" else "none")


def burst_bytes(shaper: Shaper, rate_mbps: float) -> int:
    """The size of a link's token bucket; 0: none."""
    return {"exact": 0, "tbf": TBF_BURST_BYTES, "tbf-later": int(10 * rate_mbps * 2**20 / 250 / 8)}[shaper]


def bottleneck(
    name: str, rate_mbps: float, buffer: int, outages: Iterable[Outage] = (), shaper: Shaper = "exact"
) -> Link:
    """A bottleneck without delay; acknowledgements return without delay and rate limit."""
    return Link(
        name=name,
        rate_mbps=rate_mbps,
        burst_bytes=burst_bytes(shaper, rate_mbps),
        queue=DropTailBytes(limit_bytes=buffer),
        outages=tuple(outages),
        reverse=Direction(),
    )
