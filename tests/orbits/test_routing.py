"""Routes and their delays, against plain geometry and recorded figures."""

import itertools
import math
import time

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.orbits.constellation import LIGHT_KM_PER_S, SHELLS
from orbitcc.envs.orbits.places import great_circle_km
from orbitcc.envs.orbits.routing import JUMP_S, PathSpec, find_path, find_route

PAIRS = {
    "sd-ny": ("San Diego", "New York"),
    "sea-ny": ("Seattle", "New York"),
    "sd-sea": ("San Diego", "Seattle"),
    "sd-sha": ("San Diego", "Shanghai"),
    "ny-ldn": ("New York", "London"),
}


def spec(pair="sd-ny", **changes):
    source, target = PAIRS[pair]
    return PathSpec(source=source, target=target, **changes)


MODES = [
    ("isl", "shortest"), ("isl", "elevation"), ("isl", "sticky"), ("isl", "random"),
    ("bp", "shortest"), ("bp", "elevation"), ("bp", "sticky"), ("bp", "random"),
    ("bp1", "shortest"), ("bp1", "sticky"),
]  # fmt: skip


@pytest.fixture(scope="module", params=MODES, ids="-".join)
def route(request):
    mode, selection = request.param
    return find_route(spec(mode=mode, selection=selection), 300, seed=3)


# -- the published reference ----------------------------------------------------------------------------------------

# Base RTT min/5/50/95/max in ms, mean interval between changes in s, jump p50/p90/max in ms, hops, of paths of
# `starlink1` over 5700 s, from an independent implementation whose links lead to the same number in the next plane.
REFERENCE = {
    "sd-sha": ((78.8, 78.8, 82.3, 83.7, 84.4), 36.7, (3.5, 4.9, 5.6), (7, 8)),
    "ny-ldn": ((42.3, 42.3, 43.2, 43.8, 44.2), 29.6, (0.9, 1.3, 1.7), (5, 5)),
    "sd-ny": ((32.0, 32.1, 39.5, 40.2, 40.8), 53.5, (0.7, 7.8, 8.3), (4, 5)),
    "sea-ny": ((31.1, 31.1, 31.5, 32.2, 33.7), 55.7, (0.4, 1.7, 2.1), (4, 4)),
}


@pytest.mark.parametrize("pair", REFERENCE)
def test_paths_over_links_to_the_same_number_are_those_of_an_independent_implementation(pair):
    shell = SHELLS["starlink1"].changed(cross_shift=0)
    found = find_path(spec(pair, shell=shell, phase_s=12, raan_deg=0, argument_deg=0), 5700).statistics()
    rtt, interval, jumps, hops = REFERENCE[pair]
    assert found.rtt_ms == pytest.approx(rtt, abs=0.06)
    assert found.mean_interval_s == pytest.approx(interval, rel=0.01)
    assert found.jump_ms == pytest.approx(jumps, abs=0.06)
    assert (found.hops, found.outage_share) == (hops, 0)


@pytest.mark.parametrize(("pair", "median"), [("ny-ldn", 43.0), ("sd-sha", 80.1), ("sd-sea", 15.3)])
def test_paths_over_links_to_the_nearest_in_phase_have_the_reference_median(pair, median):
    found = find_path(spec(pair, phase_s=12, raan_deg=0, argument_deg=0), 3000).statistics()
    assert found.rtt_ms[2] == pytest.approx(median, abs=0.1)


# Ours, recorded: median, 95 % and changes over 1500 s of seed 1. Another list of gateways moves the bent pipes.
RECORDED = {
    ("sd-ny", "isl", "shortest"): (43.346, 46.459, 33),
    ("sd-ny", "bp", "shortest"): (36.982, 39.944, 83),
    ("sd-ny", "bp", "sticky"): (52.849, 61.377, 81),
    ("sea-ny", "bp", "random"): (45.363, 55.345, 100),
    ("sd-sea", "bp", "elevation"): (27.806, 29.972, 74),
    ("sd-sea", "bp1", "shortest"): (16.325, 24.225, 66),
}


@pytest.mark.parametrize("case", RECORDED, ids="-".join)
def test_paths_stay_what_they_were(case):
    pair, mode, selection = case
    found = find_path(spec(pair, mode=mode, selection=selection), 1500, seed=1).statistics()
    median, high, changes = RECORDED[case]
    assert (found.rtt_ms[2], found.rtt_ms[3]) == (pytest.approx(median, abs=1e-3), pytest.approx(high, abs=1e-3))
    assert found.changes == changes


# -- what holds for every route -------------------------------------------------------------------------------------


def test_every_hop_on_the_ground_is_above_the_horizon_at_both_ends_of_its_slot(route):
    network = route.network
    least = math.sin(math.radians(network.spec.min_elevation_deg))
    edges = network.slot_edges(300)
    ups = dict(zip(range(network.source, network.source + len(network.ground)), network.ground_up, strict=True))
    seen = 0
    for leg in route.legs:
        k = np.searchsorted(edges, (leg.start_s + leg.end_s) / 2) - 1
        at = network.positions_km(edges[k : k + 2], leg.nodes)
        for j, (one, other) in enumerate(itertools.pairwise(leg.nodes)):
            if (one < network.source) == (other < network.source):
                continue
            ground, above = (j, j + 1) if one >= network.source else (j + 1, j)
            sight = at[:, above] - at[:, ground]
            sines = sight @ ups[leg.nodes[ground]] / np.linalg.norm(sight, axis=1)
            assert (sines >= least - 1e-12).all()
            seen += 1
    assert seen >= 2 * len(route.legs)


def test_routes_have_the_shape_of_their_mode(route):
    network = route.network
    grid = {tuple(link) for link in network.spec.shell.grid().tolist()}
    for leg in route.legs:
        above = [node < network.source for node in leg.nodes]
        assert (leg.nodes[0], leg.nodes[-1]) == (network.source, network.target)
        assert len(set(leg.nodes)) == len(leg.nodes)
        if network.spec.mode == "isl":
            assert above == [False] + [True] * (len(above) - 2) + [False]
            links = itertools.pairwise(leg.nodes[1:-1])
            assert {tuple(sorted(link)) for link in links} <= grid
        elif network.spec.mode == "bp":  # up, down, up, ... down: an even number of hops
            assert above == [k % 2 == 1 for k in range(len(above))]
            assert len(above) % 2 == 1
        else:
            assert above == [False, True, False, False]


def test_delays_are_the_sum_of_plain_distances(route):
    trace = route.trace()
    network = route.network
    for t in np.linspace(0.3, 299.7, 40):
        leg = route.leg_at(float(t))
        points = [list(network.positions_km(np.array([t]), (node,))[0, 0]) for node in leg.nodes]
        if network.spec.mode == "bp1":
            points.pop()
        total = sum(
            math.sqrt(sum((a - b) ** 2 for a, b in zip(*ends, strict=True))) for ends in itertools.pairwise(points)
        )
        if network.spec.mode == "bp1":
            gateway = network.ground[leg.nodes[-2] - network.source]
            total += 1.5 * 1.5 * great_circle_km(gateway, network.ground[1])
        assert network.length_km(np.array([t]), leg.nodes)[0] == pytest.approx(total, abs=1e-9)
        rtt_ms = 2e3 * total / LIGHT_KM_PER_S
        assert float(trace.base_rtt_ms(t)) == pytest.approx(rtt_ms, abs=1e-3)  # a microsecond


def test_no_path_is_shorter_than_the_great_circle(route):
    source, target = route.network.ground[:2]
    bound_ms = 2e3 * great_circle_km(source, target) / LIGHT_KM_PER_S
    assert route.trace().forward_ms.min() * 2 >= bound_ms


def test_ground_hops_have_the_length_of_their_elevation(route):
    network = route.network
    for leg in route.legs:
        t = np.linspace(leg.start_s, leg.end_s, 16)
        at = network.positions_km(t, leg.nodes)
        for j, (one, other) in enumerate(itertools.pairwise(leg.nodes)):
            if (one < network.source) != (other < network.source):
                delay_ms = np.linalg.norm(at[:, j] - at[:, j + 1], axis=1) / LIGHT_KM_PER_S * 1e3
                assert delay_ms.min() >= 1.834
                assert delay_ms.max() <= 3.9
                assert np.abs(np.diff(delay_ms) / np.diff(t)).max() <= 0.0205


def test_slots_and_flags_follow_the_legs(route):
    trace = route.trace()
    assert [s.start_s for s in trace.slots] == [leg.start_s for leg in route.legs]
    assert (trace.duration_s, trace.slots[0].change) == (300, False)
    phase = route.network.phase_s
    assert all(
        (s.start_s - phase) % 15 == pytest.approx(0, abs=1e-6) or (s.start_s - phase) % 15 == pytest.approx(15)
        for s in trace.slots[1:]
    )
    for before, after in itertools.pairwise(route.legs):
        slot = trace.slot_at(after.start_s)
        assert slot.access_fwd_change == (before.nodes[1] != after.nodes[1])
        assert slot.change == (before.nodes != after.nodes)
        jump = trace.base_rtt_ms(after.start_s) - trace.base_rtt_ms(after.start_s - JUMP_S)
        assert slot.change or abs(jump) < 1e-4


# -- policies -------------------------------------------------------------------------------------------------------


def test_nothing_is_shorter_than_the_shortest():
    for mode in ("isl", "bp"):
        least = find_route(spec(mode=mode, phase_s=0), 300, seed=5)
        for selection in ("elevation", "sticky", "random"):
            other = find_route(spec(mode=mode, selection=selection, phase_s=0), 300, seed=5)
            for one, two in zip(least.legs, other.legs, strict=True):
                middle = np.array([(one.start_s + one.end_s) / 2])
                network = least.network
                assert network.length_km(middle, one.nodes) <= network.length_km(middle, two.nodes) + 1e-6


def test_looking_only_near_the_great_circle_misses_nothing(monkeypatch):
    quick = find_route(spec("sd-sea", mode="bp"), 300, seed=2), find_route(spec("ny-ldn"), 300, seed=2)
    monkeypatch.setattr("orbitcc.envs.orbits.routing._Chooser._shortest", _unbounded)
    assert quick[0].legs == find_route(spec("sd-sea", mode="bp"), 300, seed=2).legs
    assert quick[1].legs == find_route(spec("ny-ldn"), 300, seed=2).legs


def _unbounded(chooser, access, ends, middle):
    return chooser._shortest_within(math.inf, access, ends, middle)[0]


def test_elevation_takes_the_highest_satellite():
    route = find_route(spec(selection="elevation"), 300, seed=4)
    network = route.network
    edges = network.slot_edges(300)
    for k, leg in enumerate(route.legs):
        times = np.array([edges[k], edges[k] + 7.5, edges[k + 1]])
        for end, served in ((0, leg.nodes[1]), (1, leg.nodes[-2])):
            sight = network.satellites_km(times) - network.ground_km[end]
            elevation = np.degrees(np.arcsin(sight @ network.ground_up[end] / np.linalg.norm(sight, axis=2)))
            usable = (elevation[0] >= 25) & (elevation[2] >= 25)
            assert elevation[1, served] == pytest.approx(elevation[1, usable].max())


def test_sticky_keeps_its_satellite_until_it_sets():
    route = find_route(spec("sd-sea", selection="sticky"), 1500, seed=4)
    network = route.network
    edges = network.slot_edges(1500)
    kept = dropped = 0
    for k, (before, after) in enumerate(itertools.pairwise(route.legs), start=1):
        sight = network.satellites_km(edges[k : k + 2], [before.nodes[1]])[:, 0] - network.ground_km[0]
        usable = (sight @ network.ground_up[0] >= math.sin(math.radians(25)) * np.linalg.norm(sight, axis=1)).all()
        kept += before.nodes[1] == after.nodes[1]
        if before.nodes[1] != after.nodes[1]:
            dropped += 1
            assert not usable
    assert kept > 5 * dropped > 0


def test_random_changes_more_often_than_it_must():
    changes = {
        selection: find_path(spec("sd-sea", mode="bp", selection=selection), 1500, seed=4).statistics().access_changes
        for selection in ("sticky", "random")
    }
    assert changes["random"] > 2 * changes["sticky"]


def test_where_there_is_no_route_there_is_an_outage():
    trace = find_path(spec("ny-ldn", mode="bp"), 60, seed=1)  # nobody stands in the Atlantic
    assert all(slot.outage for slot in trace.slots)
    assert trace.statistics().outage_share == 1
    polar = PathSpec(source="Oulu", target="London", shell=SHELLS["starlink1"])  # 65 degrees north
    assert find_path(polar, 60).statistics().outage_share == 1


def test_delays_hold_through_an_outage():
    thin = SHELLS["starlink1"].changed(planes=15, phasing=0)
    trace = find_path(spec("sd-sea", mode="bp", shell=thin), 900, seed=1)
    outages = [s for s in trace.slots if s.outage]
    assert 0 < len(outages) < len(trace.slots)
    for slot, end in zip(trace.slots, trace.ends_s(), strict=True):
        if slot.outage and slot.start_s > 0:
            before = trace.base_rtt_ms(slot.start_s - JUMP_S)
            assert trace.base_rtt_ms([slot.start_s, (slot.start_s + end) / 2]) == pytest.approx(before, abs=1e-9)


# -- seeds and settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["shortest", "random"])
def test_equal_seeds_give_equal_paths_and_others_other_ones(selection):
    chosen = spec(mode="bp", selection=selection)
    assert find_path(chosen, 300, seed=7) == find_path(chosen, 300, seed=7)
    assert find_path(chosen, 300, seed=7) != find_path(chosen, 300, seed=8)


def test_a_longer_path_begins_with_the_shorter_one():
    chosen = spec(mode="bp", selection="random", phase_s=3)
    assert find_route(chosen, 900, seed=2).legs[:20] == find_route(chosen, 300 + 3, seed=2).legs[:20]


def test_start_moves_along_the_orbit():
    fixed = {"raan_deg": 10, "argument_deg": 2, "phase_s": 0}
    late = find_path(spec(start_s=150, **fixed), 150)
    whole = find_path(spec(**fixed), 300)
    t = np.linspace(0.5, 149, 50)
    assert late.base_rtt_ms(t) == pytest.approx(whole.base_rtt_ms(t + 150), abs=1e-9)


def test_coarse_knots_err_by_microseconds():
    fine, coarse = (find_path(spec(knot_s=k), 300, seed=1) for k in (0.1, 5))
    assert coarse.t_s.size < 130
    t = np.linspace(0, 300, 3001)
    assert np.abs(fine.base_rtt_ms(t) - coarse.base_rtt_ms(t)).max() < 0.010
    knots = find_path(spec(knot_s=1), 300, seed=1)
    assert np.abs(fine.base_rtt_ms(t) - knots.base_rtt_ms(t)).max() < 0.001


@pytest.mark.parametrize("phase_s", [0.0, 1e-7, 14.9999999, 12.0])
def test_any_phase_gives_whole_slots(phase_s):
    trace = find_path(spec(phase_s=phase_s), 45, seed=1)
    assert trace.duration_s == 45
    assert len(trace.slots) == (4 if phase_s == 12 else 3)


def test_other_shells_carry_paths():
    for name in ("kuiper1", "leoem"):
        assert find_path(spec(shell=name), 60).statistics().outage_share == 0
    polar = PathSpec(source="Oulu", target="Anchorage", shell="oneweb")
    found = find_path(polar, 60).statistics()
    assert found.outage_share == 0
    assert found.rtt_ms[0] > 2e3 * 6000 / LIGHT_KM_PER_S


def test_a_fresh_path_is_cheap():
    chosen = spec(knot_s=5)
    find_path(chosen, 300, seed=0)
    costs = []
    for seed in range(1, 8):
        start = time.process_time()
        find_path(chosen, 300, seed=seed)
        costs.append(time.process_time() - start)
    assert sorted(costs)[3] <= 0.050


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"source": "Sand Diego"}, "source: unknown place 'Sand Diego'; did you mean 'San Diego'"),
        ({"target": "San Diego"}, "target: 'San Diego' .* a place other than the source"),
        ({"shell": "starlink"}, "shell: unknown name 'starlink'; did you mean 'starlink1'"),
        ({"shell": {"planes": -1}}, "shell.planes: -1"),
        ({"mode": "bent"}, "mode: 'bent' .*'isl', 'bp' or 'bp1'"),
        ({"selection": "best"}, "selection: 'best'"),
        ({"min_elevation_deg": 95}, r"min_elevation_deg: 95 .* \[0, 89\] deg"),
        ({"slot_s": 0.5}, r"slot_s: 0.5 .* \[1, 120\] s"),
    ],
)
def test_a_wrong_setting_is_named(change, says):
    with pytest.raises(OrbitccError, match=says):
        PathSpec(**{"source": "San Diego", "target": "New York", **change})


def test_a_long_path_says_how_much_is_done():
    said = []
    route = find_route(spec(phase_s=0), 300, seed=2, progress=said.append)
    assert said == sorted(said)
    assert (len(said), said[-1]) == (20, 1.0)  # slots of 15 s
    assert find_route(spec(phase_s=0), 300, seed=2).legs == route.legs
