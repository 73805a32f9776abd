"""What only the simulator refuses is told in the names and values of the scenario."""

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.refusals import refusal
from orbitcc.envs.description.scenario import Scenario
from tests.commands.shell import called

LINK = {"name": "l", "rate_mbps": 10.0, "delay_ms": 20.0}
SMALL = {"kind": "drop_tail_bytes", "limit_bytes": 40}
BURSTS = {"kind": "gilbert_elliott", "bad_loss": 1.0, "to_bad_per_s": 1e5, "to_good_per_s": 1e5}


def network(link=(), flow=(), **fields):
    given = {
        "name": "t",
        "duration_s": 1.0,
        "links": [LINK | dict(link)],
        "flows": [{"controller": "cubic"} | dict(flow)],
    }
    return given | fields


@pytest.mark.parametrize(
    ("given", "field", "value", "reason"),
    [
        (network(flow={"controller": "c4:resume_cwnd=1"}), "flows.0.controller.params.resume_rtt_ms", 0.0, "positive"),
        (network(flow={"controller": "c4", "transport": "quic"}), "flows.0.controller.name", "c4", "counts marks"),
        (
            network(flow={"controller": "cubic:ssthresh_cache=20", "transport": "quic"}),
            "flows.0.controller.params.ssthresh_cache", 20, "is for TCP",
        ),
        (network(sim={"mss_bytes": 64_000}), "sim.mss_bytes", 64_000, r"tcp.rmem\[1\] = 131072: at least 256048"),
        (
            network(sim={"mss_bytes": 64_000, "rmem_bytes": [1024, 2048, 4096]}),
            "sim.rmem_bytes.1", 2048, "at least 256048",
        ),
        (network({"queue": SMALL}), "links.0.queue.limit_bytes", 40, "1514 bytes"),
        (network({"reverse": {"queue": SMALL}}), "links.0.reverse.queue.limit_bytes", 40, "66 bytes"),
        (network({"loss": [[0, 0.0], [1, BURSTS]]}, duration_s=1e6), "links.0.loss.1.1.to_bad_per_s", 1e5, "steps"),
        (network({"loss": BURSTS}, duration_s=1e6), "links.0.loss.to_bad_per_s", 1e5, "steps"),
        (network({"rate_mbps": 1e6}, duration_s=1e6), "duration_s", 1e6, "4e9 packets"),
        (network({"rate_mbps": "unlimited", "delay_ms": 0.0}), "flows.0.path", None, "some link"),
    ],
)  # fmt: skip
def test_the_field_and_its_value_are_named(given, field, value, reason):
    with pytest.raises(OrbitccError, match=reason) as caught:
        simulate(Scenario.build(given))
    assert (caught.value.field, caught.value.value) == (field, value)


def test_a_parameter_of_a_flow_is_named_on_the_command_line():
    done = called("run", "dumbbell", "--flow", "c4:resume_cwnd=100")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: flows.0.controller.params.resume_rtt_ms: 0.0 is not allowed; allowed: a value"
    )


def test_what_names_no_field_is_about_the_scenario():
    error = refusal(Scenario.build(network()), ValueError("it is Monday"), "the simulator takes")
    assert str(error) == "scenario: 't' is not allowed; allowed: a network the simulator takes: it is Monday"
