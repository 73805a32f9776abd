"""Links packet by packet: who arrives, when, and what is lost. Packets are 1500 bytes on the wire."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.networks import MS, Run, S, datagrams, direction, drop_tail, flow, link, network, run

TICK = MS // 10


def one_packet(at: int) -> dict[str, Any]:
    return datagrams(12_000, start=at, stop=at + MS)  # the next one would leave a second later


def arrivals_ms(result: Run, sender: int = 0) -> list[float]:
    """End of each tick in which the receiver got something: an arrival at t shows at most a tick later."""
    return [round(1e3 * t, 1) for t in result.t_s[result.flows["goodput_mbps"][:, sender] > 0]]


def after(t_ms: float) -> Any:
    """Any time up to a tick after t_ms."""
    return pytest.approx(t_ms + 0.05, abs=0.06)


@pytest.mark.parametrize("ordering", ["overtaking", "fifo"])
def test_a_shorter_delay_lets_later_packets_overtake_unless_the_pipe_is_a_fifo(ordering):
    # A leaves at 0 into 100 ms, which become 20 ms at 10 ms; B leaves at 11 ms.
    pipe = link(direction(delay=[[0, 100 * MS], [10 * MS, 20 * MS]], ordering=ordering))
    result = run(network(0.2, [pipe], [one_packet(0), one_packet(11 * MS)]), interval=TICK)
    (a,), (b,) = arrivals_ms(result, 0), arrivals_ms(result, 1)
    assert a == after(100)
    assert b == after(31 if ordering == "overtaking" else 100)


@pytest.mark.parametrize(("interpolate", "expected"), [(True, 570), (False, 520)])
def test_delay_moves_in_steps_or_along_lines(interpolate, expected):
    pipe = link(direction(delay=[[0, 20 * MS], [S, 120 * MS]], interpolate=interpolate))
    result = run(network(1, [pipe], [one_packet(500 * MS)]), interval=TICK)
    assert arrivals_ms(result) == [after(expected)]


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([[0, 1_200_000]], 10),
        # Half is sent in 5 ms; the other half takes 10 ms at half the rate, 2.5 ms at twice the rate.
        ([[0, 1_200_000], [5 * MS, 600_000]], 15),
        ([[0, 1_200_000], [5 * MS, 2_400_000]], 7.5),
        # The rate may be nothing for a while.
        ([[0, 1_200_000], [5 * MS, 0], [50 * MS, 1_200_000]], 55),
        ([[0, 0], [50 * MS, 1_200_000]], 60),
    ],
)
def test_a_change_of_rate_reaches_the_packet_in_service(rates, expected):
    result = run(network(0.1, [link(direction(rates))], [one_packet(0)]), interval=TICK)
    assert arrivals_ms(result) == [after(expected)]


@pytest.mark.parametrize(
    ("mode", "flush", "lost", "first_ms"),
    [
        ("drop", "none", 20, 261),  # 6 ms of service left
        ("drop", "queue", 20 + 11, 266),  # the first to leave after the outage, at 206 ms
        ("drop", "all", 20 + 11 + 5, 266),
        ("hold", "none", 0, 261),
        ("hold", "queue", 11, 265),  # the first that waited
        ("hold", "all", 11 + 5, 265),
    ],
)
def test_an_outage_drops_or_holds_and_flushes_what_it_says(mode, flush, lost, first_ms):
    # A packet every 5 ms from 1 to 296 ms; 10 ms of service and 50 ms of propagation; out from 105 to 205 ms. By then
    # 21 packets have left, 5 have arrived, 5 are on their way and 11 are in the queue, the first 4 ms into its service.
    # 20 more come during the outage.
    outage = {"at": 105 * MS, "duration": 100 * MS, "mode": mode, "flush": flush, "directions": "forward"}
    pipe = link(direction(1_200_000, 50 * MS), None, outage)
    result = run(network(1, [pipe], [datagrams(2_400_000, start=MS, stop=300 * MS)]), interval=TICK)
    arrived = arrivals_ms(result)
    assert arrived[:5] == [after(t) for t in (61, 71, 81, 91, 101)]
    assert [t for t in arrived if 105 < t < 205] == ([] if flush == "all" else [after(t) for t in range(111, 152, 10)])
    assert next(t for t in arrived if t > 205) == after(first_ms)
    assert result.link_totals[0]["lost_packets"] == lost
    assert len(arrived) == 60 - lost
    assert result.link("outage").mean() == pytest.approx(0.1, abs=0.011)


@pytest.mark.parametrize(("directions", "back"), [("forward", True), ("reverse", False), ("both", False)])
def test_an_outage_of_one_direction_spares_the_other(directions, back):
    # All of the first window arrives at 25 ms, before the outage; its acknowledgements would be back at 50 ms.
    outage = {"at": 30 * MS, "duration": 60 * MS, "mode": "drop", "flush": "all", "directions": directions}
    pipe = link(direction(None, 25 * MS), direction(None, 25 * MS), outage)
    result = run(network(0.08, [pipe], [flow("reno")]), interval=10 * MS)
    assert result.total["received_bytes"] == 10 * 1448
    assert (result.flow("delivery_mbps").sum() > 0) == back


def test_a_queue_of_bytes_takes_what_still_fits_and_a_queue_of_packets_counts():
    # No rate, so 100 packets meet a queue that fills to its limit and not beyond.
    for queue in (drop_tail(7_500), {"kind": "drop_tail_packets", "limit": 5}):
        result = run(network(0.0995, [link(direction([[0, 0]], queue=queue))], [datagrams(12_000_000)]))
        assert result.link_totals[0]["queue_bytes_max"] == 7_500
        assert result.link_totals[0]["dropped_packets"] == 100 - 5
    result = run(network(0.0995, [link(direction([[0, 0]], queue=drop_tail(7_499)))], [datagrams(12_000_000)]))
    assert result.link_totals[0]["queue_bytes_max"] == 6_000


@pytest.mark.parametrize(
    ("threshold", "probability", "limit", "held"),
    [
        (3_000, 1.0, 36_000, 3_000 + 1_500),  # a backlog of exactly the threshold still lets one in
        (2_999, 1.0, 36_000, 3_000),
        (3_000, 0.0, 36_000, 36_000),
        (3_000, 0.0, 35_999, 34_500),
    ],
)
def test_the_viasat_queue_drops_above_its_threshold_and_at_its_limit(threshold, probability, limit, held):
    queue = {"kind": "viasat", "limit": limit, "threshold": threshold, "drop_probability": probability}
    result = run(network(0.0995, [link(direction([[0, 0]], queue=queue))], [datagrams(12_000_000)]))
    assert result.link_totals[0]["queue_bytes_max"] == held
    assert result.link_totals[0]["dropped_packets"] == 100 - held // 1500


def test_the_viasat_queue_drops_a_quarter_above_its_threshold():
    queue = {"kind": "viasat", "limit": 10**9, "threshold": 0, "drop_probability": 0.25}
    result = run(network(40, [link(direction([[0, 0]], queue=queue))], [datagrams(12_000_000)]))
    assert result.link_totals[0]["dropped_packets"] / 40_000 == pytest.approx(0.25, abs=0.01)


def test_gilbert_elliott_loses_its_share_in_bursts():
    # 10 % of the time bad: 0.1 x 0.8 + 0.9 x 0.01 lost. A bad spell lasts 50 ms = 50 packets.
    loss = {
        "kind": "gilbert_elliott",
        "good_loss": 0.01,
        "bad_loss": 0.8,
        "to_bad_per_s": 2.0 + 2 / 9,
        "to_good_per_s": 20,
    }
    result = run(network(400, [link(direction(loss=loss))], [datagrams(12_000_000)]), interval=5 * MS)
    lost = result.link("lost_packets")
    assert lost.sum() / 400_000 == pytest.approx(0.1 * 0.8 + 0.9 * 0.01, rel=0.08)
    bad = lost >= 2  # of 5 packets: 99 % of the intervals in the bad state, 0.1 % in the good
    assert bad.mean() == pytest.approx(0.1, rel=0.12)
    spells = np.count_nonzero(np.diff(bad.astype(int)) == 1)
    assert spells / 400 == pytest.approx(2, rel=0.2)
