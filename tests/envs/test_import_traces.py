"""Importing folders as trace sets: large items, names, short and sparse recordings, and two imports at once."""

import datetime
import json
import os

import pytest

from orbitcc.common.errors import FileContentError, OrbitccError
from orbitcc.envs.orbits.trace_set import TraceSet
from orbitcc.envs.traces import importing
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
        tests += [f"{a},{b},100000000,10000000" for a, b in zip(seconds, seconds[1:], strict=False)]
    (tmp_path / "in" / "a" / "net_iperf.csv").write_text("\n".join(tests))
    (tmp_path / "in" / "a" / "net_ping.csv").write_text("\n".join(pings))
    made, unreadable = imported("wetlinks", tmp_path / "in", tmp_path / "set.npz")
    assert (len(made.entries), unreadable) == (400, [])
    assert made.measured(399).rate_mbps.tolist() == [100.0] * 300
