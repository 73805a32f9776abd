"""LeoEM's paths, against the published table of their figures."""

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.orbits import leoem
from orbitcc.envs.orbits.constellation import LIGHT_KM_PER_S
from orbitcc.envs.orbits.places import find, great_circle_km
from orbitcc.envs.orbits.routing import find_path
from orbitcc.envs.orbits.trace import JUMP_S

# RTT min, mean, max in ms; seconds of access handovers (end, ms by LeoEM's rule); seconds with changes between; largest
# step of the RTT in ms; nodes; median of the first 300 s; buffer.
TABLE = {
    "sea-ny-isl": (
        (26.5, 45.8, 102.4), 11, 14, 75.7, (7, 20), 44.4, 388,
        "32s 48d 64d 80s 128s 144d 160d 176s 224s 240d 256s",
    ),
    "sea-ny-bp": (
        (30.8, 38.3, 46.1), 11, 100, 5.9, (13, 19), 37.8, 326,
        "32s 48d 64d 80s 128s 144d 160d 176s 224s 240d 256s",
    ),
    "sd-ny-isl": ((49.0, 61.2, 140.0), 8, 6, 90.4, (9, 27), 51.8, 522, "48s 48d 64d 144s 144d 160d 224s 240d"),
    "sd-ny-bp": ((34.5, 48.0, 60.7), 8, 94, 9.8, (15, 19), 49.3, 408, "48s 48d 64d 144s 144d 160d 224s 240d"),
    "ny-ldn-isl": (
        (42.2, 82.5, 145.9), 12, 41, 67.8, (11, 25), 87.5, 696,
        "32d 48s 64s 80d 112d 128d 144s 160s 160d 208d 240s 256d",
    ),
    "sd-sha-isl": ((80.8, 86.0, 90.1), 7, 4, 6.2, (11, 36), 86.2, 740, "16d 48s 96d 144s 192d 224s 272d"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_a_path_has_the_published_figures(name):
    rtt, handovers, middles, step, nodes, median, buffer, _ = TABLE[name]
    path = leoem.get(name)
    seconds = path.trace.base_rtt_ms(np.arange(300.0))
    assert (seconds.min(), seconds.mean(), seconds.max()) == pytest.approx(rtt, abs=0.6)
    assert np.median(seconds) == pytest.approx(median, abs=0.6)
    assert np.abs(np.diff(seconds)).max() == pytest.approx(step, abs=0.6)
    slots = path.trace.slots
    assert sum(s.access_fwd_change for s in slots) + sum(s.access_rev_change for s in slots) == handovers
    assert sum(s.mid_change for s in slots) == middles
    assert (path.nodes, path.buffer_packets) == (nodes, buffer)


@pytest.mark.parametrize("name", TABLE)
def test_handovers_happen_at_the_published_seconds(name):
    published = {(int(item[:-1]), item[-1]) for item in TABLE[name][-1].split()}
    slots = leoem.get(name).trace.slots
    found = {(s.start_s, "s") for s in slots if s.access_fwd_change}
    found |= {(s.start_s, "d") for s in slots if s.access_rev_change}
    assert found == published
    assert all(second % 16 == 0 for second, _ in published)  # its slots last 16 s


@pytest.mark.parametrize("name", TABLE)
def test_delays_change_once_a_second(name):
    trace = leoem.get(name).trace
    assert trace.duration_s == 300
    for second in (0, 47, 48, 299):
        held = trace.base_rtt_ms(np.array([second, second + 0.5, second + 1 - 2 * JUMP_S]))
        assert held == pytest.approx(held[0], abs=1e-9)


def test_interruptions_are_leoems_or_somebody_elses():
    path = leoem.get("leoem-sd-ny-isl")
    assert all(s.interruption_ms is None for s in path.trace.slots)
    own = path.with_original_interruptions()
    assert {s.start_s: s.interruption_ms for s in own.slots if s.interruption_ms is not None} == {
        48: 8.4, 64: 5.1, 144: 9.0, 160: 4.7, 224: 8.6, 240: 5.4
    }  # fmt: skip
    drawn = path.trace.with_interruptions(lambda: 80.0)
    assert [s.start_s for s in drawn.slots if s.interruption_ms] == [48, 64, 144, 160, 224, 240]


@pytest.mark.parametrize("name", TABLE)
def test_the_physical_path_takes_the_time_light_needs(name):
    path = leoem.get(name)
    physical = find_path(path.physical, 300)
    great_circle_ms = 1e3 * great_circle_km(find(path.source), find(path.target)) / LIGHT_KM_PER_S
    assert physical.forward_ms.min() > great_circle_ms
    assert physical.statistics().outage_share == 0
    up_ms = 543 / LIGHT_KM_PER_S * 1e3  # every hop of a bent pipe is at least as long as the shell is high
    if path.mode == "bp":
        for slot in physical.slots:
            assert physical.delays_ms(slot.start_s)[0] > up_ms * (len(slot.nodes) - 1)
        assert path.trace.forward_ms.min() < 0.75 * up_ms * (path.nodes[0] - 1)  # what is wrong with the logs


def test_an_unknown_path_is_named():
    assert leoem.names() == tuple(f"leoem-{name}" for name in TABLE)
    with pytest.raises(OrbitccError, match="path: unknown name 'sd-ny-bpp'; did you mean 'leoem-sd-ny-bp'"):
        leoem.get("sd-ny-bpp")
