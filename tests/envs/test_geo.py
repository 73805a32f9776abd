"""The geostationary link against the week of probes it is fitted to (Claypool et al.), and its profiles."""

import itertools

import numpy as np
import pytest

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.model import points_of
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.impairments.effects import impaired
from orbitcc.envs.impairments.geo import LEAST_RTT_MS, SWING, GeoImpairments
from orbitcc.envs.impairments.probe import probe
from tests.envs.test_effects import arrivals_s

WEEK_S = 7 * 86_400.0
PROBES = 3_024_000
ALONE = GeoImpairments(outage_share=(1, 1), short_outage_ms=(200, 200))
"""As the profiles do it: a probe lost alone is an outage of the time between two probes."""


def link(**fields):
    half = LEAST_RTT_MS / 2
    return Link(
        name="satellite", rate_mbps=None, delay_ms=half, handovers=(), reverse=Direction(delay_ms=half), **fields
    )


def week(impairments, seed, uneven_s=0.0):
    """RTTs of five probes a second, NaN where lost; each up to uneven_s late."""
    rng = np.random.default_rng(seed)
    sent = np.arange(PROBES) / 5 + uneven_s * rng.random(PROBES)
    return sent, probe(impaired(link(), impairments.draw(rng, WEEK_S)), sent, rng)


def share(rtt, low, high):
    return np.mean((rtt > low) & (rtt <= high))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("process", ["frames", "swing"])
def test_a_week_of_probes_has_the_published_rtts(process, seed):
    fields = {} if process == "frames" else {"swing_probability": 1}
    sent, rtt = week(GeoImpairments(loss_scale=(0, 0), **fields), seed, uneven_s=0.05)  # not in step with frames
    assert np.isfinite(rtt).all()
    assert np.median(rtt) == pytest.approx(597, abs=1)
    assert rtt.mean() == pytest.approx(597.5, abs=1.5)
    assert rtt.std() == pytest.approx(16.9, abs=1)
    assert 564 <= rtt.min() <= 567
    assert 1750 <= rtt.max() <= 2250
    assert share(rtt, 560, 625) >= 0.99
    assert 0.8e-3 <= share(rtt, 625, 1500) <= (1.2e-3 if process == "frames" else 1.5e-3)
    assert 0.5e-5 <= share(rtt, 1700, 2200) <= 2e-5
    assert (np.diff(sent + rtt / 1e3) >= -1e-9).all()  # no reordering


def losses(impairments, weeks):
    """Of each week: probes lost, those lost alone, spells of several, the longest spell."""
    found = []
    for seed in range(weeks):
        _, rtt = week(impairments.changed(frame_ms=(0, 0), slow_ms=(0, 0), stall_scale=(0, 0)), seed)
        edges = np.diff(np.concatenate(([0], np.isnan(rtt).astype(int), [0])))
        spells = np.flatnonzero(edges < 0) - np.flatnonzero(edges > 0)
        found.append((spells.sum(), np.count_nonzero(spells == 1), np.count_nonzero(spells > 1), spells.max()))
    return np.array(found).T


@pytest.mark.slow
@pytest.mark.parametrize(("impairments", "weeks"), [(GeoImpairments(), 100), (ALONE, 20)], ids=["packets", "outages"])
def test_weeks_of_probes_have_the_published_losses(impairments, weeks):
    lost, alone, several, longest = losses(impairments, weeks)
    assert lost.mean() == pytest.approx(604, abs=30)
    assert alone.sum() / lost.sum() == pytest.approx(0.77, abs=0.03)
    assert several.mean() == pytest.approx(44, abs=4)
    assert 7 <= np.median(longest) <= 9
    assert weeks < 100 or 0.05 <= np.mean(longest >= 11) <= 0.35


def test_the_simulator_delays_packets_as_the_sampler_does():
    # No rate, so that serialisation moves nobody to another frame; four times the stalls.
    satellite = impaired(link(), GeoImpairments(loss_scale=(0, 0), stall_scale=(4, 4)).draw_apart(4, 300.0))
    assert len(satellite.outages) >= 5
    there = satellite.changed(reverse=Direction(), outages=ways(satellite, "forward"))
    outages = ways(satellite, "reverse", "forward")
    back = Link(**{**dict(satellite.reverse), "name": "back", "reverse": Direction(), "outages": outages})
    sent = np.arange(0, 300, 1 / 31.25)
    expected = probe(satellite, sent, np.random.default_rng(1)) / 1e3 + sent
    assert arrivals_s([there, back], 31.25, 300.0)[: sent.size] == pytest.approx(expected, abs=0.0011)


def ways(satellite, direction, renamed=None):
    found = [o for o in satellite.outages if o.directions == direction]
    return tuple(o.changed(directions=renamed or direction) for o in found)


# -- profiles ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["geo-viasat-2020", "geo-viasat-2021"])
def test_each_part_of_a_profile_is_switched_by_itself(name):
    def satellite(**params):
        return scenarios.get(name, run=4, duration_s=600, **params).links[0]

    full = satellite()
    fields = ("rate_mbps", "loss", "outages", "reverse")
    for changed, params in {
        "reverse": {"start_delay_ms": 0},
        "outages": {"stalls": False},
        "loss": {"residual_loss": 0},
        "rate_mbps": {"rate_sd": 0},
    }.items():
        other = satellite(**params)
        assert [field for field in fields if getattr(other, field) != getattr(full, field)] == [changed]
    drops = [o for o in full.outages if o.mode == "drop"]
    assert drops
    assert {o for o in full.outages if o.mode == "hold"} == set(satellite(loss="none").outages)
    assert len(satellite(loss="winds").outages) > 5 * len(drops)
    assert satellite(loss_as="packets").loss == pytest.approx(1.41e-4 + 5e-6)
    assert full.loss == 5e-6
    assert (full.reverse.gate_ms, full.reverse.jitter) == (50, None)
    swinging = satellite(rtt="sine_ar1").reverse
    assert (swinging.gate_ms, swinging.jitter) == (0, SWING)
    assert min(rate for _, rate in satellite(weather="fades").rate_mbps) < 0.7 * 120
    bare = {"rtt": "fixed", "stalls": False, "loss": "none", "residual_loss": 0, "rate_sd": 0, "start_delay_ms": 0}
    ideal = scenarios.get("geo-ideal").links[0]
    assert satellite(**bare, rate_mean=1) == ideal


def test_profiles_are_valid_and_repeat_by_their_run():
    one, again, other = (scenarios.get("geo-viasat-2020", run=run) for run in (3, 3, 4))
    assert one == again
    assert one.links != other.links
    assert Scenario.from_toml(one.to_toml()) == one
    assert one.mean_capacity_mbps() == pytest.approx(0.93 * 144, rel=0.12)
    assert scenarios.get("geo-viasat-2021", run=3).mean_capacity_mbps() == pytest.approx(120, rel=0.12)
    assert one.flows[0].start_s == 1.2


def download_s(mbytes, **params):
    """When the first of these many megabytes have arrived, in the mean of some runs."""
    times = []
    for run in range(1, 9):
        got = simulate(scenarios.get("geo-viasat-2021", run=run, duration_s=40, **params), record_interval_s=0.05)
        arrived = np.cumsum(got.flows["goodput_mbps"][:, 0]) * 0.05 / 8
        times.append([float(got.t_s[np.argmax(arrived >= m)]) for m in mbytes])
    return np.mean(times, axis=0)


@pytest.mark.slow
def test_hystart_ends_slow_start_early_where_the_rtt_swings_and_not_by_frames():
    # Published: 9, 16, 22 s with HyStart and 6, 8, 11 s without, for 1, 5, 30 MB.
    on, off = (download_s((1, 5, 30), rtt="sine_ar1", controller=f"cubic:hystart={h}") for h in ("both", "off"))
    assert on == pytest.approx([9, 16, 22], rel=0.2)
    assert off == pytest.approx([6, 8, 11], rel=0.2)
    # Acknowledgements that come by frames clock the data into step with the frames: the RTT stays the same.
    assert download_s((30,), rtt="gate")[0] < 1.3 * off[2]


@pytest.mark.parametrize(("offered_mbps", "loss", "rtt_ms"), [(160, 0.10, 1597), (200, 0.28, 2597)])
def test_a_constant_rate_above_the_link_meets_the_queue_as_computed(offered_mbps, loss, rtt_ms):
    # Above 18 MB a quarter is dropped: 160 leave 120 < 144, so the queue stays there; 200 leave 150, so it fills.
    name = "geo-ideal"
    scenario = scenarios.load(name, {"duration_s": 400, "controller": "reno"})
    sender = {"controller": {"name": "udp"}, "traffic": {"kind": "cbr", "rate_mbps": offered_mbps}}
    scenario = Scenario.build({**scenario.model_dump(), "flows": [sender], "sim": {"noise": False}})
    got = simulate(scenario, record_interval_s=1.0)
    late = got.t_s > 300
    dropped = got.links["dropped_packets"][late, 0].sum()
    arrived = dropped + got.links["delivered_mbps"][late, 0].sum() * 1e6 / 8 / 1514
    assert dropped / arrived == pytest.approx(loss, abs=0.01)
    queue_ms = got.links["queue_bytes"][late, 0].mean() * 8 / 144e3
    assert 597 + queue_ms == pytest.approx(rtt_ms, rel=0.05)
    if offered_mbps == 160:
        full = got.t_s[np.argmax(got.links["queue_bytes_max"][:, 0] > 18e6)]
        assert full == pytest.approx(9.0, abs=1.01)


def test_geo_training_worlds_differ_in_every_part():
    found = [scenarios.distribution("train-geo").sample(np.random.default_rng(k)).links[0] for k in range(60)]
    gates = [link.reverse.gate_ms for link in found]
    assert 5 <= min(g for g in gates if g) < max(gates) <= 100
    assert {o.mode for link in found for o in link.outages} == {"hold", "drop"}
    losses = [p for link in found for _, p in points_of(link.loss)]
    assert 0 < min(losses) < 1e-3
    assert 0.03 < max(losses) < 0.06  # steps down in the rain
    for one, other in itertools.pairwise(found):
        assert one != other
