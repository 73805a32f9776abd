"""Trace sets: folders of data sets as their authors publish them, the split, the file, and what looks wrong in it."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.fitting.recordings import Probes
from orbitcc.envs.orbits import formats, trace_set
from orbitcc.envs.orbits.pool import TracePool
from orbitcc.envs.orbits.trace import PathTrace
from orbitcc.envs.orbits.trace_set import PARTS, TraceSet, part_of, split
from orbitcc.envs.traces import importing, paths
from orbitcc.envs.traces.check import check
from tests.commands.shell import called
from tests.envs import trace_folders


def made(*given) -> TraceSet:
    return TraceSet(trace_folders.imported(*given))


@pytest.fixture(scope="module")
def leocc(tmp_path_factory) -> TraceSet:
    folder = tmp_path_factory.mktemp("leocc")
    return made("leocc", trace_folders.leocc(folder / "traces"), folder / "set.npz")


def trace_of(found: TraceSet, name: str) -> PathTrace:
    return found.measured([e["name"] for e in found.entries].index(name)).trace()


def test_a_trace_of_leocc_has_the_rates_delays_and_outages_of_its_files(leocc):
    trace = trace_of(leocc, "B/3")
    assert trace.duration_s == 20
    there = np.interp([9.995, 10.005], *_steps(trace.capacity.t_s, trace.capacity.forward_mbps, 20))
    assert there.tolist() == [12, 60]  # 1 and 5 opportunities of 1500 bytes per ms
    assert np.concatenate(trace.delays_ms([9.99, 10.0])).tolist() == [23, 33, 23, 33]
    cuts = [(s.start_s, s.interruption_ms, s.interruption_mode) for s in trace.slots if s.interruption_ms]
    assert cuts == [(pytest.approx(12.0), pytest.approx(100), "hold")]
    assert trace.mean_mbps == (pytest.approx(12.024, abs=0.01), None)  # 48 Mbit/s more for 10 ms of 20 s; no return


def _steps(t_s, values, end_s):
    ends = np.append(t_s[1:], end_s) - 1e-6
    return np.column_stack((t_s, ends)).ravel(), np.repeat(values, 2)


def test_delays_are_those_of_the_reader_of_leoreplayers_files(leocc, tmp_path):
    folder = trace_folders.leocc(tmp_path / "again", "B", 3)
    trace, other = trace_of(leocc, "B/3"), formats.load_replayer(
        folder / "B/3/delay_3.txt", folder / "B/3/bw_3.txt", bin_ms=10
    )  # fmt: skip
    assert np.array_equal(trace.t_s, other.t_s)
    assert np.array_equal(trace.forward_ms, other.forward_ms)
    before = other.capacity.t_s < 12
    assert np.array_equal(other.capacity.forward_mbps[before], trace.capacity.forward_mbps[: before.sum()])


def test_numbers_of_a_file_are_those_of_its_lines(tmp_path):
    numbers = [0, 7, 10, 99, 100, 12_345, 12_345, 999_999_999]
    file = tmp_path / "bw.txt"
    for end in ("\n", ""):
        file.write_text("\n".join(map(str, numbers)) + end)
        assert formats.opportunities(file).tolist() == numbers
    for text, line in (("1\n2\n\n3\n", 3), ("1\n2\n1\n", 3), ("1\n-2\n", 2), ("1\n2.5\n", 2), ("1\n2x\n", 2)):
        file.write_text(text)
        with pytest.raises(OrbitccError, match=f"bw.txt, line {line}"):
            formats.opportunities(file)


def test_pings_of_lens_are_cut_to_paths_of_five_minutes(tmp_path):
    found = made("lens", trace_folders.lens(tmp_path / "LENS-2024-01"), tmp_path / "set.npz")
    assert [e["duration_s"] for e in found.entries] == [300, 300, 50] * 6
    assert {(e["place"], e["date"]) for e in found.entries} == {("seattle", "2024-01-20"), ("kanazawa", "2024-01-20")}
    first = next(k for k, e in enumerate(found.entries) if e["place"] == "seattle")
    trace = found.measured(first).trace()
    assert trace.base_rtt_ms([0, 100, 299]).tolist() == [50, 50, 50]
    assert trace.capacity is None
    # Five probes in a row without an answer, 0.1 s apart: from the first to the next one with an answer.
    cuts = [(s.start_s, s.interruption_ms, s.interruption_mode) for s in trace.slots if s.interruption_ms]
    assert cuts == [(pytest.approx(10.0, abs=1e-3), pytest.approx(500, abs=1), "drop")]
    # Another one is lost at random: of 6499, without the one after it. Half of the probability is of each direction.
    assert trace.slots[-1].loss == pytest.approx(1 - (1 - 1 / 6499) ** 0.5)
    assert found.index["licence"] == "CC BY-SA 4.0"


def test_twenty_tests_of_wetlinks_make_a_path(tmp_path):
    found = made("wetlinks", trace_folders.wetlinks(tmp_path / "WetLinks"), tmp_path / "set.npz")
    assert [e["place"] for e in found.entries] == ["Enschede"] * 2 + ["Osnabrück"] * 2  # the last 5 tests are left
    trace = found.measured(1).trace()
    assert trace.duration_s == 300
    assert trace.mean_mbps == (pytest.approx(107), pytest.approx(10))  # the mean of 100 to 114; up
    assert trace.base_rtt_ms([0, 299]).tolist() == [40, 40]
    assert [s.start_s for s in trace.slots] == list(range(0, 300, 15))
    assert trace.slots[7].loss == pytest.approx(1 - 0.99**0.5)
    assert found.entries[1]["date"] == "2024-03-01"
    for path in (tmp_path / "WetLinks").rglob("*.csv"):  # as spreadsheets save it, with the time as the first column
        rows = [line.partition(",")[2] for line in path.read_text().splitlines()]
        path.write_text("\ufeff" + "\n".join(rows) + "\n")
    again = made("wetlinks", tmp_path / "WetLinks", tmp_path / "again.npz")
    assert [e["digest"] for e in again.entries] == [e["digest"] for e in found.entries]


def test_pairs_of_mahimahi_have_rates_of_both_directions_and_no_delays(tmp_path):
    found = made("mahimahi", trace_folders.mahimahi(tmp_path / "cellular"), tmp_path / "set.npz")
    assert [e["name"] for e in found.entries] == ["X1", "X2", "X3", "X-downlink.rec"]
    trace = found.measured(0).trace()
    assert trace.mean_mbps == (pytest.approx(12, rel=2e-3), pytest.approx(1.2, rel=2e-3))
    assert not trace.has_delays
    assert found.entries[0]["rtt_ms"] is None


def test_a_place_of_pings_is_their_folder(tmp_path):
    for place, count in (("home", 6_500), ("office", 3_000)):
        trace_folders.ping(tmp_path / "logs" / place / "a.txt", count)
    found = made("pings", tmp_path / "logs", tmp_path / "set.npz", "CC0")
    assert [(e["place"], e["duration_s"]) for e in found.entries] == [
        ("home", 300), ("home", 300), ("home", 50), ("office", 300),
    ]  # fmt: skip
    assert found.index["licence"] == "CC0"


def test_reconfigurations_are_edges_of_slots_on_which_outages_or_delays_lie():
    sent = np.arange(0, 120, 0.01)
    slots = ((sent - 4) // 15).astype(int)
    rtt = np.array([40.0, 55, 30, 60, 45, 70, 35, 50, 65])[slots + 1] + 0.1 * np.sin(sent * 37)
    path = paths.of_probes("x", Probes("x", sent, rtt))
    assert [round(s.start_s) for s in path.slots if s.change] == [4, 19, 34, 49, 64, 79, 94, 109]
    rtt = np.full(sent.size, 40.0)
    rtt[np.isin(np.arange(sent.size) % 1500, range(400, 410))] = np.nan  # 100 ms at 4 s, 19 s, ...
    path = paths.of_probes("x", Probes("x", sent, rtt))
    assert [(round(s.start_s, 2), round(s.interruption_ms or 0)) for s in path.slots if s.change] == [
        (4 + 15 * k, 100) for k in range(8)
    ]


# -- the split --------------------------------------------------------------------------------------------------------


def test_a_unit_goes_where_its_hash_says():
    # printf orbitcc-traces-0/A/2024-01 | sha256sum: 5cc40d30... is 0.362 of 2^64; and so on
    assert part_of("A/2024-01") == "train"
    assert part_of("seattle/2024-01-20") == "validation"  # ba3b8f6a...: 0.727
    assert part_of("A/0") == "test"  # f2a04f42...: 0.948
    shares = [[part_of(f"P/{k}") for k in range(20_000)].count(part) / 20_000 for part in PARTS]
    assert shares == pytest.approx([0.7, 0.1, 0.2], abs=0.01)


@pytest.mark.parametrize(
    ("dates", "kind"),
    [
        ([f"20{y}-{m:02}-01" for y in (23, 24) for m in range(1, 13)], "month"),
        ([f"2024-01-{d:02}" for d in range(1, 29)], "day"),
        (["2024-01-01"] * 28, "block of 10"),
        ([""] * 28, "block of 10"),
    ],
)
def test_no_unit_spans_two_parts_and_none_is_empty(dates, kind):
    listed = [(place, date) for place in "ABC" for date in dates for _ in range(3)]
    found, number, parts = split(listed)
    assert found == kind
    assert set(parts) == set(PARTS)
    units: dict = {}
    seen: dict = {}
    for (place, date), part in zip(listed, parts, strict=True):
        seen[place] = seen.get(place, -1) + 1
        unit = {"month": date[:7], "day": date}.get(kind, str(seen[place] // 10))
        units.setdefault(f"{place}/{unit}", set()).add(part)
    assert all(own == {part_of(unit, number)} for unit, own in units.items())


def test_small_sets_are_split_in_smaller_blocks_and_two_paths_are_refused():
    assert split([("A", "")] * 30)[0] == "block of 10"
    assert split([("A", "")] * 12)[0] == "block of 5"
    kind, _, parts = split([("A", "")] * 3)
    assert (kind, set(parts)) == ("block of 1", set(PARTS))
    with pytest.raises(OrbitccError, match="at least 3"):
        split([("A", "")] * 2)


# -- the import -------------------------------------------------------------------------------------------------------


def test_an_import_that_was_stopped_goes_on_and_gives_the_same_bytes(leocc, tmp_path):
    folder, out, read = trace_folders.leocc(tmp_path / "traces"), tmp_path / "other.npz", []

    def stopped(function, items, name):
        for k, item in enumerate(items):
            if k == 11:
                raise KeyboardInterrupt
            yield k, function(item)

    with pytest.raises(KeyboardInterrupt):
        importing.import_set("leocc", folder, out, stopped, lambda *_: None)
    assert len(list(importing.parts_of(out).iterdir())) == 11
    assert not out.exists()

    def counted(function, items, name):
        read.extend(items)
        yield from enumerate(map(function, items))

    importing.import_set("leocc", folder, out, counted, lambda *_: None)
    assert len(read) == 19
    assert not importing.parts_of(out).exists()
    assert out.read_bytes() == Path(leocc.path).read_bytes()


def test_a_killed_import_goes_on(leocc, tmp_path):
    folder = trace_folders.leocc(tmp_path / "traces")
    command = [sys.executable, "-m", "orbitcc.cli", "traces", "import", "leocc", str(folder), "--out", "set.npz"]
    running = subprocess.Popen([*command, "--workers", "2"], cwd=tmp_path, start_new_session=True)
    parts, end = tmp_path / "set.npz.parts", time.monotonic() + 60
    while len(list(parts.glob("*.npz"))) < 3 and running.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    done = called(*command[3:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "set.npz").read_bytes() == Path(leocc.path).read_bytes()
    assert (tmp_path / "set.png").stat().st_size > 10_000


def test_files_that_cannot_be_read_are_listed_with_their_line_and_left_out(tmp_path):
    folder = trace_folders.leocc(tmp_path / "traces", "ABC", 4)
    (folder / "B/2/bw_2.txt").write_text("0\n1\nx\n")
    (folder / "C/1/delay_1.txt").unlink()
    done = called("traces", "import", "leocc", str(folder), "--out", str(tmp_path / "set.npz"), "--workers", "1")
    assert done.returncode == 0
    assert "left out: B/2/bw_2.txt, line 3: 'x' is not allowed" in done.stderr
    assert "left out: file: no such file: C/1/delay_1.txt" in done.stderr
    assert "2 could not be read" in done.stderr
    found = TraceSet(tmp_path / "set.npz")
    assert len(found.entries) == 10
    assert len(found.index["unreadable"]) == 2
    digest = hashlib.sha256((folder / "A/1/bw_1.txt").read_bytes()).hexdigest()
    assert found.index["files"]["A/1/bw_1.txt"] == digest
    assert "left out: B/2" in called("traces", "show", str(tmp_path / "set.npz")).stdout


def test_what_cannot_be_imported_is_one_line_and_exit_code_2(tmp_path):
    folder, out = trace_folders.leocc(tmp_path / "traces", "A", 1), str(tmp_path / "set.npz")
    (tmp_path / "empty").mkdir()
    for args, words in (
        (("leocc", str(tmp_path / "no"), "--out", out), "an existing folder"),
        (("leocc", str(tmp_path / "empty"), "--out", out), "PLACE/N/bw_N.txt"),
        (("leoc", str(folder), "--out", out), "did you mean 'leocc'"),
        (("leocc", str(folder), "--out", str(tmp_path / "set.zip")), ".npz"),
        (("leocc", str(folder), "--out", out), "at least 3"),  # one path makes no three parts
        (("leocc", str(folder), "--out", out, "--workers", "0"), "1 or more"),
    ):
        done = called("traces", "import", *args)
        assert (done.returncode, done.stdout) == (2, "")
        errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
        assert words in errors[0], done.stderr
        assert len(errors) == 1
    for k in (2, 3):
        shutil.copytree(folder / "A/1", folder / f"A/{k}")
    (folder / "A/3/bw_1.txt").write_text("x\n")
    done = called("traces", "import", "leocc", str(folder), "--out", out)
    assert (
        "at least 3, so that train, validation, test each have one; 1 could not be read, first A/3/bw_1.txt, line 1"
        in (done.stderr)
    )
    for k in (1, 2):
        (folder / f"A/{k}/bw_1.txt").write_text("x\n")
    done = called("traces", "import", "leocc", str(folder), "--out", out)
    assert done.returncode == 2
    assert "at least one file that can be read" in done.stderr
    assert not importing.parts_of(Path(out)).exists()
    assert not Path(out).exists()
    Path(out).write_text("mine")
    assert "--overwrite" in called("traces", "import", "leocc", str(folder), "--out", out).stderr


# -- the file ---------------------------------------------------------------------------------------------------------


def test_any_changed_byte_is_refused(leocc, tmp_path):
    data, file = Path(leocc.path).read_bytes(), tmp_path / "set.npz"
    for at in (0, 40, len(data) // 3, len(data) // 2, len(data) - 2_000, len(data) - 90, len(data) - 1):
        file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(OrbitccError, match=r"set.npz: must be a trace set"):
            TraceSet(file)
    file.write_bytes(data[:-100])
    done = called("traces", "show", str(file))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def _sealed(file: Path, **members: bytes) -> None:
    """A zip archive with the digest that a set has."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name.replace("_json", ".json").replace("__", "/"), content)
        packed.comment = b"0" * 64
    data = file.read_bytes()[:-64]
    file.write_bytes(data + hashlib.sha256(data).hexdigest().encode())


def test_bombs_and_crafted_sets_are_refused(leocc, tmp_path, monkeypatch):
    file, index = tmp_path / "set.npz", json.loads(json.dumps(leocc.index))
    monkeypatch.setattr(trace_set, "MOST_INDEX", 1_000_000)
    _sealed(file, index_json=b" " * 2_000_000)
    with pytest.raises(OrbitccError, match="its index has more than 1 MB"):
        TraceSet(file)
    for damage in ({"duration_s": "x"}, {"part": "all"}, {"rtt_ms": [1e99]}, {"name": 3}):
        wrong = [{**index["paths"][0], **damage}, *index["paths"][1:]]
        _sealed(file, index_json=json.dumps({**index, "paths": wrong}).encode())
        with pytest.raises(OrbitccError, match="path 0 of its index"):
            TraceSet(file)
    _sealed(file, index_json=b'{"format": "something else"}')
    with pytest.raises(OrbitccError, match="its format is not"):
        TraceSet(file)
    _sealed(file, index_json=json.dumps(index).encode())  # without arrays
    with pytest.raises(OrbitccError, match="path 0 has no slots"):
        TraceSet(file).measured(0)
    monkeypatch.setattr(trace_set, "MOST_ARRAY", 1_000)
    with pytest.raises(OrbitccError, match="more than 0.001 MB"):
        leocc.measured(0)


def test_numbers_have_a_fixed_order_that_mixes_places(leocc):
    numbers = leocc.numbers("train")
    assert numbers == TraceSet(leocc.path).numbers("train")
    assert numbers != sorted(numbers)
    assert sorted(k for part in PARTS for k in leocc.numbers(part)) == list(range(30))
    with pytest.raises(OrbitccError, match="places: unknown name 'Z'"):
        leocc.numbers("train", ["Z"])


def test_check_says_what_looks_wrong(tmp_path):
    folder = trace_folders.leocc(tmp_path / "traces", "ABC", 4)
    for name in ("bw", "delay"):  # the same content twice, under another number
        (folder / f"B/3/{name}_3.txt").write_bytes((folder / f"A/1/{name}_1.txt").read_bytes())
    (folder / "C/1/bw_1.txt").write_text("\n".join(str(ms) for ms in range(20_000) for _ in range(50)) + "\n")
    (folder / "C/2/delay_2.txt").write_text("1500\n" * 2_000)
    made("leocc", folder, tmp_path / "set.npz")
    done = called("traces", "check", str(tmp_path / "set.npz"), "--json")
    found = {(one["what"], one["path"]): one["value"] for one in json.loads(done.stdout)}
    assert found["same content", "B/3"] == "as A/1"
    assert found["rate above 500 Mbit/s", "C/1"] == "99 % below 600 Mbit/s"  # 50 x 12 kbit per ms
    assert found["RTT above 2000 ms", "C/2"] == "3000 ms"
    assert ("frozen delay", "C/2") not in found  # 20 s are shorter than 30
    assert "same content" in called("traces", "check", str(tmp_path / "set.npz")).stdout
    assert not [f for f in check(TraceSet(tmp_path / "set.npz"), 1_000) if "Mbit/s" in f.what]


def test_other_units_and_pairs_of_different_lengths_are_found(tmp_path):
    folder = trace_folders.leocc(tmp_path / "traces", "ABC", 4)
    (folder / "A/1/delay_1.txt").write_text("0\n" * 1_999 + "20\n")  # in s, rounded
    (folder / "A/2/bw_2.txt").write_text("\n".join(map(str, range(5_000))) + "\n")
    (folder / "A/3/bw_3.txt").write_text("\n".join(map(str, range(19_989))) + "\n")  # less by 11 ms, and by 10 ms
    (folder / "A/4/bw_4.txt").write_text("\n".join(map(str, range(19_990))) + "\n")
    out = tmp_path / "set.npz"
    done = called("traces", "import", "leocc", str(folder), "--out", str(out), "--workers", "1")
    assert "warning: 2 of 12 paths, first A/2: rates and delays of different lengths: 5 s and 20 s\n" in done.stderr
    assert "11 of 12" not in done.stderr
    found = {(f.what, f.path): f.value for f in check(TraceSet(out))}
    assert found["RTT below 1 ms: other units?", "A/1"] == "median 0 ms"
    assert found["doubtful times", "A/3"] == "rates and delays of different lengths: 19.989 s and 20 s"
    assert ("doubtful times", "A/4") not in found
    sites = trace_folders.wetlinks(tmp_path / "WetLinks")
    for file in sites.rglob("net_iperf.csv"):  # 0.1 kbit/s, and 10 kbit/s
        file.write_text(file.read_text().replace("000000.0,", "00.0,").replace(",10000000.0", ",10000.0"))
    made("wetlinks", sites, tmp_path / "wet.npz")
    whats = {f.what for f in check(TraceSet(tmp_path / "wet.npz"))}
    assert {"rate below 0.2 Mbit/s: other units?", "return rate below 0.2 Mbit/s: other units?"} <= whats


def test_pauses_of_probes_and_frozen_values_are_found(tmp_path):
    trace_folders.ping(tmp_path / "logs/a/a.txt", 2_000)
    lines = (tmp_path / "logs/a/a.txt").read_text().splitlines()
    later = [f"[{float(line[1:18]) + 7:.6f}]{line[19:]}" for line in lines[1_000:]]  # a step of the clock by 7 s
    (tmp_path / "logs/a/a.txt").write_text("\n".join([*lines[:1_000], *later]) + "\n")
    for place in "bc":
        trace_folders.ping(tmp_path / f"logs/{place}/a.txt", 2_000)
    found = {(f.what, f.path): f.value for f in check(made("pings", tmp_path / "logs", tmp_path / "set.npz"))}
    assert found["clock step or pause of the probes", "a/a"] == "7.1 s without a probe"
    assert found["frozen delay", "b/a"] == "200 s"
    back = [f"[{float(line[1:18]) - 1.5:.6f}]{line[19:]}" for line in lines[1_000:]]
    (tmp_path / "logs/a/a.txt").write_text("\n".join([*lines[:1_000], *back]) + "\n")
    (tmp_path / "logs/c/a.txt").write_text("\n".join(line.partition("] ")[2] for line in lines) + "\n")
    made("pings", tmp_path / "logs", tmp_path / "again.npz")
    found = {(f.what, f.path): f.value for f in check(TraceSet(tmp_path / "again.npz"))}
    assert found["doubtful times", "a/a"] == "the clock steps back by up to 1.4 s"  # less the 0.1 s between probes
    assert found["doubtful times", "c/a/0s"] == "no times in the log: probes taken to be 1 s apart"
    shown = called("traces", "check", str(tmp_path / "again.npz"), env={"COLUMNS": "80"}).stdout
    assert "doubtful times" in shown


# -- windows ----------------------------------------------------------------------------------------------------------


def test_a_window_depends_on_the_settings_and_its_number_alone(leocc):
    pool = TracePool(traces=leocc.path, duration_s=8)
    assert pool.path(3) == TracePool(traces=leocc.path, duration_s=8).path(3)
    assert pool.path(3).duration_s == pytest.approx(8)
    assert pool.path(3) != pool.path(4)
    assert TracePool.build(pool.model_dump()) == pool
    names = {e["name"] for e in leocc.entries if e["part"] == "train"}
    assert {pool.path(i).name for i in range(60)} <= names


def test_a_longer_window_repeats_its_path(leocc):
    trace = TracePool(traces=leocc.path, duration_s=50).path(0)
    assert trace.duration_s == pytest.approx(50)
    assert trace.base_rtt_ms(3) == trace.base_rtt_ms(23) == trace.base_rtt_ms(43)


def test_a_window_is_a_part_of_its_path(leocc):
    whole = leocc.measured(0).trace()
    part = whole.since(11.95)
    at = np.array([0.0, 0.03, 1.0, 7.0])
    assert np.array_equal(part.base_rtt_ms(at), whole.base_rtt_ms(at + 11.95))
    assert [(round(s.start_s, 3), s.interruption_ms) for s in part.slots] == [(0, None), (0.05, pytest.approx(100))]
    inside = whole.since(12.04)  # 40 ms of the outage are over
    assert inside.slots[0].interruption_ms == pytest.approx(60)
    assert inside.slots[0].interruption_mode == "hold"


def test_settings_of_a_pool_that_are_wrong_are_named(leocc):
    for given, words in (
        ({"split": "all"}, "split"),
        ({"places": "Z"}, "places: unknown name 'Z'"),
        ({"traces": "no.npz"}, "no such file"),
        ({"digest": "0" * 64}, "digest"),
    ):
        with pytest.raises(OrbitccError, match=words):
            TracePool.build({"traces": leocc.path, **given})
    with pytest.raises(OrbitccError, match="orbitcc traces import"):
        TracePool().path(0)
