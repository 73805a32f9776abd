"""Rain, and links that adapt to it."""

import math

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.impairments.series import Series
from orbitcc.envs.impairments.weather import (
    MODCODS,
    Fades,
    Rain,
    Weather,
    ladder,
    rate_share,
    specific_attenuation_db_per_km,
)

RNG = np.random.default_rng
BITS = [bits for _, bits in MODCODS]


@pytest.mark.parametrize(
    ("ghz", "db_per_km"), [(12, 0.99), (14, 1.36), (18.5, 2.20), (20, 2.50), (28.5, 4.36), (30, 4.70)]
)
def test_specific_attenuation_is_that_of_the_recommendation(ghz, db_per_km):
    assert specific_attenuation_db_per_km(25, ghz) == pytest.approx(db_per_km, abs=0.006)
    assert specific_attenuation_db_per_km(0, ghz) == 0


def test_specific_attenuation_grows_between_the_tables_frequencies():
    found = [specific_attenuation_db_per_km(25, ghz) for ghz in np.linspace(12, 30, 40)]
    assert (np.diff(found) > 0).all()
    with pytest.raises(OrbitccError, match="frequency_ghz: 40"):
        specific_attenuation_db_per_km(25, 40)


def test_rain_is_lognormal_and_correlated():
    rain = Rain(log_mean=-2.756, log_sd=1.55, offset_db=0, beta_per_s=(0.05, 0.05))
    x = np.log(rain.attenuation_db(RNG(1), 1e6).values)
    assert x.mean() == pytest.approx(-2.756, rel=0.02)
    assert x.std() == pytest.approx(1.55, rel=0.02)
    for lag_s in (1, 10, 20, 40):
        assert np.corrcoef(x[:-lag_s], x[lag_s:])[0, 1] == pytest.approx(math.exp(-0.05 * lag_s), abs=0.02)


def test_rain_exceeds_what_it_is_fitted_to():
    found = Rain(beta_per_s=(1, 1)).attenuation_db(RNG(2), 2e6).values
    assert found.min() == 0
    for db, percent in ((1.8, 1), (7.1, 0.1), (19.7, 0.01)):
        assert 100 * np.mean(found > db) == pytest.approx(percent, rel=0.3)


def test_rain_begins_where_it_is_told_to():
    starts = {Rain(start_percent=0.1).attenuation_db(RNG(seed), 60).values[0] for seed in range(5)}
    assert [round(db, 1) for db in starts] == [7.1]


def test_fades_keep_their_ranges():
    fades = Fades(per_h=60, speedup=(10, 10))
    series = fades.attenuation_db(RNG(3), 200_000)
    t, db = series.t_s[1:].reshape(-1, 4), series.values[1:].reshape(-1, 4)
    assert (np.diff(series.t_s) > 0).all()
    assert (db[:, [0, 3]] == 0).all()
    assert 10 < db[:, 1].max() <= 15
    up, down = db[:, 1] / (t[:, 1] - t[:, 0]), db[:, 2] / (t[:, 3] - t[:, 2])
    for slope in (up, down):
        assert 0.0999 <= slope.min() < 0.12
        assert 4 < slope.max() < 5.01
    lengths = t[:, 3] - t[:, 0]
    assert 6 <= lengths.min() < 8
    assert 150 < lengths.max() < 180.01
    assert np.mean(t[1:, 0] - t[:-1, 3]) == pytest.approx(6, rel=0.15)
    assert Fades(per_h=0).attenuation_db(RNG(3), 1000).values.tolist() == [0]


@pytest.mark.parametrize("clear_db", [8, 10.5, 12, 14])
def test_rate_never_grows_with_attenuation(clear_db):
    share = rate_share(np.linspace(0, 20, 2001), clear_db)
    assert share[0] == 1
    assert share[-1] == 0
    assert (np.diff(share) <= 0).all()
    assert share[share > 0].min() >= 0.1
    rng = RNG(4)
    weather = Weather(attenuation=Fades(per_h=100, speedup=(10, 10)))
    fade = weather.attenuation.attenuation_db(rng, 600)
    t = np.arange(0, 600, 0.1)
    drier, wetter = (
        weather.effect(rng, Series(fade.t_s, fade.values + more, lines=True), clear_db, 600).forward.rate.at(t)
        for more in (0.001, 1.5)
    )
    assert (wetter <= drier).all()
    assert (wetter < drier).any()


def test_the_ladder_waits_before_it_steps_up():
    at, levels = ladder(np.array([12.2, 11.5, 11.7, 12.0, 12.2]), hysteresis_db=0.5)
    assert (at.tolist(), levels.tolist()) == ([0, 1, 4], [5, 4, 5])


def test_the_ladder_moves_one_step_at_a_time():
    at, levels = ladder(np.concatenate((np.full(5, 20.0), np.full(20, -5.0), np.full(20, 20.0))), hysteresis_db=0.5)
    assert levels.tolist() == [5, 4, 3, 2, 1, 0, -1, 0, 1, 2, 3, 4, 5]
    assert at.tolist() == [0, *range(5, 11), *range(25, 31)]


def effect(points, clear_db=12.2, duration_s=60.0, **fields):
    series = Series.of(tuple(points), lines=True)
    return Weather(**fields).effect(RNG(1), series, clear_db, duration_s)


def test_no_rain_changes_nothing():
    nothing = effect([(0.0, 0.0)])
    assert (nothing.forward.rate, nothing.forward.loss, nothing.outages) == (None, None, ())
    # Nor does rain that the margin bears.
    assert effect([(0.0, 0.0), (5.0, 0.3), (10.0, 0.0)]).forward.rate is None


def test_a_step_down_loses_packets_for_one_control_loop():
    got = effect([(0.0, 0.0), (10.05, 0.0), (10.1, 3.0)], step_loss=(0.04, 0.04), loop_ms=(300, 300))
    rate = got.forward.rate
    assert rate.points() == (
        (0.0, 1.0),
        (pytest.approx(10.2), pytest.approx(BITS[4] / BITS[5])),
        (pytest.approx(10.4), pytest.approx(BITS[3] / BITS[5])),
    )
    loss = got.forward.loss
    assert loss.points() == ((0.0, 0.0), (pytest.approx(10.2), 0.04), (pytest.approx(10.7), 0.0))
    assert got.reverse == got.forward
    # A signal between two entries begins with the one it would come back to.
    assert effect([(0.0, 0.0), (5.0, 2.0), (9.0, 0.0)], clear_db=12.0).forward.rate.values.tolist()[::2] == [1, 1]
    # Up again, nothing is lost.
    assert effect([(0.0, 3.0), (10.0, 0.0)], step_loss=(0.04, 0.04)).forward.loss is None


def test_a_link_is_up_without_rain():
    with pytest.raises(OrbitccError, match=r"clear_sky_db.low: 1.2 .*at least 1.5 dB"):
        Weather(clear_sky_db=(1.2, 5))


def test_too_weak_a_signal_for_a_second_is_an_outage():
    short = effect([(0.0, 0.0), (10.0, 0.0), (10.01, 12.0), (11.6, 12.0), (11.61, 0.0)])
    assert short.outages == []
    long = effect([(0.0, 0.0), (10.0, 0.0), (10.01, 12.0), (20.0, 12.0), (20.01, 0.0)])
    (outage,) = long.outages
    # Six steps of 0.2 s down from 10.2 s on, then one second; back when the signal is.
    assert (outage.at_s, outage.mode) == (pytest.approx(12.2), "drop")
    assert outage.at_s + outage.duration_ms / 1e3 == pytest.approx(20.2)
    assert [long.forward.rate.at(s) for s in (11.1, 11.3)] == pytest.approx([0.989 / 3.3, 0.1])
    weak = effect([(0.0, 0.0), (10.0, 0.0), (10.01, 12.0)], clear_db=20.0)
    assert weak.outages == []


def test_geo_rain_slows_the_link_down_and_repeats_by_its_run():
    one, again, other = (scenarios.get("geo-rain", run=run) for run in (3, 3, 4))
    assert one == again
    assert one.links != other.links
    assert Scenario.from_toml(one.to_toml()) == one
    assert 60 < one.mean_capacity_mbps() < 144
    heavy = scenarios.get("geo-rain", weather="rain", start_percent=0.01, speedup=1)
    assert heavy.links[0].outages[0].at_s == pytest.approx(1.0)
    assert scenarios.get("geo-rain", fades_per_h=0).links[0].rate_mbps == 144


def test_flows_go_on_after_the_rain():
    recording = simulate(scenarios.get("geo-rain", run=3, duration_s=150), record_interval_s=1.0)
    capacity, goodput = recording.links["capacity_mbps"][:, 0], recording.flows["goodput_mbps"][:, 0]
    assert capacity.min() < 0.7 * 144
    assert recording.link_totals[0]["lost_packets"] > 0
    late = recording.t_s > 100
    assert goodput[late].mean() > 0.2 * capacity[late].mean()
