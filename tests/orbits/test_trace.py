"""Path traces, and the links made from them."""

import json

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.links import Outage
from orbitcc.envs.description.queues import DropTailPackets
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.orbits.trace import JUMP_S, Capacity, PathTrace, Slot, steps


def trace(**given):
    """20 s: 10 ms up to 15 s, growing by 0.1 ms/s, then 20 ms; the reverse delay is 1 ms longer."""
    values = {
        "name": "test",
        "t_s": [0, 15 - JUMP_S, 15, 20],
        "forward_ms": [10, 11.5, 20, 20],
        "reverse_ms": [11, 12.5, 21, 21],
        "slots": (Slot(0.0, nodes=("a", "s1", "b")), Slot(15.0, access_fwd_change=True, nodes=("a", "s2", "s1", "b"))),
        **given,
    }
    return PathTrace(**values)


def test_delays_lie_on_lines_and_jump_at_slot_edges():
    assert trace().base_rtt_ms([0, 5, 14.999999, 15, 20]) == pytest.approx([21, 22, 24, 41, 41], abs=1e-6)
    forward, reverse = trace().delays_ms(10.0)
    assert (forward, reverse) == (pytest.approx(11), pytest.approx(12))


def test_the_simulator_plays_a_trace_exactly():
    link = trace().link(rate_mbps=1000, queue=DropTailPackets(limit_packets=100))
    flow = Flow(controller="udp", traffic={"kind": "cbr", "rate_mbps": 1})
    scenario = Scenario(name="x", duration_s=20, links=(link,), flows=(flow,), sim={"noise": False})
    recording = simulate(scenario, record_interval_s=0.01)  # sampled a nanosecond before the end of each interval
    expected = trace().base_rtt_ms(recording.t_s - 1e-9)
    assert recording.flows["base_rtt_ms"][:, 0] == pytest.approx(expected, abs=1e-5)


def test_a_link_says_what_the_slots_say():
    slots = (
        Slot(0.0),
        Slot(3.0, mid_change=True, loss=0.01),
        Slot(5.0, access_rev_change=True, interruption_ms=80.0),
        Slot(9.0, outage=True),
        Slot(12.0, outage=True),
        Slot(15.0, access_fwd_change=True, interruption_ms=100.0, interruption_mode="hold"),
    )
    link = trace(slots=slots).link(flush="all")
    assert [(h.at_s, h.duration_ms) for h in link.handovers] == [
        (3, 0), (5, 80), (9, pytest.approx(3000)), (12, pytest.approx(3000)), (15, 100)
    ]  # fmt: skip
    assert [(o.at_s, round(o.duration_ms, 2), o.mode, o.flush) for o in link.outages] == [
        (5, 80, "drop", "all"), (9, 6000, "drop", "all"), (15, 100, "hold", "none")
    ]  # fmt: skip
    assert link.loss == ((0, 0), (3, 0.01), (5, 0), (9, 0), (12, 0), (15, 0))
    assert link.reverse.loss == link.loss


def test_outages_of_a_link_never_overlap():
    slots = (
        Slot(0.0, interruption_ms=2e3),
        Slot(1.0, interruption_ms=2e3, interruption_mode="hold"),
        Slot(1.5, interruption_ms=5e3, interruption_mode="hold"),
        Slot(4.0, outage=True),
        Slot(6.5, interruption_ms=50),
    )
    link = trace(slots=slots).link(rate_mbps=5)
    assert [(o.at_s, round(o.duration_ms, 1), o.mode) for o in link.outages] == [
        (0, 1000, "drop"), (1, 3000, "hold"), (4, 2550, "drop")
    ]  # fmt: skip
    type(link)(**{k: getattr(link, k) for k in type(link).model_fields})  # every check passes
    assert all(isinstance(o, Outage) for o in link.outages)


def test_a_links_rates_come_from_the_trace_unless_they_are_given():
    own = trace(capacity=Capacity([0, 10], [50, 0], [5, 6]))
    link = own.link()
    assert link.rate_mbps == ((0, 50), (10, 1e-3))  # nothing passes: the least rate there is
    assert link.reverse.rate_mbps == ((0, 5), (10, 6))
    assert own.link(rate_mbps=20).rate_mbps == 20
    assert own.link(rate_mbps=20).reverse.rate_mbps == 20
    assert own.link(rate_mbps=20, return_rate_mbps=2).reverse.rate_mbps == 2
    assert (trace().link().rate_mbps, trace().link().reverse.rate_mbps) == (None, None)
    with pytest.raises(OrbitccError, match="rate_mbps: -1"):
        trace().link(rate_mbps=-1)


def test_interruptions_are_drawn_for_access_changes_that_have_none():
    slots = (
        Slot(0.0),
        Slot(3.0, mid_change=True),
        Slot(5.0, access_rev_change=True, interruption_ms=7.0),
        Slot(9.0, access_rev_change=True),
        Slot(11.0, access_fwd_change=True, outage=True),
        Slot(15.0, access_fwd_change=True, access_rev_change=True, mid_change=True),
    )
    lengths = iter((50, 70, 60))
    drawn = trace(slots=slots).with_interruptions(lambda: next(lengths))
    assert [s.interruption_ms for s in drawn.slots] == [None, None, 7, 50, None, 70]


@pytest.mark.parametrize(
    ("before", "after", "flags"),
    [
        ("a s1 s2 s3 b", "a s1 s2 s3 b", (False, False, False)),
        ("a s1 s2 s3 b", "a s2 s3 b", (True, False, True)),
        ("a s1 s2 s3 b", "a s1 s9 s3 b", (False, False, True)),
        ("a s1 b", "a s2 b", (True, True, False)),
    ],
)
def test_the_flags_of_a_slot_compare_hops(before, after, flags):
    slot = Slot(5.0, nodes=tuple(after.split())).after(tuple(before.split()))
    assert (slot.access_fwd_change, slot.access_rev_change, slot.mid_change) == flags


def test_a_trace_is_cut_and_repeated():
    own = trace(capacity=Capacity([0, 10], [50, 10], [5, 6]))
    assert own.lasting(20) is own
    short = own.lasting(9)
    assert (short.duration_s, len(short.slots), short.capacity.t_s.tolist()) == (9, 1, [0])
    assert short.base_rtt_ms(9.0) == own.base_rtt_ms(9.0)
    long = own.lasting(50)
    assert long.duration_s == pytest.approx(50)
    assert long.base_rtt_ms([1, 21, 41, 19, 39]) == pytest.approx(own.base_rtt_ms([1, 1, 1, 19, 19]), abs=1e-6)
    assert [s.start_s for s in long.slots] == [0, 15, 20, 35, 40]
    assert long.slots[2].access_fwd_change  # back on the first route
    assert not long.slots[2].access_rev_change
    assert long.capacity.t_s.tolist() == [0, 10, 20, 30, 40]


def test_a_rest_that_ends_beside_a_point_adds_no_second_one():
    """60 s - 59.9 s is 1.4e-15 s more than 0.1 s, where the delay, the route and the rate change."""
    t, ms = np.round(np.arange(0, 59.9, 0.1), 9), np.tile([10.0, 20.0], 300)[:599]
    knots, forward = steps(t, ms, end_s=59.9)
    slots = tuple(Slot(k, mid_change=k > 0) for k in t.tolist())
    own = PathTrace("test", knots, forward, forward, slots, Capacity(t, ms, ms))
    for long in (own.lasting(60), own.lasting(120), own.lasting(59.9).since(0.1 - 1e-15).lasting(600)):
        assert np.diff(long.t_s).min() > 0.4e-6
        assert np.diff(long.capacity.t_s).min() > 0.09
        assert np.diff([s.start_s for s in long.slots]).min() > 0.09
    again = own.lasting(60)
    assert (again.duration_s, again.slots[-1].start_s, again.capacity.t_s[-1]) == (60, 59.9, 59.9)
    assert again.base_rtt_ms([0.05, 0.15, 59.85, 59.95]).tolist() == [20, 40, 20, 20]
    late = own.since(0.1 - 1e-15)
    assert (late.slots[0].mid_change, late.slots[1].start_s) == (True, pytest.approx(0.1))
    assert late.base_rtt_ms([0, 0.05]).tolist() == [40, 40]


def test_statistics_are_those_of_the_series():
    slots = (*trace().slots, Slot(16.0, outage=True))
    found = trace(slots=slots).statistics()
    rtt = [21 + 0.2 * t for t in range(15)] + [41]
    assert found.rtt_ms == pytest.approx(tuple(np.percentile(rtt, (0, 5, 50, 95, 100))), abs=1e-5)
    assert (found.rtt_mean_ms, found.rtt_sd_ms) == (pytest.approx(np.mean(rtt)), pytest.approx(np.std(rtt)))
    assert (found.changes, found.access_changes, found.mean_interval_s) == (1, 1, 20)
    assert found.jump_ms == pytest.approx((17, 17, 17), abs=1e-5)
    assert found.slope_ms_per_s == pytest.approx((0.2, 0.2, 0.2), abs=1e-5)
    assert (found.hops, found.outage_share) == ((2, 3), pytest.approx(0.2))


@pytest.mark.parametrize(("apart_s", "step_ms"), [(JUMP_S, 17), (1e-3, 17), (1e-2, 17), (1.0, 0)])
def test_rows_a_few_milliseconds_apart_are_a_step_and_a_ramp_is_none(apart_s, step_ms):
    found = trace(t_s=[0, 15 - apart_s, 15, 20]).statistics()
    assert found.jump_ms == pytest.approx([step_ms] * 3, abs=1e-4)


def test_a_trace_without_changes_has_statistics_too():
    found = PathTrace("calm", [0, 10], [5, 5], [5, 5]).statistics()
    assert (found.rtt_ms, found.changes, found.mean_interval_s, found.hops) == ((10,) * 5, 0, float("inf"), None)
    assert np.isnan(found.jump_ms).all()


def test_steps_hold_their_value():
    t, forward, reverse = steps([0, 1, 2, 3], [5, 5, 7, 7], [6, 6, 6, 8], end_s=4)
    assert t.tolist() == [0, 2 - JUMP_S, 2, 3 - JUMP_S, 3, 4]
    assert forward.tolist() == [5, 5, 7, 7, 7, 7]
    assert reverse.tolist() == [6, 6, 6, 6, 8, 8]


def test_a_trace_compiles_to_whole_nanoseconds():
    flow = Flow(controller="cubic")
    scenario = Scenario(name="x", duration_s=20, links=(trace().link(),), flows=(flow,))
    delay = json.loads(scenario.compile())["links"][0]["forward"]["delay"]
    assert delay == {
        "interpolate": True,
        "points": [[0, 10**7], [14_999_999_000, 11_500_000], [15 * 10**9, 2 * 10**7], [20 * 10**9, 2 * 10**7]],
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"t_s": [1, 5, 8, 20]}, r"t_s: \[1.0\] is not allowed; allowed: times from 0 on"),
        ({"t_s": [0, 15, 15, 20]}, "t_s.2: 15.0 .* later than 15 s"),
        ({"t_s": [0, 5, float("nan"), 20]}, "t_s.2: NaN"),
        ({"forward_ms": [1, 2, 3]}, "forward_ms: '3 values' .* 4, one per time"),
        ({"reverse_ms": [1, 2, -3, 4]}, r"reverse_ms.2: -3.0 .* \[0, 60000\] ms"),
        ({"forward_ms": [1, 2, float("inf"), 4]}, "forward_ms.2: inf"),
        ({"t_s": [0], "forward_ms": [1], "reverse_ms": [1]}, "t_s: .* at least two times"),
        ({"slots": ()}, "slots: .* slots from 0 on"),
        ({"slots": (Slot(0.0), Slot(20.0))}, "slots.1.start_s: 20.0 .* before 20 s"),
        ({"slots": (Slot(0.0), Slot(4.0, loss=2.0))}, r"slots.1.loss: 2.0 .* \[0, 1\]"),
        ({"slots": (Slot(0.0), Slot(4.0, interruption_ms=-1.0))}, "slots.1.interruption_ms: -1.0"),
    ],
)
def test_a_wrong_trace_is_named(given, says):
    with pytest.raises(OrbitccError, match=says):
        trace(**given)


def test_a_wrong_capacity_is_named():
    with pytest.raises(OrbitccError, match="forward_mbps.1: -5.0"):
        Capacity([0, 1], [5, -5], [1, 1])
    with pytest.raises(OrbitccError, match="capacity.t_s: 25.0 .* before the end, 20 s"):
        trace(capacity=Capacity([0, 25], [5, 5], [1, 1]))
