"""The oracle: a policy that is told the rate, the RTT and the number of rivals, which controllers have to find out.

Every 5 ms (the shortest RTT of the leaderboard's paths) it sets the window to what its fair share fills, and paces at
the fair share. It knows the rate of the bottleneck, how many TCP flows cross it, the RTT of the path without queues,
and the share of packets that the path is expected to lose at random. Of those that get lost it sends so many more.

It does not know the future: after a change it uses the old values until its next decision. Nor does it know how full
queues are, when the path is down, what `udp` sends, whether a rival uses its share, or how many flows cross the other
links of its path.

It is a bound by construction, up to these changes, for utilisation and delay of flows that compete with nobody or with
each other for one bottleneck, on links that serve one packet after the other. It is a reference that controllers can
surpass where the share of one is the loss of another (beside Cubic or BBR, at several bottlenecks); where links save
up for bursts or delay packets at random; and in retransmissions: it sends on while the path is silent, which saves time
and costs packets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.environments.presets import STATS, Action, Preset, Stats, Who

HEADER_BYTES = 66
"""Ethernet, IPv4, and TCP with time stamps: links carry them, pacing counts payload."""
SPARE_PACKETS = 3
"""In flight beyond rate x RTT: one that the link is sending, and two that one (delayed) ACK acknowledges."""
MOST_LOSS = 0.5
"""Of the random loss for which it makes up, so that it stays finite."""
MOST_BPS = 1e12
"""Where a link has no rate."""
MOST_PACKETS = float(1 << 20)
"""The simulator's largest window."""


def control(actions: NDArray[np.float32], stats: Stats, who: Who) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Windows in packets [n] and pacing rates in bit/s of payload [n], from the raw statistics [n, F].

    The window counts the longest pause between ACKs as part of the RTT: what was sent before it no longer fills the
    path, though no ACK has said so. Where nothing can be sent, it still tries a packet per second.
    """
    mss = stats[:, STATS["mss_bytes"]]
    packet = mss + HEADER_BYTES
    arrives = 1 - np.minimum(stats[:, STATS["link_loss"]], MOST_LOSS)
    rate = np.minimum(stats[:, STATS["fair_share_bps"]], MOST_BPS) / arrives
    time = stats[:, STATS["base_rtt_s"]] + stats[:, STATS["ack_gap_s"]]
    window = np.ceil(rate * time / (8 * packet)) + SPARE_PACKETS
    return np.minimum(window, MOST_PACKETS), np.maximum(rate * mss / packet, 8 * mss)


class Oracle:
    """A policy in Python (:mod:`orbitcc.agents.python_policy`): `orbitcc.agents.oracle:Oracle`."""

    preset = Preset("oracle", observation={"name": "astraea", "history": 1}, action=Action(control), interval_ms=5.0)

    def act(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Nothing: all that it does follows from the statistics. f32[n, 1] for an observation f32[n, D]."""
        return np.zeros((len(obs), 1), np.float32)
