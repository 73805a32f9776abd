"""`bbr3:draft=06` on a link of 100 Mbit/s and 50 ms: does what the draft's goals say, with broad bounds."""

import numpy as np
import pytest

from orbitcc.common.errors import UnknownNameError
from orbitcc.envs import controllers, scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.scenario import Scenario

DRAFT = "bbr3:draft=06"


def dumbbell(*flows, seed=1, bdp=1.0):
    return simulate(
        scenarios.get("dumbbell", buffer_bdp=bdp).with_flows([Flow.parse(flow) for flow in flows]), seed=seed
    )


def late_goodputs(*flows, seeds, bdp=1.0):
    """Mean goodput of each flow in the last 30 s, one row per seed."""
    return np.array([dumbbell(*flows, seed=s, bdp=bdp).flows["goodput_mbps"][-30:].mean(axis=0) for s in seeds])


def test_one_flow_fills_the_link_without_a_standing_queue():
    # At most 1448/1500 of the link is payload; ProbeRTT costs 2 % (5.3.4.2). Cubic's mean RTT here is 87 ms.
    total = dumbbell(DRAFT).flow_totals[0]
    assert 0.90 * 96.5 <= total["goodput_mbps"] <= 96.5
    assert 50 <= total["srtt_ms"] <= 62
    assert total["retransmitted_packets"] <= 0.001 * total["sent_packets"]


def test_two_flows_converge():
    goodputs = late_goodputs(DRAFT, f"{DRAFT}@20s", seeds=range(1, 7))
    assert (goodputs.sum(axis=1) >= 85).all()
    jain = goodputs.sum(axis=1) ** 2 / (2 * (goodputs**2).sum(axis=1))
    assert np.median(jain) >= 0.85


def test_beside_cubic_it_takes_most_of_a_shallow_buffer_and_less_than_half_of_a_deep_one():
    # Cubic fills any buffer, BBR keeps at most two products in flight: the deeper the buffer, the more Cubic gets.
    shallow, deep = (
        np.median(
            [goodputs[0] / goodputs.sum() for goodputs in late_goodputs(DRAFT, "cubic", seeds=range(1, 7), bdp=bdp)]
        )
        for bdp in (1.0, 8.0)
    )
    assert 0.5 <= shallow <= 0.97
    assert 0.05 <= deep <= 0.5


def test_other_drafts_are_refused_with_what_is_allowed():
    with pytest.raises(
        UnknownNameError, match=r"draft: unknown name '05'; did you mean '06'\? \(allowed: one of off, 06\)"
    ):
        Flow.parse("bbr3:draft=05")
    with pytest.raises(UnknownNameError, match=r"controller.draft: .*6.*allowed: one of off, 06"):
        controllers.make("bbr3", {"draft": 6})


def test_the_draft_is_kept_as_text_in_files():
    scenario = scenarios.get("dumbbell").with_flows([Flow.parse(DRAFT)])
    assert 'draft = "06"' in scenario.to_toml()
    assert Scenario.from_toml(scenario.to_toml()) == scenario
