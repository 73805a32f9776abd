"""Careful Resume (RFC 9959) over a GEO link: sooner where the path is the remembered one, and never otherwise."""

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate


def downloaded(controller: str, **settings):
    """Seconds until 5 MB had come, and the recording of 20 s."""
    scenario = scenarios.get("geo-ideal", controller=controller, duration_s=20.0, **settings)
    recording = simulate(scenario, record_interval_s=0.1)
    received = np.cumsum(recording.flows["goodput_mbps"][:, 0]) * 0.1 * 125_000
    return float(np.interp(5e6, received, recording.t_s)), recording


@pytest.mark.parametrize("controller", ["cubic", "bbr"])
def test_a_remembered_path_saves_a_round_trip(controller: str) -> None:
    plain, _ = downloaded(controller)
    resumed, _ = downloaded(f"{controller}:resume_cwnd=7000,resume_rtt_ms=600")
    assert plain - resumed > 0.6, "one RTT at least"


def test_another_path_s_memory_changes_nothing() -> None:
    _, plain = downloaded("cubic")
    _, resumed = downloaded("cubic:resume_cwnd=7000,resume_rtt_ms=50")
    assert np.array_equal(plain.flows["delivery_mbps"], resumed.flows["delivery_mbps"], equal_nan=True)


def test_a_path_that_has_become_slow_is_retreated_from() -> None:
    """What 144 Mbit/s held does not fit on 10: half of what arrived is the window, and the threshold after."""
    settings = {"rate_mbps": 10.0, "base_rtt_ms": 600.0, "buffer_bdp": 0.05, "duration_s": 4.0}
    scenario = scenarios.get("dumbbell", controller="cubic:resume_cwnd=7000,resume_rtt_ms=600", **settings)
    flow = simulate(scenario, record_interval_s=0.1).flows
    cwnd, threshold = flow["cwnd_packets"][:, 0], flow["ssthresh_packets"][:, 0]
    assert np.nanmax(cwnd) == 3500
    lost = int(np.flatnonzero(flow["lost_packets"][:, 0])[0])
    assert np.nanmin(cwnd[lost : lost + 15]) < 50, "half of the hundred segments that arrived"
    assert 20 < np.nanmax(threshold[-5:]) < 200


def test_window_and_rtt_go_together() -> None:
    with pytest.raises(OrbitccError, match="resume_rtt_ms"):
        simulate(scenarios.get("geo-ideal", controller="cubic:resume_cwnd=7000", duration_s=1.0))
