"""The link `starlink-2026`, queues that drop from the front, and losses that rise with the load."""

import re

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Cbr, Flow
from orbitcc.envs.description.links import GilbertElliott, Link, LoadLoss
from orbitcc.envs.description.queues import DropTailPackets
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.impairments.effects import Effect, Way, impaired
from orbitcc.envs.impairments.series import Series


def test_each_direction_has_its_queue_and_its_losses():
    for way in ("down", "up"):
        (link,) = scenarios.get("starlink-2026", direction=way).links
        down, up = (link, link.reverse) if way == "down" else (link.reverse, link)
        assert (down.queue.kind, down.queue.drop, down.loss) == ("drop_tail_bytes", "front", 1e-4)
        assert up.queue == DropTailPackets(limit_packets=500, drop="front")
        assert up.loss == LoadLoss(full_loss=0.005, tau_ms=1000)
        # The rates vary by the same factor: 118 and 17 Mbit/s are its geometric means.
        rates = [[rate for _, rate in side.rate_mbps] for side in (down, up)]
        assert np.array(rates[0]) / 118 == pytest.approx(np.array(rates[1]) / 17)


def test_every_slot_edge_interrupts_service_and_nothing_is_lost():
    edges, lengths = [], []
    for run in range(1, 40):
        (link,) = scenarios.get("starlink-2026", run=run).links
        edges += np.diff([o.at_s for o in link.outages]).tolist()
        lengths += [o.duration_ms for o in link.outages]
        assert {(o.mode, o.flush, o.directions) for o in link.outages} == {("hold", "none", "both")}
    assert edges == pytest.approx([15] * len(edges), abs=1e-3)
    # As in the example trace of LeoCC.
    assert 58 <= min(lengths) < 60
    assert 132 < max(lengths) <= 134


def _lost_percent(controller, run):
    scenario = scenarios.get("starlink-2026", direction="up", run=run, controller=controller, duration_s=60)
    recording = simulate(scenario)
    return 100 * recording.link_totals[0]["lost_packets"] / recording.flow_totals[0]["sent_packets"]


@pytest.mark.parametrize(("controller", "percent"), [("cubic", 0.2), ("bbr", 0.5), ("leocc", 0.5)])
def test_one_parameter_gives_the_uplink_losses_that_leoreplayer_sets_per_controller(controller, percent):
    lost = np.median([_lost_percent(controller, run) for run in range(1, 6)])
    assert lost == pytest.approx(percent, rel=0.2)


def test_datagrams_behind_a_full_queue_wait_as_long_as_it_takes_to_fill():
    # 100 packets at 10 Mbit/s are 121 ms; at 20 Mbit/s, the rate at which they come, they are half of that.
    def delays(drop):
        queue = DropTailPackets(limit_packets=100, drop=drop)
        link = Link(name="x", rate_mbps=10, delay_ms=5, handovers=(), queue=queue)
        flow = Flow(controller="udp", traffic=Cbr(rate_mbps=20))
        totals = simulate(Scenario(name="x", duration_s=20, links=(link,), flows=(flow,)))
        (of_flow,), (of_link,) = totals.flow_totals, totals.link_totals
        return of_flow["delay_p50_ms"], of_link["dropped_packets"] / of_flow["sent_packets"]

    (tail, tail_share), (front, front_share) = delays("tail"), delays("front")
    assert tail == pytest.approx(5 + 121, abs=2)
    assert front == pytest.approx(5 + 60.6, abs=2)
    assert front_share == pytest.approx(tail_share, abs=1e-3)
    assert front_share == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    "queue",
    [
        {"kind": "codel", "target_ms": 1e4, "interval_ms": 1e4},
        {"kind": "pie", "alpha": 0, "beta": 0},
        {"kind": "red", "limit_bytes": 0, "min_bytes": 0, "max_bytes": 0},
        {"kind": "dualpi2", "alpha_per_s": 0, "beta_per_s": 0, "step_ms": 1e4},
    ],
    ids=lambda queue: queue["kind"],
)
def test_managed_queues_drop_from_the_front_at_their_limit(queue):
    # As above, with 100 packets of 1514 bytes beside the one in service: up to 122.3 ms, or half of it. The average of
    # RED stays below its maximum.
    limit = {key: 151_400 for key in queue if key.endswith("_bytes")} or {"limit_packets": 100}

    def delay_ms(drop):
        link = Link(name="x", rate_mbps=10, delay_ms=5, handovers=(), queue=queue | limit | {"drop": drop})
        flow = Flow(controller="udp", traffic=Cbr(rate_mbps=20))
        return simulate(Scenario(name="x", duration_s=20, links=(link,), flows=(flow,))).flow_totals[0]["delay_p50_ms"]

    assert delay_ms("tail") == pytest.approx(5 + 122.3, abs=2)
    assert delay_ms("front") == pytest.approx(5 + 61.2, abs=2)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("queue", {"kind": "fq_codel", "drop": "front"}, "queue.drop: 'front' .*fq_codel always drops from the front"),
        ("queue", {"kind": "fq_codel", "drop": "tail"}, "queue.drop: 'tail' .*from that of its longest queue"),
        ("queue", {"kind": "viasat", "drop": "front"}, "queue.drop: 'front' .*drops the packet that arrives"),
        ("queue", {"kind": "codel", "drop": "middle"}, "queue.drop: 'middle'"),
        ("queue", {"kind": "drop_tail_packets", "limit_packets": 9, "drop": "middle"}, "queue.drop: 'middle'"),
        ("loss", {"kind": "load"}, "loss.full_loss: .*no default"),
        ("loss", {"kind": "load", "full_loss": 2}, r"loss.full_loss: 2 .*\[0, 1\]"),
        ("loss", {"kind": "load", "full_loss": 0.1, "tau_ms": 0}, "loss.tau_ms: 0"),
    ],
)
def test_what_cannot_be_is_refused(field, value, message):
    with pytest.raises(OrbitccError, match=message):
        scenarios.load("dumbbell", {f"links.0.{field}": value})


def test_a_load_needs_a_rate_and_excludes_bursts():
    load = LoadLoss(full_loss=0.1)
    with pytest.raises(OrbitccError, match=re.escape("loss.kind: 'load'")):
        Link(name="x", rate_mbps="unlimited", loss=load)
    bursts = Effect(Way(bursts=GilbertElliott(to_bad_per_s=1, to_good_per_s=9)))
    link = Link(name="x", rate_mbps=10, loss=load)
    with pytest.raises(OrbitccError, match="forward.loss: .*with the load"):
        impaired(link, [bursts])
    # Independent losses add up: 1 - (1 - 0.1) (1 - 0.2).
    assert impaired(link, [Effect(Way(loss=Series.of(0.2)))]).loss == LoadLoss(idle_loss=0.2, full_loss=0.28)
