"""Policies in fixed point: the records that the native program takes and returns, for comparisons with other forms.

`sim/emulator/bpf/fixed_policy.h` defines every field.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.envs.environments.presets import STATS

FEATURES = 48
"""Most features of an observation; those beyond the last are 0."""
ONE = 1 << 20
"""1 in the units of observations and actions."""

STATISTICS = np.dtype(
    [
        *((name, "<u8") for name in ("time_ns", "interval_ns", "rtt_mean_ns", "rtt_least_ns")),
        ("rtt_rise_ns", "<i8"),
        *((name, "<u8") for name in ("srtt_ns", "ack_gap_ns", "delivery_rate", "pacing_rate")),
        *((name, "<u8") for name in ("acked_bytes", "sent_bytes")),
        *((name, "<u4") for name in ("lost", "cwnd", "in_flight")),
        *((name, "<u2") for name in ("mss", "rtos")),
    ]
)
"""What was measured between two decisions; 0 stands for what is not known."""

DECISION = np.dtype([("observation", "<i4", FEATURES), ("action", "<i4"), ("cwnd", "<u4")])


def decide(policy: _sim.Policy, statistics: NDArray[np.void]) -> NDArray[np.void]:
    """The decisions of a policy for one flow: records of :data:`STATISTICS` [T] -> records of :data:`DECISION` [T].

    Raises:
        ValueError: the policy has no fixed-point form; the message is the reason.
    """
    return np.frombuffer(policy.fixed().decide(statistics.tobytes()), DECISION)


def records(statistics: NDArray[np.float64]) -> NDArray[np.void]:
    """Raw statistics f64[T, len(STATS)] as records of :data:`STATISTICS` [T]."""
    column = {name: np.nan_to_num(statistics[:, k], nan=0.0) for name, k in STATS.items()}
    made = np.zeros(len(statistics), STATISTICS)
    for name, source in (
        ("time_ns", "time_s"),
        ("interval_ns", "interval_s"),
        ("rtt_mean_ns", "rtt_mean_s"),
        ("rtt_least_ns", "rtt_min_s"),
        ("rtt_rise_ns", "rtt_rise_s"),
        ("srtt_ns", "srtt_s"),
        ("ack_gap_ns", "ack_gap_s"),
    ):
        made[name] = np.round(column[source] * 1e9)
    for name in ("delivery_rate", "pacing_rate"):
        made[name] = np.round(column[f"{name}_bps"] / 8)
    for name, rate in (("acked_bytes", "acked_rate_bps"), ("sent_bytes", "send_rate_bps")):
        made[name] = np.round(column[rate] * column["interval_s"] / 8)
    for name in ("lost", "cwnd", "in_flight"):
        made[name] = column[f"{name}_packets"]
    made["mss"], made["rtos"] = column["mss_bytes"], column["rtos"]
    return made
