"""The access overlay: slots, outages, losses, delays and rates of a Starlink-like link."""

import itertools

import numpy as np
import pytest

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Cbr, Flow
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.queues import DropTailBytes
from orbitcc.envs.description.scenario import Scenario, SimSettings
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.effects import impaired
from orbitcc.envs.impairments.probe import probe
from orbitcc.envs.impairments.series import Series
from orbitcc.envs.orbits.trace import Slot

RNG = np.random.default_rng
NONE = (0, 0)
QUIET = {"loss": NONE, "bursts_per_s": NONE, "jitter_rtt_ms": NONE, "frame_ms": NONE, "noise_sd": NONE, "rate_sd": NONE}
LINK = Link(
    name="access",
    rate_mbps=150.0,
    delay_ms=5.0,
    handovers=(),
    queue=DropTailBytes(limit_bytes=10**9),
    reverse=Direction(rate_mbps=15.0, delay_ms=5.0),
)


def drawn(seed, duration_s=3000.0, slots=None, **fields):
    """The overlay's link, and its slots."""
    rng, overlay = RNG(seed), AccessOverlay(**fields)
    slots = overlay.own_slots(rng, duration_s) if slots is None else slots
    return impaired(LINK, [overlay.draw(rng, duration_s, 150.0, slots)]), slots


def test_slots_have_one_length_and_start_anywhere():
    rng = RNG(1)
    firsts = []
    for _ in range(300):
        starts = [s.start_s for s in AccessOverlay().own_slots(rng, 100.0)]
        assert starts[0] == 0
        firsts.append(starts[1])
        assert np.diff(starts[1:]) == pytest.approx(15, abs=5e-4)
    assert 0 < min(firsts) < 0.5
    assert 14.5 < max(firsts) <= 15


def test_interruptions_come_at_slot_edges_within_their_range():
    link, slots = drawn(1, duration_s=20_000.0, interruption_probability=(1, 1))
    lengths = np.array([o.duration_ms for o in link.outages])
    assert [o.at_s for o in link.outages] == [s.start_s for s in slots[1:]]
    assert lengths.size > 1000
    assert lengths.mean() == pytest.approx(82.5, abs=2)
    assert 45 <= lengths.min() < 47
    assert 118 < lengths.max() <= 120
    assert {(o.flush, o.directions) for o in link.outages} == {("none", "both")}
    assert np.mean([o.mode == "hold" for o in link.outages]) == pytest.approx(0.7, abs=0.05)


def test_a_new_satellite_always_interrupts_and_is_a_handover():
    link, slots = drawn(2, duration_s=20_000.0, interruption_probability=(0.3, 0.3), handover_probability=0.5)
    changes = {s.start_s for s in slots if s.access_change}
    cut = {o.at_s for o in link.outages}
    assert changes <= cut
    stays = len(slots) - 1 - len(changes)
    assert (len(cut) - len(changes)) / stays == pytest.approx(0.3, abs=0.06)
    assert [h.at_s for h in link.handovers] == sorted(changes)
    assert {h.duration_ms for h in link.handovers} <= {o.duration_ms for o in link.outages}


def test_the_slots_of_a_path_are_kept_and_its_own_interruptions_left_alone():
    slots = [Slot(0.0), Slot(10.0, access_fwd_change=True, interruption_ms=70.0), Slot(25.0, access_rev_change=True)]
    slots += [Slot(30.0, outage=True), Slot(40.0, mid_change=True)]
    link, _ = drawn(3, 60.0, slots=slots, interruption_probability=(0, 0), **QUIET)
    assert [o.at_s for o in link.outages] == [25.0]


def test_long_interruptions_are_for_stress():
    link, _ = drawn(4, duration_s=20_000.0, long_interruption_probability=1.0)
    lengths = np.array([o.duration_ms for o in link.outages])
    assert 20 <= lengths.min() < 25
    assert 600 < lengths.max() <= 750
    assert np.median(lengths) == pytest.approx((20 * 750) ** 0.5, rel=0.15)


def sent_at(link, per_s, duration_s):
    """A run of equally spaced packets over the link; when they leave."""
    rate = per_s * 1514 * 8 / 1e6
    scenario = Scenario(
        name="probes",
        duration_s=duration_s + 2,
        links=(link,),
        flows=(Flow(controller="udp", traffic=Cbr(rate_mbps=rate), stop_s=duration_s),),
        sim=SimSettings(noise=False),
    )
    return simulate(scenario, record_interval_s=0.001), np.arange(0, duration_s, 1 / per_s)


def test_holding_loses_nothing_keeps_order_and_ramps_up():
    link, _ = drawn(5, 60.0, hold_probability=1, interruption_probability=(1, 1), **QUIET)
    assert link.ordering == "fifo"
    recording, sent = sent_at(link, 10_000.0, 60.0)
    assert recording.link_totals[0]["lost_packets"] == recording.link_totals[0]["dropped_packets"] == 0
    assert recording.flow_totals[0]["received_bytes"] == sent.size * 1448
    rate = Series.of(link.rate_mbps)
    for outage in link.outages:
        end = outage.at_s + outage.duration_ms / 1e3
        shares = rate.at(end + 1e-6 + np.linspace(0, 0.15, 60)) / 150
        assert shares[0] == pytest.approx(1 / 8)
        assert shares[-1] == 1
        assert (np.diff(shares) >= 0).all()
        assert rate.at(end + 0.039) < 150


def test_dropping_loses_exactly_what_arrives_meanwhile():
    link, _ = drawn(6, 60.0, hold_probability=0, interruption_probability=(1, 1), **QUIET)
    recording, sent = sent_at(link, 2_500.0, 60.0)  # no queue: what arrives leaves before the next
    within = [np.sum((sent >= o.at_s) & (sent < o.at_s + o.duration_ms / 1e3)) for o in link.outages]
    assert len(within) in (3, 4)
    # The packet in service when the link goes down waits for its return.
    assert recording.link_totals[0]["lost_packets"] == sum(within)
    assert link.rate_mbps == 150.0


def test_edge_bursts_cost_some_packets_in_a_row():
    link, slots = drawn(7, 3000.0, edge_burst_probability=1.0, edge_burst_packets=(20, 20), **QUIET)
    bursts = [o for o in link.outages if o.directions == "forward"]
    assert len(bursts) == len(slots) - 1
    assert all(o.duration_ms == pytest.approx(20 * 1514 * 8 / 150e3, abs=0.002) for o in bursts)


def test_rates_follow_slots_and_noise():
    link, slots = drawn(8, 30_000.0, interruption_ms=NONE, noise_sd=(0.15, 0.15))
    rate = Series.of(link.rate_mbps)
    starts = np.array([s.start_s for s in slots])
    t = np.arange(0.05, 30_000, 0.1)
    log = np.log(rate.at(t) / 150)
    of = np.searchsorted(starts, t, side="right") - 1
    means = np.bincount(of, log) / np.bincount(of)
    assert means.std() == pytest.approx(0.25, abs=0.03)
    assert np.corrcoef(means[:-1], means[1:])[0, 1] == pytest.approx(0.6, abs=0.08)
    inside = rate.at(t) / np.exp(means[of]) / 150
    assert inside.std() == pytest.approx(0.15, abs=0.01)
    back = Series.of(link.reverse.rate_mbps)
    assert set(back.t_s) <= set(starts)


def pings(seed, **fields):
    """Medians of whole slots, residuals, phases in the slot, RTTs, slots of a probe every 0.15 s, not in step."""
    link, slots = drawn(seed, **fields)
    starts = np.array([s.start_s for s in slots[1:]])
    t = np.arange(starts[0], starts[-1], 0.15371)
    rtt = probe(link, t, RNG(seed + 1000))
    of = np.searchsorted(starts, t, side="right") - 1
    starts = starts[:-1]
    medians = np.array([np.nanmedian(rtt[of == k]) for k in range(starts.size)])
    return medians, rtt - medians[of], t - starts[of], rtt, of


def test_probes_of_many_links_look_like_published_ones():
    steps, excess = [], []
    for seed in range(40):
        medians, residual, phase, _, _ = pings(seed)
        steps.append(np.percentile(np.abs(np.diff(medians)), [50, 90]))
        excess.append(np.nanmean(residual[phase < 0.25]))
        late = residual[(phase > 0.6) & (phase < 10)]
        assert abs(np.nanmean(late)) < 3  # back to normal
    median, high = np.mean(steps, axis=0)
    assert 1 <= median <= 15
    assert 2 <= high <= 90
    assert 10 <= np.mean(excess) <= 40


def test_a_link_like_victorias_varies_between_slots_more_than_within():
    medians, _, _, rtt, of = pings(3, slot_sd_ms=(12, 12), jitter_rtt_ms=(4, 4))
    known = ~np.isnan(rtt)
    assert 0.4 <= np.var(medians[of][known]) / np.var(rtt[known]) <= 0.95
    assert 3 <= np.median(np.abs(np.diff(medians))) <= 15


def test_losses_are_those_of_the_ranges():
    overlay = {"loss": (0.02, 0.02), "bursts_per_s": (0.05, 0.05), "burst_ms": (100, 100), "interruption_ms": NONE}
    _, _, _, rtt, _ = pings(4, **overlay)
    each = 0.02 + 0.05 * 0.1  # of each direction: alone, and the share of time in bursts
    assert np.isnan(rtt).mean() == pytest.approx(2 * each, rel=0.2)


# -- leo-access ----------------------------------------------------------------------------------------------------


def test_each_part_of_leo_access_is_switched_by_itself():
    def link(**params):
        return scenarios.get("leo-access", run=3, **params).links[0]

    full = link()
    assert {o.mode for o in full.outages} == {"hold", "drop"}
    assert link(interruption="none").outages == ()
    assert {o.mode for o in link(interruption="hold").outages} == {"hold"}
    assert [o.at_s for o in link(interruption="drop").outages] == [o.at_s for o in full.outages]
    assert max(o.duration_ms for o in link(long_interruptions=True).outages) > 120
    assert isinstance(link(delay_changes=False).delay_ms, float)
    assert (link(jitter=False).jitter, link(jitter=False).gate_ms) == (None, 0)
    assert link(losses=False).loss == link(losses=False).reverse.loss == 0
    calm = link(rate_changes=False, interruption="drop")
    assert (calm.rate_mbps, calm.reverse.rate_mbps) == (150, 15)
    for params, fields in (
        ({"delay_changes": False}, {"delay_ms", "interpolate_delay", "queue"}),
        ({"jitter": False}, {"jitter", "gate_ms", "gate_phase_ms"}),
        ({"losses": False}, {"loss"}),
        ({"rate_changes": False}, {"rate_mbps"}),
    ):
        other = link(**params)
        assert {f for f in Direction.model_fields if getattr(other, f) != getattr(full, f)} == fields
        assert other.outages == full.outages
    crowded = scenarios.get("leo-access", run=3, hotspots_per_min=6)
    assert {f.controller.name for f in crowded.flows} == {"cubic", "udp"}


def test_leo_access_repeats_by_its_run_and_is_a_file():
    one, again, other = (scenarios.get("leo-access", run=run) for run in (3, 3, 4))
    assert one == again
    assert one.links != other.links
    assert Scenario.from_toml(one.to_toml()) == one
    for before, after in itertools.pairwise(one.links[0].outages):
        assert before.at_s < after.at_s
