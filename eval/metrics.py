"""Metrics of a finished run.

The definitions are those of the LEO paper (Mazilu, Valentine, Wakeman, Parisis, "An Experimental Study of Congestion
Control in LEO Satellite Networks", IFIP Networking 2026) and of the scripts behind it. Rates are Mbit/s with 1 Mbit =
10^6 bits, delays are milliseconds, times are seconds. A sample carries the time its interval ends at, and windows are
strict: `start < t < end`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Series = NDArray[np.float64]

RETRANSMITTED_PACKET_BYTES = 1500
"""The size of a retransmitted segment in the paper's scripts."""

INFLATION_TRIM_S = 10.0
"""The paper drops the first and the last 10 s of a run before it averages the delay inflation."""


def window(t_s: ArrayLike, start_s: float, end_s: float) -> NDArray[np.bool_]:
    """Which samples lie strictly between start_s and end_s: `[T]` -> bool `[T]`."""
    t = np.asarray(t_s, dtype=np.float64)
    # Sample times are sums of intervals, so a sample meant to lie on the edge may be off by rounding.
    return (t > start_s + 1e-9) & (t < end_s - 1e-9)


def mean_in_window(t_s: ArrayLike, values: ArrayLike, start_s: float, end_s: float) -> float:
    """Mean of the values in the window, NaN samples left out (NaN if none is left)."""
    inside = np.asarray(values, dtype=np.float64)[window(t_s, start_s, end_s)]
    inside = inside[~np.isnan(inside)]
    return float(inside.mean()) if inside.size else float("nan")


def goodput_over_optimal(
    t_s: ArrayLike, goodput_mbps: ArrayLike, optimal_mbps: float, start_s: float, end_s: float
) -> float:
    """Mean 1-s goodput in the window over the optimal goodput.

    The optimum counts every bit of the link, headers included, so 1448-byte payloads in 1514-byte frames reach 0.956.
    """
    return mean_in_window(t_s, goodput_mbps, start_s, end_s) / optimal_mbps


def delay_inflation(t_s: ArrayLike, srtt_ms: ArrayLike, base_rtt_ms: ArrayLike, start_s: float, end_s: float) -> float:
    """Mean of smoothed RTT over unloaded RTT at the same second, at least 1.

    The first and last 10 s of the run are dropped. NaN if no sample is left.
    """
    ratio = np.asarray(srtt_ms, dtype=np.float64) / np.asarray(base_rtt_ms, dtype=np.float64)
    mean = mean_in_window(t_s, ratio, start_s + INFLATION_TRIM_S, end_s - INFLATION_TRIM_S)
    return mean if np.isnan(mean) else max(1.0, mean)


def retransmission_rate(retransmitted_packets: float, sent_packets: float) -> float:
    """Retransmitted over sent packets, 0..1; sent counts every transmission, retransmissions too."""
    return float(retransmitted_packets / sent_packets) if sent_packets > 0 else 0.0


def retransmitted_mbps(retransmitted_packets: float, duration_s: float) -> float:
    """Retransmissions as a rate: segments per second x 1500 bytes, Mbit/s."""
    return float(retransmitted_packets * RETRANSMITTED_PACKET_BYTES * 8 / 1e6 / duration_s)


def jain(shares: ArrayLike) -> float:
    """Jain's fairness index of n shares, (sum x)^2 / (n sum x^2): 1/n (one has all) to 1 (equal). NaN if all are 0."""
    x = np.asarray(shares, dtype=np.float64)
    squares = float(np.square(x).sum())
    return float(x.sum() ** 2 / (x.size * squares)) if squares > 0 else float("nan")


def goodput_ratios(first_mbps: ArrayLike, second_mbps: ArrayLike) -> Series:
    """Smaller over larger goodput of two flows for each second in which at least one is positive, `[T]` -> `[<= T]`.

    The paper pools these seconds over its runs and reports their mean: the mean of ratios, not the ratio of means.
    """
    a, b = np.asarray(first_mbps, dtype=np.float64), np.asarray(second_mbps, dtype=np.float64)
    larger = np.maximum(a, b)
    some = larger > 0
    return np.minimum(a, b)[some] / larger[some]


def utilisation(delivered_mbps: ArrayLike, capacity_mbps: ArrayLike) -> float:
    """Delivered over offered bits of a link, both `[T]` in equal intervals.

    At most 1: of a packet that the link began to send before the first interval, all bits count.
    """
    return min(1.0, float(np.sum(delivered_mbps) / np.sum(capacity_mbps)))
