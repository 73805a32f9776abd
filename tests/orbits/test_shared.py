"""Routes of many pairs over one shell."""

import itertools
from collections import Counter

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.orbits.constellation import SHELLS
from orbitcc.envs.orbits.routing import PathSpec, find_route
from orbitcc.envs.orbits.shared import SharedRoutes, permuted_pairs

CITIES = ("London", "New York", "Singapore", "Cape Town")
DURATION_S = 100.0


def shared(selection="shortest", cities=CITIES, seed=3, **options):
    given = {"slot_s": 15.0, "min_elevation_deg": 25.0, "shell": SHELLS["starlink1"]} | options
    return SharedRoutes(cities=cities, duration_s=DURATION_S, selection=selection, seed=seed, **given)


@pytest.mark.parametrize("selection", ["shortest", "elevation", "sticky"])
@pytest.mark.parametrize(("source", "target"), [(0, 1), (2, 3)])
def test_each_pair_has_the_route_that_it_would_have_alone(selection, source, target):
    """The search for a single path is another one (tests/orbits/test_routing.py)."""
    spec = PathSpec(source=CITIES[source], target=CITIES[target], selection=selection)
    alone = find_route(spec, DURATION_S, seed=3)
    found = shared(selection).slots([(source, target)])
    assert [slot.start_s for slot in found] == pytest.approx([leg.start_s for leg in alone.legs])
    assert [slot.routes[0] for slot in found] == [leg.nodes[1:-1] for leg in alone.legs]


def test_delays_add_up_to_the_length_of_the_route():
    spec = PathSpec(source=CITIES[0], target=CITIES[2])
    trace = find_route(spec, DURATION_S, seed=3).trace()
    routes = shared()
    slot = routes.slots([(0, 2)])[2]
    nodes = slot.routes[0]
    hops = [routes.access_ms(0, nodes[0]), routes.access_ms(2, nodes[-1])]
    hops += [routes.hop_ms(one, other) for one, other in itertools.pairwise(nodes)]
    for at_s in np.linspace(slot.start_s + 0.1, slot.start_s + 14.9, 20):
        ms = sum(np.interp(at_s, routes.knots_s, delay) for delay in hops)
        # A microsecond for each hop, as the points of the delays allow.
        assert ms == pytest.approx(trace.delays_ms(at_s)[0], abs=1e-3 * len(hops))


def test_places_without_a_satellite_are_known():
    # 53 degrees of inclination: a satellite 25 degrees above the horizon is at most 8 degrees of arc away.
    assert shared(cities=("London", "78.2,15.6", "Singapore")).unserved() == ["78.2,15.6"]
    assert shared().unserved() == []


def test_a_pair_without_a_route_is_an_error():
    with pytest.raises(OrbitccError, match=r"cities: 'London and 78.2,15.6' .*places with a route at 0 s"):
        shared(cities=("London", "78.2,15.6")).slots([(0, 1)])


@pytest.mark.parametrize("count", [1, 7, 100, 300])
def test_pairs_are_permutations(count):
    pairs = permuted_pairs(20, count, seed=5)
    assert len(pairs) == count
    assert all(source != target for source, target in pairs)
    assert len(set(pairs)) == count
    for ends in zip(*pairs, strict=True):
        times = Counter(ends).values()
        assert max(times) - (min(times) if len(times) == 20 else 0) <= 1
    assert permuted_pairs(20, count, seed=6) != pairs or count == 1
