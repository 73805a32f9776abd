"""Mininet on the simulator's links: a link for `net.addLink`, a topology from a scenario.

    net.addLink(h1, h2, cls=EmulatedLink, rate_mbps=50, delay_ms=[[0, 20], [15, 35]])

Importing this needs Mininet (the extra `emulation`), making a link what `orbitcc doctor` lists for it.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from mininet.link import Intf
from mininet.link import Link as VethLink
from mininet.net import Mininet
from mininet.node import Node
from mininet.topo import Topo

from orbitcc.common.errors import OrbitccError
from orbitcc.emulator import needs, program
from orbitcc.emulator.ports import Ports
from orbitcc.envs.description.flows import Cbr, ControllerSpec, Flow
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.scenario import Scenario

DAY_S = 86_400.0
MOST_FLOWS = 250


class TunIntf(Intf):
    """An end of an emulated link: a TUN device, which has addresses but no MAC."""

    def setMAC(self, macstr: str) -> str:
        return ""

    def updateMAC(self) -> None:
        return None

    def updateAddr(self) -> tuple[str | None, None]:
        return self.updateIP(), None


class EmulatedLink(VethLink):
    """A Mininet link that is one of ours: the first node sends over its forward direction, the second over its reverse.

    Args:
        link: an :class:`orbitcc.envs.description.links.Link`; or its fields by name (`rate_mbps`, `delay_ms`, `queue`,
            `loss`, `outages`, ...), as in a scenario file.
        seed: of losses and jitter.
        duration_s: after so long everything stands still.

    Its clock starts when it is made, and anew with :meth:`restart`. Raises OrbitccError for a field that is not allowed
    and for what the machine lacks (`orbitcc doctor`).
    """

    def __init__(
        self,
        node1: Any,
        node2: Any,
        *,
        link: Link | None = None,
        seed: int = 1,
        duration_s: float = DAY_S,
        **params: Any,
    ) -> None:
        fields = {name: params.pop(name) for name in list(params) if name in Link.model_fields}
        if link is None:
            link = Link.build({"name": "link", **fields})
        elif fields:
            raise OrbitccError("link", sorted(fields), "a Link, or the fields of one, not both")
        lacks = needs.missing("mininet")
        if lacks:
            raise OrbitccError("link", link.name, f"a machine that can emulate: {lacks}")
        # A network needs a flow; this one is never sent.
        flow = Flow(controller=ControllerSpec(name="udp"), traffic=Cbr(rate_mbps=1.0))
        self._network = Scenario(
            name=link.name, duration_s=duration_s, seed=seed, links=(link,), flows=(flow,)
        ).compile()
        self._ports: Ports | None = None
        super().__init__(node1, node2, **{**params, "intf": TunIntf})
        self.restart()

    @classmethod
    def makeIntfPair(
        cls,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Any = None,
        node2: Any = None,
        deleteIntfs: bool = True,
    ) -> tuple[str, str]:
        """The TUN devices."""
        for node, name in ((node1, intfname1), (node2, intfname2)):
            said = node.cmd(f"ip tuntap add dev {name} mode tun && ip link set dev {name} txqueuelen 20000 up")
            if said.strip():
                raise OrbitccError("link", name, f"a TUN device that can be made: {said.strip()}")
        return intfname1, intfname2

    def restart(self) -> None:
        """Begin anew at time 0, without a packet."""
        self.report()
        binary = program.find()
        assert binary is not None
        places = [
            {"namespace": f"/proc/{intf.node.pid}/ns/net", "device": intf.name} for intf in (self.intf1, self.intf2)
        ]
        self._ports = Ports(binary, self._network, places, f"link {self}")

    def report(self) -> dict[str, Any] | None:
        """Stop, and tell how punctual it was; None if it was not running."""
        ports, self._ports = self._ports, None
        return None if ports is None else ports.finish()

    def stop(self) -> None:
        self.report()
        super().stop()

    def delete(self) -> None:
        self.report()
        super().delete()


class Router(Node):
    """A host that forwards."""

    def config(self, **params: Any) -> Any:
        result = super().config(**params)
        self.cmd("sysctl -w net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0")
        return result


class ScenarioTopo(Topo):
    """A scenario's network as Mininet knows it: hosts s0, d0 (sender and receiver of the first flow), s1, d1, ...,
    routers r0, r1, ... where links meet, and an :class:`EmulatedLink` for every link.

    The flows themselves are not started: run your own programs on the hosts. Senders are 10.0.i.1, receivers 10.1.i.1.

    Raises:
        OrbitccError: a flow changes its path, comes twice to the same place, or there are more than 250 flows.
    """

    def build(self, scenario: Scenario) -> None:
        self.routes = _routes(scenario)
        junctions = _junctions(scenario)
        for number in sorted(set(junctions.values())):
            self.addHost(f"r{number}", cls=Router, ip=None)
        for k, link in enumerate(scenario.links):
            self.addLink(
                f"r{junctions[k, 0]}",
                f"r{junctions[k, 1]}",
                cls=EmulatedLink,
                link=link,
                seed=scenario.seed + k,
                intfName1=f"l{k}-in",
                intfName2=f"l{k}-out",
            )
        for i, flow in enumerate(scenario.flows):
            first, last = scenario.path_of(i)[0], scenario.path_of(i)[-1]
            for side, (name, junction) in enumerate(((f"s{i}", junctions[first, 0]), (f"d{i}", junctions[last, 1]))):
                self.addHost(name, ip=f"10.{side}.{i}.1/30", defaultRoute=f"via 10.{side}.{i}.2")
                delay = flow.uplink_delay_ms if side == 0 else 0.0
                access = {"cls": EmulatedLink, "link": _uplink(delay)} if delay else {"cls": VethLink}
                self.addLink(name, f"r{junction}", params2={"ip": f"10.{side}.{i}.2/30"}, **access)


def _uplink(delay_ms: float) -> Link:
    return Link(name="uplink", rate_mbps=None, delay_ms=delay_ms, reverse=Direction(delay_ms=0.0))


def _junctions(scenario: Scenario) -> dict[tuple[int, int], int]:
    """(link, end) -> the number of the place where it is: the end of a link is the beginning of the next on a path."""
    ends = [(k, end) for k in range(len(scenario.links)) for end in (0, 1)]
    place = {end: end for end in ends}
    for i in range(len(scenario.flows)):
        path = scenario.path_of(i)
        for k, m in itertools.pairwise(path):
            old, new = place[m, 0], place[k, 1]
            place = {end: new if at == old else at for end, at in place.items()}
    numbers = {at: n for n, at in enumerate(dict.fromkeys(place[end] for end in ends))}
    return {end: numbers[place[end]] for end in ends}


def _routes(scenario: Scenario) -> list[tuple[int, str, str]]:
    """(junction, address of a host, device that leads to it)."""
    if len(scenario.flows) > MOST_FLOWS:
        raise OrbitccError("flows", len(scenario.flows), f"at most {MOST_FLOWS} flows in Mininet")
    junctions = _junctions(scenario)
    found = []
    for i, flow in enumerate(scenario.flows):
        if flow.reroutes:
            raise OrbitccError(f"flows.{i}.reroutes", len(flow.reroutes), "one path, in Mininet")
        if flow.return_path is not None:
            raise OrbitccError(f"flows.{i}.return_path", flow.return_path, "the way back over path, in Mininet")
        path = scenario.path_of(i)
        places = [junctions[path[0], 0], *(junctions[k, 1] for k in path)]
        if len(set(places)) < len(places):
            raise OrbitccError(f"flows.{i}.path", path, "a path that comes to no place twice, in Mininet")
        for k in path:
            found.append((junctions[k, 0], f"10.1.{i}.1", f"l{k}-in"))
            found.append((junctions[k, 1], f"10.0.{i}.1", f"l{k}-out"))
    return found


def network(scenario: Scenario) -> Mininet:
    """A Mininet of a scenario, built and routed, all links at time 0; `net.stop()` when done. No switch, no controller.

    Raises:
        OrbitccError: the scenario does not fit, or the machine lacks something.
    """
    lacks = needs.missing("mininet")
    if lacks:
        raise OrbitccError("mininet", scenario.name, f"a machine that can emulate: {lacks}")
    topo = ScenarioTopo(scenario=scenario)
    # Mininet would set limits of the whole machine for thousands of hosts, for good.
    Mininet.inited = True
    net = Mininet(topo=topo, controller=None, build=False)
    try:
        net.start()
        for junction, address, device in topo.routes:
            net[f"r{junction}"].cmd(f"ip route replace {address}/32 dev {device}")
        for link in emulated(net):
            link.restart()
    except BaseException:
        net.stop()
        raise
    return net


def emulated(net: Mininet) -> Iterator[EmulatedLink]:
    """The links of ours in a Mininet."""
    yield from (link for link in net.links if isinstance(link, EmulatedLink))


__all__ = ["EmulatedLink", "Router", "ScenarioTopo", "emulated", "network"]
