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


def random_statistics(rng: np.random.Generator, count: int) -> NDArray[np.void]:
    """Random records of :data:`STATISTICS`: plausible paths, and in one record of ten numbers of any size."""
    made = np.zeros(count, STATISTICS)

    def between(low: float, high: float) -> NDArray[np.float64]:
        return np.exp(rng.uniform(np.log(low), np.log(high), count))

    made["interval_ns"] = between(1e6, 3e8)
    made["time_ns"] = 1e9 + np.cumsum(made["interval_ns"])
    path_ns = np.repeat(between(1e6, 7e8)[::1000], 1000)[:count]
    made["rtt_least_ns"] = path_ns * between(1.0, 3.0)
    made["rtt_mean_ns"] = made["rtt_least_ns"] * between(1.0, 1.5)
    made["rtt_rise_ns"] = path_ns * rng.normal(0.0, 0.1, count)
    made["srtt_ns"] = made["rtt_mean_ns"]
    made["ack_gap_ns"] = between(1e5, 3e8)
    made["delivery_rate"] = between(1e4, 1e8)
    made["pacing_rate"] = between(1e4, 1e8)
    made["acked_bytes"] = made["delivery_rate"] * (made["interval_ns"] / 1e9)
    made["sent_bytes"] = made["acked_bytes"] * between(0.5, 2.0)
    made["lost"] = between(1.0, 100.0) * (rng.random(count) < 0.2)
    made["cwnd"] = between(1.0, 1e5)
    made["in_flight"] = made["cwnd"] * rng.random(count)
    made["mss"] = rng.integers(500, 9_000, count)
    silent = rng.random(count) < 0.1
    for name in ("rtt_least_ns", "rtt_mean_ns", "rtt_rise_ns", "delivery_rate", "acked_bytes"):
        made[name][silent] = 0
    for name in STATISTICS.names or ():
        wild = rng.random(count) < 0.01
        made[name][wild] = (rng.integers(0, 2**63, count) >> rng.integers(0, 64, count))[wild].astype(made[name].dtype)
    return made
