"""Forms in which recordings occur: each is read to the numbers that it was made from, or refused in one clear line."""

import gzip
import json

import numpy as np
import pytest

from orbitcc.common.errors import FileError
from orbitcc.common.files import read_unpacked
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.fitting.files import gather, read
from orbitcc.envs.fitting.fit import fit
from orbitcc.envs.orbits import formats
from tests.envs.fitting_logs import iperf3_tcp, iperf3_udp, ping_line


@pytest.fixture
def given(tmp_path):
    """What is read of a file, or the error as one line."""

    def given(content):
        path = tmp_path / "log"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        try:
            return read(path)
        except FileError as error:
            return str(error).replace(str(path), "FILE").replace("\n", " TWO LINES ")

    return given


def lost(found):
    return np.flatnonzero(np.isnan(found.rtt_ms)).tolist()


# -- ping -----------------------------------------------------------------------------------------------------------

LINUX = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."
BSD = "PING 192.0.2.1 (192.0.2.1): 56 data bytes"


def numbered(numbers, form="64 bytes from 192.0.2.1: icmp_seq={n} ttl=54 time=30.5 ms"):
    return [form.format(n=n) for n in numbers]


@pytest.mark.parametrize(
    ("head", "numbers", "tail", "count", "missing"),
    [
        ("", range(30_001, 30_031), "", 30, []),
        (LINUX, range(3, 33), "", 32, [0, 1]),
        (BSD, range(2, 32), "", 32, [0, 1]),
        ("", [*range(65_520, 65_535), 0, 65_535, *range(1, 15)], "", 31, []),
        ("", [65_535, *range(65_530, 65_535), *range(25)], "", 31, []),
        (LINUX, range(1, 31), "33 packets transmitted, 30 received, 9% packet loss, time 6400ms", 33, [30, 31, 32]),
        (BSD, range(30), "33 packets transmitted, 30 packets received, 9.1% packet loss", 33, [30, 31, 32]),
        ("", [n % 65_536 for n in range(70_000, 70_030)], "70031 packets transmitted, 70029 received, 0% packet loss",
         32, [30, 31]),
        (BSD, [n for n in range(30) if n != 4], "Request timeout for icmp_seq 30", 31, [4, 30]),
        (LINUX, range(1, 31), "From 192.0.2.9 icmp_seq=31 Destination Host Unreachable", 31, [30]),
        (LINUX, range(1, 31), "no answer yet for icmp_seq=31", 31, [30]),
        ("1: icmp_seq=", range(7, 37), "64 bytes from 192.0.2.1: icmp_seq=37 ttl=5", 30, []),
    ],
)  # fmt: skip
def test_lost_probes_are_counted_from_the_header_or_the_first_answer(given, head, numbers, tail, count, missing):
    found = given("\n".join([head, *numbered(numbers), tail]))
    assert (found.rtt_ms.size, lost(found)) == (count, missing)


@pytest.mark.parametrize(
    "form",
    [
        "64 bytes from host.example (192.0.2.1): icmp_seq={n} ttl=54 time=30.5 ms",
        "64 bytes from 192.0.2.7: icmp_seq={n} ttl=54 time=30.5 ms (DIFFERENT ADDRESS!)",
        "64 bytes from 2001:db8:12:34:56::1: icmp_seq={n} ttl=54 time=30.5 ms",
        "16 bytes from 2001:db8::1, icmp_seq={n} hlim=54 time=30.500 ms",
        "64 bytes from 192.0.2.1: seq={n} ttl=54 time=30.500 ms",
        "64 Bytes von 192.0.2.1: icmp_seq={n} ttl=54 Zeit=30,5 ms",
        "64 octets de 192.0.2.1 : icmp_seq={n} ttl=54 temps=30.5 ms",
        "64 bytes desde 192.0.2.1: icmp_seq={n} ttl=54 tiempo=30,5 ms",
        "64 байта из 192.0.2.1: icmp_seq={n} ttl=54 время=30.5 мс",
        "64 bajtů z\xa0192.0.2.1: pořadí={n} TTL=54 čas=30.5 ms",
        "64 바이트 192.0.2.1 에서: icmp_seq={n} ttl=54 시간=30.5 밀리초",
        "64 ბაიტი 192.0.2.1-დან: icmp_seq ={n} ttl =54 დრო=30.5 მწმ",
        "192.0.2.1 : [{n}], 64 bytes, 30.5 ms (30.5 avg, 0% loss)",
    ],
)
def test_every_form_of_an_answer(given, form):
    found = given("\r\n".join(numbered([*range(5, 20), *range(21, 40)], form)))
    assert (lost(found), np.nanmin(found.rtt_ms), np.nanmax(found.rtt_ms)) == ([15], 30.5, 30.5)
    assert found.spaced
    assert np.diff(found.sent_s).tolist() == [1.0] * 34


@pytest.mark.parametrize("words", ["64 bajty z 192.0.2.1: ", "64 x 192.0.2.1: ", "192.0.2.1 から 64 バイト応答: "])
def test_stamps_of_ping_stand_before_words_of_any_language(given, words):
    rows = [f"[{1.7e9 + 0.2 * k:.6f}] {words}icmp_seq={k} ttl=54 czas=30.5 ms" for k in range(1, 41)]
    np.testing.assert_allclose(np.diff(given("\n".join(rows)).sent_s), 0.2, atol=1e-5)


@pytest.mark.parametrize(
    ("head", "total"),
    [
        (LINUX, "33\xa0paquets transmis, 30 reçus, 9\xa0% paquets perdus, temps 6400\xa0ms"),
        (LINUX, "送信パケット数 33, 受信パケット数 30, パケット損失 9%, 時間 6400ミリ秒"),
        (LINUX, "已发送 33 个包， 已接收 30 个包, 9% 包丢失, 耗时 6400 毫秒"),
        (
            "ПІНГ 192.0.2.1 (192.0.2.1) 56(84) байтів даних.",
            "Надіслано 33 пакетів, отримано 30, втрачено 9%, час 6400мс",
        ),
        (LINUX, "33 paket iletildi, 30 alındı, +1 yinelenen, %9 paket kaybı, süre 6400ms"),
    ],
)
def test_a_summary_says_how_many_were_sent_and_how_long_it_took(given, head, total):
    doubled = numbered([9], "64 bayt 192.0.2.1: icmp_seq={n} ttl=54 zaman=30.5 ms (YİNELENEN!)")
    found = given("\n".join([head, *numbered(range(3, 33)), *doubled, total]))
    assert (found.rtt_ms.size, lost(found)) == (33, [0, 1, 32])
    np.testing.assert_allclose(np.diff(found.sent_s), 0.2)


@pytest.mark.parametrize("gap", [3_000, 40_000, 70_000, 131_072 + 2_500])
def test_stamps_say_how_often_the_numbers_went_round(given, gap):
    at = [*range(100, 1_100), *range(1_100 + gap, 2_000 + gap)]
    rows = [f"[{1.7e9 + 0.01 * k:.6f}] 64 bytes from h: icmp_seq={k % 65_536} ttl=54 time=30.5 ms" for k in at]
    found = given("\n".join(rows))
    assert found.rtt_ms.size == 1_900 + gap
    assert lost(found) == list(range(1_000, 1_000 + gap))
    # Where the clock alone jumps, and numbers go on, nothing was lost.
    rows = [f"[{1.7e9 + 0.01 * k + 3_600 * (k > 500):.6f}] {ping_line(k, 30)}" for k in range(1_000)]
    assert lost(given("\n".join(rows))) == []


def test_an_answer_below_a_bound_has_the_bound(given):
    assert set(given("\n".join(numbered(range(30), "4 bytes from h: icmp_seq={n} ttl=9 time<1 ms"))).rtt_ms) == {1.0}


def clock(k, step_s, begin_s=86_390.0):
    at = (begin_s + k * step_s) % 86_400
    return f"{int(at // 3600):02d}:{int(at // 60 % 60):02d}:{at % 60:06.3f}"


@pytest.mark.parametrize(
    ("stamp", "step_s"),
    [
        (lambda k: f"[{1.7e9 + 0.2 * k:.6f}] ", 0.2),
        (lambda k: f"{1.7e9 + 0.2 * k:.6f} ", 0.2),
        (lambda k: f"{1_700_000_000_123 + 200 * k} ", 0.2),
        (lambda k: f"Nov 28 {clock(k, 1)[:8]} ", 1.0),
        (lambda k: f"Nov 28 {clock(k, 0.2)[:8]} ", 0.2),
        (lambda k: f"{clock(k, 0.2, 0)} ", 0.2),
        (lambda k: f"{clock(k, 0.2)} ", 0.2),
        (lambda k: f"2026-11-{28 + (k >= 50)}T{clock(k, 0.2)}+01:00 ", 0.2),
        (lambda k: f"[2026-11-{28 + (k >= 50)} {clock(k, 0.2).replace('.', ',')}] ", 0.2),
        (lambda k: f"So 29. Nov {clock(k, 1)[:8]} CET 2026: ", 1.0),
        (lambda k: f"11/28/2026 {clock(k, 1, 3600 * 9)[1:8]} AM - ", 1.0),
        (lambda k: f"Nov 28 {clock(k, 1)[:8]} host ping[4711]: ", 1.0),
        (lambda k: f"{clock(k, 0.2)}000000: ", 0.2),
        (lambda k: f"2026-11-{28 + (k >= 50)}T{clock(k, 0.2)}Z: ", 0.2),
    ],
)  # fmt: skip
def test_the_time_between_probes_is_that_of_the_stamps(given, stamp, step_s):
    """Over midnight, too. Stamps of whole seconds at five answers per second show the mean interval."""
    rows = [stamp(k) + ping_line(k + 7, 30) for k in range(120) if k not in (0, 60, 61)]
    found = given("\n".join([stamp(0) + LINUX, *rows]))
    assert lost(found) == [*range(7), 66, 67]
    assert found.sent_s == pytest.approx(step_s * np.arange(126), abs=0.15 if step_s < 1 else 1e-6)
    assert not found.spaced


WINDOWS = ["", "Pinging example.com [192.0.2.1] with 32 bytes of data:"]


def test_windows_has_a_line_per_probe(given):
    reply, end = "Reply from 192.0.2.1: bytes=32 time=30ms TTL=54", ["", "Ping statistics for 192.0.2.1:"]
    end += ["    Packets: Sent = 25, Received = 23, Lost = 2 (8% loss),", "    Minimum = 30ms, Maximum = 30ms"]
    rows = [*WINDOWS, "Request timed out.", *[reply] * 11, "Reply from 192.0.2.9: Destination host unreachable."]
    found = given("\r\n".join([*rows, *[reply] * 12, *end]))
    assert (found.rtt_ms.size, lost(found)) == (25, [0, 12])
    german = "Antwort von 192.0.2.1: Bytes=32 Zeit<1ms TTL=54"
    rows = ["", "Ping wird ausgeführt für 192.0.2.1 mit 32 Bytes Daten:", *[german] * 24]
    text = "\r\n".join([*rows, "Zeitüberschreitung der Anforderung.", *[german] * 2])
    for content in (text.encode("cp850"), text.encode("cp1252"), text.encode("utf-16")):
        assert (given(content).rtt_ms.size, lost(given(content))) == (27, [24])
    assert "line 27 is not understood: 'Etwas anderes.'" in given(text.replace("Zeitüberschreitung der Anforderung", "Etwas anderes"))  # fmt: skip # noqa: E501


def test_fping_says_which_probes_were_lost(given):
    rows = [f"[{1.7e9 + k / 10:.5f}] 192.0.2.1 : [{k}], 64 bytes, 20.0 ms (20.0 avg, 0% loss)" for k in range(40)]
    rows[0] = "[1700000000.00000] 192.0.2.1 : [0], timed out (NaN avg, 100% loss)"
    found = given("\n".join([*rows, "", "192.0.2.1 : " + "- " + "20.0 " * 39]))
    assert lost(found) == [0]
    assert np.diff(found.sent_s) == pytest.approx(0.1, abs=1e-5)
    assert lost(given("192.0.2.1 : " + "20.0 - " * 25)) == list(range(1, 50, 2))
    assert "one target; line 2 is of other" in given("\n".join([rows[1], rows[2].replace("192.0.2.1", "other")]))


def answers(count, begin=""):
    return "\n".join(begin + row for row in numbered(range(1, count + 1))) + "\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (answers(150).replace("time=30.5 ms", "took a while"), "line 1 is not understood: '64 bytes from 192.0.2.1"),
        (answers(40).replace("seq=30 ttl=54 time=30.5 ms", "seq=30 ttl=54 time=?"), "line 30 is not understood"),
        (answers(40).replace("icmp_seq=30 ", ""), "line 30 is not understood"),
        (answers(40, "28/Nov/2026:12h00 "), "line 1 has another: '28/Nov/2026:12h00 64 bytes"),
        (answers(40, "00:12 "), "line 1 has another: '00:12 64 bytes"),
        (answers(40, "[00:12.345] "), "line 1 has another: '[00:12.345] 64 bytes"),
        (answers(40, "00:00:01 "), "stamps that rise from answer to answer (`ts` or `ts -s`, not `ts -i`)"),
        ("13:00:00 " + answers(40, "12:00:00 "), "line 2 is earlier than the answer before"),
        (f"{LINUX}\n{answers(40)}\n{LINUX}\n{answers(40)}", "line 43 begins another"),
        (answers(40) + answers(90), "40 sequence numbers come again"),
        (answers(40) + WINDOWS[1], "line 41 begins another"),
        (answers(40) + "Reply from 192.0.2.1: bytes=32 time=30ms TTL=54\n", "line 41 is of another"),
        (answers(40, "2026-13-01 12:00:00 "), "line 1 is not understood"),
        ("PING x (192.0.2.1) 56(84) bytes of data.\n" + answers(9), "at least 20 answers; it has 9"),
    ],
)
def test_a_log_that_is_not_understood_is_refused_with_the_line(given, text, says):
    assert says in given(text)


def test_a_long_log_with_many_rounds(given):
    found = given("\n".join(numbered(k % 65_536 for k in range(1, 200_001) if k % 1000)))
    assert lost(found) == list(range(999, 199_000, 1000))


# -- iperf3 ---------------------------------------------------------------------------------------------------------

TCP = json.loads(iperf3_tcp([100.0] * 6, [25.5] * 6, [0, 0, 3, 0, 0, 1]))


def changed(log, sender=None, reverse=None, **others):
    log = json.loads(json.dumps(log)) | others
    for row in log["intervals"]:
        row["sum"] |= {} if sender is None else {"sender": sender}
        if sender is False:
            del row["sum"]["retransmits"]
    log["start"]["test_start"] |= {} if reverse is None else {"reverse": reverse}
    return log


def test_the_end_that_sent_tells_the_log_apart(given):
    """Of a `-R` test, the file of the server; or that of the client with the server's output in it."""
    assert given(json.dumps(changed(TCP, reverse=1))).resent.tolist() == [0, 0, 3, 0, 0, 1]
    receiver = changed(TCP, sender=False, reverse=1)
    assert "the iperf3 that sent" in given(json.dumps(receiver))
    assert "the iperf3 that sent" in given(json.dumps(receiver | {"server_output_text": "x"}))
    assert given(json.dumps(receiver | {"server_output_json": TCP})).resent.tolist() == [0, 0, 3, 0, 0, 1]
    udp = json.loads(iperf3_udp([1000] * 5, [100] * 5, [0.5] * 5))
    sender = changed(udp, server_output_json=udp)
    for row in sender["intervals"]:
        del row["sum"]["lost_packets"]
    assert given(json.dumps(sender)).lost.tolist() == [100] * 5


def test_intervals_keep_their_times(given):
    """Of `-i 0.1` some are a little shorter; only a short last one is left out, and those of `--omit`."""
    log, rows = changed(TCP), []
    for k in range(61):
        length = 0.02 if k == 60 else 0.1 + (1e-5 if k % 2 else -1e-5)
        row = json.loads(json.dumps(TCP["intervals"][0]))
        row["sum"] |= {"start": 0.1 * k, "end": 0.1 * k + length, "seconds": length, "omitted": False}
        rows.append(row)
    omitted = json.loads(json.dumps(rows[0]))
    omitted["sum"]["omitted"] = True
    found = given(json.dumps(log | {"intervals": [omitted, *rows]}))
    assert found.end_s.size == 60
    assert found.end_s == pytest.approx(0.1 * np.arange(1, 61), abs=1.1e-5)


def test_a_stream_of_events(given):
    """With --json-stream a test that was killed has no end, and maybe half a line."""
    rows = [{"event": "start", "data": TCP["start"]}]
    rows += [{"event": "interval", "data": row} for row in TCP["intervals"]]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    whole = text + json.dumps({"event": "end", "data": TCP["end"]}) + "\n"
    assert (given(whole).controller, given(text).end_s.tolist()) == ("cubic", [1, 2, 3, 4, 5, 6])
    assert given(text + '{"event":"interval","da').end_s.size == 6
    assert "line 2 is not understood" in given(text.replace("\n", "\nx\n", 2))
    assert "line 8 begins another" in given(text + text)
    error = json.dumps({"event": "error", "data": "the server is busy"}) + "\n"
    assert "the server is busy" in given(json.dumps(rows[0]) + "\n" + error)
    assert given(text + error).end_s.size == 6, "a test that was ended has its intervals"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps(TCP, indent=1)[:900], "it is cut off in line"),
        (json.dumps(TCP)[:-1], "it is cut off in line 1"),
        (json.dumps(TCP) + "\n" + json.dumps(TCP), "line 2 begins another"),
        (json.dumps(changed(TCP)).replace('"num_streams"', '"bidir": 1, "num_streams"'), "without --bidir"),
        ("Connecting to host x, port 5201\n[ ID] Interval           Transfer\n", "`iperf3 --json`"),
        (json.dumps(changed(TCP, intervals=TCP["intervals"][::-1])), "the times of the intervals"),
    ],
)
def test_a_log_of_iperf3_that_cannot_be_used(given, text, says):
    assert says in given(text)


def test_parallel_streams_are_summed(given):
    log = changed(TCP)
    for row in log["intervals"]:
        row["streams"] = [row["streams"][0] | {"rtt": rtt} for rtt in (20_000, 30_000)]
    assert given(json.dumps(log)).rtt_ms.tolist() == [25.0] * 6


# -- irtt and tables --------------------------------------------------------------------------------------------------


def irtt_log(outcomes, clocks=("wall", "monotonic")):
    """outcomes: RTT in ms, or the word of a loss; a packet every 10 ms."""
    trips = []
    for k, outcome in enumerate(outcomes):
        stamps = {"wall": 1_705_744_800_616_897_349 + k * 10_000_000, "monotonic": 5 + k * 10_000_000}
        client = {"receive": {}, "send": {name: stamps[name] for name in clocks}}
        is_lost = isinstance(outcome, str | bool)
        trips.append(
            {
                "seqno": k, "lost": outcome if is_lost else "false", "timestamps": {"client": client, "server": {}},
                "delay": {} if is_lost else {"rtt": round(outcome * 1e6)}, "ipdv": {},
            }
        )  # fmt: skip
    return {"version": {"irtt": "0.9.1"}, "stats": {"duration": 1}, "round_trips": trips}


OUTCOMES = [20.5, "true", 21.5, "true_up", "true_down", True, *[20.5] * 30]


@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize("clocks", [("wall",), ("wall", "monotonic")])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_round_trips_of_irtt(given, indent, clocks, pack):
    found = given(pack(json.dumps(irtt_log(OUTCOMES, clocks), indent=indent).encode()))
    assert lost(found) == [1, 3, 4, 5]
    assert found.rtt_ms[[0, 2]].tolist() == [20.5, 21.5]
    assert found.sent_s == pytest.approx(0.01 * np.arange(36), abs=1e-6)


def test_many_round_trips_are_read_piece_by_piece(given):
    """Longer than a window of the reader; keys in another order; a cut file is refused."""
    text = json.dumps(irtt_log([20.5] * 3000), sort_keys=True)
    assert given(text).rtt_ms.tolist() == [20.5] * 3000
    assert "cut off at round trip" in given(text[: len(text) // 2])
    assert "at least 20 answers; it has 1" in given(json.dumps(irtt_log([20.5, *["true"] * 30])))
    assert "round trip 1" in given(json.dumps({"round_trips": [{"lost": False}]}))


def test_tables_of_lens(given):
    rows = [f"{1_705_744_800_616_897_349 + k * 10_000_000},{20 + k % 3},70.5,49.5" for k in range(30)]
    rows[3:6] = [row.split(",")[0] + end for row, end in zip(rows[3:6], (",0,0,-1", ",-1,0,0", ",0,-1,0"), strict=True)]
    found = given("\ufefftimestamp,rtt,uplink,downlink\r\n" + "\r\n".join(rows))
    assert lost(found) == [3, 4, 5]
    assert found.sent_s == pytest.approx(0.01 * np.arange(30), abs=1e-6)
    assert found.counts_losses
    found = given("timestamp,rtt\n" + "".join(f"{1_705_744_800 + k / 100:.6f},50.0\n" for k in range(30) if k % 10))
    assert (found.rtt_ms.size, lost(found), found.counts_losses) == (27, [], False)
    assert found.sent_s[-1] == pytest.approx(0.28, abs=1e-6)


WETLINKS = "site_name,timestamp_start,timestamp_end,target,ip_protocol,packet_loss,packets_send,ping_avg,ping_worst,ping_best,ping_stddev"  # fmt: skip # noqa: E501


def test_a_row_of_wetlinks_is_a_series_of_probes(given):
    """Per row 10 probes in 10 s, 2 of them lost: best 40, worst 80, mean 50, so the other six have 280/6."""
    rows = [f"x,2023-09-28 12:{k:02d}:03,2023-09-28 12:{k:02d}:13,h,ipv4,20.0,10,50.0,80.0,40.0,5.0" for k in range(9)]
    rows[4] = "x,2023-09-28 12:04:03,2023-09-28 12:04:13,h,ipv4,100.0,10,,,,"
    found = given("\n".join([WETLINKS, *rows]))
    assert (found.rtt_ms.size, len(lost(found))) == (90, 8 * 2 + 10)
    row = found.rtt_ms[:10]
    assert (np.nanmin(row), np.nanmax(row), np.nanmean(row)) == (40, 80, pytest.approx(50))
    assert found.sent_s[[0, 1, 10]] == pytest.approx([0, 1, 60])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("timestamp,rtt,rtt\n1,2,3\n", "each column once"),
        ("timestamp,rtt\n1,2\n1,two\n1,2\n", "line 3 is not understood: '1,two'"),
        ("timestamp,rtt\n1,2\n1,2,3\n1,2\n", "line 3 is not understood"),
        ("timestamp,rtt\nnan,2\n", "line 2 is not understood"),
        (
            "timestamp,rtt,uplink\n" + "".join(f"1705744800,{k},9\n" for k in range(20, 50)),
            "more than 0 and at most 1e+06 s; it has 0 s",
        ),
        ("timestamp,rtt\n1,2\n", "at least 20 answers; it has 1"),
        ("timestamp,rtt\n" + "".join(f"{k},9\n" for k in (*range(30), 9)), "line 32 is earlier: '9,9'"),
        ("timestamp,rtt\n" + "".join(f"{k // 2},9\n" for k in range(60)), "a row for each probe; 30 come again"),
        ('timestamp,rtt\n"1,2\n', "cells of CSV"),
        (WETLINKS + "\nx,yesterday,today,h,ipv4,0,10,50,80,40,5\n", "line 2 is not understood"),
        (WETLINKS + "\nx,2023-09-28,2023-09-29,h,ipv4,0,10,90,80,40,5\n", "line 2 is not understood"),
        ("site_name,timestamp_start,timestamp_end,download,upload\n", "line 1 has no such columns"),
    ],
)
def test_a_table_that_cannot_be_used(given, text, says):
    assert says in given(text)


def test_a_column_given_twice_and_a_byte_order_mark(tmp_path):
    with pytest.raises(FileError, match="line 2: 'owd_fwd_ms' is not allowed; allowed: each column once"):
        formats.from_csv("# name: x\nt_s,owd_fwd_ms,owd_fwd_ms\n0,20,30\n15,20,30\n")
    text = "\ufeff# name: x\nt_s,owd_fwd_ms\n0,20\n15,30\n"
    path = tmp_path / "path.csv"
    path.write_text(text)
    assert [trace.name for trace in (formats.from_csv(text), formats.load(path))] == ["x", "x"]
    scenario = tmp_path / "x.toml"
    scenario.write_text("\ufeff" + fit(gather([_ping(tmp_path)])).to_toml())
    assert Scenario.load(scenario).flows


def _ping(folder):
    path = folder / "ping"
    path.write_text(answers(40))
    return path


def test_the_fit_says_that_times_are_assumed_and_losses_unknown(tmp_path):
    found = fit(gather([_ping(tmp_path)]))
    assert "taken to be of probes 1 s apart" in next(n.origin for n in found.notes if n.quantity == "base RTT")
    table = tmp_path / "table"
    table.write_text("timestamp,rtt\n" + "".join(f"{1_705_744_800 + k / 100:.6f},50.0\n" for k in range(300)))
    assert "not observable" in next(n.origin for n in fit(gather([table])).notes if n.quantity == "loss")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x28\xb5\x2f\xfd....", "`zstd -d FILE` unpacks it"),
        (b"\xfd7zXZ\0...", "`unxz FILE`"),
        (b"BZh9...", "`bunzip2 FILE`"),
        (b"PK\3\4....", "`unzip FILE`"),
        (gzip.compress(answers(40).encode())[:-20], "it is cut off"),
        (b"\x1f\x8b\x08" + bytes(30), "a sound gzip file"),
        (b"x" * 65_000_000, "a log of at most 64 MB"),
    ],
)
def test_a_packed_file_that_cannot_be_read(given, content, says):
    assert says in given(content)


def test_a_gzip_file_is_unpacked_up_to_a_limit(tmp_path):
    path = tmp_path / "zeros"
    path.write_bytes(gzip.compress(bytes(1_000_001)))
    with pytest.raises(FileError, match="at most 1 MB when it is unpacked"):
        read_unpacked(path, 1_000_000)


def test_gzip_files_one_behind_the_other(given):
    """As rotated logs are joined."""
    halves = answers(40).encode()[:700], answers(40).encode()[700:]
    assert given(b"".join(map(gzip.compress, halves))).rtt_ms.size == 40
