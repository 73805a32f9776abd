"""Impairments put together on a link, and what probes see of it."""

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Cbr, Flow
from orbitcc.envs.description.links import (
    Bernoulli,
    Direction,
    GammaJitter,
    GilbertElliott,
    Handover,
    Link,
    Outage,
    SineJitter,
)
from orbitcc.envs.description.scenario import Scenario, SimSettings
from orbitcc.envs.impairments.effects import Effect, Way, impaired, merged
from orbitcc.envs.impairments.probe import jitter_ms, probe
from orbitcc.envs.impairments.series import Series

LINK = Link(name="a", rate_mbps=100.0, delay_ms=20.0, loss=0.1, reverse=Direction(rate_mbps=10.0, delay_ms=20.0))


def steps(*points):
    return Series.of(tuple(points))


def test_rates_are_multiplied_delays_added_and_losses_independent():
    one = Effect(forward=Way(rate=steps((0.0, 0.5)), delay_ms=steps((0.0, 1.0), (5.0, 2.0)), loss=steps((0.0, 0.5))))
    two = Effect(forward=Way(rate=steps((0.0, 1.0), (2.0, 0.5)), loss=steps((0.0, 0.0), (3.0, 0.2))))
    link = impaired(LINK, [one, two])
    assert link.rate_mbps == ((0.0, 50.0), (2.0, 25.0))
    assert link.delay_ms == ((0.0, 21.0), (5.0, 22.0))
    assert link.loss == ((0.0, pytest.approx(0.55)), (3.0, pytest.approx(0.64)))
    assert (link.backward(), link.queue, link.interpolate_delay) == (LINK.reverse, LINK.queue, False)
    assert Link.build(link.model_dump()) == link


def test_bursts_come_on_top_of_other_losses():
    bursts = GilbertElliott(bad_loss=0.5, to_bad_per_s=1.0, to_good_per_s=2.0)
    for own in (0.1, Bernoulli(p=0.1), ((0.0, 0.1), (4.0, Bernoulli(p=0.3)))):
        link = impaired(LINK.changed(loss=own), [Effect(forward=Way(bursts=bursts, loss=steps((0.0, 0.2))))])
        first = link.loss[0][1] if isinstance(link.loss, tuple) else link.loss
        assert (first.good_loss, first.bad_loss) == (pytest.approx(0.28), pytest.approx(0.64))
    assert link.loss[1][1].good_loss == pytest.approx(0.44)
    with pytest.raises(OrbitccError, match="one loss in bursts"):
        impaired(LINK.changed(loss=bursts), [Effect(forward=Way(bursts=bursts))])


def test_outages_of_impairments_do_not_overlap_and_are_no_handovers():
    link = LINK.changed(outages=(Outage(at_s=10, duration_ms=1000),))
    more = [
        Outage(at_s=10.5, duration_ms=1000, mode="hold"),
        Outage(at_s=10.2, duration_ms=100),
        Outage(at_s=5, duration_ms=50),
    ]
    got = impaired(link, [Effect(outages=more), Effect(handovers=[Handover(at_s=7, duration_ms=3)])])
    assert [(o.at_s, o.mode) for o in got.outages] == [(5, "drop"), (10, "drop"), (pytest.approx(11), "hold")]
    assert got.outages[2].at_s + got.outages[2].duration_ms / 1e3 == pytest.approx(11.5)
    assert [h.at_s for h in got.path_changes()] == [7, 10]
    assert Link.build(got.model_dump()) == got
    assert merged([]) == ()


def test_one_gate_and_a_rate_to_share():
    gate = Effect(reverse=Way(gate_ms=50.0, gate_phase_ms=7.0))
    back = impaired(LINK, [gate]).backward()
    assert (back.gate_ms, back.gate_phase_ms) == (50.0, 7.0)
    with pytest.raises(OrbitccError, match=r"reverse.gate_ms: 50.0 .*at most one"):
        impaired(LINK, [gate, gate])
    with pytest.raises(OrbitccError, match="forward.rate_mbps"):
        impaired(LINK.changed(rate_mbps=None), [Effect(forward=Way(rate=steps((0.0, 0.5))))])


# -- probes --------------------------------------------------------------------------------------------------------


def test_probes_wait_for_frames_and_outages_and_keep_their_order():
    t = np.arange(0, 30, 0.01)
    link = Link(
        name="a",
        rate_mbps=None,
        delay_ms=((0.0, 30.0), (10.0, 10.0)),
        outages=(Outage(at_s=5, duration_ms=500, mode="hold"), Outage(at_s=20, duration_ms=1000)),
        reverse=Direction(delay_ms=20.0, gate_ms=50.0),
    )
    rtt = probe(link, t, np.random.default_rng(1))
    lost = np.isnan(rtt)
    assert t[lost] == pytest.approx(t[(t >= 19.989) & (t < 20.9999)], abs=0.011)  # on their way there, or back
    assert rtt[0] == pytest.approx(50)
    assert rtt[~lost].min() + 1e-9 >= 30
    assert rtt[np.searchsorted(t, 5.0 - 1e-9)] == pytest.approx(550)
    arrivals = (t + rtt / 1e3)[~lost]
    assert (np.diff(arrivals) > -1e-9).all()
    assert np.abs(arrivals / 0.05 - np.round(arrivals / 0.05)).max() < 1e-6


def test_probes_meet_losses_as_often_as_packets_do():
    t = np.arange(0, 4000, 0.01)
    chain = GilbertElliott(good_loss=0.01, bad_loss=0.8, to_bad_per_s=2.0 + 2 / 9, to_good_per_s=20)
    lost = np.isnan(probe(Link(name="a", rate_mbps=None, loss=chain, reverse=Direction()), t, np.random.default_rng(1)))
    assert lost.mean() == pytest.approx(0.1 * 0.8 + 0.9 * 0.01, rel=0.05)
    assert lost[1:][lost[:-1]].mean() > 0.5  # in bursts: a bad spell lasts five probes
    steps = Link(name="a", rate_mbps=None, loss=((0.0, 0.0), (2000.0, Bernoulli(p=0.25))), reverse=Direction())
    lost = np.isnan(probe(steps, t, np.random.default_rng(1)))
    assert (lost[:200_000].sum(), lost[200_000:].mean()) == (0, pytest.approx(0.25, abs=0.01))


@pytest.mark.parametrize(
    ("jitter", "mean", "sd"),
    [(GammaJitter(mean_ms=4, tau_ms=30), 4.0, 4 / 2**0.5), (SineJitter(sine_period_s=0.5), 33.6, 16.7)],
)
def test_probes_meet_the_jitter_of_the_simulator(jitter, mean, sd):
    t = np.arange(0, 400, 0.005)
    sampled = jitter_ms(jitter, t, np.random.default_rng(2))
    link = Link(name="a", rate_mbps=None, delay_ms=5.0, jitter=jitter, ordering="overtaking", reverse=Direction())
    delays = 1e3 * (arrivals_s([link], 200.0, 400.0) - t[: 2 * 40_000]) - 5
    for found in (sampled, delays):
        assert found.mean() == pytest.approx(mean, rel=0.08)
        assert found.std() == pytest.approx(sd, rel=0.12)
    near = [np.corrcoef(found[:-1], found[1:])[0, 1] for found in (sampled, delays)]
    assert near[0] == pytest.approx(near[1], abs=0.03)


def arrivals_s(links, per_s, duration_s):
    """When packets sent at k / per_s over these links arrive, to half a millisecond."""
    scenario = Scenario(
        name="probes",
        duration_s=duration_s + 2,
        links=tuple(links),
        flows=(Flow(controller="udp", traffic=Cbr(rate_mbps=per_s * 1514 * 8 / 1e6), stop_s=duration_s),),
        sim=SimSettings(noise=False),
    )
    recording = simulate(scenario, record_interval_s=0.001)
    packets = recording.flows["goodput_mbps"][:, 0] * 1e6 * 0.001 / 8 / 1448
    return np.repeat(recording.t_s - 0.0005, np.round(packets).astype(int))
