"""Privileged inputs of a critic: the state of the whole world, and the true state of the flow's path."""

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.environments.batch import GLOBAL_STATE
from orbitcc.envs.environments.presets import STATS

TRUTHS = ("capacity_bps", "base_rtt_s", "queue_bytes", "buffer_bytes", "link_loss", "fair_share_bps", "flows_active")
"""Raw statistics that a sender cannot measure, and ..."""
OWN = ("delivery_rate_bps",)
"""... those that they are compared with."""
COLUMNS = [STATS[name] for name in (*TRUTHS, *OWN)]
"""Their columns in the raw statistics."""
DIM = GLOBAL_STATE + 8
"""Number of privileged inputs."""


def privileged(state: NDArray[np.float32], statistics: NDArray[np.float64]) -> NDArray[np.float32]:
    """Inputs of about unit size, f32[..., DIM].

    After the global state: capacity and fair share as the logarithm to base 10 of Mbit/s; base RTT as that of ms, less
    one; queue and buffer as the natural logarithm of 1 + their size in bandwidth-delay products; ten times the link's
    loss rate; delivery rate over fair share; flows over ten. What is not defined (no capacity in an outage) is 0.

    Args:
        state: global state of each flow's world, f32[..., 12].
        statistics: :data:`COLUMNS` of the raw statistics of each flow, [..., 8].
    """
    capacity, base, queue, buffer, loss, share, flows, delivered = np.moveaxis(np.asarray(statistics), -1, 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bdp = capacity * base / 8.0
        known = (
            np.log10(capacity / 1e6),
            np.log10(share / 1e6),
            np.log10(base * 1e3) - 1.0,
            np.log1p(queue / bdp),
            np.log1p(buffer / bdp),
            10.0 * loss,
            delivered / share,
            flows / 10.0,
        )
    found = np.empty((*state.shape[:-1], DIM), np.float32)
    found[..., :GLOBAL_STATE] = state
    for column, values in enumerate(known, start=GLOBAL_STATE):
        found[..., column] = np.where(np.isfinite(values), values, 0.0)
    return np.clip(found, -10.0, 10.0, out=found)
