"""Controllers that act on a model of the path: its bandwidth and its round-trip time."""

from orbitcc.baselines.native import RESUME, native, preset
from orbitcc.envs.controllers import Param

bbr = native(
    "bbr",
    "BBR, first version, as in Linux: paces at the measured bandwidth, keeps at most twice its product with the RTT",
    paper="Cardwell et al.: BBR: Congestion-Based Congestion Control, 2016",
    params=RESUME,
)

bbr3 = native(
    "bbr3",
    "BBR, third version: version 1's model bounded by what loss has taught, probing every two to three seconds",
    paper="Cardwell et al.: BBRv3: Algorithm Updates, 2023; draft-ietf-ccwg-bbr",
    params={
        "flavour": Param("linux", "Google's Linux tree, or the IETF draft where it differs", choices=("linux", "ietf")),
        "min_rtt_window_s": Param(10.0, "how long a minimum RTT is believed", low=0.1, high=1e5),
        "probe_rtt_interval_s": Param(5.0, "from one ProbeRTT to the next", low=0.1, high=1e5),
        "cwnd_gain": Param(2.0, "bound of what is in flight in ProbeBW, in products", low=1.0, high=100.0),
    },
)

leocc = native(
    "leocc",
    "LeoCC as released: BBR that is told of reconfigurations, then takes the new RTT and starts up again",
    paper="Lai et al.: LeoCC: Making Internet Congestion Control Robust to LEO Satellite Dynamics, SIGCOMM 2025",
    params={
        "trigger": Param(
            "flow",
            "what tells of reconfigurations: handovers on the flow's own path, those of every such flow (the released "
            "module's trigger is global to its host), or gaps between replies to pings",
            choices=("flow", "global", "ping"),
        ),
        "probe_rtt_cwnd_gain": Param(
            0.5, "what is in flight during ProbeRTT, in products; never less than four packets", low=0.0, high=1.0
        ),
    },
)

vivace = native(
    "vivace",
    "Vivace: sends slightly faster and slower in turn, following the gradient of a utility of rate, loss, delay growth",
    paper="Dong et al.: PCC Vivace: Online-Learning Congestion Control, NSDI 2018",
    params={
        "preset": Param(
            "artifact",
            "the authors' released code in latency mode, the paper's formulas, the released code in loss mode, or the "
            "coefficients of the GEO papers (start-up calibrated to their downloads)",
            choices=("artifact", "paper", "loss", "geo"),
        ),
    },
)
vivace_paper = preset(vivace, "vivace-paper", "Vivace by the paper's formulas", preset="paper")
vivace_loss = preset(vivace, "vivace-loss", "Vivace as released, in loss mode: delay does not matter", preset="loss")
vivace_geo = preset(
    vivace, "vivace-geo", "Vivace with the GEO papers' coefficients 1, 10, 2; start-up calibrated", preset="geo"
)
