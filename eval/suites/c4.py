"""The tests of C4's authors (draft-huitema-ccwg-c4-test and the files of parameters beside it), for any contender.

Left out are the media tests, whose streams have priorities and are cancelled when late, and the competition through an
L4S queue, of which the draft gives no sizes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from orbitcc.envs import controllers
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.contenders import Contender

PACKET_BITS = 1514 * 8
TIMEOUT_S = 60.0
START_SPREAD_S = 0.02
"""The second flow starts this much later at most: runs differ by that, and by the jitter of Wi-Fi."""
SEED_BYTES, SEED_RTT_MS, PAYLOAD_BYTES = 18_750_000, 600.123, 1448
BUFFERS = {"rmem_bytes": (10_240, 2**27, 2**27), "wmem_bytes": (10_240, 2**27, 2**27)}
"""Not the limit, as the authors' flow control is not."""


@dataclass(frozen=True)
class Download:
    """A download over a link. buffer_ms: time to send a full buffer at the highest rate. jitter_ms: mean of Wi-Fi's."""

    mbytes: float
    rate_mbps: float | tuple[tuple[float, float], ...]
    rtt_ms: float | tuple[tuple[float, float], ...]
    buffer_ms: float = 80.0
    jitter_ms: float | tuple[tuple[float, float], ...] = 0.0
    holds_s: tuple[tuple[float, float], ...] = ()
    """When the link holds its packets, and for how long."""
    l4s: bool = False
    start_s: float = 0.0
    beside: str = ""
    beside_mbytes: float = 0.0
    beside_start_s: float = 0.0


C4 = "c4:flavour=picoquic"
"""The C4 of the authors' simulations, where it is the other download."""


def _against(prefix: str, suffix: str, **fields: Any) -> dict[str, Download]:
    """A trial beside each of the authors' three controllers."""
    rivals = {"c4": C4, "bbr": "bbr3", "cubic": "cubic"}
    return {f"{prefix}_{short}{suffix}": Download(**fields, beside=rival) for short, rival in rivals.items()}


TRIALS: Mapping[str, Download] = {
    "alone": Download(10, 20, 80),
    "alone_200": Download(20, 200, 40),
    "alone_1_5M": Download(4, 1.5, 40, 50),
    "alone_512k": Download(1, 0.512, 34, 50),
    "low_and_up": Download(7, ((0, 5), (2.5, 10)), 100),
    "drop_and_back": Download(7, ((0, 10), (1.5, 5), (3.5, 10)), 100),
    "blackhole": Download(10, 25, 70, holds_s=((2, 2),)),
    "short_long": Download(20, 10, ((0, 30), (1, 200)), 200),
    "satellite": Download(100, 250, 600, 600),
    "bbloat": Download(30, 20, 80, 20_000),
    "wifi_bad": Download(4, 10, 2, 250, 7),
    "wifi_fade": Download(10, ((0, 20), (1, 18), (3, 20)), 80, jitter_ms=((0, 1), (1, 12), (3, 1))),
    "wifi_suspension": Download(10, 20, 10, 20, holds_s=tuple((1.8 + 2 * k, 0.2) for k in range(20))),
    "ecn": Download(10, 20, 80, l4s=True),
    **_against("vs", "", mbytes=5, rate_mbps=20, rtt_ms=80, beside_mbytes=10),
    "after_c4": Download(5, 20, 80, start_s=0.5, beside=C4, beside_mbytes=10),
    "before_c4": Download(10, 50, 30, beside=C4, beside_mbytes=20, beside_start_s=0.5),
    **_against("vs", "_lg", mbytes=30, rate_mbps=20, rtt_ms=80, beside_mbytes=20),
    **_against("vs", "_lg2", mbytes=15, rate_mbps=10, rtt_ms=70, beside_mbytes=10, beside_start_s=1),
    **_against("bbloat", "", mbytes=30, rate_mbps=20, rtt_ms=80, buffer_ms=20_000, beside_mbytes=20),
    **_against(
        "wifi_bad", "", mbytes=4, rate_mbps=10, rtt_ms=2, buffer_ms=250, jitter_ms=7, start_s=1, beside_mbytes=10
    ),
}  # fmt: skip
QUICK = ("alone", "short_long", "wifi_bad", "vs_c4", "vs_cubic")


class C4Tests(Suite):
    """Downloads alone and beside another one, with changes of the path and the jitter of bad Wi-Fi."""

    name = "c4-tests"
    scenario = "dumbbell"
    takes_parameters = False
    record_interval_s = 0.1

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"test": name} for name in (QUICK if profile == "quick" else TRIALS)]

    def case(self, point: Point, seed: int) -> Case:
        name = str(point["test"])
        return Case(seed, scenario(name, TRIALS[name], seed), point)

    def enter(self, case: Case, contender: Contender) -> Scenario:
        made = contender.take(case.scenario, lambda flow: flow.name == "main")
        if case.point["test"] != "satellite" or "resume_cwnd" not in controllers.get(contender.controller).params:
            return made
        remembered = {"resume_cwnd": SEED_BYTES // PAYLOAD_BYTES, "resume_rtt_ms": SEED_RTT_MS}
        (flow,) = made.flows
        spec = flow.controller.changed(params={**remembered, **flow.controller.params})
        return made.with_flows([flow.changed(controller=spec)])

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        t, flows = recording.t_s, recording.flows
        starts = [flow.start_s for flow in recording.scenario.flows]
        ends = [totals["finished_s"] or TIMEOUT_S for totals in recording.flow_totals]
        own = metrics.window(t, starts[0], ends[0])
        both = metrics.window(t, max(starts), min(ends))
        rtts = flows["rtt_ms"][own, 0]
        capacity = recording.links["capacity_mbps"][both, 0].mean()
        return {
            "completion_s": ends[0] - starts[0],
            "rtt_mean_ms": float(np.nanmean(rtts)) if np.isfinite(rtts).any() else float("nan"),
            "load": float(flows["goodput_mbps"][both, 0].mean() / capacity),
        }


def scenario(name: str, trial: Download, seed: int) -> Scenario:
    """The network of a trial, with Cubic in the place of the contender."""
    draw = random.Random(seed)
    rates = trial.rate_mbps if isinstance(trial.rate_mbps, tuple) else ((0.0, trial.rate_mbps),)
    rtts = trial.rtt_ms if isinstance(trial.rtt_ms, tuple) else ((0.0, trial.rtt_ms),)
    buffer = int(max(rate for _, rate in rates) * trial.buffer_ms * 125)
    queue = {"kind": "dualpi2"} if trial.l4s else {"kind": "drop_tail_bytes", "limit_bytes": buffer}
    ways: list[Any] = [tuple((t, rtt / 2) for t, rtt in rtts)] * 2
    if trial.jitter_ms:
        levels = trial.jitter_ms if isinstance(trial.jitter_ms, tuple) else ((0.0, trial.jitter_ms),)
        # One packet in service after the other, and an ACK for every second one.
        ways = [_wifi(draw, rtts[0][1] / 2, levels, k * PACKET_BITS / rates[0][1] / 1e6) for k in (1, 2)]
    smooth = bool(trial.jitter_ms)
    flows = [_flow("main", "cubic", trial.mbytes, trial.start_s)]
    if trial.beside:
        start = trial.beside_start_s + draw.uniform(0, START_SPREAD_S)
        flows.append(_flow("beside", trial.beside, trial.beside_mbytes, start))
    link = {
        "name": "bottleneck",
        "rate_mbps": rates,
        "delay_ms": ways[0],
        "interpolate_delay": smooth,
        "queue": queue,
        "outages": [{"at_s": at, "duration_ms": 1e3 * length, "mode": "hold"} for at, length in trial.holds_s],
        "handovers": (),
        "reverse": {"delay_ms": ways[1], "interpolate_delay": smooth},
    }
    described = {"name": f"c4-tests {name}", "duration_s": TIMEOUT_S, "seed": seed, "links": [link], "flows": flows}
    return Scenario.build({**described, "sim": BUFFERS})


def _flow(name: str, controller: str, mbytes: float, start_s: float) -> dict[str, Any]:
    traffic = {"kind": "bytes", "bytes": int(1e6 * mbytes)}
    return {"name": name, "controller": controller, "start_s": start_s, "traffic": traffic}


SHORT_MS, LONG_MS, LONG_MEAN = 1.0, 7.5, 12.0
"""Deferrals of a millisecond, one per packet in the mean; repetitions of 7.5 ms, twelve per spike."""
LONG_FROM_MS, LONG_SPAN_MS = 1.0, 90.0
WIFI_S = 20.0
"""The pattern repeats after so long."""


def _wifi(
    draw: random.Random, delay_ms: float, levels: Sequence[tuple[float, float]], slot_s: float
) -> tuple[tuple[float, float], ...]:
    """Delay with the Wi-Fi jitter of the draft ("Handling of High Jitter Environments"), as points of straight lines.

    Each slot draws the jitter of a packet. Packets stay in order, so a late one holds those behind it back. Between
    larger draws, the delay falls as fast as time passes.
    """
    noise = np.random.default_rng(draw.getrandbits(64))
    times = np.arange(0.0, WIFI_S, slot_s)
    means = np.array([mean for _, mean in levels])[np.searchsorted([t for t, _ in levels], times, side="right") - 1]
    short, long = noise.poisson(1.0, times.size), noise.poisson(LONG_MEAN, times.size)
    jitter = SHORT_MS * (short - noise.random(times.size) * (short > 0))
    spikes = noise.random(times.size) < (means - LONG_FROM_MS) / LONG_SPAN_MS
    jitter += spikes * LONG_MS * (long - noise.random(times.size) * (long > 0))
    points = [(0.0, delay_ms)]
    reached, at = 0.0, 0.0
    for t, own in zip(times[1:].tolist(), jitter[1:].tolist(), strict=True):
        left = max(reached - 1e3 * (t - at), 0.0)
        if own > left:
            points += [(t - 1e-6, delay_ms + left), (t, delay_ms + own)]
            reached, at = own, t
    return tuple(points)
