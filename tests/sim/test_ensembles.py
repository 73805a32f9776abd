"""What rests on phases, against Linux 6.1: ensembles, never single runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.sim.ensembles import Share, ensemble, measured, simulated, westwood
from tests.sim.networks import MS, S, direction, drop_tail, flow, link, network, run
from tests.sim.test_kernel_truth import SERIALISATION, START

Pairs = Sequence[tuple[Share, Share]]


def medians(runs: Pairs, read: Callable[[Share], float]) -> list[float]:
    return [float(np.median([read(pair[i]) for pair in runs])) for i in (0, 1)]


def agree(kernel: Pairs, ours: Pairs, goodput: float, retransmissions: tuple[float, float]) -> None:
    """Medians of both flows, within these shares of Linux's."""
    for runs in (kernel, ours):
        assert all(share.rtos == 0 for pair in runs for share in pair)
    np.testing.assert_allclose(
        medians(ours, lambda share: share.goodput_mbps),
        medians(kernel, lambda share: share.goodput_mbps),
        rtol=goodput,
    )
    lost = (medians(runs, lambda share: share.retransmitted_packets) for runs in (ours, kernel))
    for ours_lost, kernel_lost, bound in zip(*lost, retransmissions, strict=True):
        assert ours_lost == pytest.approx(kernel_lost, rel=bound)


@pytest.mark.parametrize("scenario", ["S2", "S6"])
def test_reno_gives_a_late_flow_what_linux_does(scenario):
    offsets = list(measured(scenario, "reno"))[:5]
    ours = [simulated(scenario, "reno", offset) for offset in offsets]
    agree([measured(scenario, "reno")[offset] for offset in offsets], ours, 0.01, (0.01, 0.2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "controller", "goodput", "retransmissions"),
    [
        ("S2", "reno", 0.01, (0.01, 0.05)),
        ("S6", "reno", 0.01, (0.01, 0.2)),
        ("S2", "cubic_hystart_on", 0.1, (0.1, 0.2)),
        ("S6", "cubic_hystart_on", 0.1, (0.1, 0.2)),
        ("S2", "hybla", 0.02, (0.01, 0.02)),
    ],
)
def test_ensembles_have_linux_s_medians(scenario, controller, goodput, retransmissions):
    agree(list(measured(scenario, controller).values()), ensemble(scenario, controller), goodput, retransmissions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "goodput", "retransmissions"), [("S2", 0.1, (0.2, 0.35)), ("S6", 0.06, (0.2, 0.25))]
)
def test_bbr_gives_a_late_flow_what_linux_does(scenario, goodput, retransmissions):
    agree(list(measured(scenario, "bbr").values()), ensemble(scenario, "bbr", seeds=4), goodput, retransmissions)


@pytest.mark.slow
def test_bbr_gives_a_flow_that_comes_between_two_probe_rtts_what_linux_does():
    agree(list(measured("S2", "bbr").values()), ensemble("S2", "bbr", seeds=2, late_s=15), 0.08, (0.2, 0.35))


def probe_rtts(seed: int, kernel: str = "v6") -> list[float]:
    """When one BBR flow enters ProbeRTT, seconds after its start."""
    queue = drop_tail(625_000)
    bottleneck = link(direction(100_000_000, 25 * MS - SERIALISATION, queue=queue), direction(None, 25 * MS))
    spec = network(60, [bottleneck], [flow("bbr") | {"start": START}], seed=seed, hz=100, kernel=kernel)
    result = run(spec, 10 * MS)
    small = result.flow("cwnd_packets") <= 4
    entered = small[1:] & ~small[:-1] & (result.t_s[1:] > 2)
    return list(result.t_s[1:][entered] - START / S)


def test_the_slack_of_a_host_s_timer_moves_bbr_s_probe_rtt():
    # Timers that are on time, before there was slack.
    np.testing.assert_allclose(np.diff(probe_rtts(1, "v4_15")), 10.3, atol=0.1)
    # A packet that leaves sooner after its time refreshes the minimum: Linux's gaps in S1 are 10 to 17 s.
    gaps = np.concatenate([np.diff(probe_rtts(seed)) for seed in range(1, 7)])
    assert gaps.min() > 10
    assert 10.3 < np.median(gaps) < 13
    assert 14 < gaps.max() < 25


@pytest.mark.slow
def test_westwood_over_geo_hangs_on_the_phase_below_one_serialisation():
    low, high = westwood(10_417), westwood(31_250)
    assert low[0] == pytest.approx(37.6, abs=0.5)
    assert high[0] == pytest.approx(44.6, abs=0.5)
    assert high[1] - low[1] == 2, "packets lost above high_seq: a second reduction"
