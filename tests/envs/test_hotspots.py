"""Crowds that take a share of a link's rate for some seconds."""

import itertools

import numpy as np
import pytest

from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.links import Link
from orbitcc.envs.description.queues import DropTailBytes
from orbitcc.envs.description.scenario import Scenario, SimSettings
from orbitcc.envs.impairments.hotspots import Hotspot, Hotspots, rate_factor, traffic

RNG = np.random.default_rng


def test_crowds_come_at_their_rate_and_stay_within_their_ranges():
    spots = Hotspots(cut_probability=0.25).draw(RNG(1), 100_000)
    gaps = [b.start_s - a.end_s for a, b in itertools.pairwise(spots)]
    assert min(gaps) > 0
    assert np.mean(gaps) == pytest.approx(60, rel=0.12)
    lengths = np.array([s.end_s - s.start_s for s in spots])
    assert (lengths.min(), lengths.max()) == (pytest.approx(1), pytest.approx(40))
    # An exponential of mean 8 kept within 1..40: 1 + 8 (exp(-1/8) - exp(-5)).
    assert lengths.mean() == pytest.approx(8.0, rel=0.12)
    assert all(0.2 <= s.share <= 0.8 and 0.1 <= s.ramp_s <= 2 for s in spots)
    assert np.mean([s.cut for s in spots]) == pytest.approx(0.25, abs=0.05)
    assert Hotspots(per_s=0).draw(RNG(1), 1000) == []


def test_a_cut_comes_and_goes_by_halves():
    spots = [Hotspot(10, 20, 1.0, 0.6, cut=True), Hotspot(30, 40, 0.0, 0.4, cut=True)]
    factor = rate_factor(spots)
    assert factor.at([9.9, 10, 11, 18.9, 19, 20]) == pytest.approx([1, 0.7, 0.4, 0.4, 0.7, 1])
    assert factor.at([29, 30, 39.9, 40]) == pytest.approx([1, 0.6, 0.6, 1])
    assert (np.diff(factor.t_s) > 0).all()
    assert rate_factor([Hotspot(10, 20, 1.0, 0.6, cut=False)]) is None


def test_traffic_takes_its_share_whatever_the_others_do():
    spots = [Hotspot(5.0, 15.0, 1.0, 0.6, cut=False)]
    crowd = traffic(spots, 0, 20.0, duration_s=20.0)
    scenario = Scenario(
        name="crowd",
        duration_s=20,
        links=(Link(name="hop-0", rate_mbps=20.0, delay_ms=10, queue=DropTailBytes(limit_bytes=50_000)),),
        flows=(Flow(controller="cubic"), *crowd),
        sim=SimSettings(noise=False),
    )
    got = simulate(scenario, record_interval_s=0.5)
    taken = got.flows["send_mbps"][:, 1:].sum(axis=1)
    at = {round(t, 1): rate for t, rate in zip(got.t_s, taken, strict=True)}
    assert at[4.5] == 0
    assert at[6.0] == pytest.approx(6, rel=0.05)  # half of it in the first second
    assert at[10.0] == pytest.approx(12, rel=0.05)
    assert at[15.0] == pytest.approx(6, rel=0.05)
    assert at[16.0] == 0


def test_traffic_ends_with_the_run():
    spots = [Hotspot(5.0, 50.0, 2.0, 0.6, cut=False), Hotspot(58.0, 80.0, 2.0, 0.6, cut=False)]
    flows = traffic(spots, 0, 20.0, duration_s=59.0)
    assert [(f.start_s, f.stop_s) for f in flows] == [(5, 50), (7, 48), (58, None)]
