"""Two flows in opposite directions: acknowledgements wait behind the data of the other flow."""

import numpy as np
import pytest

from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.queues import DropTailPackets
from orbitcc.envs.description.scenario import Scenario

# Start of the second flow in s -> goodput of both flows from 20 to 100 s in Mbit/s: Linux 6.18 over the emulator, 2026.
LINUX = {0.0: 14.47, 0.1: 16.25, 0.7: 14.60, 1.9: 14.94, 3.1: 15.20}


def goodput_mbps(start_s):
    queue = DropTailPackets(limit_packets=100)
    east = Link(name="east", rate_mbps=10, delay_ms=46.5, queue=queue, reverse=Direction(rate_mbps=None))
    flows = (
        Flow(controller="reno", path=("east",), return_path=("west",)),
        Flow(controller="reno", path=("west",), return_path=("east",), start_s=start_s),
    )
    found = simulate(Scenario(name="opposite", duration_s=100, links=(east, east.changed(name="west")), flows=flows))
    return found.flows["goodput_mbps"][found.t_s > 20].mean(axis=0).sum()


def test_reno_fills_links_with_traffic_both_ways_as_far_as_linux():
    found = [goodput_mbps(start_s) for start_s in LINUX]
    # NewReno of ns-3.37 has 13.8 on average.
    assert np.mean(found) == pytest.approx(np.mean(list(LINUX.values())), abs=0.5)
