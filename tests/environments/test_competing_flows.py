"""Features and actions of Copa, Nimbus and Jury at work: which flows are detected, and how two flows share."""

import json

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.envs.description.flows import Cbr
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.scenarios import get

CUBIC = Flow(controller="cubic", start_s=10)
DATAGRAMS = Flow(controller="udp", traffic=Cbr(rate_mbps=20), start_s=10)


BDP_PACKETS = 50e6 * 0.04 / 8 / 1448


def observed(rival: Flow | None, feature: dict | str, bdp: float = 1.0, **action) -> np.ndarray:
    """A feature from 20 to 60 s of a flow with a fixed window, on a link of 50 Mbit/s with 40 ms and a buffer of 2 BDP.

    The rival comes at 10 s.
    """
    preset = presets.preset(
        "ratios",
        observation={"name": "features", "features": [feature]},
        action={"name": "log-window", "cubic": 0, **action},
    )
    flows = [Flow(controller="external"), *([rival] if rival else [])]
    scenario = get("dumbbell", rate_mbps=50, base_rtt_ms=40, buffer_bdp=2, duration_s=60).with_flows(flows)
    env = CongestionEnv(scenario, preset=preset)
    env.reset(seed=1)
    growth, seen, over = np.log(bdp * BDP_PACKETS / 10), [], False
    while not over:
        # twenty steps of at most exp(0.25) to the window, then none
        observation, _, terminated, truncated, _ = env.step([growth / 20 / 0.25 if len(seen) < 20 else 0.0])
        seen.append(observation[0])
        over = terminated or truncated
    return np.array(seen)[-1_333:]


def elasticity(rival: Flow | None, bdp: float = 1.0, pulse: float = 0.25, **feature) -> np.ndarray:
    return np.exp(observed(rival, {"name": "elasticity", **feature}, bdp, pulse=pulse)) - 1


@pytest.mark.parametrize("capacity", [{"capacity": "true"}, {"window_s": 0}])
def test_nimbus_tells_a_cubic_flow_from_datagrams_at_a_constant_rate(capacity) -> None:
    assert np.mean(elasticity(CUBIC, **capacity) > 2.0) > 0.9
    assert np.mean(elasticity(DATAGRAMS, **capacity) > 2.0) == 0.0
    assert np.max(elasticity(None, **capacity)) == 0.0


def test_a_flow_alone_on_an_idle_link_is_not_elastic_to_itself() -> None:
    assert np.max(elasticity(None, bdp=0.6, capacity="true")) == 0.0


def test_without_pulses_a_cubic_flow_is_not_noticed() -> None:
    assert np.mean(elasticity(CUBIC, pulse=0.0, capacity="true") > 2.0) < 0.1


def test_copa_finds_a_filled_queue_beside_cubic_and_an_empty_one_alone() -> None:
    assert observed(CUBIC, "filled-queue", 0.5).mean() > 0.8
    assert observed(None, "filled-queue", 0.5).mean() == 0.0


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


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"action": {"name": "log-window", "pulse": 0.25}}, "action.pulse"),
        ({"observation": {"name": "features", "features": ["elasticity"]}}, "the feature elasticity"),
    ],
)
def test_intervals_that_do_not_show_pulses_are_refused(changes, what) -> None:
    with pytest.raises(OrbitccError, match=rf"interval_ms.*at most 33.333 ms for {what} with pulse_hz = 5"):
        presets.preset("ratios", interval_ms=40, **changes)
    with pytest.raises(OrbitccError, match=r"interval_rtts.*fixed interval"):
        presets.preset({"base": "ratios", "interval_rtts": 0.5, **changes})
    slow = {kind: {**function, "pulse_hz": 2.0} for kind, function in changes.items() if kind == "action"}
    assert presets.preset("ratios", interval_ms=80, **slow).interval_ms == 80
