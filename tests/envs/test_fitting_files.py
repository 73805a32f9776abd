"""Files for `orbitcc fit`: their kinds are recognised by content, and their numbers are those that were written."""

import contextlib
import json

import numpy as np
import pytest

from orbitcc.common.errors import FileContentError, NoSuchFileError, OrbitccError
from orbitcc.envs.fitting.files import gather, read
from orbitcc.envs.fitting.recordings import Datagrams, Delays, Intervals, Opportunities, Packets, Probes
from tests.envs.fitting_logs import iperf3_tcp, iperf3_udp, pcap_file, ping_line, ping_log


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_ping_without_timestamps_is_spaced_as_its_summary_says(file):
    found = read(file("log", ping_log([20.0 + k % 3 for k in range(10)] + [None] * 2 + [21.0] * 13)))
    assert isinstance(found, Probes)
    assert found.sent_s == pytest.approx(0.2 * np.arange(25))
    assert np.flatnonzero(np.isnan(found.rtt_ms)).tolist() == [10, 11]
    assert found.rtt_ms[[0, 1, 2, 12]].tolist() == [20, 21, 22, 21]


def test_ping_with_timestamps_gives_the_times_of_sending(file):
    """A stamp is that of the answer; probe 5 has no answer, and probes 26 and 27 are lost at the end."""
    rtts = [20.0 + 10 * (k % 2) for k in range(25)] + [None, None]
    rtts[4] = None
    found = read(file("log", ping_log(rtts, interval_s=0.5, stamps=True)))
    assert found.sent_s == pytest.approx(0.5 * np.arange(27), abs=1e-5)
    assert np.flatnonzero(np.isnan(found.rtt_ms)).tolist() == [4, 25, 26]


def test_ping_without_a_summary_duplicates_and_wrapped_numbers(file):
    numbers = [*range(65_526, 65_536), *range(1, 20)]
    lines = [ping_line(n, 30) for n in numbers]
    lines.insert(3, ping_line(numbers[2], 31) + " (DUP!)")
    found = read(file("log", "\n".join(lines)))
    answered = found.rtt_ms[~np.isnan(found.rtt_ms)]
    assert answered.tolist() == [30.0] * 29
    assert np.diff(found.sent_s) == pytest.approx(1.0)


def test_iperf3_over_tcp(file):
    """100 Mbit/s of payload in segments of 1448 bytes are 104.56 Mbit/s with headers of 66 bytes."""
    found = read(file("log.txt", iperf3_tcp([100.0] * 6, [25.5] * 6, [0, 0, 3, 0, 0, 1])))
    assert isinstance(found, Intervals)
    assert found.wire_bytes * 8e-6 == pytest.approx([104.558] * 6, rel=1e-5)
    assert found.rtt_ms.tolist() == [25.5] * 6
    assert found.resent.tolist() == [0, 0, 3, 0, 0, 1]
    assert found.packets == pytest.approx([12.5e6 / 1448] * 6)
    assert found.controller == "cubic"


def test_iperf3_over_udp_counts_what_arrived(file):
    found = read(file("x.json", iperf3_udp([1000] * 5, [100] * 5, [0.5] * 5, size=1400)))
    assert isinstance(found, Datagrams)
    assert found.wire_bytes.tolist() == [900 * 1442] * 5
    assert found.lost.tolist() == [100] * 5


def test_files_of_numbers_are_opportunities_or_delays(file):
    assert isinstance(read(file("a", "".join(f"{t}\n" for t in range(6000)))), Opportunities)
    assert isinstance(read(file("b", "20\n21\n20\n" * 200)), Delays)
    assert isinstance(read(file("c", "20\n" * 600)), Delays)


def _transfer():
    """A segment of 1000 bytes every 10 ms, acknowledged 40 ms later; segment 100 is lost and sent again 60 ms later."""
    packets = []
    for k in range(600):
        t = 1 + k / 100
        packets.append((t, 1, True, 1 + 1000 * k, 1000))
        if k < 100 or k > 106:
            packets.append((t + 0.04, 1, False, 1 + 1000 * (k + 1), 0))
    packets.append((1 + 1.065, 1, True, 1 + 1000 * 100, 1000))
    packets.append((1 + 1.10, 1, False, 1 + 1000 * 107, 0))
    return packets


@pytest.mark.parametrize("ethernet", [True, False])
def test_a_capture_has_times_sizes_and_losses(file, ethernet):
    found = read(file("x", pcap_file(_transfer(), ethernet=ethernet)))
    assert isinstance(found, Packets)
    assert found.sent_s == pytest.approx(np.arange(600) / 100, abs=2e-6)
    assert found.wire_bytes.tolist() == [1054] * 600
    assert np.flatnonzero(found.lost).tolist() == [100]
    assert (found.acked_s - found.sent_s)[found.once] == pytest.approx(0.04, abs=2e-6)
    assert not found.once[100:106].any(), "sent again, or acknowledged late because of it"
    assert found.payload_bytes == 600_000


def test_a_copy_that_was_sent_needlessly_is_not_a_loss(file):
    packets = [p for p in _transfer() if p[0] != 1 + 1.065]
    packets.append((1 + 2.035, 1, True, 1 + 1000 * 200, 1000))  # its acknowledgement comes 5 ms later
    found = read(file("x", pcap_file(packets)))
    assert found.lost.tolist() == [False] * 600
    assert np.flatnonzero(~np.isnan(found.again_s)).tolist() == [200]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "it is empty"),
        ("hello\n", "line 1 is not understood: 'hello'"),
        ("\xff\xfe".encode("latin-1"), "output of ping"),
        (ping_log([20.0] * 5), "at least 20 answers; it has 5"),
        ("{", "JSON of iperf3"),
        ("{}", "'start'"),
        (json.dumps({"error": "unable to connect to server"}), "unable to connect"),
        (iperf3_tcp([10.0] * 3, [20.0] * 3, [0] * 3), "at least 5 intervals; it has 3"),
        (json.dumps({"start": {"test_start": {"protocol": "SCTP"}}, "intervals": [], "end": {}}), "TCP or UDP"),
        ("1\n2\n3\n", "at least 5 s"),
        ("20\n" * 100, "at least 5 s; it has 1 s"),
        (pcap_file(_transfer()[:100]), "500 data packets"),
        (pcap_file([]), "it has none"),
        (pcap_file([(1 + k / 100, k % 2, True, 1 + 1000 * k, 1000) for k in range(900)]), "2 flows carry the data"),
        (b"\xd4\xc3\xb2\xa1", "cut off in its header"),
    ],
)
def test_a_wrong_file_is_one_clear_error(file, content, says):
    path = file("trace", content)
    with pytest.raises(FileContentError) as error:
        read(path)
    assert str(path) in str(error.value)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_damaged_capture_is_read_as_far_as_it_goes_or_refused(file):
    """Cut anywhere, or with bytes changed: a recording or an error of ours."""
    whole = pcap_file(_transfer())
    rng = np.random.default_rng(1)
    for k in range(120):
        damaged = bytearray(whole[: rng.integers(20, len(whole))] if k % 2 else whole)
        for at in rng.integers(0, len(damaged), 20):
            damaged[at] = rng.integers(256)
        with contextlib.suppress(FileContentError):
            assert isinstance(read(file("x", bytes(damaged))), Packets)


def test_a_missing_file(tmp_path):
    with pytest.raises(NoSuchFileError):
        read(tmp_path / "none")


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((), "one file or more"),
        (("chances",), "half of a pair"),
        (("delays",), "half of a pair of LeoReplayer"),
        (("delays", "ping"), "half of a pair of LeoReplayer"),
        (("chances", "ping"), "half of a pair"),
        (("delays", "delays", "chances"), "one pair"),
        (("chances", "chances", "chances"), "one pair"),
    ],
)
def test_pairs_must_be_whole(file, names, says):
    texts = {
        "chances": "".join(f"{t}\n" for t in range(6000)),
        "delays": "20\n21\n" * 300,
        "ping": ping_log([20.0] * 30),
    }
    with pytest.raises(OrbitccError, match=says):
        gather([file(f"{k}-{name}", texts[name]) for k, name in enumerate(names)])


def test_all_recordings_of_a_path_are_gathered(file):
    found = gather(
        [
            file("bandwidth", "".join(f"{t}\n" for t in range(6000))),
            file("delays", "20\n21\n" * 300),
            file("ping", ping_log([20.0] * 30)),
            file("iperf3", iperf3_tcp([100.0] * 6, [25.5] * 6, [0] * 6)),
            file("udp", iperf3_udp([1000] * 5, [0] * 5, [0.5] * 5)),
            file("pcap", pcap_file(_transfer())),
        ]
    )
    kinds = (found.opportunities, found.probes, found.intervals, found.datagrams, found.packets)
    assert [len(kind) for kind in kinds] == [1, 2, 1, 1, 1]
    assert found.probes[0].rtt_ms[:4].tolist() == [40, 42, 40, 42], "twice the one-way delay"
