"""Links: rate, delay and loss over time, the queue before them, and outages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.model import MAX_TIME_S, Model, Points, checked_number, number, schedule, tagged

MIN_RATE_MBPS, MAX_RATE_MBPS = 1e-3, 1e6
MAX_DELAY_MS = 60_000.0
MAX_BUFFER_BYTES = 1e12
PACKET_BYTES = 1514
"""A full data packet on the wire with the default headers: 1448 payload, 52 TCP/IP, 14 Ethernet."""


class Bernoulli(Model):
    """Each packet is lost with probability p, independently."""

    kind: Literal["bernoulli"] = "bernoulli"
    p: Annotated[float, number(0, 1)]


class GilbertElliott(Model):
    """Two states in continuous time: packets are lost with probability `good_loss` or `bad_loss`.

    The state changes at exponential times with these rates per second, whether packets pass or not.
    """

    kind: Literal["gilbert_elliott"] = "gilbert_elliott"
    good_loss: Annotated[float, number(0, 1)] = 0.0
    bad_loss: Annotated[float, number(0, 1)] = 1.0
    to_bad_per_s: Annotated[float, number(0, 1e6, "1/s")]
    to_good_per_s: Annotated[float, number(0, 1e6, "1/s", above=True)]


Loss = float | Bernoulli | GilbertElliott


def _loss(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return checked_number(value, 0, 1, "(probability), or a table with kind = bernoulli or gilbert_elliott")
    return _LOSS_TABLE(value)


_LOSS_TABLE = tagged({"bernoulli": Bernoulli, "gilbert_elliott": GilbertElliott})


class DropTailBytes(Model):
    """First in, first out; an arrival that would exceed the limit is dropped."""

    kind: Literal["drop_tail_bytes"] = "drop_tail_bytes"
    limit_bytes: Annotated[int, number(1, MAX_BUFFER_BYTES, "bytes", whole=True)]


class DropTailPackets(Model):
    """First in, first out, counted in packets."""

    kind: Literal["drop_tail_packets"] = "drop_tail_packets"
    limit_packets: Annotated[int, number(1, 1e9, "packets", whole=True)]


class Viasat(Model):
    """The gateway queue of the Viasat GEO service (Claypool et al.): above `threshold_bytes` an arrival is dropped with
    `drop_probability`, at `limit_bytes` always."""

    kind: Literal["viasat"] = "viasat"
    limit_bytes: Annotated[int, number(1, MAX_BUFFER_BYTES, "bytes", whole=True)] = 36_000_000
    threshold_bytes: Annotated[int, number(0, MAX_BUFFER_BYTES, "bytes", whole=True)] = 18_000_000
    drop_probability: Annotated[float, number(0, 1)] = 0.25

    @model_validator(mode="after")
    def _threshold_below_limit(self) -> Viasat:
        if self.threshold_bytes > self.limit_bytes:
            raise OrbitccError("threshold_bytes", self.threshold_bytes, f"at most limit_bytes = {self.limit_bytes}")
        return self


Queue = DropTailBytes | DropTailPackets | Viasat

_queue = BeforeValidator(
    tagged({"drop_tail_bytes": DropTailBytes, "drop_tail_packets": DropTailPackets, "viasat": Viasat})
)


class Direction(Model):
    """One direction of a link: a queue, a server with a rate, then a pipe with a delay.

    Rates, delays and losses are one value or a schedule `[[time_s, value], ...]`, stepwise (delays also in lines).
    """

    rate_mbps: Annotated[
        float | Points | None,
        schedule(lambda v: checked_number(v, MIN_RATE_MBPS, MAX_RATE_MBPS, "Mbit/s"), optional=True),
    ] = Field(default=None, description="Mbit/s of wire bytes; None: unlimited, no queue builds up")
    delay_ms: Annotated[float | Points, schedule(lambda v: checked_number(v, 0, MAX_DELAY_MS, "ms"))] = Field(
        default=0.0, description="one-way propagation delay"
    )
    interpolate_delay: bool = Field(default=False, description="straight lines between the points of delay_ms")
    loss: Annotated[Loss | Points, schedule(_loss)] = Field(
        default=0.0, description="a probability per packet, or a table with kind = bernoulli or gilbert_elliott"
    )
    loss_at: Literal["ingress", "egress"] = Field(default="egress", description="before the queue or after the server")
    queue: Annotated[Queue, _queue] = Field(
        default=DropTailPackets(limit_packets=100_000), description="the queue before the server"
    )
    ordering: Literal["fifo", "overtaking"] = Field(
        default="fifo",
        description="whether a packet overtakes when the delay shrinks (as in netem) or queues up behind",
    )


class Outage(Model):
    """A time in which a link carries nothing.

    mode: packets arriving meanwhile are dropped, or held (they queue; what the server had begun waits).
    flush: at the start, also drop nothing, the queue, or the queue and the pipe.
    """

    at_s: Annotated[float, number(0, MAX_TIME_S, "s")]
    duration_ms: Annotated[float, number(0, MAX_TIME_S * 1e3, "ms", above=True)]
    mode: Literal["drop", "hold"] = "drop"
    flush: Literal["none", "queue", "all"] = "none"
    directions: Literal["both", "forward", "reverse"] = "both"


class Link(Direction):
    """A link: its own fields are the forward (data) direction.

    reverse: the direction of the acknowledgements; None: the same rate, delay, ordering and queue, without loss.
    """

    name: str = Field(min_length=1)
    reverse: Direction | None = None
    outages: tuple[Outage, ...] = ()

    @model_validator(mode="after")
    def _outages_in_order(self) -> Link:
        end = 0.0
        for i, outage in enumerate(self.outages):
            if outage.at_s < end:
                raise OrbitccError(
                    f"outages.{i}.at_s", outage.at_s, f"{end:g} or later: outages in order, not overlapping"
                )
            end = outage.at_s + outage.duration_ms / 1e3
        return self

    def backward(self) -> Direction:
        """The reverse direction, spelt out."""
        if self.reverse is not None:
            return self.reverse
        return Direction.trusted(
            rate_mbps=self.rate_mbps,
            delay_ms=self.delay_ms,
            interpolate_delay=self.interpolate_delay,
            ordering=self.ordering,
            queue=self.queue,
        )
