"""Pairs of cities over one shell of satellites."""

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.eval import suites
from orbitcc.eval.suites.constellation import FROM_S, link_utilisation

CITIES = ("London", "New York", "Singapore", "Cape Town", "Tokyo")


@pytest.fixture(scope="module")
def small():
    return scenarios.get("constellation", cities=CITIES, pairs=10, duration_s=40.0)


def kind_of(link):
    name = link.name
    return "up" if name.startswith("up ") else "down" if name.startswith("down ") else ">" if ">" in name else "~"


def test_paths_lead_from_city_to_city_and_back(small):
    assert len(small.flows) == 10
    for flow in small.flows:
        source, target = flow.name.split(" - ")
        for way in (flow, *flow.reroutes):
            for path, ends in ((way.path, (source, target)), (way.return_path, (target, source))):
                names = [small.links[k].name for k in path]
                assert names[0] == f"up {ends[0]}"
                assert names[1].startswith(f"{ends[0]} ~ ")
                assert names[-1].startswith(f"{ends[1]} ~ ")
                stops = [names[1].split(" ~ ")[1], *(name.split(" > ")[1] for name in names[2:-2])]
                assert [name.split(" > ")[0] for name in names[2:-2]] == stops[:-1]
                assert names[-2] == f"down {stops[-1]}"
                assert names[-1].endswith(f" ~ {stops[-1]}")


def test_links_have_the_rates_and_queues_of_hypatia(small):
    for link in small.links:
        if kind_of(link) == "~":
            assert link.rate_mbps is None
        else:
            assert (link.rate_mbps, link.queue.limit_packets) == (10.0, 100)


def test_the_base_rtt_is_the_way_there_and_back(small):
    # London - New York, 5,570 km of great circle: light in vacuum takes 37.2 ms there and back.
    flow = small.flow_names.index(next(n for n in small.flow_names if set(n.split(" - ")) == {"London", "New York"}))
    for t_s in (0.0, 20.0, 39.0):
        assert 40.0 < small.base_rtt_ms(flow, t_s) < 62.0


def test_flows_meet_where_their_routes_do(small):
    recording = simulate(small)
    goodput = recording.flows["goodput_mbps"][20:].mean(axis=0)
    assert (goodput > 0.2).all()
    # Two flows leave every city over its uplink, and none may send more than 10 Mbit/s.
    for city in CITIES:
        own = [k for k, name in enumerate(small.flow_names) if name.startswith(f"{city} - ")]
        assert len(own) == 2
        assert goodput[own].sum() < 10.0
    assert link_utilisation(recording, FROM_S).max() > 0.9
    np.testing.assert_allclose(
        recording.flows["base_rtt_ms"][29], [small.base_rtt_ms(k, 30.0) for k in range(10)], atol=0.05
    )


def test_a_new_satellite_interrupts_packets_of_its_city():
    given = {"cities": CITIES, "pairs": 10, "duration_s": 60.0, "selection": "elevation"}
    for mode in ("drop", "hold"):
        found = scenarios.get("constellation", interruption=mode, **given)
        interrupted = [link for link in found.links if link.outages]
        assert interrupted
        assert {kind_of(link) for link in interrupted} == {"~"}
        starts = {reroute.at_s for flow in found.flows for reroute in flow.reroutes}
        for outage in (outage for link in interrupted for outage in link.outages):
            assert 45 <= outage.duration_ms <= 120
            assert outage.mode == mode
            assert outage.at_s in starts
    assert not any(link.outages for link in scenarios.get("constellation", **given).links)


def test_cities_that_the_shell_does_not_serve_are_left_out_or_refused():
    # Reykjavik and Oulu lie 64 and 65 degrees north.
    default = scenarios.get("constellation", pairs=66, duration_s=16.0)
    sources = {name.split(" - ")[0] for name in default.flow_names}
    assert "Oulu" not in sources
    assert len(sources) > 55
    with pytest.raises(OrbitccError, match="cities: 'Oulu' .*places that starlink1 serves all the time"):
        scenarios.get("constellation", cities=("London", "Oulu"), pairs=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cities": ("London",)}, "cities: .*two different places or more"),
        ({"cities": ("London", "London")}, "cities: .*two different places or more"),
        ({"cities": ("London", "Atlantis")}, "cities.1: unknown place 'Atlantis'"),
        ({"pairs": 0}, "pairs: 0 is not allowed"),
        ({"selection": "lowest"}, "selection: 'lowest' is not allowed"),
        ({"buffer_packets": 0}, "buffer_packets: 0 is not allowed"),
    ],
)
def test_wrong_parameters_are_named(given, message):
    with pytest.raises(OrbitccError, match=message):
        scenarios.get("constellation", **given)


def test_the_suite_measures_what_a_recording_shows():
    suite = suites.get("constellation-sharing", {"cities": CITIES, "pairs": 10})
    case = suite.case({"selection": "sticky", "pairs": 10}, 1)
    measured = suite.measure(case, simulate(case.scenario))
    assert 1.0 < measured["goodput_mbps"] < 5.0
    assert measured["slowest_mbps"] < measured["goodput_mbps"]
    assert 1.0 < measured["delay_inflation"] < 4.0
    assert 0.5 < measured["hot_utilisation"] <= 1.0
    assert 0.2 < measured["after_reroute"] < 1.5
    assert 0.0 < measured["retransmission_rate"] < 0.2
