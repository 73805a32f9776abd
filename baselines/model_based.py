"""Controllers that act on a model of the path: its bandwidth and its round-trip time."""

from orbitcc.baselines.native import native

bbr = native(
    "bbr",
    "BBR, first version, as in Linux: paces at the measured bandwidth, keeps at most twice its product with the RTT",
    paper="Cardwell et al.: BBR: Congestion-Based Congestion Control, 2016",
)
