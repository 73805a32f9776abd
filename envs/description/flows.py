"""Flows: controller, start and end, path, traffic of the application, and receiver."""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from orbitcc.common import code
from orbitcc.common.errors import OrbitccError, UnknownNameError, nearest
from orbitcc.common.files import parse_toml
from orbitcc.envs import controllers
from orbitcc.envs.description.links import MAX_DELAY_MS, MAX_RATE_MBPS, MIN_RATE_MBPS
from orbitcc.envs.description.model import MAX_TIME_S, Model, number, tagged

QUINN = "quinn-"
"""How the names of quinn's own controllers begin."""
QUINN_WINDOWS = {"quinn-bbr": 240_000}
"""First windows of controllers of quinn in bytes; of the others 12,000."""


def _native_name(name: Any) -> Any:
    return controllers.EXTERNAL if name == controllers.CONTENDER else name


class ControllerSpec(Model):
    """A controller by name, with the parameters that differ from their defaults.

    `contender` is a placeholder for whoever is evaluated, run or trained there. `external` means the same.
    """

    name: Annotated[str, BeforeValidator(_native_name)]
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known(self) -> ControllerSpec:
        try:
            controllers.check(self.name, self.params, "name")
        except OrbitccError as error:
            raise error.at(error.field.replace("name.", "params.", 1)) from None
        return self

    @staticmethod
    def parse(text: str) -> ControllerSpec:
        """`NAME[:param=value,...]`, e.g. `cubic:hystart=off`."""
        name, colon, rest = text.partition(":")
        params = {}
        for part in rest.split(",") if colon else []:
            key, equals, value = part.partition("=")
            if not equals or not key:
                raise OrbitccError("", text, "NAME[:param=value,...]")
            if key.strip() in params:
                raise OrbitccError(key.strip(), text, "each parameter once")
            params[key.strip()] = parse_value(value, key.strip())
        return ControllerSpec(name=name.strip(), params=params)

    @property
    def names_code(self) -> bool:
        """Is this a program, or a policy that is `package.module:factory`, of a library, or a download?"""
        return self.name == controllers.PROGRAM or code.names_code(str(self.params.get("path", "")))

    def __str__(self) -> str:
        return self.name + (":" + ",".join(f"{k}={v}" for k, v in self.params.items()) if self.params else "")


class Bulk(Model):
    """The application always has data to send."""

    kind: Literal["bulk"] = "bulk"


class Bytes(Model):
    """The application sends this many bytes, and the flow ends."""

    kind: Literal["bytes"] = "bytes"
    bytes: Annotated[int, number(1, 4e12, "bytes", whole=True)]


class Cbr(Model):
    """The application offers data at a constant rate in wire bytes (headers count, as in the rate of a link)."""

    kind: Literal["cbr"] = "cbr"
    rate_mbps: Annotated[float, number(MIN_RATE_MBPS, MAX_RATE_MBPS, "Mbit/s")]
    packet_bytes: Annotated[int | None, number(67, 65_535, "bytes", whole=True, optional=True)] = Field(
        default=None, description="size on the wire of each datagram of `udp`, e.g. 214 for voice; None: full packets"
    )


class OnOff(Model):
    """On and off times are exponential with these means; while on, the application offers data.

    rate_mbps: rate of the data while on; None: without limit.
    """

    kind: Literal["on_off"] = "on_off"
    rate_mbps: Annotated[float | None, number(MIN_RATE_MBPS, MAX_RATE_MBPS, "Mbit/s", optional=True)] = None
    on_s: Annotated[float, number(0, MAX_TIME_S, "s", above=True)]
    off_s: Annotated[float, number(0, MAX_TIME_S, "s", above=True)]


class Objects(Model):
    """Web-like downloads: requests are a Poisson process, and one connection serves them one after the other.

    Sizes are lognormal, rounded up to whole segments; the default spread is that of web files (Barford and Crovella,
    SIGMETRICS 1998). The totals list each download: time of the request, bytes, and seconds until it is complete.
    """

    kind: Literal["objects"] = "objects"
    per_s: Annotated[float, number(1e-6, 1e4, "1/s")] = 0.5
    mean_bytes: Annotated[float, number(1, 1e11, "bytes")] = 30_000.0
    sigma: Annotated[float, number(0, 5)] = Field(
        default=1.318, description="standard deviation of the logarithm of the size"
    )


Traffic = Bulk | Bytes | Cbr | OnOff | Objects


class Stretch(Model):
    """Sends one acknowledgement per `segments` segments in order, or when the first of them has waited `hold_ms`."""

    kind: Literal["stretch"] = "stretch"
    segments: Annotated[int, number(2, 1000, "segments", whole=True)] = 10
    hold_ms: Annotated[float, number(0, MAX_DELAY_MS, "ms")] = 40.0


class Divide(Model):
    """Splits every acknowledgement into `parts`; only the last completes a segment (Savage et al. 1999, 2.1)."""

    kind: Literal["divide"] = "divide"
    parts: Annotated[int, number(2, 100, "parts", whole=True)] = 8


class Optimistic(Model):
    """Acknowledges packets that are still on their way, and never reports a loss (Savage et al. 1999, 2.3).

    share: the receiver acknowledges ahead this share of the packets that arrive in half a round trip. A sender ignores
    acknowledgements of packets that it has not sent.
    """

    kind: Literal["optimistic"] = "optimistic"
    share: Annotated[float, number(0, 1)] = 0.8


Receiver = Stretch | Divide | Optimistic
_RECEIVERS: dict[str, type[Model]] = {"stretch": Stretch, "divide": Divide, "optimistic": Optimistic}


class Quic(Model):
    """Hosts that speak QUIC (RFC 9000): the state machine of quinn, in virtual time (docs/quic.md).

    The defaults are quinn's, except that packets have their full size from the start.

    initial_window_bytes: first window of quinn's own controllers; ours have their own.
    ack_every_packets: the receiver acknowledges so many packets at once (draft-ietf-quic-ack-frequency); 0: two, as in
    RFC 9000.
    stream_window_bytes, connection_window_bytes: how far data may be ahead of the receiver's application.
    send_window_bytes: data that the sender keeps until it is acknowledged.
    """

    kind: Literal["quic"] = "quic"
    mtu_bytes: Annotated[int, number(1_200, 9_000, "bytes", whole=True)] = Field(
        default=1_452, description="UDP payload of a full packet"
    )
    mtu_discovery: bool = Field(default=False, description="begin with 1,200 bytes, and try `mtu_bytes` (RFC 8899)")
    initial_window_bytes: Annotated[int | None, number(2_400, 1e9, "bytes", whole=True, optional=True)] = Field(
        default=None, description="None: 12,000, and 240,000 for quinn-bbr"
    )
    ack_every_packets: Annotated[int, number(0, 1_000, "packets", whole=True)] = 0
    stream_window_bytes: Annotated[int, number(18_000, 1e12, "bytes", whole=True)] = 1_250_000
    connection_window_bytes: Annotated[int | None, number(18_000, 1e12, "bytes", whole=True, optional=True)] = Field(
        default=None, description="None: without limit"
    )
    send_window_bytes: Annotated[int, number(18_000, 1e12, "bytes", whole=True)] = 10_000_000
    ecn: bool = Field(default=True, description="packets carry ECT(0)")
    resume: bool = Field(default=False, description="0-RTT: the first flight has data, as the client knows the server")

    @model_validator(mode="after")
    def _two_packets_fit(self) -> Quic:
        least = 2 * self.mtu_bytes
        for field in ("initial_window_bytes", "stream_window_bytes", "connection_window_bytes", "send_window_bytes"):
            if (value := getattr(self, field)) is not None and value < least:
                raise OrbitccError(field, value, f"at least two packets, {least:,} bytes")
        return self


def _place(value: Any) -> Any:
    """A name, or a whole number; numbers of NumPy pass, too."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise OrbitccError("", value, "a whole number or text")
    return operator.index(value)


Place = Annotated[int | str, BeforeValidator(_place)]
"""A link or a flow, by position or name."""


class Pep(Model):
    """This flow is the second connection of a performance-enhancing proxy that splits a connection (RFC 3135).

    It sends what the flow `of` has delivered to the proxy, whose traffic it has.

    of: an earlier flow, by name or position.
    buffer_bytes: the most that the proxy holds: read from the first connection and not yet acknowledged on the second.
    When the buffer is full, the proxy stops reading, and the receive window of the first connection closes.
    """

    of: Place
    buffer_bytes: Annotated[int, number(10_000, 1e12, "bytes", whole=True)]


class Reroute(Model):
    """From at_s on, packets and their acknowledgements take another path; packets on their way stay on the old one.

    Controllers with handover signals are notified as of a handover without outage.
    """

    at_s: Annotated[float, number(0, MAX_TIME_S, "s", above=True)]
    path: tuple[Place, ...]
    return_path: tuple[Place, ...] | None = None

    @model_validator(mode="after")
    def _somewhere(self) -> Reroute:
        for field in ("path", "return_path"):
            if getattr(self, field) == ():
                raise OrbitccError(field, (), "one link or more")
        return self


_TRAFFIC = {"bulk": Bulk, "bytes": Bytes, "cbr": Cbr, "on_off": OnOff, "objects": Objects}


def _traffic_shorthand(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


_receiver = tagged(_RECEIVERS, _traffic_shorthand)


def _optional_receiver(value: Any) -> Any:
    return None if value is None else _receiver(value)


def _controller(value: Any) -> Any:
    """A ControllerSpec as it is. Text and tables come from files, so they must not name code."""
    if isinstance(value, ControllerSpec):
        return value
    try:
        spec = ControllerSpec.parse(value) if isinstance(value, str) else ControllerSpec.build(value)
    except UnknownNameError as error:
        own = [controllers.CONTENDER]  # which commands do not list
        if error.field == "name" and nearest(str(error.value), (*error.known, *own)) == own:
            error.meant = controllers.CONTENDER
        raise error.at(error.field) from None
    if spec.name == controllers.PROGRAM:
        raise OrbitccError(
            "name", spec.name, "a controller: a file cannot name a command; use `contender`, and --program"
        )
    instead = "; use `contender` here, and name the policy by --policy or --flow (in Python: a ControllerSpec)"
    code.from_file("params.path", str(spec.params.get("path", "")), instead)
    return spec


def _transport(value: Any) -> Any:
    """TCP is None."""
    return None if value in (None, "tcp") else _quic(value)


_quic = tagged({"quic": Quic}, _traffic_shorthand)
Transport = Annotated[Quic | None, BeforeValidator(_transport)]
"""`quic` or its table, or `tcp` and None."""

ControllerChoice = Annotated[ControllerSpec, BeforeValidator(_controller)]
"""A controller as a ControllerSpec, its table, or its text `NAME[:param=value,...]`."""


class Flow(Model):
    """One sender and its receiver.

    name: unique; by default, it is made from the name of the controller.
    path: links by name or position, in order; None: all links of the scenario.
    return_path: links that the acknowledgements pass, in order, in the forward directions of these links, where they
    meet the data of other flows; None: the reverse directions of `path`.
    reroutes: later paths, in order of time.
    uplink_delay_ms: extra delay of the sender's own access link, in the data direction only.
    """

    name: str = ""
    controller: ControllerChoice
    path: tuple[Place, ...] | None = None
    return_path: tuple[Place, ...] | None = None
    reroutes: tuple[Reroute, ...] = ()
    start_s: Annotated[float, number(0, MAX_TIME_S, "s")] = 0.0
    stop_s: Annotated[float | None, number(0, MAX_TIME_S, "s", above=True, optional=True)] = None
    uplink_delay_ms: Annotated[float, number(0, MAX_DELAY_MS, "ms")] = 0.0
    traffic: Annotated[
        Traffic,
        BeforeValidator(tagged(_TRAFFIC, _traffic_shorthand)),
    ] = Bulk()
    receiver: Annotated[Receiver | None, BeforeValidator(_optional_receiver)] = Field(
        default=None,
        description="a receiver that does not acknowledge as TCP does: stretch, divide or optimistic",
    )
    delay_preference: Annotated[float, number(0, 1)] = Field(
        default=0.0,
        description="how much delay counts for agents and policies that observe it, 0.01 to 1; 0: nothing is asked",
    )
    transport: Transport = Field(
        default=None,
        description="`tcp`, or hosts that speak QUIC: `quic` or its table; controllers of quinn have the latter",
    )
    pep: Pep | None = Field(default=None, description="the proxy whose second connection this flow is")

    @model_validator(mode="before")
    @classmethod
    def _not_over_tcp(cls, data: Any) -> Any:
        """TCP that is asked for is refused where there is none; afterwards it cannot be told from nothing."""
        if isinstance(data, Mapping) and data.get("transport") == "tcp":
            given = data.get("controller")
            name = given.get("name") if isinstance(given, Mapping) else getattr(given, "name", given)
            if isinstance(name, str) and name.startswith(QUINN):
                raise OrbitccError("transport", "tcp", f"quic, the only transport of {name}")
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Flow:
        size = self.traffic.packet_bytes if isinstance(self.traffic, Cbr) else None
        if size is not None and self.controller.name != "udp":
            raise OrbitccError("traffic.packet_bytes", size, "None for controllers other than udp")
        if self.receiver is not None and self.controller.name == "udp":
            raise OrbitccError("receiver.kind", self.receiver.kind, "None for udp, which has no acknowledgements")
        self._check_transport()
        if 0 < self.delay_preference < controllers.LEAST_DELAY:
            raise OrbitccError("delay_preference", self.delay_preference, f"0, or {controllers.LEAST_DELAY} to 1")
        if self.delay_preference and self.controller.params.get("delay"):
            given = self.controller.params["delay"]
            allowed = f"0 beside the policy's option delay = {given}, which is for flows that ask for nothing"
            raise OrbitccError("delay_preference", self.delay_preference, allowed)
        if self.delay_preference and self.controller.params.get("arithmetic") == "fixed":
            allowed = "0 with arithmetic=fixed, whose preference is an option of the policy (delay)"
            raise OrbitccError("delay_preference", self.delay_preference, allowed)
        if isinstance(self.receiver, Optimistic) and not isinstance(self.traffic, Bulk):
            raise OrbitccError("receiver.kind", self.receiver.kind, "stretch or divide, unless the traffic is bulk")
        if self.pep is not None and not isinstance(self.traffic, Bulk):
            raise OrbitccError(
                "traffic.kind", self.traffic.kind, "left out: a flow with pep has the traffic of another"
            )
        if self.stop_s is not None and self.stop_s <= self.start_s:
            raise OrbitccError("stop_s", self.stop_s, f"later than start_s = {self.start_s:g}")
        if self.path is not None and not self.path:
            raise OrbitccError("path", self.path, "one link or more (leave it out for all links)")
        if self.return_path is not None and not self.return_path:
            raise OrbitccError("return_path", self.return_path, "one link or more (leave it out for the way back)")
        before = 0.0
        for k, reroute in enumerate(self.reroutes):
            if reroute.at_s <= before:
                raise OrbitccError(f"reroutes.{k}.at_s", reroute.at_s, f"later than {before:g} (reroutes in order)")
            before = reroute.at_s
        if self.controller.name == "udp" and not isinstance(self.traffic, Cbr | OnOff):
            raise OrbitccError("traffic.kind", self.traffic.kind, "cbr or on_off for the controller udp")
        return self

    def _check_transport(self) -> None:
        name = self.controller.name
        if self.transport is None and name.startswith(QUINN):  # nothing else has them
            object.__setattr__(self, "transport", Quic())
        if self.transport is None:
            return
        for field in ("receiver", "pep"):
            if getattr(self, field) is not None:
                raise OrbitccError(field, getattr(self, field), "None with transport quic")
        if name == "udp":
            raise OrbitccError("transport", "quic", "tcp for udp, which sends datagrams")
        given, least = self.transport.initial_window_bytes, 2 * self.transport.mtu_bytes
        field = "transport.initial_window_bytes"
        if given is not None and not name.startswith(QUINN):
            raise OrbitccError(field, given, f"None for {name}, which has a first window of its own")
        if given is None and name.startswith(QUINN) and QUINN_WINDOWS.get(name, 12_000) < least:
            raise OrbitccError(field, None, f"a number with packets of {least // 2:,} bytes: {least:,} or more")

    @staticmethod
    def parse(text: str) -> Flow:
        """`NAME[:param=value,...][@start]`, e.g. `cubic:hystart=off@20s`; OrbitccError about `flow` otherwise.

        Five parameters belong to the flow, not to its controller: `rate_mbps=` makes it a constant-rate flow (the
        controller `udp` needs it), `uplink_ms=` adds delay on its own access link, `stop=` is its end,
        `delay_preference=` is what it asks for, and `transport=quic` gives it hosts of QUIC.
        `model_fields_set` of the flow are the fields that the text names.
        """
        head, at, start = text.rpartition("@")
        if not at:
            head, start = text, "0"
        own: dict[str, Any] = {}
        try:
            start_s = float(start.strip().removesuffix("s"))
        except ValueError:
            raise OrbitccError("flow", text, "NAME[:param=value,...][@start], e.g. cubic:hystart=off@20s") from None
        if at:
            own["start_s"] = start_s
        name, colon, rest = head.partition(":")
        params, keys = [], set[str]()
        for part in rest.split(",") if colon else []:
            key, _, value = part.partition("=")
            if key in keys:
                raise OrbitccError("flow", text, f"each parameter once, not {key} twice")
            keys.add(key)
            if key == "rate_mbps":
                own["traffic"] = {"kind": "cbr", "rate_mbps": parse_value(value)}
            elif key == "uplink_ms":
                own["uplink_delay_ms"] = parse_value(value)
            elif key == "transport":
                own["transport"] = value
            elif key == "delay_preference":
                own["delay_preference"] = parse_value(value)
            elif key == "stop":
                own["stop_s"] = parse_value(value.removesuffix("s"))
            else:
                params.append(part)
        try:
            spec = ControllerSpec.parse(f"{name}:{','.join(params)}" if params else name)
            return Flow(controller=spec, **own)
        except OrbitccError as error:
            field = "" if error.field == "name" else error.field.removeprefix("params.")
            raise error.at(field).under("flow") from None


def parse_value(text: str, field: str = "value") -> Any:
    """A value from the command line: TOML (number, true/false, list, table, quoted text), or otherwise plain text.

    field: what an error names.
    """
    try:
        value, *more = parse_toml(f"v = {text.strip()}").values()
    except tomllib.TOMLDecodeError:
        return text.strip()
    except ValueError as error:
        raise OrbitccError(field, text, f"TOML text ({error})") from None
    if more:
        raise OrbitccError(field, text, "one value, in one line")
    return value
