"""Recordings of a path that are made to slow down the reader, or to be read wrongly."""

import gzip
import json
import struct
import time

import numpy as np
import pytest

from orbitcc.common import files as common_files
from orbitcc.common.errors import FileContentError
from orbitcc.envs.fitting import pcap
from orbitcc.envs.fitting.files import read
from tests.envs.fitting_logs import iperf3_tcp, iperf3_udp, ping_line

HEADER = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n"


def write(folder, content):
    path = folder / "recording"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_many_gzip_files_after_one_another_take_linear_time(tmp_path):
    """9,000 parts and 8 MB that do not compress: to copy the rest for each part took seconds."""
    noise = np.random.default_rng(77031).bytes(8_000_000)
    path = write(tmp_path, gzip.compress(b"", 1) * 9_000 + gzip.compress(noise, 1))
    begin = time.process_time()
    assert common_files.read_unpacked(path, 600_000_000) == noise
    assert time.process_time() - begin < 2


def test_a_gzip_file_of_too_many_parts_is_refused(tmp_path):
    with pytest.raises(FileContentError, match="at most 50,000 parts"):
        common_files.read_unpacked(write(tmp_path, gzip.compress(b"", 1) * 50_001), 600_000_000)


@pytest.mark.parametrize("end", ["\r", "\f", "\x0b", "\x1c", "\x85", "\u2028"])
def test_every_kind_of_line_end_counts(tmp_path, monkeypatch, end):
    monkeypatch.setattr("orbitcc.envs.fitting.files.MOST_LINES", 1_000)
    with pytest.raises(FileContentError, match="1,000 lines"):
        read(write(tmp_path, HEADER + end * 1_001))


def test_a_line_end_of_windows_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr("orbitcc.envs.fitting.files.MOST_LINES", 40)
    text = HEADER + "\n".join(ping_line(k + 1, 20) for k in range(30)) + "\n"
    assert read(write(tmp_path, text.replace("\n", "\r\n"))).rtt_ms.size == 30


def test_captures_of_too_many_packets_and_blocks_are_refused(tmp_path, monkeypatch):
    """600 MB of empty packets took 12 GB of memory, and packed they are a small file."""
    monkeypatch.setattr(pcap, "MOST_PACKETS", 1_000)
    classic = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1) + bytes(16) * 1_001
    section = struct.pack("<III", 0x0A0D0D0A, 28, 0x1A2B3C4D) + bytes(12) + struct.pack("<I", 28)
    for content in (classic, section * 1_001):
        with pytest.raises(FileContentError, match="1,000 packets"):
            read(write(tmp_path, content))


@pytest.mark.parametrize(
    ("log", "field"),
    [
        (iperf3_tcp([100.0] * 6, [20.0] * 6, [0] * 6), "bytes"),
        (iperf3_tcp([100.0] * 6, [20.0] * 6, [0] * 6), "retransmits"),
        (iperf3_udp([1000] * 6, [10] * 6, [0.5] * 6), "lost_packets"),
        (iperf3_udp([1000] * 6, [10] * 6, [0.5] * 6), "jitter_ms"),
    ],
)
def test_a_figure_of_iperf3_that_is_none_is_refused(tmp_path, log, field):
    """Python makes a number of the text `nan`."""
    changed = json.loads(log)
    changed["intervals"][2]["sum"][field] = "nan"
    with pytest.raises(FileContentError, match="a recording with"):
        read(write(tmp_path, json.dumps(changed)))


def test_a_gap_in_which_the_numbers_of_ping_start_again_is_refused(tmp_path):
    """Probes 101 to 40,100 have no answer; 100 probes a second. Those after the gap were read as ones before it."""
    numbers = [*range(1, 101), *(k % 65_536 for k in range(40_101, 40_201))]
    lines = [ping_line(n, 20, 1.7e9 + 0.01 * k) for k, n in enumerate(numbers, start=1)]
    with pytest.raises(FileContentError, match="line 102 falls from 100 to 40101"):
        read(write(tmp_path, HEADER + "\n".join(lines) + "\n"))


def test_an_answer_that_comes_late_keeps_its_place(tmp_path):
    numbers = [*range(1, 31), *range(32, 400), 31]
    found = read(write(tmp_path, HEADER + "\n".join(ping_line(n, n) for n in numbers) + "\n"))
    assert found.rtt_ms.tolist() == [float(n) for n in range(1, 400)]


@pytest.mark.parametrize("step", [10_000_000, 10_000, 10])
def test_times_of_lens_are_seconds_or_nanoseconds(tmp_path, step):
    """In microseconds, 40 probes 10 ms apart were read as ones within 0.4 ms; in milliseconds, as 10 s apart."""
    per_s = step * 100
    rows = "".join(f"{1_700_000_000 * per_s + k * step},25.5\n" for k in range(40))
    path = write(tmp_path, "timestamp,rtt\n" + rows)
    if per_s == 1_000_000_000:
        assert read(path).sent_s == pytest.approx(0.01 * np.arange(40), abs=1e-6)
    else:
        with pytest.raises(FileContentError, match="line 2 is not understood"):
            read(path)


def test_a_row_of_wetlinks_with_too_many_probes_is_refused_before_they_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr("orbitcc.envs.fitting.tables.MOST", 100)
    head = "timestamp_start,timestamp_end,packet_loss,packets_send,ping_avg,ping_worst,ping_best\n"
    row = "2023-10-01T00:00:00,2023-10-01T00:00:10,0,{},30,50,20\n"
    with pytest.raises(FileContentError, match="at most 100 probes"):
        read(write(tmp_path, head + row.format(60) + row.format(9_999_999)))
