"""Queues of links, each with the defaults of its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.model import Model, number, tagged

MAX_BUFFER_BYTES = 1e12
MAX_RED_BYTES = 2**32 - 1
PACKET_BYTES = 1514
"""A full data packet on the wire with the default headers: 1448 payload, 52 TCP/IP, 14 Ethernet."""

DropFrom = Annotated[
    Literal["tail", "front"],
    Field(
        description="which packets are dropped without room: the one that arrives (tail), or those that have waited "
        "longest (front, as in Linux's pfifo_head_drop)"
    ),
]


DropOnArrival = Annotated[
    Literal["tail", "front"],
    Field(
        description="which packet is dropped where an arrival causes a drop: the one that arrives (tail, as in Linux) "
        "or the one that has waited longest (front)"
    ),
]


class DropTailBytes(Model):
    """First in, first out, with a limit in bytes. The packet in service counts, and is never dropped."""

    kind: Literal["drop_tail_bytes"] = "drop_tail_bytes"
    limit_bytes: Annotated[int, number(1, MAX_BUFFER_BYTES, "bytes", whole=True)]
    drop: DropFrom = "tail"


class DropTailPackets(Model):
    """First in, first out, with a limit in packets. The packet in service counts, and is never dropped."""

    kind: Literal["drop_tail_packets"] = "drop_tail_packets"
    limit_packets: Annotated[int, number(1, 1e9, "packets", whole=True)]
    drop: DropFrom = "tail"


class Viasat(Model):
    """The gateway queue of the Viasat GEO service (Claypool et al.).

    Above `threshold_bytes`, an arriving packet is dropped with `drop_probability`; at `limit_bytes`, always.
    """

    kind: Literal["viasat"] = "viasat"
    limit_bytes: Annotated[int, number(1, MAX_BUFFER_BYTES, "bytes", whole=True)] = 36_000_000
    threshold_bytes: Annotated[int, number(0, MAX_BUFFER_BYTES, "bytes", whole=True)] = 18_000_000
    drop_probability: Annotated[float, number(0, 1)] = 0.25

    @model_validator(mode="after")
    def _threshold_below_limit(self) -> Viasat:
        if self.threshold_bytes > self.limit_bytes:
            raise OrbitccError("threshold_bytes", self.threshold_bytes, f"at most limit_bytes = {self.limit_bytes}")
        return self


MIN_LAW_MS, MAX_LAW_MS = 1e-3, 1e4


class Codel(Model):
    """Controlled delay (RFC 8289) with the defaults of Linux's sch_codel.

    When packets have waited longer than the target for one interval, the packet at the head is dropped. The n-th
    further drop follows after interval / sqrt(n). As for all queues below, the packet in service does not count.
    ecn: mark the packets of flows with ECN instead of dropping them.
    ce_threshold_ms: also mark every packet of such flows that has waited longer; None: do not.
    drop: concerns the limit only. CoDel's own drops are from the front in any case.
    """

    kind: Literal["codel"] = "codel"
    limit_packets: Annotated[int, number(1, 1e9, "packets", whole=True)] = 1000
    target_ms: Annotated[float, number(MIN_LAW_MS, MAX_LAW_MS, "ms")] = 5.0
    interval_ms: Annotated[float, number(MIN_LAW_MS, MAX_LAW_MS, "ms")] = 100.0
    ecn: bool = False
    ce_threshold_ms: Annotated[float | None, number(0, MAX_LAW_MS, "ms", optional=True)] = None
    drop: DropOnArrival = "tail"

    @model_validator(mode="after")
    def _target_below_interval(self) -> Codel:
        _check_law(self.target_ms, self.interval_ms)
        return self


class FqCodel(Model):
    """CoDel with a queue per flow (RFC 8290) and the defaults of Linux's sch_fq_codel.

    Flows are hashed to `flows` queues, which are served in turns of `quantum_bytes`, new ones first. If there are more
    than `limit_packets` packets, or they take more than `memory_limit_bytes` (2304 bytes for a full packet), the
    longest queue loses half of its bytes from its head, but at most `drop_batch_packets`.
    ecn, ce_threshold_ms: as in CoDel; marking is on, as in Linux, and changes nothing for flows without ECN.
    """

    kind: Literal["fq_codel"] = "fq_codel"
    limit_packets: Annotated[int, number(1, 1e9, "packets", whole=True)] = 10_240
    memory_limit_bytes: Annotated[int, number(4096, MAX_BUFFER_BYTES, "bytes", whole=True)] = 32 * 2**20
    flows: Annotated[int, number(1, 2**20, "queues", whole=True)] = 1024
    quantum_bytes: Annotated[int, number(1, 2**20, "bytes", whole=True)] = PACKET_BYTES
    drop_batch_packets: Annotated[int, number(1, 2**20, "packets", whole=True)] = 64
    target_ms: Annotated[float, number(MIN_LAW_MS, MAX_LAW_MS, "ms")] = 5.0
    interval_ms: Annotated[float, number(MIN_LAW_MS, MAX_LAW_MS, "ms")] = 100.0
    ecn: bool = True
    ce_threshold_ms: Annotated[float | None, number(0, MAX_LAW_MS, "ms", optional=True)] = None

    @model_validator(mode="after")
    def _target_below_interval(self) -> FqCodel:
        _check_law(self.target_ms, self.interval_ms)
        return self


def _check_law(target_ms: float, interval_ms: float) -> None:
    if target_ms > interval_ms:
        raise OrbitccError("target_ms", target_ms, f"at most interval_ms = {interval_ms:g}")


class Pie(Model):
    """Proportional integral controller enhanced (RFC 8033) with the defaults of Linux's sch_pie.

    Every `update_ms` the drop probability changes by alpha times the difference between delay and target plus beta
    times the growth of the delay since the last update (both in sixteenths per second, as in `tc`). As in Linux, the
    timer rounds up to ticks of `hz` and fires one tick late: 15 ms are 16 ms at 1,000 Hz and 30 ms at 100 Hz.
    ecn: mark the packets of flows with ECN instead of dropping them, while the probability is at most 10 %.
    drop: with `front`, early drops and those at the limit hit the packet that has waited longest. Marks stay with the
    packet that arrives.
    """

    kind: Literal["pie"] = "pie"
    limit_packets: Annotated[int, number(1, 1e9, "packets", whole=True)] = 1000
    target_ms: Annotated[float, number(MIN_LAW_MS, MAX_LAW_MS, "ms")] = 15.0
    update_ms: Annotated[float, number(MIN_LAW_MS, MAX_LAW_MS, "ms")] = 15.0
    alpha: Annotated[int, number(0, 32, "(sixteenths per second)", whole=True)] = 2
    beta: Annotated[int, number(0, 32, "(sixteenths per second)", whole=True)] = 20
    ecn: bool = False
    drop: DropOnArrival = "tail"


class Red(Model):
    """Random early detection (Floyd and Jacobson 1993) as in Linux's sch_red, with the defaults of `tc`.

    The average queue length is compared with the thresholds; each new length has a weight of 2^-weight_log2. Between
    the thresholds, the gaps between drops are uniform in 1 .. 1/p arrivals, where p rises to `max_probability`. Above
    `max_bytes`, every arrival is dropped.
    min_bytes, max_bytes, weight_log2: None is the value that `tc` computes. The maximum is three times the minimum or
    a quarter of the limit; the minimum is a third of the maximum; the weight allows bursts of (2 min + max) / 3 bytes.
    With equal thresholds it is a step, as DCTCP wants it: everything above is dropped or marked.
    ecn: mark the packets of flows with ECN instead of dropping them, also above the maximum.
    adaptive: every 0.5 s (by a timer of Linux), adapt the probability to keep the average in the middle (Floyd et al.
    2001).
    drop: with `front`, early drops and those at the limit hit the packet that has waited longest. Lakshman, Neidhardt
    and Ott (INFOCOM 1996) propose this for full buffers; ns-2's RED does it at the limit and above the maximum. Marks
    stay with the packet that arrives, as in ns-2.
    """

    kind: Literal["red"] = "red"
    limit_bytes: Annotated[int, number(1, MAX_RED_BYTES, "bytes", whole=True)]
    min_bytes: Annotated[int | None, number(1, MAX_RED_BYTES, "bytes", whole=True, optional=True)] = None
    max_bytes: Annotated[int | None, number(1, MAX_RED_BYTES, "bytes", whole=True, optional=True)] = None
    max_probability: Annotated[float, number(0, 1)] = 0.02
    weight_log2: Annotated[int | None, number(1, 31, whole=True, optional=True)] = None
    packet_bytes: Annotated[int, number(1, 65_535, "bytes", whole=True)] = Field(
        default=1000, description="size of a typical packet; idle time ages the average by one arrival per such packet"
    )
    adaptive: bool = False
    ecn: bool = False
    drop: DropOnArrival = "tail"

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> Red:
        least, most = self.thresholds_bytes()
        if not most <= self.limit_bytes:
            raise OrbitccError("max_bytes", most, f"at most limit_bytes = {self.limit_bytes}")
        if not 1 <= least <= most:
            raise OrbitccError("min_bytes", least, f"a whole number in [1, {most}] bytes, not above max_bytes")
        return self

    def thresholds_bytes(self) -> tuple[int, int]:
        """The lower and upper threshold, with defaults filled in."""
        least, most = self.min_bytes, self.max_bytes
        if most is None:
            most = self.limit_bytes // 4 if least is None else 3 * least
        return (most // 3 if least is None else least), most

    def weight(self) -> int:
        """weight_log2, with the default that iproute2's tc_red_eval_ewma computes."""
        if self.weight_log2 is not None:
            return self.weight_log2
        least, most = self.thresholds_bytes()
        burst = (2 * least + most) // (3 * self.packet_bytes)
        room = burst + 1 - least / self.packet_bytes
        return next((k for k in range(1, 32) if room <= (1 - (1 - 2.0**-k) ** burst) * 2**k), 31)


class DualPi2(Model):
    """Two queues with coupled control (RFC 9332) and the defaults of Linux's sch_dualpi2, for L4S beside other flows.

    Packets with ECT(1) or CE wait in the L queue, which is served first, all others in the C queue. Every `update_ms`
    a base probability p changes by alpha times the difference between the longer delay and the target plus beta times
    the growth of that delay. Packets that leave the C queue are marked, or dropped if they have no ECN, with
    probability p^2. Those that leave the L queue are marked with `coupling` times p, and always if they have waited
    longer than `step_ms`.
    classic_weight_percent: share of the C queue where both wait.
    drop_overload: where the probability of the L queue would pass 1, drop from it as from the C queue.
    drop: concerns the limit only; with `front`, of the heads of both queues the one that has waited longer is dropped.
    Other drops are from the front in any case.
    """

    kind: Literal["dualpi2"] = "dualpi2"
    limit_packets: Annotated[int, number(1, 1e9, "packets", whole=True)] = 10_000
    target_ms: Annotated[float, number(MIN_LAW_MS, MAX_LAW_MS, "ms")] = 15.0
    update_ms: Annotated[float, number(MIN_LAW_MS, MAX_LAW_MS, "ms")] = 16.0
    alpha_per_s: Annotated[float, number(0, 32_000, "1/s")] = 0.16
    beta_per_s: Annotated[float, number(0, 32_000, "1/s")] = 3.2
    step_ms: Annotated[float, number(MIN_LAW_MS, MAX_LAW_MS, "ms")] = 1.0
    coupling: Annotated[int, number(1, 255, whole=True)] = 2
    classic_weight_percent: Annotated[int, number(0, 100, "%", whole=True)] = 10
    drop_overload: bool = True
    drop: DropOnArrival = "tail"


Queue = DropTailBytes | DropTailPackets | Viasat | Codel | FqCodel | Pie | Red | DualPi2

_QUEUES: dict[str, type[Model]] = {
    "drop_tail_bytes": DropTailBytes,
    "drop_tail_packets": DropTailPackets,
    "viasat": Viasat,
    "codel": Codel,
    "fq_codel": FqCodel,
    "pie": Pie,
    "red": Red,
    "dualpi2": DualPi2,
}


_DROP_RULES = {
    "fq_codel": "leave it out: fq_codel always drops from the front, without room from that of its longest queue",
    "viasat": "leave it out: viasat models one gateway, which drops the packet that arrives",
}


def _with_own_rule(value: Any) -> Any:
    """`value`. Raises OrbitccError if it chooses for a queue what that decides by itself."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if isinstance(kind, str) and kind in _DROP_RULES and "drop" in value:
        raise OrbitccError("drop", value["drop"], _DROP_RULES[kind])
    return value


checked_queue = BeforeValidator(tagged(_QUEUES, _with_own_rule))
"""What reads the table of a queue."""
