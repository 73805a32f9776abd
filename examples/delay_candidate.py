"""A candidate for `orbitcc score`: a delay-based controller with a few numbers that a search may change.

    orbitcc score examples/delay_candidate.py

Once per interval the window moves towards that with which so many packets of the flow would wait in the queue, as FAST
TCP does (Wei, Jin, Low, Hegde, 2006). examples/score_search.py changes PARAMETERS.
"""

import numpy as np

from orbitcc import STATS, Action, Preset, Who

PARAMETERS = {
    "queued_packets": 20.0,
    "gain": 0.5,
    "memory_s": 10.0,
    "loss_share": 0.05,
    "cut": 0.7,
    "interval_ms": 50.0,
}
COLUMNS = [STATS[name] for name in ("interval_s", "rtt_mean_s", "srtt_s", "lost_packets", "acked_packets", "ack_gap_s")]


def fast(_actions: np.ndarray, stats: np.ndarray, who: Who) -> np.ndarray:
    """Windows in packets [n]; remembers window, smallest RTT, its age and whether the queue is still empty."""
    p = PARAMETERS
    interval, mean, smooth, lost, acked, gap = stats[:, COLUMNS].T
    window, least, age, start = who.memory.T
    window, start = np.where(who.fresh, 10.0, window), np.where(who.fresh, 1.0, start)
    rtt = np.where(np.isnan(mean), smooth, mean)
    known = rtt > 0
    # The path may change: a minimum counts for a while, and after a pause it is measured anew.
    renew = known & (who.fresh | (least == 0) | (rtt <= least) | (age > p["memory_s"]) | (gap > 2 * least + 0.03))
    least, age = np.where(renew, rtt, least), np.where(renew, 0.0, age + interval)
    rtts = np.minimum(interval / np.maximum(rtt, 1e-3), 1.0)
    queued = window * (1 - least / np.maximum(rtt, 1e-3))
    start = np.where(queued > p["queued_packets"] / 2, 0.0, start)
    target = window + p["queued_packets"] - queued
    moved = np.where(start > 0, window * 2**rtts, window + p["gain"] * rtts * (target - window))
    losing = lost > p["loss_share"] * (lost + acked)
    moved = np.where(losing, window * (1 - (1 - p["cut"]) * rtts), moved)
    window = np.clip(np.where(known, moved, window), 4.0, 50_000.0)
    who.memory[:] = np.stack([window, least, age, start], axis=1)
    return window


class Fast:
    """Everything is in the action; `act` has nothing to decide."""

    preset = Preset("fast", action=Action(fast, memory=4), interval_ms=PARAMETERS["interval_ms"])

    def act(self, obs: np.ndarray) -> np.ndarray:
        return np.zeros((len(obs), 1))


def make() -> Fast:
    """Called anew for every run."""
    return Fast()
