"""Access links as measured since 2024: every part against the figure it is calibrated to, and switched off alone."""

import numpy as np
import pytest

from orbitcc.envs import scenarios
from orbitcc.envs.impairments.access_cycle import AccessCycle
from orbitcc.envs.impairments.series import Series

DURATION_S = 3000.0
EDGES_S = np.arange(7.0, DURATION_S, 15.0)


def drawn(seed: int = 1, **fields):
    return AccessCycle(**fields).draw(np.random.default_rng(seed), DURATION_S, EDGES_S)


def test_delay_spikes_from_75_ms_before_an_edge_to_140_ms_after_it() -> None:
    effect = drawn()
    for way in (effect.forward, effect.reverse):
        t = np.arange(0.0, DURATION_S, 0.002)  # 500 probes a second, as Aalborg's
        delay = way.delay_ms.at(t)
        after = (t - 7.0 + 7.5) % 15.0 - 7.5  # since the nearest edge
        near = (after > -0.0751) & (after < 0.1401)
        assert delay[~near].max() == 0.0
        assert (delay[near] > 0).mean() > 0.9
        assert (delay[(after > -0.07) & (after < 0)] > 0).any()


def test_the_uplink_suffers_more() -> None:
    effect = drawn(uplink_factor=(2, 2))
    down, up = (np.mean(way.delay_ms.values) for way in (effect.forward, effect.reverse))
    assert up / down == pytest.approx(2.0, rel=0.05)
    down, up = (way.loss.values[way.loss.values > 0].mean() for way in (effect.forward, effect.reverse))
    assert up / down == pytest.approx(2.0, rel=0.15)


def test_rates_move_mainly_between_neighbouring_steps_of_10_to_70_mbps() -> None:
    effect = drawn(silence_share=(0, 0), dwell_s=(2, 2))
    walk: Series = effect.forward.rate
    steps = np.rint(np.log(walk.values) / np.log(7 ** (1 / 6))).astype(int)
    assert set(steps) == set(range(-3, 4))
    assert walk.values.max() / walk.values.min() == pytest.approx(7.0)
    moves = np.abs(np.diff(steps))
    assert moves.min() == 1
    assert (moves == 1).mean() == pytest.approx(0.9, abs=0.02)
    assert np.diff(walk.t_s).mean() == pytest.approx(2.0, rel=0.1)


def test_bursts_and_silences_keep_the_mean_rate() -> None:
    rate = drawn(steps=1, silence_share=(0.2, 0.2), burst_ms=(200, 200)).forward.rate
    lengths = np.diff(np.append(rate.t_s, DURATION_S))
    silent = rate.values < 0.05
    assert lengths[silent].sum() / DURATION_S == pytest.approx(0.2, abs=0.01)
    assert lengths[~silent].mean() == pytest.approx(0.2, rel=0.05)
    assert (rate.values * lengths).sum() / DURATION_S == pytest.approx(1.0, abs=0.02)


def test_lossy_seconds_lose_half_a_percent_to_six() -> None:
    loss = drawn(lossy_share=(0.1, 0.1)).forward.loss
    lossy = loss.values[loss.values > 0]
    assert lossy.size / loss.values.size == pytest.approx(0.1, abs=0.02)
    assert 0.005 <= lossy.min() < 0.01
    assert 0.055 < lossy.max() <= 0.06
    assert np.unique(np.diff(loss.t_s)).tolist() == [1.0]


@pytest.mark.parametrize(
    ("off", "gone"),
    [({"spike_ms": (0, 0)}, "delay_ms"), ({"steps": 1, "silence_share": (0, 0)}, "rate"), ({"loss": (0, 0)}, "loss")],
)
def test_a_part_is_switched_off_alone(off, gone: str) -> None:
    whole, part = drawn(), drawn(**off)
    for name in ("delay_ms", "rate", "loss"):
        before, now = getattr(whole.forward, name), getattr(part.forward, name)
        if name == gone:
            assert now is None
        else:
            assert np.array_equal(before.values, now.values)
            assert np.array_equal(before.t_s, now.t_s)


def test_both_profiles_are_there() -> None:
    before, since = (
        scenarios.get("leo-access", run=3, profile=profile, duration_s=60.0)
        for profile in ("before-2024", "since-2024")
    )
    assert scenarios.get("leo-access", run=3, duration_s=60.0) == since
    assert len(since.links[0].rate_mbps) > 100
    assert [o.at_s for o in before.links[0].outages] == [o.at_s for o in since.links[0].outages]
    calm = scenarios.get("leo-access", run=3, rate_changes=False, duration_s=60.0, interruption="drop")
    assert calm.links[0].rate_mbps == 150.0
