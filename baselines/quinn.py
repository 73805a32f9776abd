"""Controllers of quinn, the QUIC library: as its state machine has them, for flows with transport quic."""

from orbitcc.baselines.native import native

newreno = native("quinn-newreno", "NewReno as quinn has it (RFC 9002); needs transport quic", tcp=False)
cubic = native("quinn-cubic", "Cubic as quinn has it (RFC 8312, no HyStart); needs transport quic", tcp=False)
bbr = native(
    "quinn-bbr",
    "what quinn calls BBR: its window follows an old draft of version 1, and it does not pace; needs transport quic",
    tcp=False,
)
