"""Links: rate, delay and loss over time, queues, outages and handovers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_serializer, model_validator

from orbitcc.envs.description.model import MAX_TIME_S, UNLIMITED, Model, Points, number, points_of, schedule, tagged
from orbitcc.envs.errors import OrbitccError, StateError
from orbitcc.envs.numbers import checked_number

MIN_RATE_MBPS, MAX_RATE_MBPS = 1e-3, 1e6
MAX_DELAY_MS = 60_000.0
MAX_BUFFER_BYTES = 1e12
MAX_BURST_BYTES = 2**31
MAX_RED_BYTES = 2**32 - 1
PACKET_BYTES = 1514
"""A full data packet on the wire with the default headers: 1448 payload, 52 TCP/IP, 14 Ethernet."""


class Bernoulli(Model):
    """Each packet is lost independently with probability p."""

    kind: Literal["bernoulli"] = "bernoulli"
    p: Annotated[float, number(0, 1)]


class GilbertElliott(Model):
    """Two states, in which packets are lost with probability `good_loss` or `bad_loss`.

    The times between changes of the state are exponential with these rates per second, independent of the packets.
    """

    kind: Literal["gilbert_elliott"] = "gilbert_elliott"
    good_loss: Annotated[float, number(0, 1)] = 0.0
    bad_loss: Annotated[float, number(0, 1)] = 1.0
    to_bad_per_s: Annotated[float, number(0, 1e6, "1/s")]
    to_good_per_s: Annotated[float, number(0, 1e6, "1/s", above=True)]


class LoadLoss(Model):
    """Each packet is lost independently, with a probability that rises with the load of the link.

    The load is the share of the time in which the link was sending, averaged exponentially over the past `tau_ms`. The
    probability is `idle_loss` without load, `full_loss` at a load of 1, and linear between. The link needs a rate.
    LeoReplayer's 0.2 % for Cubic and 0.5 % for BBR on a Starlink uplink are about a `full_loss` of 0.005
    (docs/links.md).
    """

    kind: Literal["load"] = "load"
    idle_loss: Annotated[float, number(0, 1)] = 0.0
    full_loss: Annotated[float, number(0, 1)]
    tau_ms: Annotated[float, number(1e-3, 1e5, "ms")] = 1000.0


Loss = float | Bernoulli | GilbertElliott | LoadLoss


def _loss(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return checked_number(value, 0, 1, f"(probability), or a table with kind = one of {', '.join(_LOSSES)}")
    return _LOSS_TABLE(value)


_LOSSES: dict[str, type[Model]] = {"bernoulli": Bernoulli, "gilbert_elliott": GilbertElliott, "load": LoadLoss}
_LOSS_TABLE = tagged(_LOSSES)

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
    times the growth of the delay since the last update (both in sixteenths per second, as in `tc`).
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
    adaptive: every 0.5 s, adapt the probability to keep the average in the middle (Floyd et al. 2001).
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
    if kind in _DROP_RULES and "drop" in value:
        raise OrbitccError("drop", value["drop"], _DROP_RULES[kind])
    return value


_queue = BeforeValidator(tagged(_QUEUES, _with_own_rule))


class GammaJitter(Model):
    """A random delay: Gamma distributed with this mean and shape, and a correlation of exp(-t / tau_ms).

    The delay is computed every tau_ms / 4 and interpolated linearly. Shape 2 and 20-50 ms fit published Starlink pings.
    """

    kind: Literal["gamma"] = "gamma"
    mean_ms: Annotated[float, number(0, MAX_DELAY_MS, "ms")]
    shape: Annotated[int, number(1, 16, whole=True)] = 2
    tau_ms: Annotated[float, number(0.1, 1e6, "ms")] = 30.0


class SineJitter(Model):
    """A slow oscillation with noise: mean + sine + AR(1) noise, never negative; sizes are standard deviations.

    The defaults are fitted to the RTT of the GEO link of Claypool et al. above its minimum of 564 ms.
    """

    kind: Literal["sine_ar1"] = "sine_ar1"
    mean_ms: Annotated[float, number(0, MAX_DELAY_MS, "ms")] = 33.5
    sine_sd_ms: Annotated[float, number(0, MAX_DELAY_MS, "ms")] = 14.0
    sine_period_s: Annotated[float, number(1e-3, MAX_TIME_S, "s")] = 2.0
    ar_sd_ms: Annotated[float, number(0, MAX_DELAY_MS, "ms")] = 9.3
    ar_tau_ms: Annotated[float, number(0.1, 1e6, "ms")] = 190.0


Jitter = GammaJitter | SineJitter


def _optional_jitter(value: Any) -> Any:
    return None if value is None else _jitter(value)


_jitter = tagged({"gamma": GammaJitter, "sine_ar1": SineJitter})


class Late(Model):
    """Late packets: each packet, with probability p, arrives delay_ms later than the others."""

    p: Annotated[float, number(0, 1)]
    delay_ms: Annotated[float, number(0, MAX_DELAY_MS, "ms")]


def _optional_late(value: Any) -> Any:
    return value if value is None or isinstance(value, Late) else Late.build(value)


class Direction(Model):
    """One direction of a link: a queue, a server with a rate, then a pipe with a delay.

    Rates, delays and losses are one value or a schedule `[[time_s, value], ...]` of steps. Delays can be interpolated.
    """

    rate_mbps: Annotated[
        float | Points | None,
        schedule(partial(checked_number, low=MIN_RATE_MBPS, high=MAX_RATE_MBPS, unit="Mbit/s"), optional=True),
    ] = Field(
        default=None,
        description='Mbit/s of wire bytes; "unlimited": no queue builds up. A link must give it; a `reverse` direction '
        "is unlimited by default",
    )
    burst_bytes: Annotated[int, number(0, MAX_BURST_BYTES, "bytes", whole=True)] = Field(
        default=0,
        description="size of a token bucket as in Linux's tbf: bytes that pass at once before the rate limits; 0: none",
    )
    delay_ms: Annotated[float | Points, schedule(partial(checked_number, low=0, high=MAX_DELAY_MS, unit="ms"))] = Field(
        default=0.0, description="one-way propagation delay"
    )
    interpolate_delay: bool = Field(default=False, description="interpolate linearly between the points of delay_ms")
    loss: Annotated[Loss | Points, schedule(_loss)] = Field(
        default=0.0,
        description="loss probability per packet, or a table with kind bernoulli, gilbert_elliott or load",
    )
    loss_at: Literal["ingress", "egress"] = Field(
        default="egress", description="loss before the queue (ingress) or after the server (egress)"
    )
    queue: Annotated[Queue, _queue] = Field(
        default=DropTailPackets(limit_packets=100_000), description="the queue before the server"
    )
    ordering: Literal["fifo", "overtaking"] = Field(
        default="fifo",
        description="when the delay shrinks, later packets overtake (as in netem) or wait for the earlier ones (fifo)",
    )
    jitter: Annotated[Jitter | None, BeforeValidator(_optional_jitter)] = Field(
        default=None, description="a random delay on top of delay_ms: a table with kind = gamma or sine_ar1"
    )
    late: Annotated[Late | None, BeforeValidator(_optional_late)] = Field(
        default=None, description="late packets: a table with p and delay_ms; needs ordering = overtaking"
    )
    gate_ms: Annotated[float, number(0, MAX_DELAY_MS, "ms")] = Field(
        default=0.0,
        description="packets arrive only at gate_phase_ms plus multiples of this, as on a channel that sends in frames "
        "(50 ms for Viasat's return channel, fitted to Claypool et al.); 0: at any time",
    )
    gate_phase_ms: Annotated[float, number(0, MAX_DELAY_MS, "ms")] = 0.0
    ecn_bleached: Annotated[float, number(0, 1)] = Field(
        default=0.0,
        description="share of packets whose ECN field the link clears before its queue; 1: all, as some old routers do",
    )
    ecn_marked: Annotated[float, number(0, 1)] = Field(
        default=0.0, description="share of the packets with ECN that the link marks (CE) at random before its queue"
    )

    @field_serializer("rate_mbps")
    def _unlimited_in_words(self, rate: Any) -> Any:
        return UNLIMITED if rate is None else rate

    @model_validator(mode="after")
    def _buckets_and_loads_need_a_rate(self) -> Self:
        if self.burst_bytes and self.rate_mbps is None:
            raise OrbitccError("burst_bytes", self.burst_bytes, "0 if the rate is unlimited")
        if self.rate_mbps is None and any(isinstance(loss, LoadLoss) for _, loss in points_of(self.loss)):
            raise OrbitccError("loss.kind", "load", "another kind if the rate is unlimited")
        if self.late is not None and self.ordering == "fifo":
            raise OrbitccError("ordering", self.ordering, "overtaking if packets may be late")
        return self


class Outage(Model):
    """A time during which a link carries no packets.

    mode: packets that arrive meanwhile are dropped, or held (they queue, and a packet in service waits).
    flush: packets that are dropped at the start: none, those in the queue, or those in the queue and the pipe.
    """

    at_s: Annotated[float, number(0, MAX_TIME_S, "s")]
    duration_ms: Annotated[float, number(0, MAX_TIME_S * 1e3, "ms", above=True)]
    mode: Literal["drop", "hold"] = "drop"
    flush: Literal["none", "queue", "all"] = "none"
    directions: Literal["both", "forward", "reverse"] = "both"


class Handover(Model):
    """A change of the path, reported to controllers with handover signals. By itself it does not affect packets."""

    at_s: Annotated[float, number(0, MAX_TIME_S, "s")]
    duration_ms: Annotated[float, number(0, MAX_TIME_S * 1e3, "ms")] = Field(
        default=0.0, description="length of the interruption"
    )


class Link(Direction):
    """A link. Its own fields describe the forward (data) direction, and `rate_mbps` is required.

    reverse: the direction of the acknowledgements; None: the same rate, burst, delay, ordering and queue as forward,
    without loss, jitter and gate.
    handovers: None: its outages.
    """

    name: str = Field(min_length=1)
    reverse: Direction | None = None
    outages: tuple[Outage, ...] = ()
    handovers: tuple[Handover, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _rate_given(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and "rate_mbps" not in data:
            raise StateError("rate_mbps", f'missing; give Mbit/s, a schedule, or "{UNLIMITED}"')
        return data

    @model_validator(mode="after")
    def _outages_in_order(self) -> Link:
        end = 0.0
        for i, outage in enumerate(self.outages):
            if outage.at_s < end:
                raise OrbitccError(
                    f"outages.{i}.at_s", outage.at_s, f"{end:g} or later (outages in order, not overlapping)"
                )
            end = outage.at_s + outage.duration_ms / 1e3
        return self

    @model_validator(mode="after")
    def _handovers_in_order(self) -> Link:
        before = -1.0
        for i, handover in enumerate(self.handovers or ()):
            if handover.at_s <= before:
                raise OrbitccError(f"handovers.{i}.at_s", handover.at_s, f"later than {before:g} (handovers in order)")
            before = handover.at_s
        return self

    def path_changes(self) -> tuple[Handover, ...]:
        """The handovers; by default one for each outage."""
        if self.handovers is not None:
            return self.handovers
        return tuple(Handover.trusted(at_s=o.at_s, duration_ms=o.duration_ms) for o in self.outages)

    def backward(self) -> Direction:
        """The reverse direction, with defaults filled in."""
        if self.reverse is not None:
            return self.reverse
        return Direction.trusted(
            rate_mbps=self.rate_mbps,
            burst_bytes=self.burst_bytes,
            delay_ms=self.delay_ms,
            interpolate_delay=self.interpolate_delay,
            ordering=self.ordering,
            queue=self.queue,
        )
