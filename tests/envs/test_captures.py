"""Captures agree with the recording of the same run: read here byte by byte, and by tshark where there is one."""

import json
import shutil
import struct
import subprocess

import numpy as np
import pytest

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow
from tests.commands.shell import orbitcc

MSS = 1448
START_S = 1000.0  # of simulated time in the file
TSHARK = shutil.which("tshark")
needs_tshark = pytest.mark.skipif(
    TSHARK is None, reason="tshark is not installed: `make system` brings it, `.ci/run` calls it"
)


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """A lossy run of two flows: (recording, packets, pcap, qlog)."""
    folder = tmp_path_factory.mktemp("captures")
    flows = [Flow.parse(text) for text in ("cubic", "bbr3@1s")]
    scenario = scenarios.get("dumbbell", duration_s=4, rate_mbps=10).with_flows(flows)
    pcap, qlog = folder / "run.pcap", folder / "run.qlog"
    recording = simulate(scenario, seed=3, record_interval_s=0.1, pcap=pcap, qlog=qlog)
    return recording, sorted(packets(pcap), key=lambda p: p["t_s"]), pcap, qlog


def folded(data):
    """RFC 1071: right data have the sum 0xffff."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def packets(path):
    """Every packet: time (simulated, s), flow, forth or back, and its fields, checked on the way."""
    data = path.read_bytes()
    assert struct.unpack_from("<IHHiIII", data) == (0xA1B23C4D, 2, 4, 0, 0, 262144, 101)
    at = 24
    while at < len(data):
        seconds, nanos, kept, length = struct.unpack_from("<IIII", data, at)
        ip = data[at + 16 : at + 16 + kept]
        at += 16 + kept
        assert ip[0] == 0x45
        assert struct.unpack_from(">H", ip, 2)[0] == length
        assert folded(ip[:20]) == 0xFFFF
        assert ip[9] == 6
        tcp = ip[20:]
        source, _, seq, ack, offset, flags, window = struct.unpack_from(">HHIIBBH", tcp)
        assert len(tcp) == (offset >> 4) * 4, "the payload is cut off, nothing else"
        assert folded(ip[12:20] + struct.pack(">HH", 6, length - 20) + tcp) == 0xFFFF
        forth = source == 49152
        flow = struct.unpack(">H", ip[14:16] if forth else ip[18:20])[0]
        options, rest = {}, tcp[20:]
        while rest:
            size = 1 if rest[0] < 2 else rest[1]
            if rest[0] > 1:
                options[rest[0]] = rest[2:size]
            rest = rest[size:]
        yield {
            "t_s": seconds - START_S + nanos * 1e-9, "flow": flow, "forth": forth, "seq": seq, "ack": ack,
            "flags": flags, "window": window, "options": options, "payload": length - 20 - len(tcp), "ecn": ip[1] & 3,
        }  # fmt: skip


def rtts_by_row(recording, times_s, rtts_ms):
    """Mean of RTT samples in each interval of the recording; NaN where there is none."""
    rows = np.searchsorted(recording.t_s, times_s)
    return np.array(
        [np.mean(rtts_ms[rows == row]) if (rows == row).any() else np.nan for row in range(len(recording.t_s))]
    )


def agree(captured, recorded):
    """Median relative difference of two series where both are numbers."""
    both = np.isfinite(captured) & np.isfinite(recorded)
    assert both.sum() > 20
    return np.median(np.abs(captured[both] / recorded[both] - 1))


def test_a_capture_has_the_segments_retransmissions_and_rtts_of_the_recording(captured):
    recording, seen, *_ = captured
    for flow, total in enumerate(recording.flow_totals):
        data = [p for p in seen if p["flow"] == flow and p["forth"] and p["payload"]]
        assert len(data) == total["sent_packets"]
        assert {p["payload"] for p in data} == {MSS}
        highest, again, sent = 0, 0, {}
        for p in data:
            again += p["seq"] < highest
            sent[p["seq"] + MSS] = None if p["seq"] + MSS in sent else p["t_s"]  # Karn
            highest = max(highest, p["seq"] + MSS)
        assert again == total["retransmitted_packets"] > 0
        acks = [p for p in seen if p["flow"] == flow and not p["forth"] and p["flags"] == 16]
        under_way = total["received_bytes"] - max(p["ack"] for p in acks) + 1
        assert 0 <= under_way < 0.02 * total["received_bytes"]
        once, samples = set(), []
        for p in acks:
            if p["ack"] not in once and sent.get(p["ack"]) is not None and 5 not in p["options"]:
                samples.append((p["t_s"], (p["t_s"] - sent[p["ack"]]) * 1e3))
            once.add(p["ack"])
        times, rtts_ms = np.array(samples).T
        assert rtts_ms.min() >= total["base_rtt_ms"]
        assert agree(rtts_by_row(recording, times, rtts_ms), recording.flows["rtt_ms"][:, flow]) < 0.02


def test_what_is_outstanding_is_the_window_of_the_recording(captured):
    recording, seen, *_ = captured
    here = [p for p in seen if p["flow"] == 0]
    moments = np.array([p["t_s"] for p in here])
    nxt = np.maximum.accumulate([p["seq"] + p["payload"] if p["forth"] and p["payload"] else 0 for p in here])
    una = np.maximum.accumulate([0 if p["forth"] else p["ack"] for p in here])
    again = recording.flows["retransmitted_packets"][:, 0]
    apart = []
    for row, t in enumerate(recording.t_s):
        if not again[max(0, row - 1) : row + 2].any():
            last = np.searchsorted(moments, t, side="right") - 1
            apart.append((nxt[last] - una[last]) / MSS - recording.flows["cwnd_packets"][row, 0])
    assert len(apart) > 15
    # A sender with more to send fills its window, to the segments that wait for the next departure.
    assert np.median(np.abs(apart)) <= 1


def test_handshakes_tell_rtt_window_scale_sack_and_timestamps(captured):
    recording, seen, *_ = captured
    for flow in (0, 1):
        syn, answer, ack = [p for p in seen if p["flow"] == flow][:3]
        assert [p["flags"] for p in (syn, answer, ack)] == [2, 18, 16]
        assert {2, 3, 4, 8} <= syn["options"].keys() & answer["options"].keys()
        assert answer["t_s"] - syn["t_s"] >= recording.flow_totals[flow]["base_rtt_ms"] / 1e3 - 1e-6
        assert struct.unpack(">II", answer["options"][8])[1] == struct.unpack(">II", syn["options"][8])[0]
    assert any(5 in p["options"] for p in seen), "selective acknowledgements"


def test_the_log_has_the_figures_of_the_recording(captured):
    recording, *_, qlog = captured
    log = json.loads(qlog.read_text(encoding="utf-8"))
    assert (log["qlog_version"], log["qlog_format"]) == ("0.3", "JSON")
    assert [trace["title"] for trace in log["traces"]] == ["cubic-0 (cubic)", "bbr3-1 (bbr3)"]
    for flow, (trace, total) in enumerate(zip(log["traces"], recording.flow_totals, strict=True)):
        times = [event["time"] for event in trace["events"]]
        assert times == sorted(times)
        named = {}
        for event in trace["events"]:
            named.setdefault(event["name"], []).append(event)
        sent = [event["data"]["header"]["packet_number"] for event in named["transport:packet_sent"]]
        assert sent == list(range(total["sent_packets"]))
        lost = [event["data"]["header"]["packet_number"] for event in named["recovery:packet_lost"]]
        assert len(set(lost)) == len(lost) == total["lost_packets"] > 0
        acked = [
            number
            for event in named["transport:packet_received"]
            for frame in event["data"]["frames"] if frame["frame_type"] == "ack"
            for first, last in frame["acked_ranges"] for number in range(first, last + 1)
        ]  # fmt: skip
        assert len(set(acked)) == len(acked)
        assert set(acked) <= set(sent)
        assert not set(acked) & set(lost), "nothing here was lost that had arrived"
        last = named["recovery:metrics_updated"][-1]["data"]
        assert last["congestion_window"] == recording.flows["cwnd_packets"][-1, flow] * MSS
        assert last["smoothed_rtt"] == pytest.approx(recording.flows["srtt_ms"][-1, flow], rel=0.05)
    assert named.keys() >= {"recovery:congestion_state_updated", "recovery:parameters_set"}


def test_looking_on_changes_nothing(captured):
    recording, *_ = captured
    again = simulate(recording.scenario, record_interval_s=0.1)
    for name, series in recording.flows.items():
        np.testing.assert_array_equal(series, again.flows[name], err_msg=name)


def test_datagrams_probes_and_short_transfers_are_packets_too(tmp_path):
    flows = [
        Flow(controller={"name": "udp"}, traffic={"kind": "cbr", "rate_mbps": 1}),
        Flow(controller={"name": "reno"}, traffic={"kind": "bytes", "bytes": 10_001}),
    ]
    scenario = scenarios.get("dumbbell", duration_s=1).with_flows(flows)
    simulate(scenario, pcap=tmp_path / "a.pcap", qlog=tmp_path / "a.qlog")
    data, at, kinds, payload = (tmp_path / "a.pcap").read_bytes(), 24, set(), 0
    while at < len(data):
        kept, length = struct.unpack_from("<II", data, at + 8)
        ip = data[at + 16 : at + 16 + kept]
        kinds.add(ip[9])
        payload += length - kept if ip[9] == 6 else 0
        at += 16 + kept
    assert kinds == {6, 17}
    assert payload == 10_001
    assert len(json.loads((tmp_path / "a.qlog").read_text(encoding="utf-8"))["traces"]) == 1


@needs_tshark
def test_tshark_finds_nothing_malformed_and_the_same_retransmissions_rtts_and_window(captured):
    recording, _, pcap, _ = captured
    names = (
        "frame.time_epoch", "ip.src", "ip.dst", "_ws.malformed", "ip.checksum.status", "tcp.analysis.retransmission",
        "tcp.analysis.fast_retransmission", "tcp.analysis.out_of_order", "tcp.analysis.ack_rtt",
        "tcp.analysis.bytes_in_flight", "tcp.window_size",
    )  # fmt: skip
    command = [TSHARK, "-r", str(pcap), "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "occurrence=f"]
    command += [argument for name in names for argument in ("-e", name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    rows = [dict(zip(names, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]
    assert {row["_ws.malformed"] for row in rows} == {""}
    assert {row["ip.checksum.status"] for row in rows} == {"1"}, "good"
    for flow, total in enumerate(recording.flow_totals):
        sent = [row for row in rows if row["ip.src"] == f"10.1.0.{flow}"]
        again = [row for row in sent if row[names[5]] or row[names[6]] or row[names[7]]]
        assert len(again) == total["retransmitted_packets"]
        acks = [row for row in rows if row["ip.dst"] == f"10.1.0.{flow}" and row["tcp.analysis.ack_rtt"]]
        samples = [(float(row["frame.time_epoch"]) - START_S, 1e3 * float(row["tcp.analysis.ack_rtt"])) for row in acks]
        times, rtts_ms = np.array(samples[1:]).T  # the first answers the SYN
        assert agree(rtts_by_row(recording, times, rtts_ms), recording.flows["rtt_ms"][:, flow]) < 0.05
    assert max(int(row["tcp.window_size"]) for row in rows if row["ip.dst"] == "10.1.0.0") > 65_535, "it is scaled"
    sent = [row for row in rows if row["ip.src"] == "10.1.0.0" and row["tcp.analysis.bytes_in_flight"]]
    moments = [float(row["frame.time_epoch"]) - START_S for row in sent]
    apart = []
    for row, t in enumerate(recording.t_s):
        if recording.flows["retransmitted_packets"][: row + 2, 0].any():
            break
        last = sent[np.searchsorted(moments, t, side="right") - 1]
        apart.append(int(last["tcp.analysis.bytes_in_flight"]) / MSS - recording.flows["cwnd_packets"][row, 0])
    assert np.median(np.abs(apart)) <= 1


@pytest.mark.parametrize(
    ("option", "name", "says"),
    [
        ("--pcap", "run.txt", "a name ending in .pcap"),
        ("--qlog", "run.pcap", "a name ending in .qlog"),
        ("--pcap", "missing\0/run.pcap", ""),
    ],
)
def test_a_wrong_name_is_refused_before_the_run(tmp_path, option, name, says):
    if "\0" in name:
        (tmp_path / "file").write_text("")
        name = "file/run.pcap"
    done = orbitcc("run", "dumbbell", "--set", "duration_s=1", option, str(tmp_path / name))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert says in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"file"}


def test_an_interrupted_run_leaves_no_files(tmp_path):
    def stop(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(
            scenarios.get("dumbbell", duration_s=1), progress=stop, pcap=tmp_path / "a.pcap", qlog=tmp_path / "b.qlog"
        )
    assert not list(tmp_path.iterdir())


def test_real_packets_are_left_to_tcpdump(tmp_path):
    done = orbitcc("run", "dumbbell", "--backend", "emulator", "--pcap", str(tmp_path / "a.pcap"))
    assert done.returncode == 2
    assert "tcpdump" in done.stderr


def test_a_simulation_that_captures_nothing_says_so():
    from orbitcc._sim import Simulation

    simulation = Simulation(scenarios.get("dumbbell", duration_s=1).compile())
    with pytest.raises(ValueError, match="nothing was captured"):
        simulation.take_captured()
