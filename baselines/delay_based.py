"""Controllers that take rising delay for congestion, alone or beside loss."""

from orbitcc.baselines.native import native
from orbitcc.envs.controllers import Param

vegas = native(
    "vegas",
    "Vegas as in Linux: two to four packets in the queue, by the smallest RTT ever seen",
    paper="Brakmo, Peterson: TCP Vegas: End to End Congestion Avoidance on a Global Internet, 1995",
)

illinois = native(
    "illinois",
    "Illinois as in Linux: loss says when to reduce, delay how fast to grow and how much to give up",
    paper="Liu, Başar, Srikant: TCP-Illinois: A loss- and delay-based congestion control algorithm, 2008",
)

copa = native(
    "copa",
    "Copa: the window follows one over the queueing delay; competes where others keep the queue full",
    paper="Arun, Balakrishnan: Copa: Practical Delay-Based Congestion Control for the Internet, NSDI 2018",
    params={
        "delta": Param(0.5, "sensitivity to delay: 1/delta packets of queue per flow", low=0.01, high=10.0),
        "competitive": Param("on", "raise 1/delta while the queue is never seen nearly empty", choices=("on", "off")),
    },
)
