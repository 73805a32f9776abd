"""Traffic that does not react to the network."""

from orbitcc.baselines.native import native

udp = native("udp", "unresponsive datagrams at the rate of the flow's traffic, e.g. udp:rate_mbps=20", tcp=False)
