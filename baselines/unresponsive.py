"""Traffic that does not react to the network."""

from orbitcc.baselines.native import native

udp = native("udp", "datagrams at the rate of the flow's traffic, whatever happens; e.g. udp:rate_mbps=20", tcp=False)
