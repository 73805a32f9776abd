"""Controllers with a model of the path: its bandwidth and its round-trip time."""

from orbitcc.baselines.native import ACCURATE_ECN, NO_THRESHOLD, RESUME, native, preset
from orbitcc.envs.controllers import Param

bbr = native(
    "bbr",
    "BBR version 1 as in Linux: paces at the measured bandwidth, with at most two bandwidth-delay products in flight",
    paper="Cardwell et al.: BBR: Congestion-Based Congestion Control, 2016",
    params={**RESUME, **NO_THRESHOLD},
)

bbr3 = native(
    "bbr3",
    "BBR version 3: the model of version 1 with bounds learned from losses; probes every two to three seconds",
    paper="Cardwell et al.: BBRv3: Algorithm Updates, 2023; draft-ietf-ccwg-bbr-06",
    params={
        "draft": Param(
            "off", "off: as in Google's Linux tree; 06: as in draft-ietf-ccwg-bbr-06", choices=("off", "06")
        ),
        "min_rtt_window_s": Param(10.0, "time for which a minimum RTT is kept, s", low=0.1, high=1e5),
        "probe_rtt_interval_s": Param(5.0, "time between two ProbeRTT phases, s", low=0.1, high=1e5),
        "cwnd_gain": Param(2.0, "limit of the data in flight in ProbeBW, in BDP", low=1.0, high=100.0),
        **NO_THRESHOLD,
    },
)

leocc = native(
    "leocc",
    "LeoCC as released: BBR with notifications of reconfigurations, after which it measures RTT and bandwidth anew",
    paper="Lai et al.: LeoCC: Making Internet Congestion Control Robust to LEO Satellite Dynamics, SIGCOMM 2025",
    params={
        "trigger": Param(
            "flow",
            "source of the notifications. flow: handovers on the flow's own path; global: handovers on the paths of "
            "all LeoCC flows (the released module's trigger is global to the host); ping: gaps between ping replies",
            choices=("flow", "global", "ping"),
        ),
        "probe_rtt_cwnd_gain": Param(
            0.5, "data in flight during ProbeRTT, in BDP; at least four packets", low=0.0, high=1.0
        ),
        **NO_THRESHOLD,
    },
)

c4 = native(
    "c4",
    "C4, Christian's Congestion Control Code: paces at the largest rate measured, in a window for the longest RTT "
    "without a queue, so that late ACKs do not stop it",
    paper="Huitema, Nandakumar, Jennings: draft-huitema-ccwg-c4-spec-04, 2026; picoquic's c4.c",
    params={
        "flavour": Param("draft", "as in the IETF draft, or as in picoquic", choices=("draft", "picoquic")),
        **RESUME,
        **NO_THRESHOLD,
        **ACCURATE_ECN,
    },
)

vivace = native(
    "vivace",
    "Vivace: tries slightly higher and lower rates; follows the gradient of a utility of rate, loss and delay growth",
    paper="Dong et al.: PCC Vivace: Online-Learning Congestion Control, NSDI 2018",
    params={
        "preset": Param(
            "artifact",
            "artifact: the authors' released code in latency mode; paper: the paper's formulas; loss: the released "
            "code in loss mode; geo: the coefficients of the GEO papers, with a start-up calibrated to their downloads",
            choices=("artifact", "paper", "loss", "geo"),
        ),
        **NO_THRESHOLD,
    },
)
vivace_paper = preset(vivace, "vivace-paper", "Vivace with the paper's formulas", preset="paper")
vivace_loss = preset(vivace, "vivace-loss", "Vivace as released, in loss mode, which ignores delay", preset="loss")
vivace_geo = preset(
    vivace, "vivace-geo", "Vivace with the GEO papers' coefficients 1, 10, 2 and a calibrated start-up", preset="geo"
)
