"""Settings of the simulator: hosts, headers and noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from orbitcc.envs.controllers import HOST_PARAMS
from orbitcc.envs.description.model import Model, number

TCP_IP_HEADER_BYTES = 52
"""20 bytes IPv4, 20 TCP, 12 timestamp option."""

_SSTHRESH_CACHE = replace(HOST_PARAMS["ssthresh_cache"], default="kernel", choices=("kernel", "off", "live"))
_buffer = number(1024, 2**32 - 1, "bytes", whole=True)


class SimSettings(Model):
    """Settings of the simulator: hosts, headers and noise. The defaults are those of a well-tuned host with Linux 6.

    Without noise, every seed of a static network gives the same run, and the phase of the packets at a drop-tail queue
    determines the shares of the flows. Therefore each host delays each packet by U(0, send_jitter_ms), in order, and
    each flow starts U(0, start_jitter_ms) late.
    """

    kernel: Literal["v6", "v6_12", "v4_15"] = Field(
        default="v6",
        description="TCP of the hosts: Linux 6.x (v6), 6.12 (its receive window opens at once) or 4.15; "
        "a controller's own `kernel` has priority",
    )
    hz: Literal[100, 250, 1000] = 1000
    mss_bytes: Annotated[int, number(100, 64_000, "bytes", whole=True)] = 1448
    frame_overhead_bytes: Annotated[int, number(0, 1000, "bytes", whole=True)] = Field(
        default=14, description="bytes on the link besides the 52 of TCP/IP; with 0, a full packet has 1500 bytes"
    )
    initial_cwnd_packets: Annotated[int, number(1, 10_000, "packets", whole=True)] = 10
    rmem_bytes: tuple[Annotated[int, _buffer], Annotated[int, _buffer], Annotated[int, _buffer]] | None = Field(
        default=None,
        description="receive buffer of TCP: minimum, initial, maximum (net.ipv4.tcp_rmem); None: 4096, the default of "
        "the kernel (131072; 87380 in 4.15), 67108864",
    )
    wmem_bytes: tuple[Annotated[int, _buffer], Annotated[int, _buffer], Annotated[int, _buffer]] = Field(
        default=(4096, 16_384, 67_108_864),
        description="send buffer of TCP: minimum, initial, maximum (net.ipv4.tcp_wmem)",
    )
    moderate_rcvbuf: bool = True
    slow_start_after_idle: bool = Field(default=True, description="of TCP")
    gro_segments: Annotated[int, number(1, 64, "segments", whole=True)] = Field(
        default=1,
        description="generic receive offload of TCP: receivers merge up to this many segments in order that arrive "
        "within 50 us, and send one ACK for them (Linux merges 64 KB, 45 segments); 1: none",
    )
    ssthresh_cache: Annotated[int | str, BeforeValidator(lambda value: _SSTHRESH_CACHE.check("", value))] = Field(
        default="kernel",
        description="initial slow-start threshold of a flow of TCP: none (off), the one stored by earlier flows on its "
        "path (live), or a number of packets; kernel: off in 6.x, live in 4.15; a controller's own `ssthresh_cache` "
        "has priority",
    )
    ecn: Literal["off", "classic", "accurate"] = Field(
        default="off",
        description="Explicit Congestion Notification at both ends of every flow: RFC 3168 (classic) or RFC 9768 "
        "(accurate); a controller's own `ecn` has priority, and DCTCP, Prague and C4 always use it",
    )
    noise: bool = Field(default=True, description="false switches off both jitters")
    exact: bool = Field(
        default=False, description="use no shortcuts of the simulator: the same outcome, but slower; for debugging"
    )
    send_jitter_ms: Annotated[float | None, number(0, 1e4, "ms", optional=True)] = Field(
        default=None, description="None: the time of one full packet on the slowest link that data pass"
    )
    start_jitter_ms: Annotated[float | None, number(0, 1e6, "ms", optional=True)] = Field(
        default=None, description="None: the shortest base RTT of any flow"
    )

    @property
    def packet_bytes(self) -> int:
        """A full data packet on the wire."""
        return self.mss_bytes + TCP_IP_HEADER_BYTES + self.frame_overhead_bytes
