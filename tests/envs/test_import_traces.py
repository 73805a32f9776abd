"""Importing folders as trace sets: large items, names, short and sparse recordings, and two imports at once."""

import datetime
import itertools
import json
import os
from pathlib import Path

import pytest

from orbitcc.envs.traces import importing
from tests.envs import trace_folders
from tests.envs.fitting_logs import iperf3_tcp, ping_line, ping_log


def one_by_one(job, items, _name):
    for k, item in enumerate(items):
        yield k, job(item)


def imported(layout, folder, out):
    return importing.import_set(layout, folder, out, one_by_one, lambda done, total: None)


@pytest.fixture
def pings(tmp_path):
    """A folder with a log in each of four places."""
    for place in "abcd":
        (tmp_path / "in" / place).mkdir(parents=True)
        log = ping_log([20.0 + k % 2 for k in range(300)], interval_s=0.1, stamps=True)
        (tmp_path / "in" / place / "1.txt").write_text(log)
    return tmp_path / "in"


def test_a_site_of_wetlinks_may_have_thousands_of_paths(tmp_path):
    """400 paths have four arrays each."""
    (tmp_path / "in" / "a").mkdir(parents=True)
    begin = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    tests = ["timestamp_start,timestamp_end,download,upload"]
    pings = ["timestamp_start,ping_best,packet_loss"]
    for k in range(400 * 20):
        at = begin + datetime.timedelta(seconds=180 * k)
        pings.append(f"{at},20,0")
        seconds = [at + datetime.timedelta(seconds=j) for j in range(16)]
        tests += [f"{a},{b},100000000,10000000" for a, b in itertools.pairwise(seconds)]
    (tmp_path / "in" / "a" / "net_iperf.csv").write_text("\n".join(tests))
    (tmp_path / "in" / "a" / "net_ping.csv").write_text("\n".join(pings))
    made, unreadable = imported("wetlinks", tmp_path / "in", tmp_path / "set.npz")
    assert (len(made.entries), unreadable) == (400, [])
    assert made.measured(399).rate_mbps.tolist() == [100.0] * 300


def test_names_that_are_not_utf_8_are_escaped(pings):
    odd = os.fsencode(pings) + b"/\xfe/ping-\xff.txt"
    os.mkdir(os.path.dirname(odd))
    with open(odd, "w") as file:
        file.write(ping_log([21.0] * 300, interval_s=0.1))
    made, unreadable = imported("pings", pings, pings.parent / "set.npz")
    assert unreadable == []
    assert made.places == ["\\udcfe", *"abcd"]
    assert "\\udcfe/ping-\\udcff.txt" in made.index["files"]


def test_a_log_without_a_whole_second_is_left_out(pings):
    """Six intervals of 0.1 s."""
    log = json.loads(iperf3_tcp([100.0] * 6, [20.0] * 6, [0] * 6))
    for k, row in enumerate(log["intervals"]):
        row["sum"].update(start=0.1 * k, end=0.1 * k + 0.1, seconds=0.1)
    (pings / "a" / "short.json").write_text(json.dumps(log))
    made, unreadable = imported("pings", pings, pings.parent / "set.npz")
    assert len(made.entries) == 4
    assert unreadable == ["file a/short.json: must be a log of at least 1 s"]


def test_a_log_with_few_probes_is_left_out(pings):
    """Less than one in a slot of 15 s."""
    lines = [ping_line(k, 20, 1.7e9 + 600 * k) for k in range(1, 40)]
    (pings / "a" / "long.txt").write_text("\n".join(lines))
    made, unreadable = imported("pings", pings, pings.parent / "set.npz")
    assert len(made.entries) == 4
    assert len(unreadable) == 1
    assert unreadable[0].startswith("file a/long.txt: ")
    assert "a probe every 15 s or more often" in unreadable[0]


def test_a_log_of_more_steps_than_probes_can_be_is_left_out(pings):
    """40 probes 10 ms apart, and one eleven days later: 95 million steps of 10 ms."""
    rows = [f"{1_700_000_000 + t},20" for t in [*(k / 100 for k in range(40)), 950_000]]
    (pings / "a" / "long.csv").write_text("timestamp,rtt\n" + "\n".join(rows) + "\n")
    made, unreadable = imported("pings", pings, pings.parent / "set.npz")
    assert len(made.entries) == 4
    assert unreadable == ["file a/long.csv: must be a log of at most 10,000,000 steps of 0.01 s"]


def test_what_a_path_may_not_be_names_the_file(pings):
    (pings / "a" / "slow.txt").write_text(ping_log([20.0] * 300, interval_s=0.1).replace("=20 ms", "=200000 ms"))
    _, unreadable = imported("pings", pings, pings.parent / "set.npz")
    assert len(unreadable) == 1
    assert unreadable[0].startswith("a/slow.txt: forward_ms.0: 100000.0 is not allowed")


def test_a_loss_above_100_percent_is_left_out_with_its_line(tmp_path):
    folder = trace_folders.wetlinks(tmp_path / "WetLinks", 60)
    file = folder / "Raw_Data/Enschede/net_ping.csv"
    file.write_text(file.read_text().replace(",1.0,100,", ",150,100,", 1))
    made, unreadable = imported("wetlinks", folder, tmp_path / "set.npz")
    assert made.places == ["Osnabrück"]
    said = "Raw_Data/Enschede/net_ping.csv, line 2, packet_loss: 150.0 is not allowed; allowed: a number in [0, 100]"
    assert unreadable == [said]


def test_logs_that_differ_in_their_ending_have_different_names(pings):
    for name in ("1.log", "1", "1.txt.gz.txt", "2.txt"):
        (pings / "a" / name).write_text((pings / "a" / "1.txt").read_text())
    made, _ = imported("pings", pings, pings.parent / "set.npz")
    names = ["a/1", "a/1.log", "a/1.txt", "a/1.txt.gz", "a/2", "b/1", "c/1", "d/1"]
    assert sorted(entry["name"] for entry in made.entries) == names


def test_a_set_in_the_folder_of_its_logs_is_no_log(pings, monkeypatch):
    monkeypatch.chdir(pings)
    out = Path("set.npz")

    def stopped(job, items, _name):
        for k, item in enumerate(items):
            yield k, job(item)
            if k == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        importing.import_set("pings", Path("."), out, stopped, lambda done, total: None)
    assert len(list(importing.parts_of(out).iterdir())) == 2
    for _ in range(2):  # continued, and once more over itself
        made, unreadable = imported("pings", Path("."), out)
        assert (len(made.entries), unreadable) == (4, [])
