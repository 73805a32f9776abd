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
