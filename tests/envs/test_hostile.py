"""Scenario files and values made to break the reader: one line, quickly."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benches import fuzz
from orbitcc.common.errors import OrbitccError
from orbitcc.common.files import parse_toml
from orbitcc.envs.description.flows import parse_value
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.fitting.files import gather
from orbitcc.envs.fitting.fit import fit
from orbitcc.envs.orbits import formats
from orbitcc.training import recipe

HEAD = 'name = "x"\nduration_s = 5\n'
LINK = '[[links]]\nname = "l{}"\nrate_mbps = {}\ndelay_ms = 10\n'
FLOW = '[[flows]]\ncontroller = "cubic"\n'
LINK_AND_FLOW = LINK.format(0, 10) + FLOW
POINTS = "[" + ",".join(f"[{k * 1e-5:.6f},{10 + k % 7}]" for k in range(1_000_000)) + "]"
HOSTILE = {
    "100,000 nested arrays": (HEAD + f"x = {'[' * 100_000}{']' * 100_000}\n", "nested too deeply"),
    "5,000 nested tables": (f"{HEAD}[{'.'.join('a' * 5_000)}]\nb = 1\n", "a key of more than 100 parts"),
    "5,000 tables in a line": (HEAD + f"x = {'{a=' * 5_000}1{'}' * 5_000}\n", "nested too deeply"),
    "300 nested arrays": (HEAD + f"x = {'[' * 300}{']' * 300}\n", "deeper than 100 levels"),
    "400 digits": (f'name = "x"\nduration_s = {"1" * 400}\n' + LINK_AND_FLOW, "64 bits"),
    "5,000 digits": (f'name = "x"\nduration_s = {"1" * 5_000}\n' + LINK_AND_FLOW, "thousands of digits"),
    "a key of 200,000 parts": (f"{HEAD}{'.'.join(['a'] * 200_000)} = 1\n{LINK_AND_FLOW}", "more than 100 parts"),
    "200,000 links": (HEAD + "".join(LINK.format(k, 10) for k in range(200_000)) + FLOW, "at most 4 MB"),
    "5,000 links": (HEAD + "".join(LINK.format(k, 10) for k in range(5_000)) + FLOW, "5,000 links and 1 flows"),
    "a description of 10 MB": (f'description = "{"x" * 10_000_000}"\n' + HEAD + LINK_AND_FLOW, "at most 4 MB"),
    "a million points": (HEAD + LINK.format(0, POINTS) + FLOW, "at most 4 MB"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_line_within_seconds(name: str) -> None:
    text, message = HOSTILE[name]
    began = time.process_time()
    with pytest.raises(OrbitccError, match=message) as caught:
        Scenario.from_toml(text)
    assert time.process_time() - began < 5.0  # of this process alone; more than 25 s before there were bounds
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_what_is_large_and_allowed_is_read() -> None:
    text = "x = [" + ",".join(f"[{k}, 1]" for k in range(100_000)) + "]"
    assert len(parse_toml(text)["x"]) == 100_000
    words = " ".join(["3.14.15"] * 2_000)
    assert parse_toml(f'description = "{words}"\na.b.c.d = {2**63 - 1}\n')["a"]["b"]["c"]["d"] == 2**63 - 1
    with pytest.raises(ValueError, match="64 bits"):
        parse_toml(f"a = [[{2**63}]]")


@pytest.mark.parametrize("parts", [100, 101])
def test_a_dotted_key_has_at_most_100_parts_in_a_file_and_in_set(parts: int) -> None:
    key = ".".join("abcde"[k % 5] for k in range(parts))
    for read in (lambda: parse_toml(f"{key} = 1"), lambda: recipe._put({}, key, 1)):
        if parts == 100:
            read()
        else:
            with pytest.raises(ValueError, match="100 parts"):
                read()


@pytest.mark.parametrize("queue", ["{ kind = [] }", "{ kind = {} }", "{ kind = 1 }", "[]", "1"])
def test_a_queue_of_another_type_is_one_line(queue: str) -> None:
    with pytest.raises(OrbitccError, match=r"links\.0\.queue"):
        Scenario.from_toml(HEAD + LINK.format(0, 10) + f"queue = {queue}\n" + FLOW)


def ping(*lines: str) -> bytes:
    usual = [f"64 bytes from a: icmp_seq={k} ttl=1 time=20 ms" for k in range(1, 30)]
    return "\n".join(["PING a", *usual, *lines]).encode()


def iperf3(**changes: Any) -> bytes:
    total = {"seconds": 1.0, "bytes": 1, "retransmits": 0}
    row = {"streams": [{"rtt": 20_000}], "sum": total}
    log = {"start": {"tcp_mss": 1448, "test_start": {"protocol": "TCP"}}, "intervals": [row] * 6, "end": {}}
    return json.dumps({**log, **changes}).encode()


LOGS = {
    "a sequence number of ten digits": ping("64 bytes from a: icmp_seq=1000000000 ttl=1 time=20 ms"),
    "a sequence number of 5,000 digits": ping(f"64 bytes from a: icmp_seq={'9' * 5_000} ttl=1 time=20 ms"),
    "a number of 400 digits": ping(f"64 bytes from a: icmp_seq={'9' * 400} ttl=1 time=20 ms"),
    "10^11 probes": ping("100000000000 packets transmitted, 29 received, 0% packet loss, time 1ms"),
    "a sequence that begins again and again": ping(
        *(f"64 bytes from a: icmp_seq={60_000 if k % 2 else 1} ttl=1 time=20 ms" for k in range(400))
    ),
    "nested JSON": b'{"a":' * 100_000,
    "JSON with NaN": iperf3(end={"sum_received": {"bytes": float("nan")}}),
    "JSON with 400 digits": iperf3(end={"sum_received": {"bytes": 10**400}}),
    "no bytes in a segment": iperf3(start={"tcp_mss": "0", "test_start": {"protocol": "TCP"}}),
    "negative bytes": iperf3(
        intervals=[{"streams": [{"rtt": 1}], "sum": {"seconds": 1.0, "bytes": -5, "retransmits": 0}}] * 6
    ),
    "numbers of 400 digits": b"\n".join([b"9" * 400] * 600),
    "a log of 33 MB": b"PING" + b" " * 33_000_000,
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_a_hostile_log_is_one_line_within_seconds(name: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(LOGS[name])
    refused(lambda: fit(gather([tmp_path / "log"])))


def refused(read: Callable[[], object]) -> str:
    """The one line with which this is refused, within two seconds of processor time."""
    began = time.process_time()
    with pytest.raises(OrbitccError) as caught:
        read()
    assert time.process_time() - began < 2.0
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500
    return str(caught.value)


CSV = "t_s,owd_fwd_ms\n0,20\n"
TRACES = {
    "nested.log": "[" * 50_000 + "$NULL\n",
    "sum.log": "1$[-1, 5, -2]$3$[0.01, 0.02]$x\n",
    "digits.log": f"1$[-1, {'9' * 5_000}, -2]$3$[0.01, 0.02]$0.03\n",
    "list.log": f"1$[{'1,' * 1_000_000}]$3$[0.01]$1\n",
    "cell.csv": CSV + f"1,{'2' * 200_000}\n",
    "nan.csv": CSV + "1,nan\n",
    "long.csv": CSV + f"{'9' * 400},20\n",
    "quote.csv": CSV + '1,"20\n',
}


@pytest.mark.parametrize("name", TRACES)
def test_a_hostile_trace_is_one_line_within_seconds(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(TRACES[name])
    refused(lambda: formats.load(tmp_path / name))


def test_a_pair_of_leoreplayer_is_not_repeated_without_end(tmp_path: Path) -> None:
    """Opportunities of one millisecond, repeated for a thousand seconds: 10^11 of them."""
    (tmp_path / "delays").write_text("20\n" * 100_000)
    (tmp_path / "chances").write_text("1\n" * 100_000)
    assert "1e+06" in refused(lambda: formats.load_replayer(tmp_path / "delays", tmp_path / "chances"))
    (tmp_path / "delays").write_text("20\n21\n" * 50_000)
    (tmp_path / "chances").write_text("".join(f"{k}\n" for k in range(6_000)) + "6000\n" * 300_000)
    assert "20,000,000" in refused(lambda: fit(gather([tmp_path / "delays", tmp_path / "chances"])))


@pytest.mark.parametrize("kind", ["pipe", "zero", "sparse"])
def test_no_reader_waits_for_what_is_no_file(kind: str, tmp_path: Path) -> None:
    target = fuzz.Place(tmp_path)
    number = ("pipe", "zero", "sparse").index(kind)
    for reader in range(len(target.readers)):
        refused(lambda reader=reader: target.read(bytes((reader, number))))


@pytest.mark.parametrize("text", ["9" * 5_000, "9" * 400, "[" * 10_000 + "]" * 10_000])
def test_a_value_of_the_command_line_is_bounded_alike(text: str) -> None:
    with pytest.raises(OrbitccError, match="value"):
        parse_value(text)
    scenario = Scenario.from_toml(HEAD + LINK_AND_FLOW)
    with pytest.raises(OrbitccError):
        scenario.override("duration_s", text)
    with pytest.raises(OrbitccError):
        scenario.changed(duration_s=10**5_000)
