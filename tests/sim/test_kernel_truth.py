"""Against the TCP of Linux 6.1, measured in exact virtual time (tests/data/kernel_truth)."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.sim.networks import MS, Run, S, bernoulli, direction, drop_tail, flow, link, network, run

DATA = Path(__file__).parents[1] / "data" / "kernel_truth"

CONTROLLERS = {
    "reno": flow("reno"),
    "cubic_hystart_on": flow("cubic"),
    "cubic_hystart_off": flow("cubic", hystart="off"),
}
RTT_STEPS_MS = {"S7a": (20, 60), "S7b": (60, 20)}
LOSS = {"S4a": 0.001, "S4b": 0.01}


def measured(scenario: str, controller: str) -> list[dict[str, float]]:
    """The kernel's summary rows, one per repeat."""
    with open(DATA / "summary.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["scenario"], row["controller"]) == (scenario, controller)]
    return [{key: float(x) for key, x in row.items() if key not in ("scenario", "controller")} for row in rows]


@cache
def simulated(scenario: str, controller: str, seed: int = 1, interval: int = 100 * MS) -> Run:
    seconds, buffer, half_rtt = 60, 625_000, 25 * MS
    loss = bernoulli(LOSS[scenario]) if scenario in LOSS else None
    delay: object = half_rtt
    if scenario in RTT_STEPS_MS:
        before, after = RTT_STEPS_MS[scenario]
        seconds, buffer, delay = 50, 750_000, [[0, before * MS // 2], [20 * S, after * MS // 2]]
    bottleneck = link(direction(100_000_000, delay, queue=drop_tail(buffer), loss=loss), direction(None, delay))
    return run(network(seconds, [bottleneck], [CONTROLLERS[controller]], seed=seed, hz=100), interval)


def second_half(result: Run, series: str) -> float:
    return float(result.flow(series)[len(result.t_s) // 2 :].mean())


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("scenario", ["S1", "S7a", "S7b"])
def test_a_lossless_link_ends_as_in_linux(scenario, controller):
    kernel = measured(scenario, controller)[0]
    ours = simulated(scenario, controller)
    assert ours.total["goodput_mbps"] == pytest.approx(kernel["goodput_mbps"], rel=0.02)
    assert second_half(ours, "goodput_mbps") == pytest.approx(kernel["goodput_mbps_second_half"], rel=0.02)
    assert second_half(ours, "srtt_ms") == pytest.approx(kernel["srtt_ms_second_half"], rel=0.04)
    assert ours.total["retransmitted_packets"] == pytest.approx(kernel["retransmitted_packets"], rel=0.15)
    assert ours.total["rtos"] == kernel["rtos"] == 0
    assert ours.flow("cwnd_packets").max() == pytest.approx(kernel["cwnd_packets_max"], rel=0.05)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_the_window_follows_linux_through_start_up_and_first_recovery(controller):
    kernel = np.genfromtxt(DATA / f"S1_{controller}.csv", delimiter=",", names=True)
    recovering = kernel["ca_state"] >= 2
    first = int(np.argmax(recovering))
    over = first + int(np.argmin(recovering[first:]))
    rows = slice(0, over + 10)
    assert 0.3 < kernel["t_s"][first] < kernel["t_s"][over] < 2, "the data hold a first recovery"

    ours = simulated("S1", controller)
    np.testing.assert_allclose(ours.t_s[rows], kernel["t_s"][rows])
    np.testing.assert_allclose(ours.flow("cwnd_packets")[rows], kernel["cwnd_packets"][rows], rtol=0.1)
    ssthresh = ours.flow("ssthresh_packets")[rows]
    np.testing.assert_array_equal(np.isinf(ssthresh), np.isinf(kernel["ssthresh_packets"][rows]))
    np.testing.assert_allclose(ssthresh, kernel["ssthresh_packets"][rows], rtol=0.1)
    lost_at_start = ours.flow("retransmitted_packets")[: over + 1].sum()
    assert lost_at_start == pytest.approx(kernel["retransmitted_packets"][over], rel=0.15)


@pytest.mark.parametrize("controller", ["reno", "cubic_hystart_on"])
@pytest.mark.parametrize("scenario", LOSS)
def test_random_loss_ends_within_the_spread_of_linux(scenario, controller):
    # Three repeats with seeds of their own on either side, hence the margins.
    kernel = measured(scenario, controller)
    ours = [simulated(scenario, controller, seed) for seed in (1, 2, 3)]
    assert len(kernel) == 3

    def check(values: list[float], name: str, margin: float) -> None:
        low, high = min(row[name] for row in kernel), max(row[name] for row in kernel)
        assert low / (1 + margin) <= np.median(values) <= high * (1 + margin), name

    check([result.total["goodput_mbps"] for result in ours], "goodput_mbps", 0.15)
    check([second_half(result, "goodput_mbps") for result in ours], "goodput_mbps_second_half", 0.15)
    check([second_half(result, "srtt_ms") for result in ours], "srtt_ms_second_half", 0.02)
    if scenario == "S4b":  # at 0.1 % the count hangs on when the first loss ends slow start
        check([result.total["retransmitted_packets"] for result in ours], "retransmitted_packets", 0.1)
    assert all(result.total["rtos"] <= 1 for result in ours)
