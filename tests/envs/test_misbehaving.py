"""Odd receivers, late packets and small datagrams in scenarios: checked, kept in files, told of by backends."""

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario


def dumbbell(**flow):
    made = scenarios.get("dumbbell", duration_s=5.0)
    return Scenario.build({**made.model_dump(), "flows": [{"controller": "cubic", **flow}]})


@pytest.mark.parametrize("receiver", ["divide", {"kind": "stretch", "segments": 4, "hold_ms": 5.0}, "optimistic"])
def test_odd_receivers_are_kept_in_files_and_run(receiver):
    scenario = dumbbell(receiver=receiver)
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert simulate(scenario).flow_totals[0]["received_bytes"] > 1e6
    assert scenario.unsupported("emulator") == ("flows.0.receiver",)


@pytest.mark.parametrize(
    ("flow", "field"),
    [
        ({"receiver": "greedy"}, "receiver.kind"),
        ({"receiver": {"kind": "divide", "parts": 1}}, "receiver.parts"),
        ({"receiver": "optimistic", "traffic": {"kind": "bytes", "bytes": 1000}}, "receiver.kind"),
        ({"traffic": {"kind": "cbr", "rate_mbps": 1.0, "packet_bytes": 200}}, "traffic.packet_bytes"),
        ({"traffic": {"kind": "objects", "mean_bytes": 2e11}}, "traffic.mean_bytes"),
    ],
)
def test_what_cannot_be_is_named(flow, field):
    with pytest.raises(OrbitccError, match=f"flows.0.{field}"):
        dumbbell(**flow)


def test_voice_has_small_packets_and_percentiles_of_its_delay():
    voice = dumbbell(controller="udp", traffic={"kind": "cbr", "rate_mbps": 0.1, "packet_bytes": 214})
    totals = simulate(voice).flow_totals[0]
    assert totals["sent_packets"] == pytest.approx(5.0 * 0.1e6 / 8 / 214, abs=3)
    base = voice.base_rtt_ms(0) / 2
    assert 0.985 * base <= totals["delay_p50_ms"] <= totals["delay_p99_ms"] < base + 5  # bins are 1.1 % wide
    assert totals["late_share"] == 0.0
    assert voice.unsupported("emulator") == ("flows.0.traffic.packet_bytes",)
    assert simulate(dumbbell()).flow_totals[0]["delay_p50_ms"] is None


def test_late_packets_need_a_link_where_others_overtake():
    with pytest.raises(OrbitccError, match="overtaking"):
        scenarios.get("dumbbell").override("links.0.late", {"p": 0.01, "delay_ms": 40.0})
