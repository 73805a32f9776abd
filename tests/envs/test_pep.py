"""A proxy that splits a connection, in scenarios: checked, kept in files, run, named where it is not supported."""

import gymnasium
import pytest

import orbitcc
from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario

LINKS = [
    {"name": "access", "rate_mbps": 1000.0, "delay_ms": 20.0},
    {"name": "satellite", "rate_mbps": 1000.0, "delay_ms": 300.0},
]
SERVER = {"name": "server", "controller": "reno", "path": ["access"], "traffic": {"kind": "bytes", "bytes": 70 * 1448}}
CLIENT = {
    "name": "client",
    "controller": "reno",
    "path": ["satellite"],
    "pep": {"of": "server", "buffer_bytes": 1_000_000},
}

SIM = {"noise": False, "rmem_bytes": [4096, 2**26, 2**28]}  # no wait for a receive window


def split(*flows):
    return Scenario.build(
        {
            "name": "split",
            "duration_s": 5.0,
            "links": LINKS,
            "flows": flows or (SERVER, CLIENT),
            "sim": SIM,
        }
    )


def test_a_split_download_takes_slow_start_over_the_satellite_link_alone():
    scenario = split()
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert scenario.unsupported("emulator") == ("flows.1.pep",)
    totals = simulate(scenario).flow_totals
    assert [flow["received_bytes"] for flow in totals] == [70 * 1448] * 2
    # 10, 20 and 40 segments: two and a half round trips of 600 ms, after 20 ms to the proxy; and of 640 ms without it.
    assert totals[1]["finished_s"] == pytest.approx(0.02 + 2.5 * 0.6, abs=2e-3)
    whole = split({**SERVER, "path": ["access", "satellite"]})
    assert simulate(whole).flow_totals[0]["finished_s"] == pytest.approx(2.5 * 0.64, abs=2e-3)


def test_two_proxies_in_a_row_pass_everything_on():
    third = {**CLIENT, "name": "home", "path": ["access"], "pep": {"of": 1, "buffer_bytes": 20_000}}
    assert [flow["received_bytes"] for flow in simulate(split(SERVER, CLIENT, third)).flow_totals] == [70 * 1448] * 3


@pytest.mark.parametrize(
    ("flows", "field"),
    [
        ((CLIENT, SERVER), "flows.0.pep.of"),
        ((SERVER, {**CLIENT, "pep": {"of": "sever", "buffer_bytes": 10_000}}), "flows.1.pep.of"),
        ((SERVER, {**CLIENT, "pep": {"of": 0, "buffer_bytes": 100}}), "flows.1.pep.buffer_bytes"),
        ((SERVER, CLIENT, {**CLIENT, "name": "other"}), "flows.2.pep.of"),
        ((SERVER, {**CLIENT, "traffic": {"kind": "bytes", "bytes": 9}}), "flows.1.traffic.kind"),
        (({**SERVER, "traffic": {"kind": "cbr", "rate_mbps": 1.0}}, CLIENT), "flows.1.pep.of"),
        (({**SERVER, "receiver": "divide"}, CLIENT), "flows.1.pep.of"),
        (({**SERVER, "transport": "quic"}, CLIENT), r"flows.1.pep.of: 'server' .* over TCP"),
        ((SERVER, {**CLIENT, "receiver": "optimistic"}), "flows.1.receiver.kind: 'optimistic' .* stretch or divide"),
        (
            (
                SERVER,
                CLIENT,
                {**CLIENT, "name": "home", "pep": {"of": 1, "buffer_bytes": 20_000}, "receiver": "optimistic"},
            ),
            "flows.2.receiver.kind",
        ),
    ],
)
def test_proxies_that_cannot_be_are_named(flows, field):
    with pytest.raises(OrbitccError, match=field):
        split(*flows)


def test_an_optimistic_receiver_behind_a_proxy_needs_bulk_data():
    scenario = split({**SERVER, "traffic": "bulk"}, {**CLIENT, "receiver": "optimistic"})
    assert scenario.flows[1].receiver is not None


def test_only_the_connection_over_the_satellite_link_is_split():
    proxy, whole, sparse = (scenarios.get("geo-pep", connection=c) for c in ("proxy", "end-to-end", "sparse-acks"))
    assert [flow.controller.name for flow in proxy.flows] == ["cubic", "hybla"]
    assert len(whole.flows) == len(sparse.flows) == 1
    assert whole.base_rtt_ms(0) == pytest.approx(proxy.base_rtt_ms(0) + proxy.base_rtt_ms(1))
    assert sparse.flows[0].receiver is not None
    assert sparse.flows[0].receiver.kind == "stretch"


def test_an_agent_drives_the_part_behind_the_proxy():
    env = gymnasium.make("orbitcc/GeoPep-v0", preset="ratios")
    env.reset(seed=1)
    flows = env.unwrapped.scenario.flows
    assert [flow.controller.name for flow in flows] == ["cubic", "external"]
    assert env.step([0.5])[4]["step_rtt_ms"] > 500
    with pytest.raises(OrbitccError, match="a flow that no proxy splits"):
        orbitcc.FlowVectorEnv(2, "geo-pep").reset(seed=1)
