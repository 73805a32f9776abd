"""Controllers that take packet loss for congestion."""

from orbitcc.baselines.native import RESUME, native, preset
from orbitcc.envs.controllers import Param

reno = native(
    "reno",
    "NewReno as in Linux: one packet more per round trip, half the window on loss",
    paper="RFC 5681, RFC 6582",
)

cubic = native(
    "cubic",
    "CUBIC as in Linux: the window follows a cubic of the time since the last loss",
    paper="Ha, Rhee, Xu: CUBIC: A New TCP-Friendly High-Speed TCP Variant, 2008; RFC 9438",
    params={
        "hystart": Param(
            "both",
            "how slow start may end before a loss: by ACK trains, by rising delay, by either (Linux), or not at all; "
            "by either with a delay threshold without maximum (nomax) or from the spread of RTTs (dynamic), the two "
            "proposals for satellite links; by HyStart++ (RFC 9406); by SEARCH (draft-chung-ccwg-search) in its third "
            "or its ninth version (search-09)",
            choices=("both", "train", "delay", "off", "nomax", "dynamic", "hystart++", "search", "search-09"),
        ),
        "hystart_k": Param(
            3.0, "standard deviations above the mean RTT at which hystart=dynamic leaves", low=0.0, high=100.0
        ),
        "search_rollback": Param(
            "off",
            "take back what slow start sent in the last two round trips when hystart=search leaves (as in the draft)",
            choices=("on", "off"),
        ),
        "fast_convergence": Param(
            "on",
            "give way faster when the window shrinks from loss to loss (RFC 9438, section 4.7)",
            choices=("on", "off"),
        ),
        "friendliness": Param(
            "on", "never below the window Reno would have (RFC 9438, section 4.3)", choices=("on", "off")
        ),
        **RESUME,
    },
)

cubic_nohystart = preset(cubic, "cubic-nohystart", "CUBIC whose slow start ends only with a loss", hystart="off")

hybla = native(
    "hybla",
    "Hybla as in Linux: a long path's window grows as fast as that of a path of rtt0_ms",
    paper="Caini, Firrincieli: TCP Hybla: a TCP enhancement for heterogeneous networks, 2004",
    params={"rtt0_ms": Param(25.0, "round-trip time of the reference path", low=1.0, high=1000.0)},
)

westwood = native(
    "westwood",
    "Westwood+ as in Linux: after a loss the window is the measured bandwidth times the smallest RTT",
    paper="Grieco, Mascolo: Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP, 2004",
)

satcp = native(
    "satcp",
    "SaTCP as released: CUBIC that remembers its window through reported handovers and returns to it sooner",
    paper="Cao, Zhang: SaTCP: Link-Layer Informed TCP Adaptation for Highly Dynamic LEO Satellite Networks, 2023",
    params={
        "mode": Param(
            "released",
            "while a handover is reported: the released module, or a window that stands still (as the paper is read)",
            choices=("released", "freeze"),
        ),
    },
)

satcp_freeze = preset(
    satcp, "satcp-freeze", "SaTCP whose window stands still through reported handovers", mode="freeze"
)
