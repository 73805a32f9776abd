"""Controllers that take rising delay for congestion, alone or beside loss."""

from orbitcc.baselines.native import native

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
