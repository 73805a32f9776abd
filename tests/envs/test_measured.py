"""What was measured of access links since 2024: each part against the figure it is calibrated to, and by itself."""

import numpy as np
import pytest

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.impairments.measured import SILENT, MeasuredAccess
from orbitcc.envs.orbits.trace import Slot

EDGES = np.arange(15.0, 1500.0, 15.0)
SLOTS = [Slot(0.0), *(Slot(float(t)) for t in EDGES)]
ALL_OFF = {"spike_ms": Span(low=0, high=0), "levels": 1, "duty": Span(low=1, high=1), "lossy_probability": 0.0}


def effect(seed=1, **changes):
    return MeasuredAccess(**changes).draw(np.random.default_rng(seed), 1500.0, SLOTS)


def test_delays_spike_from_75_ms_before_an_edge_to_140_ms_after_it():
    delay = effect().forward.delay_ms
    inside = np.concatenate([delay.at(EDGES[1:-1] + dt) for dt in (-0.074, -0.01, 0.01, 0.139)])
    outside = np.concatenate([delay.at(EDGES[1:-1] + dt) for dt in (-0.076, 0.141, 5.0)])
    assert (outside == 0).all()
    assert (inside.min() >= 10, inside.max() <= 40, 23 < inside.mean() < 27) == (True, True, True)


def test_the_uplink_fares_worse_than_the_downlink():
    for seed in range(20):
        found = effect(seed)
        up, down = (way.delay_ms.at(EDGES + 0.01) for way in (found.reverse, found.forward))
        factor = float((up[down > 0] / down[down > 0]).mean())
        assert 1.5 <= factor <= 3
        lossy = found.forward.loss.values > 0
        assert found.reverse.loss.values[lossy] == pytest.approx(factor * found.forward.loss.values[lossy])


def test_rates_go_mainly_to_neighbouring_steps_within_a_range_of_seven():
    rates = effect(duty=Span(low=1, high=1)).forward.rate
    steps = np.rint(np.log(rates.values) / np.log(1.32))
    moves = np.abs(np.diff(steps))
    assert (moves >= 1).all()
    assert 0.85 < (moves == 1).mean() < 0.98
    assert rates.values.max() / rates.values.min() == pytest.approx(1.32**7)
    # 10 to 70 Mbit/s within tens of seconds: most minutes see a factor of two at least
    minutes = [rates.at(np.arange(t, t + 60, 0.5)) for t in range(0, 1440, 60)]
    assert np.mean([m.max() / m.min() >= 2 for m in minutes]) > 0.8


def test_bursts_and_silences_leave_the_mean():
    rates = effect(levels=1).forward.rate
    fine = rates.at(np.arange(0.0, 1400.0, 0.001))
    assert fine.mean() == pytest.approx(1.0, abs=0.01)
    assert fine.min() == SILENT
    assert 0.6 - 0.01 < (fine > 1).mean() < 0.95 + 0.01


def test_a_tenth_of_the_seconds_loses_half_a_percent_to_six():
    loss = effect().forward.loss
    lossy = loss.values[loss.values > 0]
    assert 0.07 < lossy.size / loss.values.size < 0.13
    assert 0.005 <= lossy.min() < 0.01 < 0.05 < lossy.max() <= 0.06


def test_each_part_is_switched_by_itself():
    everything = effect()
    nothing = effect(**ALL_OFF)
    assert (nothing.forward.rate, nothing.forward.delay_ms, nothing.forward.loss) == (None, None, None)
    only = effect(**{key: value for key, value in ALL_OFF.items() if key != "lossy_probability"})
    assert (only.forward.rate, only.forward.delay_ms) == (None, None)
    assert (only.forward.loss.values == everything.forward.loss.values).all()


def test_the_profile_of_2023_is_what_it_was_and_the_other_runs():
    old, new = (scenarios.get("leo-access", profile=p, duration_s=40.0) for p in ("2023", "measured-2024"))
    assert old == scenarios.get("leo-access", duration_s=40.0)
    assert [o.at_s for o in old.links[0].outages] == [o.at_s for o in new.links[0].outages]
    totals = simulate(new).flow_totals[0]
    assert totals["received_bytes"] > 1e6
    quiet = scenarios.get("leo-access", profile="measured-2024", duration_s=40.0, edge_spikes=False)
    assert quiet.links[0].delay_ms == old.links[0].delay_ms != new.links[0].delay_ms


def test_the_distribution_lays_it_over_the_access_network():
    world = scenarios.distribution("train-orbits-2024").sample(np.random.default_rng(1))
    assert len(world.links[0].rate_mbps) > 100
    with pytest.raises(OrbitccError, match="without access"):
        scenarios.distribution("train-leo").changed(measured=MeasuredAccess())
