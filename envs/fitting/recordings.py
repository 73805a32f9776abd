"""Recordings of a path, one class for each kind of file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HEADER_BYTES = 66
"""Ethernet, IPv4 and TCP with timestamps, before each segment: the rate of a link counts them (docs/links.md)."""


@dataclass(frozen=True, eq=False)
class Probes:
    """RTTs of an almost empty path, as ping measures them.

    sent_s: [N] times of sending, from 0. rtt_ms: [N], NaN where no answer came. halves: whether these are twice the
    one-way delays of a file. counts_losses: whether the file shows probes without an answer, too. spaced: whether the
    file says nothing about times, so that the default interval of its program is assumed. back_s: the furthest that its
    clock steps back.
    """

    file: str
    sent_s: Array
    rtt_ms: Array
    halves: bool = False
    counts_losses: bool = True
    spaced: bool = False
    back_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Packets:
    """The segments of one TCP flow, in order of their first transmission.

    sent_s, again_s, acked_s: [N] times of the first transmission, the second one (NaN: none) and the first
    acknowledgement (NaN: none), from 0. wire_bytes: [N] size on the wire. lost: [N] whether it was lost.
    """

    file: str
    sent_s: Array
    again_s: Array
    acked_s: Array
    wire_bytes: Array
    lost: NDArray[np.bool_]
    payload_bytes: float

    @property
    def once(self) -> NDArray[np.bool_]:
        """Which segments have a known RTT: sent once (Karn's rule), and the last that their acknowledgement covers.

        The ones before have waited for it at the receiver.
        """
        last = np.append(self.acked_s[1:] != self.acked_s[:-1], True)
        return np.isnan(self.again_s) & ~np.isnan(self.acked_s) & last


@dataclass(frozen=True, eq=False)
class Intervals:
    """The intervals of iperf3 over TCP, seen by the sender: end_s [T], bytes on the wire, RTT (NaN), packets resent."""

    file: str
    end_s: Array
    wire_bytes: Array
    rtt_ms: Array
    packets: Array
    resent: Array
    controller: str
    payload_bytes: float


@dataclass(frozen=True, eq=False)
class Datagrams:
    """The intervals of iperf3 over UDP, seen by the receiver: end_s [T], bytes on the wire, packets, lost, jitter.

    A log of the sender has one interval, the whole test.
    """

    file: str
    end_s: Array
    wire_bytes: Array
    packets: Array
    lost: Array
    jitter_ms: Array


@dataclass(frozen=True, eq=False)
class Opportunities:
    """Times at which a packet of 1500 bytes can leave, in ms, as in LeoReplayer's and Mahimahi's files: [N]."""

    file: str
    at_ms: Array


@dataclass(frozen=True, eq=False)
class Delays:
    """One-way delays in ms every 10 ms, as in LeoReplayer's files: [N]."""

    file: str
    owd_ms: Array


AnyRecording = Probes | Packets | Intervals | Datagrams | Opportunities | Delays


@dataclass(frozen=True)
class Gathered:
    """All recordings of one path. opportunities: forward, then (optionally) reverse."""

    probes: Sequence[Probes]
    packets: Sequence[Packets]
    intervals: Sequence[Intervals]
    datagrams: Sequence[Datagrams]
    opportunities: Sequence[Opportunities]
