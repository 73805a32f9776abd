"""Distributions of links that are fitted to many paths find what the paths were made of."""

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.links import Link, Outage
from orbitcc.envs.fitting import distribution as fitting
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.access_cycle import AccessCycle, under_cycle
from orbitcc.envs.scenarios.distribution import PathDistribution

OFF = [0, 0]
KNOWN = {
    "name": "known",
    "duration_s": 120,
    "rate_mbps": [100, 200],
    "base_rtt_ms": [0.1, 0.1],
    "buffer_bdp": [1, 1],
    "flows": [1, 1],
    "ack_path": {"rate_ratio": [10, 10], "loss": OFF},
    "access": {
        "handover_probability": 0,
        "terrestrial_rtt_ms": OFF,
        "processing_rtt_ms": [20, 30],
        "slot_sd_ms": [5, 5],
        "jitter_rtt_ms": [6, 6],
        "jitter_tau_ms": [40, 40],
        "settling_rtt_ms": OFF,
        "frame_ms": OFF,
        "ramp_ms": OFF,
        "bursts_per_s": OFF,
        "loss": [0.005, 0.005],
        "interruption_probability": [1, 1],
        "interruption_ms": [80, 120],
        "hold_probability": 0,
        "rate_sd": [0.2, 0.2],
        "rate_correlation": 0,
        "noise_sd": [0.3, 0.3],
        "noise_tau_s": 2,
    },
}


def observed(table: dict, count: int, **options) -> list[fitting.Observed]:
    source = PathDistribution.build(table)
    worlds = [source.sample(np.random.default_rng((5, k))) for k in range(count)]
    return [fitting.observe(str(k), w.links[0], w.duration_s, k, **options) for k, w in enumerate(worlds)]


def test_a_known_distribution_is_found_again():
    fields = fitting.distribution(observed(KNOWN, 24), "again", 120).fields
    access, rate = fields["access"], fields["rate_mbps"]
    within = lambda span, low, high: low <= span.low <= span.high <= high  # noqa: E731
    assert within(rate, 85, 235)
    assert rate.high > 1.5 * rate.low
    assert within(access.processing_rtt_ms, 19, 33)
    assert 4 < np.sqrt(np.mean(np.square([access.slot_sd_ms.low, access.slot_sd_ms.high]))) < 6.5
    assert within(access.jitter_rtt_ms, 4.5, 7.5)
    assert within(access.jitter_tau_ms, 30, 55)
    assert access.jitter_shape == 2
    assert within(access.loss, 0.003, 0.007)
    assert access.interruption_probability.low > 0.9
    # Probes on their way at its start are lost with an outage: it looks longer by up to an RTT.
    assert within(access.interruption_ms, 80, 160)
    assert access.hold_probability == 0
    assert access.obstructions_per_s == 0
    assert 1.4 < access.noise_tau_s < 2.6
    assert 0.25 < np.mean([access.noise_sd.low, access.noise_sd.high]) < 0.35
    assert fields["ack_path"]["rate_ratio"].low > 5


def test_what_was_not_measured_keeps_a_default_and_says_so():
    rates = fitting.distribution(observed(KNOWN, 6, step_s=None), "rates", 120)
    assert rates.fields["base_rtt_ms"] == [20, 120]
    assert rates.fields["access"].loss.high == 0
    assert {"RTT", "jitter and losses"} <= {note.quantity for note in rates.notes if note.defaulted}
    delays = fitting.distribution(observed(KNOWN, 6, rated=False), "delays", 120)
    assert (delays.fields["rate_mbps"].low, delays.fields["rate_mbps"].high) == (20, 300)
    assert "rate" in {note.quantity for note in delays.notes if note.defaulted}
    with pytest.raises(OrbitccError, match="at least 5 paths"):
        fitting.distribution(observed(KNOWN, 4), "few", 120)


def test_rates_are_means_of_bins_and_outages_take_their_share():
    link = Link(name="l", rate_mbps=[(0, 10), (0.25, 20)], outages=[Outage(at_s=0.45, duration_ms=100, mode="hold")])
    path = fitting.observe("p", link, 0.6, 1)
    assert path.rate_mbps == pytest.approx([10, 10, 15, 20, 10, 10])
    assert np.isnan(path.rate_ratio)


def test_an_outage_holds_packets_if_the_rate_is_gone_and_no_probe_is_lost():
    cut = lambda mode: Link(  # noqa: E731
        name="l", rate_mbps=10, delay_ms=5, outages=[Outage(at_s=3, duration_ms=500, mode=mode)]
    )
    held, lost = (fitting.outages(fitting.observe("p", cut(mode), 6, 1)) for mode in ("hold", "drop"))
    assert held == [(pytest.approx(3.0), pytest.approx(0.5), True)]
    (start, length, holds), *others = lost
    assert (holds, others) == (False, [])
    assert start == pytest.approx(3, abs=0.021)
    assert length == pytest.approx(0.5, abs=0.021)


def test_the_new_parts_of_the_access_network_do_what_they_say():
    quiet = AccessOverlay.build(KNOWN["access"])
    draw = lambda overlay: overlay.draw(np.random.default_rng(3), 3_000, 100)  # noqa: E731

    def kept(values: np.ndarray, lag: int) -> float:
        return float(np.corrcoef(values[lag:], values[:-lag])[0, 1])

    noise = draw(quiet.changed(rate_sd=OFF, noise_sd=[0.2, 0.2])).forward.rate.values
    assert kept(noise, 20) == pytest.approx(np.exp(-1), abs=0.08)  # 20 steps of 0.1 s
    assert noise.std() == pytest.approx(0.2, abs=0.03)
    # sizes |x| of normal variables with correlation 0.9 have correlation 0.77 (by the formula in the fit)
    slots = draw(quiet.changed(slot_correlation=0.9, slot_sd_ms=[10, 10])).forward.delay_ms.values
    assert kept(slots, 1) == pytest.approx(0.77, abs=0.12)
    cuts = draw(quiet.changed(interruption_probability=OFF, obstructions_per_s=0.1, obstruction_ms=400)).outages
    assert len(cuts) == pytest.approx(300, rel=0.15)
    assert np.mean([o.duration_ms for o in cuts]) == pytest.approx(400, rel=0.15)
    assert draw(quiet.changed(jitter_shape=1)).forward.jitter.shape == 1


def test_a_cycle_without_rates_of_its_own_leaves_those_of_the_access_network():
    overlay = AccessOverlay.build(KNOWN["access"])
    slots = overlay.own_slots(np.random.default_rng(1), 60)
    still = {"steps": 1, "silence_share": OFF, "loss": OFF}
    spiky = under_cycle(overlay, AccessCycle.build(still), np.random.default_rng(2), 60, 100, slots)
    assert spiky.forward.rate.values.std() > 5 * 0.01
    stepped = under_cycle(overlay, AccessCycle(), np.random.default_rng(2), 60, 100, slots)
    assert stepped.forward.rate is not None
