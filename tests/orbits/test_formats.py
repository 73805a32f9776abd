"""Traces as files: what is written is read again, and what is wrong is named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.envs.orbits import formats, leoem
from orbitcc.envs.orbits.routing import PathSpec, find_path
from orbitcc.envs.orbits.trace import Capacity, PathTrace, Slot

delays = st.floats(0, 6e4)
times = st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=8, unique=True).map(lambda t: [0.0, *sorted(t)])


@st.composite
def traces(draw):
    t = draw(times)
    inside = [x for x in t[:-1] if draw(st.booleans()) or x == 0]
    slots = tuple(
        Slot(
            start,
            *(draw(st.booleans()) for _ in range(4)),
            interruption_ms=draw(st.none() | st.floats(0, 1e4)),
            interruption_mode=draw(st.sampled_from(["drop", "hold"])),
            loss=draw(st.floats(0, 1)),
            nodes=draw(st.sampled_from([(), ("47.6,-122.3", "12/3", "New York"), ("a", "b")])),
        )
        for start in inside
    )
    capacity = None
    if draw(st.booleans()):
        at = [0.0, *(x for x in (y / 3 for y in t[1:]) if x > 0)]
        rates = st.lists(st.floats(0, 1e6), min_size=len(at), max_size=len(at))
        capacity = Capacity(at, draw(rates), draw(rates))
    values = st.lists(delays, min_size=len(t), max_size=len(t))
    return PathTrace(draw(st.sampled_from(["p", "a, b - c"])), t, draw(values), draw(values), slots, capacity)


@given(traces())
@settings(max_examples=200, deadline=None)
def test_csv_gives_back_the_very_trace(trace):
    assert formats.from_csv(formats.to_csv(trace)) == trace


@pytest.mark.parametrize("suffix", [".csv", ".log"])
def test_a_computed_path_survives_its_file(tmp_path, suffix):
    trace = find_path(PathSpec(source="San Diego", target="47.61,-122.34", mode="bp", phase_s=0), 60, seed=2)
    file = formats.save(trace, tmp_path / f"path{suffix}")
    read = formats.load(file)
    if suffix == ".csv":
        assert read == trace
        return
    # LeoEM's logs know whole seconds only, and nodes by number.
    assert read.base_rtt_ms(np.arange(60.0)) == pytest.approx(trace.base_rtt_ms(np.arange(60.0)), abs=1e-6)
    changed = [(s.start_s, s.access_fwd_change, s.access_rev_change, s.mid_change) for s in trace.slots if s.change]
    assert changed == [
        (s.start_s, s.access_fwd_change, s.access_rev_change, s.mid_change) for s in read.slots if s.change
    ]
    assert formats.to_leoem(read) == file.read_text(encoding="utf-8")


def test_the_leoem_paths_survive_csv():
    for name in leoem.names():
        trace = leoem.get(name).with_original_interruptions()
        assert formats.from_csv(formats.to_csv(trace)) == trace


def test_csv_of_somebody_else():
    trace = formats.from_csv("t_s,owd_fwd_ms,loss\n0,10,\n5,,0.01\n10,20,\n", "mine.csv")
    assert (trace.name, trace.duration_s, trace.capacity) == ("mine", 10, None)
    assert trace.delays_ms(5.0) == (15, 15)
    assert trace.slots == (Slot(0.0), Slot(5.0, loss=0.01))


def test_csv_says_what_an_empty_cell_means():
    text = """# measured at home
# name: home
t_s,cap_fwd_mbps,cap_rev_mbps,owd_fwd_ms,owd_rev_ms,flags,nodes
0,50,5,10,12,,a > b
2.5,0,,,,,
3,60,6,,,access_fwd interruption=82 hold,a > c > b
4,,,20,,outage,
5,,,,,slot,
6,,,,,,
"""
    assert formats.from_csv(text) == PathTrace(
        "home",
        [0, 4, 6],
        [10, 20, 20],
        [12, 20, 20],
        (
            Slot(0.0, nodes=("a", "b")),
            Slot(3.0, access_fwd_change=True, interruption_ms=82, interruption_mode="hold", nodes=("a", "c", "b")),
            Slot(4.0, outage=True),
            Slot(5.0),
        ),
        Capacity([0, 2.5, 3], [50, 0, 60], [5, 0, 6]),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "x.csv: 'nothing'"),
        ("t_s,owd_fwd\n", "x.csv, line 1: unknown name 'owd_fwd'; did you mean 'owd_fwd_ms'"),
        ("t_s,loss\n0,0\n", "x.csv, line 1: .* a column owd_fwd_ms"),
        ("t_s,owd_fwd_ms\n1,5\n", "x.csv, line 2, t_s: '1' .* 0 in the first row"),
        ("t_s,owd_fwd_ms\n0,5\n\n# so\n2,6\n1,5\n", "x.csv, line 6, t_s: '1' .* later than 2"),
        ("t_s,owd_fwd_ms\n0,5\n1,fast\n", r"x.csv, line 3, owd_fwd_ms: 'fast' .* a number in \[0, 60000\] ms"),
        ("t_s,owd_fwd_ms\n0,5\n1,nan\n", "x.csv, line 3, owd_fwd_ms: 'nan'"),
        ("t_s,owd_fwd_ms\n0,5\n1,-1\n", "x.csv, line 3, owd_fwd_ms: '-1'"),
        ("t_s,owd_fwd_ms\n0,5\n1\n", "x.csv, line 3: '1' .* 2 cells"),
        ("t_s,owd_fwd_ms\n0,\n1,5\n", "x.csv, owd_fwd_ms: .* a delay in the first row"),
        ("t_s,owd_fwd_ms\n0,5\n", "x.csv: 'one row' .* at least two rows"),
        ("t_s,owd_fwd_ms,owd_rev_ms\n0,5,5\n1,,5\n", "x.csv, line 3, owd_fwd_ms: .* because owd_rev_ms has one"),
        ("t_s,owd_fwd_ms,cap_fwd_mbps\n0,5,\n1,5,9\n", "x.csv, cap_fwd_mbps: .* a rate in the first row"),
        ("t_s,owd_fwd_ms,loss\n0,5,2\n1,5,\n", r"x.csv, line 2, loss: '2' .*\[0, 1\]"),
        ("t_s,owd_fwd_ms,flags\n0,5,acess_fwd\n", "line 2, flags: unknown name 'acess_fwd'; did you mean 'access_fwd'"),
        ("t_s,owd_fwd_ms,flags\n0,5,interruption=x\n", "x.csv, line 2, flags: 'x'"),
        ("t_s,owd_fwd_ms,flags\n0,5,\n1,5,mid\n", "x.csv, line 3, flags: .* no slot in the last row"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_csv_file_is_named(text, says):
    with pytest.raises(OrbitccError, match=says):
        formats.from_csv(text, "x.csv")


# -- LeoEM ----------------------------------------------------------------------------------------------------------

LOG = """1$[-1, 876, 942, 1011, -2]$5$[0.0003, 0.0038, 0.0039, 0.0011]$0.0091
2$[-1, 876, 942, 1011, -2]$5$[0.0003, 0.0038, 0.0040, 0.0011]$0.0092
3$NULL
4$NULL
5$[-1, 877, 942, 1011, -2]$5$[0.0005, 0.0038, 0.0040, 0.0011]$0.0094
6$[-1, 877, 943, 1011, -2]$5$[0.0005, 0.0038, 0.0040, 0.0011]$0.0094
"""


def test_a_leoem_log_is_played_second_by_second():
    trace = formats.from_leoem(LOG, "some/sd-ny.log")
    assert (trace.name, trace.duration_s) == ("sd-ny", 6)
    assert trace.base_rtt_ms([0.5, 1.5, 4.5, 5.5]) == pytest.approx([18.2, 18.4, 18.8, 18.8], abs=1e-6)
    assert [(s.start_s, s.access_fwd_change, s.access_rev_change, s.mid_change, s.outage) for s in trace.slots] == [
        (0, False, False, False, False), (2, False, False, False, True), (4, True, False, True, False),
        (5, False, False, True, False),
    ]  # fmt: skip
    assert trace.slots[0].nodes == ("-1", "876", "942", "1011", "-2")
    again = formats.from_leoem(formats.to_leoem(trace), "sd-ny.log")
    assert again.slots == trace.slots
    assert again.base_rtt_ms(np.arange(6.0)) == pytest.approx(trace.base_rtt_ms(np.arange(6.0)), abs=1e-9)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("3$[-1, 5, -2]$3$[0.001, 0.001]$0.002", "x.log, line 2, index: 3 .* 2 .one line per second"),
        ("2$[-1, 5, -2]$3", r"x.log, line 2: .*index\$\[nodes\]"),
        ("2$[-1, 5, -2$3$[0.001, 0.001]$0.002", "x.log, line 2, nodes: .* a list"),
        ("2$[-1, -2]$2$[0.001]$0.001", "x.log, line 2, nodes: .* three whole numbers"),
        ("2$[-1, 5, -2]$4$[0.001, 0.001]$0.002", "x.log, line 2, count: '4' .* 3"),
        ("2$[-1, 5, -2]$3$[0.001]$0.001", "x.log, line 2, delays: '1 delays' .* 2, one per hop"),
        ("2$[-1, 5, -2]$3$[0.001, -1]$0.001", r"x.log, line 2, delays: -1 .* \[0, 60\] s"),
        ("2$[-1, 5, -2]$3$[0.001, 0.001]$0.003", "x.log, line 2, sum: '0.003' .* 0.002"),
        ("x$NULL", "x.log, line 2, index: 'x'"),
    ],
)
def test_what_is_wrong_with_a_log_is_named(line, says):
    with pytest.raises(FileError, match=says):
        formats.from_leoem("1$[-1, 5, -2]$3$[0.001, 0.001]$0.002\n" + line, "x.log")


def test_logs_need_routes():
    with pytest.raises(FileError, match="x.log: '2 lines' .* a route in at least one line"):
        formats.from_leoem("1$NULL\n2$NULL\n", "x.log")
    with pytest.raises(OrbitccError, match="nodes: .* names the nodes"):
        formats.to_leoem(leoem.get("sd-ny-bp").trace)


# -- LeoReplayer ----------------------------------------------------------------------------------------------------


def write(path, numbers):
    path.write_text("".join(f"{n}\n" for n in numbers))
    return path


def test_leoreplayer_files_are_delays_and_opportunities(tmp_path):
    delay = write(tmp_path / "delay.txt", [10] * 30 + [25] * 10)  # 400 ms
    # 2 packets a millisecond, then none from 200 to 299 ms, then 1.
    stamps = [s for s in range(200) for _ in range(2)] + list(range(300, 400))
    trace = formats.load_replayer(delay, write(tmp_path / "bw.txt", stamps))
    assert (trace.name, trace.duration_s) == ("delay", 0.4)
    assert trace.delays_ms(0.2999) == (10, 10)
    assert trace.delays_ms(0.3) == (25, 25)
    assert trace.capacity == Capacity([0, 0.2, 0.3], [24, 0, 12], [24, 0, 12])


def test_leoreplayer_repeats_its_opportunities(tmp_path):
    delay = write(tmp_path / "delay.txt", [10] * 100)
    trace = formats.load_replayer(delay, write(tmp_path / "bw.txt", [100] * 5 + [200] * 5))
    own = trace.capacity
    assert own.forward_mbps[np.searchsorted(own.t_s, [0.0, 0.1, 0.2, 0.9], side="right") - 1].tolist() == [
        0, 0.6, 0.6, 0.6
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("delay", "stamps", "says"),
    [
        (["10", "x"], ["1"], "delay.txt, line 2: 'x' .* a whole number"),
        (["10", ""], ["1"], "delay.txt, line 2: ''"),
        ([], ["1"], "delay.txt: 'nothing'"),
        (["10"], ["5", "4"], "bw.txt, line 2: 4 .* 5 or later"),
        (["10"], ["0"], "bw.txt: 0 .* after the first millisecond"),
    ],
)
def test_what_is_wrong_with_leoreplayer_files_is_named(tmp_path, delay, stamps, says):
    files = write(tmp_path / "delay.txt", delay), write(tmp_path / "bw.txt", stamps)
    with pytest.raises(FileError, match=says):
        formats.load_replayer(*files)


def test_other_names_are_refused(tmp_path):
    for call in (lambda: formats.load("a.txt"), lambda: formats.save(leoem.get("sd-ny-bp").trace, tmp_path / "a")):
        with pytest.raises(FileError, match=r"a name ending in .csv, or in .log"):
            call()
    with pytest.raises(FileError, match="no such file"):
        formats.load(tmp_path / "none.csv")
