"""Programs of somebody else in place of flows (`--program`), and commands behind a path (`orbitcc link`)."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.emulator import needs, programs
from orbitcc.emulator.run import emulate
from orbitcc.envs.backends.simulator import Recording
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.scenario import Scenario
from tests.commands.shell import called, orbitcc
from tests.emulator.conftest import traces

pytestmark = [pytest.mark.flows, pytest.mark.usefixtures("leaves_nothing")]

PAYLOAD = 1448 / 1514
"""Share of a full packet on the wire."""
TALK = """
import socket, sys
what, *rest = sys.argv[1:]
if what.startswith("server"):
    ends = socket.create_server(("0.0.0.0", int(rest[0]))).accept()[0]
else:
    ends = socket.create_connection((rest[0], int(rest[1])))
while True:
    if what.endswith("sends"):
        ends.sendall(bytes(1 << 16))
    elif not ends.recv(1 << 16):
        break
"""


@pytest.fixture
def talk(tmp_path):
    """A program that sends or receives over TCP: words -> its command."""
    (tmp_path / "talk.py").write_text(TALK)
    return lambda *words: " ".join((sys.executable, str(tmp_path / "talk.py"), *words))


def scenario(*flows, duration_s=4.0):
    """20 Mbit/s, 30 ms, and a queue that a full buffer takes 30 ms to leave."""
    link = {"name": "l", "rate_mbps": 20, "delay_ms": 15, "queue": {"kind": "drop_tail_bytes", "limit_bytes": 75_000}}
    flows = flows or [{"controller": "contender"}]
    return Scenario.build({"name": "test", "duration_s": duration_s, "links": [link], "flows": flows})


def driven(given, client, server):
    (spec,) = programs.specs([f"mine={client}"], [server])
    return given.with_flows([f.changed(controller=spec) if f.controller.name == "external" else f for f in given.flows])


@pytest.mark.parametrize("sender", ["client", "server"])
def test_a_program_is_measured_by_what_crosses_the_links_in_the_direction_of_its_data(talk, sender, tmp_path):
    other = {"client": "server", "server": "client"}[sender]
    words = {"client": ("{server}", "{port}"), "server": ("{port}",)}
    commands = {sender: talk(f"{sender}-sends", *words[sender]), other: talk(f"{other}-reads", *words[other])}
    given = driven(scenario(), commands["client"], commands["server"])
    real = emulate(given, record_interval_s=0.5)
    (told,), (flow,), (link,) = real.emulation["programs"], real.flow_totals, real.link_totals
    assert (told["name"], told["flow"], told["data_from"]) == ("mine", 0, sender)
    assert told["data_bytes"] == flow["received_bytes"] > 100 * told["returned_bytes"]
    assert flow["goodput_mbps"] == pytest.approx(20 * PAYLOAD, rel=0.05)
    # Base RTT 30 ms; the queue adds at most 30 ms, and the transmission of a packet 0.6 ms.
    assert 30 <= flow["srtt_ms"] <= 61
    assert flow["base_rtt_ms"] == pytest.approx(30)
    assert flow["lost_packets"] == link["dropped_packets"] + link["lost_packets"]
    # What was neither lost nor received is under way: at most 15 ms and the queue, 75 packets.
    assert 0 <= flow["sent_packets"] - flow["lost_packets"] - flow["received_bytes"] / 1448 <= 80
    assert np.isnan([flow["retransmitted_packets"], *real.flows["cwnd_packets"][:, 0]]).all()
    again = Recording.load(real.save(tmp_path / "r.npz"))
    assert again.scenario.flows[0].controller.name == "external", "a file names no command"


def test_every_flow_has_a_pair_of_its_own_that_starts_and_ends_with_it(talk):
    flows = [{"controller": "contender"}, {"controller": "contender", "start_s": 2.0, "stop_s": 3.0}]
    steady = {"controller": "udp", "traffic": {"kind": "cbr", "rate_mbps": 2.0}}
    given = driven(scenario(*flows, steady), talk("client-sends", "{server}", "{port}"), talk("server-reads", "{port}"))
    real = emulate(given, record_interval_s=0.5)
    first, second = (real.flows["goodput_mbps"][:, i] for i in (0, 1))
    assert first[1:4].min() > 15
    assert second[:4].max() == 0 == second[7:].max()
    assert second[4:6].sum() > 0.5
    assert real.flow_totals[1]["stop_s"] == pytest.approx(3.0, abs=0.1)
    # A flow of ours beside them sends 2 Mbit/s; what full queues drop of it depends on the programs and on the machine.
    ours = real.flow_totals[2]
    assert ours["sent_packets"] * 1514 * 8 / 4e6 == pytest.approx(2, rel=0.1)
    assert 1 < ours["goodput_mbps"] < 2.2
    assert [one["flow"] for one in real.emulation["programs"]] == [0, 1]


@pytest.mark.parametrize(
    ("client", "server", "said"),
    [
        ("{client}", "false", "program mine: its server ended before it listened, with exit code 1 (it said nothing)"),
        ("{client}", "sleep 60", "program mine: its server does not listen at port 6001 after 10 s"),
        ("sleep 60", "{listener}", "program mine: it has sent nothing in 10 s"),
        ("sh -c 'echo a >&2; echo why >&2; exit 3'", "{listener}", "with exit code 3 (its last line: why)"),
        ("sh -c 'kill -9 $$'", "{listener}", "with exit code 137 (it said nothing)"),
        ("{client} 2", "{listener}", "program mine: its client ended after"),
    ],
)
def test_a_program_that_fails_is_named_in_one_line(talk, client, server, said):
    own = {"{client}": talk("client-sends", "{server}", "{port}"), "{listener}": talk("server-reads", "{port}")}
    client = f"timeout 1 {own['{client}']}" if client.endswith(" 2") else own.get(client, client)
    args = ("run", "dumbbell", "--set", "duration_s=3", "--program", f"mine={client}")
    done = orbitcc(*args, "--server", own.get(server, server))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.startswith("error: program mine: ")
    assert done.stderr.count("\n") == 1


def test_what_cannot_be_meant_is_refused_before_anything_runs():
    for given, said in [
        ((["x=ls {srv}"], ["ls"]), "--program: '{srv}' is not allowed; allowed: the placeholders {server}, {port} and"),
        ((["x=ls"], ["ls {host}"]), "--server: '{host}'"),
        ((["x=no-such-command {server}"], ["ls"]), "--program: 'no-such-command' is not allowed; allowed: a command"),
        ((["x=ls '"], ["ls"]), '--program: "ls \'" is not allowed; allowed: words as in a shell'),
        ((["ls -l"], ["ls"]), "--program: 'ls -l'"),
        ((["x=ls", "x=ls"], ["ls"]), "one command for each name"),
        ((["x=ls"], ["ls", "ls"]), "one command for each name"),
        ((["x=ls", "y=ls"], ["x=ls"]), "--server y=COMMAND: missing"),
        (([], ["ls"]), "--program: missing"),
    ]:
        with pytest.raises(OrbitccError) as refused:
            programs.specs(*given)
        assert str(refused.value).startswith(said) or said in str(refused.value)
    for command in (("run", "dumbbell"), ("eval", "responsiveness")):
        done = called(*command, "--program", "x=ls", "--server", "ls", "--backend", "simulator")
        assert (done.returncode, done.stdout) == (2, "")
        assert "--backend: 'simulator' is not allowed; allowed: emulator with --program" in done.stderr
    (spec,) = programs.specs(["x=ls"], ["ls"])
    with pytest.raises(OrbitccError, match="a file cannot name a command"):
        Flow.build({"controller": spec.model_dump()})
    with pytest.raises(OrbitccError, match="flows.0.traffic: 'bytes' is not allowed; allowed: bulk for a program"):
        emulate(scenario({"controller": spec, "traffic": {"kind": "bytes", "bytes": 1000}}))
    with pytest.raises(OrbitccError, match="a run with --backend emulator"):
        scenario({"controller": spec}).compile()


def test_another_command_is_another_contender(talk, tmp_path):
    worlds, out = tmp_path / "worlds", tmp_path / "out"
    worlds.mkdir()
    scenario(duration_s=1.0).save(worlds / "1.toml")

    def evaluated(*more, client="client-sends"):
        program = talk(client, "{server}", "{port}")
        args = ("eval", str(worlds), "--controller", "reno", "--program", f"mine={program}", "--out", str(out))
        done = orbitcc(*args, "--server", talk("server-reads", "{port}"), "--beside-simulator", "--json", *more)
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
        return json.loads(done.stdout), rows

    told, rows = evaluated()
    assert [c["contender"] for c in told["contenders"]] == ["reno", "mine", "reno@simulator"]
    assert [row["version"].endswith(".emulator") for row in rows] == [True, True, False]
    assert rows[1]["params"]["client"].endswith("client-sends {server} {port}")
    assert len(evaluated("--resume")[1]) == 3
    rows = evaluated("--resume", client="client-really-sends")[1]
    assert len(rows) == 4
    assert rows[3]["contender"].startswith("mine#")
    assert rows[3]["contender"] != rows[1]["contender"]
    for name, code in ((rows[3]["contender"], 0), ("mine", 2)):
        assert orbitcc("compare", str(out), "--a", name, "--b", "reno@simulator").returncode == code


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_of_a_program_is_left_after_an_interruption(talk, how):
    before = traces()["children"]
    client = f"sh -c 'sleep 300 & {talk('client-sends', '{server}', '{port}')}'"
    args = (sys.executable, "-m", "orbitcc.cli", "run", "dumbbell", "--program", f"mine={client}")
    with subprocess.Popen([*args, "--server", talk("server-reads", "{port}")], stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 20
        while len(traces()["children"]) < len(before) + 8 and time.monotonic() < deadline:
            time.sleep(0.1)  # orbitcc, the emulator, two processes that wait, sh, sleep, client and server
        assert len(traces()["children"]) >= len(before) + 8
        run.send_signal(how)
        run.communicate(timeout=10)
    assert run.returncode == (130 if how == signal.SIGINT else -9)


as_root = pytest.mark.skipif(
    not needs.is_real_root(), reason="it makes named network namespaces, as root alone can; .ci/run runs it as root"
)


DUMBBELL = ("dumbbell", "--set", "rate_mbps=20", "--set", "base_rtt_ms=40")


@as_root
def test_a_command_behind_a_path_has_its_delay_and_reaches_only_the_far_end():
    script = "ping -c 3 -i 0.2 $MAHIMAHI_BASE; ip route get 192.0.2.1; ping -c 1 -W 1 192.0.2.1; ip -o link; exit 7"
    done = orbitcc("link", *DUMBBELL, "--", "sh", "-c", script)
    assert done.returncode == 7, done.stderr
    (first, *_), *_ = [line.split("time=")[1:] for line in done.stdout.splitlines() if "time=" in line]
    assert 40 <= float(first.split()[0]) < 50
    assert "192.0.2.1 via 10.0.0.1 dev path" in done.stdout
    assert "1 packets transmitted, 0 received" in done.stdout
    assert [line.split(": ")[1] for line in done.stdout.splitlines() if "> mtu" in line] == ["lo", "path"]
    assert "link: this is 10.0.0.2; the far end is 10.0.0.1 (ip netns exec orbitcc" in done.stderr
    assert ", RTT 40." in done.stderr.splitlines()[-1]


@as_root
def test_a_command_goes_all_ways_of_the_first_flow(tmp_path):
    """Its own uplink, another way back, and a path that it takes later."""
    ways = "".join(f'[[links]]\nname = "{n}"\nrate_mbps = 80\ndelay_ms = {d}\n' for n, d in (("a", 5), ("b", 40)))
    flow = '[[flows]]\ncontroller = "cubic"\nuplink_delay_ms = 20\npath = ["a"]\nreturn_path = ["b"]\n'
    ping = ("--", "sh", "-c", "ping -c 3 -i 0.4 $MAHIMAHI_BASE")
    for later, rtts in (("", [65, 65, 65]), ('reroutes = [{ at_s = 0.2, path = ["b"] }]\n', [65, 100, 100])):
        (tmp_path / "ways.toml").write_text(f'schema_version = 1\nname = "ways"\nduration_s = 9\n{ways}{flow}{later}')
        done = orbitcc("link", str(tmp_path / "ways.toml"), *ping)
        found = [float(line.split("time=")[1].split()[0]) for line in done.stdout.splitlines() if "time=" in line]
        assert found == pytest.approx(rtts, abs=5), done.stderr


def runs(process):
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@as_root
def test_a_killed_link_ends_its_command_and_the_next_one_removes_what_it_left():
    script = "trap '' TERM INT HUP; setsid sleep 300 & echo $$ $!; sleep 300"
    command = [sys.executable, "-m", "orbitcc.cli", "link", *DUMBBELL, "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        own, apart = map(int, run.stdout.readline().split())
        run.kill()
        run.wait()
        deadline = time.monotonic() + 5
        while runs(own) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not runs(own), "the kernel ends the command with its parent"
        left = [name for name in os.listdir("/run/netns") if name.startswith(f"orbitcc{run.pid:x}-")]
        assert len(left) == 2
        assert orbitcc("link", *DUMBBELL, "--", "true").returncode == 0
        assert not runs(apart)
        assert not set(left) & set(os.listdir("/run/netns"))


@as_root
def test_traces_of_mahimahi_limit_both_directions(talk, tmp_path):
    """12 Mbit/s down and 6 Mbit/s up; a server sends for two seconds, or receives."""
    (tmp_path / "12").write_text("".join(f"{t}\n" for t in range(1, 1001)))
    (tmp_path / "6").write_text("".join(f"{t}\n" for t in range(2, 1001, 2)))
    path = ("--uplink", str(tmp_path / "6"), "--downlink", str(tmp_path / "12"), "--delay-ms", "10")
    for near, far, word, rate in [("reads", "sends", "down", 12), ("sends", "reads", "up", 6)]:
        command = talk(f"client-{near}", "10.0.0.1", "5000").split()
        done = orbitcc("link", *path, "--server", talk(f"server-{far}", "5000"), "--", "timeout", "3", *command)
        assert done.returncode == 124, done.stderr
        mbps = float(done.stderr.splitlines()[-1].split(f"{word} ")[1].split()[0])
        assert mbps == pytest.approx(rate * PAYLOAD, rel=0.1)


@as_root
def test_a_shell_without_a_command_has_the_terminal():
    here, there = pty.openpty()
    command = [sys.executable, "-m", "orbitcc.cli", "link", *DUMBBELL]
    environment = {**os.environ, "SHELL": "/bin/sh", "PS1": "> "}
    with subprocess.Popen(command, stdin=there, stdout=there, stderr=there, env=environment) as run:
        os.close(there)
        os.write(here, b"sleep 1; echo base=$MAHIMAHI_BASE; sleep 300 & exit 5\n")
        said = b""
        while run.poll() is None or not said.endswith(b"down\r\n"):
            try:
                said += os.read(here, 4096)
            except OSError:  # nobody has the other end any more
                break
        assert run.wait(15) == 5
    os.close(here)
    assert b"base=10.0.0.1" in said
    assert b"\033]0;" in said, "the line is in the title"


@as_root
def test_what_a_link_cannot_be_is_refused_in_one_line(tmp_path):
    (tmp_path / "falls").write_text("5\n3\n")
    (tmp_path / "good").write_text("1\n")
    good = str(tmp_path / "good")
    for args, said in [
        ((), "SCENARIO: missing"),
        (("dumbbell", "--", "no-such-command"), "COMMAND: 'no-such-command'"),
        (("dumbbell", "--server", "no-such-command", "--", "true"), "--server: 'no-such-command'"),
        (("dumbbell", "--server", "false", "--", "true"), "--server: it ended before it listened, with exit code 1"),
        (("dumbbell", "--delay-ms", "3", "--", "true"), "--delay-ms: 3.0"),
        (("dumbbell", "--server", 'a "', "--", "true"), "--server: 'a \"'"),
        (("dumbbell", "--server", " ", "--", "true"), "--server: ' '"),
        (("dumbbell", "--set", "duration_s=9", "--", "true"), "--set: 'duration_s=9'"),
        (("dumbbell", "--set", "controller=reno", "--", "true"), "--set: 'controller'"),
        (("geo-pep", "--", "true"), "flows.1.pep: "),
        (("--uplink", good, "--downlink", good, "--seed", "-7", "--", "true"), "--seed: -7"),
        (("--uplink", good, "--", "true"), "--downlink: missing"),
        (("--uplink", good, "--downlink", str(tmp_path / "falls"), "--", "true"), "must be a trace of Mahimahi"),
    ]:
        done = orbitcc("link", *args) if "false" in args else called("link", *args)
        assert done.returncode == 2, (args, done.stderr)
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


@as_root
def test_nothing_of_a_link_is_left_after_it_is_terminated():
    before = len(traces()["children"])
    command = [sys.executable, "-m", "orbitcc.cli", "link", *DUMBBELL, "--", "sh", "-c", "setsid sleep 300 & sleep 300"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 20
        while len(traces()["children"]) < before + 5 and time.monotonic() < deadline:
            time.sleep(0.1)  # orbitcc, the emulator, sh and two of sleep
        run.terminate()
        run.communicate(timeout=10)
    assert run.returncode == 128 + signal.SIGTERM
