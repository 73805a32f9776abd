"""Controllers for which rising delay is a sign of congestion, alone or together with loss."""

from orbitcc.baselines.native import NO_THRESHOLD, native
from orbitcc.envs.controllers import Param

vegas = native(
    "vegas",
    "Vegas as in Linux: keeps two to four packets in the queue, relative to the smallest RTT seen",
    paper="Brakmo, Peterson: TCP Vegas: End to End Congestion Avoidance on a Global Internet, 1995",
)

illinois = native(
    "illinois",
    "Illinois as in Linux: loss triggers reductions; delay sets the speed of growth and the size of reductions",
    paper="Liu, Başar, Srikant: TCP-Illinois: A loss- and delay-based congestion control algorithm, 2008",
)

copa = native(
    "copa",
    "Copa: target rate inversely proportional to the queueing delay; competitive mode beside flows that fill the queue",
    paper="Arun, Balakrishnan: Copa: Practical Delay-Based Congestion Control for the Internet, NSDI 2018",
    params={
        "delta": Param(0.5, "sensitivity to delay: 1/delta packets of queue per flow", low=0.01, high=10.0),
        "competitive": Param("on", "raise 1/delta while the queue is never nearly empty", choices=("on", "off")),
        **NO_THRESHOLD,
    },
)
