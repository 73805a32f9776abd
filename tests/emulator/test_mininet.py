"""Mininet over emulated links."""

import re

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from tests.commands.shell import orbitcc

pytestmark = [pytest.mark.mininet, pytest.mark.usefixtures("leaves_nothing")]


def pings(node, address, count=10):
    said = node.cmd(f"ping -n -i 0.05 -W 2 -c {count} {address}")
    return [float(ms) for ms in re.findall(r"time=([0-9.]+) ms", said)]


def median(values):
    assert values
    return sorted(values)[len(values) // 2]


def test_a_link_between_two_hosts_delays_loses_and_breaks():
    from mininet.net import Mininet

    from orbitcc.emulator.mininet import EmulatedLink

    Mininet.inited = True
    net = Mininet(controller=None)
    try:
        a, b = net.addHost("a", ip="10.0.0.1/24"), net.addHost("b", ip="10.0.0.2/24")
        link = net.addLink(a, b, cls=EmulatedLink, rate_mbps=10, delay_ms=12, loss=0.3, seed=4)
        net.start()
        times = pings(a, "10.0.0.2", 40)
        assert 24 <= median(times) < 40
        assert 10 <= len(times) < 40
        net.configLinkStatus("a", "b", "down")
        assert not pings(a, "10.0.0.2", 2)
        net.configLinkStatus("a", "b", "up")
        link.restart()
        assert pings(a, "10.0.0.2", 20)
        assert link.report()["lateness"]["packets"] > 0
        with pytest.raises(OrbitccError, match="rate_mbps"):
            net.addLink(a, b, cls=EmulatedLink, rate_mbps=-1)
    finally:
        net.stop()


def test_a_scenario_becomes_hosts_routers_and_routes():
    from orbitcc.emulator.mininet import emulated, network

    given = scenarios.get("parking-lot")
    net = network(given)
    try:
        assert len(list(emulated(net))) >= len(given.links)
        for i in (0, 1):
            times = pings(net[f"s{i}"], f"10.1.{i}.1")
            assert len(times) == 10
            assert given.base_rtt_ms(i) <= median(times) < given.base_rtt_ms(i) + 15
    finally:
        net.stop()


def test_paths_that_mininet_cannot_have_are_refused_by_name():
    from orbitcc.emulator.mininet import network

    given = scenarios.get("dumbbell")
    flow = given.flows[0]
    rerouted = given.with_flows([flow.changed(reroutes=({"at_s": 1.0, "path": (0,)},))])
    with pytest.raises(OrbitccError, match=r"flows.0.reroutes"):
        network(rerouted)
    with pytest.raises(OrbitccError, match=r"flows.0.path"):
        network(given.with_flows([flow.changed(path=(0, 0))]))


def test_the_command_runs_a_script_of_mininet_commands(tmp_path):
    script = tmp_path / "commands"
    script.write_text("s0 ping -c 3 -i 0.2 d0\n")
    done = orbitcc("mininet", "dumbbell", "--script", str(script))
    assert done.returncode == 0, done.stderr
    assert "3 received" in done.stdout + done.stderr
    missing = orbitcc("mininet", "dumbbell", "--script", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1
