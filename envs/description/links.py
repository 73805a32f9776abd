"""Links: rate, delay and loss over time, queues, outages and handovers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_serializer, model_validator

from orbitcc.common.errors import OrbitccError, StateError
from orbitcc.common.numbers import checked_number
from orbitcc.envs.description.model import MAX_TIME_S, UNLIMITED, Model, Points, number, points_of, schedule, tagged
from orbitcc.envs.description.queues import DropTailPackets, Queue, checked_queue

MIN_RATE_MBPS, MAX_RATE_MBPS = 1e-3, 1e6
MAX_DELAY_MS = 60_000.0
MAX_BURST_BYTES = 2**31


class Bernoulli(Model):
    """Each packet is lost independently with probability p."""

    kind: Literal["bernoulli"] = "bernoulli"
    p: Annotated[float, number(0, 1)]


class GilbertElliott(Model):
    """Two states, in which packets are lost with probability `good_loss` or `bad_loss`.

    The times between changes of the state are exponential with these rates per second, independent of the packets.
    The chain begins in the good state, also at each point of a schedule of losses.
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
    queue: Annotated[Queue, checked_queue] = Field(
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
        if self.gate_phase_ms and not self.gate_ms:
            raise OrbitccError("gate_phase_ms", self.gate_phase_ms, "0 if gate_ms is 0")
        return self


class Outage(Model):
    """A time during which a link carries no packets.

    mode: packets that arrive meanwhile are dropped, or held (they queue, and a packet in service waits).
    flush: packets that are dropped at the start: none, those in the queue, or those in the queue and the pipe.
    """

    at_s: Annotated[float, number(0, MAX_TIME_S, "s")]
    duration_ms: Annotated[float, number(1e-6, MAX_TIME_S * 1e3, "ms")]  # 1 ns, the step of the simulator's clock
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

    also_needed = ("rate_mbps",)
    name: str = Field(min_length=1)
    reverse: Direction | None = None
    outages: tuple[Outage, ...] = ()
    handovers: tuple[Handover, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _rate_given(cls, data: Any) -> Any:
        cls.check_fields(data)  # a misspelt field is named before the one that is then missing
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
