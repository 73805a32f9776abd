"""Controllers for which packet loss is the sign of congestion."""

from dataclasses import replace

from orbitcc.baselines.native import ACCURATE_ECN, RESUME, native, preset
from orbitcc.envs.controllers import HOST_PARAMS, Param

_ABE = Param(
    "off",
    "alternative backoff with ECN (RFC 8511): after a mark, more of the window is left than after a loss, 80 % in Reno "
    "and 85 % in CUBIC; Linux does not have it",
    choices=("on", "off"),
)

reno = native(
    "reno",
    "NewReno as in Linux: one more packet per round trip, half the window after a loss",
    paper="RFC 5681, RFC 6582",
    params={"abe": _ABE},
)

dctcp = native(
    "dctcp",
    "DCTCP as in Linux: the window is cut in proportion to the share of packets that an AQM marks",
    paper="Alizadeh et al.: Data Center TCP (DCTCP), 2010; RFC 8257",
    params={
        "ect": Param(
            0, "ECN field of its packets: ECT(0), or ECT(1) for the low-delay queue of DualPI2", choices=(0, 1)
        ),
        "ecn": replace(
            HOST_PARAMS["ecn"],
            description="always on: marks are echoed as in RFC 8257 (classic), RFC 9768 (accurate), or as in the "
            "scenario (network)",
            choices=("network", "classic", "accurate"),
        ),
    },
)

prague = native(
    "prague",
    "TCP Prague for L4S queues: DCTCP's response with fractional windows and pacing, and rates that do not depend on "
    "RTTs up to 25 ms",
    paper="De Schepper, Tilmans, Briscoe: Prague Congestion Control (draft-briscoe-iccrg-prague-congestion-control); "
    "the L4S team's tcp_prague.c, version 0.7",
    params={
        "fallback": Param(
            "off",
            "respond as to RFC 3168's marks where varying RTTs and long queues tell of a classic queue, as version 0.6 "
            "can; off by default there, too",
            choices=("on", "off"),
        ),
        **ACCURATE_ECN,
    },
)

cubic = native(
    "cubic",
    "CUBIC as in Linux: the window is a cubic function of the time since the last loss",
    paper="Ha, Rhee, Xu: CUBIC: A New TCP-Friendly High-Speed TCP Variant, 2008; RFC 9438",
    params={
        "hystart": Param(
            "both",
            "how slow start can end before a loss. train: by ACK trains; delay: by rising delay; both: by either, as "
            "in Linux; off: not at all. nomax and dynamic, two proposals for satellite links: as both, with a delay "
            "threshold that has no maximum, or that follows the spread of the RTTs. hystart++: RFC 9406. search: "
            "draft-chung-ccwg-search-09",
            choices=("both", "train", "delay", "off", "nomax", "dynamic", "hystart++", "search"),
        ),
        "hystart_k": Param(
            3.0,
            "standard deviations above the mean RTT at which hystart=dynamic ends slow start",
            low=0.0,
            high=100.0,
            only_with=("hystart", "dynamic"),
        ),
        "fast_convergence": Param(
            "on",
            "release bandwidth faster when the window shrinks from loss to loss (RFC 9438, section 4.7)",
            choices=("on", "off"),
        ),
        "friendliness": Param(
            "on", "keep the window at least as large as that of Reno (RFC 9438, section 4.3)", choices=("on", "off")
        ),
        "abe": _ABE,
        **RESUME,
    },
)

cubic_nohystart = preset(cubic, "cubic-nohystart", "CUBIC whose slow start ends only with a loss", hystart="off")

hybla = native(
    "hybla",
    "Hybla as in Linux: on a long path the window grows as fast as on a path with an RTT of rtt0_ms",
    paper="Caini, Firrincieli: TCP Hybla: a TCP enhancement for heterogeneous networks, 2004",
    params={"rtt0_ms": Param(25.0, "round-trip time of the reference path", low=1.0, high=1000.0)},
)

westwood = native(
    "westwood",
    "Westwood+ as in Linux: after a loss, the window is the measured bandwidth times the smallest RTT",
    paper="Grieco, Mascolo: Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP, 2004",
)

satcp = native(
    "satcp",
    "SaTCP as released: CUBIC that stores its window at a reported handover and returns to it faster afterwards",
    paper="Cao, Zhang: SaTCP: Link-Layer Informed TCP Adaptation for Highly Dynamic LEO Satellite Networks, 2023",
    params={
        "mode": Param(
            "released",
            "during a reported handover: as in the released module, or a frozen window (our reading of the paper)",
            choices=("released", "freeze"),
        ),
    },
)

satcp_freeze = preset(satcp, "satcp-freeze", "SaTCP with a frozen window during reported handovers", mode="freeze")
