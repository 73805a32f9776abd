"""The action of Jury at work: how two flows share."""

import json

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.scenarios import get


def goodputs(occupancy_range: float, start_s: float) -> list[float]:
    """Of two copies of a policy that steers the queueing delay, one with a window of 200 and one with 20 packets."""
    layer = {"weight": np.array([[-1.0]], np.float32), "bias": np.array([0.6], np.float32)}
    policy = _sim.Policy(
        [{**layer, "norm": None, "activation": "linear"}],
        observation=json.dumps({"name": "features", "features": ["queue-delay"]}),
        action=json.dumps({"name": "log-window", "cubic": 0.0, "occupancy_range": occupancy_range}),
        interval_ns=30_000_000,
    )
    flows = [Flow(controller="external"), Flow(controller="external", start_s=start_s)]
    scenario = get("dumbbell", rate_mbps=50, base_rtt_ms=40, buffer_bdp=2, duration_s=60).with_flows(flows)
    network = json.loads(scenario.with_seed(1).compile())
    for flow, window in zip(network["flows"], (200, 20), strict=True):
        flow["controller"] = {"name": "policy", "params": {"policy": "p", "initial_cwnd": window}}
    simulation = _sim.Simulation(json.dumps(network), policies={"p": policy})
    simulation.run()
    return [flow["goodput_mbps"] for flow in simulation.flow_totals()]


@pytest.mark.parametrize("start_s", [0.0, 10.0])
def test_flows_with_other_windows_share_more_equally_as_in_jury(start_s: float) -> None:
    first, second = goodputs(0.0, start_s)
    assert second < 0.25 * first
    first, second = goodputs(0.2, start_s)
    assert 0.67 < second / first < 1.5
    assert first + second > 45.0
