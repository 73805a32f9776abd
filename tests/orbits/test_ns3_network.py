"""The networks that `python -m benches.constellation_ns3` gives to ns-3, without ns-3."""

import pytest

from benches import constellation_ns3, hypatia
from benches.ns3_network import Carried, Network
from orbitcc.envs import scenarios
from orbitcc.envs.description.flows import ControllerSpec, Flow, Reroute
from orbitcc.envs.description.links import Direction, Link, Outage
from orbitcc.envs.description.queues import DropTailPackets
from orbitcc.envs.description.scenario import Scenario

UNUSED = Direction(rate_mbps=None)


def link(name, **fields):
    queue = DropTailPackets(limit_packets=50)
    return Link(**{"name": name, "rate_mbps": 8, "delay_ms": 10.0, "queue": queue, "reverse": UNUSED, **fields})


def three_nodes():
    """From a over b to c and, from 2 s on, straight to c; acknowledgements always over b."""
    moving = {"delay_ms": ((0.0, 20.0), (3.0, 26.0)), "interpolate_delay": True}
    lost = Outage(at_s=1.5, duration_ms=500)
    links = (
        link("a > b", **moving), link("b > c"), link("c > b", outages=(lost,)), link("b > a", **moving), link("a > c"),
    )  # fmt: skip
    reroute = Reroute(at_s=2.0, path=("a > c",), return_path=("c > b", "b > a"))
    flow = Flow(
        controller=ControllerSpec(name="reno"), path=("a > b", "b > c"), return_path=("c > b", "b > a"),
        reroutes=(reroute,), start_s=0.5,
    )  # fmt: skip
    return Scenario(name="three", duration_s=3, links=links, flows=(flow,))


def test_the_file_has_every_link_flow_and_change():
    # Delays of a > b: 21 ms in the middle of the first second, then 23 and 25 ms. A link of ns-3 leads both ways.
    assert Network(three_nodes()).text().splitlines() == [
        "segment 1448",
        "nodes 3",
        "link 0 1 8 50 21000000",
        "link 2 1 8 50 10000000",
        "link 0 2 8 50 10000000",
        "flow 0 2 0.5",
        "route 0 0 2 1",
        "route 0 1 2 2",
        "route 0 2 0 1",
        "route 0 1 0 0",
        "route 2 0 2 2",
        "route 2 2 0 1",
        "route 2 1 0 0",
        "delay 1 0 1 23000000",
        "delay 2 0 1 25000000",
        "outage 1.5 2 2 1",
    ]


def test_results_are_read_and_kept(tmp_path):
    network, file = Network(three_nodes()), tmp_path / "three.txt"
    file.write_text(network.text())
    # Bytes up to 1, 2 and 3 s; what goes from c to a is on no link of the scenario.
    lines = "flow 0 0 1000000 1500000", "link 0 1 125000 250000 250000", "link 2 1 0 0 12500", "link 2 0 9 9 9"
    file.with_suffix(".out").write_text("\n".join(lines) + "\n")
    carried = network.run(tmp_path / "not there", 1.0, file)
    assert carried.goodput_mbps[:, 0].tolist() == [0, 8, 4]
    assert carried.link_mbps.T.round(6).tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0.1], [0, 0, 0], [0, 0, 0]]
    file.write_text("another network")
    with pytest.raises(FileNotFoundError):
        network.run(tmp_path / "not there", 1.0, file)


def test_the_routes_of_a_constellation_lead_to_their_ends():
    network = Network(scenarios.get("constellation", cities=("London", "Tokyo", "Lagos"), pairs=3, duration_s=20.0))
    lines = [line.split() for line in network.text().splitlines()]
    links = {frozenset(line[1:3]) for line in lines if line[0] == "link"}
    hops = {(node, target): after for kind, at, node, target, after in (line for line in lines if len(line) == 5)
            if kind == "route" and at == "0"}  # fmt: skip
    first = {}
    for one, other in (line[1:3] for line in lines if line[0] == "link"):
        first.setdefault(one, other)
        first.setdefault(other, one)
    for source, target in (line[1:3] for line in lines if line[0] == "flow"):
        # A sender's address is that of its first hop, and must be the one that routes lead to: that of its first link.
        assert first[source] == hops[source, target]
        assert first[target] == hops[target, source]
        for here, end in ((source, target), (target, source)):
            passed = [here]
            while passed[-1] != end:
                passed.append(hops[passed[-1], end])
                assert frozenset(passed[-2:]) in links
            names = {str(number): name for name, number in network.nodes.items()}
            assert names[passed[1]] == f"up {names[here]}"
            assert names[passed[-2]] == f"down {names[passed[-3]]}"


def test_unused_bandwidth_is_what_the_busiest_link_between_satellites_leaves(monkeypatch):
    monkeypatch.setattr(constellation_ns3, "INTERVAL_S", 0.5)
    monkeypatch.setattr(constellation_ns3, "DURATION_S", 3.0)
    scenario = three_nodes()
    lost = Outage(at_s=2.5, duration_ms=500)
    links = (*scenario.links[:4], scenario.links[4].changed(outages=(lost,)))
    runs = constellation_ns3.Runs(scenario.changed(links=links), {})
    ab, bc, ac = [4.0, 5, 6, 10.5, 0, 0], [1.0, 7, 1, 1, 9, 9], [0.0, 0, 0, 0, 2, 3]
    rates = [[x, y, 9.0, 9.0, z] for x, y, z in zip(ab, bc, ac, strict=True)]
    unused = runs.unused_mbps(Carried(goodput_mbps=None, link_mbps=constellation_ns3.np.array(rates)))
    assert unused[:5].tolist() == [6, 3, 4, 0, 8]
    assert str(unused[5]) == "nan"  # no path


def test_a_folder_without_hypatia_is_refused(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "missing"):
        with pytest.raises(SystemExit) as stopped:
            constellation_ns3.main([str(tmp_path / folder), str(tmp_path / "out")])
        assert stopped.value.code == 2
        assert f"a clone of snkas/hypatia with its commit {hypatia.COMMIT[:8]}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_pairs_keep_their_route_while_a_city_sees_no_satellite():
    # Saint Petersburg sees none from 155.4 to 165.2 s (tests/orbits/test_hypatia.py); a route needs whole seconds.
    cities = ("59.929858,30.326228", "14.6042,120.9822")
    found = hypatia.scenario(cities, [(0, 1), (1, 0)], 180.0, fixed=False)
    outages = {link.name: link.outages for link in found.links if link.outages}
    assert outages
    assert all(name.startswith(f"{cities[0]} ~ ") for name in outages)
    assert {(outage.at_s, outage.duration_ms) for (outage,) in outages.values()} == {(154.0, 12_000.0)}
    assert not [way.at_s for flow in found.flows for way in flow.reroutes if 154 <= way.at_s < 166]
